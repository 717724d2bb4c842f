"""What a generator has learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Double = NDArray[np.float64]


@dataclass(frozen=True)
class Generation:
    """A network that matches, and the classes that it makes rows of."""

    match: Any
    labels: tuple[Any, ...] | None  # in the order that the network knows them; None without labels
    shares: Double
