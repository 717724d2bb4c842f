"""From a sketch to parameters: one algorithm per file, one common loop."""

from sketchlearn.decoders.densities.density_from_sketch import cleaned, fit_density, pooled_density
from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.decoders.refinements.reduction_to_points import centroids
from sketchlearn.decoders.searches.dirac_pursuit import DiracOmpr
from sketchlearn.decoders.searches.genetic_search import Genetic
from sketchlearn.decoders.searches.hierarchical_splitting import HierarchicalSplitting
from sketchlearn.decoders.searches.matching_pursuit import ClOmpr
from sketchlearn.decoders.searches.mean_shift import SketchAndShift
from sketchlearn.decoders.searches.message_passing import ClAmp
from sketchlearn.decoders.searches.search_loop import Decoder, Outcome, Status, decode
from sketchlearn.values import shortened

#: decoders by name; docs/decoders.md says when to use which
NAMED: dict[str, Decoder] = {
    "auto": ClOmpr(other=ClAmp()),
    "ompr": ClOmpr(),
    "splitting": HierarchicalSplitting(),
    "shift": SketchAndShift(),
    "amp": ClAmp(),
    "genetic": Genetic(),
    "dirac-ompr": DiracOmpr(),
    "dirac-omp": DiracOmpr(replacement=False),
}


def decoder_from(decoder: str | Decoder) -> Decoder:
    """The decoder itself, or the one with this name."""
    if isinstance(decoder, Decoder):
        return decoder
    if isinstance(decoder, str) and decoder in NAMED:
        return NAMED[decoder]
    raise ValueError(f"decoder must be one of {', '.join(NAMED)}, or a Decoder, not {shortened(decoder)}")


__all__ = [
    "NAMED",
    "ClAmp",
    "ClOmpr",
    "Decoder",
    "DiracOmpr",
    "Genetic",
    "HierarchicalSplitting",
    "Outcome",
    "Problem",
    "SketchAndShift",
    "Status",
    "Target",
    "centroids",
    "cleaned",
    "decode",
    "decoder_from",
    "fit_density",
    "pooled_density",
]
