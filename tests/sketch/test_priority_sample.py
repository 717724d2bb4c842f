"""Rows kept beside a sketch: the same ones whatever the order, cut, threads, source or engine."""

import copy
import hashlib
import math
import os
import pickle
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import twin
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import sketchlearn as skl
from sketchlearn.core import containers as container
from sketchlearn.engines import partial
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.files.checkpoints import Reading, Work, sketch_files
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.sketch.priority_sample import Keeping, KeptRows, RowKeeper

NAMES = ("money", "visits", "member")


def table(n, seed=0):
    """Money with a long tail, a count and a flag; some rows are equal."""
    rng = np.random.default_rng(seed)
    money = np.round(rng.lognormal(3, 1.5, n), 1)
    return np.stack([np.where(rng.random(n) < 0.1, 0, money), rng.poisson(2, n), rng.random(n) < 0.3], axis=1)


X = table(5000)
FRAME = pd.DataFrame(X, columns=NAMES)
RULE = skl.design(X[:2000], n_components=3, seed=3, rows=60).keeping
DESIGNED = skl.features.FourierFeatures(3, 20, law=Gaussian(30.0), seed=3, keeping=RULE)
NAMED = replace(DESIGNED, columns=NAMES)
WHOLE = DESIGNED.sketch(X)


def small_operator(size=6, n_columns=2):
    """Keeps few rows, one of them for certain."""
    rule = Keeping(size, (0.5,) * n_columns, (1.0, 0.25, 0.0)[:n_columns], seed=5)
    certain = f"{twin.row_hash(rule.key, [1.0] * n_columns):016x}"
    rule = replace(rule, certain=(certain,))
    return skl.features.FourierFeatures(n_columns, 4, law=Gaussian(1.0), seed=1, keeping=rule)


SMALL = small_operator()
values = st.sampled_from([-0.0, 0.0, 1.0, 1.5, -2.0, 1e-30, 3e6]) | st.floats(-50, 50, width=32)
row_arrays = st.integers(0, 20).flatmap(lambda n: arrays(np.float32, (n, 2), elements=values))


def kept_by(rule, X):
    keeper = RowKeeper(rule)
    keeper.add(X, None, 0, 1)
    return keeper.kept


def kept_of(X, weights=None, operator=SMALL):
    return operator.sketch(X, sample_weight=weights).kept


# --- which rows


@given(X=row_arrays, data=st.data())
def test_the_definition(X, data):
    """All records in order of the priorities that docs/reference/arithmetic.md gives, and the first of them."""
    weights = data.draw(st.none() | st.lists(st.sampled_from([0, 1, 2, 0.25]), min_size=len(X), max_size=len(X)))
    kept = kept_of(X, weights)
    rows, units, below = twin.kept_rows(SMALL.keeping, X, weights)
    assert kept == KeptRows(SMALL.keeping, rows, units, below)
    assert kept.priorities.tolist() == [twin.row_priority(SMALL.keeping, row) for row in rows.tolist()]


def test_the_definition_on_a_table():
    rows, units, below = twin.kept_rows(DESIGNED.keeping, X)
    assert WHOLE.kept == KeptRows(DESIGNED.keeping, rows, units, below)
    assert len(rows) == DESIGNED.keeping.size


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", kernel.available())
def test_every_kernel_gives_the_same_priorities(name, kind, monkeypatch):
    rows = np.random.default_rng(5).standard_normal((1003, 3)).astype(kind)
    rows[::7, 1], rows[::11, 2] = -0.0, 0.0
    expected = RULE.candidates(rows, None, math.inf, 1)
    monkeypatch.setattr(kernel, "active", name)
    for part in (rows, np.asfortranarray(rows)):
        assert all(map(np.array_equal, RULE.candidates(part, None, math.inf, 2), expected))


def test_designs_keep_rows(tmp_path):
    operator = skl.design(FRAME[:2000], n_components=3, seed=3, rows=60)
    assert operator.keeping == RULE
    whole = operator.sketch(FRAME)
    assert whole.kept == WHOLE.kept
    assert skl.merge([operator.sketch(X[:70]), operator.sketch(FRAME[70:])]).content() == whole.content()
    assert skl.from_bytes(whole.content()).content() == whole.content()
    skl.save(operator, tmp_path / "design.json")
    assert skl.load(tmp_path / "design.json").sketch(X).content() == whole.content()
    assert skl.design(FRAME[:2000], n_components=3, seed=3).keeping is None


