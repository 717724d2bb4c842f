"""Draws densities and their differences as maps or curves, and what a decoder sees of a sketch, with matplotlib."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, zoom

from sketchlearn.core.arrays import Double
from sketchlearn.core.packages import required
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.histograms import Histograms
from sketchlearn.inference.decoders.mean_shift import Landscape
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.distributions import Mixture
from sketchlearn.inference.moments import part_of
from sketchlearn.inference.sampling_noise import noise_in, real_parts
from sketchlearn.questions.marginals import LEAST_DENSITY, ColumnCounts, Regression
from sketchlearn.sketch.priority_sample import KeptRows
from sketchlearn.sketch.record_weights import FEWEST_ROWS
from sketchlearn.sketch.sums import Sketch

COLUMNS_IN_LABEL = 3
SMALLEST_LOADING = 0.3  # of the largest one: a label leaves out columns with smaller loadings
TOTAL_WEIGHT = 0.05  # of the total covariance, which decides between directions that are equally interesting
LARGEST_SPREAD_RATIO = 5.0  # of two columns: with a larger one, an equal scale would flatten one of them


@dataclass(frozen=True)
class View:
    """y = (x - origin) @ matrix, with a label for each coordinate of y; matrix has one or two columns."""

    origin: Double
    matrix: Double
    labels: tuple[str, ...]
    equal: bool  # both coordinates are drawn to the same scale

    @property
    def n_axes(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def of_columns(self) -> bool:
        """Whether the coordinates are all columns as they are."""
        return len(self.matrix) == self.n_axes

    def points(self, rows: Double) -> Double:
        return np.asarray((rows - self.origin) @ self.matrix)

    def covariances(self, covariances: Double) -> Double:
        return np.asarray(self.matrix.T @ covariances @ self.matrix)


def moments(mixture: Mixture) -> tuple[Double, Double]:
    """Mean and covariance of all records."""
    weights = mixture.weights / mixture.weights.sum()
    mean = weights @ mixture.locations
    away = mixture.locations - mean
    inside = np.einsum("k,kij->ij", weights, mixture.covariances())
    return mean, inside + (away * weights[:, None]).T @ away


def view_of(total: Double, center: Double, interesting: Double, names: tuple[str, ...]) -> View:
    """One or two columns as they are; of more columns, the two directions along which `interesting` is largest.

    Columns are standardized first, so that units do not matter. `total` is the covariance of all records.

    >>> view_of(np.eye(3), np.zeros(3), np.diag([0.0, 2.0, 1.0]), ("a", "b", "c")).labels
    ('b', 'c')
    """
    d = len(total)
    spread = np.sqrt(np.maximum(np.diag(total), 1e-300))
    if d <= 2:
        return View(np.zeros(d), np.eye(d), names, bool(spread.max() < LARGEST_SPREAD_RATIO * spread.min()))
    units = np.outer(spread, spread)
    shown = interesting / units
    shown = shown / max(float(np.trace(shown)), 1e-300) + TOTAL_WEIGHT * (total / units) / d
    vectors = np.linalg.eigh(shown)[1][:, :-3:-1]
    vectors = vectors * np.where(vectors[np.argmax(np.abs(vectors), axis=0), [0, 1]] < 0, -1, 1)
    return View(center, vectors / spread[:, None], tuple(_label(i, v, names) for i, v in enumerate(vectors.T, 1)), True)


def _label(number: int, loadings: Double, names: tuple[str, ...]) -> str:
    """A direction by its main columns, with the sign of those that point against it: component 1: age, -income."""
    order = np.argsort(-np.abs(loadings))
    least = SMALLEST_LOADING * abs(loadings[order[0]])
    main = [i for i in order[:COLUMNS_IN_LABEL] if abs(loadings[i]) >= least]
    if len(main) == 1 and abs(loadings[main[0]]) > 0.95:
        return str(names[main[0]])
    terms = ", ".join(f"{'-' if loadings[i] < 0 else ''}{names[i]}" for i in main)
    return f"component {number}: {terms}" + (", …" if np.sum(loadings[main] ** 2) < 0.9 else "")


GRID_POINTS = 160  # per axis
LANDSCAPE_POINTS, LANDSCAPE_LEVELS = 120, 30  # per axis, and heights of contours
MAP_ASPECT = 1.15  # width of a map over its height
ERROR_RADIUS = 2.448  # Such an ellipse of two normal errors holds 95 % of them.
MARGIN_DEVIATIONS = 3.2  # between the components and the edge of the picture
CONTOUR_SHARES = (0.99, 0.9, 0.75, 0.5, 0.25)  # of the records, inside each contour
SMALLEST_DEVIATION = 0.004  # of the picture's width: narrower components would fall between pixels
SMALLEST_COLOR_LIMIT = 0.05  # of the greatest density: smaller differences are drawn pale
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#555555"  # Okabe and Ito's palette, safe for colour-blind readers
LEGEND: dict[str, Any] = {"frameon": True, "framealpha": 0.85, "edgecolor": "none", "fontsize": 8.5, "loc": "best"}


@dataclass(frozen=True)
class Parts:
    """The clusters or components that a picture marks: centers, weights, covariances and their name.

    Those of a fitted model are `numbered` as its `predict` numbers them; `errors` are standard errors of the centers.
    """

    centers: Double
    weights: Double
    covariances: Double
    name: str
    numbered: bool = False
    errors: Double | None = None


@dataclass(frozen=True)
class Grid:
    """The points at which a density is computed, and the area of a cell."""

    ticks: list[Double]
    points: Double  # (points, axes)
    cell: float


def grid_of(view: View, centers: Double, covariances: Double) -> Grid:
    spread = MARGIN_DEVIATIONS * np.sqrt(np.maximum(np.diagonal(view.covariances(covariances), axis1=1, axis2=2), 0))
    seen = view.points(centers)
    low, high = (seen - spread).min(axis=0), (seen + spread).max(axis=0)
    empty = high - low <= 0
    low, high = low - empty, high + empty
    if view.equal and view.n_axes == 2:  # as wide as the axes are, so that drawing to scale leaves no empty strips
        size = np.maximum(high - low, (high - low)[::-1] * [MAP_ASPECT, 1 / MAP_ASPECT])
        low, high = (low + high - size) / 2, (low + high + size) / 2
    ticks = [np.linspace(a, b, GRID_POINTS) for a, b in zip(low, high, strict=True)]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*ticks)], axis=1)
    return Grid(ticks, points, float(np.prod([axis[1] - axis[0] for axis in ticks])))


def heights_on(view: View, mixture: Mixture, grid: Grid) -> Double:
    """The density of the mixture in the view's coordinates, at the points of the grid."""
    least = (SMALLEST_DEVIATION * np.array([axis[-1] - axis[0] for axis in grid.ticks])) ** 2
    total = np.zeros(len(grid.points))
    weights = mixture.weights / mixture.weights.sum()
    parts = zip(weights, view.points(mixture.locations), view.covariances(mixture.covariances()), strict=True)
    for weight, location, covariance in parts:
        factor = np.linalg.cholesky(covariance + np.diag(least))
        away = np.linalg.solve(factor, (grid.points - location).T)
        norm = (2 * np.pi) ** (view.n_axes / 2) * np.prod(np.diag(factor))
        total += weight * np.exp(-0.5 * np.sum(away * away, axis=0)) / norm
    return total


