"""Designs for devices: the numbers with which a device turns readings into single bits, without drawing any."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from sketchlearn.collector.clients.device_client import KIND, VERSION
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.operator import Operator
from sketchlearn.features.provenance import public_design
from sketchlearn.sketch.bits import RandomisedResponse


def device_design(operator: Operator, *, epsilon: float | None = None, assume_public_design: bool = False) -> bytes:
    """The JSON file for `device_client.py`: frequencies and shifts in float32, as base 64 of little-endian numbers.

    With epsilon, the device sends a randomised response of each reading, as `operator.pack(rows, epsilon=...)` does.

    >>> import sketchlearn as skl
    >>> operator = skl.FourierFeatures(3, 100, law=skl.frequencies.Gaussian(2.0), wave="square", seed=7)
    >>> sorted(json.loads(device_design(operator)))
    ['center', 'dither', 'frequencies', 'kind', 'n_features', 'n_frequencies', 'parts', 'response', 'version']
    """
    if not isinstance(operator, FourierFeatures) or not operator.one_bit or operator.structured:
        raise ValueError(
            "a device computes single bits of plain frequencies: give Fourier features of the square wave, neither "
            "subsampled nor structured, and without other parts"
        )
    response = None
    if epsilon is not None:
        public_design(operator, assume_public_design)
        best = RandomisedResponse.best(epsilon, operator.n_sums)
        response = {name: getattr(best, name) for name in ("epsilon", "n_sent", "factor")}
    frequencies, dither = operator.random_parts()[:2]
    form = {
        "kind": KIND,
        "version": VERSION,
        "n_features": operator.n_features,
        "n_frequencies": operator.n_frequencies,
        "parts": operator.wave.parts,
        "center": _base64(operator.middle),
        "frequencies": _base64(frequencies.T),  # one frequency after the other
        "dither": _base64(dither),
        "response": response,
    }
    return (json.dumps(form, sort_keys=True, indent=1) + "\n").encode()


def _base64(numbers: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers, "<f4").tobytes()).decode()
