"""Sketches, files, sums and releases at random, against a plain list of who was counted and released how often.

STEPS=100000 goes on until that many steps were made (`make audit` does so).
"""

import copy
import math
import os
import pickle
import tempfile
import threading
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.sketch import batches
from sketchlearn.sketch.ledger import GAUSSIAN, smallest_epsilon
from sketchlearn.sketch.priority_sample import Keeping

STEPS_PER_EXAMPLE = 30
KEEPING = Keeping(4, (0.0, 0.0), (0.3, 0.3))
SIGNS = (
    skl.features.FourierFeatures(2, 1, law=Gaussian(1.0), wave="square").with_keeping(KEEPING).with_origin("declared")
)
OPERATOR = skl.features.concatenate([SIGNS, skl.features.Histograms.even([-5, -5], [5, 5], bins=2)])
PEOPLE = np.random.default_rng(0).uniform(-5, 5, (4, 2))
INTEGERS = np.array([OPERATOR.sketch(row[None]).sums for row in PEOPLE])
TOLERANCE = 1 + 1e-9
MOSTLY = st.sampled_from([True, True, True, False])


@dataclass
class Item:
    """A sketch beside the truth: how often it counts each person, and each batch of rows that was read."""

    sketch: skl.Sketch
    people: Counter
    seen: Counter  # batch, person
    columns: tuple[int, int] = (0, OPERATOR.n_sums)

    def combined(self, other, sign, sketch):
        people, seen = Counter(self.people), Counter(self.seen)
        for key, n in other.people.items():
            people[key] += sign * n
        partial = sign < 0 and other.sketch is not None and other.sketch.batches.partial
        for key, n in ({} if partial else other.seen).items():  # of a part, it is not known what is left
            if sign > 0 or seen[key] > 0:
                seen[key] = max(0, seen[key] - n) if sign < 0 else seen[key] + n
        if not (sketch.units or sketch.sums.any()):  # of nobody, nothing is known: whoever comes back is read anew
            return Item(sketch, Counter(), Counter(), self.columns)
        return Item(sketch, kept(people), kept(seen), self.columns)

    def like(self, sketch):
        return Item(sketch, self.people, self.seen, self.columns)

    @property
    def complete(self):
        """Whether it knows all its batches."""
        return self.sketch.batches.below == 1 << 64


@dataclass
class Release:
    """What one record of weight 1 has lost by a release, as epsilon or as a ratio mu, and who was in it."""

    epsilon: float
    mu: float
    people: Counter
    seen: Counter
    ledger: skl.privacy.Ledger
    budget: skl.privacy.Budget | None
    complete: bool


def seen_in(sketch, people):
    """A batch is known by its content, whoever reads it."""
    return Counter({((sketch.units, sketch.sums.tobytes()), person): n for person, n in people.items()})


def kept(counter):
    return Counter({key: n for key, n in counter.items() if n})


def loss(operator, ledger):
    """Of one record that counts once, by the scales that the noise has."""
    parts = [skl.privacy.sensitivity(part, ledger.neighbors) for part in operator.side_by_side]
    scales = [part.scale for part in ledger.parts] if ledger.parts else [ledger.sum_scale]
    if ledger.mechanism == GAUSSIAN:
        squares = [part.l2_squared / scale**2 for part, scale in zip(parts, scales, strict=True)]
        return 0.0, math.sqrt(sum(squares) + 1 / ledger.count_scale**2)
    return sum(part.l1 / scale for part, scale in zip(parts, scales, strict=True)) + 1 / ledger.count_scale, 0.0


def lost(releases, person, delta):
    """What all of these releases together tell about a person: the smallest epsilon at this delta."""
    epsilon = math.fsum(abs(r.people[person]) * r.epsilon for r in releases)
    mu = math.sqrt(math.fsum((r.people[person] * r.mu) ** 2 for r in releases))
    return epsilon + (smallest_epsilon(mu, delta) if mu else 0.0)


