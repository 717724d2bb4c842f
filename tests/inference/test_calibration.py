"""Samples that are reweighted until they agree with a sketch, and clusters learned from kept or given rows."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

import sketchlearn as skl
from sketchlearn.inference.calibration import Means, WeightedRows, calibrated
from sketchlearn.inference.decoders.loop import Status
from sketchlearn.inference.weighted_clusters import RowSample, SquaredLoss, are_within_sampling_error

SHARES = (0.7, 0.2, 0.1)


def clusters(n, shares=SHARES, seed=0):
    """Rows of three clusters, and which they belong to."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, n, p=shares)
    return np.array([[0, 0, 0], [6, 0, 2], [0, 7, -3.0]])[labels] + rng.standard_normal((n, 3)), labels


X, _ = clusters(20_000)
BIASED, LABELS = clusters(500, (0.35, 0.35, 0.3), seed=1)  # the first cluster has half of its share
WHOLE_DESIGN = skl.design(X[:3000], n_components=3, seed=1)
DESIGN = next(
    part for part in getattr(WHOLE_DESIGN, "parts", (WHOLE_DESIGN,)) if isinstance(part, skl.features.FourierFeatures)
)
OPERATORS = {
    "design": WHOLE_DESIGN,
    "exponential": DESIGN,
    "cosine": replace(DESIGN, wave="cosine"),
    "one bit": replace(DESIGN, wave="square"),
    "one bit, real": replace(DESIGN, wave=skl.features.waves.Square(complex=False)),
    "modulo": replace(DESIGN, wave="sawtooth"),
    "subsampled": replace(DESIGN, subsample=DESIGN.n_frequencies // 3),
    "concatenated": skl.features.concatenate([skl.features.SecondMoments(3, bound=1e3), DESIGN]),
}


def calibrate(sketch, rows, weights=None, seed=0):
    (found,) = calibrated(sketch, [WeightedRows.of(rows, weights)], np.random.default_rng(seed))
    assert np.all(found.weights >= 0)
    assert found.weights.sum() == pytest.approx(1, abs=1e-12)
    assert np.array_equal(found.rows, rows)
    return found


def disagreement(sketch, sample):
    """Root mean square difference of the sample's features from the sketch's means."""
    means = Means.of(sketch)
    return float(np.sqrt(np.mean((means.values - sample.weights @ means.features(sample.rows)) ** 2)))


@pytest.mark.parametrize("name", OPERATORS)
def test_a_biased_sample_is_repaired(name):
    sketch, before = OPERATORS[name].sketch(X), WeightedRows.of(BIASED)
    after = calibrate(sketch, BIASED)
    assert disagreement(sketch, after) < 0.06 * disagreement(sketch, before)
    assert np.abs(np.bincount(LABELS, after.weights) - SHARES).max() < 0.02  # it was 0.35
    errors = np.abs(after.weights @ BIASED - X.mean(axis=0)) / X.std(axis=0)
    assert errors.max() < 0.03  # it was 0.4
    assert np.abs(before.weights @ BIASED - X.mean(axis=0)).max() > 0.9
    assert 100 < after.effective_size < 500


def test_a_representative_sample_is_improved():
    """Mean squared errors over 20 draws, of a mean and of squares, which no feature is."""
    sketch, before, after = DESIGN.sketch(X), [], []
    for seed in range(20):
        rows = X[np.random.default_rng(seed).choice(len(X), 400, replace=False)]
        functions = np.concatenate([rows, rows**2], axis=1)
        truth = np.concatenate([X, X**2], axis=1).mean(axis=0)
        before.append(functions.mean(axis=0) - truth)
        after.append(calibrate(sketch, rows, seed=seed).weights @ functions - truth)
    assert np.all(np.mean(np.square(after), axis=0) < 0.3 * np.mean(np.square(before), axis=0))


def test_rows_of_a_wrong_kind_lose_their_weight():
    odd = np.concatenate([BIASED, np.random.default_rng(2).uniform(-8, 12, (500, 3))])
    after = calibrate(DESIGN.sketch(X), odd)
    assert after.weights[500:].sum() < 0.2  # of a half
    assert np.abs(after.weights @ odd - X.mean(axis=0)).max() < 0.1


def test_a_private_sketch_and_a_public_sample():
    operator = skl.design(bounds=([-6] * 3, [12] * 3), n_components=3, n_rows=20_000, epsilon=1.0)
    release = skl.privatize(operator.sketch(X), epsilon=1.0, seed_for_tests_not_private=0)
    after = calibrate(release, BIASED)
    assert np.abs(np.bincount(LABELS, after.weights) - SHARES).max() < 0.03
    model = skl.SketchKMeans(3, random_state=0).fit_sketch(release, sample=BIASED, assume_public_sample=True)
    best = KMeans(3, n_init=3, random_state=0).fit(X).inertia_
    assert -model.score(X) < 1.01 * best
    assert model.privacy_.epsilon == 1.0


def test_noise_is_not_followed():
    """A release that is mostly noise changes the weights of a good sample little."""
    operator = skl.design(bounds=([-6] * 3, [12] * 3), n_components=3, features=skl.features.Fourier(n_frequencies=60))
    release = skl.privatize(operator.sketch(X[:1000]), epsilon=0.05, seed_for_tests_not_private=0)
    rows = X[-300:]
    after = calibrate(release, rows)
    assert after.effective_size > 150
    assert np.abs(after.weights @ rows - X.mean(axis=0)).max() < 0.5


def test_constant_columns_and_huge_offsets():
    far = np.array([1e9, -1e6, 0.0, 5.0])
    rows, sample = (np.c_[table, np.zeros(len(table))] + far for table in (X, BIASED))
    sketch = skl.design(rows[:3000], n_components=3, seed=1).sketch(rows)
    after = calibrate(sketch, sample)
    assert np.abs(np.bincount(LABELS, after.weights) - SHARES).max() < 0.02
    assert np.abs((after.weights @ (sample - far))[:3] - X.mean(axis=0)).max() < 0.1
    model = skl.SketchKMeans(3, random_state=0).fit_sketch(sketch, sample=sample)
    assert np.all(np.abs(model.cluster_centers_[:, 3] - 5) < 1e-6)
    assert -model.score(rows) < 1.01 * KMeans(3, n_init=3, random_state=0).fit(X).inertia_


def test_equal_rows_and_single_rows_keep_their_weights():
    sketch = DESIGN.sketch(np.ones((50, 3)))
    assert np.allclose(calibrate(sketch, np.ones((5, 3)), [1, 2, 3, 4, 5]).weights, np.arange(1, 6) / 15)
    assert calibrate(sketch, np.zeros((1, 3))).weights.tolist() == [1.0]


def test_weights_that_are_known_stay():
    known = np.where(np.arange(500) < 100, 0.0, 1.0)
    sample = replace(WeightedRows.of(BIASED), slack=known)
    (after,) = calibrated(DESIGN.sketch(X), [sample], np.random.default_rng(0))
    ratios = after.weights[:100] / sample.weights[:100]
    assert np.ptp(ratios) < 1e-12
    assert np.ptp(after.weights[100:]) > 1e-4
    (closed,) = calibrated(DESIGN.sketch(X), [replace(sample, slack=np.zeros(500))], np.random.default_rng(0))
    assert np.array_equal(closed.weights, sample.weights)


def test_weights_depend_on_the_seed_alone():
    sketch = DESIGN.sketch(X)
    one, same = (calibrate(sketch, BIASED, seed=3).weights for _ in range(2))
    assert np.array_equal(one, same)
    models = [skl.SketchKMeans(3, random_state=5).fit_sketch(sketch, sample=BIASED) for _ in range(2)]
    assert np.array_equal(models[0].cluster_centers_, models[1].cluster_centers_)
    fits = [skl.SketchKMeans(3, random_state=5).fit(X[:6000], None) for _ in range(2)]
    assert np.array_equal(fits[0].cluster_centers_, fits[1].cluster_centers_)


# --- estimators

TABLES = {
    f"{name}{', standardised' if own is scale else ''}": (lambda load=load, own=own: own(load().data))
    for name, load in {
        "iris": load_iris,
        "wine": load_wine,
        "breast cancer": load_breast_cancer,
        "diabetes": load_diabetes,
    }.items()
    for own in (np.asarray, scale)
}


@pytest.mark.parametrize("name", TABLES)
def test_few_rows_are_clustered_as_kmeans_does(name):
    """No further from the better of two runs of KMeans than the other one, plus 0.002."""
    rows = TABLES[name]()
    for k in (3, 4, 8):
        model = skl.SketchKMeans(k, random_state=0).fit(rows)
        runs = sorted(KMeans(k, n_init=10, random_state=seed).fit(rows).inertia_ for seed in (1, 2))
        assert model.outcome_.status is Status.STEP
        assert -model.score(rows) < runs[1] + 0.002 * runs[0]
        assert np.allclose(np.bincount(model.labels_, minlength=k) / len(rows), model.weights_, atol=1e-9)


def people(n=20_000, seed=0):
    """Income, age, visits, a flag and a code."""
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.3
    income = np.round(rng.lognormal(10, 0.8, n) * (1 + member), -2)
    columns = [income, rng.integers(18, 90, n), rng.poisson(3 + 10 * member), member, rng.integers(0, 5, n)]
    return np.stack(columns, axis=1).astype(float)


PEOPLE = people()


def standardised(rows, centers=None):
    points = rows if centers is None else centers
    return (points - rows.mean(axis=0)) / rows.std(axis=0)


@pytest.mark.parametrize("standardize", [False, True])
def test_money_counts_and_flags(standardize):
    rows = standardised(PEOPLE) if standardize else PEOPLE
    for k in (3, 4, 8):
        best = KMeans(k, n_init=10, random_state=0).fit(rows).inertia_
        model = skl.SketchKMeans(k, random_state=0).fit(rows)
        assert -model.score(rows) < 1.005 * best


def test_standardize_is_kmeans_on_standardised_columns():
    rows = np.r_[PEOPLE[:6000], PEOPLE[:6000] + np.array([3e5, 0, 30, 0, 0])]
    inner, k = standardised(rows), 4
    model = skl.SketchKMeans(k, standardize=True, random_state=0).fit(rows)
    plain = KMeans(k, n_init=10, random_state=0).fit(inner)
    centers = standardised(rows, model.cluster_centers_)
    labels = np.argmin(((inner[:, None] - centers) ** 2).sum(axis=2), axis=1)
    assert ((inner - centers[labels]) ** 2).sum() < 1.005 * plain.inertia_
    assert adjusted_rand_score(labels, plain.labels_) > 0.99
    assert np.all(centers >= inner.min(axis=0) - 1e-9)
    assert np.all(centers <= inner.max(axis=0) + 1e-9)


def test_batches_keep_rows_too():
    """Batch by batch, the design is that of the first 5000 rows; then the same rows are kept as in one call."""
    whole = skl.SketchKMeans(4, random_state=0).partial_fit(PEOPLE)
    batches = skl.SketchKMeans(4, random_state=0)
    for rows in np.array_split(PEOPLE, 80):
        batches.partial_fit(rows)
    assert batches._state.sketch.kept == whole._state.sketch.kept
    assert len(batches._state.sketch.kept) == 5000
    assert batches.sketch_ == whole.sketch_
    assert np.array_equal(batches.cluster_centers_, whole.cluster_centers_)
    assert -batches.score(PEOPLE) < 1.005 * KMeans(4, n_init=10, random_state=0).fit(PEOPLE).inertia_
    again = skl.SketchKMeans(4, random_state=0).fit_sketch(whole._state.sketch)
    assert np.array_equal(again.cluster_centers_, whole.cluster_centers_)


def test_kept_rows_travel_with_the_sketch(tmp_path):
    operator = skl.design(PEOPLE[:5000], n_components=4, rows=500, seed=2)
    paths = [tmp_path / f"{i}.sketch" for i in range(3)]
    for path, rows in zip(paths, np.array_split(PEOPLE, 3), strict=True):
        operator.sketch(rows).save(path)
    model = skl.SketchKMeans(4, random_state=0).fit_sketch(skl.merge(paths))
    best = KMeans(4, n_init=10, random_state=0).fit(PEOPLE).inertia_
    assert -model.score(PEOPLE) < 1.02 * best
    assert model.outcome_.status in (Status.ROWS, Status.EXPLAINED)
    assert model.sketch_.kept is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:a cluster has only")  # a few large incomes
@pytest.mark.parametrize(
    ("rows", "excess"),
    [(PEOPLE[:, 1:], 0.5), (np.sqrt(PEOPLE), 0.6), (PEOPLE, 1.0)],
    ids=["age, visits, flag, code", "square roots", "money"],
)
@pytest.mark.filterwarnings("ignore:the farthest hundredth of the sample's rows")
def test_a_given_sample_is_better_with_the_sketch_than_alone(rows, excess):
    """On average over 10 draws of 300 rows: how far both are from KMeans on all rows."""
    sketch = skl.design(rows[:5000], n_components=4, seed=2).sketch(rows)
    best = KMeans(4, n_init=5, random_state=0).fit(rows).inertia_
    alone, together = [], []
    for seed in range(10):
        some = rows[np.random.default_rng(seed).choice(len(rows), 300, replace=False)]
        alone.append(-KMeans(4, n_init=10, random_state=0).fit(some).score(rows) / best - 1)
        model = skl.SketchKMeans(4, random_state=0).fit_sketch(sketch, sample=some)
        together.append(-model.score(rows) / best - 1)
    assert np.mean(together) < excess * np.mean(alone)
    assert np.median(together) < np.median(alone)


def test_samples_are_checked():
    sketch = skl.design(PEOPLE[:500], n_components=2).sketch(PEOPLE[:500])
    model = skl.SketchKMeans(2, random_state=0)
    for sample, message in (
        (np.empty((0, 5)), "the sample has no rows"),
        (PEOPLE[:9, :4], "4 columns, but"),
        (np.full((9, 5), np.nan), "missing|nan"),
        (np.full((9, 5), np.inf), "the sample has missing or infinite values"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit_sketch(sketch, sample=sample)


@pytest.mark.parametrize("n_rows", [1, 4, 5, 9])
@pytest.mark.parametrize("estimator", [skl.SketchKMeans, skl.SketchKMedians, skl.SketchGaussianMixture])
def test_a_sample_that_is_too_small_is_refused_in_a_sentence(estimator, n_rows):
    """Five rows for five clusters ended in an error of NumPy's: shape mismatch."""
    operator = skl.design(bounds=([-6] * 3, [12] * 3), n_components=5)
    exact = operator.sketch(X)
    for sketch in (exact, skl.privatize(exact, epsilon=1.0)):
        with pytest.raises(
            ValueError, match=r"rows? beside the sketch cannot determine 5 clusters .* at least 10 rows"
        ):
            estimator(5, random_state=0).fit_sketch(sketch, sample=X[:n_rows], assume_public_sample=True)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("rows", [X[:4], np.repeat(X[:2], 2, axis=0), np.repeat(X[:1], 4, axis=0)])
@pytest.mark.parametrize("estimator", [skl.SketchKMeans, skl.SketchKMedians, skl.SketchGaussianMixture])
def test_the_smallest_samples_are_learned_from(estimator, rows):
    """Rows that are equal, too: some centers then coincide."""
    model = estimator(2, random_state=0).fit_sketch(DESIGN.sketch(X), sample=rows)
    assert len(model.weights_) == 2


def test_a_precise_sketch_of_clear_clusters_ends_with_their_mixture():
    """Sampling noise falls with the number of rows: what is left must be judged by more than that."""
    rng = np.random.default_rng(5)
    rows = 8 * rng.integers(-2, 3, (1_000_000, 2))[:, :1] + rng.standard_normal((1_000_000, 2))
    sketch = skl.design(rows[:5000], n_components=5).sketch(rows)
    model = skl.SketchKMeans(5, random_state=0).fit_sketch(sketch)
    assert model.outcome_.status is Status.EXPLAINED
    np.testing.assert_allclose(np.sort(model.cluster_centers_[:, 0]), [-16, -8, 0, 8, 16], atol=0.01)


def heavy_tails(n=30_000):
    """Rows of which a few, far away, have most of the squared error."""
    rng = np.random.default_rng(6)
    return rng.standard_t(1.5, (n, 3))


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_tails_are_not_diluted_by_atoms(seed):
    rows = heavy_tails()
    sketch = skl.design(rows[:5000], n_components=4, rows=500, seed=seed).sketch(rows)
    model = skl.SketchKMeans(4, random_state=seed).fit_sketch(sketch)
    best = KMeans(4, n_init=10, random_state=0).fit(rows).inertia_
    assert -model.score(rows) < 1.01 * best


def test_few_rows_are_joined_by_atoms():
    """Five clusters in a cloud: 300 kept rows alone are 4 % above the best, with atoms of the sketch half as much."""
    rng = np.random.default_rng(7)
    rows = rng.gamma(2.0, 1.0, (20_000, 4))
    best = KMeans(5, n_init=10, random_state=0).fit(rows).inertia_
    figures = []
    for seed in range(3):
        sketch = skl.design(rows[:5000], n_components=5, rows=300, seed=seed).sketch(rows)
        model = skl.SketchKMeans(5, random_state=seed).fit_sketch(sketch)
        assert model.outcome_.status is Status.ROWS
        figures.append(-model.score(rows) / best)
    assert np.median(figures) < 1.02


def test_a_cluster_of_a_few_records_is_doubtful():
    rows = heavy_tails()
    operator = skl.design(rows, n_components=4)
    with pytest.warns(ConvergenceWarning, match=r"only about \d of [\d,]+ records, .*rows=500"):
        skl.SketchKMeans(4, random_state=0).fit_sketch(operator.sketch(rows))


@pytest.mark.filterwarnings("ignore:a cluster has only")
def test_a_sample_that_misses_what_is_far_away_is_doubtful():
    rows = heavy_tails()
    near = rows[np.max(np.abs(rows), axis=1) < 20][:500]
    sketch = skl.design(near, n_components=4).sketch(rows)
    with pytest.warns(ConvergenceWarning, match="so far beyond the range of the design that .* give more rows"):
        skl.SketchKMeans(4, random_state=0).fit_sketch(sketch, sample=near)


def test_a_cluster_of_few_given_rows_is_doubtful():
    rng = np.random.default_rng(8)
    rows = np.concatenate([rng.standard_normal((20_000, 2)), [[300.0, 0], [301, 1]] * 20])
    some = np.concatenate([rows[:500], rows[-1:]])
    sketch = skl.design(some, n_components=2).sketch(rows)
    with pytest.warns(ConvergenceWarning, match="a cluster has only 1 of the 501 rows of the sample: give more rows"):
        skl.SketchKMeans(2, random_state=0).fit_sketch(sketch, sample=some)


def test_a_sample_of_heavy_tails_is_doubtful():
    """Rarer rows, which the sample misses, may lie farther than the farthest of it."""
    rng = np.random.default_rng(9)
    rows = rng.standard_t(2.0, (20_000, 2))
    some = rows[:500]
    sketch = skl.design(rows, n_components=2).sketch(rows)
    with pytest.warns(ConvergenceWarning, match="the farthest hundredth of the sample's rows has .* give more rows"):
        skl.SketchKMeans(2, random_state=0).fit_sketch(sketch, sample=some)


def test_optimism_of_clusters_of_rows():
    """Of rows of three clusters, their own centers cost less than those of the law by what is foretold."""
    loss, ratios = SquaredLoss(), []
    for seed in range(40):
        rows, labels = clusters(300, seed=seed)
        sample = RowSample(WeightedRows.of(rows), np.ones(3))
        own = np.stack([rows[labels == label].mean(axis=0) for label in range(3)])
        law = np.array([[0, 0, 0], [6, 0, 2], [0, 7, -3.0]])
        gained = np.mean(loss.losses(rows, law)) - np.mean(loss.losses(rows, own))
        ratios.append(gained / loss.optimism(sample.rows, own))
        assert not are_within_sampling_error(sample, law + 0.3, own, loss)
    assert abs(np.mean(ratios) - 1) < 4 * np.sqrt(2 / 9 / 40)  # a mean of 9 squares each
