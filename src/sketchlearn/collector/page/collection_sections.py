"""The sections of a collection's page, each by itself, so that a page can renew one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sketchlearn.collector import drift, senders
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.epochs import epochs_between, window
from sketchlearn.collector.page.window_models import (
    HOURS,
    MOST_CLUSTERS,
    Choice,
    WindowClusters,
    WindowModels,
    chosen,
    chosen_clusters,
    window_facts,
)
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.views import ExactView, ReleasedView
from sketchlearn.files.sketches import from_bytes
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.views.templates import environment, plural

SHOWN_EPOCHS = 48
SHOWN_DRIFTS = 48
SHOWN_ALARMS = 5
SHOWN_RELEASES = 20
HEIGHT = 110  # pixels of a chart of bars
HEADROOM = 1.2  # above the highest bar, for the mark of an alarm
GAP = 0.15  # of a bar's room

Facts = dict[str, Any]
Section = Callable[[], Facts]


@dataclass(frozen=True)
class ExactPage:
    """What a page shows to those who may see exact sums: a collection, through a window."""

    view: ExactView
    choice: Choice
    models: WindowModels


@dataclass(frozen=True)
class ReleasedPage:
    """What a page shows to readers of a collection with private reading: what was released."""

    view: ReleasedView
    clusters: int
    models: WindowModels


def sections_of(view: ReleasedView, models: WindowModels, asked: dict[str, str]) -> tuple[str, dict[str, Section]]:
    """What a reader asked for as the query of a link, and the sections that they see, in order, by their anchors."""
    if isinstance(view, ExactView):
        exact = ExactPage(view, chosen(view, asked), models)
        return exact.choice.query(), {name: partial(facts, exact) for name, facts in SECTIONS.items()}
    page = ReleasedPage(view, chosen_clusters(view.collection, asked), models)
    return f"clusters={page.clusters}", {name: partial(facts, page) for name, facts in RELEASED_SECTIONS.items()}


def section_text(sections: dict[str, Section], name: str) -> str:
    """One section as markup: its facts in the macro of its name."""
    if name not in sections:
        raise RefusalError("not found", "there is no such section")
    macros = environment().get_template("collector/page/sections.html").module
    return str(getattr(macros, name)(sections[name]())).strip()


def moment(time: float | str | None) -> str:
    """A time, in seconds since 1970 or as in JSON, as people read it, in UTC."""
    text = time if isinstance(time, str) or time is None else in_iso(time)
    return "never" if text is None else text[:16].replace("T", " ")


@dataclass(frozen=True)
class Bar:
    """One bar: its time, its value (None where it is not shown), a description, and whether it is an alarm."""

    when: str
    value: float | None
    words: str
    alarm: bool = False


def bar_chart(caption: str, bars: Sequence[Bar], level: float | None = None) -> Facts:
    """Bars over time as SVG, with a line at a level; places are in percent of the width, to fit any screen."""
    values = [bar.value for bar in bars if bar.value is not None]
    top = HEADROOM * max([*values, level or 0.0], default=0.0) or 1.0
    room = 100 / max(1, len(bars))
    drawn = []
    for i, bar in enumerate(bars):
        height = 6.0 if bar.value is None else max(1.0, HEIGHT * bar.value / top)
        place = {
            "x": f"{room * (i + GAP / 2):.3f}",
            "width": f"{room * (1 - GAP):.3f}",
            "y": f"{HEIGHT - height:.2f}",
            "height": f"{height:.2f}",
            "middle": f"{room * (i + 0.5):.3f}",
            "mark": f"{max(12.0, HEIGHT - height - 4):.1f}",
        }
        style = "bar unknown" if bar.value is None else "bar alarm" if bar.alarm else "bar"
        drawn.append({**vars(bar), "style": style, **place})
    label = f"{caption}: {len(bars)} bars" + (f", from {bars[0].when} to {bars[-1].when}" if bars else "")
    ends = [bar.when for bar in (bars if len(bars) < 2 else (bars[0], bars[-1]))]
    at = None if level is None else f"{HEIGHT - HEIGHT * level / top:.2f}"
    return {"caption": caption, "label": label, "height": HEIGHT, "bars": drawn, "level": at, "ends": ends}


def arrivals(page: ExactPage) -> Facts:
    view, what = page.view, page.view.collection.rules.epoch
    epochs = view.read(epochs_between, 0, view.now() // 1000 + 1)[-SHOWN_EPOCHS:]
    reports, records = [], []
    for epoch in epochs:
        when, hidden = moment(epoch.start), epoch.why_hidden(view.collection)
        state = "" if epoch.closed is not None else ", still open"
        reports.append(Bar(when, float(epoch.reports), f"{epoch.reports:,}{state}"))
        shown = (None, f"not shown: {hidden}") if hidden else (epoch.records, f"{epoch.records:,}")
        records.append(Bar(when, *shown))
    bars = {"Reports": reports, "Records": records} if epochs else {}
    charts = {unit: bar_chart(f"{unit} of each {what}", found) for unit, found in bars.items()}
    return {"texts": live_texts(view), "charts": charts}


def live_texts(view: ExactView) -> dict[str, str]:
    """The figures that change with every report."""
    reports, records, still_open, n_senders, latest = view.totals()
    fewest = view.collection.rules.min_records
    return {
        "live-reports": f"{reports:,}",
        "live-records": f"fewer than {fewest:,}" if records < fewest else f"{records:,}",
        "live-open": f"{still_open:,}",
        "live-latest": "never" if latest is None else in_iso(latest / 1000)[:19].replace("T", " "),
        "live-senders": f"{n_senders:,}",
    }


def silent_senders(page: ExactPage) -> Facts:
    found = page.view.read(senders.senders, page.view.now())
    silent = sorted((one for one in found if one["silent"]), key=lambda one: one["latest"] or "")
    return {"silent": silent, "n": len(found), "after": _duration(page.view.collection.rules.silent_seconds)}


def _duration(seconds: int) -> str:
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds // size:,} {plural(seconds // size, unit)}"
    return f"{seconds} {plural(seconds, 'second')}"


def clusters(page: ExactPage) -> Facts:
    choice, view, name = page.choice, page.view.sealed(), page.view.collection.name
    found = view.read(window, choice.start, choice.finish)
    facts: Facts = {
        "choice": choice,
        "links": {span: choice.query(**{"window": span, "from": "", "to": ""}) for span in HOURS},
        "times": {"from": in_iso(choice.start)[:16], "to": in_iso(choice.finish)[:16]},
        "most_clusters": MOST_CLUSTERS,
        "window": f"{moment(choice.start)} to {moment(choice.finish)}",
        "n_left_out": len(found.left_out),
        "why_left_out": "; ".join(sorted({reason for _, reason in found.left_out})),
    }
    if found.sketch is None:
        return facts | {"state": "nothing", "shown": None}
    before = view.read(window, 2 * choice.start - choice.finish, choice.start).sketch
    learned = page.models.get(name, choice.span, found.sketch, before, choice.clusters)
    latest = page.models.latest(name, choice.span, choice.clusters) if learned is None and choice.span else None
    return facts | _learned(learned, latest)


def _learned(learned: WindowClusters | Exception | None, latest: WindowClusters | None = None) -> Facts:
    """What is known of clusters: those that were learned, or a problem; None while they are being learned."""
    if isinstance(learned, Exception):
        return {"state": "problem", "problem": str(learned), "shown": None}
    shown = learned or latest
    facts = None if shown is None else window_facts(shown)
    return {"state": "pending" if learned is None else "learned", "shown": facts}


def drift_chart(page: ExactPage) -> Facts:
    found = page.view.read(drift.drifts, SHOWN_DRIFTS)
    known = [one for one in reversed(found) if one["p_value"] is not None]
    bars = []
    for one in known:
        ratio = one["distance"] / one["expected"] if one["expected"] else 0.0
        words = f"{ratio:.2f} times the sampling error{', alarm' if one['alarm'] else ''}"
        bars.append(Bar(moment(one["epoch"]), ratio, words if one["expected"] else "unknown", one["alarm"]))
    return {
        "chart": bar_chart("Drift of each epoch", bars, level=1.0) if known else None,
        "moved": [one for one in found if one["alarm"]],
    }


def privacy(page: ExactPage) -> Facts:
    sketch = page.view.sealed().read(window, page.choice.start, page.choice.finish).sketch
    return {"rules": page.view.collection.rules, "sketch": sketch, **_releases_of(page.view)}


def _releases_of(view: ReleasedView) -> Facts:
    """How many private releases there are, and the newest of them."""
    made, limit = view.releases(), view.collection.rules.epsilon
    words = "without a limit" if limit is None else f"at most epsilon {limit:g} together"
    return {"n_releases": len(made), "limit": words, "newest": made[-SHOWN_RELEASES:][::-1]}


def releases(page: ReleasedPage) -> Facts:
    """What a reader of private releases is told: all of them, and what the newest guarantees."""
    found = _releases_of(page.view)
    return found | {"ledger": Ledger.from_json(found["newest"][0]["ledger"]) if found["newest"] else None}


def released_clusters(page: ReleasedPage) -> Facts:
    made = page.view.releases()
    facts: Facts = {"choice": None, "release": made[-1] if made else None}
    if not made:
        return facts | {"state": "unreleased", "shown": None}
    sketch = from_bytes(page.view.release_file(made[-1]["id"]))
    return facts | _learned(page.models.get(released_name(page.view.collection.name), "", sketch, None, page.clusters))


def released_name(collection: str) -> str:
    """What is watched by readers of releases: other than what readers of exact sums are told of."""
    return f"{collection}/releases"


#: the sections of a page, in order, by their anchors
SECTIONS: dict[str, Callable[[ExactPage], Facts]] = {
    "alarms": lambda page: {"found": page.view.read(drift.alarms, SHOWN_ALARMS)},
    "arrivals": arrivals,
    "clusters": clusters,
    "drift": drift_chart,
    "senders": silent_senders,
    "privacy": privacy,
    "refused": lambda page: {"found": page.view.read(senders.refusals)},
}

#: those of a page of private releases
RELEASED_SECTIONS: dict[str, Callable[[ReleasedPage], Facts]] = {"releases": releases, "clusters": released_clusters}
