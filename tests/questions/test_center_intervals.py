"""Intervals of centers by column: those of the estimator, in the units of the table."""

import numpy as np
import pandas as pd
import pytest

import sketchlearn as skl
from sketchlearn.rows.schemas.columns import Category, Date, Flag, Number, Ordinal
from sketchlearn.rows.schemas.table_schema import Schema


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    kind = rng.random(3000) < 0.3
    table = pd.DataFrame(
        {
            "age": np.where(kind, 25.0, 60.0) + rng.normal(0, 3, 3000),
            "country": np.where(rng.random(3000) < 0.4, "FR", "DE"),
            "member": np.where(rng.random(3000) < 0.5, "yes", "no"),
            "since": np.datetime64("2020-01-01") + rng.integers(0, 100, 3000).astype("timedelta64[D]"),
            "size": rng.choice(["S", "M", "L"], 3000),
        }
    )
    age, since = Number("age", scaling="standard", center=50.0, width=10.0), Date("since", center=18_300.0, width=30.0)
    kinds = (
        age,
        Category("country", ("FR", "DE"), weight=2.0),
        Flag("member"),
        since,
        Ordinal("size", ("S", "M", "L")),
    )
    return skl.SketchKMeans(2, schema=Schema(kinds), random_state=0).fit(table)


def test_they_are_those_of_the_estimator_in_the_units_of_the_table(fitted):
    told = skl.center_intervals(fitted, 0.9)
    low, high = fitted.intervals(0.9)["cluster_centers_"]
    columns = {column.name: column for column in told.columns}
    assert list(columns) == ["age", "country=FR", "country=DE", "country=other", "member", "since"]
    assert np.array_equal(columns["age"].ends, np.stack([low[:, 0] * 10 + 50, high[:, 0] * 10 + 50], axis=1))
    assert np.array_equal(columns["country=DE"].ends, np.stack([low[:, 2] / 2, high[:, 2] / 2], axis=1))
    assert np.array_equal(columns["since"].ends, np.stack([low[:, 5] * 30 + 18_300, high[:, 5] * 30 + 18_300], axis=1))
    assert np.array_equal(told.shares.ends, np.stack(fitted.intervals(0.9)["weights_"], axis=1))
    assert told.left_out == ("size",)


def test_they_are_written_by_column(fitted):
    lines = str(skl.center_intervals(fitted)).splitlines()
    assert lines[0].split() == ["cluster", "0", "cluster", "1"]
    assert [line.split()[0] for line in lines[1:7]] == [
        "share",
        "age",
        "country=FR",
        "country=DE",
        "country=other",
        "member",
    ]
    assert lines[5].split() == ["country=other", "0", "%", "0", "%"]
    assert "2020-02-" in lines[7]
    assert lines[-1] == "not reported: size"


def test_without_a_schema_columns_have_their_names():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, 2)) + 10 * rng.integers(0, 2, (3000, 1))
    plain = skl.SketchGaussianMixture(2, random_state=0).fit(rows)
    told = skl.center_intervals(plain)
    assert [column.name for column in told.columns] == ["column 0", "column 1"]
    assert np.array_equal(told.columns[1].ends, np.stack(plain.intervals()["means_"], axis=2)[:, 1])


def test_what_is_withheld_says_why():
    rows = np.arange(40.0).reshape(20, 2)
    with pytest.raises(ValueError, match="there are no intervals of centers: intervals of fewer than 30 records"):
        skl.center_intervals(skl.SketchKMeans(2, random_state=0).fit(rows))
