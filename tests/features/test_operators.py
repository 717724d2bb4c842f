"""Operators compute what they say, whatever the fixed point."""

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from cases import NAMES, operators
from hypothesis import given
from hypothesis import strategies as st

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.rows.schemas.columns import Number
from sketchlearn.rows.schemas.table_schema import Schema, SchemaColumns
from sketchlearn.sketch.priority_sample import Keeping

RNG = np.random.default_rng(0)


def test_fourier_features_are_exponentials():
    operator = skl.features.FourierFeatures(5, 200, law=Gaussian(2.0), center=np.arange(5.0))
    X = RNG.standard_normal((1000, 5)) + np.arange(5)
    exact = np.exp(1j * (X - operator.middle) @ operator.frequencies)
    assert np.abs(operator.features(X) - exact).max() < 1e-5
    assert np.abs(operator.sketch(X).mean - exact.mean(axis=0)).max() < 1e-6


def test_weighted_features_are_weighted():
    operator = skl.features.FourierFeatures(3, 100, law=skl.features.frequencies.Weighted(1.0, n_components=5))
    X = RNG.standard_normal((50, 3))
    exact = operator.feature_weights * np.exp(1j * X @ operator.frequencies)
    assert operator.feature_weights.max() < 1
    assert np.abs(operator.sketch(X).mean - exact.mean(axis=0)).max() < 1e-6
    assert np.abs(operator.features(X) - exact).max() < 1e-5


def test_asymmetric_features_average_to_the_kernel():
    """f(t + xi) against exp: the mean over frequencies and dithers is F_1 times the kernel."""
    x, y = np.array([[0.3, -0.2]]), np.array([[0.9, 0.4]])
    kernel_value = np.exp(-np.sum((x - y) ** 2) / 2)
    for wave in (
        skl.features.waves.Square(),
        skl.features.waves.Sawtooth(),
        skl.features.waves.Triangle(),
        skl.features.waves.Cosine(),
    ):
        operator = skl.features.FourierFeatures(2, 200_000, law=Gaussian(1.0), wave=wave, seed=1)
        learned = np.exp(1j * (y @ operator.frequencies + operator.dither))
        estimate = np.mean(operator.features(x) * learned.conj()) / wave.coefficient()
        assert abs(estimate - kernel_value) < 0.02  # five standard deviations


@pytest.mark.parametrize("d", [8, 20, 100])
def test_structured_frequencies_are_like_dense_ones(d):
    operator = skl.features.FourierFeatures(d, 2048, law=Gaussian(2.0), structured=True, seed=1)
    lengths = np.linalg.norm(operator.frequencies, axis=0)
    assert np.mean(lengths**2) == pytest.approx(d / 4, rel=0.05)
    X = RNG.standard_normal((20, d)) / d**0.5
    gram = operator.features(X) @ operator.features(X).conj().T / 2048
    exact = np.exp(-((X[:, None] - X) ** 2).sum(-1) / 8)
    assert np.abs(gram - exact).max() < 0.1


def test_subsampling_is_unbiased_and_contributes_to_r_frequencies():
    operator = skl.features.FourierFeatures(3, 120, law=Gaussian(1.0), subsample=20, seed=2)
    X = RNG.standard_normal((20_000, 3))
    features = operator.features(X)
    assert np.all(np.count_nonzero(features, axis=1) == 20)
    everything = skl.features.FourierFeatures(3, 120, law=Gaussian(1.0), seed=2).sketch(X).mean
    # Each part has variance at most 6 over 20,000 records: 5 standard deviations.
    assert np.abs(operator.sketch(X).mean - everything).max() < 5 * np.sqrt(6 / 20_000)
    used = np.count_nonzero(features.reshape(len(X), 6, 20).any(axis=2), axis=0)
    assert np.all(np.abs(used - len(X) / 6) < 5 * np.sqrt(len(X) * 5 / 36))


