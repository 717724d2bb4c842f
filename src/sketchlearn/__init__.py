"""Learn from data that you saw once.

A dataset of any size becomes a small sketch, the exact sum of a random feature vector per record. Sketches add,
subtract and travel; models are learned from the sketch alone.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sketchlearn import decoders, engines, frequencies, models, privacy, waves
    from sketchlearn.diagnostics.explain import Explanation, explain
    from sketchlearn.ledger import Ledger
    from sketchlearn.operators import (
        ColumnMoments,
        Concatenated,
        ConvolutionalFeatures,
        CumulantFeatures,
        FourierFeatures,
        Histograms,
        Operator,
        QuadraticFeatures,
        SecondMoments,
        VeroneseMoments,
        concatenate,
    )
    from sketchlearn.packed import PackedBits
    from sketchlearn.privacy import privatize
    from sketchlearn.queries import ChangeDetector, Drift, Questions, distance, two_sample_test
    from sketchlearn.sketch import Sketch
    from sketchlearn.sources import Source, source
    from sketchlearn.storage.container import FormatError
    from sketchlearn.storage.design_files import load_design, save_design
    from sketchlearn.storage.sketch_files import from_bytes, load, merge
    from sketchlearn.tasks import (
        PeriodicFeatures,
        SketchClassifier,
        SketchGaussianMixture,
        SketchGenerator,
        SketchICA,
        SketchKMeans,
        SketchKMedians,
        SketchLinearRegression,
        SketchPCA,
        SketchRidge,
        SketchStableMixture,
        SketchSubspaces,
        load_model,
        save_model,
    )
    from sketchlearn.tasks.task_design import design
    from sketchlearn.version import __version__

__all__ = [
    "ChangeDetector",
    "ColumnMoments",
    "Concatenated",
    "ConvolutionalFeatures",
    "CumulantFeatures",
    "Drift",
    "Explanation",
    "FormatError",
    "FourierFeatures",
    "Histograms",
    "Ledger",
    "Operator",
    "PackedBits",
    "PeriodicFeatures",
    "QuadraticFeatures",
    "Questions",
    "SecondMoments",
    "Sketch",
    "SketchClassifier",
    "SketchGaussianMixture",
    "SketchGenerator",
    "SketchICA",
    "SketchKMeans",
    "SketchKMedians",
    "SketchLinearRegression",
    "SketchPCA",
    "SketchRidge",
    "SketchStableMixture",
    "SketchSubspaces",
    "Source",
    "VeroneseMoments",
    "__version__",
    "concatenate",
    "decoders",
    "design",
    "distance",
    "engines",
    "explain",
    "frequencies",
    "from_bytes",
    "load",
    "load_design",
    "load_model",
    "merge",
    "models",
    "privacy",
    "privatize",
    "queries",
    "save_design",
    "save_model",
    "source",
    "two_sample_test",
    "waves",
]

# Where each name lives: modules are imported when they are first needed, so that `sketchlearn --help` needs none.
_HOMES = {
    "storage.container": ("FormatError",),
    "storage.design_files": ("load_design", "save_design"),
    "diagnostics": ("Explanation", "explain"),
    "tasks.task_design": ("design",),
    "tasks": (
        "PeriodicFeatures",
        "SketchClassifier",
        "SketchGaussianMixture",
        "SketchGenerator",
        "SketchICA",
        "SketchKMeans",
        "SketchKMedians",
        "SketchLinearRegression",
        "SketchPCA",
        "SketchRidge",
        "SketchStableMixture",
        "SketchSubspaces",
        "load_model",
        "save_model",
    ),
    "storage.sketch_files": ("from_bytes", "load", "merge"),
    "ledger": ("Ledger",),
    "operators": (
        "ColumnMoments",
        "Concatenated",
        "ConvolutionalFeatures",
        "CumulantFeatures",
        "FourierFeatures",
        "Histograms",
        "Operator",
        "QuadraticFeatures",
        "SecondMoments",
        "VeroneseMoments",
        "concatenate",
    ),
    "packed": ("PackedBits",),
    "privacy": ("privatize",),
    "queries": ("ChangeDetector", "Drift", "Questions", "distance", "two_sample_test"),
    "sketch": ("Sketch",),
    "sources": ("Source", "source"),
    "version": ("__version__",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value
    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
