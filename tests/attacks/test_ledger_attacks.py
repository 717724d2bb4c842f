"""Attempts to make a ledger, a budget or a count of batches say less than the truth."""

import hashlib
import math
import os
import shutil
import sqlite3
import sys
import threading
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.core import containers as container
from sketchlearn.privacy.budget import BudgetError
from sketchlearn.sketch.batches import MOST_IDENTITIES, Batches
from sketchlearn.sketch.ledger import ROUNDING_VARIANCE, Ledger, largest_ratio, profile, smallest_epsilon

X = np.random.default_rng(0).uniform(-5, 5, (20, 2))
OPERATOR = skl.features.Histograms.even([-5, -5], [5, 5], bins=4)

pytestmark = pytest.mark.filterwarnings("ignore:nobody keeps count")


# Records that count several times


def test_overlapping_batches_count_several_times_whoever_made_them():
    """The same rows, sketched twice: nobody knows but the caller, who says so."""
    one, same, third = (OPERATOR.sketch(X) for _ in range(3))
    both = one.merged(same, overlapping=True)
    assert both.batches.largest == 2
    assert (both + OPERATOR.sketch(X + 0.1)).batches.largest == 2
    assert skl.merge([both, third], overlapping=True).batches.largest == 3
    assert skl.from_bytes(both.to_bytes()).batches == both.batches
    scales = [skl.privatize(s, epsilon=1.0, seed_for_tests_not_private=0).ledger.sum_scale for s in (one, both)]
    assert scales[1] == pytest.approx(2 * scales[0], rel=1e-3)


def test_a_batch_that_counts_twice_is_not_hidden_by_thousands():
    hidden = Batches({2**64 - 1: 1})
    many = hidden.combined(hidden, 1, overlapping=True)
    many = many.combined(Batches(dict.fromkeys(range(MOST_IDENTITIES), 1)), 1)
    assert 2**64 - 1 not in many.times
    assert many.largest == 2
    less = Batches(below=10).combined(Batches({20: -3}), 1)
    assert (less.times, less.largest) == ({}, 3)


def test_what_is_subtracted_twice_counts_twice():
    part = OPERATOR.sketch(X[:2]).merged(OPERATOR.sketch(X[:2]), overlapping=True)
    rest = OPERATOR.sketch(np.concatenate([X, X, X]) + 0.0) + OPERATOR.sketch(np.tile(X[:2], (9, 1)))
    less = rest - part
    with pytest.warns(UserWarning, match="the same 4 records went out of this sketch before"):
        assert (less - part).batches.largest == 4


def test_a_file_without_identities_keeps_weights():
    one = OPERATOR.sketch(X)
    twice = skl.from_bytes(one.merged(one, overlapping=True).content())
    with pytest.raises(ValueError, match="rows of weight up to 2"):
        skl.privatize(twice, epsilon=1.0)


def test_rows_without_identities_are_known_by_their_content():
    """A file whose identities somebody removed, and what is left when all that were kept are subtracted."""
    one = OPERATOR.sketch(X)
    tensors, description = container.unpack(one.to_bytes())
    description.pop("digest")
    for form in ({}, {"below": "0" * 16}):
        bare = skl.from_bytes(container.pack(tensors["sums"], {**description, "batches": form}))
        assert bare.batches.times == Batches.of_content(OPERATOR.identity, one.sums, one.units).times
    skl.privatize(bare, epsilon=1.0)
    with pytest.raises(ValueError, match="were released before"):
        skl.privatize(bare.copy(), epsilon=1.0)


def test_what_is_left_of_thousands_of_batches_is_read_back():
    tensors, description = container.unpack(OPERATOR.sketch(X).to_bytes())
    description.pop("digest")
    left = skl.from_bytes(container.pack(tensors["sums"], {**description, "batches": {"below": "0" * 16}}))
    assert skl.from_bytes(left.to_bytes()).batches == left.batches


def test_a_release_of_an_old_file_counts_for_its_twin():
    one = OPERATOR.sketch(X)
    skl.privatize(skl.from_bytes(one.content()), epsilon=1.0)
    with pytest.raises(ValueError, match="were released before"):
        skl.privatize(one, epsilon=1.0)


def test_rows_that_come_while_a_release_is_booked_are_not_in_it(tmp_path):
    """As another thread would add them: they are neither booked nor noted."""
    exact = OPERATOR.sketch(X)

    class Slow(skl.privacy.Budget):
        def reserve(self, ledger, batches=None):
            super().reserve(ledger, batches)
            exact.update(np.tile(X, (50, 1)))

    private = skl.privatize(exact, epsilon=20.0, count_share=0.999, budget=Slow(tmp_path / "budget"))
    assert exact.units == 51 * len(X)
    assert abs(private.units - len(X)) < 10  # fails by chance once in 1e80 times


