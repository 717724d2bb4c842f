"""Where an operator's numbers come from: whether the operator itself tells about the rows that it sketches."""

from __future__ import annotations

from enum import Enum
from typing import Any

from sketchlearn.ledger import ASSUMED, DECLARED
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


def public_design(operator: Any, assumed: bool) -> str:
    """What a ledger says of an operator that may be known; one whose numbers come from rows tells about them, and is
    refused unless the caller says that they are public."""
    if operator.origin is Origin.DECLARED:
        return DECLARED
    if assumed:
        return ASSUMED
    if operator.origin is Origin.SAMPLE:
        raise ValueError(
            "the operator was designed on a sample of rows, which it tells about: design it on bounds alone or, if "
            "the sample is public, say assume_public_design=True"
        )
    raise ValueError(
        f"nobody has said whether the numbers of this {type(operator).__name__} were taken from the rows, which it "
        "would tell about: make it with design(bounds=...); or, if none was, say so with "
        "operator.with_origin('declared') before sketching, or with assume_public_design=True"
    )
