"""Collectors that report to a parent: the sum of each sealed epoch becomes one report there, counted once.

The bytes and the id of such a report are fixed when the epoch is sealed, and kept in the database until the parent has
acknowledged them. So a parent may be away for as long as it likes, and a report whose answer was lost counts once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sketchlearn.collector import audit
from sketchlearn.collector.clients.client import Collector, CollectorError
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.database import Transaction
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.epochs import COLLECTOR, Epoch
from sketchlearn.core.errors import InvalidValueError

if TYPE_CHECKING:
    from sketchlearn.collector.store import Store


PARENT_FILE = "parent-collector.json"
MOST_AT_ONCE = 200  # reports of one round: the next round is seconds later


class ParentError(InvalidValueError):
    """The file that names the parent cannot be used."""


@dataclass(frozen=True)
class Parent:
    """The collector that this one reports to, and the token of a sender there for each collection."""

    url: str
    tokens: dict[str, str]
    certificate: str | None = None

    def collector(self, collection: str) -> Collector:
        """A client for a collection; it tries once, since the next round tries again."""
        return Collector(self.url, self.tokens[collection], attempts=1, certificate=self.certificate)


def parent_of(folder: Path) -> Parent | None:
    """The parent that FOLDER/parent-collector.json names; None if there is no such file."""
    try:
        form = json.loads((folder / PARENT_FILE).read_text())
        found = Parent(form["url"], dict(form["tokens"]), form.get("certificate"))
        for name in found.tokens:
            found.collector(name).close()
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ParentError(
            f'{PARENT_FILE} in the folder must be such as {{"url": "https://...", "tokens": {{"readings": "skl_..."}}}}'
        ) from None
    return found


def queue(store: Store, collection: Collection) -> None:
    """Makes a report of each sealed epoch that has none; epochs that nobody is shown are held back, with the reason.

    With private reading, all are passed on: releases of the parent must not depend on which had few records here.
    """

    def add(transaction: Transaction) -> None:
        for epoch in _new_epochs(transaction, collection):
            reason, sketch = epoch.why_hidden(collection), epoch.sketch(collection)
            if collection.rules.private_reading and sketch is not None:
                reason = None
            body = None if reason or sketch is None else sketch.to_bytes()
            sentence = None if reason is None else f"held back: {reason}"
            transaction.execute(
                "INSERT INTO passed_on (collection, epoch, id, body, sentence) VALUES (?, ?, ?, ?, ?)",
                (collection.id, epoch.start, f"{store.identity[:16]}.{epoch.start}", body, sentence),
            )

    with store.reading() as transaction:
        new = _new_epochs(transaction, collection)
    if new:
        store.writer.do(add)


def _new_epochs(transaction: Transaction, collection: Collection) -> list[Epoch]:
    """Sealed epochs no part of which has become a report; days and months of epochs that did are left out."""
    rows = transaction.all(
        f"SELECT {Epoch.COLUMNS} FROM epochs WHERE collection = ? AND sealed IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM passed_on p WHERE p.collection = epochs.collection AND p.epoch >= epochs.start "
        "AND p.epoch < epochs.finish) ORDER BY start",
        (collection.id,),
    )
    return [Epoch.of_row(row) for row in rows]


def pass_on(store: Store) -> list[str]:
    """Sends the parent what waits; sentences about what could not be sent."""
    try:
        parent = parent_of(store.folder)
    except ParentError as error:
        return [str(error)]
    if parent is None:
        return []
    problems = []
    for collection in store.all_collections():
        if collection.name in parent.tokens:
            with parent.collector(collection.name) as collector:
                problems += _send(store, collection, collector)
    return problems


def _send(store: Store, collection: Collection, collector: Collector) -> list[str]:
    with store.reading() as transaction:
        waiting = transaction.all(
            "SELECT epoch, id, body FROM passed_on WHERE collection = ? AND body IS NOT NULL ORDER BY epoch LIMIT ?",
            (collection.id, MOST_AT_ONCE),
        )
        refused = transaction.all(
            "SELECT epoch, sentence FROM passed_on WHERE collection = ? AND refused IS NOT NULL ORDER BY epoch",
            (collection.id,),
        )
    problems = [f"the epoch {in_iso(start)} of {collection.name} was {sentence}" for start, sentence in refused]
    for start, number, body in waiting:
        try:
            collector.report(collection.name, bytes(body), id=number, time=start)
        except CollectorError as error:
            if error.temporary or error.status in (401, 403, 404):  # a token can be put right
                return [*problems, f"epochs of {collection.name} wait for the parent: {error}"]
            sentence = f"refused by the parent: {error}"
            _note(store, collection, start, "refused", sentence)
            problems.append(f"the epoch {in_iso(start)} of {collection.name} was {sentence}")
            continue
        _note(store, collection, start, "sent", None)
    return problems


def _note(store: Store, collection: Collection, start: int, column: str, sentence: str | None) -> None:
    """Notes what the parent said. The bytes of what was refused are removed, too: its epoch has the sum."""

    def note(transaction: Transaction) -> None:
        transaction.execute(
            f"UPDATE passed_on SET {column} = ?, sentence = ?, body = NULL WHERE collection = ? AND epoch = ?",
            (store.now(), sentence, collection.id, start),
        )
        facts = {"collection": collection.name, "epoch": in_iso(start), "answer": sentence or "acknowledged"}
        audit.note(transaction, store.now(), COLLECTOR, "report to parent", **facts)

    store.writer.do(note)


def passed_on(transaction: Transaction, collection: Collection, most: int = 1000) -> list[dict[str, Any]]:
    """What became of the sealed epochs at the parent, the newest first."""
    rows = transaction.all(
        "SELECT epoch, id, sent, sentence FROM passed_on WHERE collection = ? ORDER BY epoch DESC LIMIT ?",
        (collection.id, most),
    )
    return [
        {
            "epoch": in_iso(epoch),
            "id": number,
            "sent": None if sent is None else in_iso(sent / 1000),
            "sentence": "acknowledged" if sent is not None else sentence or "waiting",
        }
        for epoch, number, sent, sentence in rows
    ]
