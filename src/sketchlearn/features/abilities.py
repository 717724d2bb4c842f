"""What a sketch can answer: each operator declares its abilities, and whatever needs one asks for it here."""

from __future__ import annotations

from enum import Enum

from sketchlearn.core.errors import InvalidValueError, called, either
from sketchlearn.sketch.sums import Sketch


class Ability(Enum):
    """A kind of answers; its value is the features that give them, and what is learned from those."""

    CLUSTERS = "Fourier features or cells", "clusters"
    MIXTURES = "Fourier features or expected statistics", "mixtures"
    COMPARISONS = "Fourier features", "comparisons of two sketches"
    DENSITIES = "Fourier features", "densities"
    MARGINALS = "histograms", "marginal distributions"
    PROFILES = "cells", "profiles of clusters"
    MOMENTS = "second moments", "principal components, regressions and classes"
    PROJECTED_COMPONENTS = "random projections beside column moments", "a few principal components"
    INDEPENDENT_COMPONENTS = "second moments beside cumulant features", "independent components"
    SUBSPACES = "fourth moments", "subspace clusters"
    KERNEL_REGRESSIONS = "features' products with the target", "kernel regressions"

    @property
    def answers(self) -> str:
        """What is learned from a sketch with this ability."""
        found: str = self.value[1]
        return found

    @property
    def made(self) -> str:
        """How a sketch with this ability is made."""
        task = _TASKS.get(self)
        if self is Ability.MOMENTS:
            return either("skl.features.SecondMoments", "sketchlearn design --task moments")
        given: dict[str, object] = {"n_components": 10} if task is None else {"task": task}
        return called("skl.design", "sample", **given)


_TASKS = {
    Ability.MIXTURES: "mixture",
    Ability.PROJECTED_COMPONENTS: "moments",
    Ability.INDEPENDENT_COMPONENTS: "ica",
    Ability.SUBSPACES: "subspaces",
    Ability.KERNEL_REGRESSIONS: "kernel",
}


def part_with(sketch: Sketch, ability: Ability) -> Sketch | None:
    """The sketch itself, or the first part of a concatenated one, with this ability; None if there is none."""
    return next((part for part in sketch.operator.leaves(sketch) if ability in part.operator.abilities), None)


def needed_part(sketch: Sketch, ability: Ability, task: str) -> Sketch:
    """The same: refuses, for a task, a sketch without the ability, or without records."""
    part = part_with(sketch, ability)
    if part is None:
        found = either(f"is of {type(sketch.operator).__name__}", "has none")
        raise InvalidValueError(f"{task} needs a sketch of {ability.value[0]} ({ability.made}), but the sketch {found}")
    if not part.units:
        raise ValueError("the sketch is empty: add records before learning from it")
    return part
