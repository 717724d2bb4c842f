"""Private releases: what they say, what they leave out, how they compose, and what is refused."""

import copy
import json
import math
import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest
from cases import NAMES, clipping, operators
from designs import fourier_design
from hypothesis import given
from hypothesis import strategies as st

import sketchlearn as skl
from sketchlearn.core import containers as container
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.features.provenance import Origin
from sketchlearn.privacy import mechanisms
from sketchlearn.privacy.noise_plan import sensitivity, shares_of
from sketchlearn.privacy.release import privatize
from sketchlearn.sketch.ledger import Ledger, PartNoise
from sketchlearn.sketch.priority_sample import Keeping
from sketchlearn.sketch.sums import Release

ROWS = np.random.default_rng(0).standard_normal((3000, 2)) + 6 * (np.arange(3000)[:, None] % 2)
BOUNDS = ([-4, -4], [10, 10])
NOBODY_SAID = "it is not known whether the numbers of this [A-Za-z]+ were taken from the rows"
ALONE = skl.features.SecondMoments(2, bound=20.0, outside="clip")
ORIGINLESS = [
    ALONE,
    skl.features.concatenate([ALONE, skl.features.FourierFeatures(2, 4, law=Gaussian(1.0))]),
    skl.features.concatenate(
        [skl.features.concatenate([ALONE, skl.features.Histograms(2, edges=[(0, 1)] * 2)]), ALONE]
    ),
]


@pytest.fixture
def exact():
    return skl.design(bounds=BOUNDS, n_components=2).sketch(ROWS)


def test_a_release_says_what_it_spent(exact):
    private = privatize(exact, epsilon=1.0)
    ledger = private.ledger
    assert exact.ledger is None
    assert (ledger.epsilon, ledger.delta, ledger.neighbors) == (1.0, 0.0, "add-remove")
    assert (ledger.mechanism, ledger.design, ledger.composition) == ("discrete Laplace", "declared", "single")
    assert ledger.private
    assert [part.sensitivity for part in ledger.parts] == [sensitivity(part).l1 for part in exact.operator.parts]
    assert sum(part.sensitivity for part in ledger.parts) == sensitivity(exact.operator).l1
    for part, share in zip(ledger.parts, shares_of(exact.operator.parts), strict=True):
        assert part.scale == pytest.approx(part.sensitivity / (share * (1 - ledger.count_share)), rel=1e-4)
    assert ledger.sum_scale == max(part.scale for part in ledger.parts)
    assert ledger.count_scale == pytest.approx(1 / ledger.count_share, rel=1e-4)
    assert "epsilon 1 for adding or removing one record; discrete Laplace noise" in repr(private)
    assert "privacy" in private._repr_html_()
    assert "noisy 64-bit integers" in private._repr_html_()


def test_a_release_of_one_operator_says_what_it_spent():
    exact = fourier_design(bounds=BOUNDS, n_components=2).sketch(ROWS)
    ledger = privatize(exact, epsilon=1.0).ledger
    assert ledger.parts is None
    assert ledger.sensitivity == sensitivity(exact.operator).l1
    assert ledger.sum_scale == pytest.approx(ledger.sensitivity / (1 - ledger.count_share), rel=1e-4)
    assert ledger.count_scale == pytest.approx(1 / ledger.count_share, rel=1e-4)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("neighbors", ["add-remove", "replace"])
