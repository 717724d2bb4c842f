"""`sketchlearn merge`: the sum of sketches."""

from __future__ import annotations

from typing import Any

from sketchlearn.cli.streams import Report, check_paths, named, read_sketch, write
from sketchlearn.cli.words import records_in_words


def run(sketches: list[str], output: str, overlapping: bool, json: bool) -> None:
    """Adds sketches, one file at a time."""
    check_paths(sketches, [output], json=json)
    total = None
    for path in sketches:
        sketch = read_sketch(path)
        try:
            total = sketch if total is None else total.merged(sketch, overlapping=overlapping)
        except ValueError as error:
            raise ValueError(f"{named(path)}: {error}") from None
    assert total is not None
    write(output, total.to_bytes())
    figures: dict[str, Any] = {
        "output": output,
        "records": total.count,
        "sketches": len(sketches),
        "skipped": total.skipped,
    }
    lines = [f"{records_in_words(total.count)} of {len(sketches):,} sketches"]
    if total.ledger is not None:
        figures["ledger"] = total.ledger.to_json()
        lines.append(f"private: {total.ledger}")
    Report(json, [output]).give(figures, *lines)
