"""Anything tabular as blocks of floating-point rows."""

from sketchlearn.sources.blocks import Block
from sketchlearn.sources.memory_tables import Beside
from sketchlearn.sources.row_weights import WEIGHT_BITS, weight_units
from sketchlearn.sources.sampling import sample
from sketchlearn.sources.source import gpu_rows, is_array, register_reader, schema, source
from sketchlearn.sources.source_base import Source, check_width
from sketchlearn.sources.unit_rows import RowsOfUnits, rows_of_units
from sketchlearn.sources.weighted_source import first_rows, weighted

__all__ = [
    "WEIGHT_BITS",
    "Beside",
    "Block",
    "RowsOfUnits",
    "Source",
    "check_width",
    "first_rows",
    "gpu_rows",
    "is_array",
    "register_reader",
    "rows_of_units",
    "sample",
    "schema",
    "source",
    "weight_units",
    "weighted",
]
