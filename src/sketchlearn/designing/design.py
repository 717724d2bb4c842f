"""`design`: center, units, law, scale and size of an operator, for a task."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from sketchlearn.decoders.reading import PER_PARAMETER, coarseness
from sketchlearn.designing.independent import cumulant_features
from sketchlearn.designing.private import Budget, law_of_lengths
from sketchlearn.designing.ranges import checked_bounds, fourth_moments, second_moments
from sketchlearn.designing.sample import MOST_ROWS, Summary, deviations, rows_wanted, summarize, thinned
from sketchlearn.designing.shapes import cluster_shapes
from sketchlearn.frequencies import AdaptedRadius, Gaussian, Law, LogUniform, Mixture, Probed, Shaped
from sketchlearn.keeping import MOST_KEPT, Keeping
from sketchlearn.operators import Concatenated, FourierFeatures, SecondMoments, VeroneseMoments
from sketchlearn.operators.bounded import CLIP
from sketchlearn.sources import is_array, source
from sketchlearn.sources import sample as sample_of
from sketchlearn.values import number, positive, shortened, truth, whole
from sketchlearn.waves import Wave, wave_from

Double = NDArray[np.float64]

GENERATOR, ICA, MOMENTS, SUBSPACES = "generator", "ica", "moments", "subspaces"
TASKS = ("kmeans", "mixture", "mixture-full", "stable", "histograms", GENERATOR, MOMENTS, ICA, SUBSPACES)
CLUSTERS = ("kmeans", "histograms")
FEWEST_PER_PARAMETER = 2
MOST_NUMBERS = 10_000_000  # of the matrix of frequencies, where fewer frequencies would do
FINER = 1.34  # a mixture's frequencies are that much longer than its clusters' own scale suggests
LOW_PROBES = (0.3, 0.6, 1.2)  # low ones are disturbed least by heavy tails, and most by harmonics of a wave
HIGH_PROBES = (1.2, 1.6, 2.0)
MOST_SCALES = 50
LOCAL = 0.5  # share of a mixture's frequencies that are drawn in the metric of a cluster
NARROWER = (0.7,)  # scales where a wave has harmonics, which disturb long frequencies least
WIDER = (1.0, 1.7, 3.0)  # scales of those, in a cluster's own: tails, and how clusters lie to each other, show too
ALONG = 0.5  # share of the frequencies that lie along the axes, for histograms of columns
PERIOD = 1.25  # half of it, in the largest distances of the sample from its mean
LOOSE = 2.0  # bounds may be that many times too wide
DETAIL = (0.3, 40.0)  # lengths of a generator's frequencies, per deviation of a column
DETAIL_IN_BOUNDS = (0.5, 64.0)  # per half the width of the bounds, which the records may fill or not
FOR_GENERATORS = (400, 100)  # frequencies, and so many more per column
BEYOND = 16.0  # the records of a stream may spread that many times as far as its first rows


@overload
def design(
    sample: Any = None,
    *,
    task: Literal["moments"],
    bounds: Any = None,
    representative: bool | None = None,
    seed: int = 0,
) -> SecondMoments: ...


@overload
def design(
    sample: Any,
    *,
    task: Literal["ica"],
    n_components: int | None = None,
    representative: bool | None = None,
    seed: int = 0,
) -> Concatenated: ...


@overload
def design(
    sample: Any = None,
    *,
    task: Literal["generator"],
    bounds: Any = None,
    representative: bool | None = None,
    n_frequencies: int | None = None,
    wave: str | Wave = "exponential",
    seed: int = 0,
) -> FourierFeatures: ...


@overload
def design(
    sample: Any = None,
    *,
    task: Literal["subspaces"],
    bounds: Any = None,
    representative: bool | None = None,
    seed: int = 0,
) -> VeroneseMoments: ...


@overload
def design(
    sample: Any = None,
    *,
    n_components: int,
    task: str = "kmeans",
    bounds: Any = None,
    representative: bool | None = None,
    n_frequencies: int | None = None,
    wave: str | Wave = "exponential",
    seed: int = 0,
    n_rows: int | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    standardize: bool = False,
    rows: int | None = None,
) -> FourierFeatures: ...


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
    standardize: bool = False,
    rows: int | None = None,
) -> FourierFeatures | SecondMoments | VeroneseMoments | Concatenated:
    """An operator whose sketches tell clusters or mixtures of the data apart, or that hold its second moments.

    Parameters
    ----------
    sample : some rows (up to 5000 are used, 20,000 for mixtures), best drawn from all over the data; or anything that
        `source` takes, of which some rows are read. If its columns have names, so have the operator's.
    n_components : the number of clusters or mixture components; not for "generator", "moments" and "subspaces".
    task : "kmeans", "mixture" (Gaussians with spherical, tied or diagonal covariances), "mixture-full" or
        "stable" (components with heavy tails) or "histograms" (half of the frequencies along the axes);
        or "generator" (frequencies of many lengths, for `SketchGenerator`); or "moments" (for regressions, principal
        components and classes) or "subspaces", which have no size to choose: values beyond declared bounds are clipped
        there, as private releases need. Or "ica" (independent components; n_components may be left out), which needs a
        sample.
    bounds : instead of a sample: lowest and highest value of each column, as a pair of numbers or of lists. The
        operator then has frequencies of many scales, and decoders read the right one off the sketch.
    representative : False if the sample is not drawn from all over the data, such as the first rows of a stream: many
        scales again, for records that may lie up to 16 times as far apart as those of the sample. None means True for
        arrays and tables, and for files that can be read anywhere; False where only the first rows can be had.
    n_frequencies : size; by default 10 per centroid coordinate or mixture parameter (fewer for thousands of columns).
    wave : the wave of the operator. Complex waves with dither get 25 % more frequencies, real ones twice as many.
    seed : seed of the operator.
    epsilon, delta, n_rows : what a private release of the sketch will spend (see `privatize`), and about how many
        records it will have, as far as that is public. Given with bounds, they decide the size: noise on many
        frequencies would hide what they show. Nothing is spent on the scale.
    standardize : count squared errors in units of each column's standard deviation in the sample, so that columns of
        different kinds (money, ages, flags) matter alike. Otherwise k-means follows the columns with the largest
        numbers. Centers come back in the units of the table.
    rows : keep so many of the sketched rows beside each sketch: clusters learned from it are then never worse than
        those of a good sample. They travel with the sketch, in its file too; leave this out where rows may not.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_normal((1000, 3))
    >>> operator = skl.design(X, n_components=4)
    >>> operator.n_frequencies, operator.law.law
    (120, Gaussian(scale=1.1...))
    >>> skl.design(bounds=([0, 0], [1, 100]), n_components=4).law.law
    LogUniform(smallest=..., largest=...)
    >>> [skl.design(bounds=(-9, [9] * 5), n_components=4, n_rows=10**5, epsilon=e).n_frequencies for e in (0.02, 1)]
    [60, 200]
    >>> skl.design(bounds=([0, 0], [1, 100]), task="moments").outside
    'clip'
    """
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, not {shortened(task)}")
    if (sample is None) == (bounds is None):
        raise ValueError("design needs either a sample of rows or bounds")
    sizes = {"epsilon": epsilon, "n_rows": n_rows, "delta": delta, "standardize": standardize, "rows": rows}
    if task in (MOMENTS, SUBSPACES):
        _leave_out(task, n_frequencies=n_frequencies, **sizes)
        return _moments(task, sample, bounds, representative, seed)
    if task == GENERATOR:
        _leave_out(task, **sizes)
        return _for_generators(sample, bounds, representative, n_frequencies, wave_from(wave), seed)
    if task == ICA:
        _leave_out(task, n_frequencies=n_frequencies, **sizes)
        return _cumulants(sample, n_components, representative, seed)
    k = whole("n_components", n_components)
    budget = _budget(bounds, n_rows, epsilon, delta)
    wave = wave_from(wave)
    n_kept = None if rows is None else whole("rows", rows, most=MOST_KEPT)
    standardize = truth("standardize", standardize)
    columns, own = None, dict[str, Any]()
    if bounds is not None:
        if n_kept is not None or standardize:
            raise ValueError("rows and standardize need a sample: bounds do not tell how the records lie")
        low, high = checked_bounds(bounds)
        center, d = (low + high) / 2, len(low)
        reach, usual = (high - low) / 2, _size(k, d, task, wave)
        if budget is None:
            law: Law = _law_of_bounds(reach, k)
        else:
            law = Probed(law_of_lengths(k, d), units=_plain(reach), spread=_plain(reach / 16), probes=())
            usual = usual if n_frequencies else budget.size(k, d, _parameters(k, d, task))
        m = usual if n_frequencies is None else whole("n_frequencies", n_frequencies)
    else:
        some, columns, from_all_over = _rows_of(sample, seed, rows_wanted(task), representative)
        d = some.shape[1]
        m = _size(k, d, task, wave) if n_frequencies is None else whole("n_frequencies", n_frequencies)
        everything, some = some, thinned(some, MOST_ROWS)
        metric = _metric(some, task, standardize)
        summary = summarize(_without_tails(some) if task == "stable" else some, k, seed, metric)
        center = summary.mean
        own = {"units": _plain(metric) if standardize and metric is not None else None}
        if n_kept is not None:
            own["keeping"] = Keeping.designed(everything, n_kept, np.ones(d) if metric is None else metric, seed)
        if not from_all_over:
            law = _law_of_stream(summary)
        elif task == "histograms":
            law = _with_axes(_law(summary, k, m, "kmeans", wave), everything, m)
        elif task.startswith("mixture"):
            law = _shaped(_law(summary, k, m, task, wave), everything, k, wave, seed, full=task == "mixture-full")
        else:
            law = _law(summary, k, m, task, wave)
    where, declared = tuple(center.tolist()), bounds is not None
    own |= {"columns": columns, "declared": declared}
    return FourierFeatures(d, m, law=law, wave=wave, center=where, seed=seed, **own)


def _metric(rows: Double, task: str, standardize: bool) -> Double | None:
    """Units of squared errors: the columns' own or, standardised, deviations; mixtures measure in none."""
    if task not in CLUSTERS:
        if standardize:
            raise ValueError(f"standardize is for clusters: task {task!r} gives the same in any units")
        return None
    return deviations(rows) if standardize else np.ones(rows.shape[1])


