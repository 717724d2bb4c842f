"""The sections of a collection's page, each by itself, so that a page can renew one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from sketchlearn.collector import drift, releases
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.epochs import Epoch
from sketchlearn.collector.page.svg_charts import Bar, bar_chart
from sketchlearn.collector.page.window_models import WindowClusters, WindowModels
from sketchlearn.collector.page.windows_shown import HOURS, MOST_CLUSTERS, Choice, sealed_window
from sketchlearn.collector.store import Store
from sketchlearn.diagnostics.report.page_elements import (
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
from sketchlearn.ledger import Ledger
from sketchlearn.sketch import Sketch

SHOWN_EPOCHS = 48
SHOWN_DRIFTS = 48
SHOWN_ALARMS = 5
SHOWN_SENDERS = 50
SHOWN_REFUSALS = 50
SHOWN_RELEASES = 20


@dataclass(frozen=True)
class View:
    """What a page is about: a collection, through a window."""

    store: Store
    collection: Collection
    choice: Choice
    models: WindowModels


def moment(seconds: float) -> str:
    """A time as people read it, in UTC."""
    return in_iso(seconds)[:16].replace("T", " ")


def of_text(text: str | None) -> str:
    """A time of JSON as people read it."""
    return "never" if text is None else text[:16].replace("T", " ")


def alarm_section(view: View) -> Element:
    """The newest alarms."""
    with view.store.reading() as transaction:
        found = drift.alarms(transaction, view.collection, SHOWN_ALARMS)
    if not found:
        return section("Alarms", "alarms", element("p", "No change was seen so far.", class_="soft"))
    items = [
        element("li", element("strong", of_text(alarm["epoch"])), " ", element("bdi", alarm["sentence"]))
        for alarm in found
    ]
    return section("Alarms", "alarms", element("ul", *items, class_="warn"))


def arrival_section(view: View) -> Element:
    """Reports and records by epoch."""
    collection, now = view.collection, view.store.now() // 1000
    epochs = view.store.epochs(collection, 0, now + 1)[-SHOWN_EPOCHS:]
    what = {"hour": "hour", "day": "day"}[collection.rules.epoch]
    parts: list[Child] = [live_counts(view.store, collection)]
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
    return "" if epoch.sealed is not None else ", still open"


def _records_bar(epoch: Epoch, collection: Collection) -> Bar:
    hidden = epoch.why_hidden(collection)
    when = moment(epoch.start)
    return Bar(when, None, f"not shown: {hidden}") if hidden else Bar(when, epoch.records, f"{epoch.records:,}")


def live_counts(store: Store, collection: Collection) -> Element:
    """The figures that change with every report."""
    texts = live_texts(store, collection)
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


def live_texts(store: Store, collection: Collection) -> dict[str, str]:
    """What the figures say now."""
    rules = collection.rules
    with store.reading() as transaction:
        row = transaction.one(
            "SELECT coalesce(sum(reports), 0), coalesce(sum(records), 0), "
            "coalesce(sum(CASE WHEN sealed IS NULL THEN reports ELSE 0 END), 0), "
            "coalesce(sum(CASE WHEN sealed IS NULL THEN 0 ELSE records END), 0) FROM epochs WHERE collection = ?",
            (collection.id,),
        )
        who = transaction.one(
            "SELECT count(*), max(latest) FROM senders WHERE collection = ? AND revoked IS NULL", (collection.id,)
        )
    assert row is not None
    assert who is not None
    reports, records, still_open = int(row[0]), int(row[3] if rules.sealed_only else row[1]), int(row[2])
    few = records < rules.min_records
    return {
        "live-reports": f"{reports:,}",
        "live-records": f"fewer than {rules.min_records:,}" if few else f"{records:,}",
        "live-open": f"{still_open:,}",
        "live-latest": "never" if who[1] is None else in_iso(who[1] / 1000)[:19].replace("T", " "),
        "live-senders": f"{int(who[0]):,}",
    }


def sender_section(view: View) -> Element:
    """Senders that are silent for too long."""
    found = view.store.senders(view.collection)
    silent = sorted((one for one in found if one["silent"]), key=lambda one: one["latest"] or "")
    after = _duration(view.collection.rules.silent_seconds)
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


def cluster_section(view: View) -> Element:
    """The clusters of the chosen window, against the window before."""
    choice = view.choice
    links = element(
        "ul",
        *(
            element("li", element("a", f"last {name}" if name != "day" else "last day", href=f"?{query}#clusters",
                                  **({"aria_current": "true"} if name == choice.span else {})))
            for name, query in ((name, choice.query(**{"window": name, "from": "", "to": ""})) for name in HOURS)
        ),
        class_="choices",
    )  # fmt: skip
    found = sealed_window(view.store, view.collection, choice.start, choice.finish)
    window = f"{moment(choice.start)} to {moment(choice.finish)}"
    header: list[Child] = [element("nav", links, aria_label="Windows"), _window_form(choice)]
    left = len(found.left_out)
    hidden = "; ".join(sorted({reason for _, reason in found.left_out}))
    note = f" {left:,} {plural(left, 'epoch')} left out: {hidden}." if left else ""
    header.append(element("p", f"Sealed epochs of {window} (UTC), against those before.{note}", class_="soft"))
    if found.sketch is None:
        return section("Clusters", "clusters", *header, element("p", "There is nothing to show in this window."))
    before = sealed_window(view.store, view.collection, *choice.before).sketch
    learned = view.models.get(view.collection.name, choice.span, found.sketch, before, choice.clusters)
    if learned is None:
        latest = view.models.latest(view.collection.name, choice.span, choice.clusters) if choice.span else None
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


def drift_section(view: View) -> Element:
    """How each epoch compared with those before it."""
    with view.store.reading() as transaction:
        found = drift.drifts(transaction, view.collection, SHOWN_DRIFTS)
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


def privacy_section(view: View) -> Element:
    """What was spent: the ledger of the window's reports, and private releases."""
    rules, parts = view.collection.rules, []
    found = sealed_window(view.store, view.collection, view.choice.start, view.choice.finish)
    parts.append(_ledger_of(found.sketch))
    with view.store.reading() as transaction:
        made = releases.releases(transaction, view.collection)
    limit = "without a limit" if rules.epsilon is None else f"at most epsilon {rules.epsilon:g} together"
    parts.append(element("p", f"{len(made):,} private {plural(len(made), 'release')} so far, {limit}. Nothing is shown "
                         f"of epochs of fewer than {rules.min_records:,} records or {rules.min_reports:,} "
                         f"{plural(rules.min_reports, 'report')}."))  # fmt: skip
    if made:
        rows = [
            (whole_number(one["id"]), f"{of_text(one['start'])} to {of_text(one['finish'])}",
             rounded(one["ledger"]["epsilon"]), rounded(one["ledger"]["delta"]), of_text(one["created"]))
            for one in made[-SHOWN_RELEASES:][::-1]
        ]  # fmt: skip
        heads = ("Release", "Window", "Epsilon", "Delta", "Made")
        parts.append(table("Private releases, the newest first", heads, rows))
    return section("Privacy", "privacy", *parts)


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


def refusal_section(view: View) -> Element:
    """What was refused and why."""
    found = view.store.refusals(view.collection)
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
SECTIONS: dict[str, Callable[[View], Element]] = {
    "alarms": alarm_section,
    "arrivals": arrival_section,
    "clusters": cluster_section,
    "drift": drift_section,
    "senders": sender_section,
    "privacy": privacy_section,
    "refused": refusal_section,
}
