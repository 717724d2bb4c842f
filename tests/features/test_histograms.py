"""Histograms: exact counts, edges that hold, releases and questions; bins chosen from samples of odd columns."""

import json
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import ConvergenceWarning
from twin import record_integers
from typer.testing import CliRunner

import sketchlearn as skl
from sketchlearn.cli.commands import app
from sketchlearn.core import containers as container
from sketchlearn.estimators.clusters.of_fourier import is_possible
from sketchlearn.estimators.design.frequencies import bins_of_rows
from sketchlearn.features.histograms import MOST_BINS
from sketchlearn.features.provenance import Origin
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.files.sketches import from_bytes
from sketchlearn.inference.distributions import Mixture, SphericalGaussian
from sketchlearn.inference.tilting import Column
from sketchlearn.privacy.noise_plan import sensitivity

RNG = np.random.default_rng(0)
OPERATOR = skl.features.Histograms(3, edges=[(-1, 0, 2), (0, 0.1, 0.2, 0.3), np.linspace(-3, 3, 61)])
ROWS = RNG.standard_normal((5000, 3))
FOURIER = skl.features.FourierFeatures(3, 40, law=skl.features.frequencies.Gaussian(1.0), seed=1).with_origin(
    "declared"
)


# exactness


def test_counts_are_those_of_numpy():
    for counts, edges, column in zip(
        OPERATOR.split_columns(OPERATOR.sketch(ROWS).sums), OPERATOR.edges, ROWS.T, strict=True
    ):
        assert np.array_equal(counts[1:-1], np.histogram(column, edges)[0])
        assert (counts[0], counts[-1]) == (np.sum(column < edges[0]), np.sum(column > edges[-1]))


def test_edges_belong_to_the_bin_above_but_the_last():
    operator = skl.features.Histograms(1, edges=[(-0.0, 1.0, 2.0)])
    tiny = np.nextafter(0, 1)
    rows = [-tiny, -0.0, 0.0, tiny, np.nextafter(1, 0), 1.0, 2.0, np.nextafter(2, 3)]
    assert operator.features(np.array(rows)[:, None]).argmax(axis=1).tolist() == [0, 1, 1, 1, 1, 2, 2, 3]
    assert operator == skl.features.Histograms(1, edges=[(0.0, 1.0, 2.0)])


def test_single_precision_counts_as_its_double_value():
    operator = skl.features.Histograms(1, edges=[(0.0, 0.1, 1.0)])  # 0.1 in single precision is above 0.1
    rows = np.array([[0.1], [np.nextafter(np.float32(0.1), np.float32(0))]], np.float32)
    assert operator.sketch(rows).sums.tolist() == [0, 1, 1, 0]
    assert operator.sketch(rows) == operator.sketch(rows.astype(np.float64))