def _moments(
    task: str, sample: Any, bounds: Any, representative: bool | None, seed: int
) -> SecondMoments | VeroneseMoments:
    moments = second_moments if task == MOMENTS else fourth_moments
    if bounds is not None:
        nothing = np.empty((0, len(checked_bounds(bounds)[0])))
        return replace(moments(nothing, bounds=bounds), outside=CLIP)
    rows, columns, from_all_over = _rows_of(sample, seed, MOST_ROWS, representative)
    return moments(rows, columns, representative=from_all_over)


def _for_generators(
    sample: Any, bounds: Any, representative: bool | None, n_frequencies: int | None, wave: Wave, seed: int
) -> FourierFeatures:
    """Lengths log-uniform, as nobody says at which scale generated rows will be looked at."""
    columns = None
    if bounds is not None:
        low, high = checked_bounds(bounds)
        center, unit, least, (coarse, fine) = (low + high) / 2, (high - low) / 2, (high - low) / 32, DETAIL_IN_BOUNDS
    else:
        rows, columns, from_all_over = _rows_of(sample, seed, MOST_ROWS, representative)
        center, unit = rows.mean(axis=0), deviations(rows)
        least, (coarse, fine) = unit, DETAIL
        if not from_all_over:
            coarse /= BEYOND
    d = len(center)
    m = FOR_GENERATORS[0] + FOR_GENERATORS[1] * d
    m = math.ceil(m * _more(wave)) if n_frequencies is None else whole("n_frequencies", n_frequencies)
    law = Probed(
        LogUniform(math.sqrt(d) / fine, math.sqrt(d) / coarse), units=_plain(unit), spread=_plain(least), probes=()
    )
    where, declared = _plain(center), bounds is not None
    return FourierFeatures(d, m, law=law, wave=wave, center=where, seed=seed, columns=columns, declared=declared)


