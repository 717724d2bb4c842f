"""The writer: one thread that takes whatever has queued, commits it in one transaction, and then answers all of it.

A commit waits for the disk. While it waits, reports queue up; the next commit takes them all. So each is answered
after it is on disk, and the disk is asked a few dozen times a second, however many reports come.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from sketchlearn.collector.database import Database, Transaction
from sketchlearn.collector.refusals import RefusalError

T = TypeVar("T")
MOST_IN_GROUP = 256  # Works of one transaction: a group of 256 reports of 16 kB takes a third of a second.
LONGEST_QUEUE = 4096  # Works that wait; what comes beyond is refused as "busy" rather than kept in memory.

_LOG = logging.getLogger("sketchlearn.collector")


class Group:
    """The works of one transaction. `finish` functions run once, at its end, before it is committed."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.finish: list[Callable[[], None]] = []
        self.shared: dict[Any, Any] = {}  # what works of one kind share within the group

    def finished(self) -> None:
        """Runs what is left to be done, so that the next statements see all of it."""
        pending, self.finish = self.finish, []
        for function in pending:
            function()


Work = Callable[[Group], Any]


class Writer:
    """The only one that writes into the database."""

    def __init__(self, database: Database, forget: Callable[[], None], observe: Callable[[int], None]) -> None:
        self._database, self._forget, self._observe = database, forget, observe
        self._queue: queue.Queue[tuple[Work, Future[Any]] | None] = queue.Queue(LONGEST_QUEUE)
        self._thread = threading.Thread(target=self._run, name="collector-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many works wait."""
        return self._queue.qsize()

    def submit(self, work: Callable[[Group], T]) -> Future[T]:
        """Queues work, which must check all it needs before it writes; the result comes when it is on disk."""
        future: Future[T] = Future()
        try:
            self._queue.put_nowait((work, future))
        except queue.Full:
            raise RefusalError("busy", "the collector is busy: send it again in a moment", retry_after=2) from None
        return future

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
            works = [item for item in taken if item is not None and item[1].set_running_or_notify_cancel()]
            if works and not self._commit(works):
                # one of them failed in a way that nobody foresaw: each by itself, so that the others are done
                for item in works:
                    self._commit([item], last=True)

    def _commit(self, works: list[tuple[Work, Future[Any]]], *, last: bool = False) -> bool:
        outcomes: list[Any] = []
        try:
            with self._database.writing() as transaction:
                group = Group(transaction)
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
            works[0][1].set_exception(error)
            return True
        self._observe(len(works))
        for (_, future), outcome in zip(works, outcomes, strict=True):
            if isinstance(outcome, RefusalError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        return True
