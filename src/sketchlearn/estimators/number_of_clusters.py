"""The number of clusters, estimated from one sketch that was designed for the largest number (`choose_k`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter, called, either
from sketchlearn.core.messages import in_certain_digits, in_digits, warn_caller
from sketchlearn.core.progress import steps_shown
from sketchlearn.core.values import number, shortened, whole
from sketchlearn.estimators.base.state import error_units, given_rows, kept_rows
from sketchlearn.estimators.design.frequencies import clusters_resolved, plain
from sketchlearn.features.families import frequencies_instead
from sketchlearn.inference.calibration import calibrated
from sketchlearn.inference.cells import NO_COVARIANCES, CellClusters, Cells
from sketchlearn.inference.decoders import decoder_from
from sketchlearn.inference.decoders.density import cleaned, fit_density
from sketchlearn.inference.decoders.loop import Status
from sketchlearn.inference.decoders.number_of_components import ComponentPath, n_affordable, number_of_gaussians
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import HIGHEST_HARMONIC, Target, fourier_part
from sketchlearn.inference.distributions import DiagonalGaussian
from sketchlearn.inference.errors.influence import hidden_by_noise, independent_records
from sketchlearn.inference.kmeans import nearest
from sketchlearn.inference.weighted_clusters import RowSample
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.sketch.sums import Sketch, require_enough_shares

LARGEST = "the criterion is least at the largest number tried. Design a sketch for more, and use a larger"
MOST_CLUSTERS = 1 << 20  # in a file


class Basis(Enum):
    """The criterion by which a number was chosen."""

    GAUSSIANS = "a mixture of so many Gaussians explains the sketch"
    GAP = "the gap statistic of k-means"
    CELLS = "Gaussians of clusters of cells"
    HIDDEN = "the noise of the private release hides clusters, all or some"


@dataclass(frozen=True)
class ClusterChoice:
    """An estimated number of clusters. Prints as sentences and a table.

    Attributes
    ----------
    n_clusters : the chosen number; 1 means that no clusters were found.
    most : the largest number that was tried.
    basis : the criterion: `Basis.GAUSSIANS`, or `Basis.GAP` if no mixture of Gaussians fits the sketch; `Basis.CELLS`
        for sketches of cells; `Basis.HIDDEN` if the noise of a private release may hide clusters.
    low, high : the smallest and the largest number whose criterion is as good, within its error.
    misfit : squared residual of the best mixture of Gaussians per degree of freedom, about 1 if records are drawn from
        it; None if no mixtures were fitted.
    covariance_type : of those Gaussians, "diag" or "full".
    criteria, criterion_errors : for k = 1, 2, ..., the criterion less its minimum, and its standard error. It is BIC
        for Gaussians and cells, and minus the gap statistic otherwise. Numbers far beyond the best are not tried.
    inertias, inertia_errors : for k = 1, 2, ..., the inertia of k-means relative to that of one cluster, with its
        error, if no Gaussians fit the sketch.
    agreements : for k = 2, 3, ..., the adjusted Rand index of the clusters of two halves of the rows, if any.
    """

    n_clusters: int
    most: int
    basis: Basis
    low: int
    high: int
    misfit: float | None = None
    covariance_type: str = "diag"
    criteria: tuple[float, ...] = ()
    criterion_errors: tuple[float, ...] = ()
    inertias: tuple[float, ...] = ()
    inertia_errors: tuple[float, ...] = ()
    agreements: tuple[float, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """The choice in words."""
        said = [self._verdict()]
        if self.basis is not Basis.HIDDEN and self.low < self.high:
            said.append(f"Within the error of the criterion there are {self.low} to {self.high}.")
        if self.basis is Basis.GAP:
            said.append("No single k is clearly best: the curve shows the gain from each additional cluster.")
        if self.agreements:
            if self.n_clusters > 1:
                agree = self.agreements[min(self.n_clusters - 2, len(self.agreements) - 1)]
                said.append(f"Clusters of two halves of the rows agree to {agree:.2f} (1 is equal, 0 is chance).")
        elif self.basis is Basis.GAP and self.most > 1:
            said.append(
                "The rows are draws of a fitted density, whose components can look like clusters: keep rows beside the "
                f"sketch with {called('design', '...', rows=500)}, or give some with "
                f"{either('sample=rows', '--sample FILE')}."
            )
        return said

    @property
    def headline(self) -> str:
        """The number in words, such as "3 clusters", "20 or more clusters" or "no clusters"."""
        if self.n_clusters == 1:
            return "no clusters"
        return f"{self.n_clusters} {'or more ' if self.n_clusters == self.most else ''}clusters"

    def _verdict(self) -> str:
        k, found = self.n_clusters, self.headline[:1].upper() + self.headline[1:]
        if self.basis is Basis.HIDDEN:
            hides = "found: the noise of the private release may hide them"
            if k > 1:
                hides = "found; the noise of the private release may hide more"
            return f"{found} {hides}. Release more records at once, or with a larger epsilon."
        misfit = "" if self.misfit is None else f"residual {in_digits(self.misfit, 2)} times that of sampling"
        if self.basis is Basis.GAP:
            by = f"{found} by the gap statistic"
            if misfit:
                return f"{by}: no mixture of up to {self.most} Gaussians fits ({misfit})."
            return (
                f"{by}. Gaussians were not tried: they need the exponential wave, without subsampling, and three "
                "records per parameter."
            )
        if k > 1 and k == self.most:
            return f"{found}: {LARGEST} {Parameter('max_clusters')}."
        if self.basis is Basis.CELLS:
            if k == 1:
                return "No clusters: one Gaussian describes the cells of the sketch best."
            return f"{found}: {k} Gaussians, each of some cells of the sketch, describe the records best."
        fit = f"fits the sketch ({misfit})"
        return f"No clusters: one Gaussian {fit}." if k == 1 else f"{found}: a mixture of {k} Gaussians {fit}."

    def table(self) -> list[str]:
        """Lines of a table of all numbers of clusters that were tried."""
        columns = {"criterion": _with_errors(self.criteria, self.criterion_errors)}
        if self.inertias:
            columns["inertia"] = _with_errors(self.inertias, self.inertia_errors)
        if self.agreements:
            columns["halves agree"] = ["", *(f"{agree:.2f}" for agree in self.agreements)]
        n = max(map(len, columns.values()))
        marks = [f"{k} <" if k == self.n_clusters else f"{k}  " for k in range(1, n + 1)]
        named = ([name, *cells, *[""] * (n - len(cells))] for name, cells in columns.items())
        table = [["k  ", *marks], *named]
        padded = [[cell.rjust(max(map(len, column))) for cell in column] for column in table]
        return ["  ".join(line).rstrip() for line in zip(*padded, strict=True)]

    def __str__(self) -> str:
        return "\n".join([" ".join(self.sentences), *self.table()])

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and words."""
        form = {name: list(part) if isinstance(part, tuple) else part for name, part in asdict(self).items()}
        return {**form, "basis": self.basis.name}

    @classmethod
    def from_json(cls, form: Any) -> Self:
        """The choice in a file; a `ValueError` says what is wrong with it."""
        names = [field.name for field in fields(cls)]
        if not isinstance(form, dict) or sorted(form) != sorted(names):
            raise ValueError(f"choice must have the fields {', '.join(names)}")
        if not isinstance(form["basis"], str) or form["basis"] not in Basis.__members__:
            raise ValueError(f"choice: {shortened(form['basis'])} is not a basis")
        if form["covariance_type"] not in ("diag", "full"):
            raise InvalidValueError(f"choice: {Parameter('covariance_type')} must be diag or full")
        read: dict[str, Any] = {name: _numbers(name, form[name]) for name in names[7:]}
        read |= {name: whole(name, form[name], 1, MOST_CLUSTERS) for name in ("n_clusters", "most", "low", "high")}
        read["misfit"] = None if form["misfit"] is None else number("misfit", form["misfit"])
        return cls(**read, basis=Basis[form["basis"]], covariance_type=form["covariance_type"])


