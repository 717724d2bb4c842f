"""The routes of the collector: what each takes and answers. The OpenAPI document follows from them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, get_type_hints

from starlette.requests import Request

from sketchlearn.collector import drift, forwarding, releases, secure_aggregation, senders
from sketchlearn.collector.clients.secret_shares import SealedSeed
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.epoch_times import from_text, in_iso
from sketchlearn.collector.epochs import epochs_between, required_sketch, window
from sketchlearn.collector.metrics import Metrics
from sketchlearn.collector.refusals import STATUS, RefusalError, checked_name, refused_as
from sketchlearn.collector.secure_aggregation import Question, as_refusals
from sketchlearn.collector.senders import ADMIN, FIRST, READ, SEND
from sketchlearn.collector.views import (
    AdminView,
    DesignView,
    ExactView,
    FirstCollectorView,
    ReleasedView,
    SenderView,
    ServerAdminView,
    ServerView,
    TokenView,
    View,
)
from sketchlearn.core.containers import read_json
from sketchlearn.core.packages import __version__

ROOT = "/v1"
COLLECTION = f"{ROOT}/collections/{{collection}}"
SKETCH, JSON, TEXT = "application/octet-stream", "application/json", "text/plain"
LATEST_TIME = 4_000_000_000  # seconds since 1970: the year 2096
LARGEST_JSON = 1_000_000  # bytes
SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
LARGEST_DESIGN = 8_000_000  # bytes
LARGEST_SEEDS = 2_000_000  # bytes: 500 seeds and their headers
LARGEST_QUESTION = 64_000_000  # bytes
REPORT: dict[str, Any] = {"type": "string", "format": "binary"}
NAME: dict[str, Any] = {"type": "string", "maxLength": 2000}
DAYS: dict[str, Any] = {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 36600}
OBJECT: dict[str, Any] = {"type": "object"}
TIMES = {"from": "start of the window: seconds since 1970, or an ISO date", "to": "its end, not included"}
T = TypeVar("T")
Handler = Callable[[Any, Any], object]


@dataclass(frozen=True)
class Answer:
    """A response: a JSON value, or bytes of any media type. It is an ASGI application, which sends itself."""

    body: Any
    status: int = 200
    media: str = JSON
    headers: dict[str, str] = field(default_factory=dict)

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        body = self.body
        if not isinstance(body, bytes):
            body = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
        headers = {
            **SECURITY_HEADERS, **self.headers, "content-length": str(len(body)), "content-type": self.media
        }  # fmt: skip
        encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": encoded})
        await send({"type": "http.response.body", "body": body})


class Call:
    """One request: its path, query and body, each checked when a handler asks for it. It does not know the store."""

    def __init__(self, request: Request, endpoint: Endpoint, metrics: Metrics) -> None:
        self.request, self.endpoint, self.metrics = request, endpoint, metrics
        self.path: dict[str, str] = request.path_params
        self.body = b""

    def form(self) -> dict[str, Any]:
        """The JSON object of the body, without names that the route does not take."""
        schema = self.endpoint.takes
        found = {} if not self.body and not schema["required"] else json_object(self.body)
        if not found.keys() <= schema["properties"].keys():
            known = ", ".join(schema["properties"])
            raise RefusalError("malformed", f"the body has an unknown name; the known names are {known}")
        return found

    def name(self, kind: str) -> str:
        """The name of a sender or a report in the path."""
        return checked_name(kind, self.path[kind])

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
        """The start and end of a window, `from` and `to`; by default, all times."""
        start, finish = self.time("from", 0), self.time("to", LATEST_TIME)
        if not start < finish:
            raise RefusalError("malformed", "a window must end after it starts")
        return int(start), int(finish)


@dataclass(frozen=True)
class Endpoint:
    """One route.

    Attributes
    ----------
    view : the class of views.py that its handler takes, and through which alone it sees the collector.
    handler : gives the body of the answer; it runs in a thread. A report's handler gives a future instead.
    largest : bytes that its body may have; None for reports, where the rules of the collection say it.
    takes : the JSON schema of its body.
    asks : parameters of the query, and what they mean.
    answers, status : media type and status of its answer.
    """

    method: str
    path: str
    view: Any
    handler: Handler
    largest: int | None = LARGEST_JSON
    takes: dict[str, Any] = field(default_factory=dict)
    asks: dict[str, str] = field(default_factory=dict)
    answers: str = JSON
    status: int = 200

    @property
    def takes_report(self) -> bool:
        return self.largest is None

    @property
    def needs_token(self) -> bool:
        return self.view is not View


ENDPOINTS: list[Endpoint] = []


def endpoint(method: str, path: str, **facts: Any) -> Callable[[Handler], Handler]:
    """Adds a function to the table. The first line of its docstring is the summary of the route."""

    def added(handler: Handler) -> Handler:
        _, view, _ = get_type_hints(handler).values()  # of the call, the view and the result
        ENDPOINTS.append(Endpoint(method, path, view, handler, **facts))
        return handler

    return added


def object_of(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """The schema of a JSON object with these properties and no others."""
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


def json_object(data: bytes) -> dict[str, Any]:
    """The JSON object of a request."""
    try:
        found = read_json(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise RefusalError("malformed", "the body must be a JSON object")
    return found


def time_of(text: Any) -> float:
    """Seconds since 1970."""
    fits = isinstance(text, str | int | float) and not isinstance(text, bool) and len(str(text)) <= 60
    with refused_as("malformed"):
        return from_text(str(text) if fits else "")


# Reports. They come first, since routes are tried in order, and most requests are reports.
@endpoint(
    "POST",
    f"{COLLECTION}/reports/{{report}}",
    largest=None,
    takes=REPORT,
    asks={"time": "when the rows were seen: seconds since 1970, or an ISO date; now, if it is not given"},
    status=201,
)
def add_report(call: Call, view: SenderView) -> object:
    """A sketch file with an id that its sender chose; answered when it is on disk. The same again changes nothing."""
    return view.submit(call.name("report"), call.body, call.time("time", None))


@endpoint("POST", f"{COLLECTION}/parts/{{report}}", largest=None, takes=REPORT, status=201)
def add_part(call: Call, view: SenderView) -> object:
    """A secret share of a report, with the id it was encrypted for; answered when it is on disk."""
    return view.submit_part(call.name("report"), call.body)


@endpoint("GET", f"{COLLECTION}/reports/{{report}}")
def show_report(call: Call, view: SenderView) -> object:
    """What was answered to a report of the sender that asks."""
    return view.report(call.name("report"))


# Epochs and windows
@endpoint("GET", f"{COLLECTION}/passed-on")
def show_passed_on(_call: Call, view: ExactView) -> object:
    """The outcome of forwarding each closed epoch to the collector that this one reports to."""
    return {"epochs": view.read(forwarding.forwarded)}


@endpoint("GET", f"{COLLECTION}/epochs", asks=TIMES)
def list_epochs(call: Call, view: ExactView) -> object:
    """Epochs, in order: how much each has, and whether its sum is shown."""
    return {"epochs": [epoch.to_json(view.collection) for epoch in view.read(epochs_between, *call.bounds())]}


@endpoint("POST", f"{COLLECTION}/epochs/{{start}}/seal")
def seal_epoch(call: Call, view: AdminView) -> object:
    """Closes an epoch that is over, before its time."""
    start = int(time_of(call.path["start"]))
    return view.store.close_epoch(view.actor, view.collection, start).to_json(view.collection)


@endpoint("POST", f"{COLLECTION}/epochs/{{start}}/open")
def open_epoch(call: Call, view: AdminView) -> object:
    """Opens the total of an epoch that is over, with the second collector; once."""
    start, store, collection = int(time_of(call.path["start"])), view.store, view.collection
    found = secure_aggregation.open_epoch(store, collection, start, secure_aggregation.second_of(store, collection))
    return {"epoch": in_iso(start), "records": max(0, int(found.count))}


@endpoint("GET", f"{COLLECTION}/window", asks=TIMES)
def show_window(call: Call, view: ExactView) -> object:
    """Which epochs lie in a window, and what their sum has."""
    return view.read(window, *call.bounds()).to_json(view.collection)


@endpoint("GET", f"{COLLECTION}/window/sketch", asks=TIMES, answers=SKETCH)
def window_sketch(call: Call, view: ExactView) -> object:
    """The sketch of all records of a window: the sum of its epochs."""
    return required_sketch(view.read(window, *call.bounds())).to_bytes()


@endpoint("GET", f"{COLLECTION}/drift")
def show_drift(_call: Call, view: ExactView) -> object:
    """How each closed epoch compares with those before it, the newest first."""
    return {"drift": view.read(drift.drifts)}


@endpoint("GET", f"{COLLECTION}/alarms")
def show_alarms(_call: Call, view: ExactView) -> object:
    """Alarms, the newest first."""
    return {"alarms": view.read(drift.alarms)}


# Releases
@endpoint("GET", f"{COLLECTION}/releases")
def list_releases(_call: Call, view: ReleasedView) -> object:
    """Private releases, in order."""
    return {"releases": view.releases()}


@endpoint(
    "POST",
    f"{COLLECTION}/releases",
    takes=object_of(
        {"from": NAME, "to": NAME, "epsilon": {"type": "number", "exclusiveMinimum": 0}},
        {"delta": {"type": "number", "minimum": 0}, "assume_public_design": {"type": "boolean"}},
    ),
    status=201,
)
def add_release(call: Call, view: AdminView) -> object:
    """A private release of a window that is over, of all that was reported in it, booked in the collection's budget."""
    form = call.form()
    start, finish = (int(time_of(form.get(name))) for name in ("from", "to"))
    return releases.release(
        view.store,
        view.actor,
        view.collection,
        start,
        finish,
        epsilon=form.get("epsilon"),
        delta=form.get("delta", 0.0),
        assume_public_design=form.get("assume_public_design", False),
    )


