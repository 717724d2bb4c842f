"""Design: scale, units and size follow the data, whatever their units and offset; bounds alone will do."""

import math

import numpy as np
import pytest
from designs import fourier_design

import sketchlearn as skl
from sketchlearn.estimators.design.frequencies import BROAD
from sketchlearn.estimators.design.sample_summary import cluster_shapes
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.frequencies import AdaptedRadius, Gaussian, LogUniform, Mixture, Probed
from sketchlearn.features.provenance import Origin


def clusters(n=4000, k=5, d=4, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(k, d)) * 8
    return centers[rng.integers(0, k, n)] + rng.normal(size=(n, d))


def test_scale_is_that_of_clusters():
    operator = fourier_design(clusters(), n_components=5)
    widths = operator.law.widths(4)
    assert operator.n_frequencies == 10 * 5 * 4 + BROAD
    np.testing.assert_allclose(widths, 2.0, rtol=0.15)  # sqrt(d) times the deviation of a cluster


def test_units_of_the_data_do_not_matter():
    rows = clusters()
    for factor, offset in ((1e3, 0.0), (1e-3, 5.0)):
        other = fourier_design(rows * factor + offset, n_components=5)
        own = fourier_design(rows, n_components=5)
        np.testing.assert_allclose(other.law.widths(4), own.law.widths(4) * factor, rtol=1e-6)
        np.testing.assert_allclose(other.center, np.array(own.center) * factor + offset, rtol=1e-4, atol=1e-4 * factor)


def phases(operator, rows):
    """How far each column turns the waves, beyond the probes along the axes."""
    omega = operator.frequencies[:, 20:]
    return np.std((rows - rows.mean(axis=0)) * np.sqrt(np.mean(omega**2, axis=1)), axis=0)


@pytest.mark.parametrize("task", ["kmeans", "histograms"])
def test_squared_errors_count_in_the_units_given(task):
    """Columns of large numbers have the large errors: no column is measured in a unit of its own."""
    rows = clusters() * [1, 1, 1000, 1e-3]
    operator = fourier_design(rows, n_components=5, task=task)
    assert operator.law.units == (1.0,) * 4
    assert operator.units is None
    if task == "kmeans":
        seen = phases(operator, rows)
        assert seen[2] > 100 * seen[:2].max() > 1e4 * seen[3]


