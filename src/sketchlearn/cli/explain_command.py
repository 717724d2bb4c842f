"""`sketchlearn explain`: what a sketch can tell, and what is at fault if it cannot."""

from __future__ import annotations

from sketchlearn.cli.options import Components, Decoder, Json, Seed, SketchFile


def explain(
    sketch: SketchFile,
    n_components: Components,
    decoder: Decoder = "auto",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Say whether a sketch can tell clusters apart, or why not.

    The sketch's size, its scale, the decoder or the model may be at fault.

    \b
    Example:
      sketchlearn explain day1.sketch -k 3
    """
    from sketchlearn.cli.standard_streams import Report, read_sketch
    from sketchlearn.diagnostics import explain

    told = explain(read_sketch(sketch), n_components=n_components, decoder=decoder, random_state=seed)
    figures = {name: float(value) for name, value in told.figures.items()}
    Report(json).give({"verdict": told.verdict.name, "sentences": told.sentences, "figures": figures}, *told.sentences)