def _numbers(name: str, form: Any) -> tuple[float, ...]:
    if not isinstance(form, list) or len(form) > MOST_CLUSTERS:
        raise ValueError(f"choice: {name} must be a list of numbers")
    return tuple(number(name, item) for item in form)


def _with_errors(values: Sequence[float], errors: Sequence[float]) -> list[str]:
    pairs = zip(values, errors, strict=True)
    return [f"{in_certain_digits(value, error)} +- {in_digits(error, 1 if error else 2)}" for value, error in pairs]


REFERENCES = 6
STARTS = 2  # of k-means; the same for rows and references
DRIFT = 0.02  # of the gap per cluster in rows without clusters: 0.005 for uniform ones, 0.016 for iris
MOST_ROWS = 1500  # More rarely change k, and take longer.


class InertiaCurve(NamedTuple):
    """k-means of rows for k = 1, 2, ...: inertia relative to that of k = 1, and the gap, each with its error."""

    inertias: Double
    inertia_errors: Double
    gaps: Double
    gap_errors: Double

    def elbow(self, deviations: float = 1.0) -> int:
        """The smallest k whose gap no larger k exceeds by more than some standard errors and a drift."""
        sizes = np.arange(len(self.gaps))
        more = self.gaps[None] - self.gaps[:, None] - DRIFT * (sizes[None] - sizes[:, None])
        exceeded = (more > deviations * self.gap_errors) & (sizes[None] > sizes[:, None])
        return int(np.argmin(exceeded.any(axis=1))) + 1


