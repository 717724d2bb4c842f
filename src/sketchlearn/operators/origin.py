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
    def of(cls, given: Any) -> Origin:
        """The origin itself, or the one with this name."""
        if isinstance(given, Origin):
            return given
        names = [origin.value for origin in cls]
        if not isinstance(given, str) or given not in names:
            raise ValueError(f"origin must be one of {', '.join(names)}, not {shortened(given)}")
        return cls(given)

    def worse(self, other: Origin) -> Origin:
        """The worse of two.

        >>> Origin.DECLARED.worse(Origin.SAMPLE).value
        'sample'
        """
        return max(self, other, key=list(Origin).index)
