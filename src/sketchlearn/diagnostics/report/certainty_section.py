"""The section about certainty: how the fit ended, what to doubt, and what the errors mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree.ElementTree import Element

from sketchlearn.decoders import Status
from sketchlearn.diagnostics.profile_values import Profiles
from sketchlearn.diagnostics.report.cluster_section import differs
from sketchlearn.diagnostics.report.page_elements import (
    Child,
    element,
    measured,
    named,
    rounded,
    section,
    table,
    whole_number,
    within,
)
from sketchlearn.plain_digits import in_digits
from sketchlearn.sketch import Sketch
from sketchlearn.uncertainty.error_bars import RowMean

#: statuses of clusters that a mixture's misfit does not judge
OF_ROWS = (Status.ROWS, Status.ALL_ROWS, Status.ATOMS)
POOR = (Status.STALLED, Status.UNJUDGED, Status.HIDDEN)
LEAST_CERTAIN_SHARE = 0.3  # An error of more than this part of a share makes the share doubtful.


def certainty_section(sketch: Sketch, model: Any, profiles: Profiles | None, wording: Callable[[str], str]) -> Element:
    """How far the clusters can be trusted; `wording` puts advice into the words of Python or of the command line."""
    learned = model.fitted_model()
    outcome, noun = learned.outcome, learned.kind_of_part
    ended = element("p", element("strong", f"How the fit ended: {outcome.status.value}."))
    advice = element("p", f"{_sentence(wording(outcome.advice))}.") if outcome.advice else None
    figures: list[tuple[Child, ...]] = [
        ("Records that the model was learned from", whole_number(model.n_records_)),
        ("Records of this sketch", whole_number(sketch.count)),
    ]
    if profiles is not None and sketch.kept is not None:
        figures.append(("Rows that tell of them", whole_number(len(sketch.kept))))
    if outcome.status not in OF_ROWS:
        figures.append(("Misfit (near one or below, the sketch asks for no more)", rounded(outcome.misfit)))
    fit_test = getattr(learned, "fit_test", None)
    if fit_test is not None:
        figures.append(("Fit test (one is perfect)", rounded(fit_test)))
    p_value = getattr(learned, "fit_p_value", None)
    if p_value is not None:
        figures.append(("How likely a larger one is, if records come from such a mixture", rounded(p_value)))
    if hasattr(model, "measured"):
        name, found = model.measured()
        figures.append(_measured(name, found, wording))
    doubts = _doubts(sketch, model, profiles, noun)
    said = element("ul", *(element("li", doubt) for doubt in doubts), class_="warn") if doubts else None
    calm = None if doubts or outcome.status in POOR else element("p", "Nothing else speaks against it.")
    parts = (ended, advice, said, calm, table("The figures behind it", ("What", "How many or how much"), figures))
    return section("How sure is this?", "certainty", *parts, _errors(profiles, sketch))


def _measured(name: str, found: RowMean, wording: Callable[[str], str]) -> tuple[Child, ...]:
    """The inertia or likelihood of the rows, with its error, or why it is not known."""
    head = f"{_sentence(name)} of the rows that the model was learned from"
    if found.value is None or found.error is None:
        return head, f"withheld: {wording(found.withheld)}"
    error = within(found.error, in_digits(found.error, 2))
    return head, element("span", measured(found.value, found.error), error)


def _doubts(sketch: Sketch, model: Any, profiles: Profiles | None, noun: str) -> list[Element]:
    """What a reader should know before trusting the page."""
    doubts = []
    if model.n_records_ != sketch.count:
        other = "The model was learned from another number of records than this sketch has"
        how = f"shares are those of this sketch's records in the model's {noun}s"
        doubts.append(element("span", f"{other}: {how if profiles else 'shares are those of the model'}."))
    for profile, weight in zip(profiles or (), model.fitted_model().weights, strict=False):
        if differs(profile, float(weight)):
            doubts.append(element("span", f"{noun.capitalize()} ", whole_number(profile.number), " has another share "
                                  "here than in the model, which may be of other records."))  # fmt: skip
        if profile.share.error > LEAST_CERTAIN_SHARE * profile.share.value:
            doubts.append(element("span", f"{noun.capitalize()} ", whole_number(profile.number),
                                  " rests on few rows: its share and its columns are rough."))  # fmt: skip
    if sketch.skipped:
        names: list[Child] = []
        for name in sketch.skipped:
            names += [", " if names else None, named(name)]
        doubts.append(element("span", "Files that could not be read are left out: ", *names, "."))
    if sketch.clipped:
        doubts.append(element("span", whole_number(sketch.clipped), " rows lay outside the declared bounds, and were "
                              "moved onto them."))  # fmt: skip
    return doubts


def _errors(profiles: Profiles | None, sketch: Sketch) -> Element:
    """What the errors mean."""
    if profiles is None:
        return element("p", "Without kept rows, no errors of shares and centers are known.")
    if sketch.kept is not None and sketch.kept.complete:
        return element("p", "All records were looked at, so shares and averages have no sampling error.")
    return element(
        "p", "Shares and averages are read from a random part of the records. After ± is one standard deviation of the "
        "error: the true number is nearer than that in two of three cases, and nearer than twice that in nineteen of "
        "twenty. Shares in the model agree with the sketch of all records that it was learned from, and are usually "
        "more certain than those of kept rows.",
    )  # fmt: skip


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
