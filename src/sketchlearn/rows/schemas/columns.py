"""The kinds of columns, and how their values are encoded: by arithmetic that gives the same bits everywhere."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.errors import InvalidValueError, either
from sketchlearn.core.messages import check_names
from sketchlearn.core.randomness import exponential, logarithm
from sketchlearn.core.values import Value, listed, number, positive, shortened, whole
from sketchlearn.rows.schemas.cell_values import (
    MICROSECONDS_PER_DAY,
    Floats,
    by_distinct_value,
    instants_in,
    numbers_in,
    word_of,
    words_for_levels,
)
from sketchlearn.rows.schemas.text import DECIMALS, ORDERS, YEAR_FIRST

MOST_LEVELS = 4096
#: the first that is not a level is the word for other values
OTHER_WORDS = ("other", "any other", "none of the others")
YES_WORDS = ("1", "true", "t", "yes", "y")
NO_WORDS = ("0", "false", "f", "no", "n")
SCALINGS = ("as is", "standard", "log")
DROP, INDICATE = "drop", "indicate"


class Encoded(NamedTuple):
    """A column as numbers, NaN in rows that the schema drops, and the number of its invalid values."""

    rows: Floats
    n_odd: int = 0


class Column(Value, ABC):
    """A column of a table, and how its values become numbers.

    `missing` says how a row without a value is treated: "drop" leaves it out, "indicate" gives it the typical value
    and adds a missing-value indicator.
    """

    #: default values, which a file may leave out
    _omitted: ClassVar[dict[str, Any]] = {
        "scaling": "as is", "center": 0.0, "width": 1.0, "weight": 1.0, "cycles": (), "n_words": 0, "missing": DROP,
        "decimal": ".", "order": "year first"
    }  # fmt: skip
    name: str
    missing: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"a column has a name, not {shortened(self.name)}")
        if self.missing not in (DROP, INDICATE):
            raise ValueError(f'missing must be "{DROP}" or "{INDICATE}", not {shortened(self.missing)}')
        self._set(weight=positive("weight", self.weight))

    @property
    def own_names(self) -> tuple[str, ...]:
        """Names of the numbers that a value becomes, without the missing-value indicator."""
        return (self.name,)

    @property
    def n_own(self) -> int:
        """Number of `own_names`."""
        return 1

    @property
    def n_numbers(self) -> int:
        """Number of `encoded_names`, known before they are made."""
        return self.n_own + (self.missing == INDICATE)

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of all numbers that a value becomes, with the missing-value indicator."""
        return (*self.own_names, f"{self.name} missing") if self.missing == INDICATE else self.own_names

    @property
    def typical_numbers(self) -> tuple[float, ...]:
        """The numbers that replace a missing value."""
        return (0.0,) * self.n_own

    @property
    @abstractmethod
    def in_words(self) -> str:
        """The encoding, in a few words."""

    @abstractmethod
    def numbers_of(self, raw: Any) -> tuple[Floats, NDArray[Any]]:
        """The numbers of an Arrow array, NaN where a value is invalid or missing, and which are missing."""

    @abstractmethod
    def values_of(self, rows: Floats) -> list[Any]:
        """The values that the own numbers stand for, as the table would have them."""

    def plain(self, numbers: Floats) -> Floats:
        """The first numbers of values in the table's unit: days since 1970 for dates, the length for text."""
        return numbers

    def scaled(self, values: Floats) -> Floats:
        """The inverse of `plain`; NaN where a value has no number."""
        return values

    def encoded(self, raw: Any) -> Encoded:
        """The numbers of an Arrow array."""
        rows, missing = self.numbers_of(raw)
        without = np.isnan(rows[:, 0])
        n_odd = int(np.count_nonzero(without & ~missing))
        if self.missing == INDICATE:
            filled = np.where(without[:, None], self.typical_numbers, rows)
            rows = np.column_stack([filled, without * self.weight_of_gap])
        return Encoded(rows, n_odd)

    @property
    def weight_of_gap(self) -> float:
        """The number of the missing-value indicator."""
        return self.weight

    def decoded(self, rows: Floats) -> list[Any]:
        """The values that numbers stand for; None where the indicator says that there is none."""
        own = self.values_of(rows[:, : self.n_own])
        if self.missing != INDICATE:
            return own
        absent = rows[:, -1] > self.weight_of_gap / 2
        return [None if gone else value for value, gone in zip(own, absent, strict=True)]


class Standardised(Column):
    """A column whose first number is (value - center) / width."""

    center: float
    width: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(center=number("center", self.center), width=positive("width", self.width))

    def plain(self, numbers: Floats) -> Floats:
        return numbers * self.width + self.center

    def scaled(self, values: Floats) -> Floats:
        with np.errstate(over="ignore"):
            found = (values - self.center) / self.width
        return np.where(np.isfinite(found), found, np.nan)