def inertia_curve(
    rows: Double, most: int, rng: np.random.Generator, progress: Callable[[str], None] | None = None
) -> InertiaCurve:
    """The curve of rows of equal weight, or of a sample of them, for k up to `most`.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.standard_normal((300, 2)) + 10 * rng.integers(0, 3, (300, 1))
    >>> inertia_curve(rows, 6, rng).elbow()
    3
    """
    rows = some_rows(rows, MOST_ROWS, rng)
    rows = rows - rows.mean(axis=0)
    most = min(most, max(1, len(np.unique(rows, axis=0)) - 1))  # As many clusters as rows have no inertia.

    def losses_of(table: Double, k: int, what: str) -> Double:
        if progress is not None:
            progress(f"k-means of {what}, with 1 to {most} clusters: {k}")
        if k == 1:
            return np.asarray(np.sum((table - table.mean(axis=0)) ** 2, axis=1))
        return nearest(table, _centers(table, k, rng))[1]

    sizes = range(1, most + 1)
    losses = np.stack([losses_of(rows, k, "rows") for k in sizes])
    inertia = np.maximum(losses.mean(axis=1), 1e-12 * max(float(losses[0].mean()), 1e-300))
    shares = inertia / inertia[0]
    errors = np.std(losses - shares[:, None] * losses[0], axis=1) / inertia[0] / np.sqrt(len(rows))
    axes = np.linalg.svd(rows, full_matrices=False)[2]
    low, high = (rows @ axes.T).min(axis=0), (rows @ axes.T).max(axis=0)
    drawn = (rng.uniform(low, high, (len(rows), len(low))) for _ in range(REFERENCES))
    tables = ((each, f"table {i} of {REFERENCES} without clusters") for i, each in enumerate(drawn, 1))
    means = np.array([[losses_of(each, k, what).mean() for k in sizes] for each, what in tables])
    others = np.log(np.maximum(means, 1e-300))
    gaps = others.mean(axis=0) - np.log(inertia)
    # The rows' own sampling error counts, too.
    return InertiaCurve(shares, errors, gaps, others.std(axis=0) * np.sqrt(1 + 1 / REFERENCES))


def agreement_of_halves(rows: Double, most: int, rng: np.random.Generator) -> Double:
    """Agreement of the clusters of two halves of the rows, for k = 2, 3, ...: the adjusted Rand index.

    It is 0 for halves without two different rows.
    """
    rows = some_rows(rows, MOST_ROWS, rng)
    order = rng.permutation(len(rows))
    parts = rows[order[::2]], rows[order[1::2]]
    most = min(most, *(len(np.unique(part, axis=0)) for part in parts))
    labels = ([nearest(rows, _centers(part, k, rng))[0] for part in parts] for k in range(2, most + 1))
    return np.array([adjusted_rand_score(*both) for both in labels] or [0.0])


