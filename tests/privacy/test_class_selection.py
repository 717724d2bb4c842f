"""Names of classes that are selected by noisy counts: attempts to see a class of one record, or to pay less."""

import json
import math
import pickle

import numpy as np
import pytest
from scipy.stats import binom

import sketchlearn as skl
from sketchlearn.core.limits import FormatError
from sketchlearn.estimators.files import selected_from_bytes, selected_to_bytes
from sketchlearn.privacy import class_selection
from sketchlearn.privacy.budget import BudgetError
from sketchlearn.privacy.class_selection import select_classes
from sketchlearn.sketch.ledger import Ledger, SelectionCost

CERTAIN = 1e-6  # the probability that a test of statistics fails by chance
MANY = 20_000
OPERATOR = skl.design(bounds=([-5, -5], [5, 5]), task="moments")
X = np.random.default_rng(0).normal(size=(900, 2))
COST = {"epsilon": 0.5, "delta": 1e-6}
SECRET = "zebra-disease"

pytestmark = [
    pytest.mark.filterwarnings("ignore:nobody keeps count"),
    pytest.mark.filterwarnings("ignore:the noise of the private sketches hides"),
]


def exact(X=X):
    """Two classes of many records, and one of a single record."""
    return {"b": OPERATOR.sketch(X[:450] + 1), SECRET: OPERATOR.sketch(X[:1] + 2), "a": OPERATOR.sketch(X[450:])}


def released(sketches, selected, **options):
    return {label: skl.privatize(sketches[label], epsilon=1.0, **options) for label in selected}


def fitted(releases, selected):
    return skl.SketchClassifier().fit_sketch(releases, classes=selected)


def named(count, classes=MANY, **options):
    """How many of many classes of so many records each are named."""
    return len(select_classes(dict.fromkeys(range(classes), count), **options))


# What one record shows


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_one_record_of_a_new_class_is_hardly_ever_named(epsilon):
    """20,000 such classes: no more of them than delta explains, at a confidence of 1 - 10^-6."""
    assert named(1, epsilon=epsilon, delta=0.01) <= binom.ppf(1 - CERTAIN, MANY, 0.01)


def test_the_test_notices_a_threshold_that_is_one_too_low(monkeypatch):
    """As OpenDP's own delta would have it: at epsilon 2, 1.6 % of such classes are named instead of 1 %."""
    monkeypatch.setattr(class_selection, "THRESHOLD_CORRECTION", 0)
    assert named(1, epsilon=2.0, delta=0.01) > binom.ppf(1 - CERTAIN, MANY, 0.01)


@pytest.mark.parametrize("neighbors", ["add-remove", "replace"])
def test_one_record_more_changes_what_is_named_by_no_more_than_epsilon(neighbors):
    """Of counts near the threshold: rates of 5000 classes, each within 5.2 deviations (1 - 10^-6 for all four)."""
    cost = {"epsilon": 1.0, "delta": 0.01, "neighbors": neighbors}
    spent = 1.0 if neighbors == "add-remove" else 0.5  # of two counts that move, each has half
    for count in (3, 6):
        fewer, more = (named(n, 5000, **cost) / 5000 for n in (count, count + 1))
        room = 5.2 * (1 + math.exp(spent)) * math.sqrt(0.25 / 5000)
        assert more <= math.exp(spent) * fewer + 0.01 + room
        assert 1 - fewer <= math.exp(spent) * (1 - more) + room


def test_replacing_needs_twice_the_records():
    """A record that changes its class moves two counts: the threshold is at 57 records, not at 28."""
    assert named(28, classes=400, **COST) > 100
    assert named(28, classes=400, neighbors="replace", **COST) < 20
    assert named(57, classes=400, neighbors="replace", **COST) > 100


def test_records_that_count_twice_need_more_of_them():
    one = OPERATOR.sketch(X[:20])
    twice = OPERATOR.sketch(X[20:40]).merged(OPERATOR.sketch(X[20:40]), overlapping=True)
    ledgers = [select_classes({"a": part}, **COST).ledger for part in (one, twice)]
    assert [ledger.sensitivity for ledger in ledgers] == [1, 2]
    assert ledgers[1].count_scale == 2 * ledgers[0].count_scale


