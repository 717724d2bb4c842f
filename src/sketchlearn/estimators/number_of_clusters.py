"""The number of clusters, estimated from one sketch that was designed for the largest number (`choose_k`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score

from sketchlearn.core.arrays import Double, Single
from sketchlearn.core.errors import InvalidValueError, Parameter, called
from sketchlearn.core.messages import in_certain_digits, in_digits, warn_caller
from sketchlearn.core.progress import steps_shown
from sketchlearn.core.values import number, shortened, truth, whole
from sketchlearn.estimators.base.state import error_units, given_rows, kept_rows
from sketchlearn.estimators.design.frequencies import clusters_resolved, plain
from sketchlearn.inference.calibration import calibrated
from sketchlearn.inference.cells import CellClusters, Cells
from sketchlearn.inference.decoders import decoder_from
from sketchlearn.inference.decoders.density import cleaned, fit_density
from sketchlearn.inference.decoders.loop import Status
from sketchlearn.inference.decoders.number_of_components import ComponentPath, n_affordable, number_of_gaussians
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import HIGHEST_HARMONIC, Target, fourier_part
from sketchlearn.inference.distributions import DiagonalGaussian
from sketchlearn.inference.errors.influence import hidden_by_noise, independent_records
from sketchlearn.inference.errors.means import more_rows
from sketchlearn.inference.kmeans import KMeansOfRows, nearest, systematic_draws
from sketchlearn.inference.weighted_clusters import RowSample
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.sketch.sums import Sketch, require_enough_shares

MOST_CLUSTERS = 1 << 20  # in a file
EARLIER = {"GAP": "ROWS", "CELLS": "GAUSSIANS", "GAUSSIANS": "GAUSSIANS", "HIDDEN": "HIDDEN"}  # names of bases
Say = Callable[[str], None]
Labels = NDArray[np.int32]


class Basis(Enum):
    """What a number was chosen by."""

    GAUSSIANS = "so many Gaussians explain the sketch"
    ROWS = "k-means of rows"
    CELLS = "k-means of rows drawn from the cells"
    DENSITY = "k-means of rows drawn from a density"
    HIDDEN = "the noise of the private release hides clusters, all or some"


@dataclass(frozen=True)
class ClusterChoice:
    """An estimated number of clusters. Prints as sentences and a table.

    Attributes
    ----------
    n_clusters : the chosen number; 1 means that no clusters were found.
    most : the largest number that was tried.
    basis : `Basis.GAUSSIANS` for a mixture that fits the sketch, or Gaussians of groups of cells; `Basis.ROWS`,
        `Basis.CELLS` or `Basis.DENSITY` for k-means of rows: of a sample, or drawn from cells or from a density that
        was fitted to the sketch; `Basis.HIDDEN` if the noise of a private release may hide clusters.
    low, high : the smallest and the largest number whose criterion is as good, within its error.
    misfit : squared residual of the best mixture of Gaussians per degree of freedom, about 1 if records are drawn from
        it; None if no mixtures were fitted.
    covariance_type : of those Gaussians, "diag" or "full".
    criteria, criterion_errors : for k = 1, 2, ..., the criterion less its minimum, and its standard error. It is BIC
        for Gaussians. For rows, it is minus the separation (the mean silhouette over that of rows without clusters)
        times the square of the agreement; empty without clusters. Numbers of Gaussians far beyond the best are not
        tried.
    silhouettes : for k = 2, 3, ..., the mean silhouette of k-means of the rows, if any.
    references : the same of rows without clusters: the larger of Gaussian and of uniform ones.
    agreements : for k = 2, 3, ..., the adjusted Rand index of the clusters of two halves of the rows, the mean of ten
        splits.
    evident : whether clusters are clearly more separate than in rows without clusters.
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
    silhouettes: tuple[float, ...] = ()
    references: tuple[float, ...] = ()
    agreements: tuple[float, ...] = ()
    evident: bool = True

    @property
    def sentences(self) -> list[str]:
        """The choice in words."""
        said = [self._verdict()]
        if self.n_clusters > 1 and self.n_clusters == self.most and self.basis is not Basis.HIDDEN:
            larger = f"a larger {Parameter('max_clusters')}"
            remedy = f"Use {larger}" if self.basis is Basis.ROWS else f"Design a sketch for more, and use {larger}"
            said.append(f"This is the largest number tried. {remedy}.")
        if self.basis is not Basis.HIDDEN and self.low < self.high:
            said.append(f"Within the error of the criterion there are {self.low} to {self.high}.")
        if self.misfit is not None and self.basis is not Basis.GAUSSIANS:
            said.append(f"No mixture of up to {self.most} Gaussians fits the sketch ({self._residual}).")
        if self.basis is Basis.DENSITY and self.most > 1:
            said.append(
                f"The rows are draws of a fitted density, whose components can look like clusters: {more_rows()}."
            )
        return said

    @property
    def headline(self) -> str:
        """The number in words, such as "3 clusters", "20 or more clusters" or "no clusters"."""
        if self.n_clusters == 1:
            return "no clusters"
        found = f"{self.n_clusters} {'or more ' if self.n_clusters == self.most else ''}clusters"
        return found if self.evident else f"{found}, not evident"

    @property
    def _residual(self) -> str:
        return f"residual {in_digits(self.misfit or 0.0, 2)} times that of sampling"

    def _verdict(self) -> str:
        k, found = self.n_clusters, self.headline[:1].upper() + self.headline[1:]
        if self.basis is Basis.HIDDEN:
            hides = "found: the noise of the private release may hide them"
            if k > 1:
                hides = "found; the noise of the private release may hide more"
            return f"{found} {hides}. Release more records at once, or with a larger epsilon."
        if self.basis is Basis.GAUSSIANS and self.misfit is None:
            said = "one Gaussian describes" if k == 1 else f"{k} Gaussians, each of some cells, describe"
            return f"{found}: {said} the records best."
        if self.basis is Basis.GAUSSIANS:
            fit = f"fits the sketch ({self._residual})"
            return f"No clusters: one Gaussian {fit}." if k == 1 else f"{found}: a mixture of {k} Gaussians {fit}."
        if len(self.silhouettes) < k - 1 or not self.silhouettes:
            return f"{found}." if k > 1 else f"{found}: there are too few distinct rows."
        if k == 1:
            return "No evident clusters: for no k are they more separate than in rows without clusters."
        silhouette, reference, agreement = (
            values[k - 2] for values in (self.silhouettes, self.references, self.agreements)
        )
        said = (
            f"mean silhouette {silhouette:.2f}, and {reference:.2f} in rows without clusters; clusters of two halves "
            f"agree to {agreement:.2f} (1 is equal, 0 is chance)"
        )
        if not self.evident:
            return f"No evident clusters; {k} are the best partition: {said}."
        return f"{found}, {'stable' if agreement >= STABLE else 'not stable'}: {said}."

    def table(self) -> list[str]:
        """Lines of a table of all numbers of clusters that were tried."""
        columns = {"criterion": _with_errors(self.criteria, self.criterion_errors)} if self.criteria else {}
        if self.silhouettes:
            more = {
                "silhouette": self.silhouettes,
                "without clusters": self.references,
                "halves agree": self.agreements,
            }
            columns |= {name: ["", *(f"{value:.2f}" for value in values)] for name, values in more.items()}
        n = max(map(len, columns.values()), default=0)
        if not n:
            return []
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
        if isinstance(form, dict) and "inertias" in form:  # written by an earlier version
            form = {name: form.get(name, []) for name in names} | {
                "basis": EARLIER.get(str(form.get("basis")), ""),
                "evident": True,
            }
        if not isinstance(form, dict) or sorted(form) != sorted(names):
            raise ValueError(f"choice must have the fields {', '.join(names)}")
        if not isinstance(form["basis"], str) or form["basis"] not in Basis.__members__:
            raise ValueError(f"choice: {shortened(form['basis'])} is not a basis")
        if form["covariance_type"] not in ("diag", "full"):
            raise InvalidValueError(f"choice: {Parameter('covariance_type')} must be diag or full")
        read: dict[str, Any] = {name: _numbers(name, form[name]) for name in names[7:-1]}
        read |= {name: whole(name, form[name], 1, MOST_CLUSTERS) for name in ("n_clusters", "most", "low", "high")}
        if read["silhouettes"] and len({len(read[name]) for name in ("silhouettes", "references", "agreements")}) > 1:
            raise ValueError("choice: silhouettes, references and agreements must be of the same numbers of clusters")
        read |= {"evident": truth("evident", form["evident"]), "basis": Basis[form["basis"]]}
        read["misfit"] = None if form["misfit"] is None else number("misfit", form["misfit"])
        return cls(**read, covariance_type=form["covariance_type"])