@given(
    edges=st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=40, unique=True),
    values=arrays(np.float64, st.integers(1, 600), elements=st.floats(allow_nan=False, allow_infinity=False)),
    data=st.data(),
)
def test_any_edges_and_values(edges, values, data):
    edges = sorted(set(np.array(edges) + 0.0))
    if len(edges) < 2:
        return
    operator = skl.features.Histograms(1, edges=[edges])
    picked = data.draw(st.lists(st.sampled_from(edges), max_size=20))
    rows = np.concatenate([values, picked])[:, None]
    assert np.array_equal(operator.write_rows(rows, 2)[0], record_integers(operator, rows))
    assert np.array_equal(operator.sketch(rows).sums, record_integers(operator, rows).sum(axis=0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_near_edges_of_every_size(dtype):
    far, near = 10.0 ** np.arange(-40, 38), 1 + np.arange(9) * 2.0**-24  # some are no float32
    for edges in (np.concatenate([-far[::-1], far]), near, 1e30 * near, 1e-42 * np.arange(1, 30), [-1e300, 1e300]):
        operator = skl.features.Histograms(1, edges=[edges])
        with np.errstate(over="ignore"):
            values = np.asarray(edges).astype(dtype)
        values = values[np.isfinite(values)]
        rows = np.concatenate([values, *(np.nextafter(values, dtype(end)) for end in (-1e38, 1e38))])[:, None]
        assert np.array_equal(operator.write_rows(rows, 1)[0], record_integers(operator, rows.astype(np.float64)))


def test_many_columns_bins_threads_and_layouts():
    edges = [np.sort(RNG.standard_normal(n)) for n in (2, 3, 4, 5, 8, 9, 64, 65, 1000, MOST_BINS + 1) * 4]
    operator = skl.features.Histograms(40, edges=edges)
    rows = RNG.standard_normal((9001, 40))
    whole, weights = operator.sketch(rows, n_jobs=1), RNG.integers(0, 5, 9001)
    assert operator.sketch(rows[::-1], n_jobs=4) == whole
    assert operator.sketch(np.asfortranarray(rows), n_jobs=3) == whole
    assert operator.sketch(np.repeat(rows, 2, axis=1)[::-1, ::2]) == whole
    assert operator.sketch(rows, sample_weight=weights) == operator.sketch(np.repeat(rows, weights, axis=0))
    documented = sum(record_integers(operator, part).sum(axis=0) for part in np.array_split(rows, 90))
    assert np.array_equal(whole.sums, documented)


def test_means_are_shares():
    shares = OPERATOR.split_columns(OPERATOR.sketch(ROWS).mean)
    assert [len(one) for one in shares] == [4, 5, 62]
    assert all(one.sum() == pytest.approx(1) for one in shares)
    assert np.allclose(OPERATOR.features(ROWS).mean(axis=0), np.concatenate(shares))


def test_values_that_are_not_finite_are_refused_whatever_the_threads():
    rows = np.zeros((50_000, 3))
    rows[[20_001, 44_000], [2, 0]] = np.inf
    for n_jobs in (1, 4):
        with pytest.raises(ValueError, match="row 20001, column 2 is inf"):
            OPERATOR.sketch(rows, n_jobs=n_jobs)
        with pytest.raises(ValueError, match="row 20001, column 2 is inf"):
            skl.features.concatenate([OPERATOR, FOURIER]).sketch(rows, n_jobs=n_jobs)
    with pytest.raises(ValueError, match="row 0, column 1 is missing"):
        OPERATOR.features([[0, np.nan, 0]])
    assert OPERATOR.sketch([[1e308, -1e308, 0]]).count == 1


def test_forgotten_rows_must_have_been_there():
    sketch = OPERATOR.sketch(ROWS)
    assert sketch - OPERATOR.sketch(ROWS[:100]) == OPERATOR.sketch(ROWS[100:])
    with pytest.raises(ValueError, match="those records are not all in the sketch"):
        OPERATOR.sketch(ROWS[:10]).forget(-99 * np.ones((1, 3)))


# making them


def test_even_bins():
    operator = skl.features.Histograms.even([0, -5], [1, 5], bins=8, columns=("a", "b"))
    assert operator.origin is Origin.DECLARED
    assert operator.edges == (tuple(np.linspace(0, 1, 9)), tuple(np.linspace(-5, 5, 9)))
    assert operator.columns == ("a", "b")
    narrow = skl.features.Histograms.even([1.6e18], [1.6e18 + 1024])
    assert len(narrow.edges[0]) == 5
    assert skl.features.Histograms.even([-1.7e308], [1.7e308]).edges[0][-1] == 1.7e308


def test_json_form():
    declared = skl.features.Histograms(2, edges=[(0, 1), (0, 1, 2)], values=[None, (0.5, 1)]).with_origin("declared")
    form = json.loads(json.dumps(declared.to_json()))
    assert skl.extend.Operator.from_json(form) == declared
    assert form["origin"] == "declared"
    assert skl.extend.Operator.from_json(form).origin is Origin.DECLARED
    plain = skl.features.Histograms(2, edges=[(0, 1), (0, 1, 2)], values=[None, None])
    assert plain.values is None
    assert {"columns", "values", "origin", "declared"}.isdisjoint(plain.to_json())
    assert plain == skl.features.Histograms(2, edges=plain.edges).with_origin("declared")
    assert plain != declared
    assert eval(repr(declared), vars(skl.features)) == declared


BAD = [
    ({"edges": [(0, 1)]}, "edges must be a list with one item for each of the 2 columns"),
    ({"edges": 5}, "edges must be a list"),
    ({"edges": [(0, 1), (1,)]}, "edges of column 1 must be at least two numbers in ascending order"),
    ({"edges": [(0, 1), (1, 1)]}, "edges of column 1 must be at least two"),
    ({"edges": [(0, 1), (2, 1)]}, "edges of column 1 must be at least two"),
    ({"edges": [(0, np.nan), (1, 2)]}, "edges of column 0 must be a list of finite numbers"),
    ({"edges": [(0, np.inf), (1, 2)]}, "edges of column 0 must be a list of finite numbers"),
    ({"edges": [(0, 10**400), (1, 2)]}, "edges of column 0 must be a list of finite numbers"),
    ({"edges": [(0, True), (1, 2)]}, "edges of column 0 must be a list of finite numbers"),
    ({"edges": [(0, "1"), (1, 2)]}, "edges of column 0 must be a list of finite numbers"),
    ({"edges": [(0, (1, 2)), (1, 2)]}, "edges of column 0 must be a list of finite numbers"),
    ({"edges": ["01", (1, 2)]}, "edges of column 0 must be a list of finite numbers"),
    ({"edges": [np.array(3.0), (1, 2)]}, "edges of column 0 must be a list of finite numbers"),
    ({"edges": [np.ma.ones(3), (1, 2)]}, "edges of column 0 must be a list of finite numbers"),
    ({"edges": [range(MOST_BINS + 2), (1, 2)]}, "at most 4,097"),
    ({"values": [(1.0,)]}, "values must be a list with one item for each of the 2 columns"),
    ({"values": [(1.0, 2.0), None]}, "values of column 0 must be None or one number for each of its 1 bins"),
    ({"values": [(7.0,), None]}, "values of column 0 must be None or one number for each of its 1 bins, within"),
    ({"columns": ("a", "a")}, "columns must be 2 different names"),
]


@pytest.mark.parametrize(("fields", "message"), BAD)
def test_bad_descriptions(fields, message):
    with pytest.raises(ValueError, match=message) as caught:
        skl.features.Histograms(2, **{"edges": [(0, 1), (0, 1, 2)], **fields})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("low", "high", "bins"), [([0], [0], 4), ([0, 1], [1], 4), ([0], [1], 0), ([0], [np.inf], 4), (0, 1, 4)]
)
def test_bad_bounds(low, high, bins):
    with pytest.raises(ValueError, match=r"low|high|bins"):
        skl.features.Histograms.even(low, high, bins)


def test_too_many_edges_in_all():
    with pytest.raises(ValueError, match="more than 1,048,576 edges in all"):
        skl.features.Histograms(300, edges=[range(4000)] * 300)


# files


def forged(sketch, sums=None, **fields):
    _, description = container.unpack(sketch.to_bytes())
    del description["digest"]
    description["operator"] = {**description["operator"], **fields}
    return container.pack(sketch.sums if sums is None else np.array(sums), description)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"edges": [[0, 1]] * 3}, "sums must be 9 integers"),
        ({"edges": [[0, 1]] * 2}, "one item for each of the 3 columns"),
        ({"edges": [[0, 1], [0, 1], [1, 0]]}, "edges of column 2 must be at least two numbers in ascending order"),
        ({"edges": [[0, 1], [0, 1], None]}, "edges of column 2 must be a list of finite numbers"),
        ({"edges": {"type": "Gaussian", "scale": 1.0}}, "edges must be a list"),
        ({"edges": [[0, 1], [0, 1], [0, {"type": "Gaussian", "scale": 1.0}]]}, "edges of column 2 must be a list"),
        ({"n_features": 2**20}, "n_features must be a whole number"),
        ({"values": "codes"}, "values must be a list"),
        ({"bins": 3}, "'bins' is unknown"),
        ({"declared": 1}, "declared must be True or False"),
        ({"origin": "rows"}, "origin must be one of declared, sample, unknown, not 'rows'"),
        ({"origin": ["declared"]}, "origin must be one of declared, sample, unknown"),
        ({"sums": np.ones(71, np.int64)}, "the counts of a column do not add up to 9 records"),
    ],
)
def test_forged_files(fields, message):
    with pytest.raises(skl.FormatError, match=message) as caught:
        from_bytes(forged(OPERATOR.sketch(ROWS[:9]), **fields))
    assert "\n" not in str(caught.value)


