"""Migration: a collector that opens a database of an earlier version brings it up to date."""

from __future__ import annotations

import json

from sketchlearn.collector.collection import Collection, collections
from sketchlearn.collector.database import VERSION, Transaction
from sketchlearn.collector.reports import identities

REPORTS_AT_ONCE = 500


def migrate(transaction: Transaction) -> None:
    """Brings a database of version 1 up to date; one of this version is not changed.

    From then on nothing is shown of open epochs, unless a collection's rules are changed to say so.
    """
    if transaction.fact("version") == VERSION:
        return
    for column in ("unshown_reports", "unshown_records"):
        transaction.execute(f"ALTER TABLE epochs ADD COLUMN {column} BIGINT NOT NULL DEFAULT 0")
    transaction.execute("ALTER TABLE releases ADD COLUMN own_ledger TEXT NOT NULL DEFAULT ''")
    transaction.execute("UPDATE releases SET own_ledger = ledger")
    for number, rules in transaction.all("SELECT id, rules FROM collections"):
        only_closed = json.dumps({**json.loads(rules), "sealed_only": True}, sort_keys=True)
        transaction.execute("UPDATE collections SET rules = ? WHERE id = ?", (only_closed, number))
    transaction.execute("DROP INDEX IF EXISTS reports_by_digest")
    # Of reports whose bodies are gone, only the digest of the body is known.
    transaction.execute(
        "INSERT INTO counted (collection, batch, sender) SELECT collection, digest, min(sender) FROM reports "
        "WHERE removed IS NULL GROUP BY collection, digest"
    )
    for collection in collections(transaction):
        _write_batch_ids(transaction, collection)
    transaction.execute("UPDATE facts SET value = ? WHERE name = 'version'", (VERSION,))


def _write_batch_ids(transaction: Transaction, collection: Collection) -> None:
    """Reads the bodies that are kept, in parts, and writes their batch ids."""
    last = -1
    while rows := transaction.all(
        "SELECT r.number, r.sender, b.body FROM reports r JOIN bodies b ON b.number = r.number "
        "WHERE r.collection = ? AND r.removed IS NULL AND r.number > ? ORDER BY r.number LIMIT ?",
        (collection.id, last, REPORTS_AT_ONCE),
    ):
        last = rows[-1][0]
        transaction.many(
            "INSERT INTO counted (collection, batch, sender) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            [
                (collection.id, identity, sender)
                for _, sender, body in rows
                for identity in identities(body, collection.known.from_file(body))
            ],
        )
