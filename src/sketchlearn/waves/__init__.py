"""The periodic functions that turn a phase into a feature, and their Fourier coefficients.

A wave f has period 1: its argument counts turns. Its complex version is f(t) + i f(t - 1/4). All waves but the
exponential take a dither, a random shift of each frequency's phase, so that all but their first harmonic average out.
What is learned from the sketch then uses exp and divides by the coefficient F_1: asymmetric learning.

For a query x seen by f and a row y seen by g, both with the same frequencies and dither, the mean product of their
features is the sum over k of F_k conj(G_k) kappa(k (x - y)), kappa the kernel of the frequencies' law: undistorted if
one of the two waves has no harmonics but the first. (Schellekens and Jacques, "Breaking the waves", proposition 3.8.)
"""

from sketchlearn.waves.periodic_waves import (
    FIXED_POINT,
    NAMED,
    Cosine,
    Exponential,
    FourierSeries,
    Sawtooth,
    Square,
    Triangle,
    Wave,
    wave_from,
)
from sketchlearn.waves.quantized_waves import Quantized, QuantizedCosine, QuantizedSawtooth
from sketchlearn.waves.wave_pairs import Pair

__all__ = [
    "FIXED_POINT",
    "NAMED",
    "Cosine",
    "Exponential",
    "FourierSeries",
    "Pair",
    "Quantized",
    "QuantizedCosine",
    "QuantizedSawtooth",
    "Sawtooth",
    "Square",
    "Triangle",
    "Wave",
    "wave_from",
]
