"""`verify`: checks that every sum is the sum of the kept bodies, and that the audit log is an unbroken hash chain."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from sketchlearn.collector.clients.secret_shares import HiddenPart
from sketchlearn.collector.collection import Collection, collections
from sketchlearn.collector.database import Database, Transaction
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.epochs import Epoch, bodies_of, digest_of, select_epochs, sum_of_bodies
from sketchlearn.core.hash_chain import BrokenChainError, checked_entries
from sketchlearn.core.limits import FormatError


@dataclass
class Verification:
    """How much was checked, and what is wrong."""

    epochs: int = 0
    from_bodies: int = 0
    reports: int = 0
    entries: int = 0
    problems: list[str] = field(default_factory=list)


def verify(database: Database) -> Verification:
    """Checks a database as it is at this moment, while a collector may be running."""
    found = Verification()
    with database.reading() as transaction:
        try:
            rows = transaction.execute("SELECT entry, previous, digest FROM audit ORDER BY id")
            log = [json.loads(entry) for entry, _ in checked_entries(rows)]
        except BrokenChainError as error:
            found.problems.append(f"the audit log was changed or damaged: {error}")
            log = []
        found.entries = len(log)
        digests = {(entry["collection"], entry["start"]): entry["digest"] for entry in log if "digest" in entry}
        identity = str(transaction.fact("identity"))
        for collection in collections(transaction):
            problems = _damaged_parts(transaction, collection, found)
            for epoch in select_epochs(transaction, collection, "TRUE ORDER BY start"):
                found.epochs += 1
                problems += [(epoch.start, each) for each in _problems(transaction, collection, epoch, identity, found)]
                noted = digests.get((collection.name, epoch.start))
                if epoch.closed is not None and log and noted != digest_of(epoch.kept):
                    problems.append((epoch.start, "the audit log has the digest of another sum"))
            found.problems += [f"{collection.name}, epoch of {in_iso(start)}: {problem}" for start, problem in problems]
    return found


def _problems(
    transaction: Transaction, collection: Collection, epoch: Epoch, identity: str, found: Verification
) -> list[str]:
    problems, bounds = [], (collection.id, epoch.start, epoch.finish)
    if collection.rules.hidden is not None:  # it cannot be added up anew, since both halves of the reports are gone
        [(parts, left)] = transaction.all(
            "SELECT count(*), count(body) FROM hidden_parts WHERE collection = ? AND epoch >= ? AND epoch < ?", bounds
        )
        problems += [f"it has {parts:,} parts, and says {epoch.reports:,}"] if epoch.reports > parts else []
        problems += [f"{left:,} parts are still there after it was opened"] if left else []
    else:
        [(reports, records)] = transaction.all(
            "SELECT count(*), coalesce(sum(records), 0) FROM reports WHERE collection = ? AND epoch >= ? AND epoch < ? "
            "AND removed IS NULL",
            bounds,
        )
        if (reports, int(records)) != (epoch.reports, epoch.records):
            problems.append(f"it has {reports:,} reports, and says {epoch.reports:,}, or other numbers of records")
        found.reports += reports
    try:
        total = epoch.sketch(collection)
    except FormatError as error:
        return [*problems, f"its sum cannot be read: {error}"]
    if not epoch.bodies:
        return problems
    found.from_bodies += 1
    bodies = 0
    for _, _, digest, body in bodies_of(transaction, collection, epoch):
        bodies += 1
        if hashlib.sha256(body).digest() != digest:
            problems.append("the body of a report is not the one that was acknowledged")
    if bodies != epoch.reports:
        problems.append(f"it has the bodies of {bodies:,} of {epoch.reports:,} reports")
    try:
        anew = sum_of_bodies(transaction, collection, epoch, identity)
    except (ValueError, OverflowError) as error:
        return [*problems, f"the bodies of its reports cannot be added: {error}"]
    same = total is anew if total is None or anew is None else total == anew and total.kept == anew.kept
    return problems if same else [*problems, "its sum is not the sum of the bodies of its reports"]


def _damaged_parts(transaction: Transaction, collection: Collection, found: Verification) -> list[tuple[int, str]]:
    """Problems of secret shares, by the starts of their epochs: other bytes, or another id or epoch."""
    problems = []
    for number, start, fingerprint, digest, body in transaction.execute(
        "SELECT id, epoch, fingerprint, digest, body FROM hidden_parts WHERE collection = ?", (collection.id,)
    ):
        found.reports += 1
        if body is None:
            continue
        if hashlib.sha256(body).digest() != digest:
            problems.append((start, "the body of a part is not the one that was acknowledged"))
            continue
        part = HiddenPart.from_bytes(body)
        if (part.header.id, part.header.epoch, part.sealed_seed.fingerprint) != (number, in_iso(start), fingerprint):
            problems.append((start, "a part is kept under another id or epoch than it was encrypted for"))
    return problems