def test_threads_that_add_and_copy_see_whole_sketches():
    total, seen, interval = skl.Sketch(OPERATOR), [], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        watcher = threading.Thread(target=lambda: seen.extend(total.copy() for _ in range(3000)))
        watcher.start()
        while watcher.is_alive() and total.units < 4000:
            total.update(X[:1])
        watcher.join()
    finally:
        sys.setswitchinterval(interval)
    # rows of equal values, each of which is one batch more
    assert all(s.units == sum(s.batches.times.values()) == s.sums[: OPERATOR.n_sums // 2].sum() for s in seen)
    assert all(s.batches.largest == 1 for s in seen)


# Ledgers


def test_a_ledger_of_other_noise_does_not_stand_for_this_one():
    """A Gaussian ledger has the epsilon of the Laplace release, but grows by less with every further release."""
    other = skl.privatize(OPERATOR.sketch(X + 1), epsilon=1.0, delta=1e-6)
    exact = OPERATOR.sketch(X)
    skl.privatize(exact, epsilon=1.0)
    with pytest.raises(ValueError, match="were released before"):
        skl.privatize(exact, epsilon=1.0, delta=1e-6, already=other)


def test_a_merged_ledger_of_less_rho_does_not_stand_for_this_one():
    weak, rare = ((1.0, 1e-9), (0.1, 1e-3))
    parts = [skl.privatize(OPERATOR.sketch(X + i), epsilon=e, delta=d) for i, (e, d) in enumerate((weak, rare), 1)]
    other, exact = skl.merge(parts, overlapping=False), OPERATOR.sketch(X)
    spent = skl.privatize(exact, epsilon=1.0, delta=1e-3).ledger
    assert (other.ledger.epsilon, other.ledger.delta) == (spent.epsilon, spent.delta)
    with pytest.raises(ValueError, match="were released before"):
        skl.privatize(exact, epsilon=1.0, delta=1e-6, already=other)


def test_a_record_of_two_batches_has_paid_for_both():
    """Somebody said that the batches overlap: the most that was spent on one of them is not all."""
    one, same = (OPERATOR.sketch(X, batch=name) for name in ("one", "same"))
    for sketch in (one, same):
        skl.privatize(sketch, epsilon=1.0)
    assert (one + same).released.epsilon == 1.0
    assert one.merged(same, overlapping=True).released.epsilon == 2.0


def test_what_the_caller_tells_is_not_dropped_for_what_the_process_knows(tmp_path):
    elsewhere = skl.privatize(OPERATOR.sketch(X + 1), epsilon=5.0)
    exact, budget = OPERATOR.sketch(X), skl.privacy.Budget(tmp_path / "budget")
    skl.privatize(exact, epsilon=1.0, delta=1e-6, budget=budget)
    private = skl.privatize(exact, epsilon=1.0, budget=budget, already=elsewhere)
    assert private.ledger.epsilon >= 7.0


def test_a_refused_release_is_not_booked(tmp_path):
    exact, budget = OPERATOR.sketch(X), skl.privacy.Budget(tmp_path / "budget")
    skl.privatize(exact, epsilon=1.0, neighbors="replace")
    with pytest.raises(ValueError, match="different neighbors"):
        skl.privatize(exact, epsilon=1.0, budget=budget)
    assert budget.spent.releases == 0


def test_releases_by_operators_of_different_parts_are_paid_together():
    one = skl.features.concatenate([OPERATOR, skl.features.Histograms.even([-5, -5], [5, 5], bins=3)])
    two = skl.features.concatenate([*one.parts, skl.features.Histograms.even([-5, -5], [5, 5], bins=2)])
    first = skl.privatize(one.sketch(X), epsilon=1.0)
    both = skl.privatize(two.sketch(X), epsilon=1.0, already=first)
    assert both.ledger.epsilon == 2.0
    assert len(both.ledger.parts) == 3


def test_a_forged_rho_without_delta_is_no_pure_epsilon():
    forged = replace(skl.privatize(OPERATOR.sketch(X), epsilon=1.0, delta=1e-6).ledger, delta=0.0)
    assert smallest_epsilon(0.1, 0.0) == math.inf
    assert forged.merged(forged, overlapping=True).epsilon == 2.0


@pytest.mark.parametrize(
    "odd", [{"epsilon": math.nan}, {"rho": -1.0}, {"rho": math.nan}, {"delta": 2}, {"releases": 0}]
)
def test_forged_ledgers_are_refused(odd):
    form = skl.privatize(OPERATOR.sketch(X), epsilon=1.0, delta=1e-6).ledger.to_json()
    with pytest.raises(ValueError, match="must be"):
        Ledger.from_json({**form, **odd})


# The profile of Gaussian noise


NODES = np.polynomial.legendre.leggauss(400)


def plain_profile(epsilon, mu):
    """For small mu, without cancellation: the integral over t <= mu of the normal density at t / 2 - epsilon / t."""
    u, weights = NODES
    t = mu * np.exp(-20 * (u + 1))
    return float(np.sum(20 * weights * t * np.exp(-0.5 * (t / 2 - epsilon / t) ** 2)) / math.sqrt(2 * math.pi))


@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-6])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-7, 1e-5, 1e-3, 0.1, 1.0])
def test_small_losses_are_as_certain_as_large_ones(epsilon, delta):
    """The root was found to 2e-12, absolutely: at epsilon 1e-9, delta was exceeded by a hundredth."""
    mu = largest_ratio(epsilon, delta)
    assert 0.99 * delta <= plain_profile(epsilon, mu) <= delta * (1 + 1e-12)
    back = smallest_epsilon(mu, delta)
    assert plain_profile(back, mu) <= delta * (1 + 1e-12)
    assert back == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("mu", [0.25, 0.5, 1.0, 2.0])
