"""Reports: each is counted once, in one epoch, in the transaction that writes its bytes."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sketchlearn.collector.collection import NEXT, Collection
from sketchlearn.collector.epoch_times import finish_of, in_iso, start_of
from sketchlearn.collector.epochs import Epoch, batch_of, epoch_at
from sketchlearn.collector.refusals import RefusalError, refused_as
from sketchlearn.core.limits import FormatError
from sketchlearn.files.sketches import OtherDesignError
from sketchlearn.privacy.release import releasable
from sketchlearn.sketch.bits import MAGIC, PRIVATE_MAGIC
from sketchlearn.sketch.sums import Sketch, most_records

if TYPE_CHECKING:
    from sketchlearn.collector.store import Store
    from sketchlearn.collector.writer import Group


ROOM = 20  # With private reading, 2^20 reports fit into a sum, so that a full sum does not tell of other senders.
MOST_RECORDS = 2**53  # that the database counts of one report; the sketch itself has all digits
MOST_OPEN_TOTALS = 256  # sums that the writer has at hand
LARGEST_HEADER = 1_000_000  # bytes of a report's description beside its design: ids of batches, names of files
_COLUMNS = "number, collection, sender, id, digest, epoch, records, received, late, removed"
_WRITE_EPOCH = (
    f"INSERT INTO epochs ({Epoch.COLUMNS}) VALUES (?, ?, ?, ?, NULL, ?, ?, ?, 1, NULL, 0, 0) "
    "ON CONFLICT (collection, start) "
    "DO UPDATE SET reports = excluded.reports, records = excluded.records, sketch = excluded.sketch"
)


@dataclass(frozen=True)
class Incoming:
    """A report that was read, and checked as far as it can be by itself; called, it is the work of taking it."""

    store: Store
    collection: Collection
    sender: int
    id: str
    body: bytes
    digest: bytes
    sketch: Sketch
    records: int
    time: float | None  # when its rows were seen, by the sender's clock, in seconds
    found: frozenset[bytes]  # identifies its rows, or its noise

    @property
    def batches(self) -> frozenset[bytes]:
        """The batch ids that are written. With private reading, other senders must not matter to a sender's reports."""
        return own_identities(self.found, self.sender) if self.collection.rules.private_reading else self.found

    @property
    def counted_as(self) -> list[tuple[int, bytes]]:
        """The batch ids that are looked up: its own and, of old reports, the body's digest."""
        return [(self.collection.id, one) for one in (*self.batches, *self.found, self.digest)] if self.found else []

    @classmethod
    def read(
        cls, store: Store, collection: Collection, sender: int, report: str, body: bytes, time: float | None
    ) -> Incoming:
        """A report from its bytes; refused, if it is no sketch of the collection's design that its rules allow."""
        rules = collection.rules
        if rules.hidden is not None:
            raise RefusalError(
                "not private", "this collection uses secure aggregation: send secret shares, not sketches"
            )
        if len(body) > rules.largest_body:
            raise RefusalError("too large", f"a report has at most {rules.largest_body:,} bytes here")
        try:
            sketch = collection.known.from_file(body)
        except OtherDesignError as error:
            raise RefusalError("other design", f"{error}: get the collection's design, and sketch with it") from None
        except FormatError as error:
            raise RefusalError("damaged", f"the report cannot be read: {error}") from None
        ledger = sketch.ledger
        if rules.private_reports and (ledger is None or not ledger.private or ledger.lacking):
            raise RefusalError("not private", "this collection takes private sketches alone: privatize it first")
        if why := _why_not_taken(collection, sketch):
            raise RefusalError("not addable", f"the report cannot be added: {why}")
        records = min(MOST_RECORDS, max(0, math.ceil(sketch.count)))
        if ledger is None and sketch.units == 0:
            raise RefusalError("malformed", "the report has no records: there is nothing to add")
        most = [] if rules.records_per_report is None else [rules.records_per_report]
        if rules.private_reading:  # whatever others have sent
            most.append(most_records(collection.known.operator) >> ROOM)
        if most and records > min(most):
            raise RefusalError("limit", f"a report has at most {min(most):,} records here, and this one {records:,}")
        digest = hashlib.sha256(body).digest()
        return cls(store, collection, sender, report, body, digest, sketch, records, time, identities(body, sketch))

    def __call__(self, group: Group) -> dict[str, Any]:
        return ReportGroup.of(self.store, group).take(self)


def names_own_design(collection: Collection, body: bytes) -> bool:
    """Whether the header of a report has the collection's design, letter by letter; looked at before it is parsed.

    Refuses headers that are longer than any report's.
    """
    longest = LARGEST_HEADER + collection.known.length
    if body[: len(MAGIC)] not in (MAGIC, PRIVATE_MAGIC) and int.from_bytes(body[:8], "little") > longest:
        raise RefusalError("damaged", f"the report cannot be read: its header has more than {longest:,} bytes")
    return collection.known.spells(body)


