"""Reads the hot loops out of the compiled kernels, beside hot_loops.json: python tests/native/hot_loops.py

For every instruction set and compiler at hand, compiled as CMakeLists.txt says: instructions per vector of work, loads
and stores on the stack (registers that did not suffice), and calls. No clock: the same on every machine, however busy.
`--write` writes the numbers of the compilers at hand anew; look at the difference before you commit it.
"""

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

from disassembly import Code, busiest_loop, functions

ROOT = Path(__file__).parents[2]
NUMBERS = Path(__file__).with_suffix(".json")
SLACK = 1.05
STRANGER_SLACK = 1.25  # of a compiler that was never measured
UNITS = {"aarch64": ("neon",), "x86_64": ("avx2", "avx512")}

# What a loop is there for: the names of an instruction that it does once per vector.
MULTIPLY_ADD = r"fml[as]|vfn?m(add|sub)\d+ps"
ROUND = r"frintn|vroundps|vreduceps|vrndscaleps"


@dataclass(frozen=True)
class HotLoop:
    title: str
    function: str  # a pattern; of several functions, the one that works most counts
    work: str


LOOPS = [
    HotLoop("products of rows and frequencies", r"multiply<false>", MULTIPLY_ADD),
    HotLoop("first products of rows and frequencies", r"multiply<true>", MULTIPLY_ADD),
    HotLoop("sums of exponentials", r"total<Exponential<2>>", ROUND),
    HotLoop("sums of cosines", r"total<Exponential<1>>", ROUND),
    HotLoop("sums of square waves", r"total<Square<2>>", r"fcvtms|vcvtt?ps2dq"),
    HotLoop("sums of sawtooths", r"total<Sawtooth<2>>", ROUND),
    HotLoop("sums of triangles", r"total<Triangle<2>>", ROUND),
    HotLoop("sums of Fourier series", r"total<Series<2>>", ROUND),
    HotLoop("sums of quantized cosines", r"total<Quantized<Exponential<2>>\s*>", ROUND),
    HotLoop("sums of quantized sawtooths", r"total<Quantized<Sawtooth<2>>\s*>", ROUND),
    HotLoop("sums of squares", r"total<Quadratic>", MULTIPLY_ADD),
    HotLoop("exponentials, row by row", r"visit<Exponential<2>>", ROUND),
    HotLoop("scores of Voronoi cells", r"least_scores<float, [24]>", MULTIPLY_ADD),
    HotLoop("whole values of rows", r"(int )?whole_values<float>", r"frintn|vroundpd|vrndscalepd"),
    HotLoop("places in directions", r"add_places<[24]>", r"fmla|vfmadd\d+pd"),
    HotLoop("sums of whole values", r"(long )?add_whole_values<true, 4>", r"fmul|vmulpd"),
    HotLoop("log-densities of Gaussians", r"log_densities<(true|false)>", MULTIPLY_ADD),
    HotLoop("responsibilities", r"responsibilities", ROUND),
    HotLoop("expected statistics", r"add_statistics<(true|false)>", MULTIPLY_ADD),
    HotLoop("Hadamard transforms", r"hadamard", r"fsub|vsubps"),
    HotLoop("moments, rounded once", r"fused_moment_tile", r"fmla|vfmadd\d+pd"),
    HotLoop("moments, rounded twice", r"moment_tile", r"fadd|vaddpd"),
    HotLoop("sums of features times values", r"cross_tile", r"fmla|vfmadd\d+pd"),
    HotLoop("values to be multiplied", r"(long )?odd_panels<float>", r"fmul|vmulpd"),
    HotLoop("values of moments", r"(long )?odd_rows_of<double>", r"fmul|vmulpd"),
    HotLoop("hashes of rows", r"hash_tile", r"fadd|vaddpd"),
    HotLoop("waves of components", r"wave_pack", ROUND),
    HotLoop("turned waves of components", r"turn", r"fmls|vfnmadd\d+ps|vfmsub\d+ps"),
    HotLoop("products of a comparison", r"add_products<4, \d>", MULTIPLY_ADD),
    HotLoop("distances from centers", r"nearest_in_tiles<float, (true|false)>", MULTIPLY_ADD),
    HotLoop("products of packed bits", r"product_tile<\d, 4>", r"cnt|vpshufb"),
    HotLoop("tables of signed sums", r"fill_table", r"fsub|vsubps"),
    HotLoop("signed sums from tables", r"add_bytes<4>", r"fadd|vaddps"),
    HotLoop("signed sums of one row", r"add_signed<8>", r"fadd|vaddps"),
]


@dataclass(frozen=True)
class Cost:
    instructions: float  # per vector of work
    stack: float  # loads and stores on the stack, likewise
    calls: int


Costs = dict[str, dict[str, Cost | None]]  # by instruction set and loop; None: no function of that name
Written = dict[str, dict[str, dict[str, Any]]]  # hot_loops.json: by compiler, instruction set and loop


