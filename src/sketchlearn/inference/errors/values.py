"""Standard errors of attributes, and means over the rows with their errors, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.core.containers import numbers_of
from sketchlearn.core.values import number, shortened

Document = dict[str, Any]
UNKNOWN = -1.0  # represents a missing error in files


@dataclass(frozen=True)
class ErrorBars:
    """Standard errors by the attribute's name.

    Attributes
    ----------
    standard_errors : arrays of the attributes' shapes. NaN where a number has none, such as a direction's sign.
    withheld : why some or all are not reported, with the remedy; "" if all are.
    premise : the assumed distribution ("for normally distributed rows; ..."); "" for independent rows of any.

    >>> ErrorBars.from_json(ErrorBars({"weights_": np.array([0.1])}).to_json()).standard_errors
    {'weights_': array([0.1])}
    """

    standard_errors: Mapping[str, Double] = field(default_factory=dict)
    withheld: str = ""
    premise: str = ""

    def to_json(self) -> Document:
        errors = {name: np.where(np.isnan(e), UNKNOWN, e).tolist() for name, e in self.standard_errors.items()}
        premise = {"premise": self.premise} if self.premise else {}
        return {"standard_errors": errors, "withheld": self.withheld, **premise}

    @classmethod
    def from_json(cls, form: Any) -> Self:
        """Reads a file's; raises `ValueError` if it is malformed."""
        if not isinstance(form, dict) or form.keys() - {"premise"} != {"standard_errors", "withheld"}:
            raise ValueError("error_bars must have the fields standard_errors and withheld")
        withheld, premise, errors = form["withheld"], form.get("premise", ""), form["standard_errors"]
        if not isinstance(withheld, str) or not isinstance(premise, str) or not isinstance(errors, dict):
            raise ValueError("error_bars: standard_errors must be an object, and withheld and premise strings")
        return cls({name: _read_errors(name, one) for name, one in errors.items()}, withheld, premise)


@dataclass(frozen=True)
class RowMean:
    """A mean over the rows that were sketched, such as of their squared distance to the nearest center.

    Attributes
    ----------
    value, error : the mean and its standard error; both None if not known.
    withheld : why not, with the remedy.
    """

    value: float | None = None
    error: float | None = None
    withheld: str = ""

    def to_json(self) -> Document:
        return asdict(self)

    @classmethod
    def from_json(cls, form: Any) -> Self:
        """Reads a file's; raises `ValueError` if it is malformed."""
        if not isinstance(form, dict) or form.keys() != {"value", "error", "withheld"}:
            raise ValueError("row_mean must have the fields value, error and withheld")
        if not isinstance(form["withheld"], str):
            raise ValueError("row_mean: withheld must be a string")
        if form["value"] is None:
            return cls(withheld=form["withheld"])
        return cls(number("value", form["value"]), number("error", form["error"]), form["withheld"])


def _read_errors(name: str, form: Any) -> Double:
    """An array of a file: lists in lists of one length."""
    shape, part = [], form
    while isinstance(part, list) and part:
        shape.append(len(part))
        part = part[0]
    errors = numbers_of({name: form}, name, tuple(shape))
    if np.any((errors < 0) & (errors != UNKNOWN)):
        raise ValueError(f"standard errors of {shortened(name)} must not be negative")
    return np.where(errors == UNKNOWN, np.nan, errors)
