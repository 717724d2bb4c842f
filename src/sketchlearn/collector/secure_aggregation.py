"""Secure aggregation with two collectors: each has one secret share of every report, and both open a total, once.

The first collector keeps its shares in its database, and forwards encrypted seeds to the second one, which expands them
to its shares. A server can be the first collector, the second one, or one of each for different collections.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
import sqlite3
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sketchlearn.collector.clients.secret_shares import (
    HiddenPart,
    LedgerOrNone,
    PartHeader,
    SealedSeed,
    Words,
    added,
    design_digest,
    expanded,
    new_private_key,
)
from sketchlearn.collector.collection import FIRST, SECOND, Collection
from sketchlearn.collector.database import COLLECTOR, Change, transaction_of
from sketchlearn.collector.epoch_times import finish_of, from_text, in_iso, start_of
from sketchlearn.collector.epochs import Epoch, batch_of, digest_of, epoch_at, note_epoch
from sketchlearn.collector.refusals import RefusalError, refused_as
from sketchlearn.collector.store import Store
from sketchlearn.collector.writer import Group, Work
from sketchlearn.core.errors import InvalidValueError
from sketchlearn.core.limits import FormatError
from sketchlearn.core.messages import counted
from sketchlearn.core.owner_folder import write_file
from sketchlearn.core.values import whole
from sketchlearn.features.provenance import public_design
from sketchlearn.privacy.noise_plan import COUNT_SHARE, plan_noise
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.sketch.sums import LARGEST_INTEGER, Release, Sketch

# Standard deviations of noise that must fit beside the sums: discrete Laplace noise exceeds them once in 10^39 draws.
NOISE_ROOM = 64
SEEDS_PER_REQUEST = 500
KEY_FILE, SECOND_FILE = "second.key", "second-collector.json"
SECONDS_TO_ANSWER = 120.0


class RefusedError(InvalidValueError):
    """A collector does not take a report, or does not open an epoch."""

    def __init__(self, sentence: str, kind: str = "conflict") -> None:
        super().__init__(sentence)
        self.kind = kind


@contextmanager
def as_refusals() -> Iterator[None]:
    """Turns the errors of opening an epoch into refusals of a request."""
    try:
        yield
    except RefusedError as error:
        raise RefusalError(error.kind, str(error)) from None


@dataclass(frozen=True)
class AggregationTerms(LedgerOrNone):
    """The terms of secure aggregation that hold for all reports of a collection, at both collectors.

    Parameters
    ----------
    collection, design : the name of the collection, and the digest of its design.
    integers : the number of integers of a report: the operator's sums, and the count.
    minimum : an epoch of fewer reports, or of fewer senders where they are known, is never opened.
    most_records : the most records of a report.
    ledger : the ledger of each report, if each has a share of noise; None if reports are exact.
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
            raise RefusedError(f"all reports of this collection must have the same privacy claim: {wanted}")

    def require_minimum(self, found: int, what: str) -> None:
        """Refuses an epoch with fewer reports or senders than the minimum, or than make its noise private."""
        shares = 0 if self.ledger is None or self.ledger.parties is None else self.ledger.parties
        if found < (least := max(self.minimum, shares)):
            noise = " for its shares of noise to be private" if shares == least else ""
            have = f"both collectors have their shares of {counted(found, what)} of the epoch"
            raise RefusedError(f"{have}, which needs at least {least:,}{noise}", "too few")

    def require_room(self, largest_contribution: int, n_reports: int) -> None:
        """Refuses a total that could overflow 64 bits, which nobody would notice."""
        noise = 0.0 if self.ledger is None else NOISE_ROOM * (n_reports * self.ledger.sum_variance) ** 0.5
        if n_reports * self.most_records * largest_contribution + int(noise) > LARGEST_INTEGER:
            raise RefusedError(
                f"{n_reports:,} reports of up to {self.most_records:,} records could overflow: allow fewer records per "
                "report, or close epochs sooner"
            )


