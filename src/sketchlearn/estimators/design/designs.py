"""`design`: the operator for a task, from a sample of rows or from declared bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter, either
from sketchlearn.core.values import shortened, truth, whole
from sketchlearn.estimators.base.state import DesignSample
from sketchlearn.estimators.base.supervised import passive_columns, positions
from sketchlearn.estimators.design.cells import (
    WIDE,
    CellsAsked,
    cells_on_sample,
    moments_in_directions,
)
from sketchlearn.estimators.design.column_ranges import checked_bounds, fourth_moments, keeping_rows, second_moments
from sketchlearn.estimators.design.frequencies import (
    Asked,
    Budget,
    budget_of,
    in_bounds,
    on_sample,
    on_sketch,
    sums_in_bounds,
)
from sketchlearn.estimators.design.sample_summary import (
    MOST_ROWS,
    rows_of,
    rows_of_pilot,
    rows_wanted,
    thinned,
)
from sketchlearn.estimators.design.standard import with_standard_parts
from sketchlearn.estimators.generators import operators as generator_operators
from sketchlearn.estimators.independent_components import cumulant_features
from sketchlearn.estimators.kernel_regression import SketchKernelRegressor
from sketchlearn.estimators.registry import DESIGNS, designs, tasks
from sketchlearn.features.bounded import CLIP
from sketchlearn.features.families import AUTO, Cells, Features, Fourier, Moments, checked, with_present_names
from sketchlearn.features.operator import Kind, Operator
from sketchlearn.features.provenance import Origin
from sketchlearn.features.waves import wave_from
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.rows.schemas.table_schema import Schema
from sketchlearn.rows.source import source
from sketchlearn.sketch.ledger import ADD_REMOVE
from sketchlearn.sketch.priority_sample import MOST_KEPT
from sketchlearn.sketch.sums import Sketch

UNKNOWN_PLACES = "bounds do not determine the distribution of the records"
GENERATOR, ICA, KERNEL, MOMENTS, SUBSPACES = "generator", "ica", "kernel", "moments", "subspaces"
CELL_TASKS = ("kmeans", "mixture")
#: which features a task can be asked to use
FAMILIES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(CELL_TASKS, (Fourier, Cells)),
    **dict.fromkeys(("mixture-full", "stable", "histograms", GENERATOR, KERNEL), (Fourier,)),
    MOMENTS: (Moments,),
}


def design(
    sample: Any = None,
    *,
    n_components: int | None = None,
    task: str = "kmeans",
    features: Features | None = None,
    bounds: Any = None,
    representative: bool | None = None,
    seed: int = 0,
    n_rows: int | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    neighbors: str = ADD_REMOVE,
    standardize: bool = False,
    rows: int | None = None,
    schema: Schema | str | None = None,
    targets: Any = None,
    profile_columns: Any = None,
    **former: Any,
) -> Any:  # of the kind that the task needs: SecondMoments for "moments", CellSums for clusters in many columns, ...
    """Design an operator for a task, from a sample of rows or from declared bounds.

    Estimators design their own (`SketchKMeans(10).design(sample)`); this function is for sketches that several tasks
    share, and for scripts that take the task as a word.

    Parameters
    ----------
    sample : array, data frame, path or anything else that `source` takes, default=None
        Some rows, best drawn from all over the data: up to 5000 are used (150 for each of many clusters in many
        columns, and 20,000 for mixtures). Names of its columns become those of the operator. For clusters, a sketch of
        frequencies of many scales serves as well, such as one of
        `design(bounds=..., features=skl.features.Fourier(n_frequencies=100))`: center, spread and scale are read off
        it.
    n_components : int, default=None
        Number of clusters or mixture components; not for "generator", "moments" and "subspaces".
    task : str, default="kmeans"
        "kmeans"; "mixture" (Gaussians with spherical, tied or diagonal covariances) or "mixture-full"; "stable"
        (components with heavy tails); "histograms" (half of the frequencies along the axes); "generator" (frequencies
        of many lengths); "moments" (regressions, principal components and classes); "subspaces"; "kernel" (kernel
        regression); or "ica" (independent components, which need a sample). Moments from declared bounds clip values
        beyond them, as private releases need.
    features : Fourier, Cells or Moments of `skl.features`, default=None
        The family of features and its size. None chooses it: for clusters and for mixtures of spherical or diagonal
        Gaussians, cells above 64 columns and random frequencies below, and for tables with a schema; for other tasks,
        the features of the task.
    bounds : pair of numbers or lists, default=None
        Instead of a sample, the lowest and the highest value of each column. The operator then has frequencies of many
        scales, and decoders choose among them.
    representative : bool, default=None
        False if the sample is not drawn from all over the data, such as the first rows of a stream: many scales again,
        for records up to 16 times as far apart as those of the sample. None means True for arrays, tables and files
        that can be read anywhere, and False where only the first rows can be read.
    seed : int, default=0
        Seed of the operator.
    n_rows : int, default=None
        About how many records will be sketched: with a sample, it decides the subsampling of frequencies and the width
        of a kernel; with bounds, the size for a private release.
    epsilon, delta, neighbors : float, float, str
        The planned private release of the sketch (see `privatize`). With bounds and n_rows, which must be public, they
        decide the size by the noise that `privatize` will add. No budget is spent here. `skl.privacy.forecast` shows
        that noise.
    standardize : bool, default=False
        Measure squared errors in units of each column's standard deviation in the sample, so that columns of different
        kinds (money, ages, booleans) matter alike. Centers are in the units of the table.
    rows : int, default=None
        Number of sketched rows that each sketch keeps beside its sums: clusters are then never worse than those of a
        good sample, and standard errors (of "moments" and "ica" too) hold for any distribution of the rows. These rows
        are in the sketch's file: leave this out where rows must not travel.
    schema : Schema or "auto", default=None
        Encodes columns that are not numbers; "auto" takes what `skl.schema(sample)` proposes. It becomes part of the
        operator, which then encodes tables where they are sketched.
    targets : str or list, default=None
        For "kernel", the columns to predict from the others. None means the last column.
    profile_columns : str, int or list of these, default=None
        Passive columns, by name or position: clusters are those of the other columns, and the sketch has exact sums of
        these in each cell, from which `profiles` has their means and proportions over all records.

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
    >>> skl.design(X, n_components=4, features=skl.features.Cells()).in_words
    'means and squares of 3 columns in ... Voronoi cells'
    >>> skl.design(bounds=([0, 0], [1, 100]), n_components=4).part(skl.features.Histograms).edges[1][-1]
    100.0
    >>> small = skl.features.Fourier(n_frequencies=100)
    >>> first = skl.design(bounds=([-9] * 3, [9] * 3), n_components=4, features=small).sketch(X)
    >>> skl.design(first, n_components=4).part(skl.features.FourierFeatures).law.widths(3).round(1)
    array([1.6, 1.6, 1.6])
    >>> private = [skl.design(bounds=(-9, [9] * 5), n_components=4, n_rows=10**5, epsilon=e) for e in (0.02, 1)]
    >>> private[0].n_sums < private[1].n_sums
    True
    >>> skl.design(bounds=([0, 0], [1, 100]), task="moments").outside
    'clip'
    >>> all_of_them = skl.features.Fourier(subsample=None)
    >>> large = [skl.design(X, n_components=4, n_rows=10**7, features=features) for features in (None, all_of_them)]
    >>> [operator.part(skl.features.FourierFeatures).subsample for operator in large]
    [39, None]
    """
    if former:
        given = {"features": features, "profile_columns": profile_columns} | with_present_names(former, "design", task)
        features, profile_columns = given.pop("features"), given.pop("profile_columns")
        if given:
            raise TypeError(f"design() got an unexpected keyword argument {min(given)!r}")
    if not isinstance(task, str) or (task not in DESIGNS and task not in designs()):
        raise ValueError(f"task must be one of {', '.join(designs())}, not {shortened(task)}")
    checked(features, FAMILIES.get(task, ()), f"{task!r}", in_directions=task == GENERATOR)
    if (sample is None) == (bounds is None):
        raise ValueError("design needs either a sample of rows or bounds")
    if schema is not None and not isinstance(sample, Sketch):
        if sample is None:
            raise ValueError("schema needs a sample: bounds would be those of the encoded columns")
        sample = source(sample, schema=schema)
    if isinstance(sample, Sketch):
        size = {"epsilon": epsilon, "n_rows": n_rows, "rows": rows, "standardize": standardize, "schema": schema}
        _leave_out_of_sketch(task, features, **size, representative=representative is not None)
    origin = Origin.SAMPLE if bounds is None else Origin.DECLARED
    designer, used = _DESIGNERS.get(task, (None, ())) if task in DESIGNS else (_of_other_package, ())
    operator: Operator | None = None
    if designer is not None:
        sizes = {"n_components": n_components, "epsilon": epsilon, "n_rows": n_rows, "delta": delta}
        sizes |= {"standardize": standardize, "rows": rows, "neighbors": neighbors != ADD_REMOVE}
        _leave_out(task, **{name: value for name, value in sizes.items() if name not in used})
    if bounds is not None and (rows is not None or (standardize and designer is None)):
        raise InvalidValueError(f"{Parameter('rows')} and {Parameter('standardize')} need a sample", UNKNOWN_PLACES)
    n_kept = None if rows is None else whole("rows", rows, most=MOST_KEPT)
    if designer is not None:
        operator = designer(
            Request(task, sample, bounds, representative, seed, features, n_components, n_rows, n_kept, targets)
        )
    if profile_columns is not None and (operator is not None or bounds is not None or isinstance(sample, Sketch)):
        remedy = "leave them out, or design clusters on such a sample"
        raise InvalidValueError("need a sample of rows to cluster", remedy, parameter="profile_columns")
    if targets is not None and task != KERNEL:
        raise InvalidValueError(f"targets are for {Parameter('task', KERNEL)}, not {task!r}")
    if operator is not None:
        return operator.with_origin(origin)
    waves = features if isinstance(features, Fourier) else Fourier()
    k, wave = whole("n_components", n_components), wave_from(waves.wave)
    standardize = truth("standardize", standardize)
    asked = Asked(k, task, wave, waves.n_frequencies, seed, n_rows, waves.subsample, standardize, n_kept)
    if isinstance(sample, Sketch):
        return on_sketch(asked, sample).with_origin(origin)
    budget = budget_of(bounds, n_rows, epsilon, delta, neighbors)
    in_directions = features is None or (isinstance(features, Cells) and features.n_directions != 0)
    if profile_columns is not None and (task != "kmeans" or not in_directions or getattr(features, "normalize", False)):
        remedy = "leave out frequencies, normalize and cells in the columns themselves"
        raise InvalidValueError("are for clusters in cells", remedy, parameter="profile_columns")
    if bounds is None:
        return _on_rows(asked, features, sample, representative, profile_columns).with_origin(origin)
    if waves.subsample not in (AUTO, None):
        raise InvalidValueError(
            "needs a sample here", "from bounds, records contribute to all frequencies", parameter="subsample"
        )
    return _in_bounds(asked, features, *checked_bounds(bounds), budget).with_origin(origin)


def _in_bounds(asked: Asked, features: Any, low: Double, high: Double, budget: Budget | None) -> Operator:
    """An operator for rows within bounds: of random projections, if they have many columns, or of frequencies."""
    if not isinstance(features, Cells):
        wide = features is None and asked.task == "kmeans" and len(low) > WIDE
        return sums_in_bounds(asked, low, high, budget, None) if wide else in_bounds(asked, low, high, budget)
    if features.normalize:
        remedy = "without one, divide rows by their lengths before they are sketched"
        raise InvalidValueError("needs a sample", remedy, parameter="normalize")
    if asked.task != "kmeans" or features.n_directions in (AUTO, 0):
        raise InvalidValueError("needs a sample here", UNKNOWN_PLACES, parameter="n_directions")
    return sums_in_bounds(asked, low, high, budget, int(features.n_directions))


def _on_rows(asked: Asked, features: Any, sample: Any, representative: bool | None, profile_columns: Any) -> Operator:
    """An operator for rows like these: cells, if those are asked for or rows have many columns, or frequencies."""
    most = rows_wanted(asked.task, asked.n_components)
    pilot = isinstance(features, Cells) and features.n_directions in (0, AUTO)
    pilot_rows = max(most, rows_of_pilot(asked.n_components) if pilot else 0)
    sampled = rows_of(sample, asked.seed, pilot_rows, representative, single=True)
    if features == Cells() and sampled.rows.shape[1] > WIDE:
        sampled = replace(sampled, rows=thinned(sampled.rows, most))
    cells = _cells_of_sample(asked, features, sampled, profile_columns)
    if cells is None:
        rows = thinned(sampled.rows, rows_wanted(asked.task)).astype(np.float64, copy=False)
        return on_sample(asked, replace(sampled, rows=rows))
    with one_blas_thread():
        operator = cells_on_sample(cells, sampled)
        standard = features is None and not cells.passive
        return with_standard_parts(operator, sampled, asked.n_components, asked.seed) if standard else operator


def _cells_of_sample(asked: Asked, features: Any, sampled: DesignSample, profile_columns: Any) -> CellsAsked | None:
    d, mixture = sampled.rows.shape[1], asked.task == "mixture"
    if isinstance(features, Fourier) or asked.task not in CELL_TASKS:
        return None
    passive = passive_columns(profile_columns, sampled.columns, d)
    if features is None and not passive and d <= WIDE:
        return None
    cells = features or Cells()
    in_columns = cells.n_directions == AUTO and d <= WIDE and not (cells.normalize or passive or mixture)
    p = 0 if in_columns else None if cells.n_directions == AUTO else int(cells.n_directions)
    if p == 0 and mixture:
        raise InvalidValueError("mixtures need cells in directions", f"leave out {Parameter('n_directions', 0)}")
    squared = mixture or bool(passive)
    return CellsAsked(
        asked.n_components, p, asked.seed, cells.normalize, squared, passive, asked.standardize, asked.n_kept
    )


@dataclass(frozen=True)
class Request:
    """What `design` was asked for, for tasks other than clusters and mixtures."""

    task: str
    sample: Any
    bounds: Any
    representative: bool | None
    seed: int
    features: Any
    n_components: int | None
    n_rows: int | None
    n_kept: int | None
    targets: Any

    @property
    def name(self) -> str:
        return either(f"task {self.task!r}", f"--task {self.task}")

    def design_sample(self) -> DesignSample:
        """Rows of the sample; with bounds, no rows of as many columns."""
        if self.bounds is not None:
            return DesignSample(np.empty((0, len(checked_bounds(self.bounds)[0]))), False, None)
        return rows_of(self.sample, self.seed, MOST_ROWS, self.representative)

    def keeping(self, operator: Kind, design_sample: DesignSample) -> Kind:
        """The operator with a priority sample, if one is asked for."""
        return operator if self.n_kept is None else keeping_rows(operator, design_sample, self.n_kept)


def _moments(request: Request) -> Operator:
    design_sample = request.design_sample()
    if request.features is not None and request.features.n_directions is not None:
        if request.bounds is not None or request.n_kept is not None:
            raise InvalidValueError(
                "of moments needs a sample, and keeps no rows", "leave out bounds and rows", parameter="n_directions"
            )
        with one_blas_thread():
            return moments_in_directions(design_sample, request.features.n_directions, request.seed)
    moments = second_moments if request.task == MOMENTS else fourth_moments
    operator: Any = moments(design_sample, request.bounds)
    return replace(operator, outside=CLIP) if request.sample is None else request.keeping(operator, design_sample)


def _waves_of_generator(request: Request) -> Operator:
    features = request.features or Fourier()
    if features.subsample not in (AUTO, None):
        _leave_out(GENERATOR, subsample=features.subsample)
    waves = features.n_frequencies, wave_from(features.wave), request.seed
    if request.bounds is None:
        with one_blas_thread():
            return generator_operators.on_sample(request.design_sample(), features.n_directions, *waves)
    if features.n_directions not in (AUTO, None):
        raise InvalidValueError("needs a sample here", UNKNOWN_PLACES, parameter="n_directions")
    low, high = checked_bounds(request.bounds)
    return generator_operators.waves_in_bounds(low, high, *waves)


def _of_kernels(request: Request) -> Operator:
    n_frequencies = None if request.features is None else request.features.n_frequencies
    if request.features not in (None, Fourier(n_frequencies)):
        remedy = either("give n_frequencies alone", "leave out --wave, --subsample and --directions")
        raise InvalidValueError("takes a number of frequencies alone", remedy, Parameter("task", KERNEL))
    sampled = request.design_sample()
    targets = [-1] if request.targets is None else request.targets
    which = positions(targets, sampled.columns, sampled.rows.shape[1])
    estimator = SketchKernelRegressor(n_frequencies=n_frequencies, bounds=request.bounds)
    estimator.check_parameters()
    later = None if request.n_rows is None else whole("n_rows", request.n_rows)
    sampled = replace(sampled, targets=which, n_rows=later)
    operator = estimator.design_operator(sampled, np.random.default_rng(request.seed))
    return operator if request.bounds is None else replace(operator, outside=CLIP)


def _cumulants(request: Request) -> Operator:
    if request.sample is None:
        raise InvalidValueError(
            f"{request.name} needs a sample of rows", "bounds do not determine the independent components"
        )
    sampled, k = request.design_sample(), request.n_components
    d = sampled.rows.shape[1]
    if k is not None and whole("n_components", k) > d:
        raise InvalidValueError(f"must be at most the number of columns, {d}", parameter=Parameter("n_components", k))
    return request.keeping(cumulant_features(sampled, np.random.default_rng(request.seed), k), sampled)


def _of_other_package(request: Request) -> Operator:
    kind: Any = tasks()[request.task].load()
    bounded = request.bounds is not None
    if bounded and "bounds" not in kind().get_params():
        raise InvalidValueError(f"{request.name} needs a sample of rows", "it does not take bounds")
    estimator = kind(bounds=request.bounds) if bounded else kind()
    operator: Operator = estimator.design_operator(request.design_sample(), np.random.default_rng(request.seed))
    return operator


#: how operators are designed for tasks other than clusters and mixtures, and the sizes that have a meaning there
_DESIGNERS: dict[str, tuple[Callable[[Request], Operator], tuple[str, ...]]] = {
    MOMENTS: (_moments, ("n_components", "rows")),
    SUBSPACES: (_moments, ("n_components",)),
    GENERATOR: (_waves_of_generator, ("n_components",)),
    KERNEL: (_of_kernels, ("n_rows",)),
    ICA: (_cumulants, ("n_components", "rows")),
}


def _leave_out(task: str, **given: Any) -> None:
    for name, value in given.items():
        if value:
            raise InvalidValueError("has one size for all", f"leave out {Parameter(name)}", Parameter("task", task))


def _leave_out_of_sketch(task: str, features: Features | None, **given: Any) -> None:
    """Refuses arguments that need rows, where a sketch takes the place of the sample."""
    if task != "kmeans":
        raise ValueError(f"a sketch determines the scale of clusters alone: for {task!r}, give design a sample of rows")
    waves = features or Fourier()
    given |= {"Cells": isinstance(features, Cells), "subsample": getattr(waves, "subsample", AUTO) not in (AUTO, None)}
    for name, value in given.items():
        if value:
            raise ValueError(f"{name} needs a sample of rows, or bounds, in place of a sketch")
