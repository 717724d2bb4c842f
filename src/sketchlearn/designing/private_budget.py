"""Size and law of an operator for private sketches: from declared knowledge alone, by the noise to be expected."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.privacy.release import MOMENT_SHARE
from sketchlearn.values import number, positive, whole

LOOSE_BOUNDS_FACTOR = 2.0  # Bounds may be that many times too wide, and more at a price.
SHORTEST = 4.0  # length of the lowest frequencies, times half the width of the bounds
SHORTEST_PER_COLUMN = 1.26  # the same, per square root of a column: records fill more of a box of few columns
LEAST_FREQUENCIES, MOST_FREQUENCIES = 3, 10  # per coordinate of a center; with delta > 0, per parameter
ERROR_FACTOR = 2.0  # The error that was seen is that many times the one of a center that is all alone.
ERROR_PRICE = 0.001  # error that more frequencies may cost: with 0.02, tables at epsilon 1 had 1.04 instead of 1.02
SHAPES_PRICE = 0.0003  # the same, where shapes of clusters are asked for: the likelihood is sensitive to them
MOST_ERROR_FOR_HISTOGRAMS = 0.05  # Up to this error, histograms are worth their share.
MOST_MOMENT_NOISE = 0.06  # deviation in squared bounds: beyond it, few correlations show
HIDING_ERROR = 0.5  # Clusters with a larger error are not found.


@dataclass(frozen=True)
class Budget:
    """What a private release will spend, and about how many records it will have."""

    n_rows: int
    epsilon: float
    delta: float

    def size(self, n_components: int, n_features: int, n_parameters: int) -> int:
        """How many frequencies: under pure epsilon the noise on each grows with their number, with delta > 0 hardly.

        The error grows with it, too, but a search needs some frequencies per parameter, and more are a safeguard.
        """
        centers = n_components * n_features
        fewest, most = (max(n * centers, n_parameters) for n in (LEAST_FREQUENCIES, MOST_FREQUENCIES))
        price = ERROR_PRICE if n_parameters <= centers else SHAPES_PRICE
        affordable = math.floor(most * price / self.error(n_components, n_features, most))
        size = MOST_FREQUENCIES * n_parameters if self.delta else min(max(affordable, fewest), most)
        error = self.error(n_components, n_features, size)
        if error > HIDING_ERROR:
            more = math.sqrt(error / HIDING_ERROR)
            warn_caller(
                f"noise will hide {n_components} clusters of {self.n_rows:,} records at epsilon {self.epsilon:g}: "
                f"about {more * self.n_rows:,.0f} records, or epsilon {more * self.epsilon:.2g}, would show them",
                UserWarning,
            )
        return size

    def shows(self, n_components: int, n_features: int, n_frequencies: int) -> bool:
        """Whether clusters show so well that a share of the budget can be spared for histograms.

        Under pure epsilon that share costs most where clusters barely show: k = d = 10, epsilon n = 10^4 went from an
        RSSE of 1.135 to 1.7.
        """
        return bool(self.delta) or self.error(n_components, n_features, n_frequencies) <= MOST_ERROR_FOR_HISTOGRAMS

    def shows_moments(self, n_features: int) -> bool:
        """Whether second moments are worth a share of the budget."""
        if not self.delta:
            return False  # pure epsilon counts each number
        n_moments = n_features * (n_features + 3) / 2
        deviation = self._gaussian * math.sqrt(n_moments / MOMENT_SHARE) / (self.epsilon * self.n_rows)
        return deviation <= MOST_MOMENT_NOISE

    @property
    def _gaussian(self) -> float:
        """The deviation of Gaussian noise on sums of sensitivity 1, times epsilon."""
        log = math.log(1 / self.delta)
        return (math.sqrt(log + self.epsilon) + math.sqrt(log)) / math.sqrt(2)

    def error(self, n_components: int, n_features: int, n_frequencies: int) -> float:
        """Squared error of a center that the noise causes, in each column, in squared widths of its cluster.

        It is also the relative increase of the k-means cost. A cluster of weight 1 / k and width s shows in
        exp(-|omega|^2 s^2 / 2) / k, whose slope along a column has the mean square |omega|^2 exp(-|omega|^2 s^2) /
        (k^2 d); over lengths in a range of ratio r that averages to 1 / (2 log(r) k^2 d s^2).
        """
        deviation = self._gaussian * math.sqrt(n_frequencies) if self.delta else 2.0 * n_frequencies
        shortest, longest = lengths(n_components, n_features)
        slope = 1 / (2 * math.log(longest / shortest) * n_components**2 * n_features)
        return ERROR_FACTOR * (deviation / (self.epsilon * self.n_rows)) ** 2 / (n_frequencies * slope)


def lengths(n_components: int, n_features: int) -> tuple[float, float]:
    """The least and the greatest length of frequencies, times half the width of the bounds."""
    shortest = min(SHORTEST, SHORTEST_PER_COLUMN * math.sqrt(n_features))
    return shortest, 16 * LOOSE_BOUNDS_FACTOR * n_components ** (1 / n_features)


def budget_of(bounds: Any, n_rows: int | None, epsilon: float | None, delta: float) -> Budget | None:
    """What a private release will spend; None if no epsilon is given."""
    if epsilon is None:
        if n_rows is not None or delta:
            raise ValueError("n_rows and delta are for private releases: give epsilon, too")
        return None
    if bounds is None or n_rows is None:
        raise ValueError("a design for private releases looks at no rows: give bounds, and n_rows (an estimate)")
    delta = number("delta", delta)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and below 1, not {delta!r}")
    return Budget(whole("n_rows", n_rows), positive("epsilon", epsilon), delta)
