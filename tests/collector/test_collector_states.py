"""Two collectors that differ in one record, and an adversary with a reader's token who asks anything, at random.

Both get the same reports, closings, revocations, changes of rules and releases, but for one record. All that the reader
gets must be equal to the byte; what goes into a release differs by one record at most; and ledgers agree. STEPS=100000
goes on until that many steps were made (`make audit` does so).
"""

import os
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")
pytest.importorskip("opendp")

from house import HOUR, NOON, House

import sketchlearn as skl
from sketchlearn.collector import releases
from sketchlearn.collector.page.collection_sections import RELEASED_SECTIONS, SECTIONS
from sketchlearn.collector.routes import ENDPOINTS
from sketchlearn.sketch.batches import RELEASED

BINS = skl.features.Histograms.even([0.0], [1.0], bins=4)
VICTIM = np.array([[0.9]])
READ = sorted({e.path for e in ENDPOINTS if e.method == "GET" and "{" not in e.path.replace("{collection}", "")})
PAGES = ("/", "/collections/c", *(f"/collections/c/sections/{name}" for name in {**SECTIONS, **RELEASED_SECTIONS}))
STEPS_PER_WORLD = 60


class Twins:
    """Two collectors, and what was done to both."""

    def __init__(self, folder, seed, monkeypatch):
        self.rng, self.number, self.victim_sent = random.Random(seed), 0, False
        self.houses, self.readers, self.tokens, self.exact = [], [], [], ([], [])
        for i in range(2):
            (Path(folder) / str(i)).mkdir()
            house = House(Path(folder) / str(i))
            house.collection(operator=BINS, private_reading=True, grace_seconds=0, sealed_only=True, min_records=20)
            self.houses.append(house)
            self.readers.append(house.token("read"))
            self.tokens.append({name: house.sender(name) for name in "ab"})
        draw = releases.privatize

        def noted(sketch, **options):
            self.exact[self.world].append(sketch)
            return draw(sketch, **options)

        monkeypatch.setattr(releases, "privatize", noted)

    def close(self):
        for house in self.houses:
            house.close()

    def both(self, act):
        """Does the same in both worlds."""
        found = []
        for world, house in enumerate(self.houses):
            RELEASED.forget()
            self.world = world
            found.append(act(house, world))
        return found

    def step(self):
        steps = (
            self.send,
            self.send,
            self.move,
            self.release,
            self.look,
            self.look,
            self.revoke,
            self.seal,
            self.rules,
        )
        self.rng.choice(steps)()

    def send(self):
        """A report; once, one of them has the victim's record in one of the worlds."""
        self.number += 1
        n, sender = self.rng.choice([1, 19, 20, 150]), self.rng.choice("ab")
        rows = np.array([[self.rng.random()] for _ in range(n)])
        with_victim = not self.victim_sent and self.rng.random() < 0.5
        self.victim_sent |= with_victim

        def act(house, world):
            own = np.concatenate([rows, VICTIM]) if with_victim and world else rows
            answer = house.send(self.tokens[world][sender], BINS.sketch(own, batch=f"{self.number}"), f"r{self.number}")
            return answer.status_code

        first, second = self.both(act)
        assert first == second

    def move(self):
        hours = self.rng.choice([1, 1, 2, 30])
        self.both(lambda house, _: (setattr(house, "now", house.now + hours * HOUR), house.store.maintain()))

    def seal(self):
        start = int(self.houses[0].now) // HOUR * HOUR - HOUR
        first, second = self.both(lambda house, _: house.ask("POST", f"/collections/c/epochs/{start}/seal").status_code)
        assert first == second

    def revoke(self):
        if self.rng.random() < 0.1:
            name, subtract = self.rng.choice("ab"), self.rng.random() < 0.5
            path = f"/collections/c/senders/{name}/revoke"
            self.both(lambda house, _: house.ask("POST", path, json={"subtract": subtract}))

    def rules(self):
        change = self.rng.choice([{"min_records": 1}, {"min_records": 100}, {"min_reports": 2}, {"sealed_only": True}])
        self.both(lambda house, _: house.ask("PATCH", "/collections/c", json={"rules": change}, status=200))

    def release(self):
        now = int(self.houses[0].now) // HOUR * HOUR
        start, hours = now - HOUR * self.rng.randint(0, 6), self.rng.randint(1, 4)
        form = {"from": str(start), "to": str(start + hours * HOUR), "epsilon": self.rng.choice([0.1, 1.0])}
        before = len(self.exact[0])
        answers = self.both(lambda house, _: house.ask("POST", "/collections/c/releases", json=form))
        assert answers[0].status_code == answers[1].status_code
        assert answers[0].json() == answers[1].json()  # ledger and times; sums are in a file of their own
        assert len(self.exact[0]) == len(self.exact[1])
        for a, b in zip(self.exact[0][before:], self.exact[1][before:], strict=True):
            assert np.abs(a.sums - b.sums).sum() <= skl.privacy.sensitivity(BINS).l1
            assert abs(a.units - b.units) <= 1
            assert a.batches.largest == b.batches.largest

    def look(self):
        """All that a reader may ask for, and some that it may not."""
        path = self.rng.choice((*READ, *PAGES))
        where = path.replace("{collection}", "c")
        query = self.rng.choice([{}, {"from": str(NOON), "to": str(NOON + 5 * HOUR)}])

        def act(house, world):
            if path in PAGES:
                return house.page(where, self.readers[world])
            bearer = {"Authorization": f"Bearer {self.readers[world]}"}
            return house.client.get(where, headers=bearer, params=query)

        a, b = self.both(act)
        assert a.status_code == b.status_code
        # sums and what is learned of them have noise; a key of each collector's own is random
        if not any(word in where for word in ("sketch", "clusters", "second-key")) and not where.endswith("/c"):
            assert a.text == b.text, where


def test_an_adversary_with_a_readers_token(monkeypatch):
    wanted, steps, seed = int(os.environ.get("STEPS", "0")) or 2 * STEPS_PER_WORLD, 0, int(os.environ.get("SEED", "0"))
    while steps < wanted:
        with tempfile.TemporaryDirectory() as folder, monkeypatch.context() as patch:
            twins = Twins(folder, seed, patch)
            try:
                for _ in range(STEPS_PER_WORLD):
                    twins.step()
                    steps += 1
            finally:
                twins.close()
        seed += 1
        print(f"{steps:,} steps")
