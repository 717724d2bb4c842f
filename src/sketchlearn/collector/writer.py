"""The writer: group commit by one thread, which writes all queued works in one transaction, and then answers them.

A commit waits for the disk. While it waits, reports queue up, and the next commit takes them all. So each report is
answered after it is on disk, with a few dozen commits a second for any number of reports.

Threads of Python share one lock. To wait for it costs up to milliseconds, for each statement and each call to the event
loop. So reports are looked up, written and answered by the group.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from sketchlearn.collector.database import Database, Transaction
from sketchlearn.collector.refusals import RefusalError

T = TypeVar("T")
MOST_IN_GROUP = 256  # Works of one transaction: a group of 256 reports of 16 kB takes a third of a second.
LONGEST_QUEUE = 4096  # Works that wait; further ones are refused as "busy", which bounds the memory.

_LOG = logging.getLogger("sketchlearn.collector")
Work = Callable[["Group"], Any]
Waiting = Future[Any] | asyncio.Future[Any]


class Turns:
    """A queue of works and its threads: one work of each key at a time, and the keys in turn."""

    def __init__(self, n_threads: int = 0) -> None:
        self._waiting: OrderedDict[Hashable, deque[Callable[[], Any]]] = OrderedDict()
        self._busy: set[Hashable] = set()
        self._changed = threading.Condition()
        self._ended = False
        self._threads = [threading.Thread(target=self.run, name="collector-parsing") for _ in range(n_threads)]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def put(self, key: Hashable, work: Callable[[], Any]) -> None:
        """Queues work, which must raise nothing."""
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
        """Does what has queued, and ends the threads."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()


class Group:
    """The works of one transaction."""

    def __init__(self, transaction: Transaction, works: Sequence[Work]) -> None:
        self.transaction, self.works = transaction, works
        self.reports: Any = None  # the reports among them (`ReportGroup`), which are looked up and written together

    def write_reports(self) -> None:
        """Writes the reports that were taken so far, so that the next statements see them."""
        if self.reports is not None:
            self.reports.write()


class Writer:
    """The thread that writes into the database; no other does."""

    def __init__(self, database: Database, forget: Callable[[], None], observe: Callable[[int], None]) -> None:
        self._database, self._forget, self._observe = database, forget, observe
        self.queue: queue.SimpleQueue[tuple[Work, Waiting] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="collector-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Group], T]) -> Future[T]:
        """Queues work, which must check everything before it writes; the result comes when it is on disk."""
        future: Future[T] = Future()
        self.put(work, future)
        return future

    def put(self, work: Work, future: Waiting) -> None:
        """Queues work for a future; an event loop is woken once for all of its futures in a transaction."""
        if self.queue.qsize() >= LONGEST_QUEUE:
            raise RefusalError("busy", "the collector is busy: send it again in a moment", retry_after=2)
        self.queue.put((work, future))

    def do(self, work: Callable[[Transaction], T]) -> T:
        """Does work, which is undone as a whole if it fails, and waits until it is on disk."""

        def alone(group: Group) -> T:
            group.write_reports()
            with group.transaction.part():
                return work(group.transaction)

        return self.submit(alone).result()

    def close(self) -> None:
        """Does what has queued, and ends."""
        self.queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            taken = [self.queue.get()]
            with suppress(queue.Empty):
                while len(taken) < MOST_IN_GROUP:
                    taken.append(self.queue.get_nowait())
            ended = None in taken
            # From here on, works cannot be cancelled: a result for a cancelled future would end this thread.
            if works := [item for item in taken if item is not None and _is_wanted(item[1])]:
                self._commit(works)

    def _commit(self, works: list[tuple[Work, Waiting]]) -> None:
        outcomes: list[Any] = []
        try:
            with self._database.writing() as transaction:
                group = Group(transaction, [work for work, _ in works])
                for work, _ in works:
                    try:
                        outcomes.append(work(group))
                    except RefusalError as refusal:
                        outcomes.append(refusal)
                group.write_reports()
        except BaseException as error:
            self._forget()
            if len(works) > 1:  # one of them has an unexpected error: each by itself, so that the others are done
                for item in works:
                    self._commit([item])
                return
            _LOG.error("a change of the database failed", exc_info=error)
            outcomes = [error]
        else:
            self._observe(len(works))
        tell([(future, outcome) for (_, future), outcome in zip(works, outcomes, strict=True)])


def _is_wanted(future: Waiting) -> bool:
    """Whether a work was not cancelled; works of an event loop are always done, since only the loop may ask."""
    return isinstance(future, asyncio.Future) or future.set_running_or_notify_cancel()


def tell(outcomes: list[tuple[Waiting, Any]]) -> None:
    """Gives each future its outcome, in any thread; an event loop is called once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Waiting, Any]]] = {}
    for future, outcome in outcomes:
        if isinstance(future, asyncio.Future):
            by_loop.setdefault(future.get_loop(), []).append((future, outcome))
        else:
            _settle([(future, outcome)])
    for loop, some in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            loop.call_soon_threadsafe(_settle, some)


def _settle(outcomes: list[tuple[Waiting, Any]]) -> None:
    for future, outcome in outcomes:
        if future.done():  # called off meanwhile
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
