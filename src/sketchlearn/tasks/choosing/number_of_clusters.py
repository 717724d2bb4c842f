"""`choose_k`: the number of clusters, from one sketch that was designed for the largest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sketchlearn.decoders import Problem, Status, Target, cleaned, decoder_from, fit_density
from sketchlearn.decoders.densities.component_path import ComponentPath, n_affordable
from sketchlearn.decoders.densities.number_of_gaussians import number_of_gaussians
from sketchlearn.decoders.problems.decoding_target import HIGHEST_HARMONIC
from sketchlearn.kernel import one_blas_thread
from sketchlearn.models import DiagonalGaussian, Double
from sketchlearn.private_sums import require_enough_shares
from sketchlearn.progress import steps_shown
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.choosing.beyond_design import warn_beyond_design, warn_out_of_reach
from sketchlearn.tasks.choosing.cluster_choice import Basis, ClusterChoice
from sketchlearn.tasks.choosing.number_of_cell_clusters import choose_among_cells
from sketchlearn.tasks.estimating.row_samples import error_units, given_rows, kept_rows
from sketchlearn.uncertainty.sketch_influence import hidden_by_noise
from sketchlearn.values import whole
from sketchlearn.weighting.calibrated_rows import calibrated
from sketchlearn.weighting.cells_of_sketch import Cells
from sketchlearn.weighting.clusters_of_rows import RowSample
from sketchlearn.weighting.gap_statistic import MOST_ROWS, agreement_of_halves, inertia_curve

Say = Callable[[str], None]
UNSURE_DEVIATIONS = 2.0  # of a criterion: numbers of clusters within so many cannot be told apart
NUMBERS_PER_PARAMETER = 3  # of the largest mixture
RECORDS_PER_PARAMETER = 3  # With fewer, no criterion tells clusters from chance.
SIZES_BEYOND = 5  # the largest, on which k-means is tried, to see whether there are more
LEAST_ROWS = 50  # of a sample that tells more of clusters than draws of the density


def choose_k(
    sketch: Sketch,
    max_clusters: int = 20,
    sample: Any = None,
    *,
    assume_public_sample: bool = False,
    random_state: int = 0,
    progress: bool = False,
) -> ClusterChoice:
    """Says how many clusters the records of a sketch have.

    Mixtures of 1, 2, ... Gaussians are fitted to the sketch. If one explains it, the Bayesian information criterion of
    what they leave says how many there are. If none does, as in most real tables, the gap statistic of k-means says
    it, on rows where there are some, or else on draws of a density that was fitted to the sketch. Of a sketch of cells
    (more than 64 columns), Gaussians of clusters of cells tell it.

    Parameters
    ----------
    sketch : a sketch of an operator that was designed for the largest number: `design(rows, n_components=20)`. With one
        that was designed for fewer, a warning says how many it can tell.
    max_clusters : the largest number to look at.
    sample : some of the sketched rows, or rows like them. Without a sample, rows that the sketch keeps are used.
    assume_public_sample : the caller knows that the sample is public; otherwise a private release takes none.
    random_state : seed of the search.
    progress : show on standard error what is being done.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((3000, 2)) + 7 * rng.integers(0, 3, (3000, 1))
    >>> choice = skl.choose_k(skl.design(X, n_components=6).sketch(X), max_clusters=6)
    >>> choice.n_clusters, choice.basis.name
    (3, 'GAUSSIANS')
    >>> print(choice.sentences[0])
    3 clusters: a mixture of 3 Gaussians explains the sketch (misfit ..., about 1 if records are drawn from it).
    """
    if not isinstance(sketch, Sketch):
        raise TypeError(f"expected a Sketch, not {type(sketch).__name__}: sketch the rows first")
    rows = kept_rows(sketch) if sample is None else given_rows(sketch, sample, assume_public_sample)
    most, rng = whole("max_clusters", max_clusters), np.random.default_rng(random_state)
    with steps_shown(progress) as say:
        return choose_with_rows(sketch, most, rows, rng, say)


def choose_with_rows(
    sketch: Sketch, most: int, sample: RowSample | None, rng: np.random.Generator, say: Say | None = None
) -> ClusterChoice:
    """The choice from a sketch and, where there are some, rows; `say` is told what is being done."""
    require_enough_shares(sketch.ledger)
    if (cells := Cells.of(sketch)) is not None:
        with one_blas_thread():
            if cells.operator.sampled_cells is None and sample is not None and sample.complete:
                return _of_few_rows(sample.scaled_rows().rows, most, rng, say)
            return choose_among_cells(sketch, cells, most)
    choice = _of_frequencies(sketch, most, sample, rng, say)
    if choice.basis is Basis.GAUSSIANS or (choice.basis is Basis.GAP and sample is None):
        warn_beyond_design(sketch, choice.n_clusters, most)
    return choice


def _of_frequencies(
    sketch: Sketch, most: int, sample: RowSample | None, rng: np.random.Generator, say: Say | None
) -> ClusterChoice:
    target = Target.of(sketch, HIGHEST_HARMONIC)
    asked = min(most, int(np.ceil(sketch.count)))
    reach, decoder = _reach(target, asked), decoder_from("auto")
    if reach < asked:
        warn_out_of_reach(sketch, reach, most)

    def fitting(text: str) -> None:
        if say is not None:
            say(f"fitting a density to the sketch: {text}")

    with one_blas_thread():
        problem = cleaned(Problem.of(target, reach), decoder, rng, fitting)
        density, outcome = fit_density(problem, decoder, rng, fitting)
        if outcome.status is Status.HIDDEN:
            return ClusterChoice(1, reach, Basis.HIDDEN, 1, reach)
        rows = None if sample is None else _representative(sketch, sample, rng)
        agreements = () if rows is None or reach < 2 else _plain(agreement_of_halves(rows, reach, rng))
    told = int(sketch.count / (RECORDS_PER_PARAMETER * _n_parameters(target.n_features)))
    tested = min(reach, told, n_affordable(problem, DiagonalGaussian()))
    if target.released and not tested:
        return ClusterChoice(1, reach, Basis.HIDDEN, 1, reach)
    path = None
    if target.whole and target.imaginary and tested:
        # without one_blas_thread: matrices are large enough for threads
        path = number_of_gaussians(problem, density, float(sketch.count), tested, say)
        if path.explains and (path.n_components < tested or tested == reach):
            return _of_gaussians(path, reach, agreements)
    with one_blas_thread():
        if rows is None:
            n = min(MOST_ROWS, max(2, int(sketch.count)))  # more would pass for certainty
            rows = density.heavy().sample(n, rng)[0] / error_units(sketch.operator)
        choice = replace(_of_gap(rows, reach, path, rng, say), agreements=agreements)
    hidden = sample is None and hidden_by_noise(target, choice.n_clusters)
    return ClusterChoice(1, reach, Basis.HIDDEN, 1, reach) if hidden else choice


def _reach(target: Target, most: int) -> int:
    """The largest number that the sketch has numbers for; refuses a sketch that has too few for any."""
    reach = min(most, int(target.n_numbers // (NUMBERS_PER_PARAMETER * _n_parameters(target.n_features))))
    if reach < 2 <= most:
        raise ValueError(
            f"a sketch of {target.n_numbers:,.0f} numbers cannot tell two clusters from one in {target.n_features} "
            f"columns: design it for more, as with design(sample, n_components={most})"
        )
    return reach


def _n_parameters(n_features: int) -> int:
    """Of one diagonal Gaussian."""
    return DiagonalGaussian().n_parameters(1, n_features)


def _of_gaussians(path: ComponentPath, most: int, agreements: Sequence[float]) -> ClusterChoice:
    above, errors = path.criteria - path.criteria.min(), path.errors
    near = np.flatnonzero(above <= UNSURE_DEVIATIONS * errors) + 1
    k = path.n_components
    full = not isinstance(path.chosen.mixture.model, DiagonalGaussian)
    hidden = bool(path.target.released) and path.least_share > 0.5 / (k + 1)
    return ClusterChoice(
        k,
        most,
        Basis.HIDDEN if hidden else Basis.GAUSSIANS,
        min(k, *near.tolist()),
        most if hidden else max(k, *near.tolist()),
        path.misfit,
        "full" if full else "diag",
        _plain(above),
        _plain(errors),
        agreements=tuple(agreements),
    )


def _of_gap(
    rows: Double, most: int, path: ComponentPath | None, rng: np.random.Generator, say: Say | None
) -> ClusterChoice:
    curve = inertia_curve(rows, most + SIZES_BEYOND, rng, say)
    k = min(most, curve.elbow(UNSURE_DEVIATIONS))  # with one deviation, boxes of 3000 rows were sometimes cut in two
    misfit = None if path is None else path.misfit
    return ClusterChoice(
        k,
        most,
        Basis.GAP,
        k,
        min(most, max(k, curve.elbow(0.0))),
        misfit,
        criteria=_plain((curve.gaps.max() - curve.gaps)[:most]),
        criterion_errors=_plain(curve.gap_errors[:most]),
        inertias=_plain(curve.shares[:most]),
        inertia_errors=_plain(curve.share_errors[:most]),
    )


def _of_few_rows(rows: Double, most: int, rng: np.random.Generator, say: Say | None) -> ClusterChoice:
    """That of all records, where they are too few for a design of cells to tell what lies within these."""
    reach = min(most, len(rows))
    agreements = _plain(agreement_of_halves(rows, reach, rng)) if reach > 1 else ()
    return replace(_of_gap(rows, reach, None, rng, say), agreements=agreements)


def _representative(sketch: Sketch, sample: RowSample, rng: np.random.Generator) -> Double | None:
    """Rows of equal weight, in the units in which errors count: drawn by the weights that agree with the sketch."""
    rows = sample.rows
    if len(rows) < LEAST_ROWS and not sample.complete:
        return None
    weighted = rows if sample.complete else calibrated(sketch, [rows], rng)[0]
    if sample.complete and np.allclose(weighted.weights, 1 / len(rows)):
        chosen = np.arange(len(rows))
    else:  # systematic, and no more than count: rows that come again would pass for certainty
        n = max(1, min(MOST_ROWS, int(weighted.effective_size)))
        at = (rng.random() + np.arange(n)) / n * weighted.weights.sum()
        chosen = np.minimum(np.searchsorted(np.cumsum(weighted.weights), at), len(rows) - 1)
    return np.asarray(weighted.rows[chosen] / sample.units)


def _plain(numbers: Double) -> tuple[float, ...]:
    return tuple(numbers.tolist())
