"""Operators, sketches and models in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from sketchlearn.core.messages import counted, in_digits, printable

if TYPE_CHECKING:
    from sketchlearn.features.operator import Operator
    from sketchlearn.sketch.priority_sample import KeptRows
    from sketchlearn.sketch.sums import Sketch

COLUMNS_SHOWN = 12
ROUNDING = 1e-12  # beside the largest number of a direction, what is smaller is an error of rounding
TABLE_COLUMNS_SHOWN = 8  # wider tables do not fit into a terminal


def extras_in_words(operator: Operator) -> list[str]:
    """Sentences about what an operator does beside its features: the rows it keeps, the units of errors."""
    sentences = []
    if operator.keeping is not None:
        who = "in the clear: give it only to those who may see them"
        sentences.append(f"Each sketch keeps up to {operator.keeping.size:,} of the records, {who}.")
    if operator.error_units is not None:
        sentences.append("Errors count in standard deviations of the columns; centers are in the units of the table.")
    return sentences


def contents(sketch: Sketch) -> tuple[dict[str, Any], list[str]]:
    """The figures of the records and the kept rows of a sketch, and a line about the kept rows, if it has any."""
    figures = {"records": sketch.count, **({} if sketch.unit is None else sketch.unit.to_json())}
    if sketch.kept is None:
        return {**figures, "rows": None}, []
    return {**figures, "rows": len(sketch.kept)}, [f"rows: {kept_in_words(sketch.kept)}"]


def kept_in_words(kept: KeptRows) -> str:
    """How many records a sketch's file shows."""
    if not len(kept):
        return "none yet: this sketch keeps records, in the clear, as soon as it has some"
    if kept.complete:
        return f"all records are in this file, in the clear ({len(kept):,} different ones)"
    return f"{len(kept):,} of the records are in this file, in the clear"


def columns_in_words(columns: tuple[str, ...] | None, n_features: int) -> str:
    """Names of columns, the first of many."""
    if columns is None:
        return f"{n_features:,}, without names"
    more = f", ... {len(columns):,} in all" if len(columns) > COLUMNS_SHOWN else ""
    return ", ".join(columns[:COLUMNS_SHOWN]) + more


def column_facts(columns: tuple[str, ...] | None, n_features: int) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The columns as figures, and in rows of a name and a text: with a schema, those of the table and their kinds."""
    from sketchlearn.rows.schemas.table_schema import SchemaColumns

    if not isinstance(columns, SchemaColumns):
        return {"columns": columns}, [("columns", columns_in_words(columns, n_features))]
    schema = columns.schema
    figures = {"columns": schema.names, "kinds": {column.name: column.in_words for column in schema.columns}}
    first = f"{len(schema.columns):,}, which become {n_features:,} numbers"
    return figures, [("columns", first), *(("", line) for line in str(schema).splitlines())]


def records_in_words(count: float) -> str:
    """A number of records."""
    return counted(count, "record")


def column_names(model: Any) -> list[str]:
    """Names of the columns that a model was fitted on."""
    return list(model.columns_ or (f"column {i}" for i in range(model.n_features_in_)))


def digits(rows: Any) -> list[list[str]]:
    """Directions as a table shows them, in four digits."""
    return [[in_digits(value) for value in row[:TABLE_COLUMNS_SHOWN]] for row in map(without_rounding, rows)]


def without_rounding(direction: Any) -> list[float]:
    """The numbers of a direction, those that are rounding errors beside its largest as 0.

    >>> without_rounding([0.5, 1.7e-18, -0.5])
    [0.5, 0.0, -0.5]
    """
    least = ROUNDING * max(map(abs, direction), default=0.0)
    return [float(value) if abs(value) >= least else 0.0 for value in direction]


def table(heads: list[str], cells: list[list[str]], values: list[list[str]], names: Sequence[str]) -> list[str]:
    """Right-aligned lines: the cells of each row under their heads, then its values under the names of the columns."""
    unshown = len(names) - TABLE_COLUMNS_SHOWN
    more = [f"and {counted(unshown, 'more column')} (--json)"] if unshown > 0 else []
    rows = [[*heads, *map(printable, names[:TABLE_COLUMNS_SHOWN]), *more]]
    rows += [[*row, *some[:TABLE_COLUMNS_SHOWN]] for row, some in zip(cells, values, strict=True)]
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    return ["  ".join(map(str.rjust, row, widths)).rstrip() for row in rows]
