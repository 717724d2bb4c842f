"""Sketches on a GPU: the kernels' own source, run by the processor, gives the bits that the processor's kernels give.

`make gpu` runs the same and more on a machine that has a GPU.
"""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as skl
from sketchlearn.cli import commands
from sketchlearn.features.accumulation import DeviceSums
from sketchlearn.features.waves import FourierSeries, QuantizedCosine, QuantizedSawtooth
from sketchlearn.kernels import gpu
from sketchlearn.kernels.gpu import driver as driver_module

ROOT = Path(__file__).parents[2]
PTX = ROOT / "src" / "sketchlearn" / "kernels" / "gpu" / "ptx"
SOURCES = ROOT / "src" / "sketchlearn" / "kernels" / "native" / "gpu"


class OnGpu:
    """Rows as torch, CuPy and JAX have them on a GPU: they say where they lie, and nothing else."""

    def __init__(self, rows, number=0):
        self.rows, self.number = rows, number
        self.shape, self.dtype = rows.shape, rows.dtype

    def __len__(self):
        return len(self.rows)

    def __dlpack_device__(self):
        return (2, self.number)

    def __dlpack__(self, stream=None):
        assert stream is not None  # the one that waits for all work on the rows
        return self.rows.__dlpack__()


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """A driver whose cards are the processor."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no compiler for the driver whose card is the processor")
    path = tmp_path_factory.mktemp("driver") / "libcuda.so"
    options = ["-O1", "-std=c++17", "-ffp-contract=off", "-fno-math-errno", "-shared", "-fPIC", f"-I{SOURCES}"]
    options += ["-mfma"] if "fma" in Path("/proc/cpuinfo").read_text().split() else []
    subprocess.run([compiler, *options, ROOT / "tests" / "native" / "gpu_driver.cpp", "-o", path], check=True)
    return path


@pytest.fixture
def processor(library, monkeypatch):
    monkeypatch.setenv("SKETCHLEARN_CUDA", str(library))
    yield monkeypatch
    driver_module.driver.cache_clear()
    driver_module.device.cache_clear()


@pytest.fixture(autouse=True)
def anew():
    """The driver is looked for once in a process; here, in each test."""
    driver_module.driver.cache_clear()
    driver_module.device.cache_clear()


WAVES = [
    *("exponential", "cosine", "square", "sawtooth", "triangle"),
    *(FourierSeries((0.3, 0.1 - 0.05j)), QuantizedCosine(3), QuantizedSawtooth(2, complex=False)),
]


def features(d, m, wave="exponential", subsample=None, seed=0):
    center = tuple(np.random.default_rng(seed).normal(size=d))
    law = skl.features.frequencies.Gaussian(1.0)
    return skl.features.FourierFeatures(d, m, law=law, wave=wave, subsample=subsample, center=center, seed=seed)


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("wave", WAVES, ids=str)
@pytest.mark.parametrize(("d", "m", "subsample"), [(2, 130, None), (17, 60, 20)])
def test_waves(wave, d, m, subsample):
    operator, rng = features(d, m, wave, subsample), np.random.default_rng(1)
    rows = rng.normal(size=(300, d))
    rows[7:9] *= 1e8  # phases of many turns
    weights = rng.integers(0, 5, len(rows))
    for kind in (np.float16, np.float32, np.float64):
        own = np.clip(rows, -6e4, 6e4).astype(kind)
        assert operator.sketch(OnGpu(own)).content() == operator.sketch(own).content()
        assert operator.sketch(own, device="cuda").content() == operator.sketch(own).content()
    expected = operator.sketch(rows, sample_weight=weights).content()
    assert operator.sketch(OnGpu(rows), sample_weight=weights).content() == expected


@settings(deadline=None, max_examples=12)
@given(st.data())
def test_any_rows(library, data):
    """Rows of any number, columns and strides; what is between them is not looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKETCHLEARN_CUDA", str(library))
        n, d, m = (data.draw(st.integers(1, most)) for most in (300, 40, 140))
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        held = rng.normal(size=(2 * n, d + 3)).astype(data.draw(st.sampled_from([np.float32, np.float64])))
        rows = data.draw(st.sampled_from([held[:n, :d], held[::2, 2 : d + 2], np.asfortranarray(held[:n, :d])]))
        operator = features(d, m, seed=3)
        assert operator.sketch(OnGpu(rows)).content() == operator.sketch(rows).content()


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("rounding", ["once", "twice"])
@pytest.mark.parametrize("d", [1, 5, 70])
def test_moments(rounding, d):
    rng = np.random.default_rng(d)
    rows, weights = rng.uniform(-3, 3, (200, d)), rng.integers(0, 9, 200)
    operator = skl.features.SecondMoments(d, bound=tuple(rng.uniform(3.5, 5, d)), center=(0.25,) * d, rounding=rounding)
    assert operator.sketch(rows, device="cuda").content() == operator.sketch(rows).content()
    expected = operator.sketch(rows, sample_weight=weights).content()
    assert operator.sketch(OnGpu(rows), sample_weight=weights).content() == expected


