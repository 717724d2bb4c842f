"""Schemas in every task: rows of a table with text, dates and gaps, the same from files, streams and model files."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sketchlearn as skl
from sketchlearn.estimators.registry import OWN_ESTIMATORS
from sketchlearn.rows.schemas.columns import Category, Date, Flag, Number
from sketchlearn.rows.schemas.table_schema import SchemaColumns

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
    pytest.mark.filterwarnings("ignore:.*(may be Gaussian|directions in which):UserWarning"),
]
SCHEMA = skl.Schema(
    [
        Number("age", scaling="standard", center=45.0, width=18.0),
        Number("income", scaling="log", center=9.5, width=0.7, missing="indicate"),
        Category("country", ["FR", "DE"], weight=1.4),
        Flag("member", weight=2.0),
        Date("since", center=17_000.0, width=300.0),
    ]
)


def customers(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    income = np.exp(rng.normal(np.array([9.5, 10.5, 9.0])[group], 0.3)).round(2)
    income[rng.random(n) < 0.05] = np.nan
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 500, n) + 700 * group, "D")
    country = np.where(rng.random(n) < 0.8, np.array(["FR", "DE", "FR"])[group], "DE")
    age = np.array([25.0, 45.0, 70.0])[group] + rng.normal(0, 4, n)
    frame = pd.DataFrame(
        {
            "note": "x",
            "since": days.strftime("%Y-%m-%d"),
            "country": country,
            "member": np.where(rng.random(n) < np.array([0.1, 0.9, 0.5])[group], "yes", "no"),
            "age": age.round(1),
            "income": income,
        }
    )
    spent = 3 * frame["age"] + 20 * (frame["country"] == "FR") + rng.normal(0, 1, n)
    return frame.assign(spent=spent.round(3), kind=np.array(["student", "parent", "retired"])[group])


FRAME = customers()
X, SPENT, KIND = FRAME.drop(columns=["spent", "kind"]), FRAME["spent"], FRAME["kind"]
ESTIMATORS = {
    "kmeans": (skl.SketchKMeans(3, random_state=0), None),
    "kmedians": (skl.SketchKMedians(3, random_state=0), None),
    "gmm": (skl.SketchGaussianMixture(3, covariance_type="diag", random_state=0), None),
    "stable": (skl.SketchStableMixture(3, random_state=0), None),
    "pca": (skl.SketchPCA(3), None),
    "ica": (skl.SketchICA(2, random_state=0), None),
    "subspaces": (skl.SketchSubspaces(2, 2, random_state=0), None),
    "regression": (skl.SketchLinearRegression(), SPENT),
    "ridge": (skl.SketchRidge(2.0), SPENT),
    "kernel": (skl.SketchKernelRegressor(n_frequencies=30, random_state=0), SPENT),
    "classifier": (skl.SketchClassifier(random_state=0), KIND),
    "generator": (
        skl.SketchGenerator(max_iter=2, batch_size=20, features=skl.features.Fourier(n_frequencies=20), random_state=0),
        None,
    ),
}
SLOW = ("stable", "subspaces", "generator")  # with many columns


def test_every_task_is_tried():
    assert ESTIMATORS.keys() == {task.name for task in OWN_ESTIMATORS.values()}


def answers(model, table):
    """Predictions or coordinates; a generator has none."""
    name = next((name for name in ("predict", "transform") if hasattr(model, name)), None)
    return None if name is None else np.asarray(getattr(model, name)(table))


@pytest.mark.parametrize("task", ESTIMATORS)
def test_every_task_takes_a_schema(task, tmp_path):
    estimator, target = ESTIMATORS[task]
    schema = skl.Schema(SCHEMA.columns[3:]) if task in SLOW else SCHEMA
    fitted = estimator.set_params(schema=schema).fit(X, target)
    assert isinstance(fitted.columns_, SchemaColumns)
    assert fitted.n_features_in_ == len(schema.encoded_names)
    assert list(fitted.feature_names_in_) == list(schema.encoded_names)
    assert fitted.n_records_ == len(X)
    skl.save(fitted, tmp_path / "model")
    loaded = skl.load(tmp_path / "model")
    assert loaded.columns_ == fitted.columns_
    assert loaded.get_params() == fitted.get_params()
    assert repr(loaded) == repr(fitted)
    expected = answers(fitted, X)
    if expected is None:
        return
    assert len(expected) == len(X)
    encoded = np.concatenate([block.rows for block in skl.source(X, schema=schema).blocks()])
    for model in (fitted, loaded):
        for table in (X, X[X.columns[::-1]], pl.from_pandas(X), encoded):
            found = answers(model, table)
            if found.dtype.kind == "f":
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
            else:
                assert np.array_equal(found, expected)
        with pytest.raises(ValueError, match="has no column 'since'"):
            answers(model, X.drop(columns="since"))


def test_coefficients_have_the_names_of_the_numbers():
    fitted = skl.SketchLinearRegression(schema=SCHEMA).fit(X, SPENT)
    by_name = dict(zip(fitted.feature_names_in_, fitted.coef_, strict=True))
    assert by_name["age"] / 18 == pytest.approx(3, rel=0.01)
    assert (by_name["country=FR"] - by_name["country=DE"]) * 1.4 == pytest.approx(20, rel=0.02)
    assert fitted.score(X, SPENT) == pytest.approx(fitted.r2_, abs=1e-6)
    assert list(skl.SketchPCA(2, schema=SCHEMA).fit(X).get_feature_names_out()) == ["sketchpca0", "sketchpca1"]


WAYS = {
    "arrays": lambda model, frame, _: model.fit(frame.drop(columns=["spent", "kind"]), frame[model.goal]),
    "by name": lambda model, frame, _: model.fit(frame, model.goal),
    "polars": lambda model, frame, _: model.fit(pl.from_pandas(frame), model.goal),
    "a file": lambda model, frame, path: model.fit(frame.to_csv(path, index=False) or path, model.goal),
    "a stream": lambda model, frame, _: [
        model.partial_fit(part.drop(columns=["spent", "kind"]), part[model.goal]) for part in (frame[:9], frame[9:])
    ][-1],
    "a stream by name": lambda model, frame, _: [
        model.partial_fit(part, model.goal) for part in (frame[:1000], frame[1000:])
    ][-1],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("goal", ["spent", "kind"])
def test_targets_come_beside_the_features_or_among_them(goal, way, tmp_path):
    regression = goal == "spent"
    model = skl.SketchRidge(schema=SCHEMA) if regression else skl.SketchClassifier("mixture", schema=SCHEMA)
    model.goal = goal
    WAYS[way](model, FRAME, tmp_path / "customers.csv")
    assert model.n_records_ == len(FRAME)
    assert model.columns_ == SchemaColumns(SCHEMA)
    if regression:
        assert model.score(X, SPENT) > 0.99
        assert SPENT.min() - 20 < model.predict(X).mean() < SPENT.max() + 20
    else:
        assert list(model.classes_) == ["parent", "retired", "student"]
        assert model.score(X, KIND) > 0.97


def test_rows_that_the_schema_drops_have_no_target_and_no_weight():
    frame = FRAME.astype({"age": object})
    gone = [3, 4, 500]
    frame.loc[gone, "age"] = None
    weights = np.arange(len(frame)) % 3
    kept = frame.drop(index=gone)
    for goal, model in (
        ("spent", skl.SketchRidge(schema=SCHEMA)),
        ("kind", skl.SketchClassifier("mixture", schema=SCHEMA)),
    ):
        with pytest.warns(UserWarning, match="3 rows have missing values in a column where the schema drops such rows"):
            one = model.fit(frame, frame[goal], sample_weight=weights)
        count, answer = one.n_records_, answers(one, X)
        other = model.fit(kept, kept[goal], sample_weight=np.delete(weights, gone))
        assert count == other.n_records_ == np.delete(weights, gone).sum()
        if goal == "spent":
            np.testing.assert_allclose(answer, answers(other, X), rtol=1e-6)
        else:
            assert np.mean(answer == answers(other, X)) > 0.999


def test_a_proposal_leaves_the_target_as_it_is():
    model = skl.SketchRidge(schema="auto").fit(FRAME, "spent")
    assert "spent" not in model.columns_.schema.names
    assert model.predict(FRAME).std() == pytest.approx(SPENT.std(), rel=0.01)
    labels = skl.SketchClassifier("mixture", schema="auto").fit(FRAME, "kind")
    assert "kind" not in labels.columns_.schema.names
    assert set(labels.predict(FRAME)) == set(KIND)
    numbered = FRAME.assign(kind=FRAME["kind"].factorize()[0])
    assert skl.SketchClassifier("mixture", schema="auto").fit(numbered, "kind").classes_.tolist() == [0, 1, 2]


def test_sketches_of_a_design_with_a_schema():
    """A target that the schema standardises comes back in the table's own unit; one that it cannot is refused."""
    operator = skl.design(FRAME.drop(columns="kind"), task="moments", schema="auto")
    model = skl.SketchRidge(1e-6).fit_sketch(operator.sketch(FRAME), targets="spent")
    plain = skl.SketchRidge(1e-6, schema="auto").fit(FRAME.drop(columns="kind"), "spent")
    np.testing.assert_allclose(model.predict(FRAME), plain.predict(FRAME), rtol=1e-4)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-3, atol=1e-3)
    errors = plain.standard_errors_  # of a sketch that keeps no rows they are classical ones
    with_rows = skl.SketchRidge(1e-6).fit_sketch(plain.sketch_with_rows(), targets="spent")
    for name, error in with_rows.standard_errors_.items():
        np.testing.assert_allclose(error, errors[name], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(model.standard_errors_["coef_"], errors["coef_"], rtol=0.3, atol=1e-3)
    for target, message in {
        "country": "'country' is a category",
        "country=FR": "no column 'country=FR'",
        "income": "'income' .*logarithm",
        "member": "'member' .*boolean",
    }.items():
        with pytest.raises(ValueError, match=message):
            skl.SketchRidge().fit_sketch(skl.design(X, task="moments", schema=SCHEMA).sketch(X), targets=target)
    features = skl.design(X, task="moments", schema=SCHEMA)
    parts = {kind: features.sketch(rows) for kind, rows in X.groupby(KIND)}
    found = skl.SketchClassifier().fit_sketch(parts)
    assert found.columns_ == SchemaColumns(SCHEMA)
    assert found.score(X, KIND) > 0.97


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: skl.SketchPCA(schema="auto").partial_fit(X), "infer scales and categories from the first rows only"),
        (lambda: skl.SketchPCA(schema=SCHEMA).fit(np.zeros((5, 2))), "these rows have none"),
        (lambda: skl.SketchPCA(schema=SCHEMA).fit(skl.source(np.zeros((5, 2)))), "these rows have none"),
        (lambda: skl.SketchRidge(schema=SCHEMA).fit([FRAME], [1]), "y must name columns of the table"),
        (lambda: skl.SketchRidge(schema=SCHEMA).fit(FRAME, "price"), "no column 'price'"),
        (lambda: skl.SketchRidge(schema=skl.Schema([Number("age")])).fit(FRAME, "age"), "all columns are targets"),
        (lambda: skl.SketchClassifier(schema=SCHEMA).fit(FRAME, "note"), "one class"),
        (lambda: skl.SketchPCA(schema="best").fit(X), 'must be a Schema, or "auto"'),
    ],
)
def test_what_makes_no_sense_is_refused(fit, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fit()


def test_coordinates_lead_back_into_the_tables_terms():
    pca = skl.SketchPCA(schema=SCHEMA).fit(X)  # as many components as numbers: nothing is lost
    back = pca.inverse_transform(pca.transform(X))
    assert isinstance(back, pd.DataFrame)
    assert list(back.columns) == list(SCHEMA.names)
    encoded = [np.concatenate([b.rows for b in skl.source(table, schema=SCHEMA).blocks()]) for table in (X, back)]
    np.testing.assert_allclose(*encoded, atol=0.02)
    assert skl.SketchPCA(2).fit(encoded[0]).inverse_transform(np.zeros((1, 2))).shape == (1, encoded[0].shape[1])
