"""Learn from data that you saw once.

A dataset of any size becomes a small sketch, the exact sum of a random feature vector per record. Sketches add,
subtract and travel; models are learned from the sketch alone.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sketchlearn.tasks.registry import OWN_ESTIMATORS

# Where each name lives: modules are imported when they are first needed, so that `sketchlearn --help` needs none.
# Estimators are in the registry of tasks, operators are those of their package. Type checkers read __init__.pyi.
_HOMES = {
    "diagnostics.center_intervals": ("CenterIntervals", "center_intervals"),
    "diagnostics.explain": ("Explanation", "explain"),
    "diagnostics.profile_values": ("Profiles",),
    "diagnostics.profiles": ("profiles",),
    "diagnostics.report.report_page": ("report",),
    "ledger": ("Ledger",),
    "operators.measured_wave": ("MeasuredWave", "measured_wave"),
    "packed": ("PackedBits",),
    "privacy": ("privatize",),
    "privacy.budget": ("Budget",),
    "private_bits": ("PrivateBits",),
    "queries": ("ChangeDetector", "Drift", "Questions", "distance", "two_sample_test"),
    "reporting": ("Collector",),
    "sketch": ("Sketch",),
    "schemas": ("Schema",),
    "sources": ("Source", "register_reader", "schema", "source"),
    "storage.container": ("FormatError",),
    "storage.design_files": ("load_design", "save_design"),
    "storage.schema_files": ("load_schema", "save_schema"),
    "storage.sketch_files": ("from_bytes", "load", "merge"),
    "tasks.choosing.cluster_choice": ("ClusterChoice",),
    "tasks.choosing.number_of_clusters": ("choose_k",),
    "tasks.estimating.fitted_model": ("FittedModel", "model_array"),
    "tasks.estimating.glimpse": ("Glimpse",),
    "tasks.estimating.sketch_estimator": ("SketchEstimator",),
    "tasks.kernel_features.periodic_features": ("PeriodicFeatures",),
    "tasks.model_files": ("load_model", "save_model"),
    "tasks.registry": ("Task", "register_task"),
    "tasks.task_design": ("design",),
    "version": ("__version__",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_PACKAGES = ("decoders", "engines", "frequencies", "models", "privacy", "queries", "schemas", "waves")


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted({*_HOME_OF, *_PACKAGES, *OWN_ESTIMATORS, *_operators()})
    if name in _HOME_OF:
        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    elif name in OWN_ESTIMATORS:
        value = OWN_ESTIMATORS[name].load()
    elif name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    elif find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    elif name in _operators():
        value = getattr(import_module(f"{__name__}.operators"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _operators() -> list[str]:
    names: list[str] = import_module(f"{__name__}.operators").__all__
    return names


def __dir__() -> list[str]:
    return __getattr__("__all__")  # type: ignore[no-any-return]