def _why_not_taken(collection: Collection, sketch: Sketch) -> str | None:
    """Why the rules about privacy units and private releases do not allow a sketch; None if they do.

    One report must not cause a release to be refused, or to have more noise: that would tell readers about it.
    """
    rules = collection.rules
    if sketch.ledger is not None:
        if rules.private_reading and not rules.private_reports:
            return "it is private, and the collector makes the releases of this collection: send the exact sketch"
        return None
    if rules.unit is not None and rules.rows_per_unit is not None:
        if sketch.unit is None or sketch.unit.name != rules.unit or sketch.unit.rows_per_unit > rules.rows_per_unit:
            wanted = f"unit={rules.unit!r}, rows_per_unit={rules.rows_per_unit}"
            return f"this collection takes sketches of rows of units: sketch with {wanted}"
    elif rules.private_reading and sketch.unit is not None:
        return f"its privacy unit is {sketch.unit.name}, but the collection's rules name no unit"
    if not rules.private_reading:
        return None
    if sketch.batches.largest > 1:
        return "some of its records count several times, and private releases are made of records that count once"
    try:
        releasable(sketch)
    except ValueError as error:
        return f"no private release could be made of it: {error}"
    return None


def identities(body: bytes, sketch: Sketch) -> frozenset[bytes]:
    """What identifies the rows of a report: its batch ids or, of a private one, a digest of its noisy sums.

    Bits of a device have none, since two devices may send the same few bits.
    """
    if body[: len(MAGIC)] in (MAGIC, PRIVATE_MAGIC):
        return frozenset()
    if sketch.ledger is not None:
        content = np.ascontiguousarray(sketch.sums, "<i8").tobytes() + str(sketch.units).encode()
        return frozenset([hashlib.sha256(content).digest()[:16]])
    return frozenset(number.to_bytes(8, "big") for number, times in sketch.batches.times.items() if times > 0)


def own_identities(found: frozenset[bytes], sender: int) -> frozenset[bytes]:
    """The same, hashed with the sender, so that only reports of the same sender can be duplicates."""
    return frozenset(hashlib.blake2b(one + str(sender).encode(), digest_size=8).digest() for one in found)


@dataclass
class OpenTotal:
    """The sum of an epoch that still takes reports, as the writer has it in memory."""

    start: int
    finish: int
    span: str
    closed: bool = False
    sketch: Sketch | None = None
    reports: int = 0
    records: int = 0