def test_negative_and_wrapping_counts_are_refused():
    operator = skl.features.Histograms(1, edges=[range(9)])
    for sums in ([-1, 2, 1, *[0] * 7], [2, 1, *[0] * 8], [1, *[0] * 9]):
        with pytest.raises(ValueError, match="do not add up to 2 records"):
            skl.Sketch(operator, np.array(sums), 2)
    wrapping = np.array([2**62, 2**62, 2**62, 2**62, 2**62, 0, 0, 0, 0, 0])  # 5 * 2^62 is 2^62 modulo 2^64
    with pytest.raises(ValueError, match="do not add up"):
        skl.Sketch(operator, wrapping, 2**62)


def test_the_largest_file_loads_fast():
    operator = skl.features.Histograms(256, edges=[np.linspace(0, 1 / 3, 4000)] * 256)
    data = operator.sketch(np.zeros((3, 256))).to_bytes()
    start = time.process_time()
    assert from_bytes(data).count == 3
    assert time.process_time() - start < 20  # a limit against accidents, not a benchmark


# privacy


def test_sensitivity():
    assert sensitivity(OPERATOR) == Sensitivity(3, 3)
    assert sensitivity(OPERATOR, "replace") == Sensitivity(6, 6)
    a, b = OPERATOR.write_rows(np.array([[0.0, 0, 0], [9.0, 9, 9]]), 1)[0].astype(int)
    assert (np.abs(a - b).sum(), ((a - b) ** 2).sum()) == (6, 6)


