"""What every row reader implements: sources of blocks, the tables that they read, and several sources joined."""

from __future__ import annotations

import copy
import io
import math
import operator
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.errors import InvalidTypeError, InvalidValueError, Parameter, either
from sketchlearn.core.messages import warn_caller
from sketchlearn.core.progress import progress_shown, row_bar
from sketchlearn.rows.lazy_pyarrow import pa
from sketchlearn.rows.schemas.cell_values import NO_SINGLE_VALUES, remedy_for_cells
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.rows.schemas.text import signs_swapped

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
    def only(self, columns: tuple[str, ...]) -> Source:
        """The same rows with these columns, found by name, in this order; sources without names stay as they are."""

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

    def only(self, columns: tuple[str, ...]) -> Source:
        return self.around(self.rows.only(columns))

    def with_nulls(self, nulls: str) -> Source:
        return self.around(self.rows.with_nulls(nulls))


def inside(place: str) -> str:
    """The prefix of a message about a file; empty without a file."""
    return f"{place}: " if place else ""


def check_width(width: int, n_features: int | None) -> None:
    """Raises an error if rows do not have the number of columns that the operator needs."""
    if n_features is not None and width != n_features:
        raise ValueError(f"the rows have {width} columns, but the operator needs {n_features}")


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
    return f"({shown}, ... {len(names):,} in all)" if len(names) > most else f"({shown})"


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


Columns = tuple[int, ...]
Names = tuple[str, ...] | None
SHOWN_COLUMNS = 12  # Columns that a remark names.
POSITIONS_AT_A_TIME = 1 << 20


