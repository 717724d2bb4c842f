"""The first of two collectors: it keeps the rests of reports, and opens an epoch's total with the second one, once."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sketchlearn.collector import audit
from sketchlearn.collector.clients.secret_shares import (
    HiddenPart,
    PartHeader,
    SealedSeed,
    Words,
    added,
    design_digest,
    expanded,
)
from sketchlearn.collector.collection import Collection, one_batch
from sketchlearn.collector.database import Transaction
from sketchlearn.collector.epoch_times import finish_of, from_text, in_iso, start_of
from sketchlearn.collector.epochs import COLLECTOR, Epoch, batch_number, digest_of, epoch_at
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.store import Store
from sketchlearn.collector.writer import Group, Work
from sketchlearn.core.errors import InvalidValueError
from sketchlearn.core.limits import FormatError
from sketchlearn.core.messages import counted
from sketchlearn.core.values import whole
from sketchlearn.features.provenance import public_design
from sketchlearn.privacy.noise_plan import COUNT_SHARE, plan_noise
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.sketch.sums import LARGEST_INTEGER, Release, Sketch

NOISE_ROOM = 64  # Deviations of noise that must fit beside the sums: discrete Laplace noise exceeds them once in 10^39.


class RefusedError(InvalidValueError):
    """A collector does not take a report, or does not open an epoch."""


@dataclass(frozen=True)
class HiddenTerms:
    """What holds for all reports of a collection whose sums hide their parts; both collectors have it.

    Parameters
    ----------
    collection, design : its name, and the digest of its design.
    integers : how many a report has: the operator's sums, and the count.
    minimum : an epoch of fewer reports, or of fewer senders where they are known, is never opened.
    most_records : how many records a report may have.
    ledger : where each report has a share of noise, what each claims; None if reports are exact.
    """

    collection: str
    design: str
    integers: int
    minimum: int
    most_records: int
    ledger: Ledger | None = None

    def __post_init__(self) -> None:
        whole("minimum", self.minimum, 2)
        whole("most_records", self.most_records, 1, LARGEST_INTEGER)

    def check(self, header: PartHeader) -> None:
        """Refuses a report that is for something else."""
        if header.collection != self.collection:
            raise RefusedError(f"this report is for the collection {header.collection}, not for {self.collection}")
        if (header.design, header.integers) != (self.design, self.integers):
            raise RefusedError("this report is of another design: fetch the collection's design and sketch again")
        if header.ledger != self.ledger:
            wanted = "exact" if self.ledger is None else f"{self.ledger}"
            raise RefusedError(f"all reports of this collection must claim the same: {wanted}")

    def require_minimum(self, found: int, what: str) -> None:
        """Refuses an epoch with fewer reports or senders than the minimum, or than make its noise private."""
        shares = 0 if self.ledger is None or self.ledger.parties is None else self.ledger.parties
        if found < (least := max(self.minimum, shares)):
            noise = " for its shares of noise to be private" if shares == least else ""
            raise RefusedError(
                f"the epoch has {counted(found, what)} of which both collectors have their half, and needs "
                f"{least:,}{noise}"
            )

    def require_room(self, ceiling: int, n_reports: int) -> None:
        """Refuses a total that could leave 64 bits, and would then be wrong without a sign of it."""
        noise = 0.0 if self.ledger is None else NOISE_ROOM * (n_reports * self.ledger.sum_variance) ** 0.5
        if n_reports * self.most_records * ceiling + int(noise) > LARGEST_INTEGER:
            raise RefusedError(
                f"{n_reports:,} reports of up to {self.most_records:,} records could overflow: allow fewer records per "
                "report, or seal epochs sooner"
            )

    def to_json(self) -> dict[str, Any]:
        form = {name: getattr(self, name) for name in ("collection", "design", "integers", "minimum", "most_records")}
        return {**form, "ledger": None if self.ledger is None else self.ledger.to_json()}

    @classmethod
    def from_json(cls, form: Any) -> HiddenTerms:
        ledger = None if form["ledger"] is None else Ledger.from_json(form["ledger"])
        return cls(**{**form, "ledger": ledger})


@dataclass(frozen=True)
class Question:
    """What the first collector asks the second one at the end of an epoch: the total of these reports' shares.

    `opening` is a random number of this opening: after a loss on the way, the same question gets the same answer.
    `reports` are the fingerprints of their sealed seeds.
    """

    collection: str
    epoch: str
    opening: str
    reports: frozenset[str]

    @property
    def digest(self) -> str:
        """Of all that is asked."""
        text = json.dumps([self.collection, self.epoch, self.opening, sorted(self.reports)])
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        about = {"collection": self.collection, "epoch": self.epoch, "opening": self.opening}
        return {**about, "reports": sorted(self.reports)}

    @classmethod
    def from_json(cls, form: Any) -> Question:
        names = ("collection", "epoch", "opening")
        if not isinstance(form, dict) or form.keys() != {*names, "reports"} or not isinstance(form["reports"], list):
            raise ValueError("a question for a total must name the collection, the epoch, the opening and the reports")
        if not all(isinstance(text, str) for text in [*map(form.get, names), *form["reports"]]):
            raise ValueError("a question for a total must be made of texts")
        return cls(form["collection"], form["epoch"], form["opening"], frozenset(form["reports"]))


@dataclass(frozen=True, eq=False)
class Answer:
    """The second collector's total over the asked reports but the missing ones, which it does not have."""

    question: str
    missing: frozenset[str]
    total: Words

    def to_json(self) -> dict[str, Any]:
        total = base64.b64encode(self.total.astype("<u8").tobytes()).decode()
        return {"question": self.question, "missing": sorted(self.missing), "total": total}

    @classmethod
    def from_json(cls, form: Any) -> Answer:
        if not isinstance(form, dict) or form.keys() != {"question", "missing", "total"}:
            raise ValueError("an answer must have the digest of its question, the missing reports and a total")
        try:
            total = np.frombuffer(base64.b64decode(form["total"], validate=True), "<u8").astype(np.uint64)
        except (TypeError, ValueError, binascii.Error):
            raise ValueError("the total of an answer is not in base 64") from None
        return cls(form["question"], frozenset(form["missing"]), total)


