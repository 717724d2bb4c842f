"""The section about privacy: what was spent on it, or that the sketch is personal data."""

from __future__ import annotations

import math
from typing import Any
from xml.etree.ElementTree import Element

from sketchlearn.diagnostics.report.page_elements import Child, element, named, rounded, section, table, whole_number
from sketchlearn.few_records import FEW_RECORDS
from sketchlearn.ledger import ADD_REMOVE, ASSUMED, Ledger
from sketchlearn.sketch import Sketch


def privacy_section(sketch: Sketch, model: Any, against: Sketch | None) -> Element:
    """The guarantees of the sketches and of the model, or that there are none."""
    parts: list[Child] = []
    if sketch.ledger is None:
        parts += [_exact(sketch)]
    else:
        parts += [_guarantee("This sketch", sketch.ledger)]
    if against is not None and against.ledger is not None:
        parts += [_guarantee("The earlier sketch", against.ledger)]
        parts += [element("p", "What both sketches tell of a person who is in both adds up.")]
    if model.privacy_ is not None and model.privacy_ != sketch.ledger:
        parts += [_guarantee("The model", model.privacy_)]
    if model.privacy_ is None and sketch.ledger is not None:
        parts += [element("p", "The model was learned from an exact sketch: the guarantee above is not about what it "
                          "shows, and this page may tell of single people.", class_="warn")]  # fmt: skip
    return section("Privacy", "privacy", *parts)


def is_private(sketch: Sketch, model: Any) -> bool:
    """Whether a page about both is made from private releases alone."""
    return all(ledger is not None and ledger.private for ledger in (sketch.ledger, model.privacy_))


def _exact(sketch: Sketch) -> Element:
    """What to know of an exact sketch."""
    words = (
        "This page was made from an exact sketch. If the records are about people, an exact sketch is personal data, "
        "and so is a page that shows what is in it: keep both as you keep the records, or make the page from a private "
        "release."
    )
    few = None
    if sketch.count < FEW_RECORDS:
        few = element("p", element("strong", "There are few records. "), "An exact sketch of few records gives them "
                      "back, and this one has ", whole_number(sketch.count), ".", class_="warn")  # fmt: skip
    rows = None
    if sketch.kept is not None and len(sketch.kept):
        rows = element("p", whole_number(len(sketch.kept)), " records are in the sketch's file, in the clear; this "
                       "page shows averages and counts of them, not the records.")  # fmt: skip
    return element("div", few, element("p", words), rows)


def _guarantee(what: str, ledger: Ledger) -> Element:
    """A ledger, in words and figures."""
    if not ledger.private:
        return element("p", f"{what} is not private: its noise was drawn from a seed for tests.", class_="warn")
    change = "adding or removing" if ledger.neighbors == ADD_REMOVE else "replacing"
    who: Child = "one record"
    if ledger.unit is not None and ledger.rows_per_unit is not None:
        who = element("span", "all rows of one unit, per ", named(ledger.unit), " (at most ",
                      whole_number(ledger.rows_per_unit), " each)")  # fmt: skip
    words = element("p", f"{what} is differentially private: it has so much noise that {change} ", who,
                    " hardly changes what anybody can see. Smaller epsilon and delta hide more.")  # fmt: skip
    rows: list[tuple[Child, ...]] = [
        ("Epsilon", rounded(ledger.epsilon, 4)),
        ("Delta", rounded(ledger.delta, 4)),
        ("Noise on the number of records, standard deviation", rounded(math.sqrt(ledger.count_variance))),
        ("Releases that are counted together", whole_number(ledger.releases)),
        ("Kind of noise", ledger.mechanism),
    ]
    assumed = None
    if ledger.design == ASSUMED:
        assumed = element("p", "This holds if the design was made without these records, as whoever released it said.")
    sample = None
    if ledger.sample == ASSUMED:
        sample = element("p", "It was learned from a release and a sample: this holds if the sample is public, as "
                         "whoever learned it said.")  # fmt: skip
    found = table(f"{what}: what was spent on privacy", ("What", "How much"), rows)
    return element("div", words, found, assumed, sample)
