"""`report`: one page about a sketch and the clusters of a model, which needs no network and no script."""

from __future__ import annotations

import math
import os
from typing import Any
from xml.etree.ElementTree import Element

from sketchlearn.core.containers import write
from sketchlearn.core.limits import FEW_RECORDS
from sketchlearn.core.messages import in_digits, printable
from sketchlearn.core.packages import __version__
from sketchlearn.estimators.base.components import FittedComponents
from sketchlearn.estimators.base.estimator import SketchEstimator
from sketchlearn.inference.decoders.loop import Status
from sketchlearn.inference.errors.values import RowMean
from sketchlearn.questions.comparison import LEVEL, TIMES, ColumnDrift, Drift, LevelShift, two_sample_test
from sketchlearn.questions.profiles import Profiles, has_profiles, profiles
from sketchlearn.sketch.ledger import ADD_REMOVE, ASSUMED, Ledger
from sketchlearn.sketch.sums import Sketch, require_enough_shares
from sketchlearn.views.report.clusters import cluster_section, cluster_shares, differs, titled
from sketchlearn.views.report.columns import column_section, table_columns
from sketchlearn.views.report.elements import (
    STYLE,
    Child,
    chance,
    element,
    figure,
    listing,
    measured,
    named,
    page_text,
    percent,
    plural,
    rounded,
    section,
    share_measured,
    table,
    whole_number,
    within,
)

#: statuses of clusters that a mixture's misfit does not judge
OF_ROWS = (Status.ROWS, Status.ALL_ROWS, Status.ATOMS)
POOR = (Status.STALLED, Status.UNJUDGED, Status.HIDDEN)
LEAST_CERTAIN_SHARE = 0.3  # An error of more than this part of a share makes the share doubtful.


def certainty_section(sketch: Sketch, model: Any, profiles: Profiles | None) -> Element:
    """How far the clusters can be trusted."""
    learned = model.fitted_model()
    outcome, noun = learned.outcome, learned.kind_of_part
    ended = element("p", element("strong", f"How the fit ended: {outcome.status.value}."))
    advice = element("p", f"{_sentence(outcome.advice)}.") if outcome.advice else None
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
        figures.append(_measured(name, found))
    doubts = _doubts(sketch, model, profiles, noun)
    said = element("ul", *(element("li", doubt) for doubt in doubts), class_="warn") if doubts else None
    calm = None if doubts or outcome.status in POOR else element("p", "Nothing else speaks against it.")
    parts = (ended, advice, said, calm, table("The figures behind it", ("What", "How many or how much"), figures))
    return section("How sure is this?", "certainty", *parts, _errors(profiles, sketch))


def _measured(name: str, found: RowMean) -> tuple[Child, ...]:
    """The inertia or likelihood of the rows, with its error, or why it is not known."""
    head = f"{_sentence(name)} of the rows that the model was learned from"
    if found.value is None or found.error is None:
        return head, f"withheld: {found.withheld}"
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


NAMED_COLUMNS = 8  # of many, in a message


def report(
    sketch: Sketch,
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    against: Sketch | None = None,
    title: str = "Report",
) -> str:
    """A page of HTML about a sketch and the clusters of a model: what the data are, the clusters, how sure they are.

    It is one file without scripts, in light and dark, that prints well. Names of the table are shown as they are,
    never as markup, and each number has its full value in an attribute `data-value`.

    Parameters
    ----------
    sketch : the records. If it keeps rows (`design(..., rows=500)`), the page says what sets each cluster apart.
    model : fitted clusters or components of the same columns, of this sketch or of another one.
    path : where to save the page; that of an exact sketch or model can then be read by its owner alone.
    against : an earlier sketch of the same operator: the page says what changed since.
    title : the heading.

    Returns
    -------
    page : str

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 2)) + 10 * rng.integers(0, 2, (2000, 1))
    >>> sketch = skl.design(X, n_components=2, rows=500).sketch(X)
    >>> page = skl.report(sketch, skl.SketchKMeans(2, random_state=0).fit_sketch(sketch), title="Two groups")
    >>> "<h1>Two groups</h1>" in page, "<script" in page
    (True, False)
    """
    page = report_page(sketch, model, against=against, title=title)
    if path is not None:
        write(path, page.encode(), owner_only=not is_private(sketch, model))
    return page


