"""A law in the columns' own units, after a few frequencies along the axes that tell where each column lies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.frequencies.law_base import Law
from sketchlearn.frequencies.shaped import Shaped
from sketchlearn.randomness import Floats, Stream
from sketchlearn.values import positive, shortened


@dataclass(frozen=True)
class Probed(Law):
    """Frequencies of `law` for columns divided by `units`; the first ones lie along the axes, at `probes` / `spread`.

    The probes show each column by itself: its mean and spread can be read off them, which is where a decoder begins.

    Parameters
    ----------
    law : law of all but the probes, in the units.
    units : a length per column: frequencies are divided by it.
    spread : about the standard deviation of each column.
    probes : lengths of the probes of each column, in radians per spread; none, if there should be no probes.

    Examples
    --------
    >>> from sketchlearn.frequencies import Gaussian
    >>> law = Probed(Gaussian(1.0), units=(1.0, 1000.0), spread=(3.0, 2000.0), probes=(1.0,))
    >>> law.draw(2, 4, Stream(0, "example"))[:, :2].round(4)
    array([[0.3333, 0.    ],
           [0.    , 0.0005]])
    """

    isotropic = False
    law: Law
    units: tuple[float, ...]
    spread: tuple[float, ...]
    probes: tuple[float, ...] = (0.3, 0.6, 1.2)

    def __post_init__(self) -> None:
        if not isinstance(self.law, Law) or not (self.law.isotropic or isinstance(self.law, Shaped)):
            raise ValueError(f"law must be an isotropic law or one with shapes, not {shortened(self.law)}")
        if self.law.weighted:
            raise ValueError(f"law must be one without weights, not {shortened(self.law)}")
        units, spread = _lengths("units", self.units), _lengths("spread", self.spread)
        if len(units) != len(spread):
            raise ValueError(f"there are {len(units)} units but {len(spread)} spreads: one of each per column")
        none = isinstance(self.probes, tuple | list) and not self.probes
        self._set(units=units, spread=spread, probes=() if none else _lengths("probes", self.probes))

    @property
    def in_words(self) -> str:
        return f"{self.law.in_words} with probes"

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:  # noqa: ARG002
        raise ValueError("a probed law has frequencies along axes: it cannot be part of another law")

    def draw(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        if n_features != len(self.units):
            raise ValueError(f"the law is for {len(self.units)} columns, not {n_features}")
        omega = self.law.draw(n_features, n_frequencies, stream) / np.array(self.units)[:, None]
        n = min(len(self.probes) * n_features, n_frequencies)
        omega[:, :n] = 0.0
        column = np.arange(n) % n_features
        omega[column, np.arange(n)] = np.repeat(self.probes, n_features)[:n] / np.array(self.spread)[column]
        return np.asarray(omega, np.float64)

    def widths(self, n_features: int) -> Floats | None:
        inner = self.law.widths(n_features)
        return None if inner is None else inner * np.array(self.units)

    def covariances(self, n_features: int) -> Floats:
        return self.law.covariances(n_features) * np.outer(self.units, self.units)

    def spreads(self, n_features: int) -> Floats:  # noqa: ARG002
        return np.array(self.spread)


def _lengths(name: str, given: Any) -> tuple[float, ...]:
    values = tuple(given.tolist() if isinstance(given, np.ndarray) else given) if isinstance(given, Iterable) else ()
    if not values:
        raise ValueError(f"{name} must be a list of positive numbers")
    return tuple(positive(f"each of the {name}", value) for value in values)