def test_a_class_without_records_is_not_there():
    """A sketch that became empty by subtraction is not named more often than none."""
    emptied = OPERATOR.sketch(X[:5])
    emptied = emptied - emptied
    assert named(0, epsilon=20.0, delta=0.01) == 0
    assert len(select_classes({"a": emptied}, epsilon=20.0, delta=0.01)) == 0
    assert select_classes({}, **COST).labels == ()


# What stays out of sight


def test_names_that_did_not_pass_are_nowhere():
    sketches = exact()
    selected = select_classes(sketches, **COST)
    assert selected.labels == ("a", "b")  # not in the order of the data
    assert "b" in selected
    assert SECRET not in selected
    releases = released(sketches, selected, already=selected.ledger)
    model = fitted(releases, selected)
    shown = [repr(selected), str(selected), repr(model.classes_), str(model.privacy_), str(vars(model))]
    hidden = [pickle.dumps(selected), pickle.dumps(model), *(part.to_bytes() for part in releases.values())]
    assert not any(SECRET in text for text in shown)
    assert not any(SECRET.encode() in data for data in hidden)
    assert pickle.loads(pickle.dumps(selected)) == selected


def test_errors_do_not_name_classes_that_did_not_pass():
    sketches = exact()
    selected = select_classes(sketches, **COST)
    everything = released(sketches, sketches, already=selected.ledger)
    with pytest.raises(ValueError, match="1 of the sketches are of classes that were not selected") as error:
        fitted(everything, selected)
    assert SECRET not in str(error.value)
    with pytest.raises(ValueError, match="not selected") as error:
        fitted({**everything, SECRET: everything["a"]}, selected)
    assert SECRET not in str(error.value)
    weighted = skl.Sketch(OPERATOR)
    weighted.update(X[:10], sample_weight=np.full(10, 0.5))
    refused = [
        ({SECRET: everything[SECRET]}, "private already"),
        ({SECRET: sketches["a"], "a": sketches["a"]}, "share a batch"),
        ({SECRET: weighted}, "fractional weights"),
        ({SECRET: -1, "a": 100}, "whole number"),
        ({SECRET: 2.5}, "whole number"),
        ({SECRET: 7, 3: 100}, "all words or all numbers"),
        ({(SECRET, 1): 7}, "words or finite numbers"),
    ]
    for classes, message in refused:
        with pytest.raises(ValueError, match=message) as error:
            select_classes(classes, **COST)
        assert SECRET not in str(error.value)


# What is paid


def test_selecting_and_releasing_the_same_records_is_paid_twice():
    sketches = exact()
    selected = select_classes(sketches, **COST)
    with pytest.raises(ValueError, match="were released before"):
        skl.privatize(sketches["a"], epsilon=1.0)
    with pytest.raises(ValueError, match="were released before"):
        select_classes(sketches, **COST)
    releases = released(sketches, selected, already=selected.ledger)
    assert {(part.ledger.epsilon, part.ledger.delta) for part in releases.values()} == {(1.5, 1e-6)}
    privacy = fitted(releases, selected).privacy_
    assert (privacy.epsilon, privacy.delta) == (1.5, 1e-6)  # once, as the releases include it


def test_the_single_record_of_a_class_pays_for_the_selection_too():
    sketches = exact()
    select_classes(sketches, **COST)
    with pytest.raises(ValueError, match="were released before"):
        skl.privatize(sketches[SECRET], epsilon=1.0)


