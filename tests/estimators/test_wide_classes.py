"""Classes of rows with hundreds of columns, told apart in a few directions of a sample."""

import numpy as np
import pytest
from typer.testing import CliRunner

import sketchlearn as skl
from sketchlearn.cli.commands import app
from sketchlearn.estimators.classifier import ClassDirections
from sketchlearn.features import SecondMoments, SomeDirections


def classes(n=1500, d=120, seed=0):
    """Three classes whose means differ by little beside wide columns that say nothing, and in the width of some."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    inside = rng.standard_normal((n, 12)) * np.array([9, 9, 9, 9, 1, 1, 1, 1, 1, 1, 1, 1])
    inside[:, 4:8] *= np.array([0.5, 1.0, 2.0])[y][:, None]
    inside[:, 8] += 3 * y
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((d, 12)))[0]
    return (inside @ basis.T + 0.2 * rng.standard_normal((n, d)) + 50).astype(np.float32), y


X, Y = classes()
TEST, TEST_Y = classes(1000, seed=2)
MOMENTS = SecondMoments(3, bound=1.0)
FOUR = skl.features.Moments(4)


def sketched(rule="mixture", **options):
    return skl.SketchClassifier(rule, random_state=0, **options).fit(X, Y)


def test_many_columns_are_looked_at_in_directions():
    model = sketched()
    operator = model.sketch_.operator
    assert isinstance(operator, SomeDirections)
    assert operator.n_sums == operator.n_directions * (operator.n_directions + 3) / 2
    assert operator.origin.value == "sample"
    assert model.score(TEST, TEST_Y) > 0.9
    assert model.score(TEST, TEST_Y) > sketched(n_directions=None).score(TEST, TEST_Y)


def test_other_columns_count_as_before():
    few = skl.SketchClassifier("mixture").fit(X[:, :64], Y).sketch_.operator
    assert isinstance(few, SecondMoments)
    assert isinstance(sketched(n_directions=None).sketch_.operator, SecondMoments)
    assert isinstance(sketched(bounds=(-50, 150)).sketch_.operator, SecondMoments)
    chosen = skl.SketchClassifier("mixture", n_directions=5).fit(X[:, :20], Y).sketch_.operator
    assert chosen.n_directions == 5
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=[f"c{i}" for i in range(120)])
    encoded = skl.SketchClassifier("mixture", schema="auto").fit(table, Y).sketch_.operator
    assert isinstance(encoded, SecondMoments)


def test_means_that_differ_come_first():
    first, units = ClassDirections.of(X.astype(float), Y, 2, 0).best()
    np.testing.assert_allclose(first @ first.T, np.eye(2), atol=1e-5)
    places = TEST / units @ first[0]
    between = np.var([places[c == TEST_Y].mean() for c in range(3)])
    assert between > 2 * np.mean([places[c == TEST_Y].var() for c in range(3)])


def test_units_of_the_columns_do_not_matter():
    units = 10.0 ** np.random.default_rng(3).uniform(-4, 4, X.shape[1])
    model = skl.SketchClassifier("mixture", random_state=0).fit(X * units, Y)
    assert model.score(TEST * units, TEST_Y) > 0.9


def test_places_are_those_of_the_projection():
    operator = sketched(n_directions=7).sketch_.operator
    places = operator.mapped(TEST, 2)
    rounded = np.abs(operator.projection) @ np.array(operator.bound) * 2.0**-23  # half a step of each value
    assert np.all(np.abs(places - (TEST - operator.middle) @ operator.projection.T) < 0.51 + rounded)
    assert np.all(places == np.rint(places))
    assert np.array_equal(operator.mapped(TEST[5:6], 1), places[5:6])


@pytest.mark.parametrize("rule", ["mixture", "parzen", "kernel"])
def test_sketches_of_classes_add_up_and_travel(rule, tmp_path):
    model = sketched(rule, priors="shares")
    operator = model.sketch_.operator
    parts = {c: operator.sketch(X[:700][Y[:700] == c]) + operator.sketch(X[700:][Y[700:] == c]) for c in range(3)}
    for label, part in parts.items():
        assert part == model.sketches_[label]
        assert part - operator.sketch(X[:1]) + operator.sketch(X[:1]) == part
        part.save(tmp_path / f"{label}.sketch")
    loaded = {label: skl.load(tmp_path / f"{label}.sketch") for label in parts}
    again = skl.SketchClassifier(priors="shares").fit_sketch(loaded)
    assert again.rule_ == rule
    assert np.array_equal(again.predict_proba(TEST), model.predict_proba(TEST))
    skl.save(model, tmp_path / "model.json")
    restored = skl.load(tmp_path / "model.json")
    assert np.array_equal(restored.predict_proba(TEST), model.predict_proba(TEST))
    assert model.score(TEST, TEST_Y) > 0.8


def test_streams_are_designed_on_their_first_rows():
    stream = skl.SketchClassifier("mixture", random_state=0)
    for part in np.array_split(np.arange(len(X)), 3):
        stream.partial_fit(X[part], Y[part], classes=[0, 1, 2])
    assert isinstance(stream.sketch_.operator, SomeDirections)
    assert stream.score(TEST, TEST_Y) > 0.9


def test_values_far_beyond_the_sample_are_clipped_or_refused():
    operator = skl.design(X, task="moments", features=skl.features.Moments(4))
    far = X[:3].copy()
    far[1] = 1e9
    assert operator.sketch(far).count == 3
    assert operator.beyond(far).tolist() == [False, True, False]
    far[2, 7] = np.nan
    with pytest.raises(ValueError, match="row 2, column 7 is missing"):
        operator.sketch(far)


def test_private_classes_of_a_public_design():
    operator = skl.design(X, task="moments", features=skl.features.Moments(4))
    sketches = {c: operator.sketch(np.repeat(X[c == Y], 40, axis=0)) for c in range(3)}
    with pytest.raises(ValueError, match="assume_public_design"):
        skl.privatize(sketches[0], epsilon=1.0)
    options = {"epsilon": 10.0, "delta": 1e-6, "assume_public_design": True, "seed_for_tests_not_private": 0}
    private = {c: skl.privatize(sketch, **options) for c, sketch in sketches.items()}
    with pytest.warns(UserWarning, match="the noise of the private sketches hides the shape of 3 of 3 classes"):
        model = skl.SketchClassifier().fit_sketch(private, classes=[0, 1, 2])
    assert model.privacy_.epsilon == 10.0


def run(*arguments):
    found = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_directions_on_the_command_line(tmp_path):
    np.save(tmp_path / "all.npy", X)
    np.save(tmp_path / "test.npy", TEST)
    design = tmp_path / "design.json"
    run("design", tmp_path / "all.npy", "--task", "moments", "--directions", 12, "-o", design)
    assert "in 12 directions of 120 columns" in run("info", design)
    sketches = []
    for c in range(3):
        np.save(tmp_path / f"{c}.npy", X[c == Y])
        run("sketch", tmp_path / f"{c}.npy", "--design", design, "-o", tmp_path / f"{c}.sketch")
        sketches.append(f"{c}={tmp_path / f'{c}.sketch'}")
    run("fit", "classifier", *sketches, "-o", tmp_path / "model.json")
    labels = run("predict", tmp_path / "model.json", tmp_path / "test.npy").split()
    assert np.mean(np.array(labels, int) == TEST_Y) > 0.9


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: sketched(n_directions=0), "n_directions must be a whole number"),
        (lambda: sketched(n_directions="many"), "n_directions must be a whole number"),
        (lambda: sketched(n_directions=4, bounds=(0, 100)), "leave out features and bounds"),
        (lambda: skl.design(bounds=([0] * 99, [1] * 99), task="moments", features=FOUR), "leave out bounds and rows"),
        (lambda: skl.design(X, task="moments", features=FOUR, rows=10), "leave out bounds and rows"),
        (lambda: SomeDirections(2, inner_operator=MOMENTS, n_directions=2, directions="AAA=", shift=0, bound=1.0),
         "directions must be 2 x 2 whole numbers"),
        (lambda: SomeDirections(1, inner_operator=MOMENTS, n_directions=1, directions="AQA=", shift=0, bound=1.0),
         "inner_operator must take 1 columns without names"),
        (lambda: skl.SketchPCA(2).fit_sketch(skl.design(X, task="moments", features=skl.features.Moments(4)).sketch(X)),
         "needs a sketch of second moments"),
    ],
)  # fmt: skip
def test_what_directions_cannot_do_is_refused(act, message):
    with pytest.raises(ValueError, match=message):
        act()
