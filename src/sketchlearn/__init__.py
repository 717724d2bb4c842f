"""Train models in one pass, without keeping the data.

A dataset of any size becomes a small sketch, the exact sum of a random feature vector per record. Sketches add,
subtract and travel; models are learned from the sketch alone.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from sketchlearn.estimators.registry import OWN_ESTIMATORS

# Where each name lives: modules are imported when they are first needed, so that `sketchlearn --help` needs none.
# Estimators are in the registry of tasks. Type checkers read __init__.pyi.
_HOMES = {
    "collector.clients.client": ("Collector",),
    "core.limits": ("FormatError",),
    "core.packages": ("__version__",),
    "estimators.number_of_clusters": ("choose_k",),
    "estimators.design.designs": ("design",),
    "estimators.files": ("load", "save"),
    "estimators.kernel_features": ("PeriodicFeatures",),
    "files.sketches": ("from_bytes", "merge"),
    "privacy.release": ("privatize",),
    "questions.comparison": ("ChangeDetector", "distance", "two_sample_test"),
    "questions.explain": ("explain",),
    "questions.intervals": ("center_intervals",),
    "questions.profiles": ("profiles",),
    "questions.questions": ("Questions",),
    "rows.schemas.table_schema": ("Schema",),
    "rows.source": ("schema", "source"),
    "sketch.sums": ("Sketch",),
    "views.report.page": ("report",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_NAMESPACES = ("checks", "decoders", "engines", "extend", "features", "privacy", "questions", "schemas")
_MODULE_OF = {
    "checks": "estimators.checks",
    "decoders": "inference.decoders",
    "extend": "estimators.extend",
    "schemas": "rows.schemas",
}

# Names of earlier releases: they answer for one more release, and say what to write instead.
_RENAMED = {
    **dict.fromkeys(
        (
            *("CellSums", "ColumnMoments", "Concatenated", "ConvolutionalFeatures", "CrossFeatures"),
            *("CumulantFeatures", "ExpectedStatistics", "FeatureMoments", "FourierFeatures", "Histograms"),
            *("MeasuredWave", "PackedBits", "QuadraticFeatures", "SecondMoments", "SomeColumns", "SomeDirections"),
            *("VeroneseMoments", "concatenate", "frequencies", "measured_wave", "waves"),
        ),
        "features.{}",
    ),
    **dict.fromkeys(
        ("FittedModel", "Operator", "SketchEstimator", "Source", "Task", "model_array", "register_reader"), "extend.{}"
    ),
    "register_task": "extend.register_task",
    "Glimpse": "extend.DesignSample",
    **dict.fromkeys(("Budget", "Ledger", "PrivateBits"), "privacy.{}"),
    **dict.fromkeys(("CenterIntervals", "ClusterChoice", "Drift", "Explanation", "Profiles"), "questions.{}"),
    **{f"load_{kind}": "load" for kind in ("design", "model", "schema")},
    **{f"save_{kind}": "save" for kind in ("design", "model", "schema")},
    "models": "inference.distributions",
    "queries": "questions",
}
_RENAMED_MODULES = {
    "sketchlearn.frequencies": "sketchlearn.features.frequencies",
    "sketchlearn.models": "sketchlearn.inference.distributions",
    "sketchlearn.operators": "sketchlearn.features",
    "sketchlearn.queries": "sketchlearn.questions",
    "sketchlearn.waves": "sketchlearn.features.waves",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted({*_HOME_OF, *_NAMESPACES, *OWN_ESTIMATORS})
    if name in _HOME_OF:
        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    elif name in OWN_ESTIMATORS:
        value = OWN_ESTIMATORS[name].load()
    elif name in _NAMESPACES:
        value = import_module(f"{__name__}.{_MODULE_OF.get(name, name)}")
    elif name in _RENAMED:
        return _renamed(name, _RENAMED[name].format(name))
    elif f"{__name__}.{name}" not in _RENAMED_MODULES and _is_room(name):
        return import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _is_room(name: str) -> bool:
    from importlib.util import find_spec

    return not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None


def _renamed(old: str, new: str) -> Any:
    """What an earlier release called by another name."""
    warnings.warn(f"skl.{old} is deprecated: use skl.{new}", DeprecationWarning, stacklevel=3)
    found: Any = sys.modules[__name__]
    for part in new.split("."):
        found = getattr(found, part)
    return found


class _RenamedModules(MetaPathFinder, Loader):
    """Imports of namespaces, and of modules by the names that they had in earlier releases."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        known = name in _RENAMED_MODULES or name.removeprefix(f"{__name__}.") in _MODULE_OF
        return ModuleSpec(name, self) if known else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if (new := _RENAMED_MODULES.get(name)) is not None:
            warnings.warn(f"{name} is deprecated: import {new}", DeprecationWarning, stacklevel=2)
        home = new or f"{__name__}.{_MODULE_OF[name.removeprefix(f'{__name__}.')]}"
        sys.modules[name] = import_module(home)


sys.meta_path.insert(0, _RenamedModules())


def __dir__() -> list[str]:
    return __getattr__("__all__")  # type: ignore[no-any-return]
