"""At most g rows of each unit, whatever their order: those with the smallest hashes of row and id.

The rows are read twice. The first pass hashes every row and keeps the positions of the g smallest hashes of each unit.
The second pass gives those rows. Equal rows of one unit have equal hashes, so it does not matter which are taken.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Integers
from sketchlearn.core.values import shortened, whole
from sketchlearn.kernels._native import row_hashes
from sketchlearn.rows.schemas.cell_values import LARGEST_WHOLE, LARGEST_WHOLE_BY_BITS
from sketchlearn.rows.schemas.table_schema import read_columns
from sketchlearn.rows.source_base import Block, Floats, Source, Wrapped

Digests = NDArray[np.uint64]
DIGEST_KEY = b"sketchlearn unit"  # Public, and never changed: independent places choose the same rows.
WHOLE_NUMBER = re.compile(r"(-?\d+)\.0+")


def id_digests(values: NDArray[Any]) -> tuple[Digests, NDArray[np.bool_]]:
    """A hash of each id as two words, (n, 2), and which ids are missing: None, NaN, or empty text.

    >>> digests, missing = id_digests(np.array([3, 3.0, "3", " 3.0 ", "03", None], dtype=object))
    >>> [bool(np.all(row == digests[0])) for row in digests[:5]], missing.tolist()
    ([True, True, True, True, False], [False, False, False, False, False, True])
    """
    different, which = _factors(values)
    plain = values.dtype.kind in "iu"
    texts: list[str | None] = [str(n) for n in different.tolist()] if plain else [id_text(value) for value in different]
    words = b"".join(
        hashlib.blake2b((text or "").encode(errors="surrogatepass"), digest_size=16, key=DIGEST_KEY).digest()
        for text in texts
    )
    digests = np.frombuffer(words, "<u8").astype(np.uint64).reshape(-1, 2)
    return digests[which], np.array([text is None for text in texts], bool)[which]


def id_texts(values: NDArray[Any]) -> NDArray[Any]:
    """The text that identifies each id, None where it is missing.

    >>> id_texts(np.array([3.0, 4.0, 3.0])).tolist()
    ['3', '4', '3']
    """
    different, which = _factors(values)
    return np.fromiter(map(id_text, different), object, len(different))[which]


def id_text(value: Any) -> str | None:
    """The text that identifies an id; None if it is missing.

    >>> id_text(3.0), id_text("A 7 "), id_text(float("nan")), id_text("")
    ('3', 'A 7', None, None)
    """
    bits = 8 * value.itemsize if isinstance(value, np.floating) else 64
    item = value.item() if isinstance(value, np.generic) else value
    if item is None or type(item).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(item, str):
        text = item.strip()
        found = WHOLE_NUMBER.fullmatch(text)
        return (found[1] if found else text) or None
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item)
    if isinstance(item, Decimal) and item.is_finite():
        return str(int(item)) if item == item.to_integral_value() else str(item.normalize())
    if isinstance(item, float):
        if abs(item) >= LARGEST_WHOLE_BY_BITS.get(bits, LARGEST_WHOLE):  # two units would be taken for one
            raise ValueError(
                f"the id {item!r} is a floating-point number so large that other ids may have become the same one: "
                "store ids as integers or text"
            )
        return None if math.isnan(item) else str(int(item)) if item.is_integer() else repr(item)
    raise TypeError(f"ids of units are text or numbers, not {type(item).__name__}: convert them to text")


def _factors(values: NDArray[Any]) -> tuple[Any, NDArray[np.int64]]:
    """The distinct values, and the index of each value among them."""
    if values.ndim != 1:
        raise ValueError(f"ids must be one per row, not an array of {values.ndim} dimensions")
    if values.dtype.kind in "iuf":
        return np.unique(values, return_inverse=True)
    if values.dtype.kind not in "OU":
        raise TypeError(f"ids of units are text or numbers, not {values.dtype}: convert them to text")
    known = dict[Any, int]()
    try:
        which = [known.setdefault(value, len(known)) for value in values.tolist()]
    except TypeError:
        raise TypeError("ids of units are text or numbers: convert them to text") from None
    return list(known), np.array(which, np.int64)


ROW_KEYS = (0x756E697420726F77, 0x6F6620612077686F)  # Public, and never changed: all places choose the same rows.
IDS_AT_A_TIME = 1 << 20  # Each takes 16 bytes while its rows are hashed.
CHANGED = "the rows changed between two readings: start again when they are complete"
LEAST_WAITING = 1 << 19  # Rows that are collected before they are sorted: sorting few at a time is slow.


class RowsOfUnits(Wrapped):
    """At most `most` rows of each unit of a source. Made by `rows_of_units`.

    Attributes
    ----------
    unit : the name of the units' column.
    most : how many rows of each unit there are at most.
    """

    def __init__(self, rows: Source, read_ids: Callable[[], Iterator[NDArray[Any]]], unit: str, most: int) -> None:
        super().__init__(rows)
        self.read_ids, self.unit, self.most = read_ids, unit, most

    def around(self, rows: Source) -> Source:
        return RowsOfUnits(rows, self.read_ids, self.unit, self.most)

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        numbers, hashes = self._chosen(n_features)
        done = 0
        with closing(self.rows.blocks(n_features)) as blocks:  # type: ignore[type-var]
            for block in blocks:
                upto = int(np.searchsorted(numbers, block.end))
                chosen, known, done = numbers[done:upto], hashes[done:upto], upto
                places = chosen - block.start if block.numbers is None else np.searchsorted(block.numbers, chosen)
                self.dropped, self.bytes_read = self.rows.dropped, self.rows.bytes_read
                if np.any(places >= len(block.rows)):
                    raise ValueError(CHANGED)
                found = block.picked(places)
                if not np.array_equal(row_hashes(found.rows, ROW_KEYS[1], 1), known):
                    raise ValueError(CHANGED)
                yield found
        if done < len(numbers):
            raise ValueError(CHANGED)

    def _chosen(self, n_features: int | None) -> tuple[Integers, Digests]:
        """The numbers of the rows to be taken, in ascending order, and a hash of each."""
        smallest, ids = _Smallest(self.most), _Ids(self.read_ids(), self.unit)
        with closing(self.rows.blocks(n_features)) as blocks:  # type: ignore[type-var]
            for block in blocks:
                numbers = np.arange(block.start, block.end) if block.numbers is None else block.numbers
                smallest.add(_hashed(block.rows, ids.of(block)[numbers - block.start]), numbers)
        ids.require_end()
        return smallest.found()


def rows_of_units(rows: Source, unit: Any, most: Any, columns: tuple[str, ...] | None = None) -> RowsOfUnits:
    """At most `most` rows of each unit of a source that can be read twice.

    Parameters
    ----------
    rows : the rows.
    unit : the name (or position) of the column of ids, which then is not among the rows' columns; or an array of ids.
    most : how many rows of each unit may count.
    columns : names of the columns to read; None means all but the ids.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> visits = skl.source(np.array([[7, 1.0], [7, 2.0], [7, 3.0], [8, 4.0]]))
    >>> [block.rows.shape for block in rows_of_units(visits, 0, 2).blocks()]
    [(3, 1)]
    """
    if unit is None or most is None:
        raise ValueError("give unit= and rows_per_unit= together: the column of ids, and how many rows of each count")
    most = whole("rows_per_unit", most)
    if not rows.replayable:
        raise ValueError(
            "rows of units are read twice, and this stream can be read only once: save it to files, or collect it in "
            "memory, and sketch those"
        )
    if isinstance(unit, str | int | np.integer) and not isinstance(unit, bool):
        column = unit if isinstance(unit, str) else int(unit)
        if columns is not None and column in read_columns(columns):
            raise ValueError(f"the ids {column!r} are one of the operator's columns: ids of units are not features")
        own, name = rows.without(column), column if isinstance(column, str) else f"column {column}"
        return RowsOfUnits(own if columns is None else own.only(columns), lambda: rows.ids(column), name, most)
    values = np.array(unit, dtype=object) if isinstance(unit, list | tuple) else np.asarray(unit)
    if values.ndim != 1:
        raise ValueError(f"unit must be the name of a column, or one id per row, not {shortened(unit)}")
    own_name = getattr(unit, "name", None)  # of a Series
    name = own_name if isinstance(own_name, str) and own_name else "unit"
    if rows.n_rows is not None and len(values) != rows.n_rows:
        raise ValueError(f"there are {len(values):,} ids of units, but {rows.n_rows:,} rows: give one per row")
    own = rows if columns is None else rows.only(columns)
    starts = range(0, len(values), IDS_AT_A_TIME)
    return RowsOfUnits(own, lambda: (values[i : i + IDS_AT_A_TIME] for i in starts), name, most)


class _Ids:
    """The digests of the ids of rows that come block by block."""

    def __init__(self, arrays: Iterator[NDArray[Any]], unit: str) -> None:
        self.arrays, self.unit = arrays, unit
        self.held, self.missing = np.empty((0, 2), np.uint64), np.empty(0, bool)

    def of(self, block: Block) -> Digests:
        """Those of all rows of a block, dropped ones included."""
        parts, n = [(self.held, self.missing)], block.end - block.start
        while sum(len(digests) for digests, _ in parts) < n and (values := next(self.arrays, None)) is not None:
            parts.append(id_digests(values))
        digests, missing = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        if len(digests) < n:
            raise ValueError(f"there are fewer ids ({self.unit}) than rows: give one per row")
        if missing[:n].any():
            where = replace(block, numbers=None).name(int(np.argmax(missing)))
            raise ValueError(
                f"{where}: the id in {self.unit!r} is missing, and every row needs one: fill it, or drop such rows"
            )
        self.held, self.missing = digests[n:], missing[n:]
        return digests[:n]

    def require_end(self) -> None:
        """Raises an error if there are more ids than rows."""
        if len(self.held) or any(len(values) for values in self.arrays):
            raise ValueError(f"there are more ids ({self.unit}) than rows: give one per row")


class _Smallest:
    """Of each unit the rows of the smallest hashes: the words of unit and hash, (n, 4), and the rows' numbers."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.words, self.numbers = [np.empty((0, 4), np.uint64)], [np.empty(0, np.int64)]
        self.sorted = self.waiting = 0

    def add(self, words: Digests, numbers: Integers) -> None:
        self.words.append(words)
        self.numbers.append(numbers)
        self.waiting += len(words)
        if self.waiting > max(LEAST_WAITING, self.sorted):
            self._sort_out()

    def _sort_out(self) -> None:
        words, numbers = np.concatenate(self.words), np.concatenate(self.numbers)
        order = np.argsort(np.ascontiguousarray(words, "<u8").view("S32").ravel())  # twice as fast as by four words
        words, numbers = words[order], numbers[order]
        begins = np.r_[True, np.any(words[1:, :2] != words[:-1, :2], axis=1)][: len(words)]
        first = np.flatnonzero(begins)
        rank = np.arange(len(words)) - np.repeat(first, np.diff(np.r_[first, len(words)]))
        few = rank < self.most
        self.words, self.numbers = [words[few]], [numbers[few]]
        self.sorted, self.waiting = int(np.count_nonzero(few)), 0

    def found(self) -> tuple[Integers, Digests]:
        """The rows' numbers in ascending order, and the last word of each."""
        if self.waiting:
            self._sort_out()
        order = np.argsort(self.numbers[0])
        return self.numbers[0][order], self.words[0][order, 3]


def _hashed(rows: Floats, ids: Digests) -> Digests:
    """The words of unit and hash of each row.

    Without the unit's id in it, the hash would take rows of the same values from all units, which is not a fair sample.
    """
    first, second = (row_hashes(rows, key, 1) for key in ROW_KEYS)
    return np.column_stack([ids, _mixed(first ^ ids[:, 0]), second])


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A permutation of words, the last step of SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
