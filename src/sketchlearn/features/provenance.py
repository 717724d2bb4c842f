"""Provenance: whether an operator's numbers are public, or depend on the rows that it sketches."""

from __future__ import annotations

from enum import Enum
from typing import Any

from sketchlearn.core.errors import InvalidValueError, Parameter, either
from sketchlearn.core.values import shortened
from sketchlearn.sketch.ledger import ASSUMED, DECLARED


class Origin(Enum):
    """The provenance of an operator's numbers; the later ones are the worse ones."""

    DECLARED = "declared"  # public: chosen from public knowledge, such as bounds
    SAMPLE = "sample"  # data-dependent: chosen from some of the rows
    UNKNOWN = "unknown"  # not stated: counts as data-dependent

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
    """What a ledger says of the operator's provenance.

    An operator with data-dependent numbers tells about rows: it is refused unless the caller says that they are public.
    """
    if operator.origin is Origin.DECLARED:
        return DECLARED
    if assumed:
        return ASSUMED
    if operator.origin is Origin.SAMPLE:
        raise InvalidValueError(
            "the operator was designed on a sample of rows, and reveals information about them",
            f"design it on bounds alone or, if the sample is public, give {Parameter('assume_public_design', True)}",
        )
    raise InvalidValueError(
        f"it is not known whether the numbers of this {type(operator).__name__} were taken from the rows, which they "
        "would reveal information about",
        either(
            "make it with design(bounds=...); or, if none was, declare it with operator.with_origin('declared') before "
            "sketching, or with assume_public_design=True",
            "use a sketch of sketchlearn design --bounds or, if none was, give --assume-public-design",
        ),
    )