def some_rows(rows: Double, most: int, rng: np.random.Generator) -> Double:
    return rows if len(rows) <= most else rows[rng.permutation(len(rows))[:most]]


def _centers(rows: Double, k: int, rng: np.random.Generator) -> Double:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        fitted = KMeans(k, n_init=STARTS, random_state=int(rng.integers(2**31))).fit(rows)
    return np.asarray(fitted.cluster_centers_)


UNSURE_DEVIATIONS = 2.0  # of a criterion: numbers of clusters within so many standard errors are equally good


def _of_cells(sketch: Sketch, cells: Cells, most: int) -> ClusterChoice:
    if sketch.ledger is not None:
        raise InvalidValueError(
            "a private release of cells does not determine the number of clusters",
            f"give {Parameter('n_clusters')}, or design it with {frequencies_instead()}",
        )
    groups = CellClusters.of_each(cells)
    if groups is None:
        raise InvalidValueError(f"{NO_COVARIANCES}, or give {Parameter('n_clusters')}")
    n = independent_records(sketch)
    penalty = 0.5 * np.log(n) * (groups.places.shape[1] + 2)  # BIC's, of a center, a variance and a weight
    reach = min(most, len(cells))
    steps = np.zeros((reach, 2))  # the gain of k + 1 groups over k, for k = 1, 2, ..., and its standard error
    while len(groups.shares) > 1:
        k, sizes = len(groups.shares), n * (groups.shares[:, None] + groups.shares)
        gains = sizes * groups.gains() - penalty
        a, b = sorted(int(i) for i in np.unravel_index(np.argmin(gains), gains.shape))
        if k <= reach:
            rows = max(float(groups.n_sampled[[a, b]].sum()), 1.0)
            # Variances of so many sampled rows have relative errors of sqrt(2 / rows), and so have their logarithms.
            steps[k - 2] = gains[a, b], sizes[a, b] * np.sqrt(0.5 / rows)
        groups = groups.joined(a, b)
    steps = steps[: reach - 1]
    criteria = -2 * np.concatenate([[0.0], np.cumsum(steps[:, 0])])
    best = int(np.argmin(criteria))
    variances = np.concatenate([[0.0], np.cumsum(steps[:, 1] ** 2)])
    errors = 2 * np.sqrt(np.abs(variances - variances[best]))
    above = criteria - criteria[best]
    near = np.flatnonzero(above <= UNSURE_DEVIATIONS * errors) + 1
    found = ClusterChoice(best + 1, reach, Basis.CELLS, int(near.min()), int(near.max()))
    return replace(found, criteria=plain(above), criterion_errors=plain(errors))


def _warn_of_design(sketch: Sketch, n_clusters: float, most: int, doubt: str) -> None:
    operator = fourier_part(sketch)[1]
    designed = clusters_resolved(operator.n_frequencies, operator.n_features, operator.wave)
    if n_clusters <= designed:
        return
    clusters = "one cluster" if designed == 1 else f"{designed} clusters"
    remedy = f"sketch with {called('design', 'sample', n_components=most)}"
    if sketch.ledger is not None:
        remedy = f"design for more of them ({Parameter('n_components', most)}) and release with less noise"
    warn_caller(
        f"{doubt}: the sketch has {operator.n_frequencies:,} frequencies, as a design for about {clusters}; to find "
        f"more, {remedy}"
    )


Say = Callable[[str], None]
NUMBERS_PER_PARAMETER = 3  # of the largest mixture
RECORDS_PER_PARAMETER = 3  # With fewer, no criterion distinguishes clusters from chance.
SIZES_BEYOND = 5  # the largest, for which k-means is tried to see whether there are more clusters
LEAST_ROWS = 50  # A smaller sample is less informative than draws of the density.


