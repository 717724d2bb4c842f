"""`report`: one page about a sketch and the clusters of a model, which needs no network and no script."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup

from sketchlearn.core.containers import write
from sketchlearn.core.limits import FEW_RECORDS
from sketchlearn.core.packages import __version__
from sketchlearn.estimators.base.components import FittedComponents
from sketchlearn.estimators.base.estimator import SketchEstimator
from sketchlearn.features.histograms import Histograms
from sketchlearn.inference.decoders.loop import Status
from sketchlearn.inference.moments import part_of
from sketchlearn.questions.comparison import two_sample_test
from sketchlearn.questions.marginals import Histogram, LevelShares
from sketchlearn.questions.profiles import Profiles, profiles_or_none
from sketchlearn.questions.questions import Questions
from sketchlearn.questions.summaries import kind_in_words
from sketchlearn.rows.schemas.columns import Text
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.rows.source_base import listed
from sketchlearn.sketch.ledger import ADD_REMOVE, ASSUMED
from sketchlearn.sketch.sums import Sketch, require_enough_shares
from sketchlearn.views.report.clusters import cluster_facts, differs
from sketchlearn.views.templates import (
    day,
    measured,
    named,
    percent,
    rendered,
    rounded,
    sentence,
    whole_number,
    within,
)

#: statuses of clusters that a mixture's residual does not judge
OF_ROWS = (Status.ROWS, Status.ALL_ROWS, Status.ATOMS)
POOR = (Status.STALLED, Status.UNJUDGED, Status.HIDDEN)
LEAST_CERTAIN_SHARE = 0.3  # An error of more than this part of a share makes the share doubtful.


def _figures(sketch: Sketch, model: Any, profiles: Profiles | None) -> list[tuple[str, str]]:
    """The figures by which the clusters can be trusted."""
    learned = model.fitted_model()
    of_rows = learned.outcome.status in OF_ROWS
    figures: list[tuple[str, str]] = [
        ("Records that the model was learned from", whole_number(model.n_records_)),
        ("Records of this sketch", whole_number(sketch.count)),
    ]
    if profiles is not None and sketch.kept is not None:
        figures.append(("Sampled rows", whole_number(len(sketch.kept))))
    judged = {
        "Residual (at about one or below, only sampling error is left)": None if of_rows else learned.outcome.misfit,
        "Goodness of fit (one is perfect)": getattr(learned, "fit_test", None),
        "Its p-value, if records come from such a mixture": getattr(learned, "fit_p_value", None),
    }
    figures += [(what, rounded(value)) for what, value in judged.items() if value is not None]
    if hasattr(model, "measured"):
        name, found = model.measured()
        head = f"{sentence(name)} of the rows that the model was learned from"
        if found.value is None or found.error is None:
            figures.append((head, f"not reported, because {found.withheld}"))
        else:
            shown = Markup("<span>{}{}</span>").format(measured(found.value, found.error), within(found.error))
            figures.append((head, shown))
    return figures


def _doubts(sketch: Sketch, model: Any, profiles: Profiles | None, noun: str) -> list[str]:
    """What a reader should know before trusting the page."""
    doubts: list[str] = []
    if model.n_records_ != sketch.count:
        how = f"this sketch's records in the model's {noun}s" if profiles else "the model"
        other = "The model was learned from another number of records than this sketch has"
        doubts.append(f"{other}: shares are those of {how}.")
    for profile, weight in zip(profiles or (), model.fitted_model().weights, strict=False):
        which = Markup(f"{noun.capitalize()} ") + whole_number(profile.number)
        if differs(profile, float(weight)):
            doubts.append(which + " has another share here than in the model, which may be of other records.")
        if profile.share.error > LEAST_CERTAIN_SHARE * profile.share.value:
            doubts.append(which + " rests on few rows: its share and its columns are rough.")
    if sketch.skipped:
        files = Markup(", ").join(map(named, sketch.skipped))
        doubts.append(Markup("Files that could not be read are left out: {}.").format(files))
    if sketch.clipped:
        doubts.append(whole_number(sketch.clipped) + " rows lay outside the declared bounds, and were moved onto them.")
    return doubts


def is_private(sketch: Sketch, model: Any) -> bool:
    """Whether a page about both is made from private releases alone."""
    return all(ledger is not None and ledger.private for ledger in (sketch.ledger, model.privacy_))


BINS = 24  # of a histogram, at most
MOST_COLUMNS = 60  # More cards would hide the rest of the page.
MOST_LEVELS = 8  # of a categorical column; the others are added up
LEAST_BEYOND = 0.001  # The share of records beyond all bins that is worth a line.


def column_facts(sketch: Sketch) -> dict[str, Any]:
    """What the template shows of the data."""
    operator: Any = sketch.operator
    ask = None if (counts := part_of(sketch, Histograms)) is None else Questions(counts)
    schema = operator.columns.schema if isinstance(operator.columns, SchemaColumns) else None
    names, summaries = operator.column_names if schema is None else schema.names, []
    for i, name in enumerate(names[:MOST_COLUMNS]):
        column = None if schema is None else schema.columns[i]
        hashed = isinstance(column, Text) and column.n_words
        told = None if ask is None or hashed else ask.marginal(i, BINS)
        picture = _bars(told) if isinstance(told, Histogram) else told and {"rows": _level_rows(told)}
        summaries.append({"name": name, "kind": kind_in_words(column), "told": told, "picture": picture})
    left_out = () if schema is None else schema.left_out
    return {"n_columns": len(names), "columns": summaries, "left_out": left_out}


def _bars(found: Histogram) -> dict[str, Any]:
    """Bars whose areas are the proportions, in parts of the card's width and height."""
    edges, shares = found.edges, np.maximum(found.shares, 0)
    heights = shares / np.maximum(np.diff(edges), 1e-300)
    heights = heights / max(float(heights.max()), 1e-300)
    places = 100 * (edges - float(edges[0])) / float(edges[-1] - edges[0])
    ends = [day(edge) if found.dates else measured(edge, column=found.column) for edge in edges]
    words = [f"{low.striptags()} to {high.striptags()}" for low, high in pairwise(ends)]
    bars = [
        {"x": left, "width": max(right - left - 0.4, 0.2), "height": height, "share": share,
         "title": f"{between}: {percent(share).striptags()}"}
        for (left, right), height, share, between in zip(
            pairwise(places.tolist()), heights.tolist(), found.shares.tolist(), words, strict=True
        )
    ]  # fmt: skip
    span = f"{ends[0].striptags()} to {ends[-1].striptags()}"
    label = f"Histogram from {span}, highest from {words[int(heights.argmax())]}"
    rest = found.outside if found.outside >= LEAST_BEYOND else None
    return {"bars": bars, "label": label, "ends": (ends[0], ends[-1]), "beyond": rest}


