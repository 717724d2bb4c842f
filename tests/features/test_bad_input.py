"""Bad input gets one sentence that names the thing."""

import numpy as np
import pytest
import scipy.sparse

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian, Mixture, Weighted
from sketchlearn.features.waves import FourierSeries

OPERATOR = skl.features.FourierFeatures(2, 4, law=Gaussian(1.0))
QUADRATIC = skl.features.QuadraticFeatures(2, 4, bound=5.0)
MOMENTS = skl.features.SecondMoments(2, bound=5.0)

ROWS = [
    ([[1.0, 2.0], [3.0, np.nan]], ValueError, "row 1, column 1 is missing"),
    (np.array([[np.inf, 2.0]], np.float32), ValueError, "row 0, column 0 is inf"),
    ([[1.0, 2.0, 3.0]], ValueError, "the rows have 3 columns, but the operator needs 2"),
    ([1.0, 2.0], ValueError, "expected a two-dimensional array, got 1 dimension"),
    (np.ones((1, 2, 3)), ValueError, "expected a two-dimensional array, got 3 dimension"),
    ([["a", "b"]], TypeError, "rows must be numbers, not <U1"),
    (np.array([[1, "b"]], object), TypeError, "rows must be numbers, not object"),
    ([[1j, 2.0]], TypeError, "rows must be numbers, not complex128"),
    (np.array([["2020-01-01", "2020-01-01"]], "M8[D]"), TypeError, "rows must be numbers"),
    ([[1.0, 2.0], [3.0]], ValueError, "the data are not rows of equal length"),
    (np.ma.ones((2, 2)), TypeError, "masked arrays are not supported"),
    ("no_rows.csv", FileNotFoundError, "there is no file no_rows.csv"),
    (scipy.sparse.csr_array(np.eye(3)), ValueError, "the rows have 3 columns, but the operator needs 2"),
    ([scipy.sparse.csr_matrix(np.diag([np.inf, 1.0]))], ValueError, "row 0, column 0 is inf"),
    (5.0, ValueError, "two-dimensional"),
    (np.array(5.0), ValueError, "two-dimensional"),
    ([np.ones((2, 2)), np.ones(2)], ValueError, "nor arrays of rows"),
]


@pytest.mark.parametrize(("rows", "kind", "message"), ROWS)
def test_rows(rows, kind, message):
    for operator in (OPERATOR, QUADRATIC, MOMENTS, skl.features.concatenate([MOMENTS, OPERATOR])):
        with pytest.raises(kind, match=message) as caught:
            operator.sketch(rows)
        assert "\n" not in str(caught.value)
        with pytest.raises(kind, match=message):
            operator.features(rows)


def test_the_first_bad_row_is_named_whatever_the_threads_and_blocks():
    X = np.zeros((50_000, 2))
    X[[20_001, 44_000], 1] = np.nan
    for n_jobs in (1, 4):
        with pytest.raises(ValueError, match="row 20001, column 1 is missing"):
            OPERATOR.sketch(X, n_jobs=n_jobs)
        with pytest.raises(ValueError, match="row 20001, column 1 is missing"):
            MOMENTS.sketch(X, n_jobs=n_jobs)
    with pytest.raises(ValueError, match="row 20001, column 1 is missing"):
        OPERATOR.sketch(np.array_split(X, 7))


@pytest.mark.parametrize("far", [1e30, -1e300])
def test_rows_too_far_for_a_phase_are_clipped_with_a_word(far):
    """Nothing is learned from them if they are kept: in sums, one of many does no harm."""
    rng = np.random.default_rng(0)
    X = np.array([[0.0, 0.0], [9.0, 0.0]])[rng.integers(0, 2, 3000)] + rng.standard_normal((3000, 2))
    rows = np.vstack([X, [[1.0, far]]])
    with pytest.warns(UserWarning, match="1 row clipped: column 1 is .*, too far from the center for a phase: rescale"):
        sketch = skl.design(X[:1000], n_components=2).sketch(rows)
    assert sketch.clipped == 1
    found = skl.SketchKMeans(2, random_state=0).fit_sketch(sketch).cluster_centers_
    assert np.allclose(np.sort(found[:, 0]), [0.0, 9.0], atol=0.2)
    with pytest.warns(UserWarning, match="1 row clipped"):
        sketch = skl.design(X[:1000], n_components=2, rows=100).sketch(rows)
    with pytest.raises(ValueError, match=r"in a sampled row, column 1 is .*, too far from the center for a phase"):
        skl.SketchKMeans(2, random_state=0).fit_sketch(sketch)


