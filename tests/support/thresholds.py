"""Where a quantized wave may be in the next step, as the wave before is known to 2^-19 only."""

import numpy as np

from sketchlearn.features.waves import Exponential, QuantizedCosine, Sawtooth


def at_a_threshold(wave, t):
    """Phases in turns at which a part of the wave that is quantized is within 2^-19 of a threshold, or of a jump."""
    smooth = isinstance(wave, QuantizedCosine)
    before = (Exponential() if smooth else Sawtooth())(t)
    found = np.zeros(np.shape(t), bool)
    for part in (before.real, before.imag):
        step = (part + 1) * wave.unit / 2
        found |= np.abs(step - np.rint(step)) <= 2.0**-19 * wave.unit
        if not smooth:
            found |= np.abs(part) >= 1 - 2.0**-19
    return found
