"""Descriptions as values: frozen, comparable, printable, and convertible to and from JSON.

Frequency distributions, nonlinearities and operators derive from `Value`. A JSON form names its class and holds the
fields; reading it builds one of the known classes and runs its checks, nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import json
import math
import numbers
import operator
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np

from sketchlearn.core.errors import InvalidValueError, either
from sketchlearn.core.limits import MOST_NESTED_FORMS


class Value:
    """Base of frozen dataclasses that have a JSON form."""

    _classes: ClassVar[dict[str, type[Value]]] = {}
    #: default values of fields, which a JSON form leaves out
    _omitted: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known = Value._classes.setdefault(cls.__name__, cls)
        if known.__module__ != cls.__module__:
            raise TypeError(f"there is a {cls.__name__} already, in {known.__module__}: JSON forms name classes")

    def _set(self, **fields: Any) -> None:
        """Replaces fields of the frozen value by their checked forms, during construction."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def to_json(self) -> dict[str, Any]:
        """The value as a JSON object."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        kept = {name: v for name, v in values.items() if name not in self._omitted or v != self._omitted[name]}
        return {"type": type(self).__name__, **{name: _plain(v) for name, v in kept.items()}}

    def compared(self) -> dict[str, Any]:
        """The fields that `==` compares, as JSON: forms are equal if and only if values are."""
        own = {f.name: _compared(getattr(self, f.name)) for f in dataclasses.fields(self) if f.compare}  # type: ignore[arg-type]
        return {"type": type(self).__name__, **own}

    @cached_property
    def identity(self) -> str:
        """SHA-256 of all that `==` compares: equal if and only if values are.

        >>> import sketchlearn as skl
        >>> moments = skl.features.SecondMoments(2, bound=9.0)
        >>> moments.identity == moments.with_origin("declared").identity
        True
        >>> moments.identity == skl.features.SecondMoments(2, bound=8.0).identity
        False
        """
        return hashlib.sha256(json.dumps(self.compared(), sort_keys=True).encode()).hexdigest()

    @classmethod
    def from_json(cls, form: Any) -> Self:
        """The value that `to_json` described; a `ValueError` says what is wrong with any other form."""
        return cls._from_form(form, 1)

    @classmethod
    def _from_form(cls, form: Any, depth: int) -> Self:
        """The value of a form at this depth in other forms."""
        name = cls.__name__
        if depth > MOST_NESTED_FORMS:
            raise ValueError(f"operators and distributions are nested too deeply: at most {MOST_NESTED_FORMS} levels")
        if not isinstance(form, dict) or not isinstance(form.get("type"), str):
            raise ValueError(f"expected the JSON form of an operator, law or wave ({name}): an object with a type")
        kind = Value._classes.get(form["type"])
        fields = getattr(kind, "__dataclass_fields__", None)
        if kind is None or not issubclass(kind, cls) or inspect.isabstract(kind) or fields is None:
            raise ValueError(f"{shortened(form['type'])} is not the type of any {name} that this version knows")
        return kind._build({key: _value(item, depth) for key, item in form.items() if key != "type"})

    @classmethod
    def _build(cls, fields: dict[str, Any]) -> Self:
        known = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        odd_ones = (fields.keys() ^ known) - (cls._omitted.keys() - fields.keys())
        if odd_ones:
            odd = sorted(odd_ones)[0]
            raise ValueError(f"{cls.__name__}: field {shortened(odd)} is {'unknown' if odd in fields else 'missing'}")
        try:
            return cls(**fields)
        except TypeError as error:
            raise ValueError(f"{cls.__name__}: {error}") from error


def _plain(item: Any) -> Any:
    if isinstance(item, Value) or hasattr(item, "to_json"):
        return item.to_json()
    return [_plain(part) for part in item] if isinstance(item, tuple) else item


def _compared(item: Any) -> Any:
    if hasattr(item, "compared"):
        return item.compared()
    if isinstance(item, tuple):
        return [_compared(part) for part in item]
    is_whole = isinstance(item, bool) or (isinstance(item, float) and item.is_integer())
    return int(item) if is_whole else item  # as 1 == 1.0 == True, and 0.0 == -0.0


def _value(item: Any, depth: int) -> Any:
    if isinstance(item, dict):
        return Value._from_form(item, depth + 1)
    if not isinstance(item, list):
        return item
    nested = not {dict, list}.isdisjoint(map(type, item))  # a fast path for long lists of numbers
    return tuple(_value(part, depth) for part in item) if nested else tuple(item)


def difference(a: Any, b: Any) -> str | None:
    """The first difference of two values in words, or None.

    >>> from sketchlearn.features.frequencies import Gaussian
    >>> difference(Gaussian(1.0), Gaussian(2.0))
    'their scales differ (1.0 and 2.0)'
    """
    if type(a) is not type(b):
        return f"their kinds differ ({type(a).__name__} and {type(b).__name__})"
    for name in (f.name for f in dataclasses.fields(a) if f.compare):
        x, y = getattr(a, name), getattr(b, name)
        if x != y:
            pairs = zip(x, y, strict=False) if isinstance(x, tuple) and isinstance(y, tuple) else [(x, y)]
            for one, other in pairs:
                if isinstance(one, Value) and type(one) is type(other) and one != other:
                    return difference(one, other)
            shown = (type(item).__name__ if isinstance(item, Value) else shortened(item) for item in (x, y))
            return f"their {_plural(name)} differ ({' and '.join(shown)})"
    return None


def _plural(name: str) -> str:
    if name.startswith("n_"):
        return f"numbers of {name[2:].replace('_', ' ')}"
    return name if name.endswith("s") or name == "structured" else f"{name}s"


def shortened(item: Any, length: int = 60) -> str:
    """The `repr` of an item, in at most `length` characters."""
    try:
        text = repr(_beginning(item, length))
    except ValueError:  # an integer of thousands of digits
        text = f"a very large {type(item).__name__}"
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _beginning(item: Any, length: int) -> Any:
    """An item cut to its first `length` characters, items and keys."""
    if type(item) is str:
        return item[:length]
    if type(item) in (list, tuple):
        return type(item)(_beginning(x, length) for x in item[:length])
    if type(item) is dict:
        return {_beginning(k, length): _beginning(v, length) for k, v in islice(item.items(), length)}
    return item


def listed(x: Any) -> tuple[Any, ...]:
    """The items of `x`; none if it is a string or cannot be iterated."""
    items = x.tolist() if isinstance(x, np.ndarray) else x
    return tuple(items) if isinstance(items, Iterable) and not isinstance(items, str) else ()


def finite_floats(x: Any) -> bool:
    """Whether `x` is a tuple of finite floats, at least one."""
    return isinstance(x, tuple) and set(map(type, x)) == {float} and all(map(math.isfinite, x))


def choice(name: str, x: Any, *words: str) -> str:
    """`x`, if it is one of these words."""
    if not isinstance(x, str) or x not in words:
        raise ValueError(f"{name} must be {' or '.join(map(repr, words))}, not {shortened(x)}")
    return x


def truth(name: str, x: Any) -> bool:
    """`x` as a bool, if it is True or False (NumPy's included)."""
    if not isinstance(x, bool | np.bool_):
        words = either("True or False", "true or false")
        raise InvalidValueError(f"must be {words}, not {shortened(x)}", parameter=name)
    return bool(x)


def number(name: str, x: Any) -> float:
    """`x` as a float, if it is a finite number."""
    if not math.isfinite(value := _float(x)):
        raise InvalidValueError(f"must be a finite number, not {shortened(x)}", parameter=name)
    return value


def positive(name: str, x: Any) -> float:
    """`x` as a float, if it is a positive finite number."""
    if not 0 < (value := _float(x)) < math.inf:
        raise InvalidValueError(f"must be a positive number, not {shortened(x)}", parameter=name)
    return value


def _float(x: Any) -> float:
    """`x` as a float, or not a number."""
    if type(x) is float:  # ten times as fast
        return x
    if isinstance(x, numbers.Real) and not isinstance(x, bool):
        with contextlib.suppress(OverflowError):
            return float(x)
    return math.nan


def floats(
    name: str, values: Any, count: int | None = None, check: Callable[[str, Any], float] = number
) -> tuple[float, ...]:
    """The numbers of a list, each of them checked: `count`, or at least one."""
    found = listed(values)
    if not found or count not in (None, len(found)):
        wanted = "numbers" if count is None else f"{count} numbers"
        raise ValueError(f"{name} must be a list of {wanted}, not {shortened(values)}")
    return tuple(check(name, value) for value in found)


def whole(name: str, x: Any, least: int = 1, most: int = 2**63 - 1) -> int:
    """`x` as an int, if it is a whole number from `least` to `most`."""
    try:
        number = least - 1 if isinstance(x, bool) else operator.index(x)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise InvalidValueError(f"must be a whole number from {least} to {most}, not {shortened(x)}", parameter=name)
    return number