@pytest.mark.parametrize(
    ("operator", "row", "message"),
    [
        (QUADRATIC, [4.0, 4.0], r"5.656854\d+ from the center, beyond the bound 5.0"),
        (MOMENTS, [5.0000001, 0.0], "column 0 is 5.0000001, beyond the bound 5.0"),
        (MOMENTS, [0.0, 5.1], "row 0, column 1 is 5.1, beyond the bound 5.0: declare a larger bound"),
        (skl.features.concatenate([OPERATOR, MOMENTS]), [0.0, 5.1], "row 0, column 1 is 5.1, beyond the bound 5.0"),
    ],
)
def test_rows_outside_the_domain(operator, row, message):
    with pytest.raises(ValueError, match=message):
        operator.sketch([row])
    with pytest.raises(ValueError, match=message):
        operator.features([row])


@pytest.mark.parametrize(
    ("weights", "kind", "message"),
    [
        ([1.0, -1.0], ValueError, "sample_weight of row 1 is -1.0: weights must be finite and not negative"),
        ([1.0, np.inf], ValueError, "sample_weight of row 1 is inf"),
        ([np.nan, 1.0], ValueError, "sample_weight of row 0 is nan"),
        ([1.0], ValueError, r"sample_weight has shape \(1,\), but there are 2 rows"),
        ([[1.0], [1.0]], ValueError, r"sample_weight has shape \(2, 1\)"),
        (["a", "b"], TypeError, "sample_weight must be numbers"),
        ([1.0, 1e-6], ValueError, r"row 1 is 1e-06, which rounds to zero in steps of 2\^-16"),
    ],
)
def test_weights(weights, kind, message):
    with pytest.raises(kind, match=message):
        OPERATOR.sketch([[1.0, 2.0], [3.0, 4.0]], sample_weight=weights)


