"""Private releases of windows, kept for ever: each is booked in the collection's budget before its noise is drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sketchlearn.collector import audit
from sketchlearn.collector.collection import Collection
from sketchlearn.collector.database import Transaction
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.windows import Window, required_sketch
from sketchlearn.privacy.budget import Budget
from sketchlearn.privacy.release import privatize
from sketchlearn.sketch import Sketch
from sketchlearn.storage.owner_folder import make_folder


def released(
    found: Window, collection: Collection, folder: Path, *, epsilon: Any, delta: Any, assume_public_design: Any
) -> Sketch:
    """A private release of the sum of a window, all of whose epochs are sealed."""
    sketch = required_sketch(found)
    if any(epoch.sealed is None for epoch in found.epochs):
        raise RefusalError("conflict", "an epoch of the window is not sealed yet: release it when all are")
    if sketch.ledger is not None:
        raise RefusalError("conflict", "the reports are private already: read the window's sketch")
    budgets = folder / "budgets"
    make_folder(budgets)
    rules = collection.rules
    try:
        path = budgets / f"{collection.name}.sqlite"
        budget = Budget.open(path) if path.exists() else Budget(path, rules.epsilon, rules.delta)
        return privatize(sketch, epsilon=epsilon, delta=delta, assume_public_design=assume_public_design, budget=budget)
    except (ValueError, TypeError) as error:
        raise RefusalError("conflict", f"no release was made: {error}") from None


def keep(
    transaction: Transaction, collection: Collection, found: Window, release: Sketch, now: int, actor: str
) -> dict[str, Any]:
    """Keeps a release; what the routes say of it."""
    number = transaction.next_number("releases")
    assert release.ledger is not None
    ledger = release.ledger.to_json()
    transaction.execute(
        "INSERT INTO releases (id, collection, start, finish, created, ledger, sketch) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (number, collection.id, found.start, found.finish, now, json.dumps(ledger), release.to_bytes()),
    )
    facts = {"collection": collection.name, "release": number, "epsilon": ledger["epsilon"], "delta": ledger["delta"]}
    audit.note(transaction, now, actor, "release", **facts)
    return _to_json((number, found.start, found.finish, now, json.dumps(ledger)))


def releases(transaction: Transaction, collection: Collection) -> list[dict[str, Any]]:
    """All releases of a collection, in order."""
    rows = transaction.all(
        "SELECT id, start, finish, created, ledger FROM releases WHERE collection = ? ORDER BY id", (collection.id,)
    )
    return [_to_json(row) for row in rows]


def release_file(transaction: Transaction, collection: Collection, number: int) -> bytes:
    """The file of a release."""
    row = transaction.one("SELECT sketch FROM releases WHERE collection = ? AND id = ?", (collection.id, number))
    if row is None:
        raise RefusalError("not found", "there is no such release in the collection")
    return bytes(row[0])


def _to_json(row: tuple[Any, ...]) -> dict[str, Any]:
    number, start, finish, created, ledger = row
    return {
        "id": number,
        "start": in_iso(start),
        "finish": in_iso(finish),
        "created": in_iso(created / 1000),
        "ledger": json.loads(ledger),
    }