def open_total(
    terms: HiddenTerms, operator: Any, question: Question, answer: Answer, parts: Iterable[HiddenPart]
) -> Sketch:
    """The epoch's sketch: the rests of the asked reports but the missing ones, and the second collector's total.

    Of exact reports, it is exact and not private; of shares of noise, its ledger has the guarantee of one release.
    """
    if answer.question != question.digest:
        raise RefusedError("the second collector has answered another question")
    if not answer.missing <= question.reports:
        raise RefusedError("the second collector misses reports that it was not asked about")
    included = question.reports - answer.missing
    terms.require_minimum(len(included), "report")
    terms.require_room(operator.ceiling, len(included))
    n_added = 0

    def rests() -> Iterable[Words]:
        nonlocal n_added
        for part in parts:
            if part.sealed_seed.fingerprint in included:
                terms.check(part.header)
                n_added += 1
                yield part.rest

    total = added(rests())
    if n_added != len(included) or len(answer.total) != len(total):
        raise RefusedError("the reports of the epoch, the question and the answer do not fit together")
    integers = np.add(total, answer.total).view(np.int64)
    sums, count = integers[:-1], int(integers[-1])
    if terms.ledger is not None:
        return Release(operator, sums, max(1, count), terms.ledger.of_shares(n_added))
    try:
        if not 0 <= count <= n_added * terms.most_records:
            raise ValueError(f"a count of {count:,} is impossible")
        return Sketch(operator, sums, count)
    except (ValueError, OverflowError) as error:
        raise RefusedError(
            f"the opened total is of no records ({error}): a sender or a collector has spoiled it, and who it was "
            "cannot be told"
        ) from None