def _numbers(name: str, form: Any) -> tuple[float, ...]:
    if not isinstance(form, list) or len(form) > MOST_CLUSTERS:
        raise ValueError(f"choice: {name} must be a list of numbers")
    return tuple(number(name, item) for item in form)


def _with_errors(values: Sequence[float], errors: Sequence[float]) -> list[str]:
    pairs = zip(values, errors, strict=True)
    return [f"{in_certain_digits(value, error)} +- {in_digits(error, 1 if error else 2)}" for value, error in pairs]


MOST_ROWS = 1500  # More rarely change k, and take longer.
MOST_COMPONENTS = 32  # principal components of the rows, for speed
STARTS = 3  # of k-means
SPLITS = 10  # of the rows, into halves
STABLE = 0.8  # adjusted Rand index of the clusters of two halves
REFERENCES, ROWS_OF_REFERENCE = 4, 500  # tables of each kind without clusters
EVIDENT_DEVIATIONS, LEAST_DEVIATION = 4.0, 5e-3  # of the mean silhouette of such a table


class ClusterCurve(NamedTuple):
    """k-means of rows for k = 2, 3, ...: how separate clusters are, and how alike those of two halves of the rows.

    Clusters of a half extend to all rows by the nearest center; two halves agree by the adjusted Rand index. References
    are mean silhouettes of k-means of rows without clusters: Gaussian ones, and uniform ones in a box.
    """

    silhouettes: Double
    references: Double  # (2, k): of Gaussian, and of uniform rows
    reference_errors: Double  # (2, 1): standard deviations of one table's silhouette
    agreements: Double
    agreement_errors: Double

    @classmethod
    def of(cls, rows: Double, most: int, rng: np.random.Generator, say: Say | None = None) -> ClusterCurve:
        """The curve of rows of equal weight, or of a sample of them, for k up to `most`.

        >>> rng = np.random.default_rng(0)
        >>> rows = rng.standard_normal((300, 2)) + 10 * rng.integers(0, 3, (300, 1))
        >>> int(np.argmax(ClusterCurve.of(rows, 6, rng).scores)) + 2
        3
        """
        rows = _principal_components(some_rows(rows, MOST_ROWS, rng))
        if min(most, len(rows) // 2) < 2:
            return cls(np.zeros(0), np.zeros((2, 0)), np.zeros((2, 1)), np.zeros(0), np.zeros(0))
        orders = [rng.permutation(len(rows)) for _ in range(SPLITS)]
        halves = [[rows[order[start::2]] for start in (0, 1)] for order in orders]
        sizes = range(2, min(most, *(len(np.unique(half, axis=0)) for pair in halves for half in pair)) + 1)
        agreements = np.zeros((len(sizes), SPLITS))
        for split, pair in enumerate(halves):
            if say is not None:
                say(f"k-means of halves of the rows, with 2 to {most} clusters: {split + 1} of {SPLITS}")
            labels = [_labels(half, sizes, rng, rows) for half in pair]
            agreements[:, split] = [adjusted_rand_score(*both) for both in zip(*labels, strict=True)]
        tables = [_silhouettes(table, sizes, rng) for table in _without_clusters(rows, rng)]
        kinds = np.reshape(tables, (2, REFERENCES, len(sizes)))
        deviations = np.sqrt(np.mean(kinds.var(axis=1, ddof=1), axis=1, keepdims=True)) if sizes else np.zeros((2, 1))
        return cls(
            _silhouettes(rows, sizes, rng),
            kinds.mean(axis=1),
            np.maximum(deviations, LEAST_DEVIATION),
            np.maximum(agreements.mean(axis=1), 0.0),
            agreements.std(axis=1, ddof=1) / np.sqrt(SPLITS),
        )

    @property
    def clearer(self) -> NDArray[np.bool_]:
        """Whether clusters are clearly more separate than in Gaussian, and in uniform rows without any: (2, k)."""
        return self.silhouettes > self.references + EVIDENT_DEVIATIONS * self.reference_errors

    @property
    def separation(self) -> Double:
        """The silhouettes over those of rows without clusters, the mean of both kinds."""
        return self.silhouettes / np.maximum(self.references.mean(axis=0), LEAST_DEVIATION)

    @property
    def scores(self) -> Double:
        """The criterion: the separation of clusters, times the square of the agreement of halves."""
        return self.separation * self.agreements**2


def _labels(rows: Double, sizes: Sequence[int], rng: np.random.Generator, of: Double) -> list[Labels]:
    """The nearest centers, of k-means of rows for these k, of some rows."""
    seen = KMeansOfRows(rows, fine=True)
    return [nearest(of, seen.centers_of(seen.best_of_starts(k, rng, STARTS)))[0] for k in sizes]


def _silhouettes(rows: Double, sizes: Sequence[int], rng: np.random.Generator) -> Double:
    """The mean silhouettes of k-means of rows, for these k."""
    distances = cdist(rows, rows).astype(np.float32)
    return np.array([silhouette(distances, labels) for labels in _labels(rows, sizes, rng, rows)])


def _principal_components(rows: Double) -> Double:
    away = rows - rows.mean(axis=0)
    return np.asarray(away @ np.linalg.svd(away, full_matrices=False)[2][:MOST_COMPONENTS].T)


def _without_clusters(rows: Double, rng: np.random.Generator) -> Iterator[Double]:
    """Gaussian rows, then uniform rows in a box, with the deviations or the extent of principal components."""
    shape = min(len(rows), ROWS_OF_REFERENCE), rows.shape[1]
    for _ in range(REFERENCES):
        yield rng.standard_normal(shape) * rows.std(axis=0)
    for _ in range(REFERENCES):
        yield rng.uniform(rows.min(axis=0), rows.max(axis=0), shape)


def silhouette(distances: Single, labels: NDArray[np.int32]) -> float:
    """The mean silhouette of rows with these distances from each other; a row alone in its cluster has 0.

    >>> rows = np.array([[0.0], [1.0], [10.0]], np.float32)
    >>> round(silhouette(abs(rows - rows.T), np.array([0, 0, 1], np.int32)), 3)
    0.596
    """
    member = np.eye(int(labels.max()) + 1, dtype=np.float32)[labels]
    sizes, own = member.sum(axis=0), member.astype(bool)
    sums = distances @ member
    inside = sums[own] / np.maximum(sizes[labels] - 1, 1)
    others = np.min(np.where(own | (sizes == 0), np.inf, sums / np.maximum(sizes, 1)), axis=1)
    apart = (others - inside) / np.maximum(np.maximum(others, inside), 1e-30)
    return float(np.mean(np.where(sizes[labels] > 1, apart, 0.0)))


def some_rows(rows: Double, most: int, rng: np.random.Generator) -> Double:
    return rows if len(rows) <= most else rows[rng.permutation(len(rows))[:most]]


MOST_NOISE = 0.1  # of a private release, in the squared error of its cells
UNSURE_DEVIATIONS = 2.0  # of a criterion: numbers of clusters within so many standard errors are equally good


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


NUMBERS_PER_PARAMETER = 3  # of the largest mixture
RECORDS_PER_PARAMETER = 3  # With fewer, no criterion distinguishes clusters from chance.
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

    With a sample of rows, clusters should be separate (by the mean silhouette, relative to rows without clusters) and
    stable (clusters of two halves of the rows agree). Without one, rows are drawn from the cells of the sketch. From
    frequencies alone, mixtures of 1, 2, ... Gaussians are fitted to the sketch: if one fits, the Bayesian information
    criterion chooses the number; if none does, rows are drawn from a density that was fitted to the sketch.

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
    sketch: Sketch,
    most: int,
    sample: RowSample | None,
    rng: np.random.Generator,
    say: Say | None = None,
    *,
    of_mixture: bool = False,
) -> ClusterChoice:
    """The choice from a sketch and, where there are some, rows; progress goes to `say`.

    Rows decide about clusters. About the components of a mixture they only decide if no mixture fits the sketch.
    """
    require_enough_shares(sketch.ledger)
    with one_blas_thread():
        cells = Cells.of(sketch)
        rows = None if sample is None else _representative(sketch, sample, cells, rng)
        if rows is not None and (cells is not None or not of_mixture):
            return _of_rows(rows, min(most, len(rows)), Basis.ROWS, rng, say)
        if cells is not None:
            return _of_cells(sketch, cells, most, rng, say)
    choice = _of_frequencies(sketch, most, rows, rng, say)
    if choice.basis in (Basis.GAUSSIANS, Basis.DENSITY):
        k = choice.n_clusters
        _warn_of_design(sketch, k, most, f"{k} clusters are more than such a sketch is designed for, and uncertain")
    return choice


