"""Independent components from second moments and generalised cumulants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from sketchlearn.decoders.searches.search_loop import Progress
from sketchlearn.models import Double
from sketchlearn.moments.moments_of_sketch import Moments, needed_part
from sketchlearn.operators import CumulantFeatures, SecondMoments
from sketchlearn.operators.bounded_operators import FIXED_POINT
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.estimating.fitted_model import FittedModel, model_array
from sketchlearn.tasks.principal_components.principal_subspace import upright

LARGEST_TURN = 0.35  # share of a component in another's direction: beyond it, one step from the operator's is too rough
MOST_CUMULANT_FREQUENCY = 0.5  # Up to it, third and fourth cumulants explain what is measured.
GAUSSIAN_EVIDENCE = 12.0  # Gaussian components reach it, since the least Gaussian directions and waves are chosen.
MOST_MISSED_SHARE = 1e-6  # of the variance, in directions that the operator does not see
RANDOM_STARTS = 8  # rotations
RIDGE = 1e-4  # Cumulants that no measurement determines become 0.
NEEDED = "ICA needs a sketch of second moments beside cumulant features (skl.design(rows, task='ica'))"


@dataclass(frozen=True, eq=False)
class Independent(FittedModel):
    """Components s = components (x - mean), uncorrelated and of variance 1."""

    mean: Double = model_array("d")
    evidence: Double = model_array("k")  # one over the standard error of a component's angle towards a Gaussian one
    components: Double = model_array("k", "d")  # the least Gaussian first
    whitening: Double = model_array("k", "d")  # components = rotation whitening
    far: bool = False  # whether they were not near those that the operator was made for
    missed: bool = False  # whether rows vary in directions that the operator does not see

    @property
    def mixing(self) -> Double:
        """Array (columns, k), the pseudo-inverse of the components."""
        return np.asarray(np.linalg.pinv(self.components), np.float64)

    @property
    def alike(self) -> NDArray[np.intp]:
        """Components that may be Gaussian; two of them cannot be told from their mixtures."""
        return np.flatnonzero(self.evidence < GAUSSIAN_EVIDENCE)


def independent_components(sketch: Sketch, rng: np.random.Generator, progress: Progress | None = None) -> Independent:
    """The components in a sketch of second moments and cumulant features.

    With u = B (x - center), mean m and covariance C, the columns of

        T = mean(u g') - m mean(g)' - C diag(mean(dg/du)) = A V,  A = C^(1/2) Q,

    are combinations of those of the mixing matrix A of u; V is diagonal if u is nearly independent already. Then the
    columns of C^(-1/2) T are those of the rotation Q, up to their lengths and to squares of small angles, and the
    nearest rotation is taken, columns weighted by how exactly they are known.
    """
    moments, _ = Moments.of(sketch, "ICA").floored()
    part = needed_part(sketch, CumulantFeatures, NEEDED)
    operator: CumulantFeatures = part.operator  # type: ignore[assignment]
    B, noise = np.array(operator.unmixing), np.array(operator.noise)  # the variance per record of each measurement
    if part.ledger is not None:
        noise = noise + part.ledger.sum_variance / part.units * (operator.reach / FIXED_POINT) ** 2
    values = np.linalg.eigvalsh(B @ moments.covariance @ B.T)
    if values[0] <= 0 or values[0] < np.max(B**2 @ moments.rounding**2):
        raise ValueError("the rows do not vary in all components of the operator: design one on rows like these")
    measured = _Measured.of(operator, part.mean, moments.mean, moments.covariance)
    sizes, Q = np.diag(measured.columns), measured.rotation(noise)
    told = np.abs(sizes) * np.sqrt(moments.count / noise) >= GAUSSIAN_EVIDENCE
    far = measured.farthest(Q, told) > LARGEST_TURN
    if far and max(operator.frequencies) <= MOST_CUMULANT_FREQUENCY:
        Q = _searched(measured, noise, Q, rng, progress)
    whitening = measured.unrooted @ B
    evidence = np.abs(np.diag(Q.T @ measured.columns)) * np.sqrt(moments.count / noise)
    order = np.argsort(-evidence, kind="stable")
    components = upright((Q.T @ whitening)[order])
    total, rounding = np.trace(moments.covariance), np.sum(moments.rounding**2)
    missing = total - np.sum(np.linalg.pinv(components) ** 2) > MOST_MISSED_SHARE * total + rounding
    missed = bool(missing) and moments.noise is None
    return Independent(moments.mean, evidence[order], components, whitening, far, missed)


def unmixing_of(moments: SecondMoments, cumulants: CumulantFeatures, features: Double) -> Double:
    """Components (k, columns), in any order, of mean features of both operators: how small changes of them move it."""
    second, measurements = np.split(features, [moments.n_sums])
    away, products = moments.split(second)
    measured = _Measured.of(cumulants, measurements, moments.middle + away, products - np.outer(away, away))
    return np.asarray(measured.rotation(np.array(cumulants.noise)).T @ measured.unrooted @ np.array(cumulants.unmixing))


@dataclass(frozen=True)
class _Measured:
    """What the sketch says of u = A s, A = C^(1/2) Q, in whitened coordinates.

    With T what g_j and u_i have in common beyond second moments, column j of C^(-1/2) T is
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

    def rotation(self, noise: Double) -> Double:
        """The nearest rotation, columns weighted by how exactly they are known."""
        sizes = np.diag(self.columns)
        return polar(self.columns * (sizes / (noise + sizes**2 / 4)))

    def farthest(self, Q: Double, told: NDArray[np.bool_]) -> float:
        """The largest share of another component in a coordinate of u, relative to its own, if either is well known."""
        A = np.abs(self.root @ Q)
        others = ~np.eye(len(A), dtype=bool) & (told[:, None] | told)
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
        Q = turned(S, Q)
        x = t[:, None] * (measured.root @ Q)
        third, fourth = -measured.z.imag[:, None] * x**2 / 2, -measured.z.real[:, None] * x**3 / 6
        columns = [np.einsum("ik,jk,j->ijk", Q, part, weights).reshape(k * k, k) for part in (third, fourth)]
        zeros = np.zeros((k, k))
        even, odd = of_logs[:, None] * x**4 / 24, -of_logs[:, None] * x**3 / 6
        model = np.block([columns, [zeros, even], [odd, zeros], [RIDGE * np.eye(2 * k)]])
        return np.asarray(wanted - model @ np.linalg.lstsq(model, wanted, rcond=None)[0])

    starts = [start, np.eye(k), *(polar(rng.standard_normal((k, k))) for _ in range(RANDOM_STARTS))]
    found = []
    for n, Q in enumerate(starts):
        fit = least_squares(left, np.zeros(len(lower[0])), args=(Q,), method="lm", xtol=1e-6, max_nfev=30 * k * k)
        found.append((fit.cost, n, turned(fit.x, Q)))
        if progress is not None:
            progress(f"start {n + 1} of {len(starts)}: misfit {fit.cost:.3g}")
    return min(found)[2]


def polar(matrix: Double) -> Double:
    """The nearest rotation (or reflection)."""
    a, _, b = np.linalg.svd(matrix)
    return np.asarray(a @ b)