@dataclass(frozen=True)
class Heights:
    """A density at the points of a grid, and what it is of."""

    values: Double
    source: str


def heights_of(sketch: Sketch, view: View, grid: Grid, model: Mixture, parts: Parts) -> Heights:
    """The density of the records as the sketch itself has it, and of the model only where it has none.

    One column has its histogram, one or two columns the density that its frequencies determine; otherwise, the sampled
    rows have a kernel density.
    """
    counts, waves = part_of(sketch, Histograms), part_of(sketch, FourierFeatures)
    rows = sketch.kept if sketch.kept is not None and len(sketch.kept) >= FEWEST_ROWS else None
    if rows is not None and rows.complete:
        return Heights(_kernel_density(rows, sketch, view, grid, parts), "all rows")
    if view.of_columns and view.n_axes == 1 and counts is not None:
        ticks = grid.ticks[0]
        edges = np.append(ticks, 2 * ticks[-1] - ticks[-2]) - (ticks[1] - ticks[0]) / 2
        return Heights(ColumnCounts.of(counts, 0).histogram(edges)[0] / grid.cell, "the sketch's histogram")
    if view.of_columns and waves is not None and waves.operator.n_groups == 1:
        return Heights(_density_of_frequencies(waves, grid), "the sketch's frequencies")
    if rows is not None:
        return Heights(_kernel_density(rows, sketch, view, grid, parts), f"{len(rows):,} sampled rows")
    return Heights(heights_on(view, model, grid), "the fitted model, not of the records")


