"""The store: what the routes do with collections, senders, reports, epochs and releases."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from sketchlearn.collector import drift, epochs, forwarding, senders
from sketchlearn.collector.collection import Collection, Rules, collections
from sketchlearn.collector.database import COLLECTOR, Change, Database
from sketchlearn.collector.epochs import Epoch
from sketchlearn.collector.migration import migrate
from sketchlearn.collector.refusals import RefusalError, checked_name, checked_title, is_name, refused_as
from sketchlearn.collector.reports import Incoming, OpenTotal
from sketchlearn.collector.senders import ADMIN, Token, check_secret, id_of
from sketchlearn.collector.writer import Turns, Work, Writer, tell
from sketchlearn.files.designs import design_from_bytes

T = TypeVar("T")
MOST_CACHED_TOKENS = 100_000  # about 60 MB


class Store:
    """A database that is open for writing, a folder, and what is known of them in memory.

    `clock` gives seconds since 1970.
    """

    def __init__(self, database: Database, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.database, self.reading, self.folder, self._clock = database, database.reading, folder, clock
        self.open_totals: dict[tuple[int, int], OpenTotal] = {}
        self.on_commit: Callable[[int], None] = lambda _n: None  # called with the number of works of a commit
        self.on_change: list[Callable[[str, str, dict[str, Any]], None]] = []  # called with (collection, kind, facts)
        self._tokens: dict[str, Token] = {}
        self._refusals: dict[tuple[int, int, str], tuple[int, int, str]] = {}
        self._refusals_lock = threading.Lock()
        self.releasing = threading.Lock()  # each release knows of those before it
        with database.writing() as transaction:
            migrate(transaction)
            self.identity = str(transaction.fact("identity"))
            self._collections = {found.name: found for found in collections(transaction)}
            rows = transaction.all("SELECT id FROM senders WHERE revoked IS NOT NULL")
            self.revoked_senders = {number for (number,) in rows}
            self.report_numbers = itertools.count(transaction.next_number("reports", "number"))  # for the writer
        # after a transaction that failed, totals in memory may be what was not written
        self.writer = Writer(database, self.open_totals.clear, lambda n: self.on_commit(n))
        # Two threads read reports of the collection's own design, one reads all others, which take longer.
        self._own_design, self._other_designs = Turns(2), Turns(1)

    def close(self) -> None:
        """Does what has queued, and closes the database."""
        self._own_design.end()
        self._other_designs.end()
        self.flush_refusals()
        self.writer.close()
        self.database.close()

    def now(self) -> int:
        """Milliseconds since 1970."""
        return int(self._clock() * 1000)

    def write(self, actor: str, work: Callable[..., T], *more: Any) -> T:
        """Calls `work(change, *more)` in a transaction, undone as a whole if it fails; waits until it is on disk."""
        return self.writer.do(lambda transaction: work(Change(transaction, self.now(), actor), *more))

    def changed(self, collection: str, kind: str, /, **facts: Any) -> None:
        """Tells the watchers, such as the page, that something is new. They must not take long."""
        for watcher in self.on_change:
            watcher(collection, kind, facts)

    # Who is asking

    def known_token(self, text: str) -> Token | None:
        """The token of a text, if it is in memory; one that is not valid is refused."""
        token = self._tokens.get(id_of(text) or "")
        return None if token is None else check_secret(text, token, self.now())

    def token(self, text: str) -> Token:
        """The token of a text; one that is not valid is refused."""
        with self.reading() as transaction:
            found = senders.token_of_id(transaction, id_of(text) or "")
        token = check_secret(text, found, self.now())
        if len(self._tokens) >= MOST_CACHED_TOKENS:
            self._tokens.clear()
        self._tokens[token.id] = token
        return token

    def collection(self, token: Token, name: str, scope: str) -> Collection:
        """A collection, if the token has this scope there. Other tokens do not learn that the collection exists."""
        found = self._collections.get(name) if is_name("collection", name) else None
        if found is None or (token.collection is not None and token.collection != found.id):
            raise RefusalError("not found", "there is no such collection here, or the token is not for it")
        if not token.may(scope, found.id):
            raise RefusalError("forbidden", f"this needs a token with the scope {scope}, not {token.scope}")
        return found

    def require(self, token: Token, scope: str) -> None:
        if not token.may(scope, None):
            raise RefusalError("forbidden", f"this needs a token with the scope {scope} for the whole collector")

    def visible(self, token: Token) -> list[Collection]:
        """The collections that a token is for."""
        own = token.collection
        return sorted((c for c in self._collections.values() if own in (None, c.id)), key=lambda c: c.name)

    def all_collections(self) -> list[Collection]:
        return list(self._collections.values())

    # Collections, senders, tokens

    def create_collection(self, actor: str, name: Any, title: Any, design: bytes, rules: Any) -> Collection:
        name, title = checked_name("collection", name), checked_title(title)
        with refused_as("malformed", "the design cannot be used: "):
            design_from_bytes(design)
        with refused_as("malformed"):
            wanted = Rules().with_changes(rules)

        def create(change: Change) -> Collection:
            if change.one("SELECT id FROM collections WHERE name = ?", (name,)):
                raise RefusalError("conflict", "there is a collection of this name already")
            row = (change.next_number("collections"), name, title, change.now, design, wanted.to_text())
            change.insert("collections", Collection.COLUMNS, [row])
            change.note("create collection", collection=name, rules=asdict(wanted))
            return Collection.of_row(row)

        return self._known(self.write(actor, create))

    def _known(self, collection: Collection) -> Collection:
        self._collections = {**self._collections, collection.name: collection}
        return collection

    def change_rules(self, actor: str, collection: Collection, changes: Any) -> Collection:
        """Changes rules; they hold for what comes from then on."""
        with refused_as("malformed"):
            rules = collection.rules.changed(changes)

        def update(change: Change) -> None:
            change.execute("UPDATE collections SET rules = ? WHERE id = ?", (rules.to_text(), collection.id))
            change.note("change rules", collection=collection.name, changes=changes)

        self.write(actor, update)
        return self._known(replace(collection, rules=rules))

    def revoke_sender(self, actor: str, collection: Collection, name: str, *, subtract: bool) -> dict[str, Any]:
        """Ends a sender; with `subtract`, its reports are subtracted, exactly."""

        def revoke(change: Change) -> dict[str, Any]:
            number = senders.sender_number(change, collection, name)
            answer = senders.revoke_sender(change, collection, number, self.identity, subtract=subtract)
            self.revoked_senders.add(number)
            self.open_totals.clear()
            return answer

        answer = self.write(actor, revoke)
        self._tokens.clear()
        self.changed(collection.name, "sender", name=name)
        return answer

    def revoke_token(self, actor: str, collection: Collection | None, number: str) -> None:
        self.write(actor, senders.revoke_token, collection, number)
        self._tokens.pop(number, None)

    def rotate_token(self, actor: str, collection: Collection | None, number: str, overlap: Any) -> dict[str, Any]:
        """A new token of the same scope and sender; the old one still works for `overlap` seconds."""
        made = self.write(actor, senders.rotate_token, collection, number, overlap)
        self._tokens.pop(number, None)
        return made

    def first_token(self) -> str | None:
        """A token that administers everything, if there has never been any."""

        def make(change: Change) -> str | None:
            if change.one("SELECT id FROM tokens WHERE collection IS NULL AND scope = ?", (ADMIN,)):
                return None
            return str(senders.add_token(change, None, ADMIN, None, "the first token")["token"])

        return self.write(COLLECTOR, make)

    # Reports

    def submit_report(
        self, collection: Collection, sender: int, number: str, body: bytes, time: float | None
    ) -> Future[dict[str, Any]]:
        """Reads and queues a report; the answer comes when it is on disk."""
        return self.writer.submit(Incoming.read(self, collection, sender, number, body, time))

    def read_and_write(self, sender: int, read: Callable[[], Work], *, own_design: bool = True) -> asyncio.Future[Any]:
        """For an event loop: a thread reads what a sender has sent, and the writer writes it."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def reading() -> None:
            try:
                self.writer.put(read(), future)
            except BaseException as error:
                tell([(future, error)])

        (self._own_design if own_design else self._other_designs).put(sender, reading)
        return future

    def note_refusal(self, collection: Collection, sender: int | None, refusal: RefusalError) -> None:
        """Tells the watchers, and counts refusals by sender and kind; `flush_refusals` writes the counts."""
        key = (collection.id, sender or 0, refusal.kind)
        with self._refusals_lock:
            times = self._refusals.get(key, (0, 0, ""))[0]
            self._refusals[key] = (times + 1, self.now(), refusal.sentence)
        self.changed(collection.name, "refused", reason=refusal.kind, sentence=refusal.sentence)

    def flush_refusals(self) -> None:
        with self._refusals_lock:
            pending, self._refusals = self._refusals, {}
        upsert = (
            "INSERT INTO refusals (collection, sender, kind, times, latest, sentence) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (collection, sender, kind) DO UPDATE SET times = refusals.times + excluded.times, "
            "latest = excluded.latest, sentence = excluded.sentence"
        )
        if pending:
            self.writer.do(lambda t: t.many(upsert, [(*key, *value) for key, value in pending.items()]))

    # Epochs

    def close_epoch(self, actor: str, collection: Collection, start: int) -> Epoch:
        def close(change: Change) -> Epoch:
            found = epochs.close_epoch(change, collection, start)
            self.open_totals.pop((collection.id, start), None)
            return found

        closed = self.write(actor, close)
        self.changed(collection.name, "sealed", start=start)
        return closed

    def close_epochs(self, collection: Collection) -> None:
        before = self.now() // 1000 - collection.rules.grace_seconds
        with self.reading() as transaction:
            over = epochs.select_epochs(
                transaction, collection, "sealed IS NULL AND finish <= ? ORDER BY start", before
            )
        for epoch in over:
            self.close_epoch(COLLECTOR, collection, epoch.start)

    def maintain(self, ended: Callable[[], bool] = lambda: False) -> list[str]:
        """Background maintenance: closes and compares epochs, queues them for the parent, applies the retention rules.

        Gives sentences about what could not be done. Once it has `ended`, the rest is left to the next time.
        """
        self.flush_refusals()
        problems: list[str] = []
        forwarded = forwarding.forwarded_collections(self.folder)
        for collection in self.all_collections():
            self.close_epochs(collection)
            try:
                drift.compare_epochs(self, collection, ended)
            except OverflowError as error:
                problems.append(f"{collection.name}: its epochs cannot be compared: {error}")
            if ended():
                break
            if collection.name in forwarded:
                forwarding.queue(self, collection)  # before retention makes epochs coarser
            problems += self.write(COLLECTOR, epochs.apply_retention, collection, self.identity)
        return problems