def _of_frequencies(
    sketch: Sketch, most: int, rows: Double | None, rng: np.random.Generator, say: Say | None
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
    determined = int(sketch.count / (RECORDS_PER_PARAMETER * per_component))
    tested = min(reach, determined, n_affordable(problem, DiagonalGaussian()))
    if target.released and not tested:
        return nothing_seen
    path = None
    if target.whole and target.imaginary and tested:
        # Without one_blas_thread, as matrices are large enough for threads.
        path = number_of_gaussians(problem, density, float(sketch.count), tested, say)
        if path.explains and (path.n_components < tested or tested == reach):
            return _of_gaussians(path, reach)
    misfit, basis = None if path is None else path.misfit, Basis.DENSITY if rows is None else Basis.ROWS
    with one_blas_thread():
        if rows is None:
            n = min(MOST_ROWS, max(2, int(sketch.count)))  # More would understate the errors.
            rows = density.heavy().sample(n, rng)[0] / error_units(sketch.operator)
        choice = replace(_of_rows(rows, reach, basis, rng, say), misfit=misfit)
    hidden = basis is Basis.DENSITY and hidden_by_noise(target, choice.n_clusters)
    return nothing_seen if hidden else choice


def _of_gaussians(path: ComponentPath, most: int) -> ClusterChoice:
    above, errors = path.criteria - path.criteria.min(), path.errors
    near = np.flatnonzero(above <= UNSURE_DEVIATIONS * errors) + 1
    k = path.n_components
    full = not isinstance(path.chosen.mixture.model, DiagonalGaussian)
    hidden = bool(path.target.released) and path.least_share > 0.5 / (k + 1)
    basis, high = (Basis.HIDDEN, most) if hidden else (Basis.GAUSSIANS, max(k, *near.tolist()))
    kind = "full" if full else "diag"
    return ClusterChoice(k, most, basis, min(k, *near.tolist()), high, path.misfit, kind, plain(above), plain(errors))


def _of_cells(sketch: Sketch, cells: Cells, most: int, rng: np.random.Generator, say: Say | None) -> ClusterChoice:
    """The choice from cells.

    In directions of many columns, it is that of Gaussians of groups of cells, as silhouettes are small there. Otherwise
    it is that of rows drawn from the cells, of which the noise of a private release may hide some.
    """
    groups = CellClusters.of_each(cells) if sketch.ledger is None and not cells.operator.in_columns else None
    if groups is not None:
        return _of_groups(groups, independent_records(sketch), most)
    if cells.error_of_noise(cells.scaled) > MOST_NOISE:
        return ClusterChoice(1, most, Basis.HIDDEN, 1, most)
    choice = _of_rows(cells.sample(MOST_ROWS, rng), min(most, len(cells)), Basis.CELLS, rng, say)
    hidden = cells.noise > 0 and (choice.n_clusters == 1 or len(cells) < cells.operator.n_cells)
    return replace(choice, basis=Basis.HIDDEN, high=most) if hidden else choice


def _of_groups(groups: CellClusters, n: float, most: int) -> ClusterChoice:
    """The choice from cells of n records, merged pair by pair while a single Gaussian describes both better."""
    penalty = 0.5 * np.log(n) * (groups.places.shape[1] + 2)  # BIC's, of a center, a variance and a weight
    reach = min(most, len(groups.shares))
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
    found = ClusterChoice(best + 1, reach, Basis.GAUSSIANS, int(near.min()), int(near.max()))
    return replace(found, criteria=plain(above), criterion_errors=plain(errors))


def _of_rows(rows: Double, most: int, basis: Basis, rng: np.random.Generator, say: Say | None) -> ClusterChoice:
    """The number with the best criterion.

    It is 1 if clusters are at no k more separate than in Gaussian rows, unless rows are too few to tell. Of rows drawn
    from cells or a density, whose components can look like clusters, it is a number at which clusters are evident, and
    1 if none of them has a criterion above 1.
    """
    curve = ClusterCurve.of(rows, most, rng, say)
    clearer = curve.clearer
    evident = np.append(False, clearer.all(axis=0))
    of_rows = np.full(len(curve.scores), clearer[0].any() or len(rows) < ROWS_OF_REFERENCE)
    possible = np.append(True, of_rows if basis is Basis.ROWS else evident[1:])
    one = 0.0 if basis is Basis.ROWS else 1.0  # as separate as rows without clusters, and stable
    scores = np.where(possible, np.append(one, curve.scores), 0.0)
    errors = np.append(0.0, 2 * curve.separation * curve.agreements * curve.agreement_errors)
    k, below = int(np.argmax(scores)) + 1, scores.max() - scores
    near = np.flatnonzero(possible & (below <= UNSURE_DEVIATIONS * np.hypot(errors, errors[k - 1]))) + 1
    return ClusterChoice(
        k,
        most,
        basis,
        int(near.min()),
        int(near.max()),
        criteria=plain(below) if k > 1 else (),
        criterion_errors=plain(errors) if k > 1 else (),
        silhouettes=plain(curve.silhouettes),
        references=plain(curve.references.max(axis=0)),
        agreements=plain(curve.agreements),
        evident=bool(evident[k - 1]),
    )


def _representative(sketch: Sketch, sample: RowSample, cells: Cells | None, rng: np.random.Generator) -> Double | None:
    """Rows of equal weight, in the columns and units of errors: drawn by weights that are calibrated to the sketch."""
    rows = sample.rows
    if len(rows) < LEAST_ROWS and not sample.complete:
        return None
    weighted = rows if sample.complete or cells is not None else calibrated(sketch, [rows], rng)[0]
    if sample.complete and np.allclose(weighted.weights, 1 / len(rows)):
        chosen = np.arange(len(rows))
    else:  # repeated rows would understate the errors
        n = max(1, min(MOST_ROWS, int(weighted.effective_size)))
        chosen = systematic_draws(weighted.weights / weighted.weights.sum(), n, rng.random())
    found = weighted.rows[chosen]
    if cells is None:
        return np.asarray(found / sample.units)
    found = cells.operator.of_length_one(found) if cells.operator.normalize else found
    return np.asarray(found[:, cells.counted] / cells.units)
