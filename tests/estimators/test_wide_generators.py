"""Networks that make rows of many columns, in a few directions."""

import json

import numpy as np
import pytest

import sketchlearn as skl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
D, SMALL = 100, {"max_iter": 200, "batch_size": 200, "random_state": 0}


def two_clusters(n, seed=0):
    """Rows around two centers, spread in two more directions, with noise in all columns, which are in all units."""
    rng = np.random.default_rng(seed)
    law = np.random.default_rng(9)
    centers, axes = law.standard_normal((2, D)), law.standard_normal((2, D)) / 3
    right = rng.random(n) < 0.7
    rows = centers[right.astype(int)] + rng.standard_normal((n, 2)) @ axes + 0.1 * rng.standard_normal((n, D))
    return rows * np.geomspace(1e-3, 1e3, D) + 5, right


ROWS, RIGHT = two_clusters(6000)


@pytest.fixture(scope="module")
def fitted():
    return skl.SketchGenerator(**SMALL).fit(ROWS)


def test_rows_are_like_those_sketched(fitted):
    made = fitted.sample(6000)
    assert made.shape == ROWS.shape
    assert fitted.sketch_.operator.in_words.startswith("in 16 directions of 100 columns")
    errors = ROWS.std(axis=0) / np.sqrt(6000)
    assert np.max(np.abs(made.mean(axis=0) - ROWS.mean(axis=0)) / errors) < 6  # of 100 columns, two samples
    assert np.allclose(made.std(axis=0), ROWS.std(axis=0), rtol=0.1)
    assert np.max(np.abs(np.corrcoef(made.T) - np.corrcoef(ROWS.T))) < 0.1
    units = ROWS.std(axis=0)
    apart = (ROWS[RIGHT].mean(axis=0) - ROWS[~RIGHT].mean(axis=0)) / units
    along, real = ((rows - ROWS.mean(axis=0)) / units @ apart / (apart @ apart) for rows in (made, ROWS))
    assert abs(np.mean(along > 0) - 0.7) < 0.05
    assert np.mean(np.abs(along) < 0.1) < np.mean(np.abs(real) < 0.1) + 0.05  # few between the clusters


def test_a_network_of_all_columns_is_there_for_the_asking():
    operator = skl.design(ROWS, task="generator", features=skl.features.Fourier(n_directions=None))
    assert isinstance(operator, skl.features.FourierFeatures)
    assert isinstance(skl.design(ROWS[:, :64], task="generator"), skl.features.FourierFeatures)
    asked = skl.design(ROWS[:, :20], task="generator", features=skl.features.Fourier(n_directions=3, n_frequencies=50))
    assert asked.n_sums == 2 * 50 + (20 + 210) + 2 * 20
    made = skl.SketchGenerator(**SMALL).fit_sketch(asked.sketch(ROWS[:, :20])).sample(10)
    assert made.shape == (10, 20)
    own = skl.SketchGenerator(
        torch.nn.Linear(2, D), n_latent=2, features=skl.features.Fourier(n_frequencies=50), **SMALL | {"max_iter": 2}
    )
    assert own.fit(ROWS).sample(3).shape == (3, D)


def test_labels_and_files(tmp_path):
    model = skl.SketchGenerator(**SMALL).fit(ROWS, RIGHT)
    for label in (True, False):
        made, real = model.sample(3000, y=label), ROWS[label == RIGHT]
        assert np.max(np.abs(made.mean(axis=0) - real.mean(axis=0)) / real.std(axis=0)) < 0.15
        assert np.allclose(made.std(axis=0), real.std(axis=0), rtol=0.15)
    skl.save(model, tmp_path / "model")
    again = skl.load(tmp_path / "model")
    assert again.fitted_model() == model.fitted_model()
    again.random_state = 0
    assert np.array_equal(again.sample(20), model.sample(20))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("lift:back", lambda a: a[:-1]),
        ("lift:back", lambda a: a[:, :-1]),
        ("lift:slopes", lambda a: a[0]),
        ("lift:slopes", lambda a: a[:, :0]),
        ("lift:factors", lambda a: a * np.nan),
        ("lift:deviations", lambda a: -a),
        ("lift:origins", None),
    ],
)
def test_forged_files_are_refused(fitted, tmp_path, name, change):
    from safetensors.torch import load, save

    path = tmp_path / "model"
    skl.save(fitted, path)
    data = path.read_bytes()
    header, arrays = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]), load(data)
    forged = arrays.pop(name)
    if change is not None:
        arrays[name] = change(forged).contiguous()
    path.write_bytes(save(arrays, metadata=header["__metadata__"]))
    with pytest.raises(skl.FormatError):
        skl.load(path)


def test_few_rows_and_constant_columns():
    few = ROWS[:8].copy()
    few[:, 3] = 2.0
    made = skl.SketchGenerator(**SMALL | {"max_iter": 2}).fit(few).sample(50)
    assert np.all(np.isfinite(made))
    assert np.allclose(made[:, 3], 2.0)


@pytest.mark.slow
def test_private_rows_are_like_those_sketched():
    rows, _ = two_clusters(100_000, 3)
    sketch = skl.design(ROWS[:3000], task="generator", features=skl.features.Fourier(n_frequencies=300)).sketch(rows)
    private = skl.privatize(sketch, epsilon=3.0, delta=1e-6, assume_public_design=True)
    waves, exact = (one.operator.split(one)[0].mean for one in (private, sketch))
    assert np.sqrt(np.mean(np.abs(waves - exact) ** 2)) < 0.05
    made = skl.SketchGenerator(**SMALL).fit_sketch(private).sample(3000)
    ratios = made.std(axis=0) / rows.std(axis=0)  # the release itself says 0.2 to 1.4: noise of 100 variances
    assert 0.8 < np.median(ratios) < 1.25
    assert np.all((ratios > 0.5) & (ratios < 2))
    assert np.max(np.abs(made.mean(axis=0) - rows.mean(axis=0)) / rows.std(axis=0)) < 0.15


def test_streams_and_messages():
    stream = skl.SketchGenerator(**SMALL | {"max_iter": 2})
    for part in np.array_split(ROWS, 3):
        stream.partial_fit(part)
    assert stream.sample(5).shape == (5, D)
    with pytest.raises(ValueError, match="n_directions"):
        skl.SketchGenerator(features=skl.features.Fourier(n_directions=0)).fit(ROWS)
    with pytest.raises(ValueError, match="n_directions needs a sample here"):
        skl.design(bounds=([0] * D, [1] * D), task="generator", features=skl.features.Fourier(n_directions=4))
    with pytest.raises(ValueError, match="was not designed for a generator"):
        skl.SketchGenerator().fit_sketch(
            skl.design(ROWS, task="moments", features=skl.features.Moments(4)).sketch(ROWS)
        )
