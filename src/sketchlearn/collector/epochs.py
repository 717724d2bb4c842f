"""Epochs: sums of the reports of an hour, a day or a month; they are closed, made coarser, and in the end forgotten."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from sketchlearn.collector.collection import Collection
from sketchlearn.collector.database import Change, Transaction
from sketchlearn.collector.epoch_times import DAY, HOUR, MONTH, finish_of, in_iso, start_of
from sketchlearn.collector.refusals import RefusalError, refused_as
from sketchlearn.sketch.batches import Batches
from sketchlearn.sketch.sums import Sketch

DAY_MS = 86_400_000
PARTLY = "only a part of it lies in the window"
NEVER_SHOWN = (-1, -1)  # in place of `unshown`, of a sum that is shown no more


@dataclass(frozen=True)
class Epoch:
    """An epoch of a collection, as the database has it."""

    collection: int
    start: int
    finish: int
    span: str
    closed: int | None
    reports: int
    records: int
    kept: bytes | None  # its sum
    bodies: int  # whether the bodies of its reports are kept: 0 or 1
    compared: int | None
    unshown_reports: int  # by which its sum differs from what was shown, at least
    unshown_records: int

    COLUMNS = (
        "collection, start, finish, span, sealed, reports, records, sketch, bodies, compared, unshown_reports, "
        "unshown_records"
    )

    @property
    def unshown(self) -> tuple[int, int]:
        """Reports and records by which its sum differs from what was shown, at least."""
        return self.unshown_reports, self.unshown_records

    def sketch(self, collection: Collection) -> Sketch | None:
        """The sum of its reports; None if there is none."""
        return None if self.kept is None else collection.known.from_kept(self.kept)

    def why_hidden(self, collection: Collection) -> str | None:
        """Why its sum is not shown, or None if it is."""
        rules = collection.rules
        if self.kept is None:
            return "it has no reports"
        if self.closed is None and rules.sealed_only:
            return "it is not closed yet"
        if self.reports < rules.min_reports:
            return f"it has fewer than {rules.min_reports:,} reports"
        if self.records < rules.min_records:
            return f"it has fewer than {rules.min_records:,} records"
        if self.unshown == NEVER_SHOWN:
            return "reports of a sender were subtracted from it after shorter epochs were merged into it"
        if any(self.unshown) and (self.unshown_reports < rules.min_reports or self.unshown_records < rules.min_records):
            few = f"fewer than {rules.min_records:,} records or {rules.min_reports:,} reports"
            return f"it differs by {few} from what was shown before"
        return None

    def unshown_without(self, collection: Collection, reports: int, records: int) -> tuple[int, int]:
        """How much its sum will differ from those shown before, once these reports are subtracted.

        The sums shown of an epoch are of sets of reports, each a subset of the one before, so their differences are
        disjoint. A coarser epoch was also shown in parts, which may or may not include these reports. So it is shown
        no more.
        """
        if self.closed is None:  # nobody has seen it, or everybody sees it change
            return self.unshown
        if self.span != collection.rules.epoch:
            return NEVER_SHOWN
        if self.why_hidden(collection) is None:  # somebody may have read it as it is
            return reports, records
        return (self.unshown_reports + reports, self.unshown_records + records) if any(self.unshown) else (0, 0)

    def unshown_within(self, collection: Collection) -> tuple[int, int]:
        """How much of its contribution to a coarser epoch is unknown to readers who saw all that was shown.

        If it was shown before some reports were subtracted, a reader who learns the rest also learns the subtracted
        reports, and the other way round. The smaller of both counts.
        """
        if self.unshown == NEVER_SHOWN:
            return NEVER_SHOWN
        if self.why_hidden(collection) is None:
            return 0, 0
        if not any(self.unshown):
            return self.reports, self.records
        return min(self.unshown_reports, self.reports), min(self.unshown_records, self.records)

    def to_json(self, collection: Collection) -> dict[str, Any]:
        """What readers with exact access are told of it."""
        hidden = self.why_hidden(collection)
        return {
            "start": in_iso(self.start),
            "finish": in_iso(self.finish),
            "span": self.span,
            "sealed": None if self.closed is None else in_iso(self.closed / 1000),
            "reports": self.reports,
            "records": None if hidden else self.records,
            "hidden": hidden,
        }


def select_epochs(transaction: Transaction, collection: Collection, where: str, *values: Any) -> list[Epoch]:
    """The epochs of a collection that meet a condition, which may be followed by an order."""
    query = f"SELECT {Epoch.COLUMNS} FROM epochs WHERE collection = ? AND {where}"
    return [Epoch(*row) for row in transaction.execute(query, (collection.id, *values))]


def epochs_between(transaction: Transaction, collection: Collection, start: int, finish: int) -> list[Epoch]:
    """All epochs with some moment of [start, finish), in order."""
    return select_epochs(transaction, collection, "start < ? AND finish > ? ORDER BY start", finish, start)


def epoch_at(transaction: Transaction, collection: Collection, moment: int) -> Epoch | None:
    """The epoch of a moment, if it has reports."""
    return next(iter(epochs_between(transaction, collection, moment, moment + 1)), None)


def batch_of(identity: str, collection: Collection, start: int) -> Batches:
    """The batch of an epoch's sum, here and at a parent. Reports are known by their ids, not by batches in files."""
    digest = hashlib.sha256(f"{identity}/{collection.id}/{start}".encode()).digest()
    return Batches({int.from_bytes(digest[:8], "big"): 1})


