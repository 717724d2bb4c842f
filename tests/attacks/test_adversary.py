"""Attacks on private releases, each written as somebody would try it."""

import contextlib
import copy
import cProfile
import json
import math
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from scipy.special import log_ndtr

import sketchlearn as skl
from sketchlearn.core import containers as container
from sketchlearn.privacy.budget import BudgetError
from sketchlearn.privacy.mechanisms import DiscreteGaussian
from sketchlearn.sketch.batches import MOST_IDENTITIES, Batches
from sketchlearn.sketch.ledger import largest_ratio, profile, smallest_epsilon

X = np.random.default_rng(0).uniform(-5, 5, (400, 2))
OPERATOR = skl.design(bounds=([-5, -5], [5, 5]), n_components=2)


@pytest.fixture
def exact():
    return OPERATOR.sketch(X)


# Counting records twice


def test_a_sum_with_itself_is_refused(exact):
    """Epsilon would be twice, and after ten doublings 1024 times, what the ledger says."""
    for add in (lambda: exact + exact, lambda: exact.copy() + exact, lambda: copy.copy(exact).__iadd__(exact)):
        with pytest.raises(ValueError, match="share a batch of rows, which would count twice"):
            add()
    part = OPERATOR.sketch(X[:10])
    total = exact + part
    with pytest.raises(ValueError, match="count twice"):
        total += part
    with pytest.raises(ValueError, match="count twice"):
        skl.merge([total, OPERATOR.sketch(X), exact])


def test_a_file_that_is_merged_twice_is_refused(exact, tmp_path):
    exact.save(tmp_path / "a.sketch")
    with pytest.raises(ValueError, match="count twice"):
        skl.merge([tmp_path / "a.sketch", tmp_path / "a.sketch"])
    with pytest.raises(ValueError, match="count twice"):
        skl.load(tmp_path / "a.sketch") + exact
    command = [sys.executable, "-m", "sketchlearn", "merge", "a.sketch", "a.sketch", "-o", "twice.sketch"]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode
    assert "count twice" in refused.stderr
    assert not (tmp_path / "twice.sketch").exists()


def test_files_of_before_are_known_by_their_content(exact, tmp_path):
    tensors, description = container.unpack(exact.to_bytes())
    description.pop("batches")
    description.pop("digest")
    (tmp_path / "old.sketch").write_bytes(container.pack(tensors["sums"], description))
    old = skl.load(tmp_path / "old.sketch")
    assert old == exact
    with pytest.raises(ValueError, match="count twice"):
        old + skl.load(tmp_path / "old.sketch")


def test_overlapping_sums_cost_more_noise(exact):
    twice = exact.merged(exact, overlapping=True)
    assert twice.batches.largest == 2
    one, two = (skl.privatize(s, epsilon=1.0, seed_for_tests_not_private=0).ledger for s in (exact, twice))
    assert two.sensitivity == 2 * one.sensitivity
    assert two.sum_variance == pytest.approx(4 * one.sum_variance, rel=1e-3)
    assert two.count_variance == pytest.approx(4 * one.count_variance, rel=1e-2)


def test_what_is_subtracted_may_come_again(exact):
    part = OPERATOR.sketch(X[:10])
    total = exact + part
    total -= part
    total += part
    assert total.batches == (exact + part).batches
    assert (total - exact).batches == part.batches


def test_many_batches_are_known_by_the_smallest_numbers():
    rng, many = np.random.default_rng(0), Batches()
    singles = [Batches({int(i): 1}) for i in rng.integers(0, 2**64, 3 * MOST_IDENTITIES, np.uint64)]
    for one in singles:
        many = many.combined(one, 1)
    assert len(many.times) == MOST_IDENTITIES
    assert len(many.shared(many)) == MOST_IDENTITIES
    noticed = sum(bool(many.shared(one)) for one in singles)
    assert noticed == MOST_IDENTITIES  # a third of those that were there
    assert Batches.from_json(json.loads(json.dumps(many.to_json(3 * MOST_IDENTITIES)))) == many


