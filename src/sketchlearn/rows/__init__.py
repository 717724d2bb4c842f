"""Readers that give the rows of any table as blocks of floating-point numbers."""

from sketchlearn.rows.memory import Beside
from sketchlearn.rows.sampling import sample
from sketchlearn.rows.source import gpu_rows, is_array, register_reader, schema, source
from sketchlearn.rows.source_base import Block, Source, check_width
from sketchlearn.rows.units import RowsOfUnits, rows_of_units
from sketchlearn.rows.weights import WEIGHT_BITS, weight_units, weighted

__all__ = [
    "WEIGHT_BITS",
    "Beside",
    "Block",
    "RowsOfUnits",
    "Source",
    "check_width",
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
