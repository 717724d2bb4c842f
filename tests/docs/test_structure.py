"""Few files lie between rows and a kernel; CONTRIBUTING.md shows the rooms as they are; private names stay private."""

import ast
from pathlib import Path

import pytest
import rooms
from paths import paths

import sketchlearn as skl
from sketchlearn.estimators.registry import tasks

SOURCE = Path(skl.__file__).parent

#: files and calls at most: what was reached (docs/decisions/rooms.md), and room for another seed
MOST = {
    "fit(X) to the kernel that sums all rows": (30, 1300),
    "a sketch of cells to centers": (20, 800),
    "a sketch of frequencies to centers": (36, 40_000),
}


@pytest.fixture(scope="module")
def found():
    return paths()


@pytest.mark.parametrize("name", MOST)
def test_paths_are_short(name, found):
    files, calls = MOST[name]
    assert len(found[name].calls) <= files
    assert found[name].calls.total() <= calls


def test_the_picture_of_the_rooms_is_that_of_the_contract():
    assert rooms.page(rooms.PAGE.read_text()) == rooms.PAGE.read_text()


# Names


def modules():
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def own_names(tree):
    """Names that a module defines or assigns."""
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found |= {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return found | {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def test_no_module_reaches_into_another_ones_private_names():
    foreign = {"_meta", "_getframe"}  # Dask's word for the empty frame that tells the columns; Python's for callers
    reaches = []
    for path, tree in modules().items():
        allowed = own_names(tree) | foreign
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                inside = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "twin")
                above = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super"
                if not inside and not above and node.attr not in allowed:
                    reaches.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("sketchlearn"):
                names = [name.name for name in node.names if name.name.startswith("_")]
                reaches += [
                    f"{path.name}:{node.lineno} {name}" for name in names if name not in ("_native", "__version__")
                ]
    assert not reaches


def test_estimators_are_named_in_the_registry_alone():
    """Besides the modules that define them: by name in strings, which is what tables of tasks are made of."""
    estimators = {task.estimator for task in tasks().values()} - {"ColumnMedians"}
    assert estimators == {name for name in skl.__all__ if name.startswith("Sketch")} - {"Sketch", "SketchEstimator"}
    found = []
    for path, tree in modules().items():
        if path.name in ("registry.py", "__init__.py"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value in estimators:
                found.append(f"{path.name}:{node.lineno}")
    assert not found
