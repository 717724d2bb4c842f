"""Dates and free text as columns of numbers."""

from __future__ import annotations

import hashlib
import re
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.randomness import exponential, logarithm
from sketchlearn.schemas.column_kinds import DROP, MOST_LEVELS, Column
from sketchlearn.schemas.raw_values import MICROSECONDS_PER_DAY, Floats, by_distinct_value, instants_in, word_of
from sketchlearn.schemas.written_dates import ORDERS, YEAR_FIRST
from sketchlearn.values import listed, number, positive, shortened, whole

WORDS = re.compile(r"\w+")
CYCLES = {"year": 366, "week": 7, "day": 1440}  # Steps of a cycle: days, days, minutes.
REMEMBERED_WORDS = 1 << 14  # Words whose hashes are not computed again: those of most texts.
CYCLE_STEP = 2.0**-30  # Sines are rounded to this, so that libraries that differ in the last bit do not.


@dataclass(frozen=True)
class Date(Column):
    """A date or moment, in days since `center` (days since 1970) in units of `width`, and its place in cycles.

    `cycles` are of "year", "week" and "day"; each gives a cosine and a sine. Text is read in ISO's form (2024-01-31,
    2024-01-31 12:30:00) and, with `order` "day first" or "month first", as 31.12.2024 or 12/31/2024, too. Moments with
    a time zone count in UTC.

    >>> import pyarrow as pa
    >>> Date("born", order="day first").encoded(pa.array(["02.01.1970", "1970-01-03"])).rows.tolist()
    [[1.0], [2.0]]
    """

    name: str
    _: KW_ONLY
    center: float = 0.0
    width: float = 1.0
    cycles: tuple[str, ...] = ()
    missing: str = DROP
    order: str = YEAR_FIRST

    def __post_init__(self) -> None:
        super().__post_init__()
        cycles = listed(self.cycles)
        if len(cycles) > len(CYCLES) or not set(cycles) <= set(CYCLES) or len(set(cycles)) < len(cycles):
            raise ValueError(f"cycles are some of {', '.join(CYCLES)}, not {shortened(self.cycles)}")
        if self.order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}, not {shortened(self.order)}")
        self._set(center=number("center", self.center), width=positive("width", self.width), cycles=cycles)

    @property
    def own_names(self) -> tuple[str, ...]:
        return (self.name, *(f"{self.name} {part} of the {cycle}" for cycle in self.cycles for part in ("cos", "sin")))

    @property
    def n_own(self) -> int:
        return 1 + 2 * len(self.cycles)

    @property
    def in_words(self) -> str:
        order = "" if self.order == YEAR_FIRST else f" ({self.order})"
        cycles = "".join(f", with its place in the {cycle}" for cycle in self.cycles)
        return f"date{order}, in days, standardised{cycles}"

    def numbers_of(self, raw: Any) -> tuple[Floats, NDArray[Any]]:
        moments, missing, odd = instants_in(raw, self.order)
        numbers = [self.scaled(moments / MICROSECONDS_PER_DAY)]
        for cycle in self.cycles:
            numbers += list(_cycle(CYCLES[cycle])[:, _step(moments, cycle)])
        rows = np.column_stack(numbers)
        rows[missing | odd] = np.nan
        return rows, missing

    def plain(self, numbers: Floats) -> Floats:
        return numbers * self.width + self.center

    def scaled(self, values: Floats) -> Floats:
        with np.errstate(over="ignore"):
            found = (values - self.center) / self.width
        return np.where(np.isfinite(found), found, np.nan)

    def values_of(self, rows: Floats) -> list[Any]:
        days = np.clip(self.plain(rows[:, 0]), -700_000, 2_900_000)
        moments = np.rint(days * 86_400.0).astype("datetime64[s]")
        dates = moments.astype("datetime64[D]") if "day" not in self.cycles else moments
        return list(dates.astype(object))


@dataclass(frozen=True)
class Text(Column):
    """Free text: the logarithm of 1 + its length or, if `n_words` is given, its words hashed into so many numbers.

    Each number counts the words that fall on it; all are divided by the length of their vector.
    """

    name: str
    _: KW_ONLY
    n_words: int = 0
    weight: float = 1.0
    missing: str = DROP

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(n_words=whole("n_words", self.n_words, 0, MOST_LEVELS), weight=positive("weight", self.weight))

    @property
    def own_names(self) -> tuple[str, ...]:
        if not self.n_words:
            return (f"length of {self.name}",)
        return tuple(f"words {i} of {self.name}" for i in range(self.n_words))

    @property
    def n_own(self) -> int:
        return max(1, self.n_words)

    @property
    def in_words(self) -> str:
        return f"words, hashed into {self.n_words} numbers" if self.n_words else "length of text"

    def numbers_of(self, raw: Any) -> tuple[Floats, NDArray[Any]]:
        if self.n_words:
            return by_distinct_value(raw, self._hashed_words, self.n_words)
        lengths, missing = by_distinct_value(raw, lambda value: (len(word_of(value)),), 1)
        return np.where(missing[:, None], np.nan, self.scaled(np.where(missing[:, None], 0.0, lengths))), missing

    def _hashed_words(self, value: Any) -> tuple[float, ...]:
        counts = np.zeros(self.n_words)
        for word in WORDS.findall(word_of(value).casefold()):
            counts[_hash(word) % self.n_words] += 1
        squares = float(np.dot(counts, counts))  # of whole numbers: exact in any order
        return tuple((self.weight * counts / np.sqrt(squares or 1.0)).tolist())

    def plain(self, numbers: Floats) -> Floats:
        return numbers if self.n_words else exponential(np.minimum(numbers / self.weight, 700.0)) - 1.0

    def scaled(self, values: Floats) -> Floats:
        return values if self.n_words else self.weight * logarithm(1.0 + np.maximum(values, 0.0))

    def values_of(self, rows: Floats) -> list[Any]:
        return [None] * len(rows)


@lru_cache(REMEMBERED_WORDS)
def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


def _cycle(steps: int) -> Floats:
    """Cosines and sines of a cycle, in two rows."""
    angles = 2 * np.pi * np.arange(steps) / steps
    return np.asarray(np.rint(np.stack([np.cos(angles), np.sin(angles)]) / CYCLE_STEP) * CYCLE_STEP)


def _step(moments: NDArray[np.int64], cycle: str) -> NDArray[np.int64]:
    """Which step of a cycle a moment is in."""
    days = moments // MICROSECONDS_PER_DAY
    if cycle == "day":
        return np.asarray(moments % MICROSECONDS_PER_DAY // 60_000_000)
    if cycle == "week":
        return np.asarray((days + 3) % 7)  # 1970 began on a Thursday
    dates = days.astype("datetime64[D]")
    return np.asarray((dates - dates.astype("datetime64[Y]")).astype(np.int64))
