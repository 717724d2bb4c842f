"""Moments of the outputs of a random convolutional network: for images."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Rows
from sketchlearn.core.limits import Cost
from sketchlearn.core.randomness import Stream, exponential, lengths, normal_cost, uniform_cost
from sketchlearn.core.values import choice, listed, number, shortened, whole
from sketchlearn.features.bounded import CLIP, REFUSE, check_columns
from sketchlearn.features.composed import Mapped
from sketchlearn.features.moments import TWICE, SecondMoments
from sketchlearn.features.operator import MOST_FEATURES
from sketchlearn.kernels.dispatch import one_blas_thread

LARGEST_LEVEL = 255  # Pixels are rounded to whole numbers from 0 to this one.
FILTER_RMS = 8  # The root mean square of a filter's integers.
CELLS_PER_SIDE = 4
CELL_PEAK = 16  # The weight of the middle of a cell.
LARGEST_FILTER = 31
EXACT_IN_FLOAT32 = 2**24  # Integers below this are exact in float32, in whatever order they are added.
NUMBERS_PER_CHUNK = 2**19  # Numbers in the patches of images that are processed together, which bounds memory use.


@dataclass(frozen=True)
class ConvolutionalFeatures(Mapped):
    """Phi(x) = (y, and y_j y_k for k <= j), y the outputs of a random network for the image x.

    The network: random filters, negative values become 0, weighted sums over 4 x 4 cells that overlap, square roots,
    and sums of these with random signs. All its numbers are integers, so that its outputs are exact. One Gaussian per
    class of the outputs is what `SketchClassifier` makes of it.

    Parameters
    ----------
    shape : of an image: (height, width) or (height, width, channels). Rows are images, flattened in this order.
    n_outputs : numbers that the network gives for an image; the sketch has n_outputs (n_outputs + 3) / 2.
    pixels : lowest and highest value of a pixel; they are rounded to 256 levels in between.
    n_filters : number of filters.
    filter_size : height and width of a filter, odd; None means about a quarter of the image's, from 3 to 9.
    seed : all random numbers follow from it, on every machine.
    outside : "refuse" rows with pixels outside the range, or "clip" these.
    columns : names of the columns, for tables that have names: these are read, and others refused.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> features = skl.features.ConvolutionalFeatures((8, 8), pixels=(0, 16))
    >>> model = skl.SketchClassifier(features=features).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.98)
    True
    """

    _omitted: ClassVar[dict[str, Any]] = {"columns": None, "outside": REFUSE}
    inner_is_drawn: ClassVar[bool] = True
    shape: tuple[int, ...]
    n_outputs: int = 98
    _: KW_ONLY
    pixels: tuple[float, float]
    n_filters: int = 32
    filter_size: int | None = None
    seed: int = 0
    outside: str = REFUSE
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        sizes = listed(self.shape)
        if len(sizes) not in (2, 3):
            forms = "(height, width) or (height, width, channels)"
            raise ValueError(f"shape must be {forms}, not {shortened(self.shape)}")
        shape = tuple(whole("each number of shape", size, most=2**16) for size in sizes)
        n_features = whole("n_features", math.prod(shape), most=MOST_FEATURES)
        size = min(max(3, 2 * (min(shape[:2]) // 8) + 1), 9) if self.filter_size is None else self.filter_size
        choice("outside", self.outside, REFUSE, CLIP)
        if whole("filter_size", size, most=LARGEST_FILTER) % 2 == 0:
            raise ValueError(f"filter_size must be odd, so that a filter has a middle, not {size}")
        self._set(
            shape=shape,
            n_outputs=whole("n_outputs", self.n_outputs, most=2**12),
            pixels=_check_pixels(self.pixels),
            n_filters=whole("n_filters", self.n_filters, most=2**12),
            filter_size=int(size),
            seed=whole("seed", self.seed, 0, 2**64 - 1),
            columns=check_columns(self.columns, n_features),
        )
        if LARGEST_LEVEL * 2 * FILTER_RMS * self._taps >= EXACT_IN_FLOAT32:
            too_large = f"filters of {self._taps} numbers are too large for exact sums"
            raise ValueError(f"{too_large}: take a smaller filter_size, or fewer channels")

    @property
    def in_words(self) -> str:
        shape = " x ".join(map(str, self.shape))
        network = f"a random network for images of {shape}, seed {self.seed}"
        return f"means and second moments of {self.n_outputs} outputs of {network}"

    @property
    def data_dependent_errors(self) -> bool:
        return self.outside == REFUSE

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return math.prod(self.shape)

    @property
    def n_channels(self) -> int:
        """Numbers per pixel."""
        return self.shape[2] if len(self.shape) == 3 else 1

    @property
    def _taps(self) -> int:
        return int(self.filter_size or 0) ** 2 * self.n_channels

    @cached_property
    def filters(self) -> NDArray[np.float32]:
        """Integers, of shape (channels x filter_size x filter_size, n_filters): normal numbers under a round window.

        The mean of each filter is taken away, so that it sees edges and strokes, not brightness.
        """
        k = int(self.filter_size or 0)
        away = (np.arange(k) - (k - 1) / 2) * (4 / k)
        window = exponential(-0.5 * away * away)
        drawn = Stream(self.seed, "filters").normal(self._taps * self.n_filters).reshape(-1, k, k, self.n_filters)
        taps = (drawn * window[:, None, None] * window[:, None]).reshape(self._taps, self.n_filters)
        total = np.zeros(self.n_filters)
        for tap in taps:  # in order: a sum by NumPy may round otherwise elsewhere
            total += tap
        taps = taps - total / self._taps
        size = np.maximum(lengths(taps), 1e-300)
        return np.rint(taps * (FILTER_RMS * math.sqrt(self._taps) / size)).astype(np.float32)

    @cached_property
    def signs(self) -> Double:
        """-1 or +1, of shape (cells x cells x n_filters, n_outputs).

        Each output has a filter's cells with as many of either sign, in random order: what they share cancels.
        """
        n, drawn = self._n_cells, self.n_filters * self.n_outputs
        order = np.argsort(Stream(self.seed, "signs").uniform(n * drawn).reshape(n, drawn), axis=0, kind="stable")
        return np.where(order < n // 2, -1.0, 1.0).reshape(n * self.n_filters, self.n_outputs)

    @cached_property
    def _cells(self) -> tuple[Double, Double]:
        """Weights of rows and of columns of pixels in each cell."""
        return cells(self.shape[0]), cells(self.shape[1])

    @property
    def _n_cells(self) -> int:
        return math.prod(map(len, self._cells))

    @cached_property
    def limit(self) -> int:
        """No output is larger: what is beyond is cut off.

        With independent signs its deviation would be at most twice that, for the largest numbers that pixels can make.
        """
        most = LARGEST_LEVEL * np.maximum(self.filters, 0.0).astype(np.float64).sum(axis=0)
        rows, columns = (weights.sum(axis=1) for weights in self._cells)
        pooled = np.multiply.outer(np.multiply.outer(rows, columns), most)
        return math.isqrt(int(pooled.sum())) // 2 + 1

    @cached_property
    def inner(self) -> SecondMoments:
        return SecondMoments(self.n_outputs, bound=(float(self.limit),) * self.n_outputs, rounding=TWICE)

    @property
    def cost(self) -> Cost:
        taps, signs = self._taps * self.n_filters, self._n_cells * self.n_filters * self.n_outputs
        filters = normal_cost(taps) + Cost.of_numbers(taps, bytes_each=40, operations_each=30)
        sorting = Cost.of_numbers(signs, bytes_each=24, operations_each=150)
        return filters + uniform_cost(signs).then(sorting)

    def random_parts(self) -> list[NDArray[Any]]:
        return [self.filters, self.signs]

    def mapped(self, rows: Rows, threads: int) -> Double:
        """The network's outputs, of shape (rows, n_outputs); not a number for rows that are refused."""
        height, width = self.shape[:2]
        step = max(1, NUMBERS_PER_CHUNK // (height * width * self._taps))
        chunks = [rows[i : i + step] for i in range(0, len(rows), step)]
        self.signs  # noqa: B018 - drawn once, before threads
        with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
            found: Iterator[Double] = map(self._network, chunks) if threads == 1 else pool.map(self._network, chunks)
            return np.concatenate([np.empty((0, self.n_outputs)), *found])

    def _network(self, rows: Rows) -> Double:
        rows = rows.astype(np.float64)
        good = np.all(np.isfinite(rows), axis=1)
        if self.outside == REFUSE:
            good &= ~self._is_outside(rows)
        outputs = np.full((len(rows), self.n_outputs), np.nan)
        if good.any():
            low, high = self.pixels
            levels = np.rint((np.clip(rows[good], low, high) - low) * (LARGEST_LEVEL / (high - low)))
            images = np.minimum(levels, LARGEST_LEVEL).astype(np.float32)
            outputs[good] = self._of_images(images.reshape(-1, *self.shape[:2], self.n_channels))
        return outputs

    def _of_images(self, images: NDArray[np.float32]) -> Double:
        n, height, width, _ = images.shape
        k = int(self.filter_size or 0)
        padded = np.pad(images, ((0, 0), (k // 2, k // 2), (k // 2, k // 2), (0, 0)), mode="edge")
        patches = np.ascontiguousarray(sliding_window_view(padded, (k, k), axis=(1, 2)))
        seen = patches.reshape(n * height * width, -1) @ self.filters
        positive = np.maximum(seen, 0, out=np.empty(seen.shape)).reshape(n, height, -1)
        rows, columns = self._cells
        pooled = columns @ (rows @ positive).reshape(n * len(rows), width, -1)
        roots = np.rint(np.sqrt(pooled)).reshape(n, -1)
        return np.asarray(np.clip(roots @ self.signs, -self.limit, self.limit))

    def _is_outside(self, rows: Rows) -> NDArray[np.bool_]:
        return np.asarray(np.any((rows < self.pixels[0]) | (rows > self.pixels[1]), axis=1))

    def beyond(self, rows: Rows) -> NDArray[np.bool_]:
        if self.outside == REFUSE:
            return super().beyond(rows)
        return np.asarray(self._is_outside(rows.astype(np.float64)) & np.all(np.isfinite(rows), axis=1))

    def explain_refusal(self, row: Double) -> str:
        low, high = self.pixels
        column = int(np.argmax(np.maximum(low - row, row - high)))
        where = f"column {column} is {float(row[column])!r}, outside the range of pixels from {low!r} to {high!r}"
        return f"{where}: declare pixels=(lowest, highest), or outside='clip'"


def cells(n: int) -> Double:
    """Weights 0 to 16 of n pixels in overlapping cells, of shape (cells, n): they fall off linearly from its middle.

    >>> cells(8).astype(int)[:2]
    array([[12, 12,  4,  0,  0,  0,  0,  0],
           [ 0,  4, 12, 12,  4,  0,  0,  0]])
    """
    g = min(CELLS_PER_SIDE, n)
    away = np.abs((2 * np.arange(n) + 1) * g - (2 * np.arange(g)[:, None] + 1) * n)
    return np.asarray((CELL_PEAK * np.maximum(2 * n - away, 0) + n) // (2 * n), np.float64)


def _check_pixels(pixels: Any) -> tuple[float, float]:
    values = listed(pixels)
    if len(values) != 2:
        raise ValueError(f"pixels must be (lowest, highest), such as (0, 255), not {shortened(pixels)}")
    low, high = (number("each number of pixels", value) for value in values)
    if not (low < high and math.isfinite(high - low) and math.isfinite(LARGEST_LEVEL / (high - low))):
        raise ValueError(f"pixels must be (lowest, highest), the first below the second, not {shortened(pixels)}")
    return low, high
