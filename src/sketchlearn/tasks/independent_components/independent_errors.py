"""Standard errors of independent components."""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.models import Double
from sketchlearn.moments.moments_of_sketch import Moments, needed_part
from sketchlearn.operators import CumulantFeatures, SecondMoments
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.independent_components.independent_fit import NEEDED, Independent, unmixing_of
from sketchlearn.uncertainty.drawn_changes import errors_by_draws
from sketchlearn.uncertainty.error_bars import ErrorBars
from sketchlearn.uncertainty.sampled_rows import SampledRows

MOST_FEATURES = 2000  # of the operator: more would take minutes


def independent_errors(sketch: Sketch, found: Independent, rng: np.random.Generator) -> ErrorBars:
    """Standard errors of components, of the mixing matrix and of means, from kept rows."""
    sample = SampledRows.of(sketch)
    if sketch.ledger is not None:
        return ErrorBars(withheld="a private sketch does not tell how components vary: there is no remedy yet")
    if sample is None:
        return ErrorBars(withheld="errors of independent components need rows: fit rows, or a sketch that keeps some")
    errors = {"mean_": np.sqrt(sample.variances(sample.rows - Moments.of(sketch, "ICA").mean))}
    if found.far:
        return ErrorBars(errors, "the operator was designed for other components: design it on rows from all over")
    parts: Any = [needed_part(sketch, kind, NEEDED) for kind in (SecondMoments, CumulantFeatures)]
    (moments, cumulants), mean = (part.operator for part in parts), np.concatenate([part.mean for part in parts])
    if len(mean) > MOST_FEATURES:
        return ErrorBars(errors, "errors of so many components would take minutes: ask for fewer components")
    matches = found.components @ np.linalg.pinv(unmixing_of(moments, cumulants, mean))
    order = np.argmax(np.abs(matches), axis=1)
    signs = np.sign(matches[np.arange(len(order)), order])[:, None]

    def computed(features: Double) -> Double:
        components = unmixing_of(moments, cumulants, features)[order] * signs
        return np.stack([components, np.linalg.pinv(components).T])

    features = np.column_stack([operator.features(sample.rows) for operator in (moments, cumulants)])
    errors["components_"], mixing = errors_by_draws(mean, features, sample, computed, rng)
    errors["mixing_"], reason = mixing.T, ""
    if len(found.alike) > 1:
        errors["components_"][found.alike], errors["mixing_"][:, found.alike] = np.nan, np.nan
        reason = "some components may be Gaussian, and mixtures of each other: give more rows, or use the others alone"
    return ErrorBars(errors, reason)