def _leave_out(task: str, **given: Any) -> None:
    """Refuses arguments that a task has no use for."""
    for name, value in given.items():
        if value:
            raise ValueError(f"task={task!r} has one size for all: leave out {name}")


def _cumulants(sample: Any, n_components: int | None, representative: bool | None, seed: int) -> Concatenated:
    if sample is None:
        raise ValueError("task 'ica' needs a sample of rows: bounds do not tell which components there are")
    rows, columns, from_all_over = _rows_of(sample, seed, MOST_ROWS, representative)
    if n_components is not None and whole("n_components", n_components) > rows.shape[1]:
        raise ValueError(f"n_components={n_components} must be at most the number of columns, {rows.shape[1]}")
    return cumulant_features(
        rows,
        columns,
        n_components=n_components,
        representative=from_all_over,
        rng=np.random.default_rng(seed),
    )


def _budget(bounds: Any, n_rows: int | None, epsilon: float | None, delta: float) -> Budget | None:
    if epsilon is None:
        if n_rows is not None or delta:
            raise ValueError("n_rows and delta are for private releases: give their epsilon, too")
        return None
    if bounds is None or n_rows is None:
        raise ValueError("a design for private releases looks at no rows: give bounds, and n_rows, about how many")
    delta = number("delta", delta)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and below 1, not {delta!r}")
    return Budget(whole("n_rows", n_rows), positive("epsilon", epsilon), delta)


