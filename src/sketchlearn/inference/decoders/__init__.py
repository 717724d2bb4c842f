"""From a sketch to parameters: one algorithm per file, one common loop."""

from sketchlearn.core.values import shortened
from sketchlearn.inference.decoders.density import cleaned, fit_density, pooled_density
from sketchlearn.inference.decoders.genetic_search import Genetic
from sketchlearn.inference.decoders.hierarchical_splitting import HierarchicalSplitting
from sketchlearn.inference.decoders.loop import Decoder, Outcome, Status, decode
from sketchlearn.inference.decoders.mean_shift import SketchAndShift
from sketchlearn.inference.decoders.message_passing import ClAmp
from sketchlearn.inference.decoders.orthogonal_matching_pursuit import ClOmpr, DiracOmpr
from sketchlearn.inference.decoders.points import centroids
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import Target

#: decoders by name; docs/concepts/decoders.md says when to use which
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
