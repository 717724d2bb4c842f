"""Why a fit is poor: size, scale, decoder, model."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from designs import fourier_design
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.inference.decoders.loop import Decoder, State, Status
from sketchlearn.inference.decoders.orthogonal_matching_pursuit import ClOmpr
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import Target
from sketchlearn.questions.density_maps import correlation
from sketchlearn.questions.explain import Explanation, Verdict, explain

pytestmark = pytest.mark.slow

N = 10_000
K, D = 5, 2


def blobs(k=K, d=D, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((k, d)) * 4
    return centers[rng.integers(0, k, N)] + rng.standard_normal((N, d))


def rings():
    rng = np.random.default_rng(0)
    angle, radius = rng.uniform(0, 2 * np.pi, N), np.where(rng.random(N) < 0.5, 1, 3)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) + 0.1 * rng.standard_normal((N, 2))


def squares(k=8, d=3):
    rng = np.random.default_rng(0)
    return rng.uniform(-5, 5, (k, d))[rng.integers(0, k, N)] + rng.uniform(-1, 1, (N, d))


def heavy_tails(k=5, d=2):
    rng = np.random.default_rng(0)
    return rng.uniform(-15, 15, (k, d))[rng.integers(0, k, N)] + rng.standard_t(2.5, (N, d))


def slanted(k=6, d=4):
    rng = np.random.default_rng(0)
    labels, factors = rng.integers(0, k, N), rng.standard_normal((k, d, d))
    noise = np.einsum("nij,nj->ni", factors[labels], rng.standard_normal((N, d)))
    return 6 * rng.standard_normal((k, d))[labels] + noise


class Lazy(Decoder):
    """Stops as soon as there are components."""

    def step(self, problem, state, rng):
        if len(state.mixture) >= problem.n_components:
            return State(state.mixture, state.cost, state.iterations, finished=True)
        at = rng.standard_normal((problem.n_components, problem.target.n_features)) * 0.1
        mixture = ClOmpr.grown(problem, problem.start, 1, rng)
        weights, locations = np.full(len(at), 1 / len(at)), np.concatenate([mixture.locations, at[1:]])
        mixture = type(mixture)(mixture.model, weights, locations, mixture.shapes)
        return State(mixture, problem.target.cost(mixture), 0)


def sketched(X, factor, k=K, m=None):
    """A sketch whose Gaussian law has so many times the scale that design chooses, and no probes."""
    d = X.shape[1]
    scale = float(fourier_design(X[:5000], n_components=k).law.widths(d).mean())
    operator = skl.features.FourierFeatures(
        d, m or 10 * k * d, law=Gaussian(factor * scale), center=X.mean(axis=0), seed=1
    )
    return operator.sketch(X)


@pytest.mark.parametrize(
    ("k", "d", "wave"), [(5, 2, "exponential"), (5, 2, "square"), (5, 2, "cosine"), (8, 4, "exponential"),
                         (3, 1, "exponential"), (1, 3, "exponential")],
)  # fmt: skip
@pytest.mark.parametrize("given", [False, True])
def test_good_fit(k, d, wave, given):
    X = blobs(k, d)
    explanation = explain(
        skl.SketchKMeans(k, features=skl.features.Fourier(wave=wave), random_state=0).fit(X), X if given else None
    )
    assert explanation.verdict is Verdict.FINE, str(explanation)
    assert ("risk_ratio" in explanation.figures) == given


@pytest.mark.parametrize(
    ("k", "d", "wave"), [(5, 2, "exponential"), (5, 2, "square"), (5, 2, "cosine"), (8, 4, "exponential"),
                         (3, 1, "exponential"), (1, 3, "exponential")],
)  # fmt: skip
@pytest.mark.parametrize("given", [False, True])
def test_good_fit_of_the_sketch_alone(k, d, wave, given):
    X = blobs(k, d)
    sketch = skl.design(X, n_components=k, features=skl.features.Fourier(wave=wave), seed=0).sketch(X)
    for explanation in (
        explain(skl.SketchKMeans(k, random_state=0).fit_sketch(sketch), X if given else None),
        explain(sketch, X if given else None, n_components=k),
    ):
        assert explanation.verdict is Verdict.FINE, str(explanation)


def test_distances_count_in_the_units_of_the_design():
    """One column's numbers are a thousand times as large: the centers are those of standardised columns."""
    X = blobs() * [1.0, 1000.0]
    fitted = skl.SketchKMeans(K, standardize=True, features=skl.features.Fourier(), random_state=0).fit(X)
    ratio = explain(fitted, X).figures["risk_ratio"]
    assert ratio == pytest.approx(1, abs=0.02)
    plain = skl.SketchKMeans(K, features=skl.features.Fourier(), random_state=0).fit(X / X.std(axis=0))
    own = explain(plain, X / X.std(axis=0)).figures["risk_ratio"]
    assert ratio == pytest.approx(own, rel=0.01)
    for explanation in (explain(fitted.sketch_, n_components=K), explain(fitted.sketch_, X, n_components=K)):
        assert explanation.verdict is Verdict.FINE, str(explanation)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("m", [K, K * D])