GOLDEN = [  # never rewritten: samples that were saved must unite with those of later versions
    ((0.0, 0.0), "0x1.1bebf2f26e9edp+0"),
    ((-0.0, 0.0), "0x1.1bebf2f26e9edp+0"),
    ((1.0, 1.0), "-0x1.6aba66a3b037ep-1"),
    ((1.5, -2.0), "0x1.22ad08426a8a4p-4"),
    ((0.1, 0.2), "0x1.b6d27ac97fcdap-1"),
    ((1e-300, 5e-324), "0x1.f4b40de8e99a4p-1"),
    ((123456789.0, -1e18), "0x1.35d8614189552p-115"),
    ((1e300, 1.0), "0x1.bc03db8112f37p-502"),
]


@pytest.mark.parametrize(("row", "expected"), GOLDEN)
def test_golden_priorities(row, expected):
    rule = SMALL.keeping
    assert rule.key == 0x40494C0E88791D84
    _, (priority,), _ = rule.candidates(np.array([row]), None, math.inf, 1)
    assert priority.hex() == expected
    assert twin.row_priority(rule, row).hex() == expected


def test_rows_far_beyond_all_chances_stay_different():
    rule = Keeping(10, (0.0,), (1e200,))
    far = np.array([[1.0], [2.0], [3.0], [-1e18]])
    kept = kept_by(rule, far)
    assert sorted(kept.rows[:, 0]) == sorted(far[:, 0])
    assert np.all(kept.priorities > 0)
    assert np.allclose(kept.weights(4), 0.25)


@given(X=row_arrays, data=st.data())
def test_partition_order_threads_and_layout(X, data):
    whole = SMALL.sketch(X)
    order = data.draw(st.permutations(range(len(X))))
    pieces = np.split(X[order], sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=4))))
    same = [
        sum((SMALL.sketch(piece, n_jobs=data.draw(st.integers(1, 4))) for piece in pieces), skl.Sketch(SMALL)),
        SMALL.sketch(iter(pieces)),
        SMALL.sketch(X.astype(np.float64)),
        SMALL.sketch(np.asfortranarray(X)),
        SMALL.sketch(np.repeat(X, 2, axis=0)[::2]),
        SMALL.sketch(np.repeat(X, 2, axis=1)[:, ::2].astype(">f4")),
        SMALL.sketch(X[::-1][::-1]),
        SMALL.sketch(np.where(X == 0, -X, X)),
    ]
    assert all(other.kept == whole.kept for other in same)
    assert all(other.content() == whole.content() for other in same)
    assert not np.any(np.signbit(whole.kept.rows) & (whole.kept.rows == 0))


def test_threads_on_many_rows():
    rows = table(30_011)
    one = DESIGNED.sketch(rows, n_jobs=1).content()
    assert all(DESIGNED.sketch(rows[::-1], n_jobs=n).content() == one for n in (2, 3, 8))


@given(X=row_arrays, data=st.data())
def test_weights_are_repetitions(X, data):
    whole = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X))), int)
    assert kept_of(X, whole) == kept_of(np.repeat(X, whole, axis=0))
    quarters = SMALL.sketch(X, sample_weight=whole / 4 + 0.25)
    four = sum(SMALL.sketch(X, sample_weight=whole / 4 + 0.25) for _ in range(4))
    assert four.kept == kept_of(np.repeat(X, whole + 1, axis=0))
    assert (SMALL.sketch(X) + quarters).kept == kept_of(np.concatenate([X, X]), [1] * len(X) + [*(whole / 4 + 0.25)])


@given(X=row_arrays, Y=row_arrays, Z=row_arrays)
def test_algebra(X, Y, Z):
    a, b, c = (SMALL.sketch(rows) for rows in (X, Y, Z))
    together = kept_of(np.concatenate([X, Y, Z]))
    assert (a + b).kept == (b + a).kept
    assert ((a + b) + c).kept == (a + (b + c)).kept == together
    assert skl.merge([c, a, b]).kept == sum([b, c, a]).kept == together
    assert a.copy().update(Y).update(Z).kept == together
    assert (a + skl.Sketch(SMALL)).kept == (skl.Sketch(SMALL) + a).kept == a.kept


@pytest.mark.parametrize("n", [3, 40, 5000])
def test_merged_samples_are_the_sample_of_the_merged_rows(n):
    """Random cuts of fewer and more rows than are kept."""
    rng, rows = np.random.default_rng(n), X[:n]
    whole = DESIGNED.sketch(rows)
    for _ in range(20):
        parts = np.split(rows[rng.permutation(n)], np.sort(rng.integers(0, n + 1, rng.integers(1, 9))))
        sketches = [DESIGNED.sketch(part) for part in parts]
        while len(sketches) > 1:  # in a random order
            rng.shuffle(sketches)
            sketches.append(sketches.pop() + sketches.pop())
        assert sketches[0].kept == whole.kept
        assert sketches[0].content() == whole.content()


# --- sources and engines


def csv_file(folder):
    FRAME.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def parquet_file(folder):
    FRAME.to_parquet(folder / "rows.parquet", row_group_size=700)
    return folder / "rows.parquet"


