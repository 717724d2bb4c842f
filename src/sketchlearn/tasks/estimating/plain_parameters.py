"""Parameters of estimators in model files, as far as they are words and numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sketchlearn.tasks.estimating.fitted_model import Document
from sketchlearn.values import shortened


def chosen_parameters(estimator: Any) -> Document:
    """Parameters that differ from the defaults, as far as they are words and numbers, or lists of such.

    >>> import sketchlearn as skl
    >>> chosen_parameters(skl.SketchPCA(2, bounds=(-1.0, 1.0)))
    {'bounds': [-1.0, 1.0], 'n_components': 2}
    """
    defaults, chosen = type(estimator)().get_params(deep=False), {}
    for name, value in estimator.get_params(deep=False).items():
        plain = _listed(value)
        if is_plain(plain) and plain != defaults[name]:
            chosen[name] = plain
    return chosen


def take_parameters(estimator: Any, parameters: Any) -> None:
    """Makes these the parameters, and all others that are words and numbers the defaults."""
    if not isinstance(parameters, dict) or not all(map(is_plain, parameters.values())):
        raise ValueError("parameters must be an object of words and numbers")
    if odd := sorted(parameters.keys() - estimator.get_params(deep=False).keys()):
        raise ValueError(f"a {type(estimator).__name__} has no parameter {shortened(odd[0])}")
    defaults = type(estimator)().get_params(deep=False)
    others = {name: defaults[name] for name, value in estimator.get_params(deep=False).items() if is_plain(value)}
    estimator.set_params(**(others | parameters))
    estimator.check_parameters()


def is_plain(value: Any) -> bool:
    """Whether it is a word, a number, None, or a list of such."""
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def _listed(value: Any) -> Any:
    """Arrays and tuples as lists, numbers of NumPy as Python's."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value
