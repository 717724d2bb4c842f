"""Types of arrays, for annotations, and dataclasses of arrays."""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Double = NDArray[np.float64]
Single = NDArray[np.float32]
Integers = NDArray[np.int64]
Rows = NDArray[Any]
Weights = Integers | None


class FrozenArrays:
    """Base of frozen dataclasses of arrays: they are compared by value, and cannot be written to."""

    __hash__ = None  # type: ignore[assignment]

    def _set(self, **values: Any) -> None:
        """Sets fields during construction."""
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    def __eq__(self, other: Any) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))  # type: ignore[arg-type]
        return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in pairs)