def npy_file(folder):
    np.save(folder / "rows.npy", X)
    return folder / "rows.npy"


SOURCES = {
    "frame": lambda _: FRAME,
    "frame of mixed types": lambda _: FRAME.astype({"visits": "int16", "member": "bool"}),
    "frame with other columns": lambda _: FRAME.assign(name="text")[["name", *NAMES]],
    "Arrow": lambda _: __import__("pyarrow").Table.from_pandas(FRAME),
    "polars": lambda _: __import__("polars").from_pandas(FRAME),
    "generator": lambda _: (X[i : i + 77] for i in range(0, len(X), 77)),
    "csv": csv_file,
    "parquet": parquet_file,
    "npy": npy_file,
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source(name, tmp_path):
    assert NAMED.sketch(SOURCES[name](tmp_path)).content() == NAMED.sketch(X).content()


def test_single_precision_rows_are_the_same_values_in_double():
    single = X.astype(np.float32)
    assert DESIGNED.sketch(single).content() == DESIGNED.sketch(single.astype(np.float64)).content()


def test_blocks_of_any_size(monkeypatch):
    from sketchlearn.rows import source_base as blocks

    for size in (100, 10_000):
        monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
        assert DESIGNED.sketch(X).content() == WHOLE.content()


def test_every_kernel(tmp_path):
    skl.save(DESIGNED, tmp_path / "design.json")
    np.save(tmp_path / "rows.npy", X)
    program = """
import sys, hashlib, numpy as np, sketchlearn as skl
operator = skl.load(sys.argv[1])
print(hashlib.sha256(operator.sketch(np.load(sys.argv[2])).content()).hexdigest())
"""
    for name in {"portable", kernel.active}:
        command = [sys.executable, "-c", program, tmp_path / "design.json", tmp_path / "rows.npy"]
        environment = {**os.environ, "SKETCHLEARN_KERNEL": name}
        found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()
        assert found == hashlib.sha256(WHOLE.content()).hexdigest()


def test_dask():
    import dask.array as da
    import dask.dataframe as dd

    for collection in (da.from_array(X, chunks=(333, 2)), dd.from_pandas(FRAME, npartitions=11)):
        assert skl.engines.dask.sketch(collection, NAMED).content() == NAMED.sketch(X).content()


def test_partial_sketches_of_another_rule_are_refused():
    other = DESIGNED.with_keeping(replace(DESIGNED.keeping, seed=99))
    parts = [DESIGNED.sketch(X[:100]).to_bytes(), other.sketch(X[100:]).to_bytes()]
    with pytest.raises(skl.FormatError, match="made by another operator"):
        partial.total(parts, DESIGNED)
    assert partial.total([parts[0], DESIGNED.sketch(X[100:]).content()], DESIGNED).content() == WHOLE.content()


def test_partial_sketches_in_a_tree():
    """As Dask and Spark merge them; a session of Spark is started in tests/engines/test_spark.py."""
    text = partial.text_of(NAMED)
    level = [partial.sketched(f"partition {i}", FRAME.iloc[i::30], text, nulls="error") for i in range(30)]
    while len(level) > 1:
        level = [partial.merged(level[i : i + partial.ARITY], text) for i in range(0, len(level), partial.ARITY)]
    assert level == [NAMED.sketch(X).content()]


def test_checkpoints_and_runs_that_go_on(tmp_path, monkeypatch):
    from sketchlearn.files import checkpoints

    files = []
    for i, part in enumerate(np.array_split(X, 3)):
        np.save(tmp_path / f"{i}.npy", part)
        files.append(str(tmp_path / f"{i}.npy"))
    monkeypatch.setattr(checkpoints, "LEAST_KERNEL_ROWS", 200)
    monkeypatch.setattr(checkpoints, "MOST_KERNEL_SUMS", 0)
    keep = checkpoints._keep
    for stop in (1, 5, 12, 20):
        reading, left = Reading(folder=tmp_path / f"parts{stop}", every=0.0), [stop]

        def kept(*arguments, left=left):
            keep(*arguments)
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

        monkeypatch.setattr(checkpoints, "_keep", kept)
        with pytest.raises(KeyboardInterrupt):
            sketch_files(DESIGNED, files, reading, Work(files))
        monkeypatch.setattr(checkpoints, "_keep", keep)
        assert sketch_files(DESIGNED, files, reading, Work(files)).sketch.content() == WHOLE.content()
        assert sketch_files(DESIGNED, files, reading, Work(files)).kept == 3


# --- forgetting


@given(X=row_arrays, data=st.data())
def test_forgotten_rows_are_never_left(X, data):
    gone = np.array(data.draw(st.lists(st.booleans(), min_size=len(X), max_size=len(X))), bool)
    sketch, rest = SMALL.sketch(X).forget(X[gone]), SMALL.sketch(X[~gone])
    assert sketch == rest
    distinct, counts = np.unique(X[~gone] + 0.0, axis=0, return_counts=True)
    left = dict(zip(map(tuple, distinct), counts.tolist(), strict=True))
    kept = sketch.kept
    assert [left[tuple(row)] << 16 for row in kept.rows.astype(np.float32)] == kept.units.tolist()
    assert set(map(tuple, kept.rows.tolist())) <= set(map(tuple, rest.kept.rows.tolist()))
    assert kept.complete == (int(kept.units.sum()) == len(X[~gone]) << 16)
    if SMALL.sketch(X).kept.complete or kept.complete:
        assert kept == rest.kept
    assert (sketch - sketch).kept == KeptRows.none(SMALL.keeping)


@given(X=row_arrays, Y=row_arrays)
def test_differences(X, Y):
    a, b = SMALL.sketch(X), SMALL.sketch(Y)
    kept = ((a + b) - b).kept
    n = len(kept)
    assert np.array_equal(kept.rows, a.kept.rows[:n])
    assert np.array_equal(kept.units, a.kept.units[:n])
    assert all(a.kept.priorities[n:] >= kept.below)
    if (a + b).kept.complete:
        assert kept == a.kept


def test_what_is_forgotten_leaves_a_large_table():
    gone = WHOLE.kept.rows[:20]
    sketch = WHOLE.copy().forget(X[(X[:, None] == gone).all(axis=2).any(axis=1)])
    assert len(sketch.kept) == DESIGNED.keeping.size - 20
    assert np.array_equal(sketch.kept.rows, WHOLE.kept.rows[20:])
    assert sketch.kept.below == WHOLE.kept.below
    assert not any((sketch.kept.rows == row).all(axis=1).any() for row in gone)
    refilled = sketch + DESIGNED.sketch(table(5000, seed=1))
    assert len(refilled.kept) == DESIGNED.keeping.size
    assert refilled.kept.below < WHOLE.kept.below


def test_after_all_is_forgotten_rows_are_kept_anew():
    sketch = WHOLE.copy().forget(X)
    assert sketch.kept.complete
    assert sketch.update(X).content() == WHOLE.content()


def test_rows_that_were_never_there_are_refused_where_it_shows():
    few = DESIGNED.sketch(X[:30])
    for rows in ([[7.77, 1.0, 1.0]], np.repeat(X[:1], 31, axis=0), X[31:45]):
        with pytest.raises(ValueError, match="cannot subtract"):
            few.copy().forget(rows)
    many = WHOLE.copy()
    priorities = [twin.row_priority(DESIGNED.keeping, [x, 0.5, 0.5]) for x in range(3000)]
    early = float(np.argmin(priorities))
    assert min(priorities) < WHOLE.kept.below
    with pytest.raises(ValueError, match="those records are not all in the sketch"):
        many.forget([[early, 0.5, 0.5]])
    assert many.content() == WHOLE.content()


# --- flags, codes and chances


def test_a_table_of_few_different_rows_is_kept_whole():
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, 10, 20_000), rng.random(20_000) < 0.01], axis=1).astype(float)
    kept = (
        skl.design(rows[:1000], n_components=3, rows=20, features=skl.features.Fourier(n_frequencies=10))
        .sketch(rows)
        .kept
    )
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    assert kept.complete
    order = np.lexsort(kept.rows.T[::-1])
    assert np.array_equal(kept.rows[order], distinct)
    assert np.array_equal(kept.units[order], counts << 16)
    assert np.allclose(kept.weights(20_000)[order], counts / 20_000, rtol=1e-15)
    assert np.array_equal(kept.chances, np.ones(len(kept)))