TABLES = (
    "CREATE TABLE IF NOT EXISTS hidden_terms (collection TEXT PRIMARY KEY, terms TEXT NOT NULL)",
    # until their epoch is opened; which epochs were opened is known for ever
    """CREATE TABLE IF NOT EXISTS hidden_seeds (
        collection TEXT NOT NULL, fingerprint TEXT NOT NULL, epoch TEXT NOT NULL, sender TEXT, seed BLOB NOT NULL,
        PRIMARY KEY (collection, fingerprint))""",
    "CREATE INDEX IF NOT EXISTS hidden_seeds_by_epoch ON hidden_seeds (collection, epoch)",
    """CREATE TABLE IF NOT EXISTS hidden_answers (
        collection TEXT NOT NULL, epoch TEXT NOT NULL, question TEXT NOT NULL, answer TEXT NOT NULL,
        PRIMARY KEY (collection, epoch))""",
)


class SecondCollector:
    """Seeds of reports, in a database of their own, which the first collector cannot read.

    Parameters
    ----------
    connection : of sqlite3, in autocommit mode, for this collector alone.
    private_key : the half of the key with which seeds are opened.
    sender_of : the name of the sender that a credential belongs to, or None if it is unknown. Without it anybody may
        report, the first collector too, which could fill up an epoch with reports of its own.
    """

    def __init__(
        self, connection: Any, private_key: bytes, sender_of: Callable[[str], str | None] | None = None
    ) -> None:
        self._connection, self._private_key, self._sender_of = connection, private_key, sender_of
        self._lock = threading.RLock()
        for statement in TABLES:
            connection.execute(statement)

    def agree(self, terms: HiddenTerms) -> None:
        """Notes the terms of a collection, which are then fixed."""
        with self._transaction() as run:
            known = self._terms(run, terms.collection)
            if known is None:
                row = (terms.collection, json.dumps(terms.to_json()))
                run("INSERT INTO hidden_terms VALUES (?, ?)", row)
            elif known != terms:
                raise RefusedError(f"the collection {terms.collection} has other terms here: they cannot be changed")

    def receive(self, seeds: Iterable[SealedSeed]) -> dict[str, str]:
        """Takes in seeds; for each that is refused, by its fingerprint, a sentence that says why."""
        refused = {}
        with self._transaction() as run:
            for seed in seeds:
                try:
                    self._receive(run, seed)
                except ValueError as error:
                    refused[seed.fingerprint] = str(error)
        return refused

    def _receive(self, run: Callable[..., Any], sealed: SealedSeed) -> None:
        header = sealed.header
        self._required_terms(run, header.collection).check(header)
        where = (header.collection, sealed.fingerprint)
        if run("SELECT 1 FROM hidden_seeds WHERE collection = ? AND fingerprint = ?", where).fetchone():
            return
        if self._answered(run, header.collection, header.epoch) is not None:
            raise RefusedError(f"the epoch {header.epoch} was opened already")
        seed, credential = sealed.open(self._private_key)
        sender = None if self._sender_of is None else self._sender_of(credential)
        if self._sender_of is not None and sender is None:
            raise RefusedError("the second collector does not know the sender of this report")
        run("INSERT INTO hidden_seeds VALUES (?, ?, ?, ?, ?)", (*where, header.epoch, sender, seed))

    def answer(self, question: Question) -> Answer:
        """The total over the asked reports that are here; each epoch has one answer, and the same question gets it."""
        with self._transaction() as run:
            terms = self._required_terms(run, question.collection)
            before = self._answered(run, question.collection, question.epoch)
            if before is not None:
                if before[0] != question.digest:
                    raise RefusedError(f"the epoch {question.epoch} was opened already: its total is told once")
                return Answer.from_json(json.loads(before[1]))
            answer = self._total(run, terms, question)
            where = (question.collection, question.epoch)
            row = (*where, answer.question, json.dumps(answer.to_json()))
            run("INSERT INTO hidden_answers VALUES (?, ?, ?, ?)", row)
            run("DELETE FROM hidden_seeds WHERE collection = ? AND epoch = ?", where)
        return answer

    @staticmethod
    def _total(run: Callable[..., Any], terms: HiddenTerms, question: Question) -> Answer:
        found: set[str] = set()
        senders: set[str | None] = set()
        where = (question.collection, question.epoch)
        rows = run("SELECT fingerprint, sender FROM hidden_seeds WHERE collection = ? AND epoch = ?", where)
        for fingerprint, sender in rows:
            if fingerprint in question.reports:
                found.add(fingerprint)
                senders.add(sender)
        known = None not in senders
        terms.require_minimum(len(senders) if known else len(found), "sender" if known else "report")
        chosen = run("SELECT fingerprint, seed FROM hidden_seeds WHERE collection = ? AND epoch = ?", where)
        total = added(expanded(bytes(seed), terms.integers) for name, seed in chosen if name in found)
        return Answer(question.digest, frozenset(question.reports - found), total)

    def _required_terms(self, run: Callable[..., Any], collection: str) -> HiddenTerms:
        terms = self._terms(run, collection)
        if terms is None:
            raise RefusedError(f"the second collector has no collection {collection}")
        return terms

    @staticmethod
    def _terms(run: Callable[..., Any], collection: str) -> HiddenTerms | None:
        row = run("SELECT terms FROM hidden_terms WHERE collection = ?", (collection,)).fetchone()
        return None if row is None else HiddenTerms.from_json(json.loads(row[0]))

    @staticmethod
    def _answered(run: Callable[..., Any], collection: str, epoch: str) -> tuple[str, str] | None:
        query = "SELECT question, answer FROM hidden_answers WHERE collection = ? AND epoch = ?"
        found: tuple[str, str] | None = run(query, (collection, epoch)).fetchone()
        return found

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., Any]]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


