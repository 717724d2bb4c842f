"""A budget that is kept in a file: what releases of some records have spent together, and what is left."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sketchlearn.gaussian_profile import largest_ratio, smallest_epsilon
from sketchlearn.hash_chain import START, BrokenChainError, checked_entries, link
from sketchlearn.ledger import ADD_REMOVE, GAUSSIAN, LAPLACE, REPLACE, THRESHOLD, Ledger
from sketchlearn.values import number, positive, shortened

SECONDS_TO_WAIT = 60.0  # for another process that is releasing
_TABLES = """
CREATE TABLE IF NOT EXISTS budget (
    id INTEGER PRIMARY KEY CHECK (id = 1), epsilon REAL, delta REAL, neighbors TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS releases (
    id INTEGER PRIMARY KEY, entry TEXT NOT NULL, previous TEXT NOT NULL, digest TEXT NOT NULL UNIQUE
);
CREATE TRIGGER IF NOT EXISTS keep_entries BEFORE UPDATE ON releases
BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END;
CREATE TRIGGER IF NOT EXISTS keep_rows BEFORE DELETE ON releases
BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END;
CREATE TRIGGER IF NOT EXISTS keep_limit BEFORE UPDATE ON budget
BEGIN SELECT RAISE(ABORT, 'the limit is never changed'); END;
CREATE TRIGGER IF NOT EXISTS keep_budget BEFORE DELETE ON budget
BEGIN SELECT RAISE(ABORT, 'the limit is never removed'); END;
"""


class BudgetError(ValueError):
    """A release would cost more than is left, or the file of a budget is not sound."""


@dataclass(frozen=True)
class Spent:
    """What all releases of a budget have spent together: (epsilon, delta) holds for whoever has all of them."""

    epsilon: float
    delta: float
    releases: int

    def __str__(self) -> str:
        delta = f", delta {self.delta:.4g}" if self.delta else ""
        return f"epsilon {self.epsilon:.4g}{delta} in {self.releases:,} releases"


class Budget:
    """What may be spent on releases of some records, kept in a file that all processes share.

    A release is booked before its noise is drawn, in one transaction: neither threads, nor processes, nor a kill spend
    more than is booked. Gaussian releases are added up by the squares of their ratios of sensitivity to noise, which is
    exact, Laplace releases by epsilon; the sum is converted once. Names of classes add their delta, too. The log is
    append-only, and each entry has the digest of the one before it: that shows damage and clumsy changes, but whoever
    writes the file can write all of it anew.

    Parameters
    ----------
    path : the file; it is made if there is none, for its owner alone.
    epsilon : the most that all releases may spend together; None keeps count without a limit.
    delta : the delta of the whole; 0 means that only Laplace releases (pure epsilon) are booked, None that it is the
        sum of the releases' deltas.
    neighbors : what all releases are about, "add-remove" or "replace" (see `privatize`).

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl, tempfile
    >>> operator = skl.design(bounds=([-5, -5], [5, 5]), n_components=2)
    >>> exact = operator.sketch(np.random.default_rng(0).standard_normal((1000, 2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     budget = skl.Budget(f"{folder}/budget.sqlite", epsilon=3.0)
    ...     private = skl.privatize(exact, epsilon=1.0, budget=budget)
    ...     print(budget.spent, "of", budget.epsilon)
    epsilon 1 in 1 releases of 3.0
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        neighbors: str = ADD_REMOVE,
    ) -> None:
        self.path = Path(path)
        self._file = self.path.resolve()  # whatever becomes of links and of the working directory
        self._seen = (0, START)
        limit = None if epsilon is None else positive("epsilon", epsilon)
        wanted = (limit, None if delta is None else number("delta", delta), neighbors)
        if not 0 <= (wanted[1] or 0.0) < 1:
            raise ValueError(f"delta must be at least 0 and below 1, not {delta!r}")
        if neighbors not in (ADD_REMOVE, REPLACE):
            raise ValueError(f"neighbors must be {ADD_REMOVE!r} or {REPLACE!r}, not {shortened(neighbors)}")
        if not self._file.exists():
            with open(os.open(self._file, os.O_CREAT | os.O_WRONLY, 0o600), "wb"):
                pass
        with self._transaction() as database:
            for statement in _TABLES.split(";\n"):
                database.execute(statement)
            database.execute("INSERT OR IGNORE INTO budget VALUES (1, ?, ?, ?)", wanted)
            known = database.execute("SELECT epsilon, delta, neighbors FROM budget").fetchone()
        self.epsilon, self.delta, self.neighbors = known
        if epsilon is not None and known != wanted:
            own = f"epsilon {self.epsilon}, delta {self.delta}, {self.neighbors}"
            raise BudgetError(f"{self.path} is a budget of {own}: open it with those, or give another file")

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Budget:
        """The budget of a file that is there."""
        if not Path(path).exists() or not os.path.getsize(path):
            raise FileNotFoundError(f"there is no budget {os.fspath(path)}: make it with Budget(path, epsilon=...)")
        return cls(path)

    @property
    def spent(self) -> Spent:
        """What was spent so far, a release that was booked and never made included."""
        with self._transaction() as database:
            return self._total(self._entries(database))

    @property
    def left(self) -> float:
        """The epsilon that a Laplace release may still spend."""
        return math.inf if self.epsilon is None else max(0.0, self.epsilon - self.spent.epsilon)

    @property
    def head(self) -> tuple[int, str]:
        """How many releases are booked, and the digest of the last: a copy of it shows when the file is rolled back."""
        with self._transaction() as database:
            self._entries(database)
        return self._seen

    def log(self) -> list[dict[str, Any]]:
        """All releases in order: when, by which mechanism, and what they cost."""
        with self._transaction() as database:
            return self._entries(database)

    def reserve(self, ledger: Ledger) -> None:
        """Books a release, or refuses it in a sentence that says what is left."""
        if ledger.releases != 1:
            raise BudgetError("a budget books single releases, and this ledger is of several: reserve each of them")
        if ledger.neighbors != self.neighbors:
            both = f"the budget is about {self.neighbors}, and the release about {ledger.neighbors}"
            raise BudgetError(f"{both}: use the same")
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "mechanism": ledger.mechanism,
            "epsilon": ledger.epsilon,
            "delta": ledger.delta,
            **({} if ledger.unit is None else {"unit": ledger.unit}),
        }
        with self._transaction() as database:
            entries = self._entries(database)
            if self.delta == 0 and ledger.mechanism == THRESHOLD:
                raise BudgetError("the budget has delta 0, and names of classes need one: declare them")
            if self.delta == 0 and ledger.mechanism == GAUSSIAN:
                raise BudgetError("the budget has delta 0, so it books Laplace releases alone: privatize with delta=0")
            if any(booked.get("unit") != ledger.unit for booked in entries):
                own, others = (unit or "each row" for unit in (ledger.unit, entries[0].get("unit")))
                raise BudgetError(f"the budget is about {others}, and the release protects {own}: use another budget")
            after = self._total([*entries, entry])
            if self.delta is not None and after.delta > self.delta * (1 + 1e-12):
                raise BudgetError(
                    f"this release would spend more delta than the budget has: it would be {after.delta:.4g} of "
                    f"{self.delta:.4g}: ask for a smaller delta"
                )
            if self.epsilon is not None and not after.epsilon <= self.epsilon * (1 + 1e-12):
                before = self._total(entries)
                raise BudgetError(
                    f"this release would spend more than the budget has: {before} of {self.epsilon:.4g} are spent, and "
                    f"it would be {after.epsilon:.4g}: ask for a smaller epsilon (a Laplace release may have "
                    f"{max(0.0, self.epsilon - before.epsilon):.4g})"
                )
            last = database.execute("SELECT digest FROM releases ORDER BY id DESC LIMIT 1").fetchone()
            text, previous = json.dumps(entry, sort_keys=True), last[0] if last else START
            values = (text, previous, link(previous, text))
            database.execute("INSERT INTO releases (entry, previous, digest) VALUES (?, ?, ?)", values)
        self._seen = (len(entries) + 1, values[2])

    def _total(self, entries: list[dict[str, Any]]) -> Spent:
        gaussian = [e for e in entries if e["mechanism"] == GAUSSIAN]
        epsilon = math.fsum(e["epsilon"] for e in entries if e["mechanism"] != GAUSSIAN)
        of_names = min(1.0, math.fsum(e["delta"] for e in entries if e["mechanism"] == THRESHOLD))
        if gaussian:
            ratio = math.sqrt(math.fsum(largest_ratio(e["epsilon"], e["delta"]) ** 2 for e in gaussian))
            limit = self.delta  # what names of classes have taken of it is gone
            delta = math.fsum(e["delta"] for e in gaussian) if limit is None else max(0.0, limit - of_names)
            return Spent(epsilon + smallest_epsilon(ratio, delta), min(1.0, delta + of_names), len(entries))
        return Spent(epsilon, of_names, len(entries))

    def _entries(self, database: sqlite3.Connection) -> list[dict[str, Any]]:
        """The log, each entry checked against the digest of the one before, and the log against what was seen of it."""
        previous, entries = START, list[dict[str, Any]]()
        known, last = self._seen
        rows = database.execute("SELECT entry, previous, digest FROM releases ORDER BY id")
        try:
            for text, previous in checked_entries(rows):
                entries.append(_entry(text))
                if len(entries) == known and previous != last:
                    break
        except BrokenChainError as error:
            raise BudgetError(f"{self.path} was changed or damaged: {error}") from None
        if len(entries) < known or (len(entries) == known and previous != last):
            raise BudgetError(f"{self.path} has lost releases that it had: put the newest copy of it back")
        self._seen = (len(entries), previous)
        return entries

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The database, locked for everybody else; nothing is changed if an error comes."""
        if self._file.exists() and self._file.stat().st_nlink > 1:  # SQLite's locks and journals know one name
            raise BudgetError(
                f"{self.path} is a file of several names (hard links), which cannot be kept safe: copy it"
            )
        # a budget that was removed is not made anew without a word
        name = f"{self._file.as_uri()}?mode=rw"
        try:
            with closing(sqlite3.connect(name, SECONDS_TO_WAIT, isolation_level=None, uri=True)) as database:
                database.execute("PRAGMA synchronous = FULL")
                database.execute("BEGIN IMMEDIATE")
                try:
                    yield database
                except BaseException:
                    database.execute("ROLLBACK")
                    raise
                database.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise BudgetError(f"{self.path} cannot be used as a budget: {error}") from None


def _entry(text: str) -> dict[str, Any]:
    """A release of the log, if it is one."""
    try:
        entry: dict[str, Any] = json.loads(text)
        sizes = positive("epsilon", entry["epsilon"]), number("delta", entry["delta"])
        with_delta = entry["mechanism"] in (GAUSSIAN, THRESHOLD)
        sound = 0 < sizes[1] < 1 if with_delta else (entry["mechanism"], sizes[1]) == (LAPLACE, 0)
    except (ValueError, TypeError, KeyError):
        sound = False
    if not sound:
        raise BudgetError(f"the log of the budget has an entry that no release writes: {shortened(text)}")
    return entry
