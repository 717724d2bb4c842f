"""The table of tasks, which the package, files, `info` and the command line read.

Estimators are imported when they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

ENTRY_POINTS = "sketchlearn.tasks"  # the group of those that other packages bring


@dataclass(frozen=True)
class Task:
    """What can be learned from sketches.

    Parameters
    ----------
    name : in model files, and after `sketchlearn fit`.
    title : what is learned, in plain words.
    estimator : the class that learns it.
    home : the module that has the class.
    """

    name: str
    title: str
    estimator: str
    home: str

    def load(self) -> Any:
        return getattr(import_module(self.home), self.estimator)


_tasks: dict[str, Task] = {
    name: Task(name, title, estimator, f"sketchlearn.estimators.{module}")
    for name, title, estimator, module in (
        ("kmeans", "k-means", "SketchKMeans", "clusters.estimators"),
        ("kmedians", "k-medians", "SketchKMedians", "clusters.estimators"),
        ("gmm", "mixture of Gaussians", "SketchGaussianMixture", "gaussian_mixture"),
        ("stable", "mixture of stable laws", "SketchStableMixture", "stable_mixture"),
        ("generator", "network that generates rows", "SketchGenerator", "generators.estimator"),
        ("pca", "principal components", "SketchPCA", "principal_components"),
        ("ica", "independent components", "SketchICA", "independent_components"),
        ("subspaces", "subspace clusters", "SketchSubspaces", "subspaces"),
        ("regression", "linear regression", "SketchLinearRegression", "linear_regression"),
        ("ridge", "ridge regression", "SketchRidge", "linear_regression"),
        ("kernel", "kernel regression", "SketchKernelRegressor", "kernel_regression"),
        ("classifier", "classes", "SketchClassifier", "classifier"),
    )
}
OWN_ESTIMATORS = {task.estimator: task for task in _tasks.values()}
#: what operators are designed for, and whether the number of components must be known for it
DESIGNS = {
    "kmeans": True,
    "mixture": True,
    "mixture-full": True,
    "stable": True,
    "histograms": True,
    "generator": False,
    "moments": False,
    "kernel": False,
    "ica": False,
    "subspaces": False,
}


def register_task(task: Task) -> None:
    """Adds a task of another package, or of a script; a name that is taken is refused.

    Packages do it by an entry point of the group "sketchlearn.tasks" that is a `Task`, and need no call.
    """
    if _tasks.get(task.name, task) != task:
        raise ValueError(f"there is a task {task.name!r} already: choose another name")
    _tasks[task.name] = task


@cache
def _load_entry_points() -> None:
    from importlib.metadata import entry_points  # takes longer to import than all else here

    for point in entry_points(group=ENTRY_POINTS):
        register_task(point.load())


def tasks() -> dict[str, Task]:
    """All tasks by name, those of other packages included."""
    _load_entry_points()
    return dict(_tasks)


def foreign_tasks() -> dict[str, Task]:
    return {name: task for name, task in tasks().items() if task.estimator not in OWN_ESTIMATORS}


def designs() -> dict[str, bool]:
    """What operators can be designed for; other packages' tasks under their own names."""
    return DESIGNS | dict.fromkeys(foreign_tasks(), False)


def task_of(estimator: Any) -> Task:
    for task in tasks().values():
        if task.estimator == type(estimator).__name__ and type(estimator) is task.load():
            return task
    known = ", ".join(task.estimator for task in tasks().values())
    raise TypeError(f"a {type(estimator).__name__} cannot be saved: only {known} can")