SEEDS_AT_ONCE = 500


class Second(Protocol):
    """What the first collector asks of the second one."""

    def receive(self, seeds: list[SealedSeed]) -> dict[str, str]: ...
    def answer(self, question: Question) -> Answer: ...


def hidden_terms(collection: Collection) -> HiddenTerms:
    """The terms of a collection, which each collector derives from its own design and rules."""
    operator, rules = collection.known.operator.without_keeping(), collection.rules
    if rules.hidden is None or rules.records_per_report is None:
        raise RefusalError("conflict", "the sums of this collection do not hide their parts: send sketches")
    return HiddenTerms(
        collection.name,
        design_digest(operator),
        operator.n_sums + 1,
        rules.min_reports,
        rules.records_per_report,
        ledger_of_share(operator, rules.noise_epsilon, rules.noise_parties),
    )


def ledger_of_share(operator: Any, epsilon: float | None, parties: int | None) -> Ledger | None:
    """What `privatize(..., epsilon=..., parties=...)` says of each share."""
    if epsilon is None or parties is None:
        return None
    try:
        plan = plan_noise(operator, epsilon=epsilon, delta=0.0, neighbors="add-remove", count_share=COUNT_SHARE,
                          shares=None, parties=parties, times=1, unit=None)  # fmt: skip
        return plan.ledger(public_design(operator, False), private=True)
    except ValueError as error:
        raise RefusalError("malformed", str(error)) from None


