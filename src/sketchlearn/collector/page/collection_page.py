"""The pages: one for each collection, a list of them, and the form for a token."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any
from xml.etree.ElementTree import Element, tostring

from anyio.to_thread import run_sync

from sketchlearn.collector.page.collection_sections import (
    RELEASED_SECTIONS,
    SECTIONS,
    ExactPage,
    ReleasedPage,
    live_texts,
    released_name,
)
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.store import Store
from sketchlearn.collector.views import ExactView, ReleasedView
from sketchlearn.core.messages import printable
from sketchlearn.views.report.elements import Child, element, named, page_text, table

TITLES = {"alarms": "Alarms", "arrivals": "Arriving", "clusters": "Clusters", "drift": "Drift"}
TITLES |= {"senders": "Silent senders", "privacy": "Privacy", "refused": "Refused", "releases": "Releases"}


def collection_page(page: ExactPage | ReleasedPage) -> str:
    """All about a collection that a reader may see."""
    collection, names = page.view.collection, _section_names(page)
    sections = [_section(page, name) for name in names]
    links = (element("li", element("a", TITLES[name], href=f"#{name}")) for name in names)
    state = element("p", "Live", id="live", role="status", class_="soft")
    lead = element("p", named(collection.known.operator.in_words), class_="soft")
    header = element(
        "header", element("p", element("a", "All collections", href="/")),
        element("h1", printable(collection.title)), lead, state,
    )  # fmt: skip
    main = element("main", *sections, id="main")
    main.set("data-events", f"/collections/{collection.name}/events")
    main.set("data-sections", f"/collections/{collection.name}/sections/")
    main.set("data-query", page.query)
    nav = element("nav", element("ul", *links), aria_label="Sections")
    return _page(collection.title, header, nav, main)


def _section_names(page: ExactPage | ReleasedPage) -> list[str]:
    return list(SECTIONS if isinstance(page, ExactPage) else RELEASED_SECTIONS)


def _section(page: ExactPage | ReleasedPage, name: str) -> Element:
    return SECTIONS[name](page) if isinstance(page, ExactPage) else RELEASED_SECTIONS[name](page)


def section_text(page: ExactPage | ReleasedPage, name: str) -> str:
    """One section as markup."""
    if name not in _section_names(page):
        raise RefusalError("not found", "there is no such section")
    return tostring(_section(page, name), encoding="unicode", method="html")


def list_page(found: list[ReleasedView]) -> str:
    """The collections that a reader may see; of those with private reading, nothing but that they are there."""
    rows: list[tuple[Child, ...]] = []
    for view in found:
        link = element("a", printable(view.collection.title), href=f"/collections/{view.collection.name}")
        if isinstance(view, ExactView):
            texts = live_texts(view)
            rows.append((link, texts["live-reports"], texts["live-records"], texts["live-latest"]))
        else:
            rows.append((link, "private releases alone", "", ""))
    body: Child = table("Collections", ("Collection", "Reports", "Records", "Last report"), rows)
    if not rows:
        body = element("p", "There are no collections yet.")
    header = element("header", element("h1", "Collections"))
    return _page("Collections", header, element("main", body, id="main"))


def token_page(problem: str | None) -> str:
    """The form that asks for a token."""
    field: dict[str, str] = {"type": "password", "name": "token", "autocomplete": "current-password", "required": ""}
    label = element("label", "Token ", element("input", id="token", **field))
    button = element("button", "Show", type="submit")
    why = None if problem is None else element("p", problem, class_="warn", role="alert")
    words = element("p", "To see collections, give a token with the scope read.")
    form = element("form", label, " ", button, method="post", action="/token")
    header = element("header", element("h1", "Collector"))
    return _page("Collector", header, element("main", words, why, form, id="main"))


def problem_page(sentence: str) -> str:
    """A sentence about what cannot be shown."""
    header = element("header", element("h1", "Nothing to show"))
    back = element("p", element("a", "All collections", href="/"))
    return _page("Nothing to show", header, element("main", element("p", sentence), back, id="main"))


def _page(title: str, *parts: Element) -> str:
    head = element(
        "head", element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", printable(title)),
        element("link", rel="icon", href="data:,"),
        element("link", rel="stylesheet", href="/page.css"),
        element("script", "", src="/page.js", defer=""),
    )  # fmt: skip
    skip = element("a", "To the content", href="#main", class_="skip")
    return page_text(element("html", head, element("body", skip, *parts), lang="en"))


def events_text(kind: str, lines: Iterable[str]) -> bytes:
    """A server-sent event."""
    return (f"event: {kind}\n" + "".join(f"data: {line}\n" for line in lines) + "\n").encode()


def query_of(params: Any) -> dict[str, str]:
    """The query of a request, of bounded length."""
    return {str(name)[:40]: str(value)[:60] for name, value in params.items()}


SECONDS_BETWEEN_LOOKS = 0.5  # A report is seen within twice that.
SECONDS_BETWEEN_SIGNS = 15.0  # of life, where nothing changes
SECONDS_BETWEEN_CHARTS = 5.0  # Charts of what arrives are drawn anew no more often.
MOST_WATCHERS = 200

#: what became new, and the sections that show it
STALE = {
    "sealed": ("arrivals", "clusters", "privacy"),
    "compared": ("drift",),
    "alarm": ("alarms", "drift"),
    "release": ("privacy",),
    "sender": ("senders",),
    "refused": ("refused",),
    "clusters": ("clusters",),
}
RELEASED_STALE = ("releases", "clusters")  # what a release makes new for those who read releases alone


class Watch:
    """What became new in each collection: a number per section, which grows, and one look at the figures for all."""

    def __init__(self, store: Store) -> None:
        self._lock = threading.Lock()
        self._versions: dict[tuple[str, str], int] = {}
        self._looks: dict[str, tuple[float, dict[str, str]]] = {}
        self.watchers = 0
        store.on_change.append(self.tell)

    def tell(self, collection: str, kind: str, _facts: dict[str, Any] | None = None) -> None:
        """Notes that something is new."""
        with self._lock:
            new = [(collection, section) for section in STALE.get(kind, ())]
            if kind == "release":
                new += [(released_name(collection), section) for section in RELEASED_STALE]
            for key in new:
                self._versions[key] = self._versions.get(key, 0) + 1

    def versions(self, collection: str) -> dict[str, int]:
        """How often each section became stale."""
        with self._lock:
            return {section: n for (name, section), n in self._versions.items() if name == collection}

    def texts(self, view: ExactView) -> dict[str, str]:
        """The figures, looked up at most every half second, however many watch."""
        now, name = time.monotonic(), view.collection.name
        with self._lock:
            seen, texts = self._looks.get(name, (-1.0, {}))
            if now - seen < SECONDS_BETWEEN_LOOKS:
                return texts
            self._looks[name] = (now, texts)
        found = live_texts(view)
        with self._lock:
            self._looks[name] = (now, found)
        return found


async def events(watch: Watch, view: ReleasedView, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The events for one reader, until it leaves or the server ends; of releases alone, for those who read no more."""
    exact = view if isinstance(view, ExactView) else None
    name = view.collection.name if exact is not None else released_name(view.collection.name)
    watch.watchers += 1
    try:
        known = watch.versions(name)
        shown: dict[str, str] = {}
        last_sign = last_charts = time.monotonic()
        yield b"retry: 2000\n\n"
        while not ended():
            texts = {} if exact is None else await run_sync(lambda: watch.texts(exact))
            now, versions = time.monotonic(), watch.versions(name)
            stale = {section for section, n in versions.items() if n != known.get(section, 0)}
            if texts != shown:
                yield events_text("figures", [json.dumps(texts)])
                if shown and now - last_charts > SECONDS_BETWEEN_CHARTS:
                    stale |= {"arrivals", "senders"}
                    last_charts = now
                shown, last_sign = texts, now
            if stale:
                yield events_text("stale", [json.dumps(sorted(stale))])
                known, last_sign = versions, now
            if now - last_sign > SECONDS_BETWEEN_SIGNS:
                yield b": still here\n\n"
                last_sign = now
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
    finally:
        watch.watchers -= 1
