"""What the sums of a private sketch may be: noise moves them anywhere."""

from __future__ import annotations

from typing import Any

from sketchlearn.ledger import Ledger

LARGEST_INTEGER = 2**63 - 1


def check_private(operator: Any, ledger: Any, units: int, bits: int) -> None:
    """Refuses a private sketch that no release gives: noise moves sums anywhere, but not the count below 1."""
    if not isinstance(ledger, Ledger):
        raise TypeError(f"ledger must be a Ledger, not {type(ledger).__name__}")
    n_parts = len(getattr(operator, "parts", ()))
    if bits or not 1 <= units <= LARGEST_INTEGER or (ledger.parts is not None and len(ledger.parts) != n_parts):
        raise ValueError("a private sketch needs bits=0, a count of at least 1 and a ledger that fits its operator")