def test_a_selection_by_counts_is_added_by_the_classifier():
    """Counts do not tell which records they are of, nor do releases of other processes."""
    sketches = exact()
    selected = select_classes({label: part.count for label, part in sketches.items()}, **COST)
    releases = released(sketches, selected)
    assert releases["a"].ledger.epsilon == 1.0
    model = fitted(releases, selected)
    assert (model.privacy_.epsilon, model.privacy_.delta) == (1.5, 1e-6)
    assert fitted(model.sketches_, selected).privacy_.epsilon == 1.5
    assert skl.SketchClassifier().fit_sketch(releases, classes=["a", "b"]).privacy_.epsilon == 1.0
    mixed = {"a": releases["a"], "b": model.sketches_["b"]}
    assert fitted(mixed, selected).privacy_.epsilon == 1.5


def test_files_remember_that_the_selection_is_paid(tmp_path):
    sketches = exact()
    selected = select_classes(sketches, **COST)
    for label, part in released(sketches, selected, already=selected.ledger).items():
        part.save(tmp_path / f"{label}.sketch")
    model = fitted({label: skl.load(tmp_path / f"{label}.sketch") for label in selected}, selected)
    assert model.privacy_.epsilon == 1.5
    skl.save(model, tmp_path / "model.json")
    assert skl.load(tmp_path / "model.json").privacy_ == model.privacy_


def test_a_replaced_record_pays_two_releases_and_one_selection():
    sketches = exact()
    selected = select_classes(sketches, neighbors="replace", **COST)
    releases = released(sketches, selected, neighbors="replace", already=selected.ledger)
    assert fitted(releases, selected).privacy_.epsilon == 2.5
    with pytest.raises(ValueError, match="different neighbors"):
        fitted(released(exact(X + 0.5), selected), selected)


def test_what_was_released_before_the_selection_is_not_forgotten():
    """A release of (1, replace) before: a record may change its class, so it is paid twice, the selection once."""
    sketches = exact()
    first = skl.privatize(sketches["a"], epsilon=1.0, neighbors="replace")
    selected = select_classes(sketches, neighbors="replace", already=first.ledger, **COST)
    assert selected.ledger.epsilon == 1.5
    releases = released(sketches, selected, neighbors="replace", already=selected.ledger)
    assert fitted(releases, selected).privacy_.epsilon == 4.5


def test_a_selection_that_only_one_of_two_has_paid_is_not_taken_for_paid():
    selected = select_classes({"a": 100, "b": 100}, **COST)
    with_it = skl.privatize(OPERATOR.sketch(X[:450]), epsilon=1.0, already=selected.ledger).ledger
    without = skl.privatize(OPERATOR.sketch(X[450:]), epsilon=3.0).ledger
    assert with_it.includes(selected.ledger)
    assert with_it.merged(without, overlapping=True).includes(selected.ledger)
    assert not with_it.merged(without, overlapping=False).includes(selected.ledger)
    assert not with_it.includes(select_classes({"a": 100}, **COST).ledger)


def test_a_ledger_does_not_claim_selections_that_cost_more_than_all():
    ledger = skl.privatize(OPERATOR.sketch(X), epsilon=1.0).ledger
    assert "selections" not in ledger.to_json()
    form = select_classes({"a": 100}, **COST).ledger.to_json()
    assert Ledger.from_json(form).to_json() == form
    for cost in (SelectionCost("0" * 16, 5.0, 1e-7), SelectionCost("0" * 16, 0.1, 0.1)):
        with pytest.raises(ValueError, match="cannot cost more"):
            Ledger.from_json({**form, "selections": [cost.to_json()]})
    for name in ("", "0" * 15, "g" * 16, 7):
        with pytest.raises(ValueError, match="16 hexadecimal digits"):
            SelectionCost(name, 0.5, 1e-6)


# Budgets


def test_a_selection_is_booked(tmp_path):
    sketches, budget = exact(), skl.privacy.Budget(tmp_path / "budget.sqlite", epsilon=1.6, delta=2e-6)
    selected = select_classes(sketches, budget=budget, **COST)
    assert (budget.spent.epsilon, budget.spent.delta) == (0.5, 1e-6)
    release = skl.privatize(sketches["a"], epsilon=1.0, budget=budget)
    assert (release.ledger.epsilon, release.ledger.delta) == (1.5, 1e-6)
    assert release.ledger.includes(selected.ledger)
    assert budget.spent.epsilon == 1.5
    with pytest.raises(BudgetError, match="more than the budget has"):
        select_classes(exact(), epsilon=0.2, delta=1e-7, budget=budget)
    with pytest.raises(BudgetError, match="more delta than the budget has"):
        select_classes(exact(), epsilon=0.01, delta=3e-6, budget=budget)


