"""Operators whose scale is read off a first, small sketch of frequencies of many scales."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from sketchlearn.decoders.problems.decoding_target import Target, fourier_part
from sketchlearn.decoders.problems.first_reading import WIDTH_FACTOR, coarseness, read
from sketchlearn.designing import frequency_laws as laws
from sketchlearn.designing.cluster_operators import Asked
from sketchlearn.frequencies import Gaussian, Probed
from sketchlearn.operators import FourierFeatures, Operator, concatenate
from sketchlearn.sketch import Sketch


def on_sketch(asked: Asked, sketch: Sketch) -> Operator:
    """The operator for clusters as wide as a sketch tells, beside what it holds besides frequencies."""
    target, (_, first) = Target.of(sketch), fourier_part(sketch)
    if target.one_scale:
        raise ValueError(
            "the frequencies of this sketch have one scale, which tells no better one: give design a sketch with many "
            "scales, of design(bounds=...) or design(sample, representative=False)"
        )
    k, d = asked.n_components, target.n_features
    mean, variances, within = read(target, k)
    m = asked.size(d)
    scale = math.sqrt(d * within * coarseness(k, d, m)) / WIDTH_FACTOR  # the reading is too wide on purpose
    probes = laws.HIGH_PROBES if asked.wave.harmonics() else laws.LOW_PROBES
    units = np.array(first.law.units) if isinstance(first.law, Probed) else np.ones(d)
    units *= np.exp(np.mean(np.log(target.unit / units)))  # those of the target differ by chance, too
    spread = np.sqrt(variances) * target.unit
    law = Probed(Gaussian(scale), units=laws.plain(units), spread=laws.plain(spread), probes=probes)
    center = laws.plain(target.origin + mean * target.unit)
    new: dict[str, Any] = {"n_frequencies": m, "law": law, "wave": asked.wave, "center": center, "seed": asked.seed}
    # columns, units of errors and rows to be kept stay as they are
    waves = replace(first, **new, structured=False, subsample=None, keeping=sketch.operator.keeping)
    parts = (leaf.operator for leaf in sketch.operator.leaves(sketch))
    others = [part for part in parts if not isinstance(part, FourierFeatures)]
    return concatenate([waves, *others]) if others else waves
