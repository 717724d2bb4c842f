"""The routes of the collector: reports, what they add up to, collections, senders, tokens and the collector itself."""

from __future__ import annotations

import json
from typing import Any

from sketchlearn.collector import secure_aggregation
from sketchlearn.collector.clients.secret_shares import SealedSeed
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.endpoints import (
    COLLECTION,
    ENDPOINTS,
    ROOT,
    SKETCH,
    TEXT,
    Answer,
    Call,
    endpoint,
    object_of,
    openapi_document,
    time_of,
)
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.epochs import required_sketch
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.secure_aggregation import Question, RefusedError
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

__all__ = ["ENDPOINTS"]  # the table, which this module fills
LARGEST_DESIGN = 8_000_000  # bytes
LARGEST_SEEDS = 2_000_000  # bytes: 500 seeds and their headers
LARGEST_QUESTION = 64_000_000  # bytes
REPORT: dict[str, Any] = {"type": "string", "format": "binary"}
NAME: dict[str, Any] = {"type": "string", "maxLength": 2000}
DAYS: dict[str, Any] = {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 36600}
OBJECT: dict[str, Any] = {"type": "object"}
TIMES = {"from": "start of the window: seconds since 1970, or an ISO date", "to": "its end, not included"}


# Reports. They come first, since routes are tried in order, and most requests are reports.
@endpoint(
    "POST",
    f"{COLLECTION}/reports/{{report}}",
    SenderView,
    largest=None,
    takes=REPORT,
    asks={"time": "when the rows were seen: seconds since 1970, or an ISO date; now, if it is not given"},
    status=201,
)
def add_report(call: Call, view: SenderView) -> object:
    """A sketch file with an id that its sender chose; answered when it is on disk. The same again changes nothing."""
    return view.submit(call.name("report"), call.body, call.time("time", None))


@endpoint("POST", f"{COLLECTION}/parts/{{report}}", SenderView, largest=None, takes=REPORT, status=201)
def add_part(call: Call, view: SenderView) -> object:
    """A secret share of a report, with the id it was encrypted for; answered when it is on disk."""
    return view.submit_part(call.name("report"), call.body)


@endpoint("GET", f"{COLLECTION}/reports/{{report}}", SenderView)
def show_report(call: Call, view: SenderView) -> object:
    """What was answered to a report of the sender that asks."""
    return view.report(call.name("report"))


# Epochs and windows
@endpoint("GET", f"{COLLECTION}/passed-on", ExactView)
def show_passed_on(_call: Call, view: ExactView) -> object:
    """The outcome of forwarding each closed epoch to the collector that this one reports to."""
    return {"epochs": view.passed_on()}


@endpoint("GET", f"{COLLECTION}/epochs", ExactView, asks=TIMES)
def list_epochs(call: Call, view: ExactView) -> object:
    """Epochs, in order: how much each has, and whether its sum is shown."""
    return {"epochs": [epoch.to_json(view.collection) for epoch in view.epochs(*call.bounds())]}


@endpoint("POST", f"{COLLECTION}/epochs/{{start}}/seal", AdminView)
def seal_epoch(call: Call, view: AdminView) -> object:
    """Closes an epoch that is over, before its time."""
    start = int(time_of(call.path["start"]))
    return view.store.close_epoch(view.actor, view.collection, start).to_json(view.collection)


@endpoint("POST", f"{COLLECTION}/epochs/{{start}}/open", AdminView)
def open_epoch(call: Call, view: AdminView) -> object:
    """Opens the total of an epoch that is over, with the second collector; once."""
    start, store, collection = int(time_of(call.path["start"])), view.store, view.collection
    found = secure_aggregation.open_epoch(store, collection, start, secure_aggregation.second_of(store, collection))
    return {"epoch": in_iso(start), "records": max(0, int(found.count))}


@endpoint("GET", f"{COLLECTION}/window", ExactView, asks=TIMES)
def show_window(call: Call, view: ExactView) -> object:
    """Which epochs lie in a window, and what their sum has."""
    return view.window(*call.bounds()).to_json(view.collection)


@endpoint("GET", f"{COLLECTION}/window/sketch", ExactView, asks=TIMES, answers=SKETCH)
def window_sketch(call: Call, view: ExactView) -> object:
    """The sketch of all records of a window: the sum of its epochs."""
    return required_sketch(view.window(*call.bounds())).to_bytes()


