"""Histograms of all columns: how many records have a value between edges."""

from __future__ import annotations

import contextlib
import numbers
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Integers, Rows, Weights
from sketchlearn.core.limits import Cost, check_cost
from sketchlearn.core.messages import in_digits, warn_caller
from sketchlearn.core.values import shortened, whole
from sketchlearn.features.abilities import Ability
from sketchlearn.features.bounded import check_columns
from sketchlearn.features.operator import MOST_FEATURES, Operator
from sketchlearn.features.provenance import Origin
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.kernels._native import add_counts, find_counts
from sketchlearn.kernels.gpu.driver import Device
from sketchlearn.kernels.gpu.plans import CountsPlan

MOST_BINS = 4096  # of a column: with more, a sketch would take megabytes
MOST_OUTSIDE, LEAST_ROWS = (
    0.95,
    20,
)  # the share of rows outside a column's range that is warned of; the fewest rows for a warning
MOST_EDGES = 2**20  # of all columns: their counts take 8 MB, and a file of them loads in a second


@dataclass(frozen=True)
class Histograms(Operator):
    """Phi(x) = one 1 per column, at the bin that holds the column's value: exact histograms of all columns.

    Bin j of a column holds edges[j] <= x < edges[j + 1]; the last one holds its upper edge, too. Each column has two
    more counts, for values below its first edge and above its last one, so that every record counts once per column.

    Parameters
    ----------
    n_features : number of columns of the data.
    edges : for each column, at least two finite numbers in ascending order; columns may have different numbers of them.
    values : None, or for each column None or one number per bin: the value that the records in the bin have, where a
        column takes a few values only (codes, flags).
    columns : names of the columns, for tables that have names.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> operator = skl.features.Histograms(2, edges=[(0, 1, 2), (0, 10)])
    >>> sketch = operator.sketch([[0.5, 3.0], [1.0, 10.0], [2.0, 11.0], [5.0, -1.0]])
    >>> [counts.tolist() for counts in operator.split_columns(sketch.sums)]  # below, bins, above
    [[0, 1, 2, 1], [1, 2, 1]]
    """

    abilities = frozenset({Ability.MARGINALS})
    data_dependent_errors = False
    largest_contribution = 1
    _omitted: ClassVar[dict[str, Any]] = {"columns": None, "values": None}
    n_features: int
    _: KW_ONLY
    edges: tuple[tuple[float, ...], ...]
    values: tuple[tuple[float, ...] | None, ...] | None = None
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        n_features = whole("n_features", self.n_features, most=MOST_FEATURES)
        edges, columns = _check_edges(self.edges, n_features), check_columns(self.columns, n_features)
        self._set(n_features=n_features, edges=edges, values=_check_values(self.values, edges), columns=columns)

    @classmethod
    def _build(cls, fields: dict[str, Any]) -> Self:
        n_columns = sum(len(given) for name in ("edges", "values") if isinstance(given := fields.get(name), tuple))
        check_cost("checking its edges", Cost(0, 15_000 * n_columns))  # beside that of reading a list
        return super()._build(fields)

    @classmethod
    def even(cls, low: Any, high: Any, bins: int = 64, *, columns: Any = None) -> Self:
        """Bins of equal width between declared bounds of each column.

        >>> Histograms.even([0, -1], [1, 1], bins=4).edges
        ((0.0, 0.25, 0.5, 0.75, 1.0), (-1.0, -0.5, 0.0, 0.5, 1.0))
        """
        lows, highs = _numbers("low", low), _numbers("high", high)
        if len(lows) != len(highs) or not np.all(lows < highs):
            raise ValueError("low and high must have one number per column each, the low one below the high one")
        steps = np.linspace(0, 1, whole("bins", bins, most=MOST_BINS) + 1)
        # bounds so near each other that float64 has few numbers between them have fewer bins
        edges = tuple(tuple(np.unique(a * (1 - steps) + b * steps).tolist()) for a, b in zip(lows, highs, strict=True))
        return cls(len(lows), edges=edges, columns=columns).with_origin(Origin.DECLARED)

    @property
    def in_words(self) -> str:
        sizes = sorted({len(edges) - 1 for edges in self.edges})
        bins = f"{sizes[0]:,} to {sizes[-1]:,} bins each" if len(sizes) > 1 else f"{sizes[0]:,} bins each"
        return f"histograms of {self.n_features:,} columns, {bins}"

    def add_remove_sensitivity(self) -> Sensitivity:
        return Sensitivity.of_integers(self.n_features, 1)  # one count of each column

    def replace_one_sensitivity(self) -> Sensitivity:
        return Sensitivity.of_integers(2 * self.n_features, 1)  # of each column, one count falls and another rises

    @property
    def n_sums(self) -> int:
        return int(self._starts[-1]) + self.n_features

    @cached_property
    def _all_edges(self) -> Double:
        return np.concatenate(self.edges)

    @cached_property
    def _starts(self) -> Integers:
        """Where each column's edges begin among all of them, and where the last ones end."""
        return np.cumsum([0, *map(len, self.edges)], dtype=np.int64)

    def add_rows(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> int:
        return add_counts(rows, self._all_edges, self._starts, weights, threads, sums)

    def warn_of_range(self, rows: Rows) -> None:
        """Warns where nearly all rows lie outside the edges of a column, which is no range for a design."""
        ends = np.array([(own[0], own[-1]) for own in self.edges])
        outside = np.mean((rows < ends[:, 0]) | (rows > ends[:, 1]), axis=0)
        if len(rows) >= LEAST_ROWS and (said := self.said_outside(outside, "rows", f"first {len(rows)} ")):
            warn_caller(said)

    def said_outside(self, shares: Double, noun: str, which: str = "") -> str | None:
        """The warning that these shares of rows, by column, are outside the edges; None where they are small."""
        worst = int(np.argmax(shares))
        if shares[worst] <= MOST_OUTSIDE:
            return None
        low, high = (in_digits(float(self.edges[worst][end])) for end in (0, -1))
        name = self.column_names[worst] if self.columns is None else repr(self.columns[worst])
        return (
            f"{shares[worst]:.0%} of the {which}{noun} lie outside {low} to {high}, the range of the design, in {name}"
            f": design in the units of the {noun}, with bounds or a sample that cover them"
        )

    def device_plan(self, owner: Device) -> CountsPlan:
        return CountsPlan(owner, self._all_edges, self._starts)

    def write_rows(self, rows: Rows, threads: int) -> tuple[NDArray[np.integer], int]:
        integers, where = np.zeros((len(rows), self.n_sums), np.int8), np.zeros(rows.shape, np.int32)
        bad = find_counts(rows, self._all_edges, self._starts, threads, where)
        if bad < 0:
            integers[np.arange(len(rows))[:, None], where] = 1
        return integers, bad

    def mean_of(self, sums: Double) -> NDArray[Any]:
        """Shares of the records: of each column those below, in each bin, and above."""
        return sums

    def split_columns(self, vector: NDArray[Any]) -> list[NDArray[Any]]:
        """The parts of a vector of counts or shares that belong to each column: below, bins, above."""
        return np.split(vector, self._starts[1:-1] + np.arange(1, self.n_features), axis=-1)

    def explain_refusal(self, row: Double) -> str:
        raise AssertionError(f"every finite row is in some bin, {shortened(row.tolist())} too")

    def why_impossible(self, sums: Integers, units: int) -> str | None:
        first = self._starts[:-1] + np.arange(self.n_features)
        # in two halves: forged counts could wrap around to the right total
        halves = [np.add.reduceat(part, first).tolist() for part in (sums >> 32, sums & (2**32 - 1))]
        if np.any(sums < 0) or any((high << 32) + low != units for high, low in zip(*halves, strict=True)):
            return f"the counts of a column do not add up to {units:,} records (or weight steps)"
        return None


def _check_edges(edges: Any, n_features: int) -> tuple[tuple[float, ...], ...]:
    """Edges of each column, ascending, not too many."""
    found: list[tuple[float, ...]] = []
    n_edges = 0
    for c, given in enumerate(_per_column("edges", edges, n_features)):
        name = f"edges of column {c}"
        own = _numbers(name, given, most=MOST_BINS + 1)
        if len(own) < 2 or not np.all(own[:-1] < own[1:]):
            raise ValueError(f"{name} must be at least two numbers in ascending order")
        n_edges += len(own)
        if n_edges > MOST_EDGES:
            raise ValueError(f"there are more than {MOST_EDGES:,} edges in all: use fewer bins or columns")
        found.append(tuple(own.tolist()))
    return tuple(found)


def _check_values(values: Any, edges: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...] | None, ...] | None:
    """The values of columns that take few, each within its bin; None if there is no such column."""
    if values is None:
        return None
    found: dict[int, tuple[float, ...]] = {}
    for c, (given, own) in enumerate(zip(_per_column("values", values, len(edges)), edges, strict=True)):
        if given is not None:
            name, limits, n_bins = f"values of column {c}", np.array(own), len(own) - 1
            known = _numbers(name, given, most=MOST_BINS)
            if len(known) != n_bins or not np.all((limits[:-1] <= known) & (known <= limits[1:])):
                raise ValueError(f"{name} must be None or one number for each of its {n_bins} bins, within the bin")
            found[c] = tuple(known.tolist())
    return tuple(map(found.get, range(len(edges)))) if found else None


def _per_column(name: str, given: Any, n_features: int) -> list[Any]:
    items = list(given) if isinstance(given, tuple | list | np.ndarray) else []
    if len(items) != n_features:
        raise ValueError(f"{name} must be a list with one item for each of the {n_features} columns")
    return items


def _numbers(name: str, given: Any, most: int = MOST_EDGES) -> Double:
    """Finite numbers as an array, without negative zeros: equal operators have equal bytes."""
    plain = isinstance(given, np.ndarray) and given.ndim == 1 and not isinstance(given, np.ma.MaskedArray)
    items = list(given) if plain or isinstance(given, tuple | list | range) else [None]
    # all checks are by kinds of numbers, not number by number: a file with a million edges must load fast
    real = all(issubclass(kind, numbers.Real) and not issubclass(kind, bool) for kind in set(map(type, items)))
    with contextlib.suppress(OverflowError):
        if real and len(items) <= most and np.all(np.isfinite(found := np.array(items, np.float64) + 0.0)):
            return found
    raise ValueError(f"{name} must be a list of finite numbers, at most {most:,}")
