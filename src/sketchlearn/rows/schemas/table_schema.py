"""Schemas, and the names of the numbers that they encode, which carry the schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sketchlearn.core.limits import Cost, check_cost
from sketchlearn.core.messages import printable
from sketchlearn.core.values import Value, listed, number, shortened, truth
from sketchlearn.rows.schemas.cell_values import Floats, arrow_columns, check_single_values
from sketchlearn.rows.schemas.columns import DROP, INDICATE, Column, Number


@dataclass(frozen=True)
class Schema(Value):
    """How each column of a table is encoded as numbers: the first stage of an operator.

    Parties that share a design encode alike, to the bit. Columns that it does not name are left out.

    Parameters
    ----------
    columns : kinds of `sketchlearn.rows.schemas`, one for each column that is used.
    left_out : pairs of a column and the reason why it is not used; for readers only, and not in operators' files.
    proposed : whether categories and scales were estimated from rows: an operator with it is then one "from a sample",
        which private releases refuse.
    unlisted : pairs of a column and the proportion of its values, among the rows from which the schema was proposed,
        that it does not list: rare categories, and text among numbers. Only more of them are warned of. Not in
        operators' files.

    Examples
    --------
    >>> import sketchlearn as skl, pyarrow as pa
    >>> from sketchlearn.rows.schemas.columns import Category, Number
    >>> customers = skl.Schema([Number("age"), Category("country", ["FR", "DE"])])
    >>> customers.encoded_names
    ('age', 'country=FR', 'country=DE', 'country=other')
    >>> rows, odd = customers.encode(pa.table({"age": [42, 30], "country": ["DE", "IT"]}))
    >>> rows.tolist(), odd
    ([[42.0, 0.0, 1.0, 0.0], [30.0, 0.0, 0.0, 1.0]], {'country': 1})
    """

    _omitted: ClassVar[dict[str, Any]] = {"left_out": (), "proposed": False, "unlisted": ()}
    columns: tuple[Column, ...]
    left_out: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    proposed: bool = field(default=False, compare=False)
    unlisted: tuple[tuple[str, float], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        columns = listed(self.columns)
        if not columns or not all(isinstance(column, Column) for column in columns):
            raise ValueError("a schema has at least one column, each of a kind of sketchlearn.rows.schemas")
        left_out = tuple(tuple(pair) for pair in listed(self.left_out))
        if not all(len(pair) == 2 and all(isinstance(word, str) for word in pair) for pair in left_out):
            raise ValueError(f"left_out must be pairs of a column and a reason, not {shortened(self.left_out)}")
        unlisted = tuple((str(name), number("unlisted", share)) for name, share in map(listed, listed(self.unlisted)))
        self._set(columns=columns, left_out=left_out, unlisted=unlisted, proposed=truth("proposed", self.proposed))
        whose: dict[str, str] = {}
        for column in columns:
            for name in column.encoded_names:
                if (other := whose.setdefault(name, column.name)) != column.name:
                    raise ValueError(
                        f"columns {other!r} and {column.name!r} would both give a number called {name!r}: rename one "
                        "of them in the table, or leave one out"
                    )
        twice, times = Counter(self.names).most_common(1)[0]
        if times > 1:
            raise ValueError(f"the schema names column {twice!r} twice: name each column once")

    @classmethod
    def _build(cls, fields: dict[str, Any]) -> Self:
        columns = [column for column in listed(fields.get("columns")) if isinstance(column, Column)]
        each = ((column.n_numbers, 300 + 8 * len(column.name)) for column in columns)
        check_cost("naming its numbers", sum((Cost(n * size, 2000 * n) for n, size in each), Cost()))
        return super()._build(fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the table that are used."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the numbers that a row becomes."""
        return tuple(name for column in self.columns for name in column.encoded_names)

    @property
    def drops(self) -> bool:
        """Whether rows with missing values are left out."""
        return any(column.missing == DROP for column in self.columns)

    def encode(self, table: Any) -> tuple[Floats, dict[str, int]]:
        """The rows of a table: NaN in those that are dropped.

        Also the number of invalid values of each column: not a number, not a date, or not in the listed levels. The
        table is a data frame, an Arrow table, or a dictionary of columns (Arrow arrays, NumPy's, lists); files are
        read and encoded by `skl.source(path, schema=schema)`.
        """
        raw = arrow_columns(table, self.names)
        for column in self.columns:
            check_single_values(column.name, raw[column.name])
        found = {column.name: column.encoded(raw[column.name]) for column in self.columns}
        rows = np.column_stack([one.rows for one in found.values()])
        return np.ascontiguousarray(rows), {name: one.n_odd for name, one in found.items() if one.n_odd}

    def with_points(self) -> Schema:
        """The same schema for a table whose numbers in text have decimal points already."""
        columns = (replace(one, decimal=".") if isinstance(one, Number) else one for one in self.columns)
        return replace(self, columns=tuple(columns))

    def pieces(self, rows: Floats) -> Iterator[tuple[Column, Floats]]:
        """Each column, with its own numbers of rows (or of centers)."""
        ends = np.cumsum([column.n_numbers for column in self.columns])[:-1]
        return zip(self.columns, np.split(rows, ends, axis=1), strict=True)

    def gaps(self, rows: Floats) -> dict[str, int]:
        """The number of encoded rows without a value, for each column whose rows are then dropped."""
        counts = {column.name: int(np.isnan(numbers[:, 0]).sum()) for column, numbers in self.pieces(rows)}
        return {name: n for name, n in counts.items() if n}

    def decode(self, rows: Floats) -> dict[str, list[Any]]:
        """The values that rows of numbers stand for, by column: words for categories, dates for dates."""
        return {column.name: column.decoded(numbers) for column, numbers in self.pieces(rows)}

    def __str__(self) -> str:
        treatments = {DROP: "row left out", INDICATE: "filled in, and marked"}
        lines = [("column", "becomes", "missing")]
        lines += [(column.name, column.in_words, treatments[column.missing]) for column in self.columns]
        lines += [(name, f"left out: {reason}", "") for name, reason in self.left_out]
        shown = [tuple(map(printable, line)) for line in lines]
        used = shown[: len(self.columns) + 1]  # reasons may be long, and are the last text of their line
        widths = [max(len(name) for name, _, _ in shown), max(len(kind) for _, kind, _ in used), 0]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in shown)


