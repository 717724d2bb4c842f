"""A simulated fleet for `sketchlearn serve --demo`: machines that report every hour, and one kind that begins to fail.

An hour takes a few seconds. Everything else is as in reality: sketches of readings are reported, epochs are closed and
compared, and a change raises an alarm.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.collector.collection import Collection
from sketchlearn.collector.refusals import RefusalError
from sketchlearn.collector.senders import add_senders
from sketchlearn.collector.store import Store

NAME, TITLE = "machines", "Machines of a simulated fleet"
DESIGN = Path(__file__).with_name("demonstration_design.json")
COLUMNS = ("temperature", "humidity", "vibration", "voltage")
CENTERS = np.array([[20.0, 45.0, 0.6, 3.1], [24.0, 62.0, 0.8, 3.0], [35.0, 30.0, 1.5, 2.9], [28.0, 50.0, 1.9, 2.6]])
SPREADS = np.array([1.2, 3.0, 0.12, 0.06])
PROPORTIONS = np.array([0.4, 0.3, 0.2, 0.1])
MOVING, MOVES_BY = 2, np.array([5.0, 0.0, 0.6, -0.1])  # the third kind of machine grows hot and shakes
MACHINES, READINGS = 24, 60  # readings that each machine reports in an hour
HOURS_BEFORE = 15  # that were reported before the page is opened
HOUR = 3600
MOVES_AFTER, MOVES_FOR = 3, 4  # hours since then
SILENT = 3  # machines that fall silent when the kind begins to fail
RULES = {
    "epoch": "hour", "grace_seconds": 60, "silent_seconds": 3 * HOUR, "min_records": 100, "min_reports": 5,
    "reports_per_minute": 100_000, "body_days": 1,
}  # fmt: skip


def readings(rng: np.random.Generator, n: int, moved: float) -> NDArray[np.float64]:
    """Readings at n times; `moved`, from 0 to 1, says how far the failing kind has moved."""
    centers = CENTERS.copy()
    centers[MOVING] += moved * MOVES_BY
    return centers[rng.choice(len(PROPORTIONS), n, p=PROPORTIONS)] + SPREADS * rng.standard_normal((n, len(COLUMNS)))


class FastClock:
    """A clock whose hours take a few seconds once it has started. Before, it stands still at `at`."""

    def __init__(self, start: float, seconds_per_hour: float) -> None:
        self.at, self._speed = start, HOUR / seconds_per_hour
        self._began: float | None = None

    def __call__(self) -> float:
        """Seconds since 1970, in the time of the fleet."""
        if self._began is None:
            return self.at
        return self.at + (time.monotonic() - self._began) * self._speed

    def start(self) -> None:
        self._began = time.monotonic()


@dataclass
class SimulatedFleet:
    """Machines that report to a store, in a thread."""

    store: Store
    clock: FastClock
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> Collection:
        """Creates the collection, and begins to report."""
        names = [f"machine-{i:02d}" for i in range(MACHINES)]
        collection = self.store.create_collection("demo", NAME, TITLE, DESIGN.read_bytes(), RULES)
        self.store.write("demo", add_senders, collection, names, None)
        self._thread = threading.Thread(target=self._run, args=(collection,), name="simulated-fleet", daemon=True)
        self._thread.start()
        return collection

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, collection: Collection) -> None:
        rng = np.random.default_rng(0)
        first = self.clock()
        for hour in range(HOURS_BEFORE):
            for machine in range(MACHINES):
                if self._ended.is_set():
                    return
                self.clock.at = first + HOUR * (hour + (machine + 0.5) / MACHINES)
                self._report(collection, rng, machine, 0.0)
            self.clock.at = first + HOUR * (hour + 1)
        self.clock.start()
        number = 0
        while not self._ended.is_set():
            due = first + HOUR * (HOURS_BEFORE + number / MACHINES)
            if self.clock() < due:
                self._ended.wait(0.02)
                continue
            since = number / MACHINES - MOVES_AFTER
            machine = number % MACHINES
            if not (since > 0 and machine < SILENT):
                self._report(collection, rng, machine, min(1.0, max(0.0, since / MOVES_FOR)))
            if machine == MACHINES - 1:
                self._report(collection, rng, machine, 0.0, damaged=True)
            number += 1

    def _report(
        self, collection: Collection, rng: np.random.Generator, machine: int, moved: float, *, damaged: bool = False
    ) -> None:
        operator: Any = collection.known.operator
        rows = readings(rng, READINGS, moved)
        body, sender = operator.sketch(rows).to_bytes(), machine + 1
        body = body[: len(body) // 2] if damaged else body
        number = f"{int(self.clock() * 1000)}-{rng.integers(10**9)}"
        try:
            answer = self.store.submit_report(collection, sender, number, body, None).result()
        except RefusalError as refusal:
            self.store.note_refusal(collection, sender, refusal)
        else:
            self.store.changed(collection.name, "report", records=answer["records"])