def sum_of(collection: Collection, epochs: list[Epoch]) -> Sketch | None:
    """The sum of several epochs; None if none of them has one."""
    total: Sketch | None = None
    for epoch in epochs:
        if (sketch := epoch.sketch(collection)) is not None:
            total = sketch if total is None else collection.added(total, sketch)
    return total


def bodies_of(transaction: Transaction, collection: Collection, epoch: Epoch, where: str = "", *more: Any) -> Any:
    """Number, records, digest and body of each report of an epoch, in the order of their arrival."""
    return transaction.execute(
        "SELECT r.number, r.records, r.digest, b.body FROM reports r JOIN bodies b ON b.number = r.number "
        f"WHERE r.collection = ? AND r.epoch >= ? AND r.epoch < ? AND r.removed IS NULL {where} ORDER BY r.number",
        (collection.id, epoch.start, epoch.finish, *more),
    )


def sum_of_bodies(transaction: Transaction, collection: Collection, epoch: Epoch, identity: str) -> Sketch | None:
    """The sum of an epoch, computed anew from the bodies of its reports in the order of their arrival."""
    batch, total = batch_of(identity, collection, epoch.start), None
    for *_, body in bodies_of(transaction, collection, epoch):
        new = collection.known.from_file(body)
        total = (new if total is None else collection.added(total, new)).as_batches(batch)
    return total


def write_rest(
    change: Change, collection: Collection, epoch: Epoch, rest: Sketch | None, sender: int, reports: int, records: int
) -> None:
    """Replaces the sum of an epoch by the rest without some reports of a sender."""
    kept = None if rest is None else collection.known.to_kept(rest)
    counts = (epoch.reports - reports, epoch.records - records, *epoch.unshown_without(collection, reports, records))
    change.execute(
        "UPDATE epochs SET sketch = ?, reports = ?, records = ?, unshown_reports = ?, unshown_records = ? "
        "WHERE collection = ? AND start = ?",
        (kept, *counts, collection.id, epoch.start),
    )
    if epoch.closed is not None:
        note_epoch(change, "subtract", collection, epoch.start, digest=digest_of(kept), sender=sender)


def digest_of(kept: bytes | None) -> str:
    return hashlib.sha256(kept or b"").hexdigest()


def note_epoch(change: Change, action: str, collection: Collection, start: int, **facts: Any) -> None:
    change.note(action, collection=collection.name, epoch=in_iso(start), start=start, **facts)


def close_epoch(change: Change, collection: Collection, start: int) -> Epoch:
    """Closes an epoch for ever: its sum does not change any more, unless a sender is subtracted."""
    epoch = epoch_at(change, collection, start)
    if epoch is None or epoch.start != start:
        raise RefusalError("not found", "there is no epoch with reports that starts then")
    if epoch.closed is not None:
        return epoch
    if epoch.finish * 1000 > change.now:
        raise RefusalError("conflict", f"the epoch is not over before {in_iso(epoch.finish)}: close it then")
    row = (change.now, collection.id, start)
    change.execute("UPDATE epochs SET sealed = ? WHERE collection = ? AND start = ?", row)
    digest = digest_of(epoch.kept)
    note_epoch(change, "seal", collection, start, digest=digest, reports=epoch.reports, records=epoch.records)
    if collection.rules.body_days == 0:
        remove_bodies(change, collection, epoch)
    return replace(epoch, closed=change.now)


def remove_bodies(transaction: Transaction, collection: Collection, epoch: Epoch) -> None:
    """Removes the bodies of an epoch's reports; their ids and digests stay."""
    transaction.execute(
        "DELETE FROM bodies WHERE number IN "
        "(SELECT number FROM reports WHERE collection = ? AND epoch >= ? AND epoch < ?)",
        (collection.id, epoch.start, epoch.finish),
    )
    transaction.execute("UPDATE epochs SET bodies = 0 WHERE collection = ? AND start = ?", (collection.id, epoch.start))


