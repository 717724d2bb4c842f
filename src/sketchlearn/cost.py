"""What it takes to make what a file describes: stated from its description alone, before any of it is made."""

from __future__ import annotations

from dataclasses import dataclass

# An operation takes about a nanosecond on a slow core: a multiplication of two arrays, number by number. Where others
# use the core's memory, too, it takes up to 1.2 of them: a load of ten on two cores, of an Arm Neoverse.
OPERATIONS_PER_SECOND = 700_000_000


@dataclass(frozen=True)
class Cost:
    """Memory and work.

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
        """That of `n` numbers, each as costly as the others."""
        return cls(n * bytes_each, n * operations_each)

    def __add__(self, other: Cost) -> Cost:
        """That of both, if the memory of both is needed at the same time."""
        return Cost(self.bytes + other.bytes, self.operations + other.operations)

    def then(self, other: Cost) -> Cost:
        """That of both, one after the other, if the memory of the first is free by then."""
        return Cost(max(self.bytes, other.bytes), self.operations + other.operations)

    @property
    def seconds(self) -> float:
        """About how long it takes on a slow core."""
        return self.operations / OPERATIONS_PER_SECOND

    @property
    def megabytes(self) -> float:
        """How much memory it takes."""
        return self.bytes / 1e6
