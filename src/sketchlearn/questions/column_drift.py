"""Which columns differ between two sketches: a test of each column's counts, exact or with private noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.inference.sampling_noise import exceedance
from sketchlearn.questions.marginals import ColumnCounts

TRIMMED = 0.025  # of the records at either end, which may lie beyond the bins
STEPS = np.linspace(TRIMMED, 1 - TRIMMED, 96)


@dataclass(frozen=True)
class CountsDrift:
    """How the counts of one column differ: the p-value, and the shift and ratio of spreads from first to second."""

    p_value: float
    statistic: float  # over its expectation under the null hypothesis
    shift: float
    spread_ratio: float


def counts_drift(a: ColumnCounts, b: ColumnCounts) -> CountsDrift:
    """The Anderson-Darling test of two histograms, whose statistic is a weighted sum of chi-squares.

    The statistic is the mean, over the pooled records, of (F_a - F_b)^2 / (F (1 - F)), F the proportions of records
    below the edges. Its weights are the eigenvalues of the covariance of the F_a - F_b at all edges, which bins and
    private noise do not invalidate (Scholz and Stephens 1987, 10.1080/01621459.1987.10478517).

    >>> edges = np.array([0.0, 1.0, 2.0])
    >>> a, b = (ColumnCounts(edges, np.array([0.0, x, 100 - x, 0.0]), None, 100.0, 100.0, 0.0) for x in (50.0, 70.0))
    >>> found = counts_drift(a, b)
    >>> round(found.p_value, 3), round(found.shift, 2)  # that of a chi-square test of two shares, 0.0039
    (0.004, -0.2)
    """
    sizes = [max(float(one.counts.sum()), 1.0) for one in (a, b)]  # a release's count has more noise than their sum
    shares = np.stack([one.counts / size for one, size in zip((a, b), sizes, strict=True)])
    records = np.maximum([a.records, b.records], 1.0)
    weights = records / records.sum()
    pooled = np.maximum(weights @ shares, 0)
    below = np.cumsum(pooled)[:-1] / max(float(pooled.sum()), 1e-300)
    known = np.flatnonzero((below > 0) & (below < 1) & (pooled[:-1] > 0))  # an edge at the end of each bin with records
    if not len(known):
        return CountsDrift(1.0, 0.0, 0.0, 1.0)
    F = below[known]
    factors = np.sqrt(np.diff(F, prepend=0.0) / (F * (1 - F)))
    gap = factors * np.cumsum(shares[0] - shares[1])[known]
    covariance = np.sum(1 / records) * (np.minimum.outer(F, F) - np.outer(F, F))
    noise = sum(one.variance / size**2 for one, size in zip((a, b), sizes, strict=True))
    if noise:
        summed = known + 1.0  # noisy counts below each edge
        several = np.minimum.outer(summed, summed) - np.outer(summed, F) - np.outer(F, summed)
        covariance += noise * (several + len(pooled) * np.outer(F, F))
    spectrum = np.maximum(np.linalg.eigvalsh(factors[:, None] * covariance * factors), 0)
    statistic = float(gap @ gap)
    shift, ratio = _moved(a, b)
    return CountsDrift(exceedance(spectrum, statistic), statistic / max(float(spectrum.sum()), 1e-300), shift, ratio)


def _moved(a: ColumnCounts, b: ColumnCounts) -> tuple[float, float]:
    """The shift of the mean and the ratio of standard deviations; without the ends, where these cannot be computed."""
    moments = [one.mean_and_variance() for one in (a, b)]
    if moments[0] is None or moments[1] is None:
        quantiles = np.stack([one.quantiles(STEPS) for one in (a, b)])
        moments = [(float(own.mean()), float(own.var())) for own in quantiles]
    (before, first), (after, second) = moments  # type: ignore[misc]
    return after - before, float(np.sqrt(second / first)) if min(first, second) > 0 else 1.0
