"""What can be asked of each kind of sketch: an answer, or a refusal that names a remedy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sketchlearn as skl
from sketchlearn.questions.explain import explain

N = 1200
ESTIMATOR = skl.SketchKMeans(3, random_state=0)


def table(d: int) -> Any:
    rows = np.random.default_rng(d).standard_normal((N, d))
    rows[: N // 2, :3] += 4
    return rows.clip(-9, 9)


def mixed(n_places: int) -> pd.DataFrame:
    rng = np.random.default_rng(n_places)
    since = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, N), unit="D")
    words = np.array([f"p{i}" for i in range(n_places)])
    places, homes = words[rng.integers(0, n_places, (2, N))]
    score = np.where(rng.random(N) < 0.1, np.nan, rng.standard_normal(N))
    return pd.DataFrame(
        {"age": rng.integers(18, 90, N), "place": places, "home": homes, "since": since, "score": score}
    )


@cache
def kinds() -> dict[str, tuple[Any, Any]]:
    few, many, hundreds, wide_table, narrow_table = table(4), table(80), table(300), mixed(40), mixed(3)
    square = skl.features.Fourier(wave="square")
    return {
        "4 columns": (ESTIMATOR.design(few), few),
        "80 columns": (ESTIMATOR.design(many), many),
        "300 columns": (ESTIMATOR.design(hundreds), hundreds),
        "frequencies": (skl.design(few, n_components=3), few),
        "rows beside it": (skl.design(few, n_components=3, rows=200), few),
        "schema": (skl.design(narrow_table, n_components=3, schema="auto"), narrow_table),
        "schema, 80 categories": (skl.design(wide_table, n_components=3, schema="auto"), wide_table),
        "bounds": (skl.design(bounds=(-9, [9] * 4), n_components=3), few),
        "bounds, 80 columns": (skl.design(bounds=(-9, [9] * 80), n_components=3), many),
        "one bit": (skl.design(few, n_components=3, features=square), few),
        "first rows of a stream": (skl.design(few[::4], n_components=3, representative=False), few),
    }


@cache
def sketches(kind: str) -> tuple[Any, Any, Any]:
    operator, rows = kinds()[kind]
    first, second = (rows.iloc[i::2] if isinstance(rows, pd.DataFrame) else rows[i::2] for i in (0, 1))
    a, b = operator.sketch(first), operator.sketch(second)
    return a + b, a, b


def fit(whole: Any, _a: Any, _b: Any) -> Any:
    model = skl.SketchKMeans(3, random_state=0).fit_sketch(whole)
    assert model.cluster_centers_.shape == (3, whole.operator.n_features)
    assert np.all(np.isfinite(model.cluster_centers_))
    return model


def compare(_whole: Any, a: Any, b: Any) -> None:
    assert skl.two_sample_test(a, b).p_value > 1e-4
    assert skl.distance(a, b).low >= 0


def marginal(whole: Any, _a: Any, _b: Any) -> None:
    found = skl.Questions(whole).marginal(0)
    assert found.shares.sum() == pytest.approx(1, abs=0.05)


def describe(whole: Any, _a: Any, _b: Any) -> None:
    found = skl.Questions(whole).describe([0])
    (column,) = found
    assert column.mean is None or column.mean.low <= column.mean.value <= column.mean.high
    assert column.statistics or "rows=" in found.notes[0]


def quantile(whole: Any, _a: Any, _b: Any) -> None:
    found = skl.Questions(whole).quantile(0, 0.5)
    assert found.low <= found.value <= found.high


def mean(whole: Any, _a: Any, _b: Any) -> None:
    for found in (skl.Questions(whole).mean(0), skl.Questions(whole).std(0)):
        assert found.high - found.low < 2 * found.value


def correlation(whole: Any, _a: Any, _b: Any) -> None:
    names = skl.Questions(whole).columns
    found = skl.Questions(whole).correlation(0, "since" if "since" in names else 1)
    assert -1 <= found.low <= found.value <= found.high <= 1


def density(whole: Any, _a: Any, _b: Any) -> None:
    assert skl.Questions(whole).density(np.zeros((2, whole.operator.n_features))).shape == (2,)


def why(whole: Any, a: Any, b: Any) -> None:
    assert explain(fit(whole, a, b)).sentences
    assert explain(whole, n_components=3).sentences


def forget(whole: Any, a: Any, b: Any) -> None:
    assert whole - a == b
    assert a + b == whole


def privatize(whole: Any, a: Any, b: Any) -> None:
    released = skl.privatize(a, epsilon=1.0, delta=1e-6, assume_public_design=True)
    assert released.ledger is not None
    del whole, b


#: kinds that refuse, and words of the remedy
REFUSALS: dict[Callable[..., Any], dict[str, str]] = {
    fit: {},
    compare: {},
    marginal: {"300 columns": "features=", "bounds, 80 columns": "features="},
    describe: {},
    quantile: {"300 columns": "rows=", "bounds, 80 columns": "rows="},
    mean: {"bounds, 80 columns": "rows="},
    correlation: {"bounds, 80 columns": "rows="},
    density: dict.fromkeys(("80 columns", "300 columns", "schema, 80 categories", "bounds, 80 columns"), "features="),
    forget: {},
    why: {"bounds, 80 columns": "features="},
    privatize: {},
}


@pytest.mark.parametrize(
    "ability", [pytest.param(f, id=f.__name__, marks=pytest.mark.slow if f is why else ()) for f in REFUSALS]
)
@pytest.mark.parametrize("kind", list(kinds()))
@pytest.mark.filterwarnings("ignore")
def test_each_kind_of_sketch_answers_or_names_the_remedy(kind: str, ability: Callable[..., Any]) -> None:
    if (remedy := REFUSALS[ability].get(kind)) is None:
        ability(*sketches(kind))
        return
    with pytest.raises(ValueError, match=remedy):
        ability(*sketches(kind))


@pytest.mark.parametrize("kind", ["4 columns", "80 columns", "300 columns"])
def test_clusters_of_the_standard_sketch_are_those_of_its_cells(kind: str) -> None:
    operator, rows = kinds()[kind]
    alone = operator.parts[0].sketch(rows)
    whole, _, _ = sketches(kind)
    found, wanted = (skl.SketchKMeans(3, random_state=0).fit_sketch(one).cluster_centers_ for one in (whole, alone))
    assert np.array_equal(found, wanted)
