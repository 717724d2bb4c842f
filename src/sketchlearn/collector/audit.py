"""The audit log: a tamper-evident hash chain of actions, to which entries are only added."""

from __future__ import annotations

import json
from typing import Any

from sketchlearn.collector.database import Transaction
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.core.hash_chain import START, checked_entries, link

COLLECTOR = "collector"  # who acts in background maintenance


class Change(Transaction):
    """A transaction whose actions are noted in the audit log.

    Parameters
    ----------
    transaction : the transaction.
    now : milliseconds since 1970.
    actor : the id of a token, or "collector".
    """

    def __init__(self, transaction: Transaction, now: int, actor: str) -> None:
        super().__init__(transaction.connection, transaction.mark)
        self.now, self._actor = now, actor

    def note(self, action: str, **facts: Any) -> None:
        """Adds an entry to the audit log."""
        about = {"time": in_iso(self.now / 1000), "actor": self._actor, "action": action}
        entry = json.dumps({**about, **facts}, sort_keys=True)
        number, previous = self.one("SELECT id, digest FROM audit ORDER BY id DESC LIMIT 1") or (0, START)
        self.execute("INSERT INTO audit VALUES (?, ?, ?, ?)", (number + 1, entry, previous, link(previous, entry)))


def entries(transaction: Transaction, after: int = 0, most: int = 1000) -> list[dict[str, Any]]:
    """Entries in order, with their numbers and digests; not checked."""
    rows = transaction.all("SELECT id, entry, digest FROM audit WHERE id > ? ORDER BY id LIMIT ?", (after, most))
    return [{"number": number, **json.loads(entry), "digest": digest} for number, entry, digest in rows]


def checked(transaction: Transaction) -> list[dict[str, Any]]:
    """All entries, each checked against the one before it; a `BrokenChainError` if one does not fit."""
    rows = transaction.execute("SELECT entry, previous, digest FROM audit ORDER BY id")
    return [json.loads(entry) for entry, _ in checked_entries(rows)]
