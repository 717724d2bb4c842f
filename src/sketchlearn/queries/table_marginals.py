"""One column of a table in its own terms: a histogram in its own unit, or the shares of its levels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sketchlearn.control_characters import printable
from sketchlearn.models import Double
from sketchlearn.plain_digits import in_certain_digits, in_date, in_digits
from sketchlearn.queries.value_shares import Share, shares_of_levels
from sketchlearn.schemas import Category, Column, Date, Flag, Ordinal, Text
from sketchlearn.schemas.column_kinds import INDICATE

UNEVEN = 20.0  # Edges whose distances differ by more than this are rounded each to its own ones.
NOTED_SUM = 0.02  # Shares whose sum is further from 1 are noted; sampling alone puts it 0.01 off.
BAR = 20  # characters of the longest bar


@dataclass(frozen=True)
class Histogram:
    """Shares of the records between edges, and the deviation that sampling and private noise leave in each.

    Attributes
    ----------
    column : its name.
    edges : in the table's own unit; of dates, days since 1970.
    shares, errors : of all records, those without a value included.
    exact : which shares are counts of the records; None if the sketch has no counts.
    note : the same in words.
    missing : share of the records without a value, where a schema tells it.
    dates : whether the edges are days.

    >>> print(Histogram("age", np.array([0.0, 1.0, 2.0]), np.array([0.25, 0.75]), np.array([0.01, 0.01])))
    age
      0 to 1  0.25     ######
      1 to 2  0.75     ####################
    """

    column: str
    edges: Double
    shares: Double
    errors: Double
    exact: NDArray[np.bool_] | None = None
    note: str = ""
    missing: float | None = None
    dates: bool = False

    def __str__(self) -> str:
        names = [f"{a} to {b}" for a, b in pairwise(self._edges_in_words())]
        return _drawn(self.column, names, self.shares, self.missing, self.note)

    def _edges_in_words(self) -> list[str]:
        if self.dates:
            return list(map(in_date, self.edges))
        widths = np.diff(self.edges)
        if widths.max() > UNEVEN * widths.min() > 0:
            near = np.minimum(np.append(widths, np.inf), np.append(np.inf, widths))
            return [in_certain_digits(edge, width / 10) for edge, width in zip(self.edges, near, strict=True)]
        digits = _digits_apart(self.edges)
        return [in_digits(edge, digits) for edge in self.edges]


@dataclass(frozen=True)
class LevelShares:
    """Shares of the records that have each level of a column, with their errors.

    Attributes
    ----------
    column : its name.
    levels : the largest first, unless they have an order; of flags, yes and no.
    shares, errors, exact, note, missing : as in `Histogram`.

    Examples
    --------
    >>> print(LevelShares("country", ("FR", "DE"), np.array([0.6, 0.37]), np.zeros(2), missing=0.03))
    country
           FR  0.6      ####################
           DE  0.37     ############
      missing  0.03     #
    """

    column: str
    levels: tuple[str, ...]
    shares: Double
    errors: Double
    exact: NDArray[np.bool_] | None = None
    note: str = ""
    missing: float | None = None

    def __str__(self) -> str:
        return _drawn(self.column, list(self.levels), self.shares, self.missing, self.note)


class NumberShares(Protocol):
    """What is asked about one of the numbers that the columns of a table become."""

    def number_histogram(self, position: int, bins: Any) -> Histogram: ...

    def value_share(self, position: int, value: float, gaps: float | None = None) -> Share: ...


def table_marginal(ask: NumberShares, column: Column, position: int, bins: Any) -> Histogram | LevelShares:
    """What is told of a column whose numbers begin at a position."""
    missing = None
    if column.missing == INDICATE:
        missing = ask.value_share(position + len(column.own_names), column.weight_of_gap).value
    if isinstance(column, Flag):
        yes = ask.value_share(position, column.weight, missing)
        no = Share(max(1 - yes.value - (missing or 0.0), 0.0), yes.error, yes.exact)
        return _levels(column, [("yes", yes), ("no", no)], missing)
    if isinstance(column, Category):
        alone = [ask.value_share(position + i, column.weight) for i in range(len(column.words))]
        together, note = _together(alone, 1 - (missing or 0.0))
        told = sorted(zip(column.words, together, strict=True), key=lambda pair: -pair[1].value)
        return _levels(column, told, missing, note)
    if isinstance(column, Ordinal):
        ends = (np.arange(len(column.levels) + 1) - 0.5) * (column.weight / (len(column.levels) - 1))
        found = _without_gaps(ask.number_histogram(position, ends), column, missing)
        exact = [None] * len(found.shares) if found.exact is None else found.exact.tolist()
        shares = map(Share, map(float, found.shares), map(float, found.errors), exact)
        return _levels(column, list(zip(column.levels, shares, strict=True)), missing)
    if isinstance(column, Text) and column.n_words:
        raise ValueError(f"column {column.name!r} is {column.in_words}: these have no histogram in the table's terms")
    if np.ndim(bins):
        bins = column.scaled(np.asarray(bins, np.float64))
    found = _without_gaps(ask.number_histogram(position, bins), column, missing)
    return replace(
        found, column=column.name, edges=column.plain(found.edges), missing=missing, dates=isinstance(column, Date)
    )


def _together(shares: list[Share], room: float) -> tuple[list[Share], str]:
    """Shares of all levels of a column as they can be together, with what that tells of their errors, and in words.

    Counts of the records are left alone.
    """
    if shares[0].exact is not None:
        return shares, ""
    values, off = shares_of_levels(np.array([share.value for share in shares]), room)
    found = [Share(float(v), math.hypot(one.error, off), one.exact) for v, one in zip(values, shares, strict=True)]
    if off < NOTED_SUM:
        return found, ""
    total = in_digits(1 - room + sum(share.value for share in shares), 3)
    return (
        found,
        f"all shares added up to {total}, not 1, so each may be off by the rest; histograms count them",
    )


def _levels(column: Column, told: list[tuple[str, Share]], missing: float | None, note: str = "") -> LevelShares:
    levels, shares = zip(*told, strict=True)
    exact = None if shares[0].exact is None else np.array([bool(share.exact) for share in shares])
    if exact is not None:
        note = "exact counts" if exact.all() else "counts with private noise, or of bins that hold several levels"
    values, errors = (np.array([getattr(share, name) for share in shares]) for name in ("value", "error"))
    return LevelShares(column.name, tuple(levels), values, errors, exact, note, missing)


def _without_gaps(found: Histogram, column: Column, missing: float | None) -> Histogram:
    """The histogram without records that lack the value, which count where the typical one is."""
    if not missing:
        return found
    where = int(np.searchsorted(found.edges, column.typical_numbers[0], side="right")) - 1
    if not 0 <= where < len(found.shares):
        return found
    shares = found.shares.copy()
    shares[where] = max(shares[where] - missing, 0.0)
    return replace(found, shares=shares)


def _drawn(column: str, names: list[str], shares: Double, missing: float | None, note: str) -> str:
    """Lines of names, shares and bars."""
    names = list(map(printable, names))
    if missing is not None:
        names, shares = [*names, "missing"], np.append(shares, missing)
    width, most = max(map(len, names)), max(float(shares.max()), 1e-300)
    bars = ["#" * int(BAR * share / most) for share in shares]
    rows = zip(names, shares, bars, strict=True)
    lines = [f"  {name:>{width}}  {in_digits(round(share, 6), 3):<8} {bar}".rstrip() for name, share, bar in rows]
    return "\n".join([printable(column), *lines, *([f"  ({note})"] if note else [])])


def _digits_apart(edges: Double) -> int:
    """How many digits tell neighbouring edges apart."""
    widths, largest = np.diff(edges), float(np.max(np.abs(edges)))
    narrowest = float(np.min(widths[widths > 0], initial=largest))
    return 3 if narrowest <= 0 else min(15, max(3, math.ceil(math.log10(largest / narrowest)) + 1))
