"""Which way rows at hand are learned from, by what it is predicted to cost: docs/decisions.md, "By cost".

All ways read the rows once, at about the same cost. From random frequencies a decoder then finds the model, in seconds
for hundreds of parameters; at a pilot, the model of a sample, the sums of all rows are one step of Lloyd's algorithm or
of EM, and the sample takes tenths of a second.
"""

from __future__ import annotations

from sketchlearn.models.gaussian_family import n_parameters

SECONDS_PER_COORDINATE = 6e-3  # of an Arm core, for a decoder of clusters: 8 s for 100 centers in 10 columns
SECONDS_PER_PARAMETER = 15e-3  # the same for mixtures, and the search beside it on the rows that are kept
WORTH = 1.0  # seconds: frequencies say how well a mixture fits, which statistics at a pilot do not
ROWS_PER_PARAMETER = 10  # of a sample, at least: rows that are left out decide about mixtures of fewer


def decoding_seconds(n_components: int, n_features: int, covariance_type: str | None = None) -> float:
    """How long a decoder of clusters is predicted to take, or of a mixture with such covariances, on one core.

    >>> decoding_seconds(100, 10)
    6.0
    """
    if covariance_type is None:
        return SECONDS_PER_COORDINATE * n_components * n_features
    return SECONDS_PER_PARAMETER * n_parameters(n_components, n_features, covariance_type)


def steps_pay(n_components: int, n_features: int, covariance_type: str, n_sampled: int) -> bool:
    """Whether a mixture is learned by steps of EM at the mixture of a sample, rather than from frequencies.

    >>> steps_pay(2, 2, "full", 20_000), steps_pay(10, 10, "diag", 20_000)
    (False, True)
    """
    enough = n_sampled >= ROWS_PER_PARAMETER * n_parameters(n_components, n_features, covariance_type)
    return enough and decoding_seconds(n_components, n_features, covariance_type) > WORTH
