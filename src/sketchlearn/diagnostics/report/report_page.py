"""`report`: one page about a sketch and the clusters of a model, which needs no network and no script."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from xml.etree.ElementTree import Element

from sketchlearn.control_characters import printable
from sketchlearn.diagnostics.profile_values import Profiles
from sketchlearn.diagnostics.profiles import has_profiles, profiles
from sketchlearn.diagnostics.report.certainty_section import certainty_section
from sketchlearn.diagnostics.report.cluster_section import cluster_section, cluster_shares
from sketchlearn.diagnostics.report.column_section import column_section
from sketchlearn.diagnostics.report.column_summaries import table_columns
from sketchlearn.diagnostics.report.drift_section import drift_section
from sketchlearn.diagnostics.report.page_elements import STYLE, element, named, page_text, percent, plural, whole_number
from sketchlearn.diagnostics.report.privacy_section import is_private, privacy_section
from sketchlearn.private_sums import require_enough_shares
from sketchlearn.queries import Drift, two_sample_test
from sketchlearn.sketch import Sketch
from sketchlearn.storage.container import write
from sketchlearn.tasks.estimating.component_estimator import FittedComponents
from sketchlearn.tasks.estimating.sketch_estimator import SketchEstimator
from sketchlearn.version import __version__

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
    wording: Callable[[str], str] = str,
) -> str:
    """The page; `wording` puts advice into other words than Python's."""
    _check(sketch, model)
    drift = None if against is None else two_sample_test(against, sketch)
    found = _profiles(model, sketch)
    noun = model.fitted_model().kind_of_part
    sections = [cluster_section(model, found, float(sketch.count)), certainty_section(sketch, model, found, wording)]
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
