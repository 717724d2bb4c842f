"""Routes of reports, and of what they add up to: epochs, windows, drift and releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sketchlearn.collector import drift, passing_on, releases
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.endpoint_table import (
    LARGEST_JSON,
    SKETCH,
    TEXT_SCHEMA,
    TIMES,
    Answer,
    object_of,
    of_collection,
    time_of,
)
from sketchlearn.collector.names import checked_name
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.tokens import ADMIN, READ, SEND, Token
from sketchlearn.collector.windows import required_sketch

if TYPE_CHECKING:
    from sketchlearn.collector.application import Call


# Reports


@of_collection(
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
    answer = await call.store.submit_report_from_loop(found)
    return Answer(answer, 201)


@of_collection("GET", "/reports/{report}", scope=SEND)
async def show_report(call: Call) -> Answer:
    """What was answered to a report of the sender that asks."""
    collection, sender = call.collection(), call.sender()
    report = checked_name("report", call.path["report"])
    return Answer(await call.thread(lambda: call.store.report(collection, sender, report)))


# Epochs and windows


@of_collection("GET", "/passed-on", scope=READ)
async def show_passed_on(call: Call) -> Answer:
    """What became of the sealed epochs at the collector that this one reports to."""
    collection = call.collection()
    return Answer({"epochs": await call.read(lambda transaction: passing_on.passed_on(transaction, collection))})


@of_collection("GET", "/epochs", scope=READ, asks=TIMES)
async def list_epochs(call: Call) -> Answer:
    """Epochs, in order: how much each has, and whether its sum is shown."""
    collection, (start, finish) = call.collection(), call.bounds()
    found = await call.thread(lambda: call.store.epochs(collection, start, finish))
    return Answer({"epochs": [epoch.to_json(collection) for epoch in found]})


@of_collection("POST", "/epochs/{start}/seal")
async def seal_epoch(call: Call) -> Answer:
    """Closes an epoch that is over, before its time."""
    collection, token = call.collection(), call.required_token
    start = int(time_of(call.path["start"]))
    sealed = await call.thread(lambda: call.store.seal(token.id, collection, start))
    return Answer(sealed.to_json(collection))


@of_collection("GET", "/window", scope=READ, asks=TIMES)
async def show_window(call: Call) -> Answer:
    """Which epochs lie in a window, and what their sum has."""
    collection, (start, finish) = call.collection(), call.bounds()
    found = await call.thread(lambda: call.store.window(collection, start, finish))
    return Answer(found.to_json(collection))


@of_collection("GET", "/window/sketch", scope=READ, asks=TIMES, answers=SKETCH)
async def window_sketch(call: Call) -> Answer:
    """The sketch of all records of a window: the sum of its epochs."""
    collection, (start, finish) = call.collection(), call.bounds()
    _require_exact_reading(collection, call.required_token)

    def summed() -> bytes:
        return required_sketch(call.store.window(collection, start, finish)).to_bytes()

    return Answer(await call.thread(summed), media=SKETCH)


@of_collection("GET", "/drift", scope=READ)
async def show_drift(call: Call) -> Answer:
    """How each sealed epoch compares with those before it, the newest first."""
    collection = call.collection()
    return Answer({"drift": await call.read(lambda transaction: drift.drifts(transaction, collection))})


@of_collection("GET", "/alarms", scope=READ)
async def show_alarms(call: Call) -> Answer:
    """Alarms, the newest first."""
    collection = call.collection()
    return Answer({"alarms": await call.read(lambda transaction: drift.alarms(transaction, collection))})


# Releases


@of_collection("GET", "/releases", scope=READ)
async def list_releases(call: Call) -> Answer:
    """Private releases, in order."""
    collection = call.collection()
    return Answer({"releases": await call.read(lambda transaction: releases.releases(transaction, collection))})


@of_collection(
    "POST",
    "/releases",
    largest=LARGEST_JSON,
    takes=object_of(
        ("from", "to", "epsilon"),
        **{"from": TEXT_SCHEMA, "to": TEXT_SCHEMA},
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


@of_collection("GET", "/releases/{release}/sketch", scope=READ, answers=SKETCH)
async def release_sketch(call: Call) -> Answer:
    """The file of a release."""
    collection, text = call.collection(), call.path["release"]
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise RefusalError("not found", "there is no such release in the collection")
    found = await call.read(lambda transaction: releases.release_file(transaction, collection, int(text)))
    return Answer(found, media=SKETCH)


def _require_exact_reading(collection: Collection, token: Token) -> None:
    if collection.rules.private_reading and token.scope != ADMIN:
        raise RefusalError("forbidden", "this collection gives private releases alone: see its releases")
