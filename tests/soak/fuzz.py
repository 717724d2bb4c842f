"""Loads damaged and forged files: none may cost much, or raise anything but a `FormatError`. `make fuzz` runs it.

`forged_files` makes them, and processes of their own load them, which are ended if one takes too long. Processor time
and memory are measured file by file. Each file follows from the seed and its number:
`python tests/soak/fuzz.py --seed 0 --first 1234 --n 1 --show` does number 1234 once more.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import gc
import json
import os
import resource
import selectors
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import error as struct_error
from typing import Any

from safetensors import SafetensorError

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from forged_files import LOADERS, corpus, forged_file, written

import sketchlearn as skl

MOST_SECONDS = 2.0  # of processor time, for each file
MOST_MEGABYTES = 300.0  # the bytes of the file included
PATIENCE = 300.0  # seconds until a process that says nothing is ended: on a busy machine, 30 ended some that waited
TELL_EVERY = 10_000  # files, on standard error
FREED = 20.0  # MB that a file has taken: what is free after it is given back, so that the next one is seen to take it


def megabytes() -> float:
    """The most memory that this process has had since `forget_memory`."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def forget_memory() -> float:
    """Has the most memory start from what there is now, where the system can, and returns it."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")
    return megabytes()


def give_back() -> None:
    """Gives free memory back to the system, where that is known how to do."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def work(seed: int, first: int, n: int, show: bool) -> None:
    """Loads so many forged files; says of each, in a line of JSON, what came of it."""
    files = corpus()
    warnings.simplefilter("ignore")
    for kind, some in files.items():
        for file in some:
            LOADERS[kind](written(file))  # unchanged, so that all modules are there
    print(json.dumps({"ready": True}), flush=True)
    taken = 0.0
    for number in range(first, first + n):
        try:
            kind, data = forged_file(files, seed, number)
        except (TypeError, ValueError, KeyError, OverflowError, RecursionError, SafetensorError, struct_error):
            continue  # no JSON, or more of it than a file can have
        if show:
            print(kind, data[:20_000], file=sys.stderr)
        if taken > FREED:
            give_back()
        before = forget_memory()
        started, said, outcome = time.process_time(), "", "loaded"
        try:
            LOADERS[kind](data)
        except skl.FormatError as error:
            outcome, said = "refused", str(error)[:300]
        except BaseException as error:
            outcome, said = "raised", f"{type(error).__name__}: {error}"[:300]
        seconds, taken = time.process_time() - started, megabytes() - before
        line = {"number": number, "kind": kind, "outcome": outcome, "seconds": seconds, "bytes": len(data)}
        print(json.dumps({**line, "megabytes": taken + len(data) / 1e6, "said": said}), flush=True)
        taken += len(data) / 1e6


class Fuzzing:
    """What came of all files so far."""

    def __init__(self) -> None:
        self.counts = {"loaded": 0, "refused": 0, "raised": 0, "hung": 0}
        self.slowest: dict[str, Any] = {"seconds": 0.0}
        self.largest: dict[str, Any] = {"megabytes": 0.0}
        self.failures: list[str] = []

    def take(self, line: dict[str, Any]) -> None:
        self.counts[line["outcome"]] += 1
        self.slowest = max(self.slowest, line, key=lambda one: one["seconds"])
        if line["megabytes"] > MOST_MEGABYTES or line["seconds"] > MOST_SECONDS:
            cost = f"{line['seconds']:.1f} s and {line['megabytes']:.0f} MB"
            file = f"number {line['number']} (a {line['kind']} of {line['bytes']:,} bytes)"
            self.failures.append(f"{file} took {cost}: {line['said']}")
        self.largest = max(self.largest, line, key=lambda one: one["megabytes"])
        if line["outcome"] == "raised":
            self.failures.append(f"number {line['number']} raised {line['said']}")

    def joined(self, other: Fuzzing) -> Fuzzing:
        """What came of the files of both."""
        both = Fuzzing()
        both.counts = {what: n + other.counts[what] for what, n in self.counts.items()}
        both.slowest = max(self.slowest, other.slowest, key=lambda one: one["seconds"])
        both.largest = max(self.largest, other.largest, key=lambda one: one["megabytes"])
        both.failures = self.failures + other.failures
        return both

    def __str__(self) -> str:
        counts = ", ".join(f"{n:,} {what}" for what, n in self.counts.items())
        slowest = f"the slowest took {self.slowest['seconds']:.2f} s (number {self.slowest.get('number')})"
        largest = f"the largest {self.largest['megabytes']:.0f} MB (number {self.largest.get('number')})"
        return f"{counts}; {slowest}, {largest}"


def fuzz(n: int, seed: int = 0, first: int = 0, show: bool = False) -> Fuzzing:
    """Has n changed files loaded; a process that hangs is ended, and another one goes on after that file."""
    result, number, last = Fuzzing(), first, first + n
    while number < last:
        command = [sys.executable, __file__, "--work", "--seed", str(seed), "--first", str(number)]
        command += ["--n", str(last - number), *(["--show"] if show else [])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as worker:
            assert worker.stdout is not None
            if b"ready" not in worker.stdout.readline():
                raise RuntimeError("the files could not be made")
            number = _follow(worker, result, number)
            worker.kill()
        if worker.returncode == 0:
            break
        result.counts["hung"] += 1
        result.failures.append(f"number {number} hung, or ended the process")
        number += 1
    return result


def _follow(worker: subprocess.Popen[bytes], result: Fuzzing, number: int) -> int:
    """Takes the lines of a process until it ends or says nothing for long; returns the number that comes next."""
    assert worker.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as ready:
        ready.register(worker.stdout, selectors.EVENT_READ)
        while ready.select(PATIENCE):
            if not (new := os.read(worker.stdout.fileno(), 1 << 16)):
                worker.wait()
                break
            *lines, rest = (rest + new).split(b"\n")
            for line in map(json.loads, lines):
                result.take(line)
                number = line["number"] + 1
                if number % TELL_EVERY == 0:
                    print(f"number {number:,} is next; {result}", file=sys.stderr)
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.seed, given.first, given.n, given.show)
        return
    parts = min(os.cpu_count() or 1, given.n)
    edges = [given.first + given.n * part // parts for part in range(parts + 1)]
    with ThreadPoolExecutor(parts) as threads:
        found = threads.map(lambda a, b: fuzz(b - a, given.seed, a, given.show), edges, edges[1:])
        result = functools.reduce(Fuzzing.joined, found)
    print(result)
    sys.exit("\n".join(result.failures[:50]) if result.failures else 0)


if __name__ == "__main__":
    main()