def test_noise_has_the_deviation_that_the_ledger_says(delta, neighbors):
    operator = skl.features.FourierFeatures(2, 2000, law=Gaussian(1.0)).with_origin("declared")
    exact = operator.sketch(ROWS)
    private = privatize(exact, epsilon=0.5, delta=delta, neighbors=neighbors)
    noise = (private.sums - exact.sums).astype(float)
    assert noise.var() == pytest.approx(private.ledger.sum_variance, rel=0.3)
    assert abs(noise.mean()) < 6 * math.sqrt(private.ledger.sum_variance / len(noise))
    assert abs(private.count - exact.count) < 40 * math.sqrt(private.ledger.count_variance)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_count_has_noise_of_its_own(delta):
    operator = skl.features.FourierFeatures(1, 1, law=Gaussian(1.0)).with_origin("declared")
    many = [skl.Sketch(operator, units=10**6).as_one_batch(f"{i}") for i in range(400)]
    releases = [privatize(sketch, epsilon=1.0, delta=delta) for sketch in many]
    noise = np.array([release.count - 10**6 for release in releases], float)
    assert noise.var() == pytest.approx(releases[0].ledger.count_variance, rel=0.7)
    assert abs(noise.mean()) < 6 * math.sqrt(releases[0].ledger.count_variance / len(noise))
    assert abs(np.corrcoef(noise, [release.sums[0] for release in releases])[0, 1]) < 0.3


def test_replacing_needs_twice_the_noise_and_gaussian_noise_is_smaller():
    operator = skl.features.FourierFeatures(2, 1000, law=Gaussian(1.0)).with_origin("declared")
    scale = {
        (n, delta): privatize(exact, epsilon=1.0, delta=delta, neighbors=n).ledger.sum_scale
        for n in ("add-remove", "replace")
        for delta in (0.0, 1e-6)
        for exact in [operator.sketch(ROWS, batch=f"{n} {delta}")]
    }
    assert scale["replace", 0.0] == pytest.approx(2 * scale["add-remove", 0.0], rel=1e-3)
    assert scale["add-remove", 1e-6] < scale["add-remove", 0.0] / 5


def test_every_part_of_a_concatenation_has_noise_of_its_own():
    operator = skl.features.concatenate(
        [
            skl.features.SecondMoments(2, bound=20.0, outside="clip"),
            skl.features.FourierFeatures(2, 40, law=Gaussian(1.0), wave="square"),
        ]
    ).with_origin("declared")
    private = privatize(operator.sketch(ROWS), epsilon=2.0)
    moments, square = operator.split(private)
    assert private.ledger.sum_variance == moments.ledger.sum_variance
    assert moments.ledger.sum_scale / square.ledger.sum_scale == pytest.approx(5 * 2**30 / 80, rel=1e-3)
    assert square.ledger.epsilon == moments.ledger.epsilon == 2.0
    assert np.std(square.sums - operator.split(operator.sketch(ROWS))[1].sums) < 1000
    merged = operator.split(private + private)[1].ledger
    assert (merged.sum_variance, merged.epsilon) == (2 * square.ledger.sum_variance, 4.0)
    assert skl.from_bytes(private.to_bytes()) == private


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_can_be_released(name):
    operator = clipping(operators(9)[name])
    exact = operator.sketch(np.random.default_rng(0).standard_normal((50, 9)))
    private = privatize(exact, epsilon=1.0, assume_public_design=True, seed_for_tests_not_private=0)
    assert private.operator == operator
    assert skl.from_bytes(private.to_bytes()) == private


def test_what_leaks_is_left_out():
    operator = skl.features.SecondMoments(2, bound=1.0, outside="clip").with_origin("declared")
    exact = operator.sketch(ROWS)
    assert exact.clipped > 0
    private = privatize(exact, epsilon=1.0)
    assert (private.skipped, private.clipped, private.bits) == ((), 0, 0)
    _, description = container.unpack(private.to_bytes())
    assert description.keys() == {"bits", "count", "digest", "format", "ledger", "operator", "software"}
    assert description["format"] == 2


def test_the_count_stays_positive():
    empty = skl.Sketch(skl.features.FourierFeatures(1, 1, law=Gaussian(1.0)).with_origin("declared"))
    counts = {privatize(empty, epsilon=0.1, seed_for_tests_not_private=seed).count for seed in range(20)}
    assert min(counts) == 1
    assert len(counts) > 3


def test_a_seed_is_only_for_tests(exact):
    a, b = (privatize(exact, epsilon=1.0, seed_for_tests_not_private=3) for _ in range(2))
    assert a == b
    assert not a.ledger.private
    assert "NOT private" in repr(a)
    assert not (a + privatize(exact, epsilon=1.0)).ledger.private


