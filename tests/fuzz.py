"""Loads damaged and forged files: none may cost much, or raise anything but a `FormatError`. `make fuzz` runs it.

Golden files, designs and models are changed at random in their JSON (numbers, sizes, lists, types, whole parts), signed
anew, and loaded in a process of its own, which is ended if it takes too long. Each change follows from the seed and its
number: `python tests/fuzz.py --seed 0 --first 1234 --n 1 --show` does number 1234 once more.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import os
import random
import resource
import selectors
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

import sketchlearn as skl
from sketchlearn import loading_limit
from sketchlearn.frequencies import AdaptedRadius, Gaussian, LogUniform, Mixture, Probed, Shaped
from sketchlearn.operators import Operator
from sketchlearn.storage import container
from sketchlearn.storage.design_files import design_from_bytes, design_to_bytes
from sketchlearn.storage.json_documents import DESIGN
from sketchlearn.tasks.model_files import model_from_bytes, model_to_bytes

GOLDEN = Path(__file__).parent / "golden"
# Costs are stated to within a factor of 1.5 in time, on a core that others use, too, and of 1.1 in memory.
MOST_SECONDS, MOST_MEGABYTES = 1.5 * loading_limit.MOST_SECONDS, 1.1 * loading_limit.MOST_MEGABYTES
PATIENCE = 300.0  # seconds until a process that says nothing is ended: on a busy machine, 30 ended some that waited
TELL_EVERY = 10_000  # files, on standard error
CHEAP = 0.01  # seconds; the digests of operators that cost less are corrected, so that some changed files load
NUMBERS = (0, -1, 1, 2, 7, 64, 1000, 4097, 65_535, 65_536, 10**6, 2**31, 2**53, 2**63, 10**30, 10**400)
FLOATS = (0.0, -0.0, 1e-320, 1e-150, 0.5, 1.0, 1e9, 1e150, 1e308, -1.5)
OTHERS = (None, True, "", "x", "x" * 10_000, [], {}, [[]], [None], {"type": "Gaussian", "scale": 1.0})
REPEATS = (2, 3, 10, 30, 100, 1000, 20_000)
MANY = 1000  # items of a list: a file with so many is changed no further: they may be one object, and all change
MOST_BYTES = 100_000_000  # of a part that is repeated: larger files are refused for their size, and take long to make


def sketches() -> list[dict[str, Any]]:
    """The descriptions of the golden files and of one with rows, with their arrays."""
    rows = np.random.default_rng(0).normal(size=(60, 2))
    keeping = skl.design(rows, n_components=2, rows=20).sketch(rows)
    private = skl.design(bounds=([-9, -9], [9, 9]), n_components=2).sketch(rows)
    private = skl.privatize(private, epsilon=1.0, seed_for_tests_not_private=0)
    files = [path.read_bytes() for path in sorted(GOLDEN.glob("*.sketch"))]
    found = []
    for data in (*files, keeping.to_bytes(), private.to_bytes()):
        tensors, description = container.unpack(data)
        del description["digest"]
        found.append({"tensors": tensors, "document": description})
    return found


def designs() -> list[dict[str, Any]]:
    """Designs of all tasks, and of laws that no design has."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 9))
    tasks = ("kmeans", "mixture", "mixture-full", "stable", "histograms", "generator", "moments", "ica")
    made = [skl.design(rows, n_components=3, task=task, seed=0) for task in tasks]
    full = tuple(1.0 if i == j else 0.1 for i in range(9) for j in range(i + 1))
    laws = [
        Probed(Shaped(Gaussian(1.0), AdaptedRadius(1.0), ((1.0,) * 9,)), (1.0,) * 9, (1.0,) * 9),
        Shaped(Gaussian(1.0), Gaussian(1.0), (full, full)),
        Mixture((Gaussian(1.0), Mixture((LogUniform(1.0, 2.0), AdaptedRadius(1.0)))), shares=(1, 2)),
    ]
    made += [skl.FourierFeatures(9, 40, law=law) for law in laws]
    return [{"document": json.loads(design_to_bytes(operator))} for operator in made]


def models() -> list[dict[str, Any]]:
    """One model of each task, but for networks."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    rows = rng.laplace(size=(300, 3)) + 8 * labels[:, None]
    kinds = ("full", "tied", "diag", "spherical")
    mixtures = [skl.SketchGaussianMixture(2, covariance_type=kind, random_state=0) for kind in kinds]
    clusters = (skl.SketchKMeans, skl.SketchKMedians, skl.SketchStableMixture)
    others = [skl.SketchPCA(2), skl.SketchICA(2, random_state=0), skl.SketchSubspaces(2, 1, random_state=0)]
    fitted = [model.fit(rows) for model in (*mixtures, *(kind(2, random_state=0) for kind in clusters), *others)]
    fitted += [model.fit(rows, rows[:, 0]) for model in (skl.SketchLinearRegression(), skl.SketchRidge())]
    fitted += [skl.SketchClassifier(rule=rule, random_state=0).fit(rows, labels) for rule in ("auto", "parzen")]
    return [{"document": json.loads(model_to_bytes(model))} for model in fitted]


def corpus() -> list[dict[str, Any]]:
    """All files that are changed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sketches() + designs() + models()


