"""What a sketch can answer: each operator declares its abilities, and whatever needs one asks for it here."""

from __future__ import annotations

from enum import Enum

from sketchlearn.core.errors import InvalidValueError, called, either
from sketchlearn.sketch.sums import Sketch


class Ability(Enum):
    """A kind of answers: the features that give them, what is learned from those, and the task of a design for it."""

    CLUSTERS = "Fourier features or cells", "clusters"
    MIXTURES = "Fourier features or expected statistics", "mixtures", "mixture"
    COMPARISONS = "Fourier features", "comparisons of two sketches"
    DENSITIES = "Fourier features", "densities"
    MARGINALS = "histograms", "marginal distributions"
    PROFILES = "cells", "profiles of clusters"
    MOMENTS = "second moments", "principal components, regressions and classes"
    PROJECTED_COMPONENTS = "random projections beside column moments", "a few principal components", "moments"
    INDEPENDENT_COMPONENTS = "second moments beside cumulant features", "independent components", "ica"
    SUBSPACES = "fourth moments", "subspace clusters", "subspaces"
    KERNEL_REGRESSIONS = "features' products with the target", "kernel regressions", "kernel"

    def __init__(self, features: str, answers: str, task: str | None = None) -> None:
        self.features, self.answers, self.task = features, answers, task

    @property
    def made(self) -> str:
        """How a sketch with this ability is made."""
        if self is Ability.MOMENTS:
            return either("skl.features.SecondMoments", "sketchlearn design --task moments")
        given: dict[str, object] = {"task": self.task} if self.task else {"n_components": 10}
        return called("skl.design", "sample", **given)


def part_with(sketch: Sketch, ability: Ability) -> Sketch | None:
    """The sketch itself, or the first part of a concatenated one, with this ability; None if there is none."""
    return next((part for part in sketch.operator.leaves(sketch) if ability in part.operator.abilities), None)


def needed_part(sketch: Sketch, ability: Ability, task: str) -> Sketch:
    """The same: refuses, for a task, a sketch without the ability, or without records."""
    part = part_with(sketch, ability)
    if part is None:
        found = either(f"is of {type(sketch.operator).__name__}", "has none")
        raise InvalidValueError(f"{task} needs a sketch of {ability.features} ({ability.made}), but the sketch {found}")
    if not part.units:
        raise ValueError("the sketch is empty: add records before learning from it")
    return part