@endpoint("GET", f"{COLLECTION}/releases/{{release}}/sketch", answers=SKETCH)
def release_sketch(call: Call, view: ReleasedView) -> object:
    """The file of a release."""
    text = call.path["release"]
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise RefusalError("not found", "there is no such release in the collection")
    return view.release_file(int(text))


# Collections
@endpoint("GET", f"{ROOT}/collections")
def list_collections(_call: Call, view: TokenView) -> object:
    """The collections that the token is for."""
    return {"collections": view.collections()}


@endpoint(
    "POST",
    f"{ROOT}/collections",
    largest=LARGEST_DESIGN,
    takes=object_of(
        {"name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"}, "design": OBJECT},
        {"title": NAME, "rules": OBJECT},
    ),
    status=201,
)
def create_collection(call: Call, view: ServerAdminView) -> object:
    """A new collection: a name, a design (the JSON of a design file), and rules."""
    form = call.form()
    name, design = form.get("name"), json.dumps(form.get("design")).encode()
    made = view.store.create_collection(view.actor, name, form.get("title", name), design, form.get("rules", {}))
    return made.to_json(administers=True)


@endpoint("GET", COLLECTION)
def show_collection(_call: Call, view: DesignView) -> object:
    """A collection and its rules."""
    return view.collection.to_json(administers=view.administers)


