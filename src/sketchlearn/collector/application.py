"""The HTTP application: it finds the token, bounds the body, and answers each refusal with one sentence."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute, Route

from sketchlearn.collector.background import Housekeeper
from sketchlearn.collector.limits import BodiesUnderWay, Identification, Rates, address_of, whole_body
from sketchlearn.collector.metrics import Metrics
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.routes import ENDPOINTS, Answer, Call, Endpoint
from sketchlearn.collector.senders import Token
from sketchlearn.collector.store import Store

_LOG = logging.getLogger("sketchlearn.collector")
_UNROUTED = {  # kinds and sentences of what Starlette refuses, by status
    404: ("not found", "there is nothing at this address"),
    405: ("method", "this address does not take this method"),
}


class Service:
    """What all requests share: the store, the metrics and the limits."""

    def __init__(self, store: Store) -> None:
        self.store, self.metrics = store, Metrics()
        self.under_way, self.rates, self.identification = BodiesUnderWay(), Rates(), Identification(store)
        store.on_commit = self.metrics.group.observe
        store.on_change.append(self._count)

    def _count(self, collection: str, kind: str, facts: dict[str, Any]) -> None:
        if kind == "report":
            self.metrics.reports.labels(collection).inc()
            self.metrics.records.labels(collection).inc(facts["records"])
        elif kind == "refused":
            self.metrics.refused.labels(collection, facts["reason"]).inc()
        elif kind == "alarm":
            self.metrics.alarms.labels(collection).inc()


def create_app(
    store: Store,
    *,
    more_routes: Sequence[BaseRoute] = (),
    housekeeping_seconds: float | None = 5.0,
    webhook_hosts: Collection[str] = frozenset(),
) -> Starlette:
    """The application of a store.

    Parameters
    ----------
    more_routes : for pages and the like; they come after the collector's own.
    housekeeping_seconds : seconds between runs of the background maintenance; None leaves it to `store.maintain()`.
    webhook_hosts : hosts with ports that alarms may be sent to although their addresses are not public.
    """
    service = Service(store)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        if housekeeping_seconds is None:
            yield
            return
        keeper = Housekeeper(store, service.metrics, housekeeping_seconds, webhook_hosts)
        try:
            yield
        finally:
            await run_sync(keeper.close)

    own = [
        Route(one.path, _Guarded(service, one), methods=[one.method], name=one.handler.__name__) for one in ENDPOINTS
    ]
    handlers: dict[Any, Any] = {HTTPException: _no_route, Exception: _unexpected}
    app = Starlette(routes=[*own, *more_routes], lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app


class _Guarded:
    """A route as an ASGI application: Starlette would wrap a function in a dozen calls for each request."""

    def __init__(self, service: Service, endpoint: Endpoint) -> None:
        self._service, self._endpoint = service, endpoint

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        service, endpoint, began = self._service, self._endpoint, time.perf_counter()
        call, view = Call(Request(scope, receive, send), endpoint, service.metrics), None
        try:
            token = await self._identified(call.request) if endpoint.needs_token else None
            view = endpoint.view.of(service.store, token, call.path.get("collection", ""))
            answer = await self._answer(call, token, view)
            if endpoint.takes_report:
                service.store.changed(view.collection.name, "report", records=answer.body["records"])
                service.metrics.seconds.observe(time.perf_counter() - began)
        except RefusalError as refusal:
            if endpoint.takes_report and view is not None:
                service.store.note_refusal(view.collection, view.sender, refusal)
            answer = _refused(refusal)
        except ClientDisconnect:
            answer = _refused(RefusalError("slow", "the connection ended before the whole body came"))
        service.metrics.requests.labels(str(answer.status)).inc()
        await answer(scope, receive, send)

    async def _identified(self, request: Request) -> Token:
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise RefusalError("unauthorised", "a token is needed: send it as Authorization: Bearer TOKEN")
        return await self._service.identification.token(text.strip(), address_of(request))

    async def _answer(self, call: Call, token: Token | None, view: Any) -> Answer:
        """Reads the body within its limits, and then calls the handler."""
        service, most = self._service, self._endpoint.largest
        if most is None:
            rules = view.collection.rules
            most, wait = rules.largest_body, service.rates.take(view.sender, rules.reports_per_minute)
            if wait:
                sentence = f"a sender has {rules.reports_per_minute:,} reports a minute here: wait"
                raise RefusalError("too fast", sentence, retry_after=max(1, round(wait)))
        if call.request.method in ("GET", "HEAD") or token is None:
            return await self._handled(call, view)
        with service.under_way.body(token.sender or token.id) as came:
            declared = call.request.headers.get("content-length")
            call.body = await whole_body(call.request.stream(), declared, most, came)
            return await self._handled(call, view)

    async def _handled(self, call: Call, view: Any) -> Answer:
        endpoint = self._endpoint
        handler: Any = endpoint.handler
        found = await (handler(call, view) if endpoint.takes_report else run_sync(handler, call, view))
        return found if isinstance(found, Answer) else Answer(found, endpoint.status, endpoint.answers)


def _refused(refusal: RefusalError) -> Answer:
    """A refusal as an answer: its sentence, and its kind for programs."""
    headers = {} if refusal.retry_after is None else {"retry-after": str(refusal.retry_after)}
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    if refusal.kind in ("too large", "slow"):
        headers["connection"] = "close"  # the rest of the body is not read
    return Answer({"error": refusal.sentence, "kind": refusal.kind}, refusal.status, headers=headers)


async def _no_route(_request: Request, error: HTTPException) -> Answer:
    kind, sentence = _UNROUTED.get(error.status_code, ("malformed", "the request was refused"))
    return Answer({"error": sentence, "kind": kind}, error.status_code, headers=dict(error.headers or {}))


async def _unexpected(_request: Request, error: Exception) -> Answer:
    _LOG.error("a request failed", exc_info=error)
    return Answer({"error": "something went wrong in the collector, which has logged it", "kind": "error"}, 500)
