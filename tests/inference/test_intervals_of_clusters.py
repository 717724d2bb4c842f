"""Standard errors and intervals of clusters and mixtures: slopes by differences, coverage, files, what is withheld."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import sketchlearn as skl
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import derivatives
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import DiagonalGaussian, FullGaussian, Mixture, StretchedGaussian, TiedGaussian
from sketchlearn.inference.em import log_likelihoods
from sketchlearn.inference.errors.clusters import CellBorders as Cells
from sketchlearn.inference.errors.influence import UndeterminedError
from sketchlearn.inference.errors.mixtures import Steps, scores_and_information

pytestmark = pytest.mark.slow

MEANS = np.array([[0.0, 0.0], [4.0, 1.0]])
SHARES = np.array([0.6, 0.4])


def rows_of(seed, n=3000):
    rng = np.random.default_rng(seed)
    return MEANS[(rng.random(n) > SHARES[0]).astype(int)] + rng.standard_normal((n, 2))


def designed(m=60, wave="exponential", **options):
    waves = skl.features.Fourier(n_frequencies=m, wave=wave)
    return skl.design(rows_of(999), n_components=2, features=waves, seed=3, **options)


def alone(operator):
    """The Fourier features of a design, without histograms."""
    return operator.parts[0]


WAVES = alone(designed())


def test_cells_follow_the_law_as_differences_say():
    # x uniform on [0, 3], one column: centers of two cells at 3/4 and 9/4; a record at x moves them by K^-1 (x - c)
    rows = (np.arange(30_000)[:, None] + 0.5) / 10_000
    centers = np.array([[0.75], [2.25]])
    cells = Cells.of(rows, np.full(len(rows), 1 / len(rows)), centers, 0.3)
    density, half = 1 / 3, 0.75
    border = density * half * half / 1.5
    stiffness = np.array([[0.5 - border, -border], [-border, 0.5 - border]])
    np.testing.assert_allclose(cells.follow, np.linalg.inv(stiffness), rtol=0.05)
    np.testing.assert_allclose(cells.share_slopes, density / 2 * np.array([[1, 1], [-1, -1]]), rtol=0.05)


def test_centers_that_slide_have_no_errors():
    angles = np.linspace(0, 2 * np.pi, 5000, endpoint=False)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    centers = np.array([[2 / np.pi, 0.0], [-2 / np.pi, 0.0]])
    with pytest.raises(UndeterminedError, match="poorly determined"):
        Cells.of(ring, np.full(len(ring), 1 / len(ring)), centers, 0.1)


MIXTURES = {
    "diag": Mixture(DiagonalGaussian(), SHARES, MEANS, np.array([[1.0, 2.0], [0.5, 1.0]])),
    "full": Mixture(FullGaussian(), SHARES, MEANS, np.array([[1.0, 0, 0.5, 1.0], [0.7, 0, -0.2, 1.0]])),
    "tied": Mixture(TiedGaussian(), SHARES, MEANS, np.array([[1.0, 0, 0.5, 1.0]])),
    "stretched": Mixture(StretchedGaussian(), SHARES, MEANS, np.array([[1.0, 2, 0.5, 1], [0.5, 1, 0.3, 0.2]])),
}


def moved(mixture, steps, step):
    """The mixture after a small step along all coordinates."""
    q, own = steps.n_shape, mixture.model.moved
    shapes = np.stack([step[steps.places(row)[2]] for row in range(len(mixture.shapes))]) if q else mixture.shapes
    places = [steps.places(component) for component in range(len(mixture))]
    locations = [factor @ step[place] for factor, (_, place, _) in zip(steps.factors, places, strict=True)]
    weights = mixture.weights * np.exp([step[first] for first, _, _ in places])
    return replace(
        mixture, weights=weights, locations=mixture.locations + locations, shapes=own(mixture.shapes, shapes)
    )


@pytest.mark.parametrize("kind", MIXTURES)
def test_scores_and_information_are_those_of_differences(kind):
    mixture, rng = MIXTURES[kind], np.random.default_rng(0)
    steps = Steps.of(mixture)
    rows = mixture.sample(400, rng)[0]
    weights = np.full(len(rows), 1 / len(rows))
    scores, information = scores_and_information(steps, mixture, rows, weights)

    def slope(step):
        ends = (log_likelihoods(rows, moved(mixture, steps, sign * 1e-4 * step)) for sign in (1, -1))
        return (next(ends) - next(ends)) / 2e-4

    for coordinate in np.eye(steps.n_coordinates):
        np.testing.assert_allclose(scores @ coordinate, slope(coordinate), atol=2e-5)
    assert np.all(np.linalg.eigvalsh(information) > 0) or kind == "stretched"
    changes = derivatives(Target.of(WAVES.sketch(rows)).some(slice(0, 5)), mixture)
    assert changes.shape == (10, steps.n_coordinates)


def test_gradients_of_attributes_are_those_of_differences():
    mixture = MIXTURES["full"]
    steps, unit, step = Steps.of(mixture), np.array([2.0, 3.0]), np.zeros(Steps.of(mixture).n_coordinates)
    of_covariances, of_means, of_weights = (
        steps.covariance_gradients(unit), steps.mean_gradients(unit), steps.weight_gradients()
    )  # fmt: skip
    for coordinate in range(len(step)):
        ends = [moved(mixture, steps, sign * 1e-5 * np.eye(len(step))[coordinate]) for sign in (1, -1)]
        change = (ends[0].covariances() - ends[1].covariances()) / 2e-5 * np.outer(unit, unit)
        np.testing.assert_allclose(of_covariances[..., coordinate], change, atol=1e-6)
        change = (ends[0].locations - ends[1].locations) / 2e-5 * unit
        np.testing.assert_allclose(of_means[..., coordinate], change, atol=1e-6)
        shares = [end.weights / end.weights.sum() for end in ends]
        np.testing.assert_allclose(of_weights[:, coordinate], (shares[0] - shares[1]) / 2e-5, atol=1e-6)


def released(X, seed):
    operator = skl.design(bounds=([-10, -10], [10, 10]), n_components=2, n_rows=len(X), epsilon=3.0, seed=seed)
    return skl.privatize(operator.sketch(X), epsilon=3.0, seed_for_tests_not_private=seed)


WAYS = {
    "exact": lambda X: WAVES.sketch(X),
    "one-bit": lambda X: alone(designed(wave="square")).sketch(X),
    "subsampled": lambda X: replace(WAVES, subsample=20).sketch(X),
    "rows": lambda X: designed(rows=300).sketch(X),
}


@pytest.mark.parametrize("way", WAYS)
def test_intervals_of_centers_and_shares_hold_the_truth(way):
    # centers of these clusters are their means to 0.01, a tenth of an error; each draw tells four numbers and one share
    held = []
    for seed in range(8):
        model = skl.SketchKMeans(2, random_state=seed).fit_sketch(WAYS[way](rows_of(seed)))
        if model.error_bars().withheld:  # chance leaves more of the sketch than a mixture may
            continue
        for name, truth in (("cluster_centers_", MEANS), ("weights_", SHARES)):
            low, high = model.intervals()[name]
            held += ((low <= truth) & (truth <= high)).ravel()[: 4 if truth.ndim > 1 else 1].tolist()
    assert len(held) >= 20
    # a true coverage of 95 % gives fewer with a chance below 1e-4
    assert sum(held) >= binom.ppf(1e-4, len(held), 0.95)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_errors_of_mixtures_have_their_shapes_and_sizes(kind):
    X = rows_of(1, 10_000)
    for operator in (
        skl.design(X, n_components=2, task="mixture-full", features=skl.features.Fourier(n_frequencies=100)),
        None,
    ):
        model = skl.SketchGaussianMixture(2, covariance_type=kind, random_state=0)
        model = model.fit(X) if operator is None else model.fit_sketch(operator.sketch(X))
        errors, n = model.standard_errors_, len(X) * SHARES
        assert {name: e.shape for name, e in errors.items()} == {
            name: getattr(model, name).shape for name in ("weights_", "means_", "covariances_")
        }
        np.testing.assert_allclose(errors["means_"], 1 / np.sqrt(n)[:, None] * np.ones((2, 2)), rtol=0.25)
        own = errors["covariances_"]
        own = np.diagonal(own, axis1=-2, axis2=-1) if kind in ("full", "tied") else own
        known = {"tied": np.sqrt(2 / len(X)), "spherical": 1 / np.sqrt(n)}.get(kind, np.sqrt(2 / n)[:, None])
        np.testing.assert_allclose(own, known * np.ones_like(own), rtol=0.35)


def test_a_known_covariance_has_no_error():
    model = skl.SketchGaussianMixture(2, covariance_type="known", covariance=np.eye(2), random_state=0)
    errors = model.fit_sketch(
        skl.design(rows_of(0), n_components=2, task="mixture").sketch(rows_of(0))
    ).standard_errors_
    assert np.all(errors["covariances_"] == 0)
    assert np.all(errors["means_"] > 0)


def test_saved_and_pickled_models_have_the_same_errors(tmp_path):
    sketch = WAVES.sketch(rows_of(0))
    for model in (
        skl.SketchKMeans(2, random_state=0).fit_sketch(sketch),
        skl.SketchGaussianMixture(2, covariance_type="diag", random_state=0).fit_sketch(sketch),
        skl.SketchKMeans(2, random_state=0).fit(rows_of(1)),
    ):
        skl.save(model, tmp_path / "model.json")
        for other in (skl.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(model))):
            assert other.standard_errors_.keys() == model.standard_errors_.keys()
            for name, errors in model.standard_errors_.items():
                np.testing.assert_array_equal(other.standard_errors_[name], errors)
        document = json.loads((tmp_path / "model.json").read_text())
        del document["error_bars"]
        (tmp_path / "older.json").write_text(json.dumps(document))
        with pytest.warns(UserWarning, match="because the model's file was written before"):
            assert skl.load(tmp_path / "older.json").standard_errors_ == {}


def uniform_rows(n=20_000):
    return np.random.default_rng(0).uniform(0, 1, (n, 2)) ** 2


def test_errors_are_withheld_with_the_remedy():
    plain = alone(skl.design(uniform_rows(), n_components=4, seed=0)).sketch(uniform_rows())
    few = alone(designed(m=12)).sketch(rows_of(0))
    given = skl.SketchKMeans(4, random_state=0).fit_sketch(plain, sample=uniform_rows()[:500])
    assert "keep rows in the sketch" in given.error_bars().withheld
    for model, remedy in (
        (skl.SketchKMeans(4, random_state=0), r"keep rows beside it, with design\(\.\.\., rows=500\)"),
        (skl.SketchKMedians(4, random_state=0), "learn k-means instead"),
        (skl.SketchKMeans(2, random_state=0), "with more frequencies"),
    ):
        model.fit_sketch(few if model._n_components == 2 else plain)
        with pytest.warns(UserWarning, match=remedy):
            assert model.standard_errors_ == {}
    with pytest.raises(ValueError, match="between 0 and 1"):
        given.intervals(level=95)


def test_rows_of_any_law_have_errors():
    operator = skl.design(uniform_rows(), n_components=4, seed=0, rows=1000)
    model = skl.SketchKMeans(4, random_state=0).fit_sketch(operator.sketch(uniform_rows()))
    whole = skl.SketchKMeans(4, features=skl.features.Fourier(), random_state=0).fit(uniform_rows()[:4000])
    assert whole.outcome_.status.name == "ALL_ROWS"
    ratio = whole.standard_errors_["cluster_centers_"] / model.standard_errors_["cluster_centers_"]
    # 1000 rows alone would err twice as much as 4000, 20,000 records less than half as much
    assert 0.5 < np.median(ratio) < 2.2


def test_a_weight_of_two_is_two_records():
    X = rows_of(0, 2000)
    once = skl.SketchKMeans(2, random_state=0).fit(X, sample_weight=np.full(len(X), 2))
    twice = skl.SketchKMeans(2, random_state=0).fit(np.concatenate([X, X]))
    for name, errors in once.standard_errors_.items():
        np.testing.assert_allclose(errors, twice.standard_errors_[name], rtol=0.02)


def test_rows_of_one_unit_count_as_one_record():
    import pandas as pd

    table = pd.DataFrame(rows_of(0), columns=["a", "b"]).assign(who=np.arange(3000) // 3)
    operator = WAVES.with_columns(("a", "b"))
    plain, by_unit = operator.sketch(table[["a", "b"]]), operator.sketch(table, unit="who", rows_per_unit=3)
    errors = [skl.SketchKMeans(2, random_state=0).fit_sketch(s).standard_errors_["weights_"] for s in (plain, by_unit)]
    np.testing.assert_allclose(errors[1], np.sqrt(3) * errors[0], rtol=1e-6)


def test_private_noise_is_counted():
    exact = skl.design(bounds=([-10, -10], [10, 10]), n_components=2, n_rows=3000, epsilon=3.0, seed=1)
    sketch = exact.sketch(rows_of(0))
    plain = skl.SketchKMeans(2, random_state=0).fit_sketch(sketch)
    noisy = skl.SketchKMeans(2, random_state=0).fit_sketch(released(rows_of(0), 1))
    for model in (plain, noisy):
        assert model.outcome_.status.name == "EXPLAINED", model.outcome_
    assert np.all(noisy.standard_errors_["cluster_centers_"] > 1.2 * plain.standard_errors_["cluster_centers_"])


def test_pictures_and_problems_agree_on_units():
    sketch = WAVES.sketch(rows_of(0))
    model = skl.SketchKMeans(2, random_state=0).fit_sketch(sketch)
    pytest.importorskip("matplotlib")
    from sketchlearn.views.pictures import plot_model

    labels = [text.get_text() for text in plot_model(sketch, model).legends[0].get_texts()]
    assert "95 % of the errors of centers" in labels
    assert Problem.of(Target.of(sketch), 2).plain.places.tolist() == list(range(WAVES.n_frequencies))


def test_bits_of_separated_clusters_are_explained_by_as_many_components():
    rng = np.random.default_rng(5)
    centers = 6 * rng.standard_normal((5, 5))
    X = centers[rng.integers(0, 5, 100_000)] + rng.standard_normal((100_000, 5))
    operator = skl.design(
        X[:5000], n_components=5, features=skl.features.Fourier(n_frequencies=250, wave="square"), seed=0
    )
    model = skl.SketchKMeans(5, random_state=0).fit_sketch(operator.sketch(X))
    assert len(model.outcome_.mixture) == 5
    assert set(model.standard_errors_) == {"cluster_centers_", "weights_"}
