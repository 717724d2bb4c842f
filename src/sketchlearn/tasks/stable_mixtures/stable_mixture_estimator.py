"""Mixtures of symmetric alpha-stable laws from a sketch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.decoders import Problem, Target, decoder_from
from sketchlearn.decoders.densities.gaussian_mixture_fit import MixtureFit
from sketchlearn.decoders.problems.decoding_target import HIGHEST_HARMONIC
from sketchlearn.decoders.refinements.goodness_of_fit import FitTest
from sketchlearn.models import IndependentStable, Mixture, SymmetricStable
from sketchlearn.plain_digits import counted, in_digits
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.estimating.component_estimator import largest_first
from sketchlearn.tasks.estimating.fitted_model import Double, model_array, word
from sketchlearn.tasks.estimating.fitted_state import FittedState
from sketchlearn.tasks.estimating.mixture_estimator import FittedMixture, SketchMixture
from sketchlearn.tasks.estimating.sketch_estimator import model_attribute
from sketchlearn.tasks.stable_mixtures.stable_mixture_fit import fit_stable
from sketchlearn.uncertainty.error_bars import ErrorBars
from sketchlearn.uncertainty.stable_errors import stable_errors
from sketchlearn.weighting.calibrated_rows import calibrated
from sketchlearn.weighting.clusters_of_rows import RowSample
from sketchlearn.weighting.mixture_likelihood import log_densities
from sketchlearn.weighting.weighted_medians import start_from_rows

LAWS = {"elliptical": SymmetricStable, "independent": IndependentStable}


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedStableLaws(FittedMixture):
    """A mixture of stable laws, of one kind of coordinates."""

    scales: Double = model_array("k", "d")
    alphas: Double = model_array("k")
    coordinates: str = word(*LAWS)

    @classmethod
    def of(cls, fit: MixtureFit) -> FittedStableLaws:
        """What was fitted, in the units of the data."""
        mixture = fit.mixture.some(largest_first(fit.mixture.weights))
        return cls(
            weights=mixture.weights,
            means=mixture.locations,
            scales=np.sqrt(mixture.shapes[:, :-1]),
            alphas=mixture.shapes[:, -1],
            coordinates="independent" if isinstance(mixture.model, IndependentStable) else "elliptical",
            fit_test=fit.test.figure,
            fit_p_value=fit.test.p_value,
            outcome=fit.outcome,
            density=mixture,
        )

    def restored_density(self) -> Mixture:
        shapes = np.column_stack([self.scales**2, self.alphas])
        return Mixture(LAWS[self.coordinates](), self.weights, self.means, shapes)

    def check(self) -> None:
        super().check()
        if np.any(self.scales <= 0) or np.any((self.alphas < 0.5) | (self.alphas > 2)):
            raise ValueError("scales must be positive, and alphas from 0.5 to 2")


@dataclass(eq=False, repr=False)
class SketchStableMixture(SketchMixture):
    """A mixture of symmetric alpha-stable laws: bell shapes whose tails may be so heavy that they have no variance.

    Their densities have no closed form, but their characteristic functions have, and a sketch is made of those. Each
    component has its own center, scales and alpha. Its coordinates share the size of their jumps (elliptical laws);
    where the sketch contradicts that, they are independent of each other.

    Parameters
    ----------
    n_components : number of components.
    decoder, n_frequencies, wave, random_state, n_jobs, device, verbose, schema : as in `SketchGaussianMixture`.

    Attributes
    ----------
    weights_, means_ : arrays (n_components,) and (n_components, columns); the means are centers of symmetry. The
        component of the largest weight is 0.
    scales_ : array (n_components, columns): standard deviations, if alpha were 2.
    alphas_ : array (n_components,), between 0.5 and 2; 2 is Gaussian, 1 is Cauchy.
    coordinates_ : "elliptical" or "independent", the kind of law that the sketch looks like.
    standard_errors_ : of "weights_", "means_" and "scales_", by these names (see `intervals`). Those of "alphas_" are
        withheld.
    fit_test_, fit_p_value_ : as in `SketchGaussianMixture`: 1 on average if the rows come from such a mixture, and how
        likely a larger one is then. Above 2, if that is no chance, a warning is given.
    sketch_, outcome_ : the sketch, and how decoding went.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_cauchy((20000, 1)) + 5
    >>> mixture = skl.SketchStableMixture(1, random_state=0).fit(X)
    >>> mixture.means_.round(1).tolist(), mixture.alphas_.round(1).tolist()
    ([[5.0]], [1.0])
    """

    model_type = FittedStableLaws
    scales_ = model_attribute("scales")
    alphas_ = model_attribute("alphas")
    coordinates_ = model_attribute("coordinates")

    @property
    def _task(self) -> str:
        return "stable"

    def learn_from_sketch(
        self, sketch: Sketch, rng: np.random.Generator, sample: RowSample | None = None
    ) -> FittedStableLaws:
        sample = self._sample(sketch, sample)
        self._check_determined(sketch, sample, self.n_components)
        problem = Problem.of(Target.of(sketch, HIGHEST_HARMONIC), self.n_components)
        known = None
        if sample is not None:
            rows = sample.rows if sample.complete else calibrated(sketch, [sample.rows], rng)[0]
            suggested = start_from_rows(rows.rows, rows.weights, self.n_components, rng)
            known = suggested if len(suggested) == self.n_components else None
        fit = fit_stable(problem, decoder_from(self.decoder), rng, self._say if self.verbose else None, known)
        if not fit.test.passes:
            warn_caller(
                f"the sketch does not look like one of {counted(self.n_components, 'stable law')} (fit test "
                f"{in_digits(fit.test.figure, 3)}, about 1 if it did): try more components",
                ConvergenceWarning,
            )
        return FittedStableLaws.of(fit)

    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:
        model = state.model
        return stable_errors(state.sketch, model.density, FitTest(model.fit_test, model.fit_p_value).passes, rng)

    def _log_densities(self, rows: Double) -> Double:
        return log_densities(rows, self.fitted_model().density)
