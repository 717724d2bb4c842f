"""People, not rows: what a release tells about somebody with many rows, and what sketches note of it.

Attacks are written as attacks. Lower bounds of epsilon hold with a confidence of 99.9 % each
(tests/soak/audit_claims.py).
"""

import pickle

import numpy as np
import pytest
from audit_claims import epsilon_of, integers, ledger_of, mechanism_of, scales_of, signs, units
from cases import NAMES, operators
from hypothesis import given
from hypothesis import strategies as st
from patients import FRAME, IDS, OPERATOR, X, people

import sketchlearn as skl
from sketchlearn.core import containers as container
from sketchlearn.privacy.noise_plan import sensitivity
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.sketch.privacy_unit import PrivacyUnit

SIZE = 200_000


# Attacks: what a release tells about one person


@pytest.mark.parametrize("delta", [0.0, 1e-2])
def test_the_best_test_tells_no_more_of_a_person_than_the_ledger_claims(delta):
    found = list(units(SIZE, 11, epsilon=1.0, delta=delta))
    assert len(found) == 3
    for name, ledger, bound in found:
        assert bound <= ledger.epsilon == 1.0, name
    assert max(bound for _, _, bound in found) > 0.5  # the attack is one


def test_without_units_forty_rows_break_the_claim():
    less, more = (signs(1).sketch(np.zeros((n, 1))) for n in (20, 60))
    ledger = ledger_of(more, epsilon=1.0)
    bound = epsilon_of(mechanism_of(ledger), integers(less), integers(more), scales_of(ledger, more), SIZE, 11)
    assert bound > 3 * ledger.epsilon


