"""The section about change: whether the records differ from those of another sketch, and in which columns."""

from __future__ import annotations

import math
from xml.etree.ElementTree import Element

from sketchlearn.diagnostics.profile_values import Profiles
from sketchlearn.diagnostics.report.cluster_section import titled
from sketchlearn.diagnostics.report.page_elements import (
    chance,
    element,
    figure,
    listing,
    named,
    percent,
    rounded,
    section,
    share_measured,
    table,
    whole_number,
    within,
)
from sketchlearn.plain_digits import in_digits
from sketchlearn.queries import Drift
from sketchlearn.queries.column_drift import LEVEL, TIMES, ColumnDrift, LevelShift

MOST_COLUMNS = 12  # that moved


def drift_section(drift: Drift, noun: str, before: Profiles | None, now: Profiles | None) -> Element:
    """What changed from another sketch to this one."""
    verdict = "The records differ from the earlier ones" if drift.differ else "No change is seen"
    words = element(
        "p", element("strong", f"{verdict}. "), "The two sketches are ", rounded(drift.distance, 2),
        " apart, where chance alone gives ", rounded(drift.expected, 2), "; records of one kind would differ as much ",
        chance(drift.p_value), ". Compared are ", whole_number(drift.n_a), " earlier records with ",
        whole_number(drift.n_b), " of this sketch.",
    )  # fmt: skip
    return section("What changed", "change", words, *_moved(drift), _shares(before, now, noun))


def _moved(drift: Drift) -> list[Element]:
    """The columns that moved, and how many did not."""
    if not drift.columns:
        return [element("p", "This sketch cannot tell which columns moved: its design has nothing along their axes.")]
    moved = [column for column in drift.columns if column.p_value < LEVEL]
    rest = len(drift.columns) - len(moved)
    found = []
    if moved:
        rows = [
            (named(column.column), _shift(column), None if column.named_shares else _times(column.spread_ratio, 2),
             chance(column.p_value))
            for column in moved[:MOST_COLUMNS]
        ]  # fmt: skip
        heads = ("Column", "Moved by about", "Spread became", "By chance alone")
        found.append(table("Columns that moved, the most surprising first", heads, rows))
    if len(moved) > MOST_COLUMNS:
        found.append(element("p", "and ", whole_number(len(moved) - MOST_COLUMNS), " more.", class_="soft"))
    if rest:
        some = "Of all others, " if moved else "Of all columns, "
        found.append(element("p", some, whole_number(rest), f" {'is' if rest == 1 else 'are'} not seen to have moved."))
    return found


def _shift(moved: ColumnDrift) -> Element:
    """How far a column moved, in the table's own unit."""
    if shares := moved.named_shares:
        return listing(map(_share, shares))
    if moved.unit == TIMES:
        return _times(moved.shift)
    return figure(moved.shift, moved.shift_in_words)


def _share(one: LevelShift) -> Element:
    return element("span", named(one.level), " ", percent(one.before), " to ", percent(one.after))


def _times(factor: float, digits: int = 3) -> Element:
    return element("span", rounded(factor, digits), " times")


def _signed(value: float, digits: int = 3) -> str:
    return f"{'+' if value >= 0 else '-'}{in_digits(abs(value), digits)}"


def _shares(before: Profiles | None, now: Profiles | None, noun: str) -> Element | None:
    """The share of each cluster in both, where both sketches keep rows."""
    if before is None or now is None:
        return None
    rows = []
    for old, new in zip(before, now, strict=True):
        change = new.share.value - old.share.value
        error = math.hypot(new.share.error, old.share.error)
        points = element(
            "span",
            figure(change, f"{_signed(100 * change, 2)} percentage points"),
            within(error, f"{in_digits(100 * error, 2)} percentage points"),
        )
        own = (share_measured(one.share.value, one.share.error) for one in (old, new))
        rows.append((titled(new.number, noun), *own, points))
    return table(f"Shares of the {noun}s", (noun.capitalize(), "Earlier", "Now", "Change"), rows)
