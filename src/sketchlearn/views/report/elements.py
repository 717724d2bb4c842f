"""Elements of the page: whatever comes from a table is text to them, never markup, and numbers carry their value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from xml.etree.ElementTree import Element, tostring

from sketchlearn.core.messages import in_certain_digits, in_date, in_digits, printable
from sketchlearn.questions.comparison import LEVEL

STYLE = Path(__file__).with_name("page.css")
Child = Element | str | None
DIGITS_OF_ERROR = 3.0  # An error of less than this in the last digit still leaves that digit worth showing.
UNCERTAIN_SHARE = 0.005  # Errors above it leave no decimals of percents.
CLUSTER_COLORS = 8  # --c0 to --c7 of page.css
LEAST_P_VALUE = 1e-5  # Smaller ones are shown as smaller than this.
SMALLEST_SHARE = 0.0005  # Smaller ones are shown as less than 0.1 %.


def element(kind: str, *children: Child, **attributes: str) -> Element:
    """An element of HTML; text is escaped when the page is written, None is left out, class_ means class.

    >>> tostring(element("p", "a < b ", element("b", "& c"), class_="note"), encoding="unicode", method="html")
    '<p class="note">a &lt; b <b>&amp; c</b></p>'
    """
    found = Element(kind, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()})
    last: Element | None = None
    for child in children:
        if isinstance(child, Element):
            found.append(child)
            last = child
        elif child and last is None:
            found.text = (found.text or "") + child
        elif child and last is not None:
            last.tail = (last.tail or "") + child
    return found


def page_text(root: Element) -> str:
    """The whole page."""
    return "<!doctype html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def named(name: str) -> Element:
    """A name of the table, which may hold anything: set apart from the text around it, whatever its direction is."""
    return element("bdi", printable(name))


def figure(value: float, shown: str) -> Element:
    """A number: what is shown, and its value in full precision."""
    exact = int(value) if float(value).is_integer() else float(value)
    return element("span", shown, data_value=repr(exact))


def whole_number(value: float) -> Element:
    return figure(value, f"{value:,.0f}")


def rounded(value: float, digits: int = 3) -> Element:
    return figure(value, in_digits(value, digits))


def percent(share: float, error: float = 0.0) -> Element:
    """A share, in as many digits as its error leaves.

    >>> [percent(*pair).text for pair in ((0.7461,), (0.7461, 0.031), (0.0001,), (1.0,))]
    ['74.6 %', '75 %', 'less than 0.1 %', '100 %']
    """
    if not math.isfinite(share):
        return element("span", "unknown")
    if 0 < share < SMALLEST_SHARE:
        return figure(share, "less than 0.1 %")
    return figure(
        share, f"{100 * share:.0f} %" if error > UNCERTAIN_SHARE or share in (0, 1) else f"{100 * share:.1f} %"
    )


def within(error: float, shown: str) -> Element | None:
    """One standard deviation of the error of the number before, if there is any."""
    return element("small", " ± ", figure(error, shown)) if error > 0 else None


def measured(value: float, error: float = 0.0) -> Element:
    """A number, in as many digits as its error leaves.

    >>> measured(24213.7, 85.0).text, measured(24213.7).text
    ('24,210', '24,210')
    """
    if not math.isfinite(value):
        return element("span", "unknown")
    return figure(value, in_certain_digits(value, error / DIGITS_OF_ERROR if error else math.nan))


def share_measured(share: float, error: float = 0.0) -> Element:
    """A share with its error."""
    return element("span", percent(share, error), within_percent(error))


def chance(p: float) -> Element:
    """A probability, as people say it.

    >>> [chance(p).text for p in (1e-9, 0.002, 0.37)]
    ['less than once in 100,000 times', 'about once in 500 times', '37 % of the time']
    """
    if p < LEAST_P_VALUE:
        words = f"less than once in {1 / LEAST_P_VALUE:,.0f} times"
    else:
        words = f"about once in {in_digits(1 / p, 2)} times" if p < LEVEL else f"{100 * p:.0f} % of the time"
    found = figure(p, words)
    found.set("class", "long")
    return found


def within_percent(error: float) -> Element | None:
    """The error of a share, if it changes a digit of what is shown: ± 0.0 % would not.

    >>> [found and found[0].text for found in map(within_percent, (0.012, 0.0004, 0.0))]
    ['1.2 %', None, None]
    """
    return within(error, f"{100 * error:.1f} %") if error >= SMALLEST_SHARE else None


def day(days: float) -> Element:
    """A date, by days since 1970."""
    if not math.isfinite(days):
        return element("span", "unknown")
    return figure(days, in_date(days))


def listing(children: Iterable[Element], between: str = ", ") -> Element:
    """Several in one line."""
    line: list[Child] = []
    for child in children:
        line += [between if line else None, child]
    return element("span", *line)


def section(heading: str, anchor: str, *children: Child) -> Element:
    """A section of the page, named by its heading."""
    title = element("h2", heading, id=f"{anchor}-heading")
    return element("section", title, *children, id=anchor, aria_labelledby=f"{anchor}-heading")


def table(caption: str, heads: Iterable[Child], rows: Iterable[Iterable[Child]]) -> Element:
    """A table whose first cells name the rows; it scrolls by itself where the page is narrow."""
    head = element("tr", *(element("th", text, scope="col") for text in heads))
    body = []
    for first, *others in rows:
        cells = (element("td", cell) for cell in others)
        body.append(element("tr", element("th", first, scope="row"), *cells))
    found = element("table", element("caption", caption), element("thead", head), element("tbody", *body))
    return element("div", found, class_="wide", role="region", aria_label=caption, tabindex="0")


def plural(n: int, noun: str) -> str:
    return noun if n == 1 else f"{noun}s"