class Words(Column):
    """A column whose values are words of a list; the typical numbers are half of the weight."""

    @property
    def typical_numbers(self) -> tuple[float, ...]:
        return (self.weight / 2,)

    def _by_word(
        self, raw: Any, word: Callable[[Any], str], numbers: Mapping[str, tuple[float, ...]], other: tuple[float, ...]
    ) -> tuple[Floats, NDArray[Any]]:
        """The numbers of each value's word, `other` where it has none; listed words are not missing."""
        return by_distinct_value(
            raw, lambda value: numbers.get(word(value), other), len(other), lambda value: word(value) in numbers
        )


@dataclass(frozen=True)
class Number(Standardised):
    """A number: as it is, standardised, or the logarithm of 1 + x, standardised.

    `decimal` says what text has before the fraction: with ",", "44,70" and "1.234,50" are numbers. Text that may mean
    two numbers, such as "1,234" (or, with decimal commas, "1.234"), is invalid.

    >>> import pyarrow as pa
    >>> Number("age", scaling="standard", center=40.0, width=10.0).encoded(pa.array([30, 50])).rows.tolist()
    [[-1.0], [1.0]]
    >>> Number("price", decimal=",").encoded(pa.array(["44,70", "1.234,50"])).rows.tolist()
    [[44.7], [1234.5]]
    """

    name: str
    _: KW_ONLY
    scaling: str = "as is"
    center: float = 0.0
    width: float = 1.0
    missing: str = DROP
    decimal: str = "."

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scaling not in SCALINGS:
            raise ValueError(f"scaling must be one of {', '.join(SCALINGS)}, not {shortened(self.scaling)}")
        if self.decimal not in DECIMALS:
            raise ValueError(f'decimal must be "." or ",", not {shortened(self.decimal)}')
        if self.scaling == "as is" and (self.center, self.width) != (0.0, 1.0):
            remedy = either('say scaling="standard"', 'give it the scaling "standard"')
            raise InvalidValueError('center and width do nothing with the scaling "as is"', remedy)

    @property
    def in_words(self) -> str:
        kind = {"as is": "number", "standard": "number, standardised", "log": "logarithm of 1 + x, standardised"}
        return kind[self.scaling] + (" (decimal comma)" if self.decimal == "," else "")

    def numbers_of(self, raw: Any) -> tuple[Floats, NDArray[Any]]:
        values, missing = numbers_in(raw, self.decimal)
        return self.scaled(values)[:, None], missing

    def scaled(self, values: Floats) -> Floats:
        if self.scaling == "log":
            values = np.where(values >= 0, values, np.nan)
            values = np.where(np.isnan(values), np.nan, logarithm(1.0 + np.where(np.isnan(values), 0.0, values)))
        return values if self.scaling == "as is" else super().scaled(values)

    def plain(self, numbers: Floats) -> Floats:
        if self.scaling == "as is":
            return numbers
        values = super().plain(numbers)
        return exponential(np.minimum(values, 700.0)) - 1.0 if self.scaling == "log" else values

    def values_of(self, rows: Floats) -> list[Any]:
        return [float(value) for value in self.plain(rows[:, 0])]


@dataclass(frozen=True)
class Flag(Words):
    """A boolean: True, "true", "yes", "y", 1 or False, "false", "no", "n", 0, in any case; others are invalid."""

    name: str
    _: KW_ONLY
    yes: tuple[str, ...] = YES_WORDS
    no: tuple[str, ...] = NO_WORDS
    weight: float = 1.0
    missing: str = DROP

    def __post_init__(self) -> None:
        super().__post_init__()
        yes, no = (tuple(word_of(word).casefold() for word in listed(words)) for words in (self.yes, self.no))
        if not yes or not no or set(yes) & set(no):
            raise ValueError("a flag needs words for yes and different words for no, at least one of each")
        self._set(yes=yes, no=no)

    @property
    def in_words(self) -> str:
        yes, no = ("yes", "no") if (self.yes, self.no) == (YES_WORDS, NO_WORDS) else (self.yes[0], self.no[0])
        return f"boolean: {yes} or {no}"

    def numbers_of(self, raw: Any) -> tuple[Floats, NDArray[Any]]:
        numbers = dict.fromkeys(self.yes, (self.weight,)) | dict.fromkeys(self.no, (0.0,))
        return self._by_word(raw, lambda value: word_of(value).casefold(), numbers, (np.nan,))

    def values_of(self, rows: Floats) -> list[Any]:
        return [bool(value > self.weight / 2) for value in rows[:, 0]]


