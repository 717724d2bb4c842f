"""Pictures of what a sketch holds, and of how two sketches differ. They are drawn from sketches alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import uniform_filter1d

from sketchlearn.core.arrays import Double
from sketchlearn.core.messages import counted, printable
from sketchlearn.core.packages import required
from sketchlearn.estimators.base.estimator import ErrorBarredEstimator, SketchEstimator
from sketchlearn.estimators.number_of_clusters import Basis, ClusterChoice
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import refine
from sketchlearn.inference.decoders.target import Target, fourier_part
from sketchlearn.inference.distributions import Mixture, merge_components
from sketchlearn.inference.sampling_noise import Noise, Released, density_of, n_determined
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.questions.comparison import Change, effective_count, two_sample_test
from sketchlearn.questions.density_maps import (
    BLUE,
    GREY,
    LEGEND,
    ORANGE,
    Parts,
    draw_change,
    draw_density,
    moments,
    view_of,
)
from sketchlearn.questions.marginals import Histogram, LevelShares
from sketchlearn.questions.profiles import profiles_or_none
from sketchlearn.sketch.sums import Sketch
from sketchlearn.views.report.clusters import MOST_SHOWN, HeatRow, heat_map
from sketchlearn.views.templates import MOST_HEAT

FORMATS = ("png", "svg", "pdf")
DPI = 150
REFINEMENT_ITERATIONS = 200  # from the density of both sketches to that of each
SMALLEST_P_VALUE = 1e-30  # smaller ones are drawn as this one
BAND_SHARE = 0.95  # of the differences by sampling error alone
BAND_FACTOR_REAL = 3.841  # that quantile of the chi-squared distribution with one degree of freedom


def plot_model(sketch: Sketch, estimator: Any = None, path: str | os.PathLike[str] | None = None) -> Any:
    """Draws clusters or components over the density of the records; returns the matplotlib figure.

    One column gives a curve, two a map, more a map of the two directions that separate the centers best and a heat map
    of the clusters by columns. The density is that of the sketch's histogram, frequencies or sampled rows, and of the
    model only where its label says so. Contours hold 25 to 99 % of the records; ellipses are at one and two standard
    deviations; the size of dots is the weight, their numbers are those of `predict`. Black ellipses are 95 % confidence
    regions of centers, if standard errors are known.

    Parameters
    ----------
    sketch : the sketch of a fitted estimator; without one, a sketch of Fourier features.
    estimator : a fitted `SketchKMeans`, `SketchGaussianMixture` or the like; None draws the density's own components.
    path : where to save it: png, svg or pdf.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> from sketchlearn.views.pictures import plot_model
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 2)) + 6 * rng.integers(0, 2, (2000, 1))
    >>> fitted = skl.SketchKMeans(2, random_state=0).fit(X)
    >>> plot_model(fitted.sketch_, fitted).axes[0].get_xlabel()
    'column 0'
    """
    if not isinstance(sketch, Sketch):
        raise TypeError(f"a picture is drawn from a sketch, not {type(sketch).__name__}: sketch the rows first")
    density, parts = _model(fourier_part(sketch)[0] if estimator is None else sketch, estimator)
    mean, total = moments(density)
    away = parts.centers - parts.weights @ parts.centers / parts.weights.sum()
    between = (away * parts.weights[:, None]).T @ away
    view = view_of(total, mean, between, sketch.operator.column_names)
    wide = estimator is not None and len(total) > 2
    figure = _figure(path, 12.0 if wide else 7.0, 5.6)
    axes = figure.add_subplot(1, 2 if wide else 1, 1)
    draw_density(axes, view, sketch, density, parts)
    n = len(parts.centers)
    axes.set_title(f"{counted(n, parts.name)}, from the sketch of {counted(sketch.count, 'record')}")
    if wide:
        rows = heat_map(estimator, profiles_or_none(estimator, sketch))
        draw_heat_map(figure.add_subplot(1, 2, 2), rows, parts.name)
    return _saved(figure, path)


def draw_heat_map(axes: Any, rows: list[HeatRow], noun: str) -> None:
    """Draws clusters by columns: how far each lies from the average of all records."""
    values = np.array([row.places[:MOST_SHOWN] for row in rows]).reshape(len(rows), -1)
    colors: dict[str, Any] = {"cmap": "PuOr_r", "vmin": -MOST_HEAT, "vmax": MOST_HEAT, "aspect": "auto"}
    image = axes.imshow(values, **colors)
    axes.set_xticks(range(values.shape[1]))
    axes.set_yticks(range(len(rows)), [printable(row.name) for row in rows])
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            axes.text(column, row, f"{value:+.1f}", ha="center", va="center", fontsize=8)
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.04, pad=0.03)
    bar.set_label("standard deviations from the average of all records")
    axes.set(xlabel=noun, ylabel="column", title=f"{noun}s by columns")


def plot_comparison(a: Sketch, b: Sketch, path: str | os.PathLike[str] | None = None) -> Any:
    """Draws how the records of two sketches differ; returns the matplotlib figure.

    Left: the density of the second less that of the first, on the directions where they differ most. Right: |z_a - z_b|
    of each frequency against its length, and the band that holds 95 % of them by sampling error alone.

    Parameters
    ----------
    a, b : sketches of one operator of Fourier features.
    path : where to save it: png, svg or pdf.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> from sketchlearn.views.pictures import plot_comparison
    >>> X = np.random.default_rng(0).standard_normal((4000, 2))
    >>> operator = skl.design(X, n_components=2)
    >>> figure = plot_comparison(operator.sketch(X[:2000]), operator.sketch(X[2000:] + [0.5, 0]))
    >>> figure.axes[0].get_xlabel()
    'column 0'
    """
    figure = _figure(path, 11.5, 5.0)
    drift = two_sample_test(a, b)
    (a, operator), (b, _) = fourier_part(a), fourier_part(b)
    rng = np.random.default_rng(0)
    with one_blas_thread():
        pooled = a.merged(b, overlapping=True)
        common = density_of(pooled, rng)
        noise = Noise.of(pooled, common, rng)
        densities = [_nearby(sketch, common) for sketch in (a, b)]
    (mean_a, total_a), (mean_b, total_b), (mean, total) = map(moments, (*densities, common))
    units = np.sqrt(np.maximum(np.diag(total), 1e-300))
    shift, change = mean_b - mean_a, (total_b - total_a) / np.outer(units, units)
    # large along directions in which means or covariances differ, in standardized columns
    difference = np.outer(shift, shift) + 0.5 * (change @ change) * np.outer(units, units)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    draw_change(left, view_of(total, mean, difference, operator.column_names), common, densities)
    _draw_distances(right, a, b, noise, units)
    p_value = "p < 1e-5" if drift.p_value < 1e-5 else f"p = {drift.p_value:.2g}"
    verdict = "The two sketches differ" if drift.differ else "No significant difference"
    figure.suptitle(f"{verdict} ({p_value}; {drift.n_a:,} and {drift.n_b:,} records)")
    return _saved(figure, path)


def plot_marginal(histogram: Histogram | LevelShares, path: str | os.PathLike[str] | None = None) -> Any:
    """Draws the histogram of a column, or the proportions of its categories, with errors; returns the figure."""
    figure = _figure(path, 7.0, 4.2)
    axes = figure.add_subplot()
    if isinstance(histogram, LevelShares):
        levels, shares, errors = histogram.levels[::-1], histogram.shares[::-1], histogram.errors[::-1]
        axes.barh(range(len(levels)), shares, xerr=errors, color=BLUE, alpha=0.5, edgecolor=BLUE, ecolor=GREY)
        axes.set_yticks(range(len(levels)), [printable(level) for level in levels])
        axes.set(xlabel="share of the records", title=f"{histogram.column}, from the sketch alone")
        return _saved(figure, path)
    widths = np.diff(histogram.edges)
    middles, heights = histogram.edges[:-1] + widths / 2, histogram.shares / widths
    axes.bar(middles, heights, widths, color=BLUE, alpha=0.5, edgecolor=BLUE, linewidth=0.4)
    axes.errorbar(middles, heights, histogram.errors / widths, fmt="none", ecolor=GREY, elinewidth=1)
    outside = f"; {100 * histogram.outside:.2g} % lie outside" if histogram.outside else ""
    title = f"{histogram.column}, from the sketch alone{outside}"
    axes.set(xlabel=histogram.column, ylabel="density", title=title)
    axes.set_ylim(bottom=0)
    if histogram.dates:
        axes.xaxis_date()  # which counts days since 1970, too
    return _saved(figure, path)


def plot_changes(changes: list[Change], path: str | os.PathLike[str] | None = None, *, level: float = 0.001) -> Any:
    """Draws the p-value of each sketch of a stream, and the alarms; returns the matplotlib figure."""
    figure = _figure(path, 8.0, 4.0)
    axes = figure.add_subplot()
    surprise = [-np.log10(max(change.p_value, SMALLEST_P_VALUE)) for change in changes]
    steps = [change.step for change in changes]
    axes.axhline(-np.log10(level), color=GREY, linewidth=1, linestyle="--", label=f"level {level:g}")
    axes.plot(steps, surprise, "o-", color=BLUE, markersize=4, linewidth=1, label="sketches")
    alarms = [change for change in changes if change.alarm]
    at = [change.step for change in alarms]
    axes.plot(at, [surprise[step] for step in at], "D", color=ORANGE, markersize=7, label="alarms")
    for change in alarms:
        axes.axvspan((change.since or 0) - 0.5, change.step + 0.5, color=ORANGE, alpha=0.12, linewidth=0)
    title = f"{counted(len(alarms), 'change')} in {len(changes)} sketches"
    axes.set(xlabel="step", ylabel="-log10 of the p-value", title=title)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(**LEGEND)
    return _saved(figure, path)


def plot_choice(choice: ClusterChoice, path: str | os.PathLike[str] | None = None) -> Any:
    """Draws what `choose_k` found: the criterion by number of clusters, with its error; returns the matplotlib figure.

    For k-means of rows, the mean silhouette and the agreement of two halves stand beside it.
    """
    panels = []
    if choice.criteria or not choice.silhouettes:
        panels.append(("criterion above its least", 1, choice.criteria, choice.criterion_errors))
    if choice.silhouettes:
        panels.append(
            ("mean silhouette (grey: without clusters)", 2, choice.silhouettes, (0.0,) * len(choice.silhouettes))
        )
        panels.append(("agreement of halves", 2, choice.agreements, (0.0,) * len(choice.agreements)))
    figure = _figure(path, 1.5 + 4.0 * len(panels), 4.0)
    for axes, (name, first, values, errors) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        sizes = np.arange(first, first + len(values))
        axes.axvline(choice.n_clusters, color=ORANGE, linewidth=1.5, label=f"chosen: {choice.n_clusters}")
        if choice.low < choice.high:
            axes.axvspan(choice.low, choice.high, color=ORANGE, alpha=0.12, linewidth=0, label="within its error")
        axes.errorbar(sizes, values, errors, fmt="o-", color=BLUE, ecolor=GREY, markersize=4, linewidth=1)
        if values is choice.silhouettes:
            axes.plot(sizes, choice.references, "--", color=GREY, linewidth=1)
        axes.set(xlabel="number of clusters", ylabel=name)
        axes.xaxis.get_major_locator().set_params(integer=True)
    if choice.basis is Basis.GAUSSIANS:  # far from the best, it is thousands of times larger
        figure.axes[0].set_yscale("symlog", linthresh=10)
        figure.axes[0].set_ylim(bottom=-1)
    figure.axes[0].legend(**LEGEND)
    figure.suptitle(f"{choice.headline}, {choice.basis.value}", fontsize=11)
    return _saved(figure, path)


def _model(sketch: Sketch, estimator: Any) -> tuple[Mixture, Parts]:
    """The density, and what to mark on it."""
    if estimator is None:
        with one_blas_thread():
            density = _nearby(sketch, density_of(sketch, np.random.default_rng(0)))
        few = min(n_determined(Target.of(sketch)), len(density))
        weights, centers, covariances = merge_components(*density.parts(), few)
        return density, Parts(centers, weights, covariances, "component")
    name = type(estimator).__name__
    if not isinstance(estimator, SketchEstimator):
        raise TypeError(f"a picture needs a fitted estimator, such as a SketchKMeans, or no estimator, not {name}")
    if estimator.sketch_.operator.n_features != sketch.operator.n_features:
        raise ValueError("the estimator and the sketch have different numbers of columns: draw it with its own sketch")
    model: Any = estimator.fitted_model()
    density, centers = model.density, model.centers_of_parts
    clusters = model.kind_of_part == "cluster"
    covariances = _around(centers, density) if clusters else density.covariances()
    bars = estimator.error_bars().standard_errors if isinstance(estimator, ErrorBarredEstimator) else {}
    errors = bars.get("cluster_centers_" if clusters else "means_")
    return density, Parts(centers, model.weights, covariances, model.kind_of_part, numbered=True, errors=errors)


def _around(centers: Double, density: Mixture) -> Double:
    """The covariance of each cluster: of those components of the density that are nearest to its center."""
    nearest = np.argmin(np.sum((density.locations[:, None] - centers) ** 2, axis=2), axis=1)
    covariances = np.zeros((*centers.shape, centers.shape[1]))
    for center in np.unique(nearest):
        covariances[center] = moments(density.some(nearest == center))[1]
    return covariances


def _nearby(sketch: Sketch, common: Mixture) -> Mixture:
    """The density of a sketch, refined from a common one, so that differences do not come from the search."""
    problem = Problem.of(Target.of(sketch), len(common))
    start = problem.in_own_units(common.model, *common.parts())
    problem = problem.without_harmonics(start)
    found = refine(problem.target, start, problem.box, iterations=REFINEMENT_ITERATIONS)[0]
    return problem.in_data_units(found.heavy())


def _draw_distances(axes: Any, a: Sketch, b: Sketch, noise: Noise, spread: Double) -> None:
    operator = fourier_part(a)[1]
    lengths = np.linalg.norm(operator.frequencies * spread[:, None], axis=0)
    order = np.argsort(lengths)
    lengths, away = lengths[order], np.abs(a.mean - b.mean)[order]
    # the square of a complex value, of two parts of equal variance, has an exponential distribution
    factor = -np.log(1 - BAND_SHARE) if operator.wave.complex else BAND_FACTOR_REAL
    released = noise.parts * (Released.of(a) + Released.of(b)).variances
    variances = noise.variances[order] / effective_count(a, b) + released[order]
    width = 2 * max(1, len(order) // 20) + 1  # of running means, for a smooth edge
    band = np.sqrt(factor * uniform_filter1d(variances, width, mode="nearest"))
    beyond, label = away > band, f"{BAND_SHARE:.0%} of sampling errors"
    axes.fill_between(lengths, 0, band, color=BLUE, alpha=0.15, linewidth=0, label=label)
    axes.plot(lengths[~beyond], away[~beyond], "o", color=BLUE, markersize=3.5, alpha=0.7, label="frequencies within")
    axes.plot(lengths[beyond], away[beyond], "D", color=ORANGE, markersize=4, label="frequencies beyond")
    axes.set(xlabel="length of the frequency, radians per standard deviation", xscale="log")
    axes.set(ylabel="|z of the first - z of the second|", ylim=(0, 1.08 * max(away.max(), band.max(), 1e-12)))
    ticker = required("matplotlib.ticker", "plot")
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_title(f"{np.mean(beyond):.0%} of {len(away):,} frequencies beyond the band", fontsize=10)
    axes.legend(**LEGEND)


def _figure(path: str | os.PathLike[str] | None, width: float, height: float) -> Any:
    """A new figure, unknown to pyplot, to be saved at a path."""
    if path is not None and Path(path).suffix.lower().lstrip(".") not in FORMATS:
        raise ValueError(f"{os.fspath(path)!r} is not a picture's name: end it in .{', .'.join(FORMATS)}")
    return required("matplotlib.figure", "plot").Figure(figsize=(width, height), layout="constrained")


def _saved(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    for axes in figure.axes:
        if axes.get_label() != "<colorbar>":
            axes.spines[["top", "right"]].set_visible(False)
    if path is not None:
        figure.savefig(path, dpi=DPI)
    return figure
