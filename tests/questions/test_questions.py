"""Questions to a sketch: answers near what the rows say, errors that mean something, sentences for the rest."""

import numpy as np
import pytest
from designs import fourier_design
from scipy.stats import multivariate_normal

import sketchlearn as skl
from sketchlearn.questions.marginals import Axis, Histogram

RNG = np.random.default_rng(0)
CENTERS = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 2.0]])
ROWS = CENTERS[RNG.integers(2, size=60_000)] + RNG.standard_normal((60_000, 3))
ODD = np.stack([RNG.exponential(size=60_000), RNG.uniform(size=60_000), RNG.standard_t(4, 60_000)], axis=1)


@pytest.fixture(scope="module")
def ask():
    return skl.Questions(skl.design(ROWS, n_components=2).sketch(ROWS))


def total_variation(histogram, column):
    true = np.histogram(column, histogram.edges)[0] / len(column)
    return 0.5 * np.sum(np.abs(true - histogram.shares)) + 0.5 * abs(true.sum() - histogram.shares.sum())


def test_density(ask):
    points = ROWS[:200]
    true = np.mean([multivariate_normal(center).pdf(points) for center in CENTERS], axis=0)
    assert np.median(np.abs(ask.density(points) / true - 1)) < 0.05


@pytest.mark.parametrize("column", [0, 1, 2])
def test_marginal_of_a_mixture(ask, column):
    assert total_variation(ask.marginal(column), ROWS[:, column]) < 0.02


@pytest.mark.parametrize("wave", ["exponential", "square"])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_marginal_of_anything_with_frequencies_along_the_axes(wave, column):
    operator = fourier_design(
        ODD, n_components=4, task="histograms", features=skl.features.Fourier(n_frequencies=600, wave=wave)
    )
    histogram = skl.Questions(operator.sketch(ODD)).marginal(column, bins=30)
    assert total_variation(histogram, ODD[:, column]) < 0.03


def test_errors_of_shares_are_of_the_right_size():
    operator = fourier_design(ODD, n_components=4, task="histograms", features=skl.features.Fourier(n_frequencies=600))
    edges, away = np.linspace(0, 4, 9), []
    for part in np.split(ODD, 30):
        histogram = skl.Questions(operator.sketch(part)).marginal(0, edges)
        true = np.diff(1 - np.exp(-edges))
        away.append((histogram.shares - true)[1:] / histogram.errors[1:])
    assert 0.3 < np.sqrt(np.mean(np.square(away))) < 3


def test_edges_are_respected(ask):
    histogram = ask.marginal(0, [-1, 0, 3, 7])
    assert histogram.edges.tolist() == [-1, 0, 3, 7]
    assert "outside  0.161" in str(histogram)
    assert histogram.outside == pytest.approx(np.mean((ROWS[:, 0] < -1) | (ROWS[:, 0] > 7)), abs=0.02)
    assert len(str(histogram).splitlines()) == 6
    assert str(histogram).endswith("estimated: an edge lies within one of the sketch's bins, or beyond them)")
    alone = skl.Questions(fourier_design(ROWS, n_components=2).sketch(ROWS)).marginal(0, [-1, 0, 3, 7])
    assert alone.edges.tolist() == [-1, 0, 3, 7]
    assert len(str(alone).splitlines()) == 5


def test_questions_to_nested_operators():
    """A design beside other operators answers as it does alone."""
    operator = skl.design(ROWS, n_components=2)
    both = skl.features.concatenate([operator, skl.features.SecondMoments(3, bound=1e3)])
    alone, beside = (skl.Questions(one.sketch(ROWS)) for one in (operator, both))
    assert np.array_equal(alone.marginal(0).shares, beside.marginal(0).shares)
    assert np.array_equal(alone.density(ROWS[:9]), beside.density(ROWS[:9]))
    fitted = [skl.SketchKMeans(2, random_state=0).fit_sketch(one.sketch(ROWS)) for one in (operator, both)]
    assert np.array_equal(fitted[0].cluster_centers_, fitted[1].cluster_centers_)


