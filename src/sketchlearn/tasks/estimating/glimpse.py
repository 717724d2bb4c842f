"""What is known of rows before they are sketched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sketchlearn.sources import Source


@dataclass(frozen=True)
class Glimpse:
    """What is known of rows before they are sketched.

    Attributes
    ----------
    rows : some of them: 5000, or as many as a pilot needs.
    representative : whether they come from all over, and not from the beginning of a stream.
    columns : names of the columns, if they have names.
    everything : all rows, where another pass over them is cheap because they are in memory.
    targets : positions of the columns that are targets.
    n_rows : how many rows there are, where that is known and each counts once.
    at_hand : whether further passes are cheap: rows are in memory, or on a GPU.
    """

    rows: NDArray[Any]
    representative: bool
    columns: tuple[str, ...] | None
    everything: Source | None = None
    targets: tuple[int, ...] = ()
    n_rows: int | None = None
    at_hand: bool = False
