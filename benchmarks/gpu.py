"""Features per second on a GPU, beside torch's: python benchmarks/gpu.py

Times of kernels are between events of the GPU, medians of 20; those of whole fits are the wall's.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import sketchlearn as skl
from sketchlearn.gpu import DensePlan, DeviceError, DeviceRows, Event, Memory, Stream, device, device_rows

M, REPEATS = 1024, 20
#: columns, rows, features per second that are asked, and how often those of torch
CASES = (
    (2, 10_000_000, 1.2e12, 5.0),
    (10, 10_000_000, 8.5e11, 5.0),
    (64, 4_000_000, 2.4e11, 1.5),
    (784, 400_000, 2.6e10, 1.0),
)


def seconds(owner: Any, stream: Stream, work: Any) -> float:
    """The median time of some work of a stream, once it is warm."""
    found = []
    for _ in range(REPEATS + 3):
        before, after = Event(owner), Event(owner)
        with owner.current():
            before.record(stream)
            work()
            after.record(stream)
            stream.wait()
        found.append(after.since(before))
    return statistics.median(found[3:])


def kernel_rate(owner: Any, rows: DeviceRows, operator: skl.FourierFeatures) -> float:
    plan = operator.device_plan(owner)
    assert isinstance(plan, DensePlan)
    sums, bad, stream = Memory(8 * operator.n_sums, owner), Memory(8, owner), Stream(owner)
    taken = seconds(owner, stream, lambda: plan.add(rows, None, sums.address, bad.address, stream))
    return len(rows) * operator.n_frequencies / taken


def torch_rate(torch: Any, rows: Any) -> float:
    frequencies = torch.randn(rows.shape[1], M, device="cuda")

    def work() -> None:
        for first in range(0, len(rows), 100_000):
            phases = rows[first : first + 100_000] @ frequencies
            torch.cos(phases).sum(0), torch.sin(phases).sum(0)

    found = []
    for _ in range(8):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        work()
        after.record()
        torch.cuda.synchronize()
        found.append(before.elapsed_time(after) / 1000)
    return len(rows) * M / statistics.median(found[3:])


def wall(work: Any) -> float:
    found = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000, help="rows of the largest fit")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        owner = device(0)
    except DeviceError as error:
        print(f"nothing was measured: {error}")
        return 0
    if importlib.util.find_spec("torch") is None:
        print("nothing was measured: torch, which makes the rows, is not installed")
        return 0
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    table = Table(
        "columns", "features/s", "asked", "torch eager", "times torch", "asked", title=f"{owner.name}, m = {M}"
    )
    reached = []
    for d, n, asked, times in CASES:
        rows = torch.randn(n, d, device="cuda")
        operator = skl.FourierFeatures(d, M, law=skl.frequencies.Gaussian(1.0), seed=0)
        own, eager = kernel_rate(owner, device_rows(rows), operator), torch_rate(torch, rows[: max(n // 5, 200_000)])
        reached += [own >= asked, own >= times * eager]
        table.add_row(str(d), f"{own:.3g}", f"{asked:.3g}", f"{eager:.3g}", f"{own / eager:.2f}", f"{times:g}")
    Console(highlight=False).print(table)
    centers = 4 * torch.randn(10, 10, device="cuda")
    rows = torch.randn(10_000_000, 10, device="cuda") + centers[torch.randint(10, (10_000_000,), device="cuda")]
    operator = skl.FourierFeatures(10, 1000, law=skl.frequencies.Gaussian(2.0), seed=0)
    alone = 1000 * len(rows) * operator.n_frequencies / kernel_rate(owner, device_rows(rows), operator)
    clock = 1000 * wall(lambda: operator.sketch(rows))
    print(f"10^7 x 10 rows on the device, m = 1000: {alone:.1f} ms (asked 13), {clock:.1f} ms by the clock")
    pinned = rows.cpu().pin_memory().numpy()
    plain = np.array(pinned)
    for name, own in (("pinned", pinned), ("other", plain)):
        there = wall(lambda own=own: operator.sketch(own, device="cuda"))
        print(f"out of {name} memory of the host: {1000 * there:.1f} ms")
    del rows, pinned, plain
    rows = torch.randn(given.rows, 10, device="cuda")
    for first in range(0, given.rows, 10_000_000):
        part = rows[first : first + 10_000_000]
        part += centers[torch.randint(10, (len(part),), device="cuda")]
    free, _ = torch.cuda.mem_get_info()
    taken = wall(lambda: skl.SketchKMeans(10, random_state=0).fit(rows).cluster_centers_)
    print(f"SketchKMeans of {given.rows:,} x 10 rows on the device: {taken:.2f} s, decoding included (asked 1)")
    print(f"memory that is still held beyond the rows: {(free - torch.cuda.mem_get_info()[0]) / 1e6:.0f} MB")
    print(f"{sum(reached)} of {len(reached)} asked figures reached")
    return not all(reached)


if __name__ == "__main__":
    sys.exit(main())