@pytest.mark.parametrize("task", ["kmeans", "histograms"])
def test_standardised_errors_count_in_deviations(task):
    factors = np.array([1, 1, 1000, 1e-3])
    rows = clusters() * factors
    deviations = rows.std(axis=0)
    operator = fourier_design(rows, n_components=5, task=task, standardize=True)
    np.testing.assert_allclose(operator.units, deviations, rtol=1e-9)
    np.testing.assert_allclose(operator.law.units, deviations, rtol=1e-9)
    if task == "kmeans":
        assert phases(operator, rows).max() < 2 * phases(operator, rows).min()
    plain = fourier_design(rows / deviations, n_components=5, task=task)
    np.testing.assert_allclose(operator.frequencies * deviations[:, None], plain.frequencies, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("task", ["mixture", "mixture-full", "stable"])
def test_mixtures_see_columns_of_other_units(task):
    rows = clusters() * [1, 1, 1000, 1e-3]
    seen = phases(fourier_design(rows, n_components=5, task=task), rows)
    assert seen.max() < 3 * seen.min()


def test_smaller_sketches_are_coarser():
    scales = [
        fourier_design(clusters(), n_components=5, features=skl.features.Fourier(m)).law.widths(4)[0]
        for m in (400, 200, 40)
    ]
    assert scales[0] == scales[1] < scales[2]


@pytest.mark.parametrize(
    ("task", "size"), [("kmeans", 200 + BROAD), ("mixture", 450), ("mixture-full", 750), ("stable", 500)]
)
def test_size_follows_the_parameters(task, size):
    assert fourier_design(clusters(), n_components=5, task=task).n_frequencies == size
    assert fourier_design(clusters(), n_components=5, task=task, features=skl.features.Fourier(77)).n_frequencies == 77


@pytest.mark.parametrize(("wave", "size", "more"), [("square", 250, 1.25), ("cosine", 400, 2), ("exponential", 200, 1)])
def test_waves_with_dither_get_more_frequencies(wave, size, more):
    operator = fourier_design(clusters(), n_components=5, features=skl.features.Fourier(wave=wave))
    assert operator.n_frequencies == size + math.ceil(BROAD * more)


def test_thousands_of_columns_get_fewer_frequencies():
    operator = skl.design(
        np.random.default_rng(0).normal(size=(50, 3000)), n_components=2, features=skl.features.Fourier()
    )
    assert operator.n_frequencies == 2 * 2 * 3000  # and no histograms


@pytest.mark.parametrize("options", [{"sample": clusters()}, {"bounds": (-20.0, [20.0] * 4)}])
@pytest.mark.parametrize("task", ["kmeans", "histograms"])
def test_designs_for_clusters_have_histograms(options, task):
    """And covariances, where only bounds are known: they tell how columns depend on each other."""
    operator = skl.design(n_components=5, task=task, **options)
    moments = [skl.features.SecondMoments] if "bounds" in options else []
    assert [type(part) for part in operator.parts] == [FourierFeatures, skl.features.Histograms, *moments]
    origin = Origin.DECLARED if "bounds" in options else Origin.SAMPLE
    assert [part.origin for part in operator.parts] == [origin] * len(operator.parts)


def test_private_designs_have_covariances_where_noise_lets_them_show():
    def has_moments(n_rows, epsilon, delta, d=10):
        budget = {"n_rows": n_rows, "epsilon": epsilon, "delta": delta}
        return skl.design(bounds=(-1, [1] * d), n_components=4, **budget).part(skl.features.SecondMoments) is not None

    assert has_moments(20_000, 1.0, 1e-6)
    assert not has_moments(20_000, 0.05, 1e-6)
    assert not has_moments(20_000, 1.0, 0.0)  # each number more is more noise on all
    assert not has_moments(10**6, 1.0, 1e-6, d=100)


@pytest.mark.parametrize(
    "options",
    [{"sample": clusters()}, {"sample": clusters(), "representative": False}, {"bounds": (-20.0, [20.0] * 4)},
     {"sample": clusters(), "task": "mixture"}, {"sample": clusters(), "standardize": True}],
)  # fmt: skip
def test_operator_survives_json(options):
    operator = skl.design(n_components=5, **options)
    again = skl.extend.Operator.from_json(operator.to_json())
    assert again == operator
    assert again.part(FourierFeatures).units == operator.part(FourierFeatures).units
    waves = fourier_design(n_components=5, **options)
    assert FourierFeatures.from_json(waves.to_json()) == waves


def test_streams_and_bounds_get_many_scales():
    assert isinstance(fourier_design(clusters(), n_components=5, representative=False).law.law, LogUniform)
    law = fourier_design(bounds=([-1, -10], [1, 10]), n_components=5).law
    assert law.widths(2) is None
    assert law.units == (1.0, 10.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either a sample of rows or bounds"),
        ({"sample": [[1.0]], "bounds": (0, 1)}, "either a sample of rows or bounds"),
        ({"sample": [1.0, 2.0]}, "table with at least"),
        ({"sample": np.zeros((0, 3))}, "at least one row"),
        ({"sample": [[np.nan]]}, "missing or infinite"),
        ({"bounds": (1, 0)}, "each lowest below its highest"),
        ({"bounds": ([0, 0], [1, 1, 1])}, "two lists"),
        ({"sample": [[1.0]], "task": "trees"}, "task must be one of"),
        ({"sample": [[1.0]], "features": skl.features.Moments()}, "cannot be used for 'kmeans'"),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        skl.design(n_components=2, **options)


def test_scale_is_of_the_size_of_a_published_one():
    """Of clusters whose centers have variance 1.5^2 k^(2/d) times their own (Byrne et al., arXiv 1712.02849)."""
    rows = clusters(d=10, k=10)
    own = fourier_design(rows, n_components=10).law.widths(10)[0]
    published = np.sqrt(np.sum(rows.var(axis=0)) / (1 + 2.25 * 10 ** (2 / 10)))
    assert 0.2 < published / own < 10


def test_probes_lie_along_the_axes():
    law = Probed(Gaussian(1.0), units=(1.0, 2.0), spread=(3.0, 5.0), probes=(0.5, 1.0))
    operator = FourierFeatures(2, 10, law=law, seed=0)
    expected = np.array([[0.5 / 3, 0, 1 / 3, 0], [0, 0.1, 0, 0.2]])
    np.testing.assert_allclose(operator.frequencies[:, :4], expected, rtol=1e-6)
    assert np.all(operator.frequencies[:, 4:] != 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Probed(Gaussian(1.0), units=(1.0,), spread=(1.0, 2.0)), "1 units but 2 spreads"),
        (lambda: Probed(Gaussian(1.0), units=(), spread=()), "units must be a list"),
        (lambda: Probed(Gaussian(1.0), units=(-1.0,), spread=(1.0,)), "units must be a positive number"),
        (lambda: Probed("x", units=(1.0,), spread=(1.0,)), "isotropic distribution"),
        (lambda: Mixture((Probed(Gaussian(1.0), units=(1.0,), spread=(1.0,)),)), "cannot be part of a mixture"),
        (lambda: FourierFeatures(3, 9, law=Probed(Gaussian(1.0), units=(1.0,), spread=(1.0,))).frequencies,
         "1 columns"),
        (lambda: FourierFeatures(8, 9, law=Probed(Gaussian(1.0), units=(1.0,) * 8, spread=(1.0,) * 8), structured=True),
         "isotropic"),
        (lambda: LogUniform(2.0, 1.0), "smallest must be below"),
    ],
)  # fmt: skip
def test_laws_refuse_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_widths_of_mixed_scales_are_in_the_middle():
    law = Mixture((AdaptedRadius(1.0), AdaptedRadius(4.0)), shares=(1, 1))
    np.testing.assert_allclose(law.widths(3), 2.0)


