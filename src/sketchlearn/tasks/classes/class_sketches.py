"""One sketch per class, filled in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sketchlearn.ledger import Ledger
from sketchlearn.operators import Operator
from sketchlearn.sketch import Sketch
from sketchlearn.sources import source
from sketchlearn.storage.sketch_files import merge


class ClassSketches:
    """Sketches of the rows of each class; rows come with the code of their class in column `label`."""

    def __init__(self, operator: Operator, label: int, sketches: Mapping[float, Sketch] | None = None) -> None:
        self.operator, self.label = operator, label
        self.sketches = dict(sketches or {})

    @property
    def count(self) -> int | float:
        """Number of records of all classes."""
        return sum(sketch.count for sketch in self.sketches.values())

    @property
    def total(self) -> Sketch:
        """The sketch of all classes together. No row is in two of them: private ones compose in parallel.

        Units such as patients may have rows in all classes: then epsilons add up.
        """
        if not self.sketches:
            return Sketch(self.operator)
        of_units = any(s.unit is not None or (s.ledger and s.ledger.unit) for s in self.sketches.values())
        total = merge(self.sketches.values(), overlapping=None if of_units else False)
        if total.ledger is None or len(self.sketches) == 1:
            return total
        return total.of_same_records(total.operator, total.sums, total.ledger.across_classes())

    @property
    def ledger(self) -> Ledger | None:
        """What all classes together have spent, if they are private."""
        return self.total.ledger if any(sketch.ledger for sketch in self.sketches.values()) else None

    def copy(self) -> ClassSketches:
        return ClassSketches(self.operator, self.label, {c: sketch.copy() for c, sketch in self.sketches.items()})

    def update(self, data: Any, *, n_jobs: int | None = None, device: str | None = None) -> ClassSketches:
        """Adds rows, all of them or none."""
        new: dict[float, Sketch] = {}
        given = source(data)
        for block in given.blocks(self.operator.n_features + 1):
            labels, rows = block.rows[:, self.label], np.delete(block.rows, self.label, axis=1)
            weights = None if given.weights is None else given.weights[block.which]
            for code in np.unique(labels).tolist():
                sketch = new.setdefault(code, Sketch(self.operator))
                own = None if weights is None else weights[labels == code]
                try:
                    sketch.update(rows[labels == code], sample_weight=own, n_jobs=n_jobs, device=device)
                except ValueError as error:
                    raise ValueError(f"among the rows of class {code:g}: {error}") from None
        for code, sketch in new.items():
            # in one batch, however large the blocks were; equal rows of two classes are two batches
            self.sketches[code] = self.sketches.get(code, Sketch(self.operator)).copy()
            self.sketches[code].add_as_new(sketch.as_one_batch(f"class {code:g}"))
        return self