DECLARED = skl.features.Histograms.even([-4] * 3, [4] * 3, bins=32)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_release_round_trip(delta):
    both = skl.features.concatenate([FOURIER, DECLARED])
    release = skl.privatize(both.sketch(ROWS), epsilon=1.0, delta=delta, seed_for_tests_not_private=0)
    again = from_bytes(release.to_bytes())
    assert again == release
    assert again.ledger == release.ledger
    assert again.ledger.design == "declared"
    waves, counts = both.split(again)
    assert waves.ledger.sensitivity > counts.ledger.sensitivity == (2 if delta else 3)
    away = counts.sums - DECLARED.sketch(ROWS).sums
    assert 0.5 < np.std(away) / np.sqrt(counts.ledger.sum_variance) < 2


def test_histograms_have_their_share_of_the_budget():
    moments = skl.features.SecondMoments(3, bound=9.0, outside="clip").with_origin("declared")
    sketch = skl.features.concatenate([FOURIER, DECLARED, moments]).sketch(ROWS)
    ledger = skl.privatize(sketch, epsilon=1.0, seed_for_tests_not_private=0).ledger
    spent = [part.sensitivity / part.scale for part in ledger.parts]
    assert np.allclose(spent, (1 - ledger.count_share) * np.array([0.7, 0.15, 0.15]), rtol=1e-3)
    alone = skl.privatize(DECLARED.sketch(ROWS), epsilon=1.0, seed_for_tests_not_private=0).ledger
    assert alone.sensitivity / alone.sum_scale == pytest.approx(1 - alone.count_share, rel=1e-3)


