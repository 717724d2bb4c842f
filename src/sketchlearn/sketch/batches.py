"""Duplicate detection by batch ids: which batches of rows are in a sketch, so that none is counted or released twice.

The id of a batch is a keyed digest of what was summed (sums, count, design), so that the same rows have the same id in
every run, process and machine. A name distinguishes rows of equal values: `operator.sketch(rows, batch="unit 7")`.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.messages import warn_caller
from sketchlearn.core.values import shortened, whole
from sketchlearn.sketch.ledger import Ledger

MOST_IDENTITIES = 4096  # A file has at most 80 kB of them; beyond, the smallest ones stand for all.
_END = 1 << 64
_NOTES = ("below", "partial", "unnamed", "most", "equal")  # what a file says beside the ids


@dataclass(frozen=True)
class Batches:
    """Ids of 64 bits, one per batch of rows, and how often each batch was counted.

    Up to 4096 batches all ids are kept. Of more, the 4096 smallest are: then a batch that is counted twice is noticed
    if its id is among those, which is certain for a sketch that is added to itself.

    Parameters
    ----------
    times : how often each batch was added, less how often it was subtracted.
    equal : of ids that stand for several batches of equal rows, for how many.
    below : ids from here on are not kept.
    partial : a part of one of them was taken out, that was no batch of its own. The id of the whole would confirm a
        guess of that part, so that a file in which it is the only one does not name it.
    unnamed : one of the batches, of which so many records are left, has no id here, as in such a file: it may be any.
    most : how often a record may count for all that the ids tell: what was said of overlapping sketches, and of ids
        that are not kept.
    reads : random numbers of the calls that read the rows: two calls read two batches, even of equal rows. They are
        not compared, and in no file.
    taken : batches that were subtracted from something that did not hold them as such: a release tells of those, too.
        They are not compared, and in no file, which says `unnamed` instead.
    gone : by digest, how often the same records were subtracted since the last addition. The digests mean nothing
        outside this process. They are not compared, and in no file: a record that is forgotten leaves no trace.

    Examples
    --------
    >>> a, b = Batches({7: 1}), Batches({8: 1})
    >>> both = a.combined(b, 1)
    >>> len(both.shared(a)), both.combined(b, -1) == a, both.combined(a, 1).largest
    (1, True, 2)
    """

    times: dict[int, int] = field(default_factory=dict)
    equal: dict[int, int] = field(default_factory=dict)
    below: int = _END
    partial: bool = False
    unnamed: int = 0
    most: int = 1
    reads: frozenset[int] = field(default=frozenset(), compare=False, repr=False)
    taken: frozenset[int] = field(default=frozenset(), compare=False, repr=False)
    gone: Mapping[bytes, int] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of_content(cls, design: str, sums: NDArray[np.int64], units: int, bits: int = 0, name: str = "") -> Batches:
        """One batch, known by what was summed and by the name that the caller gave it.

        Parameters
        ----------
        design : identity of the operator.
        sums, units, bits : as a `Sketch` has them.
        name : distinguishes batches of equal rows.
        """
        digest = hashlib.blake2b(digest_size=8, key=hashlib.sha256(design.encode()).digest())
        digest.update(np.ascontiguousarray(sums, "<i8").data)
        digest.update(f"{units}/{bits}/{name}".encode())
        return cls({int.from_bytes(digest.digest(), "big"): 1})

    @classmethod
    def just_read(cls) -> Batches:
        """Rows that a call has just read; their id follows from their content."""
        return cls(reads=frozenset([secrets.randbits(64)]))

    @classmethod
    def at_random(cls) -> Batches:
        """A batch that has nothing in common with any other."""
        return cls({secrets.randbits(64): 1})

    def read_apart(self, other: Batches) -> bool:
        """Whether different calls of this process read them."""
        return bool(self.reads and other.reads) and self.reads.isdisjoint(other.reads)

    def shared(self, other: Batches, sign: int = 1) -> list[int]:
        """Batches that a sum (or a difference) of both would count twice."""
        few, many = sorted((self.times, other.times), key=len)
        return [number for number, n in few.items() if n * many.get(number, 0) * sign > 0]

    @property
    def involved(self) -> frozenset[int]:
        """All batches that a release depends on."""
        return self.taken.union(self.times)

    @property
    def complete(self) -> bool:
        """Whether the ids of all batches are known."""
        return self.missing_from == _END

    @property
    def missing_from(self) -> int:
        """The smallest id from which on ids may be missing."""
        return 0 if self.unnamed else self.below

    def within(self, other: Batches) -> bool:
        """Whether all of these batches (at least one) were added to the other."""
        known = bool(self.times) and self.complete and self.most == 1 and not self.partial
        return known and all(other.times.get(number, 0) >= n > 0 for number, n in self.times.items())

    def combined(self, other: Batches, sign: int, *, overlapping: bool = False, distinct: bool = False) -> Batches:
        """The batches of a sum or a difference. Ids of batches that were removed leave no trace.

        A stream adds one batch at a time to thousands: only a copy and a search for the largest look at all of them.

        Parameters
        ----------
        overlapping : a record of any two batches may be the same.
        distinct : batches that share an id are known to be different records of equal values.
        """
        times, equal, below = dict(self.times), dict(self.equal), min(self.below, other.below)
        twice = overlapping or (not distinct and bool(self.shared(other, sign)))
        most = self.largest + other.largest if twice else max(self.most, other.most)
        counts = list[int]()
        partial = self.partial or other.partial or (sign < 0 and not other.complete)
        taken = set(self.taken | other.taken)
        for number, n in other.times.items():
            before = times.pop(number, 0)
            # of a partial one, something may be left
            left = before if sign < 0 and other.partial else before + sign * n
            if sign < 0 and before < n:
                partial = True
                taken.add(number)
            if sign < 0 and left * before <= 0:
                counts += [abs(left)]
                left = 0
            if left:
                times[number] = left
            several = self.equal.get(number, 1), other.equal.get(number, 1)
            equal[number] = min(sum(several) if distinct and before else max(several), abs(left))
        dropped = [number for side in (self, other) if side.below > below for number in side.times if number >= below]
        if len(times) > MOST_IDENTITIES:
            largest = heapq.nlargest(len(times) - MOST_IDENTITIES, times)
            below, dropped = largest[-1], dropped + largest
        counts += [_counted(times.pop(number, 0), equal.get(number, 1)) for number in dropped]
        equal = {number: n for number, n in equal.items() if n > 1 and number in times}
        reads = self.reads | other.reads if (self.reads or not self.times) and (other.reads or not other.times) else ()
        kept = frozenset[int](reads if len(reads) <= MOST_IDENTITIES else ())
        unnamed = min(filter(None, (self.unnamed, other.unnamed)), default=0)
        if len(taken) > MOST_IDENTITIES:
            taken, unnamed = set(), 1
        return Batches(times, equal, below, partial, unnamed, max(most, *counts, 1), kept, frozenset(taken))

    def having_lost(self, content: bytes, records: str, before: Batches, lost: Batches) -> Batches:
        """The batches after a subtraction from `before`; warns if what has this digest was subtracted already.

        Batches that were certainly there may go one after the other.
        """
        if lost.within(before):
            return replace(self, gone=before.gone)
        times = before.gone.get(content, 0) + 1
        if records and times > 1:
            warn_caller(
                f"the same {records} went out of this sketch before: unless it held them twice, it is now wrong: "
                "add them again to correct it"
            )
        kept = dict(list(before.gone.items())[-(MOST_IDENTITIES - 1) :])
        return replace(self, most=max(self.most, times * lost.largest), gone={**kept, content: times})

    @property
    def largest(self) -> int:
        """The most that a record may count."""
        return max(self.most, *(_counted(n, self.equal.get(number, 1)) for number, n in self.times.items()), 1)

    def for_others(self, count: float) -> Batches:
        """The same, for a sketch of so many records, without the ids of what was removed: that may be of any batch."""
        return replace(self, taken=frozenset(), unnamed=self._left(count)) if self.taken else self

    def _left(self, count: float) -> int:
        """Of how many records a batch without an id is, at most, if these are of so many."""
        return max(1, int(min(self.unnamed or math.inf, count)))

    def may_be_within(self, other: Batches, count: float) -> bool:
        """Whether a batch that has no id here may be in the other, of so many records, in whole or in part."""
        return bool(self.unnamed) and (bool(other.unnamed) or other.partial or count > self.unnamed)

    def to_json(self, count: float) -> dict[str, Any]:
        """The JSON form in the file of a sketch of so many records."""
        if self.partial and len(self.times) == 1:
            hidden = replace(self, times={}, equal={}, partial=False, unnamed=self._left(count), most=self.largest)
            return hidden.to_json(count)
        times, equal = ({f"{number:016x}": n for number, n in of.items()} for of in (self.times, self.equal))
        notes = {
            "below": f"{self.below:016x}" if self.below < _END else None,
            "partial": self.partial,
            "unnamed": self.unnamed or (self._left(count) if self.partial else 0),
            "most": self.most if self.most > 1 else None,
            "equal": equal,
        }
        return {**times, **{name: note for name, note in notes.items() if note}}

    @classmethod
    def from_json(cls, form: Any) -> Batches:
        """The batches of a JSON form; a `ValueError` says why a form is refused."""
        if not isinstance(form, dict) or len(form) > MOST_IDENTITIES + len(_NOTES):
            raise ValueError(f"its batches must be an object of at most {MOST_IDENTITIES} numbers")
        below = _number(form["below"]) if "below" in form else _END
        most = whole("most", form.get("most", 1))
        times = {_number(number): n for number, n in form.items() if number not in _NOTES}
        if any(type(n) is not int or not 0 < abs(n) < 2**63 for n in times.values()):
            raise ValueError("its batches must be counted by whole numbers")
        if form.get("partial", True) is not True:
            raise ValueError("partial, of its batches, must be true, or left out")
        unnamed = whole("unnamed", form["unnamed"]) if "unnamed" in form else 0
        equal = form.get("equal", {})
        if not isinstance(equal, dict):
            raise ValueError("its equal batches must be an object of numbers")
        several = {_number(number): whole("equal", n, 2) for number, n in equal.items()}
        if any(n > abs(times.get(number, 0)) for number, n in several.items()):
            raise ValueError("its equal batches cannot be more than the times that they were counted")
        return cls(times, several, below, "partial" in form, unnamed, most)


class Released:
    """What this process has spent on each batch. A `Budget` is shared by several processes."""

    def __init__(self) -> None:
        self._ledgers: dict[int, Ledger] = {}
        self._contents: dict[int, Ledger] = {}
        self._unlisted: list[tuple[int, Ledger]] = []  # of sketches of more batches than have their ids kept
        self._rows: dict[int, frozenset[int]] = {}  # ids of a release: those of the batches that it was made of
        self._incomplete = set[int]()  # ids of releases that were made of other batches, too
        self._lock = threading.Lock()

    def spent(self, batches: Batches, content: Batches | None = None) -> Ledger | None:
        """The most that was spent on a record of these batches.

        Contents tell where one of two sketches is known by nothing else. A batch whose id is not kept may be any that
        has so large an id: what was spent on those counts, too.
        """
        # a single batch is known by its content, or by a name that says that it is another one of equal rows
        contents = content.times if content and len(batches.times) != 1 else ()
        involved = batches.involved
        known = [self._ledgers.get(number) for number in (*involved, *contents)]
        known += [self._contents.get(number) for number in involved]
        largest = max(involved, default=-1) if batches.complete else _END
        known += [ledger for below, ledger in self._unlisted if below <= largest]
        if not batches.complete:
            known += [ledger for number, ledger in self._ledgers.items() if number >= batches.missing_from]
        found: Ledger | None = None
        for ledger in {id(ledger): ledger for ledger in known if ledger is not None}.values():
            if found is None:
                found = ledger
                continue
            if found.neighbors != ledger.neighbors:
                found, ledger = found.about_replacing(), ledger.about_replacing()
            # a record is in one batch, unless somebody has said otherwise; a unit may have rows in every batch
            found = found.merged(ledger, overlapping=batches.most > 1 or ledger.unit is not None)
        return found

    def note(self, book: Callable[[Ledger | None], Ledger], batches: Batches, content: Batches) -> Ledger:
        """Books a release of these batches: `book` takes what was spent before, and returns the sum, or refuses.

        Nobody else books meanwhile. The content is noted, too, for sketches that are known by nothing else.
        """
        with self._lock:
            ledger = book(self.spent(batches, content))
            self._ledgers.update(dict.fromkeys(batches.involved, ledger))
            self._contents.update(dict.fromkeys(content.times, ledger))
            if not batches.complete:
                self._unlisted.append((batches.missing_from, ledger))
        return ledger

    def note_rows(self, release: Batches, batches: Batches) -> None:
        """Remembers which batches a release was made of, which the release itself must not tell."""
        with self._lock:
            self._rows.update(dict.fromkeys(release.times, batches.involved))
            if not batches.complete:
                self._incomplete.update(release.times)

    def share_rows(self, a: Batches, b: Batches) -> bool:
        """Whether two releases are of the same rows, as far as this process knows, or even the same release."""
        own, others = ({row for number in side.times for row in self._rows.get(number, ())} for side in (a, b))
        return bool(a.shared(b) or own & others)

    def of_others(self, release: Batches, batches: Batches) -> bool:
        """Whether a release is known to this process, and to be of none of these batches."""
        known = [self._rows[number] for number in release.times if number in self._rows]
        complete = batches.complete and self._incomplete.isdisjoint(release.times)
        return complete and bool(known) and all(rows.isdisjoint(batches.involved) for rows in known)

    def forget(self) -> None:
        """Forgets all releases: only for tests."""
        for known in (self._ledgers, self._contents, self._unlisted, self._rows, self._incomplete):
            known.clear()


RELEASED = Released()
_SECRET = secrets.token_bytes(32)  # of this process


def digest_of(sums: NDArray[np.int64], units: int) -> bytes:
    """A digest of what is subtracted, keyed by a secret of this process."""
    content = np.ascontiguousarray(sums, "<i8").tobytes() + str(units).encode()
    return hashlib.blake2b(content, digest_size=16, key=_SECRET).digest()


def _counted(times: int, equal: int) -> int:
    """How often a record of one of so many equal batches may count, which were counted so often together."""
    return max(0, abs(times) - (equal - 1))


def _number(text: Any) -> int:
    if not isinstance(text, str) or len(text) != 16 or not set(text) <= set("0123456789abcdef"):
        raise ValueError(f"{shortened(text)} is not the number of a batch")
    return int(text, 16)
