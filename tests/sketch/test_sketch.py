"""Sketch: what it refuses, and how it shows itself."""

import pickle

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.features.frequencies import AdaptedRadius, Gaussian

LAW = Gaussian(1.0)


def make(**changes):
    arguments = {"n_features": 2, "n_frequencies": 4, "law": LAW, "seed": 7, **changes}
    return skl.features.FourierFeatures(arguments.pop("n_features"), arguments.pop("n_frequencies"), **arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 8}, r"cannot add sketches: their seeds differ \(7 and 8\)"),
        ({"law": Gaussian(2.0)}, r"their scales differ \(1.0 and 2.0\)"),
        ({"law": AdaptedRadius(1.0)}, r"their laws differ \(Gaussian and AdaptedRadius\)"),
        ({"n_frequencies": 5}, r"their numbers of frequencies differ \(4 and 5\)"),
        ({"wave": "square"}, r"their waves differ \(Exponential and Square\)"),
        ({"center": [1.0, 0.0]}, r"their centers differ \(None and \(1.0, 0.0\)\)"),
    ],
)
def test_merge_refuses_by_name(changes, message):
    a, b = make().sketch([[1.0, 2.0]]), make(**changes).sketch([[1.0, 2.0]])
    with pytest.raises(ValueError, match=message):
        a + b
    with pytest.raises(ValueError, match=message.replace("add", "compare")):
        a.distance(b)
    assert a != b


def test_subtracting_what_is_not_there():
    a, b = make().sketch([[1.0, 2.0]]), make().sketch([[5.0, -3.0]])
    with pytest.raises(ValueError, match="cannot subtract 2 records from 1"):
        a - (a + b)
    with pytest.raises(ValueError, match="cannot subtract: those records are not all in the sketch"):
        a - b
    assert a - a == skl.Sketch(a.operator)


def test_forgetting_the_same_twice_is_warned_of():
    """It cannot be refused, as the sketch may hold them twice; an addition in between makes it another question."""
    X = np.random.default_rng(0).standard_normal((50, 2))
    sketch = make().sketch(X)
    sketch.forget(X[:3]).forget(X[3:6])
    with pytest.warns(UserWarning, match="the same 3 records went out of this sketch before: unless it held"):
        sketch.forget(X[:3])
    sketch.update(X[:6]).forget(X[:3]).update(X[:3]).forget(X[:3])
    assert sketch.count == 44


def test_what_was_forgotten_is_in_no_file():
    X = np.random.default_rng(0).standard_normal((50, 2))
    sketch = make().sketch(X).forget(X[:3])
    assert len(sketch.batches.gone) == 1
    again = skl.from_bytes(sketch.to_bytes())
    assert again.batches.unnamed  # the id of all rows would confirm a guess of those three
    assert set(again.batches.times).isdisjoint(sketch.batches.times)
    assert not again.batches.gone
    again.forget(X[:3])  # another process would not know it either


def test_kept_rows_tell_whether_records_were_there_twice():
    X = np.random.default_rng(0).standard_normal((200, 2))
    sketch = skl.design(X, n_components=2, rows=500).sketch(np.concatenate([X, X]))
    sketch.forget(X[:3]).forget(X[:3])
    with pytest.raises(ValueError, match="not all in the sketch"):
        sketch.forget(X[:3])


def test_failed_updates_leave_no_trace():
    sketch = make().sketch([[1.0, 2.0]])
    before = sketch.copy()
    for bad in ([[1.0, np.nan]], [[1.0]], [[9.0, 9.0]] * 2):
        with pytest.raises(ValueError):
            sketch.forget(bad)
    with pytest.raises(ValueError):
        sketch.update(iter([np.ones((5, 2)), np.array([[np.nan, 1.0]])]))
    assert sketch == before


def test_overflow_is_an_error_before_it_happens():
    operator = make()
    most = (2**63 - 1) // operator.largest_contribution
    full = skl.Sketch(operator, np.repeat([2**20 * most, 0], 4), most)
    with pytest.raises(OverflowError, match=f"at most {most:,} records"):
        full + operator.sketch([[0.0, 0.0]])
    with pytest.raises(OverflowError):
        full.update([[0.0, 0.0]])
    assert full.count == most
    with pytest.raises(OverflowError):
        operator.sketch([[0.0, 0.0]], sample_weight=[float(most + 1)])
    assert operator.sketch([[0.0, 0.0]], sample_weight=[most]).sums[0] == 2**20 * most
    with pytest.raises(OverflowError):
        operator.sketch([[0.0, 0.0]], sample_weight=[2**63])
    with pytest.raises(OverflowError, match=f"at most {most >> 1:,} records while weights are fractional"):
        full + operator.sketch([[0.0, 0.0]], sample_weight=[0.5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.full(8, 2**20), 0), "larger than 0 records"),
        ((np.full(8, -(2**63)), 1), "larger than 1 records"),
        ((np.zeros(8), 1), "sums must be 8 integers"),
        ((np.zeros(7, int), 1), "sums must be 8 integers"),
        ((None, 1.5), "units must be a whole number"),
        ((None, -1), "units must be a whole number"),
        ((None, 1, 17), "bits must be a whole number from 0 to 16"),
    ],
)
def test_impossible_sketches_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        skl.Sketch(make(), *arguments)


