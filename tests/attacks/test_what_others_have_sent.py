"""A sender of a private collection that asks, by its own reports, what others have sent: by guesses, and by room."""

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")

from house import HOUR, NOON, OPERATOR, House

import sketchlearn as skl

VICTIM = np.random.default_rng(0).standard_normal((300, 2))
OWN = np.random.default_rng(1).standard_normal((20_000, 2))


@pytest.fixture
def worlds(tmp_path):
    """Two private collections that differ in one record of a victim; both have an attacker."""
    found = []
    for name, rows in (("with", VICTIM), ("without", VICTIM[:-1])):
        (tmp_path / name).mkdir()
        house = House(tmp_path / name)
        house.collection(private_reading=True, grace_seconds=0)
        assert house.send(house.sender("victim"), OPERATOR.sketch(rows), "v").status_code == 201
        found.append((house, house.sender("attacker")))
    yield found
    for house, _ in found:
        house.close()


def test_a_guess_sent_twice_is_answered_alike(worlds):
    guess = OPERATOR.sketch(VICTIM)
    answers = [[house.send(a, guess, number).status_code for number in ("one", "two")] for house, a in worlds]
    assert answers[0] == answers[1] == [201, 409]  # of its own rows, a sender may be told


def test_a_record_does_not_decide_whether_another_report_counts(worlds):
    counts = []
    for house, attacker in worlds:
        both = OPERATOR.sketch(VICTIM) + OPERATOR.sketch(OWN)
        assert house.send(attacker, both, "both").status_code == 201
        counts.append(house.sum().count)
    assert counts == [20_600, 20_599]


def test_ids_that_a_report_claims_do_not_shut_others_out(worlds):
    late = OPERATOR.sketch(VICTIM + 0.5)
    claimed = OPERATOR.sketch(OWN[:1]).as_batches(late.batches)
    for house, attacker in worlds:
        assert house.send(attacker, claimed, "claimed").status_code == 201
        before = house.sum().count
        assert house.send(house.sender("another"), late, "late").status_code == 201
        assert house.sum().count == before + len(VICTIM)


def test_the_room_that_is_left_tells_no_count(worlds):
    """Reports of 2^k records fill a sum: which of them is the first that does not fit?"""
    answers = []
    for house, attacker in worlds:
        step, texts = (2**63 - 1) // OPERATOR.largest_contribution, []
        while step:
            forged = skl.Sketch(OPERATOR, np.zeros(OPERATOR.n_sums, np.int64), step)
            texts.append(house.send(attacker, forged, f"r{step}").status_code)
            step //= 2
        house.now += 2 * HOUR
        assert house.store.maintain() == []
        form = {"from": str(NOON), "to": str(NOON + HOUR), "epsilon": 1.0}
        texts.append(house.ask("POST", "/collections/c/releases", json=form).status_code)
        answers.append(texts)
    assert answers[0] == answers[1]