def apply_retention(change: Change, collection: Collection, identity: str) -> list[str]:
    """Removes old bodies, adds old epochs up to coarser ones, forgets the oldest.

    Gives sentences about epochs that could not be added up.
    """
    rules = collection.rules
    before = change.now - int(rules.body_days * DAY_MS)
    for epoch in select_epochs(change, collection, "bodies = 1 AND sealed <= ?", before):
        remove_bodies(change, collection, epoch)
    problems = []
    for fine, coarse, days in ((HOUR, DAY, rules.hours_kept_days), (DAY, MONTH, rules.days_kept_days)):
        for start in _complete(change, collection, fine, coarse, change.now - int(days * DAY_MS)):
            try:
                with change.part():
                    _add_up(change, collection, coarse, start, identity)
            except (ValueError, OverflowError) as error:
                problems.append(f"the {fine}s of {in_iso(start)} were not added up: {error}")
    if rules.forget_days is not None:
        before = (change.now - int(rules.forget_days * DAY_MS)) // 1000
        for epoch in select_epochs(change, collection, "sealed IS NOT NULL AND finish <= ?", before):
            remove_bodies(change, collection, epoch)
            change.execute("DELETE FROM epochs WHERE collection = ? AND start = ?", (collection.id, epoch.start))
            note_epoch(change, "forget", collection, epoch.start)
    return problems


def _complete(transaction: Transaction, collection: Collection, fine: str, coarse: str, before: int) -> list[int]:
    """Starts of coarse epochs that ended before a moment, and whose fine epochs are all closed.

    Either all or none of the fine epochs have the bodies of their reports.
    """
    rows = transaction.all(
        "SELECT start, sealed, bodies FROM epochs WHERE collection = ? AND span = ? AND finish <= ? ORDER BY start",
        (collection.id, fine, before // 1000),
    )
    found: dict[int, set[tuple[bool, int]]] = {}
    for start, closed, bodies in rows:
        whole = start_of(coarse, start)
        if finish_of(coarse, whole) <= before // 1000:
            found.setdefault(whole, set()).add((closed is not None, bodies))
    return [start for start, states in found.items() if len(states) == 1 and all(closed for closed, _ in states)]


def _add_up(change: Change, collection: Collection, coarse: str, start: int, identity: str) -> None:
    finish = finish_of(coarse, start)
    parts = epochs_between(change, collection, start, finish)
    total = sum_of(collection, parts)
    if total is not None:
        total = total.as_batches(batch_of(identity, collection, start))
    kept = None if total is None else collection.known.to_kept(total)
    change.execute(
        "DELETE FROM epochs WHERE collection = ? AND start >= ? AND start < ?", (collection.id, start, finish)
    )
    reports, records = sum(part.reports for part in parts), sum(part.records for part in parts)
    each = [part.unshown_within(collection) for part in parts]
    unshown = NEVER_SHOWN if NEVER_SHOWN in each else tuple(map(sum, zip(*each, strict=True)))
    bodies = min(part.bodies for part in parts)
    row = (collection.id, start, finish, coarse, change.now, reports, records, kept, bodies, change.now, *unshown)
    change.insert("epochs", Epoch.COLUMNS, [row])
    facts = {"digest": digest_of(kept), "span": coarse, "parts": len(parts), "reports": reports}
    note_epoch(change, "add up", collection, start, **facts)


@dataclass(frozen=True)
class Window:
    """The sum of the epochs within [start, finish), and those that it leaves out, with the reason."""

    start: int
    finish: int
    epochs: list[Epoch]
    left_out: list[tuple[Epoch, str]]
    sketch: Sketch | None

    def to_json(self, collection: Collection) -> dict[str, Any]:
        """What the routes say of it."""
        ledger = None if self.sketch is None else self.sketch.ledger
        return {
            "start": in_iso(self.start),
            "finish": in_iso(self.finish),
            "reports": sum(epoch.reports for epoch in self.epochs),
            "records": sum(epoch.records for epoch in self.epochs),
            "epochs": [epoch.to_json(collection) for epoch in self.epochs],
            "left_out": [{"start": in_iso(epoch.start), "reason": reason} for epoch, reason in self.left_out],
            "ledger": None if ledger is None else ledger.to_json(),
        }


def window(transaction: Transaction, collection: Collection, start: int, finish: int) -> Window:
    """The sum of the epochs of a window, without those that may not be shown."""
    if not start < finish:
        raise RefusalError("malformed", "a window must end after it starts")
    found = [
        (epoch, epoch.why_hidden(collection) if start <= epoch.start and epoch.finish <= finish else PARTLY)
        for epoch in epochs_between(transaction, collection, start, finish)
    ]
    shown = [epoch for epoch, reason in found if reason is None]
    left_out = [(epoch, reason) for epoch, reason in found if reason is not None]
    with refused_as("not addable", "the epochs of the window cannot be added: "):
        total = sum_of(collection, shown)
    return Window(start, finish, shown, left_out, total)


def required_sketch(found: Window) -> Sketch:
    """The sum of a window that has one."""
    if found.sketch is None:
        reasons = sorted({reason for _, reason in found.left_out})
        why = f"no epoch of the window can be shown: {'; '.join(reasons)}" if reasons else "the window has no reports"
        raise RefusalError("too few" if reasons else "not found", why)
    return found.sketch
