"""The routes: a table of paths, what each needs and answers. The application and its OpenAPI document follow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sketchlearn.collector import drift, releases
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.epoch_times import from_text
from sketchlearn.collector.names import checked_name
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.tokens import ADMIN, READ, SEND, Token
from sketchlearn.collector.windows import required_sketch

if TYPE_CHECKING:
    from sketchlearn.collector.application import Call

ROOT = "/v1"
SKETCH, DESIGN, JSON, TEXT = "application/octet-stream", "application/json", "application/json", "text/plain"
FOR_EVER = 4_000_000_000  # seconds since 1970: the year 2096
LARGEST_JSON = 1_000_000
LARGEST_DESIGN = 8_000_000


@dataclass(frozen=True)
class Answer:
    """What a route answers: a JSON value, or bytes of another media type."""

    body: Any
    status: int = 200
    media: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


Handler = Callable[["Call"], Awaitable[Answer]]


@dataclass(frozen=True)
class Endpoint:
    """One route. `scope` None means that no token is needed; `largest` bounds the body, if it takes one."""

    method: str
    path: str
    handler: Handler
    summary: str
    scope: str | None = ADMIN
    largest: int = 0
    takes: dict[str, Any] | None = None  # the schema of its body
    takes_media: str = JSON
    asks: dict[str, str] = field(default_factory=dict)  # parameters of the query, in words
    answers: str = JSON
    status: int = 200


ENDPOINTS: list[Endpoint] = []


def endpoint(method: str, path: str, **facts: Any) -> Callable[[Handler], Handler]:
    """Puts a function into the table; the first line of its docstring is the route's summary."""

    def added(handler: Handler) -> Handler:
        summary = (handler.__doc__ or "").strip().splitlines()[0]
        ENDPOINTS.append(Endpoint(method, path, handler, summary, **facts))
        return handler

    return added


