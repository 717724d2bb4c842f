"""Finite values that stop a sketch: a release that is made tells that there were none."""

import datetime
import decimal
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cases import NAMES, cells, operators

import sketchlearn as skl
from sketchlearn.collector.clients.device_client import Design
from sketchlearn.collector.clients.device_designs import device_design
from sketchlearn.features import FourierFeatures, SecondMoments, SomeDirections
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.privacy.noise_plan import sensitivity
from sketchlearn.rows.schemas.columns import Category, Date, Flag, Number, Ordinal, Text
from sketchlearn.sketch.priority_sample import Keeping

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*too far from the center for a phase"),
    pytest.mark.filterwarnings("ignore:.*float32 phases are only noise"),
    pytest.mark.filterwarnings("ignore:.*lie outside .*, the range of the design"),
    pytest.mark.filterwarnings("ignore:.*values that the schema does not know"),
    pytest.mark.filterwarnings("ignore:.*may have been another whole number"),
]
TYPES = [np.float16, np.float32, np.float64, np.longdouble, np.int8, np.int64, np.uint64, np.bool_]
HUGE = [8e298, 1e30, 1e300, 2.0**60, 2.0**60 * (1 + 2**-30), 2.0**61, 1e150, 1e-150, 1e10]


def values_of(kind):
    """The extreme numbers of a type: the largest ones, the smallest ones, and around limits."""
    if kind is np.bool_:
        return np.array([False, True])
    if np.issubdtype(kind, np.integer):
        return np.array([np.iinfo(kind).min, np.iinfo(kind).max, 0, 1], kind)
    limits = np.finfo(kind)
    some = [kind(size) for size in HUGE if size < float(limits.max)]
    ends = [limits.max, limits.tiny, limits.smallest_subnormal, kind(1), kind(0)]
    return np.array([sign * size for size in (*ends, *some) for sign in (1, -1)], kind)


def extreme_rows(d, kind):
    """All columns alike, all but one ordinary, and mixtures."""
    values, rng = values_of(kind), np.random.default_rng(0)
    alike = np.repeat(values[:, None], d, axis=1)
    one = np.ones_like(alike)
    one[np.arange(len(values)), rng.integers(d, size=len(values))] = values
    return np.concatenate([alike, one, values[rng.integers(len(values), size=(12, d))]])


def clipping(operator):
    """The same operator, clipping where it would refuse rows."""
    if isinstance(operator, skl.features.Concatenated):
        return skl.features.concatenate([clipping(part) for part in operator.parts])
    if isinstance(operator, skl.features.SomeColumns | SomeDirections):
        operator = replace(operator, inner_operator=clipping(operator.inner_operator))
    return replace(operator, outside="clip") if hasattr(operator, "outside") else operator


def within(operator, row):
    sums, claimed = operator.sketch(row[None]).sums.tolist(), sensitivity(operator)
    return sum(map(abs, sums)) <= claimed.l1 and sum(n * n for n in sums) <= claimed.l2_squared


@pytest.mark.parametrize("name", NAMES)
def test_every_finite_row_is_taken_or_refusals_are_told(name):
    rows = {kind: extreme_rows(9, kind) for kind in TYPES}
    for operator in (operators(9)[name], clipping(operators(9)[name])):
        for origin in ("declared", "sample"):
            told = operator.with_origin(origin)
            for own in [told, *([told.with_keeping(Keeping(7, (0.0,) * 9, (1.0,) * 9))] if told.can_keep else [])]:
                if own.data_dependent_errors:
                    with pytest.raises(ValueError, match="tells that there are none"):
                        skl.privatize(own.sketch(np.zeros((3, 9))), epsilon=1.0, assume_public_design=True)
                    continue
                for kind, given in rows.items():
                    assert own.sketch(given).count == len(given), kind
                assert len(own.features(rows[np.float64])) == len(rows[np.float64])


@pytest.mark.parametrize("name", NAMES)
def test_no_extreme_row_moves_the_sums_further(name):
    operator = clipping(operators(9)[name]).with_origin("declared")
    assert not operator.data_dependent_errors
    assert all(within(operator, row) for row in extreme_rows(9, np.float64))


