"""The same rows once more, by any way that they can come: they must not count twice, nor be released twice unpaid.

Also what must not be taken for that: two honest batches of equal rows. And that the ids which tell it are no trace of
what was forgotten, and are in no release.
"""

import copy
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from cases import NAMES, clipping, operators

import sketchlearn as skl
from sketchlearn.core import containers as container
from sketchlearn.core.limits import FEW_RECORDS
from sketchlearn.sketch.batches import RELEASED, Batches

OPERATOR = skl.features.FourierFeatures(
    2, 20, law=skl.features.frequencies.Gaussian(1.0), columns=("x", "y"), seed=3
).with_origin("declared")
X = np.random.default_rng(0).normal(size=(400, 2))
MORE = X + 0.5
REFUSED = "they share a batch of rows, which would count twice"
RELEASED_BEFORE = "were released before"

pytestmark = pytest.mark.filterwarnings("ignore:nobody keeps count")


def elsewhere(program, *arguments):
    """What a program prints that another process runs, which has other hashes of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def command(*arguments, cwd=None, **more):
    return subprocess.run(
        [sys.executable, "-m", "sketchlearn", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, **more
    )


def ids(sketch):
    return set(sketch.batches.times)


def written(number):
    """All forms in which a number of 64 bits may stand in bytes."""
    return [number.to_bytes(8, "big"), number.to_bytes(8, "little"), f"{number:016x}".encode(), str(number).encode()]


# The same rows in another process


SKETCHED = """
import sys, numpy as np, sketchlearn as skl
operator, name = skl.load(sys.argv[1]), (sys.argv[4:] or [None])[0]
operator.sketch(np.load(sys.argv[2]), batch=name).save(sys.argv[3])
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A design, rows, and their sketch as another process has made it."""
    folder = tmp_path_factory.mktemp("elsewhere")
    skl.save(OPERATOR, folder / "design.json")
    np.save(folder / "rows.npy", X)
    np.savetxt(folder / "rows.csv", X, delimiter=",", header="x,y", comments="", fmt="%.17g")
    elsewhere(SKETCHED, folder / "design.json", folder / "rows.npy", folder / "there.sketch")
    return folder


def test_another_process_gives_the_same_bytes_and_a_sum_is_refused(files):
    here, there = OPERATOR.sketch(X), skl.load(files / "there.sketch")
    assert here.to_bytes() == (files / "there.sketch").read_bytes()
    for a, b in ((here, there), (there, here), (OPERATOR.sketch(MORE) + here, there)):
        with pytest.raises(ValueError, match=REFUSED) as caught:
            a + b
        assert "\n" not in str(caught.value)
        for remedy in ("add each batch once", "a.merged(b, overlapping=True)", "a batch= name of their own"):
            assert remedy in str(caught.value)
    with pytest.raises(ValueError, match=REFUSED):
        skl.merge([files / "there.sketch", here])


def test_what_another_process_sketched_is_released_once(files):
    first = skl.privatize(OPERATOR.sketch(X), epsilon=1.0)
    there = skl.load(files / "there.sketch")
    assert there.released == first.ledger
    with pytest.raises(ValueError, match=RELEASED_BEFORE):
        skl.privatize(there, epsilon=1.0)
    assert skl.privatize(there, epsilon=1.0, already=first).ledger.epsilon == 2.0


def test_whoever_says_that_it_counts_twice_pays_for_it(files):
    here, there = OPERATOR.sketch(X), skl.load(files / "there.sketch")
    both = here.merged(there, overlapping=True)
    assert both.count == 2 * len(X)
    assert both.batches.largest == 2
    scales = [skl.privatize(s, epsilon=1.0, seed_for_tests_not_private=0).ledger.sum_scale for s in (here, both)]
    assert scales[1] == pytest.approx(2 * scales[0], rel=1e-3)


def test_the_order_of_bytes_in_memory_does_not_matter():
    """Of the rows, and of the sums as a machine of the other order has them."""
    one = OPERATOR.sketch(X)
    for other in (X.astype(">f8"), X.astype("<f8"), np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2]):
        assert OPERATOR.sketch(other).to_bytes() == one.to_bytes()
    for kind in (">i8", "<i8"):
        sums = one.sums.astype(kind)
        assert Batches.of_content(OPERATOR.identity, sums, one.units) == one.batches
        assert skl.Sketch(OPERATOR, sums, one.units).batches == one.batches


def ways(files):
    """The same rows in other forms."""
    yield "rows in another order", lambda: OPERATOR.sketch(X[::-1])
    yield "threads", lambda: OPERATOR.sketch(X, n_jobs=3)
    yield "blocks", lambda: OPERATOR.sketch(X[i : i + 7] for i in range(0, len(X), 7))
    yield "an array's file", lambda: OPERATOR.sketch(files / "rows.npy")
    yield "a text file", lambda: OPERATOR.sketch(str(files / "rows.csv"))
    yield "weights of 1", lambda: OPERATOR.sketch(X, sample_weight=np.ones(len(X)))
    yield "a pickle", lambda: pickle.loads(pickle.dumps(OPERATOR.sketch(X)))
    yield "a file", lambda: skl.from_bytes(OPERATOR.sketch(X).to_bytes())
    yield "a file without ids", lambda: skl.from_bytes(OPERATOR.sketch(X).content())
    yield "numbers", lambda: skl.Sketch(OPERATOR, OPERATOR.sketch(X).sums, len(X))
    yield "computed elsewhere", lambda: OPERATOR.sketch_features(OPERATOR.features(X))


def test_the_same_rows_in_other_forms_are_the_same_batch(files):
    for name, sketched in ways(files):
        one, other = OPERATOR.sketch(X), sketched()
        assert ids(one) == ids(other), name
        with pytest.raises(ValueError, match=REFUSED):
            one + other
        RELEASED.forget()
        skl.privatize(one, epsilon=1.0)
        with pytest.raises(ValueError, match=RELEASED_BEFORE):
            skl.privatize(other, epsilon=1.0)


def test_parts_of_a_sum_are_known_in_another_process(files):
    """A sum of three files, and one of them again: each by itself is a batch."""
    total = skl.merge([OPERATOR.sketch(MORE), files / "there.sketch", OPERATOR.sketch(X + 2)])
    total.save(files / "total.sketch")
    with pytest.raises(ValueError, match=REFUSED):
        skl.load(files / "total.sketch") + OPERATOR.sketch(X)
    assert skl.load(files / "total.sketch") - OPERATOR.sketch(X) == OPERATOR.sketch(MORE) + OPERATOR.sketch(X + 2)


# By the command line


@pytest.fixture(scope="module")
def sketched(tmp_path_factory):
    """Two outputs of the same command, and one of other rows."""
    folder = tmp_path_factory.mktemp("commands")
    skl.save(OPERATOR, folder / "design.json")
    for name, rows in (("rows", X), ("more", MORE)):
        np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header="x,y", comments="", fmt="%.17g")
    for output, rows in (("first", "rows"), ("second", "rows"), ("other", "more")):
        done = command("sketch", f"{rows}.csv", "--design", "design.json", "-o", f"{output}.sketch", cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def test_the_same_command_gives_the_same_bytes(sketched):
    first = (sketched / "first.sketch").read_bytes()
    assert first == (sketched / "second.sketch").read_bytes()
    assert ids(skl.load(sketched / "first.sketch")) == ids(OPERATOR.sketch(X))
    rows = (sketched / "rows.csv").read_text()
    done = command("sketch", "-", "--design", "design.json", "-o", "piped.sketch", cwd=sketched, input=rows)
    assert done.returncode == 0, done.stderr
    assert first == (sketched / "piped.sketch").read_bytes()


def test_two_outputs_of_the_same_command_are_not_merged(sketched):
    for pair in (("first", "second"), ("first", "first"), ("second", "other", "first")):
        done = command("merge", *(f"{name}.sketch" for name in pair), "-o", "sum.sketch", cwd=sketched)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert f"{pair[-1]}.sketch: cannot add sketches: {REFUSED}" in done.stderr
        assert "give --overlapping" in done.stderr
        assert not (sketched / "sum.sketch").exists()


def test_the_command_line_speaks_of_options(sketched):
    done = command("merge", "first.sketch", "second.sketch", "-o", "sum.sketch", cwd=sketched)
    assert "batch=" not in done.stderr


def test_two_outputs_that_overlap_by_what_was_said_have_more_noise(sketched):
    done = command("merge", "--overlapping", "first.sketch", "second.sketch", "-o", "twice.sketch", cwd=sketched)
    assert done.returncode == 0, done.stderr
    twice = skl.load(sketched / "twice.sketch")
    assert (twice.count, twice.batches.largest) == (2 * len(X), 2)


def test_a_sum_of_files_gives_the_same_bytes_again(sketched):
    made = []
    for output in ("one.sketch", "two.sketch"):
        done = command("merge", "first.sketch", "other.sketch", "-o", output, cwd=sketched)
        assert done.returncode == 0, done.stderr
        made.append((sketched / output).read_bytes())
    assert made[0] == made[1]
    done = command("merge", "one.sketch", "two.sketch", "-o", "sum.sketch", cwd=sketched)
    assert done.returncode == 1
    assert "they share 2 batches of rows, which would count twice" in done.stderr


# Honest batches of equal rows


def test_batches_of_other_names_are_other_rows(tmp_path):
    monday, tuesday = (OPERATOR.sketch(X, batch=day) for day in ("monday", "tuesday"))
    assert monday == tuesday
    assert ids(monday).isdisjoint(ids(tuesday))
    assert ids(monday).isdisjoint(ids(OPERATOR.sketch(X)))
    monday.save(tmp_path / "monday.sketch")
    week = skl.load(tmp_path / "monday.sketch") + tuesday
    assert (week.count, week.batches.largest) == (2 * len(X), 1)
    for again in ("monday", "tuesday"):
        with pytest.raises(ValueError, match=REFUSED):
            week + OPERATOR.sketch(X, batch=again)
    first, second = (skl.privatize(day, epsilon=1.0) for day in (monday, tuesday))
    assert first.ledger.epsilon == second.ledger.epsilon == 1.0
    for day in (monday, OPERATOR.sketch(X, batch="tuesday"), week, OPERATOR.sketch(X)):
        with pytest.raises(ValueError, match=RELEASED_BEFORE):
            skl.privatize(day, epsilon=1.0)


def test_a_name_is_the_same_in_another_process(files):
    elsewhere(SKETCHED, files / "design.json", files / "rows.npy", files / "monday.sketch", "monday")
    assert (files / "monday.sketch").read_bytes() == OPERATOR.sketch(X, batch="monday").to_bytes()


@pytest.mark.parametrize("name", [7, b"monday", ["monday"], 1.5, True])
def test_a_name_is_a_text(name):
    with pytest.raises(TypeError, match="batch must be a name, not "):
        OPERATOR.sketch(X, batch=name)


def test_updates_are_other_rows():
    """A stream may have equal blocks; the same blocks from elsewhere are still noticed."""
    stream = skl.Sketch(OPERATOR)
    for _ in range(3):
        stream.update(X)
    assert (stream.count, stream.batches.largest) == (3 * len(X), 1)
    assert stream.batches == skl.from_bytes(stream.to_bytes()).batches
    with pytest.raises(ValueError, match=REFUSED):
        stream + OPERATOR.sketch(X)
    with pytest.raises(ValueError, match=REFUSED):
        stream += OPERATOR.sketch(X)
    scales = [
        skl.privatize(s, epsilon=1.0, seed_for_tests_not_private=0).ledger.sum_scale
        for s in (stream, OPERATOR.sketch(X))
    ]
    assert scales[0] == scales[1]


def test_few_records_that_two_calls_have_read_may_be_equal_by_chance():
    few, same = (OPERATOR.sketch(X[: FEW_RECORDS - 1]) for _ in range(2))
    both = few + same
    assert (both.count, both.batches.largest) == (2 * FEW_RECORDS - 2, 1)
    for again in (few, same, few.copy(), pickle.loads(pickle.dumps(same)), skl.from_bytes(few.to_bytes())):
        with pytest.raises(ValueError, match=REFUSED):
            both + again
    with pytest.raises(ValueError, match=REFUSED):
        few + few.copy()
    with pytest.raises(ValueError, match=REFUSED):
        OPERATOR.sketch(X[:FEW_RECORDS]) + OPERATOR.sketch(X[:FEW_RECORDS])


def test_few_records_of_files_are_not_taken_for_others(tmp_path):
    for name in ("one", "two"):
        OPERATOR.sketch(X[:1]).save(tmp_path / f"{name}.sketch")
    with pytest.raises(ValueError, match=REFUSED):
        skl.merge([tmp_path / "one.sketch", tmp_path / "two.sketch"])


def test_many_sketches_of_few_rows_do_not_hide_that_all_came_twice():
    once, again = (skl.merge([OPERATOR.sketch(X[i : i + 5]) for i in range(0, len(X), 5)]) for _ in range(2))
    with pytest.raises(ValueError, match=r"they share 80 batches of rows, which would count twice"):
        once + again
    once += OPERATOR.sketch(X[:5])  # a row more, which is equal to another one
    assert once.batches.largest == 1


def test_empty_sketches_are_added_as_often_as_one_likes():
    nobody = OPERATOR.sketch(X[:0])
    assert nobody.batches.times == {}
    total = nobody + nobody + OPERATOR.sketch(X[:0]) + skl.Sketch(OPERATOR)
    assert total.to_bytes() == nobody.to_bytes()
    assert (total + OPERATOR.sketch(X)).to_bytes() == OPERATOR.sketch(X).to_bytes()


def test_two_classes_may_have_equal_records():
    """A single record each, of the same values: refusing would tell that."""
    classes = {"a": OPERATOR.sketch(X[:1]), "b": OPERATOR.sketch(X[:1]), "c": OPERATOR.sketch(X)}
    skl.privacy.select_classes(classes, epsilon=0.5, delta=1e-6)


def test_two_classes_without_units_are_released_like_others():
    """Nobody may learn from a refusal that there were none in both."""
    for _ in range(2):
        nobody = OPERATOR.sketch(X[:0], unit=np.array([], str), rows_per_unit=2)
        assert skl.privatize(nobody, epsilon=1.0).ledger.epsilon == 1.0


# What was forgotten leaves no trace


@pytest.mark.parametrize("name", NAMES)
def test_no_id_of_forgotten_rows_stays(name):
    """Of rows that were a batch of their own, and of rows that were not: neither bytes nor a pickle have their id."""
    operator = operators(9)[name]
    rows = np.random.default_rng(1).uniform(-1, 1, (12, 9))
    forgotten = operator.sketch(rows[8:])
    kept = operator.sketch(rows[:8])
    added = kept.copy().update(rows[8:])
    within = operator.sketch(rows)
    for sketch in (added, within):
        sketch.forget(rows[8:])
        assert sketch == kept
        for number in ids(forgotten):
            for form in written(number):
                assert form not in sketch.to_bytes()
                assert form not in sketch.content()
                assert form not in pickle.dumps(sketch)
    assert added.to_bytes() == kept.to_bytes()


def test_a_file_does_not_tell_which_batches_came_and_went():
    plain = OPERATOR.sketch(X).to_bytes()
    for guests in ([MORE], [MORE, X + 1, X[:1]], [X], [X[:50]]):
        sketch = OPERATOR.sketch(X)
        for rows in guests:
            sketch.update(rows)
        for rows in guests[::-1]:
            sketch.forget(rows)
        assert sketch.to_bytes() == plain


def test_two_equal_batches_that_came_and_went_leave_nothing():
    sketch = OPERATOR.sketch(X).update(MORE).update(MORE)
    sketch.forget(MORE)
    sketch.forget(MORE)
    assert sketch.to_bytes() == OPERATOR.sketch(X).to_bytes()


def test_subtracted_batches_are_gone():
    both = OPERATOR.sketch(X) + OPERATOR.sketch(MORE)
    assert (both - OPERATOR.sketch(MORE)).to_bytes() == OPERATOR.sketch(X).to_bytes()


def confirmed(sketch, guess):
    """Whether a file tells that a guessed row was forgotten: by an id of it, or by one of all before it went."""
    found, row = skl.from_bytes(sketch.to_bytes()), OPERATOR.sketch(guess)
    before = Batches.of_content(OPERATOR.identity, found.sums + row.sums, found.units + row.units)
    return bool(ids(found) & (ids(row) | before.times.keys()))


def test_a_guess_confirms_nothing_of_a_batch_that_was_forgotten():
    sketch = OPERATOR.sketch(X[:-1]).update(X[-1:])
    sketch.forget(X[-1:])
    assert not confirmed(sketch, X[-1:])


def test_a_guess_confirms_nothing_of_a_row_that_was_forgotten():
    """The rest is in the file: added to the guess, it has the id that the file still names if the guess is right."""
    sketch = OPERATOR.sketch(X)
    sketch.forget(X[-1:])
    assert not confirmed(sketch, MORE[-1:])
    assert not confirmed(sketch, X[-1:])


def test_a_guess_confirms_nothing_of_a_row_that_was_subtracted():
    less = OPERATOR.sketch(X) - OPERATOR.sketch(X[-1:])
    assert not confirmed(less, MORE[-1:])
    assert not confirmed(less, X[-1:])


def test_a_sketch_that_has_forgotten_all_is_as_a_new_one():
    sketch = OPERATOR.sketch(X)
    sketch.forget(X[:200])
    sketch.forget(X[200:])
    assert sketch == skl.Sketch(OPERATOR)
    assert sketch.to_bytes() == skl.Sketch(OPERATOR).to_bytes()


def test_a_named_batch_that_was_forgotten_leaves_nothing():
    sketch = OPERATOR.sketch(X, batch="monday")
    sketch.forget(X)
    assert sketch.to_bytes() == skl.Sketch(OPERATOR).to_bytes()


def test_what_is_left_of_a_batch_is_paid_for(tmp_path):
    """A release of all rows, one row forgotten, a file, another process: whatever a budget has booked counts."""
    budget = skl.privacy.Budget(tmp_path / "budget.sqlite", epsilon=10.0, by_batch=True)
    skl.privatize(OPERATOR.sketch(X), epsilon=1.0, budget=budget)
    less = OPERATOR.sketch(X).forget(X[-1:])
    with pytest.raises(ValueError, match=RELEASED_BEFORE):
        skl.privatize(less, epsilon=1.0)
    left = skl.from_bytes(less.to_bytes())
    with pytest.raises(ValueError, match=RELEASED_BEFORE):
        skl.privatize(left, epsilon=1.0)
    assert skl.privatize(OPERATOR.sketch(MORE), epsilon=1.0).ledger.epsilon == 1.0  # others pay nothing
    RELEASED.forget()
    skl.privatize(left, epsilon=1.0, budget=budget)
    assert budget.spent.epsilon == 2.0


def test_what_is_left_of_a_batch_is_not_added_to_the_whole_without_a_word(tmp_path):
    """Its file does not name the batch: a sketch that is large enough to hold all of it may be one that does."""
    OPERATOR.sketch(X).forget(X[-1:]).save(tmp_path / "left.sketch")
    OPERATOR.sketch(X).save(tmp_path / "whole.sketch")
    left, whole, few = skl.load(tmp_path / "left.sketch"), OPERATOR.sketch(X), OPERATOR.sketch(MORE[:300])
    for a, b in ((left, whole), (whole, left), (left, left.copy()), (left + few, whole)):
        with pytest.raises(ValueError, match=r"a part of a batch was forgotten|would count twice"):
            a + b
    assert (left + few).count == left.copy().update(MORE[:300]).count == 699
    assert left.merged(whole, overlapping=True).batches.largest == 2
    assert left.merged(OPERATOR.sketch(MORE), overlapping=False).batches.largest == 1
    for options, code in (([], 1), (["--disjoint"], 0)):
        done = command("merge", *options, "left.sketch", "whole.sketch", "-o", "sum.sketch", cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert ("--disjoint says that it does not, and --overlapping that it may" in done.stderr) == bool(code)


def test_all_less_the_others_is_known_as_a_part_of_all():
    """One record, by subtracting from all what is left without it: it was released with all."""
    whole = OPERATOR.sketch(X)
    skl.privatize(whole, epsilon=1.0)
    one = whole - (whole - OPERATOR.sketch(X[:1]))
    assert one == OPERATOR.sketch(X[:1])
    with pytest.raises(ValueError, match=RELEASED_BEFORE):
        skl.privatize(one, epsilon=1.0)


def test_a_sum_has_the_room_of_each_of_its_batches(tmp_path):
    """A batch that has spent its limit, beside one that has spent more of a larger limit."""
    path = tmp_path / "budget.sqlite"
    low, high = (skl.privacy.Budget(path, epsilon=limit, by_batch=True) for limit in (1.0, 10.0))
    one, other = OPERATOR.sketch(X), OPERATOR.sketch(MORE)
    skl.privatize(one, epsilon=1.0, budget=low)
    skl.privatize(other, epsilon=2.0, budget=high)
    with pytest.raises(ValueError, match="would spend more than the budget has"):
        skl.privatize(one + other, epsilon=1.0, budget=high)
    assert high.spent_on(one.batches).epsilon == 1.0


def test_limits_of_delta_stay_and_counts_are_limited(tmp_path):
    budget = skl.privacy.Budget(tmp_path / "budget.sqlite", epsilon=5.0, delta=0.0, by_batch=True)
    skl.privatize(OPERATOR.sketch(X), epsilon=1.0, budget=budget)
    with pytest.raises(ValueError, match="the budget has delta 0"):
        skl.privatize(OPERATOR.sketch(X), epsilon=1.0, delta=1e-3, budget=skl.privacy.Budget.open(budget.path))
    counts = skl.privacy.Budget(tmp_path / "counts.sqlite", epsilon=1.0, by_batch=True)
    skl.privacy.select_classes({"a": 1000, "b": 5}, epsilon=1.0, delta=1e-6, budget=counts)
    with pytest.raises(ValueError, match="would spend more than the budget has"):
        skl.privacy.select_classes({"a": 1000, "b": 5}, epsilon=1.0, delta=1e-6, budget=counts)


def test_a_difference_tells_of_what_was_subtracted(tmp_path):
    """Own rows less a batch that they never held: a release has the batch in it, with a minus."""
    batch, budget = OPERATOR.sketch(X), skl.privacy.Budget(tmp_path / "budget.sqlite", epsilon=1.0, by_batch=True)
    rng = np.random.default_rng(5)
    own = [OPERATOR.sketch(rng.normal(size=(1500, 2))) + OPERATOR.sketch(rng.normal(size=(10, 2))) for _ in range(3)]
    skl.privatize(own[0] - batch, epsilon=1.0, budget=budget)
    assert batch.released.epsilon == 1.0
    for less in (own[1] - batch, skl.from_bytes((own[2] - batch).to_bytes()), batch):
        with pytest.raises(ValueError, match="would spend more than the budget has"):
            skl.privatize(less, epsilon=1.0, budget=budget)


def test_equal_ledgers_may_be_of_two_releases():
    """One by another design, which the caller names, and one that this process knows."""
    other = skl.features.FourierFeatures(2, 20, law=skl.features.frequencies.Gaussian(1.0), columns=("x", "y"), seed=4)
    skl.privatize(OPERATOR.sketch(X), epsilon=1.0)
    named = skl.privatize(other.with_origin("declared").sketch(X), epsilon=1.0)
    assert skl.privatize(OPERATOR.sketch(X), epsilon=1.0, already=named).ledger.epsilon == 3.0


def test_a_batch_with_a_name_is_forgotten_by_it():
    week = OPERATOR.sketch(X, batch="monday") + OPERATOR.sketch(X, batch="tuesday")
    assert week.forget(X, batch="monday").to_bytes() == OPERATOR.sketch(X, batch="tuesday").to_bytes()


def test_features_and_bits_have_names_too():
    square = skl.features.FourierFeatures(2, 8, law=skl.features.frequencies.Gaussian(1.0), wave="square", seed=3)
    for operator, sketched in (
        (OPERATOR, lambda name: OPERATOR.sketch_features(OPERATOR.features(X), batch=name)),
        (square, lambda name: square.sketch_packed(square.pack(X), batch=name)),
    ):
        assert (sketched("monday") + sketched("tuesday")).count == 2 * len(X)
        with pytest.raises(ValueError, match=REFUSED):
            sketched("monday") + operator.sketch(X, batch="monday")


# Identities of operators


def every_operator():
    return [operator for d in (1, 2, 9) for operator in operators(d).values()]


@pytest.mark.parametrize("name", NAMES)
def test_equal_operators_have_equal_identities(name):
    operator = operators(9)[name]
    for other in (
        skl.extend.Operator.from_json(json.loads(json.dumps(operator.to_json()))),
        pickle.loads(pickle.dumps(operator)),
        copy.deepcopy(operator),
        operator.with_origin("declared"),
        operator.with_origin("sample"),
        operator.without_keeping(),
    ):
        assert other == operator
        assert other.identity == operator.identity


def test_different_operators_have_different_identities():
    """Every two of the table, for one, two and nine columns."""
    known = {}
    for operator in every_operator():
        assert known.setdefault(operator.identity, operator) == operator
    assert len(known) == len(set(map(repr, known.values())))
    assert len(known) > 100


@pytest.mark.parametrize("name", NAMES)
def test_names_of_columns_are_part_of_an_identity(name):
    operator = copy.deepcopy(operators(9)[name])
    known = operator.identity
    named = operator.with_columns(tuple("abcdefghi"))
    assert named != operator
    assert named.identity != known
    assert named.identity == skl.extend.Operator.from_json(named.to_json()).identity


def test_identities_are_the_same_in_another_process(tmp_path):
    """Hashes of texts differ between processes: none is in an identity."""
    forms = [operator.to_json() for operator in every_operator()]
    (tmp_path / "forms.json").write_text(json.dumps(forms))
    program = """
