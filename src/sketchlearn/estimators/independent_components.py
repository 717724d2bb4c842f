"""Independent components from second moments and generalised cumulants."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter
from sketchlearn.core.messages import warn_caller
from sketchlearn.estimators.base.estimator import model_attribute
from sketchlearn.estimators.base.model import FittedModel, model_array
from sketchlearn.estimators.base.state import DesignSample, FittedState
from sketchlearn.estimators.design.column_ranges import box, keeping_rows
from sketchlearn.estimators.design.frequencies import plain
from sketchlearn.estimators.principal_components import LinearCoordinates, upright
from sketchlearn.features.abilities import Ability, needed_part
from sketchlearn.features.bounded import FIXED_POINT
from sketchlearn.features.composed import Concatenated, concatenate
from sketchlearn.features.cumulants import CumulantFeatures
from sketchlearn.features.moments import SecondMoments
from sketchlearn.features.operator import Operator
from sketchlearn.inference.decoders.loop import Progress
from sketchlearn.inference.errors.influence import SampledRows, errors_by_draws
from sketchlearn.inference.errors.values import ErrorBars
from sketchlearn.inference.moments import Moments
from sketchlearn.sketch.sums import Sketch

LARGEST_TURN = 0.35  # of a component towards another: beyond it, one step from the operator's components is too rough
MOST_CUMULANT_FREQUENCY = 0.5  # Up to it, third and fourth cumulants determine the measurements.
GAUSSIAN_EVIDENCE = 12.0  # Gaussian components reach it, since the least Gaussian directions and waves are chosen.
MOST_MISSED_VARIANCE = 1e-6  # in directions that the operator does not see, relative to the total
RANDOM_STARTS = 8  # rotations
RIDGE = 1e-4  # Cumulants that no measurement determines become 0.
REDESIGN = "design the operator on a random sample of all rows"
INDISTINCT = "Gaussian, and not distinguishable from mixtures of each other: give more rows, or use the others alone"


@dataclass(frozen=True, eq=False)
class Independent(FittedModel):
    """Components s = components (x - mean), uncorrelated and of variance 1."""

    mean: Double = model_array("d")
    evidence: Double = model_array("k")  # one over the standard error of a component's angle towards a Gaussian one
    components: Double = model_array("k", "d")  # the least Gaussian first
    whitening: Double = model_array("k", "d")  # components = rotation whitening
    far: bool = False  # whether they are not near those that the operator was made for
    missed: bool = False  # whether rows vary in directions that the operator does not see

    @property
    def mixing(self) -> Double:
        """Array (columns, k), the pseudo-inverse of the components."""
        return np.asarray(np.linalg.pinv(self.components), np.float64)

    @property
    def alike(self) -> NDArray[np.intp]:
        """Components that may be Gaussian; two of them cannot be distinguished from their mixtures."""
        return np.flatnonzero(self.evidence < GAUSSIAN_EVIDENCE)


def independent_components(sketch: Sketch, rng: np.random.Generator, progress: Progress | None) -> Independent:
    """The components in a sketch of second moments and cumulant features.

    With u = B (x - center), mean m and covariance C, the columns of

        T = mean(u g') - m mean(g)' - C diag(mean(dg/du)) = A V,  A = C^(1/2) Q,

    are combinations of those of the mixing matrix A of u; V is diagonal if u is nearly independent already. Then the
    columns of C^(-1/2) T are those of the rotation Q, up to their lengths and to squares of small angles, and the
    nearest rotation is taken, columns weighted by how exactly they are known.
    """
    part = needed_part(sketch, Ability.INDEPENDENT_COMPONENTS, "ICA")
    moments, _ = Moments.of(sketch, "ICA").floored()
    operator: Any = part.operator
    B, noise = np.array(operator.unmixing), np.array(operator.noise)  # the variance per record of each measurement
    if part.ledger is not None:
        noise = noise + part.ledger.sum_variance / part.units * (operator.reach / FIXED_POINT) ** 2
    values = np.linalg.eigvalsh(B @ moments.covariance @ B.T)
    if values[0] <= 0 or values[0] < np.max(B**2 @ moments.rounding**2):
        raise ValueError("the rows do not vary in all components of the operator: design it on rows like these")
    measured = _Measured.of(operator, part.mean, moments.mean, moments.covariance)
    Q = rotation_near(measured.columns, noise)
    known = np.abs(np.diag(measured.columns)) * np.sqrt(moments.count / noise) >= GAUSSIAN_EVIDENCE
    far = measured.farthest(Q, known) > LARGEST_TURN
    if far and max(operator.frequencies) <= MOST_CUMULANT_FREQUENCY:
        Q = _searched(measured, noise, Q, rng, progress)
    whitening = measured.unrooted @ B
    evidence = np.abs(np.diag(Q.T @ measured.columns)) * np.sqrt(moments.count / noise)
    order = np.argsort(-evidence, kind="stable")
    components = upright((Q.T @ whitening)[order])
    total, rounding = np.trace(moments.covariance), np.sum(moments.rounding**2)
    missing = total - np.sum(np.linalg.pinv(components) ** 2)
    missed = moments.noise is None and bool(missing > MOST_MISSED_VARIANCE * total + rounding)
    return Independent(moments.mean, evidence[order], components, whitening, far, missed)


def unmixing_of(moments: SecondMoments, cumulants: CumulantFeatures, features: Double) -> Double:
    """Components (k, columns), in any order, as a smooth function of the mean features of both operators."""
    second, measurements = np.split(features, [moments.n_sums])
    away, products = moments.split(second)
    measured = _Measured.of(cumulants, measurements, moments.middle + away, products - np.outer(away, away))
    rotation = rotation_near(measured.columns, np.array(cumulants.noise))
    return np.asarray(rotation.T @ measured.unrooted @ np.array(cumulants.unmixing))


@dataclass(frozen=True)
class _Measured:
    """The measurements of u = A s, A = C^(1/2) Q, in whitened coordinates.

    With T the dependence of g_j and u_i beyond second moments, column j of C^(-1/2) T is
    -sum over k of Q_k Re(z_j f_k(t_j A_jk)), f_k(x) = x + the derivative of log E exp(i x s_k).
    """

    columns: Double  # C^(-1/2) T
    z: NDArray[np.complex128]  # mean of exp(i (t_j u_j + a_j))
    logs: NDArray[np.complex128]  # log z_j, less its Gaussian part: the sum over k of the integral of f_k to t_j A_jk
    frequencies: Double  # t_j
    root: Double  # C^(1/2)
    unrooted: Double  # C^(-1/2)

    @classmethod
    def of(cls, operator: CumulantFeatures, features: Double, mean: Double, covariance: Double) -> _Measured:
        """From the mean features, and from the mean and the covariance of the rows."""
        t, B = np.array(operator.frequencies), np.array(operator.unmixing)
        m = B @ (mean - operator.middle)
        values, vectors = np.linalg.eigh(B @ covariance @ B.T)
        sine, cosine, products = operator.split(features)
        C = (vectors * values) @ vectors.T
        root, unrooted = (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T
        T = products - np.outer(m, sine) - C * (t * cosine)
        z = cosine + 1j * sine
        away = np.where(z == 0, 1.0, z) * np.exp(-1j * (t * m + np.array(operator.phases)))
        return cls(unrooted @ T, z, np.log(away) + t**2 * np.diag(C) / 2, t, root, unrooted)

    def farthest(self, Q: Double, known: NDArray[np.bool_]) -> float:
        """The largest part of another component in a coordinate of u, relative to its own, if either is well known."""
        A = np.abs(self.root @ Q)
        others = ~np.eye(len(A), dtype=bool) & (known[:, None] | known)
        return float(np.max((A / np.maximum(np.diag(A), 1e-9)[:, None])[others], initial=0.0))


def _searched(
    measured: _Measured, noise: Double, start: Double, rng: np.random.Generator, progress: Progress | None
) -> Double:
    """The best rotation of several starts, with f_k(x) = -i c_k x^2 / 2 + q_k x^3 / 6: third and fourth cumulants.

    Cumulants are linear in the measurements and are eliminated; rotations are reached by Cayley's map.
    """
    k, t = len(start), measured.frequencies
    lower, weights = np.tril_indices(k, -1), 1 / np.sqrt(noise)
    of_logs, logs = 4 * weights / t, measured.logs  # u^4 t^4 / 24 beside u^3 t^3 / 6
    given = [(measured.columns * weights).ravel(), of_logs * logs.real, of_logs * logs.imag, np.zeros(2 * k)]
    wanted = np.concatenate(given)

    def turned(S: Double, Q: Double) -> Double:
        skew = np.zeros((k, k))
        skew[lower] = S / 2
        skew -= skew.T
        return np.asarray(Q @ np.linalg.solve(np.eye(k) - skew, np.eye(k) + skew))

    def left(S: Double, Q: Double) -> Double:
        x = t[:, None] * (measured.root @ (Q := turned(S, Q)))
        third, fourth = -measured.z.imag[:, None] * x**2 / 2, -measured.z.real[:, None] * x**3 / 6
        columns = [np.einsum("ik,jk,j->ijk", Q, part, weights).reshape(k * k, k) for part in (third, fourth)]
        even, odd, zeros = of_logs[:, None] * x**4 / 24, -of_logs[:, None] * x**3 / 6, np.zeros((k, k))
        model = np.block([columns, [zeros, even], [odd, zeros], [RIDGE * np.eye(2 * k)]])
        return np.asarray(wanted - model @ np.linalg.lstsq(model, wanted, rcond=None)[0])

    starts = [start, np.eye(k), *(polar(rng.standard_normal((k, k))) for _ in range(RANDOM_STARTS))]
    found = []
    for n, Q in enumerate(starts):
        fit = least_squares(left, np.zeros(len(lower[0])), args=(Q,), method="lm", xtol=1e-6, max_nfev=30 * k * k)
        found.append((fit.cost, n, turned(fit.x, Q)))
        if progress is not None:
            progress(f"start {n + 1} of {len(starts)}: residual {fit.cost:.3g}")
    return min(found)[2]


def polar(matrix: Double) -> Double:
    """The nearest rotation (or reflection)."""
    a, _, b = np.linalg.svd(matrix)
    return np.asarray(a @ b)


def rotation_near(columns: Double, noise: Double) -> Double:
    """The nearest rotation, columns weighted by how exactly they are known."""
    sizes = np.diag(columns)
    return polar(columns * (sizes / (noise + sizes**2 / 4)))


FREQUENCIES = (1.0, 0.7, 0.5, 0.3, 1.4, 1.8, 2.3, 3.0)  # per standard deviation; the first suits most
STREAM_FREQUENCIES = (0.25,)  # Such waves are nearly cumulants, which find components of any scale and rotation.
PHASES = np.arange(8) * np.pi / 8
CLEARLY_LESS = 0.9  # A later wave must have a variance smaller by this factor, as a sample estimates it roughly.
STARTS, STEPS = 3, 4
LEAST_RELATIVE_VARIANCE = 1e-9  # of a direction, in deviations of the columns


def cumulant_features(
    design_sample: DesignSample, rng: np.random.Generator, n_components: int | None = None, bounds: Any = None
) -> Concatenated:
    """Second moments beside cumulant features, for rows like these.

    >>> rows = np.random.default_rng(0).uniform(size=(1000, 3))
    >>> cumulant_features(DesignSample(rows, True, None), np.random.default_rng(0)).n_sums
    24
    """
    d, sample = design_sample.rows.shape[1], design_sample.rows.astype(np.float64)
    center, reach = box(design_sample, bounds)
    whitening, mean = _whitening(sample, n_components), sample.mean(axis=0)
    y = (sample - mean) @ whitening.T
    grid = FREQUENCIES if design_sample.representative else STREAM_FREQUENCIES
    separated = [_separated(y, grid, rng) for _ in range(STARTS)]
    _, rotation, (frequencies, phases, noise) = min(separated, key=itemgetter(0))
    unmixing = rotation @ whitening
    phases = np.remainder(phases - frequencies * (unmixing @ (mean - center)), 2 * np.pi)
    waves: dict[str, Any] = {"frequencies": plain(frequencies), "phases": plain(phases), "noise": plain(noise)}
    shared: dict[str, Any] = {"bound": plain(reach), "center": plain(center), "columns": design_sample.columns}
    cumulants = CumulantFeatures(d, unmixing=tuple(map(plain, unmixing)), **waves, **shared)
    return concatenate([SecondMoments(d, **shared), cumulants])


def _whitening(rows: Double, n_components: int | None) -> Double:
    """Directions of largest variance, scaled to variance 1; rows must vary in them."""
    covariance = np.atleast_2d(np.cov(rows.T, bias=True))
    scale = np.sqrt(np.diag(covariance))
    if not np.any(scale > 0):
        raise ValueError("all rows are equal: there is no direction in which they vary")
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    alive = values > LEAST_RELATIVE_VARIANCE * values[-1]
    values, vectors = values[alive], vectors[:, alive]
    k = len(values) if n_components is None else min(n_components, len(values))
    if k == len(scale):
        return np.asarray((vectors / np.sqrt(values)).T / scale)
    # within the directions in which rows vary, so that the pseudo-inverse is the mixing matrix
    within = np.linalg.qr(scale[:, None] * vectors)[0]
    values, vectors = np.linalg.eigh(within.T @ covariance @ within)
    return np.asarray((within @ vectors[:, -k:] / np.sqrt(values[-k:])).T)


def _separated(
    y: Double, grid: tuple[float, ...], rng: np.random.Generator
) -> tuple[float, Double, tuple[Double, Double, Double]]:
    """Components of whitened rows: those of FastICA, refined with the waves that measure them best.

    Returns their error, the rotation, and the waves' frequencies, phases and noise.
    """
    rotation = np.eye(k := y.shape[1])
    if k > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit = FastICA(whiten=False, random_state=int(rng.integers(2**31)), tol=1e-3).fit(y)
        rotation = polar(fit.components_)
    for _ in range(STEPS):
        u = y @ rotation.T
        t, phases, noise, sizes = _tuned(u, grid)
        wave = np.exp(1j * (t * u + phases))
        T = u.T @ wave.imag / len(u) - np.eye(k) * (t * wave.real.mean(axis=0))
        rotation = rotation_near(T, noise).T @ rotation
    return float(np.sum(np.log(noise / sizes**2 + 0.25))), rotation, (t, phases, noise)


def _tuned(u: Double, grid: tuple[float, ...]) -> Double:
    """Frequency and phase of the wave that measures each column best, its noise, and the size of what it measures.

    g = sin(t u + a) moves the direction of a component with variance noise / size^2 per row: size is the mean of
    u g - g', and noise the variance of g without (mean of g' + mean of u g) / 2 times u.
    """
    best, least = np.full((4, u.shape[1]), np.inf), np.full(u.shape[1], np.inf)
    for t in grid:
        wave = np.exp(1j * t * u)
        means = wave.mean(axis=0), (u * wave).mean(axis=0), (wave * wave).mean(axis=0)
        for phase in PHASES:
            turn = np.exp(1j * phase)
            first, product, double = means[0] * turn, (means[1] * turn).imag, (means[2] * turn**2).real
            slope, mean = t * first.real, first.imag
            half = (slope + product) / 2
            noise = np.maximum((1 - double) / 2 - mean**2 - 2 * half * product + half**2, 1e-9 * t**2)
            size = np.sqrt(np.maximum((product - slope) ** 2 - noise / len(u), 1e-4 * noise / len(u)))
            better = noise / size**2 < CLEARLY_LESS * least
            least = np.where(better, noise / size**2, least)
            best = np.where(better, np.stack(np.broadcast_arrays(t, phase, noise, size)), best)
    return best


MOST_FEATURES = 2000  # of the operator: errors of more would take minutes


@dataclass(eq=False, repr=False)
class SketchICA(LinearCoordinates):
    """Independent components from one pass over the rows, or from a sketch alone.

    The model is x = mixing s + mean, with independent sources s. The sketch holds second moments, and k^2 + 2 k
    generalised cumulants of k components that are estimated roughly from a sample.

    Parameters
    ----------
    n_components : number of components; None means as many as directions in which the sample varies.
    bounds : lowest and highest value of each column, as in `SketchPCA`.
    random_state : seed of the sample and of the search.
    n_jobs, device, verbose, schema : as in `SketchKMeans`.

    Attributes
    ----------
    components_ : array (n_components, columns): s = components_ (x - mean_), the least Gaussian first.
    mixing_ : array (columns, n_components), the pseudo-inverse of components_.
    mean_ : of each column.
    standard_errors_ : of "components_", "mixing_" and "mean_", by these names (see `intervals`), for any distributions
        of the sources. They need a sketch with a sample of rows, as `fit` draws one of 4000. NaN for components that
        may be Gaussian, where there are several.
    whitening_ : array (n_components, columns); components_ is a rotation of it.
    evidence_ : of each component, one over the standard error of its angle towards a Gaussian one, in radians. Below
        12 it may be Gaussian itself.
    sketch_ : the sketch; it can be saved, merged, updated and given to `fit_sketch`.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> sources = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    >>> ica = skl.SketchICA(random_state=0).fit(sources @ [[1.0, 2.0], [1.0, -1.0]])
    >>> found = np.abs(ica.components_ @ [[1.0, 1.0], [2.0, -1.0]])  # of each source, in deviations of 1 / sqrt(3)
    >>> np.sort(found / np.sqrt(3), axis=1).round(1).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """

    model_type = Independent
    mixing_ = model_attribute("mixing")
    whitening_ = model_attribute("whitening")
    evidence_ = model_attribute("evidence")

    def design_operator(self, design_sample: DesignSample, rng: np.random.Generator) -> Operator:
        if not len(design_sample.rows):
            raise ValueError("there are no rows")
        self.check_components(design_sample.rows.shape[1])
        return keeping_rows(cumulant_features(design_sample, rng, self.n_components, self.bounds), design_sample)

    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator) -> Independent:
        found = independent_components(sketch, rng, self._say if self.verbose else None)
        k = len(found.components)
        if self.n_components not in (None, k):
            asked = Parameter("n_components", self.n_components)
            raise InvalidValueError(f"the sketch's operator is for {k} components, not {asked}")
        if len(found.alike) > 1:
            warn_caller(f"{len(found.alike)} of {k} components may be {INDISTINCT}")
        if found.far:
            warn_caller(f"the components are far from those of the design sample, and may be imprecise: {REDESIGN}")
        if found.missed and self.n_components is None:
            warn_caller(f"rows vary in directions in which the design sample did not; these are left out: {REDESIGN}")
        self._say(f"{k} components, evidence {found.evidence.round(1)}")
        return found

    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:
        sketch, found = state.sketch, state.model
        if sketch.ledger is not None:
            return ErrorBars(withheld="they cannot be estimated from private sketches")
        if (sample := SampledRows.of(sketch)) is None:
            return ErrorBars(withheld="they need a sample of rows: fit rows, or a sketch that keeps some")
        errors = {"mean_": np.sqrt(sample.variances(sample.rows - Moments.of(sketch, "ICA").mean))}
        if found.far:
            return ErrorBars(errors, f"the components are far from those of the design sample: {REDESIGN}")
        parts: Any = [needed_part(sketch, kind, "ICA") for kind in (Ability.MOMENTS, Ability.INDEPENDENT_COMPONENTS)]
        moments, cumulants = (part.operator for part in parts)
        mean = np.concatenate([part.mean for part in parts])
        if len(mean) > MOST_FEATURES:
            return ErrorBars(errors, "the errors of this many components would take minutes: ask for fewer components")
        matches = found.components @ np.linalg.pinv(unmixing_of(moments, cumulants, mean))
        order = np.argmax(np.abs(matches), axis=1)
        signs = np.sign(matches[np.arange(len(order)), order])[:, None]

        def computed(features: Double) -> Double:
            components = unmixing_of(moments, cumulants, features)[order] * signs
            return np.stack([components, np.linalg.pinv(components).T])

        features = np.column_stack([operator.features(sample.rows) for operator in (moments, cumulants)])
        errors["components_"], mixing = errors_by_draws(mean, features, sample, computed, rng)
        errors["mixing_"] = mixing.T
        if len(found.alike) <= 1:
            return ErrorBars(errors)
        errors["components_"][found.alike], errors["mixing_"][:, found.alike] = np.nan, np.nan
        return ErrorBars(errors, f"some components may be {INDISTINCT}")