def test_common_values_of_the_sample_are_always_kept():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((20_000, 2))
    rows[rng.random(20_000) < 0.2] = [0.0, 1.0]
    rows[rng.random(20_000) < 0.1] = [0.5, 0.5]
    for seed in range(30):
        kept = (
            skl.design(rows[:500], n_components=2, rows=40, features=skl.features.Fourier(n_frequencies=5), seed=seed)
            .sketch(rows)
            .kept
        )
        for value in ([0.0, 1.0], [0.5, 0.5]):
            (place,) = np.flatnonzero((kept.rows == value).all(axis=1))
            assert place < 2
            assert kept.units[place] == np.sum((rows == value).all(axis=1)) << 16
            assert kept.chances[place] == 1
            assert kept.weights(20_000)[place] == pytest.approx(np.mean((rows == value).all(axis=1)), rel=1e-12)


def test_at_most_half_of_the_rows_are_certain():
    codes = np.repeat(np.arange(100.0), np.arange(1, 101))[:, None]
    rule = skl.design(codes, n_components=2, rows=40, features=skl.features.Fourier(n_frequencies=5)).keeping
    assert rule.certain == tuple(sorted(f"{twin.row_hash(rule.key, [x]):016x}" for x in range(80, 100)))


def test_totals_are_unbiased_and_shares_nearly_so():
    """300 seeds: means within 4 standard errors of the truth, for money with a long tail, a count and a flag."""
    rows = table(3000, seed=4)
    functions = {
        "money": lambda x: x[:, 0],
        "visits": lambda x: x[:, 1],
        "flag": lambda x: x[:, 2],
        "rich": lambda x: x[:, 0] > 100,
        "free": lambda x: x[:, 0] == 0,
        "one": lambda x: np.ones(len(x)),
    }
    truths = np.array([np.mean(f(rows)) for f in functions.values()])
    totals, means = [], []
    for seed in range(300):
        kept = kept_by(Keeping.designed(rows[:300], 100, np.ones(3), seed), rows)
        found = np.stack([f(kept.rows) for f in functions.values()], axis=1)
        totals.append(kept.units / 2.0**16 / kept.chances @ found / len(rows))
        means.append(kept.weights(len(rows)) @ found)
    for found in (np.array(totals), np.array(means)):
        deviations = (found.mean(axis=0) - truths) / (found.std(axis=0) / math.sqrt(300) + 1e-9)
        assert np.all(np.abs(deviations) < 4), dict(zip(functions, deviations.round(1), strict=True))
    assert np.allclose(np.array(means)[:, -1], 1)
    uniform = [np.random.default_rng(seed).choice(rows[:, 0], 100, replace=False).mean() for seed in range(300)]
    assert np.std(means, axis=0)[0] < 0.7 * np.std(uniform)  # rows far out are kept more often