def _size(k: int, d: int, task: str, wave: Wave) -> int:
    """Frequencies in proportion to the parameters, fewer where the matrix of frequencies would be huge."""
    parameters = _parameters(k, d, task)
    most = max(FEWEST_PER_PARAMETER * parameters, MOST_NUMBERS // d)
    return math.ceil(min(PER_PARAMETER * parameters, most) * _more(wave))


def _more(wave: Wave) -> float:
    """How many times as many frequencies a wave needs as the exponential."""
    return 1.0 if not wave.dithered else 1.25 if wave.complex else 2.0


def _parameters(k: int, d: int, task: str) -> int:
    shape = {"kmeans": 0, "mixture": d, "mixture-full": d * (d + 1) // 2, "stable": d + 1, "histograms": 0}[task]
    return k * d if shape == 0 else k * (1 + d + shape)


def _law(summary: Summary, k: int, m: int, task: str, wave: Wave) -> Probed:
    d = len(summary.mean)
    probes = LOW_PROBES if not wave.harmonics() else HIGH_PROBES
    if task == "kmeans":
        scale = math.sqrt(summary.cost * coarseness(k, d, m))
        return Probed(Gaussian(scale), units=_plain(summary.units), spread=_plain(summary.spread), probes=probes)
    # in units of each column's deviation within clusters, one scale per cluster
    units = summary.within / np.exp(np.mean(np.log(summary.within)))
    factor = np.mean((summary.units / units) ** 2)
    scales = np.sqrt(np.quantile(summary.cluster_costs * factor, np.linspace(0, 1, min(k, MOST_SCALES)))) / FINER
    law = Mixture(tuple(AdaptedRadius(float(s)) for s in scales))
    return Probed(law, units=_plain(units), spread=_plain(summary.spread), probes=probes)


def _shaped(law: Probed, rows: Double, k: int, wave: Wave, seed: int, *, full: bool) -> Probed:
    """The law with a share of frequencies in the metric of the sample's clusters, at several distances from them."""
    shapes = cluster_shapes(rows / np.array(law.units), k, seed, full=full)
    if not shapes:
        return law
    scale = math.sqrt(rows.shape[1]) / FINER
    wider = WIDER if not wave.harmonics() else NARROWER
    local = Mixture(tuple(AdaptedRadius(scale * factor) for factor in wider))
    return replace(law, law=Shaped(law.law, local, shapes, share=LOCAL))


def _with_axes(law: Probed, rows: Double, m: int) -> Probed:
    """The law with a share of frequencies on regular grids along the axes, whose periods are wider than the sample."""
    reach = np.maximum(np.max(np.abs(rows - rows.mean(axis=0)), axis=0), np.array(law.spread))
    n = max(1, int(ALONG * m / rows.shape[1]))
    return replace(law, spread=_plain(PERIOD * reach / np.pi), probes=tuple(float(i) for i in range(1, n + 1)))


def _law_of_stream(summary: Summary) -> Law:
    d = len(summary.mean)
    probes = tuple(float(r) for r in np.geomspace(0.6 / BEYOND, 1.2, 6))
    widest = math.sqrt(float(np.sum((summary.spread / summary.units) ** 2))) * BEYOND
    law = LogUniform(0.8 * math.sqrt(summary.cost), max(widest, 2 * math.sqrt(summary.cost * d)))
    return Probed(law, units=_plain(summary.units), spread=_plain(summary.spread), probes=probes)


def _law_of_bounds(reach: Double, k: int) -> Law:
    d = len(reach)
    law = LogUniform(math.sqrt(d) / (16 * LOOSE * k ** (1 / d)), math.sqrt(d) / 4)
    return Probed(law, units=_plain(reach), spread=_plain(reach / 16), probes=(0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0))


def _plain(values: Double) -> tuple[float, ...]:
    return tuple(values.tolist())


def _rows_of(
    data: Any, seed: int, most: int, representative: bool | None
) -> tuple[Double, tuple[str, ...] | None, bool]:
    """Rows of a sample, names of their columns, and whether they come from all over the data, as told or as seen."""
    if isinstance(data, np.ndarray | list | tuple) and is_array(data):
        some, columns, from_all_over = data, None, True
    else:
        rows = source(data)
        some, from_all_over, _ = sample_of(rows, most, np.random.default_rng(seed))
        columns = rows.columns
    told = from_all_over if representative is None else bool(representative)
    return thinned(_checked_sample(some), most), columns, told


def _checked_sample(sample: Any) -> Double:
    rows = np.asarray(sample, np.float64)
    if rows.ndim != 2 or not len(rows) or not rows.shape[1]:
        raise ValueError(
            f"the sample must be a table of rows with at least one row and column, not of shape {rows.shape}"
        )
    if not np.all(np.isfinite(rows)):
        raise ValueError("the sample has missing or infinite values: fill or drop them first")
    return rows


def _without_tails(rows: Double) -> Double:
    """Rows pulled in to the range of nine tenths of them: stable laws have no variance."""
    low, high = np.quantile(rows, [0.05, 0.95], axis=0)
    return np.clip(rows, low, high)
