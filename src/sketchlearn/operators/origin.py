"""Where an operator's numbers come from: whether the operator itself tells about the rows that it sketches."""

from __future__ import annotations

from enum import Enum
from typing import Any

from sketchlearn.values import shortened


class Origin(Enum):
    """Whether rows were looked at when an operator's numbers were chosen. The later ones are the worse ones."""

    DECLARED = "declared"  # chosen from public knowledge, such as bounds
    SAMPLE = "sample"  # chosen from some of the rows
    UNKNOWN = "unknown"  # nobody has said: counts as chosen from the rows

    @classmethod
    def _missing_(cls, value: Any) -> Origin:
        names = ", ".join(origin.value for origin in cls)
        raise ValueError(f"origin must be one of {names}, not {shortened(value)}")

    def worse(self, other: Origin) -> Origin:
        """The worse of two.

        >>> Origin.DECLARED.worse(Origin.SAMPLE).value
        'sample'
        """
        return max(self, other, key=list(Origin).index)
