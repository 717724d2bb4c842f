"""A sketch's bits depend on the records and the operator alone."""

import pickle

import numpy as np
import pytest
from cases import NAMES, operators
from conftest import with_kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import sketchlearn as skl
from sketchlearn.kernels import dispatch as kernel

D = 9
OPERATORS = operators(D, m=40)
values = st.floats(-50, 50, width=32)
row_arrays = st.integers(0, 20).flatmap(lambda n: arrays(np.float32, (n, D), elements=values))
every_operator = pytest.mark.parametrize("name", NAMES)
few_examples = settings(max_examples=10)  # for each operator: hundreds of each property, all differ


@every_operator
@few_examples
@given(X=row_arrays, data=st.data())
def test_partition_order_threads_and_layout(name, X, data):
    operator = OPERATORS[name]
    whole = operator.sketch(X)
    order = data.draw(st.permutations(range(len(X))))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=4)))
    pieces = np.split(X[order], cuts)
    assert sum(operator.sketch(piece, n_jobs=data.draw(st.integers(1, 4))) for piece in pieces) == whole
    assert operator.sketch(iter(pieces)) == whole
    assert operator.sketch(X.astype(np.float64)) == whole
    assert operator.sketch(np.asfortranarray(X)) == whole
    assert operator.sketch(np.repeat(X, 2, axis=0)[::2]) == whole
    assert operator.sketch(X[::-1][::-1]) == whole
    assert operator.sketch(np.repeat(X, 2, axis=1)[:, ::2].astype(">f4")) == whole


@every_operator
@few_examples
@given(X=row_arrays)
def test_every_kernel(name, X):
    with pytest.MonkeyPatch.context() as patch:
        results = [with_kernel(OPERATORS[name], k, patch).sketch(X) for k in kernel.available()]
    assert all(result == results[0] for result in results)


@every_operator
@few_examples
@given(X=row_arrays, Y=row_arrays, Z=row_arrays)
def test_algebra(name, X, Y, Z):
    a, b, c = (OPERATORS[name].sketch(rows) for rows in (X, Y, Z))
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert (a + b) - b == a
    assert sum([a, b, c]) == OPERATORS[name].sketch(np.concatenate([X, Y, Z]))
    before = a.copy()
    assert before.update(Y).forget(Y) == a
    before += b
    assert before == a + b
    assert skl.merge([a, b, c]) == a + b + c


@every_operator
@few_examples
@given(X=row_arrays, data=st.data())
def test_weights(name, X, data):
    operator = OPERATORS[name]
    whole = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X))), int)
    assert operator.sketch(X, sample_weight=whole) == operator.sketch(np.repeat(X, whole, axis=0))
    fractions = whole / 4 + 0.5
    halves = operator.sketch(X, sample_weight=fractions)
    cut = data.draw(st.integers(0, len(X)))
    parts = [operator.sketch(X[s], sample_weight=fractions[s]) for s in (slice(None, cut), slice(cut, None))]
    assert parts[0] + parts[1] == halves
    assert sum(operator.sketch(X, sample_weight=fractions) for _ in range(4)) == operator.sketch(
        np.repeat(X, whole + 2, axis=0)
    )
    assert (operator.sketch(X) + halves) - halves == operator.sketch(X)


@every_operator
@few_examples
@given(X=row_arrays)
def test_files_and_pickles_keep_everything(name, X, tmp_path_factory):
    s = OPERATORS[name].sketch(X, sample_weight=np.full(len(X), 0.75))
    path = tmp_path_factory.mktemp("files") / "a.sketch"
    s.save(path)
    assert skl.load(path) == s
    assert pickle.loads(pickle.dumps(s)) == s
    assert pickle.loads(pickle.dumps(s)).update(X) == s.copy().update(X)


@every_operator
def test_features_are_what_is_summed(name):
    operator = OPERATORS[name]
    X = np.random.default_rng(0).standard_normal((500, D))
    assert np.allclose(operator.features(X).astype(complex).mean(axis=0), operator.sketch(X).mean, rtol=1e-5, atol=1e-6)
    assert operator.features(X[:0]).shape == operator.features(X[:1])[:0].shape


def test_many_threads_on_many_blocks():
    operator = skl.features.FourierFeatures(4, 300, law=skl.features.frequencies.Gaussian(1.0), subsample=30)
    X = np.random.default_rng(0).standard_normal((20_011, 4))
    one = operator.sketch(X, n_jobs=1)
    assert all(operator.sketch(X, n_jobs=n) == one for n in (2, 3, 8))
    assert operator.sketch(X[::-1]) == one


def test_large_arrays_are_cut_into_blocks(monkeypatch):
    from sketchlearn.rows import source_base as module

    operator = OPERATORS["moments"]
    X = np.random.default_rng(0).standard_normal((1000, D))
    whole = operator.sketch(X, sample_weight=np.arange(1000))
    monkeypatch.setattr(module, "BLOCK_BYTES", 1000)
    assert operator.sketch(X, sample_weight=np.arange(1000)) == whole
