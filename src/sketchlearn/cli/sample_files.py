"""The rows of --sample, which `fit` and `choose` take beside a sketch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from sketchlearn.cli.error_messages import say
from sketchlearn.cli.input_output import files_from, rows_from, source_arguments

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_SAMPLE = 20_000  # rows: a fit works on them many times


@dataclass(frozen=True)
class SampleFiles:
    """The files of --sample, none if it was not given, and how they are read."""

    paths: list[str]
    arguments: dict[str, Any]
    assume_public: bool

    @classmethod
    def of(
        cls,
        sample: str | None,
        assume_public: bool,
        delimiter: str | None,
        decimal: str | None,
        header: bool | None,
        encoding: str | None,
    ) -> Self:
        arguments = source_arguments(None, "drop", None, False, delimiter, decimal, header, encoding)
        return cls([] if sample is None else files_from([sample]), arguments, assume_public)

    def rows(self, operator: Any, seed: int) -> NDArray[Any] | None:
        """The rows without those that have missing values; of many, some."""
        import numpy as np

        from sketchlearn.core.randomness import row_chooser
        from sketchlearn.rows.sampling import sample as some_of

        if not self.paths:
            return None
        rows = rows_from(self.paths, **self.arguments)
        rows = rows if operator.columns is None else rows.only(operator.columns)
        some, from_all_over, _ = some_of(rows, LARGEST_SAMPLE + 1, row_chooser(seed))
        if not len(some):
            raise ValueError("--sample has no rows: give some, or leave it out")
        if some.shape[1] != operator.n_features:
            raise ValueError(f"--sample has {some.shape[1]} columns, but the sketch has {operator.n_features}")
        if len(some) > LARGEST_SAMPLE:
            which = "drawn at random" if from_all_over else "the first"
            say(f"of --sample, {LARGEST_SAMPLE:,} rows are used ({which})")
        return np.asarray(some[:LARGEST_SAMPLE])