def report_page(
    sketch: Sketch,
    model: Any,
    *,
    against: Sketch | None = None,
    title: str = "Report",
) -> str:
    """The page."""
    _check(sketch, model)
    drift = None if against is None else two_sample_test(against, sketch)
    found = _profiles(model, sketch)
    noun = model.fitted_model().kind_of_part
    sections = [cluster_section(model, found, float(sketch.count)), certainty_section(sketch, model, found)]
    if against is not None and drift is not None:
        sections.append(drift_section(drift, noun, _profiles(model, against), found))
    sections += [column_section(sketch), privacy_section(sketch, model, against)]
    made = element("p", "Made by sketchlearn ", named(__version__), " from a sketch of the data.")
    body = element(
        "body", _header(title, sketch, model), _contents(sections),
        element("main", _keys(sketch, model, found, drift), *sections), element("footer", made),
    )  # fmt: skip
    head = element(
        "head", element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", printable(title)), element("style", STYLE.read_text(encoding="utf-8")),
    )  # fmt: skip
    return page_text(element("html", head, body, lang="en"))


def _profiles(model: Any, sketch: Sketch) -> Profiles | None:
    return profiles(model, sketch) if has_profiles(sketch) else None


def _header(title: str, sketch: Sketch, model: Any) -> Element:
    k, noun = len(model.fitted_model().weights), model.fitted_model().kind_of_part
    what = "private sketch" if sketch.ledger is not None else "sketch"
    records = f" {plural(int(sketch.count), 'record')}, seen through a {what}, in "
    lead = element("p", whole_number(sketch.count), records, whole_number(k), f" {plural(k, noun)}", class_="lead")
    return element("header", element("h1", printable(title)), lead)


def _contents(sections: list[Element]) -> Element:
    """Links to the sections."""
    links = (element("li", element("a", part[0].text, href=f"#{part.get('id')}")) for part in sections)
    return element("nav", element("ul", *links), aria_label="Sections")


def _keys(sketch: Sketch, model: Any, found: Profiles | None, drift: Drift | None) -> Element:
    """The figures that a reader looks for first."""
    learned = model.fitted_model()
    noun, shares = learned.kind_of_part, [share.value for share in cluster_shares(model, found, float(sketch.count))]
    keys = [
        ("Records", whole_number(sketch.count)),
        ("Columns", whole_number(len(table_columns(sketch.operator)))),
        (f"{noun.capitalize()}s", whole_number(len(learned.weights))),
        (f"Largest {noun}", percent(max(shares), 1.0)),
        (f"Smallest {noun}", percent(min(shares), 1.0 if min(shares) > 0.1 else 0.0)),
    ]
    if drift is not None:
        keys.append(("Since the earlier sketch", element("span", "changed" if drift.differ else "no change seen")))
    privacy = "private release" if is_private(sketch, model) else "exact, not private"
    keys.append(("Privacy", element("span", privacy)))
    cards = (element("div", element("dt", name), element("dd", value), class_="key") for name, value in keys)
    return element("dl", *cards, class_="keys")


def _check(sketch: Any, model: Any) -> None:
    """Refuses what is no sketch with records, no clusters, or clusters of other columns."""
    if not isinstance(sketch, Sketch):
        raise TypeError(f"a report is about a sketch, not {type(sketch).__name__}: sketch the rows first")
    if not isinstance(model, SketchEstimator) or not isinstance(model.fitted_model(), FittedComponents):
        name = type(model).__name__
        raise TypeError(f"a report shows clusters or components, and a {name} has none: give a SketchKMeans, say")
    if sketch.count <= 0:
        raise ValueError("the sketch is empty: add records before reporting on them")
    require_enough_shares(sketch.ledger)
    operator: Any = sketch.operator
    own: Any = model.columns_
    same_names = own is None or operator.columns is None or own == operator.columns
    if model.n_features_in_ == operator.n_features and same_names:
        return
    theirs, ours = _in_words(own, model.n_features_in_), _in_words(operator.columns, operator.n_features)
    raise ValueError(
        f"the model does not fit the sketch: the model's columns are {theirs} and the sketch's columns are {ours}; "
        "give a model that was learned from a sketch of this design"
    )


def _in_words(columns: tuple[str, ...] | None, n: int) -> str:
    """Names of columns, the first of many."""
    if columns is None:
        return f"{n:,} without names"
    more = f", ... {n:,} in all" if n > NAMED_COLUMNS else ""
    return f"({', '.join(columns[:NAMED_COLUMNS])}{more})"
