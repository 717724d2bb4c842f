"""The database: SQLite or PostgreSQL, with the same statements for both and a question mark for each value.

SQLite keeps a write-ahead log with synchronous = FULL, so that committed data survive a loss of power. PostgreSQL does
so by itself, unless synchronous_commit is off.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import secrets
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import LifoQueue
from typing import Any, ClassVar

from sketchlearn.collector.epoch_times import in_iso
from sketchlearn.core.hash_chain import START, link
from sketchlearn.core.packages import required

VERSION, EARLIER = "2", ("1",)
COLLECTOR = "collector"  # who acts in background maintenance

# INTEGER, BLOB and REAL are the types of SQLite; PostgreSQL gets BIGINT, BYTEA and DOUBLE PRECISION. Times are whole
# milliseconds since 1970, in UTC; starts and ends of epochs are whole seconds. A closed epoch is called `sealed` here.
PER_SECOND = dict.fromkeys(("epoch", "start", "finish", "since"), 1)
PER_SECOND |= dict.fromkeys(("created", "expires", "revoked", "latest", "delivered", "sent"), 1000)
TABLES = (
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS collections (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, title TEXT NOT NULL, created INTEGER NOT NULL,
        design BLOB NOT NULL, rules TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS senders (
        id INTEGER PRIMARY KEY, collection INTEGER NOT NULL, name TEXT NOT NULL, created INTEGER NOT NULL,
        revoked INTEGER, reports INTEGER NOT NULL, records INTEGER NOT NULL, latest INTEGER,
        UNIQUE (collection, name))""",
    """CREATE TABLE IF NOT EXISTS tokens (
        id TEXT PRIMARY KEY, digest TEXT NOT NULL, scope TEXT NOT NULL, collection INTEGER, sender INTEGER,
        note TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER, revoked INTEGER)""",
    """CREATE TABLE IF NOT EXISTS reports (
        number INTEGER PRIMARY KEY, collection INTEGER NOT NULL, sender INTEGER NOT NULL, id TEXT NOT NULL,
        digest BLOB NOT NULL, epoch INTEGER NOT NULL, records INTEGER NOT NULL, received INTEGER NOT NULL,
        late INTEGER NOT NULL, removed INTEGER, UNIQUE (collection, sender, id))""",
    "CREATE INDEX IF NOT EXISTS reports_of_epoch ON reports (collection, epoch, sender)",
    "CREATE TABLE IF NOT EXISTS bodies (number INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    # Batch ids of the rows that were counted, and who sent them. They stay when reports are forgotten, and are removed
    # when reports are subtracted.
    """CREATE TABLE IF NOT EXISTS counted (
        collection INTEGER NOT NULL, batch BLOB NOT NULL, sender INTEGER NOT NULL, PRIMARY KEY (collection, batch))""",
    """CREATE TABLE IF NOT EXISTS epochs (
        collection INTEGER NOT NULL, start INTEGER NOT NULL, finish INTEGER NOT NULL, span TEXT NOT NULL,
        sealed INTEGER, reports INTEGER NOT NULL, records INTEGER NOT NULL, sketch BLOB, bodies INTEGER NOT NULL,
        compared INTEGER, unshown_reports INTEGER NOT NULL DEFAULT 0, unshown_records INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (collection, start))""",
    """CREATE TABLE IF NOT EXISTS drifts (
        collection INTEGER NOT NULL, epoch INTEGER NOT NULL, since INTEGER, alarm INTEGER NOT NULL, p_value REAL,
        distance REAL, expected REAL, moved TEXT NOT NULL, sentence TEXT NOT NULL, created INTEGER NOT NULL,
        PRIMARY KEY (collection, epoch))""",
    """CREATE TABLE IF NOT EXISTS alarms (
        id INTEGER PRIMARY KEY, collection INTEGER NOT NULL, epoch INTEGER NOT NULL, kind TEXT NOT NULL,
        sentence TEXT NOT NULL, created INTEGER NOT NULL, attempts INTEGER NOT NULL, delivered INTEGER)""",
    """CREATE TABLE IF NOT EXISTS releases (
        id INTEGER PRIMARY KEY, collection INTEGER NOT NULL, start INTEGER NOT NULL, finish INTEGER NOT NULL,
        created INTEGER NOT NULL, ledger TEXT NOT NULL, sketch BLOB NOT NULL, own_ledger TEXT NOT NULL)""",
    # The length of the log of a collection's budget, and its last digest: an older copy of the file is noticed.
    """CREATE TABLE IF NOT EXISTS budgets (
        collection INTEGER PRIMARY KEY, releases INTEGER NOT NULL, digest TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS refusals (
        collection INTEGER NOT NULL, sender INTEGER NOT NULL, kind TEXT NOT NULL, times INTEGER NOT NULL,
        latest INTEGER NOT NULL, sentence TEXT NOT NULL, PRIMARY KEY (collection, sender, kind))""",
    # The first collector's secret shares, until their epoch is opened; their ids stay, without a body.
    """CREATE TABLE IF NOT EXISTS hidden_parts (
        collection INTEGER NOT NULL, sender INTEGER NOT NULL, id TEXT NOT NULL, epoch INTEGER NOT NULL,
        fingerprint TEXT NOT NULL, body BLOB, digest BLOB NOT NULL, received INTEGER NOT NULL,
        PRIMARY KEY (collection, sender, id))""",
    """CREATE TABLE IF NOT EXISTS hidden_openings (
        collection INTEGER NOT NULL, epoch INTEGER NOT NULL, opening TEXT NOT NULL, opened INTEGER,
        PRIMARY KEY (collection, epoch))""",
    # What is forwarded to a parent of closed epochs: the bytes until it has answered, then its answer.
    """CREATE TABLE IF NOT EXISTS passed_on (
        collection INTEGER NOT NULL, epoch INTEGER NOT NULL, id TEXT NOT NULL, body BLOB, sent INTEGER,
        refused INTEGER, sentence TEXT, PRIMARY KEY (collection, epoch))""",
    """CREATE TABLE IF NOT EXISTS audit (
        id INTEGER PRIMARY KEY, entry TEXT NOT NULL, previous TEXT NOT NULL, digest TEXT NOT NULL UNIQUE)""",
)

