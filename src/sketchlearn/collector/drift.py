"""Drift between closed epochs: each new one is compared with those before it, and a change raises an alarm."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sketchlearn.collector.collection import Collection
from sketchlearn.collector.database import COLLECTOR, Change, Transaction
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.epochs import Epoch, select_epochs
from sketchlearn.questions.comparison import ChangeDetector

if TYPE_CHECKING:
    from sketchlearn.collector.store import Store

LONGEST_HISTORY = 200  # epochs that a new one is compared with, at most
MOST_MOVED = 10  # columns that are named
MOST_ATTEMPTS = 10  # at sending an alarm


def next_epoch(transaction: Transaction, collection: Collection) -> Epoch | None:
    """The oldest closed epoch that was not compared with those before it."""
    where = "sealed IS NOT NULL AND compared IS NULL ORDER BY start LIMIT 1"
    return next(iter(select_epochs(transaction, collection, where)), None)


def history(transaction: Transaction, collection: Collection, before: int) -> list[Epoch]:
    """Closed epochs before a moment, since the last change, oldest first."""
    changed = transaction.value(
        "SELECT max(since) FROM drifts WHERE collection = ? AND alarm = 1 AND epoch < ?", (collection.id, before)
    )
    since = -(2**62) if changed is None else changed
    where = "sealed IS NOT NULL AND start >= ? AND start < ? ORDER BY start DESC LIMIT ?"
    return select_epochs(transaction, collection, where, since, before, LONGEST_HISTORY)[::-1]


def compare_epochs(store: Store, collection: Collection, ended: Callable[[], bool]) -> None:
    """Compares closed epochs with those before them. The writer does not wait for the tests."""
    while not ended():
        with store.reading() as transaction:
            epoch = next_epoch(transaction, collection)
            earlier = [] if epoch is None else history(transaction, collection, epoch.start)
        if epoch is None:
            return
        row = compared(collection, epoch, earlier)
        store.write(COLLECTOR, note, collection, row)
        store.changed(collection.name, "alarm" if row["alarm"] else "compared", sentence=row["sentence"])


def compared(collection: Collection, epoch: Epoch, earlier: list[Epoch]) -> dict[str, Any]:
    """The result of a comparison: the row of `drifts` for an epoch."""
    row: dict[str, Any] = dict.fromkeys(("since", "p_value", "distance", "expected"))
    row |= {"alarm": False, "moved": [], "epoch": epoch.start, "sentence": "nothing to compare with yet"}
    if hidden := epoch.why_hidden(collection):
        return {**row, "sentence": f"not compared: {hidden}"}
    shown = [one for one in earlier if one.why_hidden(collection) is None]
    if not shown:
        return row
    try:
        *before, newest = [sketch for one in [*shown, epoch] if (sketch := one.sketch(collection)) is not None]
        change = ChangeDetector(level=collection.rules.alarm_level, history=before).update(newest)
    except ValueError as error:
        return {**row, "sentence": f"not compared: {error}"}
    if (drift := change.drift) is None:
        return row
    moved = [
        {"column": column.column, "p_value": column.p_value, "words": str(column)}
        for column in drift.columns[:MOST_MOVED]
        if column.p_value < 0.01
    ]
    since = None if change.since is None else [*shown, epoch][change.since].start
    words = f"The records changed with the epoch of {in_iso(since)}. {drift}" if since is not None else str(drift)
    figures = {"p_value": change.p_value, "distance": drift.distance, "expected": drift.expected}
    return {**row, "alarm": change.alarm, "since": since, **figures, "moved": moved, "sentence": words}


def note(change: Change, collection: Collection, row: dict[str, Any]) -> None:
    """Writes the result of a comparison; a change becomes an alarm, in the same transaction."""
    where, sentence, now = (collection.id, row["epoch"]), row["sentence"], change.now
    figures = (row["since"], int(row["alarm"]), row["p_value"], row["distance"], row["expected"])
    change.execute("DELETE FROM drifts WHERE collection = ? AND epoch = ?", where)
    change.insert(
        "drifts",
        "collection, epoch, since, alarm, p_value, distance, expected, moved, sentence, created",
        [(*where, *figures, json.dumps(row["moved"]), sentence, now)],
    )
    change.execute("UPDATE epochs SET compared = ? WHERE collection = ? AND start = ?", (now, *where))
    if row["alarm"]:
        alarm = (change.next_number("alarms"), *where, "drift", sentence, now, 0)
        change.insert("alarms", "id, collection, epoch, kind, sentence, created, attempts", [alarm])


def drifts(transaction: Transaction, collection: Collection, most: int = 1000) -> list[dict[str, Any]]:
    found = transaction.records(
        "SELECT epoch, since, alarm, p_value, distance, expected, moved, sentence FROM drifts WHERE collection = ? "
        "ORDER BY epoch DESC LIMIT ?",
        (collection.id, most),
    )
    return [{**row, "alarm": bool(row["alarm"]), "moved": json.loads(row["moved"])} for row in found]


def alarms(transaction: Transaction, collection: Collection, most: int = 1000) -> list[dict[str, Any]]:
    return transaction.records(
        "SELECT id, epoch, kind, sentence, created, delivered FROM alarms WHERE collection = ? "
        "ORDER BY id DESC LIMIT ?",
        (collection.id, most),
    )


def undelivered_alarms(store: Store) -> list[tuple[int, str, dict[str, Any]]]:
    """Alarms to be sent: their numbers, the URL, and what is sent."""
    hooks = {c.name: c.rules.webhook for c in store.all_collections() if c.rules.webhook is not None}
    with store.reading() as transaction:
        found = transaction.records(
            "SELECT a.id, c.name AS collection, a.epoch, a.kind, a.sentence FROM alarms a JOIN collections c "
            "ON c.id = a.collection WHERE a.delivered IS NULL AND a.attempts < ? ORDER BY a.id LIMIT 100",
            (MOST_ATTEMPTS,),
        )
    return [(facts.pop("id"), hooks[facts["collection"]], facts) for facts in found if facts["collection"] in hooks]


def note_delivery(store: Store, alarm: int, *, delivered: bool) -> None:
    """Notes that an alarm was sent, or that sending it was tried."""
    counted = "UPDATE alarms SET attempts = attempts + 1, delivered = ? WHERE id = ?"
    store.write(COLLECTOR, Change.many, counted, [(store.now() if delivered else None, alarm)])
