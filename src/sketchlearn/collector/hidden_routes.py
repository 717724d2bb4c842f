"""The routes of sums that hide their parts: parts for the first collector, seeds and totals for the second."""

from __future__ import annotations

import json
import sqlite3
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sketchlearn.collector import first_collector
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.endpoint_table import SKETCH, TEXT_SCHEMA, Answer, object_of, of_collection, time_of
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.hidden_sums import Question, RefusedError
from sketchlearn.collector.names import checked_name
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.rules import SECOND
from sketchlearn.collector.second_collector import SecondCollector
from sketchlearn.collector.senders import sender_name
from sketchlearn.collector.store import Store
from sketchlearn.collector.tokens import READ, SEND
from sketchlearn.reporting.hidden_parts import SealedSeed
from sketchlearn.reporting.sealed_seeds import new_private_key, public_key_of
from sketchlearn.storage.owner_folder import write_file

if TYPE_CHECKING:
    from sketchlearn.collector.application import Call

LARGEST_SEEDS = 2_000_000  # bytes: 500 seeds and their headers
LARGEST_QUESTION = 64_000_000
KEY_FILE, SECOND_FILE = "second.key", "second-collector.json"
SECONDS_TO_ANSWER = 120.0
_seconds: dict[Path, SecondCollector] = {}
_lock = threading.Lock()


@of_collection("POST", "/parts/{report}", scope=SEND, largest=-1, takes={"type": "string", "format": "binary"},
               takes_media=SKETCH, status=201)  # fmt: skip
async def add_part(call: Call) -> Answer:
    """A part of a sum that hides its parts, with the id it was sealed for; answered when it is on disk."""
    collection, sender, number = call.collection(), call.sender(), checked_name("report", call.path["report"])
    body = call.body
    made = await call.thread(lambda: first_collector.add_part(call.store, collection, sender, number, body))
    return Answer({**made, "records": 0}, 201)


@of_collection("POST", "/epochs/{start}/open")
async def open_epoch(call: Call) -> Answer:
    """Opens the total of an epoch that is over, with the second collector; once."""
    collection, start = call.collection(), int(time_of(call.path["start"]))
    found = await call.thread(
        lambda: first_collector.open_epoch(call.store, collection, start, second_of(call.store, collection))
    )
    return Answer({"epoch": in_iso(start), "records": max(0, int(found.count))})


@of_collection("GET", "/second-key", scope=SEND)
async def second_key(call: Call) -> Answer:
    """The public key that seeds for this collector are sealed for; take it from here, never from the first one."""
    call.collection()
    return Answer({"key": await call.thread(lambda: public_key_of(private_key(call.store)))})


@of_collection(
    "POST", "/seeds", scope=READ, largest=LARGEST_SEEDS, takes=object_of(("seeds",), seeds={"type": "array"})
)
async def add_seeds(call: Call) -> Answer:
    """Sealed seeds, which the first collector passes on; those that are refused, with the reason."""
    collection, form = call.collection(), call.form("seeds")
    try:
        seeds = [SealedSeed.from_json(seed) for seed in form.get("seeds", [])]
    except (ValueError, TypeError, KeyError) as error:
        raise RefusalError("malformed", f"these are no sealed seeds: {error}") from None
    return Answer({"refused": await call.thread(lambda: own_second(call.store, collection).receive(seeds))})


@of_collection(
    "POST",
    "/totals",
    scope=READ,
    largest=LARGEST_QUESTION,
    takes=object_of(
        ("collection", "epoch", "opening", "reports"),
        collection=TEXT_SCHEMA,
        epoch=TEXT_SCHEMA,
        opening=TEXT_SCHEMA,
        reports={"type": "array", "items": TEXT_SCHEMA},
    ),
)
async def tell_total(call: Call) -> Answer:
    """The total of the shares of an epoch's reports; once for each epoch, and never below the minimum."""
    collection = call.collection()
    try:
        question = Question.from_json(call.form("collection", "epoch", "opening", "reports"))
    except (ValueError, TypeError) as error:
        raise RefusalError("malformed", str(error)) from None
    if question.collection != collection.name:
        raise RefusalError("malformed", "the question is about another collection")
    try:
        found = await call.thread(lambda: own_second(call.store, collection).answer(question))
    except RefusedError as error:
        raise RefusalError("too few" if "needs" in str(error) else "conflict", str(error)) from None
    return Answer(found.to_json())


def private_key(store: Store) -> bytes:
    """This collector's key as a second one, made when it is first needed."""
    path = store.folder / KEY_FILE
    with _lock:
        if not path.exists():
            write_file(path, new_private_key().hex().encode())
    return bytes.fromhex(path.read_text().strip())


def own_second(store: Store, collection: Collection) -> SecondCollector:
    """The second collector that this server is, for a collection that has it as its second."""
    if collection.rules.hidden != SECOND:
        raise RefusalError("conflict", "this server is not the second collector of this collection")
    key = private_key(store)
    with _lock:
        path = store.folder / "second.sqlite"
        if path not in _seconds:
            connection = sqlite3.connect(path, 60.0, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            _seconds[path] = SecondCollector(connection, key, lambda text: sender_of(store, text))
        found = _seconds[path]
    found.agree(first_collector.hidden_terms(collection))
    return found


def sender_of(store: Store, credential: str) -> str | None:
    """The sender whose token at this server a credential is: whoever invents reports has none."""
    try:
        token = store.token(credential)
    except RefusalError:
        return None
    if token.sender is None or token.scope != SEND:
        return None
    with store.reading() as transaction:
        return sender_name(transaction, token.sender)


def second_of(store: Store, collection: Collection) -> first_collector.RemoteSecond:
    """The second collector of this server's collections: FOLDER/second-collector.json has its `url` and `token`."""
    try:
        form = json.loads((store.folder / SECOND_FILE).read_text())
        url, token = form["url"].rstrip("/"), form["token"]
    except (OSError, ValueError, KeyError, AttributeError):
        raise RefusalError(
            "conflict", f"{SECOND_FILE} in the folder must name the second collector's url and token"
        ) from None

    def post(path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url + path, json.dumps(body).encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_TO_ANSWER) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                said = json.loads(error.read(4000) or b"{}")
            raise RefusedError(f"the second collector refuses: {said.get('error', error.code)}") from None
        except OSError as error:
            raise RefusalError("busy", f"the second collector cannot be reached: {error}", retry_after=60) from None

    return first_collector.RemoteSecond(collection.name, post)


def open_what_is_over(store: Store) -> list[str]:
    """Opens epochs that are over, of collections that this server is the first collector of; what could not be."""
    problems = []
    for collection in store.all_collections():
        if collection.rules.hidden != "first":
            continue
        for start in first_collector.to_open(store, collection):
            try:
                first_collector.open_epoch(store, collection, start, second_of(store, collection))
            except RefusalError as refusal:
                problems.append(f"the epoch {in_iso(start)} of {collection.name} was not opened: {refusal.sentence}")
    return problems
