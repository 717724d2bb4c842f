"""Sums that a reader subtracts from one another: no difference may be of fewer records than the rules show."""

import itertools
import json
import random

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")

from house import HOUR, NOON, OPERATOR, ROWS, House

import sketchlearn as skl
from sketchlearn.collector.clients.client import Collector
from sketchlearn.collector.forwarding import forward
from sketchlearn.collector.verification import verify
from sketchlearn.files.designs import design_to_bytes

DAY = 24 * HOUR
FEWEST = 10
PEOPLE = skl.Histograms.even([0.0], [400.0], bins=400)  # a bin for each record: a sum says which records are in it


class Watched:
    """A collector, and a reader who keeps every sum that it is shown."""

    def __init__(self, folder, **rules):
        self.house = House(folder)
        settings = {"grace_seconds": 0, "min_records": FEWEST, "sealed_only": True, "hours_kept_days": 1, **rules}
        self.house.collection(operator=PEOPLE, **settings)
        self.reader, self.tokens, self.people, self.sums = self.house.token("read"), {}, itertools.count(), []

    def sender(self, name):
        self.tokens[name] = self.house.sender(name)

    def send(self, name, records):
        rows = [[next(self.people) + 0.5] for _ in range(records)]
        number = f"r{rows[0][0]}"
        assert self.house.send(self.tokens[name], PEOPLE.sketch(rows), number).status_code == 201

    def revoke(self, name):
        del self.tokens[name]
        self.house.ask("POST", f"/collections/c/senders/{name}/revoke", json={"subtract": True}, status=200)

    def wait(self, seconds):
        self.house.now += seconds
        for _ in range(2):
            assert self.house.store.maintain() == []

    def read(self):
        """Reads all epochs, one by one and together."""
        answer = self.house.ask("GET", "/collections/c/epochs", self.reader, status=200)
        windows = [{}] + [{"from": e["start"], "to": e["finish"]} for e in answer.json()["epochs"]]
        for window in windows:
            answer = self.house.ask("GET", "/collections/c/window/sketch", self.reader, params=window)
            if answer.status_code == 200:
                found = skl.from_bytes(answer.content).sums
                if not any(np.array_equal(found, known) for known in self.sums):
                    self.sums.append(found)
        return len(self.sums)

    def smallest_difference(self):
        """The fewest records, of one sign or the other, in a sum or difference of up to three sums."""
        found = []
        for size in (1, 2, 3):
            for some in itertools.combinations(self.sums, size):
                for signs in itertools.product((1, -1), repeat=size - 1):
                    left = some[0] + sum(sign * one for sign, one in zip(signs, some[1:], strict=True))
                    found += [int(np.abs(left).sum())] if left.any() else []
        return min(found, default=FEWEST)

    def close(self):
        assert verify(self.house.store.database).problems == []
        self.house.close()


@pytest.fixture
def watched(tmp_path):
    found = Watched(tmp_path)
    yield found
    found.close()


def test_two_looks_at_an_open_epoch(tmp_path):
    """By default nothing is shown before the epoch is closed: the second look would show what came after the first."""
    house = House(tmp_path)
    form = {"name": "c", "design": json.loads(design_to_bytes(OPERATOR))}
    house.ask("POST", "/collections", json=form, status=201)
    a, b, reader = house.sender("a"), house.sender("b"), house.token("read")
    house.send(a, OPERATOR.sketch(ROWS[:200]), "many")
    first = house.ask("GET", "/collections/c/window/sketch", reader)
    house.send(b, OPERATOR.sketch(ROWS[200:201]), "one")
    second = house.ask("GET", "/collections/c/window/sketch", reader)
    assert (first.status_code, second.status_code) == (409, 409), skl.from_bytes(second.content) - skl.from_bytes(
        first.content
    ) == OPERATOR.sketch(ROWS[200:201])
    for path in ("/collections/c/epochs", "/collections/c/window"):
        assert '"records":201' not in house.ask("GET", path, reader).text.replace(" ", "")
    house.now += 3 * HOUR
    house.store.maintain()
    assert skl.from_bytes(house.ask("GET", "/collections/c/window/sketch", reader).content).count == 201
    house.close()


def test_a_sender_is_subtracted(watched):
    for name in "ab":
        watched.sender(name)
    watched.send("a", 30)
    watched.send("b", 1)
    watched.wait(HOUR)
    assert watched.read() == 1
    watched.revoke("b")
    watched.read()
    assert watched.smallest_difference() >= FEWEST
    answer = watched.house.ask("GET", "/collections/c/window/sketch", watched.reader)
    watched.house.refused(answer, 409, "differs by fewer than 10 records")
    assert watched.house.ask("GET", "/collections/c/epochs", watched.reader).json()["epochs"][0]["records"] is None


