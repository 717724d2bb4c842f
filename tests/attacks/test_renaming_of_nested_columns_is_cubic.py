"""Columns of columns whose inner operators lack their names: each level renamed all levels below, and these all below
them, so that a body of 112 kB took 7.3 s."""

import pytest

import sketchlearn as skl
from sketchlearn.core.containers import DESIGN, to_document
from sketchlearn.features import composed as some_columns
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.files.designs import design_from_bytes, design_to_bytes

DEEPEST = 8
NAMES = [f"column {i}" for i in range(20)]
WAVES = skl.features.FourierFeatures(20, 4, law=Gaussian(1.0))


@pytest.fixture
def checked(monkeypatch):
    """How often names of columns of columns are checked: once for each operator that is made."""
    sizes, check = [], some_columns.check_columns

    def counted(columns, n_features):
        sizes.append(n_features)
        return check(columns, n_features)

    monkeypatch.setattr(some_columns, "check_columns", counted)
    return sizes


def without_names_inside(depth):
    """A design of columns of columns, each of which has other names than those around it ask for."""
    form = WAVES.to_json()
    for level in range(depth - 1):
        names = [f"{name} of level {level}" for name in NAMES]
        form = {"type": "SomeColumns", "inner_operator": form, "n_features": 20, "which": list(range(20)), "digest": ""}
        form["columns"] = names
    return to_document(DESIGN, 1, {"operator": form, "made": {}})


@pytest.mark.parametrize("depth", [2, DEEPEST, 30])
def test_a_file_renames_nothing(depth, checked):
    with pytest.raises(skl.FormatError, match=r"must have the names of the chosen columns|nested too deeply"):
        design_from_bytes(without_names_inside(depth))
    assert len(checked) <= 1


def test_honest_files_are_read_level_by_level(checked):
    operator = WAVES
    for _ in range(DEEPEST - 1):
        operator = skl.features.SomeColumns(operator, 20, which=range(20))
    operator = operator.with_columns(tuple(NAMES))
    data = design_to_bytes(operator)
    checked.clear()
    found = design_from_bytes(data)[0]
    assert found == operator
    assert found.part(skl.features.FourierFeatures).columns == tuple(NAMES)
    assert len(checked) == DEEPEST - 1
