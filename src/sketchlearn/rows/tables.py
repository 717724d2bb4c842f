"""The interface of tables of every kind, and one source that reads them all."""

from __future__ import annotations

import io
import operator
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.errors import InvalidTypeError, InvalidValueError, either
from sketchlearn.core.messages import warn_caller
from sketchlearn.core.progress import progress_shown, row_bar
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.rows.schemas.text import signs_swapped
from sketchlearn.rows.source_base import (
    Block,
    Floats,
    Source,
    by_name,
    check_width,
    gathered,
    in_order,
    inside,
    listed,
    one_ahead,
    rows_per_block,
)

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
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} must be a list of names, such as {name}=[{getattr(self, name)!r}]")
            if getattr(self, name) is not None:  # an iterator can be read only once
                object.__setattr__(self, name, tuple(getattr(self, name)))


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

    def not_numbers(self, position: int) -> tuple[str, str] | None:  # noqa: ARG002
        """What a column that is not numeric holds, and what the user can do; None for numbers."""
        return None

    def check(self, chosen: Columns) -> None:
        """Raises an error if a chosen column is not numeric."""
        for position in chosen:
            if (found := self.not_numbers(position)) is not None:
                column = inside(self.place) + self.column(position)
                raise InvalidTypeError(f"{column} is {found[0]}, not numbers", f"{found[1]}, or {other_columns()}")

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
        raise TypeError(f"{self.place or 'the table'} holds numbers alone: leave out the schema")

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
        self.columns = table.names
        if table.names is not None and not self.reads_all:
            self.columns = tuple(table.names[i] for i in chosen)
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
        position = self._position(column)
        return Tabular(self.table, tuple(i for i in self.chosen if i != position), self.nulls)

    def ids(self, column: str | int) -> Iterator[NDArray[Any]]:
        return self.table.ids(self._position(column), rows_per_block(4))

    def raw_columns(self, columns: Sequence[str], *, points: bool = False) -> Iterator[dict[str, Any]]:
        raw = self.table.raw_chunks(tuple(map(self._position, columns)), rows_per_block(len(columns)))
        return map(self.table.with_points, raw) if points else raw

    def _position(self, column: str | int) -> int:
        table = self.table
        return chosen_columns([column], table.names, table.n_columns, table.place or "the table")[0]

    def only(self, columns: tuple[str, ...], *, any_order: bool = False) -> Source:
        if self.columns is None and isinstance(columns, SchemaColumns) and len(self.chosen) != len(columns):
            raise no_names(columns.schema.names)
        if self.columns is None or columns == self.columns:
            return self
        if isinstance(columns, SchemaColumns):
            made = Tabular(EncodedTable(self.table, columns), tuple(range(len(columns))), "drop")
        else:
            positions = (by_name if any_order else in_order)(self.columns, columns, self.place)
            made = Tabular(self.table, tuple(self.chosen[i] for i in positions), self.nulls)
        made.remarks = self.remarks
        return made

    def side_by_side(self) -> tuple[Source, ...]:
        tables = self.table.side_by_side()
        if len(tables) == 1 or self.nulls != "error" or not self.reads_all:
            return (self,)
        parts = tuple(Tabular(table, tuple(range(table.n_columns))) for table in tables)
        for part in parts:
            part.gapless = self.gapless
        return parts

    def some(self, n_rows: int, rng: np.random.Generator) -> Floats | None:
        self.check()
        return self.table.some(self.chosen, n_rows, rng)


