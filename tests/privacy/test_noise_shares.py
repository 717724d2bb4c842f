"""Shares of noise: of enough parties they are the noise of one curator, of fewer nobody is let in."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, nbinom

import sketchlearn as skl
from sketchlearn.core.randomness import exponential_excess
from sketchlearn.privacy import noise_shares
from sketchlearn.privacy.mechanisms import DiscreteLaplace
from sketchlearn.privacy.noise_shares import DiscreteLaplaceShare, bernoulli, geometric, polya

CERTAIN = 1e-6  # the probability that a test of statistics fails by chance
OPERATOR = skl.features.FourierFeatures(2, 30, law=skl.features.frequencies.Gaussian(1.0), seed=1).with_origin(
    "declared"
)
ROWS = np.random.default_rng(0).normal(size=(600, 2))
PARTIES = 6


def shares(parties=PARTIES, epsilon=1.0, operator=OPERATOR, n=PARTIES, batch=None, **options):
    """Of each part of the rows. Those of another name are other rows, which have the same values."""
    return [
        skl.privatize(operator.sketch(part, batch=batch), epsilon=epsilon, parties=parties, **options)
        for part in np.array_split(ROWS, n)
    ]


def fits(drawn: np.ndarray, cdf) -> bool:
    """Pearson's chi-square over about 30 cells, at a confidence of 1 - 10^-6."""
    edges = np.unique(np.quantile(drawn, np.linspace(0.02, 0.98, 30), method="nearest"))
    expected = np.diff(np.concatenate([[0.0], cdf(edges), [1.0]])) * len(drawn)
    found = np.bincount(np.searchsorted(edges, drawn), minlength=len(expected))
    few = expected < 5
    expected, found = np.append(expected[~few], expected[few].sum()), np.append(found[~few], found[few].sum())
    keep = expected > 0
    statistic = float(np.sum((found[keep] - expected[keep]) ** 2 / expected[keep]))
    return statistic < chi2.ppf(1 - CERTAIN, max(1, int(keep.sum()) - 1))


def laplace_cdf(theta: int):
    """Of P(k) in proportion to p^|k|, p = theta / (1 + theta)."""
    log_p = -math.log1p(1 / theta)
    at_zero = 1 / (2 * theta + 1)
    below = lambda k: np.exp(log_p * -k) * (1 - at_zero) / 2 * np.exp(-log_p)  # noqa: E731 - P(K <= k) for k < 0
    return lambda k: np.where(k < 0, below(np.minimum(k, -1)), 1 - below(-np.maximum(k, 0) - 1))


# The laws


@pytest.mark.parametrize(("parties", "theta"), [(1, 1), (1, 20), (3, 1), (3, 50), (50, 1000)])
def test_polya_numbers_follow_their_law(parties, theta):
    assert fits(polya(parties, theta, 20_000), nbinom(1 / parties, 1 / (1 + theta)).cdf)


@pytest.mark.parametrize(("parties", "theta"), [(2, 1), (2, 2**40), (50, 7), (50, 2**31)])
def test_shares_of_all_parties_add_up_to_discrete_laplace_noise(parties, theta):
    """Chi-square at 1 - 10^-6; the variance within 6 deviations of its estimate (kurtosis 6: sqrt(5 / n))."""
    n = 1500
    mechanism, zeros = DiscreteLaplaceShare(1.0, parties), np.zeros(n, np.int64)
    total = sum(mechanism.release(zeros, float(theta), None) for _ in range(parties))
    assert fits(total, laplace_cdf(theta))
    ratio = np.mean(total.astype(float) ** 2) / (parties * mechanism.variance(float(theta)))
    assert abs(ratio - 1) < 6 * math.sqrt(6 / n)


def test_the_test_notices_noise_of_one_share_too_few():
    """Of 2 parties, so that much is missing: the chi-square refuses it."""
    drawn = DiscreteLaplaceShare(1.0, 2).release(np.zeros(6000, np.int64), 1000.0, None)
    assert not fits(drawn, laplace_cdf(1000))


def test_geometric_numbers_of_every_size():
    for theta in (1, 3, 1000, 2**50):
        assert fits(geometric(theta, theta + 1, 20_000), nbinom(1, 1 / (1 + theta)).cdf)


