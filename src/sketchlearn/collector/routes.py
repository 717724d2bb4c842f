"""Routes of the collector itself, of collections, senders and tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sketchlearn.collector.endpoint_table import (
    DAYS_SCHEMA,
    DESIGN,
    LARGEST_DESIGN,
    LARGEST_JSON,
    ROOT,
    TEXT,
    TEXT_SCHEMA,
    Answer,
    endpoint,
    object_of,
    of_collection,
)
from sketchlearn.collector.names import checked_name
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.tokens import ADMIN, READ, SEND

if TYPE_CHECKING:
    from sketchlearn.collector.application import Call


# The collector itself


@endpoint("GET", f"{ROOT}/health", scope=None)
async def health(call: Call) -> Answer:
    """Whether the collector can read its database."""
    await call.read(lambda transaction: transaction.one("SELECT 1"))
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
    takes=object_of(("scope",), scope={"enum": [READ, ADMIN]}, note=TEXT_SCHEMA, expires_days=DAYS_SCHEMA),
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
    takes=object_of((), overlap_seconds={"type": "integer", "minimum": 0, "maximum": 2592000}),
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
    takes=object_of(
        ("name", "design"),
        name={"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"},
        title=TEXT_SCHEMA,
        design={"type": "object"},
        rules={"type": "object"},
    ),
    status=201,
)
async def create_collection(call: Call) -> Answer:
    """A new collection: a name, a design (the JSON of a design file), and rules."""
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


@of_collection("GET", "", scope=SEND)
async def show_collection(call: Call) -> Answer:
    """A collection and its rules."""
    return Answer(call.collection().to_json())


@of_collection("PATCH", "", largest=LARGEST_JSON, takes=object_of((), rules={"type": "object"}))
async def change_collection(call: Call) -> Answer:
    """Changes rules."""
    collection, form = call.collection(), call.form("rules")
    token = call.required_token
    changed = await call.thread(lambda: call.store.change_rules(token.id, collection, form.get("rules")))
    return Answer(changed.to_json())


@of_collection("GET", "/design", scope=SEND)
async def show_design(call: Call) -> Answer:
    """The design file: sketch with it."""
    return Answer(call.collection().design, media=DESIGN)


@of_collection("GET", "/refusals", scope=READ)
async def show_refusals(call: Call) -> Answer:
    """What was refused, by sender and kind."""
    collection = call.collection()
    return Answer({"refusals": await call.thread(lambda: call.store.refusals(collection))})


# Senders and tokens


@of_collection("GET", "/senders", scope=READ)
async def list_senders(call: Call) -> Answer:
    """All senders, how much each has sent, and which are silent."""
    collection = call.collection()
    return Answer({"senders": await call.thread(lambda: call.store.senders(collection))})


@of_collection(
    "POST",
    "/senders",
    largest=LARGEST_JSON,
    takes=object_of(
        ("names",),
        names={"type": "array", "items": TEXT_SCHEMA, "minItems": 1, "maxItems": 1000},
        expires_days=DAYS_SCHEMA,
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


@of_collection(
    "POST", "/senders/{sender}/revoke", largest=LARGEST_JSON, takes=object_of((), subtract={"type": "boolean"})
)
async def revoke_sender(call: Call) -> Answer:
    """Ends a sender and its tokens; with subtract, takes out exactly what it sent."""
    collection, token, form = call.collection(), call.required_token, call.form("subtract", empty=True)
    name, subtract = checked_name("sender", call.path["sender"]), form.get("subtract", False)
    if not isinstance(subtract, bool):
        raise RefusalError("malformed", "subtract must be true or false")
    return Answer(await call.thread(lambda: call.store.revoke_sender(token.id, collection, name, subtract=subtract)))


@of_collection("GET", "/tokens")
async def list_tokens(call: Call) -> Answer:
    """The tokens of a collection, without their secrets."""
    collection = call.collection()
    return Answer({"tokens": await call.thread(lambda: call.store.tokens(collection))})


@of_collection(
    "POST",
    "/tokens",
    largest=LARGEST_JSON,
    takes=object_of(
        ("scope",), scope={"enum": [SEND, READ, ADMIN]}, sender=TEXT_SCHEMA, note=TEXT_SCHEMA, expires_days=DAYS_SCHEMA
    ),
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


@of_collection("POST", "/tokens/{token}/revoke")
async def revoke_token(call: Call) -> Answer:
    """Ends a token now."""
    collection, token = call.collection(), call.required_token
    await call.thread(lambda: call.store.revoke_token(token.id, collection, call.path["token"]))
    return Answer({"revoked": call.path["token"]})