@pytest.mark.parametrize(
    ("bins", "message"),
    [
        (skl.design(ROWS, n_components=2).part(skl.features.Histograms), "designed on a sample of rows"),
        (bins_of_rows(ROWS), "it is not known whether the numbers of this Concatenated were taken from the rows"),
    ],
)
def test_bins_of_a_sample_tell_about_its_rows(bins, message):
    sketch = skl.features.concatenate([FOURIER, bins]).sketch(ROWS)
    with pytest.raises(ValueError, match=message):
        skl.privatize(sketch, epsilon=1.0)
    release = skl.privatize(sketch, epsilon=1.0, assume_public_design=True, seed_for_tests_not_private=0)
    assert release.ledger.design == "assumed public"


# questions


@pytest.mark.filterwarnings("ignore:.* lie outside:UserWarning")  # one column's edges are few, on purpose
@pytest.mark.parametrize("beside", [False, True])
def test_marginals_are_exact(beside):
    operator = skl.features.concatenate([FOURIER, OPERATOR]) if beside else OPERATOR
    ask = skl.Questions(operator.sketch(ROWS))
    edges = np.linspace(-3, 3, 61)[5:56:10]
    found = ask.marginal(2, edges)
    assert np.array_equal(found.shares, np.histogram(ROWS[:, 2], edges)[0] / len(ROWS))
    assert found.exact.all()
    assert found.note == "exact counts"
    assert str(found).endswith("(exact counts)")
    named = ask.marginal(2, 10)
    assert len(named.shares) <= 10
    assert named.exact.all()
    assert set(named.edges) <= set(OPERATOR.edges[2])
    assert np.allclose(named.shares, np.histogram(ROWS[:, 2], named.edges)[0] / len(ROWS), atol=1e-15)
    assert named.shares.sum() > 0.995


def test_edges_within_bins_are_said_to_be_estimates():
    ask = skl.Questions(OPERATOR.sketch(ROWS))
    found = ask.marginal(2, [-0.5, 0.05, 0.5, 1.0])
    assert found.exact.tolist() == [False, False, True]
    assert found.note.startswith("exact counts, but 2 of 3 are estimated: an edge lies within one of the sketch's bins")
    true = np.histogram(ROWS[:, 2], found.edges)[0] / len(ROWS)
    assert np.all(np.abs(found.shares - true) <= 5 * found.errors)
    outside = ask.marginal(1, [-9, 0, 0.3])
    assert outside.exact.tolist() == [False, True]  # how far records lie below the bins is not known
    assert outside.shares[0] == np.mean(ROWS[:, 1] < 0)


def test_columns_of_few_values_count_at_their_value():
    rows = RNG.choice([0.0, 1.0, 5.0], (900, 1), p=[0.5, 0.3, 0.2])
    ask = skl.Questions(bins_of_rows(rows).sketch(rows))
    found = ask.marginal(0)
    assert found.edges.tolist() == [-0.5, 0.5, 3.0, 7.0]
    assert found.exact.all()
    assert np.array_equal(found.shares, [np.mean(rows == v) for v in (0, 1, 5)])
    assert np.allclose(ask.marginal(0, [0, 1, 5]).shares, [np.mean(rows == 0), np.mean(rows > 0)])


def test_private_marginals_say_that_they_are_noisy():
    release = skl.privatize(DECLARED.sketch(ROWS), epsilon=1.0, seed_for_tests_not_private=0)
    found = skl.Questions(release).marginal(0, [-4, -1, 0, 1, 4])
    true = np.histogram(ROWS[:, 0], found.edges)[0] / len(ROWS)
    assert not found.exact.any()
    assert "private noise" in found.note
    assert np.all(np.abs(found.shares - true) < 5 * found.errors)
    assert skl.Questions(release).marginal(0, 12).shares.sum() > 0.95


def test_histograms_alone_have_no_density():
    ask = skl.Questions(OPERATOR.sketch(ROWS))
    assert ask.columns == ("column 0", "column 1", "column 2")
    for question in (lambda: ask.density([[0, 0, 0]]), lambda: ask.mean_of(lambda rows: rows[:, 0])):
        with pytest.raises(ValueError, match="need frequencies of all columns"):
            question()
    with pytest.raises(ValueError, match="the sketch is empty"):
        skl.Questions(OPERATOR.sketch(ROWS[:0]))


