"""The sections of a collection's page, each by itself, so that a page can renew one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from sketchlearn.collector.collection import Collection
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.epochs import Epoch
from sketchlearn.collector.page.charts import Bar, bar_chart
from sketchlearn.collector.page.window_models import HOURS, MOST_CLUSTERS, Choice, WindowClusters, WindowModels
from sketchlearn.collector.views import ExactView, ReleasedView
from sketchlearn.files.sketches import from_bytes
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.sketch.sums import Sketch
from sketchlearn.views.report.elements import (
    Child,
    chance,
    element,
    listing,
    named,
    plural,
    rounded,
    section,
    table,
    whole_number,
)

SHOWN_EPOCHS = 48
SHOWN_DRIFTS = 48
SHOWN_ALARMS = 5
SHOWN_SENDERS = 50
SHOWN_REFUSALS = 50
SHOWN_RELEASES = 20


@dataclass(frozen=True)
class ExactPage:
    """What a page shows to those who may see exact sums: a collection, through a window."""

    view: ExactView
    choice: Choice
    models: WindowModels

    @property
    def query(self) -> str:
        """As the query of a link."""
        return self.choice.query()


@dataclass(frozen=True)
class ReleasedPage:
    """What a page shows to readers of a collection with private reading: what was released."""

    view: ReleasedView
    clusters: int
    models: WindowModels

    @property
    def query(self) -> str:
        """As the query of a link."""
        return f"clusters={self.clusters}"


def moment(seconds: float) -> str:
    """A time as people read it, in UTC."""
    return in_iso(seconds)[:16].replace("T", " ")


def of_text(text: str | None) -> str:
    """A time of JSON as people read it."""
    return "never" if text is None else text[:16].replace("T", " ")


def alarm_section(page: ExactPage) -> Element:
    """The newest alarms."""
    found = page.view.alarms(SHOWN_ALARMS)
    if not found:
        return section("Alarms", "alarms", element("p", "No change was seen so far.", class_="soft"))
    items = [
        element("li", element("strong", of_text(alarm["epoch"])), " ", element("bdi", alarm["sentence"]))
        for alarm in found
    ]
    return section("Alarms", "alarms", element("ul", *items, class_="warn"))


def arrival_section(page: ExactPage) -> Element:
    """Reports and records by epoch."""
    view = page.view
    collection, now = view.collection, view.now() // 1000
    epochs = view.epochs(0, now + 1)[-SHOWN_EPOCHS:]
    what = {"hour": "hour", "day": "day"}[collection.rules.epoch]
    parts: list[Child] = [live_counts(view)]
    if epochs:
        reports = [Bar(moment(e.start), float(e.reports), f"{e.reports:,}{_state(e)}") for e in epochs]
        records = [_records_bar(e, collection) for e in epochs]
        charts = (bar_chart(f"Reports of each {what}", reports, "Reports"),
                  bar_chart(f"Records of each {what}", records, "Records"))  # fmt: skip
        parts.append(element("div", *charts, class_="pair"))
    else:
        parts.append(element("p", "Nothing has arrived yet."))
    return section("Arriving", "arrivals", *parts)


def _state(epoch: Epoch) -> str:
    return "" if epoch.closed is not None else ", still open"


def _records_bar(epoch: Epoch, collection: Collection) -> Bar:
    hidden = epoch.why_hidden(collection)
    when = moment(epoch.start)
    return Bar(when, None, f"not shown: {hidden}") if hidden else Bar(when, epoch.records, f"{epoch.records:,}")


def live_counts(view: ExactView) -> Element:
    """The figures that change with every report."""
    texts = live_texts(view)
    cards = [
        element("div", element("dt", name), element("dd", texts[key], id=key), class_="key")
        for name, key in (
            ("Reports so far", "live-reports"),
            ("Records so far", "live-records"),
            ("Reports in the open epoch", "live-open"),
            ("Last report", "live-latest"),
            ("Senders", "live-senders"),
        )
    ]
    return element("dl", *cards, class_="keys")


def live_texts(view: ExactView) -> dict[str, str]:
    """What the figures say now."""
    reports, records, still_open, senders, latest = view.totals()
    fewest = view.collection.rules.min_records
    return {
        "live-reports": f"{reports:,}",
        "live-records": f"fewer than {fewest:,}" if records < fewest else f"{records:,}",
        "live-open": f"{still_open:,}",
        "live-latest": "never" if latest is None else in_iso(latest / 1000)[:19].replace("T", " "),
        "live-senders": f"{senders:,}",
    }


def sender_section(page: ExactPage) -> Element:
    """Senders that are silent for too long."""
    found = page.view.senders()
    silent = sorted((one for one in found if one["silent"]), key=lambda one: one["latest"] or "")
    after = _duration(page.view.collection.rules.silent_seconds)
    if not silent:
        words = element("p", f"No sender is silent for more than {after}.", class_="soft")
        return section("Silent senders", "senders", words)
    rows = [
        (named(one["name"]), of_text(one["latest"]), whole_number(one["reports"])) for one in silent[:SHOWN_SENDERS]
    ]
    words = element(
        "p", whole_number(len(silent)), f" of {len(found):,} {plural(len(found), 'sender')} reported nothing for more "
        f"than {after}.",
    )  # fmt: skip
    shown = table("Silent the longest first", ("Sender", "Last report", "Reports"), rows)
    return section("Silent senders", "senders", words, shown, _and_more(len(silent), SHOWN_SENDERS))


def _duration(seconds: int) -> str:
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds // size:,} {plural(seconds // size, unit)}"
    return f"{seconds} {plural(seconds, 'second')}"


def cluster_section(page: ExactPage) -> Element:
    """The clusters of the chosen window, against the window before."""
    choice, view, name = page.choice, page.view.sealed(), page.view.collection.name
    links = element(
        "ul",
        *(
            element("li", element("a", f"last {span}", href=f"?{query}#clusters",
                                  **({"aria_current": "true"} if span == choice.span else {})))
            for span, query in ((span, choice.query(**{"window": span, "from": "", "to": ""})) for span in HOURS)
        ),
        class_="choices",
    )  # fmt: skip
    found = view.window(choice.start, choice.finish)
    window = f"{moment(choice.start)} to {moment(choice.finish)}"
    header: list[Child] = [element("nav", links, aria_label="Windows"), _window_form(choice)]
    left = len(found.left_out)
    hidden = "; ".join(sorted({reason for _, reason in found.left_out}))
    note = f" {left:,} {plural(left, 'epoch')} left out: {hidden}." if left else ""
    header.append(element("p", f"Sealed epochs of {window} (UTC), against those before.{note}", class_="soft"))
    if found.sketch is None:
        return section("Clusters", "clusters", *header, element("p", "There is nothing to show in this window."))
    before = view.window(*choice.before).sketch
    learned = page.models.get(name, choice.span, found.sketch, before, choice.clusters)
    if learned is None:
        latest = page.models.latest(name, choice.span, choice.clusters) if choice.span else None
        which = "The clusters are" if latest is None else "These are those of a window before: the newest are"
        wait = element("p", f"{which} being learned; they appear here by themselves.", role="status")
        made = section("Clusters", "clusters", *header, wait, *_parts_of(latest))
        made.set("data-pending", "true")
        return made
    if isinstance(learned, Exception):
        why = element("p", f"No clusters could be learned: {learned}", class_="warn")
        return section("Clusters", "clusters", *header, why)
    return section("Clusters", "clusters", *header, *_parts_of(learned))


def _parts_of(clusters: WindowClusters | None) -> list[Child]:
    if clusters is None:
        return []
    from sketchlearn.collector.page.cluster_section import cluster_parts  # seconds to import, as learning is

    return list(cluster_parts(clusters))


def _window_form(choice: Choice) -> Element:
    """Any other window, and another number of clusters."""

    def labelled(text: str, name: str, value: str, **facts: str) -> Element:
        return element("label", f"{text} ", element("input", name=name, value=value, **facts))

    times = [
        labelled(text, name, in_iso(value)[:16], type="datetime-local")
        for text, name, value in (("From", "from", choice.start), ("to", "to", choice.finish))
    ]
    number = {"type": "number", "min": "1", "max": str(MOST_CLUSTERS)}
    many = labelled("Clusters", "clusters", str(choice.clusters), **number)
    button = element("button", "Show", type="submit")
    form = element("form", *times, many, button, method="get", action="#clusters")
    return element("details", element("summary", "Another window, or another number of clusters"), form)


def drift_section(page: ExactPage) -> Element:
    """How each epoch compared with those before it."""
    found = page.view.drifts(SHOWN_DRIFTS)
    known = [one for one in reversed(found) if one["p_value"] is not None]
    if not known:
        return section("Drift", "drift", element("p", "No two epochs were compared yet.", class_="soft"))
    bars = [
        Bar(
            of_text(one["epoch"]),
            one["distance"] / one["expected"] if one["expected"] else 0.0,
            f"{one['distance'] / one['expected']:.2f} times what chance gives{', alarm' if one['alarm'] else ''}"
            if one["expected"]
            else "unknown",
            one["alarm"],
        )
        for one in known
    ]
    words = (
        "Each epoch's distance from those before it since the last change, over what chance alone gives (the dashed "
        "line). An exclamation mark is an alarm."
    )
    chart = bar_chart("Drift of each epoch", bars, "Distance", level=1.0)
    moved = [one for one in found if one["alarm"]]
    rows = [
        (of_text(one["epoch"]), _columns(one["moved"]), chance(one["p_value"]), of_text(one["since"])) for one in moved
    ]
    history = None
    if rows:
        heads = ("Epoch", "Columns that moved", "By chance alone", "Changed since")
        history = table("Changes, the newest first", heads, rows)
    return section("Drift", "drift", element("p", words), chart, history)


def _columns(moved: list[dict[str, Any]]) -> Element:
    if not moved:
        return element("span", "not told by this design")
    return listing((element("bdi", str(one["words"])) for one in moved), "; ")


def privacy_section(page: ExactPage) -> Element:
    """What was spent: the ledger of the window's reports, and private releases."""
    rules = page.view.collection.rules
    found = page.view.sealed().window(page.choice.start, page.choice.finish)
    hidden = element("p", f"Nothing is shown of epochs of fewer than {rules.min_records:,} records or "
                     f"{rules.min_reports:,} {plural(rules.min_reports, 'report')}.")  # fmt: skip
    return section("Privacy", "privacy", _ledger_of(found.sketch), *_releases_of(page.view), hidden)