def test_the_ratio_is_found_from_wherever_it_starts(mu):
    delta = profile(1.0, mu)
    assert largest_ratio(1.0, delta) == pytest.approx(mu, rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-290, 1e-30, 1e5, 1e11, 1e200])
@pytest.mark.parametrize("delta", [1e-290, 1e-30, 1e-6, 0.999])
def test_extreme_ratios_are_sound(epsilon, delta):
    mu = largest_ratio(epsilon, delta)
    assert mu > 0
    assert profile(min(epsilon, 1e12), mu) <= delta
    for size in (1e-200, 1e-9, 1e5, 1e9, 1e150):
        assert smallest_epsilon(size, delta) >= 0


def test_a_rounded_gaussian_is_a_discrete_one():
    """The lemma of gaussian_profile.py, by a fine sum over what is rounded; and its bound of the difference."""
    for variance in (6.0, 9.0, 30.0):
        scale, step = math.sqrt(variance), 1 / 128
        y, k = np.arange(-40 * scale, 40 * scale, step), np.arange(-int(7 * scale), int(7 * scale) + 1)
        nearest = np.floor(y)[:, None] + np.arange(-20, 22)
        norms = np.exp(-((nearest - y[:, None]) ** 2) / (2 * ROUNDING_VARIANCE)).sum(axis=1)
        density = np.exp(-(y**2) / (2 * (variance - ROUNDING_VARIANCE))) / norms * step
        rounded = np.array([density @ np.exp(-((y - i) ** 2) / (2 * ROUNDING_VARIANCE)) for i in k])
        rounded /= math.sqrt(2 * math.pi * (variance - ROUNDING_VARIANCE))
        reach = np.arange(-int(40 * scale), int(40 * scale) + 1)
        exact = np.exp(-(k**2) / (2 * variance)) / np.exp(-(reach**2) / (2 * variance)).sum()
        bound = 4 * math.exp(-2 * math.pi**2 * ROUNDING_VARIANCE * (1 - ROUNDING_VARIANCE / variance))
        assert np.abs(rounded / exact - 1).max() <= bound + 1e-13


@pytest.mark.parametrize("variance", [6.0, 9.0])
def test_two_integers_are_as_private_as_the_profile_says(variance):
    """Every shift of two integers by up to 4, and every epsilon, summed term by term."""
    reach = int(14 * math.sqrt(variance))
    k = np.arange(-reach, reach + 1)
    laws = [np.exp(-((k - shift) ** 2) / (2 * variance)) for shift in range(5)]
    laws = [law / laws[0].sum() for law in laws]
    still = np.outer(laws[0], laws[0])
    for a, b in product(range(5), repeat=2):
        moved, mu = np.outer(laws[a], laws[b]), math.hypot(a, b) / math.sqrt(variance - ROUNDING_VARIANCE)
        for epsilon in (0.05, 0.3, 1.0, 3.0, 8.0) if mu else ():
            true = float(np.maximum(still - math.exp(epsilon) * moved, 0.0).sum())
            assert true <= profile(epsilon * (1 - 1e-6), mu) + 1e-13


# Budgets


@pytest.fixture
def budget(tmp_path):
    return skl.privacy.Budget(tmp_path / "budget", epsilon=2.0)