def test_quadratic_features_are_squares():
    operator = skl.features.QuadraticFeatures(4, 50, bound=10.0, center=[1.0, 2.0, 3.0, 4.0])
    X = RNG.standard_normal((300, 4)) + np.arange(1, 5)
    exact = ((X - operator.middle) @ operator.directions) ** 2
    assert np.allclose(np.linalg.norm(operator.directions, axis=0), 2.0)
    assert np.abs(operator.features(X) - exact).max() < 10.0**2 * 4 * 2.0**-20
    assert np.abs(operator.sketch(X).mean - exact.mean(axis=0)).max() < 10.0**2 * 4 * 2.0**-22


def test_quadratic_features_stay_below_their_ceiling():
    operator = skl.features.QuadraticFeatures(300, 20, bound=1.0)
    for direction in operator.directions.T:
        row = direction / np.linalg.norm(direction) * (1 - 1e-7)
        assert np.abs(operator.sketch([row]).sums).max() <= operator.largest_contribution


def test_second_moments_are_exact_to_their_fixed_point():
    X = RNG.standard_normal((5000, 6)) * [1, 10, 100, 1, 1, 1] + 5
    operator = skl.features.SecondMoments(6, bound=[8, 80, 800, 8, 8, 8], center=[5] * 6)
    mean, products = operator.split(operator.sketch(X).mean)
    y = X - 5
    units = np.array([8, 80, 800, 8, 8, 8])
    assert np.all(np.abs(mean - y.mean(axis=0)) <= units * 2.0**-31)
    assert np.all(np.abs(products - y.T @ y / 5000) <= np.outer(units, units) * 2.0**-31)
    assert np.array_equal(products, products.T)


def test_products_that_would_tie_are_rounded_the_same_in_any_order():
    """A product half-way between integers would go to the even sum, so that what was added before would matter."""
    halves = np.float64(2.0**-16) * np.arange(1, 2**10)  # products of two are odd multiples of 2^-31, and others
    X = np.column_stack([halves, halves[::-1] * 2, 1 - halves])
    operator = skl.features.SecondMoments(3, bound=1.0)
    one_by_one = sum((operator.sketch(X[i : i + 1]) for i in range(1, 60)), operator.sketch(X[:1]))
    assert operator.sketch(X[:60]) == operator.sketch(X[:60][::-1]) == one_by_one
    assert np.array_equal(operator.sketch(X).sums, operator.write_rows(X, 1)[0].sum(axis=0))


@pytest.mark.parametrize("rounding", ["once", "twice"])
def test_second_moments_at_a_corner_reach_their_ceiling_and_no_more(rounding):
    """Factors and last bits are rounded up for some bounds: sensitivities rest on the integers all the same."""
    bounds = RNG.uniform(1e-3, 1e3, 200)
    operator = skl.features.SecondMoments(200, bound=bounds, rounding=rounding)
    integers, bad = operator.write_rows(np.stack([bounds, -bounds]), 1)
    assert bad == -1
    assert np.all(np.abs(integers) == operator.largest_contribution)


def test_second_moments_of_before_are_rounded_twice():
    """Files and pickles without the field were made so; what is made so does not add up with what is rounded once."""
    new, old = skl.features.SecondMoments(2, bound=3.0), skl.features.SecondMoments(2, bound=3.0, rounding="twice")
    form = old.to_json()
    assert "rounding" not in form
    assert new.to_json()["rounding"] == "once"
    assert skl.extend.Operator.from_json(form) == old != new == skl.extend.Operator.from_json(new.to_json())
    unpickled = object.__new__(skl.features.SecondMoments)
    unpickled.__setstate__({name: value for name, value in new.__getstate__().items() if name != "rounding"})
    assert unpickled == old
    with pytest.raises(ValueError, match="their roundings differ"):
        new.sketch(np.eye(2)) + old.sketch(np.eye(2))
    with pytest.raises(ValueError, match="rounding must be 'once' or 'twice', not 3"):
        skl.features.SecondMoments(2, bound=3.0, rounding=3)
    with pytest.raises(ValueError, match="too small to divide by: rescale"):
        skl.features.SecondMoments(2, bound=1e-310)


