"""Forwarding to a parent collector: the sum of each closed epoch becomes one report there, and is counted once.

The bytes and the id of such a report are fixed when the epoch is closed. They are kept in the database until the parent
has acknowledged them. So a parent may be down for any time, and a report whose answer was lost counts once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sketchlearn.collector.clients.client import Collector, CollectorError
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.database import COLLECTOR, Change, Transaction
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.epochs import Epoch, select_epochs
from sketchlearn.core.errors import InvalidValueError

if TYPE_CHECKING:
    from sketchlearn.collector.store import Store


PARENT_FILE = "parent-collector.json"
MOST_AT_ONCE = 200  # reports of one round; the next round is seconds later


class ParentError(InvalidValueError):
    """The file that names the parent cannot be used."""


def parents(folder: Path) -> dict[str, Collector]:
    """A client for each collection that FOLDER/parent-collector.json forwards; it tries once in each round."""
    try:
        form = json.loads((folder / PARENT_FILE).read_text())
        url, given = form["url"], {"attempts": 1, "certificate": form.get("certificate")}
        return {name: Collector(url, token, **given) for name, token in dict(form["tokens"]).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ParentError(
            f'{PARENT_FILE} in the folder must be such as {{"url": "https://...", "tokens": {{"readings": "skl_..."}}}}'
        ) from None


def forwarded_collections(folder: Path) -> frozenset[str]:
    """The names of the collections that are forwarded."""
    try:
        return frozenset(parents(folder))
    except ParentError:  # `forward` reports it
        return frozenset()


def queue(store: Store, collection: Collection) -> None:
    """Makes a report of each closed epoch that has none. Epochs that may not be shown are held back, with the reason.

    With private reading, all are forwarded: releases of the parent must not depend on which had few records here.
    """

    def add(change: Change) -> None:
        for epoch in _new_epochs(change, collection):
            reason, sketch = epoch.why_hidden(collection), epoch.sketch(collection)
            if collection.rules.private_reading and sketch is not None:
                reason = None
            body = None if reason or sketch is None else sketch.to_bytes()
            sentence = None if reason is None else f"held back: {reason}"
            row = (collection.id, epoch.start, f"{store.identity[:16]}.{epoch.start}", body, sentence)
            change.insert("passed_on", "collection, epoch, id, body, sentence", [row])

    with store.reading() as transaction:
        new = _new_epochs(transaction, collection)
    if new:
        store.write(COLLECTOR, add)


def _new_epochs(transaction: Transaction, collection: Collection) -> list[Epoch]:
    """Closed epochs of which no part has become a report."""
    return select_epochs(
        transaction,
        collection,
        "sealed IS NOT NULL AND NOT EXISTS (SELECT 1 FROM passed_on p WHERE p.collection = epochs.collection "
        "AND p.epoch >= epochs.start AND p.epoch < epochs.finish) ORDER BY start",
    )


def forward(store: Store) -> list[str]:
    """Sends the waiting reports to the parent; sentences about what could not be sent."""
    try:
        collectors = parents(store.folder)
    except ParentError as error:
        return [str(error)]
    problems = []
    for collection in store.all_collections():
        if collection.name in collectors:
            with collectors[collection.name] as collector:
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
        sentence = None
        try:
            collector.report(collection.name, body, id=number, time=start)
        except CollectorError as error:
            if error.temporary or error.status in (401, 403, 404):  # a token can be put right
                return [*problems, f"epochs of {collection.name} wait for the parent: {error}"]
            sentence = f"refused by the parent: {error}"
            problems.append(f"the epoch {in_iso(start)} of {collection.name} was {sentence}")
        store.write(COLLECTOR, _note_answer, collection, start, sentence)
    return problems


def _note_answer(change: Change, collection: Collection, start: int, sentence: str | None) -> None:
    """Notes the parent's answer: a refusal, or None. The bytes of refused reports are removed, too."""
    column = "refused" if sentence else "sent"
    change.execute(
        f"UPDATE passed_on SET {column} = ?, sentence = ?, body = NULL WHERE collection = ? AND epoch = ?",
        (change.now, sentence, collection.id, start),
    )
    answer = sentence or "acknowledged"
    change.note("report to parent", collection=collection.name, epoch=in_iso(start), answer=answer)


def forwarded(transaction: Transaction, collection: Collection) -> list[dict[str, Any]]:
    """The state of the forwarded epochs, newest first."""
    found = transaction.records(
        "SELECT epoch, id, sent, sentence FROM passed_on WHERE collection = ? ORDER BY epoch DESC LIMIT 1000",
        (collection.id,),
    )
    for row in found:
        row["sentence"] = "acknowledged" if row["sent"] is not None else row["sentence"] or "waiting"
    return found