def test_two_releases_differ(exact):
    first = privatize(exact, epsilon=1.0)
    second = privatize(exact, epsilon=1.0, already=first)
    assert not np.array_equal(first.sums, second.sums)


# the misuse


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive number, not 0"),
        ({"epsilon": -1.0}, "epsilon must be a positive number, not -1.0"),
        ({"epsilon": math.nan}, "epsilon must be a positive number, not nan"),
        ({"epsilon": math.inf}, "epsilon must be a positive number, not inf"),
        ({"epsilon": "1"}, "epsilon must be a positive number, not '1'"),
        ({"epsilon": 1e-12}, "so small that its noise exceeds 64 bits"),
        ({"delta": 1.0}, "delta must be at least 0 and below 1, not 1.0"),
        ({"delta": -1e-9}, "delta must be at least 0 and below 1"),
        ({"delta": math.nan}, "delta must be a finite number"),
        ({"neighbors": "swap"}, "neighbors must be 'add-remove' or 'replace', not 'swap'"),
        ({"count_share": 0.0}, "count_share must be a number between 0 and 1"),
        ({"count_share": 1.0}, "count_share must be a number between 0 and 1"),
        ({"seed_for_tests_not_private": -1}, "seed_for_tests_not_private must be a whole number"),
    ],
)
def test_misuse_is_refused_in_one_sentence(exact, arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        privatize(exact, **{"epsilon": 1.0, **arguments})
    assert "\n" not in str(caught.value)
    assert exact.released is None


def test_what_cannot_be_released(exact):
    with pytest.raises(TypeError, match="expected a Sketch, not ndarray: sketch the rows first"):
        privatize(ROWS, epsilon=1.0)
    with pytest.raises(ValueError, match="the sketch is private already: release the exact one"):
        privatize(privatize(exact, epsilon=1.0), epsilon=1.0)
    with pytest.raises(ValueError, match="fractional weights, and the bounds are for rows of weight 1"):
        privatize(exact.operator.sketch(ROWS, sample_weight=np.full(len(ROWS), 0.5)), epsilon=1.0)
    heavy = exact.operator.sketch(ROWS[:2], sample_weight=[1, 3])
    for sketch in (heavy, heavy + exact, skl.from_bytes(heavy.to_bytes()), heavy.copy()):
        with pytest.raises(ValueError, match="rows of weight up to 3, and the bounds are for rows of weight 1"):
            privatize(sketch, epsilon=1.0)
    refusing = skl.features.concatenate([skl.features.SecondMoments(2, bound=20.0), exact.operator])
    with pytest.raises(ValueError, match="a SecondMoments that refuses rows outside its bound tells that there are"):
        privatize(refusing.sketch(ROWS), epsilon=1.0)


def test_designs_on_a_sample_must_be_called_public():
    operator = skl.design(ROWS, n_components=2)
    exact, other = (operator.sketch(ROWS, batch=name) for name in ("first", "second"))
    for sketch in (exact, skl.from_bytes(other.to_bytes())):
        with pytest.raises(ValueError, match="designed on a sample of rows, and reveals information about them"):
            privatize(sketch, epsilon=1.0)
        private = privatize(sketch, epsilon=1.0, assume_public_design=True)
        assert private.ledger.design == "assumed public"
        assert "the design is assumed to be public" in str(private.ledger)


@pytest.mark.parametrize("kind", [skl.features.FourierFeatures, skl.features.Histograms])
def test_designs_on_bounds_say_so_and_are_equal_to_others(kind):
    operator = skl.design(bounds=BOUNDS, n_components=2).part(kind)
    exact = operator.sketch(ROWS)
    assert operator.origin is Origin.DECLARED
    assert skl.extend.Operator.from_json(operator.to_json()).origin is Origin.DECLARED
    sampled, silent = operator.with_origin("sample"), replace(operator)
    assert sampled.to_json()["origin"] == "sample"
    assert {"origin", "declared"}.isdisjoint(silent.to_json())
    for other, message in ((sampled, "designed on a sample"), (silent, NOBODY_SAID)):
        assert other == operator
        assert hash(other) == hash(operator)
        assert other.sketch(ROWS, batch="more") + exact == operator.sketch(ROWS, batch="more") + exact
        with pytest.raises(ValueError, match="they share a batch of rows"):
            other.sketch(ROWS) + exact
        with pytest.raises(ValueError, match=message):
            privatize(other.sketch(ROWS), epsilon=1.0)


# where the numbers of an operator come from


@pytest.mark.parametrize("given", [{"sample": ROWS}, {"bounds": BOUNDS}])
def test_nobody_has_said_it_of_a_changed_operator(given):
    operator = skl.design(**given, task="moments")
    assert operator.origin is (Origin.SAMPLE if "sample" in given else Origin.DECLARED)
    changed = replace(operator, outside="clip")
    assert changed.origin is Origin.UNKNOWN
    with pytest.raises(ValueError, match=NOBODY_SAID) as caught:
        privatize(changed.sketch(ROWS), epsilon=1.0)
    assert "\n" not in str(caught.value)
    first, second = (o.sketch(ROWS, batch=o.origin.value) for o in (changed, changed.with_origin("declared")))
    assert privatize(first, epsilon=1.0, assume_public_design=True).ledger.design == "assumed public"
    assert privatize(second, epsilon=1.0).ledger.design == "declared"


@pytest.mark.parametrize("origin", Origin)
@pytest.mark.parametrize("operator", ORIGINLESS, ids=["alone", "parts", "parts of parts"])
def test_origins_travel(operator, origin, tmp_path):
    told = operator.with_origin(origin.value)
    assert told == operator
    assert (operator.origin, told.origin) == (Origin.UNKNOWN, origin)
    told.sketch(ROWS).save(tmp_path / "told.sketch")
    for other in (
        skl.extend.Operator.from_json(json.loads(json.dumps(told.to_json()))),
        pickle.loads(pickle.dumps(told)),
        copy.deepcopy(told),
        skl.load(tmp_path / "told.sketch").operator,
        told.sketch(ROWS).copy().operator,
        told.with_columns(("a", "b")),
        told.without_keeping(),
        told.with_origin(origin),
    ):
        assert other.origin is origin


@pytest.mark.parametrize("origin", Origin)
def test_keeping_rows_leaves_the_origin_as_it_is(origin):
    waves = skl.features.FourierFeatures(2, 4, law=Gaussian(1.0)).with_origin(origin)
    for operator in (waves, skl.features.concatenate([waves, ALONE.with_origin("declared")])):
        keeping = operator.with_keeping(Keeping(5, (0.0, 0.0), (1.0, 1.0)))
        assert keeping.keeping is not None
        assert keeping.origin is keeping.without_keeping().origin is origin
        assert keeping.sketch(ROWS).without_rows().operator.origin is origin
    sampled = skl.design(ROWS, n_components=2, rows=5)
    assert sampled.origin is sampled.without_keeping().origin is Origin.SAMPLE


def test_parts_of_a_sketch_have_the_origins_of_the_parts():
    operator = skl.features.concatenate([ALONE.with_origin("declared"), ALONE.with_origin("sample"), ALONE])
    found = [part.operator.origin for part in operator.split(operator.sketch(ROWS))]
    assert found == [Origin.DECLARED, Origin.SAMPLE, Origin.UNKNOWN]


@pytest.mark.parametrize("kind", [skl.features.FourierFeatures, skl.features.Histograms])
def test_old_files_say_that_they_are_declared(kind):
    form = skl.design(bounds=BOUNDS, n_components=2).part(kind).to_json()
    assert form.pop("origin") == "declared"
    assert skl.extend.Operator.from_json(form).origin is Origin.UNKNOWN
    assert skl.extend.Operator.from_json({**form, "declared": False}).origin is Origin.UNKNOWN
    old = skl.extend.Operator.from_json({**form, "declared": True})
    assert old.origin is Origin.DECLARED
    assert "declared" not in old.to_json()
    assert privatize(old.sketch(ROWS), epsilon=1.0).ledger.design == "declared"


@pytest.mark.parametrize("worse", ["sample", "unknown"])
@pytest.mark.parametrize("operator", ORIGINLESS, ids=["alone", "parts", "parts of parts"])
def test_sums_have_the_worse_origin(operator, worse):
    good, bad = (operator.with_origin(origin).sketch(ROWS, batch=origin) for origin in ("declared", worse))
    more = good.operator.sketch(ROWS, batch="more")
    grown, shrunk = good.copy(), good + more
    grown += bad
    shrunk -= bad
    for found in (
        *(good + bad, bad + good, skl.merge([good, bad]), skl.merge([bad, good]), good.merged(bad), bad.merged(good)),
        *(grown, shrunk, sum([good, bad])),
    ):
        assert found.operator.origin is Origin(worse)
        with pytest.raises(ValueError, match="designed on a sample" if worse == "sample" else NOBODY_SAID):
            privatize(found, epsilon=1.0)
    assert (good + more).operator.origin is good.operator.origin is Origin.DECLARED


@pytest.mark.parametrize("worse", ["sample", "unknown"])
def test_sums_with_empty_sketches_have_the_worse_origin(worse):
    good, empty = ALONE.with_origin("declared").sketch(ROWS), skl.Sketch(ALONE.with_origin(worse))
    for found in (good + empty, good - empty, empty + good, empty.merged(good), skl.merge([empty, good])):
        assert found.operator.origin is Origin(worse)


def test_private_sums_have_the_worse_origin():
    releases = [
        privatize(ALONE.with_origin(origin).sketch(ROWS, batch=origin), epsilon=1.0, assume_public_design=True)
        for origin in ("declared", "sample")
    ]
    for a, b in (releases, releases[::-1]):
        assert (a + b).operator.origin is skl.merge([a, b], overlapping=False).operator.origin is Origin.SAMPLE
        assert (a + b).ledger.design == "assumed public"


@given(st.lists(st.sampled_from(Origin), min_size=1, max_size=4))
def test_concatenated_operators_have_the_worst_origin(origins):
    worst = max(origins, key=list(Origin).index)
    parts = [ALONE.with_origin(origin) for origin in origins]
    assert skl.features.concatenate(parts).origin is worst
    assert skl.features.concatenate([skl.features.concatenate(parts), ALONE.with_origin("declared")]).origin is worst
    assert skl.features.concatenate(parts).with_origin("declared").origin is Origin.DECLARED


@pytest.mark.parametrize("origin", ["public", "DECLARED", "", None, True, 1, ["declared"], np.array(["declared"] * 2)])
def test_wrong_origins_are_refused_in_a_sentence(origin):
    for operator in ORIGINLESS:
        with pytest.raises(ValueError, match="origin must be one of declared, sample, unknown, not ") as caught:
            operator.with_origin(origin)
        assert "\n" not in str(caught.value)


def test_private_sketches_do_not_change(exact):
    private = privatize(exact, epsilon=1.0)
    with pytest.raises(ValueError, match="a private sketch cannot take in records"):
        private.update(ROWS)
    with pytest.raises(ValueError, match="a private sketch cannot forget records"):
        private.forget(ROWS)
    for a, b in ((private, private), (private, exact), (exact, private)):
        with pytest.raises(ValueError, match="cannot subtract private sketches"):
            a - b
    for a, b in ((private, exact), (exact, private)):
        with pytest.raises(ValueError, match="cannot add a private sketch and an exact one"):
            a + b
        with pytest.raises(ValueError, match="cannot add a private sketch and an exact one"):
            skl.merge([a, b], overlapping=False)
    with pytest.raises(ValueError, match="one sketch is private and the other exact"):
        skl.two_sample_test(exact, private)


# composition


def test_a_second_release_must_be_paid(exact):
    first = privatize(exact, epsilon=1.0)
    grown = exact + exact.operator.sketch(ROWS[:5])
    for sketch in (exact, exact.copy(), grown, exact.copy().update(ROWS[:3]), pickle.loads(pickle.dumps(exact))):
        with pytest.raises(
            ValueError, match=r"were released before .* pass that release as already=, or a budget, so that both count"
        ):
            privatize(sketch, epsilon=0.5)
    less = replace(first.ledger, epsilon=0.9)
    with pytest.raises(ValueError, match="were released before"):
        privatize(exact, epsilon=0.5, already=less)
    with pytest.raises(TypeError, match="already must be the ledger of an earlier release"):
        privatize(exact, epsilon=0.5, already=exact)
    second = privatize(exact, epsilon=0.5, delta=1e-6, already=first).ledger
    assert (second.epsilon, second.delta, second.releases, second.composition) == (1.5, 1e-6, 2, "sequential")
    assert second.parts[0].variance < first.ledger.parts[0].variance  # its own noise, which is Gaussian
    with pytest.raises(ValueError, match="were released before"):
        privatize(exact, epsilon=0.5, already=first)
    assert privatize(exact, epsilon=0.25, already=second).ledger.epsilon == 1.75


def test_merging(exact):
    a = privatize(exact.operator.sketch(ROWS, batch="a"), epsilon=1.0)
    b = privatize(exact.operator.sketch(ROWS[:100]), epsilon=0.5, delta=1e-6)
    together, apart = a + b, skl.merge([a, b], overlapping=False)
    assert np.array_equal(together.sums, a.sums + b.sums)
    assert together.count == a.count + b.count
    assert np.array_equal(together.sums, apart.sums)
    assert (together.ledger.epsilon, together.ledger.delta) == (1.5, 1e-6)
    assert (apart.ledger.epsilon, apart.ledger.delta) == (1.0, 1e-6)
    assert (together.ledger.composition, apart.ledger.composition) == ("sequential", "parallel")
    assert together.ledger.mechanism == "discrete Laplace and discrete Gaussian"
    assert together.ledger.sum_variance == a.ledger.sum_variance + b.ledger.sum_variance
    assert skl.merge([a, b]) == together == sum([a, b])
    assert (apart + a).ledger.composition == "mixed"
    c = privatize(exact.operator.sketch(ROWS, batch="c"), epsilon=1.0, neighbors="replace")
    with pytest.raises(ValueError, match=r"different neighbors \(add-remove and replace\)"):
        a + c
    a += b
    assert a == together


def test_private_sums_cannot_overflow():
    operator = skl.features.FourierFeatures(1, 1, law=Gaussian(1.0)).with_origin("declared")
    ledger = privatize(operator.sketch([[0.0]]), epsilon=1.0).ledger
    full = Release(operator, [2**63 - 1, -(2**63)], 1, ledger)
    with pytest.raises(OverflowError, match="the noise is too large for 64 bits"):
        full + full


LEDGERS = st.builds(
    Ledger,
    mechanism=st.sampled_from(["discrete Laplace", "discrete Gaussian"]),
    epsilon=st.floats(1e-9, 1e3),
    delta=st.floats(0, 1),
    neighbors=st.just("add-remove"),
    sensitivity=st.integers(0, 2**62),
    sum_scale=st.floats(0, 1e15),
    count_scale=st.floats(0, 1e6),
    count_share=st.floats(0, 0.99),
    sum_variance=st.floats(0, 1e30),
    count_variance=st.floats(0, 1e12),
    private=st.booleans(),
    design=st.sampled_from(["declared", "assumed public"]),
    releases=st.integers(1, 1000),
    composition=st.sampled_from(["single", "parallel", "sequential", "mixed"]),
    parts=st.none() | st.just((PartNoise(5, 1.0, 2.0),)),
)


@given(LEDGERS, LEDGERS, st.booleans())
def test_ledgers_never_decrease(a, b, overlapping):
    merged = a.merged(b, overlapping=overlapping)
    for one in (a, b):
        assert merged.covers(one)
        assert merged.sum_variance >= one.sum_variance
        assert merged.count_variance >= one.count_variance
        assert merged.private <= one.private
        assert merged.sensitivity >= one.sensitivity
        assert (merged.design == "declared") <= (one.design == "declared")
    assert merged.releases == a.releases + b.releases
    if overlapping:
        assert merged.epsilon > max(a.epsilon, b.epsilon)
    assert merged == b.merged(a, overlapping=overlapping)
    assert b.after(a).covers(merged if overlapping else a)
    assert b.after(a).sum_variance == b.sum_variance


@given(LEDGERS)
def test_ledgers_travel(ledger):
    assert Ledger.from_json(json.loads(json.dumps(ledger.to_json()))) == ledger
    assert isinstance(str(ledger), str)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mechanism", "none"),
        ("epsilon", 0.0),
        ("epsilon", "1"),
        ("delta", 1.5),
        ("delta", None),
        ("neighbors", ["replace"]),
        ("sensitivity", 1.5),
        ("sum_variance", -1.0),
        ("private", 1),
        ("releases", 0),
        ("parts", [1]),
        ("extra", 1),
    ],
)
def test_forged_ledgers_are_refused(exact, field, value):
    private = privatize(exact, epsilon=1.0)
    _, description = container.unpack(private.to_bytes())
    del description["digest"]
    description["ledger"][field] = value
    with pytest.raises(skl.FormatError, match=r"not a sketch") as caught:
        skl.from_bytes(container.pack(private.sums, description))
    assert "\n" not in str(caught.value)


