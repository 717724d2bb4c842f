"""`explain`: diagnoses whether the sketch, its scale, the decoder or the model causes a poor fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
from scipy.special import chdtrc
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.utils import check_array

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidTypeError, InvalidValueError, Parameter, called, either
from sketchlearn.core.messages import in_digits
from sketchlearn.core.packages import required
from sketchlearn.core.values import whole
from sketchlearn.estimators.base.arrays import encoded_array
from sketchlearn.estimators.base.components import DesignedEstimator, StepEstimator
from sketchlearn.estimators.base.state import check_public_rows, error_units
from sketchlearn.estimators.clusters.estimators import SketchKMeans
from sketchlearn.estimators.clusters.of_fourier import reduced_in_units
from sketchlearn.estimators.design.designs import design
from sketchlearn.estimators.design.sample_summary import MOST_ROWS
from sketchlearn.features.families import Fourier
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.inference.cells import Cells
from sketchlearn.inference.decoders import decoder_from
from sketchlearn.inference.decoders.density import fit_density
from sketchlearn.inference.decoders.loop import EXPLAINED, Decoder, Outcome, Status, decode
from sketchlearn.inference.decoders.number_of_components import ComponentPath, n_affordable, number_of_gaussians
from sketchlearn.inference.decoders.points import antithetic_sample, centroids
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import refine
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import DiagonalGaussian, Dirac, Mixture
from sketchlearn.inference.errors.mixtures import errors_over_bound
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.questions.density_maps import draw_decay, draw_landscape
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.sketch.sums import Sketch

MOST_COMPONENTS, SPARE = 20, 4  # The path ends at 2 k + SPARE components, or at MOST_COMPONENTS.
LEAST_P_VALUE = 1e-6  # A component more is significant if its gain has a smaller p-value.
CLEARLY_OVER = 1.01  # A smaller ratio of errors is within the error of draws.
CENTERS = ("cluster_centers_", "means_")


@dataclass(frozen=True)
class Advice:
    """Figures about the number of components and the standard errors of a fit."""

    n_components: int  # the number that was asked for
    n_records: float
    gain: float  # the chi-square that one component more explains; 0 where it is unknown
    freedom: int  # its degrees of freedom
    enough: int | None  # how many Gaussians fit the sketch, by BIC, if any number does
    worst_error: float  # the largest standard error of centers or means; 0 where it is unknown
    attribute: str  # whose error that is
    over_bound: float | None  # errors of means over those of a fit to all rows, where a mixture fits the sketch

    @classmethod
    def of(cls, problem: Problem, outcome: Outcome, n_records: float, fitted: Any, *, of_rows: bool) -> Advice:
        """The figures of a mixture, in the problem's units, that was fitted to a sketch; and of a model, if any.

        Clusters of rows need no mixture: none are tried.
        """
        k, path = problem.n_components, None if of_rows else _path(problem, outcome.mixture, n_records)
        gain, freedom = 0.0, 0
        if path is not None and len(path.fits) > k:  # where few components are enough, the path ends early
            few, more = path.fits[k - 1], path.fits[k]
            gain, freedom = max(few.residual - more.residual, 0.0), more.n_parameters - few.n_parameters
        enough = path.n_components if path is not None and path.explains else None
        explaining = path.chosen.mixture if path is not None and enough == k else None
        errors = fitted.error_bars().standard_errors if hasattr(fitted, "error_bars") else {}
        name = next((name for name in CENTERS if name in errors), "")
        worst = float(np.nanmax(errors[name])) if name else 0.0
        if name == "means_" and outcome.status is Status.EXPLAINED:
            explaining = problem.from_data_units(fitted.fitted_model().density)
        over = None if explaining is None else errors_over_bound(problem, explaining, np.random.default_rng(0))
        return cls(k, n_records, gain, freedom, enough, worst, name, over)

    def sentences(self, *, frequencies_suffice: bool) -> list[str]:
        """The figures in words; `frequencies_suffice` allows the sentence on what more frequencies would bring."""
        said = []
        price = self.freedom * np.log(self.n_records)
        if self.freedom > 0 and self.gain > price and chdtrc(self.freedom, self.gain) < LEAST_P_VALUE:
            more = f"a mixture of {self.n_components + 1} Gaussians explains more of the sketch than one of"
            said.append(
                f"Measured more finely, by the covariance of its noise, {more} {self.n_components}: a chi-square of "
                f"{in_digits(self.gain, 3)} with {self.freedom} degrees of freedom."
            )
        if self.enough is not None and self.enough < self.n_components:
            said.append(f"A mixture of {self.enough} explains the sketch as well as one of {self.n_components}.")
        if self.worst_error > 0:
            said.append(
                f"Standard errors of {self.attribute} are at most {in_digits(self.worst_error, 2)}; half of that takes "
                f"{in_digits(4 * self.n_records, 2)} records like these."
            )
        if self.over_bound is not None and frequencies_suffice:
            over, gain = f"about {in_digits(self.over_bound, 3)} times those", "at most that"
            if self.over_bound < CLEARLY_OVER:
                over, gain = "those", "nothing"
            what = f"Errors of means of a mixture of {self.n_components}"
            said.append(f"{what} are {over} that all rows would give: more frequencies would bring {gain}.")
        return said

    @property
    def remedy(self) -> str:
        fewer = "one does not" if self.n_components == 1 else f"{self.n_components} do not"
        return (
            f"{self.enough} Gaussians explain the sketch, and {fewer}: ask for more components, unless fewer clusters "
            "are the purpose."
        )


def _path(problem: Problem, mixture: Mixture, n_records: float) -> ComponentPath | None:
    """Fits of more and more Gaussians; None for many components, few numbers, one-bit and subsampled sketches."""
    k = problem.n_components
    most = min(2 * k + SPARE, MOST_COMPONENTS, n_affordable(problem, DiagonalGaussian()))
    if k > most - 1 or not problem.plain.whole:
        return None
    if isinstance(mixture.model, Dirac):  # points: a path begins with Gaussians around them
        mixture = replace(problem.start, weights=mixture.weights, locations=mixture.locations)
    with one_blas_thread():
        return number_of_gaussians(problem, problem.in_data_units(mixture).heavy(), n_records, most)


def findings(f: dict[str, float]) -> list[str]:
    of_release = f", {f['released']:.0%} of its power from the private release" if f["released"] else ""
    notes = [
        f"The sketch has {f['numbers']:.0f} real numbers for {f['parameters']:.0f} parameters.",
        f"Its values have root mean square {in_digits(f['rms'], 2)}; {f['at_noise']:.0%} of them are at the sampling "
        f"noise {in_digits(f['noise'], 2)}{of_release}.",
    ]
    if "risk_ratio" in f:
        cost = f"; refined from k-means, the cost is {in_digits(f['reference_cost_ratio'], 3)} times the learned one"
        notes.append(
            "On the given rows, the mean squared distance to the learned centers is "
            f"{in_digits(f['risk_ratio'], 3)} times that of k-means{cost if f['misfit'] > EXPLAINED else ''}."
        )
    return notes


ROWS_PER_CLUSTER = 4  # k-means on fewer rows is no reference
REGION_FACTORS = (1.0, 2.0, 3.0)  # of further searches: a wrong spread made searches stall in test_small_box
REFINEMENT_ITERATIONS = 300  # from the reference
LOWER_COST_RATIO = 0.7  # heavy tails alone make the cost vary by 0.77 between seeds
WORSE_RISK_RATIO = 1.05  # of mean squared distances from the nearest center
POOR_RESIDUAL = 3.0  # in units of the sampling noise
LARGEST_RMS = 0.9  # of |z|: above it, the sketch shows only the spread of all records
LARGEST_RELEASED_SHARE = 0.5  # of the noise: with more, values at the noise do not depend on the scale
LARGEST_NOISE_SHARE = 0.6  # of the values that are not above the noise
SMALLEST_SCALE_RATIO, LARGEST_SCALE_RATIO = 0.3, 3.0  # to the scale that design would choose: centers are lost beyond


class Verdict(Enum):
    """What is at fault."""

    FINE = "nothing is wrong"
    SKETCH_TOO_SMALL = "the sketch is too small"
    SCALE_TOO_LARGE = "the scale of the frequencies is too large"
    SCALE_TOO_SMALL = "the scale of the frequencies is too small"
    DECODER = "the decoder missed a better solution"
    MODEL = "the clusters are unlike the model's"
    HIDDEN = "the noise of the private release hides the clusters"
    TOO_FEW = "there are more components than were asked for"
    OTHER_RECORDS = "the records are unlike the sample that the pilot was fitted on"


@dataclass(frozen=True)
class Explanation:
    """A verdict, with reasons and advice as sentences, and the figures behind them.

    Attributes
    ----------
    verdict : the cause of a poor fit, if any.
    sentences : the reasons, and what to change.
    figures : the figures, by the following names.
    numbers, parameters : real numbers in the sketch, and parameters k (2 d + 1) of k Gaussians.
    noise, rms : noise, of sampling and of a private release, and root mean square, of |z|.
    released : share of that noise's power that a private release added.
    at_noise, usually_at_noise : share of the values below twice the noise, and what it is at a good scale.
    scale_ratio : scale of the frequency distribution over the one that `design` would choose (if it has one scale).
    misfit : squared residual in units of sampling noise.
    best_misfit, gain : after further searches: the least misfit, and the mean squared distance to the learned centers
        over that to the centers found with it, estimated from the sketch.
    risk_ratio, reference_cost_ratio : if rows were given: mean squared distance to the learned centers over that to
        k-means' centers, and cost of the mixture refined from k-means over that of the learned one.
    over_bound : where a mixture fits the sketch, errors of its means over those of a fit to all rows.
    """

    verdict: Verdict
    sentences: list[str]
    figures: dict[str, float]
    problem: Problem | None = field(repr=False, compare=False)
    mixture: Mixture = field(repr=False, compare=False)
    centers: Double = field(repr=False, compare=False)

    def __str__(self) -> str:
        return " ".join(self.sentences)

    def plot(self, ax: Any = None) -> Any:
        """Draws what the decoder saw, and returns the matplotlib axes.

        For two columns: the correlation Re <Phi(c), z> / m of a point c with the sketch, and the learned centers. A
        scale that is too large shows one hill, one that is too small many. Otherwise: |z| against |omega|, in the
        sketch and in the fitted mixture; at a good scale, |z| falls from 1 to the noise.
        """
        if self.problem is None:
            raise ValueError("no decoder was used, so there is nothing to plot: draw the clusters with plot_model")
        axes = required("matplotlib.pyplot", "plot").subplots()[1] if ax is None else ax
        if self.problem.target.n_features == 2:
            return draw_landscape(axes, self.problem, self.centers)
        return draw_decay(axes, self.problem, self.mixture)


def explain(
    fitted: Any,
    X: Any = None,
    *,
    n_components: int | None = None,
    decoder: str | Decoder = "auto",
    random_state: int = 0,
    assume_public_sample: bool = False,
) -> Explanation:
    """Diagnoses whether the sketch (its size or scale), the decoder or the model causes a poor fit.

    If a better result has no lower cost, the sketch is at fault; if it has, the decoder is.

    Parameters
    ----------
    fitted : a fitted estimator of clusters or mixtures, or a sketch.
    X : held-out rows, of which up to 5000 are used: k-means on them is the reference. Without rows, the verdict is
        based on the sketch alone.
    n_components, decoder : the number of clusters, and the decoder, for a bare sketch.
    random_state : seed of the further searches.
    assume_public_sample : the caller knows that X is public; otherwise a private release is explained without rows.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> from sketchlearn.questions.explain import explain
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 2)) + 10 * rng.integers(0, 2, (2000, 1))
    >>> explanation = explain(skl.SketchKMeans(2, features=skl.features.Fourier(100), random_state=0).fit(X))
    >>> explanation.verdict
    <Verdict.FINE: 'nothing is wrong'>
    >>> print(explanation.sentences[-1])
    Nothing is wrong: fitted on all rows: they were few enough to be kept; ... (residual ...).
    """
    rng = np.random.default_rng(random_state)
    if isinstance(fitted, Sketch) and n_components is not None and decoder == "auto" and Cells.of(fitted) is not None:
        fitted = SketchKMeans(n_components, random_state=random_state).fit_sketch(fitted)
    if isinstance(fitted, StepEstimator) and (step := fitted.step_of(fitted.sketch_)) is not None:
        _check_number(fitted, n_components)
        return _of_steps(fitted, step, X, rng)
    if isinstance(fitted, StepEstimator) and (cells := Cells.of(fitted.sketch_)) is not None:
        _check_number(fitted, n_components)
        check_public_rows(None if X is None else fitted.sketch_.ledger, assume_public_sample)
        return _of_cells(fitted, cells, X, rng)
    case = _case(fitted, n_components, decoder, rng)
    sketch: Any = fitted if isinstance(fitted, Sketch) else fitted.sketch_
    columns = sketch.operator.columns
    check_public_rows(None if X is None else sketch.ledger, assume_public_sample)
    rows = None if X is None else _checked_rows(X, columns, case.k, case.d, rng)
    size = {"numbers": case.problem.plain.n_numbers, "parameters": case.k * (2 * case.d + 1)}
    figures = {"misfit": case.outcome.misfit, **size, **_scale(case, rows, rng)}
    if rows is not None:
        figures |= _reference(case, rows, rng)
    if figures.get("risk_ratio", np.inf) <= WORSE_RISK_RATIO or (case.of_rows and rows is None):
        verdict = Verdict.FINE
    elif case.outcome.status is Status.HIDDEN:
        verdict = Verdict.HIDDEN
    elif fault := _fault_of_sketch(figures, case.k):
        verdict = fault
    else:
        figures |= _search(case, rng)
        verdict = _fault_of_search(figures)
    advice = Advice.of(case.problem, case.outcome, 1 / case.target.sampling, fitted, of_rows=case.of_rows)
    figures |= {} if advice.over_bound is None else {"over_bound": advice.over_bound}
    if verdict in (Verdict.FINE, Verdict.MODEL) and (advice.enough or 0) > case.k:
        verdict = Verdict.TOO_FEW  # Gaussians do explain the sketch, if more of them
    said = _conclusion(verdict, figures, case) if verdict is not Verdict.TOO_FEW else advice.remedy
    of_table = [columns.in_words] if isinstance(columns, SchemaColumns) else []
    suffice = verdict in (Verdict.FINE, Verdict.TOO_FEW, Verdict.DECODER)
    sentences = [*of_table, *findings(figures), *advice.sentences(frequencies_suffice=suffice), said]
    return Explanation(verdict, sentences, figures, case.problem, case.outcome.mixture, case.centers)


def _check_number(fitted: DesignedEstimator, n_components: int | None) -> None:
    k, name = len(fitted.fitted_model().centers_of_parts), type(fitted).__name__
    if n_components is not None and n_components != k:
        remedy = f"leave {Parameter('n_components')} out"
        raise InvalidValueError(f"this {name} was fitted with {k} components, not {n_components}", remedy)


def _of_steps(fitted: StepEstimator, step: Any, X: Any, rng: np.random.Generator) -> Explanation:
    """The explanation of exact steps from a pilot: the last gain, and whether the records resemble its sample."""
    if step.n_parts > len(fitted.fitted_model().centers_of_parts):
        sentence = f"All rows were summed in {step.n_parts:,} cells, and the result is learned of their means."
        said = ". Further passes over all rows would go on from there"
        return _beside_rows(fitted, [sentence], {}, step.doubts, said, X, rng)
    worth = "too little to be worth another pass" if step.settled else "so that another pass would gain, too"
    sentences = [
        "A model of a sample came first; each pass over all rows was a step of the algorithm.",
        f"The last pass {step.gain_in_words}, {worth}.",
    ]
    said = ": the result is that of the algorithm on all records"
    return _beside_rows(fitted, sentences, {"gain": step.gain}, step.doubts, said, X, rng)


def _of_cells(fitted: StepEstimator, cells: Cells, X: Any, rng: np.random.Generator) -> Explanation:
    """The explanation of clusters of cells in directions: the part of the squared error that cells hide."""
    cost = cells.cost(fitted.fitted_model().centers_of_parts)
    within = float(cells.shares @ cells.within) / max(cost, 1e-300)
    sentences = [
        f"All rows were summed in {len(cells):,} cells, and the result is learned of their means.",
        f"{within:.0%} of the squared error lies within the cells, where no center can lower it.",
    ]
    return _beside_rows(fitted, sentences, {"within": within}, cells.doubts(cost), "", X, rng)


def _beside_rows(
    fitted: StepEstimator,
    sentences: list[str],
    figures: dict[str, float],
    doubts: Sequence[str],
    said: str,
    X: Any,
    rng: np.random.Generator,
) -> Explanation:
    """The explanation, with k-means of held-out rows as the reference where there are any."""
    model, sketch = fitted.fitted_model(), fitted.sketch_
    centers, columns = model.centers_of_parts, sketch.operator.columns
    (k, d), doubts = centers.shape, list(doubts)
    sentences = [*([columns.in_words] if isinstance(columns, SchemaColumns) else []), *sentences]
    if X is not None and model.kind_of_part == "cluster":
        rows = _checked_rows(X, columns, k, d, rng) / error_units(sketch.operator)
        figures["risk_ratio"] = _risk_ratio(rows, centers / error_units(sketch.operator), k, rng)
        if figures["risk_ratio"] > WORSE_RISK_RATIO:
            doubts.append(
                f"k-means on half of the rows given has {1 / figures['risk_ratio']:.0%} of the squared error on the "
                "other half: fit on rows like these"
            )
    sentences += [f"{doubt[0].upper()}{doubt[1:]}." for doubt in doubts]
    if not doubts:
        sentences.append(f"Nothing is wrong{said}.")
    verdict = Verdict.OTHER_RECORDS if doubts else Verdict.FINE
    return Explanation(verdict, sentences, figures, None, model.density, centers)


def _risk_ratio(rows: Double, centers: Double, k: int, rng: np.random.Generator) -> float:
    """The mean squared distance of half of the rows over that to centers of k-means on the other half."""
    known, held = rows[::2], rows[1::2]
    fitted = KMeans(k, n_init=3, random_state=int(rng.integers(2**31))).fit(known)
    return _risk(held, centers) / max(_risk(held, fitted.cluster_centers_), 1e-300)


@dataclass(frozen=True)
class _Case:
    """What is explained: the problem, its solution and the centers."""

    target: Target
    problem: Problem
    decoder: Decoder
    outcome: Outcome
    centers: Double  # as learned
    centroids: Double  # for mean squared distances: of a mixture, its best centroids
    units: Double  # of squared distances

    @property
    def k(self) -> int:
        return self.problem.n_components

    @property
    def d(self) -> int:
        return self.problem.target.n_features

    @property
    def of_rows(self) -> bool:
        """Whether the centers come from rows, which need no mixture that fits the sketch."""
        return self.centers is self.centroids and self.outcome.status in (Status.ROWS, Status.ALL_ROWS)

    def best_centroids(self, mixture: Mixture, rng: np.random.Generator) -> Double:
        density = self.problem.in_data_units(mixture).heavy()
        return reduced_in_units(centroids, density, self.problem, self.units, rng)[0]


def _case(fitted: Any, n_components: int | None, decoder: str | Decoder, rng: np.random.Generator) -> _Case:
    name = type(fitted).__name__
    if isinstance(fitted, Sketch):
        if n_components is None:
            remedy = f"give explain {Parameter('n_components')}"
            raise InvalidValueError("the number of clusters is required for a sketch", remedy)
        target = Target.of(fitted)
        problem = Problem.of(target, whole("n_components", n_components))
        chosen = decoder_from(decoder)
        of_density = target.released and not chosen.points
        outcome = fit_density(problem, chosen, rng)[1] if of_density else decode(chosen, problem, rng)
        density, units = problem.in_data_units(outcome.mixture), error_units(fitted.operator)
        if chosen.points:
            found = density.locations
        else:
            found = reduced_in_units(centroids, density.heavy(), problem, units, rng)[0]
        return _Case(target, problem, chosen, outcome, found, found, units)
    if not isinstance(fitted, BaseEstimator):
        raise InvalidTypeError(
            f"explain needs a fitted estimator or a sketch with {Parameter('n_components')}, not {name}"
        )
    if not isinstance(fitted, DesignedEstimator):
        raise TypeError(f"explain supports sketched clusters and mixtures, not {name}: give it a SketchKMeans")
    sketch, model = fitted.sketch_, fitted.fitted_model()
    centers = model.centers_of_parts
    k = len(centers)
    _check_number(fitted, n_components)
    target, units = Target.of(sketch), error_units(sketch.operator)
    case = _Case(target, Problem.of(target, k), decoder_from(fitted.decoder), model.outcome, centers, centers, units)
    if model.kind_of_part == "cluster":
        return case
    return replace(case, centroids=case.best_centroids(case.outcome.mixture, rng))


def _checked_rows(X: Any, columns: Any, k: int, d: int, rng: np.random.Generator) -> Double:
    encoded = isinstance(columns, SchemaColumns) and not isinstance(X, np.ndarray)
    rows: Double = check_array(encoded_array(X, columns) if encoded else X, dtype=np.float64)
    if rows.shape[1] != d:
        raise ValueError(f"X has {rows.shape[1]} columns but the sketch has {d}: give rows like those sketched")
    if len(rows) < ROWS_PER_CLUSTER * k:
        raise ValueError(f"X has {len(rows)} rows: give at least {ROWS_PER_CLUSTER * k}, or none")
    return rng.permutation(rows)[:MOST_ROWS]


def _scale(case: _Case, rows: Double | None, rng: np.random.Generator) -> dict[str, float]:
    """The power of the values beside the noise, and the scale beside that of a design for the rows or the mixture."""
    target, k = case.target, case.k
    power = np.abs(target.values) ** 2 * (2 - target.imaginary)
    louder = 1 + sum(abs(ratio) ** 2 for _, ratio in target.harmonics)
    noise = (target.sampling + target.subsampling) * louder + target.released
    # at a good scale, |omega|^2 s^2 is about 1: the power is exp(-1) / k on average, exponentially distributed
    usual = 1 - math.exp(-4 * noise / (math.exp(-1) / k + noise))
    figures = {
        "noise": math.sqrt(noise),
        "released": target.released / target.noise,
        "rms": float(np.sqrt(power.mean())),
        "at_noise": float(np.mean(power < 4 * noise)),
        "usually_at_noise": usual,
    }
    if target.one_scale:
        if rows is None:
            rows = antithetic_sample(case.problem.in_data_units(case.outcome.mixture).heavy(), MOST_ROWS, rng)
        waves = design(rows, n_components=k, features=Fourier(len(target))).part(FourierFeatures)
        chosen = None if waves is None else waves.law.widths(case.d)
        assert chosen is not None  # a law of one scale
        figures["scale_ratio"] = float(np.exp(np.mean(np.log(target.unit / chosen))))
    return figures


def _search(case: _Case, rng: np.random.Generator) -> dict[str, float]:
    """Further searches, some in a wider region: the least residual, and the gain of its centers."""
    if case.outcome.misfit <= EXPLAINED:
        return {"best_misfit": case.outcome.misfit, "gain": 1.0}
    wider = [replace(case.problem, spread=case.problem.spread * factor) for factor in REGION_FACTORS]
    searches = [(case.decoder, case.problem), *((decoder_from("auto"), problem) for problem in wider)]
    best = min((decode(decoder, problem, rng) for decoder, problem in searches), key=lambda outcome: outcome.cost)
    rows = antithetic_sample(case.problem.in_data_units(best.mixture).heavy(), MOST_ROWS, rng)
    learned, found = (points / case.units for points in (case.centroids, case.best_centroids(best.mixture, rng)))
    gain = _risk(rows / case.units, learned) / max(_risk(rows / case.units, found), 1e-300)
    return {"best_misfit": case.problem.misfit(best.cost), "gain": gain}


def _reference(case: _Case, rows: Double, rng: np.random.Generator) -> dict[str, float]:
    """The learned centers beside k-means on half of the rows, and the cost of a mixture refined from there."""
    risk_ratio = _risk_ratio(rows / case.units, case.centroids / case.units, case.k, rng)
    seed = int(rng.integers(2**31))
    # as many components as the learned mixture has: costs compare
    size = min(len(case.outcome.mixture), len(rows) // ROWS_PER_CLUSTER)
    labels = KMeans(size, n_init=1, random_state=seed).fit_predict(rows)
    groups = [rows[labels == label] for label in np.unique(labels)]
    means = np.array([group.mean(axis=0) for group in groups])
    least = 1e-3 * rows.var(axis=0) + 1e-300
    covariances = np.array([np.diag(np.maximum(group.var(axis=0), least)) for group in groups])
    weights = np.array([len(group) / len(rows) for group in groups])
    start = case.problem.in_own_units(DiagonalGaussian(), weights, means, covariances)
    reach = np.maximum(np.abs(start.locations).max(axis=0), case.problem.box.high)
    box = replace(case.problem.box, low=-reach, high=reach)
    with one_blas_thread():
        _, cost, _ = refine(case.problem.target, start, box, iterations=REFINEMENT_ITERATIONS)
    return {"risk_ratio": risk_ratio, "reference_cost_ratio": cost / max(case.outcome.cost, 1e-300)}


def _fault_of_sketch(f: dict[str, float], k: int) -> Verdict | None:
    """A wrong size or scale, if it shows without a search."""
    if f["numbers"] < f["parameters"]:
        return Verdict.SKETCH_TOO_SMALL
    if f["released"] < LARGEST_RELEASED_SHARE and f["at_noise"] > max(LARGEST_NOISE_SHARE, f["usually_at_noise"] + 0.2):
        return Verdict.SCALE_TOO_SMALL
    # a mixture that does not fit says little of the scale
    trusted = "risk_ratio" in f or f["misfit"] <= POOR_RESIDUAL
    if k > 1 and (f["rms"] > LARGEST_RMS or (trusted and f.get("scale_ratio", 1.0) > LARGEST_SCALE_RATIO)):
        return Verdict.SCALE_TOO_LARGE
    return None


def _fault_of_search(f: dict[str, float]) -> Verdict:
    """The decoder, if there is a better solution; else the model, or the sketch."""
    misfit, rows = f["misfit"], "risk_ratio" in f
    missed = f["best_misfit"] < LOWER_COST_RATIO * misfit and f["gain"] > WORSE_RISK_RATIO
    if misfit > EXPLAINED and (missed or f.get("reference_cost_ratio", 1.0) < LOWER_COST_RATIO):
        return Verdict.DECODER
    if not rows and min(misfit, f["best_misfit"]) <= POOR_RESIDUAL:
        return Verdict.FINE
    if rows and f.get("scale_ratio", 1.0) < SMALLEST_SCALE_RATIO:
        return Verdict.SCALE_TOO_SMALL
    enough = f["numbers"] >= (4 if rows else 2) * f["parameters"]
    return Verdict.MODEL if misfit > POOR_RESIDUAL and enough else Verdict.SKETCH_TOO_SMALL


def _conclusion(verdict: Verdict, f: dict[str, float], case: _Case) -> str:
    """The cause and the advice, as a sentence."""
    k, ratio = case.k, f.get("scale_ratio")
    design = called("design", "sample", n_components=k)
    match verdict:
        case Verdict.SKETCH_TOO_SMALL:
            m = math.ceil(10 * k * case.d * (2 - case.target.imaginary))
            return (
                f"The sketch is too small to tell {k} components apart, whatever the decoder: use about {m} "
                f"frequencies (it has {len(case.target)}), which {design} does."
            )
        case Verdict.SCALE_TOO_LARGE:
            excess = "" if ratio is None or ratio <= 1 else f", by a factor of {in_digits(ratio, 2)} or more"
            return (
                f"The scale of the frequencies is too large{excess}: they are so low that clusters blur into one "
                f"cloud; use a smaller scale, or {design}, which chooses it."
            )
        case Verdict.SCALE_TOO_SMALL:
            known = ratio if "risk_ratio" in f else None
            # exp(-u) / k, the power that clusters leave at u = |omega|^2 s^2, is below the noise
            times = 1 / known if known else math.sqrt(max(math.log(1 / case.target.noise / (4 * k)), 1.0))
            larger = f"{'about' if known else 'at least'} {in_digits(times, 2)} times as large"
            return (
                "The scale of the frequencies is too small: they are so high that each cluster averages out; "
                f"use a scale {larger}, or {design}, which chooses it."
            )
        case Verdict.DECODER:
            better = min(f["best_misfit"], f["misfit"] * f.get("reference_cost_ratio", 1.0))
            return (
                f"The decoder missed a better solution: the residual is {in_digits(f['misfit'], 3)}, but "
                f"{in_digits(better, 3)} can be reached; try another {Parameter('random_state')} or "
                f"{Parameter('decoder')}, "
                f"or {either('an operator of design()', 'a sketch of sketchlearn design')}, which shows records' "
                "spread."
            )
        case Verdict.HIDDEN:
            return (
                f"The noise of the private release hides the {k} clusters: a single Gaussian explains the sketch as "
                f"well. {case.outcome.advice.capitalize()}."
            )
        case Verdict.MODEL:
            # without probes, location and spread may have been misread: risk 50 times k-means', and no search helped
            hidden = f"; or else the operator hides where records lie: use {called('design')}"
            return (
                "The clusters are unlike Gaussians along the axes: the residual stays at "
                f"{in_digits(f['best_misfit'], 3)} in further searches; "
                "the centers can still be good, and more components or more frequencies help"
                f"{'' if np.any(case.target.declared) else hidden}."
            )
        case _:
            return f"Nothing is wrong: {_why_fine(f, case)}."


def _why_fine(f: dict[str, float], case: _Case) -> str:
    fit = f"(residual {in_digits(f['misfit'], 2)})"
    explains = "the mixture explains"
    if (n_components := len(case.outcome.mixture.heavy())) > case.k:
        made = "the cluster is" if case.k == 1 else f"the {case.k} clusters are"
        explains = f"a mixture of {n_components} components, of which {made} made, explains"
    if f["misfit"] <= EXPLAINED:
        return f"{explains} the sketch up to sampling noise {fit}"
    if "risk_ratio" in f:
        return f"the centers are as good as those of k-means on the rows {fit}"
    if case.of_rows:
        return f"{case.outcome.status.value}; a Gaussian for each cluster need not fit {fit}"
    if f["misfit"] > POOR_RESIDUAL:
        best = in_digits(f["best_misfit"], 2)
        return f"the centers are as good as those of a mixture that explains the sketch (residual {best})"
    return f"{explains} the sketch nearly up to sampling noise {fit}"


def _risk(rows: Double, centers: Double) -> float:
    """Mean squared distance from the nearest center."""
    return float(np.mean(pairwise_distances_argmin_min(rows, centers)[1] ** 2))
