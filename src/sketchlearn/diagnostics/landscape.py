"""Pictures of what a sketch shows: the landscape that decoders climb, or how its values fall with frequency."""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.decoders import Problem
from sketchlearn.decoders.searches.mean_shift import Landscape
from sketchlearn.models import Mixture
from sketchlearn.models.frequency_set import Double

GRID_POINTS = 120  # per axis
CONTOUR_LEVELS = 30


def draw_landscape(axes: Any, problem: Problem, centers: Double) -> Any:
    """Filled contours of c -> Re <Phi(c), z> / m over the box of two columns, and the centers on it."""
    origin, unit = problem.target.origin, problem.target.unit
    low, high = (origin + unit * (corner + problem.shift) for corner in (problem.box.low, problem.box.high))
    low, high = np.minimum(low, centers.min(axis=0)), np.maximum(high, centers.max(axis=0))
    x, y = (np.linspace(a, b, GRID_POINTS) for a, b in zip(low, high, strict=True))
    heights = np.stack([correlation(problem, np.column_stack([x, np.full(GRID_POINTS, row)])) for row in y])
    contours = axes.contourf(x, y, heights, CONTOUR_LEVELS)
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
