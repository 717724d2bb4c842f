"""Waves that are known by measurement alone: features that hardware computed, and what it makes of known rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.operators.fourier import FourierFeatures
from sketchlearn.sources import source
from sketchlearn.waves import FourierSeries

HARMONICS = 15
MOST_VALUES = 100_000  # of the reference, from which a wave is found
CLEAR_DEVIATIONS = 4.0  # Harmonics that are nearer to zero than so many of their errors are left out.
ROOM = 1.25  # Features of other rows may be so many times as large as those of the reference.


@dataclass(frozen=True)
class MeasuredWave:
    """What `measured_wave` found.

    Attributes
    ----------
    operator : the operator with the wave that was measured, for sketches and models.
    offset, factor : features less the offset, times the factor, are the operator's.
    left : root mean square of what the wave does not explain of the features, as a share of theirs.
    """

    operator: FourierFeatures
    offset: float
    factor: float
    left: float

    def adapted(self, features: Any) -> NDArray[Any]:
        """Features as they were measured, in the units of the operator: for `Sketch.update_features`."""
        given = np.asarray(features)
        offset = self.offset * (1 + 1j) if np.iscomplexobj(given) else self.offset
        return (given - offset) * self.factor


def measured_wave(operator: FourierFeatures, rows: Any, features: Any) -> MeasuredWave:
    """The operator with the wave that turned known rows into features: what a sensor, say, computes of a phase.

    A device that turns each omega_j . x + xi_j into some periodic function of it, not exactly known, is measured once:
    with rows that are known, and the features that it gave. Learning needs the function's first Fourier coefficient;
    tests and standard errors know the other harmonics, too. The operator's dither makes those average out, so its own
    wave must be one that has a dither: any but "exponential".

    Parameters
    ----------
    operator : `FourierFeatures` with the frequencies and dither that the device uses.
    rows : known rows, a hundred or so.
    features : what the device made of them, (rows, frequencies): real, or complex if the operator's wave is, with
        the same function a quarter of a turn later in the imaginary part.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> rows = np.where(rng.random((5000, 1)) < 0.5, 4.0, 0.0) + rng.standard_normal((5000, 2))
    >>> operator = skl.FourierFeatures(2, 50, law=skl.frequencies.Gaussian(1.0), wave=skl.waves.Cosine())
    >>> device = lambda x: 0.1 + np.tanh(3 * np.cos(x @ operator.frequencies + operator.dither))
    >>> measured = skl.measured_wave(operator, rows[:100], device(rows[:100]))
    >>> sketch = skl.Sketch(measured.operator).update_features(measured.adapted(device(rows)))
    >>> np.sort(skl.SketchKMeans(2, random_state=0).fit_sketch(sketch).cluster_centers_[:, 0]).round() + 0.0
    array([0., 4.])
    """
    if not operator.wave.dithered:
        raise ValueError("a measured wave needs a dither: design the operator with another wave, such as 'cosine'")
    known = np.concatenate([block.rows for block in source(rows).blocks(operator.n_features)]).astype(np.float64)
    values = operator.checked_features(features)
    if len(values) != len(known):
        raise ValueError(f"there are {len(known):,} rows, but features of {len(values):,}")
    turns = (known - operator.middle) @ operator.frequencies / (2 * np.pi) + operator.dither / (2 * np.pi)
    each = [values.real, values.imag] if operator.wave.complex else [values]
    phases = np.concatenate([(turns - 0.25 * part).ravel() for part in range(len(each))])
    y = np.concatenate([part.ravel() for part in each]).astype(np.float64)
    some = np.random.default_rng(0).permutation(len(y))[:MOST_VALUES]
    offset, coefficients, left = _series(phases[some], y[some])
    size, largest = 2 * float(np.sum(np.abs(coefficients))), float(np.max(np.abs(y - offset)))
    factor = 1 / max(size, ROOM * largest)
    scaled = tuple((float(c.real), float(c.imag)) for c in coefficients * factor)
    wave = FourierSeries(scaled, complex=operator.wave.complex)
    return MeasuredWave(replace(operator, wave=wave), offset, factor, left)


def _series(turns: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[float, NDArray[np.complex128], float]:
    """The constant and the Fourier coefficients of a real function of a phase, and the share that they leave."""
    n_terms = 1 + 2 * HARMONICS
    if len(values) < 2 * n_terms:
        raise ValueError(f"{len(values):,} features are too few to find a wave by: give {2 * n_terms:,} or more")
    angles = 2 * np.pi * turns[:, None] * np.arange(1, HARMONICS + 1)
    terms = np.concatenate([np.ones((len(turns), 1)), 2 * np.cos(angles), -2 * np.sin(angles)], axis=1)
    normal = terms.T @ terms
    found = np.linalg.solve(normal, terms.T @ values)
    rest = values - terms @ found
    errors = np.sqrt(np.diag(np.linalg.inv(normal)) * float(rest @ rest) / (len(values) - n_terms))
    coefficients = found[1 : HARMONICS + 1] + 1j * found[HARMONICS + 1 :]
    clear = np.abs(coefficients) > CLEAR_DEVIATIONS * np.hypot(errors[1 : HARMONICS + 1], errors[HARMONICS + 1 :])
    if not clear[0]:
        raise ValueError(
            "the features do not follow the phases of these rows: give rows and features in the same order, and the "
            "operator with the frequencies and dither of the device"
        )
    spread = float(np.sqrt(np.mean((values - values.mean()) ** 2)))
    left = float(np.sqrt(np.mean(rest**2))) / spread
    return float(found[0]), np.where(clear, coefficients, 0)[: 1 + int(np.flatnonzero(clear)[-1])], left
