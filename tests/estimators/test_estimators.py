"""Every estimator passes scikit-learn's own checks, and behaves as its users expect."""

import functools
import pickle

import numpy as np
import pytest
from cases import WAVES
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as skl

ESTIMATORS = [
    skl.SketchKMeans(3, random_state=0),
    skl.SketchKMedians(3, random_state=0),
    skl.SketchGaussianMixture(2, covariance_type="diag", random_state=0),
    skl.SketchStableMixture(2, random_state=0),
]


def expected_to_fail(estimator):
    failed = {}
    if hasattr(estimator, "predict_proba"):
        for kind in ("array", "matrix"):
            name = f"check_estimator_sparse_{kind}"
            failed[name] = "scikit-learn's check takes all that has predict_proba for a classifier"
    if isinstance(estimator, skl.SketchStableMixture):
        for kind in ("dense", "sparse"):
            name = f"check_sample_weight_equivalence_on_{kind}_data"
            failed[name] = (
                "the check shuffles the rows, and 15 rows of 30 columns in another order give another mixture"
            )
    return failed


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # twenty rows are not a mixture
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_to_fail)
def test_scikit_learn(estimator, check):
    name = getattr(check, "func", check).__name__
    if "sample_weight_equivalence" in name and name in expected_to_fail(estimator):
        pytest.xfail(expected_to_fail(estimator)[name])  # after 11 s, if it ran
    check(estimator)


@pytest.mark.slow  # the estimator of above with more parameters: 15 rows of 30 columns take seconds
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([skl.SketchGaussianMixture(2, random_state=0)], expected_failed_checks=expected_to_fail)
def test_scikit_learn_with_full_covariances(estimator, check):
    check(estimator)


K, D = 5, 3
CENTERS = np.random.default_rng(0).normal(size=(K, D)) * 8


def rows_of(n=8000, seed=1):
    rng = np.random.default_rng(seed)
    return CENTERS[rng.integers(0, K, n)] + rng.normal(size=(n, D))


def away(found):
    """How far each true center is from the nearest one that was found, at most."""
    return np.linalg.norm(CENTERS[:, None] - found, axis=2).min(axis=1).max()


FITTED = [
    skl.SketchKMeans(K, random_state=0),
    skl.SketchKMedians(K, random_state=0),
    skl.SketchGaussianMixture(K, covariance_type="full", random_state=0),
    skl.SketchGaussianMixture(K, covariance_type="tied", random_state=0),
    skl.SketchGaussianMixture(K, covariance_type="diag", random_state=0),
    skl.SketchGaussianMixture(K, covariance_type="spherical", random_state=0),
    skl.SketchGaussianMixture(K, covariance_type="known", covariance=np.eye(D), random_state=0),
    skl.SketchStableMixture(K, random_state=0),
]
every_estimator = pytest.mark.parametrize("estimator", FITTED, ids=str)


def centers_of(estimator):
    return estimator.cluster_centers_ if hasattr(estimator, "cluster_centers_") else estimator.means_


@functools.cache
def fitted_once(estimator):
    """One fit that several tests look at, none of which changes it."""
    return clone(estimator).fit(rows_of())


@every_estimator
def test_fit_finds_the_clusters(estimator):
    fitted = fitted_once(estimator)
    assert away(centers_of(fitted)) < 0.15
    np.testing.assert_allclose(fitted.weights_, 1 / K, atol=0.03)
    assert fitted.outcome_.residual < 0.05


@every_estimator
def test_same_seed_same_model(estimator):
    a, b = fitted_once(estimator), clone(estimator).fit(rows_of())
    assert a.sketch_ == b.sketch_
    assert np.array_equal(centers_of(a), centers_of(b))


@every_estimator
def test_learning_needs_nothing_but_the_sketch(estimator, tmp_path):
    fitted_once(estimator).sketch_.save(tmp_path / "rows.sketch")
    again = clone(estimator).fit_sketch(skl.load(tmp_path / "rows.sketch"))
    assert away(centers_of(again)) < 0.15
    assert again.n_features_in_ == D
    again.predict(rows_of(100))


