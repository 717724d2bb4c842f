"""Data frames of pandas, read without pyarrow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.sources.arrays import float_type
from sketchlearn.sources.blocks import Floats
from sketchlearn.sources.tables import Columns, IndexedTable

KINDS = {"M": "dates", "m": "durations", "c": "complex numbers", "O": "objects", "U": "text", "S": "bytes"}


class Frame(IndexedTable):
    """A data frame. Columns have names if all of those are strings, as scikit-learn has it."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        names = tuple(frame.columns)
        self.names = names if names and all(isinstance(name, str) for name in names) else None
        self.n_rows, self.n_columns = frame.shape
        self.types = list(frame.dtypes)

    def check(self, chosen: Columns) -> None:
        for position in chosen:
            kind = self.types[position]
            if _float_type(kind) is None:
                word = "categories" if str(kind) == "category" else KINDS.get(kind.kind, "values")
                word = "text" if "str" in str(kind) else word
                raise self.refuse(position, f"{word} ({kind})", "convert it to float")

    def rows_at(self, which: Any, chosen: Columns) -> Floats:
        part = self.frame.iloc[which]
        narrow = all(_float_type(self.types[position]) == np.float32 for position in chosen)
        rows: NDArray[Any] = np.empty((len(part), len(chosen)), np.float32 if narrow else np.float64)
        for i, position in enumerate(chosen):
            column = part.iloc[:, position]
            plain = isinstance(self.types[position], np.dtype)
            rows[:, i] = column.to_numpy() if plain else column.to_numpy(dtype=rows.dtype, na_value=np.nan)
        return rows


def is_frame(data: Any) -> bool:
    """Whether it is a data frame of pandas."""
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "iloc") and hasattr(data, "columns")


def _float_type(kind: Any) -> np.dtype[Any] | None:
    """The type of rows for a column of this type; None if it is not numbers."""
    if kind.kind in "fiub":
        if isinstance(kind, np.dtype):
            return float_type(kind)
        # a nullable, sparse or Arrow type: the NumPy type of its values
        inner = getattr(kind, "numpy_dtype", None) or getattr(kind, "subtype", None)
        return float_type(np.dtype(inner)) if inner is not None else np.dtype(np.float64)
    return np.dtype(np.float64) if "decimal" in str(getattr(kind, "pyarrow_dtype", "")) else None
