"""Small files that ask for much work: refused before anything is drawn, or loaded at little cost."""

import json

import numpy as np
import pytest
from fuzz import fuzz

import sketchlearn as skl
from sketchlearn.core import containers as container
from sketchlearn.core import containers as strict_json
from sketchlearn.core import limits as loading_limit
from sketchlearn.core import randomness
from sketchlearn.core.containers import DESIGN, MODEL, to_document
from sketchlearn.core.limits import Cost
from sketchlearn.estimators.files import model_from_bytes, model_to_bytes
from sketchlearn.features.frequencies import AdaptedRadius, Gaussian, Mixture, Probed, Shaped
from sketchlearn.features.operator import Operator
from sketchlearn.files.designs import design_from_bytes
from sketchlearn.files.sketches import operator_from
from sketchlearn.inference import distributions as gaussian_family


@pytest.fixture
def drawn(monkeypatch):
    """How many random numbers were drawn, as a list of sizes."""
    sizes, plain = [], randomness.Stream.integers

    def counted(self, size):
        sizes.append(size)
        return plain(self, size)

    monkeypatch.setattr(randomness.Stream, "integers", counted)
    return sizes


def design(operator, **changes):
    """The file of a design whose operator is described, but not drawn."""
    form = {**super(Operator, operator).to_json(), "digest": "0" * 64, **changes}
    return to_document(DESIGN, 1, {"operator": form, "made": {}})


def one_per_law(n):
    return skl.features.FourierFeatures(9, 20_000, law=Mixture((AdaptedRadius(1.0),) * n))


