"""The random identity of a database: it tells the sums of one collector from those of another."""

from __future__ import annotations

import secrets

from sketchlearn.collector.database import Transaction


def make_identity(transaction: Transaction) -> str:
    """The identity; it is made at the first start."""
    transaction.execute(
        "INSERT INTO facts VALUES ('identity', ?) ON CONFLICT (name) DO NOTHING", (secrets.token_hex(16),)
    )
    return identity_of(transaction)


def identity_of(transaction: Transaction) -> str:
    """The identity that was made."""
    found = transaction.one("SELECT value FROM facts WHERE name = 'identity'")
    return "" if found is None else str(found[0])
