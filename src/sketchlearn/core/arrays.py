"""Types of arrays, for annotations."""

import numpy as np
from numpy.typing import NDArray

Double = NDArray[np.float64]
Single = NDArray[np.float32]
Integers = NDArray[np.int64]
