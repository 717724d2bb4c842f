"""Schemas: how the columns of a table are encoded as numbers."""

from sketchlearn.rows.schemas.columns import Category, Column, Date, Flag, Number, Ordinal, Text
from sketchlearn.rows.schemas.table_schema import Schema, SchemaColumns, columns_without, read_columns

__all__ = [
    "Category", "Column", "Date", "Flag", "Number", "Ordinal", "Schema", "SchemaColumns", "Text", "columns_without",
    "read_columns",
]  # fmt: skip
