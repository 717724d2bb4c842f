"""Independent components from a sketch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.operators import Operator
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.column_ranges import keeping_rows
from sketchlearn.tasks.estimating.fitted_state import FittedState
from sketchlearn.tasks.estimating.glimpse import Glimpse
from sketchlearn.tasks.estimating.linear_coordinates import LinearCoordinates
from sketchlearn.tasks.estimating.sketch_estimator import model_attribute
from sketchlearn.tasks.independent_components.cumulant_design import cumulant_features
from sketchlearn.tasks.independent_components.independent_errors import independent_errors
from sketchlearn.tasks.independent_components.independent_fit import Independent, independent_components
from sketchlearn.uncertainty.error_bars import ErrorBars


@dataclass(eq=False, repr=False)
class SketchICA(LinearCoordinates):
    """Independent components from one pass over the rows, or from a sketch alone.

    The rows are taken for mixtures x = mixing s + mean of independent sources s. The sketch holds second moments, and
    k^2 + 2 k generalised cumulants of k components that a sample tells roughly.

    Parameters
    ----------
    n_components : number of components; None means as many as directions in which the sample varies.
    bounds : lowest and highest value of each column, as in `SketchPCA`.
    random_state : seed of the sample, and of the starts of the search for its components.
    n_jobs, device, verbose, schema : as in `SketchKMeans`.

    Attributes
    ----------
    components_ : array (n_components, columns): s = components_ (x - mean_), the least Gaussian first.
    mixing_ : array (columns, n_components), the pseudo-inverse of components_.
    mean_ : of each column.
    standard_errors_ : of "components_", "mixing_" and "mean_", by these names (see `intervals`), whatever the sources'
        laws, from 4000 rows that `fit` keeps beside the sketch, or a sketch of a design with rows; without rows there
        are none. NaN for components that may be Gaussian, where there are several.
    whitening_ : array (n_components, columns), of which components_ is a rotation.
    evidence_ : of each component, one over the standard error of its angle towards a Gaussian one, in radians. Below
        12 it may be Gaussian itself.
    sketch_ : the sketch; it can be saved, merged, updated and given to `fit_sketch`.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> sources = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    >>> ica = skl.SketchICA(random_state=0).fit(sources @ [[1.0, 2.0], [1.0, -1.0]])
    >>> found = np.abs(ica.components_ @ [[1.0, 1.0], [2.0, -1.0]])  # of each source, in deviations of 1 / sqrt(3)
    >>> np.sort(found / np.sqrt(3), axis=1).round(1).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """

    model_type = Independent
    mixing_ = model_attribute("mixing")
    whitening_ = model_attribute("whitening")
    evidence_ = model_attribute("evidence")
    kind_of_components = "independent"

    def design_operator(self, glimpse: Glimpse, rng: np.random.Generator) -> Operator:
        if not len(glimpse.rows):
            raise ValueError("there are no rows")
        self.check_components(glimpse.rows.shape[1])
        return keeping_rows(cumulant_features(glimpse, rng, self.n_components, self.bounds), glimpse)

    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator) -> Independent:
        found = independent_components(sketch, rng, self._say if self.verbose else None)
        if self.n_components is not None and self.n_components != len(found.components):
            raise ValueError(
                f"the sketch's operator is for {len(found.components)} components, not n_components={self.n_components}"
            )
        for doubt in _doubts(found, everything=self.n_components is None):
            warn_caller(doubt)
        self._say(f"{len(found.components)} components, evidence {found.evidence.round(1)}")
        return found

    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:
        return independent_errors(state.sketch, state.model, rng)


def _doubts(found: Independent, *, everything: bool) -> Iterator[str]:
    """What may be wrong with the components."""
    k, alike = len(found.components), len(found.alike)
    if alike > 1:
        yield (
            f"{alike} of {k} components may be Gaussian, and such cannot be told from mixtures of each other: give "
            "more rows, or use the others alone"
        )
    if found.far:
        yield (
            "the components are far from those that the operator was designed for, and may be rough: design it on rows "
            "from all over the data"
        )
    if found.missed and everything:
        yield (
            "the rows vary in directions in which those that the operator was designed on did not, and these are left "
            "out: design it on rows from all over the data"
        )
