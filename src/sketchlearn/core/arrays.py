"""The types of arrays that annotations name."""

import numpy as np
from numpy.typing import NDArray

Double = NDArray[np.float64]
Single = NDArray[np.float32]
Integers = NDArray[np.int64]
