"""`design`: center, units, law, scale and size of an operator, for a task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter, either
from sketchlearn.core.values import shortened, truth, whole
from sketchlearn.estimators.base.state import DesignSample
from sketchlearn.estimators.base.supervised import positions
from sketchlearn.estimators.design.cells import (
    CellsAsked,
    cells_on_sample,
    columns_along,
    directions_for,
    moments_in_directions,
)
from sketchlearn.estimators.design.column_ranges import checked_bounds, fourth_moments, keeping_rows, second_moments
from sketchlearn.estimators.design.fourier import Asked, in_bounds, on_sample, on_sketch, sums_in_bounds
from sketchlearn.estimators.design.frequencies import AUTO, Budget, budget_of, checked_subsample
from sketchlearn.estimators.design.sample_summary import (
    MOST_ROWS,
    Sampled,
    floats_of,
    rows_of,
    rows_of_pilot,
    rows_wanted,
)
from sketchlearn.estimators.generators import operators as generator_operators
from sketchlearn.estimators.independent_components import cumulant_features
from sketchlearn.estimators.kernel_regression import SketchKernelRegressor
from sketchlearn.estimators.registry import DESIGNS, designs, tasks
from sketchlearn.features.bounded import CLIP
from sketchlearn.features.composed import Concatenated
from sketchlearn.features.directions import MOST_DIRECTIONS, SomeDirections
from sketchlearn.features.operator import Operator
from sketchlearn.features.products import FeatureMoments
from sketchlearn.features.provenance import Origin
from sketchlearn.features.waves import Wave, wave_from
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.rows.schemas.table_schema import Schema
from sketchlearn.rows.source import source
from sketchlearn.sketch.ledger import ADD_REMOVE
from sketchlearn.sketch.priority_sample import MOST_KEPT
from sketchlearn.sketch.sums import Sketch

UNKNOWN_PLACES = "bounds do not tell how the records lie"
GENERATOR, ICA, KERNEL, MOMENTS, SUBSPACES = "generator", "ica", "kernel", "moments", "subspaces"


def design(
    sample: Any = None,
    *,
    n_components: int | None = None,
    task: str = "kmeans",
    bounds: Any = None,
    representative: bool | None = None,
    n_frequencies: int | None = None,
    wave: str | Wave = "exponential",
    seed: int = 0,
    n_rows: int | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    neighbors: str = ADD_REMOVE,
    standardize: bool = False,
    rows: int | None = None,
    schema: Schema | str | None = None,
    subsample: int | str | None = "auto",
    n_directions: int | str | None = "auto",
    normalize: bool = False,
    targets: Any = None,
    along: Any = None,
) -> Any:  # of the kind that the task needs: SecondMoments for "moments", CellSums for clusters in many columns, ...
    """An operator whose sketches tell clusters or mixtures of the data apart, or that hold its second moments.

    Parameters
    ----------
    sample : some rows, best drawn from all over the data (up to 5000 are used, 150 for each of many clusters in many
        columns, 20,000 for mixtures); or anything that `source` takes, of which some rows are read. If its columns
        have names, so have the operator's. For clusters, a small sketch with frequencies of many scales will do, such
        as one of `design(bounds=..., n_frequencies=100)`: center, spread and scale are read off it.
    n_components : the number of clusters or mixture components; not for "generator", "moments" and "subspaces".
    task : "kmeans", "mixture" (Gaussians with spherical, tied or diagonal covariances), "mixture-full" or
        "stable" (components with heavy tails) or "histograms" (half of the frequencies along the axes);
        or "generator" (frequencies of many lengths, for `SketchGenerator`); or "moments" (for regressions, principal
        components and classes) or "subspaces", which have no size to choose: values beyond declared bounds are clipped
        there, as private releases need. Or "kernel" (kernel regression), whose features suit the targets. Or "ica"
        (independent components; n_components may be left out), which needs a sample.
    bounds : instead of a sample: lowest and highest value of each column, as a pair of numbers or of lists. The
        operator then has frequencies of many scales, and decoders read the right one off the sketch.
    representative : False if the sample is not drawn from all over the data, such as the first rows of a stream: many
        scales again, for records that may lie up to 16 times as far apart as those of the sample. None means True for
        arrays and tables, and for files that can be read anywhere; False where only the first rows can be had.
    n_frequencies : size; by default 10 per centroid coordinate or mixture parameter (fewer for thousands of columns).
    wave : the wave of the operator. Complex waves with dither get 25 % more frequencies, real ones twice as many.
    seed : seed of the operator.
    n_rows : about how many records will be sketched: of a sample, for `subsample` and for the width of a kernel; of
        bounds, for private releases.
    epsilon, delta, neighbors : what a private release of the sketch will spend (see `privatize`). Given with bounds and
        n_rows, as far as that is public, they decide the size, by the noise that `privatize` will add: on many
        frequencies it would hide what they show. Nothing is spent on the scale. `skl.privacy.forecast` shows that
        noise.
    standardize : count squared errors in units of each column's standard deviation in the sample, so that columns of
        different kinds (money, ages, flags) matter alike. Otherwise k-means follows the columns with the largest
        numbers. Centers come back in the units of the table.
    rows : keep so many of the sketched rows beside each sketch: clusters learned from it are then never worse than
        those of a good sample, and standard errors (of "moments" and "ica" too) hold whatever the law. They travel with
        the sketch, in its file too; leave this out where rows may not.
    schema : a `Schema` that makes numbers of columns of other kinds; "auto" takes the one that `skl.schema(sample)`
        proposes. It becomes part of the operator, which then encodes tables where they are sketched.
    subsample : how many of the frequencies a record contributes to, which takes less time. "auto" chooses it for
        clusters of n_rows records (hundreds of thousands or more), so that the squared error grows by less than a
        5000th; all of them where n_rows is not given, few rows of the sample are distinct, or the sample is not
        representative. None means all of them. A number must divide that of the frequencies.
    n_directions : of rows with many columns, in how many directions of the sample clusters are told apart. Their sums
        of all columns, cell by cell, take the place of frequencies (`CellSums`; see the page "Hundreds of columns").
        "auto" does so for clusters and for mixtures of spherical or diagonal Gaussians above 64 columns, unless
        n_frequencies, a wave or subsample or a schema are given; held-out rows of the sample choose the number. 0 means
        cells in the columns themselves, and None frequencies in all columns. For "moments", a number means second
        moments in so many principal directions of the sample (`SomeDirections`), for classes of rows with many columns;
        otherwise they are of all columns. For "generator", as in `SketchGenerator`.
    normalize : divide each row by its length first, as cosine similarity does: for embeddings. Sketches are cells then,
        whatever the number of columns.
    targets : for "kernel", which columns will be predicted from the others: a name, or a list of names or positions.
        None means the last column.
    along : columns that travel along: names, or positions. Clusters are those of the other columns, and of these the
        sketch has exact sums, cell by cell, from which `profiles` has their means and shares over all records.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_normal((1000, 3))
    >>> operator = skl.design(X, n_components=4)
    >>> [type(part).__name__ for part in operator.parts]
    ['FourierFeatures', 'Histograms']
    >>> operator.part(skl.features.FourierFeatures).law.widths(3).round(1)
    array([1.2, 1.2, 1.2])
    >>> skl.design(X, n_components=4, task="mixture").n_frequencies
    280
    >>> skl.design(bounds=([0, 0], [1, 100]), n_components=4).part(skl.features.Histograms).edges[1][-1]
    100.0
    >>> first = skl.design(bounds=([-9] * 3, [9] * 3), n_components=4, n_frequencies=100).sketch(X)
    >>> skl.design(first, n_components=4).part(skl.features.FourierFeatures).law.widths(3).round(1)
    array([1.6, 1.6, 1.6])
    >>> private = [skl.design(bounds=(-9, [9] * 5), n_components=4, n_rows=10**5, epsilon=e) for e in (0.02, 1)]
    >>> private[0].n_sums < private[1].n_sums
    True
    >>> skl.design(bounds=([0, 0], [1, 100]), task="moments").outside
    'clip'
    >>> large = [skl.design(X, n_components=4, n_rows=10**7, subsample=way) for way in ("auto", None)]
    >>> [operator.part(skl.features.FourierFeatures).subsample for operator in large]
    [39, None]
    """
    if not isinstance(task, str) or (task not in DESIGNS and task not in designs()):
        raise ValueError(f"task must be one of {', '.join(designs())}, not {shortened(task)}")
    if (sample is None) == (bounds is None):
        raise ValueError("design needs either a sample of rows or bounds")
    if schema is not None and not isinstance(sample, Sketch):
        if sample is None:
            raise ValueError("a schema needs a sample here: bounds are those of its numbers, which nobody knows")
        sample = source(sample, schema=schema)
    if isinstance(sample, Sketch):
        given = {"epsilon": epsilon, "n_rows": n_rows, "rows": rows, "standardize": standardize, "schema": schema}
        given["representative"] = representative is not None
        _leave_out_of_sketch(task, subsample, n_directions, normalize=normalize, **given)
    origin = Origin.SAMPLE if bounds is None else Origin.DECLARED
    sizes = {"epsilon": epsilon, "n_rows": n_rows, "delta": delta, "standardize": standardize, "rows": rows}
    sizes["neighbors"] = neighbors != ADD_REMOVE
    few = checked_subsample(subsample)
    sizes["subsample"] = few is not None and few != AUTO
    operator: Operator | None = None
    if task not in DESIGNS:
        _leave_out(task, n_components=n_components, n_frequencies=n_frequencies, **sizes)
        operator = _for_foreign(task, sample, bounds, representative, seed)
    elif task in (MOMENTS, SUBSPACES):
        n_kept = sizes.pop("rows") if task == MOMENTS else None
        _leave_out(task, n_frequencies=n_frequencies, **sizes)
        operator = _moments(task, sample, bounds, representative, seed, _checked_kept(n_kept, bounds), n_directions)
    elif task == GENERATOR:
        _leave_out(task, **sizes)
        waves = n_frequencies, wave_from(wave), seed
        operator = _for_generators(sample, bounds, representative, waves, n_directions)
    elif task == KERNEL:
        del sizes["n_rows"]
        _leave_out(task, n_components=n_components, **sizes)
        operator = _for_kernels(sample, bounds, representative, n_frequencies, n_rows, targets, seed)
    elif task == ICA:
        n_kept = _checked_kept(sizes.pop("rows"), bounds)
        _leave_out(task, n_frequencies=n_frequencies, **sizes)
        operator = _cumulants(sample, n_components, representative, seed, n_kept)
    if along is not None and (operator is not None or isinstance(sample, Sketch)):
        raise InvalidValueError("is for clusters of a sample of rows", "leave it out", parameter="along")
    if targets is not None and task != KERNEL:
        raise InvalidValueError(f"targets are for {Parameter('task', KERNEL)}, not {task!r}")
    if operator is not None:
        return operator.with_origin(origin)
    fixed = None if n_frequencies is None else whole("n_frequencies", n_frequencies)
    asked = Asked(whole("n_components", n_components), task, wave_from(wave), fixed, seed, n_rows, few)
    if isinstance(sample, Sketch):
        return on_sketch(asked, sample).with_origin(origin)
    budget = budget_of(bounds, n_rows, epsilon, delta, neighbors)
    n_kept = _checked_kept(rows, bounds)
    standardize = truth("standardize", standardize)
    cells = _cells_asked(asked, n_directions, normalize=normalize, along=along is not None)
    if bounds is None:
        most = rows_of_pilot(asked.n_components) if cells is not None and cells.n_directions == 0 else 0
        sampled = floats_of(sample, seed, max(most, rows_wanted(task, asked.n_components)), representative)
        cells = _cells_of_sample(sampled, cells, along, n_directions, normalize=normalize)
        return _on_rows(asked, cells, sampled, standardize=standardize, n_kept=n_kept).with_origin(origin)
    if standardize:
        raise InvalidValueError(f"{Parameter('rows')} and {Parameter('standardize')} need a sample", UNKNOWN_PLACES)
    if sizes["subsample"]:
        raise InvalidValueError(
            "needs a sample here", "from bounds, records contribute to all frequencies", parameter="subsample"
        )
    return _in_bounds(asked, cells, *checked_bounds(bounds), budget, along).with_origin(origin)


def _in_bounds(
    asked: Asked, cells: CellsAsked | None, low: Double, high: Double, budget: Budget | None, along: Any
) -> Operator:
    """An operator for rows within bounds: of random sums, if they have many columns, or of frequencies."""
    if along is not None:
        raise InvalidValueError("needs a sample", UNKNOWN_PLACES, parameter="along")
    if cells is not None and cells.normalize:
        remedy = "without one, divide rows by their lengths before they are sketched"
        raise InvalidValueError("needs a sample", remedy, parameter="normalize")
    if cells is not None and cells.n_directions is not None and (asked.task != "kmeans" or not cells.n_directions):
        raise InvalidValueError("needs a sample here", UNKNOWN_PLACES, parameter="n_directions")
    if cells is None or asked.task != "kmeans" or not cells.wanted(len(low)):
        return in_bounds(asked, low, high, budget)
    return sums_in_bounds(asked, low, high, budget, cells.n_directions)


def _cells_of_sample(
    sampled: Sampled, cells: CellsAsked | None, along: Any, n_directions: Any, *, normalize: bool
) -> CellsAsked | None:
    """The cells that are asked for, with columns that travel along; None where rows go by frequencies."""
    if along is not None and cells is not None:
        which = columns_along(along, sampled.columns, sampled.rows.shape[1])
        cells = replace(cells, along=which, columns_squared=True)
    in_cells = normalize or along is not None
    return None if directions_for(sampled.columns, n_directions, in_cells=in_cells) is None else cells


def _on_rows(
    asked: Asked, cells: CellsAsked | None, sampled: Sampled, *, standardize: bool, n_kept: int | None
) -> Operator:
    """An operator for rows like these: cells, if those are asked for and rows have many columns, or frequencies."""
    if cells is None or not cells.wanted(sampled.rows.shape[1]):
        return on_sample(asked, sampled.doubles(rows_wanted(asked.task)), standardize=standardize, n_kept=n_kept)
    with one_blas_thread():
        return cells_on_sample(cells, sampled, standardize=standardize, n_kept=n_kept)


def _cells_asked(asked: Asked, n_directions: Any, *, normalize: Any, along: bool) -> CellsAsked | None:
    """Cells of rows with many columns, if they suit what is asked for."""
    normalize, given = truth("normalize", normalize), isinstance(n_directions, int | np.integer)
    if not given and not (isinstance(n_directions, str) and n_directions == AUTO) and n_directions is not None:
        raise InvalidValueError(
            f"must be a whole number or auto, not {shortened(n_directions)}", parameter="n_directions"
        )
    suits = asked.task in ("kmeans", "mixture") and asked.n_frequencies is None
    sizes = f"{Parameter('n_frequencies')}, wave and {Parameter('subsample')}"
    suits = suits and asked.wave == wave_from("exponential") and asked.subsample in (AUTO, None)
    if normalize and (not suits or n_directions is None):
        raise InvalidValueError("is for clusters and mixtures", f"leave out {sizes}", parameter="normalize")
    if along and (not suits or n_directions is None or normalize or asked.task != "kmeans"):
        others = f"{Parameter('normalize')}, {sizes.replace(' and', ',')} and {Parameter('n_directions', None)}"
        raise InvalidValueError("is for clusters in cells", f"leave out {others}", parameter="along")
    if given and not suits:
        raise InvalidValueError("is for clusters and mixtures", f"leave out {sizes}", parameter="n_directions")
    if not suits or n_directions is None:
        return None
    p = whole("n_directions", n_directions, 0, MOST_DIRECTIONS) if given else None
    if p == 0 and (normalize or along or asked.task != "kmeans"):
        raise ValueError("cells in the columns themselves are for clusters of rows as they are: ask for directions")
    return CellsAsked(asked.n_components, p, normalize, asked.task == "mixture", asked.seed)


def _checked_kept(rows: Any, bounds: Any) -> int | None:
    """How many rows each sketch shall keep."""
    if rows is not None and bounds is not None:
        raise InvalidValueError(f"{Parameter('rows')} and {Parameter('standardize')} need a sample", UNKNOWN_PLACES)
    return None if rows is None else whole("rows", rows, most=MOST_KEPT)


def _moments(
    task: str,
    sample: Any,
    bounds: Any,
    representative: bool | None,
    seed: int,
    n_kept: int | None,
    n_directions: Any,
) -> Operator:
    if task == MOMENTS and n_directions not in (AUTO, None):
        return _moments_in_directions(sample, n_directions, representative, seed, n_kept)
    moments = second_moments if task == MOMENTS else fourth_moments
    if bounds is not None:
        return replace(moments(_nothing(bounds), bounds), outside=CLIP)
    design_sample = DesignSample(*rows_of(sample, seed, MOST_ROWS, representative))
    return moments(design_sample) if n_kept is None else keeping_rows(moments(design_sample), design_sample, n_kept)


def _moments_in_directions(
    sample: Any, n_directions: Any, representative: bool | None, seed: int, n_kept: int | None
) -> SomeDirections:
    p = whole("n_directions", n_directions, most=MOST_DIRECTIONS)
    if sample is None or n_kept is not None:
        raise InvalidValueError(
            "of moments needs a sample, and keeps no rows", "leave out bounds and rows", parameter="n_directions"
        )
    with one_blas_thread():
        return moments_in_directions(rows_of(sample, seed, MOST_ROWS, representative), p, seed)


def _nothing(bounds: Any) -> DesignSample:
    """No rows, of as many columns as the bounds are for."""
    return DesignSample(np.empty((0, len(checked_bounds(bounds)[0]))), False, None)


def _for_generators(
    sample: Any, bounds: Any, representative: bool | None, waves: tuple[int | None, Wave, int], n_directions: Any
) -> Operator:
    if bounds is None:
        with one_blas_thread():
            sampled = rows_of(sample, waves[-1], MOST_ROWS, representative)
            return generator_operators.on_sample(sampled, n_directions, *waves)
    if n_directions not in (AUTO, None):
        raise InvalidValueError("needs a sample here", UNKNOWN_PLACES, parameter="n_directions")
    low, high = checked_bounds(bounds)
    return generator_operators.waves_in_bounds(low, high, *waves)


def _for_kernels(
    sample: Any,
    bounds: Any,
    representative: bool | None,
    n_frequencies: int | None,
    n_rows: int | None,
    targets: Any,
    seed: int,
) -> FeatureMoments:
    design_sample = (
        _nothing(bounds) if sample is None else DesignSample(*rows_of(sample, seed, MOST_ROWS, representative))
    )
    which = positions([-1] if targets is None else targets, design_sample.columns, design_sample.rows.shape[1])
    estimator = SketchKernelRegressor(n_frequencies=n_frequencies, bounds=bounds)
    estimator.check_parameters()
    later = None if n_rows is None else whole("n_rows", n_rows)
    operator = estimator.design_operator(
        replace(design_sample, targets=which, n_rows=later), np.random.default_rng(seed)
    )
    return operator if bounds is None else replace(operator, outside=CLIP)


def _for_foreign(task: str, sample: Any, bounds: Any, representative: bool | None, seed: int) -> Operator:
    """The operator that a task of another package designs."""
    kind: Any = tasks()[task].load()
    if bounds is None:
        estimator, design_sample = kind(), DesignSample(*rows_of(sample, seed, MOST_ROWS, representative))
    elif "bounds" in kind().get_params():
        estimator, design_sample = kind(bounds=bounds), _nothing(bounds)
    else:
        raise InvalidValueError(
            f"{either(f'task {task!r}', f'--task {task}')} needs a sample of rows", "it does not take bounds"
        )
    operator: Operator = estimator.design_operator(design_sample, np.random.default_rng(seed))
    return operator


def _leave_out(task: str, **given: Any) -> None:
    """Refuses arguments that a task has no use for."""
    for name, value in given.items():
        if value:
            raise InvalidValueError("has one size for all", f"leave out {Parameter(name)}", Parameter("task", task))


def _leave_out_of_sketch(task: str, subsample: Any, n_directions: Any, **given: Any) -> None:
    """Refuses what a sketch in place of a sample does not tell."""
    given |= {"subsample": subsample not in (AUTO, None), "n_directions": n_directions not in (AUTO, None)}
    if task != "kmeans":
        raise ValueError(f"a sketch tells the scale of clusters, not what {task!r} needs: give design a sample of rows")
    for name, value in given.items():
        if value:
            raise ValueError(f"{name} needs a sample of rows, or bounds, in place of a sketch")


def _cumulants(
    sample: Any, n_components: int | None, representative: bool | None, seed: int, n_kept: int | None
) -> Concatenated:
    if sample is None:
        raise InvalidValueError(
            f"{either(f'task {ICA!r}', f'--task {ICA}')} needs a sample of rows",
            "bounds do not tell which components there are",
        )
    design_sample = DesignSample(*rows_of(sample, seed, MOST_ROWS, representative))
    d = design_sample.rows.shape[1]
    if n_components is not None and whole("n_components", n_components) > d:
        raise InvalidValueError(
            f"must be at most the number of columns, {d}", parameter=Parameter("n_components", n_components)
        )
    operator = cumulant_features(design_sample, np.random.default_rng(seed), n_components)
    return operator if n_kept is None else keeping_rows(operator, design_sample, n_kept)