def places(item: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all parts of a JSON value; of long lists, of the first and last items alone."""
    found = [path] if path else []
    keys: list[Any] = list(item) if isinstance(item, dict) else []
    if isinstance(item, list):
        keys = list(range(len(item)))
        keys = keys if len(keys) <= 6 else [*keys[:3], *keys[-3:]]
    for key in keys:
        found += places(item[key], (*path, key))
    return found


def at(item: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        item = item[key]
    return item


def at_most(times: int, item: Any) -> int:
    """How often a part is repeated: so many times, unless that would take too many bytes."""
    return min(times, MOST_BYTES // len(json.dumps(item)) + 1)


def changed(item: Any, dice: random.Random, others: list[dict[str, Any]]) -> Any:
    """Something else in place of a part of a file."""
    if isinstance(item, list) and dice.random() < 0.6:
        some = item * at_most(dice.choice(REPEATS), item) if len(item) < 50 else item + item
        return dice.choice([some, item[: len(item) // 2], [*item, *item[-1:]], item[::-1]])
    if isinstance(item, dict) and "type" in item and dice.random() < 0.4:
        inside = [item] * at_most(dice.choice((1, 2, 1000)), item)
        return dice.choice(
            [{"type": "Mixture", "laws": inside, "shares": []}, {"type": "Concatenated", "parts": inside}]
        )
    if isinstance(item, int | float) and not isinstance(item, bool) and dice.random() < 0.85:
        near = [
            item + 1,
            item - 1,
            item * 2,
            -item,
            item / 3 if abs(item) < 1e300 else 0.0,
            dice.randrange(10 ** dice.randrange(1, 12)),
        ]
        return dice.choice([*near, dice.choice(NUMBERS), dice.choice(FLOATS)])
    if dice.random() < 0.5:
        document = dice.choice(others)["document"]
        return copy.deepcopy(at(document, dice.choice(places(document))))
    return copy.deepcopy(dice.choice(OTHERS))


def mutated(files: list[dict[str, Any]], seed: int, number: int) -> dict[str, Any]:
    """A file with one to three changes."""
    dice = random.Random(f"{seed} {number}")
    chosen = dice.choice(files)
    file = {**chosen, "document": copy.deepcopy(chosen["document"])}
    if "tensors" in file:
        file["tensors"] = dict(file["tensors"])
    for _ in range(dice.choice((1, 1, 2, 3))):
        path = dice.choice(places(file["document"]))
        parent = at(file["document"], path[:-1])
        if dice.random() < 0.05:
            del parent[path[-1]]
        else:
            new = parent[path[-1]] = changed(parent[path[-1]], dice, files)
            lists = [new, *new.values()] if isinstance(new, dict) else [new]
            if any(isinstance(one, list) and len(one) >= MANY for one in lists):
                break
    if dice.random() < 0.7:
        _correct_digests(file)
    return file


def _correct_digests(file: dict[str, Any]) -> None:
    """What a forger would do: the digests of what is drawn, and sums of no record that have the operator's size."""
    form = file["document"].get("operator")
    try:
        operator = Operator.unverified(form)
        if operator.cost.seconds < CHEAP:
            file["document"]["operator"] = operator.to_json()
            if "tensors" in file and operator.n_sums != len(file["tensors"]["sums"]) and operator.n_sums < 10**6:
                file["tensors"]["sums"] = np.zeros(operator.n_sums, np.int64)
                file["document"]["count"] = "0"
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        pass


def signed(file: dict[str, Any]) -> bytes:
    """The bytes of a changed file, of which only the content is wrong."""
    document = dict(file["document"])
    if "tensors" in file:
        tensors = file["tensors"]
        rows = (tensors["rows"], tensors["row_units"]) if "rows" in tensors else None
        return container.pack(tensors["sums"], document, rows)
    return json.dumps(document, allow_nan=False).encode()  # without indents, which take Python's slow way


def load(file: dict[str, Any], data: bytes) -> None:
    if "tensors" in file:
        skl.from_bytes(data)
    elif file["document"].get("kind") == DESIGN:
        design_from_bytes(data)
    else:
        model_from_bytes(data)


def megabytes() -> float:
    """The most memory that this process has had since `forget_memory`."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def forget_memory() -> float:
    """Has the most memory start from what there is now, where the system can, and returns it."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")
    return megabytes()


def work(seed: int, first: int, n: int, show: bool) -> None:
    """Loads so many changed files; says of each, in a line of JSON, what came of it."""
    files = corpus()
    warnings.simplefilter("ignore")
    for file in files:
        load(file, signed(file))  # unchanged, so that all modules are there
    print(json.dumps({"ready": True}), flush=True)
    for number in range(first, first + n):
        file = mutated(files, seed, number)
        try:
            data = signed(file)
        except (TypeError, ValueError, OverflowError, SafetensorError):
            continue  # no JSON, or more of it than a file can have
        if show:
            print(json.dumps(file["document"])[:20_000], file=sys.stderr)
        before = forget_memory()
        started, said, outcome = time.process_time(), "", "loaded"
        try:
            load(file, data)
        except skl.FormatError as error:
            outcome, said = "refused", str(error)[:300]
        except BaseException as error:
            outcome, said = "raised", f"{type(error).__name__}: {error}"[:300]
        seconds = time.process_time() - started
        line = {"number": number, "outcome": outcome, "seconds": seconds, "megabytes": megabytes() - before}
        print(json.dumps({**line, "bytes": len(data), "said": said}), flush=True)


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
            self.failures.append(f"number {line['number']} ({line['bytes']:,} bytes) took {cost}: {line['said']}")
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