DESIGNS = {
    "dense": design(skl.features.FourierFeatures(9, 4, law=Gaussian(1.0)), n_features=16_384, n_frequencies=16_384),
    "structured": design(skl.features.FourierFeatures(9, 4, law=Gaussian(1.0), structured=True), n_features=40_000),
    "quadratic": design(skl.features.QuadraticFeatures(9, 4, bound=1.0), n_features=65_536, n_directions=10_000),
    "network": design(skl.features.ConvolutionalFeatures((28, 28), 4096, pixels=(0, 1), n_filters=4096)),
    "mixture of laws": design(one_per_law(900)),
    "shapes": design(
        skl.features.FourierFeatures(300, 5000, law=Shaped(Gaussian(1.0), Gaussian(1.0), ((1.0,) * (300 * 301 // 2),)))
    ),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_a_small_design_cannot_ask_for_much_work(name, drawn):
    form = json.loads(DESIGNS[name])["operator"]
    cost = Operator.unverified(form).cost
    assert cost.seconds > loading_limit.MOST_SECONDS or cost.megabytes > loading_limit.MOST_MEGABYTES
    with pytest.raises(skl.FormatError, match=r"would take about .* seconds and .* MB.*if you trust the file, set"):
        design_from_bytes(DESIGNS[name])
    assert drawn == []


def test_a_file_that_is_trusted_loads(monkeypatch, drawn):
    operator = skl.features.FourierFeatures(9, 100, law=Gaussian(1.0))
    monkeypatch.setattr(loading_limit, "MOST_SECONDS", 1e-6)
    with pytest.raises(skl.FormatError, match="SKETCHLEARN_TRUST_FILES=1"):
        operator_from({**operator.to_json()}, "a design")
    monkeypatch.setenv("SKETCHLEARN_TRUST_FILES", "1")
    assert operator_from(operator.to_json(), "a design") == operator
    assert sum(drawn) < 10_000


def test_diagonal_shapes_cost_no_matrices(drawn):
    """4000 columns cost 65 s, as a triangle of 8 million zeros was solved."""
    law = Shaped(Gaussian(1.0), Gaussian(1.0), ((2.0,) * 4000,))
    cost = law.cost(4000, 10)
    assert cost.operations < 100_000_000
    assert cost.bytes < 20_000_000
    operator = skl.features.FourierFeatures(4000, 10, law=law)
    assert operator_from(operator.to_json(), "a design") == operator
    assert sum(drawn) < 4 * 4000 * 10 + 1000


def test_diagonal_shapes_are_those_of_triangles():
    lengths, d = [(2.0, 3.0, 5.0), (1.0, 0.5, 7.0)], 3
    full = [[0.0] * 6 for _ in lengths]
    for shape, numbers in zip(full, lengths, strict=True):
        shape[0], shape[2], shape[5] = numbers
    draws = [
        Shaped(Gaussian(1.0), AdaptedRadius(1.0), shapes).draw(d, 200, randomness.Stream(0, "test"))
        for shapes in (lengths, full)
    ]
    np.testing.assert_array_equal(*draws)


def test_many_probes_cost_no_table_of_them():
    """2000 probes of 2000 columns: a table of 4 million numbers, of which 3 were needed."""
    law = Probed(Gaussian(1.0), (1.0,) * 2000, (2.0,) * 2000, probes=(1.0,) * 2000)
    assert law.cost(2000, 3).bytes < 1_000_000 + 12 * 2000 * 3 + 128 * 6000
    omega = law.draw(2000, 3, randomness.Stream(0, "test"))
    np.testing.assert_array_equal(omega[:4, :3], [[0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5], [0, 0, 0]])


def gaussians(kind, k, d, covariances):
    outcome = {"squared_residual": 0.0, "misfit": 1.0, "iterations": 1, "status": "EXPLAINED"}
    content = {
        "type": "gmm",
        "n_features": d,
        "columns": None,
        "n_records": 9,
        "fit_test": 1.0,
        "outcome": outcome,
        "weights": [1 / k] * k,
        "means": [[0] * d] * k,
        "covariance_type": kind,
        "covariances": covariances,
    }
    return to_document(MODEL, 1, content)


@pytest.mark.parametrize("kind", ["spherical", "diag"])
def test_variances_cost_no_matrices(kind, monkeypatch):
    """A spherical mixture of 16 kB took 42 s and 1.7 GiB: a matrix of 4000 x 4000 for each component."""
    for name in ("cholesky", "eigh"):
        monkeypatch.setattr(np.linalg, name, None)
    monkeypatch.setattr(np, "eye", None)
    k, d = 2, 4000
    model = model_from_bytes(gaussians(kind, k, d, [3.0] * k if kind == "spherical" else [[3.0] * d] * k))
    shapes = model.fitted_model().density.shapes
    assert shapes.shape == ((k, 1) if kind == "spherical" else (k, d))
    assert np.all(shapes == 3.0)
    assert isinstance(model.fitted_model().density.model, gaussian_family.SphericalGaussian)
    with pytest.raises(skl.FormatError, match="positive definite"):
        model_from_bytes(gaussians(kind, k, d, [0.0] * k if kind == "spherical" else [[0.0] * d] * k))


def test_matrices_of_models_are_limited(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(500, 2))
    data = model_to_bytes(skl.SketchGaussianMixture(1, random_state=0).fit(rows))
    model_from_bytes(data)
    monkeypatch.setattr(strict_json, "check_text", lambda _, outer: None)  # noqa: ARG005
    monkeypatch.setattr(loading_limit, "MOST_SECONDS", 1e-9)
    with pytest.raises(skl.FormatError, match="making its model would take about"):
        model_from_bytes(data)


def test_a_parameter_cannot_ask_for_memory():
    rows = np.random.default_rng(0).normal(size=(500, 3))
    document = json.loads(model_to_bytes(skl.SketchSubspaces(1, 1, random_state=0).fit(rows)))
    document["parameters"] = {"n_clusters": 10**12, "n_dimensions": 1}
    with pytest.raises(skl.FormatError, match="n_clusters must be a whole number from 1 to 65536"):
        model_from_bytes(json.dumps(document).encode())


def test_words_among_numbers_take_no_room():
    """NumPy would make room for the longest word in each place: 4 GB for a file of 1.2 MB."""
    form = json.loads(design(skl.features.FourierFeatures(9, 4, law=Gaussian(1.0))))["operator"]
    words = ["x" * 1_000_000] + [0.0] * 999
    with pytest.raises(skl.FormatError, match="center must be 1000 finite numbers"):
        operator_from({**form, "n_features": 1000, "center": words}, "a design")
    with pytest.raises(skl.FormatError, match="covariances must be 1000 finite numbers"):
        model_from_bytes(gaussians("spherical", 1000, 1, words))


def test_designs_of_ordinary_use_have_room():
    """784 columns and 10 clusters load; what tables of up to 50 columns need could be seven times as much."""
    rows = np.random.default_rng(0).normal(size=(300, 50))
    for task, k in (("kmeans", 20), ("mixture", 10)):
        cost = skl.design(rows, n_components=k, task=task).cost
        assert 7 * cost.seconds < loading_limit.MOST_SECONDS
        assert 10 * cost.megabytes < loading_limit.MOST_MEGABYTES
    images = np.random.default_rng(0).normal(size=(300, 784))
    for task in ("kmeans", "mixture"):
        cost = skl.design(images, n_components=10, task=task).cost
        assert cost.seconds < loading_limit.MOST_SECONDS
        assert cost.megabytes < loading_limit.MOST_MEGABYTES


def test_costs_add_up():
    one = skl.features.FourierFeatures(9, 100, law=Gaussian(1.0))
    both = skl.features.concatenate([one, one])
    assert both.cost.operations > 2 * one.cost.operations
    assert both.cost.bytes == 2 * one.cost.bytes
    assert skl.features.SecondMoments(9, bound=1.0).cost == Cost()


@pytest.mark.slow
def test_changed_files_are_refused_in_sentences_and_cost_little():
    result = fuzz(300)
    assert not result.failures
    assert result.counts["loaded"] > 20
    assert sum(result.counts.values()) > 290


def test_long_texts_are_refused_before_they_are_read():
    """38 MB of JSON took 415 MB of memory, to say that it was nonsense."""
    for data in (b'{"kind": "sketchlearn design", "x": [' + b"1," * 20_000_000 + b"1]}", long_header()):
        with pytest.raises(skl.FormatError, match=r"bytes of text: reading it would take about .*TRUST_FILES=1"):
            (design_from_bytes if data[:1] == b"{" else skl.from_bytes)(data)


def test_many_small_parts_are_refused_before_they_are_built():
    """20,000 products of features, in 16 MB of text, took 10 s to build before their own cost was stated."""
    one = {"type": "ColumnMoments", "bound": [1.0], "center": [0.0]}
    data = json.dumps({"kind": "sketchlearn design", "operator": {"type": "Concatenated", "parts": [one] * 40_000}})
    with pytest.raises(skl.FormatError, match=r"bytes of text: reading it would take about .*TRUST_FILES=1"):
        design_from_bytes(data.encode())


def long_header():
    description = {"bits": 0, "count": "0", "operator": "x" * 60_000_000}
    return container.pack(np.zeros(1, np.int64), description)