def test_concatenated_parts_are_the_parts():
    parts = [
        skl.features.SecondMoments(2, bound=9.0),
        skl.features.FourierFeatures(2, 5, law=Gaussian(1.0), wave="cosine"),
    ]
    both = skl.features.concatenate(parts)
    X = RNG.standard_normal((40, 2))
    for part, (same, sums) in zip(parts, both.pieces(both.sketch(X).sums), strict=True):
        assert same == part
        assert np.array_equal(sums, part.sketch(X).sums)
    assert both.sketch(X).mean.shape == (10,)
    assert both.split(both.sketch(X)) == [part.sketch(X) for part in parts]


def test_centers_are_float32_so_that_the_type_of_rows_does_not_matter():
    operator = skl.features.FourierFeatures(1, 30, law=Gaussian(1.0), center=[0.1])
    X = RNG.standard_normal((1000, 1)).astype(np.float32)
    assert operator.center == (float(np.float32(0.1)),)
    assert operator.sketch(X) == operator.sketch(X.astype(np.float64))


def test_far_from_the_origin_a_center_keeps_precision():
    X = RNG.standard_normal((2000, 2))
    near = skl.features.FourierFeatures(2, 50, law=Gaussian(1.0))
    far = skl.features.FourierFeatures(2, 50, law=Gaussian(1.0), center=[1e6, 1e6])
    assert np.abs(far.sketch(X + 1e6).mean - near.sketch(X).mean).max() < 1e-6


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, bool, np.float16, np.longdouble])
def test_other_number_types(dtype):
    X = RNG.integers(0, 2, (50, 3)).astype(dtype)
    operator = skl.features.FourierFeatures(3, 10, law=Gaussian(1.0))
    assert operator.sketch(X) == operator.sketch(X.astype(np.float64))


def test_operators_are_values():
    a, b = (skl.features.FourierFeatures(2, 4, law=Gaussian(1.0), seed=3) for _ in range(2))
    assert a == b
    assert hash(a) == hash(b)
    assert eval(repr(a), {**vars(skl.features.frequencies), **vars(skl.features.waves), **vars(skl.features)}) == a
    with pytest.raises(AttributeError):
        a.seed = 4


def test_unaligned_and_read_only_rows():
    packed = np.zeros(20, np.dtype([("tag", "i1"), ("row", "f4", 3)]))
    packed["row"] = RNG.standard_normal((20, 3))
    operator = skl.features.FourierFeatures(3, 10, law=Gaussian(1.0))
    rows = packed["row"]
    assert not rows.flags.aligned
    copied = np.ascontiguousarray(rows)
    copied.flags.writeable = False
    assert operator.sketch(rows) == operator.sketch(copied)


def test_memory_maps(tmp_path):
    X = RNG.standard_normal((100, 3)).astype(np.float32)
    np.save(tmp_path / "rows.npy", X)
    operator = skl.features.FourierFeatures(3, 10, law=Gaussian(1.0))
    assert operator.sketch(np.load(tmp_path / "rows.npy", mmap_mode="r")) == operator.sketch(X)


