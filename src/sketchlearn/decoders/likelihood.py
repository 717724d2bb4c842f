"""How likely rows are under a mixture, and which of several mixtures new rows are likeliest under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from sketchlearn.decoders.expectation import EmFit, Start, weighted_em
from sketchlearn.decoders.weighted_rows import WeightedRows
from sketchlearn.models import IndependentStable, KnownGaussian, Mixture, SymmetricStable
from sketchlearn.models.frequency_set import Double
from sketchlearn.models.stable_density import log_density

FARTHEST = 1e100  # deviations: the square of a larger number overflows
NARROWEST = 1e-150  # deviation; its logarithm is finite
LEAST_CORRELATION_VALUE = 1e-12  # eigenvalue of a correlation matrix, where rounding leaves none or a negative one


def log_likelihoods(rows: Double, mixture: Mixture) -> Double:
    """Log-likelihood of each row, (S,), for mixtures of Gaussians or stable laws. Finite, whatever the mixture is."""
    logs = log_densities(rows, mixture) + np.log(np.maximum(mixture.weights, 1e-300))
    return np.asarray(logsumexp(logs, axis=1))


def log_densities(rows: Double, mixture: Mixture) -> Double:
    """Log-density of each component at each row, (S, k)."""
    density = _stable_density if isinstance(mixture.model, SymmetricStable) else _gaussian_density
    return np.stack([density(rows, mixture, component) for component in range(len(mixture))], axis=1)


def _gaussian_density(rows: Double, mixture: Mixture, component: int) -> Double:
    """Log-density of a Gaussian, computed from correlations, so that units of columns do not matter."""
    d = rows.shape[1]
    covariance = mixture.model.covariances(mixture.shapes, d)[0 if mixture.model.tied else component]
    away, scales = _standardised(rows, mixture.locations[component], np.diag(covariance))
    correlations = covariance / scales / scales[:, None]
    correlations[np.arange(d), np.arange(d)] = 1.0
    values, vectors = np.linalg.eigh(correlations)
    values = np.maximum(values, LEAST_CORRELATION_VALUE)
    along = away @ (vectors / np.sqrt(values))
    squares = np.minimum(np.sum(along * along, axis=1), FARTHEST**2)
    determinant = 2 * np.sum(np.log(scales)) + np.sum(np.log(values))
    return np.asarray(-0.5 * (squares + determinant + d * np.log(2 * np.pi)))


def _stable_density(rows: Double, mixture: Mixture, component: int) -> Double:
    variances, alpha = mixture.shapes[component, :-1], float(mixture.shapes[component, -1])
    away, scales = _standardised(rows, mixture.locations[component], variances)
    if isinstance(mixture.model, IndependentStable):
        logs = log_density(np.abs(away).ravel(), 1, alpha).reshape(away.shape).sum(axis=1)
    else:
        logs = log_density(np.linalg.norm(away, axis=1), away.shape[1], alpha)
    return np.asarray(logs - np.sum(np.log(scales)))


def _standardised(rows: Double, location: Double, variances: Double) -> tuple[Double, Double]:
    """Rows around a location in units of deviations, and the deviations."""
    scales = np.maximum(np.sqrt(np.maximum(variances, 0.0)), NARROWEST)
    with np.errstate(over="ignore"):  # what overflows is clipped
        away = np.clip((rows - location) / scales, -FARTHEST, FARTHEST)
    return away, scales


@dataclass(frozen=True)
class Choice:
    """The mixture under which rows that were not used to fit it are likeliest.

    Attributes
    ----------
    mixture : the mixture.
    kind : "decoded", "rows" (EM on the rows) or "decoded, then rows" (EM on the rows, started from the decoded one).
    log_likelihood, error : the held-out mean in nats a row, as estimated for this kind, and its standard error.
    gain, gain_error : by how much it exceeds that of the decoded mixture, and the standard error of the difference.
    """

    mixture: Mixture
    kind: str
    log_likelihood: float
    error: float
    gain: float
    gain_error: float


def choose_mixture(
    decoded: Mixture,
    halves: Sequence[WeightedRows],
    whole: WeightedRows,
    covariance_type: str,
    rng: np.random.Generator,
) -> Choice:
    """The decoded mixture, or one that EM fits to all rows: what does better on rows that it was not fitted to.

    EM runs on each half and is judged on the other. The decoded mixture is judged on both. The kind that wins is then
    fitted to all rows, from where it ended on the halves.
    """
    fits: dict[str, list[EmFit]] = {"rows": [], "decoded, then rows": []}
    for half in halves:
        fits["rows"].append(_em(decoded, half, covariance_type, rng))
        fits["decoded, then rows"].append(_em(decoded, half, covariance_type, rng, [start_of(decoded)], n_init=0))
    others = list(halves[::-1])
    base = [log_likelihoods(other.rows, decoded) for other in others]
    held = {"decoded": base}
    for kind, found in fits.items():
        held[kind] = [
            log_likelihoods(other.rows, as_mixture(decoded, fit)) for fit, other in zip(found, others, strict=True)
        ]
    means = {kind: _mean(values, others)[0] for kind, values in held.items()}
    kind = max(means, key=lambda name: means[name])
    mixture = decoded
    if kind != "decoded":
        starts = [fit.start for fit in fits[kind]]
        mixture = as_mixture(decoded, _em(decoded, whole, covariance_type, rng, starts, n_init=1))
    differences = [own - before for own, before in zip(held[kind], base, strict=True)]
    return Choice(mixture, kind, *_mean(held[kind], others), *_mean(differences, others))


def start_of(mixture: Mixture) -> Start:
    """The mixture as a start of EM."""
    return mixture.weights, mixture.locations, mixture.covariances()


def as_mixture(like: Mixture, fit: EmFit) -> Mixture:
    """A fit of EM as a mixture of the same model as another one."""
    return Mixture(like.model, fit.weights, fit.means, like.model.shapes_of(fit.covariances))


def _em(
    decoded: Mixture,
    sample: WeightedRows,
    covariance_type: str,
    rng: np.random.Generator,
    starts: Sequence[Start] = (),
    n_init: int = 3,
) -> EmFit:
    known = decoded.model.covariance if isinstance(decoded.model, KnownGaussian) else None
    return weighted_em(
        sample.rows,
        sample.weights,
        len(decoded),
        covariance_type,
        rng,
        covariance=known,
        starts=starts,
        n_init=n_init,
        copies=sample.copies,
    )


def _mean(values: Sequence[Double], samples: Sequence[WeightedRows]) -> tuple[float, float]:
    """The mean over samples of their weighted means, and its standard error."""
    means = [float(sample.weights @ own) for own, sample in zip(values, samples, strict=True)]
    variances = [
        float(sample.weights**2 @ np.minimum(np.abs(own - mean), FARTHEST) ** 2)
        for own, mean, sample in zip(values, means, samples, strict=True)
    ]
    return float(np.mean(means)), float(np.sqrt(np.sum(variances)) / len(samples))