def test_any_integer_type_will_do():
    sketch = make().sketch(np.ones((3, 2)))
    assert skl.Sketch(sketch.operator, sketch.sums.astype(np.int32), np.int64(3), np.int8(0)) == sketch


def test_fractional_weights_are_on_the_grid():
    operator = make()
    third = operator.sketch([[1.0, 2.0]], sample_weight=[1 / 3])
    assert third.count == round(2**16 / 3) / 2**16
    assert np.allclose(third.mean, operator.sketch([[1.0, 2.0]]).mean)
    assert third.merged(third, overlapping=True).count == 2 * third.count


def test_empty_sketches():
    operator = make()
    empty = operator.sketch(np.empty((0, 2)))
    assert empty == skl.Sketch(operator) == operator.sketch([]) == operator.sketch(iter([]))
    assert empty.count == 0
    with pytest.raises(ValueError, match="an empty sketch has no mean"):
        empty.mean  # noqa: B018
    assert operator.features(np.empty((0, 2))).shape == (0, 4)


def test_sums_cannot_be_written_to():
    sketch = make().sketch([[1.0, 2.0]])
    with pytest.raises(ValueError, match="read-only"):
        sketch.sums[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        sketch.sums.flags.writeable = True
    with pytest.raises(ValueError, match="WRITEABLE"):
        pickle.loads(pickle.dumps(sketch)).sums.flags.writeable = True


def test_distance_is_the_maximum_mean_discrepancy():
    operator = skl.features.FourierFeatures(2, 4000, law=LAW)
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((400, 2)), rng.standard_normal((300, 2)) + 1
    kernel = lambda A, B: np.exp(-((A[:, None] - B) ** 2).sum(-1) / 2).mean()  # noqa: E731
    expected = np.sqrt(kernel(X, X) + kernel(Y, Y) - 2 * kernel(X, Y))
    assert operator.sketch(X).distance(operator.sketch(Y)) == pytest.approx(expected, rel=0.05)
    assert operator.sketch(X).distance(operator.sketch(X)) == 0


def test_representations():
    sketch = make().sketch(np.ones((1234, 2)))
    assert repr(sketch).startswith("<Sketch of 1,234 records: 8 sums by FourierFeatures(n_features=2, n_frequencies=4")
    wide = skl.features.FourierFeatures(2000, 4, law=LAW, center=np.ones(2000)).sketch(np.ones((1, 2000)))
    assert len(repr(wide)) < 300
    assert "<td>1,234 records</td>" in sketch._repr_html_()
    assert repr(wide).startswith("<Sketch of 1 record:")


def test_combining_with_other_things():
    sketch = make().sketch([[1.0, 2.0]])
    for other in (1, "a", None):
        with pytest.raises(TypeError):
            sketch + other
        with pytest.raises(TypeError):
            sketch - other
    assert sketch != 1
    with pytest.raises(TypeError):
        hash(sketch)
    with pytest.raises(TypeError, match=r"rows go through update\(rows\)"):
        sketch += np.ones((1, 2))
    with pytest.raises(TypeError, match="expected a Sketch, not int"):
        sketch.distance(5)


def test_equal_sketches_have_equal_bytes():
    a, b = (make(center=[zero, 1.0]).sketch([[1.0, 2.0]]) for zero in (0.0, -0.0))
    assert a == b
    assert a.content() == b.content()


@pytest.mark.parametrize("rows", [None, 50])
def test_rows_that_were_never_there_are_refused(rows):
    rng = np.random.default_rng()
    X = rng.standard_normal((2000, 2))
    sketch = skl.design(X, n_components=2, rows=rows).sketch(X)
    before = sketch.copy()
    with pytest.raises(ValueError, match="not all in the sketch: take out only rows that were added"):
        sketch.forget(np.tile([[9.0, 9.0]], (20, 1)))
    assert sketch == before
    assert (sketch - sketch.operator.sketch(X[:500])).count == 1500
    assert sketch == before
    assert sketch.forget(X[:500]) is sketch
    assert sketch.count == 1500
