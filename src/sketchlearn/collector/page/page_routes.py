"""The pages of a collector for browsers, with a token in a cookie that scripts cannot read, and their events."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from anyio.to_thread import run_sync
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from sketchlearn.collector.limits import Identification, address_of, whole_body
from sketchlearn.collector.page.collection_sections import (
    Section,
    live_texts,
    released_name,
    section_text,
    sections_of,
)
from sketchlearn.collector.page.window_models import WindowModels
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.senders import READ, Token
from sketchlearn.collector.store import Store
from sketchlearn.collector.views import ExactView, ReleasedView, reads_exactly
from sketchlearn.views import report
from sketchlearn.views.templates import rendered

TITLES = {"alarms": "Alarms", "arrivals": "Arriving", "clusters": "Clusters", "drift": "Drift"}
TITLES |= {"senders": "Silent senders", "privacy": "Privacy", "refused": "Refused", "releases": "Releases"}
COOKIE = "sketchlearn_token"
LONGEST_FORM = 2000
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; connect-src 'self'; "
        "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_HERE, _REPORT = Path(__file__).parent, Path(report.__file__).parent
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


class Pages:
    """What the routes of the page share.

    With `everybody_reads`, they show all collections without a token: for a demonstration on this machine alone.
    """

    def __init__(self, store: Store, *, everybody_reads: bool = False) -> None:
        self._store, self.everybody_reads = store, everybody_reads
        self.watch = Watch(store)
        self.models = WindowModels(lambda collection: self.watch.tell(collection, "clusters"))
        self._identification = Identification(store)
        self.ended = False

    def routes(self) -> list[BaseRoute]:
        """For `create_app(store, more_routes=...)`."""
        return [
            Route("/", self._guarded(self._list)),
            Route("/token", self._enter, methods=["POST"]),
            Route("/collections/{collection}", self._guarded(self._collection)),
            Route("/collections/{collection}/sections/{section}", self._guarded(self._section)),
            Route("/collections/{collection}/events", self._guarded(self._events)),
            Route("/page.css", lambda _request: _file("text/css", _REPORT / "page.css", _HERE / "collection.css")),
            Route("/page.js", lambda _request: _file("text/javascript", _HERE / "live.js")),
        ]

    def close(self) -> None:
        """Ends streams of events and fits."""
        self.ended = True
        self.models.close()

    def _guarded(self, handler: Callable[[Request, list[ReleasedView]], Response]) -> Callable[[Request], object]:
        """The handler in a thread, with what the reader may see; without a token they are asked for one."""

        async def answered(request: Request) -> Response:
            try:
                token = await self._token(request)
                return await run_sync(lambda: handler(request, self._views(request, token)))
            except RefusalError as refusal:
                if refusal.kind == "unauthorised":
                    return _token_page(None, 401)
                return _page("problem", "Nothing to show", refusal.status, sentence=refusal.sentence)

        return answered

    async def _token(self, request: Request) -> Token | None:
        if self.everybody_reads:
            return None
        text = request.cookies.get(COOKIE, "")
        if not text:
            raise RefusalError("unauthorised", "a token is needed")
        return await self._identification.token(text, address_of(request))

    def _views(self, request: Request, token: Token | None) -> list[ReleasedView]:
        """What a reader may see of the path's collection, or of all: exact sums, or private releases alone."""
        name, found = request.path_params.get("collection"), self._store.all_collections()
        if token is not None and name is not None:
            found = [self._store.collection(token, name, READ)]
        elif token is not None:
            found = [one for one in self._store.visible(token) if token.may(READ, one.id)]
        elif name is not None:
            found = [one for one in found if one.name == name]
            if not found:
                raise RefusalError("not found", "there is no such collection here")
        return [(ExactView if reads_exactly(token, one) else ReleasedView)(self._store, one) for one in found]

    def _list(self, _request: Request, views: list[ReleasedView]) -> Response:
        if len(views) == 1 and self.everybody_reads:
            return RedirectResponse(f"/collections/{views[0].collection.name}", 303, HEADERS)
        found = [(view.collection, live_texts(view) if isinstance(view, ExactView) else None) for view in views]
        return _page("list", "Collections", collections=found)

    def _sections_of(self, request: Request, view: ReleasedView) -> tuple[str, dict[str, Section]]:
        asked = {name[:40]: value[:60] for name, value in request.query_params.items()}
        return sections_of(view, self.models, asked)

    def _collection(self, request: Request, views: list[ReleasedView]) -> Response:
        collection, (query, sections) = views[0].collection, self._sections_of(request, views[0])
        return _page(
            "collection",
            collection.title,
            name=collection.name,
            lead=collection.known.operator.in_words,
            links=[(name, TITLES[name]) for name in sections],
            query=query,
            sections=[Markup(section_text(sections, name)) for name in sections],
        )

    def _section(self, request: Request, views: list[ReleasedView]) -> Response:
        _, sections = self._sections_of(request, views[0])
        return _html(section_text(sections, request.path_params["section"]))

    def _events(self, _request: Request, views: list[ReleasedView]) -> Response:
        if self.watch.watchers >= MOST_WATCHERS:
            raise RefusalError("busy", "too many watch already: reload the page now and then")
        stream = events(self.watch, views[0], lambda: self.ended)
        return StreamingResponse(stream, headers={**HEADERS, "x-accel-buffering": "no"}, media_type="text/event-stream")

    async def _enter(self, request: Request) -> Response:
        declared = request.headers.get("content-length")
        try:
            body = await whole_body(request.stream(), declared, LONGEST_FORM, lambda _n_bytes: None)
            text = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
            await self._identification.token(text, address_of(request))
        except RefusalError as refusal:
            return _token_page(f"{refusal.sentence[:1].upper()}{refusal.sentence[1:]}.", refusal.status)
        answer = RedirectResponse("/", 303, HEADERS)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, text, httponly=True, samesite="strict", secure=secure)
        return answer


