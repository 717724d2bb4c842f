"""k-means and k-medians from a sketch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter
from sketchlearn.core.messages import in_digits, warn_caller
from sketchlearn.core.values import shortened
from sketchlearn.estimators.base.components import (
    SAMPLED_PER_COMPONENT,
    FittedComponents,
    NearestClusters,
    StepEstimator,
    array_blocks,
    largest_first,
    require_rows,
)
from sketchlearn.estimators.base.model import Document, flag, model_array
from sketchlearn.estimators.base.state import DesignSample, FittedState, IncomingRows, error_units, kept_rows
from sketchlearn.estimators.clusters.of_fourier import (
    MOST_ERROR_OF_NOISE,
    RELEASE_MORE,
    Decoded,
    SketchOfSums,
    Task,
    are_few,
    clusters_of_sketch,
    clusters_with_rows,
    mixture_clusters,
    point_clusters,
)
from sketchlearn.estimators.design.cells import CellsAsked, SampleFrame, cells_on_sample
from sketchlearn.estimators.design.column_ranges import extremes
from sketchlearn.estimators.design.sample_summary import MOST_ROWS, thinned
from sketchlearn.estimators.number_of_clusters import ClusterChoice
from sketchlearn.features import families
from sketchlearn.features.cell_sums import CellSums
from sketchlearn.features.families import AUTO, Fourier, former_parameters
from sketchlearn.features.histograms import Histograms
from sketchlearn.features.operator import Operator
from sketchlearn.features.provenance import Origin
from sketchlearn.inference.calibration import WeightedRows
from sketchlearn.inference.cells import Cells, Members, no_distances_of_cells
from sketchlearn.inference.decoders import decoder_from
from sketchlearn.inference.decoders.loop import Outcome, Status
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import DiagonalGaussian, Dirac, Mixture
from sketchlearn.inference.errors.clusters import (
    ROUNDING,
    errors_of_cells,
    errors_of_density,
    errors_of_rows,
    mean_cost_of_cells,
)
from sketchlearn.inference.errors.values import ErrorBars, RowMean
from sketchlearn.inference.kmeans import kmeans, nearest
from sketchlearn.inference.moments import part_of
from sketchlearn.inference.weighted_clusters import DistanceLoss, RowSample, SquaredLoss, clusters_of, clusters_of_rows
from sketchlearn.kernels.dispatch import nearest_centers, one_blas_thread
from sketchlearn.sketch.sums import Sketch


@dataclass(frozen=True, eq=False, kw_only=True)
class Clusters(FittedComponents):
    """Centers, their weights, and the density that they were taken from."""

    kind_of_part = "cluster"

    centers: Double = model_array("k", "d")
    #: of distances, with `standardize=True`
    units: Double | None = model_array("d", optional=True, default=None)
    #: True where rows are divided by their lengths first
    normalize: bool | None = flag(optional=True, default=None)
    #: 1 for passive columns, which distances leave out; 0 for others
    along: Double | None = model_array("d", optional=True, default=None)

    def check(self) -> None:
        super().check()
        if self.along is not None and not (np.all(np.isin(self.along, (0, 1))) and np.any(self.along == 0)):
            raise InvalidValueError(
                "must be 1 for profile columns and 0 for others, of which there are some", parameter="along"
            )
        if self.units is not None and not np.all(self.units > 0):
            raise ValueError("units must be positive")

    @property
    def centers_of_parts(self) -> Double:
        return self.centers

    @property
    def deviations_of_parts(self) -> Double:
        """Those of the components of the density nearest to each center; NaN in a model from a file."""
        density, owners = self.density, self.nearest(self.density.locations)
        variances, found = density.variances(), np.full(self.centers.shape, np.nan)
        for i in np.unique(owners):
            own = owners == i
            shares = density.weights[own] / max(density.weights[own].sum(), 1e-300)
            away = density.locations[own] - shares @ density.locations[own]
            found[i] = np.sqrt(shares @ (variances[own] + away**2))
        return np.where(found > 0, found, np.nan)

    def restored_density(self) -> Mixture:
        return Mixture(Dirac(), self.weights, self.centers, np.zeros((1, 0)))

    def distances(self, rows: NDArray[Any]) -> Double:
        """Of each row to each center."""
        rows, scale = self.as_learned(rows), self.scale
        if scale is None:
            return np.asarray(euclidean_distances(rows, self.centers))
        return np.asarray(euclidean_distances(rows * scale.astype(rows.dtype), self.centers * scale))

    @cached_property
    def scale(self) -> Double | None:
        """Factors of the columns in distances; None if all are 1."""
        if self.along is None:
            return None if self.units is None else 1 / self.units
        return (1 - self.along) / (1.0 if self.units is None else self.units)

    def as_learned(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows, divided by their lengths if `normalize`."""
        if not self.normalize:
            return rows
        lengths = np.linalg.norm(rows, axis=1)
        return np.asarray(rows / np.where(lengths > 0, lengths, 1)[:, None].astype(rows.dtype))

    def nearest(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        return self.nearest_and_squares(rows)[0]

    def nearest_and_squares(self, rows: NDArray[Any], n_jobs: int | None = None) -> tuple[NDArray[np.int32], Double]:
        """The nearest center of each row and its squared distance, around the centers' mean."""
        middle = self.centers.mean(axis=0)
        scale = np.ones(self.centers.shape[1]) if self.scale is None else self.scale
        plain = (self.centers - middle) * scale
        return nearest_centers(self.as_learned(rows), plain, middle, scale, n_jobs)

    def most_to_gain(self, before: Clusters, rows: NDArray[Any], weights: Double) -> float:
        """An upper limit of the share of the squared error that the next of Lloyd's steps saves, on a weighted sample.

        `before` has the centers from which a step led to these.
        """
        (labels, squares), cells = self.nearest_and_squares(rows), before.nearest(rows)
        moved = labels != cells
        away = self.as_learned(rows[moved]) - self.centers[cells[moved]]
        away = away if self.scale is None else away * self.scale
        saved = weights[moved] * (np.sum(away**2, axis=1) - squares[moved])
        # as much again by the means that move; three standard errors
        return 2 * float(saved.sum() + 3 * np.sqrt(np.sum(saved**2))) / max(float(np.sum(weights * squares)), 1e-300)


ROUNDS, STILL = 100, 1e-6
LEAST_MOVE = 1e-12  # of the squared error: less is the rounding of points to float32
LEAST_GAIN = 1e-5  # of the squared error, that is worth a pass over rows in memory: docs/decisions/by-cost.md


@dataclass(frozen=True)
class CellStep:
    """A step on all records: Lloyd's to the means of the records of cells, or Weiszfeld's towards their medians."""

    cells: Cells
    after: Double  # the points of cells after the step
    cost: float  # mean squared distance of records from them, in error units, or mean distance, at most
    gain: float  # the share of what is minimized that the step took away, at least
    lowered: str = "squared error"
    centers: Double | None = None  # where the passes go on, if not from the points after the step

    @property
    def n_parts(self) -> int:
        return len(self.cells)

    @property
    def points(self) -> Double:
        """The points of cells before the step."""
        return self.cells.operator.points[self.cells.there]

    @cached_property
    def too_close(self) -> bool:
        """Whether float32 cannot resolve which point is nearest."""
        return self.cells.too_close(self.points if self.centers is None else self.centers)

    @property
    def gain_in_words(self) -> str:
        return f"lowered the {self.lowered} by a share of {in_digits(self.gain, 2)}"

    @property
    def settled(self) -> bool:
        return self.centers is None and self.gain <= LEAST_GAIN

    @property
    def still(self) -> bool:
        return self.centers is None and (self.gain <= LEAST_MOVE or self.too_close)

    @property
    def doubts(self) -> tuple[str, ...]:
        return () if self.too_close else self.cells.doubts(float(self.cells.shares @ self.cells.within))

    def next_operator(self) -> CellSums:
        return self.cells.operator.moved_to(self.after if self.centers is None else self.centers)


def step_of_cells(cells: Cells, loss: SquaredLoss) -> CellStep | None:
    """The step that cells determine exactly; None in directions, with noise, or without what medians need."""
    if not cells.operator.in_columns or cells.noise:
        return None
    if isinstance(loss, DistanceLoss):
        if cells.towards_medians is None:
            return None
        points, before, gained = cells.towards_medians
        return CellStep(cells, points, before - gained, gained / max(before, 1e-300), "sum of distances")
    cost = float(cells.shares @ cells.within)
    away = (cells.means - cells.operator.points[cells.there]) / cells.units
    gain = float(cells.shares @ np.sum(away**2, axis=1))
    return CellStep(cells, cells.means, cost, gain / max(gain + cost, 1e-300))


def clusters_of_cells(cells: Cells, k: int, loss: SquaredLoss, rng: np.random.Generator) -> Decoded:
    """The best clusters of cells, as weighted points; k-medians take the spread within cells into account."""
    cells.require(k)
    if k == len(cells) and (step := step_of_cells(cells, loss)) is not None:
        return clusters_of_step(step)
    sample = RowSample(WeightedRows.of(cells.scaled, cells.shares), np.ones(len(cells.counted)))
    centers, _ = clusters_of_rows(sample, k, SquaredLoss(), rng)
    if isinstance(loss, DistanceLoss):
        centers = _medians(cells, centers)
    doubts = cells.doubts(cells.cost(centers))
    if cells.error_of_noise(centers) > MOST_ERROR_OF_NOISE:
        doubts += (f"clusters may be poor, as the noise of the release is large: {RELEASE_MORE}",)
    members = Members(nearest(cells.scaled, centers)[0], cells.shares, k)
    squares = cells.squares if cells.squares.ndim > 1 else None
    lifted = members.means(cells.means)  # of passive columns
    lifted[:, cells.counted] = centers * cells.units
    return _decoded(lifted, members, cells.means, squares, Status.CELLS, doubts)


def clusters_of_step(step: CellStep) -> Decoded:
    """Each cell as a cluster, with its point after the step as its center."""
    cells = step.cells
    members = Members(np.arange(len(cells)), cells.shares, len(cells))
    return _decoded(step.after, members, cells.means, cells.squares, Status.STEP, step.doubts)


def clusters_of_all_rows(
    operator: CellSums, rows: RowSample, k: int, loss: SquaredLoss, rng: np.random.Generator
) -> Decoded:
    """Clusters of all records, if they are so few that the sample has all."""
    counted, every = operator.counted, rows.rows
    own = every.rows[:, counted]
    sample = RowSample(replace(every, rows=own), rows.units[counted], True)
    centers, _ = clusters_of_rows(sample, k, loss, rng)
    labels = nearest(sample.scaled(own), sample.scaled(centers))[0]
    members = Members(labels, every.weights / every.weights.sum(), k)
    lifted = members.means(every.rows)  # of passive columns
    lifted[:, counted] = centers
    return _decoded(lifted, members, every.rows, np.zeros_like(every.rows), Status.ALL_ROWS, ())


def _decoded(
    centers: Double, members: Members, points: Double, squares: Double | None, status: Status, doubts: tuple[str, ...]
) -> Decoded:
    """Clusters, with the variances of their records if squares within points are known by column."""
    shares = members.sizes
    density = Mixture(Dirac(), shares, centers, np.zeros((1, 0)))
    if squares is not None:
        variances = members.means(squares + (points - centers[members.owners]) ** 2)
        density = Mixture(DiagonalGaussian(), shares, centers, variances)
    return Decoded(
        centers, shares, density, Outcome(density, 0.0, 0.0, int(status in (Status.STEP, Status.CELLS)), status), doubts
    )


def _medians(cells: Cells, centers: Double) -> Double:
    """Weiszfeld's steps, in units, with root mean square distances of the records of each cell."""
    within, middle = cells.within, cells.shares @ cells.scaled
    rows, found = cells.scaled - middle, centers - middle
    tiny = 1e-12 * max(float(cells.shares @ np.sum(rows * rows, axis=1)), 1e-300)
    for _ in range(ROUNDS):
        labels, squares = nearest(rows, found)
        squares += within
        pulls = Members(labels, cells.shares / np.sqrt(squares + tiny), len(found))
        moved = np.where(pulls.sizes[:, None] > 0, pulls.means(rows), found)
        change = float(np.max(np.sum((moved - found) ** 2, axis=1)))
        found = moved
        if change <= STILL * tiny * 1e12:
            break
    return np.asarray(found + middle)


TOO_CLOSE = (
    "some clusters are much closer to each other than to the mean of all rows: in float32, rows may count in the wrong "
    "one. Fit an array, whose rows are compared again one by one, or subtract large offsets"
)
ROWS_AT_ONCE = 1 << 18  # whose distances are in memory
ROWS_FOR_GAIN = 20_000  # drawn to estimate what another pass would gain
FEWEST_ROWS_TO_ESTIMATE_GAIN = 200_000  # a pass over fewer costs no more than the estimate
NO_ERRORS_OF_SUMS = "random projections do not determine them: design the sketch on a sample of rows"
NO_MEDIANS_OF_SUMS = "random projections determine means alone: design the sketch on a sample, or learn k-means"
MOST_WIDER = 0.02  # relative difference of squared distances from centers, of all rows and of the pilot's sample
LEAST_DISTANCE = 1e-3  # of a row from its median, in mean distances: nearer rows weigh no more
SHARE_BESIDE_ATOMS = 0.5  # of rows in the centers, if support points are added to them


@former_parameters
@dataclass(eq=False, repr=False)
class SketchKMeans(NearestClusters, StepEstimator):
    """k-means of rows, or from a sketch alone.

    From rows: the k-means of a sample, then one exact step of Lloyd's algorithm on all rows per pass. From a sketch of
    random frequencies: a mixture of Gaussians with more components than clusters is fitted to the sketch and reduced to
    its best k centroids.

    Parameters
    ----------
    n_clusters : number of clusters; "auto" estimates it from the sketch (see `choose_k`).
    max_clusters : the largest number that "auto" tries.
    decoder : "auto", the name of another decoder, or a `sketchlearn.inference.decoders.loop.Decoder`.
    features : `skl.features.Cells` or `skl.features.Fourier`, with the sizes and kinds of features. None chooses: cells
        at the k-means of a sample, in the columns or, above 64 columns, in principal directions of the sample (see
        "Hundreds of columns" in the documentation); random frequencies for tables with a schema, for streams, for a
        named decoder, and up to 64 columns for n_clusters="auto".
    standardize : measure errors in units of each column's standard deviation, so that columns of different kinds
        (money, ages, booleans) matter alike; centers stay in the units of the table. `fit_sketch` takes it from the
        sketch's operator.
    profile_columns : passive columns, by name or position: clusters are those of the other columns, and
        `cluster_centers_` has the means of these over all records of each cluster; so has `profiles`. Rows to predict
        have these columns as well, which do not count.
    n_passes : number of passes over the rows, with cells in the columns: each is a step of Lloyd's algorithm on all
        rows. "auto": for arrays, data frames and rows on a GPU, until a pass gains less than 1e-5 of the squared error
        (of the distances, for k-medians), or a sample shows that the second one would, at most a hundred; otherwise
        (files, Dask, Spark) one.
    random_state : seed of the operator and of the search.
    n_jobs : threads for sketching; None means all cores.
    device : where rows are sketched: "cpu", "cuda", "cuda:1" or "auto"; None means where they are, so that arrays of
        torch, CuPy and JAX on a GPU stay there.
    verbose : 1 shows progress on standard error.
    schema : a `Schema`, which encodes text, categories, booleans, dates and missing values as numbers; "auto" takes the
        one that `skl.schema` proposes. Rows are then tables with column names.

    Attributes
    ----------
    cluster_centers_ : array (n_clusters, columns). Clusters are numbered by their weights: cluster 0 is the largest.
    weights_ : estimated proportion of the rows in each cluster.
    labels_ : the cluster of each row, after `fit` on an array or data frame only.
    inertia_, inertia_error_ : the sum of squared distances of all sketched rows to their nearest center, in the units
        of errors, and its standard error: 0 if all rows were in memory. Otherwise estimated from a sample of rows and
        the sketch; both are None, with a warning, if that is not possible.
    sketch_ : the sketch; it can be saved, merged, updated and given to `fit_sketch`.
    outcome_ : the outcome of decoding.
    standard_errors_ : standard errors of `cluster_centers_` and `weights_`, as estimates of those of the distribution
        that the rows are a sample of. Rows are taken to be independent; one of a whole weight w is w rows, fractions
        are weights of a survey. Noise of a private release, one-bit waves and subsampling are included. They come from
        a mixture that explains the sketch, from sampled rows of any distribution, or from cells, for well-separated
        clusters; otherwise a warning says why they are not reported.
    n_clusters_, choice_ : the number of clusters, and how it was chosen, if it was (a `ClusterChoice`).

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 2)) + 10 * rng.integers(0, 2, (2000, 1))
    >>> clusters = skl.SketchKMeans(2, random_state=0).fit(X)
    >>> sorted(clusters.cluster_centers_.round().astype(int).tolist())
    [[0, 0], [10, 10]]
    >>> clusters.standard_errors_["cluster_centers_"].round(2).tolist()
    [[0.03, 0.03], [0.03, 0.03]]
    >>> [end.round(2).tolist() for end in clusters.intervals(level=0.95)["weights_"]]
    [[0.5, 0.45], [0.55, 0.5]]
    """

    n_clusters: int | str = 8
    _: KW_ONLY
    standardize: bool = False
    profile_columns: Any = None

    model_type = Clusters
    _learns_points = True
    _loss: ClassVar[Any] = SquaredLoss()

    @classmethod
    def parameters_of(cls, model: Clusters) -> Document:
        return {"n_clusters": len(model.weights)}

    @property
    def _number(self) -> int | str:
        return self.n_clusters

    def check_parameters(self) -> None:
        super().check_parameters()
        if isinstance(self.features, families.Cells) and self.decoder != AUTO:
            raise ValueError(f"decoder {shortened(self.decoder)} is for frequencies: leave it out, or leave out cells")
        other = isinstance(self._wanted_features, Fourier) or self.features == families.Cells(n_directions=0)
        if self.profile_columns is not None and (other or self._chooses):
            remedy = f"give {Parameter('n_clusters')} a number, and leave out decoder and features"
            raise InvalidValueError("need cells in directions", remedy, parameter="profile_columns")

    @property
    def cluster_centers_(self) -> NDArray[Any]:
        centers: Double = self.fitted_model().centers
        return centers.astype(self._row_type, copy=False)

    @property
    def n_clusters_(self) -> int:
        return len(self.weights_)

    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator, sample: RowSample | None = None) -> Clusters:
        if (cells := Cells.of(sketch)) is not None:
            return self._of_cells(sketch, cells, rng)
        of_sums = SketchOfSums.of(sketch)
        if of_sums is not None and isinstance(self._loss, DistanceLoss):
            raise ValueError(NO_MEDIANS_OF_SUMS)
        seen, sample = (sketch, self._sample(sketch, sample)) if of_sums is None else (of_sums.sums, None)
        k, choice = self._chosen(seen, sample, rng)
        self._check_determined(seen, sample, k)
        progress, decoder = self._say if self.verbose else None, decoder_from(self.decoder)
        task = Task(seen, Problem.of(Target.of(seen), k), error_units(seen.operator), self._loss, rng, progress)
        if sample is not None:
            found = clusters_with_rows(task, sample)
        elif of_sums is not None:
            found = of_sums.lifted(clusters_of_sketch(task, decoder), rng)
        elif self.decoder == "auto":
            found = clusters_of_sketch(task, decoder)
        else:  # a decoder that is named has no other beside it
            found = point_clusters(task, decoder) if decoder.points else mixture_clusters(task, decoder)
        return self._model(sketch, found, choice)

    def _of_cells(self, sketch: Sketch, cells: Cells, rng: np.random.Generator) -> Clusters:
        rows, operator = kept_rows(sketch), cells.operator
        k, choice = self._chosen(sketch, rows, rng)
        self.check_size(int(np.ceil(sketch.count)))
        step = operator.in_columns and k == len(cells)
        if step or rows is None or not rows.complete:
            found = clusters_of_cells(cells, k, self._loss, rng)
            if self.step_of(sketch) is not None:  # Those of the last pass are shown later.
                found = replace(found, doubts=())
            return self._model(sketch, found, choice)
        if operator.normalize:
            rows = replace(rows, rows=replace(rows.rows, rows=operator.of_length_one(rows.rows.rows)))
        return self._model(sketch, clusters_of_all_rows(operator, rows, k, self._loss, rng), choice)

    def _model(self, sketch: Sketch, found: Decoded, choice: ClusterChoice | None) -> Clusters:
        """The model, the largest cluster first; warns of doubts."""
        for doubt in found.doubts:
            warn_caller(doubt, ConvergenceWarning)
        self._say(f"{found.outcome.status.value}. {found.outcome.advice}".strip())
        order, operator = largest_first(found.shares), cast("Any", sketch.operator)
        given, part = operator.error_units, operator.part(CellSums)
        passive = None if part is None else part.along
        return Clusters(
            centers=found.centers[order],
            weights=found.shares[order],
            units=None if given is None else np.array(given),
            normalize=(part is not None and part.normalize) or None,
            along=None if passive is None else np.isin(np.arange(part.n_features), passive).astype(np.float64),
            density=found.density,
            outcome=found.outcome,
            choice=choice,
        )

    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:
        model, sketch = state.model, state.sketch
        rows = sketch.kept is not None and len(sketch.kept)
        if (cells := Cells.of(sketch)) is not None and not (cells.operator.in_columns and rows):
            return errors_of_cells(sketch, cells, cells.members(model.centers))
        if SketchOfSums.of(sketch) is not None:
            return ErrorBars(withheld=NO_ERRORS_OF_SUMS)
        units, reason, k = self.distance_units(model), "", len(model.weights)
        if model.outcome.status is Status.EXPLAINED and (len(model.density) <= k or not rows):
            problem = Problem.of(Target.of(sketch), k)
            centers, shares = errors_of_density(sketch, problem, model.density, model.centers, units, rng)
        else:
            if cells is None and model.outcome.status is not Status.EXPLAINED:
                require_rows(model.outcome.status, sketch)
            centers, shares, reason = errors_of_rows(sketch, model.centers, units, rng, decided=cells is None)
        return ErrorBars({"cluster_centers_": centers, "weights_": shares}, reason)

    @property
    def inertia_(self) -> float | None:
        return self._told("inertia_", self.measured()[1].value)

    @property
    def inertia_error_(self) -> float | None:
        return self._told("inertia_error_", self.measured()[1].error)

    def measured(self) -> tuple[str, RowMean]:
        found = self.row_mean()
        assert self._state is not None
        n = float(self.n_records_) * self._state.weight_scale
        if found.value is not None and found.error is not None:
            of_count = 0.0 if self.privacy_ is None else found.value * math.sqrt(self.privacy_.count_variance)
            found = RowMean(found.value * n, math.hypot(found.error * n, of_count))
        return "inertia", found

    def _estimated(self, sketch: Sketch, state: FittedState, rng: np.random.Generator) -> RowMean:
        if SketchOfSums.of(sketch) is not None:
            return RowMean(withheld=NO_ERRORS_OF_SUMS)
        if (cells := Cells.of(sketch)) is None:
            return super()._estimated(sketch, state, rng)
        if sketch.kept is not None and sketch.kept.complete:
            weights = sketch.kept.weights(float(sketch.count))
            return RowMean(float(weights @ self.row_values(state.model, sketch.kept.rows)), 0.0)
        if isinstance(self._loss, DistanceLoss):
            return RowMean(withheld=no_distances_of_cells())
        step = self.step_of(sketch)
        if step is not None and len(cells) == len(state.model.weights):
            # The cost of the partition is exact, and another step would gain about as much at most.
            return RowMean(step.cost * (1 - step.gain / 2), step.cost * (step.gain / 2 + ROUNDING))
        return mean_cost_of_cells(sketch, cells, state.model.centers)

    def row_values(self, model: Clusters, rows: Double) -> Double:
        return self._costs(model.nearest_and_squares(rows)[1])

    def distance_units(self, model: Clusters) -> Double:
        return np.ones(model.centers.shape[1]) if model.units is None else model.units

    def share_of_rows(self, sketch: Sketch, n_rows: int) -> float:
        return SHARE_BESIDE_ATOMS if are_few(n_rows, sketch) and part_of(sketch, Histograms) is not None else 1.0

    def fitted_again(self, model: Clusters, sample: WeightedRows) -> Callable[[Double], Double]:
        units = self.distance_units(model)
        middle = sample.weights @ sample.rows
        rows, centers = (sample.rows - middle) / units, (model.centers - middle) / units
        again = replace(model, centers=middle + units * self._loss.improved(rows, centers, sample.weights))
        return lambda rows: self.row_values(again, rows)

    def design_operator(self, design_sample: DesignSample, rng: np.random.Generator) -> Operator:
        if self._features_for(design_sample) != families.Cells(n_directions=0):
            return super().design_operator(design_sample, rng)
        self._check_distinct(design_sample)
        complete, k, rows = design_sample.complete, self._n_components, design_sample.rows
        once = self.n_passes == 1 or (self.n_passes == AUTO and not design_sample.at_hand)
        seed, n_kept = int(rng.integers(2**31)), self._n_kept(design_sample, k)
        asked = CellsAsked(k, 0, seed, columns_squared=True, standardize=self.standardize, n_kept=n_kept)
        with one_blas_thread():
            medians = isinstance(self._loss, DistanceLoss)
            if self._chooses or (once and not complete and not medians):
                operator = cells_on_sample(asked, design_sample)
            else:
                frame = SampleFrame.of(design_sample, standardize=self.standardize)
                if complete or medians:
                    pilot = clusters_of(WeightedRows.of(frame.rows), k, self._loss, rng)
                else:  # passes over all rows take the last steps
                    pilot = kmeans(frame.rows, k, rng)
                radius = LEAST_DISTANCE * float(np.mean(self._loss.losses(frame.rows, pilot))) if medians else None
                operator = asked.keeping(frame.cells_at(pilot, radius or None), thinned(rows, MOST_ROWS), frame.units)
        if design_sample.everything is not None:
            operator = operator.widened(*extremes(design_sample.everything))
        return operator.with_columns(design_sample.columns).with_origin(Origin.SAMPLE)

    def step_of(self, sketch: Sketch) -> CellStep | None:
        cells = Cells.of(sketch)
        return None if cells is None else step_of_cells(cells, self._loss)

    def at_model(self, step: CellStep, state: FittedState) -> CellStep:
        return step if len(step.cells) == len(state.model.weights) else replace(step, centers=state.model.centers)

    def model_of_step(self, step: CellStep, state: FittedState) -> Clusters:
        return self._model(state.sketch, clusters_of_step(step), state.model.choice)

    def rival_of(self, step: CellStep, state: FittedState) -> CellSums | None:
        """Cells at the clusters of sampled rows, if the pilot's sample has too many or too few far ones."""
        rows, k = kept_rows(state.sketch), len(state.model.weights)
        alike = not step.cells.wider or abs(step.cells.wider - 1) <= MOST_WIDER
        if alike or rows is None or rows.complete or len(rows.rows) < 2 * SAMPLED_PER_COMPONENT * k:
            return None
        centers, _ = clusters_of_rows(rows, k, self._loss, self._generator())
        return step.cells.operator.moved_to(centers)

    def has_little_to_gain(self, step: CellStep, state: FittedState, incoming: IncomingRows) -> bool:
        """Whether another pass would hardly lower the squared error, estimated on random rows and the priority sample.

        A pass gains by rows that change their cluster, and about as much again as these move the means. A step that
        corrects the sampling error of the pilot moves all centers, but hardly any row changes its cluster.
        """
        rows, kept = incoming.array, kept_rows(state.sketch)
        if not isinstance(rows, np.ndarray) or incoming.rows.weights is not None:
            return False
        if kept is None or step.centers is not None or len(rows) < FEWEST_ROWS_TO_ESTIMATE_GAIN:
            return False
        before, after = (replace(state.model, centers=centers) for centers in (step.points, step.after))
        some = rows[self._generator().choice(len(rows), ROWS_FOR_GAIN, replace=False)]
        shares = np.full(len(some), 1 / len(some))
        return all(
            after.most_to_gain(before, *drawn) <= LEAST_GAIN
            for drawn in ((some, shares), (kept.rows.rows, kept.rows.weights))
        )

    def _after_learning(self, state: FittedState, incoming: IncomingRows | None) -> FittedState:
        state = super()._after_learning(state, incoming)
        if incoming is None or incoming.array is None:
            step = self.step_of(state.sketch)
            if step is not None and self.at_model(step, state).too_close:
                warn_caller(TOO_CLOSE, ConvergenceWarning)
        return state

    def _with_array(self, state: FittedState, rows: Any, weights: Any) -> FittedState:
        """Labels of the rows and their cost; where centers are too close for float32, the pilot may cost less."""
        labels, cost = self._nearest_of(state.model, rows, weights)
        step = self.step_of(state.sketch)
        if step is not None and len(step.cells) == len(state.model.weights) and step.too_close:
            before = replace(clusters_of_step(step), centers=step.points)
            pilot = self._model(state.sketch, before, state.model.choice)
            other, less = self._nearest_of(pilot, rows, weights)
            if less < cost:
                labels, cost, state = other, less, replace(state, model=pilot)
        return replace(state, row_labels=labels, row_mean=RowMean(cost, 0.0), row_type=rows.dtype)

    def _nearest_of(self, model: Clusters, rows: Any, weights: Any) -> tuple[NDArray[np.int32], float]:
        n, start, total = rows.shape[0], 0, 0.0
        labels, own = np.empty(n, np.int32), None if weights is None else np.asarray(weights, np.float64)
        for block in array_blocks(rows):
            for first in range(0, len(block), ROWS_AT_ONCE):
                here = slice(start, start + len(block[first : first + ROWS_AT_ONCE]))
                labels[here], squares = model.nearest_and_squares(block[first : first + ROWS_AT_ONCE], self.n_jobs)
                costs, start = self._costs(squares), here.stop
                total += float(costs.sum() if own is None else own[here] @ costs)
        return labels, total / (n if own is None else float(own.sum()))

    def _costs(self, squares: Double) -> Double:
        """The loss of rows, from their squared distances to the nearest center."""
        return np.sqrt(squares) if isinstance(self._loss, DistanceLoss) else squares

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Minus the sum of squared distances of rows to their centers."""
        model = self.fitted_model()
        return -sum(float(model.nearest_and_squares(rows)[1].sum()) for rows in self.row_blocks(X))


@former_parameters
@dataclass(eq=False, repr=False)
class SketchKMedians(SketchKMeans):
    """k-medians: centers with the least sum of distances of rows, rather than of squared distances.

    Each center is the geometric median of its cluster, so that outliers move it less. From rows: the k-medians of a
    sample, then exact steps of Weiszfeld's algorithm on all rows. From a sketch of random frequencies: the best k
    points of the density that is fitted for `SketchKMeans`. `inertia_` is the sum of distances. Parameters and
    attributes are those of `SketchKMeans`.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_normal((2000, 2))
    >>> skl.SketchKMedians(1, random_state=0).fit(X).cluster_centers_.shape
    (1, 2)
    """

    _learns_points = False
    _loss: ClassVar[Any] = DistanceLoss()

    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:  # noqa: ARG002
        return ErrorBars(withheld="they exist for k-means, not for k-medians: learn k-means instead")

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Minus the sum of distances of rows to their centers."""
        return -float(np.sum(self.transform(X).min(axis=1)))
