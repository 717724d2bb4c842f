"""The command line, run as a user runs it."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import warnings
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from command_line import CENTERS, called, done, run, write_days
from sklearn.exceptions import ConvergenceWarning

import sketchlearn as skl
from sketchlearn.core import errors

VERBS = [
    *("design", "sketch", "merge", "subtract", "privatize", "info", "predict", "report", "sample", "compare", "watch"),
    *("ask", "marginal", "choose", "explain", "keygen", "benchmark", "select-classes", "schema"),
    "demo",
]
FITS = [
    "kmeans",
    "kmedians",
    "gmm",
    "stable",
    "generator",
    "pca",
    "ica",
    "subspaces",
    "regression",
    "kernel",
    "classifier",
]


def write_visits(worked, folder):
    """The rows of the first day, as those of 40 patients."""
    lines = (worked / "day1.csv").read_text().splitlines()
    visits = [f"{line},{'patient_id' if i == 0 else f'P{i % 40}'}" for i, line in enumerate(lines)]
    (folder / "visits.csv").write_text("\n".join(visits))
    return folder / "visits.csv"


@pytest.fixture
def folder(tmp_path):
    return write_days(tmp_path)


@pytest.fixture(scope="session")
def worked(tmp_path_factory):
    """A folder with the files of a worked example: not to be written to."""
    folder = write_days(tmp_path_factory.mktemp("worked"))
    done("design", "day1.csv", "-k", 3, "-o", "design.json", cwd=folder)
    for day in ("day1", "day2"):
        done("sketch", f"{day}.csv", "--design", "design.json", "-o", f"{day}.sketch", cwd=folder)
    done("fit", "kmeans", "-k", 3, "day1.sketch", "-o", "model.json", cwd=folder)
    done("fit", "gmm", "-k", 3, "--covariance-type", "spherical", "day1.sketch", "-o", "gmm.json", cwd=folder)
    return folder


def test_demo(tmp_path):
    """The example of its help."""
    (line,) = examples("demo")
    result = done(*line.split()[1:], cwd=tmp_path)
    assert "The two are byte-identical." in result.stdout
    assert "The sketch equals the one that never had them." in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "250,000 rows" in result.stderr


def test_help_and_version():
    told = done("--help").stdout
    assert all(f"  {verb} " in told for verb in [*VERBS, "fit"])
    assert done("--version").stdout.strip() == f"sketchlearn {skl.__version__}"
    assert run("nonsense").returncode == 2
    assert "demo" in run("--help").stdout


def test_completion():
    variables = {
        **os.environ,
        "_SKETCHLEARN_COMPLETE": "complete_bash",
        "COMP_WORDS": "sketchlearn s",
        "COMP_CWORD": "1",
    }
    assert run(env=variables).stdout.split() == ["schema", "sketch", "subtract", "select-classes", "sample", "serve"]


HEAVY = ("numpy", "scipy", "sklearn", "rich", "safetensors", "sketchlearn.kernels._native", "sketchlearn.features")


@pytest.mark.parametrize("arguments", [["--help"], ["sketch", "--help"], ["fit", "gmm", "--help"]])
def test_help_imports_nothing_heavy(arguments):
    """Start-up is quick because of what is not imported; the time itself is noise on a busy machine."""
    program = (
        "import sys, atexit; from sketchlearn.cli import main\n"
        f"atexit.register(lambda: print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr))\n"
        f"main({arguments!r})"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0
    assert result.stderr.strip() == "[]"


def test_the_package_is_lazy_and_complete():
    program = (
        "import sys, sketchlearn as skl\n"
        "assert 'numpy' not in sys.modules\n"
        "assert all(name in dir(skl) and getattr(skl, name) is not None for name in skl.__all__)\n"
        "from sketchlearn import design, explain, SketchKMeans\n"
        "assert callable(design) and callable(explain) and skl.features.frequencies.Gaussian(1.0)\n"
        "from sketchlearn.core import limits; assert limits.MOST_SECONDS > 0\n"
        "import pickle; assert pickle.loads(pickle.dumps(skl.SketchKMeans(3))).n_clusters == 3\n"
        "assert not hasattr(skl, 'nonsense') and not hasattr(skl, '_nonsense')\n"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def examples(*verb):
    """The lines under "Example:" in a verb's help."""
    told = done(*verb, "--help").stdout
    after = told.split("Example:\n")[1]
    return re.match(r"((?:    .+\n)+)", after).group(1).splitlines()


VERBS_WITH_EXAMPLES = [[], *([verb] for verb in VERBS if verb != "demo"), *(["fit", kind] for kind in FITS)]