def test_shapes_come_from_more_rows_than_the_rest():
    rows = np.random.default_rng(0).standard_normal((20_000, 2)) @ [[1, 2], [0, 0.5]]
    expected = np.cov(rows.T, bias=True)
    designed = skl.design(rows, n_components=1, task="mixture-full")
    fitted = (
        skl.SketchGaussianMixture(1, features=skl.features.Fourier(n_frequencies=60), random_state=0)
        .fit(rows)
        .sketch_.operator
    )
    for operator in (designed, fitted):
        np.testing.assert_allclose(operator.law.covariances(2)[0], expected, rtol=2e-3)
    assert not np.allclose(np.cov(rows[np.linspace(0, 19_999, 5000).astype(int)].T), expected, rtol=2e-3)


def test_mixtures_are_designed_for_the_shapes_of_clusters():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 3)) * [5.0, 1.0, 0.01]
    rows = np.concatenate([rows[:2000], rows[2000:, ::-1] * 2 + 1])
    full = skl.design(rows, n_components=2, task="mixture-full").law.covariances(3)
    deviations = np.sort(np.sqrt(np.linalg.eigvalsh(full)), axis=0)
    np.testing.assert_allclose(deviations, [[0.01, 1, 5], [0.02, 2, 10]], rtol=0.2)
    diagonal = skl.design(rows, n_components=2, task="mixture").law.covariances(3)
    np.testing.assert_allclose(np.sort(np.sqrt(diagonal[:, 0, 0])), [0.02, 5], rtol=0.1)


@pytest.mark.parametrize(
    "options", [{"task": "kmeans"}, {"task": "stable"}, {"task": "mixture", "representative": False}]
)
def test_other_designs_declare_no_shapes(options):
    assert not len(fourier_design(clusters(), n_components=5, **options).law.covariances(4))


def test_few_rows_tell_no_shapes():
    assert not len(skl.design(clusters(10), n_components=5, task="mixture-full").law.covariances(4))
    assert not len(skl.design(np.ones((100, 4)), n_components=5, task="mixture").law.covariances(4))


@pytest.mark.parametrize("task", ["mixture", "mixture-full"])
def test_clusters_that_only_other_units_show_choose_the_units_of_mixtures(task):
    rng = np.random.default_rng(0)
    factors = np.logspace(0, 3, 8)
    centers = 4 * rng.standard_normal((6, 8))
    rows = (centers[rng.integers(6, size=4000)] + rng.standard_normal((4000, 8))) * factors
    units = np.array(skl.design(rows, n_components=6, task=task).law.units)
    assert np.ptp(np.log(units / factors)) < 0.2
    assert fourier_design(rows, n_components=6).law.units == (1.0,) * 8  # squared errors have no units to choose


def test_columns_of_noise_stay_small_beside_clusters():
    rng = np.random.default_rng(0)
    clusters = 20 * (4 * rng.standard_normal((6, 2))[rng.integers(6, size=4000)] + rng.standard_normal((4000, 2)))
    rows = np.concatenate([clusters, rng.standard_normal((4000, 6))], axis=1)
    law = fourier_design(rows, n_components=6).law
    spread = np.array(law.spread) / np.array(law.units)
    assert spread[2:].max() < spread[:2].min() / 8
    law = skl.design(rows, n_components=6, task="mixture").law
    spread = np.array(law.spread) / np.array(law.units)
    assert spread[2:].max() < spread[:2].min() / 3


@pytest.mark.parametrize("full", [False, True])
def test_rows_that_differ_by_rounding_alone_have_no_shapes(full):
    """The variance of 401 times 0.1 is not zero, by rounding."""
    X = np.full((401, 3), 0.1)
    assert X.var() > 0
    assert cluster_shapes(X, 2, 0, full=full) == ()