def test_huge_values_in_eighty_columns():
    """Scaled before they were clipped, they were infinite."""
    operator = skl.design(bounds=([0.0] * 80, [1e-9] * 80), n_components=3)
    rows = np.full((2, 80), 8e298)
    rows[1] *= -1
    assert operator.origin.value == "declared"
    sketch = operator.sketch(rows)
    assert (sketch.count, sketch.clipped) == (2, 2)
    assert skl.privatize(sketch, epsilon=1.0).ledger.private


@pytest.mark.parametrize("far", [1e30, -1e300, np.float32(-1e38)])
def test_far_values_with_a_design_on_a_public_sample(far):
    sample = np.random.default_rng(0).normal(size=(300, 2))
    for operator in (skl.design(sample, n_components=2), skl.design(sample, n_components=2, rows=50)):
        rows = np.array([[far, 0.0], [0.0, 0.0]], type(far))
        sketch = operator.sketch(rows, batch=f"{operator.keeping is None}")
        assert (sketch.count, sketch.clipped) == (2, 1)
        assert skl.privatize(sketch, epsilon=1.0, assume_public_design=True).ledger.private


EXTREME_OPERATORS = {
    "far center": FourierFeatures(2, 5, law=Gaussian(1.0), center=[3e38, -1e34]),
    "far center, subsample": FourierFeatures(2, 8, law=Gaussian(1.0), center=[1e34, 1e18], subsample=2),
    "structured": FourierFeatures(9, 32, law=Gaussian(1e-6), center=[1e30] * 9, structured=True),
    "far box": SecondMoments(2, bound=[1e-300, 1e150], center=[1.7e308, -1.7e308], outside="clip"),
    "far box, twice": SecondMoments(2, bound=1.0, center=[1.7e308, 0.0], outside="clip", rounding="twice"),
    "columns": skl.features.ColumnMoments(2, bound=[5e-324, 1e150], center=[1e308, -1e308], outside="clip"),
    "veronese": skl.features.VeroneseMoments(2, bound=[1e-75, 1e75], center=[1e308, -1.0], outside="clip"),
    "quadratic": skl.features.QuadraticFeatures(2, 5, bound=1e-9, center=[3e38, -3e38], outside="clip"),
    "wide quadratic": skl.features.QuadraticFeatures(2, 5, bound=1e18, outside="clip"),
    "cumulants": skl.features.CumulantFeatures(
        2, unmixing=[[1.0, -2.0]], frequencies=[0.5], bound=[1e-9, 1e9], center=[-1e308, 1e308], outside="clip"
    ),
    "crosses": skl.features.CrossFeatures(
        FourierFeatures(2, 5, law=Gaussian(1.0), center=[1e30, 0.0]), bound=[1e-300, 1e9], center=[1e308, -1e308],
        outside="clip",
    ),
    "feature moments": skl.features.FeatureMoments(
        FourierFeatures(2, 3, law=Gaussian(1.0)), bound=[1e-300, 1e9], center=[1e308, -1e308], outside="clip"
    ),
    "cells": cells(2, bound=[1e-300, 1e150], center=[1.7e308, -1.7e308]),
    "cells by column": cells(2, bound=1e-9, center=[-1e308, 0.0], squares="columns"),
    "cells of length 1": cells(2, bound=1.0, normalize=True),
    "histograms": skl.features.Histograms(2, edges=[(-1.7e308, 1.7e308), (-5e-324, 0.0, 5e-324)]),
    "images": skl.features.ConvolutionalFeatures((1, 2), 3, pixels=(-1e-300, 1e-300), outside="clip"),
}  # fmt: skip


@pytest.mark.parametrize("name", EXTREME_OPERATORS)
def test_operators_of_extreme_numbers(name):
    operator = EXTREME_OPERATORS[name].with_origin("declared")
    assert not operator.data_dependent_errors
    for kind in TYPES:
        rows = extreme_rows(operator.n_features, kind)
        assert operator.sketch(rows).count == len(rows)
    assert all(within(operator, row) for row in extreme_rows(operator.n_features, np.float64))