@dataclass(frozen=True)
class Question:
    """The first collector's question at the end of an epoch: the total of the second one's shares of these reports.

    `opening` is a random number of this opening: if an answer is lost, the same question gets the same answer again.
    `reports` are the fingerprints of their encrypted seeds.
    """

    collection: str
    epoch: str
    opening: str
    reports: frozenset[str]

    @property
    def digest(self) -> str:
        text = json.dumps(list(self.to_json().values()))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "reports": sorted(self.reports)}

    @classmethod
    def from_json(cls, form: Any) -> Question:
        names = ("collection", "epoch", "opening")
        if not isinstance(form, dict) or form.keys() != {*names, "reports"} or not isinstance(form["reports"], list):
            raise ValueError("a question for a total must name the collection, the epoch, the opening and the reports")
        if not all(isinstance(text, str) for text in [*map(form.get, names), *form["reports"]]):
            raise ValueError("a question for a total must be made of texts")
        return cls(**{**form, "reports": frozenset(form["reports"])})


@dataclass(frozen=True, eq=False)
class Answer:
    """The second collector's total over the asked reports, without those that it is missing."""

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
    terms: AggregationTerms, operator: Any, question: Question, answer: Answer, parts: Iterable[HiddenPart]
) -> Sketch:
    """The sketch of an epoch: the sum of the first collector's shares and of the second one's total.

    Of exact reports, it is exact and not private. Of reports with shares of noise, it is one private release.
    """
    if answer.question != question.digest:
        raise RefusedError("the second collector has answered another question")
    if not answer.missing <= question.reports:
        raise RefusedError("the second collector misses reports that it was not asked about")
    included = question.reports - answer.missing
    terms.require_minimum(len(included), "report")
    terms.require_room(operator.largest_contribution, len(included))
    rest, n_added = np.zeros(terms.integers, np.uint64), 0
    for part in parts:
        if part.sealed_seed.fingerprint in included:
            terms.check(part.header)
            rest, n_added = np.add(rest, part.rest, out=rest), n_added + 1
    if n_added != len(included) or len(answer.total) != terms.integers:
        raise RefusedError("the reports of the epoch do not match the question and the answer")
    integers = np.add(rest, answer.total).view(np.int64)
    sums, count = integers[:-1], int(integers[-1])
    if terms.ledger is not None:
        return Release(operator, sums, max(1, count), terms.ledger.of_shares(n_added))
    try:
        if not 0 <= count <= n_added * terms.most_records:
            raise ValueError(f"a count of {count:,} is impossible")
        return Sketch(operator, sums, count)
    except (ValueError, OverflowError) as error:
        raise RefusedError(
            f"the opened total is no sum of records ({error}): a sender or a collector has falsified its share, and "
            "the protocol cannot tell which"
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
    """The second collector: it keeps seeds in a database that the first collector cannot read.

    Parameters
    ----------
    connection : a connection of sqlite3 in autocommit mode, for this collector alone.
    private_key : decrypts the seeds.
    sender_of : gives the name of the sender that a credential belongs to, or None if it is unknown. Without it, anybody
        may report, even the first collector, which could fill up an epoch with its own reports.
    """

    def __init__(
        self, connection: Any, private_key: bytes, sender_of: Callable[[str], str | None] | None = None
    ) -> None:
        self._connection, self._private_key, self._sender_of = connection, private_key, sender_of
        self._lock = threading.RLock()
        for statement in TABLES:
            connection.execute(statement)

    def agree(self, terms: AggregationTerms) -> None:
        """Notes the terms of a collection, which are then fixed."""
        with self._transaction():
            row = (terms.collection, json.dumps(terms.to_json()))
            self._connection.execute("INSERT INTO hidden_terms VALUES (?, ?) ON CONFLICT DO NOTHING", row)
            if self._terms(terms.collection) != terms:
                raise RefusedError(f"the collection {terms.collection} has other terms here: they cannot be changed")

    def receive(self, seeds: Iterable[SealedSeed]) -> dict[str, str]:
        """Takes seeds in; the reasons for those that are refused, by their fingerprints."""
        refused = {}
        with self._transaction():
            for seed in seeds:
                try:
                    self._receive(seed)
                except ValueError as error:
                    refused[seed.fingerprint] = str(error)
        return refused

    def _receive(self, encrypted: SealedSeed) -> None:
        header, run = encrypted.header, self._connection.execute
        self._terms(header.collection).check(header)
        where = (header.collection, encrypted.fingerprint)
        if run("SELECT 1 FROM hidden_seeds WHERE collection = ? AND fingerprint = ?", where).fetchone():
            return
        if self._answered(header.collection, header.epoch) is not None:
            raise RefusedError(f"the epoch {header.epoch} was opened already")
        seed, credential = encrypted.open(self._private_key)
        sender = None if self._sender_of is None else self._sender_of(credential)
        if self._sender_of is not None and sender is None:
            raise RefusedError("the second collector does not know the sender of this report")
        run("INSERT INTO hidden_seeds VALUES (?, ?, ?, ?, ?)", (*where, header.epoch, sender, seed))

    def answer(self, question: Question) -> Answer:
        """The total over the asked reports that are here. Each epoch has one question, and one answer."""
        where = (question.collection, question.epoch)
        with self._transaction():
            terms, before = self._terms(question.collection), self._answered(*where)
            if before is not None:
                if before[0] != question.digest:
                    raise RefusedError(f"the epoch {question.epoch} was opened already: its total is told once")
                return Answer.from_json(json.loads(before[1]))
            answer = self._total(terms, question)
            row = (*where, answer.question, json.dumps(answer.to_json()))
            self._connection.execute("INSERT INTO hidden_answers VALUES (?, ?, ?, ?)", row)
            self._connection.execute("DELETE FROM hidden_seeds WHERE collection = ? AND epoch = ?", where)
        return answer

    def _total(self, terms: AggregationTerms, question: Question) -> Answer:
        query = "SELECT fingerprint, {} FROM hidden_seeds WHERE collection = ? AND epoch = ?"
        where = (question.collection, question.epoch)
        rows = self._connection.execute(query.format("sender"), where)
        found = {fingerprint: sender for fingerprint, sender in rows if fingerprint in question.reports}
        senders = set(found.values())
        counted_by = (len(found), "report") if None in senders else (len(senders), "sender")
        terms.require_minimum(*counted_by)
        chosen = self._connection.execute(query.format("seed"), where)
        total = added(expanded(seed, terms.integers) for fingerprint, seed in chosen if fingerprint in found)
        return Answer(question.digest, question.reports - found.keys(), total)

    def _terms(self, collection: str) -> AggregationTerms:
        row = self._connection.execute("SELECT terms FROM hidden_terms WHERE collection = ?", (collection,)).fetchone()
        if row is None:
            raise RefusedError(f"the second collector has no collection {collection}")
        return AggregationTerms.from_json(json.loads(row[0]))

    def _answered(self, *where: str) -> Any:
        query = "SELECT question, answer FROM hidden_answers WHERE collection = ? AND epoch = ?"
        return self._connection.execute(query, where).fetchone()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, transaction_of(self._connection, "BEGIN IMMEDIATE"):
            yield


def terms_of(collection: Collection) -> AggregationTerms:
    """The terms of a collection, which each collector derives from its own design and rules."""
    operator, rules = collection.known.operator.without_keeping(), collection.rules
    if rules.hidden is None or rules.records_per_report is None:
        raise RefusalError("conflict", "this collection does not use secure aggregation: send sketches")
    ledger = None
    if rules.noise_epsilon is not None:  # of each share of noise: that of `privatize(..., epsilon=..., parties=...)`
        with refused_as("malformed"):
            plan = plan_noise(operator, epsilon=rules.noise_epsilon, delta=0.0, neighbors="add-remove", shares=None,
                              count_share=COUNT_SHARE, parties=rules.noise_parties, times=1, unit=None)  # fmt: skip
            ledger = plan.ledger(public_design(operator, False), private=True)
    digest, integers = design_digest(operator), operator.n_sums + 1
    return AggregationTerms(collection.name, digest, integers, rules.min_reports, rules.records_per_report, ledger)


def part_to_keep(store: Store, collection: Collection, sender: int, number: str, body: bytes) -> Work:
    """The work of writing a secret share, which is read and checked before; the same again gets the same answer."""
    terms = terms_of(collection)
    with refused_as("damaged", "the part cannot be read: ", (FormatError,)):
        part = HiddenPart.from_bytes(body)
    with refused_as("other design"):
        terms.check(part.header)
    if part.header.id != number:
        raise RefusalError("malformed", "the part was encrypted for another id than the one it is sent with")
    with refused_as("malformed"):
        start = int(from_text(part.header.epoch))
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
            if known[0] != digest:
                raise RefusalError("conflict", "a report of this id came before with other bytes")
            return _answer(number, start, known[1])
        if sender in store.revoked_senders:
            raise RefusalError("unauthorised", "the sender was revoked")
        if start > now / 1000 + rules.skew_seconds:
            raise RefusalError("wrong clock", "the epoch of the part is in the future: set the sender's clock")
        over = now / 1000 >= finish_of(span, start) + rules.grace_seconds
        opening = "SELECT opening FROM hidden_openings WHERE collection = ? AND epoch = ?"
        if over or transaction.one(opening, (collection.id, start)):
            raise RefusalError("closed", f"the epoch that began {in_iso(start)} is closed")
        row = (*where, start, part.sealed_seed.fingerprint, body, digest, now)
        transaction.execute("INSERT INTO hidden_parts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        transaction.execute("UPDATE senders SET reports = reports + 1, latest = ? WHERE id = ?", (now, sender))
        return _answer(number, start, now)

    return keep


def _answer(number: str, start: int, received: int) -> dict[str, Any]:
    return {"id": number, "epoch": in_iso(start), "received": in_iso(received / 1000), "records": 0}


def open_epoch(store: Store, collection: Collection, start: int, second: SecondCollector | RemoteSecond) -> Sketch:
    """Opens the total of an epoch that is over, with the second collector; once."""
    terms, finish = terms_of(collection), finish_of(collection.rules.epoch, start)
    if store.now() < 1000 * (finish + collection.rules.grace_seconds):
        raise RefusalError("conflict", f"the epoch that began {in_iso(start)} still takes reports")
    operator = collection.known.operator.without_keeping()
    question = store.write(COLLECTOR, _question, collection, start, terms)
    with as_refusals():
        # The second collector keeps what it has already; what it refuses is missing in its answer.
        seeds = (part.sealed_seed for part in _parts(store, collection, start))
        while some := list(islice(seeds, SEEDS_PER_REQUEST)):
            second.receive(some)
        answer = second.answer(question)
        total = open_total(terms, operator, question, answer, _parts(store, collection, start))
    total = total.as_batches(batch_of(store.identity, collection, start))
    reports = len(question.reports - answer.missing)
    store.write(COLLECTOR, _write_total, collection, start, total, reports)
    store.changed(collection.name, "sealed", start=start)
    return total


def _question(change: Change, collection: Collection, start: int, terms: AggregationTerms) -> Question:
    """The question, which is noted before it is asked: from then on the epoch takes no reports."""
    where = (collection.id, start)
    known = change.one("SELECT opening, opened FROM hidden_openings WHERE collection = ? AND epoch = ?", where)
    if known is not None and known[1] is not None:
        raise RefusalError("conflict", f"the epoch that began {in_iso(start)} was opened already")
    rows = change.all(
        "SELECT fingerprint, sender FROM hidden_parts WHERE collection = ? AND epoch = ? AND body IS NOT NULL", where
    )
    with refused_as("too few"):
        terms.require_minimum(len({sender for _, sender in rows}), "sender")
        terms.require_room(collection.known.operator.largest_contribution, len(rows))
    opening = secrets.token_hex(16) if known is None else str(known[0])
    if known is None:
        change.execute("INSERT INTO hidden_openings VALUES (?, ?, ?, NULL)", (*where, opening))
        change.note("open", collection=collection.name, epoch=in_iso(start))
    return Question(collection.name, in_iso(start), opening, frozenset(fingerprint for fingerprint, _ in rows))


def _parts(store: Store, collection: Collection, start: int) -> Iterator[HiddenPart]:
    with store.reading() as transaction:
        rows = transaction.execute(
            "SELECT body FROM hidden_parts WHERE collection = ? AND epoch = ? AND body IS NOT NULL",
            (collection.id, start),
        )
        for (body,) in rows:
            yield HiddenPart.from_bytes(body)


def _write_total(change: Change, collection: Collection, start: int, total: Sketch, reports: int) -> None:
    """Writes the opened total as a closed epoch, and removes the parts."""
    now, where = change.now, (collection.id, start)
    if epoch_at(change, collection, start) is not None:
        raise RefusalError("conflict", f"the epoch that began {in_iso(start)} was opened already")
    span, kept, records = collection.rules.epoch, collection.known.to_kept(total), max(0, int(total.count))
    row = (*where, finish_of(span, start), span, now, reports, records, kept, 0, None, 0, 0)
    change.insert("epochs", Epoch.COLUMNS, [row])
    change.execute("UPDATE hidden_openings SET opened = ? WHERE collection = ? AND epoch = ?", (now, *where))
    change.execute("UPDATE hidden_parts SET body = NULL WHERE collection = ? AND epoch = ?", where)
    note_epoch(change, "seal", collection, start, digest=digest_of(kept), reports=reports, records=records)


class RemoteSecond:
    """The second collector behind its routes; `post` sends a JSON object to a path and gives the answer's."""

    def __init__(self, collection: str, post: Callable[[str, Any], Any]) -> None:
        self._path, self._post = f"/v1/collections/{collection}", post

    def receive(self, seeds: list[SealedSeed]) -> dict[str, str]:
        answer = self._post(f"{self._path}/seeds", {"seeds": [seed.to_json() for seed in seeds]})
        return dict(answer["refused"])

    def answer(self, question: Question) -> Answer:
        return Answer.from_json(self._post(f"{self._path}/totals", question.to_json()))


_seconds: dict[Path, SecondCollector] = {}
_lock = threading.Lock()


def private_key(store: Store) -> bytes:
    """The private key of this server as a second collector; it is made when it is first needed."""
    path = store.folder / KEY_FILE
    with _lock:
        if not path.exists():
            write_file(path, new_private_key().hex().encode())
    return bytes.fromhex(path.read_text().strip())


def own_second(store: Store, collection: Collection) -> SecondCollector:
    if collection.rules.hidden != SECOND:
        raise RefusalError("conflict", "this server is not the second collector of this collection")
    key = private_key(store)
    with _lock:
        path = store.folder / "second.sqlite"
        if path not in _seconds:
            connection = sqlite3.connect(path, 60.0, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            _seconds[path] = SecondCollector(connection, key, lambda text: sender_of(store, text))
        found = _seconds[path]
    found.agree(terms_of(collection))
    return found


def sender_of(store: Store, credential: str) -> str | None:
    """The sender whose token at this server is a credential; invented reports have none."""
    try:
        token = store.token(credential)
    except RefusalError:
        return None
    query = "SELECT name FROM senders WHERE id = ? AND revoked IS NULL"
    with store.reading() as transaction:  # tokens of other scopes have no sender
        name: str | None = transaction.value(query, (token.sender,))
    return name


def second_of(store: Store, collection: Collection) -> RemoteSecond:
    """The second collector of a collection; FOLDER/second-collector.json has its `url` and `token`."""
    try:
        form = json.loads((store.folder / SECOND_FILE).read_text())
        url, token = form["url"].rstrip("/"), form["token"]
    except (OSError, ValueError, KeyError, AttributeError):
        sentence = f"{SECOND_FILE} in the folder must name the second collector's url and token"
        raise RefusalError("conflict", sentence) from None

    def post(path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url + path, json.dumps(body).encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_TO_ANSWER) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                said = json.loads(error.read(4000) or b"{}")
            kind = "too few" if said.get("kind") == "too few" else "conflict"
            raise RefusedError(f"the second collector refuses: {said.get('error', error.code)}", kind) from None
        except OSError as error:
            raise RefusalError("busy", f"the second collector cannot be reached: {error}", retry_after=60) from None

    return RemoteSecond(collection.name, post)


def open_epochs(store: Store) -> list[str]:
    """Opens epochs that are over, of which this server is the first collector; sentences about those that fail."""
    problems = []
    for collection in store.all_collections():
        if collection.rules.hidden != FIRST:
            continue
        with store.reading() as transaction:
            rows = transaction.all(
                "SELECT DISTINCT epoch FROM hidden_parts p WHERE collection = ? AND body IS NOT NULL AND NOT EXISTS "
                "(SELECT 1 FROM hidden_openings o WHERE o.collection = p.collection AND o.epoch = p.epoch "
                "AND o.opened IS NOT NULL) ORDER BY epoch",
                (collection.id,),
            )
        over = store.now() // 1000 - collection.rules.grace_seconds
        for start in [start for (start,) in rows if finish_of(collection.rules.epoch, start) <= over]:
            try:
                open_epoch(store, collection, start, second_of(store, collection))
            except RefusalError as refusal:
                problems.append(f"the epoch {in_iso(start)} of {collection.name} was not opened: {refusal.sentence}")
    return problems
