"""Estimators that choose their number of clusters or components themselves, if it is "auto"."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.operators import Operator
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.choosing.cluster_choice import ClusterChoice
from sketchlearn.tasks.choosing.number_of_clusters import choose_with_rows
from sketchlearn.tasks.estimating.component_estimator import DesignedEstimator
from sketchlearn.tasks.estimating.glimpse import Glimpse
from sketchlearn.tasks.estimating.sketch_estimator import model_attribute
from sketchlearn.values import whole
from sketchlearn.weighting.clusters_of_rows import RowSample

AUTO = "auto"


@dataclass(eq=False, repr=False)
class ChosenNumber(DesignedEstimator):
    """An estimator of a number of clusters or components that is given, or "auto": then the sketch tells it."""

    _: KW_ONLY
    max_clusters: int = 20
    n_directions: int | str | None = AUTO

    #: how the number was chosen, a `ClusterChoice`; None where it was given
    choice_ = model_attribute("choice")

    @property
    @abstractmethod
    def _number(self) -> int | str:
        """The number that is asked for, or "auto"."""

    @property
    def _chooses_number(self) -> bool:
        return self._number == AUTO

    @property
    def _n_components(self) -> int:
        """How many the sketch is designed for."""
        return self.max_clusters if self._number == AUTO else self._number  # type: ignore[return-value]

    def check_parameters(self) -> None:
        if isinstance(self._number, str) and self._number != AUTO:
            raise ValueError(
                f'the number of clusters or components must be a positive whole number, or "auto", not {self._number!r}'
            )
        whole("max_clusters", self.max_clusters)
        super().check_parameters()

    def check_size(self, n_rows: int) -> None:
        if self._number != AUTO or n_rows < 1:
            super().check_size(n_rows)

    def _check_distinct(self, rows: NDArray[Any]) -> None:
        if self._number != AUTO:
            super()._check_distinct(rows)

    @property
    def _directions(self) -> int | str | None:
        """None where frequencies are needed: for decoders that are named, and to choose the number."""
        return None if self._number == AUTO or self.decoder != AUTO else self.n_directions

    def design_operator(self, glimpse: Glimpse, rng: np.random.Generator) -> Operator:
        # Gaussians of each number are tried, which takes records that touch all frequencies
        if self._number == AUTO and not self._in_cells(glimpse):
            glimpse = replace(glimpse, n_rows=None)
        return super().design_operator(glimpse, rng)

    def _chosen(
        self, sketch: Sketch, sample: RowSample | None, rng: np.random.Generator
    ) -> tuple[int, ClusterChoice | None]:
        """The number to learn, and how it was chosen."""
        if self._number != AUTO:
            return self._n_components, None
        choice = choose_with_rows(sketch, self.max_clusters, sample, rng, self._say if self.verbose else None)
        self._say(" ".join(choice.sentences))
        return choice.n_clusters, choice
