"""The documentation: no public name is missing, every link leads somewhere, and what tutorials show runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import sketchlearn as skl
from sketchlearn.cli.commands import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
#: what can be installed beside the package itself: each name for pip, and the modules that it brings
EXTRAS = {
    "arrow": ["pyarrow"],
    "dask": ["dask"],
    "duckdb": ["duckdb"],
    "excel": ["openpyxl"],
    "pandas": ["pandas"],
    "plot": ["matplotlib"],
    "polars": ["polars"],
    "privacy": ["opendp"],
    "serve": ["starlette", "uvicorn", "prometheus_client", "cryptography"],
    "spark": ["pyspark"],
    "torch": ["torch"],
}
HIDING = """
import sys


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Hidden())
"""
TUTORIALS = ["index.md", "tutorials/customers.md", "tutorials/parties.md", "tutorials/streams.md", "tutorials/trust.md"]


def documented_names():
    """Names that docs/reference/api.md lists, by the module that stands above them."""
    module, found, listing = "sketchlearn", {}, False
    for line in (DOCS / "reference/api.md").read_text().splitlines():
        if directive := re.match(r"\.\. (automodule|autosummary|py:data)::\s*(\S*)", line):
            kind, value = directive.groups()
            module = value if kind == "automodule" else module
            listing = kind == "autosummary"
            found.setdefault(module, set()).update([value.removeprefix("sketchlearn.")] if kind == "py:data" else [])
        elif line == "```":
            listing = False
        elif listing and re.fullmatch(r"   [\w.]+", line):
            found[module].add(line.strip().removeprefix("sketchlearn."))
    return found


def test_every_public_name_is_documented():
    found, namespaces = documented_names()["sketchlearn"], {name for name in skl.__all__ if name in NAMESPACES}
    assert found | namespaces == set(skl.__all__)


NAMESPACES = {
    "checks": "estimators.checks",
    "decoders": "inference.decoders",
    "engines": "engines",
    "extend": "estimators.extend",
    "features": "features",
    "privacy": "privacy",
    "questions": "questions",
    "schemas": "rows.schemas",
}


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_name_of_a_namespace_is_documented(namespace):
    own = {name for name in getattr(skl, namespace).__all__ if name != "NAMED"}
    own -= {*skl.__all__, *(("frequencies", "waves") if namespace == "features" else ())}
    assert documented_names()[f"sketchlearn.{NAMESPACES[namespace]}"] == own


def test_every_frequency_distribution_is_documented():
    laws = skl.features.frequencies
    kinds = {name for name, kind in vars(laws).items() if isinstance(kind, type) and issubclass(kind, laws.Law)}
    assert documented_names()["sketchlearn.features.frequencies"] == kinds - {"ScaledLaw", "DirectedLaw"}


def test_every_wave_is_documented():
    waves = {
        name
        for name, kind in vars(skl.features.waves).items()
        if isinstance(kind, type) and issubclass(kind, skl.features.waves.Wave)
    }
    assert documented_names()["sketchlearn.features.waves"] >= waves


def anchor(heading):
    """The anchor that GitHub and MyST give a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"`|\*", "", heading).strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, fragment = link.partition("#")
        if "://" in link or path.endswith("gallery/index.rst"):  # written by `make docs`
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if fragment:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), flags=re.M)
            assert fragment in map(anchor, headings), link


def test_every_command_is_in_the_reference(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_extensions"))
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    import command_reference

    found = dict(command_reference.commands(typer.main.get_command(app)))
    assert {path[0] for path in found} == set(typer.main.get_command(app).commands)
    assert ("fit", "kmeans") in found
    assert command_reference.usage(("info",), found["info",]).startswith("sketchlearn info [OPTIONS]")
    assert all(meaning for path, command in found.items() for _, meaning in command_reference.explained(path, command))


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS)
def test_tutorials_run(page, tmp_path):
    """Blocks of Python as one program, those of a shell between them; what they print is not compared.

    Nothing can be imported that the page does not say to install.
    """
    text = (DOCS / page).read_text()
    blocks = re.findall(r"^```(python|console)\n(.*?)^```", text, flags=re.S | re.M)
    assert blocks
    python = [code for language, code in blocks if language == "python"]
    program = "import subprocess\n"
    for language, code in blocks:
        program += code if language == "python" else f"subprocess.run({shell(code)!r}, shell=True, check=True)\n"
    assert python
    (tmp_path / "tutorial.py").write_text(program)
    (tmp_path / "sitecustomize.py").write_text(only_installed(text))
    tools = Path(sys.executable).parent
    done = subprocess.run(
        [sys.executable, "tutorial.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={
            "PATH": f"{tools}:/usr/bin:/bin",
            "PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}",
            "MPLBACKEND": "agg",
            "HOME": str(tmp_path),
        },
    )
    assert done.returncode == 0, done.stderr


def only_installed(text):
    """A program at the start of each interpreter, which hides modules that the first `pip install` does not bring."""
    install = re.search(r"pip install ([^`\n]*)", text)
    assert install is not None
    there = re.findall(r"\w+", install[1])
    assert set(there) <= set(EXTRAS), there
    hidden = sorted({module for name, modules in EXTRAS.items() if name not in there for module in modules})
    return HIDING.format(hidden=hidden)


def shell(code):
    """The lines after the prompts, stopped by the first that fails; `sketchlearn` is that of this interpreter."""
    lines = [line.removeprefix("$ ") for line in code.splitlines() if line.startswith("$ ")]
    return "set -e\n" + f'sketchlearn() {{ "{sys.executable}" -m sketchlearn "$@"; }}\n' + "\n".join(lines)


def test_the_version_stands_in_one_place():
    stated = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), flags=re.M)
    project = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), flags=re.M)
    assert stated is not None
    assert project is not None
    assert stated[1] == project[1]
