"""Builds the kernels with AddressSanitizer and UndefinedBehaviorSanitizer and runs the tests that reach them."""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = [
    "kernels/test_arithmetic.py",
    "sketch/test_exactness.py",
    "features/test_bad_input.py",
    "kernels/test_compare.py",
    "features/test_crosses.py",
    "kernels/test_damped_waves.py",
    "sketch/test_priority_sample.py",
    "features/test_operators.py",
    "sketch/test_packed_bits.py",
    "sketch/test_sketch.py",
]


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    compiler = os.environ.get("CXX", "g++")
    build = ROOT / "build" / "sanitize"
    cmake = [sys.executable, "-m", "cmake"]
    options = [
        f"-DPython_EXECUTABLE={sys.executable}",
        "-DSKETCHLEARN_SANITIZE=ON",
        "-DSKETCHLEARN_WARNINGS_ARE_ERRORS=ON",
        f"-DCMAKE_CXX_COMPILER={compiler}",
    ]
    subprocess.run([*cmake, "-S", str(ROOT), "-B", str(build), *options], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*cmake, "--build", str(build), "-j2"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "sketchlearn"
        package.mkdir()
        (package / "kernels").mkdir()
        library = f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
        for room in (Path(), Path("kernels")):
            for item in (ROOT / "src" / "sketchlearn" / room).iterdir():
                if item.name not in ("kernels", library):
                    (package / room / item.name).symlink_to(item)
        (package / "kernels" / library).symlink_to(build / library)
        environment = {
            **os.environ,
            # with the C++ library, or the sanitizer does not find what exceptions are thrown by
            "LD_PRELOAD": " ".join(
                output(compiler, f"-print-file-name={name}.so") for name in ("libasan", "libstdc++")
            ),
            "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter's own
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        # The editable install's import hook would find the ordinary build first.
        program = f"""
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
sys.path.insert(0, {folder!r})
import pytest, sketchlearn.kernels._native as native
assert native.__file__.startswith({folder!r}), native.__file__
sys.exit(pytest.main(["-q", *sys.argv[1:]]))
"""
        tests = [str(ROOT / "tests" / name) for name in TESTS]
        return subprocess.run([sys.executable, "-c", program, *tests], env=environment, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