def test_forged_private_files_are_refused(exact):
    private = privatize(exact, epsilon=1.0)
    _, description = container.unpack(private.to_bytes())
    del description["digest"]
    for changes, message in (
        ({"skipped": ["a.csv"]}, "it is private, but has fields that releases do not have"),
        ({"clipped": 3}, "it is private, but has fields that releases do not have"),
        ({"count": "0"}, "a private sketch needs 0 bits, a count of at least 1"),
        ({"bits": 1}, "a private sketch has no fractional weights"),
        ({"format": 1}, "a format of 1 says that it is not private"),
    ):
        with pytest.raises(skl.FormatError, match=message):
            skl.from_bytes(container.pack(private.sums, {**description, **changes}))


# from a private sketch to a model


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_learning_leaves_epsilon_as_it_is(exact, tmp_path):
    private = privatize(exact, epsilon=20.0)
    private.save(tmp_path / "private.sketch")
    loaded = skl.load(tmp_path / "private.sketch")
    for sketch in (private, loaded, private.copy(), pickle.loads(pickle.dumps(private)), skl.merge([loaded])):
        assert sketch == private
        assert sketch.ledger == private.ledger
    for kind in (skl.SketchKMeans, skl.SketchKMedians, skl.SketchGaussianMixture, skl.SketchStableMixture):
        estimator = kind(2, random_state=0).fit_sketch(loaded)
        assert estimator.privacy_ == private.ledger
        assert estimator.sketch_ == private
        skl.save(estimator, tmp_path / "model.json")
        assert skl.load(tmp_path / "model.json").privacy_ == private.ledger
        with pytest.raises(ValueError, match="a model of a private release cannot take in records"):
            estimator.partial_fit(ROWS)
        assert estimator.fit_sketch(exact).privacy_ is None
        skl.save(estimator, tmp_path / "model.json")
        assert skl.load(tmp_path / "model.json").privacy_ is None
        assert b"privacy" not in (tmp_path / "model.json").read_bytes()