def test_histograms_in_words():
    assert OPERATOR.in_words == "histograms of 3 columns, 2 to 60 bins each"
    assert DECLARED.in_words == "histograms of 3 columns, 32 bins each"


# bins of a sample


def many(name, n=60_000):
    rng = np.random.default_rng(3)
    normal, mostly = rng.standard_normal(n), rng.random(n) < 0.8
    return {
        "normal": normal,
        "tiny units": 1e-9 * normal,
        "large units": 1e18 * normal,
        "nanoseconds": np.rint(1.6e18 + 1e15 * normal),
        "nanoseconds of a moment": np.rint(1.6e18 + 1e5 * normal),
        "nearly one number": np.rint(1.6e18 + 1e3 * normal),
        "large offset": 1e9 + 1e-3 * normal,
        "cauchy": rng.standard_cauchy(n),
        "pareto": rng.pareto(1, n),
        "money": np.exp(3 * normal),
        "mostly zero": np.where(mostly, 0, rng.lognormal(8, 1, n)),
        "mostly inside": np.where(mostly, 0.3, normal),
        "counts": np.floor(rng.lognormal(3, 1.5, n)),
        "prices": np.round(rng.lognormal(3, 1, n), 2),
        "largest": 1.7e308 * rng.uniform(-1, 1, n),
        "denormal": 1e-310 * normal,
        "constant": np.full(n, 7.0),
        "large constant": np.full(n, 1.6e18),
        "zero": np.zeros(n),
        "flag": 1.0 * mostly,
        "codes": rng.choice([1, 2, 5, 99.0], n),
        "opposite": rng.choice([-1.7e308, 1.7e308], n),
    }[name]


CONTINUOUS = ["normal", "tiny units", "large units", "nanoseconds", "nanoseconds of a moment", "large offset", "cauchy"]
CONTINUOUS += ["pareto", "money", "mostly zero", "mostly inside", "counts", "prices", "largest", "denormal"]
FEW = {"constant": 1, "large constant": 1, "zero": 1, "flag": 2, "codes": 4, "opposite": 2}


@pytest.mark.parametrize("representative", [True, False])
@pytest.mark.parametrize("n", [20, 500, 5000])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_bins_hold_rows_that_were_not_in_the_sample(name, n, representative):
    column = many(name)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operator = bins_of_rows(column[:n], representative=representative)
    assert operator.values is None
    assert operator.origin is not Origin.DECLARED
    assert 30 <= len(operator.edges[0]) <= 65
    counts = operator.sketch(column).sums
    assert counts[0] + counts[-1] <= len(column) * (0.02 if n == 20 else 0.001)
    common = 0.8 if name.startswith("mostly") else 0.0
    others = counts[counts < 0.5 * len(column)]
    assert others.max() <= (1 - common) * len(column) * {20: 0.5, 500: 0.15, 5000: 0.06}[n]
    assert abs(counts.max() / len(column) - common) < 0.005 if common else counts.max() < 0.2 * len(column)
    assert len(json.dumps(operator.to_json())) < 200 + 26 * len(operator.edges[0])


@pytest.mark.parametrize("name", FEW)
def test_few_values_have_bins_of_their_own(name):
    column = many(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operator = bins_of_rows(column[:200, None])
    assert operator.values == (tuple(np.unique(column)),)
    assert len(operator.values[0]) == FEW[name]
    assert operator.sketch(column[:, None]).sums[1:-1].tolist() == np.unique(column, return_counts=True)[1].tolist()


def test_neighbours_without_a_number_between_them():
    column = np.repeat(np.nextafter(1.6e18, [0, np.inf]), 10)
    operator = bins_of_rows(np.concatenate([column, [1.6e18] * 10])[:, None])
    assert operator.sketch(np.concatenate([column, [1.6e18] * 10])[:, None]).sums.tolist() == [0, 10, 10, 10, 0]


@given(
    column=arrays(np.float64, st.integers(1, 200), elements=st.floats(allow_nan=False, allow_infinity=False)),
    n_bins=st.integers(4, 80),
)
def test_any_column_has_bins(column, n_bins):
    operator = bins_of_rows(column[:, None], n_bins)
    assert len(operator.edges[0]) <= n_bins + 1
    counts = operator.sketch(column[:, None]).sums
    assert counts[0] == counts[-1] == 0
    if operator.values is not None:
        values, found = np.unique(column, return_counts=True)
        assert operator.values[0] == tuple(values)
        assert counts[1:-1].tolist() == found.tolist()


@given(column=st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0, 1e9, -2.5]), min_size=1, max_size=60))
def test_any_small_column_has_bins(column):
    operator = bins_of_rows(np.array(column)[:, None])
    counts = operator.sketch(np.array(column)[:, None]).sums
    assert counts[0] == counts[-1] == 0


