"""A collection: a design, rules, and what the routes say of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sketchlearn.batches import Batches
from sketchlearn.collector.database import Row, Transaction
from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.collector.rules import Rules
from sketchlearn.sketch import Sketch
from sketchlearn.storage.design_files import design_from_bytes
from sketchlearn.storage.known_operator import KnownOperator


@dataclass(frozen=True)
class Collection:
    """What is collected, and by which rules."""

    id: int
    name: str
    title: str
    created: int
    design: bytes
    rules: Rules
    known: KnownOperator

    COLUMNS = "id, name, title, created, design, rules"

    @classmethod
    def of_row(cls, row: Row) -> Collection:
        """The collection of a row of the database."""
        number, name, title, created, design, rules = row
        known = KnownOperator(design_from_bytes(bytes(design))[0])
        return cls(number, name, title, created, bytes(design), Rules.from_text(rules), known)

    def with_rules(self, rules: Rules) -> Collection:
        """The same with other rules."""
        return replace(self, rules=rules)

    def added(self, a: Sketch, b: Sketch) -> Sketch:
        """The sum of two sketches, with what the rules say about records that may be in both."""
        return a.merged(b, overlapping=False if self.rules.disjoint else None)

    def to_json(self, *, administers: bool = False) -> dict[str, Any]:
        """What its readers and senders may know; the webhook, whose URL may be a secret, is for administrators."""
        operator, rules = self.known.operator, self.rules.to_json()
        if not administers:
            rules.pop("webhook")
        return {
            "name": self.name,
            "title": self.title,
            "created": in_iso(self.created / 1000),
            "rules": rules,
            "operator": operator.in_words,
            "columns": list(operator.column_names),
            "sums": operator.n_sums,
        }


def collections(transaction: Transaction) -> list[Collection]:
    """All collections, by their names."""
    rows = transaction.all(f"SELECT {Collection.COLUMNS} FROM collections ORDER BY name")
    return [Collection.of_row(row) for row in rows]


def one_batch(number: int) -> Batches:
    """Batches of a sum that is known as one: reports are told apart by their ids, not by the numbers in files."""
    return Batches({number: 1})