def _releases_of(view: ReleasedView) -> list[Child]:
    """How many private releases there are, and the newest of them."""
    made, limit = view.releases(), view.collection.rules.epsilon
    words = "without a limit" if limit is None else f"at most epsilon {limit:g} together"
    parts: list[Child] = [element("p", f"{len(made):,} private {plural(len(made), 'release')} so far, {words}.")]
    if made:
        rows = [
            (whole_number(one["id"]), f"{of_text(one['start'])} to {of_text(one['finish'])}",
             rounded(one["ledger"]["epsilon"]), rounded(one["ledger"]["delta"]), of_text(one["created"]))
            for one in made[-SHOWN_RELEASES:][::-1]
        ]  # fmt: skip
        heads = ("Release", "Window", "Epsilon", "Delta", "Made")
        parts.append(table("Private releases, the newest first", heads, rows))
    return parts


def released_section(page: ReleasedPage) -> Element:
    """What a reader of private releases is told: all of them, and what the newest guarantees."""
    why = element("p", "This collection shows private releases alone: every number on this page is of one of them, and "
                  "none comes from exact sums or counts.")  # fmt: skip
    made = page.view.releases()
    newest = None
    if made:
        newest = element("p", "The newest release: ", str(Ledger.from_json(made[-1]["ledger"])), ".")
    return section("Releases", "releases", why, *_releases_of(page.view), newest)


