"""From a sketch to parameters: one algorithm per file, one common loop."""

from sketchlearn.decoders.auto import fit_density
from sketchlearn.decoders.loop import Decoder, decode
from sketchlearn.decoders.ompr import ClOmpr
from sketchlearn.decoders.outcome import Outcome, Status
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.reduction import centroids
from sketchlearn.decoders.target import Target
from sketchlearn.values import shortened

NAMED: dict[str, Decoder] = {"auto": ClOmpr(), "ompr": ClOmpr()}


def decoder_from(decoder: str | Decoder) -> Decoder:
    """The decoder itself, or the one with this name."""
    if isinstance(decoder, Decoder):
        return decoder
    if isinstance(decoder, str) and decoder in NAMED:
        return NAMED[decoder]
    raise ValueError(f"decoder must be one of {', '.join(NAMED)}, or a Decoder, not {shortened(decoder)}")


__all__ = [
    "NAMED",
    "ClOmpr",
    "Decoder",
    "Outcome",
    "Problem",
    "Status",
    "Target",
    "centroids",
    "decode",
    "decoder_from",
    "fit_density",
]
