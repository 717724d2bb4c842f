"""A server as one of two collectors: the second one that it is itself, and the second one that it asks."""

from __future__ import annotations

import json
import sqlite3
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from sketchlearn.collector import secure_aggregation as first_collector
from sketchlearn.collector.clients.secret_shares import new_private_key
from sketchlearn.collector.collection import SECOND, Collection
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.secure_aggregation import RefusedError, SecondCollector
from sketchlearn.collector.senders import SEND, sender_name
from sketchlearn.collector.store import Store
from sketchlearn.core.owner_folder import write_file

KEY_FILE, SECOND_FILE = "second.key", "second-collector.json"
SECONDS_TO_ANSWER = 120.0
_seconds: dict[Path, SecondCollector] = {}
_lock = threading.Lock()


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