def assert_same(operator, rows):
    """The same bytes from all kinds of numbers, with weights and without, all computed by kernels."""
    assert None not in [part.device_plan(gpu.device(0)) for part in operator.side_by_side]
    weights = np.random.default_rng(5).integers(0, 5, len(rows))
    for kind in (np.float16, np.float32, np.float64):
        own = rows.astype(kind)
        assert operator.sketch(OnGpu(own)).content() == operator.sketch(own).content()
        expected = operator.sketch(own, sample_weight=weights).content()
        assert operator.sketch(OnGpu(own), sample_weight=weights).content() == expected


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("wave", WAVES, ids=str)
def test_structured_frequencies(wave):
    rng, law = np.random.default_rng(2), skl.features.frequencies.Gaussian(1.0)
    center = tuple(rng.normal(size=20))
    assert_same(
        skl.features.FourierFeatures(20, 70, law=law, wave=wave, structured=True, center=center),
        rng.normal(size=(150, 20)),
    )
    if wave == "exponential":
        subsampled = skl.features.FourierFeatures(20, 96, law=law, structured=True, subsample=32)
        assert_same(subsampled, rng.normal(size=(300, 20)))
        assert_same(skl.features.FourierFeatures(700, 1500, law=law, structured=True), rng.normal(size=(9, 700)))
        too_wide = skl.features.FourierFeatures(5000, 10, law=law, structured=True)
        assert too_wide.device_plan(gpu.device(0)) is None


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("wave", ["exponential", "cosine", "square"])
def test_products_of_features(wave):
    rng, waves = np.random.default_rng(3), features(3, 70, wave)
    some = skl.features.SomeColumns(waves, 80, which=[5, 0, 79])
    nested = skl.features.SomeColumns(skl.features.SomeColumns(waves, 4, which=[3, 0, 2]), 6, which=[5, 1, 0, 2])
    assert_same(skl.features.CrossFeatures(waves, bound=10.0, n_crossed=20, values=[2]), rng.normal(size=(200, 3)))
    assert_same(skl.features.CrossFeatures(nested, bound=10.0, center=(0.1,) * 6), rng.normal(size=(200, 6)))
    assert_same(
        skl.features.concatenate([some, skl.features.CrossFeatures(some, bound=10.0)]), rng.normal(size=(150, 80))
    )
    moments = skl.features.FeatureMoments(
        skl.features.SomeColumns(waves, 4, which=[0, 1, 3]), bound=9.0, outside="clip"
    )
    assert_same(moments, rng.normal(size=(150, 4)))
    beyond = rng.normal(size=(50, 4))
    beyond[7, 2] = 12.0
    assert moments.sketch(OnGpu(beyond)).content() == moments.sketch(beyond).content()


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize(("normalize", "squares"), [(False, "sum"), (True, "sum"), (False, "columns")])
def test_cells(normalize, squares):
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(3000, 70)) + 3 * rng.normal(size=(80, 70))[rng.integers(80, size=3000)]
    operator = replace(
        skl.design(rows, n_components=40, features=skl.features.Cells(normalize=normalize)), squares=squares
    )
    assert operator.n_cells > 64
    assert_same(operator, rows[:70])
    odd = rows[:8].copy()
    odd[0] = 0.0
    odd[1] = 1e-310 if normalize else 0.25
    odd[2] *= 1e300 if normalize else 1.0
    assert operator.sketch(OnGpu(odd)).content() == operator.sketch(odd).content()
    far = rows[:9] * np.where(np.arange(9) == 4, 1e6, 1.0)[:, None]  # clipped, unless divided by its length
    found, expected = operator.sketch(OnGpu(far)), operator.sketch(far)
    assert (found.content(), found.clipped) == (expected.content(), expected.clipped)
    far[3, 1] = np.nan
    with pytest.raises(ValueError, match="row 3, column 1 is missing"):
        operator.sketch(OnGpu(far))


