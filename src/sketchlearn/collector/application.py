"""The HTTP application: who asks, how much they may send, and refusals as one sentence each."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sketchlearn.collector import hidden_routes, report_routes, routes
from sketchlearn.collector.background import Housekeeper
from sketchlearn.collector.endpoints import (
    ENDPOINTS,
    FOR_EVER,
    LARGEST_JSON,
    Answer,
    Endpoint,
    openapi_document,
    time_of,
)
from sketchlearn.collector.limits import BodiesUnderWay, Identification, Rates, address_of, whole_body
from sketchlearn.collector.metrics import Metrics
from sketchlearn.collector.refusals import STATUS, RefusalError
from sketchlearn.collector.senders import Token
from sketchlearn.collector.store import Store
from sketchlearn.collector.views import SenderView, View

T = TypeVar("T")
_LOG = logging.getLogger("sketchlearn.collector")
SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_SECURITY = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_KINDS = {status: kind for kind, status in reversed(STATUS.items())}
_SENTENCES = {404: "there is nothing at this address", 405: "this address does not take this method"}


class Service:
    """What all calls share."""

    def __init__(self, store: Store) -> None:
        self.store, self.metrics = store, Metrics()
        self.under_way, self.rates, self.identification = BodiesUnderWay(), Rates(), Identification(store)
        self.document = openapi_document(ENDPOINTS)
        store.on_commit = self.metrics.group.observe
        store.on_change.append(self._count)

    def _count(self, collection: str, kind: str, facts: dict[str, Any]) -> None:
        if kind == "report":
            self.metrics.reports.labels(collection).inc()
            self.metrics.records.labels(collection).inc(facts["records"])
        elif kind == "alarm":
            self.metrics.alarms.labels(collection).inc()


class Call:
    """One request: its path, its query and its body, each checked when it is asked for. It knows no store."""

    def __init__(self, service: Service, request: Request) -> None:
        self.request, self.metrics, self.document = request, service.metrics, service.document
        self.path: dict[str, str] = request.path_params
        self.body = b""

    async def form(self, *names: str, empty: bool = False) -> dict[str, Any]:
        """The JSON object of the body, with no other names than these."""
        found = {} if empty and not self.body else await self.thread(lambda: json_object(self.body))
        for name in found:
            if name not in names:
                raise RefusalError(
                    "malformed", f"the body has a name that means nothing here; known: {', '.join(names)}"
                )
        return found

    def whole(self, name: str, least: int, most: int, default: int) -> int:
        """A whole number of the query."""
        text = self.request.query_params.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdecimal() or len(text) > 18 or not least <= int(text) <= most:
            raise RefusalError("malformed", f"{name} must be a whole number from {least:,} to {most:,}")
        return int(text)

    def time(self, name: str, default: T) -> float | T:
        """A time of the query."""
        text = self.request.query_params.get(name)
        return default if text is None else time_of(text)

    def bounds(self) -> tuple[int, int]:
        """Start and end of a window, `from` and `to`; all there is, if they are not given."""
        start, finish = self.time("from", 0), self.time("to", FOR_EVER)
        if not start < finish:
            raise RefusalError("malformed", "a window must end after it starts")
        return int(start), int(finish)

    async def thread(self, work: Callable[[], T]) -> T:
        """Does what waits for the disk, or takes a while, in a thread."""
        return await run_sync(work)


def create_app(
    store: Store,
    *,
    more_routes: Sequence[BaseRoute] = (),
    housekeeping_seconds: float | None = 5.0,
    webhook_hosts: Collection[str] = frozenset(),
) -> Starlette:
    """The application of a store. `app.state.service` has what its calls share.

    Parameters
    ----------
    more_routes : for pages and the like; they come after the collector's own.
    housekeeping_seconds : how often epochs are sealed and compared; None leaves it to `store.maintain()`.
    webhook_hosts : hosts with ports that alarms may be sent to although they are not of the internet.
    """
    assert all((routes, report_routes, hidden_routes))  # which have put their functions into the table
    service = Service(store)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        keeper = None
        if housekeeping_seconds is not None:
            keeper = Housekeeper(store, service.metrics, housekeeping_seconds, webhook_hosts)
        try:
            yield
        finally:
            if keeper is not None:
                await run_sync(keeper.close)

    # most requests are reports: their route is looked at first
    ordered = sorted(ENDPOINTS, key=lambda endpoint: endpoint.largest >= 0)
    own: list[BaseRoute] = [_route(service, endpoint) for endpoint in ordered]
    app = Starlette(
        routes=[*own, *more_routes],
        lifespan=lifespan,
        exception_handlers={HTTPException: _no_route, Exception: _unexpected},
    )
    app.router.redirect_slashes = False
    app.state.service = service
    return app


class _Answered:
    """A route as an ASGI application: a function would be wrapped in a dozen calls for each request."""

    def __init__(self, service: Service, endpoint: Endpoint) -> None:
        self._service, self._endpoint = service, endpoint

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        service, began = self._service, time.perf_counter()
        call, view = Call(service, Request(scope, receive, send)), None
        try:
            token = await self._identified(call)
            view = self._view(call, token)
            answer = await self._answer(call, token, view)
            if self._endpoint.largest < 0 and isinstance(view, SenderView):
                service.store.changed(view.collection.name, "report", records=answer.body["records"])
                service.metrics.seconds.observe(time.perf_counter() - began)
        except RefusalError as refusal:
            self._note(view, refusal)
            answer = refused(refusal)
        except ClientDisconnect:
            answer = refused(RefusalError("slow", "the connection ended before the whole body came"))
        service.metrics.requests.labels(str(answer.status)).inc()
        await _send(answer, send)

    async def _identified(self, call: Call) -> Token | None:
        """The token of a request, where one is needed."""
        if self._endpoint.view.scope is None:
            return None
        kind, _, text = call.request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise RefusalError("unauthorised", "a token is needed: send it as Authorization: Bearer TOKEN")
        return await self._service.identification.token(text.strip(), address_of(call.request))

    def _view(self, call: Call, token: Token | None) -> View:
        kind: type[Any] = self._endpoint.view
        store = self._service.store
        found: View = kind(store) if token is None else kind.of(store, token, call.path.get("collection", ""))
        return found

    async def _answer(self, call: Call, token: Token | None, view: View) -> Answer:
        """Does what is asked for."""
        endpoint, service, most = self._endpoint, self._service, self._endpoint.largest
        if most < 0 and isinstance(view, SenderView):
            rules = view.collection.rules
            most, wait = rules.largest_body, service.rates.take(view.sender, rules.reports_per_minute)
            if wait:
                raise RefusalError(
                    "too fast",
                    f"a sender has {rules.reports_per_minute:,} reports a minute here: wait",
                    retry_after=max(1, round(wait)),
                )
        if call.request.method in ("GET", "HEAD") or token is None:
            return await endpoint.handler(call, view)
        with service.under_way.body(token.sender or token.id) as came:
            declared = call.request.headers.get("content-length")
            call.body = await whole_body(call.request.stream(), declared, most or LARGEST_JSON, came)
            return await endpoint.handler(call, view)

    def _note(self, view: View | None, refusal: RefusalError) -> None:
        """Counts a report that was refused, under its collection and sender as far as they are known."""
        if self._endpoint.largest < 0 and isinstance(view, SenderView):
            service, name = self._service, view.collection.name
            service.store.note_refusal(view.collection, view.sender, refusal)
            service.metrics.refused.labels(name, refusal.kind).inc()
            service.store.changed(name, "refused", reason=refusal.kind, sentence=refusal.sentence)


def _route(service: Service, endpoint: Endpoint) -> Route:
    return Route(endpoint.path, _Answered(service, endpoint), methods=[endpoint.method], name=endpoint.handler.__name__)


def refused(refusal: RefusalError) -> Answer:
    """A refusal as an answer: its sentence, and its kind for programs."""
    headers = {} if refusal.retry_after is None else {"retry-after": str(refusal.retry_after)}
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    if refusal.kind in ("too large", "slow"):
        headers["connection"] = "close"  # the rest of the body is not read
    return Answer({"error": refusal.sentence, "kind": refusal.kind}, refusal.status, headers=headers)


def response(answer: Answer) -> Response:
    """An answer as Starlette sends it."""
    headers = {**SECURITY_HEADERS, **answer.headers}
    return Response(_bytes_of(answer), answer.status, headers, media_type=answer.media)


async def _send(answer: Answer, send: Any) -> None:
    """Sends an answer as `response` would."""
    body = _bytes_of(answer)
    more = {**answer.headers, "content-length": str(len(body)), "content-type": answer.media}
    headers = [*_SECURITY, *((name.encode("latin-1"), value.encode("latin-1")) for name, value in more.items())]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _bytes_of(answer: Answer) -> bytes:
    if isinstance(answer.body, bytes):
        return answer.body
    return json.dumps(answer.body, allow_nan=False, separators=(",", ":")).encode()


async def _no_route(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    body = {"error": _SENTENCES.get(status, "the request was refused"), "kind": _KINDS.get(status, "malformed")}
    return response(Answer(body, status, headers=headers))


async def _unexpected(_request: Request, error: Exception) -> Response:
    _LOG.error("a request failed", exc_info=error)
    body = {"error": "something went wrong in the collector, which has written it down", "kind": "error"}
    return response(Answer(body, 500))


def json_object(data: bytes) -> dict[str, Any]:
    """The JSON object of a request."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RefusalError("malformed", "the body must be a JSON object")
    return found
