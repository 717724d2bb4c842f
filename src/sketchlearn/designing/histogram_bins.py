"""Bins for histograms of columns, chosen from a sample: fine where the sample is dense, and reaching far beyond it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models import Double
from sketchlearn.operators.histograms import MOST_BINS, Histograms
from sketchlearn.values import whole

BINS, BINS_IN_BOUNDS = 128, 64  # of a column: noise on more would hide more than they show
DECADES, STREAM_DECADES = 4, 8  # tenfold rows beyond the sample for which its tails are extended as they grew so far
LEAST_REACH, MOST_REACH = 4.0, 1e6  # Bins reach that many times as far from the median as the sample does.
UNSEEN_SHARE = 0.1  # of rows with values that the sample lacks, estimated by values seen once: more is no code
FREQUENT_SHARE = 0.05  # of the rows: from here on, a value among many others has a bin of its own
MOST_FREQUENT = 4  # such values of a column; most columns that have any have one, zero
OWN_WIDTH = 1e-3  # of such a bin, relative to the distance of the next value
ROUNDING = 0.05  # of a bin's width by which edges may move so that they have few digits
WHOLE_LIMIT = 2.0**52  # whole numbers beyond this have no halves
LARGEST = np.finfo(np.float64).max
HUGE, SHRINK = 1e280, 2.0**-64  # values beyond HUGE are shrunk while edges are computed: their differences overflow


def bins_of_rows(
    rows: NDArray[Any], n_bins: int = 64, *, representative: bool = True, columns: tuple[str, ...] | None = None
) -> Histograms:
    """Histograms with up to n_bins bins a column, for data of which these rows are a sample.

    A column with at most n_bins distinct values, which repeat, has a bin around each of them. Others have bins at
    quantiles of the sample, as many at even steps of asinh, and some beyond its extremes, as far as its tails suggest;
    a value that many rows share has a bin of its own. Bins reach further if the rows are a stream's first ones, not
    `representative`.

    >>> operator = bins_of_rows(np.array([[0.0, 1.5], [1.0, 2.5], [0.0, 4.5]]))
    >>> operator.edges[0], operator.values[0]
    ((-0.5, 0.5, 1.5), (0.0, 1.0))
    """
    table = np.asarray(rows, np.float64)
    if table.ndim != 2 or not table.size or not np.all(np.isfinite(table)):
        raise ValueError("bins are chosen from a table of at least one row of finite numbers")
    n_bins, decades = whole("n_bins", n_bins, 4, MOST_BINS), DECADES if representative else STREAM_DECADES
    with np.errstate(over="ignore", under="ignore"):
        found = [_of_column(np.sort(column + 0.0), n_bins, decades) for column in table.T]
    edges = tuple(tuple(own.tolist()) for own, _ in found)
    values = tuple(None if own is None else tuple(own.tolist()) for _, own in found)
    return Histograms(table.shape[1], edges=edges, values=values, columns=columns)


def _of_column(column: Double, n_bins: int, decades: int) -> tuple[Double, Double | None]:
    """Edges, and the value of each bin if the column has few values. The column is sorted."""
    values, counts = np.unique(column, return_counts=True)
    seen_once = int(np.sum(counts == 1))
    if len(values) <= 2 or (len(values) <= n_bins and seen_once <= UNSEEN_SHARE * (len(column) - counts.max())):
        return _around(values), values
    factor = SHRINK if max(abs(column[0]), abs(column[-1])) > HUGE else 1.0
    edges = _spread(factor * column, factor * values, counts, n_bins, decades) / factor
    edges = np.unique(np.clip(edges, -LARGEST, LARGEST))
    whole_numbers = max(abs(edges[0]), abs(edges[-1])) < WHOLE_LIMIT and np.array_equal(column, np.rint(column))
    return (np.unique(np.floor(edges) + 0.5) if whole_numbers else _rounded(edges)), None


def _around(values: Double) -> Double:
    """Edges midway between values, and half the next distance beyond the outermost."""
    if len(values) == 1:
        low_margin = high_margin = abs(values[0]) / 2 or 0.5
    else:
        low_margin, high_margin = values[1] / 2 - values[0] / 2, values[-1] / 2 - values[-2] / 2
    middles = values[:-1] / 2 + values[1:] / 2
    # between neighbours without a number between them, the upper one is the edge: it belongs to the bin above
    middles = np.where(middles > values[:-1], middles, values[1:])
    low = max(min(values[0] - low_margin, np.nextafter(values[0], -np.inf)), -LARGEST)
    high = min(max(values[-1] + high_margin, np.nextafter(values[-1], np.inf)), LARGEST)
    edges = np.concatenate([[low], middles, [high]])
    rounded = _rounded(edges)
    # rounding must not move an edge past a value
    fits = (rounded[:-1] <= values) & (values < rounded[1:]) if len(rounded) == len(edges) else np.zeros(1, bool)
    return rounded if np.all(fits) else np.unique(edges)


def _spread(column: Double, values: Double, counts: NDArray[np.int64], n_bins: int, decades: int) -> Double:
    """Edges for a column of many values."""
    frequent = np.flatnonzero(counts >= max(3.0, FREQUENT_SHARE * len(column)))
    frequent = frequent[np.argsort(-counts[frequent], kind="stable")][: min(MOST_FREQUENT, n_bins // 8)]
    rest = column[~np.isin(column, values[frequent])] if len(frequent) else column
    rest = rest if len(rest) and rest[0] < rest[-1] else column
    n_tail = max(1, n_bins // 10)
    inner = max(2, n_bins + 1 - 2 * n_tail - 2 * len(frequent))
    inside = [np.quantile(rest, np.linspace(0, 1, inner - inner // 2)), _even_in_asinh(rest, inner // 2)]
    edges = np.concatenate([_low_tail(rest, n_tail, decades), *inside, -_low_tail(-rest[::-1], n_tail, decades)])
    for v in frequent.tolist():  # a narrow bin around the value, which holds nothing of its neighbours
        gap = np.min(np.abs(np.delete(values[max(0, v - 1) : v + 2], min(v, 1)) - values[v]))
        low = values[v] - OWN_WIDTH * gap
        high = max(values[v] + OWN_WIDTH * gap, np.nextafter(values[v], np.inf))
        edges = np.append(edges[(edges < low) | (edges > high)], [low, high])
    return np.unique(edges)


def _low_tail(column: Double, n: int, decades: int) -> Double:
    """Edges below the sample's lowest value, each as many times as far below it as the one before.

    How far values reach when rows are ten times as many is read off the sample: from the tenth lowest to the lowest.
    """
    middle = np.median(column)
    lowest, tenth = middle - column[0], middle - column[min(9, len(column) // 10)]
    growth = lowest / tenth if tenth > 0 else 1.0
    reach = float(np.clip(growth**decades, LEAST_REACH, MOST_REACH))
    extent = max(lowest, 0.1 * (column[-1] - column[0]))
    return np.asarray(column[0] - extent * np.geomspace(min(1.0, reach - 1) / 8 ** min(n - 1, 2), reach - 1, n))


def _even_in_asinh(column: Double, n: int) -> Double:
    """Edges within the sample's range: even near the median, and ever further apart in long tails."""
    middle = np.median(column)
    widths = [np.subtract(*np.quantile(column, [1 - q, q])) / 2 for q in (0.25, 0.1, 0.01, 0.0)]
    unit = next(width for width in widths if width > 0)
    low, high = np.arcsinh(np.clip((column[[0, -1]] - middle) / unit, -HUGE, HUGE))
    return np.asarray(middle + unit * np.sinh(np.linspace(low, high, n + 2)[1:-1]))


def _rounded(edges: Double) -> Double:
    """The same edges with as few digits as leave bins about as they are: JSON forms stay small."""
    gaps = np.diff(edges)
    room = ROUNDING * np.minimum(np.append(gaps[0], gaps), np.append(gaps, gaps[-1]))
    with np.errstate(divide="ignore"):
        digits = np.ceil(np.log10(np.abs(edges)) - np.log10(room))
    digits = np.clip(np.where(edges == 0, 1, digits), 1, 17).astype(int)
    short = [float(f"{edge:.{n - 1}e}") for edge, n in zip(edges.tolist(), digits.tolist(), strict=True)]
    return np.unique(np.clip(short, -LARGEST, LARGEST)) + 0.0
