"""Schemas: how the columns of a table become numbers, as a value that parties share."""

from sketchlearn.schemas.column_kinds import Category, Column, Flag, Number, Ordinal
from sketchlearn.schemas.date_and_text import Date, Text
from sketchlearn.schemas.table_schema import Schema, SchemaColumns, columns_without, read_columns

__all__ = [
    "Category", "Column", "Date", "Flag", "Number", "Ordinal", "Schema", "SchemaColumns", "Text", "columns_without",
    "read_columns",
]  # fmt: skip
