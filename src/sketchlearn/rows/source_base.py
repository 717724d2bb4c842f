"""The interface that every row reader implements, and what it says about rows, columns and files."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.errors import InvalidValueError, either
from sketchlearn.rows.schemas.table_schema import SchemaColumns

Floats = NDArray[np.floating[Any]]

BLOCK_BYTES = 1 << 25
GATHERED_BYTES = 1 << 21  # Small batches are put together up to this size: the kernel is slow for ten rows at a time.


@dataclass(frozen=True)
class Block:
    """Rows of the data, in C order, float32 or float64."""

    rows: Floats
    start: int  # number of the first row, in all of the data, before rows with missing values were dropped
    numbers: NDArray[np.int64] | None = None  # number of each row, where some between them were dropped
    place: str = ""  # the file that they come from, if it is one
    before: int = 0  # number of rows in the files before that one
    dropped: int = 0  # number of rows that were dropped here

    @property
    def end(self) -> int:
        """Number of the first row after the block."""
        return self.start + len(self.rows) + self.dropped

    @property
    def which(self) -> slice | NDArray[np.int64]:
        """The rows' numbers in the data, as an index."""
        return slice(self.start, self.end) if self.numbers is None else self.numbers

    def name(self, i: int) -> str:
        """Row i of the block in words: "row 17", or "row 17 of day.csv", counted in its file from 0."""
        number = self.start + i if self.numbers is None else int(self.numbers[i])
        return f"row {number - self.before}" + (f" of {self.place}" if self.place else "")

    def picked(self, which: NDArray[np.int64]) -> Block:
        """The block with some of its rows, at these ascending positions; the others count as dropped."""
        numbers = which + self.start if self.numbers is None else self.numbers[which]
        dropped = self.dropped + len(self.rows) - len(which)
        return replace(self, rows=self.rows[which], numbers=numbers, dropped=dropped)


