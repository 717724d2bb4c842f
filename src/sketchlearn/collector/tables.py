"""The tables of the database, in the SQL that SQLite and PostgreSQL share, and what each of them says differently."""

from __future__ import annotations

VERSION, EARLIER = "2", ("1",)

# INTEGER, BLOB and REAL are SQLite's words; database.py says BIGINT, BYTEA and DOUBLE PRECISION to PostgreSQL. Times
# are whole milliseconds since 1970, in UTC; starts and ends of epochs whole seconds.
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
    # what identifies the rows that were counted, and who sent them: they stay when reports are forgotten, and go when
    # they are subtracted
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
    # how long the log of a collection's budget is, and its last digest: a file that was put back is noticed
    """CREATE TABLE IF NOT EXISTS budgets (
        collection INTEGER PRIMARY KEY, releases INTEGER NOT NULL, digest TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS refusals (
        collection INTEGER NOT NULL, sender INTEGER NOT NULL, kind TEXT NOT NULL, times INTEGER NOT NULL,
        latest INTEGER NOT NULL, sentence TEXT NOT NULL, PRIMARY KEY (collection, sender, kind))""",
    # the rests of hidden parts, until their epoch is opened; their ids stay, without a body
    """CREATE TABLE IF NOT EXISTS hidden_parts (
        collection INTEGER NOT NULL, sender INTEGER NOT NULL, id TEXT NOT NULL, epoch INTEGER NOT NULL,
        fingerprint TEXT NOT NULL, body BLOB, digest BLOB NOT NULL, received INTEGER NOT NULL,
        PRIMARY KEY (collection, sender, id))""",
    """CREATE TABLE IF NOT EXISTS hidden_openings (
        collection INTEGER NOT NULL, epoch INTEGER NOT NULL, opening TEXT NOT NULL, opened INTEGER,
        PRIMARY KEY (collection, epoch))""",
    # what a parent is told of sealed epochs: the bytes until it has answered, then its answer
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
