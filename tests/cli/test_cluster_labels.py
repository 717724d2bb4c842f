"""One number for each cluster: what `predict` returns is what tables, JSON, pictures, `info` and model files show."""

import json

import numpy as np
import pytest
from command_line import called, done
from sklearn.cluster import KMeans

import sketchlearn as skl
from sketchlearn.views.pictures import plot_model

CENTERS = np.array([[24_210.0, 30.0], [58_000.0, 45.0], [91_000.0, 60.0]])  # in the order of their shares
SPREAD = [1500.0, 2.0]
SIZES = [600, 1500, 900]  # of the rows around the third, the first and the second: not in that order


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of three clusters, its sketch, and a model of each kind."""
    folder = tmp_path_factory.mktemp("numbers")
    rng = np.random.default_rng(0)
    parts = zip((CENTERS[2], CENTERS[0], CENTERS[1]), SIZES, strict=True)
    rows = np.concatenate([center + rng.standard_normal((n, 2)) * SPREAD for center, n in parts])
    np.savetxt(folder / "rows.csv", rows, delimiter=",", header="income,age", comments="", fmt="%.3f")
    options = ["-k", 3, "--task", "mixture", "--rows", 500]
    done("sketch", "rows.csv", *options, "-o", "rows.sketch", cwd=folder)
    return folder


def shown(lines, word):
    """The rows of a table: number, share, records, and the center."""
    start = next(i for i, line in enumerate(lines) if line.split()[:1] == [word])
    assert lines[start].split() == [word, "share", "records", "income", "age"]
    rows = [line for line in lines[start + 1 :] if line.split()[:1] != ["error"]][:3]
    cells = [line.replace(",", "").replace("+-", "").split() for line in rows]
    values = [[float(cell) for cell in row] for row in cells]
    widths = len(values[0])
    return [(int(row[0]), row[1], row[2], [row[3], row[4 if widths == 5 else 5]]) for row in values]


@pytest.mark.parametrize(
    ("kind", "word"), [("kmeans", "cluster"), ("kmedians", "cluster"), ("gmm", "component"), ("stable", "component")]
)
def test_all_show_the_number_that_predict_returns(kind, word, folder, tmp_path):
    model = tmp_path / "model.json"
    told = done("fit", kind, "-k", 3, "rows.sketch", "-o", model, cwd=folder).stdout
    figures = json.loads(done("fit", kind, "-k", 3, "rows.sketch", "--json", cwd=folder).stdout)
    labels = np.array(done("predict", model, "rows.csv", cwd=folder).stdout.split(), int)
    true = np.repeat([2, 0, 1], SIZES)
    assert np.mean(labels == true) > 0.99

    saved = json.loads(model.read_text())
    learned = skl.load(model)
    for numbered in (figures[f"{word}s"], json.loads(done("info", model, "--json").stdout)[f"{word}s"]):
        assert [part["number"] for part in numbered] == [0, 1, 2]
        np.testing.assert_allclose([part["center"] for part in numbered], CENTERS, rtol=0.02)
        np.testing.assert_allclose([part["records"] for part in numbered], [1500, 900, 600], rtol=0.03)
        assert [part["share"] for part in numbered] == saved["weights"] == figures["weights"]
    np.testing.assert_allclose(saved["centers" if word == "cluster" else "means"], CENTERS, rtol=0.02)
    assert np.all(np.diff(learned.weights_) <= 0)

    for text in (told, done("info", model).stdout):
        for number, share, records, center in shown(text.splitlines(), word):
            np.testing.assert_allclose(center, CENTERS[number], rtol=0.02)
            assert abs(share - np.mean(labels == number)) < 0.02
            assert abs(records - np.sum(labels == number)) < 40

    if word == "component":
        lines = done("predict", model, "rows.csv", "--proba", cwd=folder).stdout.splitlines()
        likeliest = np.argmax(np.array([line.split(",") for line in lines[1:]], float), axis=1)
        np.testing.assert_array_equal(likeliest, labels)


@pytest.mark.parametrize("kind", [skl.SketchKMeans, skl.SketchGaussianMixture])
def test_python_and_pictures_show_it_too(kind, folder):
    rows = np.loadtxt(folder / "rows.csv", delimiter=",", skiprows=1)
    fitted = kind(3, random_state=0).fit(rows)
    labels = fitted.predict(rows)
    assert np.all(np.diff(fitted.weights_) <= 0)
    learned = fitted.fitted_model()
    np.testing.assert_allclose(learned.centers_of_parts, [rows[labels == i].mean(axis=0) for i in range(3)], rtol=0.02)
    np.testing.assert_allclose(learned.deviations_of_parts, [SPREAD] * 3, rtol=0.15)
    if kind is skl.SketchKMeans:
        np.testing.assert_array_equal(fitted.labels_, labels)
        np.testing.assert_array_equal(np.argmin(fitted.transform(rows), axis=1), labels)
    np.testing.assert_array_equal(skl.explain(fitted).centers, learned.centers_of_parts)
    axes = plot_model(fitted.sketch_, fitted).axes[0]
    marks = {int(text.get_text()): text.xy for text in axes.texts}
    assert sorted(marks) == [0, 1, 2]
    for number, place in marks.items():
        np.testing.assert_allclose(place, learned.centers_of_parts[number])
    frequencies = skl.design(rows, n_components=3, features=skl.features.Fourier(), seed=0).sketch(rows)
    assert not plot_model(frequencies).axes[0].texts


def test_models_of_earlier_versions_keep_their_numbers(folder, tmp_path):
    """Files that were written before are not sorted: their numbers are shown beside clusters sorted by share."""
    model = tmp_path / "model.json"
    done("fit", "kmeans", "-k", 3, "rows.sketch", "-o", model, cwd=folder)
    saved = json.loads(model.read_text())
    for name in ("weights", "centers"):
        saved[name] = [saved[name][i] for i in (1, 2, 0)]
    model.write_text(json.dumps(saved))
    rows = shown(done("info", model).stdout.splitlines(), "cluster")
    assert [row[0] for row in rows] == [2, 0, 1]
    assert called("predict", model, "-", input=b"24210,30\n").stdout == "2\n"


def test_numbers_are_written_as_people_write_them(folder):
    told = done("fit", "kmeans", "-k", 3, "rows.sketch", cwd=folder).stdout
    assert "24,2" in told
    for command in (["marginal", "rows.sketch", "income"], ["compare", "rows.sketch", "rows.sketch"]):
        told += done(*command, cwd=folder).stdout
    assert "e+" not in told
    assert "e-" not in told


def test_standardised_clusters_are_told_apart_in_standard_deviations(tmp_path):
    """Money in thousands decided alone: predict measured in the table's units what fit had measured in deviations."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 4000)
    rows = np.column_stack([rng.normal(50_000, 20_000, 4000), np.where(group, 60, 30) + rng.normal(0, 3, 4000)])
    model = skl.SketchKMeans(2, standardize=True, random_state=0).fit(rows)
    reference = KMeans(2, n_init=10, random_state=0).fit(rows / rows.std(axis=0))
    agreement = np.mean(model.labels_ == reference.labels_)
    assert max(agreement, 1 - agreement) > 0.98
    skl.save(model, tmp_path / "model.json")
    loaded = skl.load(tmp_path / "model.json")
    assert np.array_equal(loaded.predict(rows), model.labels_)
    assert np.array_equal(np.argmin(model.transform(rows), axis=1), model.labels_)
    assert np.allclose(np.bincount(model.labels_) / 4000, model.weights_, atol=0.03)