@pytest.mark.parametrize("column", [0, 1, 2])
def test_marginal_of_a_mixture_without_histograms(column):
    ask = skl.Questions(fourier_design(ROWS, n_components=2).sketch(ROWS))
    assert total_variation(ask.marginal(column), ROWS[:, column]) < 0.02


@pytest.mark.parametrize("column", [0, 1, 2])
def test_histograms_of_a_design_are_exact(ask, column):
    histogram = ask.marginal(column)
    assert np.all(histogram.exact)
    assert total_variation(histogram, ROWS[:, column]) < 1e-12


@pytest.mark.parametrize(
    "function",
    [
        lambda rows: rows[:, 0],
        lambda rows: rows[:, 0] * rows[:, 2],
        lambda rows: np.cos(rows.sum(axis=1)),
        lambda rows: 1.0 * (rows[:, 1] > 0.5),
    ],
    ids=["mean", "product", "wave", "share"],
)
def test_mean_of(ask, function):
    answer, true = ask.mean_of(function), np.mean(function(ROWS))
    spread = np.std(function(ROWS))
    assert abs(answer.value - true) < 0.02 * spread
    assert 0.5 * spread / np.sqrt(len(ROWS)) < answer.error < 0.05 * spread


def test_distance_of_the_same_and_of_others():
    operator = skl.design(ROWS, n_components=2)
    parts = [operator.sketch(rows) for rows in np.split(ROWS[:20_000], 2)]
    same = skl.distance(*parts)
    assert same.low == 0.0 < same.high < 0.03
    moved = skl.distance(parts[0], operator.sketch(ROWS[20_000:30_000] + np.array([1.0, 0, 0])))
    assert moved.low < moved.value < moved.high
    assert moved.low > 2 * same.high
    wider = skl.distance(*parts, confidence=0.999)
    assert wider.high > same.high


@pytest.mark.slow
def test_intervals_cover():
    """90 % intervals of 60 pairs miss at most 15 of them, in all but 1 of 1000 runs if they are what they say."""
    operator = skl.design(ROWS[:, :2], n_components=1)
    whole = operator.sketch(ROWS[:, :2]).mean - operator.sketch(ROWS[:, :2] + [0.3, 0]).mean
    true = np.sqrt(np.mean(np.abs(whole) ** 2))
    rows, misses = np.split(ROWS[:, :2], 120), 0
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        found = skl.distance(operator.sketch(first), operator.sketch(second + np.array([0.3, 0])), confidence=0.9)
        misses += not found.low <= true <= found.high
    assert misses <= 15


@pytest.mark.slow
def test_changes_are_found_once_and_dated():
    operator, detector = skl.design(ROWS, n_components=2), skl.ChangeDetector()
    days = [rows + ([0.5, 0, 0] if 6 <= day < 12 else 0) for day, rows in enumerate(np.split(ROWS[:36_000], 18))]
    alarms = [change for day in days if (change := detector.update(operator.sketch(day))).alarm]
    assert [change.since for change in alarms] == [6, 12]
    assert all(change.step <= change.since + 1 for change in alarms)
    assert "changed since 6" in str(detector.changes[alarms[0].step])
    assert len(detector.changes) == 18


@pytest.mark.slow
def test_small_changes_need_more_than_one_sketch():
    operator, detector = skl.design(ROWS, n_components=2), skl.ChangeDetector()
    days = [rows + ([0, 0.12, 0] if day >= 10 else 0) for day, rows in enumerate(np.split(ROWS[:36_000], 36))]
    alarms = [change for day in days if (change := detector.update(operator.sketch(day))).alarm]
    assert alarms
    assert alarms[0].step > 10
    assert abs(alarms[0].since - 10) <= 4


def test_axes_need_enough_frequencies():
    few = fourier_design(ROWS, n_components=2).sketch(ROWS[:100])
    many = fourier_design(
        ROWS, n_components=2, task="histograms", features=skl.features.Fourier(n_frequencies=300)
    ).sketch(ROWS[:100])
    assert Axis.of(few, 0) is None
    assert Axis.of(many, 0) is not None


