"""The pages: one for each collection, a list of them, and the form for a token."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from anyio.to_thread import run_sync
from markupsafe import Markup

from sketchlearn.collector.page.collection_sections import (
    ExactPage,
    ReleasedPage,
    live_texts,
    released_name,
    section_names,
    section_text,
)
from sketchlearn.collector.store import Store
from sketchlearn.collector.views import ExactView, ReleasedView
from sketchlearn.views.templates import rendered

TEMPLATE = "collector/page/page.html"
TITLES = {"alarms": "Alarms", "arrivals": "Arriving", "clusters": "Clusters", "drift": "Drift"}
TITLES |= {"senders": "Silent senders", "privacy": "Privacy", "refused": "Refused", "releases": "Releases"}


def collection_page(page: ExactPage | ReleasedPage) -> str:
    """All about a collection that a reader may see."""
    collection, names = page.view.collection, section_names(page)
    return rendered(
        TEMPLATE,
        kind="collection",
        title=collection.title,
        name=collection.name,
        lead=collection.known.operator.in_words,
        links=[(name, TITLES[name]) for name in names],
        query=page.query,
        sections=[Markup(section_text(page, name)) for name in names],
    )


def list_page(found: list[ReleasedView]) -> str:
    """The collections that a reader may see; of those with private reading, nothing but that they are there."""
    collections = [(view.collection, live_texts(view) if isinstance(view, ExactView) else None) for view in found]
    return rendered(TEMPLATE, kind="list", title="Collections", collections=collections)


def token_page(problem: str | None) -> str:
    """The form that asks for a token."""
    return rendered(TEMPLATE, kind="token", title="Collector", problem=problem)


def problem_page(sentence: str) -> str:
    """A sentence about what cannot be shown."""
    return rendered(TEMPLATE, kind="problem", title="Nothing to show", sentence=sentence)


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
