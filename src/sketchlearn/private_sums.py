"""What the sums of a private sketch may be: noise moves them anywhere."""

from __future__ import annotations

from typing import Any

from sketchlearn.ledger import Ledger
from sketchlearn.sketch_limits import LARGEST_INTEGER


def check_private(operator: Any, ledger: Any, units: int, bits: int, unit: Any) -> None:
    """Refuses a private sketch that no release gives: noise moves sums anywhere, but not the count below 1."""
    if not isinstance(ledger, Ledger):
        raise TypeError(f"ledger must be a Ledger, not {type(ledger).__name__}")
    if unit is not None:
        raise ValueError("a private sketch says in its ledger whom it protects: leave out unit")
    least = -LARGEST_INTEGER if ledger.lacking else 1  # cutting off the counts of shares would tell about them
    n_parts = len(getattr(operator, "parts", ()))
    if bits or not least <= units <= LARGEST_INTEGER or (ledger.parts is not None and len(ledger.parts) != n_parts):
        raise ValueError("a private sketch needs 0 bits, a count of at least 1 and a ledger that fits its operator")


def merged_ledger(a: Ledger | None, b: Ledger | None, overlapping: bool | None, *, shared: bool) -> Ledger:
    """The ledger of the sum of two private sketches, which share a batch of rows or not."""
    if a is None or b is None:
        raise ValueError("cannot add a private sketch and an exact one: make the exact one private first")
    if shared and overlapping is False:
        raise ValueError("the private sketches share a batch of rows: their records are not disjoint")
    if not (a.lacking or b.lacking):
        return a.merged(b, overlapping=overlapping is not False)
    _check_shares(a, b)
    if shared:
        raise ValueError("the shares of noise are of the same rows, or the same one twice: add each party's once")
    if overlapping is None and a.unit is not None:
        raise ValueError(
            f"rows of one {a.unit} may lie with several parties: add the shares with overlapping=False if no {a.unit} "
            "is with two of them; with overlapping=True epsilons add up"
        )
    # each party has records of its own, as privatize(..., parties=...) says
    return a.merged(b, overlapping=bool(overlapping))


def _check_shares(a: Ledger, b: Ledger) -> None:
    """Refuses sums of shares that are not of the same noise, which would not be the noise of one release."""
    if a.parties != b.parties:
        wanted = a.parties if a.lacking else b.parties
        raise ValueError(
            f"a share of noise is private only in a sum of {wanted:,} such shares: add those first, then other sketches"
        )
    scales = [(s.sum_scale, s.count_scale, [part.scale for part in s.parts or ()]) for s in (a, b)]
    if scales[0] != scales[1]:
        raise ValueError("the shares are of different noise: let all parties release with the same epsilon and options")


def require_enough_shares(ledger: Ledger | None) -> None:
    """Refuses to learn from shares of noise that are not private yet."""
    if ledger is not None and ledger.lacking:
        raise ValueError(
            f"this is a sum of {ledger.shares:,} of {ledger.parties:,} shares of noise, which is not private yet: add "
            f"those of {ledger.lacking:,} more parties first"
        )
