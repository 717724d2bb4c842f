"""A privacy budget in a file: what releases of some records have spent together, and what is left."""

from __future__ import annotations

import json
import math
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sketchlearn.core import containers as container
from sketchlearn.core.errors import InvalidValueError, Parameter, either
from sketchlearn.core.hash_chain import START, BrokenChainError, checked_entries, link
from sketchlearn.core.messages import counted
from sketchlearn.core.values import number, positive, shortened, truth, whole
from sketchlearn.sketch.batches import Batches
from sketchlearn.sketch.ledger import (
    ADD_REMOVE,
    GAUSSIAN,
    LAPLACE,
    THRESHOLD,
    Ledger,
    check_neighbors,
    largest_ratio,
    smallest_epsilon,
)

# Guarantees above 10 are hardly ever meaningful (Wood et al. 2018, "Differential Privacy: A Primer").
LARGEST_PERSONAL_EPSILON = 10.0
SECONDS_TO_WAIT = 60.0  # for another process that is releasing
#: by file, how many entries this process has seen in it, and the digest of the last one
_SEEN: dict[Path, tuple[int, str]] = {}
_TABLES = """
CREATE TABLE IF NOT EXISTS budget (
    id INTEGER PRIMARY KEY CHECK (id = 1), epsilon REAL, delta REAL, neighbors TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS releases (
    id INTEGER PRIMARY KEY, entry TEXT NOT NULL, previous TEXT NOT NULL, digest TEXT NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS accounts (
    id INTEGER PRIMARY KEY CHECK (id = 1), by_batch INTEGER NOT NULL, secret BLOB NOT NULL
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


class BudgetError(InvalidValueError):
    """A release would exceed the budget, or the budget file is damaged."""


@dataclass(frozen=True)
class Spent:
    """What releases have spent together: (epsilon, delta) holds for whoever has all of them."""

    epsilon: float
    delta: float
    releases: int

    def __str__(self) -> str:
        delta = f", delta {self.delta:.4g}" if self.delta else ""
        return f"epsilon {self.epsilon:.4g}{delta} in {counted(self.releases, 'release')}"


class Budget:
    """What may be spent on releases of some records, kept in a file that all processes share.

    A release is booked before its noise is drawn, in one transaction: neither threads, nor processes, nor a kill spend
    more than is booked. Gaussian releases are added up by the squares of their ratios of sensitivity to noise, which is
    exact, Laplace releases by epsilon; the sum is converted once. Names of classes add their delta, too. The log is an
    append-only, tamper-evident hash chain: it shows damage, but whoever writes the file can write all of it anew. A
    second file, the witness, counts the entries, so that an older copy of the budget is refused.

    Parameters
    ----------
    path : str or path
        The file; it is made if there is none, for its owner alone.
    epsilon : float, default=None
        The most that all releases may spend together; None keeps count without a limit. Given for a budget that has
        none, or a larger one, it is the limit from then on; a limit is never raised.
    delta : float, default=None
        The delta of the whole; 0 means that only Laplace releases (pure epsilon) are booked, None that it is the sum
        of the releases' deltas.
    neighbors : str, default="add-remove"
        What all releases are about, "add-remove" or "replace" (see `privatize`).
    witness : str or path, default=None
        A second file, best on another disk, that counts the entries.
    by_batch : bool, default=False
        Add up only releases that share a batch of rows, by the batch ids of their sketches: one file for the releases
        of many data sets, and `epsilon` is the limit of those that are booked now. By default all releases of the file
        add up, whatever they are of.
    planned : bool, default=False
        Make the file with the first booking only, so that a release that is refused leaves none.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl, tempfile
    >>> operator = skl.design(bounds=([-5, -5], [5, 5]), n_components=2)
    >>> exact = operator.sketch(np.random.default_rng(0).standard_normal((1000, 2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     budget = skl.privacy.Budget(f"{folder}/budget.sqlite", epsilon=3.0)
    ...     private = skl.privatize(exact, epsilon=1.0, budget=budget)
    ...     print(budget.spent, "of", budget.epsilon)
    epsilon 1 in 1 release of 3.0
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        neighbors: str = ADD_REMOVE,
        *,
        witness: str | os.PathLike[str] | None = None,
        by_batch: bool = False,
        planned: bool = False,
    ) -> None:
        self.path = Path(path)
        self._file = self.path.resolve()  # whatever becomes of links and of the working directory
        self._witness = None if witness is None else Path(witness).resolve()
        self.by_batch = truth("by_batch", by_batch)
        self._unconfirmed = dict[str, Any]()
        self.epsilon, self.delta = _limit(epsilon, delta)
        self.neighbors = check_neighbors(neighbors)
        if not 0 <= (self.delta or 0.0) < 1:
            raise ValueError(f"delta must be at least 0 and below 1, not {delta!r}")
        self._state = "planned"
        if not planned or self._file.exists():
            self._agree()

    @classmethod
    def planned(cls, *arguments: Any, **options: Any) -> Budget:
        """The same as `Budget(..., planned=True)`."""
        return cls(*arguments, **options, planned=True)

    def _agree(self) -> None:
        """Makes the file if there is none, reads its limit, and writes a lower one to it."""
        self._state, asked = "new", (self.epsilon, self.delta)
        with self._transaction() as (database, _, limits):
            found = database.execute("SELECT epsilon, delta, neighbors FROM budget").fetchone()
            known = _limit(**limits[-1]) if limits else _limit(*found[:2])
            neighbors, self.neighbors, self._state = self.neighbors, found[2], "there"
            self.by_batch = bool(database.execute("SELECT by_batch FROM accounts").fetchone()[0])
            if self.by_batch and neighbors == self.neighbors:
                return
            self.epsilon, self.delta = known
            if asked == (None, None):
                return
            new = tuple(old if limit is None else limit for old, limit in zip(known, asked, strict=True))
            pairs = zip(known, new, strict=True)
            raised = any(limit > old for old, limit in pairs if old is not None and limit is not None)
            if neighbors != self.neighbors or raised:
                own = f"epsilon {self.epsilon}, delta {self.delta}, {self.neighbors}"
                raise BudgetError(f"{self.path} is a budget of {own}: limits are lowered, never raised or changed")
            if new != known:
                self._append(database, {"limit": dict(zip(("epsilon", "delta"), new, strict=True))})
                self.epsilon, self.delta = new

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, witness: str | os.PathLike[str] | None = None) -> Budget:
        """The budget of an existing file."""
        if not Path(path).exists() or not os.path.getsize(path):
            raise FileNotFoundError(f"there is no budget {os.fspath(path)}: make it with Budget(path, epsilon=...)")
        return cls(path, witness=witness)

    @property
    def spent(self) -> Spent:
        """What was spent so far, including releases that were booked and never made."""
        return self._total(self.log(), self.delta)

    @property
    def left(self) -> float:
        """The epsilon that a Laplace release may still spend."""
        return math.inf if self.epsilon is None else max(0.0, self.epsilon - self.spent.epsilon)

    def spent_on(self, batches: Batches) -> Spent:
        """The most that was spent on a record of these batches, as far as their ids tell."""
        with self._transaction() as (database, releases, _):
            of_each = self._linked(releases, _names(database, batches), batches)
            return max((self._total(some, self.delta) for some in of_each), key=lambda spent: spent.epsilon)

    def log(self) -> list[dict[str, Any]]:
        """All releases in order: when, by which mechanism, and what they cost."""
        with self._transaction() as (_, releases, _):
            return [{k: v for k, v in entry.items() if k != "batches"} for entry in releases]

    @property
    def head(self) -> tuple[int, str]:
        """The number of entries and the digest of the last one, to keep a witness elsewhere."""
        with self._transaction():
            pass
        return _SEEN.get(self._file, (0, START))

    def reserve(self, ledger: Ledger, batches: Batches | None = None) -> None:
        """Books a release of these batches, or refuses it with a message that says what is left."""
        if ledger.releases != 1:
            raise BudgetError("a budget books single releases, and this ledger covers several: reserve them one by one")
        if ledger.neighbors != self.neighbors and not self.by_batch:
            raise BudgetError(_other_neighbors("the budget is", self.neighbors, ledger.neighbors))
        entry = {name: getattr(ledger, name) for name in ("mechanism", "epsilon", "delta", "unit")}
        if ledger.unit is None:
            del entry["unit"]
        batches = Batches(most=2) if batches is None else batches  # of unknown records
        if self._state == "planned":
            self._require_room(entry, [], ledger)
            self._agree()
        with self._transaction() as (database, releases, _):
            names = _names(database, batches)
            for of_a_record in self._linked(releases, names, batches) if self.by_batch else [releases]:
                self._require_room(entry, of_a_record, ledger)
            limits = {"most": self.epsilon, "most_delta": self.delta}
            own = {**limits, "neighbors": ledger.neighbors} if self.by_batch else {}
            self._append(database, {**entry, **own, "batches": names})

    def _require_room(self, entry: dict[str, Any], entries: list[dict[str, Any]], ledger: Ledger) -> None:
        """Refuses a release for which these entries, that are of the same records, leave too little."""
        delta = min(_given([self.delta, *(booked.get("most_delta") for booked in entries)]), default=None)
        if delta == 0 and ledger.mechanism == THRESHOLD:
            raise BudgetError("the budget has delta 0, and a selection of class names needs more: declare the names")
        if delta == 0 and ledger.mechanism == GAUSSIAN:
            remedy = either("privatize with delta=0", "leave out --delta")
            raise BudgetError("the budget has delta 0, so it books only Laplace releases", remedy)
        for neighbors in {booked.get("neighbors", ledger.neighbors) for booked in entries} - {ledger.neighbors}:
            raise BudgetError(_other_neighbors("earlier releases of these records were", neighbors, ledger.neighbors))
        if any(booked.get("unit") != ledger.unit for booked in entries):
            own, others = (unit or "each row" for unit in (ledger.unit, entries[0].get("unit")))
            raise BudgetError(f"the budget protects {others}, and the release protects {own}: use another budget")
        after = self._total([*entries, entry], delta)
        if delta is not None and after.delta > delta * (1 + 1e-12):
            raise BudgetError(
                f"this release would spend more delta than the budget has: {after.delta:.4g} of {delta:.4g}; "
                "use a smaller delta"
            )
        limit = min(_given([self.epsilon, *(booked.get("most") for booked in entries)]), default=math.inf)
        if not after.epsilon <= limit * (1 + 1e-12):
            before = self._total(entries, delta)
            left = max(0.0, limit - before.epsilon)
            raise BudgetError(
                f"this release would spend more than the budget has: {after.epsilon:.4g} of {limit:.4g}, with {before} "
                f"before; use a smaller {Parameter('epsilon')} (a Laplace release may have {left:.4g})"
            )

    def _linked(
        self, entries: list[dict[str, Any]], names: list[str] | None, batches: Batches
    ) -> list[list[dict[str, Any]]]:
        """The releases of a record, for each batch that it may be in.

        A record is in one batch, unless somebody has said that it may be in several or all rows of a unit count.
        """
        if names is None or batches.most > 1 or any("unit" in entry for entry in entries):
            some = set(names or ())
            return [[e for e in entries if names is None or e["batches"] is None or some & set(e["batches"])]]
        return [[e for e in entries if e["batches"] is None or name in e["batches"]] for name in names]

    def _append(self, database: sqlite3.Connection, entry: dict[str, Any]) -> None:
        """Adds an entry to the log, and to the witness, which is told once more when the entry is on disk."""
        # from the database: another thread that has just committed may still change _SEEN
        n_entries, last = database.execute("SELECT count(*), max(id) FROM releases").fetchone()
        found = database.execute("SELECT digest FROM releases WHERE id = ?", (last,)).fetchone()
        previous = found[0] if found else START
        text = json.dumps({"time": datetime.now(UTC).isoformat(timespec="seconds"), **entry}, sort_keys=True)
        digest = link(previous, text)
        values = (text, previous, digest)
        database.execute("INSERT INTO releases (entry, previous, digest) VALUES (?, ?, ?)", values)
        self._unconfirmed = {"entries": n_entries + 1, "digest": digest, "before": previous}
        self._tell_witness(on_disk=False)

    def _tell_witness(self, *, on_disk: bool) -> None:
        if self._witness is not None:
            told = json.dumps({**self._unconfirmed, "on_disk": on_disk})
            container.write(self._witness, told.encode(), owner_only=True)

    def _total(self, entries: list[dict[str, Any]], limit: float | None) -> Spent:
        gaussian = [e for e in entries if e["mechanism"] == GAUSSIAN]
        epsilon = math.fsum(e["epsilon"] for e in entries if e["mechanism"] != GAUSSIAN)
        of_names = min(1.0, math.fsum(e["delta"] for e in entries if e["mechanism"] == THRESHOLD))
        if not gaussian:
            return Spent(epsilon, of_names, len(entries))
        ratio = math.sqrt(math.fsum(largest_ratio(e["epsilon"], e["delta"]) ** 2 for e in gaussian))
        # what names of classes have taken of the limit is gone
        delta = math.fsum(e["delta"] for e in gaussian) if limit is None else max(0.0, limit - of_names)
        return Spent(epsilon + smallest_epsilon(ratio, delta), min(1.0, delta + of_names), len(entries))

    def _entries(self, database: sqlite3.Connection) -> list[dict[str, Any]]:
        """The log, each entry checked against the digest of the one before, and the log against what was seen of it."""
        previous, digests, entries = START, [START], list[dict[str, Any]]()
        rows = database.execute("SELECT entry, previous, digest FROM releases ORDER BY id")
        try:
            for text, previous in checked_entries(rows):
                entries.append(_entry(text))
                digests.append(previous)
        except BrokenChainError as error:
            raise BudgetError(f"{self.path} was changed or damaged: {error}") from None
        for known, last in (_SEEN.get(self._file, (0, START)), self._witnessed(digests)):
            if len(entries) < known or digests[known] != last:
                raise BudgetError(f"{self.path} has lost releases that it had: put the newest copy of it back")
        _SEEN[self._file] = (len(entries), previous)
        return entries

    def _witnessed(self, digests: list[str]) -> tuple[int, str]:
        """How many entries the witness has seen, and the digest of the last one.

        An entry that the log lacks and that was not on disk yet, as the witness says, was being booked when its process
        was killed: its noise was never drawn.
        """
        if self._witness is None or not self._witness.exists():
            return 0, START
        try:
            found = json.loads(self._witness.read_bytes())
            known, last, before = whole("entries", found["entries"]), str(found["digest"]), str(found["before"])
            on_disk = truth("on_disk", found["on_disk"])
        except (ValueError, KeyError, TypeError):
            raise BudgetError(f"{self._witness} is not the witness of a budget: give the right file") from None
        killed = not on_disk and len(digests) == known and digests[-1] == before
        return (known - 1, before) if killed else (known, last)

    @contextmanager
    def _transaction(self) -> Iterator[tuple[sqlite3.Connection, list[dict[str, Any]], list[dict[str, Any]]]]:
        """The database, locked for everybody else, its releases and its lowered limits; an error changes nothing.

        Of a budget that is planned, it is an empty one in memory.
        """
        if not self._file.exists():
            if self._state == "there" or _SEEN.get(self._file, (0, START))[0] or self._witnessed([START])[0]:
                raise BudgetError(f"{self.path} cannot be used as a budget: it is gone; put the newest copy of it back")
            if self._state == "new":
                with open(os.open(self._file, os.O_CREAT | os.O_WRONLY, 0o600), "wb"):
                    pass
        elif self._file.stat().st_nlink > 1:  # SQLite's locks and journals know one name
            raise BudgetError(
                f"{self.path} is a file of several names (hard links), which cannot be kept safe: copy it"
            )
        there = self._file.exists()
        name = f"{self._file.as_uri()}?mode=rw" if there else "file::memory:"
        try:
            with closing(sqlite3.connect(name, SECONDS_TO_WAIT, isolation_level=None, uri=True)) as database:
                database.execute("PRAGMA synchronous = FULL")
                database.execute("BEGIN IMMEDIATE")
                try:
                    for statement in _TABLES.split(";\n"):
                        database.execute(statement)
                    limits = (*((None, None) if self.by_batch else (self.epsilon, self.delta)), self.neighbors)
                    before = database.execute("SELECT count(*) FROM budget").fetchone()[0]  # of an earlier version
                    database.execute("INSERT OR IGNORE INTO budget VALUES (1, ?, ?, ?)", limits)
                    accounts = (int(self.by_batch and not before), secrets.token_bytes(32))
                    database.execute("INSERT OR IGNORE INTO accounts VALUES (1, ?, ?)", accounts)
                    entries = self._entries(database)
                    releases = [entry for entry in entries if "limit" not in entry]
                    yield database, releases, [entry["limit"] for entry in entries if "limit" in entry]
                except BaseException:
                    database.execute("ROLLBACK")
                    self._unconfirmed = {}
                    raise
                database.execute("COMMIT")
                if self._unconfirmed:
                    self._tell_witness(on_disk=True)
                    _SEEN[self._file] = (self._unconfirmed["entries"], self._unconfirmed["digest"])
                    self._unconfirmed = {}
        except sqlite3.DatabaseError as error:
            raise BudgetError(f"{self.path} cannot be used as a budget: {error}") from None


def personal_budget(epsilon: float | None = None) -> Budget:
    """The budget in which the command line books the releases of this user, by the batch ids of their rows.

    It lies in the folder that SKETCHLEARN_BUDGETS names or, by default, in the user's folder for programs' state, with
    its witness in that for their settings.

    Parameters
    ----------
    epsilon : float, default=None
        The most that releases of the rows that are booked now may spend together; by default 10.
    """
    chosen = os.environ.get("SKETCHLEARN_BUDGETS")
    state, settings = (
        Path(chosen or os.environ.get(f"XDG_{name}_HOME") or Path.home() / usual) / ("" if chosen else "sketchlearn")
        for name, usual in (("STATE", ".local/state"), ("CONFIG", ".config"))
    )
    for folder in (state, settings):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    limit = LARGEST_PERSONAL_EPSILON if epsilon is None else epsilon
    return Budget.planned(state / "budgets.sqlite", limit, witness=settings / "budgets.witness", by_batch=True)


def _limit(epsilon: float | None, delta: float | None) -> tuple[float | None, float | None]:
    """The most that releases may spend; None where there is no limit."""
    return None if epsilon is None else positive("epsilon", epsilon), None if delta is None else number("delta", delta)


def _given(limits: list[float | None]) -> list[float]:
    return [limit for limit in limits if limit is not None]


def _other_neighbors(who: str, known: str, asked: str) -> str:
    return f"{who} about {known}, and the release is about {asked}: use the same neighbors"


def _names(database: sqlite3.Connection, batches: Batches) -> list[str] | None:
    """What the log calls these batches; None if not all of them are known.

    Batch ids are digests of exact sums. Those in the log are keyed by a secret of the file, so that a page of the log,
    if it travels, tells nothing about the rows.
    """
    if not batches.complete or not batches.involved:
        return None
    key = database.execute("SELECT secret FROM accounts").fetchone()[0]
    return sorted(blake2b(number.to_bytes(8), digest_size=8, key=key).hexdigest() for number in batches.involved)


def _entry(text: str) -> dict[str, Any]:
    """A release of the log, if it is one."""
    try:
        entry: dict[str, Any] = json.loads(text)
        if "limit" in entry:
            _limit(**entry["limit"])
            return entry
        names = entry.setdefault("batches", None)
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ValueError("the batches of an entry must be a list of names")
        _limit(entry.get("most"), entry.get("most_delta"))
        sizes = positive("epsilon", entry["epsilon"]), number("delta", entry["delta"])
        with_delta = entry["mechanism"] in (GAUSSIAN, THRESHOLD)
        sound = 0 < sizes[1] < 1 if with_delta else (entry["mechanism"], sizes[1]) == (LAPLACE, 0)
    except (ValueError, TypeError, KeyError):
        sound = False
    if not sound:
        raise BudgetError(f"the log of the budget has an entry that no release writes: {shortened(text)}")
    return entry