import json, sys, sketchlearn as skl
for form in json.load(open(sys.argv[1])):
    print(skl.extend.Operator.from_json(form).identity)
"""
    found = elsewhere(program, tmp_path / "forms.json").split()
    assert found == [operator.identity for operator in every_operator()]


def test_the_same_sums_by_another_operator_are_another_batch():
    other = skl.features.FourierFeatures(2, 20, law=skl.features.frequencies.Gaussian(2.0), columns=("x", "y"), seed=3)
    assert other.n_sums == OPERATOR.n_sums
    numbers = OPERATOR.sketch(X)
    assert ids(skl.Sketch(other, numbers.sums, numbers.units)).isdisjoint(ids(numbers))


# A release tells no id of exact rows


@pytest.mark.parametrize("name", NAMES)
def test_no_id_of_exact_sums_is_in_a_release(name):
    """Not of the sketch, its batches or its parts: in bytes, pickles, copies, sums and parts of the release."""
    operator = clipping(operators(9)[name]).with_origin("declared")
    rows = np.random.default_rng(2).uniform(-1, 1, (60, 9))
    exact = operator.sketch(rows[:30]) + operator.sketch(rows[30:40]).update(rows[40:])
    known = ids(exact) | set(Batches.of_content(operator.identity, exact.sums, exact.units).times)
    for part in operator.side_by_side:
        known |= ids(part.sketch(rows)) if len(operator.side_by_side) > 1 else set()
    assert len(known) >= 4
    release = skl.privatize(exact, epsilon=1.0)
    second = skl.privatize(exact, epsilon=1.0, already=release)
    found = [
        release,
        second,
        release + second,
        release.copy(),
        pickle.loads(pickle.dumps(release)),
        *operator.leaves(release),
    ]
    found.append(skl.from_bytes(release.to_bytes()))
    for made in found:
        assert isinstance(made, skl.privacy.Release)
        assert known.isdisjoint(ids(made))
        everything = [
            made.to_bytes(),
            made.content(),
            pickle.dumps(made),
            repr(made).encode(),
            repr(made.__dict__).encode(),
        ]
        for number in known:
            for form in written(number):
                assert not any(form in bytes_ for bytes_ in everything)
    assert "batches" not in container.unpack(release.to_bytes())[1]


def test_releases_of_neighbours_hold_the_same_fields():
    """Rows kept beside the sums, weights and clipped rows of one and not of the other: nothing of it is noted."""
    states = []
    for rows in (X, X[:-1], np.vstack([X, [[1e9, 1e9]]])):
        release = skl.privatize(OPERATOR.sketch(rows), epsilon=1.0)
        assert (release.kept, release.skipped, release.clipped, release.heaviest, release.unit) == (
            None,
            (),
            0,
            1,
            None,
        )
        states.append(release.__getstate__().keys())
        assert len(ids(release)) == 1
    assert states[0] == states[1] == states[2] == {"operator", "sums", "units", "ledger"}
