"""What the engines share: which one holds the data, what travels, and how a missing one is named."""

import json
import sys

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn import engines
from sketchlearn.engines import partial
from sketchlearn.engines.spark import needed

OPERATOR = skl.features.FourierFeatures(3, 40, law=skl.features.frequencies.Gaussian(1.0), seed=5)
NAMED = skl.features.FourierFeatures(3, 40, law=skl.features.frequencies.Gaussian(1.0), seed=5, columns=("a", "b", "c"))
X = np.random.default_rng(1).standard_normal((50, 3))


def test_rows_in_memory_have_no_engine():
    assert [engines.engine_of(data) for data in (X, X.tolist(), [], iter([X]), "rows.parquet", None)] == [None] * 6
    with pytest.raises(TypeError, match="expected a Dask collection or a Spark data frame, not ndarray"):
        engines.sketch(X, OPERATOR)


def test_engines_are_told_by_the_modules_of_types_alone():
    for module, name in [("dask.array.core", "dask"), ("dask_expr._collection", "dask"), ("pyspark.sql.x", "spark")]:
        kind = type("Rows", (), {"__module__": module})
        assert engines.engine_of(kind()) == name
        assert engines.engine_of([kind()]) == name
        assert engines.engine_of(type("Mine", (kind,), {"__module__": "mine"})()) == name


@pytest.mark.parametrize(("package", "engine", "extra"), [("dask", "dask", "dask"), ("pyspark", "spark", "spark")])
def test_a_missing_engine_is_one_sentence(monkeypatch, package, engine, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"^this needs {package}: pip install 'sketchlearn\[{extra}\]'$"):
        getattr(engines, engine).sketch(object(), OPERATOR)


def test_partial_sketches_add_to_the_same_bits_and_the_operator_is_drawn_once(monkeypatch):
    text = partial.text_of(OPERATOR)
    partial._drawn.cache_clear()
    draws = []
    law = type(OPERATOR.law)
    draw = law.draw
    monkeypatch.setattr(law, "draw", lambda *args: draws.append(1) or draw(*args))
    parts = [partial.sketched(f"partition {i}", X[i::7], text, nulls="error") for i in range(7)]
    assert partial.merged(parts, text) == OPERATOR.sketch(X).content()
    assert len(draws) == 1


def test_a_worker_that_draws_other_numbers_refuses():
    form = OPERATOR.to_json() | {"digest": "0" * 64}
    with pytest.raises(partial.PartitionError, match=r"^day 3: FourierFeatures: the random numbers drawn here are not"):
        partial.sketched("day 3", X, json.dumps(form), nulls="error")


def test_partial_sketches_of_another_operator_are_refused():
    other = skl.features.FourierFeatures(3, 40, law=skl.features.frequencies.Gaussian(1.0), seed=6)
    with pytest.raises(skl.FormatError, match="another operator"):
        partial.total([other.sketch(X).to_bytes()], OPERATOR)


@pytest.mark.parametrize(
    ("names", "operator", "columns", "expected"),
    [
        ("abc", OPERATOR, None, "abc"),
        ("xyz", OPERATOR, None, "xyz"),
        ("abc", NAMED, None, "abc"),
        ("aibjc", NAMED, None, "abc"),
        ("cbaxyz", OPERATOR, "xyz", "xyz"),
        ("cba", NAMED, "abc", "abc"),
        ("cba", NAMED, None, "abc"),
        ("ab", NAMED, None, "the data frame has no column 'c': its columns are"),
        ("abcd", OPERATOR, None, "the rows have 4 columns, but the operator needs 3"),
        ("abc", OPERATOR, "abz", "the data frame has no column 'z'"),
    ],
)
def test_columns_of_spark_are_decided_before_the_run(names, operator, columns, expected):
    asked = None if columns is None else list(columns)
    if set(expected) <= set("abcxyz"):
        assert needed(list(names), operator, asked) == tuple(expected)
    else:
        with pytest.raises(ValueError, match=expected):
            needed(list(names), operator, asked)
