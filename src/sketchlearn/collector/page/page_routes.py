"""The routes of the page: for browsers, with a token in a cookie that scripts cannot read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from sketchlearn.collector.collection import Collection
from sketchlearn.collector.limits import FAILURES_PER_MINUTE, Rates
from sketchlearn.collector.page.collection_page import (
    collection_page,
    list_page,
    problem_page,
    query_of,
    section_text,
    token_page,
)
from sketchlearn.collector.page.collection_sections import SECTIONS, View
from sketchlearn.collector.page.live_events import MOST_WATCHERS, Watch, events
from sketchlearn.collector.page.window_models import WindowModels
from sketchlearn.collector.page.windows_shown import chosen
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.store import Store
from sketchlearn.collector.tokens import READ, Token
from sketchlearn.diagnostics.report.page_elements import STYLE

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
HTML = "text/html; charset=utf-8"
_HERE = Path(__file__).parent


class Pages:
    """What the routes of the page share.

    Parameters
    ----------
    store : of the collector.
    everybody_reads : show all collections without a token; for a demonstration on this machine alone.
    """

    def __init__(self, store: Store, *, everybody_reads: bool = False) -> None:
        self.store, self.everybody_reads = store, everybody_reads
        self.watch = Watch(store)
        self.models = WindowModels(lambda collection: self.watch.tell(collection, "clusters"))
        self.failures = Rates()
        self.ended = False

    def routes(self) -> list[BaseRoute]:
        """For `create_app(store, more_routes=...)`."""
        return [
            Route("/", self._guarded(self._list)),
            Route("/token", self._enter, methods=["POST"]),
            Route("/collections/{collection}", self._guarded(self._collection)),
            Route("/collections/{collection}/sections/{section}", self._guarded(self._section)),
            Route("/collections/{collection}/events", self._guarded(self._events)),
            Route("/page.css", self._style),
            Route("/page.js", self._script),
        ]

    def close(self) -> None:
        """Ends streams of events and fits."""
        self.ended = True
        self.models.close()

    def _guarded(self, handler: Callable[[Request], Response]) -> Callable[[Request], object]:
        """The handler in a thread; a reader without a token is asked for one, and refusals are sentences."""

        async def answered(request: Request) -> Response:
            try:
                return await run_sync(lambda: handler(request))
            except RefusalError as refusal:
                if refusal.kind == "unauthorised":
                    return _page(token_page(None), 401)
                return _page(problem_page(refusal.sentence), refusal.status)

        return answered

    def _token(self, request: Request) -> Token | None:
        """The reader's token; None where everybody reads."""
        if self.everybody_reads:
            return None
        text = request.cookies.get(COOKIE, "")
        if not text:
            raise RefusalError("unauthorised", "a token is needed")
        self._slow_down(request)
        try:
            return self.store.known_token(text) or self.store.token(text)
        except RefusalError:
            self.failures.take(_address(request), FAILURES_PER_MINUTE)
            raise

    def _slow_down(self, request: Request) -> None:
        if self.failures.is_empty(_address(request), FAILURES_PER_MINUTE):
            raise RefusalError("too fast", "too many tokens that are not valid came from this address: wait a minute")

    def _of_path(self, request: Request) -> Collection:
        token, name = self._token(request), request.path_params["collection"]
        if token is not None:
            return self.store.collection(token, name, READ)
        found = next((one for one in self.store.all_collections() if one.name == name), None)
        if found is None:
            raise RefusalError("not found", "there is no such collection here")
        return found

    def _view(self, request: Request) -> View:
        collection = self._of_path(request)
        choice = chosen(self.store, collection, query_of(request.query_params))
        return View(self.store, collection, choice, self.models)

    def _list(self, request: Request) -> Response:
        token = self._token(request)
        found = self.store.all_collections() if token is None else self.store.visible(token)
        if token is not None:
            found = [one for one in found if token.may(READ, one.id)]
        if len(found) == 1 and token is None:
            return RedirectResponse(f"/collections/{found[0].name}", 303, HEADERS)
        return _page(list_page(self.store, found))

    def _collection(self, request: Request) -> Response:
        return _page(collection_page(self._view(request)))

    def _section(self, request: Request) -> Response:
        name = request.path_params["section"]
        if name not in SECTIONS:
            raise RefusalError("not found", "there is no such section")
        return _page(section_text(self._view(request), name))

    def _events(self, request: Request) -> Response:
        collection = self._of_path(request)
        if self.watch.watchers >= MOST_WATCHERS:
            raise RefusalError("busy", "too many watch already: reload the page now and then")
        stream = events(self.watch, collection, lambda: self.ended)
        return StreamingResponse(stream, headers={**HEADERS, "x-accel-buffering": "no"}, media_type="text/event-stream")

    async def _enter(self, request: Request) -> Response:
        """Takes a token from the form, and keeps it in a cookie for this browser's session."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_FORM:
                return _page(token_page("That is no token."), 413)
        text = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        try:
            self._slow_down(request)
            await run_sync(lambda: self.store.token(text))
        except RefusalError as refusal:
            self.failures.take(_address(request), FAILURES_PER_MINUTE)
            return _page(token_page(f"{refusal.sentence[:1].upper()}{refusal.sentence[1:]}."), refusal.status)
        answer = RedirectResponse("/", 303, HEADERS)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, text, httponly=True, samesite="strict", secure=secure)
        return answer

    async def _style(self, _request: Request) -> Response:
        style = STYLE.read_text(encoding="utf-8") + (_HERE / "collection.css").read_text(encoding="utf-8")
        return Response(style, headers=HEADERS, media_type="text/css")

    async def _script(self, _request: Request) -> Response:
        script = (_HERE / "live.js").read_text(encoding="utf-8")
        return Response(script, headers=HEADERS, media_type="text/javascript")


def _page(text: str, status: int = 200) -> Response:
    return Response(text, status, HEADERS, media_type=HTML)


def _address(request: Request) -> str:
    return request.client.host if request.client else "?"
