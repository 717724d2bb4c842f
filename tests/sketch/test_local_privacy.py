"""Local privacy: what randomised bits tell about one reading, and what the server learns from all of them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom, chi2

import sketchlearn as skl
from sketchlearn.core.randomness import exponential_excess, uniform_below
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.features.operator import Operator
from sketchlearn.sketch.bits import RandomisedResponse, sent_columns

CERTAIN = 1e-6  # the probability that a test of statistics fails by chance
D, M = 3, 20
OPERATOR = skl.features.FourierFeatures(D, M, law=Gaussian(1.0), wave="square", seed=3).with_origin("declared")
ROWS = np.random.default_rng(0).normal(size=(400, D))


def interval(successes: int, trials: int) -> tuple[float, float]:
    """Clopper and Pearson's interval, which holds but for CERTAIN."""
    low = 0.0 if successes == 0 else beta.ppf(CERTAIN / 2, successes, trials - successes + 1)
    high = 1.0 if successes == trials else beta.ppf(1 - CERTAIN / 2, successes + 1, trials - successes)
    return float(low), float(high)


# Exactness of the numbers


@given(st.floats(1e-6, 20.0))
def test_the_bound_of_the_exponential_is_below_it_and_close(x):
    """Compared with twice as many terms, and a bound on the rest."""
    found = exponential_excess(Fraction(x))
    term = total = Fraction(x)
    for n in range(2, 160):
        term *= Fraction(x) / n
        total += term
    assert found <= total
    assert total - found <= total / 2**59


@given(st.floats(1e-3, 20.0), st.integers(1, 5000))
def test_no_report_is_likelier_than_epsilon_allows(epsilon, n_bits):
    """The largest ratio of probabilities, in fractions, against a lower bound of e^epsilon."""
    response = RandomisedResponse.best(epsilon, n_bits)
    assert 0 < response.truth < 1
    # the largest ratio of probabilities of the same report for two readings
    loss_ratio = 1 + response.truth * (1 << response.n_sent) / (1 - response.truth)
    assert loss_ratio <= 1 + exponential_excess(Fraction(epsilon))
    assert response.truth * response.n_sent * response.factor == n_bits  # sums are freed of their bias exactly


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0])
def test_no_other_number_of_bits_has_less_noise(epsilon):
    """Against all joint responses, responses bit by bit, and flipping everything, without rounding, within 2 %."""
    n_bits, excess = 1000, math.expm1(epsilon)
    ours = RandomisedResponse.best(epsilon, n_bits).variance
    joint = min(n_bits / r * (1 + 2**r / excess) ** 2 for r in range(1, 40))
    bit_by_bit = min(n_bits / r / math.tanh(epsilon / (2 * r)) ** 2 for r in range(1, n_bits + 1))
    assert ours <= 1.02 * joint
    assert joint <= bit_by_bit * (1 + 1e-12)
    assert joint < bit_by_bit / 1.2 or epsilon < 2
    assert ours < 0.1 / math.tanh(epsilon / (2 * n_bits)) ** 2


@pytest.mark.parametrize("limit", [1, 3, 7, 2**62 + 1])
def test_numbers_of_the_secure_source_are_uniform(limit):
    """Chi-square at 1 - 10^-6; of 2^62 + 1 numbers, a quarter of the words must be drawn anew."""
    n, n_cells = 70_000, min(limit, 8)
    drawn = uniform_below(limit, n)
    assert drawn.max() < limit
    counts = np.bincount((drawn / limit * n_cells).astype(int), minlength=n_cells)
    expected = n / n_cells
    assert np.sum((counts - expected) ** 2 / expected) <= chi2.ppf(1 - CERTAIN, max(1, n_cells - 1))


# Attacks on one reading


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_an_attack_by_the_likelihood_ratio_does_not_beat_epsilon(epsilon):
    """Two readings that differ in all signs: the event that all bits sent agree with the first reading's.

    Confidence 1 - 10^-6 each: the ratio is certainly not above e^epsilon, and certainly above 0.8 epsilon.
    """
    n, signs = 200_000, np.where(np.random.default_rng(1).random(50) < 0.5, 1, -1)
    response = RandomisedResponse.best(epsilon, 50)
    agree = []
    for reading in (signs, -signs):
        positions = response.positions(n)
        answers = response.answers(np.broadcast_to(reading, (n, 50)), positions)
        expected = (signs[sent_columns(response, positions)] > 0) @ (1 << np.arange(response.n_sent))
        agree.append(interval(int(np.sum(answers == expected.astype(np.uint64))), n))
    assert agree[0][0] / agree[1][1] <= math.exp(epsilon)
    assert agree[0][1] / agree[1][0] >= math.exp(0.8 * epsilon)


