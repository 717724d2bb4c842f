"""The collector: counted once, lost never, shown to those who may see it."""

import json
import re
import sqlite3
import subprocess
import sys
import threading

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")

from house import HOUR, NOON, OPERATOR, ROWS, House
from served import POSTGRESQL, Cluster

import sketchlearn as skl
from sketchlearn.collector import database, drift, reports
from sketchlearn.collector.clients.client import report_file
from sketchlearn.collector.database import DatabaseError, open_database
from sketchlearn.collector.epochs import epochs_between
from sketchlearn.collector.verification import verify
from sketchlearn.collector.views import ExactView
from sketchlearn.collector.writer import Writer
from sketchlearn.files.designs import design_to_bytes

OTHER = skl.features.FourierFeatures(2, 20, law=skl.features.frequencies.Gaussian(1.0), seed=1)
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def postgresql():
    if not POSTGRESQL:
        pytest.skip("PostgreSQL is not installed")
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def house(tmp_path):
    found = House(tmp_path)
    yield found
    found.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def any_house(request, tmp_path):
    url = None
    if request.param == "postgresql":
        cluster = request.getfixturevalue("postgresql")
        import psycopg

        name = "t" + re.sub(r"\W", "", tmp_path.name).lower()
        with psycopg.connect(cluster.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        url = cluster.url.replace("/postgres?", f"/{name}?")
    found = House(tmp_path, url)
    yield found
    found.close()


def test_reports_count_once_and_survive(any_house):
    house = any_house
    house.collection()
    tokens = [house.sender(name) for name in "ab"]
    sketches = [OPERATOR.sketch(ROWS[i::4]) for i in range(4)]
    answers = [house.send(tokens[i % 2], sketch, f"r{i}") for i, sketch in enumerate(sketches)]
    assert [answer.status_code for answer in answers] == [201] * 4
    for i, sketch in enumerate(sketches):
        again = house.send(tokens[i % 2], sketch, f"r{i}")
        assert (again.status_code, again.json()) == (201, answers[i].json())
    assert house.sum() == OPERATOR.sketch(ROWS)
    house.close()
    house.open()  # what was acknowledged is there after a restart, and more can be added
    assert house.send(tokens[0], sketches[0], "r0").json() == answers[0].json()
    assert house.send(tokens[0], OPERATOR.sketch(ROWS[:5]), "more").status_code == 201
    assert house.sum() == OPERATOR.sketch(np.concatenate([ROWS, ROWS[:5]]))
    house.refused(house.send(tokens[0], OPERATOR.sketch(ROWS[:7]), "r0"), 409, "other bytes")
    house.refused(house.send(tokens[1], sketches[0], "other"), 409, "would count twice")
    assert verify(house.store.database).problems == []


def test_a_revoked_sender_is_subtracted_exactly(any_house):
    house = any_house
    house.collection()
    tokens = [house.sender(name) for name in "ab"]
    for i in range(6):
        assert house.send(tokens[i % 2], OPERATOR.sketch(ROWS[i::6]), f"r{i}").status_code == 201
    house.now += 3 * HOUR
    house.store.maintain()
    answer = house.ask("POST", "/collections/c/senders/a/revoke", json={"subtract": True}, status=200)
    assert answer.json() == {"reports_subtracted": 3, "reports_kept": 0}
    rest = np.concatenate([ROWS[i::6] for i in (1, 3, 5)])
    assert house.sum() == OPERATOR.sketch(rest)
    house.refused(house.send(tokens[0], OPERATOR.sketch(ROWS[:3]), "late"), 401, "not valid")
    assert house.send(tokens[1], OPERATOR.sketch(ROWS[:3]), "more").status_code == 201
    assert verify(house.store.database).problems == []


def test_private_reports_are_added_anew_where_a_sender_leaves(house):
    house.collection(private_reports=True, disjoint=True)
    tokens = [house.sender(name) for name in "ab"]
    house.refused(house.send(tokens[0], OPERATOR.sketch(ROWS), "exact"), 422, "privatize it first")
    parts = [skl.privatize(OPERATOR.sketch(ROWS[i::3]), epsilon=1.0) for i in range(3)]
    for i, part in enumerate(parts):
        assert house.send(tokens[i % 2], part, f"r{i}").status_code == 201
    assert house.sum().ledger.epsilon == 1.0
    assert verify(house.store.database).problems == []
    house.ask("POST", "/collections/c/senders/a/revoke", json={"subtract": True}, status=200)
    assert np.array_equal(house.sum().sums, parts[1].sums)
    assert verify(house.store.database).problems == []


def test_bad_reports_are_refused_in_a_sentence(house):
    house.collection(records_per_report=1000, largest_body=20_000)
    token = house.sender()
    good = OPERATOR.sketch(ROWS[:10])
    data = good.to_bytes()
    assert house.send(token, data, "good").status_code == 201
    flipped = bytearray(data)
    flipped[-3] ^= 4
    house.refused(house.send(token, bytes(flipped), "x"), 400, "digest does not match")
    for bad in (b"", b"{}", data[:-1], b"\x00" * 100, design_to_bytes(OPERATOR)):
        house.refused(house.send(token, bad, "x"), 400, "the report cannot be read")
    house.refused(house.send(token, OTHER.sketch(ROWS), "x"), 422, "another design")
    house.refused(house.send(token, skl.privatize(good, epsilon=1.0), "x"), 422, "private sketch and an exact one")
    house.refused(house.send(token, skl.Sketch(OPERATOR), "x"), 400, "no records")
    house.refused(house.send(token, OPERATOR.sketch(np.tile(ROWS, (3, 1))), "x"), 429, "at most 1,000 records")
    house.refused(house.send(token, b"0" * 20_001, "x"), 413, "at most 20,000 bytes")
    house.refused(
        house.send(token, OPERATOR.sketch(ROWS[:3]), "x", time=house.now + 1000), 422, "set the sender's clock"
    )
    house.refused(house.send(token, good, "x", time="yesterday"), 400, "a time must be")
    assert house.sum() == good
    house.store.flush_refusals()
    kinds = {one["kind"] for one in house.ask("GET", "/collections/c/refusals").json()["refusals"]}
    assert {"damaged", "other design", "not addable", "limit", "too large", "wrong clock"} <= kinds


def test_overflow_is_refused(house):
    house.collection()
    token = house.sender()
    for i in range(2):
        part = OPERATOR.sketch([[0.1 * i, 0.0]], sample_weight=[2**42])
        answer = house.send(token, part, f"r{i}")
    house.refused(answer, 422, "overflow")
    assert verify(house.store.database).problems == []


def test_limits_of_a_sender(house):
    house.collection(reports_per_epoch=2, records_per_epoch=25, reports_per_minute=6)
    token = house.sender()
    assert house.send(token, OPERATOR.sketch(ROWS[:10]), "1").status_code == 201
    house.refused(house.send(token, OPERATOR.sketch(ROWS[:16]), "2"), 429, "25 records in an epoch")
    assert house.send(token, OPERATOR.sketch(ROWS[:15]), "2").status_code == 201
    house.refused(house.send(token, OPERATOR.sketch(ROWS[:1]), "3"), 429, "2 reports in an epoch")
    for _ in range(2):
        house.send(token, OPERATOR.sketch(ROWS[:1]), "3")
    answer = house.send(token, OPERATOR.sketch(ROWS[:1]), "3")
    house.refused(answer, 429, "reports a minute")
    assert int(answer.headers["retry-after"]) >= 1


def test_epochs_close_and_late_reports_follow_the_rules(house):
    house.collection("strict", grace_seconds=600)
    house.collection("kind", grace_seconds=600, late="next")
    strict, kind = house.sender(collection="strict"), house.sender(collection="kind")
    for token, name in ((strict, "strict"), (kind, "kind")):
        assert house.send(token, OPERATOR.sketch(ROWS[:50]), "1", name).status_code == 201
    house.now = NOON + HOUR + 599  # within the grace
    assert (
        house.send(strict, OPERATOR.sketch(ROWS[50:60]), "2", "strict", time=NOON + 5)
        .json()["epoch"]
        .endswith("12:00:00Z")
    )
    house.now += 1
    house.refused(house.send(strict, OPERATOR.sketch(ROWS[:5]), "3", "strict", time=NOON + 5), 410, "is closed")
    answer = house.send(kind, OPERATOR.sketch(ROWS[:5]), "3", "kind", time=NOON + 5).json()
    assert (answer["late"], answer["epoch"][-9:]) == (True, "13:00:00Z")
    ahead = house.send(strict, OPERATOR.sketch(ROWS[60:63]), "4", "strict", time=house.now + 299).json()
    assert ahead["epoch"].endswith("13:00:00Z")
    house.store.maintain()
    sealed = [one["sealed"] is not None for one in house.ask("GET", "/collections/strict/epochs").json()["epochs"]]
    assert sealed == [True, False]
    assert house.send(strict, OPERATOR.sketch(ROWS[:50]), "1", "strict").status_code in (201, 409)
    assert verify(house.store.database).problems == []


def test_windows_are_sums_and_old_epochs_become_coarser(any_house):
    house = any_house
    house.collection(hours_kept_days=2, days_kept_days=40, body_days=1, grace_seconds=0)
    token = house.sender()
    parts = {}
    for day in (0, 1, 35):
        for hour in (0, 1):
            house.now = NOON + day * 86400 + hour * HOUR
            parts[day, hour] = OPERATOR.sketch(RNG.standard_normal((30, 2)) + day)
            assert house.send(token, parts[day, hour], f"{day}-{hour}").status_code == 201
    assert house.sum(**{"from": NOON, "to": NOON + HOUR}) == parts[0, 0]
    assert house.sum(**{"from": NOON + HOUR, "to": NOON + 2 * 86400}) == sum(
        parts[key] for key in ((0, 1), (1, 0), (1, 1))
    )
    for _ in range(2):
        house.store.maintain()
    total, collection = sum(parts.values()), house.store.all_collections()[0]
    spans = [one.span for one in ExactView(house.store, collection).read(epochs_between, 0, 2**32)]
    assert spans == ["day", "day", "hour", "hour"]
    assert house.sum() == total
    for days in (100, 2):
        house.now += days * 86400
        assert house.store.maintain() == []
    found = ExactView(house.store, collection).read(epochs_between, 0, 2**32)
    assert {one.span for one in found} == {"month"}
    assert house.sum() == total
    assert sum(one.reports for one in found) == 6
    with house.store.reading() as transaction:
        assert transaction.one("SELECT count(*) FROM bodies") == (0,)
        assert transaction.one("SELECT count(*) FROM reports") == (6,)
    assert verify(house.store.database).problems == []
    partly = house.ask("GET", "/collections/c/window", params={"from": NOON, "to": NOON + HOUR}).json()
    assert partly["left_out"][0]["reason"] == "only a part of it lies in the window"


def test_little_is_not_shown(house):
    house.collection(min_records=50, min_reports=2)
    token = house.sender()
    house.send(token, OPERATOR.sketch(ROWS[:100]), "1")
    reader = house.token("read")
    house.refused(house.ask("GET", "/collections/c/window/sketch", reader), 409, "fewer than 2 reports")
    house.send(token, OPERATOR.sketch(ROWS[100:]), "2")
    house.now += HOUR
    house.send(token, OPERATOR.sketch(ROWS[:20]), "3")
    house.send(token, OPERATOR.sketch(ROWS[20:40]), "4")
    assert house.sum() == OPERATOR.sketch(ROWS)  # without the epoch of 40 records


def test_drift_raises_an_alarm(house):
    wide = skl.design(bounds=([-6, -6], [6, 6]), n_components=2, features=skl.features.Fourier(n_frequencies=50))
    form = {"name": "c", "design": json.loads(design_to_bytes(wide)), "rules": {"grace_seconds": 0}}
    house.ask("POST", "/collections", json=form, status=201)
    token = house.sender()
    for hour in range(5):
        house.now = NOON + hour * HOUR + 1
        shift = [3.0, 0.0] if hour >= 3 else [0.0, 0.0]
        house.send(token, wide.sketch(RNG.standard_normal((500, 2)) + shift), f"r{hour}")
    house.now += HOUR
    house.store.maintain()
    rows = house.ask("GET", "/collections/c/drift").json()["drift"]
    assert [row["alarm"] for row in reversed(rows)] == [False, False, False, True, False]
    alarm = house.ask("GET", "/collections/c/alarms").json()["alarms"]
    assert len(alarm) == 1
    assert "15:00:00Z" in alarm[0]["sentence"]
    assert rows[1]["since"].endswith("15:00:00Z")
    house.store.maintain()
    assert len(house.ask("GET", "/collections/c/alarms").json()["alarms"]) == 1
    with house.store.reading() as transaction:
        assert drift.next_epoch(transaction, house.store.all_collections()[0]) is None


def test_a_server_that_ends_leaves_comparisons_to_the_next_start(house):
    house.collection(grace_seconds=0)
    token, asked = house.sender(), []
    for hour in range(5):
        house.now = NOON + hour * HOUR + 1
        house.send(token, OPERATOR.sketch(RNG.permutation(ROWS)[:200]), f"r{hour}")
    house.now += HOUR
    house.store.maintain(lambda: asked.append(None) or len(asked) > 2)
    assert len(house.ask("GET", "/collections/c/drift").json()["drift"]) == 2
    house.store.maintain()
    assert len(house.ask("GET", "/collections/c/drift").json()["drift"]) == 5


def test_releases_are_private_and_booked(house):
    house.collection(private_reading=True, grace_seconds=0, epsilon=1.5)
    token, reader = house.sender(), house.token("read")
    house.send(token, OPERATOR.sketch(ROWS), "1")
    form = {"from": str(NOON), "to": str(NOON + HOUR), "epsilon": 1.0}
    house.refused(house.ask("POST", "/collections/c/releases", json=form), 409, "not closed yet")
    house.now += HOUR
    house.store.maintain()
    house.refused(house.ask("GET", "/collections/c/window/sketch", reader), 403, "private releases alone")
    house.refused(house.ask("POST", "/collections/c/releases", reader, json=form), 403, "scope admin")
    made = house.ask("POST", "/collections/c/releases", json=form, status=201).json()
    release = skl.from_bytes(house.ask("GET", f"/collections/c/releases/{made['id']}/sketch", reader).content)
    assert release.ledger.epsilon == 1.0
    house.refused(house.ask("POST", "/collections/c/releases", json=form), 409, "more than the budget has")


def test_sums_and_the_log_cannot_be_changed_unnoticed(house):
    house.collection(grace_seconds=0)
    token = house.sender()
    house.send(token, OPERATOR.sketch(ROWS[:100]), "1")
    house.now += HOUR
    house.store.maintain()
    house.send(token, OPERATOR.sketch(ROWS[:90]), "2")
    with sqlite3.connect(house.url, isolation_level=None) as database:
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            database.execute("UPDATE audit SET entry = '{}'")
        with pytest.raises(sqlite3.IntegrityError, match="never removed"):
            database.execute("DELETE FROM audit")
        first, second = (row[0] for row in database.execute("SELECT sketch FROM epochs ORDER BY start"))
        database.execute("UPDATE epochs SET sketch = ? WHERE sealed IS NULL", (first,))
        problems = verify(house.store.database).problems
        assert any("not the sum of the bodies" in problem for problem in problems)
        database.execute("UPDATE epochs SET sketch = ?", (second,))
        problems = verify(house.store.database).problems
        assert any("audit log has the digest" in problem for problem in problems)
        database.execute("DROP TRIGGER keep_entries")
        database.execute("UPDATE audit SET entry = '{}' WHERE id = 2")
    assert any("log was changed" in problem for problem in verify(house.store.database).problems)
    database.close()


def test_one_collector_at_a_time(any_house, monkeypatch):
    monkeypatch.setattr("sketchlearn.collector.database.SECONDS_FOR_LOCK", 0.0)
    with pytest.raises(DatabaseError, match="another collector is running"):
        open_database(any_house.url)


def test_a_work_that_fails_does_not_take_others_along(house):
    house.collection()
    token = house.sender()
    gate = threading.Event()
    first = house.store.writer.submit(lambda _group: gate.wait(10))

    def fails(_group):
        raise RuntimeError("unforeseen")

    collection, sender = house.store.all_collections()[0], house.store.token(token).sender
    sent = [(collection, sender, f"r{i}", OPERATOR.sketch(ROWS[i::3]).to_bytes(), None) for i in range(3)]
    waiting = [house.store.submit_report(*sent[0]), house.store.writer.submit(fails)]
    waiting += [house.store.submit_report(*report) for report in sent[1:]]
    gate.set()
    assert first.result(10)
    with pytest.raises(RuntimeError, match="unforeseen"):
        waiting[1].result(10)
    assert [waiting[i].result(10)["id"] for i in (0, 2, 3)] == ["r0", "r1", "r2"]
    assert house.sum() == OPERATOR.sketch(ROWS)
    assert verify(house.store.database).problems == []


def test_totals_leave_the_memory_between_transactions_alone(house, monkeypatch):
    """A total that left it between two reports of one transaction would lose the first of them."""
    monkeypatch.setattr(reports, "MOST_OPEN_TOTALS", 0)
    house.collection()
    sender = house.store.token(house.sender()).sender
    gate = threading.Event()
    house.store.writer.submit(lambda _group: gate.wait(10))
    bodies = [OPERATOR.sketch(ROWS[i::4]).to_bytes() for i in range(4)]
    collection = house.store.all_collections()[0]
    waiting = [house.store.submit_report(collection, sender, f"r{i}", body, None) for i, body in enumerate(bodies)]
    gate.set()
    assert [one.result(10)["id"] for one in waiting] == ["r0", "r1", "r2", "r3"]
    assert house.sum() == OPERATOR.sketch(ROWS)
    assert verify(house.store.database).problems == []


# Attacks: each is refused


def test_other_tenants_are_out_of_reach(house):
    house.collection("mine")
    house.collection("yours")
    mine, yours = house.sender(collection="mine"), house.sender(collection="yours")
    house.send(yours, OPERATOR.sketch(ROWS), "r1", "yours")
    admin_of_mine = house.token("admin", "mine")
    there = house.ask("GET", "/collections/yours", mine)
    not_there = house.ask("GET", "/collections/nobody", mine)
    assert (there.status_code, there.json()) == (not_there.status_code, not_there.json()) == (404, not_there.json())
    for token in (mine, admin_of_mine):
        for method, path in (
            ("GET", "/collections/yours/design"),
            ("GET", "/collections/yours/window/sketch"),
            ("GET", "/collections/yours/reports/r1"),
            ("POST", "/collections/yours/reports/r2"),
            ("POST", "/collections/yours/senders/a/revoke"),
            ("PATCH", "/collections/yours"),
        ):
            assert house.ask(method, path, token).status_code == 404
    assert house.ask("GET", "/collections", mine).json()["collections"][0]["name"] == "mine"
    own = house.ask("GET", "/collections/yours/tokens").json()["tokens"][0]["id"]
    house.refused(house.ask("POST", f"/collections/mine/tokens/{own}/revoke", admin_of_mine), 404, "no such token")
    house.refused(house.ask("GET", "/audit", admin_of_mine), 403, "whole collector")
    house.refused(house.ask("POST", "/collections", admin_of_mine, json={"name": "x"}), 403, "whole collector")


def test_guessed_ids_tell_nothing(house):
    house.collection()
    a, b = house.sender("a"), house.sender("b")
    house.send(a, OPERATOR.sketch(ROWS[:50]), "secret-id")
    house.refused(house.ask("GET", "/collections/c/reports/secret-id", b), 404, "no report of this id")
    assert house.send(b, OPERATOR.sketch(ROWS[50:]), "secret-id").status_code == 201  # ids are each sender's own
    assert house.sum() == OPERATOR.sketch(ROWS)


def test_tokens_end(house):
    house.collection()
    token, reader = house.sender(expires_days=1), house.token("read")
    number = token.split("_")[1]
    for bad in ("", "x", token[:-1], token[:-1] + ("A" if token[-1] != "A" else "B"), f"skl_{'0' * 16}_{'A' * 43}"):
        house.refused(house.ask("GET", "/collections", bad or " "), 401, "token")
    made = house.ask("POST", "/token/rotate", token, json={"overlap_seconds": 60}, status=201).json()
    assert house.ask("GET", "/collections", made["token"]).status_code == 200
    assert house.ask("GET", "/collections", token).status_code == 200
    house.now += 61
    house.refused(house.ask("GET", "/collections", token), 401, "expired")
    house.ask("POST", f"/collections/c/tokens/{made['id']}/revoke", status=200)
    house.refused(house.ask("GET", "/collections", made["token"]), 401, "not valid")
    house.refused(house.send(reader, OPERATOR.sketch(ROWS), "r"), 403, "scope send")
    house.refused(house.ask("GET", "/collections/c/tokens", reader), 403, "scope admin")
    dump = b"".join(path.read_bytes() for path in house.folder.glob("c.sqlite*"))
    assert number.encode() in dump
    for text in (token, made["token"], reader):
        assert text.split("_", 2)[2].encode() not in dump


def test_guessing_tokens_is_slowed_down(house):
    answers = [house.ask("GET", "/collections", f"skl_{i:016x}_{'A' * 43}").status_code for i in range(32)]
    assert answers[:29] == [401] * 29
    assert answers[-1] == 429


@pytest.mark.parametrize(
    "path",
    [
        "/collections/%2e%2e/c",
        "/collections/c%00",
        "/collections/c/reports/..%2f..%2fr",
        "/collections/c//window",
        "/collections/C",
        "/collections/c;x",
        "/../admin.token",
        "/collections/c/releases/1e3/sketch",
        "/collections/c/releases/-1/sketch",
        "/collections/c/releases/99999999999999999999/sketch",
    ],
)
def test_path_tricks_lead_nowhere(house, path):
    house.collection()
    assert house.ask("GET", path).status_code in (400, 403, 404)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a\x1b[2J", "a\nb", "a\u202eb", "", "x" * 500, 7, None])
def test_names_that_could_harm_are_refused(house, name):
    house.collection()
    house.refused(house.ask("POST", "/collections/c/senders", json={"names": [name]}), 400, "the name of a sender")
    form = {"name": name, "design": json.loads(design_to_bytes(OPERATOR))}
    house.refused(house.ask("POST", "/collections", json=form), 400, "the name of a collection")
    if isinstance(name, str) and not name.isprintable():
        form = {"name": "d", "title": name, "design": json.loads(design_to_bytes(OPERATOR))}
        house.refused(house.ask("POST", "/collections", json=form), 400, "a title must be")


def test_answers_have_security_headers_and_no_traces(house, monkeypatch):
    answer = house.ask("GET", "/collections")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"

    def fails(_token):
        raise RuntimeError("inner words")

    monkeypatch.setattr(house.store, "visible", fails)
    answer = house.ask("GET", "/collections")
    assert answer.status_code == 500
    assert "inner words" not in answer.text
    assert answer.json()["kind"] == "error"


def test_rules_are_checked(house):
    house.collection()
    for rules in (
        {"epoch": "day"},
        {"grace_seconds": -1},
        {"nothing": 1},
        {"webhook": "file:///etc/passwd"},
        [],
        {"late": []},
    ):
        assert house.ask("PATCH", "/collections/c", json={"rules": rules}).status_code == 400
    assert house.ask("PATCH", "/collections/c", json={"rules": {"min_records": 5}}).json()["rules"]["min_records"] == 5


def test_metrics_health_and_openapi(house):
    house.collection()
    house.send(house.sender(), OPERATOR.sketch(ROWS), "1")
    assert house.client.get("/v1/health").json() == {"status": "ok"}
    assert house.client.get("/metrics").status_code == 401
    text = house.client.get("/metrics", headers={"Authorization": f"Bearer {house.admin}"}).text
    assert 'sketchlearn_reports_total{collection="c"} 1.0' in text
    document = house.client.get("/v1/openapi.json").json()
    assert "/v1/collections/{collection}/reports/{report}" in document["paths"]
    entries = house.ask("GET", "/audit").json()["entries"]
    assert [entry["action"] for entry in entries] == ["add token", "create collection", "add token"]


def test_the_log_of_sqlite_begins_anew_under_load(tmp_path, monkeypatch):
    """Changes that come without a pause do not let the write-ahead log grow as they do."""
    monkeypatch.setattr(database, "SECONDS_BETWEEN_CHECKPOINTS", 0.002)
    monkeypatch.setattr(database, "LONGEST_LOG", 200)
    found, written = open_database(tmp_path / "c.sqlite"), 0
    log = tmp_path / "c.sqlite-wal"
    while written < 64_000_000:
        with found.writing() as transaction:
            transaction.insert("bodies", "number, body", [(written, b"\x01" * 160_000)])
        written += 160_000
    assert log.stat().st_size < written / 4
    with found.reading() as transaction:
        assert transaction.one("SELECT count(*), sum(length(body)) FROM bodies") == (400, written)
    found.close()
    assert not log.exists()


def test_reports_are_looked_up_by_an_index(house):
    """However many there are: no statement of a report reads all of them."""
    house.collection()
    seen = []
    with house.store.reading() as transaction:
        transaction.connection.set_trace_callback(seen.append)
        key = ("collection", "sender", "id")
        transaction.matching("reports", key, key, [(1, 1, f"r{n}") for n in range(21)])
        transaction.matching("counted", ("sender",), ("collection", "batch"), [(1, b"d")])
        transaction.connection.set_trace_callback(None)
        plans = [row[3] for text in seen for row in transaction.all(f"EXPLAIN QUERY PLAN {text}")]
    assert len(seen) == 4  # 16, 4 and 1 of the 21; and one
    assert len([plan for plan in plans if plan.startswith("SEARCH reports USING")]) == 3
    assert len([plan for plan in plans if plan.startswith("SEARCH counted USING")]) == 1
    assert not [plan for plan in plans if plan.startswith(("SCAN reports", "SCAN counted"))]


def test_the_package_itself_loads_nothing_of_a_server():
    """Sketching, and reporting to a collector, need none of what the extra `serve` installs."""
    names = ["starlette", "uvicorn", "uvloop", "httptools", "anyio", "prometheus_client", "cryptography", "psycopg"]
    code = (
        "import sys, sketchlearn as skl\n"
        "skl.features.SecondMoments(2, bound=9.0).sketch([[1.0, 2.0]] * 200).to_bytes()\n"
        "skl.Collector('http://127.0.0.1:9', 'x')\n"
        f"print([name for name in {names!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_work_that_was_called_off_does_not_stop_the_writer(tmp_path):
    """A task that is cancelled while its report waits cancels the report's future, too."""
    database = open_database(tmp_path / "c.sqlite")
    writer, begun, may_end = Writer(database, lambda: None, lambda _: None), threading.Event(), threading.Event()

    def slow(_group):
        begun.set()
        return may_end.wait(30)

    first = writer.submit(slow)
    assert begun.wait(30)
    called_off, last = writer.submit(lambda _group: 1 / 0), writer.submit(lambda _group: "written")
    assert called_off.cancel()
    may_end.set()
    assert first.result(30)
    assert last.result(30) == "written"
    writer.close()
    database.close()


def test_senders_may_report_equal_rows(house):
    """Two thermometers read the same, and one of them twice: the client names few records by the id of their report."""
    house.collection()
    a, b = house.sender("a"), house.sender("b")
    for sender, number in ((a, "a-noon"), (b, "b-noon"), (a, "a-one")):
        assert house.send(sender, report_file(OPERATOR.sketch(ROWS[:1]), number), number).status_code == 201
    assert house.sum().count == 3
    again = report_file(OPERATOR.sketch(ROWS[:1]), "b-noon")
    house.refused(house.send(b, again, "b-two"), 409, "as a batch with a name of its own")
