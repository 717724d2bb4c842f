"""From a sketch to parameters: one algorithm per file, one common loop."""

from sketchlearn.decoders.amp import ClAmp
from sketchlearn.decoders.auto import cleaned, fit_density
from sketchlearn.decoders.genetic import Genetic
from sketchlearn.decoders.loop import Decoder, decode
from sketchlearn.decoders.ompr import ClOmpr
from sketchlearn.decoders.outcome import Outcome, Status
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.reduction import centroids
from sketchlearn.decoders.shift import SketchAndShift
from sketchlearn.decoders.splitting import HierarchicalSplitting
from sketchlearn.decoders.target import Target
from sketchlearn.values import shortened

#: decoders by name; docs/decoders.md says when to use which
NAMED: dict[str, Decoder] = {
    "auto": ClOmpr(other=ClAmp()),
    "ompr": ClOmpr(),
    "splitting": HierarchicalSplitting(),
    "shift": SketchAndShift(),
    "amp": ClAmp(),
    "genetic": Genetic(),
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
]