@pytest.mark.parametrize("verb", VERBS_WITH_EXAMPLES, ids="-".join)
def test_examples_in_help_run(verb, worked, tmp_path):
    for file in worked.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    write_visits(worked, tmp_path)
    lines = [line.strip() for line in examples(*verb)]
    assert lines
    for line in lines:
        if "|" not in line:
            program, *arguments = shlex.split(line)
            assert program == "sketchlearn"
            done(*arguments, cwd=tmp_path)
            continue
        start = f"sketchlearn() {{ '{sys.executable}' -m sketchlearn \"$@\"; }}; set -eo pipefail\n"
        result = subprocess.run(["bash", "-c", start + line], cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr


def content(path):
    """The bytes of a file, without the ids of batches: a sum has those of its parts."""
    return skl.load(path).content()


def test_two_machines_share_a_design(worked, tmp_path):
    """What is merged has the bytes of one pass over all rows; what is subtracted, those of the rest."""
    done("merge", "day1.sketch", "day2.sketch", "-o", tmp_path / "all.sketch", cwd=worked)
    done("sketch", "day1.csv", "day2.csv", "--design", "design.json", "-o", tmp_path / "one.sketch", cwd=worked)
    assert content(tmp_path / "all.sketch") == content(tmp_path / "one.sketch")
    done("subtract", tmp_path / "all.sketch", "day1.sketch", "-o", tmp_path / "rest.sketch", cwd=worked)
    assert content(tmp_path / "rest.sketch") == content(worked / "day2.sketch")
    assert skl.load(worked / "day1.sketch").operator == skl.load(worked / "design.json")


def test_a_folder_and_a_pattern_are_their_files(worked, tmp_path):
    for data in (".", "day*.csv"):
        done("sketch", data, "--design", "design.json", "-o", tmp_path / "all.sketch", cwd=worked)
        assert skl.load(tmp_path / "all.sketch").count == 5000


def test_clusters_are_found_and_predicted(worked, tmp_path):
    model = skl.load(worked / "model.json")
    order = [int(np.argmin(np.linalg.norm(model.cluster_centers_ - center, axis=1))) for center in CENTERS]
    assert np.allclose(model.cluster_centers_[order], CENTERS, atol=0.3)
    labels = done("predict", "model.json", "day1.csv", cwd=worked).stdout.split()
    assert np.array_equal(np.array(labels, int), model.predict(pd.read_csv(worked / "day1.csv")))
    turned = pd.read_csv(worked / "day1.csv").iloc[:, ::-1].assign(note="text")  # columns go by name
    turned.to_csv(tmp_path / "turned.csv", index=False)
    assert done("predict", "model.json", tmp_path / "turned.csv", cwd=worked).stdout.split() == labels


def test_probabilities_as_csv(worked):
    lines = done("predict", "gmm.json", "day1.csv", "--proba", cwd=worked).stdout.splitlines()
    assert lines[0] == "component_0,component_1,component_2"
    told = np.array([line.split(",") for line in lines[1:]], float)
    frame = pd.read_csv(worked / "day1.csv")
    assert np.array_equal(told, skl.load(worked / "gmm.json").predict_proba(frame))
    assert called("predict", "model.json", "day1.csv", "--proba", cwd=worked).returncode == 2


JSON = {
    "design": ["design", "day1.csv", "-k", 3, "-o", "x"],
    "sketch": ["sketch", "day1.csv", "-k", 3, "-o", "x"],
    "merge": ["merge", "day1.sketch", "day2.sketch", "-o", "x"],
    "subtract": ["subtract", "day1.sketch", "day1.sketch", "-o", "x"],
    "info-sketch": ["info", "day1.sketch"],
    "info-design": ["info", "design.json"],
    "info-model": ["info", "model.json"],
    "fit": ["fit", "kmeans", "-k", 3, "day1.sketch"],
    "predict": ["predict", "model.json", "day1.csv"],
    "compare": ["compare", "day1.sketch", "day2.sketch"],
    "watch": ["watch", "day1.sketch", "day2.sketch"],
    "ask": ["ask", "day1.sketch"],
    "marginal": ["marginal", "day1.sketch", "a"],
    "explain": ["explain", "day1.sketch", "-k", 3],
    "choose": ["choose", "day1.sketch", "--max-clusters", 5],
    "benchmark": ["benchmark", "--rows", 2000],
}
KEYS = {
    "sketch": {"records": 3000, "skipped": {}},
    "merge": {"records": 5000},
    "subtract": {"records": 0},
    "info-sketch": {"kind": "sketch", "records": 3000, "columns": ["a", "b"]},
    "info-design": {"kind": "design"},
    "info-model": {"kind": "model", "type": "kmeans", "records": 3000},
    "fit": {"n_records": 3000, "type": "kmeans"},
    "predict": {"rows": 3000},
    "watch": {"alarms": 0},
    "marginal": {"column": "a"},
    "explain": {"verdict": "FINE"},
    "choose": {"n_clusters": 3, "basis": "GAUSSIANS"},
}


@pytest.mark.parametrize("name", JSON)
def test_json_is_one_object(name, worked, tmp_path):
    arguments = [str(tmp_path / "x") if argument == "x" else argument for argument in JSON[name]]
    told = json.loads(done(*arguments, "--json", cwd=worked).stdout)
    assert {key: told[key] for key in KEYS.get(name, {})} == KEYS.get(name, {})


def test_standard_streams(worked):
    """Rows, sketches and models through pipes, with the bytes of files."""
    rows = (worked / "day1.csv").read_bytes()
    made = done("sketch", "-", "--design", "design.json", "-o", "-", cwd=worked, input=rows, text=False)
    assert made.stdout == (worked / "day1.sketch").read_bytes()
    assert b"3,000 records" in made.stderr
    model = done("fit", "kmeans", "-k", 3, "-", "-o", "-", cwd=worked, input=made.stdout, text=False)
    assert model.stdout == (worked / "model.json").read_bytes()
    labels = done("predict", "model.json", "-", cwd=worked, input=rows, text=False)
    assert labels.stdout == done("predict", "model.json", "day1.csv", cwd=worked, text=False).stdout
    assert b"kind" in done("info", "-", cwd=worked, input=made.stdout, text=False).stdout


def test_csv_on_standard_input(worked):
    def sketched(text, *more):
        arguments = ["sketch", "-", "--design", "design.json", "-o", "-", *more]
        return called(*arguments, cwd=worked, input=text.encode(), text=False)

    plain = sketched("1,2\n3,4.5\n").stdout
    assert skl.from_bytes(plain).count == 2
    for same in ("a,b\n1,2\n3,4.5", 'b,x,a\r\n2,"t, u",1\r\n4.5,,3\r\n', "1,2\n\n3,4.5\n\n", '"1","2"\n3,4.5\n'):
        more = ["--columns", "a,b"] if "x" in same else []
        assert sketched(same, *more).stdout == plain, same
    assert sketched("1,2\n,4\n3,4.5\n", "--nulls", "drop").stdout == plain
    for text, message in [
        ("", "standard input is empty"),
        ("a,b\n1,x\n", "line 2 of standard input, column b: 'x' is not a number"),
        ("a,b\n1,2\n1,2,3\n", "line 3 of standard input has 3 cells, but the first has 2"),
        ("a,b\n1,2\n1,\n", "row 1 of standard input, column 'b' is missing (nan): fill it, or use --nulls drop"),
        ("a,c\n1,2\n", "standard input has no column 'b'"),
        ("1,2,3\n", "the rows have 3 columns, but the operator needs 2"),
        ("1,2\n1,inf\n", "is inf"),
    ]:
        result = sketched(text)
        assert result.returncode == 1, text
        assert message in result.stderr.decode()
        assert not result.stdout


def test_predict_answers_before_the_input_ends(worked):
    command = [sys.executable, "-m", "sketchlearn", "predict", "model.json", "-"]
    with subprocess.Popen(command, cwd=worked, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for line in (b"0,0\n", b"10,0\n1,9\n"):
            process.stdin.write(line)
            process.stdin.flush()
            for _ in line.splitlines():
                assert process.stdout.readline().strip() in (b"0", b"1", b"2")
        process.stdin.close()
    assert process.returncode == 0


def test_a_closed_pipe_ends_quietly(worked):
    rows = "a,b\n" + "1,2\n" * 200_000
    command = [sys.executable, "-m", "sketchlearn", "predict", "model.json", "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=worked, **pipes) as process:
        process.stdout.close()
        try:
            process.stdin.write(rows.encode())
            process.stdin.close()
        except BrokenPipeError:
            pass
        errors = process.stderr.read()
    assert errors == b""
    assert process.returncode == 141


MISTAKES = [
    (["sketch", "day1.csv", "-o", "x"], 2, "give either --design FILE, or -k"),
    (["sketch", "day1.csv", "-k", 0, "-o", "x"], 2, "-k"),
    (["sketch", "nope.csv", "-k", 3, "-o", "x"], 1, "there is no file nope.csv"),
    (["sketch", "*.nope", "-k", 3, "-o", "x"], 1, "no file matches"),
    (["sketch", "day1.csv", "./day1.csv", "-k", 3, "-o", "x"], 2, "is given twice"),
    (["sketch", "day1.csv", "-k", 3, "-o", "day1.csv"], 2, "day1.csv is an input too"),
    (["sketch", "day1.csv", "-k", 3, "-o", "no/x"], 2, "there is no folder no"),
    (["sketch", "day1.csv", "-k", 3, "-o", "."], 2, "is a folder"),
    (["sketch", "day1.csv", "-k", 3, "--columns", "a,z", "-o", "x"], 1, "has no column 'z'"),
    (["sketch", "day1.csv", "-k", 3, "--wave", "odd", "-o", "x"], 1, "wave must be one of"),
    (
        ["sketch", "day1.csv", "--design", "model.json", "-o", "x"],
        1,
        "model.json is a model, not a design: sketchlearn design DATA",
    ),
    (["sketch", "day1.csv", "--design", "day1.csv", "-o", "x"], 1, "day1.csv is a table of rows, not a design"),
    (["sketch", "day1.csv", "-k", 3, "-o", "-", "--json"], 2, "both write to standard output"),
    (["design", "-k", 3, "-o", "x"], 2, "give either DATA"),
    (["design", "--bounds", "1;2", "-k", 3, "-o", "x"], 2, "--bounds 1;2: give LOW,HIGH"),
    (["design", "--bounds", "2,1", "-k", 3, "-o", "x"], 1, "bounds must be"),
    (["merge", "day1.sketch", "-o", "day1.sketch"], 2, "day1.sketch is an input too"),
    (["merge", "-", "-", "-o", "x"], 2, "standard input can be read only once"),
    (["merge", "day1.sketch", "day1.csv", "-o", "x"], 1, "day1.csv is a table of rows, not a sketch: first type"),
    (["merge", "day1.sketch", "nope", "-o", "x"], 1, "cannot read nope: No such file"),
    (["subtract", "day2.sketch", "day1.sketch", "-o", "x"], 1, "cannot subtract 3,000 records from 2,000"),
    (["info", "day1.csv"], 1, "day1.csv: not a sketchlearn file"),
    (["fit", "kmeans", "-k", 3, "--decoder", "odd", "day1.sketch"], 2, "--decoder must be one of"),
    (["fit", "kmeans", "day1.sketch"], 2, "Missing option '-k'"),
    (["fit", "kmeans", "-k", 30000, "day1.sketch"], 1, "ask for fewer"),
    (
        ["fit", "kmeans", "-k", 1000, "day1.sketch"],
        1,
        "cannot determine 1,000 clusters or components in 2 columns: ask for fewer",
    ),
    (
        ["fit", "gmm", "-k", 1000, "day1.sketch"],
        1,
        "cannot determine 1,000 clusters or components in 2 columns: ask for fewer",
    ),
    (["fit", "kmeans", "-k", 3, "day1.sketch", "--sample", "nope.csv"], 1, "there is no file nope.csv"),
    (["fit", "kmeans", "-k", 3, "day1.sketch", "--sample", "design.json"], 1, "design.json is a design, not a table"),
    (["fit", "kmeans", "-k", 3, "-", "--sample", "-"], 2, "standard input can be read only once"),
    (["fit", "kmeans", "-k", 3, "day1.sketch", "--sample", "day1.csv", "-o", "day1.csv"], 2, "is an input too"),
    (["sketch", "day1.csv", "--design", "design.json", "--rows", 5, "-o", "x"], 2, "belong to the design"),
    (["sketch", "day1.csv", "-k", 3, "--rows", 0, "-o", "x"], 2, "--rows"),
    (["design", "day1.csv", "-k", 3, "--rows", 10**6, "-o", "x"], 1, "--rows must be"),
    (["design", "--bounds", "0,1", "-k", 3, "--rows", 5, "-o", "x"], 1, "--rows and --standardize need a sample"),
    (["design", "day1.csv", "--task", "mixture", "-k", 3, "--standardize", "-o", "x"], 1, "--standardize is for clus"),
    (["design", "--images", "2,2", "--bounds", "0,1", "--rows", 5, "-o", "x"], 2, "leave them out with --images"),
    (["predict", "design.json", "day1.csv"], 1, "design.json is a design, not a model: sketchlearn fit"),
    (["predict", "model.json", "design.json"], 1, "design.json is a design, not a table of rows"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), MISTAKES)
def test_mistakes_get_a_sentence(arguments, code, message, worked):
    before = {path.name: path.read_bytes() for path in worked.iterdir()}
    result = called(*arguments, cwd=worked)
    assert result.returncode == code
    assert message in result.stderr
    assert result.stderr.startswith("sketchlearn: ")
    assert len(result.stderr.splitlines()) == 1
    assert not result.stdout
    assert {path.name: path.read_bytes() for path in worked.iterdir()} == before


def test_unexpected_errors_are_sentences_too(worked):
    program = (
        "import sketchlearn.files.sketches as s\n"
        "def odd(data, **more): raise RuntimeError('odd\\nthing')\n"
        "s.from_bytes = odd\n"
        "from sketchlearn.cli import main; main(['merge', 'day1.sketch', '-o', 'x'])"
    )
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, cwd=worked, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr == (
        "sketchlearn: unexpected error, RuntimeError: odd thing (SKETCHLEARN_DEBUG=1 shows where it happened)\n"
    )
    variables = {**os.environ, "SKETCHLEARN_DEBUG": "1"}
    assert "Traceback" in subprocess.run(command, cwd=worked, capture_output=True, text=True, env=variables).stderr


def test_interruption_leaves_nothing(folder):
    np.save(folder / "many.npy", np.random.default_rng(0).standard_normal((300_000, 4)))
    before = {path.name for path in folder.iterdir()}
    command = [sys.executable, "-m", "sketchlearn", "sketch", "many.npy", "-k", "3", "--n-frequencies", "20000"]
    with subprocess.Popen([*command, "-o", "x"], cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert "one was made on" in process.stderr.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
    assert told == "sketchlearn: interrupted\n"
    assert process.returncode == 130
    assert {path.name for path in folder.iterdir()} == before


def test_an_output_is_replaced_as_a_whole(worked, tmp_path):
    output = tmp_path / "x.sketch"
    output.write_bytes(b"before")
    assert called("merge", "day1.sketch", "day1.csv", "-o", output, cwd=worked).returncode == 1
    assert output.read_bytes() == b"before"
    done("merge", "day1.sketch", "-o", output, cwd=worked)
    assert output.read_bytes() == (worked / "day1.sketch").read_bytes()


def test_progress_only_if_asked(worked, tmp_path):
    arguments = ["sketch", "day1.csv", "--design", "design.json", "-o", tmp_path / "x"]
    assert done(*arguments, cwd=worked).stderr == ""
    told = done(*arguments, "--progress", cwd=worked).stderr
    assert "3,000 rows" in told
    assert "rows/s" in told


def test_bad_files_are_named_or_listed(worked, tmp_path):
    bad, output = tmp_path / "bad.csv", tmp_path / "x.sketch"
    bad.write_text("a,b\n1,2\n1,2,3\n")
    arguments = ["sketch", "day1.csv", bad, "--design", "design.json", "-o", output]
    result = called(*arguments, cwd=worked)
    assert result.returncode == 1
    assert str(bad) in result.stderr
    assert not output.exists()
    told = done(*arguments, "--skip-bad", cwd=worked).stdout
    assert f"skipped: {bad}" in told
    assert "3,000 records of 2 files" in told
    assert str(bad) in done("info", output).stdout
    assert skl.load(output) == skl.load(worked / "day1.sketch")


def test_a_checkpoint_keeps_the_design(folder):
    arguments = ["sketch", "day1.csv", "day2.csv", "-k", 3, "--checkpoint", "parts", "-o", "x.sketch"]
    assert "one was made on" in done(*arguments, cwd=folder).stderr
    first = (folder / "x.sketch").read_bytes()
    again = done(*arguments, cwd=folder)
    assert "using the design that" in again.stderr
    assert "2 of them from the checkpoint" in again.stdout
    assert (folder / "x.sketch").read_bytes() == first


@pytest.fixture(scope="session")
def exact_of_bounds(worked, tmp_path_factory):
    """Sketches of both days by a design on bounds."""
    folder = tmp_path_factory.mktemp("private")
    done("design", "--bounds", "-20,20", "--columns", "a,b", "-k", 3, "-o", folder / "bounds.json")
    for day in ("day1", "day2"):
        done("sketch", worked / f"{day}.csv", "--design", folder / "bounds.json", "-o", folder / f"{day}.sketch")
    return folder


def test_private_releases_and_their_merge(exact_of_bounds, tmp_path):
    for day, epsilon in (("day1", 1), ("day2", 2)):
        told = done("privatize", f"{day}.sketch", "--epsilon", epsilon, "-o", tmp_path / day, cwd=exact_of_bounds)
        assert f"epsilon {epsilon} for adding or removing one record; discrete Laplace noise" in told.stdout
        assert skl.load(tmp_path / day).ledger.private
    for option, epsilon in ((), 3), (("--overlapping",), 3), (("--disjoint",), 2):
        told = done("merge", "day1", "day2", *option, "-o", "all", "--json", cwd=tmp_path)
        assert json.loads(told.stdout)["ledger"]["epsilon"] == epsilon == skl.load(tmp_path / "all").ledger.epsilon
    assert "2 releases, parallel composition" in done("info", "all", cwd=tmp_path).stdout
    assert json.loads(done("info", "all", "--json", cwd=tmp_path).stdout)["ledger"]["releases"] == 2
    done("fit", "kmeans", "-k", 3, "all", "-o", "model.json", cwd=tmp_path)
    assert "epsilon 2 for adding or removing one record" in done("info", "model.json", cwd=tmp_path).stdout
    told = called("merge", "day1", exact_of_bounds / "day2.sketch", "-o", "mixed", cwd=tmp_path)
    assert (told.returncode, told.stderr.count("\n")) == (1, 1)
    assert "cannot add a private sketch and an exact one" in told.stderr


def test_a_further_release_is_paid(exact_of_bounds, tmp_path):
    exact, first = exact_of_bounds / "day1.sketch", tmp_path / "first"
    done("privatize", exact, "--epsilon", 1, "-o", first)
    options = ["--epsilon", 0.5, "--delta", 1e-6, "--already", first, "-o", tmp_path / "second", "--json"]
    ledger = json.loads(done("privatize", exact, *options).stdout)["ledger"]
    assert (ledger["epsilon"], ledger["delta"], ledger["composition"]) == (1.5, 1e-6, "sequential")
    told = called("privatize", exact, "--epsilon", 1, "--already", exact, "-o", tmp_path / "third")
    assert told.returncode == 1
    assert "--already takes an earlier private release" in told.stderr


def test_shares_of_noise_are_private_in_their_sum_alone(exact_of_bounds, worked, tmp_path):
    """What one party writes, and a sum of too few, say that they are not private; a sum of all of them is."""
    for name, rows in (("one", "day1.csv"), ("two", "day2.csv"), ("three", "day1.csv")):
        design = ["--design", exact_of_bounds / "bounds.json"]
        done("sketch", worked / rows, *design, "--batch", f"party {name}", "-o", name, cwd=tmp_path)
        told = done("privatize", name, "--epsilon", 1, "--parties", 3, "-o", f"{name}.share", cwd=tmp_path).stdout
        assert "NOT private until 3 parties' shares are added, and this is one of them" in told
        assert "learns little more" not in told
        assert (tmp_path / f"{name}.share").stat().st_mode & 0o077 == 0
    told = done("merge", "one.share", "two.share", "-o", "few", cwd=tmp_path).stdout
    assert "NOT private yet: " in told
    for file in ("one.share", "few"):
        told = done("info", file, cwd=tmp_path).stdout
        assert "share of noise, not private yet" in told
        assert "private sketch" not in told
        ledger = json.loads(done("info", file, "--json", cwd=tmp_path).stdout)["ledger"]
        assert (ledger["parties"], ledger["shares"]) == (3, 1 if file == "one.share" else 2)
        told = called("fit", "kmeans", "-k", 3, file, cwd=tmp_path)
        assert told.returncode == 1
        assert "not private yet" in told.stderr
    told = done("merge", "few", "three.share", "-o", "all", cwd=tmp_path).stdout
    assert "private: epsilon 1 for adding or removing one record" in told
    assert "private sketch" in done("info", "all", cwd=tmp_path).stdout
    done("fit", "kmeans", "-k", 3, "all", "-o", "model.json", cwd=tmp_path)
    told = called("merge", "one.share", "one.share", "-o", "twice", cwd=tmp_path)
    assert (told.returncode, "one is added twice" in told.stderr) == (1, True)


def test_shares_of_noise_have_no_delta(exact_of_bounds, tmp_path):
    options = ["--epsilon", 1, "--delta", 1e-6, "--parties", 3, "--budget", tmp_path / "books", "-o", tmp_path / "x"]
    told = called("privatize", exact_of_bounds / "day1.sketch", *options)
    assert told.returncode == 1
    assert "leave out --delta, or --parties" in told.stderr
    assert called("privatize", exact_of_bounds / "day1.sketch", *options[:5], "0", *options[6:]).returncode == 2


def test_names_of_classes_are_selected_and_booked(folder):
    """A class of one record is not named in what is written and printed; budgets and the model have what it cost."""
    (folder / "day3.csv").write_text("a,b\n1,1\n")
    done("design", "--bounds", "-20,20", "--columns", "a,b", "--task", "moments", "-o", "moments.json", cwd=folder)
    for day in ("day1", "day2", "day3"):
        done("sketch", f"{day}.csv", "--design", "moments.json", "-o", f"{day}.sketch", cwd=folder)
    classes = ["zebra=day3.sketch", "two=day2.sketch", "one=day1.sketch"]
    options = ["--epsilon", 0.5, "--delta", 1e-6, "-o", "classes.json"]
    told = done("select-classes", *classes, *options, cwd=folder).stdout
    assert "selected: one, two\n" in told
    assert "zebra" not in told + (folder / "classes.json").read_text()
    assert "one, two" in done("info", "classes.json", cwd=folder).stdout
    for day in ("day1", "day2"):
        told = done("privatize", f"{day}.sketch", "--epsilon", 1, "-o", f"{day}.private", cwd=folder).stdout
        assert "has booked epsilon 1.5, delta 1e-06 in 2 releases for these rows, of 10." in told
    fit = ["fit", "classifier", "--classes", "classes.json", "one=day1.private", "two=day2.private"]
    privacy = json.loads(done(*fit, "--json", cwd=folder).stdout)["privacy"]
    assert (privacy["epsilon"], privacy["delta"]) == (1.5, 1e-6)
    told = called(*fit, "zebra=day3.sketch", cwd=folder)
    assert (told.returncode, told.stderr.count("\n")) == (1, 1)
    assert "zebra" not in told.stderr
    told = called("fit", "classifier", "--classes", "moments.json", "one=day1.private", cwd=folder)
    assert "not a sketchlearn classes, but a sketchlearn design" in told.stderr


def test_release_of_a_sampled_design_needs_a_word(worked, tmp_path):
    told = called("privatize", "day1.sketch", "--epsilon", 1, "-o", tmp_path / "x", cwd=worked)
    assert told.returncode == 1
    assert "designed on a sample of rows" in told.stderr
    assert not (tmp_path / "x").exists()
    options = ["--assume-public-design", "--neighbors", "replace", "-o", tmp_path / "x"]
    options += ["--budget", tmp_path / "budget.sqlite"]
    assert "for replacing one record" in done("privatize", "day1.sketch", "--epsilon", 1, *options, cwd=worked).stdout
    assert called("privatize", "day1.sketch", "--epsilon", 0, *options, cwd=worked).returncode == 1


def test_subspaces_regressions_and_classes(folder):
    done("design", "day1.csv", "--task", "moments", "-o", "moments.json", cwd=folder)
    for day in ("day1", "day2"):
        done("sketch", f"{day}.csv", "--design", "moments.json", "-o", f"{day}.moments", cwd=folder)
    done("merge", "day1.moments", "day2.moments", "-o", "all.moments", cwd=folder)
    rows = np.concatenate(
        [np.genfromtxt(folder / f"{day}.csv", delimiter=",", skip_header=1) for day in ("day1", "day2")]
    )

    assert "of the variance" in done("fit", "pca", "-k", 1, "all.moments", "-o", "pca.json", cwd=folder).stdout
    assert "principal components" in done("info", "pca.json", cwd=folder).stdout
    told = np.array(json.loads(done("predict", "pca.json", "day1.csv", "--json", cwd=folder).stdout)["coordinates"])
    pca = skl.SketchPCA(1).fit(rows)
    np.testing.assert_allclose(told, pca.transform(rows[:3000]), atol=1e-4)

    done("sketch", "day1.csv", "--task", "ica", "-o", "day1.ica", cwd=folder)
    assert "2 independent components" in done("fit", "ica", "day1.ica", "-o", "ica.json", cwd=folder).stdout
    told = np.array(json.loads(done("predict", "ica.json", "day1.csv", "--json", cwd=folder).stdout)["coordinates"])
    np.testing.assert_allclose(np.cov(told.T, bias=True), np.eye(2), atol=1e-4)
    assert "cumulants of 2 components" in done("info", "day1.ica", cwd=folder).stdout
    done("sketch", "day1.csv", "day2.csv", "--task", "subspaces", "-o", "all.fourth", cwd=folder)
    assert "noise" in done("fit", "subspaces", "-k", 1, "-p", 1, "all.fourth", "-o", "line.json", cwd=folder).stdout
    assert "subspace clusters" in done("info", "line.json", cwd=folder).stdout
    assert set(done("predict", "line.json", "day1.csv", cwd=folder).stdout.split()) == {"0"}

    done("fit", "regression", "all.moments", "--targets", "a", "--alpha", "gcv", "-o", "ridge.json", cwd=folder)
    shown = done("fit", "regression", "all.moments", "--targets", "a", "-o", "line.json", cwd=folder).stdout
    assert "standard errors" in shown
    told = np.array([float(line) for line in done("predict", "line.json", "day1.csv", cwd=folder).stdout.split()])
    line = skl.SketchLinearRegression().fit(rows[:, 1:], rows[:, 0])
    np.testing.assert_allclose(told, line.predict(rows[:3000, 1:]), atol=1e-4)
    assert json.loads(done("info", "ridge.json", "--json", cwd=folder).stdout)["type"] == "ridge"

    done("design", "day1.csv", "--task", "kernel", "--targets", "a", "-o", "kernel.json", cwd=folder)
    done("sketch", "day1.csv", "day2.csv", "--design", "kernel.json", "-o", "all.kernel", cwd=folder)
    assert "R^2" in done("fit", "kernel", "all.kernel", "-o", "curve.json", cwd=folder).stdout
    told = np.array([float(line) for line in done("predict", "curve.json", "day1.csv", cwd=folder).stdout.split()])
    assert np.mean((told - rows[:3000, 0]) ** 2) <= np.mean((line.predict(rows[:3000, 1:]) - rows[:3000, 0]) ** 2)

    done("fit", "classifier", "one=day1.moments", "two=day2.moments", "-o", "classes.json", cwd=folder)
    labels = done("predict", "classes.json", "day1.csv", cwd=folder).stdout.split()
    assert set(labels) <= {"one", "two"}
    assert done("predict", "classes.json", "day1.csv", "--proba", cwd=folder).stdout.startswith("one,two\n")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["design", "day1.csv", "-o", "x"], 2, "Missing option '-k'"),
        (["fit", "pca", "-k", 1, "day1.sketch"], 1, "PCA needs a sketch of second moments"),
        (["fit", "ica", "day1.sketch"], 1, "ICA needs a sketch of second moments beside cumulant features"),
        (["design", "--bounds", "0,1", "--columns", "a,b", "--task", "ica", "-o", "x"], 1, "needs a sample of rows"),
        (["fit", "subspaces", "-k", 2, "day1.sketch"], 1, "a model of subspaces needs a sketch of fourth moments"),
        (["fit", "subspaces", "-k", 2, "-p", "plane", "day1.sketch"], 2, "--dimensions must be a number"),
        (["fit", "regression", "day1.sketch"], 1, "linear regression needs a sketch of second moments"),
        (["fit", "regression", "day1.sketch", "--alpha", "some"], 2, "--alpha must be a number or gcv"),
        (["fit", "classifier", "day1.sketch", "day2.sketch"], 2, "give LABEL=SKETCH"),
        (["fit", "classifier", "a=day1.sketch", "a=day2.sketch"], 2, "the label a is given twice"),
        (["fit", "classifier", "a=day1.sketch"], 1, "all rows are of one class"),
    ],
)
def test_other_tasks_refuse_in_a_sentence(arguments, status, message, worked):
    result = called(*arguments, cwd=worked)
    assert result.returncode == status, result.stderr
    assert message in result.stderr


@pytest.fixture(scope="session")
def with_rows(worked, tmp_path_factory):
    """A design that keeps rows and standardizes, the same without rows, and sketches: not to be written to."""
    folder = tmp_path_factory.mktemp("rows")
    for name, options in (("kept", ["--rows", 200, "--standardize"]), ("plain", ["--standardize"])):
        done("design", worked / "day1.csv", "-k", 3, *options, "-o", folder / f"{name}.json")
        for day in ("day1", "day2"):
            data, design = worked / f"{day}.csv", folder / f"{name}.json"
            done("sketch", data, "--design", design, "-o", folder / f"{name}-{day}.sketch")
    return folder


def test_designs_say_what_rows_and_units_mean(worked, tmp_path):
    output = tmp_path / "design.json"
    told = done("design", "day1.csv", "-k", 3, "--rows", 200, "--standardize", "-o", output, cwd=worked).stdout
    assert "Each sketch keeps up to 200 of the records, in the clear" in told
    assert "Errors count in standard deviations of the columns" in told
    operator = skl.load(output)
    assert operator.keeping.size == 200
    rows = np.loadtxt(worked / "day1.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(operator.error_units, rows.std(axis=0), rtol=1e-3)
    output = tmp_path / "x.sketch"
    told = done("sketch", "day1.csv", "-k", 3, "--rows", 200, "--standardize", "-o", output, cwd=worked)
    assert "Each sketch keeps up to 200 of the records, in the clear" in told.stderr
    assert "rows: 200 of the records are in this file, in the clear" in told.stdout
    assert len(skl.load(output).kept) == 200


def test_info_says_that_rows_are_in_the_file(worked, with_rows, tmp_path):
    told = done("info", "kept-day1.sketch", cwd=with_rows).stdout
    assert re.search(r"^rows +200 of the records are in this file, in the clear$", told, re.MULTILINE)
    assert re.search(r"^errors +count in standard deviations: a [\d.]+, b [\d.]+$", told, re.MULTILINE)
    figures = json.loads(done("info", "kept-day1.sketch", "--json", cwd=with_rows).stdout)
    assert (figures["rows"], len(figures["error_units"])) == (200, 2)
    told = done("info", "kept.json", cwd=with_rows).stdout
    assert re.search(r"^rows +each sketch keeps up to 200 of the records, in the clear", told, re.MULTILINE)
    assert "count in standard deviations" in told
    told = done("info", "plain-day1.sketch", cwd=with_rows).stdout
    assert "\nrows " not in told
    assert "count in standard deviations" in told
    told = done("info", "day1.sketch", cwd=worked).stdout
    assert "\nrows " not in told
    assert "standard deviations" not in told
    done("sketch", "day1.csv", "-k", 3, "--rows", 4000, "-o", tmp_path / "all.sketch", cwd=worked)
    told = done("info", tmp_path / "all.sketch").stdout
    assert "all records are in this file, in the clear (3,000 different ones)" in told
    skl.Sketch(skl.load(with_rows / "kept.json")).save(tmp_path / "empty.sketch")
    assert re.search(r"^rows +none yet", done("info", tmp_path / "empty.sketch").stdout, re.MULTILINE)


def test_sums_and_differences_keep_rows_if_all_do(with_rows, tmp_path):
    def summed(verb, *paths):
        result = done(verb, *paths, "-o", tmp_path / "x.sketch", cwd=with_rows)
        return skl.load(tmp_path / "x.sketch"), result

    whole, told = summed("merge", "kept-day1.sketch", "kept-day2.sketch")
    assert (len(whole.kept), told.stderr) == (200, "")
    assert "rows: 200 of the records are in this file" in told.stdout
    whole.save(tmp_path / "all.sketch")
    rest, told = summed("subtract", tmp_path / "all.sketch", "kept-day1.sketch")
    assert 0 < len(rest.kept) < 200
    assert told.stderr == ""
    assert f"rows: {len(rest.kept)} of the records" in told.stdout
    mixed, told = summed("merge", "kept-day1.sketch", "plain-day2.sketch")
    assert (mixed, mixed.kept) == (whole, None)
    assert told.stderr == "sketchlearn: the sum keeps no rows: plain-day2.sketch keeps none\n"
    told = summed("merge", "--overlapping", "kept-day1.sketch", "plain-day1.sketch", "plain-day2.sketch")[1]
    assert "plain-day1.sketch and 1 more keep none" in told.stderr
    rest, told = summed("subtract", tmp_path / "all.sketch", "plain-day1.sketch")
    assert rest.kept is None
    assert told.stderr == "sketchlearn: what is left keeps no rows: plain-day1.sketch keeps none\n"
    assert summed("merge", "plain-day1.sketch", "plain-day2.sketch")[1].stderr == ""


def test_rules_of_two_designs_do_not_mix(worked, with_rows, tmp_path):
    done("design", worked / "day1.csv", "-k", 3, "--rows", 100, "--standardize", "-o", tmp_path / "other.json")
    done("sketch", worked / "day2.csv", "--design", tmp_path / "other.json", "-o", tmp_path / "day2.sketch")
    files = [with_rows / "kept-day1.sketch", tmp_path / "day2.sketch"]
    assert "keep rows by different rules" in done("merge", *files, "-o", tmp_path / "x.sketch").stderr
    assert skl.load(tmp_path / "x.sketch").kept is None


def test_a_private_release_has_no_rows(with_rows, tmp_path):
    options = ["--epsilon", 1, "--assume-public-design", "-o", tmp_path / "x.sketch"]
    told = done("privatize", "kept-day1.sketch", *options, cwd=with_rows).stdout
    assert "The rows that kept-day1.sketch keeps are not in" in told
    release = skl.load(tmp_path / "x.sketch")
    assert (release.kept, release.operator.keeping) == (None, None)
    for told in (done("info", tmp_path / "x.sketch").stdout, done("info", tmp_path / "x.sketch", "--json").stdout):
        assert "in the clear" not in told
        assert "keeping" not in told
        assert not re.search(r"^rows|\"rows\"", told, re.MULTILINE)
    done("fit", "kmeans", "-k", 3, tmp_path / "x.sketch")


@pytest.mark.parametrize("verb", ["compare", "watch", "marginal", "explain"])
def test_questions_do_not_look_at_rows(verb, with_rows):
    more = {"marginal": ["a"], "explain": ["-k", 3]}.get(verb)
    answers = []
    for name in ("kept", "plain"):
        files = [f"{name}-day{i}.sketch" for i in ((1, 2) if more is None else (1,))]
        answers.append(done(verb, *files, *(more or []), cwd=with_rows).stdout.replace("plain", "kept"))
    assert answers[0] == answers[1]


def nearest_to_centers(path):
    model = skl.load(path)
    centers = model.cluster_centers_ if hasattr(model, "cluster_centers_") else model.means_
    return max(np.linalg.norm(centers - center, axis=1).min() for center in CENTERS)


@pytest.mark.parametrize("kind", ["kmeans", "kmedians", "gmm", "stable"])
def test_fit_takes_kept_rows_or_a_sample(kind, worked, with_rows, tmp_path):
    model = tmp_path / "model.json"
    done("fit", kind, "-k", 3, with_rows / "kept-day1.sketch", "-o", model)
    assert nearest_to_centers(model) < 0.3
    rows = (worked / "day1.csv").read_bytes()
    for sample in ("day1.csv", "day[1].csv", "-"):
        done("fit", kind, "-k", 3, "day1.sketch", "--sample", sample, "-o", model, cwd=worked, input=rows)
        assert nearest_to_centers(model) < 0.3


def test_a_sample_has_the_columns_of_the_sketch(worked):
    arguments = ["fit", "kmeans", "-k", 3, worked / "day1.sketch", "--sample", "-", "--json"]
    text = (worked / "day2.csv").read_text()
    swapped = ["b,x,a", *(f"{b},0,{a}" for a, b in (line.split(",") for line in text.split()[1:])), "1,2,"]
    told = [json.loads(done(*arguments, input="\n".join(lines).encode()).stdout) for lines in (text.split(), swapped)]
    assert told[0]["centers"] == told[1]["centers"]
    for wrong, message in [
        ("a,c\n1,2\n", "standard input has no column 'b'"),
        ("1,2,3\n4,5,6\n", "--sample has 3 columns, but the sketch has 2"),
        ("a,b\n1,\n", "every row has values that are missing"),
        ("", "standard input is empty"),
    ]:
        result = called(*arguments, input=wrong.encode())
        assert (result.returncode, result.stdout) == (1, ""), wrong
        assert message in result.stderr


def test_of_a_large_sample_some_rows_are_used(worked, tmp_path):
    rng = np.random.default_rng(1)
    np.save(tmp_path / "many.npy", rng.standard_normal((20_100, 2)) + CENTERS[rng.integers(0, 3, 20_100)])
    model = tmp_path / "model.json"
    arguments = ["fit", "kmeans", "-k", 3, "day1.sketch", "--sample", tmp_path / "many.npy", "-o", model]
    assert "of --sample, 20,000 rows are used (drawn at random)" in done(*arguments, cwd=worked).stderr
    assert nearest_to_centers(model) < 0.3


def test_warnings_about_a_fit_are_told_and_strict_counts_them(worked, tmp_path):
    """In options, and whatever Python does with warnings: here, it makes errors of them."""
    learn = skl.SketchKMeans.learn_from_sketch

    def doubtful(*arguments):
        sample, design = errors.either("sample=rows", "--sample FILE"), errors.called("design", "...", rows=500)
        message = f"a poor fit:\n try another {errors.Parameter('random_state')}, {sample} or {design}"
        for _ in range(2):
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        return learn(*arguments)

    sentence = "a poor fit: try another --seed, --sample FILE or sketchlearn design --rows 500"
    arguments = ["fit", "kmeans", "-k", 3, "day1.sketch", "-o", tmp_path / "model.json"]
    with mock.patch.object(skl.SketchKMeans, "learn_from_sketch", doubtful):
        for options, code in ([], 0), (["--strict"], 3):
            (tmp_path / "model.json").unlink(missing_ok=True)
            result = called(*arguments, *options, cwd=worked)
            assert (result.returncode, result.stderr) == (code, f"sketchlearn: warning: {sentence}\n")
            assert "k = 3, from 3,000 records" in result.stdout
            assert (tmp_path / "model.json").exists()
        told = called(*arguments, "--strict", "--json", cwd=worked)
        assert (told.returncode, json.loads(told.stdout)["warnings"]) == (3, [sentence])
    result = done(*arguments, "--strict", "--json", cwd=worked)
    assert (result.stderr, json.loads(result.stdout)["warnings"]) == ("", [])


def test_warnings_about_a_fit_cannot_be_silenced(folder):
    """Three lines in a plane are not determined by fourth moments."""
    done("sketch", "day1.csv", "--task", "subspaces", "-o", "day1.fourth", cwd=folder)
    arguments = ["fit", "subspaces", "-k", 3, "-p", 1, "day1.fourth", "--strict"]
    result = run(*arguments, cwd=folder, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    assert result.returncode == 3
    assert result.stderr.startswith("sketchlearn: warning: ")
    assert "do not determine 3 subspaces of dimension 1" in result.stderr


TWO_ROWS = ("--unit", "patient_id", "--rows-per-unit", 2)


def test_units_on_the_command_line(worked, tmp_path):
    def sketched(name, *files):
        path = tmp_path / f"{name}.sketch"
        return path, done("sketch", *files, *TWO_ROWS, "--design", worked / "design.json", "-o", path).stdout

    visits = write_visits(worked, tmp_path)
    lines = visits.read_text().splitlines()
    for name, part in (("a", lines[1:200]), ("b", lines[200:])):
        (tmp_path / f"{name}.csv").write_text("\n".join([lines[0], *part]))
    whole, told = sketched("whole", visits)
    assert "80 records of 1 file, at most 2 rows of each patient_id" in told
    assert sketched("files", tmp_path / "b.csv", tmp_path / "a.csv")[0].read_bytes() == whole.read_bytes()
    parts = [sketched(name, tmp_path / f"{name}.csv")[0] for name in "ab"]
    for option, rows in ((), 4), (("--disjoint",), 2):
        done("merge", *parts, *option, "-o", tmp_path / "all.sketch")
        told = done("info", tmp_path / "all.sketch").stdout
        assert f"units            at most {rows} rows of each patient_id" in told
    told = done("privatize", whole, "--epsilon", 1, "--assume-public-design", "-o", tmp_path / "p.sketch").stdout
    assert "per patient_id (at most 2 rows each)" in told
    assert "learns little more about one patient_id than" in told
    assert json.loads(done("info", tmp_path / "p.sketch", "--json").stdout)["ledger"]["rows_per_unit"] == 2
    told = done("sketch", visits, *TWO_ROWS, "-k", 3, "-o", tmp_path / "k.sketch").stdout
    assert "80 records" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["day1.csv", "--rows-per-unit", 2], "give --unit and --rows-per-unit together"),
        (["-", *TWO_ROWS], "standard input can be read only once: give files"),
        (["day1.csv", *TWO_ROWS, "--checkpoint", "parts"], "--checkpoint and --skip-bad take file by file"),
        (["day1.csv", *TWO_ROWS], "day1.csv has no column 'patient_id'"),
    ],
)
def test_units_are_refused_in_a_sentence(worked, tmp_path, arguments, message):
    result = called("sketch", *arguments, "--design", "design.json", "-o", tmp_path / "no.sketch", cwd=worked)
    assert result.returncode in (1, 2)
    assert message in result.stderr
    assert not (tmp_path / "no.sketch").exists()
