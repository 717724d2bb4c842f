"""What the command line says is said in its own words: options and commands, not Python's arguments and calls.

Messages are collected from the source, whether or not a test reaches them; `called` of test_cli.py looks at all that
any test lets the command line print.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from plain_words import python_in
from test_cli import called, done

import sketchlearn
from sketchlearn.cli.option_messages import in_options

SOURCE = Path(sketchlearn.__file__).parent
LEAST_WORDS = 4  # fewer are a name, or a part of a sentence

#: parts of the package that the command line does not call: tensors, bits, kernel features, other engines, weights
IN_PYTHON_ALONE = (
    "collector/database.py",  # statements of SQL
    *("engines", "packed.py", "private_bits.py", "randomised_response.py", "rows/weights.py"),
    *("tasks/kernel_features", "kernels/native/gpu", "privacy/session.py"),
)
#: messages that only Python code can bring about, by what they contain
FROM_PYTHON_ALONE = (
    "KMeans(n_init=10)",  # the demonstration is about Python
    "make it with Budget(path, epsilon=...)",  # Budget.open
    "CREATE TABLE",
    "make the sketch with operator.sketch(rows)",  # Sketch(...) with sums of one's own
    "law must be a law of sketchlearn.features.frequencies",
    "declare pixels=(lowest, highest)",  # design --images clips
    "must be None or one number for each",  # Histograms(values=...)
    "its class must define change_by_record",  # classes of one's own
    "sample_weight needs an array of rows",
    "as operator.pack(rows) gives them",
    "use wave='square' or skl.waves.QuantizedCosine(bits)",
    "private bits are of wave='square'",
    "randomised responses are of single bits",
    "see skl.measured_wave",  # features that hardware computed
    "features that something else computed",
    "use wave='cosine'",
    "count_share must be a number between 0 and 1",
    "only `marginal` can be asked of histograms alone",
    "put it into pyarrow.table(",
    "pass blocks of rows through to_dense()",
    "features must be an operator",
    "declare all of them with classes=[...]",  # fit classifier declares them
    "give fit_sketch({label: sketch, ...})",
    "expected a dictionary of one Sketch per class",
    "rows go through fit(rows)",
    "rows go through 7(rows)",
    "network must be a torch.nn.Module",
    "the network must take rows of",
    "SELECT ",  # queries of databases
    "tables (sqlite:shop.db?table=orders",  # how tables of databases are addressed
    "rows of units have weight 1: leave out sample_weight",
    "shares and count_share add up to",
    "shares must be a dictionary such as",
    "sample_weight needs rows whose number is known",
    "sample_weight sums to",
    "sample_weight is not for Dask and Spark",
    "with targets, Dask and Spark take a schema with a design",
    "needs rows, and these are on other machines",
    'schema="auto" would take the scales',
    "have one scale, which tells no better one",  # design takes no sketch on the command line
    "skl.7 reads it",  # wanted_files.py says it in commands
    "a covariance matrix is needed for --covariance-type known",  # which --covariance-type does not offer
)


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """All strings but docstrings, with 7 or 'x' in place of what is filled in."""
    parts = {id(v) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for v in ast.walk(node)} - {
        id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
    }
    said_alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in parts or id(node) in said_alone:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(_filled_in(value) for value in node.values)


def _filled_in(value: ast.expr) -> str:
    if isinstance(value, ast.Constant):
        return str(value.value)
    assert isinstance(value, ast.FormattedValue)
    return "'x'" if value.conversion == ord("r") else "7"


def test_no_message_that_the_command_line_can_show_speaks_python():
    found, used = [], set()
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(IN_PYTHON_ALONE) or name == "cli/option_messages.py":
            continue
        for line, text in texts(ast.parse(path.read_text(encoding="utf-8"))):
            said = in_options(" ".join(text.split()))
            assert in_options(said) == said, "what is said in options is said again: a message may pass twice"
            excuse = next((known for known in FROM_PYTHON_ALONE if known in said), None)
            used |= {excuse}
            if said.count(" ") >= LEAST_WORDS - 1 and excuse is None and python_in(said):
                found.append(f"{name}:{line}: {said}")
    assert found == [], "\n".join(["say it in options, in cli/option_messages.py:", *found])
    assert set(FROM_PYTHON_ALONE) <= used, "these are no longer there: " + ", ".join(set(FROM_PYTHON_ALONE) - used)


@pytest.mark.parametrize(
    ("python", "options"),
    [
        ("row 3, column 'a' is missing (nan): fill it, or read with nulls=\"drop\"", "use --nulls drop"),
        ("if the sample is public, say assume_public_design=True", "public, give --assume-public-design"),
        ("PCA needs a sketch of second moments (skl.SecondMoments), or of quadratic features beside (x)", "moments)"),
        ("n_dimensions=3 must be at most the number of columns, 2", "--dimensions 3 must be at most"),
        ("try other n_clusters or n_dimensions, or rows", "try other -k or --dimensions, or rows"),
        ("give it n_rows.csv, 'n_rows' or (n_rows)", "give it n_rows.csv, 'n_rows' or (--n-rows)"),
    ],
)
def test_arguments_become_options(python, options):
    said = in_options(python)
    assert options in said
    assert not python_in(said)
    assert in_options(said) == said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["privatize", "rows.sketch", "--epsilon", 1, "-o", "x"], "public, give --assume-public-design"),
        (["privatize", "bounds.sketch", "--epsilon", 30, "-o", "x"], "ask for less, or give --allow-weak"),
        (["merge", "rows.sketch", "rows.sketch", "-o", "x"], "if it shall count twice, give --overlapping"),
        (["fit", "pca", "-k", 1, "rows.sketch"], "a sketch of second moments (sketchlearn design --task moments)"),
        (
            ["fit", "subspaces", "-k", 1, "rows.sketch"],
            "moments (sketchlearn design --task subspaces), but the sketch has none",
        ),
        (["fit", "ica", "rows.sketch"], "(sketchlearn design --task ica)"),
        (["fit", "pca", "-k", 9, "moments.sketch"], "-k 9 must be at most the number of columns, 2"),
        (["fit", "regression", "moments.sketch", "--targets", "7"], "--targets must name columns of the sketch"),
        (["explain", "moments.sketch", "-k", 2], "needed, but this one has none: use sketchlearn design"),
        (["sketch", "rows.csv", "--design", "swapped.json", "-o", "x"], "choose them with --columns"),
        (["sketch", "rows.csv", "-k", 2, "--jobs", 0, "-o", "x"], "--jobs must be a whole number other than 0"),
        (["sketch", "gaps.csv", "-k", 2, "-o", "x"], "fill it, or use --nulls drop"),
    ],
)
def test_refusals_name_options(arguments, message, folder):
    result = called(*arguments, cwd=folder)
    assert (result.returncode, result.stdout) == (1, "")
    assert message in result.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("messages")
    lines = [f"{i % 7},{i % 5 + 10 * (i % 2)}" for i in range(300)]
    (folder / "rows.csv").write_text("\n".join(["a,b", *lines]))
    (folder / "swapped.csv").write_text("\n".join(["b,a", *lines]))
    (folder / "gaps.csv").write_text("\n".join(["a,b", *lines, "1,"]))
    done("sketch", "rows.csv", "-k", 2, "-o", "rows.sketch", cwd=folder)
    done("sketch", "rows.csv", "--task", "moments", "-o", "moments.sketch", cwd=folder)
    done("design", "swapped.csv", "-k", 2, "-o", "swapped.json", cwd=folder)
    done("design", "--bounds", "-20,20", "--columns", "a,b", "-k", 2, "-o", "bounds.json", cwd=folder)
    done("sketch", "rows.csv", "--design", "bounds.json", "-o", "bounds.sketch", cwd=folder)
    return folder
