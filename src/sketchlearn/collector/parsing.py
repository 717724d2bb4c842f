"""Threads that read the bodies of reports, so that the event loop never does; senders take turns.

A report that names the collection's own design is read in time proportional to its length. Any other may take much
longer, until it is clear that its design is another one, or the same in other words; those have a thread to themselves.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Any

THREADS = 2  # for reports of the collection's own design: one cannot read on while another takes its turn of Python


class Turns:
    """A queue from which threads take: of each key one work at a time, and the keys in turn."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[Callable[[], Any]]] = OrderedDict()
        self._busy: set[Hashable] = set()
        self._changed = threading.Condition()
        self._ended = False

    def put(self, key: Hashable, work: Callable[[], Any]) -> None:
        """Queues work."""
        with self._changed:
            self._waiting.setdefault(key, deque()).append(work)
            self._changed.notify()

    def run(self) -> None:
        """Does work, until `end`; for threads."""
        while (taken := self._take()) is not None:
            key, work = taken
            try:
                work()
            finally:
                with self._changed:
                    self._busy.discard(key)
                    self._changed.notify()

    def _take(self) -> tuple[Hashable, Callable[[], Any]] | None:
        with self._changed:
            while (key := next((key for key in self._waiting if key not in self._busy), None)) is None:
                if self._ended and not self._waiting:
                    self._changed.notify_all()
                    return None
                self._changed.wait()
            queue = self._waiting.pop(key)
            work = queue.popleft()
            if queue:
                self._waiting[key] = queue  # behind all others
            self._busy.add(key)
            return key, work

    def end(self) -> None:
        """Ends all threads after what has queued."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class Parsers:
    """The threads: some for reports that name the collection's design letter by letter, one for all others."""

    def __init__(self) -> None:
        self._own, self._other = Turns(), Turns()
        self._threads = [
            threading.Thread(target=turns.run, name="collector-parsing", daemon=True)
            for turns in (*[self._own] * THREADS, self._other)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, sender: int, work: Callable[[], Any], *, own_design: bool) -> None:
        """Queues work, which must raise nothing."""
        (self._own if own_design else self._other).put(sender, work)

    def close(self) -> None:
        """Reads what has queued, and ends."""
        self._own.end()
        self._other.end()
        for thread in self._threads:
            thread.join()
