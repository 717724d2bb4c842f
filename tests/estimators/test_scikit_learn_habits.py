"""What users of scikit-learn expect without reading: weights, sparse matrices, names, routing, short reprs."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sketchlearn as skl
from sketchlearn.estimators.registry import OWN_ESTIMATORS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*may be Gaussian")


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    rows = np.array([[0, 0, 0], [9, 1, 4.0]])[labels] + rng.laplace(size=(n, 3))
    return np.where(rng.random((n, 3)) < 0.3, 0.0, rows), labels, rng.integers(0, 4, n)


X, LABELS, WEIGHTS = table()
TARGET = X @ [1.0, -2.0, 0.5] + LABELS
ESTIMATORS = {
    "SketchKMeans": (skl.SketchKMeans(2, random_state=0), None),
    "SketchKMedians": (skl.SketchKMedians(2, random_state=0), None),
    "SketchGaussianMixture": (skl.SketchGaussianMixture(2, random_state=0), None),
    "SketchStableMixture": (skl.SketchStableMixture(2, random_state=0), None),
    "SketchGenerator": (
        skl.SketchGenerator(max_iter=2, batch_size=20, features=skl.features.Fourier(n_frequencies=20), random_state=0),
        None,
    ),
    "SketchPCA": (skl.SketchPCA(2, random_state=0), None),
    "SketchICA": (skl.SketchICA(2, random_state=0), None),
    "SketchSubspaces": (skl.SketchSubspaces(2, 1, random_state=0), None),
    "SketchLinearRegression": (skl.SketchLinearRegression(random_state=0), TARGET),
    "SketchRidge": (skl.SketchRidge(random_state=0), TARGET),
    "SketchKernelRegressor": (skl.SketchKernelRegressor(n_frequencies=20, random_state=0), TARGET),
    "SketchClassifier": (skl.SketchClassifier(random_state=0), LABELS),
}
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def fresh(name):
    estimator, y = ESTIMATORS[name]
    return clone(estimator), y


def repeated(values, weights=WEIGHTS):
    return None if values is None else np.repeat(values, weights, axis=0)


def assert_alike(one, other):
    """The same sketch to the bit, and the same model."""
    assert one.sketch_ == other.sketch_
    for name in ("predict", "transform"):
        if hasattr(one, name):
            assert np.array_equal(getattr(one, name)(X), getattr(other, name)(X))
    assert one.fitted_model() == other.fitted_model()


def test_every_task_is_tried():
    assert ESTIMATORS.keys() == OWN_ESTIMATORS.keys()


@every_estimator
def test_whole_weights_are_repeated_rows(name):
    (one, y), (other, _) = fresh(name), fresh(name)
    one.fit(X, y, sample_weight=WEIGHTS)
    other.fit(repeated(X), repeated(y))
    assert one.n_records_ == WEIGHTS.sum()
    assert_alike(one, other)


@every_estimator
def test_whole_weights_of_batches_are_repeated_rows(name):
    (one, y), (other, _) = fresh(name), fresh(name)
    for batch in np.array_split(np.arange(len(X)), 3):
        own = None if y is None else y[batch]
        one.partial_fit(X[batch], own, sample_weight=WEIGHTS[batch])
        other.partial_fit(repeated(X[batch], WEIGHTS[batch]), repeated(own, WEIGHTS[batch]))
    assert_alike(one, other)


@pytest.mark.parametrize("name", ["SketchKMeans", "SketchPCA", "SketchRidge", "SketchClassifier"])
@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_whole_weights_are_repeated_rows_where_a_sample_is_drawn(name, way):
    """The rows that the operator is designed on are those of the repeated table, and so are rows that are kept."""
    rows, labels, _ = table(4000, 1)
    weights = np.random.default_rng(2).integers(0, 5, len(rows))
    y = {"SketchRidge": rows[:, 0], "SketchClassifier": labels}.get(name)
    one, other = fresh(name)[0], fresh(name)[0]
    getattr(one, way)(rows, y, sample_weight=weights)
    getattr(other, way)(repeated(rows, weights), repeated(y, weights))
    assert one.n_records_ > 5000
    assert_alike(one, other)


def test_heavy_rows_take_no_memory():
    weights = np.where(np.arange(len(X)) == 7, 10**9, WEIGHTS)
    fitted = skl.SketchPCA(1).fit(X, sample_weight=weights)
    np.testing.assert_allclose(fitted.mean_, X[7], atol=1e-4)
    stream = skl.SketchKMeans(2, random_state=0).partial_fit(X, sample_weight=weights)
    assert stream.sketch_.count == weights.sum()


def test_fractions_count_as_much_as_they_say():
    weights = np.random.default_rng(0).random(len(X)) + 0.1
    own, other = skl.SketchRidge().fit(X, TARGET, weights), Ridge().fit(X, TARGET, weights)
    np.testing.assert_allclose(own.coef_, other.coef_, rtol=1e-3)
    fitted = skl.SketchKMeans(2, random_state=0).fit(X, sample_weight=weights)
    assert fitted.sketch_ == fitted.sketch_.operator.sketch(X, sample_weight=weights)
    assert np.array_equal(fitted.labels_, fitted.predict(X))
    share = weights[fitted.labels_ == 0].sum() / weights.sum()
    assert abs(fitted.weights_[0] - share) < 1e-3
    rows, *_ = table(8000, 1)  # more than the operator is designed on
    weights = np.random.default_rng(1).random(len(rows))
    assert abs(skl.SketchKMeans(2, random_state=0).fit(rows, sample_weight=weights).n_records_ - weights.sum()) < 0.1


@pytest.mark.parametrize("scale", [1e-6, 1 / 3, 1e9])
def test_the_scale_of_weights_does_not_matter(scale, tmp_path):
    weights = np.random.default_rng(0).random(len(X)) + 0.1
    one, other = (skl.SketchKMeans(2, random_state=0).fit(X, sample_weight=f * weights) for f in (1, scale))
    np.testing.assert_allclose(one.cluster_centers_, other.cluster_centers_, rtol=1e-5, atol=1e-5)
    costs = np.min(one.transform(X), axis=1) ** 2
    assert one.inertia_ == pytest.approx(weights @ costs, rel=1e-4)
    assert other.inertia_ == pytest.approx(scale * one.inertia_, rel=1e-4)
    skl.save(other, tmp_path / "model.json")
    assert skl.load(tmp_path / "model.json").inertia_ == pytest.approx(other.inertia_, rel=1e-9)
    both = other.partial_fit(X, sample_weight=scale * weights)
    np.testing.assert_allclose(both.weights_, one.weights_, atol=0.02)


def test_many_fractional_weights_have_room():
    rows = np.random.default_rng(0).standard_normal((200_000, 2))
    weights = np.random.default_rng(1).random(len(rows))
    fitted = skl.SketchKMeans(2, random_state=0, n_passes=1).fit(rows, sample_weight=weights)
    assert fitted.inertia_ == pytest.approx(weights @ np.min(fitted.transform(rows), axis=1) ** 2, rel=1e-3)


def test_single_precision_stays():
    fitted = skl.SketchKMeans(2, random_state=0).fit(X.astype(np.float32))
    assert fitted.cluster_centers_.dtype == fitted.transform(X.astype(np.float32)).dtype == np.float32
    assert fitted.transform(X).dtype == np.float64
    assert skl.SketchKMeans(2, random_state=0).fit(X).cluster_centers_.dtype == np.float64


def test_looking_at_attributes_computes_nothing():
    fitted = skl.SketchKMeans(2, random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert {"standard_errors_", "inertia_", "plot", "predict"} <= set(dir(fitted))
    assert fitted._state.error_bars is None


def test_passes_are_counted():
    rows = np.random.default_rng(0).uniform(size=(60_000, 2))
    assert skl.SketchKMeans(5, random_state=0, n_passes=1).fit(rows).n_iter_ == 1
    assert 1 < skl.SketchKMeans(5, random_state=0, n_passes=3).fit(rows).n_iter_ <= 3


@pytest.mark.parametrize("value", [1e300, 1e31, -1e40])
def test_huge_values_are_refused_by_row_and_column(value):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fitted = skl.SketchKMeans(2, random_state=0).fit(frame)
    frame.loc[5, "b"] = value
    for call in (skl.SketchKMeans(2).fit, fitted.predict, fitted.transform):
        with pytest.raises(ValueError, match=r"row 5, column 'b' is .* too large for single precision"):
            call(frame)
    frame.loc[5, "b"] = -1e19
    with pytest.raises(ValueError, match=r"row 5, column 'b' is -1e\+19: .* too large for float32 rows"):
        fitted.predict(frame.astype(np.float32))
    frame.loc[5, "b"] = np.nan
    with pytest.raises(ValueError, match="row 5, column 'b' is missing"):
        fitted.predict(frame)


def test_columns_are_found_by_name():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fitted = skl.SketchKMeans(2, random_state=0).fit(frame)
    operator, other = fitted.design(frame), frame[["c", "a", "b"]].assign(more=1)
    assert operator.sketch(other) == operator.sketch(frame)
    assert np.array_equal(fitted.predict(other), fitted.predict(frame))


def test_standardized_rows_of_length_one_are_refused():
    wide = np.random.default_rng(0).standard_normal((500, 80))
    features = skl.features.Cells(normalize=True)
    with pytest.raises(ValueError, match="standardize cannot go with normalize"):
        skl.SketchKMeans(2, standardize=True, features=features).fit(wide)


def test_constant_rows_have_no_negative_inertia():
    for value in (3.3, 1e5, 0.0):
        rows = np.full((500, 2), value)
        fitted = skl.SketchKMeans(1, random_state=0).fit(rows)
        assert fitted.inertia_ == 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant columns have no phases
            sketch = skl.design(rows, n_components=1).sketch(rows)
            assert (fitted.fit_sketch(sketch).inertia_ or 0) >= 0


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(len(X)), "all sample weights are zero"),
        (-np.ones(len(X)), "finite and not negative"),
        (np.ones(3), "sample_weight has shape"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        skl.SketchKMeans(2).fit(X, sample_weight=weights)
    with pytest.raises(ValueError, match="rows whose number is known"):
        skl.SketchKMeans(2).fit(iter([X]), sample_weight=WEIGHTS)


def test_rows_of_weight_zero_are_not_looked_at():
    """Moments have bounds that all rows set: one far away, of weight zero, would cost precision."""
    rows, weights = X.copy(), np.ones(len(X), int)
    rows[5], weights[5] = 1e12, 0
    assert_alike(skl.SketchPCA(2).fit(rows, sample_weight=weights), skl.SketchPCA(2).fit(np.delete(rows, 5, axis=0)))


def test_weights_go_with_tables_of_all_kinds(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    frame = pd.DataFrame(X, columns=list("abc"))
    for rows in (frame, pl.from_pandas(frame), pl.from_pandas(frame).to_arrow(), tmp_path / "rows.npy"):
        fitted = skl.SketchKMeans(2, random_state=0).fit(rows, sample_weight=pd.Series(WEIGHTS))
        assert fitted.n_records_ == WEIGHTS.sum()


@every_estimator
def test_sparse_matrices_are_what_dense_ones_are(name):
    (one, y), (other, _) = fresh(name), fresh(name)
    sparse = scipy.sparse.coo_array(X)
    assert_alike(one.fit(sparse, y), other.fit(X, y))
    for method in ("predict", "transform", "score_samples", "predict_proba", "score"):
        if hasattr(one, method):
            given = (y,) if method == "score" and y is not None else ()
            np.testing.assert_allclose(getattr(one, method)(sparse, *given), getattr(other, method)(X, *given))
    if hasattr(one, "labels_"):
        assert np.array_equal(one.labels_, other.labels_)
    stream, _ = fresh(name)
    assert stream.partial_fit(sparse, y, sample_weight=WEIGHTS).n_records_ == WEIGHTS.sum()


def test_sparse_features_are_what_dense_ones_are():
    features = skl.PeriodicFeatures(20, random_state=0).fit(scipy.sparse.csr_matrix(X))
    assert np.array_equal(features.transform(scipy.sparse.csr_matrix(X)), features.transform(X))


def test_memory_does_not_grow_with_the_rows_of_sparse_matrices():
    """As an array this one has 320 MB."""
    n, rng = 800_000, np.random.default_rng(0)
    rows = scipy.sparse.csr_array((rng.random(n), (np.arange(n), rng.integers(0, 50, n))), (n, 50))
    tracemalloc.start()
    try:
        fitted = skl.SketchLinearRegression().fit(rows, rng.random(n))
        fitted.predict(rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 160e6


@every_estimator
def test_weights_are_routed(name):
    estimator, y = fresh(name)
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, estimator.set_fit_request(sample_weight=True))
        pipeline.fit(X, y, sample_weight=WEIGHTS)
        estimator.set_partial_fit_request(sample_weight=True)
    assert pipeline[-1].n_records_ == WEIGHTS.sum()


@every_estimator
def test_outputs_of_transformers_have_names(name):
    estimator, y = fresh(name)
    if hasattr(estimator, "transform"):
        estimator.set_output(transform="pandas").fit(X, y)
        found = estimator.transform(X).columns.tolist()
        assert found == list(estimator.get_feature_names_out())
        assert found[:2] == [f"{name.lower()}{i}" for i in range(2)]


def people():
    return pd.DataFrame(X, columns=["height", "weight", "age"])


TEXT = people().assign(name=[f"Zoë {i}" for i in range(len(X))])
GAP = people().drop(index=17).reindex(range(len(X)))
DATES = people().assign(born=pd.Timestamp("2020-01-01"))
REFUSED = {
    "text": (TEXT, "column 'name' is text, not numbers ('Zoë 0' in row 0): turn it into numbers"),
    "text of pandas": (TEXT, "or leave it out: X.drop(columns='name')"),
    "text of polars": (pl.from_pandas(TEXT), "or leave it out: X.drop('name')"),
    "categories": (TEXT.astype({"name": "category"}), "column 'name' is text, not numbers ('Zoë 0' in row 0)"),
    "text of arrays": (TEXT.to_numpy(), "column 3 is text, not numbers ('Zoë 0' in row 0)"),
    "text of lists": ([[1.0, "a"], [2.0, "b"]], "column 1 is text, not numbers ('a' in row 0)"),
    "dates": (DATES, "column 'born' is dates, not numbers: turn it into numbers, such as days"),
    "gap": (GAP, "row 17, column 'height' is missing (NaN): fill it"),
    "gap of arrays": (GAP.to_numpy(), "row 17, column 0 is missing (NaN): fill it"),
    "gap of nullable columns": (GAP.convert_dtypes(), "row 17, column 'height' is missing (NaN): fill it"),
    "None": ([[1.0, None], [2.0, 3.0]], "row 0, column 1 is missing (NaN)"),
    "infinity": (people().replace({"age": {X[3, 2]: np.inf}}), "column 'age' is inf (infinity)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_number_is_refused_by_name(case):
    rows, message = REFUSED[case]
    for estimator in (skl.SketchKMeans(2), skl.SketchPCA(), skl.PeriodicFeatures()):
        with pytest.raises((TypeError, ValueError)) as refused:
            estimator.fit(rows)
        assert message in str(refused.value)


def test_the_remedy_for_gaps_works():
    assert skl.SketchKMeans(2, random_state=0).fit(skl.source(GAP, nulls="drop")).n_records_ == len(X) - 1


def test_targets_that_are_text_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"y is text, not numbers: .*SketchClassifier"):
        skl.SketchRidge().fit(X, TEXT["name"])


def test_reprs_are_short_and_names_are_public():
    fitted = skl.SketchKMeans(2, random_state=0).fit(X)
    assert repr(fitted.outcome_).startswith("<Outcome: 2 components, misfit")
    assert len(repr(fitted.outcome_)) < 200
    assert fitted.n_iter_ == fitted.outcome_.iterations
    assert skl.SketchGaussianMixture(2, decoder="ompr", random_state=0).fit(X).n_iter_ > 0
    assert [name for name in dir(skl) if name.startswith("_")] == ["__version__"]
    assert all(hasattr(skl, name) for name in dir(skl))
