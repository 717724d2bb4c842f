"""Learn from data that you saw once.

A dataset of any size becomes a small sketch, the exact sum of a random feature vector per record. Sketches add,
subtract and travel; models are learned from the sketch alone.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sketchlearn.tasks.registry import OWN_ESTIMATORS

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
    from sketchlearn.sources import Source, register_reader, source
    from sketchlearn.storage.container import FormatError
    from sketchlearn.storage.design_files import load_design, save_design
    from sketchlearn.storage.sketch_files import from_bytes, load, merge
    from sketchlearn.tasks.classes.classifier_estimator import SketchClassifier
    from sketchlearn.tasks.clusters.cluster_estimators import SketchKMeans, SketchKMedians
    from sketchlearn.tasks.estimating.glimpse import Glimpse
    from sketchlearn.tasks.estimating.sketch_estimator import SketchEstimator
    from sketchlearn.tasks.gaussian_mixtures.gaussian_mixture_estimator import SketchGaussianMixture
    from sketchlearn.tasks.generators.generator_estimator import SketchGenerator
    from sketchlearn.tasks.independent_components.ica_estimator import SketchICA
    from sketchlearn.tasks.kernel_features.periodic_features import PeriodicFeatures
    from sketchlearn.tasks.model_files import load_model, save_model
    from sketchlearn.tasks.principal_components.pca_estimator import SketchPCA
    from sketchlearn.tasks.registry import Task, register_task
    from sketchlearn.tasks.regression.regression_estimators import SketchLinearRegression, SketchRidge
    from sketchlearn.tasks.stable_mixtures.stable_mixture_estimator import SketchStableMixture
    from sketchlearn.tasks.subspaces.subspace_estimator import SketchSubspaces
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
    "Glimpse",
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
    "SketchEstimator",
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
    "Task",
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
    "register_reader",
    "register_task",
    "save_design",
    "save_model",
    "source",
    "two_sample_test",
    "waves",
]

# Where each name lives: modules are imported when they are first needed, so that `sketchlearn --help` needs none.
# Estimators are in the registry of tasks.
_HOMES = {
    "storage.container": ("FormatError",),
    "storage.design_files": ("load_design", "save_design"),
    "diagnostics": ("Explanation", "explain"),
    "tasks.estimating.glimpse": ("Glimpse",),
    "tasks.estimating.sketch_estimator": ("SketchEstimator",),
    "tasks.registry": ("Task", "register_task"),
    "tasks.task_design": ("design",),
    "tasks.kernel_features.periodic_features": ("PeriodicFeatures",),
    "tasks.model_files": ("load_model", "save_model"),
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
    "sources": ("Source", "register_reader", "source"),
    "version": ("__version__",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value
    if name in OWN_ESTIMATORS:
        globals()[name] = OWN_ESTIMATORS[name].load()
        return globals()[name]
    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
