"""Learn from data that you saw once.

A dataset of any size becomes a small sketch, the exact sum of a random feature vector per record. Sketches add,
subtract and travel; models are learned from the sketch alone.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sketchlearn.estimators.registry import OWN_ESTIMATORS

# Where each name lives: modules are imported when they are first needed, so that `sketchlearn --help` needs none.
# Estimators are in the registry of tasks, operators are those of their package. Type checkers read __init__.pyi.
_HOMES = {
    "collector.clients": ("Collector",),
    "core.limits": ("FormatError",),
    "core.packages": ("__version__",),
    "estimators.base.estimator": ("SketchEstimator",),
    "estimators.base.model": ("FittedModel", "model_array"),
    "estimators.base.state": ("Glimpse",),
    "estimators.choice": ("ClusterChoice",),
    "estimators.choosing": ("choose_k",),
    "estimators.design.designs": ("design",),
    "estimators.files": ("load_model", "save_model"),
    "estimators.kernel_features": ("PeriodicFeatures",),
    "estimators.registry": ("Task", "register_task"),
    "features.fourier": ("MeasuredWave", "measured_wave"),
    "files.designs": ("load_design", "load_schema", "save_design", "save_schema"),
    "files.sketches": ("from_bytes", "load", "merge"),
    "privacy": ("privatize",),
    "privacy.budget": ("Budget",),
    "questions": ("ChangeDetector", "Drift", "Questions", "distance", "two_sample_test"),
    "questions.explain": ("Explanation", "explain"),
    "questions.intervals": ("CenterIntervals", "center_intervals"),
    "questions.profiles": ("Profiles", "profiles"),
    "rows": ("Source", "register_reader", "schema", "source"),
    "rows.schemas": ("Schema",),
    "sketch.bits": ("PackedBits", "PrivateBits"),
    "sketch.ledger": ("Ledger",),
    "sketch.sums": ("Sketch",),
    "views.report.page": ("report",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_NAMESPACES = {
    "decoders": "inference.decoders",
    "engines": "engines",
    "features": "features",
    "frequencies": "features.frequencies",
    "models": "inference.distributions",
    "privacy": "privacy",
    "queries": "questions",
    "schemas": "rows.schemas",
    "waves": "features.waves",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted({*_HOME_OF, *_NAMESPACES, *OWN_ESTIMATORS, *_operators()})
    if name in _HOME_OF:
        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    elif name in OWN_ESTIMATORS:
        value = OWN_ESTIMATORS[name].load()
    elif name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    elif name in _NAMESPACES:
        value = import_module(f"{__name__}.{_NAMESPACES[name]}")
    elif find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    elif name in _operators():
        value = getattr(import_module(f"{__name__}.features"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _operators() -> list[str]:
    names: list[str] = import_module(f"{__name__}.features").__all__
    return names


def __dir__() -> list[str]:
    return __getattr__("__all__")  # type: ignore[no-any-return]
