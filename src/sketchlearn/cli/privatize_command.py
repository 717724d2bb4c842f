"""`sketchlearn privatize`: a private release of a sketch."""

from __future__ import annotations

import math

from sketchlearn.cli.descriptions import number, records_in_words
from sketchlearn.cli.standard_streams import Report, check_paths, named, read_sketch, write
from sketchlearn.privacy import privatize


def run(
    sketch: str,
    output: str,
    epsilon: float,
    delta: float,
    neighbors: str,
    already: str | None,
    assume_public_design: bool,
    json: bool,
) -> None:
    """Adds noise to a sketch, and says what that guarantees."""
    check_paths([sketch, *([] if already is None else [already])], [output], json=json)
    exact = read_sketch(sketch)
    earlier = None if already is None else read_sketch(already)
    if earlier is not None and earlier.ledger is None:
        raise ValueError(f"{named(already or '')} is not private: --already takes an earlier private release")
    private = privatize(
        exact,
        epsilon=epsilon,
        delta=delta,
        neighbors=neighbors,
        already=earlier,
        assume_public_design=assume_public_design,
    )
    write(output, private.to_bytes())
    ledger = private.ledger
    assert ledger is not None
    largest = private.operator.ceiling * private.units / getattr(private.operator, "n_groups", 1)
    share = math.sqrt(ledger.sum_variance) / largest
    figures = {"output": output, "records": private.count, "ledger": ledger.to_json(), "noise_of_means": share}
    Report(json, [output]).give(
        figures,
        f"{records_in_words(private.count)} (with noise), {ledger}",
        f"Noise on the mean of each feature: about {number(share)} of its largest value.",
        f"Whoever has {named(output)} learns little more about one record than from data without it. Keep "
        f"{named(sketch)} to yourself; a further release of its rows needs --already.",
        *([] if exact.kept is None else [f"The rows that {named(sketch)} keeps are not in {named(output)}."]),
    )