def test_memory_does_not_grow_with_the_stream(monkeypatch):
    from sketchlearn.rows import source_base as blocks

    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 18)  # small blocks of a stream are put together
    rng = np.random.default_rng(0)
    operator = skl.design(
        rng.standard_normal((500, 2)), n_components=2, features=skl.features.Fourier(n_frequencies=5), rows=100
    )
    sizes, sketch = [], skl.Sketch(operator)

    def stream():
        for _ in range(50):
            yield rng.standard_normal((10_000, 2))

    tracemalloc.start()
    for rows in stream():
        sketch.update(rows)
        sizes.append(len(sketch.kept))
    sketch.update(stream())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sketch.count == 1_000_000
    assert sizes == [100] * 50
    assert len(sketch.kept) == 100
    assert peak < 3_000_000  # the stream has 16 megabytes, a block of it 160 kB
    base = sketch.kept.rows.base
    assert base is None or base.nbytes < 10_000  # no view of a block


def test_no_weight_overflows():
    operator = skl.features.FourierFeatures(2, 4, law=Gaussian(1.0), wave="square", keeping=SMALL.keeping)
    sketch = operator.sketch([[1.0, 2.0]], sample_weight=[2**46])
    assert sketch.kept.units.tolist() == [2**62]
    with pytest.raises(OverflowError, match="at most 140,737,488,355,327 records fit"):
        sketch.merged(sketch, overlapping=True)
    with pytest.raises(OverflowError, match="a sampled row's weight could overflow"):
        operator.sketch([[1.0, 2.0]], sample_weight=[2**47])
    operator.without_keeping().sketch([[1.0, 2.0]], sample_weight=[2**47])


# --- operators and notes


def test_rows_are_notes():
    plain = DESIGNED.without_keeping().sketch(X)
    assert plain == WHOLE
    assert plain.kept is None
    assert WHOLE.without_rows() == WHOLE
    assert WHOLE.without_rows().content() == plain.content()
    assert plain.without_rows() is plain
    with pytest.raises(ValueError, match="they share a batch of rows"):
        plain + WHOLE
    more = DESIGNED.without_keeping().sketch(X, batch="more")
    for both in (more + WHOLE, WHOLE + more, skl.merge([more, WHOLE]), WHOLE.copy().update(X) - plain):
        assert both.kept is None
        assert both.operator.keeping is None
        assert both.operator == DESIGNED
    other = DESIGNED.with_keeping(replace(DESIGNED.keeping, seed=8)).sketch(X, batch="other")
    assert other == WHOLE
    assert other.kept != WHOLE.kept
    assert (other + WHOLE).kept is None
    empty = skl.Sketch(DESIGNED.without_keeping())
    assert (WHOLE + empty).kept == (empty + WHOLE).kept == (WHOLE - empty).kept == WHOLE.kept


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s)), skl.Sketch.copy])
def test_copies(copied):
    twin_sketch = copied(WHOLE)
    assert twin_sketch.kept == WHOLE.kept
    assert twin_sketch.content() == WHOLE.content()
    assert twin_sketch.update(X[:9]).kept == DESIGNED.sketch(np.concatenate([X[:9], X])).kept


