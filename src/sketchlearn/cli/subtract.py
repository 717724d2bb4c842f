"""`sketchlearn subtract`: rows taken out of a sketch."""

from __future__ import annotations

from sketchlearn.cli.streams import Report, check_paths, named, read_sketch, write
from sketchlearn.cli.words import records_in_words


def run(whole: str, part: str, output: str, json: bool) -> None:
    """Subtracts one sketch from another."""
    check_paths([whole, part], [output], json=json)
    a, b = read_sketch(whole), read_sketch(part)
    try:
        rest = a - b
    except ValueError as error:
        raise ValueError(f"{named(part)}: {error}") from None
    write(output, rest.to_bytes())
    Report(json, [output]).give({"output": output, "records": rest.count}, f"{records_in_words(rest.count)} left")
