"""How single columns differ between two sketches: numbers by how far they moved, levels by their shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sketchlearn.operators import FourierFeatures
from sketchlearn.plain_digits import in_digits
from sketchlearn.queries.value_shares import share_by_features
from sketchlearn.schemas import Category, Column, Date, Flag, Number, Ordinal, SchemaColumns, Text
from sketchlearn.schemas.column_kinds import INDICATE
from sketchlearn.sketch import Sketch

LEVEL = 0.01  # A sentence says that something differs where the p-value is smaller.
NAMED_LEVELS = 3  # of a category, in a sentence
LEAST_CHANGE = 0.005  # of a share: less is not worth a name beside another
CLEAR_CHANGE = 0.02  # of a share: less is shown with a decimal of its percents
TIMES, DAYS, STEPS = "times", "days", "levels"
LONGEST_EXPONENT = 700.0  # of e, that floats hold


@dataclass(frozen=True)
class LevelShift:
    """The share of a level in the first sketch and in the second; "missing" is that of records without a value."""

    level: str
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before

    def __str__(self) -> str:
        decimals = 0 if abs(self.change) >= CLEAR_CHANGE else 1
        return f"{self.level} {100 * self.before:.{decimals}f} % -> {100 * self.after:.{decimals}f} %"


@dataclass(frozen=True)
class ColumnDrift:
    """How one column differs between two sketches, read off the frequencies along its axis.

    Attributes
    ----------
    column : its name in the table, or "column 3".
    p_value : of this column by itself, times the number of columns.
    shift : about how far its values moved from the first sketch to the second, in `unit`; of levels, how much the share
        moved that moved most.
    spread_ratio : about how many times wider they are spread in the second one; of levels, 1.
    unit : "" for the unit of the data, "days", "times" (the values are multiplied by the shift), "levels" of an order.
    levels : of flags and categories, the shares of all levels, those that moved most first.
    missing : of others, the share of records without a value, if it moved.

    >>> print(ColumnDrift("age", 1e-9, 3.14159, 1.0), ColumnDrift("income", 1e-9, 1.1, 1.0, "times"))
    age (+3.14, spread x 1) income (x 1.1, spread x 1)
    >>> print(ColumnDrift("country", 1e-9, 0.13, 1.0, levels=(LevelShift("FR", 0.31, 0.44),)))
    country: FR 31 % -> 44 %
    """

    column: str
    p_value: float
    shift: float
    spread_ratio: float
    unit: str = ""
    levels: tuple[LevelShift, ...] = ()
    missing: LevelShift | None = None

    def __str__(self) -> str:
        if shares := self.named_shares:
            return f"{self.column}: {', '.join(map(str, shares))}"
        moved = f"{self.shift_in_words}, spread x {in_digits(self.spread_ratio, 3)}"
        return f"{self.column} ({moved})" if self.missing is None else f"{self.column} ({moved}; {self.missing})"

    @property
    def named_shares(self) -> tuple[LevelShift, ...]:
        """The shares that a sentence names; none where numbers moved."""
        if self.missing is not None and self.shift == 0:
            return (self.missing,)
        clear = [one for i, one in enumerate(self.levels) if i == 0 or abs(one.change) >= LEAST_CHANGE]
        return tuple(clear[:NAMED_LEVELS])

    @property
    def shift_in_words(self) -> str:
        """How far numbers moved, with the unit."""
        if self.unit == TIMES:
            return f"x {in_digits(self.shift, 3)}"
        sign, unit = "" if self.shift < 0 else "+", f" {self.unit}" if self.unit else ""
        return f"{sign}{in_digits(self.shift, 3)}{unit}"


def by_table_column(
    drifts: Sequence[tuple[int, ColumnDrift]], a: Sketch, b: Sketch, operator: FourierFeatures
) -> list[ColumnDrift]:
    """The drifts of the numbers of a schema, with their positions, as those of the table's columns.

    The p-value of a column is the least of its numbers': each is multiplied by the number of all of them already.
    """
    columns = operator.columns
    if not isinstance(columns, SchemaColumns):
        return [drift for _, drift in drifts]
    groups: dict[str, list[tuple[int, ColumnDrift]]] = {}
    for position, drift in drifts:
        groups.setdefault(columns.column_at(position).name, []).append((position, drift))
    return [_of_column(columns.column_at(own[0][0]), own, a, b, operator) for own in groups.values()]


def _of_column(
    column: Column, own: list[tuple[int, ColumnDrift]], a: Sketch, b: Sketch, operator: FourierFeatures
) -> ColumnDrift:
    """The drift of one column of a table, whose numbers come with the most surprising one first."""
    names: Any = operator.columns
    drift = replace(own[0][1], column=column.name)
    gap = next(((position, one) for position, one in own if names[position] not in column.own_names), None)
    if isinstance(column, Flag | Category):
        told = (_share_shift(column, position, a, b, operator) for position, _ in own)
        shares = sorted((one for one in told if one is not None), key=lambda one: -abs(one.change))
        shift = shares[0].change if shares else drift.shift / column.weight
        return replace(drift, shift=shift, spread_ratio=1.0, levels=tuple(shares))
    missing = None
    if gap is not None and gap[1].p_value < LEVEL:
        missing = _share_shift(column, gap[0], a, b, operator)
    values = [(position, one) for position, one in own if names[position] in column.own_names]
    if not values or (missing is not None and values[0][1].p_value >= LEVEL):
        return replace(drift, shift=0.0, spread_ratio=1.0, missing=missing)
    first, moved = values[0]
    shift, unit = _plain_shift(column, names[first], moved.shift)
    return replace(drift, shift=shift, spread_ratio=moved.spread_ratio, unit=unit, missing=missing)


def _plain_shift(column: Column, name: str, shift: float) -> tuple[float, str]:
    """How far a number moved, in the table's own unit."""
    if isinstance(column, Number) and column.scaling == "log":
        return math.exp(min(shift * column.width, LONGEST_EXPONENT)), TIMES
    if isinstance(column, Text) and not column.n_words:
        return math.exp(min(shift / column.weight, LONGEST_EXPONENT)), TIMES
    if isinstance(column, Ordinal):
        return shift / column.weight * (len(column.levels) - 1), STEPS
    if isinstance(column, Date) and name == column.name:
        return shift * column.width, DAYS
    return (shift * column.width if isinstance(column, Number) else shift), ""


def _share_shift(column: Column, position: int, a: Sketch, b: Sketch, operator: FourierFeatures) -> LevelShift | None:
    """The shares of records that have a level, or no value, in both sketches; None where features do not tell them."""
    names: Any = operator.columns
    of_gap = names[position] not in column.own_names
    word = names[position].removeprefix(f"{column.name}=")
    if of_gap or isinstance(column, Flag):
        word = "missing" if of_gap else "yes"
    size = column.weight_of_gap if of_gap else column.weight
    both: list[float] = []
    for sketch in (a, b):
        gaps = 0.0
        if isinstance(column, Flag) and column.missing == INDICATE and not of_gap:
            gaps = share_by_features(sketch, operator, position + 1, column.weight_of_gap) or 0.0
        share = share_by_features(sketch, operator, position, size, gaps)
        if share is None:
            return None
        both.append(share)
    return LevelShift(word, *both)
