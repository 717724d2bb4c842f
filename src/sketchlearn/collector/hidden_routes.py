"""The routes of sums that hide their parts: parts for the first collector, seeds and totals for the second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sketchlearn.collector import secure_aggregation as first_collector
from sketchlearn.collector.clients.secret_shares import SealedSeed
from sketchlearn.collector.endpoints import SKETCH, TEXT_SCHEMA, Answer, object_of, of_collection, time_of
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.refusals import RefusalError, checked_name
from sketchlearn.collector.secure_aggregation import Question, RefusedError
from sketchlearn.collector.views import AdminView, DesignView, FirstCollectorView, SenderView

if TYPE_CHECKING:
    from sketchlearn.collector.application import Call


LARGEST_SEEDS = 2_000_000  # bytes: 500 seeds and their headers
LARGEST_QUESTION = 64_000_000


@of_collection("POST", "/parts/{report}", SenderView, largest=-1, takes={"type": "string", "format": "binary"},
               takes_media=SKETCH, status=201)  # fmt: skip
async def add_part(call: Call, view: SenderView) -> Answer:
    """A part of a sum that hides its parts, with the id it was sealed for; answered when it is on disk."""
    return Answer(await view.submit_part(checked_name("report", call.path["report"]), call.body), 201)


@of_collection("POST", "/epochs/{start}/open", AdminView)
async def open_epoch(call: Call, view: AdminView) -> Answer:
    """Opens the total of an epoch that is over, with the second collector; once."""
    start, store, collection = int(time_of(call.path["start"])), view.store, view.collection
    found = await call.thread(
        lambda: first_collector.open_epoch(store, collection, start, first_collector.second_of(store, collection))
    )
    return Answer({"epoch": in_iso(start), "records": max(0, int(found.count))})


@of_collection("GET", "/second-key", DesignView)
async def second_key(call: Call, view: DesignView) -> Answer:
    """The public key that seeds for this collector are sealed for; take it from here, never from the first one."""
    return Answer({"key": await call.thread(view.second_key)})


@of_collection(
    "POST", "/seeds", FirstCollectorView, largest=LARGEST_SEEDS, takes=object_of(("seeds",), seeds={"type": "array"})
)
async def add_seeds(call: Call, view: FirstCollectorView) -> Answer:
    """Sealed seeds, which the first collector passes on; those that are refused, with the reason."""
    form = await call.form("seeds")

    def receive() -> dict[str, str]:
        try:
            seeds = [SealedSeed.from_json(seed) for seed in form.get("seeds", [])]
        except (ValueError, TypeError, KeyError) as error:
            raise RefusalError("malformed", f"these are no sealed seeds: {error}") from None
        return view.second_collector().receive(seeds)

    return Answer({"refused": await call.thread(receive)})


@of_collection(
    "POST",
    "/totals",
    FirstCollectorView,
    largest=LARGEST_QUESTION,
    takes=object_of(
        ("collection", "epoch", "opening", "reports"),
        collection=TEXT_SCHEMA,
        epoch=TEXT_SCHEMA,
        opening=TEXT_SCHEMA,
        reports={"type": "array", "items": TEXT_SCHEMA},
    ),
)
async def tell_total(call: Call, view: FirstCollectorView) -> Answer:
    """The total of the shares of an epoch's reports; once for each epoch, and never below the minimum."""
    form = await call.form("collection", "epoch", "opening", "reports")

    def told() -> object:
        try:
            question = Question.from_json(form)
        except (ValueError, TypeError) as error:
            raise RefusalError("malformed", str(error)) from None
        if question.collection != view.collection.name:
            raise RefusalError("malformed", "the question is about another collection")
        try:
            return view.second_collector().answer(question).to_json()
        except RefusedError as error:
            raise RefusalError("too few" if "needs" in str(error) else "conflict", str(error)) from None

    return Answer(await call.thread(told))