@pytest.mark.parametrize("neighbors", ["add-remove", "replace"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_noise_is_for_all_rows_of_a_unit_and_for_the_count(neighbors, delta):
    options = {"epsilon": 1.0, "delta": delta, "neighbors": neighbors}
    one, five = ledger_of(OPERATOR.sketch(X), **options), ledger_of(people(), **options)
    assert 5 * (one.sensitivity - 1) < five.sensitivity <= 5 * one.sensitivity  # rounded up once, not five times
    assert five.sum_scale == pytest.approx(5 * one.sum_scale, rel=1e-3)
    assert five.count_scale == pytest.approx(5 * one.count_scale, rel=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_a_replaced_row_that_is_left_out_moves_no_more_than_a_replaced_one(name):
    """A unit's rows are replaced by fewer or more: each that comes or goes must cost no more than one replaced."""
    operator = operators(9)[name]
    gone, replaced = sensitivity(operator), sensitivity(operator, "replace")
    assert (gone.l1 <= replaced.l1, gone.l2_squared <= replaced.l2_squared) == (True, True)


def test_a_person_in_two_places_counts_in_both():
    both = people() + people(X[::-1] + 1.0, IDS)
    assert both.unit == PrivacyUnit("patient_id", 10)
    assert ledger_of(both, epsilon=1.0).sensitivity == 2 * ledger_of(people(), epsilon=1.0).sensitivity
    apart = people().merged(people(X, IDS + 100), overlapping=False)
    assert apart.unit == PrivacyUnit("patient_id", 5)


def test_rows_that_count_twice_are_paid_once_for_each_time():
    once = people()
    twice = once.merged(once, overlapping=True)
    assert (twice.batches.largest, twice.unit.rows_per_unit) == (2, 10)
    assert ledger_of(twice, epsilon=1.0).rows_per_unit == 10
    assert ledger_of(twice, epsilon=1.0).sensitivity == 2 * ledger_of(once, epsilon=1.0).sensitivity


def test_an_empty_place_is_not_told_by_the_noise():
    """Whether a place has anybody at all must not show in the ledger of a sum or difference."""
    empty, full = people(X[:0], IDS[:0]), people(X[:1], IDS[:1])
    whole = people()
    assert (whole + empty).unit == (whole + full).unit
    assert ((whole + empty) - empty).unit == ((whole + full) - full).unit
    assert (whole - empty).unit == PrivacyUnit("patient_id", 10)


def test_the_same_values_are_not_taken_from_everybody():
    """Of rows 0 to 9, one of each of 2000 people: were the choice the same for all, one value would have them all."""
    rows = np.tile(np.arange(10.0), 2000)[:, None]
    histogram = skl.features.Histograms.even([-0.5], [9.5], bins=10)
    counts = histogram.sketch(rows, unit=np.repeat(np.arange(2000), 10), rows_per_unit=1).sums[1:11]
    assert counts.sum() == 2000
    assert np.all(np.abs(counts - 200) < 5.5 * np.sqrt(180))  # by chance once in ten million times, each


# The note: sums, differences, copies, pickles, files


LEAVES = st.tuples(st.sets(st.integers(0, 3), max_size=3), st.integers(1, 3), st.integers(1, 4))


@given(st.lists(st.tuples(LEAVES, st.sampled_from(["+", "disjoint", "twice", "-", "back"])), min_size=1, max_size=6))
def test_no_person_has_more_rows_in_any_sum_than_the_note_says(steps):
    """Beside the sketch, a plain table: how often each row of each person is in it."""
    total, table, added = skl.Sketch(OPERATOR), {}, []
    for n, ((who, rows, most), step) in enumerate(steps):
        ids = np.repeat(sorted(who), rows)
        values = np.column_stack([ids, np.arange(len(ids)) + 100.0 * n])
        part = people(values, ids, most)
        mine = {(i, n, k): 1 for i in who for k in range(min(rows, most))}
        present = {i for (i, _, _), times in table.items() if times}
        if step in ("-", "back") and added:
            part, mine = added.pop()
            total, sign = total - part, -1
        elif step == "twice":
            total, sign = total.merged(part.merged(part, overlapping=True)), 2
        else:
            apart = step == "disjoint" and not present & who
            total, sign = total.merged(part, overlapping=False if apart else None), 1
            added.append((part, mine))
        for row, times in mine.items():
            table[row] = table.get(row, 0) + sign * times
        largest = max((sum(abs(t) for (i, _, _), t in table.items() if i == who) for who in range(4)), default=0)
        assert largest <= total.unit.rows_per_unit
        assert total.unit.rows_per_unit >= total.batches.largest
        assert total.count == sum(table.values())


def test_the_note_is_kept_and_is_not_compared(tmp_path):
    sketch = people()
    sketch.save(tmp_path / "s.sketch")
    copies = [sketch.copy(), pickle.loads(pickle.dumps(sketch)), skl.load(tmp_path / "s.sketch")]
    copies += [skl.from_bytes(sketch.content()), sketch.without_rows(), sketch + skl.Sketch(OPERATOR)]
    assert [copy.unit for copy in copies] == [PrivacyUnit("patient_id", 5)] * 6
    assert all(copy == sketch == people(most=5, name="other") for copy in copies)
    both = skl.features.concatenate([OPERATOR, skl.features.Histograms.even([-9, -9], [9, 9], bins=3)])
    parts = both.split(both.sketch(FRAME, unit="patient_id", rows_per_unit=2))
    assert [part.unit for part in parts] == [PrivacyUnit("patient_id", 2)] * 2
    kept = skl.design(X, n_components=2, rows=20).sketch(FRAME, unit="patient_id", rows_per_unit=5)
    again = skl.from_bytes(kept.to_bytes())
    assert (again.unit, len(again.kept)) == (kept.unit, len(kept.kept))
    assert "units</th><td>at most 5 rows of each patient_id" in sketch._repr_html_()


def test_a_file_of_units_has_a_format_that_older_versions_refuse():
    description = container.unpack(people().content())[1]
    assert (description["format"], description["unit"], description["rows_per_unit"]) == (4, "patient_id", 5)
    assert container.unpack(OPERATOR.sketch(X).content())[1]["format"] == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 1}, "a format of 1 says that it has no units"),
        ({"format": 2}, "a format of 2 says that it has no units"),
        ({"rows_per_unit": 0}, "rows_per_unit must be a whole number from 1"),
        ({"rows_per_unit": "5"}, "rows_per_unit must be a whole number from 1"),
        ({"unit": ""}, "the name of a unit must be text"),
        ({"unit": "a\x1b[2J"}, "control characters"),
    ],
)
def test_forged_notes_are_refused(changes, message):
    sketch = people()
    data = container.pack(sketch.sums, {**sketch.description(), **changes})
    with pytest.raises(skl.FormatError, match=message):
        skl.from_bytes(data)


def test_rows_without_units_and_rows_of_units_do_not_mix():
    plain, sketch = OPERATOR.sketch(X), people()
    for mixed in (lambda: plain + sketch, lambda: sketch + plain, lambda: sketch - plain, lambda: sketch.update(X)):
        with pytest.raises(ValueError, match="rows without units, which would not be protected as units"):
            mixed()
    with pytest.raises(ValueError, match=r"protect different units \(patient_id and ward\)"):
        sketch + people(X[1:], IDS[1:], name="ward")
    assert (sketch + OPERATOR.sketch(X[:0])).unit == sketch.unit
    assert sketch.unit == PrivacyUnit("patient_id", 5)


def test_every_update_adds_its_rows():
    sketch = skl.Sketch(OPERATOR)
    for i in range(3):
        sketch.update(FRAME[i::3], unit="patient_id", rows_per_unit=2)
    assert sketch.unit == PrivacyUnit("patient_id", 6)
    assert sketch.count == sum(np.minimum(2, np.bincount(IDS[i::3])).sum() for i in range(3))