SKETCH = skl.design(ROWS, n_components=2).sketch(ROWS[:1000])


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda: skl.Questions(ROWS), "questions are put to a sketch, not ndarray"),
        (
            lambda: skl.Questions(skl.features.SecondMoments(3, bound=20.0).sketch(ROWS[:9])).density(ROWS[:1]),
            "need frequencies of all columns",
        ),
        (lambda: skl.Questions(SKETCH.operator.sketch(ROWS[:0])), "the sketch is empty"),
        (lambda: skl.Questions(SKETCH).marginal("age"), "no column 'age'"),
        (lambda: skl.Questions(SKETCH).marginal(3), "no column 3"),
        (lambda: skl.Questions(SKETCH).marginal(0, bins=[3, 1]), "edges in ascending order"),
        (lambda: skl.Questions(SKETCH).marginal(0, bins=0), "bins must be"),
        (lambda: skl.Questions(SKETCH).density([1.0, 2.0]), "a table of 3 columns"),
        (lambda: skl.Questions(SKETCH).mean_of(lambda _: 1.0), "one finite number for each row"),
        (lambda: skl.distance(SKETCH, SKETCH, confidence=1.0), "between 0 and 1"),
        (lambda: skl.distance(SKETCH, ROWS), "expected two sketches, not ndarray"),
        (lambda: skl.ChangeDetector(level=2), "between 0 and 1"),
        (lambda: skl.ChangeDetector(windows=()), "at least one"),
        (lambda: skl.ChangeDetector().update(ROWS), "sketch the rows first"),
        (lambda: skl.ChangeDetector().update(SKETCH.operator.sketch(ROWS[:0])), "the sketch is empty"),
    ],
)
def test_bad_questions_get_a_sentence(question, message):
    with pytest.raises((TypeError, ValueError), match=message):
        question()


def test_histogram_prints():
    histogram = Histogram("a", np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.5]), np.array([0.1, 0.1]))
    assert str(histogram).count("#") == 40


# private sketches


def released(rows, seed, n_frequencies=60):
    operator = skl.design(
        bounds=([-12.0] * 2, [12.0] * 2), n_components=2, features=skl.features.Fourier(n_frequencies=n_frequencies)
    )
    return skl.privatize(operator.sketch(rows), epsilon=1.0, seed_for_tests_not_private=seed)


@pytest.mark.slow
@pytest.mark.parametrize("n_frequencies", [60, None])
def test_private_noise_does_not_pass_for_drift(n_frequencies):
    """At the 5 % level, at most 7 of 40 pairs are rejected, in all but 1 of 1000 runs; without care, nearly all are."""
    pairs = np.split(ROWS[:40_000, :2], 80)
    found = [
        skl.two_sample_test(released(a, i, n_frequencies), released(b, 100 + i, n_frequencies))
        for i, (a, b) in enumerate(zip(pairs[::2], pairs[1::2], strict=True))
    ]
    assert sum(drift.p_value < 0.05 for drift in found) <= 7
    assert sum(drift.p_value < 0.5 for drift in found) >= 8
    apart = skl.distance(released(pairs[0], 1), released(pairs[1], 2))
    assert apart.low == 0.0


def test_large_changes_show_through_private_noise():
    a, b = released(ROWS[:20_000, :2], 1), released(ROWS[20_000:40_000, :2] + np.array([3.0, 0]), 2)
    assert skl.two_sample_test(a, b).p_value < 1e-3
    assert skl.distance(a, b).low > 0


def test_questions_to_private_sketches():
    operator = skl.design(
        bounds=([-12.0] * 2, [12.0] * 2), n_components=2, features=skl.features.Fourier(n_frequencies=60)
    )
    exact = operator.sketch(ROWS[:, :2])
    private = skl.privatize(exact, epsilon=2.0, seed_for_tests_not_private=0)
    answer = skl.Questions(private).mean_of(lambda rows: rows[:, 0])
    assert abs(answer.value - ROWS[:, 0].mean()) < 6 * answer.error
    assert answer.error < 1.0
    assert total_variation(skl.Questions(private).marginal(0, 12), ROWS[:, 0]) < 0.25
