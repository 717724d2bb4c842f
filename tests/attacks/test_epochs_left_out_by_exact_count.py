"""A private release whose epochs are chosen by their exact counts: one record decides whether a hundred are in it."""

import json

import numpy as np
import pytest
from scipy.stats import binom

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")
pytest.importorskip("opendp")

from house import HOUR, NOON, House

import sketchlearn as skl

THRESHOLD = 100  # records, the default of the rule min_records
RELEASES, EPSILON = 40, 1.0
OPERATOR = skl.Histograms.even([0.0], [1.0], bins=4)
WINDOW = {"from": str(NOON), "to": str(NOON + 2 * HOUR), "epsilon": EPSILON}


@pytest.fixture
def neighbours(tmp_path):
    """Collectors with 1000 records in one epoch and, in the next, one less than the threshold or just as many."""
    houses = []
    for records in (THRESHOLD - 1, THRESHOLD):
        (tmp_path / str(records)).mkdir()
        house = House(tmp_path / str(records))
        house.collection(operator=OPERATOR, min_records=THRESHOLD, private_reading=True, grace_seconds=0)
        sender = house.sender()
        assert house.send(sender, OPERATOR.sketch(np.full((1000, 1), 0.1)), "many").status_code == 201
        house.now += HOUR
        assert house.send(sender, OPERATOR.sketch(np.full((records, 1), 0.6)), "few").status_code == 201
        house.now += HOUR
        house.store.maintain()
        houses.append(house)
    yield houses
    for house in houses:
        house.close()


def release(house, **changes):
    made = house.ask("POST", "/collections/c/releases", json={**WINDOW, **changes})
    assert made.status_code == 201, made.text
    path = f"/collections/c/releases/{made.json()['id']}/sketch"
    return made.json(), skl.from_bytes(house.ask("GET", path, status=200).content)


def test_one_record_decides_whether_an_epoch_is_in_a_release(neighbours):
    """A guess of which neighbour it was is right in at most e / (1 + e) of the cases, at a confidence of 99.9 %.

    With epochs left out by their counts it is right always: the bin of 0.6 has 0 or 100 records, and noise of scale 1.
    """
    fewer, more = (np.array([release(house)[1].sums[3] for _ in range(RELEASES)]) for house in neighbours)
    most = np.exp(EPSILON) / (1 + np.exp(EPSILON))
    for limit in (THRESHOLD / 2, THRESHOLD - 0.5):
        right = int(np.sum(fewer < limit) + np.sum(more >= limit))
        assert right <= binom.ppf(0.999, 2 * RELEASES, most)


def test_what_goes_into_a_release_differs_by_one_record(neighbours, monkeypatch):
    from sketchlearn.collector import releases

    exact, draw = [], releases.privatize
    monkeypatch.setattr(releases, "privatize", lambda sketch, **more: exact.append(sketch) or draw(sketch, **more))
    for house in neighbours:
        release(house)
    fewer, more = exact
    assert (fewer.count, more.count) == (1099, 1100)
    assert np.abs(more.sums - fewer.sums).sum() == 1


def test_a_release_says_nothing_of_counts_and_epochs(neighbours):
    found = [release(house)[0] for house in neighbours]
    assert found[0] == found[1]
    assert set(found[0]) == {"id", "start", "finish", "created", "ledger"}


def test_an_empty_window_is_released_like_any_other(neighbours):
    empty = {"from": str(NOON - 5 * HOUR), "to": str(NOON - 3 * HOUR)}
    for house in neighbours:
        full, _ = release(house)
        made, sketch = release(house, **empty)
        assert set(made) == set(full)
        assert made["ledger"] == full["ledger"]  # of other records: nothing was spent on them before
        assert abs(sketch.sums).max() < 50  # noise of scale 1


def test_whether_a_window_can_be_released_depends_on_the_clock_alone(tmp_path):
    """Neither an open epoch with a report nor one without any changes the answer."""
    answers = []
    for reports in (0, 1):
        (tmp_path / str(reports)).mkdir()
        house = House(tmp_path / str(reports))
        house.collection(operator=OPERATOR, private_reading=True, grace_seconds=600)
        sender = house.sender()
        for number in range(reports):
            house.send(sender, OPERATOR.sketch([[0.5]]), f"r{number}")
        window = {**WINDOW, "to": str(NOON + HOUR)}
        for seconds in (HOUR, 599, 1):  # over; within the grace; after it, before housekeeping came by
            house.now += seconds
            answer = house.ask("POST", "/collections/c/releases", json=window)
            answers.append((reports, answer.status_code, answer.json()))
        house.close()
    without, with_one = ([answer[1:] for answer in answers if answer[0] == n] for n in (0, 1))
    assert without == with_one
    assert [status for status, _ in without] == [409, 409, 201]


def test_a_leaf_passes_on_epochs_of_few_records(neighbours, monkeypatch):
    """What a parent releases must not depend on which epochs had few records at a leaf."""
    from sketchlearn.collector.clients.client import Collector
    from sketchlearn.collector.forwarding import forward

    counts = []
    for house in neighbours:
        taken = []
        monkeypatch.setattr(Collector, "report", lambda *given, taken=taken, **_: taken.append(given[2]) or {})
        named = {"url": "http://parent.example", "tokens": {"c": "skl_x"}}
        (house.folder / "parent-collector.json").write_text(json.dumps(named))
        house.store.maintain()
        assert forward(house.store) == []
        counts.append([skl.from_bytes(body).count for body in taken])
    assert counts == [[1000, 99], [1000, 100]]
