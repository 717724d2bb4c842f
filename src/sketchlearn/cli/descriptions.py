"""Operators, sketches and models in plain words."""

from __future__ import annotations

from sketchlearn.keeping import KeptRows
from sketchlearn.operators import Operator


def extras_in_words(operator: Operator) -> list[str]:
    """Sentences about what an operator does beside its features: the rows it keeps, the units of errors."""
    sentences = []
    if operator.keeping is not None:
        size = operator.keeping.size
        sentences.append(
            f"Each sketch keeps up to {size:,} of the records, in the clear: give it only to those who may see them."
        )
    if operator.error_units is not None:
        sentences.append("Errors count in standard deviations of the columns; centers are in the units of the table.")
    return sentences


def kept_in_words(kept: KeptRows) -> str:
    """How many records a sketch's file shows."""
    if not len(kept):
        return "none yet: this sketch keeps records, in the clear, as soon as it has some"
    if kept.complete:
        return f"all records are in this file, in the clear ({len(kept):,} different ones)"
    return f"{len(kept):,} of the records are in this file, in the clear"


def columns_in_words(columns: tuple[str, ...] | None, n_features: int, most: int = 12) -> str:
    """Names of columns, the first of many."""
    if columns is None:
        return f"{n_features:,}, without names"
    shown = ", ".join(columns[:most])
    return f"{shown}, ... {len(columns):,} in all" if len(columns) > most else shown


def records_in_words(count: float) -> str:
    """A number of records."""
    return "1 record" if count == 1 else f"{count:,} records"


def size_in_words(n_bytes: int) -> str:
    """A number of bytes."""
    return f"{n_bytes:,} bytes"


def number(value: float) -> str:
    """A number in four digits."""
    return f"{value:.4g}"
