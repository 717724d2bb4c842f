"""The second of two collectors: it keeps seeds, and tells the total of their shares once for each epoch."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sketchlearn.collector.hidden_sums import Answer, HiddenTerms, Question, RefusedError
from sketchlearn.reporting.hidden_parts import SealedSeed, added, expanded

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
