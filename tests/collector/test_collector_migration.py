"""Databases of earlier versions: brought up to date when a collector opens them, with nothing lost or counted twice.

golden/collector/ has a database that version 1 wrote, as SQL, and the reports that it took.
"""

import json
import re
import sqlite3
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")

from house import HOUR, NOON, House
from served import POSTGRESQL, Cluster

import sketchlearn as skl
from sketchlearn.collector.database import VERSION, DatabaseError, open_database
from sketchlearn.collector.verification import verify

GOLDEN = Path(__file__).parents[1] / "golden" / "collector"
BODIES = {
    name: bytes.fromhex(text) for name, text in json.loads((GOLDEN / "version_1_reports.json").read_text()).items()
}
TYPES = {"INTEGER": "BIGINT", "BLOB": "BYTEA", "REAL": "DOUBLE PRECISION"}
LATER = NOON + 3 * 86400 + HOUR  # when version 1 was stopped


def in_postgresql(cluster, name):
    """The same database on a PostgreSQL server, by the statements that version 1 made its tables with."""
    import psycopg

    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = cluster.url.replace("/postgres?", f"/{name}?")
    old = sqlite3.connect(":memory:")
    old.executescript((GOLDEN / "version_1.sql").read_text())
    made = old.execute("SELECT type, name, sql FROM sqlite_master WHERE type != 'trigger' AND sql IS NOT NULL")
    with psycopg.connect(url) as connection:
        for kind, table, text in made.fetchall():
            connection.execute(re.sub("|".join(TYPES), lambda found: TYPES[found[0]], text))
            if kind == "table":
                for row in old.execute(f"SELECT * FROM {table}").fetchall():
                    connection.execute(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", row)
    old.close()
    return url


@pytest.fixture(scope="module")
def postgresql():
    if not POSTGRESQL:
        pytest.skip("PostgreSQL is not installed")
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "postgresql":
        name = "t" + re.sub(r"\W", "", tmp_path.name).lower()[:60]
        return in_postgresql(request.getfixturevalue("postgresql"), name)
    with sqlite3.connect(tmp_path / "c.sqlite") as old:
        old.executescript((GOLDEN / "version_1.sql").read_text())
    old.close()
    return tmp_path / "c.sqlite"


@pytest.fixture
def house(url, tmp_path):
    found = House(tmp_path, url)
    found.now = LATER
    yield found
    found.close()


def test_it_is_not_read_before_a_collector_has_opened_it(url, tmp_path):
    with pytest.raises(DatabaseError, match="start its collector once"):
        open_database(url, writable=False)
    House(tmp_path, url).close()
    database = open_database(url, writable=False)
    assert verify(database).problems == []
    with database.reading() as transaction:
        assert transaction.one("SELECT value FROM facts WHERE name = 'version'") == (VERSION,)
    database.close()


def test_reports_of_before_are_not_counted_again(house):
    """Under another id: those with bodies by their batches, those without by their bytes."""
    token = house.ask("POST", "/collections/c/tokens", json={"scope": "send", "sender": "b"}, status=201).json()[
        "token"
    ]
    before = house.sum()
    for name in ("old", "new", "content", "subtracted"):
        house.refused(house.send(token, BODIES[name], f"{name}-again"), 409, "would count twice")
    for name in ("new", "subtracted"):
        changed = skl.from_bytes(BODIES[name]).to_bytes(software="another")
        house.refused(house.send(token, changed, f"{name}-changed"), 409, "would count twice")
    answer = house.send(token, BODIES["subtracted"], "subtracted")  # a resend
    assert (answer.status_code, answer.json()["id"]) == (201, "subtracted")
    assert house.sum() == before
    house.close()
    house.open()  # once more: nothing is left to be done
    assert house.sum() == before


def test_a_sender_of_before_is_subtracted_and_its_batches_may_come_again(house):
    token = house.ask("POST", "/collections/c/tokens", json={"scope": "send", "sender": "a"}, status=201).json()[
        "token"
    ]
    answer = house.ask("POST", "/collections/c/senders/b/revoke", json={"subtract": True}, status=200)
    assert answer.json() == {"reports_subtracted": 2, "reports_kept": 0}
    assert house.send(token, BODIES["content"], "mine").status_code == 201
    assert verify(house.store.database).problems == []


def test_bits_of_devices_stay_as_they_were(house):
    form = {"scope": "send", "sender": "a"}
    token = house.ask("POST", "/collections/bits/tokens", json=form, status=201).json()["token"]
    assert house.send(token, BODIES["bits-1"], "bits-3", "bits").status_code == 201


def test_open_epochs_are_closed_to_readers(house):
    """Version 1 showed them by default; whoever wants that says so now."""
    assert house.ask("GET", "/collections/c").json()["rules"]["sealed_only"] is True
    token = house.ask("POST", "/collections/c/tokens", json={"scope": "send", "sender": "a"}, status=201).json()[
        "token"
    ]
    operator = house.store.all_collections()[-1].known.operator
    house.send(token, operator.sketch([[9.0, 9.0]]), "open")
    count = house.sum().count
    house.ask("PATCH", "/collections/c", json={"rules": {"sealed_only": False}}, status=200)
    assert house.sum().count == count + 1


def test_releases_of_before_are_paid_for(house):
    form = {"from": str(NOON), "to": str(NOON + HOUR), "epsilon": 1.0}
    made = house.ask("POST", "/collections/c/releases", json=form, status=201).json()
    assert (made["id"], made["ledger"]["epsilon"]) == (2, 2.0)