@pytest.mark.parametrize("decoder", ["auto", "ompr"])
def test_standardised_errors_decide_where_the_sketch_is_all(decoder):
    """A column of large numbers without clusters: in deviations, it counts no more than the others."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([1000 * rng.normal(size=20_000), rng.normal(size=(20_000, 2))])
    rows[:, 1:] += 2.5 * rng.integers(0, 2, (20_000, 2))
    deviations = rows.std(axis=0)
    best = KMeans(6, n_init=10, random_state=0).fit(rows / deviations)
    sketch = skl.design(rows, n_components=6, standardize=True).sketch(rows)
    found = skl.SketchKMeans(6, decoder=decoder, random_state=0).fit_sketch(sketch).cluster_centers_ / deviations
    risk = np.sum(np.min(np.sum((rows[:, None] / deviations - found) ** 2, axis=2), axis=1))
    assert risk < 1.03 * best.inertia_


@every_estimator
def test_sorted_streams_do_not_mislead(estimator):
    rows = rows_of(20_000)
    nearest = np.argmin(np.linalg.norm(rows[:, None] - CENTERS, axis=2), axis=1)
    stream = clone(estimator)
    for batch in np.array_split(rows[np.argsort(nearest, kind="stable")], 40):
        stream.partial_fit(batch)
    assert stream.sketch_.count == len(rows)
    assert away(centers_of(stream)) < 0.3


def test_short_streams_are_learned_too():
    stream = skl.SketchKMeans(2, random_state=0)
    for value in (0.0, 10.0):
        stream.partial_fit(np.full((3, 2), value))
    assert np.allclose(np.sort(stream.cluster_centers_[:, 0]), [0, 10], atol=0.1)


def test_sketches_of_two_places_merge():
    operator = skl.design(rows_of()[:2000], n_components=K, seed=0)
    both = operator.sketch(rows_of(seed=2)) + operator.sketch(rows_of(seed=3))
    assert away(skl.SketchKMeans(K, random_state=0).fit_sketch(both).cluster_centers_) < 0.1


@every_estimator
@pytest.mark.parametrize("copy", [clone, lambda e: pickle.loads(pickle.dumps(e))], ids=["clone", "pickle"])
def test_copies_are_whole(estimator, copy):
    fitted = fitted_once(estimator)
    other = copy(fitted)
    assert str(other) == str(fitted)
    if hasattr(other, "sketch_"):
        assert np.array_equal(other.predict(rows_of(50)), fitted.predict(rows_of(50)))


def test_names_of_columns_are_kept_and_checked():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(rows_of(), columns=["a", "b", "c"])
    fitted = skl.SketchKMeans(K, random_state=0).set_output(transform="pandas").fit(table)
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    assert fitted.transform(table).columns.tolist() == [f"sketchkmeans{i}" for i in range(K)]
    assert np.array_equal(fitted.predict(table[["b", "a", "c"]]), fitted.labels_)


def test_scores_and_distances_agree():
    rows, fitted = rows_of(), fitted_once(FITTED[0])
    distances = fitted.transform(rows)
    assert np.array_equal(np.argmin(distances, axis=1), fitted.labels_)
    assert -fitted.score(rows) == pytest.approx(np.sum(distances.min(axis=1) ** 2))
    assert np.array_equal(clone(fitted).fit_predict(rows), fitted.labels_)


def test_mixture_is_a_density():
    rows, fitted = rows_of(), fitted_once(FITTED[2])
    np.testing.assert_allclose(fitted.predict_proba(rows).sum(axis=1), 1)
    assert np.array_equal(fitted.predict(rows), np.argmax(fitted.predict_proba(rows), axis=1))
    samples, labels = fitted.sample(2000)
    assert abs(fitted.score(samples) - fitted.score(rows)) < 0.2
    assert labels.shape == (2000,)
    assert fitted.fit_p_value_ > 0.001
    fewer = skl.SketchGaussianMixture(2, covariance_type="spherical", random_state=0)
    with pytest.warns(UserWarning, match="2 Gaussians does not fit"):
        fewer.fit(rows)
    assert fitted.bic(rows) < fewer.bic(rows)
    assert fitted.aic(rows) < fewer.aic(rows)


def test_heavy_tails_are_told():
    rows = np.random.default_rng(0).standard_cauchy((20_000, 1)) * 2 + 5
    fitted = skl.SketchStableMixture(1, random_state=0).fit(rows)
    assert abs(fitted.alphas_[0] - 1) < 0.05
    assert abs(fitted.means_[0, 0] - 5) < 0.1
    assert abs(fitted.scales_[0, 0] / (2 * np.sqrt(2)) - 1) < 0.05
    at = np.array([[5.0], [7.0], [25.0]])
    np.testing.assert_allclose(np.exp(fitted.score_samples(at)), [0.159, 0.0796, 0.00158], rtol=0.1)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: skl.SketchKMeans(0).fit(rows_of()), "positive whole number"),
        (lambda: skl.SketchKMeans(2.5).fit(rows_of()), "positive whole number"),
        (lambda: skl.SketchKMeans(3).fit(rows_of(2)), "n_samples=2 rows cannot have 3 clusters"),
        (lambda: skl.SketchKMeans(3, decoder="magic").fit(rows_of()), "decoder must be one of"),
        (lambda: skl.SketchKMeans(3).fit_sketch(skl.features.SecondMoments(D, bound=99.0).sketch(rows_of())),
         "Fourier features"),
        (lambda: skl.SketchKMeans(3).fit_sketch(skl.Sketch(skl.design(rows_of(), n_components=3))), "sketch is empty"),
        (lambda: skl.SketchGaussianMixture(3, covariance_type="round").fit(rows_of()), "covariance_type must be one"),
        (lambda: skl.SketchGaussianMixture(3, covariance_type="known").fit(rows_of()), "covariance matrix is needed"),
        (lambda: skl.SketchGaussianMixture(3, covariance_type="known", covariance=-np.eye(D)).fit(rows_of()),
         "positive definite"),
    ],
)  # fmt: skip
def test_bad_input_is_named(act, message):
    with pytest.raises(ValueError, match=message):
        act()


def test_rows_are_no_sketch():
    with pytest.raises(TypeError, match="rows go through fit"):
        skl.SketchKMeans(2).fit_sketch(rows_of())


@pytest.mark.parametrize(
    ("rows", "k", "expected"),
    [
        (np.repeat([[0.0, 0.0], [1.0, 1.0], [5.0, 5.0]], 100, axis=0), 3, [[0, 0], [1, 1], [5, 5]]),
        (np.full((50, 2), 3.0), 1, [[3, 3]]),
        (np.full((1, 2), 3.0), 1, [[3, 3]]),
        (np.column_stack([np.repeat([-4.0, 4.0], 200), np.full(400, 7.0)]), 2, [[-4, 7], [4, 7]]),
        (np.repeat([[1.0], [9.0]], 100, axis=0), 2, [[1], [9]]),
    ],
)
def test_odd_data_get_a_good_answer(rows, k, expected):
    centers = skl.SketchKMeans(k, random_state=0).fit(rows).cluster_centers_
    np.testing.assert_allclose(centers[np.argsort(centers[:, 0])], expected, atol=0.05)


def test_more_clusters_than_distinct_rows_is_told():
    rows = np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0)
    with pytest.warns(UserWarning, match="only 2 distinct rows for 4 clusters"):
        centers = skl.SketchKMeans(4, random_state=0).fit(rows).cluster_centers_
    assert centers.shape == (4, 2)


@pytest.mark.parametrize("wave", ["square", "square-real", "cosine", "triangle", "sawtooth"])
def test_asymmetric_sketches_serve_as_well(wave):
    assert (
        away(
            skl.SketchKMeans(K, features=skl.features.Fourier(wave=WAVES[wave]), random_state=0)
            .fit(rows_of())
            .cluster_centers_
        )
        < 0.2
    )


@pytest.mark.parametrize("decoder", ["ompr", "splitting", "shift"])
def test_decoders_by_name(decoder):
    assert away(skl.SketchKMeans(K, decoder=decoder, random_state=0).fit(rows_of()).cluster_centers_) < 0.15


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (skl.SketchKMeans(K, random_state=0, decoder="ompr"), "components, misfit"),
        (skl.SketchKMeans(K, random_state=0), "SketchKMeans: a pilot"),
        (skl.SketchKMeans(K, random_state=0, features=skl.features.Fourier()), "SketchKMeans: fitted on"),
        (skl.SketchGaussianMixture(K, random_state=0, decoder="ompr"), "components, misfit"),
        (skl.SketchGaussianMixture(K, random_state=0), "fit test"),
    ],
)
def test_progress_goes_to_standard_error(estimator, said, capsys):
    """How far the pass is, then the decoder's steps or, where rows decide, how the result came about."""
    fitted = clone(estimator).set_params(verbose=1).fit(rows_of())
    shown = capsys.readouterr()
    assert not shown.out
    assert "sketching" in shown.err
    assert said in " ".join(shown.err.split())
    if fitted.decoder == "auto":
        assert fitted.outcome_.status.value in " ".join(shown.err.split())