def test_bounds_that_nothing_can_be_divided_by_are_refused_before_any_row():
    for make in (SecondMoments, lambda d, **box: cells(d, **box)):
        with pytest.raises(ValueError, match="too small to divide by"):
            make(2, bound=5e-324, outside="clip")


WIDE = np.array([[1e308, -8e298], [5e-324, 2.0**61], [1.0, -1.0]])


def sources(folder):
    """The same rows, wherever they lie."""
    frame = pd.DataFrame(WIDE, columns=["a", "b"])
    frame.to_csv(folder / "rows.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame), folder / "rows.parquet")
    np.save(folder / "rows.npy", WIDE)
    return {
        "array": WIDE,
        "list": WIDE.tolist(),
        "frame": frame,
        "arrow": pa.Table.from_pandas(frame),
        "generator": (row[None] for row in WIDE),
        **{ending: folder / f"rows.{ending}" for ending in ("csv", "parquet", "npy")},
    }


@pytest.mark.parametrize("nulls", ["error", "drop"])
def test_every_source(tmp_path, nulls):
    operator = skl.features.concatenate([
        FourierFeatures(2, 10, law=Gaussian(1.0)),
        SecondMoments(2, bound=9.0, outside="clip"),
        skl.features.Histograms.even([-1, -1], [1, 1]),
    ]).with_origin("declared")  # fmt: skip
    expected = operator.sketch(WIDE)
    for name, rows in sources(tmp_path).items():
        assert operator.sketch(rows, nulls=nulls) == expected, name
    ids = ["a", "a", "b"]
    assert operator.sketch(WIDE, unit=ids, rows_per_unit=2).sums.tolist() == expected.sums.tolist()


def test_integers_without_end():
    """Python's integers have no largest one; what float64 cannot hold is the largest number that it can."""
    operator = SecondMoments(2, bound=9.0, outside="clip").with_origin("declared")
    largest = np.finfo(float).max
    for number in (2**64, 10**30, 10**400, -(10**400)):
        as_float = float(number) if abs(number) < 10**308 else np.copysign(largest, number > 0 or -1)
        assert operator.sketch([[number, 1], [0, 0]]) == operator.sketch([[as_float, 1.0], [0.0, 0.0]])
    wide = np.array([[1, 2]], np.longdouble) * np.longdouble(2) ** 2000
    assert operator.sketch(wide) == operator.sketch([[largest, largest]])
    assert operator.sketch(pd.DataFrame(wide)) == operator.sketch([[largest, largest]])


@pytest.mark.parametrize("missing", [np.nan, np.inf, -np.inf])
def test_rows_without_all_values_are_left_out_by_a_rule_that_looks_at_nothing_else(missing):
    operator = skl.design(bounds=([-5, -5], [5, 5]), n_components=2)
    rows = np.random.default_rng(0).normal(size=(50, 2))
    odd = np.insert(rows, 17, [1.0, missing], axis=0)
    assert operator.sketch(odd, nulls="drop") == operator.sketch(rows)
    with pytest.raises(ValueError, match=r"row 17, column 1 is"):
        operator.sketch(odd)


def test_readings_of_a_device_that_trusts_nobody():
    """A response that is missing would tell that the reading was far away."""
    for center in ([1.0, -2.0], [3e38, 1e30], [1e34, -(2.0**60)]):
        waves = FourierFeatures(2, 30, law=Gaussian(1.0), wave="square", center=center, seed=1)
        operator = waves.with_origin("declared")
        exact, private = (Design(device_design(operator, epsilon=epsilon)) for epsilon in (None, 2.0))
        rows = extreme_rows(2, np.float64)
        assert exact.message(rows.tolist()) == operator.pack(rows).to_bytes()
        assert len(skl.privacy.PrivateBits.from_bytes(private.message(rows.tolist()))) == len(rows)
        assert exact.message([[10**400, -(10**400)]]) == operator.pack([[10**400, -(10**400)]]).to_bytes()


LAST, FIRST = np.iinfo(np.int64).max, np.iinfo(np.int64).min
#: cells of a column that any table may hold
CELLS = {
    "numbers": pa.array([1.0, 1e308, -1e308, 5e-324, np.inf, -np.inf, np.nan, None, 2.0**53, 2.0**60]),
    "narrow": pa.array([1.0, 3e38, np.inf, 2.0**24, None], pa.float32()),
    "half": pa.array(np.array([1, 65504, np.inf], np.float16)),
    "whole": pa.array([FIRST, LAST, 0, None]),
    "unsigned": pa.array([2**64 - 1, 0], pa.uint64()),
    "decimals": pa.array([decimal.Decimal("9" * 76)], pa.decimal256(76, 0)),
    "truth": pa.array([True, False, None]),
    "text": pa.array([
        "a", "1e400", "-1e400", "nan", "inf", "2024-02-30", "9999-12-31T23:59:59-14:00", "10000-01-01", "9" * 400,
        "1,234", "31.12.2024", "x" * 100_000, "\x00", "", None, "23:59", "1970-01-01T00:00:00.123456789",
    ]),
    "categories": pa.array([1.0, 2.0**53, np.inf]).dictionary_encode(),
    "days": pa.array([np.iinfo(np.int32).min, np.iinfo(np.int32).max, 0], pa.int32()).cast(pa.date32()),
    **{
        f"{unit} {zone}": pa.array([FIRST, LAST, 0, 1, None]).cast(pa.timestamp(unit, zone))
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin")
    },
    "durations": pa.array([FIRST, LAST]).cast(pa.duration("s")),
    "times": pa.array([0, 86_399_999_999]).cast(pa.time64("us")),
    "nothing": pa.nulls(3),
    "objects": [
        1, "a", None, 2.5, 10**30, 10**400, True, np.inf, datetime.date.min, datetime.datetime.max,
        decimal.Decimal("1e500"), np.float32(1), np.datetime64("NaT"), 1j,
    ],
    "huge integers": [1, 10**400],
}  # fmt: skip
KINDS = {
    "number": Number("x"),
    "standard": Number("x", scaling="standard", center=1e300, width=1e-300),
    "log": Number("x", scaling="log"),
    "comma": Number("x", decimal=","),
    "flag": Flag("x"),
    "category": Category("x", ("a", "b", "9007199254740993")),
    "ordinal": Ordinal("x", ("1", "2", "3")),
    "date": Date("x", cycles=("year", "week", "day")),
    "narrow date": Date("x", center=1e308, width=1e-305, cycles=("year",), order="day first"),
    "length": Text("x"),
    "words": Text("x", n_words=4, weight=1e300),
}


@pytest.mark.parametrize("missing", ["drop", "indicate"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_cell_of_a_table_is_taken_left_out_or_marked_by_itself(kind, missing):
    """What becomes of a row depends on that row alone: it adds what it adds when it comes alone."""
    schema = skl.Schema([replace(KINDS[kind], missing=missing), Number("y")])
    d = len(schema.encoded_names)
    operator = skl.features.Histograms.even([-5] * d, [5] * d, columns=schema)
    assert not operator.data_dependent_errors
    for cells_of in CELLS.values():
        listed = isinstance(cells_of, list)
        column = pd.Series(cells_of, dtype=object) if listed else cells_of
        table = pd.DataFrame({"x": column, "y": 1.0}) if listed else pa.table({"x": column, "y": [1.0] * len(column)})
        whole = operator.sketch(table)
        rows = [table.iloc[i : i + 1] if listed else table.slice(i, 1) for i in range(len(table))]
        assert sum((operator.sketch(row) for row in rows), skl.Sketch(operator)) == whole


def test_warnings_do_not_stop_a_sketch():
    """They are for whoever holds the rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert FourierFeatures(1, 2, law=Gaussian(1.0)).sketch([[1e30]]).clipped == 1
    with pytest.warns(UserWarning, match=r"1 row clipped: column 'a' is 1e\+30, too far from the center for a phase"):
        FourierFeatures(1, 2, law=Gaussian(1.0), columns=["a"]).sketch(pd.DataFrame({"a": [1e30]}))