def _object(required: tuple[str, ...], **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_TEXT: dict[str, Any] = {"type": "string", "maxLength": 2000}
_DAYS: dict[str, Any] = {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 36600}
_TIMES = {"from": "start of the window: seconds since 1970, or an ISO date", "to": "its end, not included"}


# The collector itself


@endpoint("GET", f"{ROOT}/health", scope=None)
async def health(call: Call) -> Answer:
    """Whether the collector can read its database."""

    def read() -> None:
        with call.store.reading() as transaction:
            transaction.one("SELECT 1")

    await call.thread(read)
    return Answer({"status": "ok"})


@endpoint("GET", "/metrics", scope=READ, answers=TEXT)
async def metrics(call: Call) -> Answer:
    """Numbers for Prometheus."""
    call.store.require(call.required_token, READ)
    call.metrics.waiting.set(call.store.writer.waiting)
    body, media = call.metrics.text()
    return Answer(body, media=media)


@endpoint("GET", f"{ROOT}/openapi.json", scope=None)
async def openapi(call: Call) -> Answer:
    """This document."""
    return Answer(call.document)


@endpoint("GET", f"{ROOT}/audit", asks={"after": "number of the last entry that is known", "most": "at most so many"})
async def audit_log(call: Call) -> Answer:
    """The audit log, in order."""
    call.store.require(call.required_token, ADMIN)
    after, most = call.whole("after", 0, 2**53, 0), call.whole("most", 1, 1000, 1000)
    return Answer({"entries": await call.thread(lambda: call.store.audit(after, most))})


@endpoint(
    "POST",
    f"{ROOT}/tokens",
    largest=LARGEST_JSON,
    takes=_object(("scope",), scope={"enum": [READ, ADMIN]}, note=_TEXT, expires_days=_DAYS),
    status=201,
)
async def add_server_token(call: Call) -> Answer:
    """A new token for the whole collector."""
    token = call.required_token
    call.store.require(token, ADMIN)
    form = call.form("scope", "note", "expires_days")
    made = await call.thread(
        lambda: call.store.add_token(
            token.id, None, form.get("scope"), None, form.get("note", ""), form.get("expires_days")
        )
    )
    return Answer(made, 201)


@endpoint("POST", f"{ROOT}/tokens/{{token}}/revoke")
async def revoke_server_token(call: Call) -> Answer:
    """Ends a token that is for the whole collector."""
    token = call.required_token
    call.store.require(token, ADMIN)
    await call.thread(lambda: call.store.revoke_token(token.id, None, call.path["token"]))
    return Answer({"revoked": call.path["token"]})


@endpoint(
    "POST",
    f"{ROOT}/token/rotate",
    scope=SEND,
    largest=LARGEST_JSON,
    takes=_object((), overlap_seconds={"type": "integer", "minimum": 0, "maximum": 2592000}),
    status=201,
)
async def rotate_own_token(call: Call) -> Answer:
    """A new token in place of the one that asks; the old one works for a while longer."""
    token, form = call.required_token, call.form("overlap_seconds", empty=True)
    collection = next((c for c in call.store.all_collections() if c.id == token.collection), None)
    made = await call.thread(
        lambda: call.store.rotate_token(token.id, collection, token.id, form.get("overlap_seconds", 3600))
    )
    return Answer(made, 201)


# Collections


@endpoint("GET", f"{ROOT}/collections", scope=SEND)
async def list_collections(call: Call) -> Answer:
    """The collections that the token is for."""
    return Answer({"collections": [found.to_json() for found in call.store.visible(call.required_token)]})


@endpoint(
    "POST",
    f"{ROOT}/collections",
    largest=LARGEST_DESIGN,
    takes=_object(
        ("name", "design"),
        name={"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"},
        title=_TEXT,
        design={"type": "object"},
        rules={"type": "object"},
    ),
    status=201,
)
async def create_collection(call: Call) -> Answer:
    """A new collection: a name, a design (the JSON of a design file), and rules."""
    import json

    token = call.required_token
    call.store.require(token, ADMIN)
    form = call.form("name", "title", "design", "rules")
    design = json.dumps(form.get("design")).encode()
    made = await call.thread(
        lambda: call.store.create_collection(
            token.id, form.get("name"), form.get("title", form.get("name")), design, form.get("rules", {})
        )
    )
    return Answer(made.to_json(), 201)


def _of_collection(method: str, path: str, **facts: Any) -> Callable[[Handler], Handler]:
    return endpoint(method, f"{ROOT}/collections/{{collection}}{path}", **facts)


@_of_collection("GET", "", scope=SEND)
async def show_collection(call: Call) -> Answer:
    """A collection and its rules."""
    return Answer(call.collection().to_json())


@_of_collection("PATCH", "", largest=LARGEST_JSON, takes=_object((), rules={"type": "object"}))
async def change_collection(call: Call) -> Answer:
    """Changes rules."""
    collection, form = call.collection(), call.form("rules")
    token = call.required_token
    changed = await call.thread(lambda: call.store.change_rules(token.id, collection, form.get("rules")))
    return Answer(changed.to_json())


@_of_collection("GET", "/design", scope=SEND)
async def show_design(call: Call) -> Answer:
    """The design file: sketch with it."""
    return Answer(call.collection().design, media=DESIGN)


@_of_collection("GET", "/refusals", scope=READ)
async def show_refusals(call: Call) -> Answer:
    """What was refused, by sender and kind."""
    collection = call.collection()
    return Answer({"refusals": await call.thread(lambda: call.store.refusals(collection))})


# Senders and tokens


@_of_collection("GET", "/senders", scope=READ)
async def list_senders(call: Call) -> Answer:
    """All senders, how much each has sent, and which are silent."""
    collection = call.collection()
    return Answer({"senders": await call.thread(lambda: call.store.senders(collection))})


@_of_collection(
    "POST",
    "/senders",
    largest=LARGEST_JSON,
    takes=_object(
        ("names",), names={"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 1000}, expires_days=_DAYS
    ),
    status=201,
)
async def add_senders(call: Call) -> Answer:
    """New senders, each with a token; this answer alone has the tokens."""
    collection, token, form = call.collection(), call.required_token, call.form("names", "expires_days")
    made = await call.thread(
        lambda: call.store.add_senders(token.id, collection, form.get("names"), form.get("expires_days"))
    )
    return Answer({"senders": made}, 201)


@_of_collection(
    "POST", "/senders/{sender}/revoke", largest=LARGEST_JSON, takes=_object((), subtract={"type": "boolean"})
)
async def revoke_sender(call: Call) -> Answer:
    """Ends a sender and its tokens; with subtract, takes out exactly what it sent."""
    collection, token, form = call.collection(), call.required_token, call.form("subtract", empty=True)
    name, subtract = checked_name("sender", call.path["sender"]), form.get("subtract", False)
    if not isinstance(subtract, bool):
        raise RefusalError("malformed", "subtract must be true or false")
    return Answer(await call.thread(lambda: call.store.revoke_sender(token.id, collection, name, subtract=subtract)))


@_of_collection("GET", "/tokens")
async def list_tokens(call: Call) -> Answer:
    """The tokens of a collection, without their secrets."""
    collection = call.collection()
    return Answer({"tokens": await call.thread(lambda: call.store.tokens(collection))})


@_of_collection(
    "POST",
    "/tokens",
    largest=LARGEST_JSON,
    takes=_object(("scope",), scope={"enum": [SEND, READ, ADMIN]}, sender=_TEXT, note=_TEXT, expires_days=_DAYS),
    status=201,
)
async def add_token(call: Call) -> Answer:
    """A new token: for a sender, or to read or administer the collection."""
    collection, token = call.collection(), call.required_token
    form = call.form("scope", "sender", "note", "expires_days")
    made = await call.thread(
        lambda: call.store.add_token(
            token.id,
            collection,
            form.get("scope"),
            form.get("sender"),
            form.get("note", ""),
            form.get("expires_days"),
        )
    )
    return Answer(made, 201)


@_of_collection("POST", "/tokens/{token}/revoke")
async def revoke_token(call: Call) -> Answer:
    """Ends a token now."""
    collection, token = call.collection(), call.required_token
    await call.thread(lambda: call.store.revoke_token(token.id, collection, call.path["token"]))
    return Answer({"revoked": call.path["token"]})


# Reports


@_of_collection(
    "POST",
    "/reports/{report}",
    scope=SEND,
    largest=-1,  # the collection's rules say
    takes={"type": "string", "format": "binary"},
    takes_media=SKETCH,
    asks={"time": "when the rows were seen: seconds since 1970, or an ISO date; now, if it is not given"},
    status=201,
)
async def add_report(call: Call) -> Answer:
    """A sketch file with an id that its sender chose; answered when it is on disk. The same again changes nothing."""
    collection, sender = call.collection(), call.sender()
    report = checked_name("report", call.path["report"])
    time = call.time("time", None)
    found = call.store.read_report(collection, sender, report, call.body, time)
    answer = await call.wait(call.store.submit_report(found))
    return Answer(answer, 201)


@_of_collection("GET", "/reports/{report}", scope=SEND)
async def show_report(call: Call) -> Answer:
    """What was answered to a report of the sender that asks."""
    collection, sender = call.collection(), call.sender()
    report = checked_name("report", call.path["report"])
    return Answer(await call.thread(lambda: call.store.report(collection, sender, report)))


# Epochs and windows


@_of_collection("GET", "/epochs", scope=READ, asks=_TIMES)
async def list_epochs(call: Call) -> Answer:
    """Epochs, in order: how much each has, and whether its sum is shown."""
    collection, (start, finish) = call.collection(), call.bounds()
    found = await call.thread(lambda: call.store.epochs(collection, start, finish))
    return Answer({"epochs": [epoch.to_json(collection) for epoch in found]})


@_of_collection("POST", "/epochs/{start}/seal")
async def seal_epoch(call: Call) -> Answer:
    """Closes an epoch that is over, before its time."""
    collection, token = call.collection(), call.required_token
    start = int(time_of(call.path["start"]))
    sealed = await call.thread(lambda: call.store.seal(token.id, collection, start))
    return Answer(sealed.to_json(collection))


@_of_collection("GET", "/window", scope=READ, asks=_TIMES)
async def show_window(call: Call) -> Answer:
    """Which epochs lie in a window, and what their sum has."""
    collection, (start, finish) = call.collection(), call.bounds()
    found = await call.thread(lambda: call.store.window(collection, start, finish))
    return Answer(found.to_json(collection))


@_of_collection("GET", "/window/sketch", scope=READ, asks=_TIMES, answers=SKETCH)
async def window_sketch(call: Call) -> Answer:
    """The sketch of all records of a window: the sum of its epochs."""
    collection, (start, finish) = call.collection(), call.bounds()
    _require_exact_reading(collection, call.required_token)

    def summed() -> bytes:
        return required_sketch(call.store.window(collection, start, finish)).to_bytes()

    return Answer(await call.thread(summed), media=SKETCH)


@_of_collection("GET", "/drift", scope=READ)
async def show_drift(call: Call) -> Answer:
    """How each sealed epoch compares with those before it, the newest first."""
    collection = call.collection()

    def read() -> list[dict[str, Any]]:
        with call.store.reading() as transaction:
            return drift.drifts(transaction, collection)

    return Answer({"drift": await call.thread(read)})


@_of_collection("GET", "/alarms", scope=READ)
async def show_alarms(call: Call) -> Answer:
    """Alarms, the newest first."""
    collection = call.collection()

    def read() -> list[dict[str, Any]]:
        with call.store.reading() as transaction:
            return drift.alarms(transaction, collection)

    return Answer({"alarms": await call.thread(read)})


# Releases


@_of_collection("GET", "/releases", scope=READ)
async def list_releases(call: Call) -> Answer:
    """Private releases, in order."""
    collection = call.collection()

    def read() -> list[dict[str, Any]]:
        with call.store.reading() as transaction:
            return releases.releases(transaction, collection)

    return Answer({"releases": await call.thread(read)})


@_of_collection(
    "POST",
    "/releases",
    largest=LARGEST_JSON,
    takes=_object(
        ("from", "to", "epsilon"),
        **{"from": _TEXT, "to": _TEXT},
        epsilon={"type": "number", "exclusiveMinimum": 0},
        delta={"type": "number", "minimum": 0},
        assume_public_design={"type": "boolean"},
    ),
    status=201,
)
async def add_release(call: Call) -> Answer:
    """A private release of a window whose epochs are sealed, booked in the collection's budget."""
    collection, token = call.collection(), call.required_token
    form = call.form("from", "to", "epsilon", "delta", "assume_public_design")
    start, finish = (int(time_of(form.get(name))) for name in ("from", "to"))
    options = {"epsilon": form.get("epsilon"), "delta": form.get("delta", 0.0)}
    options["assume_public_design"] = form.get("assume_public_design", False)
    made = await call.thread(lambda: call.store.release(token.id, collection, start, finish, **options))
    return Answer(made, 201)


@_of_collection("GET", "/releases/{release}/sketch", scope=READ, answers=SKETCH)
async def release_sketch(call: Call) -> Answer:
    """The file of a release."""
    collection, text = call.collection(), call.path["release"]
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise RefusalError("not found", "there is no such release in the collection")

    def read() -> bytes:
        with call.store.reading() as transaction:
            return releases.release_file(transaction, collection, int(text))

    return Answer(await call.thread(read), media=SKETCH)


def _require_exact_reading(collection: Collection, token: Token) -> None:
    if collection.rules.private_reading and token.scope != ADMIN:
        raise RefusalError("forbidden", "this collection gives private releases alone: see its releases")


def time_of(text: Any) -> float:
    try:
        if not isinstance(text, str | int | float) or isinstance(text, bool) or len(str(text)) > 60:
            raise ValueError("a time must be seconds since 1970, or a date such as 2026-01-31T12:00:00Z")
        return from_text(str(text))
    except ValueError as error:
        raise RefusalError("malformed", str(error)) from None
