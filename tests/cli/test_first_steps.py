"""What people try first: what they type is taken, or refused in a sentence that says what to type instead."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import CENTERS, called, done

import sketchlearn as skl
from sketchlearn.questions.profiles import Estimate, Profile


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Clusters in two columns, and a table whose last column is a sum of others."""
    folder, rng = tmp_path_factory.mktemp("first"), np.random.default_rng(0)
    rows = rng.standard_normal((3000, 2)) + CENTERS[rng.integers(0, 3, 3000)]
    pd.DataFrame(rows, columns=["a", "b"]).to_csv(folder / "rows.csv", index=False)
    written = pd.DataFrame(rows[:500], columns=["a", "b"]).assign(name="Zoë")
    written.to_csv(folder / "windows.csv", sep=";", decimal=",", encoding="cp1252", index=False)
    sums = pd.DataFrame(rng.standard_normal((500, 3)), columns=["x", "y", "z"])
    sums["sum"] = sums["x"] + sums["y"]
    sums.to_csv(folder / "sums.csv", index=False)
    done("sketch", "rows.csv", "-k", 5, "-o", "rows.sketch", cwd=folder)
    done("sketch", "sums.csv", "--task", "moments", "-o", "moments.sketch", cwd=folder)
    return folder


@pytest.mark.parametrize("task", ["kmeans", "gmm"])
def test_the_number_of_clusters_may_be_left_to_the_sketch(task, folder):
    line = ["fit", task, "-k", "auto", "--max-clusters", 5, "rows.sketch"]
    told = done(*line, "-o", "chosen.json", cwd=folder).stdout.splitlines()
    assert told[0].startswith("k = 3, from 3,000 records")
    assert told[1].startswith("3 clusters: a mixture of 3 Gaussians fits the sketch")
    assert json.loads((folder / "chosen.json").read_text())["choice"]["n_clusters"] == 3


REFUSALS = [
    ("fit stable -k auto rows.sketch", "-k auto is for fit kmeans, kmedians and gmm: give fit stable a number"),
    ("fit pca -k auto moments.sketch", "'auto' is not a positive whole number"),
    ("fit kmeans -k many rows.sketch", "'many' is not a positive whole number, or auto"),
    ("fit kmeans -k 0 rows.sketch", "'0' is not a positive whole number"),
    ("design rows.csv -k auto -o x", "give the most clusters that there may be, such as -k 20"),
    ("sketch rows.csv -k auto -o x", "give the most clusters that there may be, such as -k 20"),
    ("sketch rows.csv -k 3.5 -o x", "'3.5' is not a positive whole number"),
    ("fit kmeans -k 3 --seed one rows.sketch", "'--seed': it must be a whole number"),
    ("fit kmeans -k 3 --seed -1 rows.sketch", "'--seed': it must be at least 0"),
    ("fit gmm -k 3 --covariance-type odd rows.sketch", "'--covariance-type': 'odd' is not one of 'full', 'tied'"),
    ("fit ridge moments.sketch", "there is no fit ridge: did you mean sketchlearn fit regression --alpha gcv?"),
    ("fit mixture -k 3 rows.sketch", "there is no fit mixture: did you mean sketchlearn fit gmm?"),
]


@pytest.mark.parametrize(("line", "sentence"), REFUSALS)
def test_refusals_say_what_to_type(line, sentence, folder):
    result = called(*line.split(), cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert "Input should" not in result.stderr


@pytest.mark.parametrize(
    ("targets", "first", "names"),
    [
        ([], "target sum: R^2 1, from 500 records", ["sum"]),
        (["--targets", "y"], "target y: R^2 1,", ["y"]),
        (["--targets", "0,1"], "targets x, y: R^2", ["x", "y"]),
    ],
)
def test_a_regression_names_its_targets(targets, first, names, folder):
    lines = done("fit", "regression", "moments.sketch", *targets, cwd=folder).stdout.splitlines()
    assert lines[0].startswith(first)
    assert [line.split()[2] for line in lines if line.strip().startswith("coefficients of")] == names


@pytest.mark.parametrize("verb", [["fit", "kmeans", "-k", 3], ["choose", "--max-clusters", 5]])
def test_a_sample_is_read_as_tables_are_elsewhere(verb, folder):
    line = [*verb, "rows.sketch", "--sample", "windows.csv"]
    written = ["--delimiter", ";", "--decimal", ",", "--header", "--encoding", "cp1252"]
    done(*line, *written, cwd=folder)
    result = called(*line, "--delimiter", "|", cwd=folder)
    assert (result.returncode, result.stdout) == (1, "")
    assert "has no column 'a'" in result.stderr


def test_directions_have_no_rounding_errors(folder):
    told = done("fit", "pca", "-k", 4, "moments.sketch", cwd=folder).stdout
    assert "e-" not in told, told
    last = [line for line in told.splitlines() if line.strip().startswith("0.0000")]
    assert [line.split() for line in last] == [["0.0000", "0.5774", "0.5774", "0", "-0.5774"]]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (0.0, "49.6 % (992 records)"),
        (0.0003, "49.6 % (992 records)"),
        (0.0012, "49.6 +- 0.1 % (992 +- 2.4 records)"),
        (0.017, "49.6 +- 1.7 % (992 +- 34 records)"),
    ],
)
def test_profiles_have_no_errors_of_nothing(error, shown):
    assert str(Profile(0, Estimate(0.496, error), 992.0, ())).startswith(f"cluster 0: {shown}")


def test_shares_of_these_records_err_less_than_those_of_their_law():
    """Kept rows and the sketch tell how many of these records there are, whatever the law would have drawn instead."""
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((20_000, 1)) < 0.3, 10.0, 0.0) + rng.standard_normal((20_000, 2))
    model = skl.SketchKMeans(2, random_state=0).fit(rows)
    counted = np.bincount(model.labels_) / len(rows)
    for profile, error, share in zip(skl.profiles(model), model.standard_errors_["weights_"], counted, strict=True):
        assert profile.share.error < error
        assert abs(profile.share.value - share) < 4 * profile.share.error + 1e-4
        assert error == pytest.approx(np.sqrt(share * (1 - share) / len(rows)), rel=0.2)