def part_to_keep(store: Store, collection: Collection, sender: int, number: str, body: bytes) -> Work:
    """The work of keeping a part, which is read and checked by itself; the same again gets the same answer."""
    terms = hidden_terms(collection)
    try:
        part = HiddenPart.from_bytes(body)
        terms.check(part.header)
    except FormatError as error:
        raise RefusalError("damaged", f"the part cannot be read: {error}") from None
    except RefusedError as error:
        raise RefusalError("other design", str(error)) from None
    if part.header.id != number:
        raise RefusalError("malformed", "the part was sealed for another id than the one it is sent with")
    try:
        start = int(from_text(part.header.epoch))
    except ValueError as error:
        raise RefusalError("malformed", str(error)) from None
    span, rules, digest = collection.rules.epoch, collection.rules, hashlib.sha256(body).digest()
    if start_of(span, start) != start or in_iso(start) != part.header.epoch:
        raise RefusalError("malformed", f"the epoch of a part is the start of its {span}, such as {in_iso(0)}")

    def keep(group: Group) -> dict[str, Any]:
        transaction = group.transaction
        where, now = (collection.id, sender, number), store.now()
        known = transaction.one(
            "SELECT digest, received FROM hidden_parts WHERE collection = ? AND sender = ? AND id = ?", where
        )
        if known is not None:
            if bytes(known[0]) != digest:
                raise RefusalError("conflict", "a report of this id came before with other bytes")
            return _answer(number, start, int(known[1]))
        if sender in store.revoked_senders:
            raise RefusalError("unauthorised", "the sender was revoked")
        if start > now / 1000 + rules.skew_seconds:
            raise RefusalError("wrong clock", "the epoch of the part is in the future: set the sender's clock")
        opening = transaction.one(
            "SELECT opening FROM hidden_openings WHERE collection = ? AND epoch = ?", (collection.id, start)
        )
        if opening is not None or now / 1000 >= finish_of(span, start) + rules.grace_seconds:
            raise RefusalError("closed", f"the epoch that began {in_iso(start)} is closed")
        row = (*where, start, part.sealed_seed.fingerprint, body, digest, now)
        transaction.execute("INSERT INTO hidden_parts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        transaction.execute("UPDATE senders SET reports = reports + 1, latest = ? WHERE id = ?", (now, sender))
        return _answer(number, start, now)

    return keep


def _answer(number: str, start: int, received: int) -> dict[str, Any]:
    return {"id": number, "epoch": in_iso(start), "received": in_iso(received / 1000), "records": 0}


def open_epoch(store: Store, collection: Collection, start: int, second: Second) -> Sketch:
    """Opens the total of an epoch that is over, with the second collector; once."""
    terms, finish = hidden_terms(collection), finish_of(collection.rules.epoch, start)
    if store.now() < 1000 * (finish + collection.rules.grace_seconds):
        raise RefusalError("conflict", f"the epoch that began {in_iso(start)} still takes reports")
    operator = collection.known.operator.without_keeping()
    question = store.writer.do(lambda t: _question(t, store, collection, start, terms))
    try:
        # what it has already, it keeps; what it refuses is missing in its answer
        for seeds in _groups(part.sealed_seed for part in _parts(store, collection, start)):
            second.receive(seeds)
        answer = second.answer(question)
        total = open_total(terms, operator, question, answer, _parts(store, collection, start))
    except RefusedError as error:
        raise RefusalError("too few" if "needs" in str(error) else "conflict", str(error)) from None
    total = total.as_batches(one_batch(batch_number(store.identity, collection.id, start)))
    reports = len(question.reports - answer.missing)
    store.writer.do(lambda t: _keep(t, store, collection, start, total, reports))
    store.changed(collection.name, "sealed", start=start)
    return total


def _question(
    transaction: Transaction, store: Store, collection: Collection, start: int, terms: HiddenTerms
) -> Question:
    """What is asked, noted before it is: from then on the epoch takes no part, and no other question is asked."""
    where = (collection.id, start)
    known = transaction.one("SELECT opening, opened FROM hidden_openings WHERE collection = ? AND epoch = ?", where)
    if known is not None and known[1] is not None:
        raise RefusalError("conflict", f"the epoch that began {in_iso(start)} was opened already")
    rows = transaction.all(
        "SELECT fingerprint, sender FROM hidden_parts WHERE collection = ? AND epoch = ? AND body IS NOT NULL", where
    )
    try:
        terms.require_minimum(len({sender for _, sender in rows}), "sender")
        terms.require_room(collection.known.operator.ceiling, len(rows))
    except RefusedError as error:
        raise RefusalError("too few", str(error)) from None
    opening = secrets.token_hex(16) if known is None else str(known[0])
    if known is None:
        transaction.execute("INSERT INTO hidden_openings VALUES (?, ?, ?, NULL)", (*where, opening))
        audit.note(transaction, store.now(), COLLECTOR, "open", collection=collection.name, epoch=in_iso(start))
    return Question(collection.name, in_iso(start), opening, frozenset(fingerprint for fingerprint, _ in rows))


def _parts(store: Store, collection: Collection, start: int) -> Iterator[HiddenPart]:
    with store.reading() as transaction:
        rows = transaction.execute(
            "SELECT body FROM hidden_parts WHERE collection = ? AND epoch = ? AND body IS NOT NULL",
            (collection.id, start),
        )
        for (body,) in rows:
            yield HiddenPart.from_bytes(bytes(body))


def _groups(seeds: Iterator[SealedSeed]) -> Iterator[list[SealedSeed]]:
    group: list[SealedSeed] = []
    for seed in seeds:
        group.append(seed)
        if len(group) == SEEDS_AT_ONCE:
            yield group
            group = []
    if group:
        yield group


def _keep(
    transaction: Transaction, store: Store, collection: Collection, start: int, total: Sketch, reports: int
) -> None:
    """Writes the opened total as a sealed epoch, and removes the parts."""
    now, where = store.now(), (collection.id, start)
    if epoch_at(transaction, collection, start) is not None:
        raise RefusalError("conflict", f"the epoch that began {in_iso(start)} was opened already")
    finish, kept = finish_of(collection.rules.epoch, start), collection.known.to_kept(total)
    records = max(0, int(total.count))
    transaction.execute(
        f"INSERT INTO epochs ({Epoch.COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, NULL, 0, 0)",
        (*where, finish, collection.rules.epoch, now, reports, records, kept),
    )
    transaction.execute("UPDATE hidden_openings SET opened = ? WHERE collection = ? AND epoch = ?", (now, *where))
    transaction.execute("UPDATE hidden_parts SET body = NULL WHERE collection = ? AND epoch = ?", where)
    facts = {"collection": collection.name, "epoch": in_iso(start), "start": start, "digest": digest_of(kept)}
    audit.note(transaction, now, COLLECTOR, "seal", **facts, reports=reports, records=records)


def to_open(store: Store, collection: Collection) -> list[int]:
    """Starts of epochs that are over, and were not opened."""
    over = store.now() // 1000 - collection.rules.grace_seconds
    with store.reading() as transaction:
        rows = transaction.all(
            "SELECT DISTINCT p.epoch FROM hidden_parts p LEFT JOIN hidden_openings o ON o.collection = p.collection "
            "AND o.epoch = p.epoch WHERE p.collection = ? AND o.opened IS NULL AND p.body IS NOT NULL ORDER BY p.epoch",
            (collection.id,),
        )
    return [start for (start,) in rows if finish_of(collection.rules.epoch, start) <= over]


class RemoteSecond:
    """The second collector behind its routes; `post` sends a JSON object to a path and gives the answer's."""

    def __init__(self, collection: str, post: Callable[[str, Any], Any]) -> None:
        self._path, self._post = f"/v1/collections/{collection}", post

    def receive(self, seeds: list[SealedSeed]) -> dict[str, str]:
        found: dict[str, str] = self._post(f"{self._path}/seeds", {"seeds": [seed.to_json() for seed in seeds]})[
            "refused"
        ]
        return found

    def answer(self, question: Question) -> Answer:
        return Answer.from_json(self._post(f"{self._path}/totals", json.loads(json.dumps(question.to_json()))))
