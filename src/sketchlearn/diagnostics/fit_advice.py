"""Advice as numbers: whether one component more would explain the sketch better, and how many records errors take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtrc

from sketchlearn.decoders import Outcome, Problem, Status
from sketchlearn.decoders.densities.component_path import n_affordable
from sketchlearn.decoders.densities.number_of_gaussians import number_of_gaussians
from sketchlearn.decoders.searches.search_loop import EXPLAINED
from sketchlearn.kernel import one_blas_thread
from sketchlearn.models import DiagonalGaussian, Dirac, Mixture
from sketchlearn.plain_digits import in_digits
from sketchlearn.uncertainty.fisher_bound import errors_over_bound
from sketchlearn.uncertainty.sketch_influence import in_own_units

MOST_COMPONENTS, SPARE = 20, 4  # that are looked at, of twice as many as were asked for and some more
LEAST_P_VALUE = 1e-6  # of what one component more explains by chance
CLEARLY_OVER = 1.01  # errors beside those of all rows: less is nothing, and within the error of draws
CENTERS = ("cluster_centers_", "means_")


@dataclass(frozen=True)
class Advice:
    """What numbers say of the number of components and of the errors of a fit.

    Attributes
    ----------
    n_components : the number that was asked for.
    gain, freedom : what one component more explains, a chi-square with so many degrees of freedom; 0 where it cannot be
        told: few numbers, many components, one-bit or subsampled sketches.
    enough : how many Gaussians explain the sketch, by BIC, if that many do.
    worst_error, attribute : the largest standard error of centers or means, if it is known.
    over_bound : errors of means over those that all rows would leave, where a mixture explains the sketch.
    """

    n_components: int
    n_records: float
    gain: float = 0.0
    freedom: int = 0
    enough: int | None = None
    worst_error: float = 0.0
    attribute: str = ""
    over_bound: float | None = None

    @classmethod
    def of(cls, problem: Problem, outcome: Outcome, n_records: float, fitted: Any) -> Advice:
        """That of a mixture, in the problem's units, which was fitted to a sketch; and of a model, if there is one."""
        gain, freedom, enough, explaining = _next_component(problem, outcome.mixture, n_records)
        errors = fitted.error_bars().standard_errors if hasattr(fitted, "error_bars") else {}
        name = next((name for name in CENTERS if name in errors), "")
        worst = float(np.nanmax(errors[name])) if name else 0.0
        if name == "means_" and outcome.status is Status.EXPLAINED:
            explaining = in_own_units(problem, fitted.fitted_model().density)
        over = None if explaining is None else errors_over_bound(problem, explaining, np.random.default_rng(0))
        return cls(problem.n_components, n_records, gain, freedom, enough, worst, name, over)

    @property
    def too_few(self) -> bool:
        """Whether more Gaussians than were asked for explain the sketch."""
        return self.enough is not None and self.enough > self.n_components

    def sentences(self, *, frequencies_suffice: bool) -> list[str]:
        """What the numbers say; that more frequencies would bring little, only where nothing else asks for them."""
        said = []
        price = self.freedom * np.log(self.n_records)
        if self.freedom > 0 and self.gain > price and chdtrc(self.freedom, self.gain) < LEAST_P_VALUE:
            more = f"a mixture of {self.n_components + 1} Gaussians explains more of the sketch than one of"
            said.append(
                f"Measured more finely, by the covariance of its noise, {more} {self.n_components}: a chi-square of "
                f"{in_digits(self.gain, 3)} with {self.freedom} degrees of freedom."
            )
        if self.enough is not None and self.enough < self.n_components:
            said.append(f"A mixture of {self.enough} explains the sketch as well as one of {self.n_components}.")
        if self.worst_error > 0:
            said.append(
                f"Standard errors of {self.attribute} are at most {in_digits(self.worst_error, 2)}; half of that takes "
                f"{in_digits(4 * self.n_records, 2)} records like these."
            )
        if self.over_bound is not None and frequencies_suffice:
            over, what = in_digits(self.over_bound, 3), f"Errors of means of a mixture of {self.n_components}"
            said.append(
                f"{what} are about {over} times those that all rows would give: more frequencies would bring at most "
                "that."
                if self.over_bound >= CLEARLY_OVER
                else f"{what} are those that all rows would give: more frequencies would bring nothing."
            )
        return said

    @property
    def remedy(self) -> str:
        """What to do about too few components."""
        fewer = "one does not" if self.n_components == 1 else f"{self.n_components} do not"
        return (
            f"{self.enough} Gaussians explain the sketch, and {fewer}: ask for more components, unless fewer clusters "
            "are the purpose."
        )


def _next_component(
    problem: Problem, mixture: Mixture, n_records: float
) -> tuple[float, int, int | None, Mixture | None]:
    """What one component more explains, how many are enough, and a mixture of those, if they are as many as asked."""
    k = problem.n_components
    most = min(2 * k + SPARE, MOST_COMPONENTS, n_affordable(problem, DiagonalGaussian()))
    if k > most - 1 or not problem.plain.whole:
        return 0.0, 0, None, None
    if isinstance(mixture.model, Dirac):  # points: a path begins with Gaussians around them
        mixture = replace(problem.start, weights=mixture.weights, locations=mixture.locations)
    with one_blas_thread():
        path = number_of_gaussians(problem, problem.in_data_units(mixture).heavy(), n_records, most)
    enough = path.n_components if path.explains else None
    explaining = path.chosen.mixture if enough == k else None
    if len(path.fits) <= k:  # where few components are enough, the path ends early
        return 0.0, 0, enough, explaining
    few, more = path.fits[k - 1], path.fits[k]
    return max(few.residual - more.residual, 0.0), more.n_parameters - few.n_parameters, enough, explaining


def what_explains(n_components: int, n_clusters: int) -> str:
    """What explains a sketch, in words.

    >>> what_explains(2, 2), what_explains(6, 2)
    ('the mixture explains', 'a mixture of 6 components, of which the 2 clusters are made, explains')
    """
    if n_components <= n_clusters:
        return "the mixture explains"
    made = "the cluster is" if n_clusters == 1 else f"the {n_clusters} clusters are"
    return f"a mixture of {n_components} components, of which {made} made, explains"


def findings(f: dict[str, float]) -> list[str]:
    """What the figures of a fit say, one sentence each."""
    of_release = f", {f['released']:.0%} of its power from the private release" if f["released"] else ""
    notes = [
        f"The sketch has {f['numbers']:.0f} real numbers for {f['parameters']:.0f} parameters.",
        f"Its values have root mean square {in_digits(f['rms'], 2)}; {f['at_noise']:.0%} of them are at the sampling "
        f"noise {in_digits(f['noise'], 2)}{of_release}.",
    ]
    if "risk_ratio" in f:
        cost = f"; refined from k-means, the cost is {in_digits(f['reference_cost_ratio'], 3)} times the learned one"
        notes.append(
            "On the given rows, the mean squared distance to the learned centers is "
            f"{in_digits(f['risk_ratio'], 3)} times that of k-means{cost if f['misfit'] > EXPLAINED else ''}."
        )
    return notes