@dataclass(frozen=True)
class ColumnChoice:
    """Which columns are read: `columns` (None means all) without `exclude`, and optionally only numeric ones."""

    columns: Sequence[Any] | None = None
    exclude: Sequence[Any] = ()
    numeric_only: bool = False

    def __post_init__(self) -> None:
        for name in ("columns", "exclude"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise ValueError(f"{name} must be a list of names, such as {name}=[{given!r}]")
            if given is not None:  # an iterator can be read only once
                object.__setattr__(self, name, tuple(given))


class Table(ABC):
    """Rows and columns of one kind: an array, a data frame, a file. Most fields are those of `Source`."""

    names: Names = None  # of all columns, if they have any
    n_columns: int
    n_rows: int | None = None
    n_bytes: int | None = None
    bytes_read: int = 0
    replayable: bool = True
    place: str = ""
    remark: str = ""  # what was inferred from the first lines of the file, and may be wrong
    decimal: str = "."  # of numbers in text
    immutable: bool = False  # whether a thread may read ahead: files, yes; a user's generator, no

    def not_numbers(self, position: int) -> str | None:  # noqa: ARG002
        """What a column that is not numeric holds, such as "text (object)"; None for numbers."""
        return None

    def check(self, chosen: Columns) -> None:
        """Raises an error if a chosen column is not numeric."""
        for position in chosen:
            if (found := self.not_numbers(position)) is not None:
                problem = f"{inside(self.place)}{self.column(position)} is {found}, not numbers"
                raise InvalidTypeError(problem, f"{remedy_for(found.partition(' (')[0])}, or {other_columns()}")

    @abstractmethod
    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        """The rows of the chosen columns, as float32 or float64, missing values as NaN, about n_rows at a time."""

    def ids(self, position: int, n_rows: int) -> Iterator[NDArray[Any]]:  # noqa: ARG002
        """The values of one column as they are, text or numbers, about n_rows at a time: ids of units."""
        raise ValueError(f"{inside(self.place)}ids cannot be read from a table of this kind: use a data frame")

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:  # noqa: ARG002
        """About n_rows rows from all over the table, if that is cheaper than reading it all."""
        return None

    def side_by_side(self) -> tuple[Table, ...]:
        """The tables whose columns it has side by side: only itself, unless it is composed of several."""
        return (self,)

    def raw_chunks(self, chosen: Columns, n_rows: int) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        """The chosen columns by name, as Arrow arrays of whatever they hold, about n_rows rows at a time."""
        raise TypeError(f"{self.place or 'the table'} holds only numbers: leave out the schema")

    def raw_some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> dict[str, Any] | None:  # noqa: ARG002
        """`raw_chunks` of about n_rows rows from all over the table, if that is cheaper than reading it all."""
        return None

    def with_points(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Raw columns whose numbers in text have decimal points, also if those of the table have commas."""
        return {name: signs_swapped(cells) for name, cells in raw.items()} if self.decimal == "," else raw

    def column(self, position: int) -> str:
        """A column in words: "column 'age'", or "column 3"."""
        return f"column {self.names[position]!r}" if self.names else f"column {position}"


class IndexedTable(Table):
    """A table in memory, or mapped into it: any rows can be read at once."""

    n_rows: int

    @abstractmethod
    def rows_at(self, which: Any, chosen: Columns) -> Floats:
        """The chosen columns of some rows, given by a slice or by an array of positions."""

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        for first in range(0, self.n_rows, n_rows):
            yield self.rows_at(slice(first, first + n_rows), chosen)

    def ids(self, position: int, n_rows: int) -> Iterator[NDArray[Any]]:
        for first in range(0, self.n_rows, n_rows):
            yield self.ids_at(slice(first, first + n_rows), position)

    def ids_at(self, which: Any, position: int) -> NDArray[Any]:
        """The values of one column, of some rows."""
        return self.rows_at(which, (position,))[:, 0]

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats:
        which = np.sort(rng.choice(self.n_rows, min(n_rows, self.n_rows), replace=False))
        return self.rows_at(which, chosen)


class Tabular(Source):
    """The rows of one table, of all columns or of chosen ones."""

    def __init__(self, table: Table, chosen: Columns, nulls: str = "error") -> None:
        self.table, self.chosen, self.nulls = table, chosen, nulls
        names = table.names  # which may carry a schema
        self.columns = names if names is None or self.reads_all else tuple(names[i] for i in chosen)
        self.n_rows, self.n_bytes, self.replayable = table.n_rows, table.n_bytes, table.replayable
        self.width, self.place = len(chosen), table.place

    @property
    def reads_all(self) -> bool:
        """Whether it reads all columns of the table, in their order."""
        return self.chosen == tuple(range(self.table.n_columns))

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        self.dropped = self.bytes_read = 0
        n_bytes, n_rows = self.n_bytes, self.n_rows
        arrays = gathered(self.chunks(n_features), len(self.chosen))
        if self.table.immutable:
            arrays = one_ahead(arrays)
        with closing(arrays):  # type: ignore[type-var]
            for block in self._accepted(arrays, 0, self.place):
                self.bytes_read = n_bytes * block.end // n_rows if n_bytes and n_rows else self.table.bytes_read
                yield block
        self.bytes_read = self.n_bytes or 0

    def chunks(self, n_features: int | None = None) -> Iterator[Floats]:
        """The rows as the table gives them, missing values as NaN."""
        self.check(n_features)
        if self.chosen:
            yield from self.table.chunks(self.chosen, rows_per_block(len(self.chosen)))

    def check(self, n_features: int | None = None) -> None:
        check_width(len(self.chosen), n_features)
        self.table.check(self.chosen)

    def without(self, column: str | int) -> Source:
        left_out = self._position(column)
        return Tabular(self.table, tuple(i for i in self.chosen if i != left_out), self.nulls)

    def ids(self, column: str | int) -> Iterator[NDArray[Any]]:
        return self.table.ids(self._position(column), rows_per_block(4))

    def raw_columns(self, columns: Sequence[str], *, points: bool = False) -> Iterator[dict[str, Any]]:
        raw = self.table.raw_chunks(tuple(map(self._position, columns)), rows_per_block(len(columns)))
        return map(self.table.with_points, raw) if points else raw

    def _position(self, column: str | int) -> int:
        table = self.table
        return chosen_columns([column], table.names, table.n_columns, table.place or "the table")[0]

    def only(self, columns: tuple[str, ...]) -> Source:
        if self.columns is None and isinstance(columns, SchemaColumns) and len(self.chosen) != len(columns):
            raise no_names(columns.schema.names)
        if self.columns is None or columns == self.columns:
            return self
        if isinstance(columns, SchemaColumns):
            made = Tabular(EncodedTable(self.table, columns), tuple(range(len(columns))), "drop")
        else:
            positions = by_name(self.columns, columns, self.place)
            made = Tabular(self.table, tuple(self.chosen[i] for i in positions), self.nulls)
        made.remarks = self.remarks
        return made

    def side_by_side(self) -> tuple[Source, ...]:
        tables = self.table.side_by_side()
        if len(tables) == 1 or self.nulls != "error" or not self.reads_all:
            return (self,)
        return tuple(Tabular(one, tuple(range(one.n_columns)))._with(gapless=self.gapless) for one in tables)

    def some(self, n_rows: int, rng: np.random.Generator) -> Floats | None:
        self.check()
        return self.table.some(self.chosen, n_rows, rng)


class DerivedTable(Table):
    """A table whose rows are those of another one, with other columns."""

    def __init__(self, table: Table, names: tuple[str, ...]) -> None:
        self.table, self.names, self.n_columns = table, names, len(names)
        self.n_rows, self.n_bytes, self.replayable = table.n_rows, table.n_bytes, table.replayable
        self.place, self.immutable = table.place, table.immutable

    @property
    def bytes_read(self) -> int:  # type: ignore[override]
        """How many bytes of the file the last pass has read."""
        return self.table.bytes_read


class EncodedTable(DerivedTable):
    """The numbers into which a schema encodes a table's columns."""

    def __init__(self, table: Table, columns: SchemaColumns) -> None:
        super().__init__(table, columns)
        self.schema = columns.schema if table.decimal == "." else columns.schema.with_points()
        if table.names is None:
            raise no_names(columns.schema.names, table.place)
        self.positions = by_name(table.names, columns.schema.names, table.place)
        self.without = Counter[str]()  # number of rows that were dropped for lack of a value, by column

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        self.without, odd, total = Counter[str](), Counter[str](), 0
        for rows in self._counted(chosen, n_rows, odd):
            total += len(rows)
            yield rows
        expected = {name: share * total for name, share in self.schema.unlisted}
        more = {name: n for name, n in odd.items() if n > (usual := expected.get(name, 0)) + 3 * math.sqrt(usual)}
        if more:
            counts = ", ".join(f"{n:,} of column {name!r}" for name, n in more.items())
            warn_caller(
                f"{inside(self.place)}values that the schema does not know ({counts}): categories count as other, "
                "numbers and dates as missing",
                UserWarning,
            )

    def _counted(self, chosen: Columns, n_rows: int, odd: Counter[str]) -> Iterator[Floats]:
        return (self._encoded(raw, chosen, odd) for raw in self.table.raw_chunks(self.positions, n_rows))

    def _encoded(self, raw: dict[str, Any], chosen: Columns, odd: Counter[str]) -> Floats:
        rows, strange = self.schema.encode(self.table.with_points(raw))
        odd.update(strange)
        self.without.update(self.schema.gaps(rows))
        return rows if len(chosen) == self.n_columns else rows[:, list(chosen)]

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:
        """Random rows; if the table has no random access, or is small, they need a pass over all rows."""
        raw = self.table.raw_some(self.positions, n_rows, rng)
        if raw is not None:
            return self._encoded(raw, chosen, Counter())
        found = SmallestKeys(n_rows, np.empty((0, len(chosen))), rng)
        with row_bar(self.table, progress_shown(), "sampling") as advance:
            for chunk in self._counted(chosen, rows_per_block(self.n_columns), Counter()):
                found.add(chunk)
                advance(len(chunk))
        return found.rows


class SmallestKeys:
    """A random sample of the rows that are added: those with the smallest random keys, in the order of arrival."""

    def __init__(self, n_rows: int, none: NDArray[Any], rng: np.random.Generator) -> None:
        self.n_rows, self.rows, self.rng, self.keys = n_rows, none, rng, np.empty(0)

    def add(self, rows: NDArray[Any]) -> None:
        self.rows = np.concatenate([self.rows, rows])
        self.keys = np.concatenate([self.keys, self.rng.random(len(rows))])
        if len(self.keys) > self.n_rows:
            first = np.sort(np.argpartition(self.keys, self.n_rows)[: self.n_rows])
            self.rows, self.keys = self.rows[first], self.keys[first]


def some_positions(total: int, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Positions of n_rows random rows of so many, in ascending order."""
    found = SmallestKeys(n_rows, np.empty(0, np.int64), rng)
    for first in range(0, total, POSITIONS_AT_A_TIME):
        found.add(np.arange(first, min(first + POSITIONS_AT_A_TIME, total)))
    return found.rows


def no_names(wanted: Sequence[str], place: str = "") -> ValueError:
    """The error that a schema cannot find its columns."""
    names = f" {listed(wanted)}" if wanted else ""
    return ValueError(
        f"{inside(place)}a schema finds columns by their names{names}, but these rows have none: give a data frame or "
        "table whose column names are text"
    )


def remedy_for(word: str) -> str:
    """What the user can do about a column of text, dates or the like instead of numbers."""
    if word == "text with commas":
        comma = either('say decimal=","', "use --decimal ','")
        return f"{comma} if they are decimal commas, {Parameter('decimal', '.')} if they set thousands apart"
    if word in ("text", "categories", "dates", "times", "values of several kinds"):
        return f"encode it with a schema ({either('skl.schema', 'sketchlearn schema')})"
    return remedy_for_cells(word) if word in (*NO_SINGLE_VALUES.values(), "maps") else "convert it to float"


def other_columns() -> str:
    """What to do about a column that is not numbers, or not of one kind."""
    return either("choose other columns", "leave it out (--exclude, --numeric-only)")


def nothing_left(rows: Source) -> ValueError:
    """The error that all rows were left out; with a schema, it names the columns without values."""
    blame, remedy = "", "fill them, or read other columns"
    if isinstance(rows, Tabular) and isinstance(rows.table, EncodedTable) and rows.table.without:
        worst = ", ".join(f"{n:,} in column {name!r}" for name, n in rows.table.without.most_common(3))
        indicate = either('give those columns missing="indicate"', "give those columns missing: indicate in the schema")
        blame, remedy = f" ({worst})", f"{indicate}, or leave them out"
    return ValueError(f"{inside(rows.place)}every row has values that are missing or cannot be read{blame}: {remedy}")


def tabular(table: Table, choice: ColumnChoice, nulls: str) -> Tabular:
    """A source of the chosen columns of a table: names, or positions if there are no names."""
    names, place = table.names, table.place or "the table"
    if names is not None and len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"{place} has two columns {twice!r}: rename one of them")

    chosen, remark = positions_of(choice, names, table.n_columns, table.not_numbers, place)
    made = Tabular(table, chosen, nulls)
    made.remarks = {text: place for text in (table.remark, remark) if text}
    return made


def positions_of(
    choice: ColumnChoice, names: Names, n_columns: int, word: Callable[[int], str | None], place: str
) -> tuple[Columns, str]:
    """The chosen columns without the excluded ones, and a remark on those that are not numeric.

    `word` says what a column holds that is not numeric.
    """
    chosen = chosen_columns(choice.columns, names, n_columns, place)
    excluded = set(chosen_columns(choice.exclude, names, n_columns, place))
    left = tuple(position for position in chosen if position not in excluded)
    words = {i: found.partition(" (")[0] for i in left if choice.numeric_only and (found := word(i))}
    kept = tuple(position for position in left if position not in words)
    if chosen and not kept:
        why = "none of them is numbers" if words else "all of them are excluded"
        raise ValueError(f"{place} has no columns left to read: {why}")
    said = [f"{names[i] if names else f'column {i}'} ({found})" for i, found in words.items()]
    shown = ", ".join(said[:SHOWN_COLUMNS]) + (f" and {len(said) - SHOWN_COLUMNS} more" * (len(said) > SHOWN_COLUMNS))
    return kept, f"left out, as they are not numbers: {shown}" if said else ""


def chosen_columns(columns: Sequence[Any] | None, names: tuple[str, ...] | None, n_columns: int, place: str) -> Columns:
    """Positions of columns that are given by name or position; None means all."""
    if columns is None:
        return tuple(range(n_columns))
    if len(set(columns)) < len(columns):
        raise InvalidValueError(f"must all be different, not {listed(columns)}", parameter="columns")
    if names is not None and all(isinstance(name, str) for name in columns):
        return by_name(names, columns, place)
    if names is None and any(isinstance(name, str) for name in columns):
        raise ValueError(f"{place} has no column names: choose columns by position, such as 0 and 2")
    try:
        positions = tuple(map(operator.index, columns))
    except TypeError:
        raise InvalidValueError(f"must be names or positions, not {listed(columns)}", parameter="columns") from None
    for position in positions:
        if not 0 <= position < n_columns:
            raise ValueError(f"there is no column {position}: the columns of {place} are 0 to {n_columns - 1}")
    return positions


CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # the names that pyarrow has for them


@contextmanager
def decompressed(path: Path, table: Table | None = None) -> Iterator[Any]:
    """The decompressed bytes of a file; `bytes_read` of the table counts those of the file."""
    with _CountedFile(path, table) as file, pa.PythonFile(file, mode="r") as stream:
        codec = CODECS.get(path.suffix.lower())
        yield stream if codec is None else pa.CompressedInputStream(stream, codec)


class _CountedFile(io.BufferedReader):
    """A file that counts the bytes that were read in its table."""

    def __init__(self, path: Path, table: Table | None) -> None:
        super().__init__(io.FileIO(path))
        self.table = table

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        if self.table is not None:
            self.table.bytes_read += len(found)
        return found


MOST_SAMPLED_PARTS = 64  # A sample opens no more files than this, however many there are.


class Joined(Source):
    """Sources with the same columns, in order.

    Parts in memory are put together where they are small; each file gives blocks of its own, so that errors can name
    it. If `parts` is an iterator, they can be read once. Where columns were `chosen` by name, other columns may differ.
    """

    def __init__(self, parts: Sequence[Source] | Iterator[Source], nulls: str, *, chosen: bool) -> None:
        self.nulls, self.chosen = nulls, chosen
        self.parts: Iterable[Source] = parts
        self._first_part = next(iter(parts), None)
        if isinstance(parts, Iterator):
            self.parts, self.replayable = chain([] if self._first_part is None else [self._first_part], parts), False
        else:
            self.replayable = all(part.replayable for part in parts)
            self.n_rows = _total([part.n_rows for part in parts])
            self.n_bytes = _total([part.n_bytes for part in parts]) if parts else None
            self.remarks = {text: place for part in reversed(parts) for text, place in part.remarks.items()}
        if self._first_part is not None:
            self.columns, self.width = self._first_part.columns, self._first_part.width

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        self.dropped = self.bytes_read = 0
        start = 0
        for in_memory, run in groupby(self._checked(n_features), self._is_in_memory):
            if in_memory:
                chunks = chain.from_iterable(part.chunks(n_features) for part in run if isinstance(part, Tabular))
                for block in self._accepted(gathered(chunks, self.width or 0), start):
                    start = block.end
                    yield block
                continue
            for part in run:
                before, dropped, done = start, self.dropped, self.bytes_read
                for block in part.blocks(n_features):
                    start = before + block.end
                    self.dropped, self.bytes_read = dropped + part.dropped, done + part.bytes_read
                    numbers = None if block.numbers is None else block.numbers + before
                    first = block.before + before if block.place else 0
                    yield replace(block, start=block.start + before, numbers=numbers, before=first)
                self.dropped, self.bytes_read = dropped + part.dropped, done + part.bytes_read

    def check(self, n_features: int | None = None) -> None:
        if isinstance(self.parts, Sequence):
            for part in self.parts:
                self._check_part(part, n_features)

    def only(self, columns: tuple[str, ...]) -> Source:
        return Joined(self._each(lambda part: part.only(columns)), self.nulls, chosen=True)

    def without(self, column: str | int) -> Source:
        return Joined(self._each(lambda part: part.without(column)), self.nulls, chosen=self.chosen)

    def ids(self, column: str | int) -> Iterator[NDArray[Any]]:
        return chain.from_iterable(part.ids(column) for part in self.parts)

    def raw_columns(self, columns: Sequence[str], *, points: bool = False) -> Iterator[dict[str, Any]]:
        return chain.from_iterable(part.raw_columns(columns, points=points) for part in self.parts)

    def with_nulls(self, nulls: str) -> Source:
        return Joined(self._each(lambda part: part.with_nulls(nulls)), nulls, chosen=self.chosen)

    def _each(self, change: Callable[[Source], Source]) -> Sequence[Source] | Iterator[Source]:
        changed = map(change, self.parts)
        return list(changed) if isinstance(self.parts, Sequence) else changed

    def some(self, n_rows: int, rng: np.random.Generator) -> Floats | None:
        if not isinstance(self.parts, Sequence) or not self.parts:
            return None
        self.check()
        # in proportion to the rows of each part or, if unknown, its bytes
        sizes = [part.n_rows for part in self.parts]
        if None in sizes:
            sizes = [part.n_bytes for part in self.parts]
        weights = np.array([1 if size is None else size for size in sizes], np.float64)
        if len(sizes) > MOST_SAMPLED_PARTS:
            weights[rng.permutation(len(sizes))[MOST_SAMPLED_PARTS:]] = 0
        counts = np.ceil(n_rows * weights / max(1.0, weights.sum())).astype(int).tolist()
        samples = [part.some(count, rng) for part, count in zip(self.parts, counts, strict=True) if count]
        found = [sample for sample in samples if sample is not None]
        return np.concatenate(found) if found and len(found) == len(samples) else None

    def _checked(self, n_features: int | None) -> Iterator[Source]:
        """The parts, all checked before the first is read, if there is more than one pass; otherwise one by one."""
        self.check(n_features)
        for part in self.parts:
            if not isinstance(self.parts, Sequence):
                self._check_part(part, n_features)
            yield part

    def _is_in_memory(self, part: Source) -> bool:
        return isinstance(part, Tabular) and not part.place and part.nulls == self.nulls

    def _check_part(self, part: Source, n_features: int | None) -> None:
        if not self.chosen and self._first_part is not None:
            _check_alike(self._first_part, part)
        if part.width is not None:
            check_width(part.width, n_features)
        part.check(n_features)


def _check_alike(first: Source, part: Source) -> None:
    if part.columns == first.columns and part.width == first.width:
        return
    here, there = part.place or "a later part", first.place or "the first"
    if part.columns and first.columns:
        if lacked := [name for name in first.columns if name not in part.columns]:
            raise ValueError(f"{here} has no column {lacked[0]!r}, which {there} has: choose columns that all have")
        if added := [name for name in part.columns if name not in first.columns]:
            raise ValueError(f"{here} has a column {added[0]!r}, which {there} lacks: choose columns that all have")
    own, others = (listed(one.columns) if one.columns else f"{one.width} without names" for one in (part, first))
    raise ValueError(f"{here} has the columns {own}, but {there} has {others}: give all the same columns in order")


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
