"""Drift between sealed epochs: each new one is compared with those before, and a change raises an alarm."""

from __future__ import annotations

import json
from typing import Any

from sketchlearn.collector.collection import Collection
from sketchlearn.collector.database import Transaction
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.epochs import Epoch
from sketchlearn.questions.comparison import Change, ChangeDetector

LONGEST_HISTORY = 200  # epochs that a new one is compared with, at most
MOST_MOVED = 10  # columns that are named


def next_epoch(transaction: Transaction, collection: Collection) -> Epoch | None:
    """The oldest sealed epoch that was not compared with those before it."""
    row = transaction.one(
        f"SELECT {Epoch.COLUMNS} FROM epochs WHERE collection = ? AND sealed IS NOT NULL AND compared IS NULL "
        "ORDER BY start LIMIT 1",
        (collection.id,),
    )
    return None if row is None else Epoch.of_row(row)


def history(transaction: Transaction, collection: Collection, before: int) -> list[Epoch]:
    """Sealed epochs before a moment, since the last change, oldest first."""
    changed = transaction.one(
        "SELECT max(since) FROM drifts WHERE collection = ? AND alarm = 1 AND epoch < ?", (collection.id, before)
    )
    since = changed[0] if changed and changed[0] is not None else -(2**62)
    rows = transaction.all(
        f"SELECT {Epoch.COLUMNS} FROM epochs WHERE collection = ? AND sealed IS NOT NULL AND start >= ? AND start < ? "
        "ORDER BY start DESC LIMIT ?",
        (collection.id, since, before, LONGEST_HISTORY),
    )
    return [Epoch.of_row(row) for row in reversed(rows)]


def compared(collection: Collection, epoch: Epoch, earlier: list[Epoch]) -> dict[str, Any]:
    """The row of `drifts` for an epoch."""
    row: dict[str, Any] = dict.fromkeys(("since", "p_value", "distance", "expected"))
    row |= {"alarm": False, "moved": [], "epoch": epoch.start}
    if hidden := epoch.why_hidden(collection):
        return {**row, "sentence": f"not compared: {hidden}"}
    shown = [one for one in earlier if one.why_hidden(collection) is None]
    if not shown:
        return {**row, "sentence": "nothing to compare with yet"}
    try:
        before = [one.sketch(collection) for one in shown]
        detector = ChangeDetector(
            level=collection.rules.alarm_level, history=[sketch for sketch in before if sketch is not None]
        )
        newest = epoch.sketch(collection)
        assert newest is not None
        change = detector.update(newest)
    except ValueError as error:
        return {**row, "sentence": f"not compared: {error}"}
    return {**row, **_of_change(change, [*(one.start for one in shown), epoch.start])}


def _of_change(change: Change, starts: list[int]) -> dict[str, Any]:
    drift = change.drift
    if drift is None:
        return {"sentence": "nothing to compare with yet"}
    moved = [
        {"column": column.column, "p_value": column.p_value, "words": str(column)}
        for column in drift.columns[:MOST_MOVED]
        if column.p_value < 0.01
    ]
    since = None if change.since is None else starts[change.since]
    words = f"The records changed with the epoch of {in_iso(since)}. {drift}" if since is not None else str(drift)
    figures = {"p_value": change.p_value, "distance": drift.distance, "expected": drift.expected}
    return {"alarm": change.alarm, "since": since, **figures, "moved": moved, "sentence": words}


def note(transaction: Transaction, collection: Collection, row: dict[str, Any], now: int) -> None:
    """Keeps what a comparison said; a change becomes an alarm, in the same transaction."""
    values = (row["since"], int(row["alarm"]), row["p_value"], row["distance"], row["expected"])
    transaction.execute("DELETE FROM drifts WHERE collection = ? AND epoch = ?", (collection.id, row["epoch"]))
    transaction.execute(
        "INSERT INTO drifts (collection, epoch, since, alarm, p_value, distance, expected, moved, sentence, created) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (collection.id, row["epoch"], *values, json.dumps(row["moved"]), row["sentence"], now),
    )
    transaction.execute(
        "UPDATE epochs SET compared = ? WHERE collection = ? AND start = ?", (now, collection.id, row["epoch"])
    )
    if row["alarm"]:
        transaction.execute(
            "INSERT INTO alarms (id, collection, epoch, kind, sentence, created, attempts) "
            "VALUES (?, ?, ?, ?, ?, ?, 0)",
            (transaction.next_number("alarms"), collection.id, row["epoch"], "drift", row["sentence"], now),
        )


def drifts(transaction: Transaction, collection: Collection, most: int = 1000) -> list[dict[str, Any]]:
    """What the comparisons said, the newest first."""
    rows = transaction.all(
        "SELECT epoch, since, alarm, p_value, distance, expected, moved, sentence FROM drifts WHERE collection = ? "
        "ORDER BY epoch DESC LIMIT ?",
        (collection.id, most),
    )
    return [
        {
            "epoch": in_iso(epoch),
            "since": None if since is None else in_iso(since),
            "alarm": bool(alarm),
            "p_value": p_value,
            "distance": distance,
            "expected": expected,
            "moved": json.loads(moved),
            "sentence": sentence,
        }
        for epoch, since, alarm, p_value, distance, expected, moved, sentence in rows
    ]


def alarms(transaction: Transaction, collection: Collection, most: int = 1000) -> list[dict[str, Any]]:
    """The alarms of a collection, the newest first."""
    rows = transaction.all(
        "SELECT id, epoch, kind, sentence, created, delivered FROM alarms WHERE collection = ? "
        "ORDER BY id DESC LIMIT ?",
        (collection.id, most),
    )
    return [
        {
            "id": number,
            "epoch": in_iso(epoch),
            "kind": kind,
            "sentence": sentence,
            "created": in_iso(created / 1000),
            "delivered": None if delivered is None else in_iso(delivered / 1000),
        }
        for number, epoch, kind, sentence, created, delivered in rows
    ]