def read_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of a table that are read for these columns of an operator."""
    return columns.schema.names if isinstance(columns, SchemaColumns) else columns


def columns_without(columns: tuple[str, ...] | None, positions: tuple[int, ...]) -> tuple[str, ...] | None:
    """The columns without those at some positions; of a schema, only whole columns of the table can be left out.

    >>> columns_without(("age", "size", "price"), (2,))
    ('age', 'size')
    """
    if columns is None or not positions:
        return columns
    names = tuple(name for i, name in enumerate(columns) if i not in positions)
    if not isinstance(columns, SchemaColumns):
        return names
    left = {column for column in columns.schema.columns if set(column.encoded_names) <= set(names)}
    cut = [c.name for c in columns.schema.columns if c not in left and set(c.encoded_names) & set(names)]
    if cut:
        raise ValueError(f"column {cut[0]!r} is encoded as several numbers, which cannot be left out in part")
    kept = tuple(column for column in columns.schema.columns if column in left)
    return SchemaColumns(replace(columns.schema, columns=kept))


class SchemaColumns(tuple[str, ...]):
    """The names of the numbers of a schema, as an operator's columns; they carry the schema.

    Tables are encoded where they are read by these columns; arrays without names are taken as encoded already.
    """

    schema: Schema

    def __new__(cls, schema: Schema) -> SchemaColumns:
        columns = super().__new__(cls, schema.encoded_names)
        columns.schema = schema
        return columns

    @property
    def in_words(self) -> str:
        """What the columns of the table become, in a sentence."""
        kinds = "; ".join(f"{column.name}: {column.in_words}" for column in self.schema.columns)
        return f"The {len(self.schema.columns):,} columns of the table become {len(self):,} numbers ({kinds})."

    def first_number(self, position: int) -> int:
        """The position of the first number of a column of the table."""
        return sum(column.n_numbers for column in self.schema.columns[:position])

    def column_at(self, position: int) -> Column:
        """The column of the table that a number belongs to."""
        return next(column for column in self.schema.columns if self[position] in column.encoded_names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaColumns) and self.schema == other.schema

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __reduce__(self) -> Any:
        return SchemaColumns, (self._without_notes,)

    def read_at(self, position: int) -> str:
        """The name of the column of the table that a number belongs to."""
        return self.column_at(position).name

    def are_in(self, rows: Any) -> bool:
        """Whether rows are an array of these numbers already, not a table to be encoded."""
        return isinstance(rows, np.ndarray) and rows.shape[1:] == (len(self),) and rows.dtype.kind in "fiub"

    def compared(self) -> dict[str, Any]:
        """What `==` compares: the schema."""
        return self.schema.compared()

    def to_json(self) -> dict[str, Any]:
        """The schema: `check_columns` makes columns of it again."""
        return self._without_notes.to_json()

    @property
    def _without_notes(self) -> Schema:
        """The schema without what its proposal saw of the rows: sketches and releases have the schema, too."""
        return replace(self.schema, left_out=(), unlisted=())