@pytest.mark.parametrize("wave", ["square", "cosine", "triangle"])
def test_mixtures_from_asymmetric_sketches(wave):
    fitted = skl.SketchGaussianMixture(
        K, covariance_type="diag", features=skl.features.Fourier(wave=wave), random_state=0
    ).fit(rows_of(20_000))
    assert away(fitted.means_) < 0.15
    np.testing.assert_allclose(fitted.covariances_, 1, atol=0.2)


def test_a_failed_fit_leaves_the_model_as_it_was():
    fitted = skl.SketchKMeans(K, random_state=0).fit(rows_of())
    before, labels = fitted.cluster_centers_, fitted.labels_
    with pytest.raises(ValueError, match="empty"):
        fitted.fit_sketch(skl.Sketch(fitted.sketch_.operator))
    assert np.array_equal(fitted.cluster_centers_, before)
    assert np.array_equal(fitted.labels_, labels)
    assert fitted.sketch_.count == 8000


def test_batches_of_a_stream_do_not_matter():
    rows, sketches = rows_of(12_000), []
    for size in (1000, 3000, 12_000):
        stream = skl.SketchKMeans(K, random_state=0)
        for first in range(0, len(rows), size):
            stream.partial_fit(rows[first : first + size])
        sketches.append(stream.sketch_)
    assert sketches[0] == sketches[1] == sketches[2]


