"""`sketchlearn explain`: what a sketch can tell, and what is at fault if it cannot."""

from __future__ import annotations

from sketchlearn.cli.standard_streams import Report, read_sketch
from sketchlearn.diagnostics import explain


def run(sketch: str, n_components: int, decoder: str, seed: int, json: bool) -> None:
    """Explains a sketch in sentences."""
    told = explain(read_sketch(sketch), n_components=n_components, decoder=decoder, random_state=seed)
    figures = {name: float(value) for name, value in told.figures.items()}
    Report(json).give({"verdict": told.verdict.name, "sentences": told.sentences, "figures": figures}, *told.sentences)
