"""Reports: each is counted once, in one epoch, in the same transaction in which its bytes are kept."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sketchlearn.collector.collection import Collection, one_batch
from sketchlearn.collector.epoch_times import finish_of, in_iso, start_of
from sketchlearn.collector.epochs import Epoch, batch_number, epoch_at
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.rules import NEXT
from sketchlearn.sketch import Sketch
from sketchlearn.storage.container import FormatError
from sketchlearn.storage.known_operator import OtherDesignError

if TYPE_CHECKING:
    from sketchlearn.collector.store import Store
    from sketchlearn.collector.writer import Group

MOST_RECORDS = 2**53  # that the database counts of one report; the sketch itself has all digits
_INSERT_REPORT = "INSERT INTO reports (number, collection, sender, id, digest, epoch, records, received, late)"
_WRITE_EPOCH = (
    f"INSERT INTO epochs ({Epoch.COLUMNS}) VALUES (?, ?, ?, ?, NULL, ?, ?, ?, 1, NULL) ON CONFLICT (collection, start) "
    "DO UPDATE SET reports = excluded.reports, records = excluded.records, sketch = excluded.sketch"
)


@dataclass(frozen=True)
class Incoming:
    """A report that was read and checked by itself, to be added."""

    collection: Collection
    sender: int
    id: str
    body: bytes
    digest: bytes
    sketch: Sketch
    records: int
    time: float | None  # when its rows were seen, by the sender's clock, in seconds
    unique: bool  # equal bytes can only be the same sketch: its batches have random numbers, or its noise is random

    @classmethod
    def read(cls, collection: Collection, sender: int, report: str, body: bytes, time: float | None) -> Incoming:
        """A report from its bytes, if they are a sound sketch of the collection's design that its rules allow."""
        rules = collection.rules
        if rules.hidden is not None:
            raise RefusalError("not private", "the sums of this collection hide their parts: send parts, not sketches")
        if len(body) > rules.largest_body:
            raise RefusalError("too large", f"a report has at most {rules.largest_body:,} bytes here")
        try:
            sketch, numbered = collection.known.numbered_from_file(body)
        except OtherDesignError as error:
            raise RefusalError("other design", f"{error}: get the collection's design, and sketch with it") from None
        except FormatError as error:
            raise RefusalError("damaged", f"the report cannot be read: {error}") from None
        ledger = sketch.ledger
        if rules.private_reports and (ledger is None or not ledger.private or ledger.lacking):
            raise RefusalError("not private", "this collection takes private sketches alone: privatize it first")
        records = min(MOST_RECORDS, max(0, math.ceil(sketch.count)))
        if ledger is None and sketch.units == 0:
            raise RefusalError("malformed", "the report has no records: there is nothing to add")
        if rules.records_per_report is not None and records > rules.records_per_report:
            raise RefusalError(
                "limit", f"a report has at most {rules.records_per_report:,} records here, and this one {records:,}"
            )
        digest = hashlib.sha256(body).digest()
        unique = numbered or (ledger is not None and not ledger.local)  # two devices may send the same few bits
        return cls(collection, sender, report, body, digest, sketch, records, time, unique)


@dataclass
class OpenTotal:
    """The sum of an epoch that still takes reports, as the writer has it."""

    start: int
    finish: int
    span: str
    sealed: bool = False
    sketch: Sketch | None = None
    reports: int = 0
    records: int = 0


@dataclass(frozen=True)
class TakeReport:
    """The work of taking a report."""

    store: Store
    report: Incoming

    def __call__(self, group: Group) -> dict[str, Any]:
        return ReportGroup.of(self.store, group).take(self.report)


