"""The audit log: what was done by whom, in a tamper-evident hash chain to which entries are only added."""

from __future__ import annotations

import json
from typing import Any

from sketchlearn.collector.database import Transaction
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.core.hash_chain import START, checked_entries, link


def note(transaction: Transaction, now: int, actor: str, action: str, **facts: Any) -> None:
    """Adds an entry. `actor` is the id of a token, or "collector" for what happens by itself."""
    entry = json.dumps({"time": in_iso(now / 1000), "actor": actor, "action": action, **facts}, sort_keys=True)
    last = transaction.one("SELECT id, digest FROM audit ORDER BY id DESC LIMIT 1")
    number, previous = (last[0] + 1, last[1]) if last else (1, START)
    transaction.execute("INSERT INTO audit VALUES (?, ?, ?, ?)", (number, entry, previous, link(previous, entry)))


def entries(transaction: Transaction, after: int = 0, most: int = 1000) -> list[dict[str, Any]]:
    """Entries in order, with their numbers and digests; not checked."""
    rows = transaction.all("SELECT id, entry, digest FROM audit WHERE id > ? ORDER BY id LIMIT ?", (after, most))
    return [{"number": number, **json.loads(entry), "digest": digest} for number, entry, digest in rows]


def checked(transaction: Transaction) -> list[dict[str, Any]]:
    """All entries, each checked against the one before it; a `BrokenChainError` if one does not fit."""
    rows = transaction.execute("SELECT entry, previous, digest FROM audit ORDER BY id")
    return [json.loads(entry) for entry, _ in checked_entries(rows)]