def test_clusters_are_found_in_a_private_sketch():
    rows = np.random.default_rng(1).standard_normal((50_000, 2)) + 8 * (np.arange(50_000)[:, None] % 2)
    exact = skl.design(bounds=([-5, -5], [13, 13]), n_components=2).sketch(rows)
    centers = skl.SketchKMeans(2, random_state=0).fit_sketch(privatize(exact, epsilon=1.0)).cluster_centers_
    assert np.abs(np.sort(centers[:, 0]) - [0, 8]).max() < 0.5


def test_equal_numbers_are_not_equal_sketches(exact):
    private = privatize(exact, epsilon=1.0)
    other = Release(exact.operator, exact.sums, exact.units, private.ledger)
    assert other != exact
    with pytest.raises(TypeError, match="exact sums have no ledger: privatize makes a release"):
        skl.Sketch(exact.operator, exact.sums, exact.units, ledger=private.ledger)


def test_a_missing_opendp_is_one_sentence(exact, monkeypatch):
    mechanisms.opendp.cache_clear()
    monkeypatch.setitem(sys.modules, "opendp.measurements", None)
    with pytest.raises(ImportError, match=r"this needs opendp.measurements: pip install 'sketchlearn\[privacy\]'"):
        privatize(exact, epsilon=1.0)
    monkeypatch.undo()
    mechanisms.opendp.cache_clear()
    assert exact.released is None


