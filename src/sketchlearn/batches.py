"""Which batches of rows are in a sketch, so that none is counted or released twice without a word."""

from __future__ import annotations

import hashlib
import heapq
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.ledger import Ledger
from sketchlearn.values import shortened, whole

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
    most : how often a record may count for all that the numbers tell: what was said of overlapping sketches, and of
        numbers that are not kept.
    gone : what was subtracted since something was added last, by digests that mean nothing outside this process. They
        are not compared, and in no file: a record that is forgotten leaves no trace.

    Examples
    --------
    >>> a, b = Batches.new(), Batches.new()
    >>> both = a.combined(b, 1)
    >>> len(both.shared(a)), both.combined(b, -1) == a, both.combined(a, 1).largest
    (1, True, 2)
    """

    times: dict[int, int] = field(default_factory=dict)
    below: int = _END
    most: int = 1
    gone: frozenset[bytes] = field(default=frozenset(), compare=False, repr=False)

    @classmethod
    def new(cls, units: int = 1) -> Batches:
        """One batch that nobody has seen; none, if it has no records."""
        return cls({secrets.randbits(64): 1} if units else {})

    @classmethod
    def of_content(cls, sums: NDArray[np.int64], units: int) -> Batches:
        """One batch that is known by its sums: for files of earlier versions, and sketches made by hand."""
        if not units:
            return cls()
        digest = hashlib.sha256(np.ascontiguousarray(sums, "<i8").tobytes() + str(units).encode()).digest()
        return cls({int.from_bytes(digest[:8], "big"): 1})

    def or_content(self, sums: NDArray[np.int64], units: int) -> Batches:
        """The same; of records without a number, and of those whose numbers are all forgotten, the content's."""
        if self.times or not units:
            return self
        return replace(self.of_content(sums, units), most=self.most, gone=self.gone)

    def shared(self, other: Batches, sign: int = 1) -> list[int]:
        """Batches that a sum (or a difference) of both would count twice."""
        few, many = sorted((self.times, other.times), key=len)
        return [number for number, n in few.items() if n * many.get(number, 0) * sign > 0]

    def within(self, other: Batches) -> bool:
        """Whether each of these batches, of which there is one at least, was added to the other."""
        known = bool(self.times) and self.below == _END and self.most == 1
        return known and all(other.times.get(number, 0) >= n > 0 for number, n in self.times.items())

    def combined(self, other: Batches, sign: int, *, overlapping: bool = False) -> Batches:
        """Those of a sum or a difference; of overlapping ones, a record of any two batches may be the same.

        A stream adds one batch at a time to thousands: only a copy and a search for the largest look at all of them.
        """
        times, below = dict(self.times), min(self.below, other.below)
        twice = overlapping or bool(self.shared(other, sign))
        most = self.largest + other.largest if twice else max(self.most, other.most)
        for number, n in other.times.items():
            left = times.pop(number, 0) + sign * n
            if left:
                times[number] = left
        dropped = [number for side in (self, other) if side.below > below for number in side.times if number >= below]
        counts = [abs(times.pop(number, 0)) for number in dropped]
        if len(times) > MOST_IDENTITIES:
            largest = heapq.nlargest(len(times) - MOST_IDENTITIES, times)
            below, counts = largest[-1], counts + [abs(times.pop(number)) for number in largest]
        most = max(most, *counts, 1)
        return Batches(times, below, most)

    def having_lost(self, content: bytes, records: str, before: Batches) -> Batches:
        """The same after a subtraction from `before` of what has this digest; warns of these records if it is gone."""
        if records and content in before.gone:
            warn_caller(
                f"the same {records} went out of this sketch before: unless it held them twice, it is wrong now, and "
                "adding them again mends it"
            )
        return replace(self, gone=frozenset([*sorted(before.gone)[: MOST_IDENTITIES - 1], content]))

    @property
    def largest(self) -> int:
        """How often a record may count."""
        return max(self.most, *map(abs, self.times.values()), 1)

    def to_json(self) -> dict[str, Any]:
        """As a file says it."""
        form: dict[str, Any] = {f"{number:016x}": n for number, n in sorted(self.times.items())}
        below = {} if self.below == _END else {"below": f"{self.below:016x}"}
        return {**form, **below, **({"most": self.most} if self.most > 1 else {})}

    @classmethod
    def from_json(cls, form: Any) -> Batches:
        """What a file says; a `ValueError` says why another form is refused."""
        if not isinstance(form, dict) or len(form) > MOST_IDENTITIES + 2:
            raise ValueError(f"its batches must be an object of at most {MOST_IDENTITIES} numbers")
        below = _number(form["below"]) if "below" in form else _END
        most = whole("most", form.get("most", 1))
        times = {_number(number): n for number, n in form.items() if number not in ("below", "most")}
        if any(type(n) is not int or not 0 < abs(n) < 2**63 for n in times.values()) or any(i >= below for i in times):
            raise ValueError("its batches must be counted by whole numbers, and lie below their limit")
        return cls(times, below, most)


class Released:
    """What this process has spent on each batch. Other processes have their own: a `Budget` is for all of them."""

    def __init__(self) -> None:
        self._ledgers: dict[int, Ledger] = {}
        self._contents: dict[int, Ledger] = {}
        self._lock = threading.Lock()

    def spent(self, batches: Batches, content: Batches | None = None) -> Ledger | None:
        """The most that was spent on a record of these batches.

        Contents tell where one of two sketches is known by nothing else. Two that were made of rows are two batches,
        even of equal content.
        """
        contents = content.times if content else ()
        known = [self._ledgers.get(number) for number in (*batches.times, *contents)]
        known += [self._contents.get(number) for number in batches.times]
        return self._most(known, several=batches.most > 1)

    def note(self, book: Callable[[Ledger | None], Ledger], batches: Batches, content: Batches) -> Ledger:
        """Books a release of these batches: `book` says what is spent then, or refuses, knowing what was before.

        Nobody else books meanwhile. The content is noted, too, for sketches that are known by nothing else.
        """
        with self._lock:
            ledger = book(self.spent(batches, content))
            self._ledgers.update(dict.fromkeys(batches.times, ledger))
            self._contents.update(dict.fromkeys(content.times, ledger))
        return ledger

    def forget(self) -> None:
        """As if nothing had been released: for tests alone."""
        self._ledgers.clear()
        self._contents.clear()

    @staticmethod
    def _most(ledgers: list[Ledger | None], *, several: bool) -> Ledger | None:
        """What covers all of them: a record is in one batch, unless somebody has said that it may be in several."""
        found: Ledger | None = None
        for ledger in {id(ledger): ledger for ledger in ledgers}.values():
            if ledger is None:
                continue
            if found is not None and found.neighbors != ledger.neighbors:
                found, ledger = found.about_replacing(), ledger.about_replacing()
            # a unit may have rows in every batch
            overlapping = several or ledger.unit is not None
            found = ledger if found is None else found.merged(ledger, overlapping=overlapping)
        return found


RELEASED = Released()
_SECRET = secrets.token_bytes(32)  # of this process


def digest_of(sums: NDArray[np.int64], units: int) -> bytes:
    """A digest of what is subtracted, from which nobody without this process can tell what it was."""
    content = np.ascontiguousarray(sums, "<i8").tobytes() + str(units).encode()
    return hashlib.blake2b(content, digest_size=16, key=_SECRET).digest()


def _number(text: Any) -> int:
    if not isinstance(text, str) or len(text) != 16 or not set(text) <= set("0123456789abcdef"):
        raise ValueError(f"{shortened(text)} is not the number of a batch")
    return int(text, 16)