SQLITE_GUARDS = (
    """CREATE TRIGGER IF NOT EXISTS keep_entries BEFORE UPDATE ON audit
       BEGIN SELECT RAISE(ABORT, 'entries of the audit log are never changed'); END""",
    """CREATE TRIGGER IF NOT EXISTS keep_rows BEFORE DELETE ON audit
       BEGIN SELECT RAISE(ABORT, 'entries of the audit log are never removed'); END""",
)

POSTGRESQL_GUARDS = (
    """CREATE OR REPLACE FUNCTION keep_entries() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RAISE EXCEPTION 'entries of the audit log are never changed or removed'; END $$""",
    """CREATE OR REPLACE TRIGGER keep_entries BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
       FOR EACH STATEMENT EXECUTE FUNCTION keep_entries()""",
)


Row = tuple[Any, ...]
SECONDS_FOR_LOCK = 15.0  # PostgreSQL frees the lock of a killed server when it notices that the connection is gone.
ROWS_PER_STATEMENT = (64, 16, 4, 1)  # a few lengths, so that the database can reuse prepared statements
SECONDS_BETWEEN_CHECKPOINTS = 0.5
LONGEST_LOG = 8192  # pages of 4 kB of SQLite's write-ahead log, 32 MB: then it begins anew
MOST_READERS = 8  # connections that read; further readers wait
_LOG = logging.getLogger("sketchlearn.collector")


class DatabaseError(OSError):
    """The database cannot be used; the message is a sentence."""


