"""Networks that generate rows like those that were sketched."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from typer.testing import CliRunner

import sketchlearn as skl
from sketchlearn.cli.commands import app
from sketchlearn.estimators.files import model_from_bytes, model_to_bytes
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.features.provenance import Origin

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def two_clusters(n, seed=0):
    """Three tenths of the rows around (10, 0), the others around (20, 3)."""
    rng = np.random.default_rng(seed)
    right = rng.random(n) < 0.7
    return rng.standard_normal((n, 2)) * [0.5, 0.2] + np.where(right[:, None], [20, 3], [10, 0]), right


ROWS, RIGHT = two_clusters(4000)
SMALL = {"max_iter": 1000, "batch_size": 200, "features": skl.features.Fourier(80), "random_state": 0}


@quiet
@parametrize_with_checks(
    [skl.SketchGenerator(max_iter=2, batch_size=10, features=skl.features.Fourier(n_frequencies=10), random_state=0)]
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted():
    return skl.SketchGenerator(**SMALL).fit(ROWS)


def is_like(rows, *, share=0.7, within=0.06, bridge=0.15):
    """Whether rows lie in the two clusters, as often as they should."""
    right = rows[:, 0] > 15
    between = np.mean((rows[:, 0] > 13) & (rows[:, 0] < 17))
    middles = np.median(rows[right], axis=0), np.median(rows[~right], axis=0)
    return (
        abs(right.mean() - share) < within and between < bridge and np.allclose(middles, [[20, 3], [10, 0]], atol=0.4)
    )


@quiet
def test_rows_are_like_those_sketched(fitted):
    rows = fitted.sample(4000)
    assert rows.shape == (4000, 2)
    assert rows.dtype == np.float64
    assert is_like(rows)
    assert fitted.n_iter_ == 100 * len(fitted.loss_curve_) <= 1000
    assert fitted.misfit_ < 2
    assert fitted.residual_**2 == pytest.approx(fitted.loss_curve_[-1])
    assert np.array_equal(fitted.sample(50), fitted.sample(50))


@pytest.mark.slow
@quiet
def test_the_sketch_is_enough(fitted, tmp_path):
    fitted.sketch_.save(tmp_path / "rows.sketch")
    again = skl.SketchGenerator(**SMALL).fit_sketch(skl.load(tmp_path / "rows.sketch"))
    assert is_like(again.sample(4000))
    with pytest.raises(AttributeError, match="without labels"):
        _ = again.classes_
    with pytest.raises(ValueError, match="sample them without y"):
        again.sample(3, y=0)


@pytest.mark.slow
@quiet
@pytest.mark.parametrize("wave", ["square", "triangle", "cosine"])
def test_other_waves(wave):
    generator = skl.SketchGenerator(**SMALL | {"features": skl.features.Fourier(120, wave=wave)}).fit(ROWS)
    assert is_like(generator.sample(4000), within=0.1)


@pytest.mark.slow
@quiet
def test_private_sketches():
    pytest.importorskip("opendp")
    operator = skl.design(
        bounds=([0, -10], [40, 10]), task="generator", features=skl.features.Fourier(n_frequencies=100)
    )
    private = skl.privatize(operator.sketch(two_clusters(20_000)[0]), epsilon=5.0, delta=1e-6)
    generator = skl.SketchGenerator(**SMALL).fit_sketch(private)
    assert is_like(generator.sample(4000), within=0.12, bridge=0.25)
    assert generator.privacy_.epsilon == 5.0


@pytest.mark.slow
@quiet
def test_labels(fitted):
    words = np.where(RIGHT, "right", "left")
    generator = skl.SketchGenerator(**SMALL).fit(ROWS, words)
    assert generator.classes_.tolist() == ["left", "right"]
    assert abs(np.median(generator.sample(500, y="left")[:, 0]) - 10) < 0.5
    assert np.all((generator.sample(3, y=["left", "right", "left"])[:, 0] > 15) == [False, True, False])
    assert abs(np.mean(generator.sample(4000)[:, 0] > 15) - RIGHT.mean()) < 0.05
    assert generator.sketch_.count == 4000
    again = skl.SketchGenerator(**SMALL).fit_sketch(generator.sketches_)
    assert np.allclose(np.median(again.sample(500, y="right"), axis=0), [20, 3], atol=0.3)
    with pytest.raises(ValueError, match="no rows with the label 'up'"):
        generator.sample(2, y="up")
    with pytest.raises(ValueError, match="the earlier rows have labels"):
        generator.partial_fit(ROWS)
    with pytest.raises(ValueError, match="the earlier rows have no labels"):
        clone(fitted).partial_fit(ROWS[:10]).partial_fit(ROWS, words)


@quiet
def test_streams_train_when_asked():
    stream = skl.SketchGenerator(**SMALL | {"max_iter": 200})
    with pytest.raises(NotFittedError):
        stream.sample(1)
    for batch in np.array_split(two_clusters(6000)[0], 4):
        stream.partial_fit(batch)
    assert stream._state.model is None
    assert stream.sketch_.count == 6000
    assert stream.sample(10).shape == (10, 2)


@pytest.mark.slow
def test_training_ends_at_the_noise():
    cloud = RNG.standard_normal((300, 1)) * 3 + 5
    generator = skl.SketchGenerator(
        max_iter=3000, batch_size=200, features=skl.features.Fourier(n_frequencies=30), random_state=0
    ).fit(cloud)
    assert generator.n_iter_ < 3000
    assert generator.misfit_ <= 1.25
    assert abs(generator.sample(2000).std() - 3) < 0.5


def test_a_warning_says_that_training_was_too_short():
    with pytest.warns(ConvergenceWarning, match="try a larger max_iter"):
        skl.SketchGenerator(**SMALL | {"max_iter": 20}, n_latent=2).fit(ROWS)  # a perceptron, which begins with nothing


@quiet
def test_networks_begin_as_a_mixture():
    assert is_like(skl.SketchGenerator(**SMALL | {"max_iter": 1}).fit(ROWS).sample(4000))
    both = skl.SketchGenerator(**SMALL | {"max_iter": 1}).fit(ROWS, RIGHT)
    assert np.allclose(np.median(both.sample(2000, y=True), axis=0), [20, 3], atol=0.2)
    assert np.allclose(np.median(both.sample(2000, y=False), axis=0), [10, 0], atol=0.2)


@quiet
def test_own_networks_are_copied_and_torch_is_left_as_found():
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    network = torch.nn.Sequential(torch.nn.Linear(3, 20), torch.nn.Tanh(), torch.nn.Linear(20, 2))
    weights = network[0].weight.detach().clone()
    state = torch.random.get_rng_state()
    generator = skl.SketchGenerator(network, n_latent=3, **SMALL | {"max_iter": 20}).fit(ROWS)
    assert torch.equal(network[0].weight, weights)
    assert not torch.equal(generator.network_[0].weight, weights)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    torch.random.set_rng_state(before)


@pytest.mark.parametrize(
    ("network", "error", "message"),
    [
        (torch.nn.Linear(8, 3), ValueError, r"rows of 2 columns, but for 2 rows it gives shape \(2, 3\)"),
        (torch.nn.Linear(7, 2), ValueError, "must take rows of 8 numbers"),
        ("perceptron", TypeError, "must be a torch.nn.Module or None, not 'perceptron'"),
    ],
)
def test_networks_that_do_not_fit_are_refused(network, error, message):
    with pytest.raises(error, match=message):
        skl.SketchGenerator(network).fit(ROWS)


def test_designs_have_frequencies_of_all_lengths():
    operator = skl.design(ROWS, task="generator", seed=3)
    lengths = np.linalg.norm(operator.frequencies * ROWS.std(axis=0)[:, None], axis=0)
    assert operator.n_frequencies == 600
    assert 0.29 < lengths.min() < 0.4
    assert 36 < lengths.max() < 40.1
    assert abs(np.mean(lengths < np.sqrt(0.3 * 40)) - 0.5) < 0.02
    declared = skl.design(bounds=([0, 0, 0], [1, 2, 4]), task="generator", features=skl.features.Fourier(wave="square"))
    assert declared.origin is Origin.DECLARED
    assert (declared.n_frequencies, declared.center) == (875, (0.5, 1.0, 2.0))
    with pytest.raises(ValueError, match="leave out epsilon"):
        skl.design(bounds=(0, [1]), task="generator", epsilon=1.0, n_rows=100)


def test_other_sketches_are_refused():
    moments = skl.design(ROWS, task="moments").sketch(ROWS)
    with pytest.raises(ValueError, match="a sketch of Fourier features is needed, but this one is of SecondMoments"):
        skl.SketchGenerator().fit_sketch(moments)
    with pytest.raises(ValueError, match="the sketch is empty"):
        skl.SketchGenerator().fit_sketch(
            skl.features.FourierFeatures(2, 10, law=Gaussian(1.0)).sketch(np.empty((0, 2)))
        )


def test_importing_does_not_load_torch():
    code = "import sys, sketchlearn; sketchlearn.SketchGenerator(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@quiet
def test_models_come_back(fitted, tmp_path):
    skl.save(fitted, tmp_path / "model.safetensors")
    again = skl.load(tmp_path / "model.safetensors")
    again.random_state = 0
    assert np.array_equal(again.sample(20), fitted.sample(20))
    assert (again.residual_, again.n_iter_, again.n_records_) == (fitted.residual_, fitted.n_iter_, 4000)
    assert again.loss_curve_ == fitted.loss_curve_


@quiet
def test_own_networks_and_labels_come_back(tmp_path):
    def network():
        return torch.nn.Sequential(torch.nn.Linear(5, 20), torch.nn.ReLU(), torch.nn.Linear(20, 2))

    model = skl.SketchGenerator(network(), n_latent=3, **SMALL | {"max_iter": 20}).fit(ROWS, RIGHT.astype(int))
    skl.save(model, tmp_path / "model.safetensors")
    with pytest.raises(skl.FormatError, match="give SketchGenerator"):
        skl.load(tmp_path / "model.safetensors")
    again = skl.SketchGenerator(network(), random_state=0).load_weights(tmp_path / "model.safetensors")
    assert np.array_equal(again.sample(20, y=1), model.sample(20, y=1))
    assert again.classes_.tolist() == [0, 1]
    with pytest.raises(skl.FormatError, match="not a generator that this version can use"):
        skl.SketchGenerator(torch.nn.Linear(5, 2)).load_weights(tmp_path / "model.safetensors")


@quiet
def test_damaged_files_are_refused(fitted):
    data = model_to_bytes(fitted)
    for damaged in (data[:200], data[:8] + b"[" + data[9:], data.replace(b"deviations", b"deviationz")):
        with pytest.raises(skl.FormatError):
            model_from_bytes(damaged)


@quiet
def test_command_line(tmp_path):
    rows, sketch, model = (str(tmp_path / name) for name in ("rows.csv", "rows.sketch", "model.safetensors"))
    np.savetxt(rows, ROWS[:500], delimiter=",", header="a,b", comments="")
    run = CliRunner().invoke
    assert run(app, ["sketch", rows, "--task", "generator", "--n-frequencies", "50", "-o", sketch]).exit_code == 0
    done = run(app, ["fit", "generator", sketch, "--max-iter", "20", "-o", model])
    assert done.exit_code == 0, done.output
    assert "residual" in done.output
    made = run(app, ["sample", model, "-n", "7"])
    assert made.output.splitlines()[0] == "a,b"
    assert len(made.output.splitlines()) == 8
    assert "network that generates rows" in run(app, ["info", model]).output
    assert run(app, ["predict", model, rows]).exit_code == 2


@quiet
@pytest.mark.parametrize("changed", ["mending.0.weight", "means", "edges"])
@pytest.mark.parametrize(
    ("weight", "message"),
    [((), "of the default network"), ((0, 30002), "of the default network"), (None, "not all finite")],
)  # fmt: skip
def test_files_with_other_weights_are_refused(fitted, tmp_path, changed, weight, message):
    import torch
    from safetensors.torch import load, save

    path = tmp_path / "model.safetensors"
    skl.save(fitted, path)
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    weights = load(data)
    weights[changed] = weights[changed] * float("nan") if weight is None else torch.zeros(weight)
    path.write_bytes(save(weights, metadata=header["__metadata__"]))
    with pytest.raises(skl.FormatError, match=message):
        skl.load(path)


def test_a_sketch_is_no_model(tmp_path):
    skl.features.SecondMoments(2, bound=9.0).sketch([[1.0, 2.0]]).save(tmp_path / "a.sketch")
    with pytest.raises(skl.FormatError, match=r"it is a sketch, not a model: skl.load reads it"):
        model_from_bytes((tmp_path / "a.sketch").read_bytes())
