"""The file of a collection's budget is rolled back, replaced or removed: the database knows of the releases."""

import sqlite3

import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")
pytest.importorskip("opendp")

from house import HOUR, NOON, OPERATOR, ROWS, House

import sketchlearn as skl
from sketchlearn.collector import releases
from sketchlearn.privacy import budget as budgets

FORM = {"from": str(NOON), "to": str(NOON + HOUR), "epsilon": 1.0}


@pytest.fixture
def house(tmp_path):
    found = House(tmp_path)
    found.collection(private_reading=True, grace_seconds=0, epsilon=3.0)
    found.send(found.sender(), OPERATOR.sketch(ROWS), "r")
    found.now += HOUR
    found.store.maintain()
    yield found
    found.close()


def release(house):
    return house.ask("POST", "/collections/c/releases", json=FORM)


def budget(house):
    return house.folder / "budgets" / "c.sqlite"


def test_a_copy_is_put_back(house, monkeypatch):
    """Three releases are paid for, and with a copy of the file after the first there would be five."""
    assert release(house).status_code == 201
    copy = budget(house).read_bytes()
    assert release(house).status_code == 201
    budget(house).write_bytes(copy)
    house.refused(release(house), 409, "has lost releases that it had")
    house.close()
    house.open()  # and after a restart
    monkeypatch.setattr(budgets, "_SEEN", {})
    house.refused(release(house), 409, "has 1 releases, and had 2")
    assert len(house.ask("GET", "/collections/c/releases").json()["releases"]) == 2


def test_the_newest_copy_is_taken(house):
    assert release(house).status_code == 201
    old = budget(house).read_bytes()
    assert release(house).status_code == 201
    new = budget(house).read_bytes()
    budget(house).write_bytes(old)
    assert release(house).status_code == 409
    budget(house).write_bytes(new)
    assert release(house).status_code == 201
    house.refused(release(house), 409, "more than the budget has")


def test_the_file_is_removed(house):
    assert release(house).status_code == 201
    budget(house).unlink()
    house.refused(release(house), 409, "is gone, and had 1 releases")
    assert not budget(house).exists()


def test_the_file_is_another_one_of_the_same_length(house, tmp_path):
    assert release(house).status_code == 201
    other = skl.privacy.Budget(tmp_path / "other.sqlite", 3.0)
    skl.privatize(OPERATOR.sketch(ROWS), epsilon=0.001, budget=other)
    budget(house).write_bytes((tmp_path / "other.sqlite").read_bytes())
    house.refused(release(house), 409, "put the newest copy of it back")


def test_the_database_knows_before_noise_is_drawn(house, monkeypatch):
    """The process ends between booking and noise: nothing was released, and both know of the booking."""
    import sketchlearn.privacy.release as mechanism

    def dies(*_arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(mechanism, "noisy", dies)
        with pytest.raises(KeyboardInterrupt):
            releases.release(house.store, "test", house.store.all_collections()[0], NOON, NOON + HOUR, epsilon=1.0)
    with sqlite3.connect(house.url) as database:
        assert database.execute("SELECT releases FROM budgets").fetchall() == [(1,)]
    database.close()
    assert skl.privacy.Budget.open(budget(house)).spent.releases == 1
    assert release(house).status_code == 201


def test_a_kill_between_both_books_locks_nobody_out(house, monkeypatch):
    """Booked in the file alone: no noise was drawn, and the next release goes on from there."""
    assert release(house).status_code == 201

    def dies(*_arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(releases, "note_budget", dies)
        with pytest.raises(KeyboardInterrupt):
            releases.release(house.store, "test", house.store.all_collections()[0], NOON, NOON + HOUR, epsilon=1.0)
    assert release(house).status_code == 201
    house.refused(release(house), 409, "more than the budget has")


def test_ledgers_add_up_over_releases_and_restarts(house):
    """Of overlapping windows; of others, each record is in one."""
    made = [release(house).json()["ledger"]["epsilon"]]
    house.close()
    house.open()
    made.append(release(house).json()["ledger"]["epsilon"])
    before = {**FORM, "from": str(NOON - HOUR), "to": str(NOON)}
    made.append(house.ask("POST", "/collections/c/releases", json=before).json()["ledger"]["epsilon"])
    assert made == [1.0, 2.0, 1.0]
