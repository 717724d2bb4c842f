"""Routes of the collector itself, of collections, senders and tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sketchlearn.collector.endpoints import (
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
from sketchlearn.collector.refusals import RefusalError, checked_name
from sketchlearn.collector.senders import ADMIN, FIRST, READ, SEND
from sketchlearn.collector.views import AdminView, DesignView, ExactView, ServerAdminView, ServerView, TokenView, View

if TYPE_CHECKING:
    from sketchlearn.collector.application import Call


# The collector itself
@endpoint("GET", f"{ROOT}/health", View)
async def health(call: Call, view: View) -> Answer:
    """Whether the collector can read its database."""
    await call.thread(view.check_health)
    return Answer({"status": "ok"})


@endpoint("GET", "/metrics", ServerView, answers=TEXT)
async def metrics(call: Call, view: ServerView) -> Answer:
    """Numbers for Prometheus."""
    call.metrics.waiting.set(view.waiting())
    body, media = call.metrics.text()
    return Answer(body, media=media)


@endpoint("GET", f"{ROOT}/openapi.json", View)
async def openapi(call: Call, _view: View) -> Answer:
    """This document."""
    return Answer(call.document)


@endpoint(
    "GET",
    f"{ROOT}/audit",
    ServerAdminView,
    asks={"after": "number of the last entry that is known", "most": "at most so many"},
)
async def audit_log(call: Call, view: ServerAdminView) -> Answer:
    """The audit log, in order."""
    after, most = call.whole("after", 0, 2**53, 0), call.whole("most", 1, 1000, 1000)
    return Answer({"entries": await call.thread(lambda: view.store.audit(after, most))})


@endpoint(
    "POST",
    f"{ROOT}/tokens",
    ServerAdminView,
    largest=LARGEST_JSON,
    takes=object_of(("scope",), scope={"enum": [READ, ADMIN]}, note=TEXT_SCHEMA, expires_days=DAYS_SCHEMA),
    status=201,
)
async def add_server_token(call: Call, view: ServerAdminView) -> Answer:
    """A new token for the whole collector."""
    form = await call.form("scope", "note", "expires_days")
    made = await call.thread(
        lambda: view.store.add_token(
            view.actor, None, form.get("scope"), None, form.get("note", ""), form.get("expires_days")
        )
    )
    return Answer(made, 201)


@endpoint("POST", f"{ROOT}/tokens/{{token}}/revoke", ServerAdminView)
async def revoke_server_token(call: Call, view: ServerAdminView) -> Answer:
    """Ends a token that is for the whole collector."""
    await call.thread(lambda: view.store.revoke_token(view.actor, None, call.path["token"]))
    return Answer({"revoked": call.path["token"]})


@endpoint(
    "POST",
    f"{ROOT}/token/rotate",
    TokenView,
    largest=LARGEST_JSON,
    takes=object_of((), overlap_seconds={"type": "integer", "minimum": 0, "maximum": 2592000}),
    status=201,
)
async def rotate_own_token(call: Call, view: TokenView) -> Answer:
    """A new token in place of the one that asks; the old one works for a while longer."""
    form = await call.form("overlap_seconds", empty=True)
    return Answer(await call.thread(lambda: view.rotate(form.get("overlap_seconds", 3600))), 201)


# Collections
@endpoint("GET", f"{ROOT}/collections", TokenView)
async def list_collections(_call: Call, view: TokenView) -> Answer:
    """The collections that the token is for."""
    return Answer({"collections": view.collections()})


@endpoint(
    "POST",
    f"{ROOT}/collections",
    ServerAdminView,
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
async def create_collection(call: Call, view: ServerAdminView) -> Answer:
    """A new collection: a name, a design (the JSON of a design file), and rules."""
    form = await call.form("name", "title", "design", "rules")
    made = await call.thread(
        lambda: view.store.create_collection(
            view.actor,
            form.get("name"),
            form.get("title", form.get("name")),
            json.dumps(form.get("design")).encode(),
            form.get("rules", {}),
        )
    )
    return Answer(made.to_json(administers=True), 201)


@of_collection("GET", "", DesignView)
async def show_collection(_call: Call, view: DesignView) -> Answer:
    """A collection and its rules."""
    return Answer(view.description())


@of_collection("PATCH", "", AdminView, largest=LARGEST_JSON, takes=object_of((), rules={"type": "object"}))
async def change_collection(call: Call, view: AdminView) -> Answer:
    """Changes rules."""
    form = await call.form("rules")
    changed = await call.thread(lambda: view.store.change_rules(view.actor, view.collection, form.get("rules")))
    return Answer(changed.to_json(administers=True))


@of_collection("GET", "/design", DesignView)
async def show_design(_call: Call, view: DesignView) -> Answer:
    """The design file: sketch with it."""
    return Answer(view.collection.design, media=DESIGN)


@of_collection("GET", "/refusals", ExactView)
async def show_refusals(call: Call, view: ExactView) -> Answer:
    """What was refused, by sender and kind."""
    return Answer({"refusals": await call.thread(view.refusals)})


# Senders and tokens
@of_collection("GET", "/senders", ExactView)
async def list_senders(call: Call, view: ExactView) -> Answer:
    """All senders, how much each has sent, and which are silent."""
    return Answer({"senders": await call.thread(view.senders)})


@of_collection(
    "POST",
    "/senders",
    AdminView,
    largest=LARGEST_JSON,
    takes=object_of(
        ("names",),
        names={"type": "array", "items": TEXT_SCHEMA, "minItems": 1, "maxItems": 1000},
        expires_days=DAYS_SCHEMA,
    ),
    status=201,
)
async def add_senders(call: Call, view: AdminView) -> Answer:
    """New senders, each with a token; this answer alone has the tokens."""
    form = await call.form("names", "expires_days")
    made = await call.thread(
        lambda: view.store.add_senders(view.actor, view.collection, form.get("names"), form.get("expires_days"))
    )
    return Answer({"senders": made}, 201)


@of_collection(
    "POST",
    "/senders/{sender}/revoke",
    AdminView,
    largest=LARGEST_JSON,
    takes=object_of((), subtract={"type": "boolean"}),
)
async def revoke_sender(call: Call, view: AdminView) -> Answer:
    """Ends a sender and its tokens; with subtract, takes out exactly what it sent."""
    form = await call.form("subtract", empty=True)
    name, subtract = checked_name("sender", call.path["sender"]), form.get("subtract", False)
    if not isinstance(subtract, bool):
        raise RefusalError("malformed", "subtract must be true or false")
    revoked = await call.thread(lambda: view.store.revoke_sender(view.actor, view.collection, name, subtract=subtract))
    return Answer(revoked)


@of_collection("GET", "/tokens", AdminView)
async def list_tokens(call: Call, view: AdminView) -> Answer:
    """The tokens of a collection, without their secrets."""
    return Answer({"tokens": await call.thread(lambda: view.store.tokens(view.collection))})


@of_collection(
    "POST",
    "/tokens",
    AdminView,
    largest=LARGEST_JSON,
    takes=object_of(
        ("scope",),
        scope={"enum": [SEND, READ, ADMIN, FIRST]},
        sender=TEXT_SCHEMA,
        note=TEXT_SCHEMA,
        expires_days=DAYS_SCHEMA,
    ),
    status=201,
)
async def add_token(call: Call, view: AdminView) -> Answer:
    """A new token: for a sender, to read or administer the collection, or for the first of two collectors."""
    form = await call.form("scope", "sender", "note", "expires_days")
    made = await call.thread(
        lambda: view.store.add_token(
            view.actor,
            view.collection,
            form.get("scope"),
            form.get("sender"),
            form.get("note", ""),
            form.get("expires_days"),
        )
    )
    return Answer(made, 201)


@of_collection("POST", "/tokens/{token}/revoke", AdminView)
async def revoke_token(call: Call, view: AdminView) -> Answer:
    """Ends a token now."""
    await call.thread(lambda: view.store.revoke_token(view.actor, view.collection, call.path["token"]))
    return Answer({"revoked": call.path["token"]})
