"""Learn from data that you saw once.

A dataset of any size becomes a small sketch, the exact sum of a random feature vector per record. Sketches add,
subtract and travel; models are learned from the sketch alone.
"""

from sketchlearn import decoders, engines, frequencies, models, waves
from sketchlearn.container import FormatError
from sketchlearn.designing import design
from sketchlearn.diagnostics import Explanation, explain
from sketchlearn.estimators import SketchGaussianMixture, SketchKMeans, SketchKMedians, SketchStableMixture
from sketchlearn.files import from_bytes, load, merge
from sketchlearn.operators import (
    Concatenated,
    FourierFeatures,
    Operator,
    QuadraticFeatures,
    SecondMoments,
    concatenate,
)
from sketchlearn.queries import Drift, drift_test
from sketchlearn.sketch import Sketch
from sketchlearn.sources import Source, source
from sketchlearn.version import __version__

__all__ = [
    "Concatenated",
    "Drift",
    "Explanation",
    "FormatError",
    "FourierFeatures",
    "Operator",
    "QuadraticFeatures",
    "SecondMoments",
    "Sketch",
    "SketchGaussianMixture",
    "SketchKMeans",
    "SketchKMedians",
    "SketchStableMixture",
    "Source",
    "__version__",
    "concatenate",
    "decoders",
    "design",
    "drift_test",
    "engines",
    "explain",
    "frequencies",
    "from_bytes",
    "load",
    "merge",
    "models",
    "source",
    "waves",
]
