"""Errors of the package, and the words in which messages name parameters and functions.

Messages name them as Python does: `n_components=3`, `design(..., rows=500)`. A program with other words for them, such
as the command line, runs `worded`: messages that are made meanwhile use its words, in all threads, as some read rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


class Words:
    """How Python names parameters and functions."""

    def parameter(self, name: str, value: Any = ...) -> str:
        """A parameter, with its value if there is one."""
        if value is ...:
            return name
        return f'{name}="{value}"' if isinstance(value, str) else f"{name}={value!r}"

    def call(self, function: str, arguments: tuple[str, ...], parameters: dict[str, Any]) -> str:
        """A call with some arguments in words, and parameters with their values."""
        given = [*arguments, *(self.parameter(name, value) for name, value in parameters.items())]
        return f"{function}({', '.join(given)})"

    def either(self, python: str, command_line: str) -> str:  # noqa: ARG002
        """What differs in more than names."""
        return python


_spoken = [Words()]


@contextmanager
def worded(words: Words) -> Iterator[None]:
    """Messages that are made inside are in these words."""
    _spoken.append(words)
    try:
        yield
    finally:
        _spoken.remove(words)


@dataclass(frozen=True)
class Parameter:
    """A parameter that a message names, with its value if there is one.

    >>> print(f"{Parameter('n_components')} is missing; say {Parameter('nulls', 'drop')}")
    n_components is missing; say nulls="drop"
    """

    name: str
    value: Any = ...

    def __str__(self) -> str:
        return _spoken[-1].parameter(self.name, self.value)


def called(function: str, *arguments: str, **parameters: Any) -> str:
    """A call that a message advises.

    >>> called("design", "...", rows=500)
    'design(..., rows=500)'
    """
    return _spoken[-1].call(function, arguments, parameters)


def either(python: str, command_line: str) -> str:
    """One of two wordings, where Python and the command line differ in more than names."""
    return _spoken[-1].either(python, command_line)


class SketchlearnError(Exception):
    """Base of the errors that the package raises by name.

    Parameters
    ----------
    what : what is wrong; after the name of the parameter, if there is one.
    remedy : what to do about it.
    parameter : the one whose value is wrong, or its name.

    >>> str(InvalidValueError("must be at most 2", "ask for fewer", Parameter("n_components", 3)))
    'n_components=3 must be at most 2: ask for fewer'
    """

    def __init__(self, what: str = "", remedy: str = "", parameter: Parameter | str | None = None) -> None:
        super().__init__(what, remedy, parameter)
        self.what, self.remedy = what, remedy
        self.parameter = Parameter(parameter) if isinstance(parameter, str) else parameter

    def __str__(self) -> str:
        wrong = self.what if self.parameter is None else f"{self.parameter} {self.what}"
        return f"{wrong}: {self.remedy}" if self.remedy else wrong


class InvalidValueError(SketchlearnError, ValueError):
    """A value, a file or a combination of them is not what it should be."""


class InvalidTypeError(SketchlearnError, TypeError):
    """A value is of a kind that is not taken."""