class EncodedTable(Table):
    """The numbers into which a schema encodes a table's columns."""

    def __init__(self, table: Table, columns: SchemaColumns) -> None:
        self.table, self.names, self.n_columns = table, columns, len(columns)
        self.schema = columns.schema if table.decimal == "." else columns.schema.with_points()
        self.n_rows, self.n_bytes, self.replayable = table.n_rows, table.n_bytes, table.replayable
        self.place, self.immutable = table.place, table.immutable
        if table.names is None:
            raise no_names(columns.schema.names, table.place)
        self.positions = by_name(table.names, columns.schema.names, table.place)
        self.without = Counter[str]()  # number of rows that were dropped for lack of a value, by column

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        odd: Counter[str] = Counter()
        self.without = Counter[str]()
        yield from self._counted(chosen, n_rows, odd)
        if odd:
            counts = ", ".join(f"{n:,} of column {name!r}" for name, n in odd.items())
            warn_caller(
                f"{inside(self.place)}values that the schema does not know ({counts}): categories count as other, "
                "numbers and dates as missing",
                UserWarning,
            )

    def _counted(self, chosen: Columns, n_rows: int, odd: Counter[str]) -> Iterator[Floats]:
        for raw in self.table.raw_chunks(self.positions, n_rows):
            rows, strange = self.schema.encode(self.table.with_points(raw))
            odd.update(strange)
            self.without.update(self.schema.gaps(rows))
            self.bytes_read = self.table.bytes_read
            yield rows if len(chosen) == self.n_columns else rows[:, list(chosen)]

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:
        """Random rows; if the table has no random access, or is small, they need a pass over all rows."""
        raw = self.table.raw_some(self.positions, n_rows, rng)
        if raw is not None:
            rows, _ = self.schema.encode(self.table.with_points(raw))
            self.without.update(self.schema.gaps(rows))
            return rows[:, list(chosen)]
        found = SmallestKeys(n_rows, np.empty((0, len(chosen))), rng)
        with row_bar(self, progress_shown(), "sampling") as advance:
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
        f"{inside(place)}a schema goes by the names of columns{names}, and these rows have none: give a data frame or "
        "table whose columns have names that are text"
    )


def other_columns() -> str:
    """What to do about a column that is not numbers, or not of one kind."""
    return either("choose other columns", "leave it out (--exclude, --numeric-only)")


def nothing_left(rows: Source) -> ValueError:
    """The error that all rows were left out; with a schema, it names the columns without values."""
    blame, remedy = "", "fill them, or read other columns"
    if isinstance(rows, Tabular) and isinstance(rows.table, EncodedTable) and rows.table.without:
        worst = ", ".join(f"{n:,} in column {name!r}" for name, n in rows.table.without.most_common(3))
        told = either(
            'give those columns missing="indicate"', "let those columns say so in the schema (missing: indicate)"
        )
        blame, remedy = f" ({worst})", f"{told}, or leave them out"
    return ValueError(f"{inside(rows.place)}every row has values that are missing or cannot be read{blame}: {remedy}")


def tabular(table: Table, choice: ColumnChoice, nulls: str) -> Tabular:
    """A source of the chosen columns of a table: names, or positions if there are no names."""
    names, place = table.names, table.place or "the table"
    if names is not None and len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"{place} has two columns {twice!r}: rename one of them")

    def word(position: int) -> str | None:
        found = table.not_numbers(position)
        return None if found is None else found[0].partition(" (")[0]

    chosen, remark = positions_of(choice, names, table.n_columns, word, place)
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
    words = {position: found for position in left if choice.numeric_only and (found := word(position))}
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
        raise InvalidValueError(f"must be different ones, not {listed(columns)}", parameter="columns")
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


Chunk = TypeVar("Chunk", bound=Sized)


def picked(
    chunks: Iterable[Chunk], which: NDArray[np.int64], take: Callable[[Chunk, NDArray[np.int64]], Chunk]
) -> Iterator[Chunk]:
    """The rows at these positions, in ascending order, chunk by chunk, to the last of them."""
    start = done = 0
    for chunk in chunks:
        upto = int(np.searchsorted(which, start + len(chunk)))
        yield take(chunk, which[done:upto] - start)
        start, done = start + len(chunk), upto
        if done == len(which):
            return


CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # the names that pyarrow has for them


def is_compressed(path: Path) -> bool:
    """Whether the end of its name says that a file is compressed."""
    return path.suffix.lower() in CODECS


@contextmanager
def decompressed(path: Path, table: Table | None = None) -> Iterator[Any]:
    """The decompressed bytes of a file; `bytes_read` of the table counts those of the file."""
    from pyarrow import CompressedInputStream, PythonFile

    with _CountedFile(path, table) as file, PythonFile(file, mode="r") as stream:
        yield CompressedInputStream(stream, CODECS[path.suffix.lower()]) if is_compressed(path) else stream


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