def test_a_stream_looks_at_few_of_its_batches():
    """Adding one batch to thousands, as each update of a long stream does: calls are counted, not seconds."""
    many = Batches(dict.fromkeys(range(0, 2**20, 2**8), 1))
    assert len(many.times) == MOST_IDENTITIES
    counted = cProfile.Profile()
    counted.runcall(many.combined, Batches({7: 1}), 1)
    counted.runcall(many.combined, Batches({2**63: 1}), 1)
    counted.runcall(many.shared, Batches({2**63: 1}))
    assert sum(entry.callcount for entry in counted.getstats()) < 100


@pytest.mark.parametrize(
    "form", [[], {"x": 1}, {"0" * 16: 0}, {"0" * 16: 1.5}, {"0" * 16: True}, {"0" * 16: 1, "partial": 1}]
)
def test_forged_batches_are_refused(form, exact):
    tensors, description = container.unpack(exact.to_bytes())
    description.pop("digest")
    with pytest.raises(skl.FormatError, match="batch"):
        skl.from_bytes(container.pack(tensors["sums"], {**description, "batches": form}))


def test_identities_are_notes(exact):
    assert exact == OPERATOR.sketch(X)
    assert exact.content() == OPERATOR.sketch(X).content()
    assert "batches" not in container.unpack(skl.privatize(exact, epsilon=1.0).to_bytes())[1]


# Second releases that nobody notices


def in_eight_threads(sketch):
    made, refused = [], []

    def release():
        try:
            made.append(skl.privatize(sketch.copy(), epsilon=1.0))
        except ValueError as error:
            refused.append(error)

    threads = [threading.Thread(target=release) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(refused)) == (1, 7)
    raise refused[0]


def with_nothing_added(sketch):
    other = sketch.copy()
    other += skl.Sketch(OPERATOR)
    return other


SECONDS = {
    "a copy with no rows added": with_nothing_added,
    "a deep copy": copy.deepcopy,
    "a pickle": lambda sketch: pickle.loads(pickle.dumps(sketch)),
    "a file": lambda sketch: skl.from_bytes(sketch.to_bytes()),
    "a file without identities": lambda sketch: skl.from_bytes(sketch.content()),
    "made by hand": lambda sketch: skl.Sketch(sketch.operator, sketch.sums, sketch.units),
    "without rows": lambda sketch: sketch.without_rows(),
    "with others": lambda sketch: sketch + OPERATOR.sketch(X + 0.1),
}


@pytest.mark.parametrize("name", SECONDS)
def test_a_second_release_is_noticed(name, exact):
    again = SECONDS[name](exact)
    first = skl.privatize(exact, epsilon=1.0)
    with pytest.raises(ValueError, match="were released before"):
        skl.privatize(again, epsilon=1.0)
    assert skl.privatize(again, epsilon=1.0, already=first).ledger.epsilon == 2.0


def test_a_part_of_a_release_is_noticed(exact):
    part = exact.operator.leaves(exact)[0]
    part += skl.Sketch(part.operator)
    skl.privatize(exact, epsilon=1.0)
    with pytest.raises(ValueError, match="were released before"):
        skl.privatize(part, epsilon=1.0)


def test_eight_threads_release_once(exact):
    with pytest.raises(ValueError, match="were released before"):
        in_eight_threads(exact)


# Classes


CLASS = skl.design(bounds=([-5, -5], [5, 5]), task="moments")


def released(labels, **more):
    return {label: skl.privatize(CLASS.sketch(X[i::3] + i), epsilon=1.0, **more) for i, label in enumerate(labels)}


@pytest.mark.filterwarnings("ignore:the noise of the private sketches hides")
def test_names_of_private_classes_are_declared():
    """One record of a class that nobody else has would show in `classes_`, whatever the noise."""
    sketches = released("ab")
    with pytest.raises(ValueError, match="declare all of them with classes="):
        skl.SketchClassifier().fit_sketch(sketches)
    with pytest.raises(ValueError, match="no sketch of the declared class 'c'"):
        skl.SketchClassifier().fit_sketch(sketches, classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="'b' is not among the declared classes"):
        skl.SketchClassifier().fit_sketch(sketches, classes=["a"])
    assert skl.SketchClassifier().fit_sketch(sketches, classes=["a", "b"]).privacy_.epsilon == 1.0


@pytest.mark.filterwarnings("ignore:the noise of the private sketches hides")
def test_a_record_that_is_replaced_may_change_its_class():
    fitted = skl.SketchClassifier().fit_sketch(released("ab", neighbors="replace"), classes=["a", "b"])
    assert fitted.privacy_.epsilon == 2.0