def _token_page(problem: str | None, status: int) -> Response:
    return _page("token", "Collector", status, problem=problem)


def _page(kind: str, title: str, status: int = 200, **facts: Any) -> Response:
    return _html(rendered("collector/page/page.html", kind=kind, title=title, **facts), status)


def _file(media: str, *paths: Path) -> Response:
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    return Response(text, headers=HEADERS, media_type=media)


def _html(text: str, status: int = 200) -> Response:
    return Response(text, status, HEADERS, media_type="text/html; charset=utf-8")


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


async def events(watch: Watch, view: ReleasedView, ended: Callable[[], bool]) -> AsyncIterator[str]:
    """The events for one reader, until it leaves or the server ends; of releases alone, for those who read no more."""
    exact = view if isinstance(view, ExactView) else None
    name = view.collection.name if exact is not None else released_name(view.collection.name)
    watch.watchers += 1
    try:
        known = watch.versions(name)
        shown: dict[str, str] = {}
        last_sign = last_charts = time.monotonic()
        yield "retry: 2000\n\n"
        while not ended():
            texts = {} if exact is None else await run_sync(lambda: watch.texts(exact))
            now, versions = time.monotonic(), watch.versions(name)
            stale = {section for section, n in versions.items() if n != known.get(section, 0)}
            if texts != shown:
                yield f"event: figures\ndata: {json.dumps(texts)}\n\n"
                if shown and now - last_charts > SECONDS_BETWEEN_CHARTS:
                    stale |= {"arrivals", "senders"}
                    last_charts = now
                shown, last_sign = texts, now
            if stale:
                yield f"event: stale\ndata: {json.dumps(sorted(stale))}\n\n"
                known, last_sign = versions, now
            if now - last_sign > SECONDS_BETWEEN_SIGNS:
                yield ": still here\n\n"
                last_sign = now
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
    finally:
        watch.watchers -= 1