class Transaction:
    """Statements within one transaction, with a question mark for each value."""

    def __init__(self, connection: Any, mark: str) -> None:
        self.connection, self.mark = connection, mark

    def execute(self, text: str, values: Sequence[Any] = ()) -> Any:
        """Runs a statement; its cursor can be iterated over."""
        return self.connection.execute(text.replace("?", self.mark), tuple(values))

    def one(self, text: str, values: Sequence[Any] = ()) -> Row | None:
        """The first row of a query."""
        found: Row | None = self.execute(text, values).fetchone()
        return found

    def value(self, text: str, values: Sequence[Any] = ()) -> Any:
        """The first value of the first row of a query; None if there is no row."""
        row = self.one(text, values)
        return None if row is None else row[0]

    def fact(self, name: str) -> Any:
        """A fact about the database: its version, or the identity of the collector."""
        return self.value("SELECT value FROM facts WHERE name = ?", (name,))

    def all(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        found: list[Row] = self.execute(text, values).fetchall()
        return found

    def records(self, text: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """All rows of a query, by the names of their columns, with times as ISO dates."""
        cursor = self.execute(text, values)
        names = [column[0] for column in cursor.description]
        found = [dict(zip(names, row, strict=True)) for row in cursor]
        for row in found:
            row |= {
                name: in_iso(row[name] / PER_SECOND[name])
                for name in names
                if name in PER_SECOND and row[name] is not None
            }
        return found

    def many(self, text: str, rows: Iterable[Sequence[Any]]) -> None:
        """Runs a statement for each of several rows of values."""
        cursor = self.connection.cursor()
        cursor.executemany(text.replace("?", self.mark), list(rows))
        cursor.close()

    def matching(
        self, table: str, wanted: Sequence[str], columns: Sequence[str], values: Iterable[Sequence[Any]]
    ) -> list[Row]:
        """Rows of a table whose columns have one of several combinations of values, in few statements.

        Each combination is looked up in the index of the columns; for IN (VALUES ...) SQLite would read all rows.
        """
        named = ", ".join(f"{table}.{name}" for name in wanted)
        same = " AND ".join(f"{table}.{name} = given.column{n}" for n, name in enumerate(columns, 1))
        query = f"SELECT {named} FROM (VALUES {{}}) AS given CROSS JOIN {table} WHERE {same}"
        return [row for cursor in self.with_rows(query, list(values)) for row in cursor.fetchall()]

    def insert(self, table: str, names: str, rows: Sequence[Sequence[Any]]) -> None:
        """Inserts several rows, in few statements."""
        self.with_rows(f"INSERT INTO {table} ({names}) VALUES {{}}", rows)

    def with_rows(self, text: str, rows: Sequence[Sequence[Any]]) -> list[Any]:
        """Runs a statement with many rows of values in place of its braces, in few parts; their cursors."""
        first, cursors = 0, []
        while first < len(rows):
            size = next(size for size in ROWS_PER_STATEMENT if size <= len(rows) - first)
            some = rows[first : first + size]
            marks = ", ".join([f"({', '.join('?' * len(some[0]))})"] * size)
            cursors.append(self.execute(text.format(marks), [value for row in some for value in row]))
            first += size
        return cursors

    def next_number(self, table: str, column: str = "id") -> int:
        """A number above all of a table; there is one writer, so nobody takes it meanwhile."""
        return int(self.value(f"SELECT coalesce(max({column}), 0) + 1 FROM {table}"))

    @contextmanager
    def part(self) -> Iterator[None]:
        """Statements that are undone by themselves if an error comes."""
        self.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK TO SAVEPOINT part")
            raise
        finally:
            self.execute("RELEASE SAVEPOINT part")


@contextmanager
def transaction_of(connection: Any, begin: str, mark: str = "?") -> Iterator[Transaction]:
    """A transaction of a connection, which is committed afterwards, or undone if an error comes."""
    connection.execute(begin)
    try:
        yield Transaction(connection, mark)
    except BaseException:
        with suppress(Exception):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


class Change(Transaction):
    """A transaction whose actions are noted in the audit log, a hash chain of entries that never change.

    `now` is in milliseconds since 1970; `actor` is the id of a token, or "collector".
    """

    def __init__(self, transaction: Transaction, now: int, actor: str) -> None:
        super().__init__(transaction.connection, transaction.mark)
        self.now, self._actor = now, actor

    def note(self, action: str, **facts: Any) -> None:
        """Adds an entry to the audit log."""
        about = {"time": in_iso(self.now / 1000), "actor": self._actor, "action": action}
        entry = json.dumps({**about, **facts}, sort_keys=True)
        number, previous = self.one("SELECT id, digest FROM audit ORDER BY id DESC LIMIT 1") or (0, START)
        self.execute("INSERT INTO audit VALUES (?, ?, ?, ?)", (number + 1, entry, previous, link(previous, entry)))


class Database(ABC):
    """A database with one writer and several readers, each of which sees what was committed when it began."""

    mark = "?"  # in place of a value
    types: ClassVar[Mapping[str, str]] = {}
    guards: Sequence[str] = ()
    begin_reading, begin_writing = "BEGIN", "BEGIN IMMEDIATE"
    in_words: str  # without passwords

    def __init__(self, *, writable: bool = True) -> None:
        self._free: LifoQueue[Any] = LifoQueue()  # readers; None stands for one that is not connected
        for _ in range(MOST_READERS):
            self._free.put(None)
        self._writer: Any = self._connect_writer() if writable else None
        if writable:
            with self.writing() as transaction:
                for statement in TABLES:
                    transaction.execute(re.sub("[A-Z]+", lambda word: self.types.get(word[0], word[0]), statement))
                for statement in self.guards:
                    transaction.execute(statement)
                transaction.execute(
                    "INSERT INTO facts VALUES ('version', ?), ('identity', ?) ON CONFLICT (name) DO NOTHING",
                    (VERSION, secrets.token_hex(16)),
                )
        with self.reading() as transaction:
            version = transaction.fact("version")
        if version == VERSION or (writable and version in EARLIER):  # which migration.py brings up to date
            return
        self.close()
        if version in EARLIER:
            raise DatabaseError(f"{self.in_words} is of an earlier version: start its collector once")
        raise DatabaseError(f"{self.in_words} was made by another version of sketchlearn: use that version")

    @abstractmethod
    def _connect_writer(self) -> Any: ...
    @abstractmethod
    def _connect_reader(self) -> Any: ...

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """The writer's transaction: all of it is on disk afterwards, or nothing."""
        with transaction_of(self._writer, self.begin_writing, self.mark) as transaction:
            yield transaction

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A view of the database as it is at this moment."""
        connection = self._free.get()
        try:
            connection = connection or self._connect_reader()
            with transaction_of(connection, self.begin_reading, self.mark) as transaction:
                yield transaction
        finally:
            self._free.put(None if getattr(connection, "closed", False) else connection)

    def close(self) -> None:
        """Closes all connections that are not in use."""
        for connection in [self._free.get() for _ in range(self._free.qsize())]:
            if connection is not None:
                connection.close()
            self._free.put(None)
        if self._writer is not None:
            self._writer.close()


class SqliteDatabase(Database):
    """A file."""

    guards = SQLITE_GUARDS

    def __init__(self, path: str | os.PathLike[str], *, writable: bool = True) -> None:
        self.path = Path(path).absolute()
        self.in_words = str(self.path)
        self._checkpointer: Checkpointer | None = None
        if not writable and not self.path.exists():
            raise DatabaseError(f"there is no database {self.path}")
        if writable:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock_file = os.open(f"{self.path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._lock_file)
                raise DatabaseError(f"another collector is running on {self.path}: stop it first") from None
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        try:
            super().__init__(writable=writable)
        except sqlite3.DatabaseError as error:
            raise DatabaseError(f"{self.path} cannot be used as a database: {error}") from None
        self._checkpointer = Checkpointer(self._connect("synchronous = FULL")) if writable else None

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """The writer's transaction; while the write-ahead log is long, followed by the rest of a checkpoint."""
        with super().writing() as transaction:
            yield transaction
        if self._checkpointer is not None and self._checkpointer.log_is_long:
            self._checkpointer.log_is_long = False
            # Little is left, and no change comes between: the next one begins the log anew.
            with suppress(sqlite3.Error):  # what was written is on disk in any case
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _connect(self, *pragmas: str) -> sqlite3.Connection:
        uri = f"{self.path.as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, 60.0, isolation_level=None, check_same_thread=False, uri=True)
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _connect_writer(self) -> sqlite3.Connection:
        # the checkpointer makes checkpoints
        durable = ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0")
        return self._connect(*durable, "trusted_schema = OFF")

    def _connect_reader(self) -> sqlite3.Connection:
        return self._connect("query_only = ON")

    def close(self) -> None:
        if self._checkpointer is not None:
            self._checkpointer.close()
        super().close()
        if self._writer is not None:
            os.close(self._lock_file)


class Checkpointer:
    """A thread that copies SQLite's write-ahead log into the database file, so that no report waits for that.

    It copies what is committed, twice a second, while reports are written at the log's end. Once the log is long, the
    writer copies the little that is left, after which SQLite begins the log anew.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection, self.log_is_long = connection, False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="collector-checkpoints", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends after the copy that is under way."""
        self._ended.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_CHECKPOINTS):
            try:
                _, pages, _ = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                self.log_is_long = pages > LONGEST_LOG
            except sqlite3.Error as error:
                _LOG.warning("SQLite's log could not be copied into its file, which is tried again: %s", error)


class PostgresqlDatabase(Database):
    """A database of a PostgreSQL server."""

    mark = "%s"
    types: ClassVar[Mapping[str, str]] = {"INTEGER": "BIGINT", "BLOB": "BYTEA", "REAL": "DOUBLE PRECISION"}
    guards = POSTGRESQL_GUARDS
    begin_reading, begin_writing = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "BEGIN"
    lock_number = 0x736B6C  # of the advisory lock that says that a collector is running

    def __init__(self, url: str, *, writable: bool = True) -> None:
        self._url, self.in_words = url, re.sub(r"//[^@/]*@", "//", url.split("?")[0])
        self._psycopg = required("psycopg", "serve-postgresql")
        try:
            super().__init__(writable=writable)
        except self._psycopg.Error as error:
            first = str(error).strip().splitlines()
            raise DatabaseError(f"{self.in_words} cannot be used: {first[0] if first else 'no reason'}") from None

    def _connect_reader(self) -> Any:
        return self._psycopg.connect(self._url, autocommit=True, connect_timeout=10)

    def _connect_writer(self) -> Any:
        connection, until = self._connect_reader(), time.monotonic() + SECONDS_FOR_LOCK
        while not connection.execute("SELECT pg_try_advisory_lock(%s)", (self.lock_number,)).fetchone()[0]:
            if time.monotonic() > until:
                connection.close()
                raise DatabaseError(f"another collector is running on {self.in_words}: stop it first")
            time.sleep(0.1)
        if connection.execute("SHOW synchronous_commit").fetchone()[0] in ("off", "local"):
            connection.execute("SET synchronous_commit = on")
        return connection


def open_database(url: str | os.PathLike[str], *, writable: bool = True) -> Database:
    """The database of a URL: `postgresql://...`, or the path of a file for SQLite (`sqlite:///path`, too)."""
    text = os.fspath(url)
    if text.startswith(("postgresql://", "postgres://")):
        return PostgresqlDatabase(text, writable=writable)
    path = text.removeprefix("sqlite://")
    if re.match(r"[a-z]+://", path):
        raise DatabaseError("a database is a path, or a URL that begins with postgresql://")
    return SqliteDatabase(path, writable=writable)