@endpoint("PATCH", COLLECTION, takes=object_of({"rules": OBJECT}))
def change_collection(call: Call, view: AdminView) -> object:
    """Changes rules."""
    changed = view.store.change_rules(view.actor, view.collection, call.form().get("rules"))
    return changed.to_json(administers=True)


@endpoint("GET", f"{COLLECTION}/design")
def show_design(_call: Call, view: DesignView) -> object:
    """The design file: sketch with it."""
    return view.collection.design


@endpoint("GET", f"{COLLECTION}/refusals")
def show_refusals(_call: Call, view: ExactView) -> object:
    """What was refused, by sender and kind."""
    return {"refusals": view.read(senders.refusals)}


# Senders and tokens
@endpoint("GET", f"{COLLECTION}/senders")
def list_senders(_call: Call, view: ExactView) -> object:
    """All senders, how much each has sent, and which are silent."""
    return {"senders": view.read(senders.senders, view.now())}


@endpoint(
    "POST",
    f"{COLLECTION}/senders",
    takes=object_of(
        {"names": {"type": "array", "items": NAME, "minItems": 1, "maxItems": 1000}}, {"expires_days": DAYS}
    ),
    status=201,
)
def add_senders(call: Call, view: AdminView) -> object:
    """New senders, each with a token; this answer alone has the tokens."""
    names, days = map(call.form().get, ("names", "expires_days"))
    return {"senders": view.store.write(view.actor, senders.add_senders, view.collection, names, days)}