def _kernel_density(rows: KeptRows, sketch: Sketch, view: View, grid: Grid, parts: Parts) -> Double:
    """The density of the weighted sampled rows, each spread by the clusters' deviations as Scott's rule says."""
    weights, places = rows.weights(float(sketch.count)), view.points(rows.rows)
    step = np.array([axis[1] - axis[0] for axis in grid.ticks])
    ranges = [(axis[0] - own / 2, axis[-1] + own / 2) for axis, own in zip(grid.ticks, step, strict=True)]
    counted, _ = np.histogramdd(places, [len(axis) for axis in grid.ticks], ranges, weights=weights)
    inside = np.einsum("k,kii->i", parts.weights / parts.weights.sum(), view.covariances(parts.covariances))
    width = np.sqrt(np.maximum(inside, 0)) / np.sum(weights**2) ** (-1 / (view.n_axes + 4))
    smooth = gaussian_filter(counted, np.maximum(width / step, 1.0), mode="constant")
    return np.asarray(smooth.T.ravel() / grid.cell)


COARSE_POINTS = 60  # per axis, at which frequencies are written
ROUNDS = 3  # of weighting points by the density found so far


def _density_of_frequencies(sketch: Sketch, grid: Grid) -> Double:
    """The density with the least change from a smooth one that has the sketch's mean features."""
    operator, shape = sketch.operator, tuple(min(COARSE_POINTS, len(axis)) for axis in grid.ticks)
    if len(shape) == 1:
        shape = (len(grid.ticks[0]),)
    ticks = [np.linspace(axis[0], axis[-1], n) for axis, n in zip(grid.ticks, shape, strict=True)]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*ticks)], axis=1)
    features = real_parts(operator.features(points))
    z, noise = real_parts(sketch.mean).astype(np.float64), noise_in(sketch, features)
    found = shares = np.full(len(points), 1 / len(points))
    for _ in range(ROUNDS):
        plain = Regression(features, shares, noise)
        regression = plain.doubted(z - plain.mean)
        if not regression.doubt:  # the sketch shows no difference from these weights
            break
        found = np.maximum(regression.reweighted(z - regression.mean), 0).reshape(shape[::-1])
        found = gaussian_filter(found, 1.0, mode="constant").ravel() / found.sum()
        shares = np.maximum(found, LEAST_DENSITY / len(found))
        shares /= shares.sum()
    fine = zoom(
        found.reshape(shape[::-1]), [len(axis) / n for axis, n in zip(grid.ticks, shape, strict=True)][::-1], order=1
    )
    return np.asarray(fine.ravel() / (fine.sum() * grid.cell))


def contour_levels(heights: Double, cell: float) -> Double:
    """The heights of contours that hold `CONTOUR_SHARES` of the records, ascending and all different."""
    ordered = np.sort(heights)[::-1]
    inside = np.cumsum(ordered) * cell
    found = ordered[np.minimum(np.searchsorted(inside, CONTOUR_SHARES), len(ordered) - 1)]
    rank = np.arange(len(found))
    return np.asarray(np.maximum.accumulate(found * (1 + 1e-9 * rank)) + 1e-300 * rank)


def draw_density(axes: Any, view: View, sketch: Sketch, density: Mixture, parts: Parts) -> None:
    """Draws the density of the records, and the clusters or components on it: a curve or a map."""
    grid = grid_of(view, parts.centers, parts.covariances)
    heights = heights_of(sketch, view, grid, density, parts)
    (_draw_curve if view.n_axes == 1 else _draw_map)(axes, view, grid, heights, parts)


def draw_change(axes: Any, view: View, common: Mixture, densities: list[Mixture]) -> None:
    """Draws the densities of two sketches as curves, or their difference as a map."""
    grid = grid_of(view, common.locations, common.covariances())
    heights = [heights_on(view, mixture, grid) for mixture in (common, *densities)]
    (_draw_curves if view.n_axes == 1 else _draw_difference)(axes, view, grid, *heights)


