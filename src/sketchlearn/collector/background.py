"""Background maintenance: closes and compares epochs, deletes what is too old, forwards sums, sends alarms."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection

from sketchlearn.collector import webhooks
from sketchlearn.collector.drift import note_delivery, undelivered_alarms
from sketchlearn.collector.forwarding import forward
from sketchlearn.collector.metrics import Metrics
from sketchlearn.collector.secure_aggregation import open_epochs
from sketchlearn.collector.store import Store

_LOG = logging.getLogger("sketchlearn.collector")


class Housekeeper:
    """A thread that does the maintenance every few seconds. `webhook_hosts` may have addresses that are not public."""

    def __init__(
        self, store: Store, metrics: Metrics, seconds: float, webhook_hosts: Collection[str] = frozenset()
    ) -> None:
        self._store, self._metrics, self._seconds, self._webhook_hosts = store, metrics, seconds, webhook_hosts
        self._said: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="collector-housekeeping", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends, after what is under way; epochs that are still to be compared are left to the next start."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                problems = [*self._store.maintain(self._ended.is_set), *open_epochs(self._store), *forward(self._store)]
                for number, url, facts in undelivered_alarms(self._store):
                    note_delivery(self._store, number, delivered=webhooks.send(url, facts, self._webhook_hosts))
            except Exception as error:
                _LOG.error("background maintenance failed, and is tried again", exc_info=error)
                problems = ["background maintenance failed"]
            self._metrics.problems.set(len(problems))
            for problem in problems:
                if problem not in self._said:
                    _LOG.warning(problem)
            self._said = set(problems)