@endpoint("POST", f"{COLLECTION}/senders/{{sender}}/revoke", takes=object_of({}, {"subtract": {"type": "boolean"}}))
def revoke_sender(call: Call, view: AdminView) -> object:
    """Ends a sender and its tokens; with subtract, takes out exactly what it sent."""
    subtract, name = call.form().get("subtract", False), call.name("sender")
    if not isinstance(subtract, bool):
        raise RefusalError("malformed", "subtract must be true or false")
    return view.store.revoke_sender(view.actor, view.collection, name, subtract=subtract)


@endpoint("GET", f"{COLLECTION}/tokens")
def list_tokens(_call: Call, view: AdminView) -> object:
    """The tokens of a collection, without their secrets."""
    return {"tokens": view.read(senders.tokens)}


@endpoint(
    "POST",
    f"{COLLECTION}/tokens",
    takes=object_of(
        {"scope": {"enum": [SEND, READ, ADMIN, FIRST]}}, {"sender": NAME, "note": NAME, "expires_days": DAYS}
    ),
    status=201,
)
def add_token(call: Call, view: AdminView) -> object:
    """A new token: for a sender, to read or administer the collection, or for the first of two collectors."""
    return _new_token(call, view, view.collection)


@endpoint(
    "POST",
    f"{ROOT}/tokens",
    takes=object_of({"scope": {"enum": [READ, ADMIN]}}, {"note": NAME, "expires_days": DAYS}),
    status=201,
)
def add_server_token(call: Call, view: ServerAdminView) -> object:
    """A new token for the whole collector."""
    return _new_token(call, view, None)


def _new_token(call: Call, view: AdminView | ServerAdminView, collection: Collection | None) -> object:
    form = {"scope": None, "sender": None, "note": "", "expires_days": None, **call.form()}
    return view.store.write(view.actor, senders.add_named_token, collection, *form.values())


@endpoint("POST", f"{COLLECTION}/tokens/{{token}}/revoke")
def revoke_token(call: Call, view: AdminView) -> object:
    """Ends a token now."""
    view.store.revoke_token(view.actor, view.collection, call.path["token"])
    return {"revoked": call.path["token"]}


@endpoint("POST", f"{ROOT}/tokens/{{token}}/revoke")
def revoke_server_token(call: Call, view: ServerAdminView) -> object:
    """Ends a token that is for the whole collector."""
    view.store.revoke_token(view.actor, None, call.path["token"])
    return {"revoked": call.path["token"]}


@endpoint(
    "POST",
    f"{ROOT}/token/rotate",
    takes=object_of({}, {"overlap_seconds": {"type": "integer", "minimum": 0, "maximum": 2592000}}),
    status=201,
)
def rotate_own_token(call: Call, view: TokenView) -> object:
    """A new token in place of the one that asks; the old one works for a while longer."""
    return view.rotate(call.form().get("overlap_seconds", 3600))


# Secure aggregation: what the second of two collectors answers
@endpoint("GET", f"{COLLECTION}/second-key")
def second_key(_call: Call, view: DesignView) -> object:
    """The public key that seeds for this collector are encrypted for; take it from here, never from the first one."""
    return {"key": view.second_key()}


