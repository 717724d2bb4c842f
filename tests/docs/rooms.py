"""The rooms of the package as CONTRIBUTING.md shows them, from the import contract.

`python tests/docs/rooms.py --write` writes them there.
"""

import argparse
import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "sketchlearn"
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- rooms: written by tests/docs/rooms.py -->\n", "<!-- end of rooms -->\n"


def layers() -> list[str]:
    """The rooms, those that use others first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return list(contracts[0]["layers"])


def described(room: str) -> str:
    """The first sentence of a room's docstring."""
    found = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) or ""
    return found.split("\n")[0].rstrip(".")


def picture() -> str:
    """The rooms, what each is for, and the files in it."""
    lines = ["| room | what is in it | files |", "| --- | --- | --- |"]
    for room in layers():
        inside = sorted(path for path in (PACKAGE / room).iterdir() if not path.name.startswith(("_", ".")))
        names = [f"{path.name}/" for path in inside if (path / "__init__.py").exists()]
        names += [path.stem for path in inside if path.suffix == ".py"]
        lines.append(f"| `{room}/` | {described(room)} | {', '.join(names)} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """CONTRIBUTING.md with the picture as it is now."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + picture() + END + rest.split(END)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="to CONTRIBUTING.md")
    if parser.parse_args().write:
        PAGE.write_text(page(PAGE.read_text()))
    else:
        print(picture(), end="")


if __name__ == "__main__":
    main()
