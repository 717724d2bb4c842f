"""Renders the templates of the pages: text from a table is escaped, and each number carries its full value."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sketchlearn.core.messages import in_certain_digits, in_date, in_digits, printable, ungrouped
from sketchlearn.questions.comparison import LEVEL

DIGITS_OF_ERROR = 3.0  # An error of less than this in the last digit still leaves that digit worth showing.
UNCERTAIN_SHARE = 0.005  # Percentages with larger errors have no decimals.
LEAST_P_VALUE = 1e-5  # Smaller ones are shown as smaller than this.
SMALLEST_SHARE = 0.0005  # Smaller ones are shown as less than 0.1 %.
UNKNOWN = Markup("<span>unknown</span>")


def named(name: str) -> Markup:
    """A name of the table, which may hold anything: `bdi` isolates the direction of its text.

    >>> named("a < b")
    Markup('<bdi>a &lt; b</bdi>')
    """
    return Markup("<bdi>{}</bdi>").format(printable(name))


def figure(value: float, shown: str, kind: str | None = None) -> Markup:
    """A number: the text that is shown, and its value in full precision.

    >>> figure(0.25, "25 %")
    Markup('<span data-value="0.25">25 %</span>')
    """
    exact = int(value) if float(value).is_integer() else float(value)
    style = "" if kind is None else Markup(' class="{}"').format(kind)
    return Markup('<span data-value="{!r}"{}>{}</span>').format(exact, style, shown)


def whole_number(value: float) -> Markup:
    return figure(value, f"{value:,.0f}")


def rounded(value: float, digits: int = 3) -> Markup:
    return figure(value, in_digits(value, digits)) if math.isfinite(value) else UNKNOWN


def percent(share: float, error: float = 0.0) -> Markup:
    """A proportion, with as many digits as its error allows.

    >>> [percent(*pair).striptags() for pair in ((0.7461,), (0.7461, 0.031), (0.0001,), (1.0,))]
    ['74.6 %', '75 %', 'less than 0.1 %', '100 %']
    """
    if not math.isfinite(share):
        return UNKNOWN
    if 0 < share < SMALLEST_SHARE:
        return figure(share, "less than 0.1 %")
    decimals = 0 if error > UNCERTAIN_SHARE or share in (0, 1) else 1
    return figure(share, f"{100 * share:.{decimals}f} %")


def within(error: float, shown: str | None = None) -> Markup:
    """The standard error of the number before, if there is any."""
    if error <= 0:
        return Markup()
    return Markup("<small> ± {}</small>").format(figure(error, in_digits(error, 2) if shown is None else shown))


def within_percent(error: float) -> Markup:
    """The standard error of a proportion, if it changes a digit of what is shown: ± 0.0 % would not.

    >>> [within_percent(error).striptags() for error in (0.012, 0.0004, 0.0)]
    ['± 1.2 %', '', '']
    """
    return within(error, f"{100 * error:.1f} %") if error >= SMALLEST_SHARE else Markup()


def measured(value: float, error: float = 0.0, column: str = "") -> Markup:
    """A number, with as many digits as its error allows, without commas in columns of years and codes.

    >>> measured(24213.7, 85.0).striptags(), measured(2006.5, column="year").striptags()
    ('24,210', '2006')
    """
    if not math.isfinite(value):
        return UNKNOWN
    shown = in_certain_digits(value, error / DIGITS_OF_ERROR if error else math.nan)
    return figure(value, ungrouped(shown, column))


def share_measured(share: float, error: float = 0.0) -> Markup:
    """A proportion with its standard error."""
    return Markup("<span>{}{}</span>").format(percent(share, error), within_percent(error))


def p_value(p: float) -> Markup:
    """A p-value.

    >>> [p_value(p).striptags() for p in (1e-9, 0.002, 0.37)]
    ['p < 0.00001', 'p = 0.002', 'p = 0.37']
    """
    return figure(p, f"p < {LEAST_P_VALUE:.5f}" if p < LEAST_P_VALUE else f"p = {in_digits(p, 2)}", "long")


def day(days: float) -> Markup:
    """A date, by days since 1970."""
    return figure(days, in_date(days)) if math.isfinite(days) else UNKNOWN


MOST_HEAT = 2.5  # standard deviations: farther averages have the same color


def heat(place: float) -> str:
    """The color of a deviation from the average: orange above it, blue below."""
    strength = min(abs(place) / MOST_HEAT, 1.0) if math.isfinite(place) else 0.0
    return f"rgb({'213 94 0' if place > 0 else '0 114 178'} / {0.4 * strength:.2f})"


def deviation(place: float) -> Markup:
    """A deviation from the average, in standard deviations."""
    return figure(place, signed(place, 2)) if math.isfinite(place) else UNKNOWN


def plural(n: float, noun: str) -> str:
    return noun if n == 1 else f"{noun}s"


def signed(value: float, digits: int = 3) -> str:
    return f"{'+' if value >= 0 else '-'}{in_digits(abs(value), digits)}"


def sentence(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


FILTERS: tuple[Callable[..., str], ...] = (
    *(day, deviation, figure, heat, in_digits, measured, named, percent, plural, printable),
    *(p_value, rounded, sentence, share_measured, signed, whole_number, within, within_percent),
)


@cache
def environment() -> Environment:
    """The templates of the package, by their paths in it; a template that uses an undefined name fails."""
    found = Environment(
        loader=FileSystemLoader(Path(__file__).parents[1]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals |= {"LEVEL": LEVEL, "hypot": math.hypot, "sqrt": math.sqrt}
    found.filters |= {one.__name__: one for one in FILTERS}
    return found


def rendered(template: str, **values: Any) -> str:
    """A whole page from its template."""
    return environment().get_template(template).render(**values).strip() + "\n"