def test_kept_rows_cannot_be_written_to():
    for array in (WHOLE.kept.rows, WHOLE.kept.units, KeptRows.none(DESIGNED.keeping).rows):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_operators_in_one_pass_keep_rows_once():
    both = skl.features.concatenate([DESIGNED, skl.features.SecondMoments(3, bound=1e9)])
    sketch = both.sketch(X)
    assert sketch.kept == WHOLE.kept
    assert [part.kept for part in both.split(sketch)] == [None, None]
    assert skl.from_bytes(sketch.to_bytes()).kept == WHOLE.kept
    assert both.without_keeping().sketch(X) == sketch
    with pytest.raises(ValueError, match="VeroneseMoments keeps no rows"):
        skl.features.VeroneseMoments(3, bound=1.0).with_keeping(DESIGNED.keeping)


def test_moments_keep_the_same_rows():
    moments = skl.features.SecondMoments(3, bound=1e9)
    keeping = moments.with_keeping(DESIGNED.keeping)
    sketch = keeping.sketch(X)
    assert (keeping, sketch, sketch.kept) == (moments, moments.sketch(X), WHOLE.kept)
    assert skl.from_bytes(sketch.to_bytes()).kept == WHOLE.kept
    assert skl.from_bytes(sketch.without_rows().to_bytes()).kept is None
    assert "keeping" not in moments.to_json()
    with pytest.raises(ValueError, match="rule for rows of 2 columns"):
        skl.features.SecondMoments(2, bound=1.0, keeping=DESIGNED.keeping)


def test_signs_are_no_rows():
    operator = skl.features.FourierFeatures(2, 8, law=Gaussian(1.0), wave="square", keeping=SMALL.keeping)
    packed = operator.sketch_packed(operator.pack(X[:50, :2]))
    assert packed.kept is None
    assert packed == operator.sketch(X[:50, :2])