def test_the_same_rows_under_two_labels_are_refused():
    one = CLASS.sketch(X)
    private = skl.privatize(one, epsilon=1.0)
    for sketches, more in (({"a": one, "b": one}, {}), ({"a": private, "b": private}, {"classes": ["a", "b"]})):
        with pytest.raises(ValueError, match="share a batch of rows"):
            skl.SketchClassifier().fit_sketch(sketches, **more)


# Silly budgets


@pytest.mark.parametrize("far", [2.0**61, 1e30, -1e300, np.float32(2.0**61), np.float32(-1e38)])
def test_a_far_record_does_not_stop_a_release(far):
    """A release that is made would tell that no record was so far away."""
    row = np.array([[far, 1.0]], type(far))
    operator = skl.design(bounds=([-5, -5], [5, 5]), n_components=2)
    with pytest.warns(UserWarning, match="phases are only noise"):
        sketch = operator.sketch(row)
    assert sketch.count == sketch.clipped == 1
    assert operator.features(row).shape[0] == 1
    remote = skl.features.FourierFeatures(2, 10, law=skl.features.frequencies.Gaussian(1.0), center=[1e38, 0.0])
    assert remote.with_origin("declared").sketch(row).clipped == 1
    for other in (remote, operator.with_origin("sample")):  # a design on a public sample
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert other.sketch(row).clipped == 1
        assert any("1 row clipped: column 0 is" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("budget", [{"epsilon": 1e6}, {"epsilon": 1.0, "delta": 0.999999}])
def test_silly_budgets_are_refused(budget, exact):
    with pytest.raises(ValueError, match="allow_weak=True"):
        skl.privatize(exact, **budget)
    assert skl.privatize(exact, **budget, allow_weak=True).ledger.private


# Noise that is as small as it may be


def exact_delta(epsilon, scale):
    """The privacy profile of discrete Gaussian noise on one integer that a record moves by 1, summed term by term."""
    reach = int(40 * scale) + 40
    k = np.arange(-reach, reach + 1)
    law = np.exp(-0.5 * (k / scale) ** 2)
    law /= law.sum()
    return float(np.sum(np.maximum(law[1:] - np.exp(epsilon) * law[:-1], 0.0)))


@pytest.mark.parametrize("epsilon", [0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-7, 1e-5])
def test_gaussian_noise_is_as_small_as_it_may_be(epsilon, delta, exact):
    ledger = skl.privatize(exact, epsilon=epsilon, delta=delta, seed_for_tests_not_private=0).ledger
    squares = [skl.privacy.sensitivity(part).l2_squared for part in OPERATOR.parts]
    scales = [part.scale for part in ledger.parts]
    spent = math.sqrt(sum(s / scale**2 for s, scale in zip([*squares, 1], [*scales, ledger.count_scale], strict=True)))
    least = 1 / largest_ratio(epsilon, delta)
    assert 1 / spent >= least
    assert 1 / spent <= 1.005 * least
    (scale,) = DiscreteGaussian(epsilon, delta).scales([1], [1.0])
    assert exact_delta(epsilon, scale) <= delta


@pytest.mark.parametrize("epsilon", [0.03, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_the_profile_is_the_one_of_balle_and_wang(epsilon, delta):
    mu = largest_ratio(epsilon, delta)
    exactly = math.exp(log_ndtr(mu / 2 - epsilon / mu)) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    assert exactly == pytest.approx(delta, rel=1e-5)
    assert profile(epsilon, mu) <= delta < profile(epsilon, mu * (1 + 1e-7))
    assert epsilon <= smallest_epsilon(mu, delta) * (1 + 1e-7) <= epsilon * (1 + 1e-6)


def test_releases_compose_exactly(exact):
    """Ten releases of (1, 1e-6): the sum of their epsilons would be 10."""
    spent = None
    for _ in range(10):
        spent = skl.privatize(exact, epsilon=1.0, delta=1e-6, already=spent).ledger
    assert spent.releases == 10
    assert spent.delta == pytest.approx(1e-5)
    assert spent.epsilon == pytest.approx(smallest_epsilon(math.sqrt(10) * largest_ratio(1.0, 1e-6), 1e-5), rel=0.01)
    assert spent.epsilon < 3.2


# A budget that is kept


def test_a_budget_is_a_limit(exact, tmp_path):
    budget = skl.privacy.Budget(tmp_path / "budget.sqlite", epsilon=2.0)
    assert (tmp_path / "budget.sqlite").stat().st_mode & 0o077 == 0
    first = skl.privatize(exact, epsilon=1.5, budget=budget)
    with pytest.raises(BudgetError, match=r"a Laplace release may have 0\.5"):
        skl.privatize(exact, epsilon=1.0, budget=budget, already=first)
    skl.privatize(exact, epsilon=0.5, budget=budget, already=first)
    assert (budget.spent.epsilon, budget.spent.releases, budget.left) == (2.0, 2, 0.0)
    again = skl.privacy.Budget.open(tmp_path / "budget.sqlite")
    assert again.spent == budget.spent
    with pytest.raises(BudgetError, match="limits are lowered, never raised"):
        skl.privacy.Budget(tmp_path / "budget.sqlite", epsilon=3.0)


def test_gaussian_releases_of_a_budget_are_converted_once(exact, tmp_path):
    budget, spent = skl.privacy.Budget(tmp_path / "budget.sqlite", epsilon=4.0, delta=1e-5), None
    for _ in range(10):
        spent = skl.privatize(exact, epsilon=1.0, delta=1e-6, budget=budget, already=spent)
    assert budget.spent.epsilon < 3.2
    with pytest.raises(BudgetError, match="would spend more"):
        skl.privatize(exact, epsilon=3.0, delta=1e-6, budget=budget, already=spent)


def test_a_log_that_was_changed_is_refused(exact, tmp_path):
    budget = skl.privacy.Budget(tmp_path / "budget.sqlite", epsilon=2.0)
    skl.privatize(exact, epsilon=1.5, budget=budget)
    with sqlite3.connect(budget.path) as database:
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            database.execute("UPDATE releases SET entry = replace(entry, '1.5', '0.5')")
        database.execute("DROP TRIGGER keep_entries")
        database.execute("UPDATE releases SET entry = replace(entry, '1.5', '0.5')")
    with pytest.raises(BudgetError, match="changed or damaged"):
        budget.spent  # noqa: B018


def test_threads_do_not_spend_more_than_there_is(tmp_path):
    budget, made = skl.privacy.Budget(tmp_path / "budget.sqlite", epsilon=2.0), []

    def release(i):
        with contextlib.suppress(BudgetError):
            made.append(skl.privatize(OPERATOR.sketch(X + i / 100), epsilon=0.5, budget=budget))

    threads = [threading.Thread(target=release, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert budget.spent.epsilon == 2.0


def test_a_release_without_a_budget_warns_once():
    script = (
        "import sketchlearn as skl, numpy as np, warnings\n"
        "warnings.simplefilter('always')\n"
        "op = skl.design(bounds=([-5, -5], [5, 5]), n_components=2)\n"
        "for i in range(3): skl.privatize(op.sketch(np.zeros((5, 2)) + i), epsilon=1.0)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr
    assert said.count("nobody keeps count") == 1


RELEASES = """
import sys, numpy as np, sketchlearn as skl
budget = skl.privacy.Budget(sys.argv[1], epsilon=1e9)
operator = skl.design(bounds=([-5, -5], [5, 5]), n_components=2)
for i in range(1000):
    private = skl.privatize(operator.sketch(np.full((5, 2), i / 1000)), epsilon=1.0, budget=budget)
    with open(sys.argv[2], "a") as file:
        file.write("released\\n")
"""


def test_a_kill_never_leaves_less_booked_than_released(tmp_path):
    """`make audit` kills fifty times."""
    rng = np.random.default_rng(0)
    path, seen = tmp_path / "budget.sqlite", tmp_path / "released"
    seen.write_text("")
    for _ in range(int(os.environ.get("KILLS", "3"))):
        running = subprocess.Popen([sys.executable, "-c", RELEASES, path, seen])
        while running.poll() is None and seen.read_text() == "":
            time.sleep(0.01)
        time.sleep(float(rng.uniform(0, 0.5)))
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert skl.privacy.Budget.open(path).spent.releases >= seen.read_text().count("released") > 0
