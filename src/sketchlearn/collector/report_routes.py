"""Routes of reports, and of what they add up to: epochs, windows, drift and releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sketchlearn.collector.endpoints import (
    LARGEST_JSON,
    SKETCH,
    TEXT_SCHEMA,
    TIMES,
    Answer,
    object_of,
    of_collection,
    time_of,
)
from sketchlearn.collector.epochs import required_sketch
from sketchlearn.collector.refusals import RefusalError, checked_name
from sketchlearn.collector.views import AdminView, ExactView, ReleasedView, SenderView

if TYPE_CHECKING:
    from sketchlearn.collector.application import Call


# Reports
@of_collection(
    "POST",
    "/reports/{report}",
    SenderView,
    largest=-1,  # the collection's rules say
    takes={"type": "string", "format": "binary"},
    takes_media=SKETCH,
    asks={"time": "when the rows were seen: seconds since 1970, or an ISO date; now, if it is not given"},
    status=201,
)
async def add_report(call: Call, view: SenderView) -> Answer:
    """A sketch file with an id that its sender chose; answered when it is on disk. The same again changes nothing."""
    report, time = checked_name("report", call.path["report"]), call.time("time", None)
    return Answer(await view.submit(report, call.body, time), 201)


@of_collection("GET", "/reports/{report}", SenderView)
async def show_report(call: Call, view: SenderView) -> Answer:
    """What was answered to a report of the sender that asks."""
    report = checked_name("report", call.path["report"])
    return Answer(await call.thread(lambda: view.report(report)))


# Epochs and windows
@of_collection("GET", "/passed-on", ExactView)
async def show_passed_on(call: Call, view: ExactView) -> Answer:
    """What became of the sealed epochs at the collector that this one reports to."""
    return Answer({"epochs": await call.thread(view.passed_on)})


@of_collection("GET", "/epochs", ExactView, asks=TIMES)
async def list_epochs(call: Call, view: ExactView) -> Answer:
    """Epochs, in order: how much each has, and whether its sum is shown."""
    start, finish = call.bounds()
    found = await call.thread(lambda: view.epochs(start, finish))
    return Answer({"epochs": [epoch.to_json(view.collection) for epoch in found]})


@of_collection("POST", "/epochs/{start}/seal", AdminView)
async def seal_epoch(call: Call, view: AdminView) -> Answer:
    """Closes an epoch that is over, before its time."""
    start = int(time_of(call.path["start"]))
    sealed = await call.thread(lambda: view.store.close_epoch(view.actor, view.collection, start))
    return Answer(sealed.to_json(view.collection))


@of_collection("GET", "/window", ExactView, asks=TIMES)
async def show_window(call: Call, view: ExactView) -> Answer:
    """Which epochs lie in a window, and what their sum has."""
    start, finish = call.bounds()
    found = await call.thread(lambda: view.window(start, finish))
    return Answer(found.to_json(view.collection))


@of_collection("GET", "/window/sketch", ExactView, asks=TIMES, answers=SKETCH)
async def window_sketch(call: Call, view: ExactView) -> Answer:
    """The sketch of all records of a window: the sum of its epochs."""
    start, finish = call.bounds()
    return Answer(await call.thread(lambda: required_sketch(view.window(start, finish)).to_bytes()), media=SKETCH)


@of_collection("GET", "/drift", ExactView)
async def show_drift(call: Call, view: ExactView) -> Answer:
    """How each sealed epoch compares with those before it, the newest first."""
    return Answer({"drift": await call.thread(view.drifts)})


@of_collection("GET", "/alarms", ExactView)
async def show_alarms(call: Call, view: ExactView) -> Answer:
    """Alarms, the newest first."""
    return Answer({"alarms": await call.thread(view.alarms)})


# Releases
@of_collection("GET", "/releases", ReleasedView)
async def list_releases(call: Call, view: ReleasedView) -> Answer:
    """Private releases, in order."""
    return Answer({"releases": await call.thread(view.releases)})


@of_collection(
    "POST",
    "/releases",
    AdminView,
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
async def add_release(call: Call, view: AdminView) -> Answer:
    """A private release of a window that is over, of all that was reported in it, booked in the collection's budget."""
    form = await call.form("from", "to", "epsilon", "delta", "assume_public_design")
    start, finish = (int(time_of(form.get(name))) for name in ("from", "to"))
    options = {"epsilon": form.get("epsilon"), "delta": form.get("delta", 0.0)}
    options["assume_public_design"] = form.get("assume_public_design", False)
    made = await call.thread(lambda: view.store.release(view.actor, view.collection, start, finish, **options))
    return Answer(made, 201)


@of_collection("GET", "/releases/{release}/sketch", ReleasedView, answers=SKETCH)
async def release_sketch(call: Call, view: ReleasedView) -> Answer:
    """The file of a release."""
    text = call.path["release"]
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise RefusalError("not found", "there is no such release in the collection")
    return Answer(await call.thread(lambda: view.release_file(int(text))), media=SKETCH)
