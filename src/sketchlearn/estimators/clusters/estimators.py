"""k-means and k-medians from a sketch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter, either
from sketchlearn.core.messages import warn_caller
from sketchlearn.core.values import shortened
from sketchlearn.estimators.base.components import (
    SAMPLED_PER_COMPONENT,
    FittedComponents,
    NearestClusters,
    RowMeanEstimator,
    StepEstimator,
    array_blocks,
    largest_first,
    require_rows,
)
from sketchlearn.estimators.base.estimator import model_attribute
from sketchlearn.estimators.base.model import Document, flag, model_array
from sketchlearn.estimators.base.state import DesignSample, FittedState, IncomingRows, error_units, kept_rows
from sketchlearn.estimators.cluster_choice import ClusterChoice
from sketchlearn.estimators.clusters.of_cells import (
    LEAST_GAIN,
    LloydStep,
    clusters_of_all_rows,
    clusters_of_cells,
    clusters_of_step,
    step_of_cells,
)
from sketchlearn.estimators.clusters.of_fourier import (
    SketchOfSums,
    are_few,
    clusters_of_sketch,
    clusters_with_rows,
    mixture_clusters,
    point_clusters,
)
from sketchlearn.estimators.clusters.task import Decoded, Task
from sketchlearn.estimators.design.cells import CellsAsked, SampleFrame, cells_on_sample
from sketchlearn.estimators.design.column_ranges import extremes
from sketchlearn.estimators.design.sample_summary import MOST_ROWS, thinned
from sketchlearn.estimators.number_of_clusters import ChosenNumber
from sketchlearn.features import families
from sketchlearn.features.cell_sums import CellSums
from sketchlearn.features.families import AUTO, Fourier, former_parameters
from sketchlearn.features.histograms import Histograms
from sketchlearn.features.operator import Operator
from sketchlearn.features.provenance import Origin
from sketchlearn.inference.calibration import WeightedRows
from sketchlearn.inference.cells import Cells, no_distances_of_cells
from sketchlearn.inference.decoders import decoder_from
from sketchlearn.inference.decoders.loop import Status
from sketchlearn.inference.decoders.points import centroids, medians
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import Dirac, Mixture
from sketchlearn.inference.errors.clusters import (
    ROUNDING,
    errors_of_cells,
    errors_of_density,
    errors_of_rows,
    mean_cost_of_cells,
)
from sketchlearn.inference.errors.values import ErrorBars, RowMean
from sketchlearn.inference.kmeans import kmeans
from sketchlearn.inference.moments import part_of
from sketchlearn.inference.weighted_clusters import DistanceLoss, RowSample, SquaredLoss, clusters_of, clusters_of_rows
from sketchlearn.kernels.dispatch import nearest_centers, one_blas_thread
from sketchlearn.sketch.sums import Sketch


@dataclass(frozen=True, eq=False, kw_only=True)
class Clusters(FittedComponents):
    """Centers, their shares, and the density they were taken from."""

    kind_of_part = "cluster"

    centers: Double = model_array("k", "d")
    #: in which distances count (`standardize=True`), where they are not those of the table
    units: Double | None = model_array("d", optional=True, default=None)
    #: True where rows are divided by their lengths first
    normalize: bool | None = flag(optional=True, default=None)
    #: 1 for passive columns, of which centers have the means, and which distances do not count; else 0
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
        """Of those components of the density that are nearest to a center; a file has none of them."""
        density, owners = self.density, self.nearest(self.density.locations)
        variances, found = density.variances(), np.full(self.centers.shape, np.nan)
        for i in np.unique(owners):
            own = owners == i
            shares = density.weights[own] / max(density.weights[own].sum(), 1e-300)
            away = density.locations[own] - shares @ density.locations[own]
            found[i] = np.sqrt(shares @ (variances[own] + away**2))
        return np.where(found > 0, found, np.nan)

    def restored_density(self) -> Mixture:
        return Mixture(Dirac(), self.weights, self.centers, np.zeros((len(self.weights), 0)))

    def distances(self, rows: NDArray[Any]) -> Double:
        """Of each row to each center."""
        rows, scale = self.as_learned(rows), self.scale
        if scale is None:
            return np.asarray(euclidean_distances(rows, self.centers))
        return np.asarray(euclidean_distances(rows * scale.astype(rows.dtype), self.centers * scale))

    @cached_property
    def scale(self) -> Double | None:
        """What columns are multiplied by before distances are taken; None for all by 1."""
        if self.along is None:
            return None if self.units is None else 1 / self.units
        return (1 - self.along) / (1.0 if self.units is None else self.units)

    def as_learned(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows as the centers are of: divided by their lengths, if those were."""
        if not self.normalize:
            return rows
        lengths = np.linalg.norm(rows, axis=1)
        return np.asarray(rows / np.where(lengths > 0, lengths, 1)[:, None].astype(rows.dtype))

    def nearest(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """The nearest center of each row."""
        return self.nearest_and_squares(rows)[0]

    def nearest_and_squares(self, rows: NDArray[Any], n_jobs: int | None = None) -> tuple[NDArray[np.int32], Double]:
        """The nearest center of each row and its squared distance, around the centers' mean."""
        middle = self.centers.mean(axis=0)
        scale = np.ones(self.centers.shape[1]) if self.scale is None else self.scale
        plain = (self.centers - middle) * scale
        return nearest_centers(self.as_learned(rows), plain, middle, scale, n_jobs)

    def most_to_gain(self, before: Clusters, rows: NDArray[Any], weights: Double) -> float:
        """An upper limit of the share of the squared error that the next step of Lloyd's algorithm takes away.

        `rows` are a weighted sample; `before` has the centers from which a step led to these.
        """
        (labels, squares), cells = self.nearest_and_squares(rows), before.nearest(rows)
        moved = labels != cells
        away = self.as_learned(rows[moved]) - self.centers[cells[moved]]
        away = away if self.scale is None else away * self.scale
        saved = weights[moved] * (np.sum(away**2, axis=1) - squares[moved])
        # as much again by the means that move; three standard errors
        return 2 * float(saved.sum() + 3 * np.sqrt(np.sum(saved**2))) / max(float(np.sum(weights * squares)), 1e-300)


TOO_CLOSE = (
    "some clusters are much closer to each other than to the center of all: in float32, rows may count in the wrong "
    "one. Fit an array, which is compared again row by row, or subtract large offsets"
)
ROWS_AT_ONCE = 1 << 18  # whose distances are in memory
ROWS_FOR_GAIN = 20_000  # drawn to estimate what another pass would gain
FEWEST_ROWS_TO_ESTIMATE_GAIN = 200_000  # a pass over fewer costs no more than the estimate
NO_ERRORS_OF_SUMS = "random sums of the columns do not tell them: design the sketch on a sample of rows"
NO_MEDIANS_OF_SUMS = "random sums of the columns tell means alone: design the sketch on a sample, or learn k-means"
MOST_WIDER = (
    0.02  # by which squared distances of all rows from their centers may differ from those of the pilot's sample
)
LEAST_DISTANCE = 1e-3  # of a row from its median, in mean distances: nearer rows weigh no more
SHARE_BESIDE_ATOMS = 0.5  # that rows have in centers, where they are joined by atoms


@former_parameters
@dataclass(eq=False, repr=False)
class SketchKMeans(NearestClusters, ChosenNumber, StepEstimator, RowMeanEstimator):
    """k-means of rows, or from a sketch alone.

    Rows: the k-means of a sample, then exact steps of Lloyd's algorithm on all, one for each pass. A sketch of random
    frequencies: a mixture of Gaussians, with more components than clusters, is fitted to it; its best k centroids are
    the result.

    Parameters
    ----------
    n_clusters : number of clusters; "auto" lets the sketch tell it (see `choose_k`).
    max_clusters : the largest number that "auto" looks at.
    decoder : "auto", the name of another decoder, or a `sketchlearn.inference.decoders.loop.Decoder`.
    features : `skl.features.Cells` or `skl.features.Fourier`, which have the sizes and kinds of features. None chooses:
        cells at a pilot, the k-means of a sample, in the columns themselves or, above 64 columns, in principal
        directions of the sample (see "Hundreds of columns" in the documentation); random frequencies for tables with a
        schema, for streams, for a decoder that is named, and up to 64 columns for n_clusters="auto".
    standardize : count errors in units of each column's standard deviation, so that columns of different kinds (money,
        ages, flags) matter alike; centers are in the units of the table all the same. `fit_sketch` takes it from the
        sketch's operator.
    profile_columns : passive columns, by name or position: clusters are those of the other columns, and
        `cluster_centers_` has the means of these over all records of each cluster; so has `profiles`. Rows to predict
        have these columns as well, which do not count.
    n_passes : how often rows are read, where they are summed by cells in the columns themselves: each pass is a step of
        Lloyd's algorithm on all of them. "auto": for arrays, data frames and rows on a GPU, until a pass gains less
        than 1e-5 of the squared error (of the distances, for k-medians), or some of the rows show that the second one
        would, a hundred times at most; once for all else (files, Dask, Spark).
    random_state : seed of the operator and of the search.
    n_jobs : threads that sketch; None means all cores.
    device : where rows are sketched: "cpu", "cuda", "cuda:1" or "auto"; None means where they are, so that arrays of
        torch, CuPy and JAX on a GPU stay there.
    verbose : 1 shows progress on standard error.
    schema : a `Schema`, which makes numbers of text, categories, flags, dates and gaps; "auto" takes the one that
        `skl.schema` proposes. Rows are then tables with names.

    Attributes
    ----------
    cluster_centers_ : array (n_clusters, columns). Clusters are numbered by their shares: cluster 0 is the largest.
    weights_ : share of the rows that each cluster has, as the sketch tells it; the largest comes first.
    labels_ : the cluster of each row of an array or data frame given to `fit`; not there for other sources.
    inertia_, inertia_error_ : the sum of squared distances of all sketched rows to their nearest center, in the units
        in which errors count, and one standard deviation of its error: 0 where all rows were at hand. From kept rows,
        or a sample, and the sketch; both are None, with a warning, where those do not tell them.
    sketch_ : the sketch; it can be saved, merged, updated and given to `fit_sketch`.
    outcome_ : how decoding went.
    standard_errors_ : one standard deviation of the numbers of `cluster_centers_` and `weights_`, as estimates of those
        of the law that the rows are a sample of: they tell how far other rows of the same law would move them. Rows are
        taken to be independent; one of a whole weight w is w rows, fractions are weights of a survey. Noise of a
        private release, one-bit waves and subsampling are counted in. They are found through a mixture that explains
        the sketch, or from rows that are kept beside it, whatever their law, or from cells, for clusters that lie
        apart; where none of these tells them, they are withheld, and a warning says why.
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
    cluster_centers_ = model_attribute("centers")
    _reduce = staticmethod(centroids)
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
        frequencies = isinstance(self._wanted_features, Fourier) or self._number == AUTO
        if self.profile_columns is not None and frequencies:
            remedy = f"give {Parameter('n_clusters')} a number, and leave out decoder and frequencies"
            raise InvalidValueError("need cells", remedy, parameter="profile_columns")
        if self.profile_columns is not None and self.features == families.Cells(n_directions=0):
            remedy = either("give features=skl.features.Cells()", "leave out --directions")
            raise InvalidValueError("need cells in directions", remedy, parameter="profile_columns")

    @property
    def n_clusters_(self) -> int:
        """The number of clusters that were learned."""
        return len(self.weights_)

    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator, sample: RowSample | None = None) -> Clusters:
        if (cells := Cells.of(sketch)) is not None:
            return self._of_cells(sketch, cells, rng)
        if (of_sums := SketchOfSums.of(sketch)) is not None:
            return self._of_sums(sketch, of_sums, rng)
        sample = self._sample(sketch, sample)
        k, choice = self._chosen(sketch, sample, rng)
        self._check_determined(sketch, sample, k)
        problem = Problem.of(Target.of(sketch), k)
        progress = self._say if self.verbose else None
        task = Task(sketch, problem, error_units(sketch.operator), self._loss, self._reduce, rng, progress)
        if sample is not None:
            found = clusters_with_rows(task, sample)
        elif self.decoder == "auto":
            found = clusters_of_sketch(task, decoder_from("auto"))
        else:  # a decoder that is named has no other beside it
            decoder = decoder_from(self.decoder)
            found = point_clusters(task, decoder) if decoder.points else mixture_clusters(task, decoder)
        return self._model(sketch, found, choice)

    def _of_sums(self, sketch: Sketch, of_sums: SketchOfSums, rng: np.random.Generator) -> Clusters:
        """Clusters in random sums of many columns, put back into all of them."""
        if isinstance(self._loss, DistanceLoss):
            raise ValueError(NO_MEDIANS_OF_SUMS)
        k, choice = self._chosen(of_sums.sums, None, rng)
        self._check_determined(of_sums.sums, None, k)
        problem, progress = Problem.of(Target.of(of_sums.sums), k), self._say if self.verbose else None
        task = Task(of_sums.sums, problem, np.ones(problem.target.n_features), self._loss, self._reduce, rng, progress)
        return self._model(sketch, of_sums.lifted(clusters_of_sketch(task, decoder_from(self.decoder)), rng), choice)

    def _of_cells(self, sketch: Sketch, cells: Cells, rng: np.random.Generator) -> Clusters:
        """Clusters of cells, or of all rows, if those were kept."""
        rows, operator = kept_rows(sketch), cells.operator
        k, choice = self._chosen(sketch, rows, rng)
        self.check_size(int(np.ceil(sketch.count)))
        step = operator.in_columns and k == len(cells)
        if step or rows is None or not rows.complete:
            found = clusters_of_cells(cells, k, self._loss, rng)
            if self.step_of(sketch) is not None:  # those of the last pass are told
                found = replace(found, doubts=())
            return self._model(sketch, found, choice)
        if operator.normalize:
            rows = replace(rows, rows=replace(rows.rows, rows=operator.of_length_one(rows.rows.rows)))
        return self._model(sketch, clusters_of_all_rows(operator, rows, k, self._loss, rng), choice)

    def _model(self, sketch: Sketch, found: Decoded, choice: ClusterChoice | None) -> Clusters:
        """What was found, the largest cluster first, with a word on what is doubtful."""
        for doubt in found.doubts:
            warn_caller(doubt, ConvergenceWarning)
        self._say(f"{found.outcome.status.value}. {found.outcome.advice}".strip())
        order = largest_first(found.shares)
        centers, shares = found.centers[order], found.shares[order]
        given = sketch.operator.error_units  # type: ignore[attr-defined]
        units = None if given is None else np.array(given)
        part: CellSums | None = sketch.operator.part(CellSums)  # type: ignore[attr-defined]
        along = None
        if part is not None and part.along is not None:
            along = np.isin(np.arange(part.n_features), part.along).astype(np.float64)
        return Clusters(
            centers=centers,
            weights=shares,
            units=units,
            normalize=(part is not None and part.normalize) or None,
            along=along,
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
        units = np.ones(model.centers.shape[1]) if model.units is None else model.units
        reason, k = "", len(model.weights)
        if model.outcome.status is Status.EXPLAINED and (len(model.density) <= k or not rows):
            problem = Problem.of(Target.of(sketch), k)
            centers, shares = errors_of_density(sketch, problem, model.density, model.centers, units, rng)
        else:
            if cells is None and model.outcome.status is not Status.EXPLAINED:
                require_rows(model.outcome.status)
            centers, shares, reason = errors_of_rows(sketch, model.centers, units, rng, decided=cells is None)
        return ErrorBars({"cluster_centers_": centers, "weights_": shares}, reason)

    @property
    def inertia_(self) -> float | None:
        """What all sketched rows cost: the sum of squared distances to their nearest center."""
        return self._told("inertia_", self.measured()[1].value)

    @property
    def inertia_error_(self) -> float | None:
        """One standard deviation of the error of `inertia_`; that of a private count of records is in it."""
        return self._told("inertia_error_", self.measured()[1].error)

    def measured(self) -> tuple[str, RowMean]:
        found, n = self.row_mean(), float(self.n_records_)
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
            # the cost of the partition is exact, and another step would gain about as much at most
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
        everything, k, rows = design_sample.everything, self._n_components, design_sample.rows
        complete = everything is not None and everything.n_records == len(rows)
        if complete:
            self._check_distinct(rows)
        once = self.n_passes == 1 or (self.n_passes == AUTO and not design_sample.at_hand)
        seed, n_kept = int(rng.integers(2**31)), self._n_kept(design_sample, k)
        asked = CellsAsked(k, 0, seed, columns_squared=True, standardize=self.standardize, n_kept=n_kept)
        with one_blas_thread():
            medians = isinstance(self._loss, DistanceLoss)
            if self._number == AUTO or (once and not complete and not medians):
                operator = cells_on_sample(asked, design_sample)
            else:
                frame = SampleFrame.of(design_sample, standardize=self.standardize)
                if complete or medians:
                    pilot = clusters_of(WeightedRows.of(frame.rows), k, self._loss, rng)
                else:  # passes over all rows take the last steps
                    pilot = kmeans(frame.rows, k, rng)
                radius = LEAST_DISTANCE * float(np.mean(self._loss.losses(frame.rows, pilot))) if medians else None
                operator = asked.keeping(frame.cells_at(pilot, radius or None), thinned(rows, MOST_ROWS), frame.units)
        if everything is not None:
            operator = operator.widened(*extremes(everything))
        return operator.with_columns(design_sample.columns).with_origin(Origin.SAMPLE)

    def step_of(self, sketch: Sketch) -> LloydStep | None:
        cells = Cells.of(sketch)
        return None if cells is None else step_of_cells(cells, self._loss)

    def at_model(self, step: LloydStep, state: FittedState) -> LloydStep:
        return step if len(step.cells) == len(state.model.weights) else replace(step, centers=state.model.centers)

    def model_of_step(self, step: LloydStep, state: FittedState) -> Clusters:
        return self._model(state.sketch, clusters_of_step(step), state.model.choice)

    def rival_of(self, step: LloydStep, state: FittedState) -> CellSums | None:
        """Cells at the clusters of kept rows, where the pilot's sample has too many or too few far ones."""
        rows, k = kept_rows(state.sketch), len(state.model.weights)
        if rows is None or rows.complete or len(rows.rows) < 2 * SAMPLED_PER_COMPONENT * k:
            return None
        if not step.cells.wider or abs(step.cells.wider - 1) <= MOST_WIDER:
            return None
        centers, _ = clusters_of_rows(rows, k, self._loss, self._generator())
        return step.cells.operator.moved_to(centers)

    def has_little_to_gain(self, step: LloydStep, state: FittedState, incoming: IncomingRows) -> bool:
        """Whether another pass would hardly lower the squared error, estimated on random rows and the priority sample.

        A pass gains from rows that change their cluster, and about as much again because these move the means. A step
        that corrects the sampling error of the pilot moves all centers, and yet hardly any row changes its cluster.
        """
        rows, kept = incoming.array, kept_rows(state.sketch)
        asked = isinstance(self._loss, SquaredLoss) and isinstance(rows, np.ndarray) and incoming.rows.weights is None
        if not asked or kept is None or step.centers is not None or len(rows) < FEWEST_ROWS_TO_ESTIMATE_GAIN:
            return False
        points = step.cells.operator.points[step.cells.there]
        before, after = (replace(state.model, centers=centers) for centers in (points, step.after))
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
        """Labels of the rows and what they cost; where centers are too close for float32, the pilot may cost less."""
        labels, cost = self._nearest_of(state.model, rows, weights)
        step = self.step_of(state.sketch)
        if step is not None and len(step.cells) == len(state.model.weights) and step.too_close:
            points = step.cells.operator.points[step.cells.there]
            pilot = self._model(state.sketch, replace(clusters_of_step(step), centers=points), state.model.choice)
            other, less = self._nearest_of(pilot, rows, weights)
            if less < cost:
                labels, cost, state = other, less, replace(state, model=pilot)
        return replace(state, row_labels=labels, row_mean=RowMean(cost, 0.0))

    def _nearest_of(self, model: Clusters, rows: Any, weights: Any) -> tuple[NDArray[np.int32], float]:
        """The nearest center of each row, and what rows cost in the mean, in one pass."""
        n, start, total = rows.shape[0], 0, 0.0
        labels, own = np.empty(n, np.int32), None if weights is None else np.asarray(weights, np.float64)
        for block in array_blocks(rows):
            for first in range(0, len(block), ROWS_AT_ONCE):
                here = slice(start, start + len(block[first : first + ROWS_AT_ONCE]))
                labels[here], squares = model.nearest_and_squares(block[first : first + ROWS_AT_ONCE], self.n_jobs)
                costs, start = self._costs(squares), here.stop
                total += float(costs.sum() if own is None else own[here] @ costs)
        return labels, total / (n if own is None else float(own.sum()))

    @staticmethod
    def _costs(squares: Double) -> Double:
        """What rows cost, from their squared distances to the nearest center."""
        return squares

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Minus the sum of squared distances of rows to their centers."""
        model = self.fitted_model()
        return -sum(float(model.nearest_and_squares(rows)[1].sum()) for rows in self.row_blocks(X))


@former_parameters
@dataclass(eq=False, repr=False)
class SketchKMedians(SketchKMeans):
    """k-medians: centers with the least sum of distances of rows, rather than of squared distances.

    Each center is the geometric median of its cluster, so that outliers move it less. Rows at hand: the k-medians of a
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
    _reduce = staticmethod(medians)
    _loss: ClassVar[Any] = DistanceLoss()

    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:  # noqa: ARG002
        return ErrorBars(withheld="they are known for k-means, and not for k-medians: learn k-means instead")

    @staticmethod
    def _costs(squares: Double) -> Double:
        return np.sqrt(squares)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Minus the sum of distances of rows to their centers."""
        return -float(np.sum(self.transform(X).min(axis=1)))
