"""Which batches of rows are in a sketch, so that none is counted or released twice without a word."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.ledger import Ledger
from sketchlearn.values import shortened

MOST_IDENTITIES = 4096  # A file has at most 80 kB of them; beyond, the smallest ones stand for all.
_END = 1 << 64


@dataclass(frozen=True)
class Batches:
    """Random numbers of 64 bits, one per batch of rows, and how often each batch was counted.

    Up to 4096 batches all numbers are kept. Of more, the 4096 smallest are: then a batch that is counted twice is
    noticed if its number is among those, which is certain for a sketch that is added to itself.

    Parameters
    ----------
    times : how often each batch was added, less how often it was subtracted.
    below : numbers from here on are not kept.

    Examples
    --------
    >>> a, b = Batches.new(), Batches.new()
    >>> both = a.combined(b, 1)
    >>> len(both.shared(a)), both.combined(b, -1) == a, both.combined(a, 1).largest
    (1, True, 2)
    """

    times: dict[int, int] = field(default_factory=dict)
    below: int = _END

    @classmethod
    def new(cls) -> Batches:
        """One batch that nobody has seen."""
        return cls({secrets.randbits(64): 1})

    @classmethod
    def of_content(cls, sums: NDArray[np.int64], units: int) -> Batches:
        """One batch that is known by its sums: for files of earlier versions, and sketches made by hand."""
        if not units:
            return cls()
        digest = hashlib.sha256(np.ascontiguousarray(sums, "<i8").tobytes() + str(units).encode()).digest()
        return cls({int.from_bytes(digest[:8], "big"): 1})

    def shared(self, other: Batches) -> list[int]:
        """Batches that a sum of both would count twice."""
        return [number for number, n in self.times.items() if n * other.times.get(number, 0) > 0]

    def combined(self, other: Batches, sign: int) -> Batches:
        """Those of a sum or a difference."""
        times, below = dict(self.times), min(self.below, other.below)
        for number, n in other.times.items():
            times[number] = times.get(number, 0) + sign * n
        if below < _END or 0 in times.values():
            times = {number: n for number, n in times.items() if n and number < below}
        if len(times) > MOST_IDENTITIES:
            below = sorted(times)[MOST_IDENTITIES]
            times = {number: n for number, n in times.items() if number < below}
        return Batches(times, below)

    @property
    def largest(self) -> int:
        """How often a record may count."""
        return max(map(abs, self.times.values()), default=1)

    def to_json(self) -> dict[str, Any]:
        """As a file says it."""
        form: dict[str, Any] = {f"{number:016x}": n for number, n in sorted(self.times.items())}
        return form if self.below == _END else {**form, "below": f"{self.below:016x}"}

    @classmethod
    def from_json(cls, form: Any) -> Batches:
        """What a file says; a `ValueError` says why another form is refused."""
        if not isinstance(form, dict) or len(form) > MOST_IDENTITIES + 1:
            raise ValueError(f"its batches must be an object of at most {MOST_IDENTITIES} numbers")
        below = _number(form["below"]) if "below" in form else _END
        times = {_number(number): n for number, n in form.items() if number != "below"}
        if any(type(n) is not int or not 0 < abs(n) < 2**63 for n in times.values()) or any(i >= below for i in times):
            raise ValueError("its batches must be counted by whole numbers, and lie below their limit")
        return cls(times, below)


class Released:
    """What this process has spent on each batch. Other processes have their own: a `Budget` is for all of them."""

    def __init__(self) -> None:
        self._ledgers: dict[int, Ledger] = {}
        self._lock = threading.Lock()

    def spent(self, batches: Batches) -> Ledger | None:
        """The most that was spent on a record of these batches."""
        return self._most([self._ledgers.get(number) for number in batches.times])

    def note(self, book: Callable[[Ledger | None], Ledger], batches: Batches, content: Batches) -> Ledger:
        """Books a release of these batches: `book` says what is spent then, or refuses, knowing what was before.

        Nobody else books meanwhile. The content is noted, too, for sketches that are known by nothing else.
        """
        with self._lock:
            ledger = book(self.spent(batches))
            self._ledgers.update(dict.fromkeys((*batches.times, *content.times), ledger))
        return ledger

    def forget(self) -> None:
        """As if nothing had been released: for tests alone."""
        self._ledgers.clear()

    @staticmethod
    def _most(ledgers: list[Ledger | None]) -> Ledger | None:
        """What covers all of them: a record is in one batch."""
        found: Ledger | None = None
        for ledger in ledgers:
            if ledger is None or ledger is found:
                continue
            if found is not None and found.neighbors != ledger.neighbors:
                found, ledger = found.about_replacing(), ledger.about_replacing()
            found = ledger if found is None else found.merged(ledger, overlapping=False)
        return found


RELEASED = Released()


def _number(text: Any) -> int:
    if not isinstance(text, str) or len(text) != 16 or not set(text) <= set("0123456789abcdef"):
        raise ValueError(f"{shortened(text)} is not the number of a batch")
    return int(text, 16)