BAD_RULES = [
    ({"size": 0}, "size must be a whole number from 1 to 100000"),
    ({"size": 100_001}, "size must be a whole number"),
    ({"center": (1.0,)}, "scale must be one finite number per column|center must be"),
    ({"center": (1.0, math.nan)}, "center must be one finite number per column"),
    ({"center": (1, 2)}, "center must be one finite number per column"),
    ({"scale": (1.0, math.inf)}, "scale must be one finite number per column"),
    ({"scale": (1.0, -1.0)}, "scale must not be negative"),
    ({"seed": -1}, "seed must be a whole number"),
    ({"certain": ("x" * 16,)}, "hashes of 16 hexadecimal digits"),
    ({"certain": ("0" * 15,)}, "hashes of 16 hexadecimal digits"),
    ({"certain": ("1" * 16, "0" * 16)}, "sorted hashes"),
    ({"certain": ("0" * 16,) * 2}, "sorted hashes, each once"),
    ({"certain": tuple(f"{i:016x}" for i in range(4))}, "at most half as many as rows are kept"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_RULES)
def test_bad_rules(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL.keeping, **changes)


def test_rules_survive_json_and_belong_to_their_columns():
    again = skl.extend.Operator.from_json(DESIGNED.to_json())
    assert again.keeping == DESIGNED.keeping
    assert pickle.loads(pickle.dumps(DESIGNED)).keeping == DESIGNED.keeping
    with pytest.raises(ValueError, match="keeping must be a rule for rows of 5 columns"):
        skl.features.FourierFeatures(5, 3, law=Gaussian(1.0), keeping=SMALL.keeping)
    for bounds in ({"rows": 10}, {"standardize": True}):
        with pytest.raises(ValueError, match="rows and standardize need a sample"):
            skl.design(bounds=(0, [1, 1]), n_components=2, **bounds)


def test_sketches_cannot_be_made_with_other_rows():
    sums, count = WHOLE.sums, int(WHOLE.count)
    other = replace(WHOLE.kept, rule=replace(DESIGNED.keeping, seed=8))
    for kept, message in ((None, "samples rows, and none were given"), (other, "chosen by another rule")):
        with pytest.raises(ValueError, match=message):
            skl.Sketch(DESIGNED, sums, count, kept=kept)
    with pytest.raises(ValueError, match="chosen by another rule"):
        skl.Sketch(DESIGNED.without_keeping(), sums, count, kept=WHOLE.kept)


# --- files


def test_files_keep_rows(tmp_path):
    for sketch in (WHOLE, DESIGNED.sketch(X[:20], sample_weight=np.full(20, 0.75)), skl.Sketch(DESIGNED)):
        sketch.save(tmp_path / "a.sketch")
        again = skl.load(tmp_path / "a.sketch")
        assert again == sketch
        assert again.kept == sketch.kept
        assert again.content() == sketch.content()
        assert container.unpack(sketch.content())[1]["format"] == 3
    DESIGNED.sketch(X[:1000]).save(tmp_path / "b.sketch")
    DESIGNED.sketch(X[1000:]).save(tmp_path / "c.sketch")
    assert skl.merge([tmp_path / "b.sketch", tmp_path / "c.sketch"]).content() == WHOLE.content()


def forged(sketch, **changes):
    """A well-formed file, digest and all, that says something else."""
    tensors, description = container.unpack(sketch.to_bytes())
    del description["digest"]
    rows = changes.pop("rows", tensors["rows"]), changes.pop("units", tensors["row_units"])
    leave_out = changes.pop("without", None)
    description = {**description, **changes}
    description.pop(leave_out, None)
    return container.pack(sketch.sums, description, None if rows[0] is None else rows)


TWELVE = SMALL.sketch(np.c_[np.zeros(12), np.arange(12.0) ** 2])
ROWS, UNITS, BELOW = TWELVE.kept.rows, TWELVE.kept.units, TWELVE.kept.below
TENFOLD = replace(SMALL.keeping, size=10)
FORGERIES = {
    "another order": ({"rows": ROWS[::-1]}, "not those that their rule keeps"),
    "two exchanged": ({"rows": ROWS[[1, 0, 2, 3, 4, 5]]}, "not those that their rule keeps"),
    "another row": ({"rows": ROWS + np.array([[1e-9, 0.0]])}, "not those that their rule keeps"),
    "a row twice": ({"rows": ROWS[[0, 0, 1, 2, 3, 4]]}, "not all different"),
    "too few weights": ({"units": UNITS[:-1]}, "do not have the size"),
    "another width": ({"rows": ROWS[:, :1]}, "do not have the size"),
    "too many rows": ({"rows": np.r_[ROWS, [[1.0, 1.0]]], "units": np.r_[UNITS, 1]}, "do not have the size"),
    "no weight": ({"units": UNITS * [1, 1, 1, 1, 1, 0]}, "impossible values or weights"),
    "negative weight": ({"units": -UNITS}, "impossible values or weights"),
    "more than all": ({"units": UNITS * [1, 1, 1, 1, 1, 8]}, "weigh more than all records"),
    "more than 64 bits": ({"units": np.full(6, 2**63 - 1)}, "weigh more than all records"),
    "as much as all": ({"units": UNITS * 2}, "the kept rows are all records, but their limit says otherwise"),
    "said to be all": ({"kept_below": None}, "the kept rows are not all records, but their limit says otherwise"),
    "not a number": ({"rows": np.where(np.arange(6)[:, None] == 3, np.nan, ROWS)}, "impossible values"),
    "infinite": ({"rows": np.where(np.arange(6)[:, None] == 3, -np.inf, ROWS)}, "impossible values"),
    "minus zero": ({"rows": np.where(ROWS == 0, -0.0, ROWS)}, "impossible values"),
    "a lower limit": ({"kept_below": float(TWELVE.kept.priorities[-1])}, "not those that their rule keeps"),
    "no limit": ({"kept_below": math.nan}, "not a sketchlearn file, or a damaged one"),
    "an infinite limit": ({"kept_below": math.inf}, "not a sketchlearn file, or a damaged one"),
    "a negative limit": ({"kept_below": -1.0}, "impossible values or weights|not those that their rule keeps"),
    "a whole limit": ({"kept_below": 1}, "limit of its rows' priorities is not a number"),
    "a limit in words": ({"kept_below": "1.0"}, "limit of its rows' priorities is not a number"),
    "the wrong limit's field": ({"without": "kept_below"}, "a format of 3 says that it has rows"),
    "no rows": ({"rows": None}, "does not hold one vector of 64-bit integers, and rows"),
    "rows of integers": ({"rows": None, "format": 1}, "a format of 1 says that it has no rows"),
    "format 1 with rows": ({"format": 1, "without": "kept_below"}, "does not hold one vector of 64-bit integers"),
    "format 1": ({"rows": None, "format": 1, "without": "kept_below"}, "do not agree on whether rows are kept"),
    "format 2": ({"format": 2, "ledger": {}}, "a format of 2 says that it has no rows"),
    "a ledger": ({"ledger": {}}, "a format of 3 says that it is not private"),
    "no rule": ({"operator": SMALL.without_keeping().to_json()}, "do not agree on whether rows are kept"),
    "another rule": (
        {"operator": SMALL.with_keeping(replace(SMALL.keeping, seed=6)).to_json()},
        "not those that their rule keeps",
    ),
    "a law as the rule": ({"operator": {**SMALL.to_json(), "keeping": SMALL.law.to_json()}}, "keeping must be a rule"),
    "a rule of too many": (
        {"operator": {**SMALL.to_json(), "keeping": {**TENFOLD.to_json(), "size": 10**9}}},
        "size must be a whole number",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_files_are_refused_in_one_sentence(name):
    changes, message = FORGERIES[name]
    with pytest.raises(skl.FormatError, match=message) as caught:
        skl.from_bytes(forged(TWELVE, **changes))
    assert "\n" not in str(caught.value)
    assert skl.from_bytes(forged(TWELVE)).to_bytes() == TWELVE.to_bytes()


def test_every_flipped_byte_is_refused():
    data = TWELVE.to_bytes()
    for i in range(len(data)):
        for mask in (0x01, 0x20, 0x80):
            with pytest.raises(skl.FormatError):
                skl.from_bytes(data[:i] + bytes([data[i] ^ mask]) + data[i + 1 :])


def test_truncated_files_are_refused():
    data = TWELVE.to_bytes()
    for changed in [data[:n] for n in range(0, len(data), 7)] + [data + b"\0", data + data]:
        with pytest.raises(skl.FormatError):
            skl.from_bytes(changed)


# --- where no rows may be


def found_in(rows, data):
    """How many rows are somewhere in bytes: in binary, or as text."""
    forms = [[row.astype(kind).tobytes() for kind in ("<f8", ">f8", "<f4")] for row in rows]
    for row, own in zip(rows.tolist(), forms, strict=True):
        own += [mark.join(map(repr, row)).encode() for mark in (",", ", ", ";", " ")]
    return sum(any(form in data for form in own) for own in forms)


def odd_rows(n=400):
    return np.random.default_rng(0).lognormal(0, 1, (n, 3)) * math.pi


def test_rows_are_found_where_they_are():
    """That the search of the other tests would find them."""
    rows = odd_rows()
    operator = skl.design(rows, n_components=2, rows=50, features=skl.features.Fourier(n_frequencies=10))
    kept = operator.sketch(rows).kept
    assert found_in(kept.rows, operator.sketch(rows).content()) == 50
    assert found_in(kept.rows, operator.sketch(rows).without_rows().content()) == 0
    assert found_in(kept.rows, repr(rows.tolist()).encode()) == 50


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_private_release_has_neither_rows_nor_rule(tmp_path):
    rows = odd_rows()
    operator = skl.design(rows, n_components=2, rows=50, features=skl.features.Fourier(n_frequencies=10))
    sketch = operator.sketch(rows)
    release = skl.privatize(sketch, epsilon=1.0, assume_public_design=True)
    assert release.kept is None
    assert release.operator.keeping is None
    data = release.to_bytes() + pickle.dumps(release)
    assert found_in(sketch.kept.rows, data) == 0
    assert b"eeping" not in release.to_bytes()
    assert b"kept" not in release.to_bytes()
    with pytest.raises(ValueError, match="a release keeps no rows"):
        skl.privacy.Release(operator, release.sums, release.units, release.ledger)
    with pytest.raises(TypeError, match="exact sums have no ledger"):
        skl.Sketch(operator, release.sums, release.units, ledger=release.ledger)
    form = {**release.description(), "operator": operator.to_json()}
    with pytest.raises(skl.FormatError, match="it is private, but has fields that releases do not have"):
        skl.from_bytes(container.pack(release.sums, form))
    model = skl.SketchKMeans(2, random_state=0).fit_sketch(release)
    skl.save(model, tmp_path / "model.json")
    assert found_in(sketch.kept.rows, (tmp_path / "model.json").read_bytes()) == 0


@pytest.mark.parametrize("way", ["fit", "partial_fit", "fit_sketch", "sample"])
def test_neither_models_nor_their_sketches_have_rows(way, tmp_path):
    rows = odd_rows()
    operator = skl.design(rows, n_components=2, rows=50)
    model = skl.SketchKMeans(2, random_state=0)
    if way == "fit":
        model.fit(rows)
    elif way == "partial_fit":
        model.partial_fit(rows[:100]).partial_fit(rows[100:])
    elif way == "fit_sketch":
        model.fit_sketch(operator.sketch(rows))
    else:
        model.fit_sketch(operator.without_keeping().sketch(rows), sample=rows[:50])
    assert model.sketch_.kept is None
    assert model.sketch_.operator.keeping is None
    assert model.sketch_ == model.sketch_.operator.sketch(rows)
    skl.save(model, tmp_path / "model.json")
    data = (tmp_path / "model.json").read_bytes()
    assert found_in(rows, data) == 0
    assert b"eeping" not in data
    assert found_in(rows, model.sketch_.content()) == 0