def sums_at_pilots(d, k, seed):
    """Operators of Voronoi cells, and of both kinds of mixtures."""
    rng = np.random.default_rng(seed)
    box = {"bound": np.linspace(6.0, 9.0, d), "center": rng.normal(size=d)}
    for radius in (None, 0.01):
        yield skl.features.CellSums.at_points(rng.normal(size=(k, d)), units=np.ones(d), radius=radius, **box)
    weights, means = rng.dirichlet(np.ones(k)), rng.normal(size=(k, d))
    yield skl.features.ExpectedStatistics.at_mixture(weights, means, rng.uniform(0.5, 2.0, (k, d)), reach=40.0, **box)
    factors = np.tril(0.2 * rng.normal(size=(k, d, d))) + np.eye(d)
    yield skl.features.ExpectedStatistics.at_mixture(weights, means, factors, reach=40.0, **box)


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize(("d", "k"), [(1, 1), (3, 70), (20, 5), (64, 40)])
def test_sums_at_a_pilot(d, k):
    rows = np.random.default_rng(d).normal(size=(150, d))
    for operator in sums_at_pilots(d, k, k):
        assert_same(operator, rows)
        far = rows * np.where(np.arange(len(rows)) == 4, 1e6, 1.0)[:, None]
        found, expected = operator.sketch(OnGpu(far)), operator.sketch(far)
        assert (found.content(), found.clipped) == (expected.content(), expected.clipped)
        far[3, d - 1] = np.nan
        with pytest.raises(ValueError, match=f"row 3, column {d - 1} is missing"):
            operator.sketch(OnGpu(far))


@pytest.mark.usefixtures("processor")
def test_missing_values_of_columns_that_no_kernel_looks_at():
    rows = np.zeros((50, 6))
    rows[41, 4] = np.nan
    with pytest.raises(ValueError, match="row 41, column 4 is missing"):
        skl.features.SomeColumns(features(3, 70), 6, which=[0, 1, 2]).sketch(rows, device="cuda")


@pytest.mark.usefixtures("processor")
def test_packed_signs():
    rng = np.random.default_rng(6)
    quantized = features(3, 70, QuantizedCosine(5))
    assert quantized.pack(OnGpu(np.ones((9, 3)))) == quantized.pack(np.ones((9, 3)))
    operator = features(3, 100, "square")
    some = skl.features.SomeColumns(operator, 7, which=[5, 1, 2])
    rows = rng.normal(size=(333, 7))
    assert operator.pack(OnGpu(rows[:, :3])) == operator.pack(rows[:, :3])
    assert some.pack(OnGpu(rows)) == some.pack(rows)
    assert some.pack(OnGpu(rows[:0])) == some.pack(rows[:0])
    rows[7, 5] = np.nan
    with pytest.raises(ValueError, match="row 7, column 5 is missing"):
        some.pack(OnGpu(rows))
    rows[7, 5] = 1e30
    with pytest.warns(UserWarning, match=r"1 row clipped: column 0 is 1e\+30"):
        assert some.pack(OnGpu(rows)) == some.pack(rows)
    with pytest.raises(ValueError, match="columns"):
        some.pack(OnGpu(rows[:, :4]))


@pytest.mark.usefixtures("processor")
def test_workers_use_their_gpus(monkeypatch):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    import dask

    operator, rows = features(3, 40), np.random.default_rng(0).normal(size=(500, 3))
    used = []
    monkeypatch.setattr(DeviceSums, "finish", lambda self, done=DeviceSums.finish: used.append(1) or done(self))
    parts = da.from_array(rows, chunks=(100, 3))
    with dask.config.set(scheduler="synchronous"):  # the processor is one card, which runs one kernel at a time
        found = skl.engines.dask.sketch(parts, operator, device="cuda")
        assert found.content() == operator.sketch(rows).content()
        assert len(used) == 5
        with pytest.raises(ValueError, match="no GPU number 7"):
            skl.engines.dask.sketch(parts, operator, device="cuda:7")