class Adversary(RuleBasedStateMachine):
    items = Bundle("items")
    steps = 0

    @initialize(limit=st.sampled_from([4096, 4096, 3]))
    def start(self, limit):
        self.folder, self.releases, self.all = tempfile.TemporaryDirectory(), [], []
        self.limit, batches.MOST_IDENTITIES = batches.MOST_IDENTITIES, limit
        batches.RELEASED.forget()
        free, tight = (Path(self.folder.name) / name for name in ("free", "tight"))
        self.budgets = [None, skl.privacy.Budget(free), skl.privacy.Budget(tight, epsilon=4.0, delta=1e-5)]

    def teardown(self):
        batches.MOST_IDENTITIES = self.limit
        batches.RELEASED.forget()
        self.folder.cleanup()

    def new(self, item):
        self.all = [*self.all[-19:], item]
        return item

    # Rows

    @rule(target=items, people=st.sets(st.integers(0, len(PEOPLE) - 1), min_size=1, max_size=3))
    def read(self, people):
        """Rows of some people; those of another batch may be among them, which nobody knows but the caller."""
        who = sorted(people)
        sketch = OPERATOR.sketch(PEOPLE[who])
        return self.new(Item(sketch, Counter(who), seen_in(sketch, Counter(who))))

    @rule(target=items, item=items, people=st.sets(st.integers(0, len(PEOPLE) - 1), min_size=1, max_size=2))
    def forget(self, item, people):
        who = sorted(people)
        if item.columns != (0, OPERATOR.n_sums) or any(item.people[person] < 0 for person in who):
            return self.new(item)
        sketch = item.sketch.copy()
        try:
            sketch.forget(PEOPLE[who])
        except ValueError:
            assert same(sketch, item.sketch)
            return self.new(item)
        # rows of no known batch leave no trace; a batch of just these rows is taken out
        gone = Counter()
        if sketch.batches.times != item.sketch.batches.times:
            gone = seen_in(OPERATOR.sketch(PEOPLE[who]), Counter(who))
        return self.new(item.combined(Item(None, Counter(who), gone), -1, sketch))

    # The same records in another form

    @rule(target=items, item=items, way=st.sampled_from(["copy", "shallow", "deep", "pickle", "bytes", "file", "rows"]))
    def again(self, item, way):
        sketch = item.sketch
        if way == "file":
            sketch.save(Path(self.folder.name) / "sketch")
        ways = {
            "copy": sketch.copy,
            "shallow": lambda: copy.copy(sketch),
            "deep": lambda: copy.deepcopy(sketch),
            "pickle": lambda: pickle.loads(pickle.dumps(sketch)),
            "bytes": lambda: skl.from_bytes(sketch.to_bytes()),
            "file": lambda: skl.load(Path(self.folder.name) / "sketch"),
            "rows": sketch.without_rows,
        }
        made = ways[way]()
        by_file, own, found = way in ("bytes", "file"), sketch.batches, made.batches
        if by_file and own.partial and len(own.times) == 1:  # what is left of a batch
            assert found.times == batches.Batches.of_content(made.operator.identity, made.sums, made.units).times
            assert (found.unnamed > 0, found.most) == (True, own.largest)
        elif own.partial:
            assert (found.times, found.equal, found.below) == (own.times, own.equal, own.below)
            assert (found.partial, found.most) == (True, own.most)
            assert found.unnamed >= own.unnamed
            assert found.unnamed or not by_file
        else:
            assert found == own
        return self.new(item.like(made))

    @rule(target=items, item=items)
    def without_identities(self, item):
        """Another batch for all that anybody can tell, but by its content; records that counted twice are heavy."""
        made = skl.from_bytes(item.sketch.content())
        assert made.heaviest == item.sketch.heaviest * item.sketch.batches.largest
        return self.new(Item(made, item.people, seen_in(made, item.people), item.columns))

    @rule(target=items, item=items, which=st.integers(0, 1))
    def part(self, item, which):
        leaves = item.sketch.operator.leaves(item.sketch)
        if len(leaves) == 1:
            return self.new(item)
        ends = [0, SIGNS.n_sums, OPERATOR.n_sums]
        return self.new(Item(leaves[which], item.people, item.seen, (ends[which], ends[which + 1])))

    # Sums

    @rule(target=items, a=items, b=items, how=st.sampled_from(["+", "+=", "merge", "sum"]), tell=MOSTLY)
    def add(self, a, b, how, tell):
        """Without a word, if the caller knows of no overlap; otherwise it is said, or the sum is not made."""
        if a.columns != b.columns:
            return self.new(a)
        overlap = any(a.people[person] * n > 0 for person, n in b.people.items())
        # somebody who was forgotten from one batch, and is in another, is in both as far as releases go
        overlap |= any(one[1] == other[1] and one[0] != other[0] for one in a.seen for other in b.seen)
        known = any(a.seen[key] * n > 0 for key, n in b.seen.items())
        before, own = a.sketch.copy(), a.sketch.copy()
        ways = {
            "+": lambda: own + b.sketch,
            "+=": lambda: own.__iadd__(b.sketch),
            "merge": lambda: skl.merge([own, b.sketch]),
            "sum": lambda: sum([own, b.sketch]),
        }
        try:
            made = ways[how]()
        except ValueError:
            assert overlap or known or a.sketch.batches.unnamed or b.sketch.batches.unnamed
            assert same(own, before)
            made = None
        # few records that were read by two calls may be equal by chance
        apart = a.sketch.batches.read_apart(b.sketch.batches) or 0 in (a.sketch.units, b.sketch.units)
        assert made is None or apart or not (known and a.complete and b.complete)
        if overlap:
            if not tell:
                return self.new(a)
            made = before.merged(b.sketch, overlapping=True)
        return self.new(a.combined(b, 1, made)) if made is not None else self.new(a)

    @rule(target=items, item=items, anew=st.booleans(), released=st.booleans())
    def add_again(self, item, anew, released):
        """The same people once more, of the same sketch or of rows that were read again, and somebody says so."""
        other = item
        if anew and item.columns == (0, OPERATOR.n_sums):
            other = self.read({person for person, n in item.people.items() if n > 0})
        if released:
            self.release_freely(other, 0.0, "nothing")
        made = item.sketch.merged(other.sketch, overlapping=True)
        return self.new(item.combined(other, 1, made))

    @rule(target=items, a=items, b=items, in_place=st.booleans())
    def subtract(self, a, b, in_place):
        hidden = any(a.people[person] * n < 0 for person, n in b.people.items())
        if a.columns != b.columns or (hidden and not a.sketch.batches.shared(b.sketch.batches, -1)):
            return self.new(a)
        own = a.sketch.copy()
        try:
            made = own.__isub__(b.sketch) if in_place else own - b.sketch
        except ValueError:
            assert same(own, a.sketch)
            return self.new(a)
        return self.new(a.combined(b, -1, made))

    # Releases

    @rule(item=items, delta=st.sampled_from([0.0, 1e-4]), already=st.sampled_from(["nothing", "all"]))
    def release_freely(self, item, delta, already):
        """Most releases are of the plain kind."""
        self.release(item, 1.0, delta, "add-remove", 1, already, 0)

    @rule(
        item=items,
        epsilon=st.sampled_from([0.25, 1.0]),
        delta=st.sampled_from([0.0, 1e-6, 1e-4]),
        neighbors=st.sampled_from(["add-remove"] * 4 + ["replace"]),
        budget=st.integers(0, 2),
        already=st.sampled_from(["nothing", "all", "last", "any"]),
        choice=st.integers(0, 100),
    )
    def release(self, item, epsilon, delta, neighbors, budget, already, choice):
        told = [r for r in self.releases if any(person in r.people for person in item.people)]
        earlier = None
        if already == "all":
            for one in told:
                earlier = one.ledger if earlier is None else self.merged(earlier, one.ledger)
        elif already != "nothing" and self.releases:
            earlier = self.releases[-1 if already == "last" else choice % len(self.releases)].ledger
        options = {"epsilon": epsilon, "delta": delta, "neighbors": neighbors, "already": earlier}
        books = self.budgets[budget]
        private = self.released(item, books, options)
        if private is not None:
            self.check(item, private, told if already == "all" else [])

    @rule(item=items, budget=st.integers(0, 2))
    def release_in_threads(self, item, budget):
        """One of them at most, without a budget: all others are refused."""
        before, made = len(self.releases), []

        def one():
            made.append(self.released(item, self.budgets[budget], {"epsilon": 0.25}))

        threads = [threading.Thread(target=one) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(self.releases) - before <= (3 if budget or not item.people else 1)

    def released(self, item, books, options):
        before = item.sketch.released, None if books is None else len(books.log()), item.sketch.copy()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                private = skl.privatize(item.sketch, **options, budget=books)
        except ValueError:
            if threading.current_thread() is threading.main_thread():
                assert (item.sketch.released, None if books is None else len(books.log())) == before[:2]
            assert same(item.sketch, before[2])
            return None
        single = loss(private.operator, private.ledger)
        complete = item.complete
        self.releases.append(Release(*single, item.people, item.seen, private.ledger, books, complete))
        return private

    @staticmethod
    def merged(a, b):
        if a.neighbors != b.neighbors:
            a, b = a.about_replacing(), b.about_replacing()
        return a.merged(b, overlapping=True)

    def check(self, item, private, told):
        """The ledger admits to what this release and those that could be known have told about each record."""
        ledger, new = private.ledger, self.releases[-1]
        earlier = [r for r in self.releases if r is not new]
        for person in item.people:
            own = {key for key in item.seen if key[1] == person}
            known = [r for r in earlier if r in told or own & r.seen.keys()]
            alike = [r for r in known if r.ledger.neighbors == ledger.neighbors]
            assert lost([*alike, new], person, ledger.delta) <= ledger.epsilon * TOLERANCE

    @invariant()
    def sums_are_exact(self):
        Adversary.steps += 1
        for item in self.all[-1:]:
            expected = np.zeros(OPERATOR.n_sums, np.int64)
            for person, n in item.people.items():
                expected += n * INTEGERS[person]
            assert np.array_equal(item.sketch.sums, expected[slice(*item.columns)])
            assert item.sketch.units == sum(item.people.values())
            often = max(map(abs, item.people.values()), default=1)
            assert often <= item.sketch.batches.largest * item.sketch.heaviest

    @invariant()
    def budgets_are_kept(self):
        for budget in getattr(self, "budgets", [None])[1:]:
            booked, spent = [r for r in self.releases if r.budget is budget], budget.spent
            assert spent.releases == len(booked)
            for person in range(len(PEOPLE)):
                assert lost(booked, person, spent.delta) <= spent.epsilon * TOLERANCE
            assert budget.epsilon is None or spent.epsilon <= budget.epsilon * TOLERANCE


def same(a, b):
    return a == b and a.batches == b.batches and (a.skipped, a.heaviest) == (b.skipped, b.heaviest)


def test_an_adversary_at_random():
    wanted = int(os.environ.get("STEPS", "0"))
    Adversary.steps = 0
    if not wanted:
        fast = settings(max_examples=30, stateful_step_count=STEPS_PER_EXAMPLE, derandomize=True, deadline=None)
        return run_state_machine_as_test(Adversary, settings=fast)
    phases = [Phase.explicit, Phase.generate]  # shrinking takes many minutes
    many = settings(max_examples=200, stateful_step_count=50, phases=phases, derandomize=False, database=None)
    while Adversary.steps < wanted:
        run_state_machine_as_test(Adversary, settings=many)
        print(f"{Adversary.steps:,} steps")
    return None