# what reviewers found


def test_parts_of_parts_are_looked_at():
    sampled = skl.design(ROWS, n_components=2)
    nested = skl.features.concatenate([skl.features.concatenate([sampled])])
    with pytest.raises(ValueError, match="designed on a sample of rows"):
        privatize(nested.sketch(ROWS), epsilon=1.0)
    refusing = skl.features.concatenate([skl.features.concatenate([skl.features.SecondMoments(2, bound=1e3)])])
    with pytest.raises(ValueError, match="that refuses rows outside its bound"):
        privatize(refusing.sketch(ROWS), epsilon=1.0)


def test_skipped_files_may_be_one_records_doing(exact):
    skipping = exact + skl.Sketch(exact.operator, skipped=["b.csv"])
    with pytest.raises(ValueError, match="one record may have been the reason"):
        privatize(skipping, epsilon=1.0)


def test_a_replaced_record_may_change_the_count(exact):
    dropped = ROWS.copy()
    dropped[0] = np.nan
    for rows in (ROWS, dropped):
        sketch = exact.operator.sketch(rows, nulls="drop")
        ledger = privatize(sketch, epsilon=1.0, neighbors="replace").ledger
        assert ledger.count_scale >= 1
        assert ledger.count_variance > 1


def test_marks_about_different_neighbors_add_up(exact):
    a, b = (exact.operator.sketch(rows) for rows in np.array_split(ROWS, 2))
    first = privatize(a, epsilon=1.0, neighbors="replace")
    privatize(b, epsilon=0.9)
    assert (a + b).released.epsilon == pytest.approx(2 * 0.9)  # a record is in one of them
    with pytest.raises(ValueError, match="were released before"):
        privatize(a + b, epsilon=0.1, neighbors="replace", already=first)


def test_copies_and_parts_share_the_memory_of_releases():
    operator = skl.features.concatenate([skl.features.FourierFeatures(2, 5, law=Gaussian(1.0)).with_origin("declared")])
    whole = operator.sketch(ROWS)
    copied, part = whole.copy(), operator.split(whole)[0]
    privatize(part, epsilon=1.0)
    for other in (whole, copied):
        with pytest.raises(ValueError, match="were released before"):
            privatize(other, epsilon=1.0)


def test_exact_and_private_are_not_compared(exact):
    private = privatize(exact, epsilon=1.0)
    with pytest.raises(ValueError, match="one sketch is private and the other exact"):
        private.distance(exact)


@pytest.mark.parametrize("budget", [(5e-324, 0.0), (1e-300, 1e-6), (1.7e308, 1e-6), (1.0, 5e-324)])
def test_budgets_beyond_numbers_are_refused_in_a_sentence(exact, budget):
    with pytest.raises(ValueError, match=r"epsilon .*: (use|ask for) "):
        privatize(exact, epsilon=budget[0], delta=budget[1])
