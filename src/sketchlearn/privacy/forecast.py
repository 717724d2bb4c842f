"""`forecast`: the noise of a private release beside what it may hide, before anything is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sketchlearn.core.errors import InvalidValueError, Parameter
from sketchlearn.core.values import whole
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.histograms import Histograms
from sketchlearn.features.operator import Operator
from sketchlearn.features.provenance import Origin
from sketchlearn.privacy.noise_plan import COUNT_SHARE, NoisePlan, Shares, plan_noise
from sketchlearn.privacy.release import LARGEST_DELTA, LARGEST_EPSILON, releasable
from sketchlearn.sketch.ledger import ADD_REMOVE, ASSUMED, DECLARED, Ledger, PartNoise
from sketchlearn.sketch.sums import Sketch

# Clusters are hidden where noise over signal exceeds the root of the numbers per column, divided by this: there, the
# squared error of a center is half the squared width of its cluster (docs/decisions/private-sketches.md).
HIDING_DIVISOR = 6.0
HEADS = ("part", "numbers", "share", "a record moves", "noise of a sum", "noise of a mean", "signal", "noise / signal")


@dataclass(frozen=True)
class PartForecast:
    """The noise that one part of a sketch will have.

    Attributes
    ----------
    name : the kind of operator.
    numbers : how many sums have this noise.
    share : the part's share of the budget.
    sensitivity : how far one record can move the sums: L1 for Laplace noise, L2 for Gaussian noise.
    deviation : standard deviation of the noise on each sum, in the sketch's integers.
    mean_deviation : the same on each mean per record, where 1 is the largest value that one record can have.
    signal : what is looked for, in the same unit: of Fourier features, the first harmonic of a cluster of one in
        n_components records; of histograms, a bin with an even share of the records; None where nobody can say.
    """

    name: str
    numbers: int
    share: float
    sensitivity: int
    deviation: float
    mean_deviation: float
    signal: float | None

    @property
    def noise_over_signal(self) -> float | None:
        """Noise on a mean, divided by the signal."""
        return None if self.signal is None else self.mean_deviation / self.signal


@dataclass(frozen=True)
class Forecast:
    """What a release will spend, and the noise that it will have; `print` shows a table.

    Attributes
    ----------
    n_rows : about how many records there will be.
    ledger : the ledger that the release will have; with `parties`, that of one share.
    parts : the noise of each part; with `parties`, of the sum of all shares.
    count_deviation : standard deviation of the noise on the count, in records.
    hidden : a sentence if noise will probably hide the clusters, or else None.
    cautions : sentences about all that is known to be wrong, the one above included.
    """

    n_rows: int
    ledger: Ledger
    parts: tuple[PartForecast, ...]
    count_deviation: float
    hidden: str | None
    cautions: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """The known problems or, if there are none, what remains unknown."""
        if self.cautions:
            return " ".join(self.cautions)
        unknown = "whether that suffices depends on the records, which were not looked at"
        if all(part.signal is not None for part in self.parts):
            return f"Noise is smaller than the signals above: {unknown}."
        return f"Compare the noise of a mean with what you look for, where the signal is unknown: {unknown}."

    def __str__(self) -> str:
        ledger = self.ledger
        delta = f", delta {ledger.delta:g}" if ledger.delta else ""
        parties = f"; the sum of {ledger.parties:,} parties' shares" if ledger.parties else ""
        about = f"{self.n_rows:,} records, epsilon {ledger.epsilon:g}{delta}, {ledger.neighbors}, {ledger.mechanism}"
        last = ("count", "1", _short(ledger.count_share), "", _short(self.count_deviation), "", "", "")
        rows = [HEADS, *map(_cells, self.parts), last]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([name.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]).rstrip() for name, *cells in rows
        ]
        return "\n".join([f"Expected noise of a release: {about}{parties}", *lines, self.verdict])


def forecast(
    sketched: Operator | Sketch,
    *,
    epsilon: float,
    delta: float = 0.0,
    neighbors: str = ADD_REMOVE,
    n_rows: int | None = None,
    n_components: int | None = None,
    count_share: float = COUNT_SHARE,
    shares: Shares | None = None,
    parties: int | None = None,
) -> Forecast:
    """The noise that `privatize` will add, and what it may hide: nothing is released, and nothing is spent.

    It is computed by the code that `privatize` uses: `forecast(...).ledger` is the ledger of the release.

    Parameters
    ----------
    sketched : an operator, or an exact sketch.
    epsilon, delta, neighbors, count_share, shares, parties : as `privatize` takes them.
    n_rows : about how many records there will be (with `parties`, in all shares together), as far as that is public.
        Of an exact sketch, its count by default: the forecast then tells that number, so keep it to yourself.
    n_components : how many clusters are looked for, which tells how large a signal they have.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> operator = skl.design(bounds=([-5, -5], [5, 5]), n_components=3, n_rows=100_000, epsilon=1.0)
    >>> print(skl.privacy.forecast(operator, epsilon=1.0, n_rows=100_000, n_components=3))
    Expected noise of a release: 100,000 records, epsilon 1, add-remove, discrete Laplace
    part             numbers  share  a record moves  noise of a sum  noise of a mean  signal  noise / signal
    FourierFeatures      240  0.833     177,949,800     302,114,031          0.00288   0.333         0.00864
    Histograms           132  0.147               2            19.2         0.000192  0.0156          0.0123
    count                  1   0.02                            70.7
    Noise is smaller than the signals above: whether that suffices depends on the records, which were not looked at.
    """
    if not isinstance(sketched, Sketch | Operator):
        raise TypeError(f"forecast takes an operator or an exact sketch, not {type(sketched).__name__}")
    sketch = sketched if isinstance(sketched, Sketch) else Sketch(sketched)
    operator = releasable(sketch)
    plan = plan_noise(
        operator,
        epsilon=epsilon,
        delta=delta,
        neighbors=neighbors,
        count_share=count_share,
        shares=shares,
        parties=parties,
        times=sketch.batches.largest,
        unit=sketch.unit,
    )
    if n_rows is None and sketch is not sketched:
        raise InvalidValueError("the approximate number of records is required", f"give {Parameter('n_rows')}")
    n = whole("n_rows", int(sketch.count) if n_rows is None else n_rows)
    k = None if n_components is None else whole("n_components", n_components)
    each = list(zip(operator.side_by_side, plan.shares[:-1], plan.parts, strict=True))
    parts = tuple(_of_part(part, share, noise, n, k, parties or 1) for part, share, noise in each)
    hidden = None
    for part, found in zip(operator.side_by_side, parts, strict=True):
        if isinstance(part, FourierFeatures) and k is not None:
            hidden = hidden or _hiding(found, part.n_features, k, n, plan)
    return Forecast(
        n_rows=n,
        ledger=plan.ledger(DECLARED if operator.origin is Origin.DECLARED else ASSUMED),
        parts=parts,
        count_deviation=math.sqrt(plan.count.variance * (parties or 1)),
        hidden=hidden,
        cautions=_cautions(plan, parts, hidden),
    )


def _of_part(part: Operator, share: float, noise: PartNoise, n: int, k: int | None, parties: int) -> PartForecast:
    deviation = math.sqrt(noise.variance * parties)
    # under `subsample`, a record contributes to one group of the frequencies, and means are of that many fewer records
    mean_deviation = deviation * getattr(part, "n_groups", 1) / (part.largest_contribution * n)
    signal = None
    if isinstance(part, FourierFeatures) and k is not None:
        signal = abs(part.wave.coefficient(1)) * (1 if part.wave.complex else 2) / k
    elif isinstance(part, Histograms):
        signal = part.n_features / (part.n_sums - 2 * part.n_features)  # without the counts below and above all bins
    return PartForecast(type(part).__name__, part.n_sums, share, noise.sensitivity, deviation, mean_deviation, signal)


def _hiding(part: PartForecast, n_features: int, k: int, n: int, plan: NoisePlan) -> str | None:
    """A sentence if noise will probably hide clusters of equal sizes, however far apart they are."""
    assert part.noise_over_signal is not None
    more = part.noise_over_signal * HIDING_DIVISOR / math.sqrt(part.numbers / n_features)
    if more <= 1:
        return None
    epsilon = plan.mechanism.epsilon
    return (
        f"noise will hide {k} clusters of {n:,} records at epsilon {epsilon:g}: about {more * n:,.0f} records, or "
        f"epsilon {more * epsilon:.2g}, would show them"
    )


def _cautions(plan: NoisePlan, parts: tuple[PartForecast, ...], hidden: str | None) -> tuple[str, ...]:
    found = [] if hidden is None else [f"{hidden[0].upper()}{hidden[1:]}."]
    if plan.mechanism.epsilon > LARGEST_EPSILON or plan.delta > LARGEST_DELTA:
        found.append(f"This protects next to nothing, and privatize asks for {Parameter('allow_weak', True)}.")
    if plan.operator.origin is not Origin.DECLARED:
        public = Parameter("assume_public_design", True)
        found.append(f"The operator may tell about rows, so privatize asks for {public}.")
    for operator, part in zip(plan.operator.side_by_side, parts, strict=True):
        groups = getattr(operator, "n_groups", 1)
        if groups > 1 and plan.delta:
            times = f"{math.sqrt(groups):.3g} times as large (the root of {groups})"
            found.append(f"subsample makes the noise on means {times} with delta > 0: leave it out.")
        if part.mean_deviation >= 1:
            found.append(f"Noise drowns the means of {part.name}: it is as large as the largest value of a record.")
        elif isinstance(operator, Histograms) and (part.noise_over_signal or 0) >= 1:
            found.append("Noise hides histogram bins with an even share of the records: declare fewer bins.")
    return tuple(found)


def _cells(part: PartForecast) -> tuple[str, ...]:
    ratio = part.noise_over_signal
    known = tuple("unknown" if figure is None else _short(figure) for figure in (part.signal, ratio))
    sizes = (_short(part.share), f"{part.sensitivity:,}", _short(part.deviation), _short(part.mean_deviation))
    return (part.name, f"{part.numbers:,}", *sizes, *known)


def _short(x: float) -> str:
    return f"{x:,.0f}" if x >= 1000 else f"{x:.3g}"