@dataclass(frozen=True)
class Category(Words):
    """One of some categories (`levels`), one-hot encoded. Other values count as one more category, "other".

    >>> import pyarrow as pa
    >>> country = Category("country", ("FR", "DE"), weight=2.0)
    >>> country.encoded_names, country.encoded(pa.array(["DE", "IT"])).rows.tolist()
    (('country=FR', 'country=DE', 'country=other'), [[0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    """

    name: str
    levels: tuple[str, ...]
    _: KW_ONLY
    weight: float = 1.0
    missing: str = DROP

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(levels=_checked_levels(self.name, self.levels))
        if set(OTHER_WORDS) <= set(self.levels):
            raise ValueError(f"column {self.name!r}: other values need a word: leave out the level {OTHER_WORDS[0]!r}")

    @property
    def own_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={level}" for level in self.words)

    @property
    def n_own(self) -> int:
        return len(self.levels) + 1

    @property
    def typical_numbers(self) -> tuple[float, ...]:
        return (0.0,) * self.n_own

    @property
    def words(self) -> tuple[str, ...]:
        """The levels, and a word for all other values."""
        return (*self.levels, next(word for word in OTHER_WORDS if word not in self.levels))

    @property
    def in_words(self) -> str:
        few = ", ".join(self.levels[:4]) + (", ..." if len(self.levels) > 4 else "")
        return f"category of {len(self.levels)} values ({few}), and other"

    def encoded(self, raw: Any) -> Encoded:
        rows, n_odd = super().encoded(raw)
        return Encoded(rows, n_odd + int(np.count_nonzero(rows[:, len(self.levels)] > 0)))

    def numbers_of(self, raw: Any) -> tuple[Floats, NDArray[Any]]:
        *one_hot, other = map(tuple, (np.eye(self.n_own) * self.weight).tolist())
        numbers = dict(zip(self.levels, one_hot, strict=True))
        return self._by_word(raw, words_for_levels(self.name, raw), numbers, other)

    def values_of(self, rows: Floats) -> list[Any]:
        return [self.words[i] for i in np.argmax(rows, axis=1)]


@dataclass(frozen=True)
class Ordinal(Words):
    """One of some ordered categories (`levels`): from 0 for the first to the weight for the last."""

    name: str
    levels: tuple[str, ...]
    _: KW_ONLY
    weight: float = 1.0
    missing: str = DROP

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(levels=_checked_levels(self.name, self.levels))
        if len(self.levels) < 2:
            raise ValueError(f"column {self.name!r}: an order has at least two levels")

    @property
    def in_words(self) -> str:
        return f"ordered category: {self.levels[0]} to {self.levels[-1]} in {len(self.levels)} steps"

    def numbers_of(self, raw: Any) -> tuple[Floats, NDArray[Any]]:
        last = len(self.levels) - 1
        numbers = {level: (self.weight * i / last,) for i, level in enumerate(self.levels)}
        return self._by_word(raw, words_for_levels(self.name, raw), numbers, (np.nan,))

    def values_of(self, rows: Floats) -> list[Any]:
        last = len(self.levels) - 1
        places = np.clip(np.rint(rows[:, 0] / self.weight * last), 0, last).astype(int)
        return [self.levels[i] for i in places]


def _checked_levels(name: str, levels: Sequence[Any]) -> tuple[str, ...]:
    found = tuple(word_of(level) for level in listed(levels))
    if not 1 <= len(found) <= MOST_LEVELS or len(set(found)) < len(found) or "" in found:
        raise ValueError(f"column {name!r}: levels must be 1 to {MOST_LEVELS} different words, not {shortened(levels)}")
    check_names(f"a level of column {name!r}", found)
    return found


WORDS = re.compile(r"\w+")
CYCLES = {"year": 366, "week": 7, "day": 1440}  # Steps of a cycle: days, days, minutes.
REMEMBERED_WORDS = 1 << 14  # The size of the cache of words' hashes: most texts have fewer different words.
CYCLE_STEP = 2.0**-30  # Sines are multiples of this, because libraries differ in the last bit.


@dataclass(frozen=True)
class Date(Standardised):
    """A date or time, in days since `center` (days since 1970) in units of `width`, and its place in cycles.

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
        self._set(cycles=cycles)

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

    def values_of(self, rows: Floats) -> list[Any]:
        days = np.clip(self.plain(rows[:, 0]), -700_000, 2_900_000)
        moments = np.rint(days * 86_400.0).astype("datetime64[s]")
        dates = moments.astype("datetime64[D]") if "day" not in self.cycles else moments
        return list(dates.astype(object))


@dataclass(frozen=True)
class Text(Column):
    """Free text: the logarithm of 1 + its length or, if `n_words` is given, its words hashed into so many numbers.

    Each number counts the words with its hash; the vector is normalised to length 1.
    """

    name: str
    _: KW_ONLY
    n_words: int = 0
    weight: float = 1.0
    missing: str = DROP

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(n_words=whole("n_words", self.n_words, 0, MOST_LEVELS))

    @property
    def own_names(self) -> tuple[str, ...]:
        return tuple(f"words {i} of {self.name}" for i in range(self.n_words)) or (f"length of {self.name}",)

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
    days = moments // MICROSECONDS_PER_DAY
    if cycle == "day":
        return np.asarray(moments % MICROSECONDS_PER_DAY // 60_000_000)
    if cycle == "week":
        return np.asarray((days + 3) % 7)  # 1970 began on a Thursday
    dates = days.astype("datetime64[D]")
    return np.asarray((dates - dates.astype("datetime64[Y]")).astype(np.int64))
