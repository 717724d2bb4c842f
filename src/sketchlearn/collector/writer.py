"""The writer: one thread that takes whatever has queued, commits it in one transaction, and then answers all of it.

A commit waits for the disk. While it waits, reports queue up; the next commit takes them all. So each is answered
after it is on disk, and the disk is asked a few dozen times a second, however many reports come.

Threads of Python take turns. Whatever this one does report by report, such as a statement of its own for each or
waking the event loop for each, would cost a turn of up to milliseconds; so reports are looked up, written and answered
by the group.
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


T = TypeVar("T")
MOST_IN_GROUP = 256  # Works of one transaction: a group of 256 reports of 16 kB takes a third of a second.
LONGEST_QUEUE = 4096  # Works that wait; what comes beyond is refused as "busy" rather than kept in memory.

_LOG = logging.getLogger("sketchlearn.collector")
Work = Callable[["Group"], Any]
Waiting = Future[Any] | asyncio.Future[Any]


class Group:
    """The works of one transaction. `finish` functions run once, at its end, before it is committed."""

    def __init__(self, transaction: Transaction, works: Sequence[Work] = ()) -> None:
        self.transaction, self.works = transaction, works
        self.finish: list[Callable[[], None]] = []
        self.shared: dict[Any, Any] = {}  # what works of one kind share within the group

    def finished(self) -> None:
        """Runs what is left to be done, so that the next statements see all of it."""
        pending, self.finish = self.finish, []
        for function in pending:
            function()


class Writer:
    """The only one that writes into the database."""

    def __init__(self, database: Database, forget: Callable[[], None], observe: Callable[[int], None]) -> None:
        self._database, self._forget, self._observe = database, forget, observe
        self._queue: queue.SimpleQueue[tuple[Work, Waiting] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="collector-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many works wait."""
        return self._queue.qsize()

    def submit(self, work: Callable[[Group], T]) -> Future[T]:
        """Queues work, which must check all it needs before it writes; the result comes when it is on disk."""
        future: Future[T] = Future()
        self.put(work, future)
        return future

    def put(self, work: Work, future: Waiting) -> None:
        """Queues work for a future, which may be of an event loop: that is woken once for all of a transaction."""
        if self._queue.qsize() >= LONGEST_QUEUE:
            raise RefusalError("busy", "the collector is busy: send it again in a moment", retry_after=2)
        self._queue.put((work, future))

    def do(self, work: Callable[[Transaction], T]) -> T:
        """Does work alone in the order of the queue, undone as a whole if it fails; waits until it is on disk."""

        def alone(group: Group) -> T:
            group.finished()
            with group.transaction.part():
                return work(group.transaction)

        return self.submit(alone).result()

    def close(self) -> None:
        """Does what has queued, and ends."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            taken = [self._queue.get()]
            while len(taken) < MOST_IN_GROUP:
                try:
                    taken.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            ended = None in taken
            # from here on nobody can call it off: a result for a future that was cancelled would end this thread
            works = [item for item in taken if item is not None and _is_wanted(item[1])]
            if works and not self._commit(works):
                # one of them failed in a way that nobody foresaw: each by itself, so that the others are done
                for item in works:
                    self._commit([item], last=True)

    def _commit(self, works: list[tuple[Work, Waiting]], *, last: bool = False) -> bool:
        outcomes: list[Any] = []
        try:
            with self._database.writing() as transaction:
                group = Group(transaction, [work for work, _ in works])
                for work, _ in works:
                    try:
                        outcomes.append(work(group))
                    except RefusalError as refusal:
                        outcomes.append(refusal)
                group.finished()
        except BaseException as error:
            self._forget()
            if not last and len(works) > 1:
                return False
            _LOG.error("a change of the database failed", exc_info=error)
            tell([(works[0][1], error)])
            return True
        self._observe(len(works))
        tell([(future, outcome) for (_, future), outcome in zip(works, outcomes, strict=True)])
        return True


def _is_wanted(future: Waiting) -> bool:
    """Whether a work is still waited for; one of an event loop is done in any case, as only the loop may ask it."""
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
