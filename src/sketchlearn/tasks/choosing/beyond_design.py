"""What to say where more clusters are asked for than a sketch was designed for.

A design for k clusters of d columns has about 10 k d frequencies. Mixtures of more clusters, up to three times as many,
can be fitted to them, but little is left then that would show a wrong one.
"""

from __future__ import annotations

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.decoders.problems.decoding_target import fourier_part
from sketchlearn.designing.cluster_operators import clusters_resolved
from sketchlearn.sketch import Sketch


def warn_out_of_reach(sketch: Sketch, reach: int, most: int) -> None:
    """Warns that larger numbers than `reach` are not looked at."""
    warn_caller(f"numbers of clusters above {reach} are not looked at: {_design(sketch)[1]}; {_remedy(sketch, most)}")


def warn_beyond_design(sketch: Sketch, n_clusters: int, most: int) -> None:
    """Warns of a number that is larger than that of the design."""
    designed, words = _design(sketch)
    if n_clusters > designed:
        warn_caller(
            f"{n_clusters} clusters are more than such a sketch is designed for, and uncertain: {words}; "
            f"{_remedy(sketch, most)}"
        )


def _design(sketch: Sketch) -> tuple[int, str]:
    """For about how many clusters a design has the frequencies of the sketch, and that in words."""
    operator = fourier_part(sketch)[1]
    designed = clusters_resolved(operator.n_frequencies, operator.n_features, operator.wave)
    clusters = "one cluster" if designed == 1 else f"{designed} clusters"
    return designed, f"the sketch has {operator.n_frequencies:,} frequencies, as a design for about {clusters} has"


def _remedy(sketch: Sketch, most: int) -> str:
    if sketch.ledger is not None:
        return f"to tell more, design for more of them (n_components={most}) and release with less noise"
    return f"to tell more, sketch with design(sample, n_components={most})"
