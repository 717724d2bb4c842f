"""What each kind of sketch answers: an answer, or a refusal that names what is needed instead."""

from __future__ import annotations

import re
import shutil
from functools import cache

import numpy as np
import pandas as pd
import pytest
from kinds_of_sketches import (
    ABILITIES,
    KINDS,
    PAGE,
    SCHEMA_ESTIMATOR,
    Need,
    Sketches,
    dask,
    exact,
    need,
    numbers,
    page,
    sketches,
    spark,
)
from mixed_tables import MIXED_TABLES, mixed_table

import sketchlearn as skl
from sketchlearn.core.errors import SketchlearnError

#: abilities that take a second each, and kinds for which they run in the quick tests
LONG = [f"`{name}`" for name in ("choose_k", "report", "report(against=)", "plot_model", "distance", "ChangeDetector")]
LONG += ["`Questions.mean_of`", "`explain`"]
QUICK_KINDS = ("standard, 4 columns", "schema, 83 encoded columns")
HARD_KINDS = ("private, schema", "private, bounds, 80 columns")  # whose clusters take seconds
#: words of errors that nobody who asks a question should see
INTERNAL = re.compile(r"broadcast|shape|array|einsum|index \d|NoneType|singular|operand|eigenvalue")


def cases() -> list[object]:
    found = []
    for kind in KINDS:
        for ability in ABILITIES:
            answers = need(ability, kind) is None
            slow = kind in HARD_KINDS or (answers and ability in LONG and kind not in QUICK_KINDS)
            marks = [pytest.mark.slow] if slow else []
            found.append(pytest.param(kind, ability, marks=marks, id=f"{kind}-{ability}"))
    return found


@pytest.mark.parametrize(("kind", "ability"), cases())
@pytest.mark.filterwarnings("ignore")
def test_each_kind_of_sketch_answers_or_names_the_remedy(kind: str, ability: str) -> None:
    wanted = need(ability, kind)
    if wanted is None:
        ABILITIES[ability](sketches(kind))
        return
    assert isinstance(wanted, Need)
    with pytest.raises((ValueError, SketchlearnError), match=wanted.words) as refused:
        ABILITIES[ability](sketches(kind))
    assert not INTERNAL.search(str(refused.value))


def test_the_page_has_this_table() -> None:
    assert PAGE.read_text() == page(), "python tests/support/kinds_of_sketches.py --write"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java, which is not installed")
@pytest.mark.filterwarnings("ignore")
def test_spark_makes_the_same_sketch() -> None:
    rows = pd.DataFrame(numbers(4), columns=list("abcd"))
    spark(exact(skl.SketchKMeans(3, random_state=0).design(rows), rows))


@cache
def real(table: str) -> Sketches:
    rows = mixed_table(table, 3000)
    return exact(SCHEMA_ESTIMATOR.design(rows), rows)


def refusal(ability: str, kind: Sketches) -> str | None:
    try:
        ABILITIES[ability](kind)
    except (ValueError, SketchlearnError) as refused:
        return str(refused)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("ability", [name for name in ABILITIES if ABILITIES[name] is not dask])
@pytest.mark.parametrize("table", MIXED_TABLES)
@pytest.mark.filterwarnings("ignore")
def test_real_mixed_tables(table: str, ability: str) -> None:
    kind = real(table)
    may_refuse = ["`center_intervals`", "`Questions.correlation`"]  # of columns with gaps
    if kind.operator.n_features > 64:
        may_refuse += ["`Questions.density`", "`Questions.mean_of`"]
    told = refusal(ability, kind)
    assert told is None or (ability in may_refuse and not INTERNAL.search(told)), told


@pytest.mark.parametrize("kind", ["standard, 4 columns", "standard, 80 columns", "standard, 300 columns"])
def test_clusters_of_the_standard_sketch_are_those_of_its_cells(kind: str) -> None:
    found = sketches(kind)
    alone = found.operator.parts[0].sketch(found.rows)
    whole, cells = (
        skl.SketchKMeans(3, random_state=0).fit_sketch(one).cluster_centers_ for one in (found.whole, alone)
    )
    assert np.array_equal(whole, cells)
