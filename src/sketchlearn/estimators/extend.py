"""What other packages build on: base classes of operators, estimators and models, and where to register them."""

from sketchlearn.estimators.base.estimator import SketchEstimator, model_attribute
from sketchlearn.estimators.base.model import FittedModel, model_array
from sketchlearn.estimators.base.state import DesignSample as DesignSample
from sketchlearn.estimators.registry import Task, register_task
from sketchlearn.features.operator import Operator
from sketchlearn.rows.source import register_reader
from sketchlearn.rows.source_base import Source

__all__ = [
    "DesignSample",
    "FittedModel",
    "Operator",
    "SketchEstimator",
    "Source",
    "Task",
    "model_array",
    "model_attribute",
    "register_reader",
    "register_task",
]
