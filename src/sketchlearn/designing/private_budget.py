"""Size and law of an operator for private sketches: from declared knowledge alone, by the noise to be expected."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sketchlearn.ledger import ADD_REMOVE
from sketchlearn.operators import FourierFeatures, Operator, SecondMoments
from sketchlearn.privacy.noise_forecast import Forecast, forecast
from sketchlearn.privacy.noise_plan import check_neighbors, checked_budget
from sketchlearn.values import whole
from sketchlearn.waves import Exponential

LOOSE_BOUNDS_FACTOR = 2.0  # Bounds may be that many times too wide, and more at a price.
SHORTEST = 4.0  # length of the lowest frequencies, times half the width of the bounds
SHORTEST_PER_COLUMN = 1.26  # the same, per square root of a column: records fill more of a box of few columns
LEAST_FREQUENCIES, MOST_FREQUENCIES = 3, 10  # per coordinate of a center; with delta > 0, per parameter
PREFERRED_FREQUENCIES = 4  # per coordinate: MNIST at epsilon 1 had 1.06 (ten draws), with three 1.2 (three draws)
ERROR_FACTOR = 2.0  # The error that was seen is that many times the one of a center that is all alone.
# The error that more frequencies may cost, of noise that includes the count's share: with 0.02, tables at epsilon 1 had
# 1.04 instead of 1.02; with 0.001, five clusters in three columns at epsilon 0.3 had 1.0046 instead of 1.0029 (of ten).
ERROR_PRICE = 0.001042
PREFERRED_PRICE = 0.003126  # the same of the preferred ones, which real data need more than Gaussian clusters do
SHAPES_PRICE = 0.0003126  # the same, where shapes of clusters are asked for: the likelihood is sensitive to them
MOST_ERROR_FOR_HISTOGRAMS = 0.052  # Up to this error, histograms are worth their share.
MOST_MOMENT_NOISE = 0.06  # deviation in squared bounds: beyond it, few correlations show


@dataclass(frozen=True)
class Budget:
    """What a private release will spend, and about how many records it will have."""

    n_rows: int
    epsilon: float
    delta: float
    neighbors: str

    def size(self, n_components: int, n_parameters: int, waves_of: Callable[[int], FourierFeatures]) -> int:
        """How many frequencies: under pure epsilon the noise on each grows with their number, with delta > 0 hardly.

        The error grows with it, too, but a search needs some frequencies per parameter, and more are a safeguard. With
        delta > 0 the error does not depend on the size: the noise on a mean grows with its root. (Under `subsample` it
        grows with the size itself; designs have none.)
        """
        if self.delta:
            return MOST_FREQUENCIES * n_parameters
        centers = n_components * waves_of(1).n_features
        fewest, most = (max(n * centers, n_parameters) for n in (LEAST_FREQUENCIES, MOST_FREQUENCIES))
        price = ERROR_PRICE if n_parameters <= centers else SHAPES_PRICE
        preferred = PREFERRED_FREQUENCIES * centers if n_parameters <= centers else 0
        waves = waves_of(most)
        # Waves that need more noise have harmonics, too, against which frequencies help: with as few as their own error
        # allows (90 instead of 163), clusters from private sawtooth sketches had 1.25 instead of 1.13.
        errors = [self.error(n_components, w) for w in (waves, replace(waves, wave=Exponential()))]
        affordable = math.floor(most * price / min(errors))
        preferred = min(preferred, math.floor(most * PREFERRED_PRICE / min(errors)))
        return min(max(affordable, preferred, fewest), most)

    def shows(self, n_components: int, waves: FourierFeatures) -> bool:
        """Whether clusters show so well in these frequencies that a share of the budget can be spared for histograms.

        Under pure epsilon that share costs most where clusters barely show: k = d = 10, epsilon n = 10^4 went from an
        RSSE of 1.135 to 1.7.
        """
        return bool(self.delta) or self.error(n_components, waves) <= MOST_ERROR_FOR_HISTOGRAMS

    def shows_moments(self, operator: Operator) -> bool:
        """Whether the second moments of this operator are worth their share of the budget."""
        if not self.delta:
            return False  # pure epsilon counts each number
        parts = zip(operator.side_by_side, self.forecast(operator).parts, strict=True)
        return all(
            found.mean_deviation <= MOST_MOMENT_NOISE for part, found in parts if isinstance(part, SecondMoments)
        )

    def error(self, n_components: int, waves: FourierFeatures) -> float:
        """Squared error of a center that the noise causes, in each column, in squared widths of its cluster.

        It is also the relative increase of the k-means cost. A cluster of weight 1 / k and width s shows in
        exp(-|omega|^2 s^2 / 2) / k, whose slope along a column has the mean square |omega|^2 exp(-|omega|^2 s^2) /
        (k^2 d), half of it in each part of a complex number; over lengths in a range of ratio r that averages to
        1 / (2 log(r) k^2 d s^2).
        """
        (part,) = self.forecast(waves, n_components).parts
        assert part.noise_over_signal is not None
        shortest, longest = lengths(n_components, waves.n_features)
        slope = 1 / (4 * math.log(longest / shortest) * waves.n_features)  # of a number, in squared signals
        return ERROR_FACTOR * part.noise_over_signal**2 / (part.numbers * slope)

    def forecast(self, operator: Operator, n_components: int | None = None) -> Forecast:
        """The noise that a release of this operator's sketches will have."""
        return forecast(
            operator,
            n_rows=self.n_rows,
            epsilon=self.epsilon,
            delta=self.delta,
            neighbors=self.neighbors,
            n_components=n_components,
        )


def lengths(n_components: int, n_features: int) -> tuple[float, float]:
    """The least and the greatest length of frequencies, times half the width of the bounds."""
    shortest = min(SHORTEST, SHORTEST_PER_COLUMN * math.sqrt(n_features))
    return shortest, 16 * LOOSE_BOUNDS_FACTOR * n_components ** (1 / n_features)


def budget_of(bounds: Any, n_rows: int | None, epsilon: float | None, delta: float, neighbors: str) -> Budget | None:
    """What a private release will spend; None if no epsilon is given."""
    if epsilon is None:
        if delta or neighbors != ADD_REMOVE or (n_rows is not None and bounds is not None):
            given = "delta and neighbors" if bounds is None else "n_rows, delta and neighbors"
            raise ValueError(f"{given} are for private releases: give epsilon, too")
        return None
    if bounds is None or n_rows is None:
        raise ValueError("a design for private releases looks at no rows: give bounds, and n_rows (an estimate)")
    return Budget(whole("n_rows", n_rows), *checked_budget(epsilon, delta), check_neighbors(neighbors))
