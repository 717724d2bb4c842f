"""The routes of the page: for browsers, with a token in a cookie that scripts cannot read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from sketchlearn.collector.limits import Identification, address_of
from sketchlearn.collector.page.collection_page import (
    MOST_WATCHERS,
    Watch,
    collection_page,
    events,
    list_page,
    problem_page,
    query_of,
    token_page,
)
from sketchlearn.collector.page.collection_sections import ExactPage, ReleasedPage, section_text
from sketchlearn.collector.page.window_models import WindowModels, chosen, chosen_clusters
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.senders import READ, Token
from sketchlearn.collector.store import Store
from sketchlearn.collector.views import ExactView, ReleasedView, reads_exactly
from sketchlearn.views import report

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
_HERE, _REPORT = Path(__file__).parent, Path(report.__file__).parent


class Pages:
    """What the routes of the page share.

    Parameters
    ----------
    store : of the collector.
    everybody_reads : show all collections without a token; for a demonstration on this machine alone.
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
            Route("/page.css", self._style),
            Route("/page.js", self._script),
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
                    return _page(token_page(None), 401)
                return _page(problem_page(refusal.sentence), refusal.status)

        return answered

    async def _token(self, request: Request) -> Token | None:
        """The reader's token; None where everybody reads."""
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
        return _page(list_page(views))

    def _page_of(self, request: Request, view: ReleasedView) -> ExactPage | ReleasedPage:
        asked = query_of(request.query_params)
        if isinstance(view, ExactView):
            return ExactPage(view, chosen(view, asked), self.models)
        return ReleasedPage(view, chosen_clusters(view.collection, asked), self.models)

    def _collection(self, request: Request, views: list[ReleasedView]) -> Response:
        return _page(collection_page(self._page_of(request, views[0])))

    def _section(self, request: Request, views: list[ReleasedView]) -> Response:
        return _page(section_text(self._page_of(request, views[0]), request.path_params["section"]))

    def _events(self, _request: Request, views: list[ReleasedView]) -> Response:
        if self.watch.watchers >= MOST_WATCHERS:
            raise RefusalError("busy", "too many watch already: reload the page now and then")
        stream = events(self.watch, views[0], lambda: self.ended)
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
            await self._identification.token(text, address_of(request))
        except RefusalError as refusal:
            return _page(token_page(f"{refusal.sentence[:1].upper()}{refusal.sentence[1:]}."), refusal.status)
        answer = RedirectResponse("/", 303, HEADERS)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, text, httponly=True, samesite="strict", secure=secure)
        return answer

    async def _style(self, _request: Request) -> Response:
        style = (_REPORT / "page.css").read_text(encoding="utf-8") + (_HERE / "collection.css").read_text(
            encoding="utf-8"
        )
        return Response(style, headers=HEADERS, media_type="text/css")

    async def _script(self, _request: Request) -> Response:
        script = (_HERE / "live.js").read_text(encoding="utf-8")
        return Response(script, headers=HEADERS, media_type="text/javascript")


def _page(text: str, status: int = 200) -> Response:
    return Response(text, status, HEADERS, media_type=HTML)