def test_an_attack_on_all_reports_at_once():
    """Every report (position and bits), of two readings of 6 bits: no ratio is certainly above e^epsilon."""
    n, epsilon = 400_000, 2.0
    response = RandomisedResponse.best(epsilon, 6)
    counts = []
    for reading in ([1, 1, 1, -1, -1, 1], [-1, 1, -1, -1, 1, 1]):
        positions = response.positions(n)
        answers = response.answers(np.broadcast_to(np.array(reading), (n, 6)), positions)
        counts.append(
            np.bincount(positions.astype(int) << response.n_sent | answers.astype(int), minlength=6 << response.n_sent)
        )
    for a, b in zip(*counts, strict=True):
        for low, high in ((interval(a, n)[0], interval(b, n)[1]), (interval(b, n)[0], interval(a, n)[1])):
            assert low <= math.exp(epsilon) * high


def test_the_position_tells_nothing_about_the_reading():
    """Chi-square of the positions of rows that are all alike, and of their coverage, at 1 - 10^-6."""
    positions = OPERATOR.pack(np.zeros((100_000, D)), epsilon=4.0).positions
    counts = np.bincount(positions, minlength=2 * M)
    expected = 100_000 / (2 * M)
    assert np.sum((counts - expected) ** 2 / expected) < chi2.ppf(1 - CERTAIN, 2 * M - 1)


def test_nothing_of_the_true_bits_is_in_the_value_or_its_bytes():
    """A reading of 40 signs leaves n_sent bits and a position, however one looks."""
    bits = OPERATOR.pack(ROWS, epsilon=4.0)
    assert sorted(bits.__dict__) == ["answers", "positions", "response"]
    n_sent = bits.response.n_sent
    assert np.all(bits.answers < 1 << n_sent)
    assert len(bits.to_bytes()) == 48 + len(ROWS) * 2


def test_a_second_packing_is_drawn_anew():
    first, second = OPERATOR.pack(ROWS, epsilon=4.0), OPERATOR.pack(ROWS, epsilon=4.0)
    assert first != second  # equal with probability below 40^-400


# What the server has


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_sums_have_no_bias_and_the_variance_of_the_ledger(epsilon):
    """300 packings of the same rows. Confidence 1 - 10^-6 for mean (40 sums) and variance (pooled)."""
    times, exact = 300, OPERATOR.sketch(ROWS)
    sketches = [OPERATOR.sketch_packed(OPERATOR.pack(ROWS, epsilon=epsilon)) for _ in range(times)]
    assert all(sketch.count == len(ROWS) for sketch in sketches)
    noise = np.array([sketch.sums - exact.sums for sketch in sketches], float)
    variance = sketches[0].ledger.sum_variance
    deviations = np.abs(noise.mean(axis=0)) / math.sqrt(variance / times)
    assert deviations.max() < 6.5  # 40 numbers, normal to a good approximation: P < 4e-9
    # Sums of a reading are uncorrelated but for few bits: the pooled variance has a relative deviation near 0.013.
    assert abs(np.mean(noise**2) / variance - 1) < 0.08


def test_the_ledger_speaks_of_local_privacy():
    ledger = OPERATOR.sketch_packed(OPERATOR.pack(ROWS, epsilon=2.0)).ledger
    assert (ledger.mechanism, ledger.neighbors, ledger.epsilon, ledger.delta) == (
        "randomised response",
        "replace",
        2.0,
        0.0,
    )
    assert ledger.local
    assert ledger.private
    assert str(ledger).startswith("local privacy: epsilon 2 for replacing one record; randomised response")
    assert skl.privacy.Ledger.from_json(ledger.to_json()) == ledger


def test_messages_add_up_and_travel():
    messages = [OPERATOR.pack(ROWS[i : i + 100], epsilon=2.0).to_bytes() for i in range(0, 400, 100)]
    server = skl.Sketch(OPERATOR)
    for message in messages:
        server.update_packed(skl.privacy.PrivateBits.from_bytes(message))
    assert server.count == 400
    assert (server.ledger.epsilon, server.ledger.composition, server.ledger.releases) == (2.0, "parallel", 4)
    one = OPERATOR.sketch_packed(skl.privacy.PrivateBits.from_bytes(messages[0]))
    assert server.ledger.sum_variance == pytest.approx(4 * one.ledger.sum_variance)
    assert skl.from_bytes(server.to_bytes()) == server
    np.testing.assert_array_equal(
        server.sums, sum(OPERATOR.sketch_packed(skl.privacy.PrivateBits.from_bytes(m)).sums for m in messages)
    )


def test_a_reading_packed_twice_and_added_with_plus_pays_twice():
    first, second = (OPERATOR.sketch_packed(OPERATOR.pack(ROWS, epsilon=2.0)) for _ in range(2))
    assert (first + second).ledger.epsilon == 4.0


