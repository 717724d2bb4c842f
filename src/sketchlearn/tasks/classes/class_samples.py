"""Labelled rows that a classifier's operator is designed on, as its rule sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn import kernel
from sketchlearn.designing.direction_operators import in_directions
from sketchlearn.designing.sample_summary import Sampled
from sketchlearn.models import Double, Single
from sketchlearn.operators import Operator, SomeDirections
from sketchlearn.operators.bounded_operators import CLIP, REFUSE
from sketchlearn.operators.origin import Origin
from sketchlearn.tasks.classes.class_directions import ClassDirections

MOST_LOCAL_DIRECTIONS = 16  # Windows, kernels and mixtures of several Gaussians make more errors in more directions.


@dataclass(frozen=True)
class ClassSample:
    """Rows as they are, or their places in some directions, and the codes of their classes."""

    rows: Double
    codes: NDArray[np.int64]
    representative: bool
    columns: tuple[str, ...] | None
    box: Callable[[], tuple[Double, Double]]  # a center, and how far from it values may lie
    directions: SomeDirections | None = None

    @property
    def outside(self) -> str:
        """What becomes of values beyond the box."""
        return REFUSE if self.directions is None else CLIP

    def operator(self, inner: Operator) -> Operator:
        """For rows, an operator of what the rule sees of them."""
        return inner if self.directions is None else self.directions.with_inner(inner).with_origin(Origin.SAMPLE)

    def in_directions(self, n_directions: int | None, seed: int) -> tuple[ClassSample, ClassSample]:
        """The places of rows, in so many directions or as many as rows left out choose; and the same in few."""
        ways = ClassDirections.of(self.rows, self.codes, n_directions, seed)
        return self._seen(*ways.best()), self._seen(*ways.best(MOST_LOCAL_DIRECTIONS))

    def _seen(self, directions: Single, units: Double) -> ClassSample:
        operator = in_directions(Sampled(self.rows, self.representative, self.columns), directions, units)
        center, reach = np.zeros(len(directions)), np.array(operator.inner.bound)  # type: ignore[attr-defined]
        places = operator.mapped(self.rows, kernel.n_threads(None))
        return ClassSample(places, self.codes, self.representative, None, lambda: (center, reach), operator)
