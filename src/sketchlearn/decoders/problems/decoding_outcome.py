"""What a decoder returns: the mixture, how well it explains the sketch, and what to try if it does not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sketchlearn.models import Mixture


class Status(Enum):
    """How a decoder ended."""

    EXPLAINED = "the mixture explains the sketch up to sampling noise"
    REFINED = "the search ended; the sketch holds more detail than the mixture has"
    STALLED = "no new component lowered the cost"
    ALL_ROWS = "the result is that of all rows: they were few enough to be kept"
    ROWS = "the result is that of some rows, reweighted until they agree with the sketch"
    ATOMS = "the clusters are those of points that agree with the sketch: no mixture explains it"
    UNJUDGED = "the result cannot be judged: there are too few records for this many parameters"
    HIDDEN = "the noise of the private release hides the clusters: one Gaussian explains the sketch as well"


ADVICE = {
    Status.REFINED: "if the result is poor, try more components or more frequencies",
    Status.STALLED: "try more frequencies, another scale (explain() tells which way), or another random_state",
    Status.UNJUDGED: "keep or give rows beside the sketch, or ask for fewer clusters",
    Status.HIDDEN: "release more records at once, with a larger epsilon, with delta > 0, or ask for fewer clusters",
}


@dataclass(frozen=True)
class Outcome:
    """A fitted mixture in the problem's units, and how well it explains the sketch."""

    mixture: Mixture
    cost: float
    misfit: float  # mean squared residual, in units of sampling noise: near or below 1, the sketch asks for no more
    iterations: int
    status: Status

    @property
    def residual(self) -> float:
        """Root mean square of what the mixture leaves of the sketch."""
        return float(self.cost**0.5)

    @property
    def advice(self) -> str:
        """What to try if the result is poor."""
        return ADVICE.get(self.status, "")
