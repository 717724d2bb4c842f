"""Of more than 4096 batches the smallest ids are kept: the others must not be released again as if they were new."""

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.sketch import batches

OPERATOR = skl.Histograms.even([0, 0], [1, 1], bins=2)
ROWS = np.random.default_rng(0).uniform(0, 1, (40, 2))


@pytest.fixture(autouse=True)
def few_ids(monkeypatch):
    monkeypatch.setattr(batches, "MOST_IDENTITIES", 10)


def parts():
    return [OPERATOR.sketch(row[None], batch=f"{i}") for i, row in enumerate(ROWS)]


def test_the_whole_less_what_is_remembered():
    whole = sum(parts(), skl.Sketch(OPERATOR))
    assert len(whole.batches.times) == 10
    first = skl.privatize(whole, epsilon=1.0)
    remembered = sum(p for p in parts() if p.batches.times.keys() <= whole.batches.times.keys())
    rest = whole - remembered
    assert rest.units == 30
    with pytest.raises(ValueError, match="were released before"):
        skl.privatize(rest, epsilon=1.0)
    assert skl.privatize(rest, epsilon=1.0, already=first).ledger.epsilon == 2.0


@pytest.mark.parametrize("saved", [False, True])
def test_a_part_that_was_forgotten_by_its_sum(saved):
    whole = sum(parts(), skl.Sketch(OPERATOR))
    forgotten = next(p for p in parts() if not p.batches.times.keys() <= whole.batches.times.keys())
    first = skl.privatize(skl.from_bytes(whole.to_bytes()) if saved else whole, epsilon=1.0)
    with pytest.raises(ValueError, match="were released before"):
        skl.privatize(forgotten, epsilon=1.0)
    assert skl.privatize(forgotten, epsilon=1.0, already=first).ledger.epsilon == 2.0


def test_the_sum_after_a_part_that_it_forgets():
    whole = sum(parts(), skl.Sketch(OPERATOR))
    forgotten = next(p for p in parts() if not p.batches.times.keys() <= whole.batches.times.keys())
    first = skl.privatize(forgotten, epsilon=1.0)
    with pytest.raises(ValueError, match="were released before"):
        skl.privatize(whole, epsilon=1.0)
    assert skl.privatize(whole, epsilon=1.0, already=first).ledger.epsilon == 2.0