def test_mixtures_have_as_many_components_as_asked():
    rows = np.repeat([[0.0, 0.0], [9.0, 9.0]], 30, axis=0)
    told = pytest.warns(ConvergenceWarning, match="only 2 distinct rows")
    doubted = pytest.warns(ConvergenceWarning, match="3 Gaussians does not fit")  # but like two points
    with told, doubted:
        fitted = skl.SketchGaussianMixture(3, covariance_type="diag", random_state=0).fit(rows)
    assert fitted.predict_proba(rows).shape == (60, 3)


def needles(n, rng):
    """Flat clusters in random directions, with the tails of Student's law of 4 degrees: no mixture of Gaussians."""
    shape = np.random.default_rng(0)
    rotations = np.linalg.qr(shape.normal(size=(4, 5, 5)))[0]
    centers, labels = 2 * shape.normal(size=(4, 5)), rng.integers(0, 4, n)
    noise = rng.normal(size=(n, 5)) * [3.0, 1.0, 0.1, 0.03, 0.01] * np.sqrt(4 / rng.chisquare(4, (n, 1)))
    return centers[labels] + np.einsum("nij,nj->ni", rotations[labels], noise)


@pytest.mark.slow
def test_flat_clusters_are_resolved():
    rng = np.random.default_rng(1)
    rows, held_out = needles(30_000, rng), needles(10_000, rng)
    reference = GaussianMixture(4, n_init=3, random_state=0).fit(rows).score(held_out)
    assert skl.SketchGaussianMixture(4, random_state=0).fit(rows).score(held_out) > reference - 0.01
    with pytest.warns(ConvergenceWarning, match="does not fit the sketch"):  # frequencies do not see how flat they are
        fitted = skl.SketchGaussianMixture(4, features=skl.features.Fourier(n_frequencies=500), random_state=0).fit(
            rows
        )
    assert fitted.score(held_out) > reference - 0.5


@pytest.mark.slow
def test_an_operator_for_other_rows_does_not_decide_the_shapes():
    rng = np.random.default_rng(1)
    rows, held_out = needles(30_000, rng), needles(10_000, rng)
    operator = skl.design(needles(5000, rng)[:, ::-1], n_components=4, task="mixture-full")
    with pytest.warns(ConvergenceWarning, match="does not fit the sketch"):
        fitted = skl.SketchGaussianMixture(4, random_state=0).fit_sketch(operator.sketch(rows))
    one = GaussianMixture(1).fit(rows)
    assert fitted.score(held_out) > one.score(held_out)