@pytest.mark.usefixtures("processor")
def test_info_names_devices(capsys):
    app = typer.main.get_command(commands.app)
    app(["info"], standalone_mode=False)
    assert re.search(r"cuda:0 +the processor\ncuda:1 +the processor", capsys.readouterr().out)
    app(["info", "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["gpus"] == ["the processor"] * 2


@pytest.mark.usefixtures("processor")
def test_parts_and_those_without_a_kernel():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 8)).astype(np.float32)
    parts = [
        features(8, 30),
        skl.features.QuadraticFeatures(8, 10, bound=40.0),
        skl.features.Histograms.even([-2] * 8, [2] * 8, bins=9),
        skl.features.ColumnMoments(8, bound=9.0),  # by the processor
        skl.features.FourierFeatures(8, 32, law=skl.features.frequencies.Gaussian(1.0), structured=True),
    ]
    both = skl.features.concatenate(parts)
    weights = rng.random(400)
    for own in (rows, OnGpu(rows), OnGpu(rows, 1)):
        assert both.sketch(own, device="cuda").content() == both.sketch(rows).content()
        weighted = both.sketch(own, sample_weight=weights, device="auto")
        assert weighted.content() == both.sketch(rows, sample_weight=weights).content()
    edges = np.array([[-2.0, 2.0, -0.0, 5.0, -9.0, 2.0, 0.0, 1.0]])
    assert parts[2].sketch(OnGpu(edges)) == parts[2].sketch(edges)


@pytest.mark.usefixtures("processor")
def test_kept_rows_and_estimators():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(30_000, 2)), rng.normal(9, 1, (10_000, 2))]).astype(np.float32)
    rows[5:9] = 0.0  # equal records
    operator = skl.design(rows, n_components=2, rows=60)
    expected = operator.sketch(rows)
    found = operator.sketch(OnGpu(rows))
    assert found.content() == expected.content()
    assert found.kept == expected.kept
    weights = rng.integers(0, 3, len(rows))
    assert operator.sketch(OnGpu(rows), sample_weight=weights).kept == operator.sketch(rows, sample_weight=weights).kept
    of_gpu = skl.SketchKMeans(2, random_state=0, n_passes=3).fit(OnGpu(rows[:6000]))
    of_source = skl.SketchKMeans(2, random_state=0, n_passes=3).fit(skl.source(rows[:6000]))
    assert np.array_equal(of_gpu.cluster_centers_, of_source.cluster_centers_)
    assert np.array_equal(of_gpu.predict(OnGpu(rows[:50])), of_gpu.predict(rows[:50]))


@pytest.mark.usefixtures("processor")
def test_blocks_shared_by_cards(monkeypatch):
    from sketchlearn.rows import source_base as blocks

    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(blocks, "GATHERED_BYTES", 1 << 10)
    rows = np.random.default_rng(0).normal(size=(900, 3))
    operator = features(3, 40)
    expected = operator.sketch(rows).content()
    assert operator.sketch(rows, device="cuda").content() == expected
    assert operator.sketch(iter(np.array_split(rows, 7)), device="cuda:1").content() == expected
    total = skl.Sketch(operator).update(rows[:100], device="cuda").update(OnGpu(rows[100:]))
    assert total.content() == expected


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize(
    "operator",
    [
        features(3, 20),
        features(3, 20).with_origin("declared"),
        features(3, 20, "square", subsample=10),
        skl.features.SecondMoments(3, bound=2.0),
        skl.features.SecondMoments(3, bound=2.0, outside="clip"),
        skl.features.QuadraticFeatures(3, 8, bound=9.0),
        skl.features.ColumnMoments(3, bound=2.0, outside="clip"),
    ],
)
def test_missing_values_are_found_by_the_kernels(operator, monkeypatch):
    """On the way to a GPU, nothing else looks at all values: that took five times as long as all else."""
    rows, sentence = np.ones((50, 3)), r'row 41, column 1 is missing \(nan\): fill it, or read with nulls="drop"'
    expected = operator.sketch(rows).content()
    if DeviceSums(operator, skl.source(rows), gpu.devices("cuda"), 1, 1).sees_every_value:
        monkeypatch.setattr("sketchlearn.rows.source_base.has_missing", lambda _: pytest.fail("looked through"))
    assert operator.sketch(rows, device="cuda").content() == expected
    rows[41, 1] = np.nan
    with pytest.raises(ValueError, match=sentence):
        operator.sketch(rows, device="cuda")


@pytest.mark.usefixtures("processor")
def test_rows_with_missing_values_can_be_left_out():
    operator, rows = features(3, 20), np.ones((50, 3))
    rows[41, 1] = np.nan
    kept = skl.source(rows, nulls="drop")
    assert operator.sketch(kept, device="cuda").content() == operator.sketch(kept).content()