def _level_rows(told: LevelShares) -> list[dict[str, Any]]:
    """Categories, their shares and the lengths of their bars; None stands for all others together."""
    levels: list[tuple[str | None, float]] = list(zip(told.levels, map(float, told.shares), strict=True))
    rows = [pair for pair in levels[:MOST_LEVELS] if pair[1] > 0 or len(levels) <= 2]
    if (rest := sum(share for _, share in levels[MOST_LEVELS:])) > 0:
        rows.append((None, rest))
    most, n_more = max((share for _, share in rows), default=0.0), len(levels) - MOST_LEVELS
    widths = [max(share, 0.0) / max(most, 1e-300) for _, share in rows]
    return [{"level": v, "share": s, "width": w, "n_more": n_more} for (v, s), w in zip(rows, widths, strict=True)]


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
    sketch : the records. The page shows distinguishing features if it has a sample of rows (`design(..., rows=500)`).
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


def report_page(sketch: Sketch, model: Any, *, against: Sketch | None = None, title: str = "Report") -> str:
    _check(sketch, model)
    found = profiles_or_none(model, sketch)
    clusters = cluster_facts(model, found, float(sketch.count))
    learned, shares = model.fitted_model(), [share.value for share in clusters["shares"]]
    keys = {"k": len(shares), "largest": max(shares), "smallest": min(shares), "private": is_private(sketch, model)}
    doubts = _doubts(sketch, model, found, learned.kind_of_part)
    poor = learned.outcome.status in POOR
    certainty = {"figures": _figures(sketch, model, found), "doubts": doubts, "poor": poor}
    return rendered(
        "views/report/page.html",
        title=title,
        sketch=sketch,
        model=model,
        outcome=learned.outcome,
        keys=keys,
        clusters=clusters,
        certainty=certainty,
        drift=None if against is None else two_sample_test(against, sketch),
        against=against,
        before=None if against is None else profiles_or_none(model, against),
        data=column_facts(sketch),
        version=__version__,
        ADD_REMOVE=ADD_REMOVE,
        ASSUMED=ASSUMED,
        FEW_RECORDS=FEW_RECORDS,
    )


def _check(sketch: Any, model: Any) -> None:
    """Refuses what is no sketch with records, no clusters, or clusters of other columns."""
    if not isinstance(sketch, Sketch):
        raise TypeError(f"a report is about a sketch, not {type(sketch).__name__}: sketch the rows first")
    if not isinstance(model, SketchEstimator) or not isinstance(model.fitted_model(), FittedComponents):
        name = type(model).__name__
        raise TypeError(f"a report shows clusters or components, and a {name} has none: give a SketchKMeans")
    if sketch.count <= 0:
        raise ValueError("the sketch is empty: add records before reporting on them")
    require_enough_shares(sketch.ledger)
    operator: Any = sketch.operator
    own: Any = model.columns_
    same_names = own is None or operator.columns is None or own == operator.columns
    if model.n_features_in_ == operator.n_features and same_names:
        return
    both = ((own, model.n_features_in_), (operator.columns, operator.n_features))
    theirs, ours = (f"{n:,} without names" if names is None else listed(names) for names, n in both)
    raise ValueError(
        f"the model does not fit the sketch: the model's columns are {theirs} and the sketch's columns are {ours}; "
        "give a model that was learned from a sketch of this design"
    )
