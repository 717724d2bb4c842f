"""The first of two collectors: it keeps the rests of reports, and opens an epoch's total with the second one, once."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from sketchlearn.collector import audit
from sketchlearn.collector.collection import Collection, one_batch
from sketchlearn.collector.database import Transaction
from sketchlearn.collector.epoch_times import finish_of, from_text, in_iso, start_of
from sketchlearn.collector.epochs import COLLECTOR, Epoch, batch_number, digest_of, epoch_at
from sketchlearn.collector.hidden_sums import Answer, HiddenTerms, Question, RefusedError, open_total
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.store import Store
from sketchlearn.collector.writer import Group, Work
from sketchlearn.ledger import Ledger
from sketchlearn.operators.origin import public_design
from sketchlearn.privacy.noise_plan import COUNT_SHARE, plan_noise
from sketchlearn.reporting.hidden_parts import HiddenPart, SealedSeed, design_digest
from sketchlearn.sketch import Sketch
from sketchlearn.storage.container import FormatError

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