def released_cluster_section(page: ReleasedPage) -> Element:
    """The clusters of the newest release."""
    made, name = page.view.releases(), page.view.collection.name
    if not made:
        return section("Clusters", "clusters", element("p", "Nothing was released yet.", class_="soft"))
    newest = made[-1]
    sketch = from_bytes(page.view.release_file(newest["id"]))
    words = f"Release {newest['id']:,}, of {of_text(newest['start'])} to {of_text(newest['finish'])} (UTC)."
    header = element("p", words, class_="soft")
    learned = page.models.get(released_name(name), "", sketch, None, page.clusters)
    if learned is None:
        wait = element("p", "The clusters are being learned; they appear here by themselves.", role="status")
        shown = section("Clusters", "clusters", header, wait)
        shown.set("data-pending", "true")
        return shown
    if isinstance(learned, Exception):
        why = element("p", f"No clusters could be learned: {learned}", class_="warn")
        return section("Clusters", "clusters", header, why)
    return section("Clusters", "clusters", header, *_parts_of(learned))


def released_name(collection: str) -> str:
    """What is watched by readers of releases: other than what readers of exact sums are told of."""
    return f"{collection}/releases"


def _ledger_of(sketch: Sketch | None) -> Element:
    ledger: Ledger | None = None if sketch is None else sketch.ledger
    if sketch is None:
        return element("p", "The window shows nothing, and spends nothing.")
    if ledger is None:
        return element(
            "p", "The reports of this window are exact sketches, without noise: what this page shows of them is for "
            "those who may see such sums.",
        )  # fmt: skip
    return element("p", "The sum of this window: ", str(ledger), ".")


def refusal_section(page: ExactPage) -> Element:
    """What was refused and why."""
    found = page.view.refusals()
    if not found:
        return section("Refused", "refused", element("p", "No report was refused.", class_="soft"))
    rows = [
        (one["kind"], whole_number(one["times"]), "unknown" if one["sender"] is None else named(one["sender"]),
         element("bdi", one["sentence"]), of_text(one["latest"]))
        for one in found[:SHOWN_REFUSALS]
    ]  # fmt: skip
    heads = ("Why", "Times", "Sender", "The last time", "When")
    return section("Refused", "refused", table("The newest first", heads, rows), _and_more(len(found), SHOWN_REFUSALS))


def _and_more(n: int, shown: int) -> Element | None:
    return element("p", f"and {n - shown:,} more", class_="soft") if n > shown else None


#: the sections of a page, in order, by their anchors
SECTIONS: dict[str, Callable[[ExactPage], Element]] = {
    "alarms": alarm_section,
    "arrivals": arrival_section,
    "clusters": cluster_section,
    "drift": drift_section,
    "senders": sender_section,
    "privacy": privacy_section,
    "refused": refusal_section,
}

#: those of a page of private releases
RELEASED_SECTIONS: dict[str, Callable[[ReleasedPage], Element]] = {
    "releases": released_section,
    "clusters": released_cluster_section,
}