def test_weights_of_a_stream():
    with pytest.raises(ValueError, match="sample_weight needs an array of rows"):
        OPERATOR.sketch(iter([np.ones((1, 2))]), sample_weight=[1.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(0.0), "scale must be a positive number, not 0.0"),
        (lambda: Gaussian("a"), "scale must be a positive number"),
        (lambda: skl.features.frequencies.AdaptedRadius(1.0, "k"), "variant must be"),
        (lambda: Weighted(1.0, n_components=1), "n_components must be a whole number from 2"),
        (lambda: Mixture(()), "a list of 1 to 1000"),
        (lambda: Mixture(Gaussian(1.0)), "a list of 1 to 1000"),
        (lambda: Mixture((Gaussian(1.0), Gaussian(2.0)), shares=(1e308, 1e308)), "the sum of all shares"),
        (lambda: skl.features.frequencies.AdaptedRadius(1.0, variant=[]), "variant must be"),
        (lambda: skl.features.frequencies.AdaptedRadius(1.0, variant=np.array("mixture")), "variant must be"),
        (lambda: Mixture([Gaussian(1.0)] * 1001), "a list of 1 to 1000"),
        (lambda: Gaussian(10**5000), "scale must be a positive number, not a very large int"),
        (lambda: FourierSeries((("0.3",),)), "complex numbers"),
        (lambda: FourierSeries(((0.2, 0), ())), "complex numbers"),
        (lambda: FourierSeries(((0.1j, 0.1j),)), "complex numbers"),
        (lambda: OPERATOR.sketch([[1.0, 2.0]], n_jobs=np.array([2, 3])), "n_jobs must be None or"),
        (lambda: OPERATOR.sketch([[1.0, 2.0]], sample_weight=[[1], [2, 3]]), "one number per row"),
        (lambda: skl.features.SecondMoments(2, bound=1e-10).sketch([[1e308, 1.0]]), "beyond the bound"),
        (lambda: QUADRATIC.sketch([[1e17, 1.0]]), "beyond the bound"),
        (lambda: Mixture((Gaussian(1.0),), shares=(1.0, 2.0)), "1 distributions but 2 shares"),
        (lambda: Mixture((Weighted(1.0),)), "cannot be part of a mixture"),
        (lambda: skl.features.FourierFeatures(0, 4, law=Gaussian(1.0)), "n_features must be a whole number from 1"),
        (lambda: skl.features.FourierFeatures(2, 4.5, law=Gaussian(1.0)), "n_frequencies must be a whole number"),
        (
            lambda: skl.features.FourierFeatures(2, 4, law="gaussian"),
            "law must be one of sketchlearn.features.frequencies",
        ),
        (lambda: skl.features.FourierFeatures(2, 4, law=Gaussian(1.0), wave="sine"), "wave must be one of exponential"),
        (
            lambda: skl.features.FourierFeatures(2, 4, law=Gaussian(1.0), center=[1.0]),
            "center must be 2 finite numbers",
        ),
        (
            lambda: skl.features.FourierFeatures(2, 4, law=Gaussian(1.0), center=[1e39, 0]),
            "center must be 2 finite numbers",
        ),
        (
            lambda: skl.features.FourierFeatures(2, 4, law=Gaussian(1.0), center=["1", "2"]),
            "center must be 2 finite numbers",
        ),
        (
            lambda: skl.features.FourierFeatures(2, 4, law=Gaussian(1.0), center="mean"),
            "center must be 2 finite numbers",
        ),
        (
            lambda: skl.features.FourierFeatures(np.array(2.5), 4, law=Gaussian(1.0)),
            "n_features must be a whole number",
        ),
        (lambda: skl.features.FourierFeatures(2, 4, law=Gaussian(1.0), seed=-1), "seed must be a whole number from 0"),
        (lambda: skl.features.FourierFeatures(2, 4, law=Gaussian(1.0), subsample=3), "3 does not divide 4"),
        (lambda: skl.features.FourierFeatures(9, 4, law=Gaussian(1.0), structured=True, subsample=2), "block size 32"),
        (
            lambda: skl.features.FourierFeatures(2, 4, law=Gaussian(1e-30)).sketch([[0.0, 0.0]]),
            "the scale is too small",
        ),
        (
            lambda: skl.features.FourierFeatures(9, 4, law=Gaussian(1e-30), structured=True).digest,
            "the scale is too small",
        ),
        (lambda: skl.features.FourierFeatures(2, 4, law=Gaussian(1.0), structured=True), "need at least 8 columns"),
        (lambda: skl.features.QuadraticFeatures(2, 4, bound=-1.0), "bound must be a positive number"),
        (lambda: skl.features.QuadraticFeatures(2, 4, bound=1e30).digest, "beyond what float32 projections hold"),
        (lambda: skl.features.SecondMoments(2, bound=[1.0]), "one for each of the 2 columns"),
        (lambda: skl.features.SecondMoments(2, bound="a"), "bound"),
        (lambda: skl.features.SecondMoments(4, bound=[[1, 2], [3, 4]]), "bound must be one positive number"),
        (lambda: skl.features.SecondMoments(2, bound=[1, True]), "bound must be a positive number, not True"),
        (lambda: skl.features.SecondMoments(2, bound=1e200), "products of two values would overflow"),
        (lambda: skl.features.SecondMoments(2, bound=10**400), "bound must be a positive number"),
        (lambda: skl.features.concatenate([]), "at least one operator"),
        (lambda: skl.features.concatenate(OPERATOR), "takes a list of at least one operator"),
        (lambda: skl.features.waves.Square(complex=2), "complex must be True or False"),
        (
            lambda: skl.features.concatenate([MOMENTS, skl.features.SecondMoments(3, bound=1.0)]),
            r"numbers of columns \(2 and 3\)",
        ),
        (lambda: FourierSeries((0.6,)), "could exceed 1: divide the coefficients by 1.2"),
        (lambda: FourierSeries(()), "1 to 16 finite numbers"),
        (lambda: FourierSeries(("a",)), "complex numbers"),
        (lambda: OPERATOR.sketch([[1.0, 2.0]], n_jobs=0), "n_jobs must be None or a whole number other than 0"),
    ],
)
def test_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_numpy_scalars_are_numbers():
    operator = skl.features.FourierFeatures(np.int64(9), np.uint8(4), law=Gaussian(np.float32(2)), structured=np.True_)
    assert operator == skl.features.FourierFeatures(9, 4, law=Gaussian(2.0), structured=True)
    assert skl.extend.Operator.from_json(operator.to_json()) == operator
    assert (
        skl.features.SecondMoments(2, bound=np.float32(5))
        == MOMENTS
        == skl.features.SecondMoments(2, bound=np.array([5, 5]))
    )
    assert skl.features.waves.Square(complex=np.True_) == skl.features.waves.Square()


def test_masked_weights_are_refused():
    with pytest.raises(TypeError, match="masked sample weights"):
        OPERATOR.sketch(np.ones((2, 2)), sample_weight=np.ma.ones(2))


def test_rows_whose_phases_are_noise_get_a_warning():
    with pytest.warns(
        UserWarning, match=r"the rows lie about 2,400,000,000 from the center.*set center near their mean"
    ):
        OPERATOR.sketch(np.full((10, 2), 1.7e9))
    OPERATOR.sketch(np.full((10, 2), 1e5))


def test_names_of_values_are_not_taken_twice():
    with pytest.raises(TypeError, match="there is a Gaussian already"):
        type("Gaussian", (skl.features.frequencies.Law,), {"__module__": "elsewhere"})
