"""Profiles of clusters from the exact sums of cells: over all records, of columns that were clustered on or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sketchlearn.diagnostics.center_profiles import column_profile
from sketchlearn.diagnostics.profile_values import ColumnProfile, Estimate, Profile, Profiles
from sketchlearn.models import Double
from sketchlearn.moments.moments_of_sketch import part_of
from sketchlearn.operators import CellSums
from sketchlearn.schemas import SchemaColumns
from sketchlearn.sketch import Sketch
from sketchlearn.sources import source
from sketchlearn.weighting.cells_of_sketch import Cells, Members


def has_cells(sketch: Sketch) -> bool:
    """Whether cells of a sketch tell profiles: not those of a private release, whose noise they would not tell of."""
    return sketch.ledger is None and part_of(sketch, CellSums) is not None


def profiles_of_cells(model: Any, sketch: Sketch) -> Profiles | None:
    """Profiles of all records; None where a sketch has no cells, or keeps all of its records, which tell more."""
    if not has_cells(sketch) or (sketch.kept is not None and sketch.kept.complete):
        return None
    cells = Cells.of(sketch)
    assert cells is not None
    learned, squares = model.fitted_model(), cells.squares
    if learned.kind_of_part == "cluster":
        members = cells.members(learned.centers_of_parts)
    else:
        owners = np.asarray(model.predict(source(cells.means)), np.intp)
        members = Members(owners, cells.shares, len(learned.weights))
    everything = Members(np.zeros_like(members.owners), cells.shares, 1)
    within = squares if squares.ndim > 1 else np.full(cells.means.shape, np.nan)  # known column by column, or not
    means, spreads = members.means(cells.means), members.deviations(cells.means, within)
    mean, spread = everything.means(cells.means), everything.deviations(cells.means, within)
    between = everything.deviations(cells.means, np.zeros_like(cells.means))
    width = np.where(np.isnan(spread), between, spread)
    apart = np.abs(means - mean) / np.where(width > 0, width, 1.0)
    found = []
    for number, share in enumerate(members.sizes.tolist()):
        own = _columns(model.columns_, means[number], spreads[number], apart[number])
        ordered = tuple(sorted(own, key=lambda column: -column.apart))
        found.append(Profile(number, Estimate(share), share * float(sketch.count), ordered))
    return Profiles(tuple(found), tuple(_columns(model.columns_, mean[0], spread[0], np.zeros(len(mean[0])))))


def _columns(columns: Any, means: Double, spreads: Double, apart: Double) -> Iterator[ColumnProfile]:
    """Each column of the table, from the means of its numbers and their deviations."""
    if not isinstance(columns, SchemaColumns):
        names = columns or [f"column {i}" for i in range(len(means))]
        for name, mean, spread, away in zip(names, means, spreads, apart, strict=True):
            yield ColumnProfile(name, "number", {"mean": Estimate(float(mean))}, float(spread), float(away))
        return
    pieces = (columns.schema.pieces(numbers[None]) for numbers in (means, spreads, apart))
    for (column, numbers), (_, own), (_, away) in zip(*pieces, strict=True):
        found = column_profile(column, numbers[0], float(own[0, 0]), float(away.max()))
        if found is not None:
            yield found
