"""Pictures: really drawn, from sketches alone, with labels."""

import sys

import numpy as np
import pytest
from designs import fourier_design
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

import sketchlearn as skl

pytest.importorskip("matplotlib")
from matplotlib.image import imread
from matplotlib.patches import Ellipse

from sketchlearn.estimators.number_of_clusters import Basis, ClusterChoice
from sketchlearn.questions.density_maps import grid_of, heights_of, heights_on, view_of
from sketchlearn.views.pictures import _model, plot_changes, plot_choice, plot_comparison, plot_marginal, plot_model

CENTERS = np.array([[0, 0, 0, 0], [8, 0, 2, 0], [0, 8, -2, 0]])
NAMES = ("age", "income", "height", "visits")


def blobs(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return CENTERS[rng.integers(0, 3, n), :d] + rng.standard_normal((n, d))


def sketches(d, wave="exponential", shift=0.0):
    law = fourier_design(blobs(2000, d), n_components=3, features=skl.features.Fourier(wave=wave)).law
    operator = skl.features.FourierFeatures(d, 30 * d, law=law, wave=wave, columns=NAMES[:d])
    return operator.sketch(blobs(4000, d, 1)), operator.sketch(blobs(4000, d, 2) + shift)


def check_drawn(figure, path):
    pixels = imread(path)[..., :3]
    assert pixels.shape[0] > 500
    assert len(np.unique((pixels * 255).astype(int).reshape(-1, 3), axis=0)) > 20
    assert np.mean(np.all(pixels > 0.99, axis=2)) < 0.95
    for axes in figure.axes:
        assert axes.get_ylabel()
        assert axes.get_xlabel() or axes.get_label() == "<colorbar>"


def ellipses(figure):
    """Those of the clusters: black ones are of the centers' errors."""
    found = [patch for patch in figure.axes[0].patches if isinstance(patch, Ellipse)]
    return [patch for patch in found if any(patch.get_edgecolor()[:3])]


@pytest.mark.parametrize(("d", "wave"), [(1, "exponential"), (2, "square"), (4, "exponential")])
def test_clusters(d, wave, tmp_path):
    sketch = sketches(d, wave)[0]
    fitted = skl.SketchKMeans(3, random_state=0).fit_sketch(sketch)
    figure = plot_model(sketch, fitted, tmp_path / "clusters.png")
    check_drawn(figure, tmp_path / "clusters.png")
    axes = figure.axes[0]
    assert axes.get_title() == "3 clusters, from the sketch of 4,000 records"
    assert len(ellipses(figure)) == (0 if d == 1 else 6)
    if d <= 2:
        assert axes.get_xlabel() == "age"
        marks = axes.collections[-1].get_offsets()[:, 0]
        assert np.allclose(sorted(marks), sorted(fitted.cluster_centers_[:, 0]))
    else:
        assert any(name in axes.get_xlabel() + axes.get_ylabel() for name in NAMES[:3])
        assert "visits" not in axes.get_xlabel()


def test_ellipses_are_the_clusters_own():
    sketch = sketches(2)[0]
    fitted = skl.SketchKMeans(3, random_state=0).fit_sketch(sketch)
    inner = ellipses(plot_model(sketch, fitted))[:3]
    assert all(0.8 < patch.width / 2 < 1.3 and 0.7 < patch.height / 2 < 1.2 for patch in inner)


def test_mixture_and_bare_sketch(tmp_path):
    sketch = sketches(2)[0]
    mixture = skl.SketchGaussianMixture(3, covariance_type="diag", random_state=0).fit_sketch(sketch)
    figure = plot_model(sketch, mixture, tmp_path / "mixture.png")
    assert "3 components" in figure.axes[0].get_title()
    assert len(ellipses(figure)) == 6
    check_drawn(plot_model(sketch, None, tmp_path / "bare.png"), tmp_path / "bare.png")


@pytest.mark.parametrize(
    ("d", "shift"),
    [
        pytest.param(1, 0.5, marks=pytest.mark.slow),
        (2, 0.5),
        *(pytest.param(4, s, marks=pytest.mark.slow) for s in (0.0, 0.5)),
    ],
)
def test_comparison(d, shift, tmp_path):
    a, b = sketches(d, shift=np.eye(d)[0] * shift)
    figure = plot_comparison(a, b, tmp_path / "comparison.png")
    check_drawn(figure, tmp_path / "comparison.png")
    assert ("differ (" in figure.get_suptitle()) == bool(shift)
    if shift:
        assert "age" in figure.axes[0].get_xlabel()


def test_one_bit_comparison():
    assert plot_comparison(*sketches(2, "square")).axes[1].get_xscale() == "log"


@pytest.mark.parametrize("ending", ["svg", "pdf"])
def test_formats(ending, tmp_path):
    path = tmp_path / f"picture.{ending}"
    plot_model(sketches(2)[0], None, path)
    assert path.read_bytes()[:5] in (b"<?xml", b"%PDF-")


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'sketchlearn\[plot\]'"):
        plot_model(sketches(2)[0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plot_model(sketches(2)[0], None, "picture.bmp"), ValueError, "end it in .png, .svg, .pdf"),
        (lambda: plot_comparison(*sketches(2), "picture"), ValueError, "end it in .png, .svg, .pdf"),
        (lambda: plot_model(blobs(10, 2)), TypeError, "not ndarray"),
        (lambda: plot_model(sketches(2)[0], PCA()), TypeError, "not PCA"),
        (lambda: plot_model(sketches(2)[0], skl.SketchKMeans(2)), NotFittedError, "no sketch yet"),
        (
            lambda: plot_model(sketches(1)[0], skl.SketchKMeans(2, random_state=0).fit(blobs(500, 2))),
            ValueError,
            "different numbers of columns",
        ),
        (lambda: plot_model(skl.features.SecondMoments(2, bound=99.0).sketch(blobs(9, 2))), ValueError, "Fourier"),
        (lambda: plot_comparison(sketches(2)[0], sketches(1)[0]), ValueError, "cannot compare"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_histograms_and_streams_are_drawn(tmp_path):
    rng = np.random.default_rng(0)
    days = [rng.standard_normal((400, 2)) + (2.0 if day == 2 else 0.0) for day in range(3)]
    operator, detector = skl.design(days[0], n_components=1), skl.ChangeDetector()
    sketches = [operator.sketch(day) for day in days]
    for sketch in sketches:
        detector.update(sketch)
    figure = plot_changes(detector.changes, tmp_path / "stream.png")
    assert figure.axes[0].get_title() == "1 change in 3 sketches"
    figure = plot_marginal(skl.Questions(sketches[0]).marginal(1), tmp_path / "column.svg")
    assert figure.axes[0].get_xlabel() == "column 1"
    assert {path.name for path in tmp_path.iterdir()} == {"stream.png", "column.svg"}


@pytest.mark.parametrize("basis", list(Basis))
def test_choice(basis, tmp_path):
    of_rows = () if basis in (Basis.GAUSSIANS, Basis.HIDDEN) else (0.4, 0.3)
    choice = ClusterChoice(
        *(2, 3, basis, 1, 2, 1.0, "diag", (900.0, 0.0, 30.0), (40.0, 0.0, 5.0)), *(of_rows, of_rows, of_rows)
    )
    figure = plot_choice(choice, tmp_path / "choice.png")
    check_drawn(figure, tmp_path / "choice.png")
    assert len(figure.axes) == (3 if of_rows else 1)
    assert figure.get_suptitle().startswith("2 clusters")


def test_the_density_is_that_of_the_records():
    """Uniform rows are drawn flat, and not as one hill for each cluster."""
    X = np.random.default_rng(0).uniform(size=(20_000, 2))
    plain, sampled = skl.design(X, n_components=4), skl.design(X, n_components=4, rows=2000)
    for operator, source in ((plain, "the sketch's frequencies"), (sampled, "the sketch's frequencies")):
        sketch = operator.sketch(X)
        fitted = skl.SketchKMeans(4, random_state=0).fit_sketch(sketch)
        density, parts = _model(sketch, fitted)
        view = view_of(np.eye(2), np.zeros(2), np.eye(2), ("a", "b"))
        grid = grid_of(view, parts.centers, parts.covariances)
        found, model = heights_of(sketch, view, grid, density, parts), heights_on(view, density, grid)
        assert found.source == source
        inside = np.all((grid.points > 0.1) & (grid.points < 0.9), axis=1)
        assert np.std(found.values[inside]) < 0.15 < np.std(model[inside])
        assert np.sum(found.values) * grid.cell == pytest.approx(1, abs=0.05)


def test_methods_draw_and_report(tmp_path):
    fitted = skl.SketchKMeans(3, random_state=0).fit(blobs(2000, 4))
    figure = fitted.plot(tmp_path / "clusters.png")
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert "share of the records inside; density of all rows" in labels
    assert "standard deviations from the average of all records" in labels
    assert (tmp_path / "clusters.png").exists()
    assert "wide heat" in fitted.report(tmp_path / "page.html")
    mixture = skl.SketchGaussianMixture(3, random_state=0).fit(blobs(2000, 2))
    assert mixture.plot().axes[0].get_title().startswith("3 components")


def test_a_density_of_the_model_says_so():
    X = blobs(3000, 4)
    fitted = skl.SketchKMeans(3, random_state=0, features=skl.features.Fourier()).fit(X)
    figure = plot_model(fitted.sketch_, fitted)
    assert any("density of the fitted model, not of the records" in axes.get_ylabel() for axes in figure.axes)