def test_a_sender_with_many_records_is_subtracted_and_the_rest_is_shown(watched):
    for name in "abc":
        watched.sender(name)
    watched.send("a", 30)
    watched.send("b", FEWEST)
    watched.send("c", FEWEST - 1)
    watched.wait(HOUR)
    watched.read()
    watched.revoke("b")
    assert watched.read() == 2
    watched.revoke("c")
    assert watched.read() == 2
    assert watched.smallest_difference() == FEWEST


def test_what_was_taken_out_adds_up_until_it_is_enough(watched):
    """Two senders of 6 records each: the sum without one is not shown, the sum without both is."""
    for name in "abc":
        watched.sender(name)
    watched.send("a", 30)
    watched.send("b", 6)
    watched.send("c", 6)
    watched.wait(HOUR)
    watched.read()
    watched.revoke("b")
    assert watched.read() == 1
    watched.revoke("c")
    assert watched.read() == 2
    assert watched.smallest_difference() == 12


def test_a_sender_leaves_before_the_epoch_is_closed(watched):
    """Nobody has seen its records: nothing has to be held back."""
    for name in "ab":
        watched.sender(name)
    watched.send("a", 30)
    watched.send("b", 1)
    assert watched.read() == 0
    watched.revoke("b")
    watched.wait(HOUR)
    assert watched.read() == 1


def test_hours_become_a_day(watched):
    """The day is the sum of hours that were shown, and of one that was not."""
    watched.sender("a")
    for records in (30, 2, 20):
        watched.send("a", records)
        watched.wait(HOUR)
    watched.read()
    assert len(watched.sums) == 3  # two hours, and both together
    watched.wait(5 * DAY)
    watched.read()
    assert watched.smallest_difference() >= FEWEST
    watched.wait(500 * DAY)  # days become a month
    watched.read()
    assert watched.smallest_difference() >= FEWEST


def test_hidden_hours_that_are_many_together_are_shown_in_the_day(watched):
    watched.sender("a")
    for records in (30, 6, 6):
        watched.send("a", records)
        watched.wait(HOUR)
    watched.read()
    watched.wait(5 * DAY)
    assert watched.read() == 2
    assert watched.smallest_difference() == 12


def test_late_reports_count_in_the_next_epoch(tmp_path):
    """What was shown of an epoch stays as it was."""
    watched = Watched(tmp_path, late="next")
    watched.sender("a")
    watched.send("a", 30)
    watched.wait(HOUR)
    watched.read()
    rows = [[300.5]]
    late = watched.house.send(watched.tokens["a"], PEOPLE.sketch(rows), "late", time=NOON)
    assert late.json()["late"]
    assert watched.read() == 1
    watched.wait(HOUR)
    assert watched.read() == 1  # one record alone is not shown
    watched.close()


def test_a_parent_is_told_no_difference(tmp_path, monkeypatch):
    """The leaf passes on what it shows: once, and nothing of what changed afterwards."""
    watched, taken = Watched(tmp_path), []
    for name in "ab":
        watched.sender(name)
    named = {"url": "http://parent.example", "tokens": {"c": "skl_x"}}
    (tmp_path / "parent-collector.json").write_text(json.dumps(named))
    monkeypatch.setattr(Collector, "report", lambda _self, _name, body, **_: taken.append(body) or {})
    watched.send("a", 30)
    watched.send("b", 1)
    watched.wait(HOUR)
    watched.send("a", 3)
    watched.wait(HOUR)
    forward(watched.house.store)
    watched.revoke("b")
    watched.wait(5 * DAY)
    forward(watched.house.store)
    watched.sums += [skl.from_bytes(body).sums for body in taken]
    assert len(watched.sums) == 1
    watched.read()
    assert watched.smallest_difference() >= FEWEST
    watched.close()


@pytest.mark.parametrize("seed", range(8))
def test_at_random(tmp_path, seed):
    """Senders come, report and are subtracted, hours pass and become days; the reader looks at all of it, always."""
    watched, rng = Watched(tmp_path), random.Random(seed)
    for step in range(24):
        choice = rng.random()
        if choice < 0.2 or len(watched.tokens) < 2:
            watched.sender(f"s{step}")
        elif choice < 0.6:
            watched.send(rng.choice(list(watched.tokens)), rng.choice((1, 4, 7, 12, 15)))
        elif choice < 0.75:
            watched.revoke(rng.choice(list(watched.tokens)))
        else:
            watched.wait(rng.choice((HOUR, HOUR, 3 * DAY)))
        watched.read()
    watched.wait(3 * DAY)
    watched.read()
    assert watched.smallest_difference() >= FEWEST
    watched.close()
