"""Which way rows at hand are learned from, by what it is predicted to cost: docs/decisions/by-cost.md.

All ways read the rows once, at about the same cost. From random frequencies a decoder then finds the model, in seconds
for hundreds of parameters; at a pilot, the model of a sample, the sums of all rows are one step of Lloyd's algorithm or
of EM, and the sample takes tenths of a second.
"""

from __future__ import annotations

from sketchlearn.inference.distributions import n_parameters

SECONDS_PER_PARAMETER = 15e-3  # of an Arm core, for the decoder of a mixture and the search beside it on kept rows
WORTH = 1.0  # seconds: frequencies say how well a mixture fits, which statistics at a pilot do not
ROWS_PER_PARAMETER = 10  # of a sample, at least: rows that are left out decide about mixtures of fewer


def steps_pay(n_components: int, n_features: int, covariance_type: str, n_sampled: int) -> bool:
    """Whether a mixture is learned by steps of EM at the mixture of a sample, rather than from frequencies.

    >>> steps_pay(2, 2, "full", 20_000), steps_pay(10, 10, "diag", 20_000)
    (False, True)
    """
    n = n_parameters(n_components, n_features, covariance_type)
    return n_sampled >= ROWS_PER_PARAMETER * n and SECONDS_PER_PARAMETER * n > WORTH