def test_clusters_are_learned_from_a_few_bits_of_each_reading():
    rng = np.random.default_rng(5)
    centers = np.array([[-4.0, -4.0], [4.0, -4.0], [0.0, 5.0]])
    X = centers[rng.integers(3, size=60_000)] + 0.7 * rng.standard_normal((60_000, 2))
    operator = skl.design(bounds=([-9, -9], [9, 9]), n_components=3, features=skl.features.Fourier(wave="square")).part(
        skl.features.FourierFeatures
    )
    model = skl.SketchKMeans(3, random_state=0).fit_sketch(operator.sketch_packed(operator.pack(X, epsilon=4.0)))
    found = model.cluster_centers_[np.argmin(np.sum((model.cluster_centers_ - centers[:, None]) ** 2, axis=2), axis=1)]
    assert np.max(np.abs(found - centers)) < 0.35
    assert model.privacy_.local


# Misuse


def test_misuse_is_refused_in_a_sentence():
    bits = OPERATOR.pack(ROWS, epsilon=2.0)
    for epsilon in (0.0, -1.0, math.nan, math.inf, "1"):
        with pytest.raises(ValueError, match="epsilon must be"):
            OPERATOR.pack(ROWS, epsilon=epsilon)
    with pytest.raises(ValueError, match="protects next to nothing"):
        OPERATOR.pack(ROWS, epsilon=21.0)
    with pytest.raises(ValueError, match="exceeds 64 bits"):
        OPERATOR.pack(ROWS, epsilon=1e-15)
    with pytest.raises(ValueError, match="leave out weights"):
        OPERATOR.sketch_packed(bits, sample_weight=np.ones(400))
    with pytest.raises(ValueError, match="40 bits, but this operator gives 42"):
        skl.features.FourierFeatures(D, 21, law=Gaussian(1.0), wave="square").sketch_packed(bits)
    with pytest.raises(ValueError, match="private sketch and an exact one"):
        OPERATOR.sketch(ROWS).update_packed(bits)
    with pytest.raises(ValueError, match="cannot take in records"):
        OPERATOR.sketch_packed(bits).update_packed(OPERATOR.pack(ROWS))
    with pytest.raises(ValueError, match="different neighbors"):
        OPERATOR.sketch_packed(bits) + skl.privatize(OPERATOR.sketch(ROWS), epsilon=1.0)
    with pytest.raises(ValueError, match="is private already"):
        skl.privatize(OPERATOR.sketch_packed(bits), epsilon=1.0)


@pytest.mark.parametrize("origin", ["sample", "unknown"])
def test_an_operator_that_may_tell_about_the_rows_is_refused(origin):
    operator: Operator = OPERATOR.with_origin(origin)
    with pytest.raises(ValueError, match="assume_public_design=True"):
        operator.pack(ROWS, epsilon=1.0)
    sketch = operator.sketch_packed(operator.pack(ROWS, epsilon=1.0, assume_public_design=True))
    assert sketch.ledger.design == "assumed public"


def test_damaged_and_boastful_bytes_are_refused():
    """A message that claims a small epsilon for a response that spends more is refused as well."""
    data = OPERATOR.pack(ROWS[:5], epsilon=2.0).to_bytes()
    for bad in (b"", data[:-1], data + b"\0", b"x" + data[1:], data[:-1] + b"\xff"):
        with pytest.raises(ValueError, match=r"private bits|each reading needs"):
            skl.privacy.PrivateBits.from_bytes(bad)
    claimed = data[:16] + np.float64(0.5).tobytes() + data[24:]
    with pytest.raises(ValueError, match=r"spend more than epsilon 0\.5"):
        skl.privacy.PrivateBits.from_bytes(claimed)
    with pytest.raises(ValueError, match=r"read them with PrivateBits\.from_bytes"):
        skl.features.PackedBits.from_bytes(data)


def test_mechanisms_of_merged_releases_are_all_named():
    laplace = skl.privatize(OPERATOR.sketch(ROWS), epsilon=1.0, neighbors="replace")
    both = (OPERATOR.sketch_packed(OPERATOR.pack(ROWS, epsilon=2.0)) + laplace).ledger
    assert both.mechanism == "discrete Laplace and randomised response"
    assert both.epsilon == 3.0
    assert skl.privacy.Ledger.from_json(both.to_json()) == both


def test_the_true_bits_are_sent_as_often_as_the_rule_says():
    """Confidence 1 - 10^-6, by the binomial law."""
    response, n = RandomisedResponse.best(4.0, 2 * M), 100_000
    positions = response.positions(n)
    answers = response.answers(np.ones((n, 2 * M), np.int8), positions)
    right = int(np.sum(answers == (1 << response.n_sent) - 1))
    p = float(response.truth + (1 - response.truth) / 2**response.n_sent)
    assert binom.ppf(CERTAIN / 2, n, p) <= right <= binom.isf(CERTAIN / 2, n, p)