def test_progress_goes_to_standard_error(capfd):
    operator = skl.features.FourierFeatures(3, 10, law=Gaussian(1.0))
    operator.sketch(np.ones((100, 3)), progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "100 rows" in err


def test_structured_frequencies_are_not_multiplied_out():
    operator = skl.features.FourierFeatures(100, 256, law=Gaussian(1.0), structured=True)
    operator.sketch(np.ones((2, 100))).mean  # noqa: B018
    assert "frequencies" not in vars(operator)


def test_numbers_of_threads():
    cores = kernel.n_threads(None)
    assert kernel.n_threads(-1) == cores
    assert kernel.n_threads(-2) == max(1, cores - 1)
    assert kernel.n_threads(-1000) == 1
    X = np.ones((5, 3))
    operator = skl.features.FourierFeatures(3, 10, law=Gaussian(1.0))
    assert operator.sketch(X, n_jobs=-1) == operator.sketch(X, n_jobs=2**40) == operator.sketch(X, n_jobs=1)


def test_native_arrays_are_never_copied_behind_the_back():
    """A strided weight or sum would be converted into a temporary: the result would be lost, or read after its end."""
    operator = skl.features.FourierFeatures(2, 4, law=Gaussian(1.0))
    X = np.zeros((10, 2))
    with pytest.raises(TypeError):
        operator.add_rows(X, np.ones(20, np.int64)[::2], 1, np.zeros(8, np.int64))
    with pytest.raises(TypeError):
        operator.add_rows(X, None, 1, np.zeros(16, np.int64)[::2])


def test_the_kernel_can_be_forced():
    def choose(name):
        command = [sys.executable, "-c", "import sketchlearn.kernels.dispatch as k; print(k.active)"]
        environment = {**os.environ, "SKETCHLEARN_KERNEL": name}
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    for name in kernel.available():
        assert choose(name).stdout.strip() == name
    assert "SKETCHLEARN_KERNEL=mmx: this machine has the kernels" in choose("mmx").stderr


def test_sources_that_were_not_built_say_so(tmp_path):
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(Path(skl.__file__).parent, tmp_path / "sketchlearn", ignore=ignored)
    command = [
        sys.executable,
        "-S",
        "-c",
        "import sketchlearn; sketchlearn.design",
    ]  # without installed packages' hooks
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "sketchlearn is not built here: install it with pip" in run.stderr


def variants(operator):
    """The operator, changed in one field: in those that are compared, and in those that are not."""
    d = operator.n_features
    yield operator
    yield operator.with_origin("declared")
    yield operator.with_columns(tuple(f"x{i}" for i in range(d)))
    yield operator.with_columns(tuple(f"x{i}" for i in range(d))).with_origin("sample")
    yield operator.with_columns(SchemaColumns(Schema(tuple(Number(f"x{i}") for i in range(d)))))
    yield operator.with_columns(SchemaColumns(Schema(tuple(Number(f"x{i}") for i in range(d)), proposed=True)))
    yield pickle.loads(pickle.dumps(operator))
    yield type(operator).from_json(json.loads(json.dumps(operator.to_json())))
    if operator.can_keep:
        yield operator.with_keeping(Keeping(5, (0.0,) * d, (1.0,) * d))
    own = {field.name for field in fields(operator)}
    for name, other in (("seed", 99), ("units", (2.0,) * d), ("spread", 2.0), ("outside", "clip")):
        if name in own:
            yield replace(operator, **{name: other})


@given(st.data())
def test_equal_operators_have_one_identity_and_different_ones_two(data):
    names = st.sampled_from(["cells", "histograms", "moments", "concatenated", "crosses", *NAMES])
    operator, other = (operators(9)[data.draw(names)] for _ in range(2))
    a = data.draw(st.sampled_from(list(variants(operator))))
    b = data.draw(st.sampled_from(list(variants(data.draw(st.sampled_from([operator, other]))))))
    assert (a == b) == (a.identity == b.identity)
    assert len(a.identity) == 64


def test_identity_is_not_kept_by_a_copy_with_other_columns():
    for name in NAMES:
        operator = operators(9)[name]
        known, columns = operator.identity, tuple("abcdefghi")
        assert operator.with_columns(columns).identity != known
        assert operator.with_columns(columns).with_columns(None).identity == known


def test_identity_of_designs_without_random_numbers():
    """`info` showed the digest of nothing for all of them."""
    nothing = hashlib.sha256().hexdigest()
    designs = [skl.features.SecondMoments(2, bound=bound) for bound in (1.0, 2.0)]
    designs.append(skl.design(RNG.standard_normal((500, 80)), n_components=3, features=skl.features.Cells()))
    assert [operator.digest for operator in designs] == [nothing] * 3
    assert len({nothing, *(operator.identity for operator in designs)}) == 4
