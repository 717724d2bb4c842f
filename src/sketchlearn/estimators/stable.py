"""Mixtures of symmetric alpha-stable laws from a sketch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from sketchlearn.decoders import Decoder, Outcome, Problem, Target, cleaned, decoder_from, fit_density
from sketchlearn.decoders.merging import merge_components
from sketchlearn.decoders.mixtures import with_components
from sketchlearn.decoders.refinement import refine
from sketchlearn.estimators.base import Double
from sketchlearn.estimators.density import SketchMixture
from sketchlearn.models import Mixture, SymmetricStable
from sketchlearn.models.stable import one_sided
from sketchlearn.sketch import Sketch
from sketchlearn.waves import Wave

ITERATIONS = 500
NODES = 200  # per axis, of the average that gives a stable density


@dataclass
class StableFit:
    """The mixture in the units of the data, and how decoding went."""

    mixture: Mixture
    outcome: Outcome


class SketchStableMixture(SketchMixture):
    """A mixture of symmetric alpha-stable laws: bell shapes whose tails may be so heavy that they have no variance.

    Their densities have no closed form, but their characteristic functions have, and a sketch is made of those.

    Parameters
    ----------
    n_components : number of components.
    decoder, n_frequencies, wave, random_state, n_jobs, verbose : as in `SketchGaussianMixture`.

    Attributes
    ----------
    weights_, means_ : arrays (n_components,) and (n_components, columns); the means are centers of symmetry.
    scales_ : array (n_components, columns): standard deviations, if alpha were 2.
    alphas_ : array (n_components,), between 0.5 and 2; 2 is Gaussian, 1 is Cauchy.
    sketch_, outcome_ : the sketch, and how decoding went.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_cauchy((20000, 1)) + 5
    >>> mixture = skl.SketchStableMixture(1, random_state=0).fit(X)
    >>> mixture.means_.round(1).tolist(), mixture.alphas_.round(1).tolist()
    ([[5.0]], [1.0])
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        decoder: str | Decoder = "auto",
        n_frequencies: int | None = None,
        wave: str | Wave = "exponential",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.decoder = decoder
        self.n_frequencies = n_frequencies
        self.wave = wave
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def _task(self) -> str:
        return "stable"

    def _learn(self, sketch: Sketch, rng: np.random.Generator) -> StableFit:
        problem = Problem.of(Target.of(sketch), self.n_components)
        progress = self._say if self.verbose else None
        decoder = decoder_from(self.decoder)
        problem = cleaned(problem, decoder, rng, progress)
        density, outcome = fit_density(problem, decoder, rng, progress)
        density = with_components(density, self.n_components)
        merged = merge_components(density.weights, density.locations, density.covariances(), self.n_components)
        start = problem.in_own_units(SymmetricStable(), *merged)
        # tails of a stable law are found as wide components: begin with what is narrow
        start = replace(start, shapes=np.column_stack([np.minimum(start.shapes[:, :-1], 1.0), start.shapes[:, -1]]))
        mixture, _, _ = refine(problem.plain, start, problem.box, iterations=ITERATIONS, tolerance=1e-9)
        mixture = replace(mixture, weights=mixture.weights / mixture.weights.sum())
        alphas = mixture.shapes[:, -1]
        whole = problem.in_data_units(mixture)
        return StableFit(replace(whole, shapes=np.column_stack([whole.shapes[:, :-1], alphas])), outcome)

    @property
    def scales_(self) -> Double:
        return np.asarray(np.sqrt(self._mixture.shapes[:, :-1]))

    @property
    def alphas_(self) -> Double:
        return self._mixture.shapes[:, -1]

    def _log_densities(self, rows: Double) -> Double:
        parts = zip(self.means_, self.scales_, self.alphas_, strict=True)
        return np.stack([_log_density((rows - c) / s, a) - np.sum(np.log(s)) for c, s, a in parts], axis=1)


def _log_density(standard: Double, alpha: float) -> Double:
    """Log-density at rows of unit scales: Gaussian densities averaged over the one-sided stable variance, tabulated."""
    d = standard.shape[1]
    radius = np.linalg.norm(standard, axis=1)
    if alpha >= 2 - 1e-9:
        return np.asarray(-0.5 * radius**2 - 0.5 * d * np.log(2 * np.pi))
    grid = (np.arange(NODES) + 0.5) / NODES
    variance = one_sided(alpha, *(axis.ravel() for axis in np.meshgrid(grid, grid)))
    # beyond most of the variances there are too few nodes, but the density is a power law
    far = float(np.sqrt(np.quantile(variance, 0.999)))
    at = np.concatenate([[0.0], np.geomspace(1e-3 * far, far, NODES)])
    inside = -0.5 * at[:, None] ** 2 / variance - 0.5 * d * np.log(2 * np.pi * variance)
    table = logsumexp(inside, axis=1) - np.log(len(variance))
    near = np.interp(np.log1p(radius), np.log1p(at), table)
    return np.where(radius <= far, near, table[-1] - (d + alpha) * np.log(np.maximum(radius, far) / far))
