"""Stable laws: their densities are SciPy's, and mixtures of them are found whatever their tails and coordinates."""

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import levy_stable

import sketchlearn as skl
from sketchlearn.inference.distributions import FrequencySet, IndependentStable, Mixture, SymmetricStable
from sketchlearn.inference.em import stable_log_density

LIGHT = np.array([0.6, 0.3, 0.1])
EVEN = np.full(3, 1 / 3)
MODELS = {"elliptical": SymmetricStable(), "independent": IndependentStable()}
stable_models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def rows_of(coordinates="elliptical", *, columns=2, alpha=1.5, weights=EVEN, n=30_000, seed=0, apart=8.0):
    """Rows of three components on the diagonal of unlike scales, and the mixture they come from."""
    locations = apart * np.arange(3.0)[:, None] * np.resize([1.0, -1.0], columns) / np.sqrt(columns)
    shapes = np.column_stack([np.outer([1.0, 0.5, 1.5], np.ones(columns)), np.full(3, alpha)])
    mixture = Mixture(MODELS[coordinates], weights, locations, shapes)
    return mixture.sample(n, np.random.default_rng(seed))[0], mixture


@pytest.fixture(scope="module")
def independent():
    return skl.SketchStableMixture(3, random_state=0).fit(rows_of("independent", n=20_000)[0])


@pytest.mark.parametrize("alpha", [0.6, 0.8, 1.1, 1.5, 1.9, 1.98])
def test_densities_are_those_of_scipy(alpha):
    x = np.concatenate([[0.0], np.geomspace(0.05, 1e4, 12)])
    true = levy_stable.logpdf(x, alpha, 0, scale=np.sqrt(0.5))
    np.testing.assert_allclose(stable_log_density(x, 1, alpha), true, atol=3e-4)


@pytest.mark.parametrize("columns", [1, 3, 10])
def test_the_density_of_cauchy_laws_is_known(columns):
    r = np.concatenate([[0.0], np.geomspace(0.01, 1e12, 20)])
    power = (1 + columns) / 2
    scale = 0.5 * columns * np.log(2)
    true = gammaln(power) - power * np.log(np.pi) + scale - power * np.log1p(2 * r**2)
    np.testing.assert_allclose(stable_log_density(r, columns, 1.0), true, atol=1e-4)


def test_independent_coordinates_have_densities_that_multiply(independent):
    fitted = independent
    assert fitted.coordinates_ == "independent"
    at = np.array([[0.0, 0.0], [5.0, -5.0], [60.0, 1.0]])
    parts = zip(fitted.weights_, fitted.means_, fitted.scales_, fitted.alphas_, strict=True)
    true = sum(w * levy_stable.pdf(at, a, 0, c, s * np.sqrt(0.5)).prod(axis=1) for w, c, s, a in parts)
    np.testing.assert_allclose(fitted.score_samples(at), np.log(true), atol=1e-3)


@stable_models
def test_steps_are_derivatives_of_exponents(model):
    rng = np.random.default_rng(0)
    shapes = np.column_stack([rng.uniform(0.5, 2, (2, 3)), [1.2, 1.7]])
    frequencies = FrequencySet(rng.normal(size=(20, 3)))
    steps = model.steps(shapes, frequencies)
    for i in range(4):
        step = 1e-2 * np.eye(4)[i] * np.ones((2, 1))
        change = model.exponents(model.moved(shapes, step), frequencies) - model.exponents(
            model.moved(shapes, -step), frequencies
        )
        np.testing.assert_allclose(steps[:, :, i], change / 2e-2, atol=2e-3)
    np.testing.assert_allclose(model.deviations(model.moved(shapes, step), shapes), step, atol=1e-12)


@stable_models
def test_alpha_is_kept_in_other_units(model):
    _, mixture = rows_of()
    scaled = model.scaled(mixture.shapes, np.array([3.0, 0.1]))
    np.testing.assert_allclose(scaled / mixture.shapes, [[9.0, 0.01, 1.0]] * 3)


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        ({}, {}),
        ({"columns": 1, "alpha": 1.0, "weights": LIGHT}, {}),
        ({"columns": 4, "alpha": 1.1, "coordinates": "independent"}, {}),
        ({"weights": LIGHT, "apart": 60.0}, {}),
        ({"alpha": 1.9}, {}),
        ({}, {"features": skl.features.Fourier(wave="square")}),
    ],
)
def test_mixtures_are_found(problem, options):
    rows, true = rows_of(**problem)
    fitted = skl.SketchStableMixture(3, random_state=0, **options).fit(rows)
    order = np.argsort(fitted.means_[:, 0])
    assert np.max(np.abs(fitted.means_[order] - true.locations)) < 0.12
    assert np.max(np.abs(fitted.alphas_[order] - true.shapes[:, -1])) < 0.15
    assert np.max(np.abs(fitted.scales_[order] ** 2 / true.shapes[:, :-1] - 1)) < 0.2
    assert np.max(np.abs(fitted.weights_[order] - true.weights)) < 0.02
    assert fitted.fit_p_value_ > 0.001
    if problem.get("columns", 2) > 1:
        assert fitted.coordinates_ == problem.get("coordinates", "elliptical")


def test_streams_are_learned_from():
    rows, true = rows_of()
    fitted = skl.SketchStableMixture(3, random_state=0)
    for batch in np.array_split(rows, 10):
        fitted.partial_fit(batch)
    assert np.max(np.abs(np.sort(fitted.means_[:, 0]) - true.locations[:, 0])) < 0.1


def test_heavy_tails_cost_nothing_in_a_private_release():
    rows, true = rows_of(n=100_000)
    far = np.concatenate([rows, [[1e6, -1e6]]])
    operator = skl.design(bounds=(-30, [30, 30]), n_components=3, task="stable", n_rows=100_000, epsilon=1.0)
    private = skl.privatize(operator.sketch(far), epsilon=1.0)
    fitted = skl.SketchStableMixture(3, random_state=0).fit_sketch(private)
    assert np.max(np.abs(np.sort(fitted.means_[:, 0]) - true.locations[:, 0])) < 0.15


@pytest.mark.slow
def test_other_laws_are_told():
    rng = np.random.default_rng(0)
    rows = rng.exponential(size=(20_000, 2)) + 9 * rng.integers(0, 2, (20_000, 1))
    with pytest.warns(UserWarning, match="2 stable distributions does not fit"):
        fitted = skl.SketchStableMixture(2, random_state=0).fit(rows)
    assert fitted.fit_test_ > 2
    assert fitted.fit_p_value_ < 1e-6
    assert fitted.outcome_.status.name != "EXPLAINED"


def test_the_kind_of_coordinates_is_saved(independent, tmp_path):
    fitted, (rows, _) = independent, rows_of(n=50)
    skl.save(fitted, tmp_path / "model.json")
    again = skl.load(tmp_path / "model.json")
    assert (again.coordinates_, again.fit_test_) == (fitted.coordinates_, fitted.fit_test_)
    np.testing.assert_allclose(again.score_samples(rows), fitted.score_samples(rows))
    text = (tmp_path / "model.json").read_text().replace('"independent"', '"odd"')
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(skl.FormatError, match="coordinates must be one of"):
        skl.load(tmp_path / "odd.json")
