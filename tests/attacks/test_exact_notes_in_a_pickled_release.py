"""A release travels as a pickle: it must carry nothing that was computed from exact rows."""

import copy
import pickle

import numpy as np
import pytest
from cases import NAMES, operators

import sketchlearn as skl
from sketchlearn.sketch.batches import Batches
from sketchlearn.sketch.ledger import Ledger

OPERATOR = skl.design(bounds=([-5, -5], [5, 5]), n_components=2)
ROWS = np.random.default_rng(0).uniform(-5, 5, (37, 2))
FIELDS = {"operator", "sums", "units", "ledger"}


def rows_one_by_one():
    """37 single rows, each a batch of its own: whoever has their ids can count and recognise them."""
    return sum((OPERATOR.sketch(row[None]) for row in ROWS), skl.Sketch(OPERATOR))


def test_the_number_of_batches_does_not_travel():
    exact = rows_one_by_one()
    assert len(exact.batches.times) == 37
    release = skl.privatize(exact, epsilon=1.0)
    for received in (release, pickle.loads(pickle.dumps(release)), copy.deepcopy(release)):
        assert len(received.batches.times) == 1
        assert not received.batches.times.keys() & exact.batches.times.keys()


def test_pickles_of_neighbors_differ_in_what_noise_covers_alone():
    """One record more or less, with the same seed of the noise: but for sums, count and ledger, the bytes agree."""
    pickles = []
    for rows in (ROWS, ROWS[:-1]):
        sketch = skl.Sketch(OPERATOR)
        for row in rows:
            sketch.update(row[None])
        release = skl.privatize(sketch, epsilon=1.0, seed_for_tests_not_private=0)
        state = release.__getstate__()
        assert state.keys() == FIELDS
        pickles.append(pickle.dumps((state["operator"], state["ledger"])))
    assert pickles[0] == pickles[1]


@pytest.mark.parametrize("name", NAMES)
def test_notes_of_exact_sketches_are_refused_by_the_type(name):
    operator, ledger = operators(9)[name], _ledger()
    zeros = np.zeros(operator.n_sums, np.int64)
    for note in ({"clipped": 3}, {"skipped": ("a.csv",)}, {"batches": Batches({7: 1})}, {"heaviest": 2}):
        with pytest.raises(TypeError):
            skl.privacy.Release(operator, zeros, 1, ledger, **note)
    with pytest.raises(TypeError, match="privatize makes a release"):
        skl.Sketch(operator, units=1, ledger=ledger)
    with pytest.raises(TypeError, match="privatize each exact sketch"):
        skl.privacy.Release(operator, zeros, 1, ledger, made_of=(skl.Sketch(operator),))


def _ledger():
    fields = {"mechanism": "discrete Laplace", "epsilon": 1.0, "delta": 0.0, "neighbors": "add-remove"}
    sizes = {"sensitivity": 1, "sum_scale": 1.0, "count_scale": 1.0, "count_share": 0.5}
    return Ledger(**fields, **sizes, sum_variance=2.0, count_variance=2.0)