def spend(budget, epsilon, i=0):
    return skl.privatize(OPERATOR.sketch(X + i), epsilon=epsilon, budget=budget)


def test_an_older_copy_of_a_budget_is_noticed(budget, tmp_path):
    spend(budget, 0.5)
    shutil.copy(budget.path, tmp_path / "older")
    spend(budget, 1.0)
    shutil.copy(tmp_path / "older", budget.path)
    with pytest.raises(BudgetError, match="lost releases"):
        spend(budget, 1.0)
    with pytest.raises(BudgetError, match="lost releases"):
        budget.spent  # noqa: B018


def test_another_log_is_no_copy(budget, tmp_path):
    spend(budget, 1.5)
    other = skl.privacy.Budget(tmp_path / "other", epsilon=2.0)
    for _ in range(2):
        spend(other, 0.1)
    shutil.copy(other.path, budget.path)
    with pytest.raises(BudgetError, match="lost releases"):
        spend(budget, 1.0)


def test_a_budget_that_was_removed_does_not_come_back_without_a_limit(budget):
    os.remove(budget.path)
    with pytest.raises(BudgetError, match="cannot be used as a budget"):
        spend(budget, 1.0)
    assert not budget.path.exists()
    budget.path.touch()
    with pytest.raises(FileNotFoundError, match="there is no budget"):
        skl.privacy.Budget.open(budget.path)


def test_a_budget_is_one_file_whatever_becomes_of_links_and_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "away").mkdir()
    near, link = skl.privacy.Budget("budget", epsilon=2.0), tmp_path / "link"
    link.symlink_to(tmp_path / "budget")
    linked = skl.privacy.Budget.open(link)
    spend(linked, 1.5)
    link.unlink()
    link.symlink_to(tmp_path / "away" / "budget")
    monkeypatch.chdir(tmp_path / "away")
    skl.privacy.Budget("budget", epsilon=2.0)
    for one in (near, linked):
        with pytest.raises(BudgetError, match="would spend more"):
            spend(one, 1.0)


def test_hard_links_are_refused(budget, tmp_path):
    """A journal that a kill leaves has the name of one of them: under the other, half a transaction would be read."""
    os.link(budget.path, tmp_path / "other")
    for path in (budget.path, tmp_path / "other"):
        with pytest.raises(BudgetError, match="several names"):
            skl.privacy.Budget.open(path)


def test_a_budget_books_single_releases(budget):
    """The mechanism of a ledger after others is the last one's, so that losses of the others would be converted."""
    first = skl.privatize(OPERATOR.sketch(X), epsilon=0.5)
    second = skl.privatize(OPERATOR.sketch(X), epsilon=0.5, delta=1e-6, already=first)
    with pytest.raises(BudgetError, match="single releases"):
        budget.reserve(second.ledger)


@pytest.mark.parametrize("change", ["UPDATE budget SET epsilon = 1e9", "DELETE FROM budget"])
def test_a_limit_is_not_changed(budget, change):
    with sqlite3.connect(budget.path) as database, pytest.raises(sqlite3.IntegrityError, match="never"):
        database.execute(change)


@pytest.mark.parametrize("epsilon", ["NaN", "-5", '"0"', "Infinity", "null"])
def test_forged_entries_are_refused(budget, epsilon):
    """With the right digest, as somebody would write it who has read budget.py."""
    text = f'{{"delta": 0.0, "epsilon": {epsilon}, "mechanism": "discrete Laplace", "time": ""}}'
    digest = hashlib.sha256(f"{'0' * 64}\n{text}".encode()).hexdigest()
    with sqlite3.connect(budget.path) as database:
        values = (text, "0" * 64, digest)
        database.execute("INSERT INTO releases (entry, previous, digest) VALUES (?, ?, ?)", values)
    with pytest.raises(BudgetError, match="no release writes"):
        spend(budget, 1.0)


def test_a_ledger_of_as_much_may_be_of_other_releases():
    """Release a, select classes of the same records by counts, release with what that cost alone: 2, not 1.5."""
    a = OPERATOR.sketch(X)
    skl.privatize(a, epsilon=0.5)
    selected = skl.privacy.select_classes({"one": 200, "two": 200}, epsilon=0.5, delta=1e-6)
    assert skl.privatize(a, epsilon=1.0, already=selected.ledger).ledger.epsilon >= 2.0


def test_a_share_is_no_release_to_go_on_from():
    share = skl.privatize(OPERATOR.sketch(X), epsilon=0.1, parties=50)
    with pytest.raises(ValueError, match="a share of noise protects little"):
        skl.privatize(OPERATOR.sketch(X), epsilon=1.0, already=share)
