"""The HTTP application: who asks, how much they may send, and refusals as one sentence each."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sketchlearn.collector import hidden_routes, report_routes, routes
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.database import Transaction
from sketchlearn.collector.endpoint_table import ENDPOINTS, FOR_EVER, LARGEST_JSON, Answer, Endpoint, time_of
from sketchlearn.collector.housekeeping import Housekeeper
from sketchlearn.collector.limits import FAILURES_PER_MINUTE, BytesUnderWay, Rates, whole_body
from sketchlearn.collector.metrics import Metrics
from sketchlearn.collector.openapi import openapi_document
from sketchlearn.collector.refusals import STATUS, RefusalError
from sketchlearn.collector.store import Store
from sketchlearn.collector.tokens import SEND, Token

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
        self.under_way, self.rates, self.failures = BytesUnderWay(), Rates(), Rates()
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
    """One request: its token, its path, its query and its body, each checked when it is asked for."""

    def __init__(self, service: Service, endpoint: Endpoint, request: Request) -> None:
        self.service, self.endpoint, self.request = service, endpoint, request
        self.store, self.metrics, self.document = service.store, service.metrics, service.document
        self.path: dict[str, str] = request.path_params
        self.token: Token | None = None
        self.body = b""
        self._collection: Collection | None = None

    @property
    def required_token(self) -> Token:
        """The token of a route that needs one."""
        assert self.token is not None
        return self.token

    def collection(self) -> Collection:
        """The collection of the path, if the token may do there what the route does."""
        if self._collection is None:
            assert self.endpoint.scope is not None
            self._collection = self.store.collection(self.required_token, self.path["collection"], self._scope())
        return self._collection

    def _scope(self) -> str:
        """What a token needs; whatever senders may look at, readers may look at, too."""
        scope = self.endpoint.scope or ""
        if scope == SEND and self.endpoint.method == "GET" and "report" not in self.path:
            return self.required_token.scope
        return scope

    def sender(self) -> int:
        """The sender that the token belongs to."""
        number = self.required_token.sender
        if number is None:
            raise RefusalError("forbidden", "reports are sent with the token of a sender, and this is none")
        return number

    def form(self, *names: str, empty: bool = False) -> dict[str, Any]:
        """The JSON object of the body, with no other names than these."""
        found = {} if empty and not self.body else json_object(self.body)
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
        """Does what waits for the disk in a thread."""
        return await run_sync(work)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """What the database has, read in a thread."""

        def reading() -> T:
            with self.store.reading() as transaction:
                return work(transaction)

        return await self.thread(reading)

    async def identify(self) -> None:
        """Finds the token; an address that tries too many is refused for a while."""
        address = self.request.client.host if self.request.client else "?"
        if self.service.failures.is_empty(address, FAILURES_PER_MINUTE):
            raise RefusalError("too fast", "too many tokens that are not valid came from this address", retry_after=60)
        kind, _, text = self.request.headers.get("authorization", "").partition(" ")
        try:
            if kind.lower() != "bearer":
                raise RefusalError("unauthorised", "a token is needed: send it as Authorization: Bearer TOKEN")
            text = text.strip()
            self.token = self.store.known_token(text) or await self.thread(lambda: self.store.token(text))
        except RefusalError:
            self.service.failures.take(address, FAILURES_PER_MINUTE)
            raise

    async def answer(self) -> Answer:
        """Does what is asked for."""
        endpoint = self.endpoint
        if endpoint.scope is not None:
            await self.identify()
        most = endpoint.largest
        if "collection" in self.path and endpoint.scope is not None:
            self.collection()
        if most < 0:
            most = self.collection().rules.largest_body
            wait = self.service.rates.take(self.sender(), self.collection().rules.reports_per_minute)
            if wait:
                raise RefusalError(
                    "too fast",
                    f"a sender has {self.collection().rules.reports_per_minute:,} reports a minute here: wait",
                    retry_after=max(1, round(wait)),
                )
        if self.request.method not in ("GET", "HEAD"):
            declared = self.request.headers.get("content-length")
            size = int(declared) if declared is not None and declared.isdecimal() and len(declared) < 12 else most
            with self.service.under_way.holding(min(size, max(most, LARGEST_JSON))):
                self.body = await whole_body(self.request.stream(), declared, most or LARGEST_JSON)
                return await endpoint.handler(self)
        return await endpoint.handler(self)


def create_app(
    store: Store, *, more_routes: Sequence[BaseRoute] = (), housekeeping_seconds: float | None = 5.0
) -> Starlette:
    """The application of a store. `app.state.service` has what its calls share.

    Parameters
    ----------
    more_routes : for pages and the like; they come after the collector's own.
    housekeeping_seconds : how often epochs are sealed and compared; None leaves it to `store.keep_house()`.
    """
    assert all((routes, report_routes, hidden_routes))  # which have put their functions into the table
    service = Service(store)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        keeper = None if housekeeping_seconds is None else Housekeeper(store, service.metrics, housekeeping_seconds)
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
        service, endpoint = self._service, self._endpoint
        began = time.perf_counter()
        call = Call(service, endpoint, Request(scope, receive, send))
        try:
            answer = await call.answer()
            if endpoint.largest < 0:
                service.store.changed(call.collection().name, "report", records=answer.body["records"])
                service.metrics.seconds.observe(time.perf_counter() - began)
        except RefusalError as refusal:
            _note(call, refusal)
            answer = refused(refusal)
        except ClientDisconnect:
            answer = refused(RefusalError("slow", "the connection ended before the whole body came"))
        service.metrics.requests.labels(str(answer.status)).inc()
        await _send(answer, send)


def _route(service: Service, endpoint: Endpoint) -> Route:
    return Route(endpoint.path, _Answered(service, endpoint), methods=[endpoint.method], name=endpoint.handler.__name__)


def _note(call: Call, refusal: RefusalError) -> None:
    """Counts a report that was refused, under its collection and sender as far as they are known."""
    if call.endpoint.largest < 0 and call._collection is not None:
        call.store.note_refusal(call._collection, call.required_token.sender, refusal)
        call.metrics.refused.labels(call._collection.name, refusal.kind).inc()
        call.store.changed(call._collection.name, "refused", reason=refusal.kind, sentence=refusal.sentence)


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