@endpoint("GET", f"{COLLECTION}/drift", ExactView)
def show_drift(_call: Call, view: ExactView) -> object:
    """How each closed epoch compares with those before it, the newest first."""
    return {"drift": view.drifts()}


@endpoint("GET", f"{COLLECTION}/alarms", ExactView)
def show_alarms(_call: Call, view: ExactView) -> object:
    """Alarms, the newest first."""
    return {"alarms": view.alarms()}


# Releases
@endpoint("GET", f"{COLLECTION}/releases", ReleasedView)
def list_releases(_call: Call, view: ReleasedView) -> object:
    """Private releases, in order."""
    return {"releases": view.releases()}


@endpoint(
    "POST",
    f"{COLLECTION}/releases",
    AdminView,
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
    return view.store.release(
        view.actor,
        view.collection,
        start,
        finish,
        epsilon=form.get("epsilon"),
        delta=form.get("delta", 0.0),
        assume_public_design=form.get("assume_public_design", False),
    )


@endpoint("GET", f"{COLLECTION}/releases/{{release}}/sketch", ReleasedView, answers=SKETCH)
def release_sketch(call: Call, view: ReleasedView) -> object:
    """The file of a release."""
    text = call.path["release"]
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise RefusalError("not found", "there is no such release in the collection")
    return view.release_file(int(text))


# Collections
@endpoint("GET", f"{ROOT}/collections", TokenView)
def list_collections(_call: Call, view: TokenView) -> object:
    """The collections that the token is for."""
    return {"collections": view.collections()}


@endpoint(
    "POST",
    f"{ROOT}/collections",
    ServerAdminView,
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


@endpoint("GET", COLLECTION, DesignView)
def show_collection(_call: Call, view: DesignView) -> object:
    """A collection and its rules."""
    return view.description()


@endpoint("PATCH", COLLECTION, AdminView, takes=object_of({"rules": OBJECT}))
def change_collection(call: Call, view: AdminView) -> object:
    """Changes rules."""
    changed = view.store.change_rules(view.actor, view.collection, call.form().get("rules"))
    return changed.to_json(administers=True)


@endpoint("GET", f"{COLLECTION}/design", DesignView)
def show_design(_call: Call, view: DesignView) -> object:
    """The design file: sketch with it."""
    return view.collection.design


@endpoint("GET", f"{COLLECTION}/refusals", ExactView)
def show_refusals(_call: Call, view: ExactView) -> object:
    """What was refused, by sender and kind."""
    return {"refusals": view.refusals()}


# Senders and tokens
@endpoint("GET", f"{COLLECTION}/senders", ExactView)
def list_senders(_call: Call, view: ExactView) -> object:
    """All senders, how much each has sent, and which are silent."""
    return {"senders": view.senders()}


@endpoint(
    "POST",
    f"{COLLECTION}/senders",
    AdminView,
    takes=object_of(
        {"names": {"type": "array", "items": NAME, "minItems": 1, "maxItems": 1000}}, {"expires_days": DAYS}
    ),
    status=201,
)
def add_senders(call: Call, view: AdminView) -> object:
    """New senders, each with a token; this answer alone has the tokens."""
    form = call.form()
    made = view.store.add_senders(view.actor, view.collection, form.get("names"), form.get("expires_days"))
    return {"senders": made}


@endpoint(
    "POST", f"{COLLECTION}/senders/{{sender}}/revoke", AdminView, takes=object_of({}, {"subtract": {"type": "boolean"}})
)
def revoke_sender(call: Call, view: AdminView) -> object:
    """Ends a sender and its tokens; with subtract, takes out exactly what it sent."""
    subtract, name = call.form().get("subtract", False), call.name("sender")
    if not isinstance(subtract, bool):
        raise RefusalError("malformed", "subtract must be true or false")
    return view.store.revoke_sender(view.actor, view.collection, name, subtract=subtract)


@endpoint("GET", f"{COLLECTION}/tokens", AdminView)
def list_tokens(_call: Call, view: AdminView) -> object:
    """The tokens of a collection, without their secrets."""
    return {"tokens": view.store.tokens(view.collection)}


@endpoint(
    "POST",
    f"{COLLECTION}/tokens",
    AdminView,
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
    ServerAdminView,
    takes=object_of({"scope": {"enum": [READ, ADMIN]}}, {"note": NAME, "expires_days": DAYS}),
    status=201,
)
def add_server_token(call: Call, view: ServerAdminView) -> object:
    """A new token for the whole collector."""
    return _new_token(call, view, None)


def _new_token(call: Call, view: AdminView | ServerAdminView, collection: Collection | None) -> object:
    form = call.form()
    scope, sender, days = (form.get(name) for name in ("scope", "sender", "expires_days"))
    return view.store.add_token(view.actor, collection, scope, sender, form.get("note", ""), days)


@endpoint("POST", f"{COLLECTION}/tokens/{{token}}/revoke", AdminView)
def revoke_token(call: Call, view: AdminView) -> object:
    """Ends a token now."""
    view.store.revoke_token(view.actor, view.collection, call.path["token"])
    return {"revoked": call.path["token"]}


@endpoint("POST", f"{ROOT}/tokens/{{token}}/revoke", ServerAdminView)
def revoke_server_token(call: Call, view: ServerAdminView) -> object:
    """Ends a token that is for the whole collector."""
    view.store.revoke_token(view.actor, None, call.path["token"])
    return {"revoked": call.path["token"]}


@endpoint(
    "POST",
    f"{ROOT}/token/rotate",
    TokenView,
    takes=object_of({}, {"overlap_seconds": {"type": "integer", "minimum": 0, "maximum": 2592000}}),
    status=201,
)
def rotate_own_token(call: Call, view: TokenView) -> object:
    """A new token in place of the one that asks; the old one works for a while longer."""
    return view.rotate(call.form().get("overlap_seconds", 3600))


# Secure aggregation: what the second of two collectors answers
@endpoint("GET", f"{COLLECTION}/second-key", DesignView)
def second_key(_call: Call, view: DesignView) -> object:
    """The public key that seeds for this collector are encrypted for; take it from here, never from the first one."""
    return {"key": view.second_key()}


@endpoint(
    "POST",
    f"{COLLECTION}/seeds",
    FirstCollectorView,
    largest=LARGEST_SEEDS,
    takes=object_of({"seeds": {"type": "array"}}),
)
def add_seeds(call: Call, view: FirstCollectorView) -> object:
    """Encrypted seeds, which the first collector forwards; those that are refused, with the reason."""
    try:
        seeds = [SealedSeed.from_json(seed) for seed in call.form().get("seeds", [])]
    except (ValueError, TypeError, KeyError) as error:
        raise RefusalError("malformed", f"these are no encrypted seeds: {error}") from None
    return {"refused": view.second_collector().receive(seeds)}


@endpoint(
    "POST",
    f"{COLLECTION}/totals",
    FirstCollectorView,
    largest=LARGEST_QUESTION,
    takes=object_of({"collection": NAME, "epoch": NAME, "opening": NAME, "reports": {"type": "array", "items": NAME}}),
)
def tell_total(call: Call, view: FirstCollectorView) -> object:
    """The total of the shares of an epoch's reports; once for each epoch, and never below the minimum."""
    try:
        question = Question.from_json(call.form())
    except (ValueError, TypeError) as error:
        raise RefusalError("malformed", str(error)) from None
    if question.collection != view.collection.name:
        raise RefusalError("malformed", "the question is about another collection")
    try:
        return view.second_collector().answer(question).to_json()
    except RefusedError as error:
        raise RefusalError("too few" if "needs" in str(error) else "conflict", str(error)) from None


# The collector itself
@endpoint("GET", f"{ROOT}/health", View)
def health(_call: Call, view: View) -> object:
    """Whether the collector can read its database."""
    view.check_health()
    return {"status": "ok"}


@endpoint("GET", "/metrics", ServerView, answers=TEXT)
def metrics(call: Call, view: ServerView) -> object:
    """Numbers for Prometheus."""
    call.metrics.waiting.set(view.waiting())
    body, media = call.metrics.text()
    return Answer(body, media=media)


@endpoint("GET", f"{ROOT}/openapi.json", View)
def openapi(_call: Call, _view: View) -> object:
    """This document."""
    return openapi_document()


@endpoint(
    "GET",
    f"{ROOT}/audit",
    ServerAdminView,
    asks={"after": "number of the last entry that is known", "most": "at most so many"},
)
def audit_log(call: Call, view: ServerAdminView) -> object:
    """The audit log, in order."""
    after, most = call.whole("after", 0, 2**53, 0), call.whole("most", 1, 1000, 1000)
    return {"entries": view.store.audit(after, most)}
