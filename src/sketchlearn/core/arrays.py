"""Types of arrays, for annotations."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Double = NDArray[np.float64]
Single = NDArray[np.float32]
Integers = NDArray[np.int64]
Rows = NDArray[Any]
Weights = Integers | None