def test_a_uniform_number_on_the_boundary_gets_more_digits(monkeypatch):
    """Probability 1/3, and a uniform number whose first 192 digits are those of 1/3: the next ones decide."""
    asked = []

    def third(digits):
        asked.append(digits)
        return (1 << digits) // 3, -(-(1 << digits) // 3)

    monkeypatch.setattr(noise_shares, "words", lambda size: np.full(size, 2**64 // 3, np.uint64))
    for last, expected in ((0, True), (1, False)):
        drawn = iter([2**128 // 3, last * (2**192 - 1)])
        monkeypatch.setattr(noise_shares.secrets, "randbits", lambda _, drawn=drawn: next(drawn))
        assert bernoulli(third, 1).tolist() == [expected]
    assert asked == [192, 192, 384, 192, 192, 384]


def test_scales_spend_no_more_than_epsilon():
    """In fractions: (1 + 1 / theta)^D, all parts together, against a bound of e^epsilon. And hardly less."""
    for epsilon in (0.01, 0.1, 1.0, 7.0):
        sensitivities, parts = [3, 60, 1], [0.49, 0.49, 0.02]
        found = DiscreteLaplaceShare(epsilon, 5).scales(sensitivities, parts)
        assert all(scale == int(scale) >= 1 for scale in found)
        ratio = math.prod((1 + 1 / Fraction(scale)) ** d for scale, d in zip(found, sensitivities, strict=True))
        assert ratio <= 1 + exponential_excess(Fraction(epsilon))
        one = DiscreteLaplace(epsilon).scales(sensitivities, parts)
        assert all(scale <= 1.001 * alone + 1 for scale, alone in zip(found, one, strict=True))


# Sums of shares


def test_enough_shares_are_a_private_sketch():
    total = skl.merge(shares())
    ledger = total.ledger
    assert (ledger.epsilon, ledger.delta, ledger.neighbors, ledger.private) == (1.0, 0.0, "add-remove", True)
    assert (ledger.parties, ledger.shares, ledger.lacking, ledger.releases) == (PARTIES, PARTIES, 0, 1)
    assert str(ledger).startswith("epsilon 1 for adding or removing one record")
    one = skl.privatize(OPERATOR.sketch(ROWS), epsilon=1.0).ledger
    assert ledger.sum_variance == pytest.approx(one.sum_variance, rel=1e-3)
    assert ledger.count_variance == pytest.approx(one.count_variance, rel=0.05)
    assert np.all(np.isfinite(total.mean))
    assert skl.from_bytes(total.to_bytes()) == total


def test_more_shares_than_needed_have_more_noise_and_the_same_epsilon():
    total, enough = skl.merge(shares(parties=4, batch="many")), skl.merge(shares(batch="enough"))
    assert (total.ledger.shares, total.ledger.epsilon, total.ledger.lacking) == (6, 1.0, 0)
    assert total.ledger.sum_variance == pytest.approx(1.5 * enough.ledger.sum_variance)


def test_too_few_shares_are_refused_in_a_sentence():
    one = shares(batch="some")
    some, others = skl.merge(one[:-1]), skl.merge(shares(batch="others")[1:])
    assert str(some.ledger).startswith("a share of noise, NOT private until 6 parties' shares are added, and this is 5")
    assert "NOT private" in repr(one[0])
    sentence = "5 of 6 shares of noise, which is not private yet: add those of 1 more"
    learn = [
        lambda: some.mean,
        lambda: skl.SketchKMeans(2).fit_sketch(some),
        lambda: skl.SketchGaussianMixture(2).fit_sketch(some),
        lambda: skl.Questions(some).density([[0.0, 0.0]]),
        lambda: skl.distance(some, others),
        lambda: skl.two_sample_test(some, others),
        lambda: some.distance(others),
    ]
    for attempt in learn:
        with pytest.raises(ValueError, match=sentence):
            attempt()
    with pytest.raises(ValueError, match="is private already"):
        skl.privatize(some, epsilon=1.0)


def test_histograms_and_moments_of_too_few_shares_are_refused():
    counts = skl.features.Histograms.even([-5, -5], [5, 5], 8)
    moments = skl.design(bounds=([-5, -5], [5, 5]), task="moments")
    of_counts, of_moments = shares(operator=counts)[0], shares(operator=moments)
    with pytest.raises(ValueError, match="not private yet"):
        skl.Questions(of_counts).marginal(0, bins=[-5, 0, 5])
    with pytest.raises(ValueError, match="not private yet"):
        skl.SketchPCA(1).fit_sketch(of_moments[0])
    with pytest.raises(ValueError, match="not private yet"):
        skl.SketchClassifier().fit_sketch(dict(zip("ab", of_moments[:2], strict=True)), classes=["a", "b"])


def test_a_share_added_many_times_is_noticed(tmp_path):
    """Fifty copies of one share would claim the noise of fifty: by object, by file, and by both."""
    one, other = shares()[:2]
    one.save(tmp_path / "one.sketch")
    assert (tmp_path / "one.sketch").stat().st_mode & 0o077 == 0
    for a, b in ((one, one), (one, one.copy()), (skl.load(tmp_path / "one.sketch"), one)):
        with pytest.raises(ValueError, match="one is added twice"):
            a + b
    with pytest.raises(ValueError, match="one is added twice"):
        skl.merge([tmp_path / "one.sketch"] * 2)
    with pytest.raises(ValueError, match="one is added twice"):
        (one + other) + one


def test_a_share_of_a_pickled_sum_is_noticed():
    """As a sum comes back from another process, of a pool for instance, or out of a file."""
    one, other, third = shares()[:3]
    for came in (pickle.loads(pickle.dumps(one + other)), skl.from_bytes((one + other).to_bytes())):
        for share in (one, other):
            with pytest.raises(ValueError, match="one is added twice"):
                came + share
        assert (came + third).ledger.shares == 3


def test_two_shares_of_the_same_rows_are_refused():
    exact = OPERATOR.sketch(ROWS)
    first = skl.privatize(exact, epsilon=1.0, parties=2)
    with pytest.raises(ValueError, match="released before"):
        skl.privatize(exact, epsilon=1.0, parties=2)
    second = skl.privatize(exact, epsilon=1.0, parties=2, already=first)
    assert (second.ledger.epsilon, second.ledger.parties, second.ledger.shares) == (2.0, 2, 1)
    with pytest.raises(ValueError, match="the same rows"):
        first + second


def test_shares_of_other_noise_are_refused():
    one = shares(batch="one")[0]
    for other, message in (
        (shares(parties=5, batch="five")[1], "only in a sum of 6 such shares"),
        (shares(epsilon=2.0, batch="two")[1], "different noise"),
        (skl.privatize(OPERATOR.sketch(ROWS[300:]), epsilon=1.0), "add those first"),
        (OPERATOR.sketch(ROWS[300:]), "a private sketch and an exact one"),
    ):
        with pytest.raises(ValueError, match=message):
            one + other


def test_a_complete_sum_is_added_like_any_private_sketch():
    total = skl.merge(shares())
    other = skl.privatize(OPERATOR.sketch(ROWS + 1), epsilon=0.5)
    assert (total + other).ledger.epsilon == 1.5
    assert skl.merge([total, other], overlapping=False).ledger.epsilon == 1.0
    assert (total + other).ledger.parties is None


def test_records_in_several_parties_are_paid_for():
    assert skl.merge(shares(), overlapping=True).ledger.epsilon == 6.0


def test_counts_of_shares_are_never_cut_off():
    """A count below 1 stays: sums of counts that were cut off at 1 would have a bias, and tell about each."""
    rng_counts = [
        skl.privatize(OPERATOR.sketch(ROWS[:1]), epsilon=0.01, parties=2, seed_for_tests_not_private=i).units
        for i in range(40)
    ]
    assert min(rng_counts) < 0
    below = next(i for i in range(40) if rng_counts[i] < 0)
    share = skl.privatize(OPERATOR.sketch(ROWS[:1]), epsilon=0.01, parties=2, seed_for_tests_not_private=below)
    assert skl.from_bytes(share.to_bytes()) == share
    both = share + skl.privatize(OPERATOR.sketch(ROWS[1:2]), epsilon=0.01, parties=2, seed_for_tests_not_private=below)
    assert both.units == 1
    assert not both.ledger.private


def test_a_ledger_of_shares_is_read_back_and_old_ones_have_none():
    share = shares()[0]
    assert skl.privacy.Ledger.from_json(share.ledger.to_json()) == share.ledger
    plain = skl.privatize(OPERATOR.sketch(ROWS), epsilon=1.0).ledger
    assert not {"parties", "shares"} & plain.to_json().keys()


def test_shares_are_booked(tmp_path):
    budget = skl.privacy.Budget(tmp_path / "budget.sqlite", epsilon=1.5)
    shares(n=1, budget=budget)
    assert budget.spent.epsilon == 1.0
    with pytest.raises(ValueError, match="more than the budget has"):
        skl.privatize(OPERATOR.sketch(ROWS), epsilon=1.0, parties=6, budget=budget)


def test_misuse_is_refused():
    exact = OPERATOR.sketch(ROWS)
    with pytest.raises(ValueError, match="distributed noise is Laplace noise"):
        skl.privatize(exact, epsilon=1.0, delta=1e-6, parties=5)
    for parties in (0, -1, 2.5, "5", True):
        with pytest.raises(ValueError, match="parties must be a whole number"):
            skl.privatize(exact, epsilon=1.0, parties=parties)


def test_clusters_of_many_parties_are_as_good_as_a_curators():
    """Twelve parties of 2500 rows at epsilon 1: centers within a tenth of those of the exact sum."""
    rng = np.random.default_rng(3)
    centers = np.array([[-4.0, -4.0], [4.0, -4.0], [0.0, 5.0]])
    X = centers[rng.integers(3, size=30_000)] + 0.7 * rng.standard_normal((30_000, 2))
    operator = skl.design(bounds=([-9, -9], [9, 9]), n_components=3, n_rows=30_000, epsilon=1.0)
    parts = [skl.privatize(operator.sketch(part), epsilon=1.0, parties=12) for part in np.array_split(X, 12)]
    model = skl.SketchKMeans(3, random_state=0).fit_sketch(skl.merge(parts))
    assert np.max(np.min(np.linalg.norm(model.cluster_centers_ - centers[:, None], axis=2), axis=1)) < 0.1
    assert model.privacy_.epsilon == 1.0
