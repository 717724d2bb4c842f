"""Limits on the cost of loading a file: a small file could demand any amount of work.

All limits on untrusted files are here: sketches, designs, models, schemas, bits, checkpoints and reports. Costs are
estimated from the text, the header and the description, before anything of that size is allocated. Those of one file
add up (`loading`). The environment variable SKETCHLEARN_TRUST_FILES=1 lifts the limits, for files that you trust.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import BinaryIO

from sketchlearn.core.errors import InvalidValueError

# An operation takes about a nanosecond on a slow core: a multiplication of two arrays, number by number. Where others
# use the core's memory, too, it takes up to 1.2 of them: a load of ten on two cores, of an Arm Neoverse.
OPERATIONS_PER_SECOND = 700_000_000


@dataclass(frozen=True)
class Cost:
    """Memory and computation.

    Parameters
    ----------
    bytes : of memory, at most at one time.
    operations : on numbers, about one per nanosecond on a core that nobody else uses.

    Examples
    --------
    >>> Cost(800, 10) + Cost(80, 5)
    Cost(bytes=880, operations=15)
    >>> Cost(800, 10).then(Cost(80, 5))
    Cost(bytes=800, operations=15)
    """

    bytes: int = 0
    operations: int = 0

    @classmethod
    def of_numbers(cls, n: int, *, bytes_each: int = 8, operations_each: int = 1) -> Cost:
        """The cost of `n` equally costly numbers."""
        return cls(n * bytes_each, n * operations_each)

    def __add__(self, other: Cost) -> Cost:
        """The cost of both, if the memory of both is needed at the same time."""
        return Cost(self.bytes + other.bytes, self.operations + other.operations)

    def then(self, other: Cost) -> Cost:
        """The cost of both in sequence, if the memory of the first is free by then."""
        return Cost(max(self.bytes, other.bytes), self.operations + other.operations)

    @property
    def seconds(self) -> float:
        """The approximate time on a slow core."""
        return self.operations / OPERATIONS_PER_SECOND

    @property
    def megabytes(self) -> float:
        """The memory in megabytes."""
        return self.bytes / 1e6


# On a slow core. Designs of tables of up to 50 columns take less than a seventh of both, and so do those of 784 columns
# (test_designs_of_ordinary_use_have_room).
MOST_SECONDS = 2.0
MOST_MEGABYTES = 300.0
# Of a file as a whole: so that its bytes, its arrays and their copy in a sketch fit into that memory.
MOST_FILE_MEGABYTES = 70.0
# Operators in operators, and mixtures in mixtures of frequency distributions; those of designs are at most four deep.
MOST_NESTED = 8
# JSON forms in JSON forms: operators, which contain distributions, or a schema and its columns.
MOST_NESTED_FORMS = 3 * MOST_NESTED

# A sketch of fewer records gives them back: benchmarks/privacy/recovery.py tells whether a row is among so many, with
# an AUC of 0.8 to 0.99.
FEW_RECORDS = 100

TENSOR_COPIES = 4  # Bytes of a file, the arrays that are read, those of a sketch, and room to check them.


class FormatError(InvalidValueError):
    """A file is not what it should be."""


class CostlyFileError(FormatError):
    """Loading a file would take too long, or too much memory."""


@dataclass
class _File:
    """The cost of loading one file so far."""

    limited: bool = True
    spent: Cost = Cost()


_loaded: ContextVar[_File | None] = ContextVar("the file that is being loaded", default=None)


@contextmanager
def loading(limited: bool = True) -> Iterator[None]:
    """Adds up the costs that are checked inside, as those of one file; `limited=False` for what this process wrote."""
    if _loaded.get() is not None:  # a part of a file
        yield
        return
    before = _loaded.set(_File(limited))
    try:
        yield
    finally:
        _loaded.reset(before)


def check_cost(what: str, cost: Cost, left: Cost | None = None) -> None:
    """Raises an error if this and all that the file has cost before take too much time or memory.

    `left` is the cost that remains afterwards, if memory is freed.
    """
    file = _loaded.get() or _File()
    total = file.spent + cost
    file.spent = total if left is None else file.spent + left
    if not _affordable(total) and file.limited and not _trusting():
        needs = f"{what} would take about {_shown(total.seconds)} seconds and {_shown(total.megabytes)} MB"
        allowed = f"{_shown(MOST_SECONDS)} s and {_shown(MOST_MEGABYTES)} MB are allowed"
        raise CostlyFileError(f"{needs}, but {allowed}: {_REMEDY}")


def check_size(n_bytes: int) -> None:
    """Raises an error if a file is too large."""
    file = _loaded.get() or _File()
    if n_bytes > 1e6 * MOST_FILE_MEGABYTES and file.limited and not _trusting():
        raise CostlyFileError(f"it is larger than the {_shown(MOST_FILE_MEGABYTES)} MB that are allowed: {_REMEDY}")


def read_at_most(file: BinaryIO) -> bytes:
    """All bytes of an open file, unless they are too many to be loaded."""
    data = file.read() if _trusting() else file.read(int(1e6 * MOST_FILE_MEGABYTES) + 1)
    check_size(len(data))
    return data


def check_text(text: bytes, *, outer: bool) -> None:
    """Raises an error for JSON that takes too much time or memory to read; the text inside an `outer` one remains."""
    left = Cost.of_numbers(len(text), bytes_each=1, operations_each=7) if outer else None
    try:
        check_cost("reading it", text_cost(text), left)
    except CostlyFileError as error:
        raise CostlyFileError(f"a file with {len(text):,} bytes of text: {error}") from None


def text_cost(text: bytes) -> Cost:
    """The approximate cost of reading JSON, and of checking and building the values that it describes.

    Each object may be an operator or a distribution, each list the bins of a column, each key one of a large object.
    Characters beyond ASCII take four bytes each, in each of the texts that contain one.
    """
    plain = text.isascii() and b"\\u" not in text
    cost = Cost.of_numbers(len(text), bytes_each=6 if plain else 16, operations_each=7)
    if not _affordable(cost):
        return cost  # of gigabytes, counting alone would take seconds
    # Measured on the slow side: tests/soak/fuzz.py fills files with any of them until they are about to be refused.
    cost += Cost.of_numbers(text.count(b","), bytes_each=60, operations_each=700)
    cost += Cost.of_numbers(text.count(b":"), bytes_each=150, operations_each=700)
    cost += Cost.of_numbers(text.count(b'"'), bytes_each=50, operations_each=350)
    cost += Cost.of_numbers(text.count(b"["), bytes_each=150, operations_each=10_000)
    return cost + Cost.of_numbers(text.count(b"{"), bytes_each=1000, operations_each=70_000)


def tensor_cost(n_bytes: int) -> Cost:
    """The cost of reading, digesting and checking arrays of this size."""
    return Cost.of_numbers(n_bytes, bytes_each=TENSOR_COPIES, operations_each=4)


def _affordable(cost: Cost) -> bool:
    return cost.seconds <= MOST_SECONDS and cost.megabytes <= MOST_MEGABYTES


def _trusting() -> bool:
    return os.environ.get("SKETCHLEARN_TRUST_FILES") == "1"


def _shown(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.2g}"


_REMEDY = "if you trust the file, set the environment variable SKETCHLEARN_TRUST_FILES=1"
