"""Operators, sketches and models in plain words."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from sketchlearn.keeping import KeptRows
from sketchlearn.operators import (
    ColumnMoments,
    Concatenated,
    ConvolutionalFeatures,
    CumulantFeatures,
    FourierFeatures,
    Histograms,
    Operator,
    QuadraticFeatures,
    SecondMoments,
    VeroneseMoments,
)


@singledispatch
def operator_in_words(operator: Operator) -> str:
    """One line about an operator."""
    return repr(operator)


@operator_in_words.register
def _(operator: FourierFeatures) -> str:
    kind = "structured frequencies" if operator.structured else "random frequencies"
    wave = type(operator.wave).__name__.lower()
    return (
        f"{operator.n_frequencies:,} {kind} of {_columns(operator)}, {wave} wave, {law_in_words(operator.law)}, "
        f"seed {operator.seed}"
    )


@operator_in_words.register
def _(operator: QuadraticFeatures) -> str:
    return f"squares of {operator.n_directions:,} random projections of {_columns(operator)}, seed {operator.seed}"


@operator_in_words.register
def _(operator: SecondMoments) -> str:
    return f"means and second moments of {_columns(operator)}"


@operator_in_words.register
def _(operator: VeroneseMoments) -> str:
    return f"moments of order 2 and 4 of {_columns(operator)}"


@operator_in_words.register
def _(operator: ColumnMoments) -> str:
    return f"means and squares of {_columns(operator)}"


@operator_in_words.register
def _(operator: Histograms) -> str:
    sizes = sorted({len(edges) - 1 for edges in operator.edges})
    bins = f"{sizes[0]:,} to {sizes[-1]:,} bins each" if len(sizes) > 1 else f"{sizes[0]:,} bins each"
    origin = "declared" if operator.declared else "chosen from a sample"
    return f"histograms of {_columns(operator)}, {bins}, {origin}"


@operator_in_words.register
def _(operator: ConvolutionalFeatures) -> str:
    shape = " x ".join(map(str, operator.shape))
    network = f"a random network for images of {shape}, seed {operator.seed}"
    return f"means and second moments of {operator.n_outputs} outputs of {network}"


@operator_in_words.register
def _(operator: CumulantFeatures) -> str:
    return f"generalised cumulants of {operator.n_components:,} components of {_columns(operator)}"


@operator_in_words.register
def _(operator: Concatenated) -> str:
    return "; ".join(operator_in_words(part) for part in operator.parts)


def extras_in_words(operator: Operator) -> list[str]:
    """Sentences about what an operator does beside its features: the rows it keeps, the units of errors."""
    sentences = []
    if operator.keeping is not None:
        size = operator.keeping.size
        sentences.append(
            f"Each sketch keeps up to {size:,} of the records, in the clear: give it only to those who may see them."
        )
    if error_units(operator) is not None:
        sentences.append("Errors count in standard deviations of the columns; centers are in the units of the table.")
    return sentences


def kept_in_words(kept: KeptRows) -> str:
    """How many records a sketch's file shows."""
    if not len(kept):
        return "none yet: this sketch keeps records, in the clear, as soon as it has some"
    if kept.complete:
        return f"all records are in this file, in the clear ({len(kept):,} different ones)"
    return f"{len(kept):,} of the records are in this file, in the clear"


def error_units(operator: Operator) -> tuple[float, ...] | None:
    """The units of the columns in which errors count, if they are not those of the table."""
    parts = operator.parts if isinstance(operator, Concatenated) else (operator,)
    return next((part.units for part in parts if isinstance(part, FourierFeatures)), None)


def _columns(operator: Operator) -> str:
    return f"{operator.n_features:,} columns"


def law_in_words(law: Any) -> str:
    """The law of frequencies: its name, and its scale if it has one."""
    inner = getattr(law, "law", None)
    if inner is not None:
        return f"{law_in_words(inner)} with probes"
    name = "".join(f" {c.lower()}" if c.isupper() else c for c in type(law).__name__).strip()
    if hasattr(law, "scale"):
        return f"{name} law of scale {law.scale:.4g}"
    if hasattr(law, "smallest"):
        return f"{name} law of scales {law.smallest:.4g} to {law.largest:.4g}"
    if hasattr(law, "laws"):
        return f"{name} of {len(law.laws)} laws"
    return f"{name} law"


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