@pytest.mark.usefixtures("processor")
def test_refused_rows():
    operator, rows = features(3, 40), np.random.default_rng(0).normal(size=(500, 3))
    rows[77, 2] = np.inf
    for own in (rows, OnGpu(rows)):
        with pytest.raises(ValueError, match="row 77, column 2 is inf"):
            operator.sketch(own, device="cuda")
    rows[77, 2] = 1e30  # too far for a phase: declared operators move it, and count it
    declared = operator.with_origin("declared")
    assert declared.sketch(OnGpu(rows)).content() == declared.sketch(rows).content()
    assert declared.sketch(OnGpu(rows)).clipped == declared.sketch(rows).clipped == 1
    moments = skl.features.SecondMoments(3, bound=2.0)
    with pytest.raises(ValueError, match="beyond the bound"):
        moments.sketch(OnGpu(rows))


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ("damaged", "the NVIDIA driver does not start"),
        ("old", r"the NVIDIA driver is for CUDA 11\.8, and 12\.1 is needed"),
        ("none", "there is no GPU number 0: there is none"),
        ("full", "the GPU's memory is full"),
    ],
)
def test_what_can_go_wrong(processor, wish, sentence):
    processor.setenv("SKETCHLEARN_TEST_DRIVER", wish)
    operator, rows = features(3, 400), np.random.default_rng(0).normal(size=(9000, 3))
    with pytest.raises(gpu.DeviceError, match=sentence):
        operator.sketch(rows, device="cuda")
    if wish != "full":
        with pytest.warns(UserWarning, match="continuing on the processor"):
            assert operator.sketch(rows, device="auto") == operator.sketch(rows)


@pytest.mark.usefixtures("processor")
def test_wrong_words():
    operator, rows = features(3, 40), np.zeros((5, 3))
    with pytest.raises(ValueError, match='device must be "cpu", "cuda"'):
        operator.sketch(rows, device="gpu")
    with pytest.raises(gpu.DeviceError, match="no GPU number 7: there are 2, counted from 0"):
        operator.sketch(rows, device="cuda:7")
    with pytest.raises(ValueError, match="the rows are on GPU 0"):
        operator.sketch(OnGpu(rows), device="cuda:1")
    with pytest.raises(TypeError, match="must be float16, bfloat16, float32 or float64"):
        operator.sketch(OnGpu(rows.astype(np.int32)))
    with pytest.raises(ValueError, match="two-dimensional"):
        operator.sketch(OnGpu(rows[0]))


def test_no_driver(monkeypatch):
    monkeypatch.setenv("SKETCHLEARN_CUDA", "/nowhere/libcuda.so")
    operator, rows = features(3, 40), np.zeros((5, 3))
    with pytest.raises(gpu.DeviceError, match="no NVIDIA driver is installed"):
        operator.sketch(rows, device="cuda")
    with pytest.warns(UserWarning, match="no NVIDIA driver is installed; continuing on the processor"):
        assert operator.sketch(rows, device="auto") == operator.sketch(rows)


@pytest.mark.usefixtures("processor")
def test_command_line(tmp_path):
    np.savetxt(
        tmp_path / "rows.csv", np.random.default_rng(0).normal(size=(300, 2)), delimiter=",", header="a,b", comments=""
    )
    command = [sys.executable, "-m", "sketchlearn", "sketch", "rows.csv", "-k", "2", "-o"]
    for name, device in (("here", "cpu"), ("there", "cuda")):
        arguments = [*command, f"{name}.sketch", "--device", device]
        subprocess.run(arguments, check=True, cwd=tmp_path, capture_output=True, env=os.environ)
    assert skl.load(tmp_path / "here.sketch").content() == skl.load(tmp_path / "there.sketch").content()


def test_ptx_says_every_rounding():
    """A product and a sum that do not say how they round may be fused by the driver."""
    files = sorted(PTX.glob("*.ptx"))
    assert len(files) >= 15
    unrounded = runpy.run_path(str(SOURCES / "make_ptx.py"))["UNROUNDED"]
    for path in files:
        text = path.read_text()
        assert unrounded.search(text) is None, path.name
        assert ".ftz" not in text
        assert ".approx" not in text
        assert re.search(r"^\.target sm_70$", text, re.MULTILINE)