@dataclass
class ReportGroup:
    """The reports of one transaction: looked up one by one, written together."""

    store: Store
    group: Group
    _answers: dict[tuple[int, int, str], tuple[bytes, dict[str, Any]]] = field(default_factory=dict)
    _counted: dict[tuple[int, bytes], int] = field(default_factory=dict)  # by collection and batch: the sender
    _new: list[tuple[int, bytes, int]] = field(default_factory=list)  # of those, what is to be written
    _rows: list[tuple[Any, ...]] = field(default_factory=list)
    _bodies: list[tuple[int, bytes]] = field(default_factory=list)
    _touched: dict[tuple[int, int], tuple[Collection, OpenTotal]] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store, group: Group) -> ReportGroup:
        if group.reports is None:
            if len(store.open_totals) > MOST_OPEN_TOTALS:  # now, since no report of the group is in one of them yet
                store.open_totals.clear()
            group.reports = cls(store, group)
            group.reports._look_up([work for work in group.works if isinstance(work, Incoming)])
        found: ReportGroup = group.reports
        return found

    def take(self, report: Incoming) -> dict[str, Any]:
        """Adds a report, unless it was added before; the answer for its sender, the same each time."""
        key = (report.collection.id, report.sender, report.id)
        if key in self._answers:
            digest, before = self._answers[key]
            if digest != report.digest:
                sentence = "a report of this id came before with other bytes: give each report an id of its own"
                raise RefusalError("conflict", sentence)
            return before
        if report.sender in self.store.revoked_senders:
            raise RefusalError("unauthorised", "the sender was revoked")
        self._require_new(report)
        now = self.store.now()
        total, late = self._epoch(report, now)
        self._require_within_limits(report, total)
        answer = answer_for(report.id, total.start, report.records, report.digest, now, late)
        number = next(self.store.report_numbers)
        total.sketch = self._sum(report, total)
        total.reports, total.records = total.reports + 1, total.records + report.records
        self._bodies.append((number, report.body))
        self._touched[report.collection.id, total.start] = (report.collection, total)
        found = [(report.collection.id, batch) for batch in report.batches]
        self._counted.update(dict.fromkeys(found, report.sender))
        self._new += [(*batch, report.sender) for batch in found]
        self._rows.append((number, *key, report.digest, total.start, report.records, now, int(late), None))
        self._answers[key] = (report.digest, answer)
        return answer

    def _look_up(self, reports: list[Incoming]) -> None:
        """Reads the ids and the batch ids of these reports that are in the database."""
        keys = {(report.collection.id, report.sender, report.id) for report in reports}
        key, wanted = ("collection", "sender", "id"), ("digest", "epoch", "records", "received", "late")
        for row in self.group.transaction.matching("reports", (*key, *wanted), key, keys):
            collection, sender, number, digest, epoch, records, received, late = row
            answer = answer_for(number, epoch, records, digest, received, bool(late))
            self._answers[collection, sender, number] = (digest, answer)
        batches = {one for report in reports for one in report.counted_as}
        both = ("collection", "batch")
        for collection, batch, sender in self.group.transaction.matching("counted", (*both, "sender"), both, batches):
            self._counted[collection, batch] = sender

    def _require_new(self, report: Incoming) -> None:
        """Duplicate detection: refuses a report if one of its batches was counted before.

        With private reading, a sender must not find out what others have sent, and no record may decide whether
        another sender's report counts. There, only batches of the same sender are duplicates.
        """
        senders = {self._counted[key] for key in report.counted_as if key in self._counted}
        if report.sender in senders or (senders and not report.collection.rules.private_reading):
            raise RefusalError(
                "repeated",
                "this report was not added, since its rows are in another report already and would count twice. "
                "If these are other rows with the same values, sketch them as a batch with a name of its own",
            )

    def _epoch(self, report: Incoming, now: int) -> tuple[OpenTotal, bool]:
        """The sum that a report is added to, and whether it comes late."""
        rules, moment = report.collection.rules, now / 1000 if report.time is None else report.time
        if moment > now / 1000 + rules.skew_seconds:
            raise RefusalError(
                "wrong clock", f"the time of the report is ahead of {in_iso(now / 1000)}: set the sender's clock"
            )
        total = self._total(report.collection, min(moment, now / 1000))
        if not total.closed and now / 1000 < total.finish + rules.grace_seconds:
            return total, False
        if rules.late != NEXT:
            sentence = f"the epoch that began {in_iso(total.start)} is closed: it takes no more reports"
            raise RefusalError("closed", sentence)
        return self._total(report.collection, now / 1000), True

    def _total(self, collection: Collection, moment: float) -> OpenTotal:
        span = collection.rules.epoch
        start = start_of(span, moment)
        totals = self.store.open_totals
        if (collection.id, start) not in totals:
            total = OpenTotal(start, finish_of(span, start), span)
            if (found := epoch_at(self.group.transaction, collection, start)) is not None:
                closed = found.closed is not None
                sketch = None if closed else found.sketch(collection)
                total = OpenTotal(found.start, found.finish, found.span, closed, sketch, found.reports, found.records)
            totals[collection.id, start] = total
        return totals[collection.id, start]

    def _require_within_limits(self, report: Incoming, total: OpenTotal) -> None:
        rules = report.collection.rules
        if rules.reports_per_epoch is None and rules.records_per_epoch is None:
            return
        who = (report.collection.id, total.start, report.sender)
        [(reports, records)] = self.group.transaction.all(
            "SELECT count(*), coalesce(sum(records), 0) FROM reports WHERE collection = ? AND epoch = ? AND sender = ?",
            who,
        )
        pending = [row[6] for row in self._rows if (row[1], row[5], row[2]) == who]
        reports, records = reports + len(pending), records + sum(pending)
        if rules.reports_per_epoch is not None and reports >= rules.reports_per_epoch:
            raise RefusalError(
                "limit", f"a sender may send at most {rules.reports_per_epoch:,} reports in an epoch here"
            )
        if rules.records_per_epoch is not None and records + report.records > rules.records_per_epoch:
            raise RefusalError(
                "limit", f"a sender may send at most {rules.records_per_epoch:,} records in an epoch here"
            )

    def _sum(self, report: Incoming, total: OpenTotal) -> Sketch:
        batch = batch_of(self.store.identity, report.collection, total.start)
        if total.sketch is None:
            return report.sketch.as_batches(batch)
        with refused_as("not addable", "the report cannot be added: "):
            return report.collection.added(total.sketch, report.sketch).as_batches(batch)

    def write(self) -> None:
        """Writes what was taken since the last time, before the transaction is committed."""
        transaction = self.group.transaction
        transaction.insert("reports", _COLUMNS, self._rows)
        transaction.insert("bodies", "number, body", self._bodies)
        transaction.insert("counted", "collection, batch, sender", self._new)
        for collection, total in self._touched.values():
            kept = None if total.sketch is None else collection.known.to_kept(total.sketch)
            counts = (total.reports, total.records)
            transaction.execute(_WRITE_EPOCH, (collection.id, total.start, total.finish, total.span, *counts, kept))
        by_sender: dict[int, list[tuple[Any, ...]]] = {}
        for row in self._rows:
            by_sender.setdefault(row[2], []).append(row)
        transaction.with_rows(
            "UPDATE senders SET reports = reports + new.column2, records = records + new.column3, latest = new.column4 "
            "FROM (VALUES {}) AS new WHERE senders.id = new.column1",
            [(sender, len(rows), sum(row[6] for row in rows), rows[-1][7]) for sender, rows in by_sender.items()],
        )
        for pending in (self._rows, self._bodies, self._new, self._touched):
            pending.clear()


def answer_for(report: str, epoch: int, records: int, digest: bytes, received: int, late: bool) -> dict[str, Any]:
    """The answer to a report, the first time and each time it is sent again."""
    return {
        "id": report,
        "epoch": in_iso(epoch),
        "records": records,
        "digest": digest.hex(),
        "received": in_iso(received / 1000),
        "late": late,
    }