@pytest.mark.parametrize("schema", [None, "auto"])
def test_rows_made_with_the_seed_of_the_design_do_not_choose_themselves(schema):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    far = rng.random(20_000) < 0.5  # the first numbers of the seed that a design has, too
    table = pandas.DataFrame({"a": np.where(far, 100.0, 0.0) + rng.standard_normal(20_000), "b": rng.random(20_000)})
    operator = skl.design(table, n_components=2, schema=None if schema is None else skl.schema(table), seed=0)
    histograms = next(
        part for part in operator.leaves(operator.sketch(table)) if isinstance(part.operator, skl.features.Histograms)
    )
    below, *_, above = histograms.operator.split_columns(histograms.sums)[0]
    assert below + above <= 0.01 * histograms.units


def many_scales(rows, how):
    if how == "bounds":
        bounds = (rows.min(axis=0) - np.ptp(rows, axis=0), rows.max(axis=0) + 2 * np.ptp(rows, axis=0))
        return skl.design(bounds=bounds, n_components=5, features=skl.features.Fourier(n_frequencies=200))
    return skl.design(
        rows[:200], n_components=5, features=skl.features.Fourier(n_frequencies=200), representative=False
    )


@pytest.mark.parametrize("how", ["bounds", "stream"])
@pytest.mark.parametrize(("factor", "offset"), [(1.0, 0.0), (1e3, 7e3), (1e-3, 5.0)])
def test_a_small_sketch_tells_the_scale(how, factor, offset):
    rows = clusters() * factor + offset
    first = many_scales(rows, how)
    operator = skl.design(first.sketch(rows), n_components=5, features=skl.features.Fourier(n_frequencies=200))
    expected = fourier_design(rows, n_components=5, features=skl.features.Fourier(200))
    found = operator.part(FourierFeatures)
    assert found.n_frequencies == 200
    ratio = np.exp(np.mean(np.log(found.law.widths(4) / expected.law.widths(4))))
    assert 0.8 < ratio < 1.25
    np.testing.assert_allclose(found.law.spread, rows.std(axis=0), rtol=0.25)
    assert np.all(np.abs(found.center - rows.mean(axis=0)) < 0.25 * rows.std(axis=0))
    assert [part for part in operator.parts if not isinstance(part, FourierFeatures)] == [
        part for part in first.parts if not isinstance(part, FourierFeatures)
    ]
    assert operator.origin is Origin.SAMPLE


def test_clusters_are_found_with_an_operator_of_a_small_sketch():
    rows = clusters(20_000)
    first = skl.design(
        bounds=([-60] * 4, [60] * 4), n_components=5, features=skl.features.Fourier(n_frequencies=100)
    ).sketch(rows[:2000])
    sketch = skl.design(first, n_components=5).sketch(rows)
    found = skl.SketchKMeans(5, random_state=0).fit_sketch(sketch)
    best = skl.SketchKMeans(5, random_state=0).fit(rows)
    assert found.score(rows) >= 1.01 * best.score(rows)


def test_units_and_rows_of_a_small_sketch_stay():
    rows = clusters() * [1.0, 10.0, 1.0, 1.0]
    first = skl.design(rows[:500], n_components=5, representative=False, standardize=True, rows=50)
    operator = skl.design(first.sketch(rows), n_components=5)
    assert operator.error_units == first.error_units
    assert operator.part(FourierFeatures).keeping == first.part(FourierFeatures).keeping
    assert operator.sketch(rows).kept is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "mixture"}, "for 'mixture', give design a sample"),
        ({"rows": 10}, "rows needs a sample"),
        ({"schema": "auto"}, "schema needs a sample"),
        ({"n_rows": 1000}, "n_rows needs a sample"),
        ({"features": skl.features.Fourier(subsample=10)}, "subsample needs a sample"),
        ({"features": skl.features.Cells(2)}, "Cells needs a sample"),
        ({"features": skl.features.Cells(normalize=True)}, "Cells needs a sample"),
        ({"bounds": (0, 1)}, "either a sample of rows or bounds"),
    ],
)
def test_what_a_sketch_does_not_tell_is_refused(options, message):
    sketch = many_scales(clusters(), "bounds").sketch(clusters())
    with pytest.raises(ValueError, match=message):
        skl.design(sketch, n_components=5, **options)


def test_one_scale_tells_no_other():
    sketch = skl.design(clusters(), n_components=5).sketch(clusters())
    with pytest.raises(ValueError, match="one scale, from which no better one can"):
        skl.design(sketch, n_components=5)
