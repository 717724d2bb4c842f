"""What a generator has learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sketchlearn.tasks.estimating.fitted_model import Document, Double, FittedModel


@dataclass(frozen=True, eq=False)
class Generation(FittedModel):
    """A network that matches, and the classes that it makes rows of. The network's weights are not among its fields."""

    match: Any
    labels: tuple[Any, ...] | None  # in the order that the network knows them; None without labels
    shares: Double

    def to_fields(self) -> Document:
        match = self.match
        if self.labels is not None and not all(isinstance(label, str | int | float) for label in self.labels):
            raise TypeError("generators can be saved if their labels are words or numbers")
        return {
            "labels": None if self.labels is None else list(self.labels),
            "shares": self.shares.tolist(),
            "means": [place.mean.tolist() for place in match.places],
            "deviations": [place.deviations.tolist() for place in match.places],
            "n_latent": match.n_latent,
            "residual": match.residual,
            "misfit": match.misfit,
            "curve": list(match.curve),
            "iterations": match.iterations,
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Generation) or not super().__eq__(other):
            return False
        weights, others = self.match.network.state_dict(), other.match.network.state_dict()
        return weights.keys() == others.keys() and all(bool((weights[key] == others[key]).all()) for key in weights)

    __hash__ = None