def rows_per_block(width: int) -> int:
    """The largest number of rows of a block with so many columns."""
    return max(1, BLOCK_BYTES // (8 * max(1, width)))


def gathered(chunks: Iterable[Floats], width: int) -> Iterator[Floats]:
    """The same rows in arrays of at most a block; small arrays are joined to about GATHERED_BYTES.

    Large arrays are cut without a copy. Small ones are copied at once: a generator may use one buffer again and again.
    """
    step = rows_per_block(width)
    enough = min(step, max(1, GATHERED_BYTES // (8 * max(1, width))))
    held, filled = np.empty((0, width)), 0
    for chunk in chunks:
        if filled and (len(chunk) >= enough or chunk.dtype != held.dtype):
            yield held[:filled]
            filled = 0
        if len(chunk) >= enough:
            for first in range(0, len(chunk), step):
                yield chunk[first : first + step]
            continue
        done = 0
        while done < len(chunk):
            if not filled:
                held = np.empty((enough, width), chunk.dtype)
            taken = min(enough - filled, len(chunk) - done)
            held[filled : filled + taken] = chunk[done : done + taken]
            filled, done = filled + taken, done + taken
            if filled == enough:
                yield held
                filled = 0
    if filled:
        yield held[:filled]


def one_ahead(arrays: Iterator[Floats]) -> Iterator[Floats]:
    """The same arrays; a thread reads the next one while the kernel, which releases Python's lock, uses this one.

    Errors are raised in place of the array; the thread ends with the iterator. The garbage collector may close an
    abandoned iterator at any moment, such as the start of another thread. So this waits for the array that is being
    read, but does not join the thread: that would wait for locks that may be held there.
    """
    reader = ThreadPoolExecutor(1, thread_name_prefix="sketchlearn-reader")
    coming = reader.submit(next, arrays, None)
    try:
        while (array := coming.result()) is not None:
            coming = reader.submit(next, arrays, None)
            yield array
    finally:
        wait([coming])
        reader.shutdown(wait=False)


def has_missing(rows: Floats) -> bool:
    """Whether any value is NaN or infinite. A finite sum proves in one pass that none is."""
    with np.errstate(all="ignore"):
        return not np.isfinite(rows.sum()) and not np.isfinite(rows).all()


NULLS = ("error", "drop")
LIBRARIES = frozenset({"pyarrow", "zipfile", "zlib", "_csv", "sqlite3", "duckdb", "_duckdb", "openpyxl"})


class Source(ABC):
    """Rows of numbers, in blocks of bounded size. Made by `source`.

    Attributes
    ----------
    columns : names of the columns that are read, if they have names.
    n_rows : number of rows, if it is known without reading them; None otherwise.
    n_bytes : number of bytes that will be read from files, if it is known; None otherwise.
    bytes_read : how many of them the last pass has read.
    replayable : whether `blocks` can be called more than once.
    dropped : rows that the last pass left out because of missing values.
    nulls : what happens to rows with missing values: "error" or "drop".
    gapless : whether it is known that no value is missing.
    width : number of columns that are read, if it is known.
    place : name of the file, if it is one.
    remarks : what was inferred from first lines or left out, in sentences, each with the first file that it is about.
    weights : what each row counts, by its number; None means 1.
    """

    columns: tuple[str, ...] | None = None
    n_rows: int | None = None
    n_bytes: int | None = None
    bytes_read: int = 0
    replayable: bool = True
    dropped: int = 0
    nulls: str = "error"
    gapless: bool = False
    width: int | None = None
    place: str = ""
    remarks: Mapping[str, str] = {}
    weights: NDArray[Any] | None = None

    @property
    def n_records(self) -> int | float | None:
        """The total weight of all rows, if it is known without reading them."""
        return self.n_rows

    @abstractmethod
    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        """The rows, in order; they must have n_features columns."""

    @abstractmethod
    def only(self, columns: tuple[str, ...], *, any_order: bool = False) -> Source:
        """The same rows with these columns, in this order; sources without names stay as they are.

        The source must have them in this order, too, unless `any_order` is true.
        """

    def without(self, column: str | int) -> Source:
        """The same rows without one column, given by its name or position."""
        raise ValueError(f"no ids {column!r} can be read here: give an array, a data frame, an Arrow table or files")

    def ids(self, column: str | int) -> Iterator[NDArray[Any]]:
        """The values of one column of all rows, in the order of `blocks`, as text or numbers: ids of units."""
        raise ValueError(f"no ids {column!r} can be read here: give an array, a data frame, an Arrow table or files")

    def raw_columns(self, columns: Sequence[str], *, points: bool = False) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        """Columns of all rows in the order of `blocks`, dropped ones too, as Arrow arrays of whatever they hold.

        With `points`, numbers in text have decimal points, also where the file has commas.
        """
        raise ValueError(f"columns {listed(columns)} cannot be read here: give a table with names, or files")

    def check(self, n_features: int | None = None) -> None:  # noqa: B027
        """Validates the columns before reading any data: their number, and that they are numeric."""

    def with_nulls(self, nulls: str) -> Source:
        """The same rows; those that have missing values are dropped ("drop") or raise an error ("error")."""
        return self._with(nulls=nulls)

    def dropping(self) -> Source:
        """The same rows without those that have missing values."""
        return self.with_nulls("drop")

    def refusing(self) -> Source:
        """The same rows; those that have missing values raise an error."""
        return self.with_nulls("error")

    def unlooked(self) -> Source:
        """The same rows, not searched for missing values, if the caller checks them itself."""
        encoded = isinstance(self.columns, SchemaColumns)
        return self if self.nulls != "error" or encoded else self._with(gapless=True)

    def _with(self, **fields: Any) -> Source:
        """A copy with other values of some fields."""
        other = copy.copy(self)
        vars(other).update(fields)
        return other

    def side_by_side(self) -> tuple[Source, ...]:
        """Sources of parts of its columns, side by side, if those are cheaper to read."""
        return (self,)

    def first(self, n_rows: int) -> Floats:
        """At most so many of the first rows, of rows that fit in memory."""
        return np.concatenate([block.rows for block in self.blocks()])[:n_rows]

    def some(self, n_rows: int, rng: np.random.Generator) -> Floats | None:  # noqa: ARG002
        """About n_rows rows from all over, if that is cheaper than reading everything."""
        return None

    def refuse_gaps(self, block: Block) -> None:
        """Raises an error if a value of the block is missing."""
        missing = np.argwhere(np.isnan(block.rows))
        if len(missing):
            row, position = (int(i) for i in missing[0])
            drop = either('read with nulls="drop"', "use --nulls drop")
            raise InvalidValueError(f"{block.name(row)}, {self._missing(position)}", f"fill it, or {drop}")

    def _missing(self, position: int) -> str:
        """That a value is missing, in words."""
        if isinstance(self.columns, SchemaColumns):
            return f"column {self.columns.read_at(position)!r} has no value that the schema can read"
        return f"column {repr(self.columns[position]) if self.columns else position} is missing (nan)"

    def _accepted(self, arrays: Iterable[Floats], start: int = 0, place: str = "") -> Iterator[Block]:
        """Numbered blocks of arrays, without rows that have missing or infinite values if those are to be dropped."""
        before = start if place else 0
        for rows in arrays:
            block = Block(rows, start, None, place, before)
            start += len(rows)
            if not self.gapless and has_missing(rows):
                if self.nulls == "error":
                    self.refuse_gaps(block)  # infinite values are refused by those who cannot take them
                else:
                    block = block.picked(np.flatnonzero(np.isfinite(rows).all(axis=1)))
                    self.dropped += block.dropped
            yield block


class Wrapped(Source):
    """A source that gives other blocks of the rows of another source, with the same columns."""

    def __init__(self, rows: Source) -> None:
        self.rows, self.columns, self.nulls, self.n_bytes = rows, rows.columns, rows.nulls, rows.n_bytes
        self.width, self.place = rows.width, rows.place

    @abstractmethod
    def around(self, rows: Source) -> Source:
        """The same of other rows."""

    def check(self, n_features: int | None = None) -> None:
        self.rows.check(n_features)

    def only(self, columns: tuple[str, ...], *, any_order: bool = False) -> Source:
        return self.around(self.rows.only(columns, any_order=any_order))

    def with_nulls(self, nulls: str) -> Source:
        return self.around(self.rows.with_nulls(nulls))


def inside(place: str) -> str:
    """The prefix of a message about a file; empty without a file."""
    return f"{place}: " if place else ""


def check_width(width: int, n_features: int | None) -> None:
    """Raises an error if rows do not have the number of columns that the operator needs."""
    if n_features is not None and width != n_features:
        raise ValueError(f"the rows have {width} columns, but the operator needs {n_features}")


def in_order(names: tuple[str, ...], wanted: tuple[str, ...], place: str = "") -> tuple[int, ...]:
    """Positions of the wanted columns among names, if all exist in this order."""
    positions = by_name(names, wanted, place)
    if list(positions) != sorted(positions):
        found = listed([names[i] for i in sorted(positions)])
        chosen = either("source(data, columns=[...])", "--columns")
        raise InvalidValueError(
            f"{inside(place)}a sketch of columns {listed(wanted)} refuses rows of {found}",
            f"put the columns into that order, or choose them with {chosen}",
        )
    return positions


def by_name(names: tuple[str, ...], wanted: Sequence[str], place: str = "") -> tuple[int, ...]:
    """Positions of the wanted columns among names."""
    where = {name: i for i, name in enumerate(names)}
    for name in wanted:
        if name not in where:
            raise ValueError(f"{place or 'the table'} has no column {name!r}: its columns are {listed(names)}")
    return tuple(where[name] for name in wanted)


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names in parentheses, the first few of many."""
    shown = ", ".join(map(str, names[:most]))
    return f"({shown}, ... {len(names)} in all)" if len(names) > most else f"({shown})"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Rewords errors of the library that reads a file: one sentence that names the file."""
    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise type(error)(f"{path} cannot be opened: {error.strerror or 'no such file'}") from None
    except Exception as error:
        library = type(error).__module__.partition(".")[0]
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:200]
        unreadable = isinstance(error, ValueError | OSError | EOFError) or library in LIBRARIES
        if not unreadable or reason.startswith(str(path)):
            raise
        of_objects = "Object arrays" in reason or "Python objects" in reason
        advice = "it holds Python objects" if of_objects else f"it may be damaged or cut short: {reason}"
        raise (OSError if isinstance(error, OSError) else ValueError)(f"{path} cannot be read, {advice}") from None