def choose_k(
    sketch: Sketch,
    max_clusters: int = 20,
    sample: Any = None,
    *,
    assume_public_sample: bool = False,
    random_state: int = 0,
    progress: bool = False,
) -> ClusterChoice:
    """Estimates the number of clusters of the records of a sketch.

    Mixtures of 1, 2, ... Gaussians are fitted to the sketch. If one fits, the number is chosen by the Bayesian
    information criterion of the residuals. If none does, as in most real tables, it is chosen by the gap statistic of
    k-means, on rows where there are some, or else on draws of a density that was fitted to the sketch. For a sketch of
    cells (more than 64 columns), Gaussians are fitted to clusters of cells.

    Parameters
    ----------
    sketch : a sketch of an operator that was designed for the largest number: `design(rows, n_components=20)`. If it
        was designed for fewer, a warning gives the number of its design.
    max_clusters : the largest number to try.
    sample : some of the sketched rows, or rows like them. Without a sample, that of the sketch is used.
    assume_public_sample : the caller knows that the sample is public; otherwise a private release takes none.
    random_state : seed of the search.
    progress : whether progress is shown on standard error.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((3000, 2)) + 7 * rng.integers(0, 3, (3000, 1))
    >>> choice = skl.choose_k(skl.design(X, n_components=6).sketch(X), max_clusters=6)
    >>> choice.n_clusters, choice.basis.name
    (3, 'GAUSSIANS')
    >>> print(choice.sentences[0])
    3 clusters: a mixture of 3 Gaussians fits the sketch (residual ... times that of sampling).
    """
    if not isinstance(sketch, Sketch):
        raise TypeError(f"expected a Sketch, not {type(sketch).__name__}: sketch the rows first")
    rows = kept_rows(sketch) if sample is None else given_rows(sketch, sample, assume_public_sample)
    most, rng = whole("max_clusters", max_clusters), np.random.default_rng(random_state)
    with steps_shown(progress) as say:
        return choose_with_rows(sketch, most, rows, rng, say)


def choose_with_rows(
    sketch: Sketch, most: int, sample: RowSample | None, rng: np.random.Generator, say: Say | None = None
) -> ClusterChoice:
    """The choice from a sketch and, where there are some, rows; progress goes to `say`."""
    require_enough_shares(sketch.ledger)
    if (cells := Cells.of(sketch)) is not None:
        with one_blas_thread():
            if cells.operator.sampled_cells is not None or sample is None or not sample.complete:
                return _of_cells(sketch, cells, most)
            rows = sample.scaled_rows().rows  # There are too few records for covariances within cells.
            reach = min(most, len(rows))
            agreements = plain(agreement_of_halves(rows, reach, rng)) if reach > 1 else ()
            return replace(_of_gap(rows, reach, None, rng, say), agreements=agreements)
    choice = _of_frequencies(sketch, most, sample, rng, say)
    if choice.basis is Basis.GAUSSIANS or (choice.basis is Basis.GAP and sample is None):
        k = choice.n_clusters
        _warn_of_design(sketch, k, most, f"{k} clusters are more than such a sketch is designed for, and uncertain")
    return choice