@dataclass
class ReportGroup:
    """The reports of one transaction: looked up one by one, written together."""

    store: Store
    group: Group
    _answers: dict[tuple[int, int, str], tuple[bytes, dict[str, Any]]] = field(default_factory=dict)
    _digests: set[tuple[int, bytes]] = field(default_factory=set)
    _rows: list[tuple[Any, ...]] = field(default_factory=list)
    _bodies: list[tuple[int, bytes]] = field(default_factory=list)
    _touched: dict[tuple[int, int], tuple[Collection, OpenTotal]] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store, group: Group) -> ReportGroup:
        """The reports of a group of works."""
        if cls not in group.shared:
            group.shared[cls] = cls(store, group)
            group.shared[cls]._look_up([work.report for work in group.works if isinstance(work, TakeReport)])
        found: ReportGroup = group.shared[cls]
        if found._write not in group.finish:
            group.finish.append(found._write)
        return found

    def take(self, report: Incoming) -> dict[str, Any]:
        """Adds a report, or says what was said before if it is here already; the answer for its sender."""
        key = (report.collection.id, report.sender, report.id)
        known = self._answers.get(key)
        if known is not None:
            if known[0] != report.digest:
                raise RefusalError(
                    "conflict", "a report of this id came before with other bytes: give each report an id of its own"
                )
            return known[1]
        if report.sender in self.store.revoked_senders:
            raise RefusalError("unauthorised", "the sender was revoked")
        if report.unique:
            self._require_new_bytes(report)
        now = self.store.now()
        total, late = self._epoch(report, now)
        self._require_within_limits(report, total)
        total.sketch = self._sum(report, total)
        total.reports, total.records = total.reports + 1, total.records + report.records
        answer = answer_for(report.id, total.start, report.records, report.digest, now, late)
        number = self.store.next_report()
        self._rows.append((number, *key, report.digest, total.start, report.records, now, int(late)))
        self._bodies.append((number, report.body))
        self._answers[key] = (report.digest, answer)
        self._digests.add((report.collection.id, report.digest))
        self._touched[report.collection.id, total.start] = (report.collection, total)
        return answer

    def _look_up(self, reports: list[Incoming]) -> None:
        """What the database has of the ids and the bytes of these reports; rows of reports are never removed."""
        keys = {(report.collection.id, report.sender, report.id) for report in reports}
        key, wanted = ("collection", "sender", "id"), ("digest", "epoch", "records", "received", "late")
        for row in self.group.transaction.matching("reports", (*key, *wanted), key, keys):
            collection, sender, number, digest, epoch, records, received, late = row
            answer = answer_for(number, epoch, records, bytes(digest), received, bool(late))
            self._answers[collection, sender, number] = (bytes(digest), answer)
        contents = {(report.collection.id, report.digest) for report in reports if report.unique}
        both = ("collection", "digest")
        for collection, digest in self.group.transaction.matching("reports", both, both, contents):
            self._digests.add((collection, bytes(digest)))

    def _require_new_bytes(self, report: Incoming) -> None:
        if (report.collection.id, report.digest) in self._digests:
            raise RefusalError(
                "repeated", "the same sketch came before under another id, and would count twice: it was not added"
            )

    def _epoch(self, report: Incoming, now: int) -> tuple[OpenTotal, bool]:
        """The sum that a report is added to, and whether it comes late."""
        rules, moment = report.collection.rules, now / 1000 if report.time is None else report.time
        if moment > now / 1000 + rules.skew_seconds:
            raise RefusalError(
                "wrong clock", f"the time of the report is ahead of {in_iso(now / 1000)}: set the sender's clock"
            )
        total = self._total(report.collection, min(moment, now / 1000))
        if not total.sealed and now / 1000 < total.finish + rules.grace_seconds:
            return total, False
        if rules.late != NEXT:
            raise RefusalError(
                "closed", f"the epoch that began {in_iso(total.start)} is closed: reports that late are not counted"
            )
        return self._total(report.collection, now / 1000), True

    def _total(self, collection: Collection, moment: float) -> OpenTotal:
        start = start_of(collection.rules.epoch, moment)
        totals = self.store.open_totals
        if (collection.id, start) not in totals:
            found = epoch_at(self.group.transaction, collection, start)
            if found is None:
                total = OpenTotal(start, finish_of(collection.rules.epoch, start), collection.rules.epoch)
            else:
                sketch = None if found.sealed is not None else found.sketch(collection)
                sealed = found.sealed is not None
                total = OpenTotal(found.start, found.finish, found.span, sealed, sketch, found.reports, found.records)
            totals[collection.id, start] = total
        return totals[collection.id, start]

    def _require_within_limits(self, report: Incoming, total: OpenTotal) -> None:
        rules = report.collection.rules
        if rules.reports_per_epoch is None and rules.records_per_epoch is None:
            return
        who = (report.collection.id, total.start, report.sender)
        found = self.group.transaction.one(
            "SELECT count(*), coalesce(sum(records), 0) FROM reports WHERE collection = ? AND epoch = ? AND sender = ? "
            "AND removed IS NULL",
            who,
        )
        assert found is not None
        pending = [row[6] for row in self._rows if (row[1], row[5], row[2]) == who]
        reports, records = int(found[0]) + len(pending), int(found[1]) + sum(pending)
        if rules.reports_per_epoch is not None and reports >= rules.reports_per_epoch:
            raise RefusalError("limit", f"a sender has at most {rules.reports_per_epoch:,} reports in an epoch here")
        if rules.records_per_epoch is not None and records + report.records > rules.records_per_epoch:
            raise RefusalError("limit", f"a sender has at most {rules.records_per_epoch:,} records in an epoch here")

    def _sum(self, report: Incoming, total: OpenTotal) -> Sketch:
        batch = one_batch(batch_number(self.store.identity, report.collection.id, total.start))
        if total.sketch is None:
            return report.sketch.as_batches(batch)
        try:
            return report.collection.added(total.sketch, report.sketch).as_batches(batch)
        except (ValueError, OverflowError) as error:
            raise RefusalError("not addable", f"the report cannot be added: {error}") from None

    def _write(self) -> None:
        """Writes what was taken, before the transaction is committed."""
        transaction = self.group.transaction
        transaction.insert(_INSERT_REPORT, self._rows)
        transaction.insert("INSERT INTO bodies (number, body)", self._bodies)
        for collection, total in self._touched.values():
            kept = None if total.sketch is None else collection.known.to_kept(total.sketch)
            counts = (total.reports, total.records)
            transaction.execute(_WRITE_EPOCH, (collection.id, total.start, total.finish, total.span, *counts, kept))
        by_sender: dict[int, list[tuple[Any, ...]]] = {}
        for row in self._rows:
            by_sender.setdefault(row[2], []).append(row)
        transaction.update(
            "UPDATE senders SET reports = reports + new.column2, records = records + new.column3, latest = new.column4",
            "senders.id = new.column1",
            [(sender, len(rows), sum(row[6] for row in rows), rows[-1][7]) for sender, rows in by_sender.items()],
        )
        for pending in (self._rows, self._bodies, self._touched):
            pending.clear()


def answer_for(report: str, epoch: int, records: int, digest: bytes, received: int, late: bool) -> dict[str, Any]:
    """What a sender is told, the first time and each time it sends the same again."""
    return {
        "id": report,
        "epoch": in_iso(epoch),
        "records": records,
        "digest": digest.hex(),
        "received": in_iso(received / 1000),
        "late": late,
    }