# Releases and their ledgers


def test_the_ledger_says_whom_it_protects():
    private = skl.privatize(people(), epsilon=1.0)
    ledger = private.ledger
    assert (ledger.unit, ledger.rows_per_unit, private.unit) == ("patient_id", 5, None)
    assert "for adding or removing all rows of one unit, per patient_id (at most 5 rows each)" in str(ledger)
    assert Ledger.from_json(ledger.to_json()) == ledger
    assert skl.from_bytes(private.to_bytes()).ledger == ledger
    plain = skl.privatize(OPERATOR.sketch(X), epsilon=1.0).ledger
    assert not {"unit", "rows_per_unit"} & plain.to_json().keys()
    for changes in ({"rows_per_unit": None}, {"unit": None}, {"rows_per_unit": 0}, {"unit": 3}):
        with pytest.raises(ValueError, match=r"rows_per_unit must be a whole number|the name of a unit must be text"):
            Ledger.from_json({**ledger.to_json(), **changes})


def test_ledgers_of_different_units_do_not_merge():
    sketches = people(batch="patients"), people(name="ward", batch="wards"), OPERATOR.sketch(X)
    patients, wards, rows = (skl.privatize(sketch, epsilon=1.0) for sketch in sketches)
    for a, b, names in ((patients, wards, "patient_id and ward"), (patients, rows, "patient_id and rows")):
        with pytest.raises(ValueError, match=rf"protect different units \({names}\)"):
            a + b
    other = skl.privatize(people(X, IDS, 3), epsilon=2.0)
    assert ((patients + other).ledger.epsilon, (patients + other).ledger.rows_per_unit) == (3.0, 8)
    apart = patients.merged(other, overlapping=False).ledger
    assert (apart.epsilon, apart.rows_per_unit) == (2.0, 5)
    with pytest.raises(ValueError, match="different units"):
        skl.privatize(people(batch="more"), epsilon=1.0, already=rows)
    again = skl.privatize(people(batch="more"), epsilon=1.0, already=other).ledger
    assert (again.epsilon, again.rows_per_unit) == (3.0, 5)


def test_releases_of_two_parts_count_together_for_a_person_in_both():
    """Each part was released; of their sum, a person may be in both, so that both were spent."""
    parts = [people(X[:450], IDS[:450]), people(X[450:], IDS[450:])]
    for part in parts:
        skl.privatize(part, epsilon=1.0)
    assert (parts[0] + parts[1]).released.epsilon == 2.0


def test_a_budget_is_about_one_kind_of_unit(tmp_path):
    budget = skl.privacy.Budget(tmp_path / "budget.sqlite", epsilon=9.0)
    skl.privatize(people(), epsilon=1.0, budget=budget)
    skl.privatize(people(), epsilon=1.0, budget=budget)
    assert budget.spent.epsilon == 2.0
    with pytest.raises(ValueError, match="the budget protects patient_id, and the release protects each row"):
        skl.privatize(OPERATOR.sketch(X), epsilon=1.0, budget=budget)


def test_shares_of_noise_need_a_word_about_people_with_several_parties():
    shares = [skl.privatize(people(X[i::2], IDS[i::2]), epsilon=1.0, parties=2) for i in range(2)]
    with pytest.raises(ValueError, match="several parties may have rows of the same patient_id"):
        skl.merge(shares)
    assert skl.merge(shares, overlapping=False).ledger.epsilon == 1.0
    both = skl.merge(shares, overlapping=True).ledger
    assert (both.epsilon, both.rows_per_unit, both.lacking) == (2.0, 10, 0)


@pytest.mark.filterwarnings("ignore:the noise of the private sketches hides the shape")
def test_a_person_may_be_in_several_classes():
    operator = skl.design(bounds=([-5, -5], [5, 5]), task="moments")
    labels = X[:, 0] > 0
    exact = {c: operator.sketch(X[labels == c], unit=IDS[labels == c], rows_per_unit=5) for c in (False, True)}
    private = {c: skl.privatize(sketch, epsilon=1.0) for c, sketch in exact.items()}
    model = skl.SketchClassifier().fit_sketch(private, classes=[False, True])
    assert (model.privacy_.epsilon, model.privacy_.unit) == (2.0, "unit")


def test_packed_signs_are_rows_and_not_units():
    square = skl.features.FourierFeatures(2, 20, law=skl.features.frequencies.Gaussian(1.0), wave="square", seed=3)
    sketch = square.sketch(FRAME, unit="patient_id", rows_per_unit=5)
    with pytest.raises(ValueError, match="rows without units"):
        sketch.update_packed(square.pack(X))
