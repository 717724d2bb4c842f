"""Fitted models as frozen values: they are equal if their files are, and a file has their fields, each checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Self

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.core.containers import numbers_of
from sketchlearn.core.limits import Cost, check_cost
from sketchlearn.core.values import number, shortened, truth, whole
from sketchlearn.features.families import AUTO, FLAT_NAMES, Cells, Features, from_flat, to_flat

Document = dict[str, Any]
#: sizes and fields that were read before, by their letters and names
Known = dict[str, Any]


@dataclass(frozen=True, eq=False)
class FittedModel:
    """Base of fitted models. Fields declared by `model_array` and the functions below are written to files.

    >>> @dataclass(frozen=True, eq=False)
    ... class Line(FittedModel):
    ...     slopes: Double = model_array("d")
    >>> Line.from_fields({"slopes": [1, 2]}, 2) == Line(np.array([1.0, 2.0]))
    True
    """

    @classmethod
    def saved_fields(cls) -> dict[str, Any]:
        """The fields of a file by name, with their functions `read` and `write`, and whether they are `optional`."""
        return {f.name: f.metadata for f in fields(cls) if "read" in f.metadata}

    def to_fields(self) -> Document:
        """The fields of a model file, without optional ones that are None."""
        return {
            name: form["write"](getattr(self, name))
            for name, form in self.saved_fields().items()
            if not form["optional"] or getattr(self, name) is not None
        }

    @classmethod
    def from_fields(cls, document: Document, n_features: int) -> Self:
        """The model in a file; a `ValueError` says what is wrong with it."""
        known: Known = {"d": n_features}
        forms = cls.saved_fields()
        for name, form in forms.items():
            absent = form["optional"] and name not in document
            known[name] = None if absent else form["read"](name, document[name], known)
        check_cost("making its model", cls.cost_of(known))
        model = cls(**{name: known[name] for name in forms})
        model.check()
        return model

    @classmethod
    def cost_of(cls, known: Known) -> Cost:  # noqa: ARG003
        """The cost of making the model of these fields, if it grows faster than their file."""
        return Cost()

    def check(self) -> None:
        """Refuses fields of a file that are inconsistent."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.to_fields() == other.to_fields()  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]


def saved(
    read: Callable[[str, Any, Known], Any],
    write: Callable[[Any], Any] = lambda value: value,
    optional: bool = False,
    **more: Any,
) -> Any:
    """A field of files, with functions to read and write it; an optional one is left out if None."""
    return field(metadata={"read": read, "write": write, "optional": optional}, **more)


def model_array(*shape: str, unknown: float | None = None, **more: Any) -> Any:
    """Finite numbers; letters name the sizes, "d" the number of columns. NaN is written as the number `unknown`."""

    def write(value: Double) -> Any:
        return (value if unknown is None else np.nan_to_num(value, nan=unknown)).tolist()

    return saved(partial(read_array, shape, unknown), write, **more)


def arrays(*shape: str) -> Any:
    """Several arrays; the first letter names their number, and the second size may differ among them."""

    def read(name: str, value: Any, known: Known) -> tuple[Double, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError(f"{name} must be a list of matrices")
        known[shape[0]] = len(value)
        return tuple(read_array(shape[1:], None, name, one, dict(known)) for one in value)

    return saved(read, lambda several: [one.tolist() for one in several])


def scalar(**more: Any) -> Any:
    return saved(lambda name, value, known: number(name, value), float, **more)  # noqa: ARG005


def integer(least: int, most: str | int) -> Any:
    """A whole number, at most this number or the size that a letter names."""
    return saved(
        lambda name, value, known: whole(name, value, least, known[most] if isinstance(most, str) else most), int
    )


def flag(**more: Any) -> Any:
    return saved(lambda name, value, known: truth(name, value), bool, **more)  # noqa: ARG005


def word(*allowed: str) -> Any:
    def read(name: str, value: Any, known: Known) -> str:  # noqa: ARG001
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {shortened(value)}")
        return value

    return saved(read)


def read_array(shape: tuple[str, ...], unknown: float | None, name: str, value: Any, known: Known) -> Double:
    """An array of a file; it determines the sizes of letters that are not known yet."""
    found = value
    for letter in shape:
        if letter not in known:
            if not isinstance(found, list) or not found:
                raise ValueError(f"{name} must be a list, and not empty")
            known[letter] = len(found)
        found = found[0] if isinstance(found, list) and found else None
    numbers = numbers_of({name: value}, name, tuple(known[letter] for letter in shape))
    return numbers if unknown is None else np.where(numbers == unknown, np.nan, numbers)


def chosen_parameters(estimator: Any) -> Document:
    """Parameters that differ from the defaults, if they are words, numbers or lists of such.

    >>> import sketchlearn as skl
    >>> chosen_parameters(skl.SketchPCA(2, bounds=(-1.0, 1.0)))
    {'bounds': [-1.0, 1.0], 'n_components': 2}
    """
    parameters, defaults, chosen = estimator.get_params(deep=False), type(estimator)().get_params(deep=False), {}
    if isinstance(parameters.get("features"), Features):  # Fields of features are flat in files.
        features = parameters.pop("features")
        parameters |= ANY_CELLS if features == Cells() else to_flat(features, estimator.design_task)
    if (passive := parameters.pop("profile_columns", None)) is not None:
        parameters["along"] = passive
    for name, value in parameters.items():
        plain = _listed(value)
        if is_plain(plain) and (name not in defaults or plain != defaults[name]):
            chosen[name] = plain
    return chosen


ANY_CELLS = {"n_directions": AUTO}  # `Cells()` in a file, where it differs from no features


def take_parameters(estimator: Any, parameters: Any) -> None:
    """Sets these parameters, and resets all others that are words and numbers to the defaults."""
    if not isinstance(parameters, dict) or not all(map(is_plain, parameters.values())):
        raise ValueError("parameters must be an object of words and numbers")
    given = estimator.get_params(deep=False)
    flat = {name: parameters[name] for name in FLAT_NAMES if name in parameters and name not in given}
    if "features" in given and flat:
        kept = {name: value for name, value in parameters.items() if name not in flat}
        parameters = kept | {"features": Cells() if flat == ANY_CELLS else from_flat(flat, estimator.design_task)}
    if "along" in parameters:
        parameters = {("profile_columns" if name == "along" else name): parameters[name] for name in parameters}
    if odd := sorted(parameters.keys() - given.keys()):
        raise ValueError(f"a {type(estimator).__name__} has no parameter {shortened(odd[0])}")
    defaults = type(estimator)().get_params(deep=False)
    others = {name: defaults[name] for name, value in given.items() if is_plain(value)}
    estimator.set_params(**(others | parameters))
    estimator.check_parameters()


def is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def _listed(value: Any) -> Any:
    """Arrays and tuples as lists, numbers of NumPy as Python's."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value