def _draw_map(axes: Any, view: View, grid: Grid, density: Heights, parts: Parts) -> None:
    lines, heights = required("matplotlib.lines", "plot"), density.values
    levels = contour_levels(heights, grid.cell)
    blues = ["#e4eef6", "#c6dbec", "#9fc4e0", "#70a8d2", "#3f89c0"]
    highest = max(heights.max(), levels[-1] * 1.001)
    bands = axes.contourf(*grid.ticks, heights.reshape(GRID_POINTS, -1), [*levels, highest], colors=blues)
    bar = axes.figure.colorbar(bands, ax=axes, ticks=levels, spacing="uniform", fraction=0.04, pad=0.03)
    bar.ax.set_yticklabels([f"{share:.0%}" for share in CONTOUR_SHARES])
    bar.set_label(f"share of the records inside; density of {density.source}")
    for sigmas, line in ((1, {"linestyle": "-", "linewidth": 1.3}), (2, {"linestyle": "--", "linewidth": 0.8})):
        _draw_ellipses(axes, view, parts.centers, sigmas**2 * parts.covariances, edgecolor=GREY, **line)
    draw_centers(axes, view.points(parts.centers).T, parts)
    handles, labels = axes.get_legend_handles_labels()
    handles += [lines.Line2D([], [], color=GREY, linestyle=style) for style in ("-", "--")]
    labels += ["one deviation", "two deviations"]
    if parts.errors is not None:
        # errors of different columns are taken as independent
        squares = np.nan_to_num(parts.errors)[:, :, None] ** 2 * np.eye(parts.errors.shape[1])
        _draw_ellipses(axes, view, parts.centers, ERROR_RADIUS**2 * squares, edgecolor="black", zorder=5)
        handles.append(lines.Line2D([], [], color="black", marker="o", markersize=5, fillstyle="none", linewidth=0))
        labels.append("95 % of the errors of centers")
    axes.figure.legend(handles, labels, loc="outside lower center", ncols=2 if len(labels) > 3 else 3, frameon=False)
    dress(axes, view, grid)


def _draw_ellipses(axes: Any, view: View, centers: Double, covariances: Double, **line: Any) -> None:
    patches = required("matplotlib.patches", "plot")
    for center, covariance in zip(view.points(centers), view.covariances(covariances), strict=True):
        values, vectors = np.linalg.eigh(covariance)
        angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
        size = 2 * np.sqrt(np.maximum(values[::-1], 0))
        axes.add_patch(patches.Ellipse(center, *size, angle=angle, fill=False, **line))


def draw_centers(axes: Any, places: Any, parts: Parts) -> None:
    sizes = 40 + 160 * parts.weights / parts.weights.max()
    label = f"{parts.name}s (larger: more records)"
    axes.scatter(*places, s=sizes, color=ORANGE, edgecolor="white", linewidth=1.2, zorder=3, label=label)
    for number, place in enumerate(zip(*places, strict=True) if parts.numbered else ()):
        axes.annotate(str(number), place, (6, 6), textcoords="offset points", fontsize=9, fontweight="bold", zorder=4)


def _draw_curve(axes: Any, view: View, grid: Grid, density: Heights, parts: Parts) -> None:
    axes.fill_between(grid.ticks[0], density.values, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(grid.ticks[0], density.values, color=BLUE, linewidth=1.6, label=f"density of {density.source}")
    for center, covariance in zip(parts.centers[:, 0], parts.covariances[:, 0, 0], strict=True):
        axes.hlines(0, center - np.sqrt(covariance), center + np.sqrt(covariance), color=GREY, linewidth=2.5, zorder=2)
    draw_centers(axes, (parts.centers[:, 0], np.zeros(len(parts.centers))), parts)
    axes.set(xlabel=view.labels[0], ylabel="density")
    axes.legend(**LEGEND)


def _draw_difference(axes: Any, view: View, grid: Grid, level: Double, first: Double, second: Double) -> None:
    change = (second - first) / level.max()
    limit = max(float(np.abs(change).max()), SMALLEST_COLOR_LIMIT)
    # orange and purple, which differ in lightness to no eye but in hue to all
    colors: dict[str, Any] = {"cmap": "PuOr_r", "vmin": -limit, "vmax": limit, "shading": "gouraud"}
    image = axes.pcolormesh(*grid.ticks, change.reshape(GRID_POINTS, -1), rasterized=True, **colors)
    axes.set_facecolor("#f7f7f7")  # the colour of no difference
    levels = contour_levels(level, grid.cell)[[0, 1, 3]]
    axes.contour(*grid.ticks, level.reshape(GRID_POINTS, -1), levels, colors=GREY, linewidths=0.7)
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.045, pad=0.03, format=_signed_percent)
    bar.set_label("second less first, of the greatest density")
    dress(axes, view, grid)
    axes.set_title("Where records went  (lines: 50, 90, 99 % of all)", fontsize=10)


