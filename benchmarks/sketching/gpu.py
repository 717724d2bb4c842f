"""Features per second on a GPU, beside torch's: python benchmarks/sketching/gpu.py

Times of kernels are between events of the GPU, medians of 20; those of whole fits are the wall's.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import sketchlearn as skl
from sketchlearn.kernels.gpu.driver import DeviceError, Memory, Pointer, Stream, device
from sketchlearn.kernels.gpu.rows import DeviceRows, device_rows

M, REPEATS = 1024, 20
LANES, WAVE_INSTRUCTIONS = 128, 17  # of a multiprocessor; of the exponential, beside one for each column
#: columns, rows, features per second that are asked, and how often those of torch
CASES = (
    (2, 10_000_000, 1.2e12, 5.0),
    (10, 10_000_000, 8.5e11, 5.0),
    (64, 4_000_000, 2.4e11, 1.5),
    (784, 400_000, 2.6e10, 1.0),
)


class Event:
    """A moment in a stream."""

    def __init__(self, owner: Any) -> None:
        self.handle, self._owner = Pointer(), owner
        with owner.current():
            owner.call("cuEventCreate", ctypes.byref(self.handle), ctypes.c_uint(0))

    def record(self, stream: Stream) -> None:
        self._owner.call("cuEventRecord", self.handle, stream.handle)

    def since(self, earlier: Event) -> float:
        """Seconds from an earlier event to this one."""
        milliseconds = ctypes.c_float()
        self._owner.call("cuEventElapsedTime", ctypes.byref(milliseconds), earlier.handle, self.handle)
        return milliseconds.value / 1000


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


def kernel_seconds(owner: Any, rows: DeviceRows, operator: skl.extend.Operator) -> float:
    plan = operator.device_plan(owner)
    assert plan is not None
    sums, bad, stream = Memory(8 * operator.n_sums, owner), Memory(8, owner), Stream(owner)
    return seconds(owner, stream, lambda: plan.add(rows, None, sums.address, bad.address, stream))


def kernel_rate(owner: Any, rows: DeviceRows, operator: skl.features.FourierFeatures) -> float:
    return len(rows) * operator.n_frequencies / kernel_seconds(owner, rows, operator)


def torch_rate(torch: Any, rows: Any, *, waves: bool) -> float:
    """Features per second of torch: the product alone, or with its waves and their sums."""
    frequencies = torch.randn(rows.shape[1], M, device="cuda")

    def work() -> None:
        for first in range(0, len(rows), 100_000):
            phases = rows[first : first + 100_000] @ frequencies
            if waves:
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


def wall(work: Any, repeats: int = 5) -> float:
    """The median time by the clock, once all is warm."""
    found = []
    for _ in range(repeats + 3):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return statistics.median(found[3:])


def issue_limit(owner: Any, d: int) -> float:
    """Features per second if every lane issued an instruction at every tick of the highest clock."""
    query = ["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"]
    clock = 1e6 * float(subprocess.run(query, check=True, capture_output=True, text=True).stdout.split()[0])
    return float(owner.multiprocessors * LANES * clock / (d + WAVE_INSTRUCTIONS))


def most_memory(torch: Any, work: Any) -> float:
    """Bytes of the GPU that some work takes at most, looked at every millisecond."""
    done, least = threading.Event(), [torch.cuda.mem_get_info()[0]]
    before = least[0]

    def look() -> None:
        while not done.wait(0.001):
            least[0] = min(least[0], torch.cuda.mem_get_info()[0])

    looking = threading.Thread(target=look)
    looking.start()
    work()
    done.set()
    looking.join()
    return float(before - least[0])


def rates(torch: Any, owner: Any) -> list[bool]:
    names = (
        "columns",
        "features/s",
        "asked",
        "torch eager",
        "times torch",
        "asked",
        "product alone",
        "of the issue limit",
    )
    table, reached = Table(*names, title=f"{owner.name}, m = {M}"), []
    for d, n, asked, times in CASES:
        rows = torch.randn(n, d, device="cuda")
        operator = skl.features.FourierFeatures(d, M, law=skl.features.frequencies.Gaussian(1.0), seed=0)
        own, some = kernel_rate(owner, device_rows(rows), operator), rows[: max(n // 5, 200_000)]
        eager, product = (torch_rate(torch, some, waves=waves) for waves in (True, False))
        reached += [own >= asked, own >= times * eager]
        cells = (f"{own:.3g}", f"{asked:.3g}", f"{eager:.3g}", f"{own / eager:.2f}", f"{times:g}", f"{product:.3g}")
        table.add_row(str(d), *cells, f"{own / issue_limit(owner, d):.0%}")
    Console(highlight=False).print(table)
    return reached


def other_operators(torch: Any, owner: Any) -> None:
    """Kernels beside the one of dense frequencies, and the processor's time for a tenth of the rows, times ten."""
    table, law = (
        Table("operator", "rows", "GPU, ms", "processor, ms", title="other operators"),
        skl.features.frequencies.Gaussian(9.0),
    )
    wide = (
        torch.randn(100_000, 768, device="cuda")
        + 4 * torch.randn(20, 768, device="cuda")[torch.randint(20, (100_000,), device="cuda")]
    )
    narrow = torch.randn(1_000_000, 8, device="cuda")
    waves = skl.features.FourierFeatures(8, 200, law=law)
    bits = skl.features.FourierFeatures(8, 1024, law=law, wave="square")
    sample = wide[:5000].cpu().numpy()
    cases = (
        (skl.design(sample, n_components=20, features=skl.features.Cells()), wide),
        (skl.design(sample, n_components=20, features=skl.features.Cells(normalize=True)), wide),
        (skl.features.FourierFeatures(768, 2048, law=law, structured=True), wide),
        (skl.features.CrossFeatures(skl.features.FourierFeatures(768, 100, law=law), bound=100.0), wide),
        (skl.features.FeatureMoments(waves, bound=100.0), narrow),
        (skl.features.SecondMoments(768, bound=100.0), wide),
    )
    for operator, rows in cases:
        here, some = kernel_seconds(owner, device_rows(rows), operator), rows[: len(rows) // 10].cpu().numpy()
        there = 10 * wall(lambda own=operator, some=some: own.sketch(some))
        table.add_row(
            operator.in_words, f"{len(rows):,} x {rows.shape[1]}", f"{1000 * here:.2f}", f"{1000 * there:.0f}"
        )
    some = narrow[:100_000].cpu().numpy()
    here, there = wall(lambda: bits.pack(narrow)), 10 * wall(lambda: bits.pack(some))
    table.add_row("2,048 packed signs, by the clock", "1,000,000 x 8", f"{1000 * here:.1f}", f"{1000 * there:.0f}")
    Console(highlight=False).print(table)


def of_files(operator: Any, rows: Any) -> None:
    """A Parquet file, read alone and read for the GPU."""
    if importlib.util.find_spec("pyarrow") is None:
        print("Parquet was not measured: pyarrow is not installed")
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.parquet")
        pq.write_table(pa.table({f"c{k}": rows[:, k] for k in range(rows.shape[1])}), path)
        read = wall(lambda: sum(len(block.rows) for block in skl.source(path).blocks(rows.shape[1])))
        both = wall(lambda: operator.sketch(path, device="cuda"))
        print(f"out of a Parquet file: {both:.2f} s, reading alone {read:.2f} s ({both / read:.2f} times)")


def of_ten_columns(torch: Any, owner: Any) -> list[bool]:
    """10^7 x 10 rows on the device, in the host's memory, and in a file."""
    rows = clustered(torch, 10_000_000)
    operator = skl.features.FourierFeatures(10, 1000, law=skl.features.frequencies.Gaussian(2.0), seed=0)
    alone = 1000 * kernel_seconds(owner, device_rows(rows), operator)
    clock = 1000 * wall(lambda: operator.sketch(rows), REPEATS)
    print(f"10^7 x 10 rows on the device, m = 1000: {alone:.1f} ms (asked 13), {clock:.1f} ms by the clock")
    pinned = rows.cpu().pin_memory()
    plain = np.array(pinned.numpy())
    copied = 1000 * wall(lambda: (pinned.cuda(), torch.cuda.synchronize()), REPEATS)
    of_pinned, of_other = (
        1000 * wall(lambda own=own: operator.sketch(own, device="cuda"), REPEATS) for own in (pinned.numpy(), plain)
    )
    times = of_pinned / max(copied, alone)
    print(f"out of pinned memory: {of_pinned:.1f} ms; the copy {copied:.1f}: {times:.2f} times the longer (asked 1.2)")
    print(f"out of other memory of the host: {of_other:.1f} ms")
    of_files(operator, plain)
    return [alone <= 13, times <= 1.2]


def of_fits(torch: Any, n: int) -> list[bool]:
    """Whole fits of rows on the device, and how long the processor decodes 200 clusters."""
    rows = clustered(torch, n)
    torch.cuda.empty_cache()

    def fit() -> None:
        skl.SketchKMeans(10, random_state=0).fit(rows)

    taken, held = wall(fit), most_memory(torch, fit) / 1e6
    print(f"SketchKMeans of {n:,} x 10 rows on the device: {taken:.2f} s, decoding included (asked 1)")
    print(f"memory beyond the rows, at most: {held:.0f} MB (asked 500)")
    start = time.perf_counter()
    model = skl.SketchKMeans(200, random_state=0).fit(rows[: n // 10])
    whole, start = time.perf_counter() - start, time.perf_counter()
    skl.SketchKMeans(200, random_state=0).fit_sketch(model.sketch_)
    decoding = time.perf_counter() - start
    print(
        f"200 clusters of {n // 10:,} rows: {whole:.2f} s, of which the sketch alone takes {decoding:.2f} s to decode"
    )
    return [taken <= 1, held <= 500]


def clustered(torch: Any, n: int) -> Any:
    """Rows of ten clusters in ten columns, made ten million at a time."""
    centers, rows = 4 * torch.randn(10, 10, device="cuda"), torch.randn(n, 10, device="cuda")
    for first in range(0, n, 10_000_000):
        part = rows[first : first + 10_000_000]
        part += centers[torch.randint(10, (len(part),), device="cuda")]
    return rows


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
    reached = rates(torch, owner)
    other_operators(torch, owner)
    reached += of_ten_columns(torch, owner) + of_fits(torch, given.rows)
    print(f"{sum(reached)} of {len(reached)} asked figures reached")
    return not all(reached)


if __name__ == "__main__":
    sys.exit(main())