def test_gaussian_releases_have_the_delta_that_names_leave(tmp_path):
    alone, beside = (skl.privacy.Budget(tmp_path / f"{name}.sqlite", epsilon=9, delta=2e-6) for name in "ab")
    select_classes(exact(), budget=beside, epsilon=1.0, delta=1.5e-6)
    for budget in (alone, beside):
        skl.privatize(exact()["a"], epsilon=1.0, delta=1e-6, budget=budget)
    assert beside.spent.delta == pytest.approx(2e-6)
    assert beside.spent.epsilon > 1.0 + alone.spent.epsilon


def test_a_budget_without_delta_books_no_names(tmp_path):
    pure = skl.privacy.Budget(tmp_path / "pure.sqlite", epsilon=3.0, delta=0.0)
    with pytest.raises(BudgetError, match="delta 0, and a selection of class names needs more"):
        select_classes(exact(), budget=pure, **COST)
    counting = skl.privacy.Budget(tmp_path / "counting.sqlite")
    select_classes(exact(), budget=counting, **COST)
    skl.privatize(exact()["a"], epsilon=1.0, delta=1e-6, budget=counting)
    assert counting.spent.delta == pytest.approx(2e-6)


# Misuse


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.5, "delta": 0.0}, "delta must be above 0"),
        ({"epsilon": 0.5, "delta": 0.02}, "at most 0.01"),
        ({"epsilon": 21.0, "delta": 1e-6}, "epsilon at most 20"),
        ({"epsilon": 0.0, "delta": 1e-6}, "epsilon must be a positive number"),
        ({"epsilon": 1e-18, "delta": 1e-6}, "exceeds 64 bits"),
        ({"epsilon": 1e-16, "delta": 1e-300}, "does not fit into 64 bits"),
        ({"epsilon": 0.5, "delta": 1e-6, "neighbors": "both"}, "neighbors must be"),
    ],
)
def test_misuse_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        select_classes({"a": 100}, **options)


def test_other_things_are_refused():
    with pytest.raises(TypeError, match="expected a dictionary"):
        select_classes(["a"], **COST)
    with pytest.raises(TypeError, match="already must be the ledger"):
        select_classes({"a": 1}, already=1.0, **COST)


# Files of selected names


def test_a_damaged_file_of_names_is_refused():
    selected = select_classes({"a": 500, "b": 400}, **COST)
    document = json.loads(selected_to_bytes(selected))
    assert selected_from_bytes(selected_to_bytes(selected)) == selected
    plain = skl.privatize(OPERATOR.sketch(X), epsilon=1.0).ledger.to_json()
    for change, message in (
        ({"labels": ["a", "a"]}, "labels must differ"),
        ({"labels": ["a", "\x1b[2J"]}, "control characters"),
        ({"ledger": {"type": "Ledger"}}, "is missing"),
        ({"ledger": plain}, "has no selection"),
        ({"more": 1}, "nothing else"),
        ({"version": 2}, "upgrade sketchlearn"),
    ):
        with pytest.raises(FormatError, match=message):
            selected_from_bytes(json.dumps({**document, **change}).encode())


def test_units_may_be_in_many_classes():
    """A person of 5 rows in each of 100 classes would move 100 counts, where the noise is for one."""
    operator = skl.design(bounds=([-5, -5], [5, 5]), task="moments")
    exact = {label: operator.sketch([[label, 1.0]], unit=["ann"], rows_per_unit=5) for label in (1, 2)}
    with pytest.raises(ValueError, match="these sketches protect units"):
        skl.privacy.select_classes(exact, epsilon=1.0, delta=1e-6)
