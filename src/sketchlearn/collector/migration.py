"""Databases of earlier versions, brought up to date when a collector opens them."""

from __future__ import annotations

import json

from sketchlearn.collector.collection import Collection, collections
from sketchlearn.collector.database import VERSION, Transaction
from sketchlearn.collector.reports import identities

REPORTS_AT_ONCE = 500


def migrate(transaction: Transaction) -> None:
    """Brings a database of version 1 up to date; one that is up to date is not touched.

    From then on nothing is shown of an epoch that is still open, unless a collection's rules are changed to say so.
    """
    found = transaction.one("SELECT value FROM facts WHERE name = 'version'")
    if found is None or found[0] == VERSION:
        return
    for column in ("unshown_reports", "unshown_records"):
        transaction.execute(f"ALTER TABLE epochs ADD COLUMN {column} BIGINT NOT NULL DEFAULT 0")
    transaction.execute("ALTER TABLE releases ADD COLUMN own_ledger TEXT NOT NULL DEFAULT ''")
    transaction.execute("UPDATE releases SET own_ledger = ledger")
    for number, rules in transaction.all("SELECT id, rules FROM collections"):
        closed = json.dumps({**json.loads(rules), "sealed_only": True}, sort_keys=True)
        transaction.execute("UPDATE collections SET rules = ? WHERE id = ?", (closed, number))
    transaction.execute("DROP INDEX IF EXISTS reports_by_digest")
    # of reports whose bodies are gone, nothing but the digest of the body is known
    transaction.execute(
        "INSERT INTO counted (collection, batch, sender) SELECT collection, digest, min(sender) FROM reports "
        "WHERE removed IS NULL GROUP BY collection, digest"
    )
    for collection in collections(transaction):
        _count_bodies(transaction, collection)
    transaction.execute("UPDATE facts SET value = ? WHERE name = 'version'", (VERSION,))


def _count_bodies(transaction: Transaction, collection: Collection) -> None:
    last = -1
    while True:
        rows = transaction.all(
            "SELECT r.number, r.sender, b.body FROM reports r JOIN bodies b ON b.number = r.number "
            "WHERE r.collection = ? AND r.removed IS NULL AND r.number > ? ORDER BY r.number LIMIT ?",
            (collection.id, last, REPORTS_AT_ONCE),
        )
        if not rows:
            return
        last = rows[-1][0]
        transaction.many(
            "INSERT INTO counted (collection, batch, sender) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            [
                (collection.id, identity, sender)
                for _, sender, body in rows
                for identity in identities(bytes(body), collection.known.from_file(bytes(body)))
            ],
        )