@dataclass(frozen=True)
class Compiler:
    command: str
    machine: str

    @cached_property
    def name(self) -> str:
        """Family and major version, as in hot_loops.json."""
        macros = output(self.command, "-dM", "-E", "-x", "c++", os.devnull)
        versions = {m[1]: m[2] for m in re.finditer(r"#define (__clang_major__|__GNUC__) (\d+)", macros)}
        clang = versions.get("__clang_major__")
        return f"clang {clang}" if clang else f"gcc {versions['__GNUC__']}"

    @property
    def is_foreign(self) -> bool:
        return self.machine != platform.machine()

    def options(self) -> Iterator[str]:
        yield f"-DCMAKE_CXX_COMPILER={self.command}"
        if self.is_foreign:
            yield from ("-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={self.machine}")
            yield f"-DCMAKE_CXX_COMPILER_TARGET={self.machine}-linux-gnu"  # for clang: GCC's has it in its name


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def compilers() -> Iterator[Compiler]:
    """GCC (or CXX) and clang, for this machine and for the other one."""
    for machine, units in UNITS.items():
        here = machine == platform.machine()
        gcc = os.environ.get("CXX", "g++") if here else f"{machine}-linux-gnu-g++"
        if not shutil.which(gcc):
            package = f"g++-{machine.replace('_', '-')}-linux-gnu"
            print(f"{' and '.join(units)}: not read, for there is no {gcc}; apt-get install {package} brings it")
            continue
        yield Compiler(gcc, machine)
        if shutil.which("clang++") and gcc != "clang++":
            yield Compiler("clang++", machine)


def read(compiler: Compiler, build: Path) -> Costs:
    """Compiles the kernels as CMake would, and reads their loops."""
    cmake = [sys.executable, "-m", "cmake", "-S", str(ROOT), "-B", str(build)]
    output(*cmake, f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *compiler.options())
    entries = json.loads((build / "compile_commands.json").read_text())
    objdump = f"{compiler.machine}-linux-gnu-objdump" if compiler.is_foreign else "objdump"
    found: Costs = {}
    for entry in entries:
        unit = Path(entry["file"]).stem
        if unit in UNITS[compiler.machine]:
            command = shlex.split(entry["command"])
            object_file = build / f"{unit}.o"
            command[command.index("-o") + 1] = str(object_file)
            output(*command)
            code = list(functions(object_file, objdump))
            found[unit] = {loop.title: cost(loop, code) for loop in LOOPS}
    return found


def cost(loop: HotLoop, code: list[tuple[str, Code]]) -> Cost | None:
    """What the loop costs; infinitely many instructions where all of its work is done by functions that it calls."""
    work = re.compile(loop.work)
    most, found = -1, None
    for name, instructions in code:
        if re.fullmatch(loop.function, name):
            hot = busiest_loop(instructions, work)
            amount = sum(bool(work.fullmatch(i.name)) for i in hot)
            if amount > most:
                per_vector = (round(n / amount, 3) if amount else inf for n in (len(hot), sum(i.on_stack for i in hot)))
                most, found = amount, Cost(*per_vector, sum(i.is_call for i in hot))
    return found


def limits(written: Written, compiler: str, unit: str) -> tuple[dict[str, Cost], bool]:
    """What each loop may cost, and whether this compiler was measured; if not, it is the worst of all others."""
    measured = unit in written.get(compiler, {})
    tables = [units[unit] for name, units in written.items() if unit in units and (name == compiler or not measured)]
    titles = {title for table in tables for title in table}
    rows = {title: [table[title] for table in tables if title in table] for title in titles}
    return {title: Cost(*map(max, zip(*row, strict=True))) for title, row in rows.items()}, measured


def complaint(seen: Cost | None, limit: Cost | None, measured: bool) -> str | None:
    if seen is None:
        return "is in no function of its own: give it SKETCHLEARN_HOT, or its new name to LOOPS"
    if limit is None:
        return "is not written down yet"
    slack = SLACK if measured else STRANGER_SLACK
    if seen.calls > limit.calls:
        return f"calls {seen.calls} functions, where {limit.calls} were written down"
    if seen.instructions > slack * limit.instructions:
        return f"takes {seen.instructions:g} instructions per vector, where {limit.instructions:g} were written down"
    if measured and seen.stack > slack * limit.stack:
        return f"goes to the stack {seen.stack:g} times per vector, where {limit.stack:g} were written down"
    return None


def check(compiler: Compiler, costs: Costs, written: Written) -> Iterator[str]:
    for unit, loops in costs.items():
        allowed, measured = limits(written, compiler.name, unit)
        found = 0
        for loop in LOOPS:
            if what := complaint(loops[loop.title], allowed.get(loop.title), measured):
                found += 1
                yield f"{unit}, {compiler.name}: the loop of {loop.title} ({loop.function}) {what}"
        beside = "" if measured else ", beside the worst of other compilers: this one was never measured"
        print(f"{unit}, {compiler.name}: {len(LOOPS)} loops, {found} too costly{beside}")


def write(every: list[tuple[Compiler, Costs]], written: Written) -> None:
    for compiler, costs in every:
        for unit, loops in costs.items():
            if lost := [title for title, cost in loops.items() if not cost or cost.instructions == inf]:
                sys.exit(
                    f"{unit}, {compiler.name}: {lost[0]} is not done in a function of its own. Nothing was written."
                )
            table = {title: astuple(cost) for title, cost in loops.items() if cost}
            written.setdefault(compiler.name, {})[unit] = table
    text = json.dumps(written, indent=2, sort_keys=True)
    NUMBERS.write_text(re.sub(r"\[\s+(\S+)\s+(\S+)\s+(\S+)\s+\]", r"[\1 \2 \3]", text) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the numbers of the compilers at hand")
    anew = parser.parse_args().write
    written: Written = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    at_hand = list(compilers())
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        costs = pool.map(read, at_hand, (Path(folder) / str(i) for i in range(len(at_hand))))
        every = list(zip(at_hand, costs, strict=True))
    if anew:
        write(every, written)
        return 0
    bad = [sentence for compiler, costs in every for sentence in check(compiler, costs, written)]
    for sentence in bad:
        print(sentence, file=sys.stderr)
    if bad:
        print("If this is meant: python tests/native/hot_loops.py --write, and say why in the commit.", file=sys.stderr)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
