"""Writes the kernels of a GPU as PTX, a text that the driver of any card compiles for itself: `make ptx`.

NVRTC, the compiler, comes in the wheel nvidia-cuda-nvrtc-cu12 and needs no GPU. With --check nothing is written, and
files that would change are an error; so is arithmetic without a rounding, which a driver may fuse.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import re
import sys
from pathlib import Path

SOURCES = Path(__file__).parent
WRITTEN = SOURCES.parents[1] / "gpu" / "ptx"
WAVES = {
    "exponential": "Exponential<2>",
    "cosine": "Exponential<1>",
    "square": "Square<2>",
    "square_real": "Square<1>",
    "sawtooth": "Sawtooth<2>",
    "sawtooth_real": "Sawtooth<1>",
    "triangle": "Triangle<2>",
    "triangle_real": "Triangle<1>",
    "quantized_cosine": "Quantized<Exponential<2>>",
    "quantized_cosine_real": "Quantized<Exponential<1>>",
    "quantized_sawtooth": "Quantized<Sawtooth<2>>",
    "quantized_sawtooth_real": "Quantized<Sawtooth<1>>",
    "series": "Series<2>",
    "series_real": "Series<1>",
    "quadratic": "Quadratic",
}
PERIODIC = {name: wave for name, wave in WAVES.items() if wave != "Quadratic"}
#: what is written, and of which source with which wave
UNITS = {
    "cells": ("cells.cu", None),
    "centre": ("centre.cu", None),
    "column_cells": ("column_cells.cu", None),
    "columns": ("columns.cu", None),
    "cross": ("cross.cu", None),
    "histogram": ("histogram.cu", None),
    "keeping": ("keeping.cu", None),
    "mixture": ("mixture.cu", None),
    "moments": ("moments.cu", None),
    **{name: ("fourier.cu", wave) for name, wave in WAVES.items()},
    **{f"{name}_written": ("written.cu", wave) for name, wave in PERIODIC.items()},
    **{f"{name}_structured": ("structured.cu", wave) for name, wave in PERIODIC.items()},
}
# compute_70: cards from 2017 on. fmad: no product is fused with a sum unless the source says so.
OPTIONS = ("--gpu-architecture=compute_70", "--std=c++17", "--fmad=false", "--device-as-default-execution-space")
#: sums, products, quotients, roots and conversions of floating-point numbers that do not say how they round
UNROUNDED = re.compile(
    r"\b(add|sub|mul|mad|fma|div|sqrt|rcp|rsqrt|sin|cos|ex2|lg2)(\.(approx|full|ftz|sat))*\.f(16|32|64)\b"
)


def compiler() -> ctypes.CDLL:
    package = importlib.util.find_spec("nvidia.cuda_nvrtc")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("there is no NVRTC: pip install nvidia-cuda-nvrtc-cu12==12.1.105")
    library = ctypes.CDLL(str(next(Path(package.submodule_search_locations[0], "lib").glob("libnvrtc.so*"))))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def compiled(nvrtc: ctypes.CDLL, source: str, wave: str | None) -> str:
    program = ctypes.c_void_p()
    text = (SOURCES / source).read_bytes()
    options = [*OPTIONS, f"-I{SOURCES}", *_defined(wave)]
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), 0, None, None)
    arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    if nvrtc.nvrtcCompileProgram(program, len(options), arguments):
        raise SystemExit(f"{source} does not compile:\n{_text(nvrtc, 'ProgramLog', program)}")
    ptx = _text(nvrtc, "PTX", program)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    # without comments and empty lines
    return "\n".join(line for line in ptx.splitlines() if line.strip() and not line.startswith("//")) + "\n"


def _defined(wave: str | None) -> list[str]:
    """What is defined for a wave. Sixty-four series side by side would be a megabyte of code: these go one by one."""
    far_only = ["-DSKETCHLEARN_FAR_ONLY"] if wave is not None and wave.startswith("Series") else []
    return [] if wave is None else [f"-DSKETCHLEARN_WAVE={wave}", *far_only]


def _text(nvrtc: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.value.decode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file would change")
    check = parser.parse_args().check
    nvrtc = compiler()
    wrong = []
    for name, (source, wave) in UNITS.items():
        path = WRITTEN / f"{name}.ptx"
        ptx = f"// {name}: written by `make ptx` out of {source}\n{compiled(nvrtc, source, wave)}"
        wrong += [f"{name}: {line.strip()}: no rounding is said" for line in ptx.splitlines() if UNROUNDED.search(line)]
        if check and (not path.exists() or path.read_text() != ptx):
            wrong.append(f"{path.name} is not what its source gives: make ptx writes it anew")
        elif not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(ptx)
            print(f"{path.name}: {len(ptx) / 1000:.0f} kB")
    print("\n".join(wrong), end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
