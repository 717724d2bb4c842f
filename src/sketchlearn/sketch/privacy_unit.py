"""The privacy unit of a sketch, where that is not a row: a patient, for instance, of whom few rows count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sketchlearn.core.errors import InvalidValueError, either
from sketchlearn.core.messages import check_names, counted
from sketchlearn.core.values import shortened, whole


@dataclass(frozen=True)
class PrivacyUnit:
    """The privacy unit of a sketch: at most so many rows of each unit count.

    Parameters
    ----------
    name : the column of the units' ids.
    rows_per_unit : the most rows of one unit that are in the sums, each counted as often as it was added.

    Examples
    --------
    >>> str(PrivacyUnit("patient_id", 5))
    'at most 5 rows of each patient_id'
    """

    name: str
    rows_per_unit: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"the name of a unit must be text, not {shortened(self.name)}")
        check_names("a unit", (self.name,))
        object.__setattr__(self, "rows_per_unit", whole("rows_per_unit", self.rows_per_unit))

    def to_json(self) -> dict[str, Any]:
        return {"unit": self.name, "rows_per_unit": self.rows_per_unit}

    @classmethod
    def from_json(cls, description: dict[str, Any]) -> PrivacyUnit | None:
        """The privacy unit in the header of a file, if there is one."""
        return cls(description["unit"], description["rows_per_unit"]) if "unit" in description else None

    def __str__(self) -> str:
        return f"at most {counted(self.rows_per_unit, 'row')} of each {self.name}"


def unit_of_sum(
    a: PrivacyUnit | None, b: PrivacyUnit | None, *, rows_without_unit: bool, disjoint: bool
) -> PrivacyUnit | None:
    """The privacy unit of a sum. A unit may have rows in both sketches, unless they are `disjoint`.

    Adding `rows_without_unit` to rows of units is refused.
    """
    if a is not None and b is not None:
        if a.name != b.name:
            both = f"{a.name} and {b.name}"
            raise ValueError(f"the sketches protect different units ({both}): sketch both by the same unit")
        rows = (a.rows_per_unit, b.rows_per_unit)
        return replace(a, rows_per_unit=max(rows) if disjoint else sum(rows))
    found = b if a is None else a
    if found is not None and rows_without_unit:
        raise InvalidValueError(
            f"one sketch has {found}, the other has rows without units, which would not be protected as units",
            f"sketch those with {either('unit= and rows_per_unit=', '--unit and --rows-per-unit')}, too",
        )
    return found