def test_too_few_frequencies(m, given):
    X = blobs()
    fitted = skl.SketchKMeans(K, features=skl.features.Fourier(n_frequencies=m), decoder="ompr", random_state=0).fit(X)
    explanation = explain(fitted, X if given else None)
    assert explanation.verdict is Verdict.SKETCH_TOO_SMALL, str(explanation)
    assert "100 frequencies" in str(explanation)
    with_rows = skl.SketchKMeans(K, features=skl.features.Fourier(n_frequencies=m), random_state=0).fit(X)
    assert explain(with_rows, X if given else None).verdict is Verdict.FINE  # rows make up for it


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(
    ("k", "d", "factor", "verdict"),
    [
        (5, 2, 1 / 20, Verdict.SCALE_TOO_SMALL),
        (8, 4, 1 / 10, Verdict.SCALE_TOO_SMALL),
        (8, 4, 8, Verdict.SCALE_TOO_LARGE),
        (5, 2, 30, Verdict.SCALE_TOO_LARGE),
    ],
)
def test_scale(factor, verdict, k, d, given):
    X = blobs(k, d)
    explanation = explain(sketched(X, factor, k), X[:2000] if given else None, n_components=k)
    assert explanation.verdict is verdict, str(explanation)
    if given:
        assert factor / 1.3 < explanation.figures["scale_ratio"] < factor * 1.3


# slanted: the misfit depends on the frequencies drawn, with seeds 0 to 2 2.9 (all but poor), 4.4 and 5.3
@pytest.mark.parametrize(
    ("rows", "k", "seed"), [(rings, 2, 0), (rings, 6, 0), (squares, 8, 0), (heavy_tails, 5, 0), (slanted, 6, 2)]
)
def test_other_shapes_are_not_the_decoders_fault(rows, k, seed):
    X = rows()
    fitted = skl.SketchKMeans(k, features=skl.features.Fourier(), random_state=seed).fit(X)
    assert explain(fitted).verdict is Verdict.FINE
    assert explain(fitted, X).verdict is Verdict.FINE
    if fitted.outcome_.status is Status.ROWS:
        assert "Nothing is wrong: fitted on a sample" in str(explain(fitted))
    explanation = explain(fitted.sketch_, n_components=k)
    assert explanation.verdict in (Verdict.MODEL, Verdict.FINE)
    assert (explanation.verdict is Verdict.MODEL) == ("can still be good" in str(explanation))
    if rows is slanted:
        assert explanation.verdict is Verdict.MODEL
        assert explanation.figures["misfit"] > 3
    assert explain(fitted.sketch_, X, n_components=k).verdict is Verdict.FINE


@pytest.mark.parametrize("given", [False, True])
def test_decoder(given):
    X = blobs()
    explanation = explain(skl.SketchKMeans(K, decoder=Lazy(), random_state=0).fit(X), X if given else None)
    assert explanation.verdict is Verdict.DECODER, str(explanation)


def test_small_box(monkeypatch):
    """The spread of the records can be misread: the search stalls at the edge of its region, and a wider one helps."""
    whole = Problem.of
    monkeypatch.setattr(Problem, "of", lambda *a: replace(p := whole(*a), spread=0.3 * p.spread))
    explanation = explain(skl.design(blobs(), n_components=K).sketch(blobs()), n_components=K)
    assert explanation.verdict is Verdict.DECODER, str(explanation)
    assert explanation.figures["best_misfit"] < 0.5 * explanation.figures["misfit"]


def test_same_again():
    sketch = sketched(blobs(), 1.0)
    first, second = (explain(sketch, n_components=K, random_state=3) for _ in range(2))
    assert first == second
    assert str(first) == " ".join(first.sentences)
    assert isinstance(first, Explanation)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_plot(d):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    X = blobs(3, d) * 100 + 1000
    fitted = skl.SketchKMeans(3, features=skl.features.Fourier(), random_state=0).fit(X)
    axes = explain(fitted).plot()
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    if d == 2:
        line = axes.get_lines()[0]
        assert np.allclose(line.get_xydata(), fitted.cluster_centers_)
    _, mine = pyplot.subplots()
    assert explain(fitted).plot(mine) is mine
    pyplot.close("all")


def test_landscape_peaks_at_clusters():
    X = blobs() * 10 + 100
    sketch = sketched(X, 1.0)
    points = np.array([X[0], X[0] + 1000])
    expected = [np.mean(np.real(np.conj(sketch.operator.features(p[None])[0]) * sketch.mean)) for p in points]
    assert np.allclose(correlation(Problem.of(Target.of(sketch), K), points), expected, atol=1e-3)


def test_plot_without_matplotlib(monkeypatch):
    explanation = explain(sketched(blobs(), 1.0), n_components=K)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'sketchlearn\[plot\]'"):
        explanation.plot()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: explain(skl.SketchKMeans(3)), NotFittedError, "SketchKMeans has no sketch yet: fit it first"),
        (lambda: explain(np.zeros((3, 2))), TypeError, "not ndarray"),
        (lambda: explain(PCA().fit(blobs())), TypeError, "not PCA"),
        (lambda: explain(sketched(blobs(), 1.0)), ValueError, "give explain n_components"),
        (lambda: explain(sketched(blobs(), 1.0), n_components=0), ValueError, "n_components"),
        (lambda: explain(sketched(blobs(), 1.0), np.zeros((100, 3)), n_components=K), ValueError, "3 columns"),
        (lambda: explain(sketched(blobs(), 1.0), np.zeros((3, 2)), n_components=K), ValueError, "at least 20"),
        (
            lambda: explain(skl.SketchKMeans(K, random_state=0).fit(blobs()), n_components=3),
            ValueError,
            "fitted with 5",
        ),
        (
            lambda: explain(skl.features.SecondMoments(2, bound=[100.0] * 2).sketch(blobs()), n_components=2),
            ValueError,
            "Fourier",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