def _signed_percent(value: float, _position: int) -> str:
    return f"{value:+.0%}" if abs(value) > 1e-9 else "0%"


def _draw_curves(axes: Any, view: View, grid: Grid, _level: Double, first: Double, second: Double) -> None:
    axes.plot(grid.ticks[0], first, color=BLUE, linewidth=1.6, label="first sketch")
    axes.plot(grid.ticks[0], second, color=ORANGE, linewidth=1.6, linestyle="--", label="second sketch")
    axes.fill_between(grid.ticks[0], first, second, color=GREY, alpha=0.2, linewidth=0)
    axes.set(xlabel=view.labels[0], ylabel="density")
    axes.set_title("Where records went", fontsize=10)
    axes.legend(**LEGEND)


def dress(axes: Any, view: View, grid: Grid) -> None:
    axes.set(xlabel=view.labels[0], ylabel=view.labels[1], aspect="equal" if view.equal else "auto")
    axes.set(xlim=grid.ticks[0][[0, -1]], ylim=grid.ticks[1][[0, -1]])


def draw_landscape(axes: Any, problem: Problem, centers: Double) -> Any:
    """Filled contours of c -> Re <Phi(c), z> / m over the box of two columns, and the centers on it."""
    origin, unit = problem.target.origin, problem.target.unit
    low, high = (origin + unit * (corner + problem.shift) for corner in (problem.box.low, problem.box.high))
    low, high = np.minimum(low, centers.min(axis=0)), np.maximum(high, centers.max(axis=0))
    x, y = (np.linspace(a, b, LANDSCAPE_POINTS) for a, b in zip(low, high, strict=True))
    heights = np.stack([correlation(problem, np.column_stack([x, np.full(LANDSCAPE_POINTS, row)])) for row in y])
    contours = axes.contourf(x, y, heights, LANDSCAPE_LEVELS)
    axes.figure.colorbar(contours, ax=axes, label="correlation with the sketch")
    axes.plot(*centers.T, "r+", markersize=12, markeredgewidth=2, label="learned centers")
    axes.set(xlabel="column 0", ylabel="column 1", title="what the sketch shows")
    axes.legend()
    return axes


def draw_decay(axes: Any, problem: Problem, mixture: Mixture) -> Any:
    """|z| of each frequency against its length, in the sketch and in the mixture, and the level of sampling noise."""
    target = problem.plain
    lengths = np.linalg.norm(target.frequencies.omega / target.unit, axis=1)
    left = target.residual(mixture)
    fitted = [part - rest for part, rest in zip(target.parts, left, strict=True)]
    axes.plot(lengths, np.abs(target.values), ".", label="sketch")
    axes.plot(lengths, np.hypot(*fitted), "x", markersize=4, label="fitted mixture")
    axes.axhline(np.sqrt(target.noise), color="grey", linestyle="--", label="sampling noise")
    axes.set(xscale="log", yscale="log", xlabel="|omega|, radians per unit of the data", ylabel="|z|")
    axes.set_title("what the sketch holds")
    axes.legend()
    return axes


def correlation(problem: Problem, points: Double) -> Double:
    """Re <Phi(c), z> / m at points c in the units of the data."""
    target = problem.plain
    landscape = Landscape(target, target.parts, np.ones(len(target), np.float32))
    return landscape.heights((points - target.origin) / target.unit - problem.shift) * (landscape.norm / len(target))
