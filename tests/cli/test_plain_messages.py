"""What the command line says is said in its own words: options and commands, not Python's arguments and calls.

Messages are collected from the source, whether or not a test reaches them; `called` of command_line.py looks at all
that any test lets the command line print.
"""

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import called, done
from plain_words import python_in

import sketchlearn
from sketchlearn.cli.errors import OptionWords
from sketchlearn.core import errors

SOURCE = Path(sketchlearn.__file__).parent
LEAST_WORDS = 4  # fewer are a name, or a part of a sentence

#: parts of the package that the command line does not call: tensors, bits, kernel features, other engines, weights
IN_PYTHON_ALONE = (
    "collector/database.py",  # statements of SQL
    *("engines", "sketch/bits.py", "rows/weights.py"),
    *("estimators/kernel_features", "kernels/native/gpu", "privacy/session.py"),
)
#: messages that only Python code can bring about, by what they contain
FROM_PYTHON_ALONE = (
    "KMeans(n_init=10)",  # the demonstration is about Python
    "make it with Budget(path, epsilon=...)",  # Budget.open
    "CREATE TABLE",
    "make the sketch with operator.sketch(rows)",  # Sketch(...) with sums of one's own
    "law must be one of sketchlearn.features.frequencies",
    "got an unexpected keyword argument",
    "the class itself: write",
    "which has taken its place",
    "is deprecated: use",
    "declare pixels=(lowest, highest)",  # design --images clips
    "must be None or one number for each",  # Histograms(values=...)
    "its class must define add_remove_sensitivity",  # classes of one's own
    "sample_weight needs an array of rows",
    "as operator.pack(rows) gives them",
    "use wave='square' or skl.features.waves.QuantizedCosine(bits)",
    "private bits are of wave='square'",
    "randomised responses are of single bits",
    "see skl.features.measured_wave",  # features that hardware computed
    "features that something else computed",
    "use wave='cosine'",
    "count_share must be a number between 0 and 1",
    "densities and means of functions need frequencies",
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
    "sample_weight sums to",
    "sample_weight is not for Dask and Spark",
    "with targets, Dask and Spark take a schema with a design",
    "needs rows, and these are on other machines",
    'schema="auto" would infer scales',
    "have one scale, from which no better one can",  # design takes no sketch on the command line
    "skl.load reads it",  # cli/files.py says it in commands
)


WORDED = {"Parameter": errors.Parameter, "called": errors.called, "either": errors.either}


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """All strings but docstrings as the command line says them, with 7 or 'x' in place of what is filled in."""
    said_elsewhere = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) or _is_worded(node):
            said_elsewhere |= {id(part) for part in ast.walk(node)} - {id(node)}
        elif isinstance(node, ast.Expr):
            said_elsewhere.add(id(node.value))
    for node in ast.walk(tree):
        if id(node) in said_elsewhere:
            continue
        if isinstance(node, ast.JoinedStr) or _is_worded(node):
            yield node.lineno, _said(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _is_worded(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WORDED


def _said(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_said(value) for value in node.values)
    if isinstance(node, ast.FormattedValue) and not _is_worded(node.value):
        return "'x'" if node.conversion == ord("r") else "7"
    if isinstance(node, ast.FormattedValue):
        return _said(node.value)
    if isinstance(node, ast.Call):
        arguments = [_argument(argument) for argument in node.args]
        return str(
            WORDED[node.func.id](*arguments, **{word.arg: _argument(word.value) for word in node.keywords if word.arg})
        )
    return str(_argument(node))


def _argument(node: ast.AST) -> object:
    if isinstance(node, ast.JoinedStr):
        return _said(node)
    return node.value if isinstance(node, ast.Constant) else "7"


def test_no_message_that_the_command_line_can_show_speaks_python():
    found, used = [], set()
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(IN_PYTHON_ALONE) or name in ("core/errors.py", "cli/errors.py"):
            continue
        with errors.worded(OptionWords()):
            told = list(texts(ast.parse(path.read_text(encoding="utf-8"))))
        for line, text in told:
            said = " ".join(text.split())
            excuse = next((known for known in FROM_PYTHON_ALONE if known in said), None)
            used |= {excuse}
            if said.count(" ") >= LEAST_WORDS - 1 and excuse is None and python_in(said):
                found.append(f"{name}:{line}: {said}")
    assert found == [], "\n".join(["name parameters and calls by sketchlearn.core.errors:", *found])
    assert set(FROM_PYTHON_ALONE) <= used, "these are no longer there: " + ", ".join(set(FROM_PYTHON_ALONE) - used)


@pytest.mark.parametrize(
    ("message", "python", "options"),
    [
        (lambda: errors.Parameter("n_components", 3), "n_components=3", "-k 3"),
        (lambda: errors.Parameter("nulls"), "nulls", "nulls"),
        (lambda: errors.Parameter("assume_public_design", True), "assume_public_design=True", "--assume-public-design"),
        (lambda: errors.Parameter("n_directions", None), "n_directions=None", "--directions none"),
        (lambda: errors.Parameter("overlapping", False), "overlapping=False", "--disjoint"),
        (
            lambda: errors.called("skl.design", "rows", task="ica"),
            'skl.design(rows, task="ica")',
            "sketchlearn design --task ica",
        ),
        (lambda: errors.called("explain"), "explain()", "sketchlearn explain"),
        (lambda: errors.either("use a.merged(b)", "use merge"), "use a.merged(b)", "use merge"),
        (
            lambda: errors.InvalidValueError("must be at most 2", "ask for fewer", errors.Parameter("n_clusters", 3)),
            "n_clusters=3 must be at most 2: ask for fewer",
            "-k 3 must be at most 2: ask for fewer",
        ),
    ],
)
def test_arguments_become_options(message, python, options):
    assert str(message()) == python
    with errors.worded(OptionWords()):
        assert str(message()) == options
    assert str(message()) == python


def test_errors_survive_pickling():
    error = errors.InvalidValueError("must be at most 2", "ask for fewer", errors.Parameter("n_clusters", 3))
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, ValueError)
    assert (str(again), again.remedy, again.parameter) == (str(error), error.remedy, error.parameter)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["privatize", "rows.sketch", "--epsilon", 1, "-o", "x"], "public, give --assume-public-design"),
        (["privatize", "bounds.sketch", "--epsilon", 30, "-o", "x"], "ask for less, or give --allow-weak"),
        (["merge", "rows.sketch", "rows.sketch", "-o", "x"], "or give --overlapping to count it twice"),
        (["fit", "pca", "-k", 1, "rows.sketch"], "a sketch of second moments (sketchlearn design --task moments)"),
        (
            ["fit", "subspaces", "-k", 1, "rows.sketch"],
            "moments (sketchlearn design --task subspaces), but the sketch has none",
        ),
        (["fit", "ica", "rows.sketch"], "(sketchlearn design --task ica)"),
        (["fit", "pca", "-k", 9, "moments.sketch"], "-k 9 must be at most the number of columns, 2"),
        (["fit", "regression", "moments.sketch", "--targets", "7"], "--targets must name columns of the sketch"),
        (["explain", "moments.sketch", "-k", 2], "needed, but this one has none: use sketchlearn design"),
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