@endpoint(
    "POST",
    f"{COLLECTION}/seeds",
    largest=LARGEST_SEEDS,
    takes=object_of({"seeds": {"type": "array"}}),
)
def add_seeds(call: Call, view: FirstCollectorView) -> object:
    """Encrypted seeds, which the first collector forwards; those that are refused, with the reason."""
    with refused_as("malformed", "these are no encrypted seeds: ", (ValueError, TypeError, KeyError)):
        seeds = [SealedSeed.from_json(seed) for seed in call.form().get("seeds", [])]
    return {"refused": view.second_collector().receive(seeds)}


@endpoint(
    "POST",
    f"{COLLECTION}/totals",
    largest=LARGEST_QUESTION,
    takes=object_of({"collection": NAME, "epoch": NAME, "opening": NAME, "reports": {"type": "array", "items": NAME}}),
)
def tell_total(call: Call, view: FirstCollectorView) -> object:
    """The total of the shares of an epoch's reports; once for each epoch, and never below the minimum."""
    with refused_as("malformed", errors=(ValueError, TypeError)):
        question = Question.from_json(call.form())
    if question.collection != view.collection.name:
        raise RefusalError("malformed", "the question is about another collection")
    with as_refusals():
        return view.second_collector().answer(question).to_json()


# The collector itself
@endpoint("GET", f"{ROOT}/health")
def health(_call: Call, view: View) -> object:
    """Whether the collector can read its database."""
    view.check_health()
    return {"status": "ok"}


@endpoint("GET", "/metrics", answers=TEXT)
def metrics(call: Call, view: ServerView) -> object:
    """Numbers for Prometheus."""
    call.metrics.waiting.set(view.waiting())
    body, media = call.metrics.text()
    return Answer(body, media=media)


@endpoint("GET", f"{ROOT}/openapi.json")
def openapi(_call: Call, _view: View) -> object:
    """This document."""
    return openapi_document()


@endpoint(
    "GET",
    f"{ROOT}/audit",
    asks={"after": "number of the last entry that you have", "most": "the most entries to return"},
)
def audit_log(call: Call, view: ServerAdminView) -> object:
    """The audit log, in order."""
    after, most = call.whole("after", 0, 2**53, 0), call.whole("most", 1, 1000, 1000)
    query = "SELECT id, entry, digest FROM audit WHERE id > ? ORDER BY id LIMIT ?"
    with view.store.reading() as transaction:
        rows = transaction.all(query, (after, most))
    return {"entries": [{"number": number, **json.loads(entry), "digest": digest} for number, entry, digest in rows]}


@cache
def openapi_document() -> dict[str, Any]:
    """The OpenAPI document of all routes."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    refusal = {
        "type": "object",
        "properties": {"error": {"type": "string"}, "kind": {"type": "string"}},
        "required": ["error", "kind"],
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "sketchlearn collector", "version": __version__, "license": {"name": "MIT"}},
        "paths": paths,
        "components": {
            "schemas": {"Refusal": refusal},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    text, takes = {"type": "string"}, endpoint.takes
    summary = (endpoint.handler.__doc__ or "").strip().splitlines()[0]
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": text} for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    in_query = [
        {"name": name, "in": "query", "required": False, "description": words, "schema": text}
        for name, words in endpoint.asks.items()
    ]
    answer = {"type": "object"} if endpoint.answers == JSON else text
    refused = {
        "description": "refused, with one sentence",
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Refusal"}}},
    }
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "summary": summary,
        "parameters": in_path + in_query,
        "responses": {
            str(endpoint.status): {"description": summary, "content": {endpoint.answers: {"schema": answer}}},
            **{str(status): refused for status in sorted(set(STATUS.values()))},
        },
        "security": [{"token": []}] if endpoint.needs_token else [],
    }
    if takes:
        media = SKETCH if endpoint.takes_report else JSON
        required = endpoint.takes_report or bool(takes["required"])
        operation["requestBody"] = {"required": required, "content": {media: {"schema": takes}}}
    return operation