def _of_frequencies(
    sketch: Sketch, most: int, sample: RowSample | None, rng: np.random.Generator, say: Say | None
) -> ClusterChoice:
    target, decoder = Target.of(sketch, HIGHEST_HARMONIC), decoder_from("auto")
    per_component = DiagonalGaussian().n_parameters(1, target.n_features)
    asked = min(most, int(np.ceil(sketch.count)))
    reach = min(asked, int(target.n_numbers // (NUMBERS_PER_PARAMETER * per_component)))
    if reach < 2 <= asked:
        raise InvalidValueError(
            f"a sketch of {target.n_numbers:,.0f} numbers cannot distinguish two clusters from one in "
            f"{target.n_features} columns",
            f"design it for more, as with {called('design', 'sample', n_components=asked)}",
        )
    if reach < asked:
        _warn_of_design(sketch, np.inf, most, f"numbers of clusters above {reach} are not tried")
    nothing_seen = ClusterChoice(1, reach, Basis.HIDDEN, 1, reach)

    def fitting(text: str) -> None:
        if say is not None:
            say(f"fitting a density to the sketch: {text}")

    with one_blas_thread():
        problem = cleaned(Problem.of(target, reach), decoder, rng, fitting)
        density, outcome = fit_density(problem, decoder, rng, fitting)
        if outcome.status is Status.HIDDEN:
            return nothing_seen
        rows = None if sample is None else _representative(sketch, sample, rng)
        agreements = () if rows is None or reach < 2 else plain(agreement_of_halves(rows, reach, rng))
    determined = int(sketch.count / (RECORDS_PER_PARAMETER * per_component))
    tested = min(reach, determined, n_affordable(problem, DiagonalGaussian()))
    if target.released and not tested:
        return nothing_seen
    path = None
    if target.whole and target.imaginary and tested:
        # Without one_blas_thread, as matrices are large enough for threads.
        path = number_of_gaussians(problem, density, float(sketch.count), tested, say)
        if path.explains and (path.n_components < tested or tested == reach):
            return replace(_of_gaussians(path, reach), agreements=agreements)
    with one_blas_thread():
        if rows is None:
            n = min(MOST_ROWS, max(2, int(sketch.count)))  # More would understate the errors.
            rows = density.heavy().sample(n, rng)[0] / error_units(sketch.operator)
        choice = _of_gap(rows, reach, path, rng, say)
    hidden = sample is None and hidden_by_noise(target, choice.n_clusters)
    return nothing_seen if hidden else replace(choice, agreements=agreements)


def _of_gaussians(path: ComponentPath, most: int) -> ClusterChoice:
    above, errors = path.criteria - path.criteria.min(), path.errors
    near = np.flatnonzero(above <= UNSURE_DEVIATIONS * errors) + 1
    k = path.n_components
    full = not isinstance(path.chosen.mixture.model, DiagonalGaussian)
    hidden = bool(path.target.released) and path.least_share > 0.5 / (k + 1)
    basis, high = (Basis.HIDDEN, most) if hidden else (Basis.GAUSSIANS, max(k, *near.tolist()))
    kind = "full" if full else "diag"
    return ClusterChoice(k, most, basis, min(k, *near.tolist()), high, path.misfit, kind, plain(above), plain(errors))


def _of_gap(
    rows: Double, most: int, path: ComponentPath | None, rng: np.random.Generator, say: Say | None
) -> ClusterChoice:
    curve = inertia_curve(rows, most + SIZES_BEYOND, rng, say)
    k = min(most, curve.elbow(UNSURE_DEVIATIONS))  # With one deviation, boxes of 3000 rows were sometimes cut in two.
    return ClusterChoice(
        k,
        most,
        Basis.GAP,
        k,
        min(most, max(k, curve.elbow(0.0))),
        None if path is None else path.misfit,
        criteria=plain((curve.gaps.max() - curve.gaps)[:most]),
        criterion_errors=plain(curve.gap_errors[:most]),
        inertias=plain(curve.inertias[:most]),
        inertia_errors=plain(curve.inertia_errors[:most]),
    )


def _representative(sketch: Sketch, sample: RowSample, rng: np.random.Generator) -> Double | None:
    """Rows of equal weight, in the units of errors: drawn by weights that are calibrated to the sketch."""
    rows = sample.rows
    if len(rows) < LEAST_ROWS and not sample.complete:
        return None
    weighted = rows if sample.complete else calibrated(sketch, [rows], rng)[0]
    if sample.complete and np.allclose(weighted.weights, 1 / len(rows)):
        chosen = np.arange(len(rows))
    else:  # systematic sampling; repeated rows would understate the errors
        n = max(1, min(MOST_ROWS, int(weighted.effective_size)))
        at = (rng.random() + np.arange(n)) / n * weighted.weights.sum()
        chosen = np.minimum(np.searchsorted(np.cumsum(weighted.weights), at), len(rows) - 1)
    return np.asarray(weighted.rows[chosen] / sample.units)