@pytest.mark.parametrize("rows", [np.empty((0, 2)), np.zeros(3), [[np.nan]], np.empty((2, 0))])
def test_bins_need_rows(rows):
    with pytest.raises(ValueError, match="a table of at least one row of finite numbers"):
        bins_of_rows(rows)


# the command line


def test_info_and_marginal_on_the_command_line(tmp_path):
    path = tmp_path / "both.sketch"
    skl.features.concatenate([FOURIER, DECLARED]).sketch(ROWS).save(path)
    run = CliRunner().invoke
    assert "histograms of 3 columns, 32 bins each" in run(app, ["info", str(path)]).output
    shown = run(app, ["marginal", str(path), "0", "--bins", "8"]).output
    assert "(exact counts)" in shown
    figures = json.loads(run(app, ["marginal", str(path), "0", "--bins", "8", "--json"]).output)
    assert figures["note"] == "exact counts"
    assert figures["exact"] == [True] * len(figures["shares"])
    assert np.allclose(figures["shares"], np.histogram(ROWS[:, 0], figures["edges"])[0] / len(ROWS), atol=1e-15)


def test_records_in_other_units_than_the_design(monkeypatch):
    """Heights in centimetres, bounds in metres: said when they are sketched, and refused when they are clustered."""
    rng = np.random.default_rng(0)
    operator = skl.design(bounds=([0.5, 30], [3, 200]), n_components=3).with_columns(("height", "weight"))
    rows = pd.DataFrame({"height": rng.normal(170, 10, 5000), "weight": rng.normal(70, 10, 5000)})
    with pytest.warns(UserWarning, match=r"100% of the first 100 rows lie outside 0\.5 to 3, .* in 'height'"):
        sketch = operator.sketch(rows)
    with pytest.raises(ValueError, match=r"100% of the records lie outside 0\.5 to 3, .*, in 'height': design in the"):
        skl.SketchKMeans(3, random_state=0).fit_sketch(sketch)
    # however such records come to be clustered, it ends
    said = skl.features.Histograms.said_outside
    of_rows = lambda self, shares, noun, *which: said(self, shares, noun, *which) if noun == "rows" else None  # noqa: E731
    monkeypatch.setattr(skl.features.Histograms, "said_outside", of_rows)
    with pytest.warns(ConvergenceWarning):
        skl.SketchKMeans(3, random_state=0).fit_sketch(sketch)
    both = skl.design(bounds=([0, 0], [1, 1]), n_components=3)
    with pytest.warns(UserWarning, match="lie outside 0 to 1, the range of the design, in column 0"):
        sketch = both.sketch(rows.to_numpy())
    with pytest.warns(ConvergenceWarning):
        skl.SketchKMeans(3, random_state=0).fit_sketch(sketch)


def test_a_density_is_no_wider_than_histograms():
    """Round components of a table with mixed units said that years deviate by 870."""
    columns = [
        Column(np.linspace(0, 1e5, 101), np.full(102, 1 / 102)),
        Column(np.array([2021.0, 2024.0]), np.eye(3)[1]),
    ]
    for deviation, possible in ((870.0, False), (1.0, True)):
        density = Mixture(SphericalGaussian(), np.ones(1), np.array([[5e4, 2022.5]]), np.array([[deviation**2]]))
        assert is_possible(density, columns) is possible
