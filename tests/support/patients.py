"""A table of 900 visits of 60 patients, and sketches of it by patient."""

import numpy as np
import pandas as pd

import sketchlearn as skl

OPERATOR = skl.features.FourierFeatures(2, 20, law=skl.features.frequencies.Gaussian(1.0), seed=3).with_origin(
    "declared"
)
RNG = np.random.default_rng(0)
X = np.round(RNG.standard_normal((900, 2)), 2)
IDS = RNG.integers(0, 60, 900)
FRAME = pd.DataFrame({"a": X[:, 0], "patient_id": IDS, "b": X[:, 1]})


def people(rows=X, ids=IDS, most=5, name="patient_id", batch=None):
    """The sketch of at most so many rows of each patient."""
    return OPERATOR.sketch(rows, unit=pd.Series(np.asarray(ids), name=name), rows_per_unit=most, batch=batch)
