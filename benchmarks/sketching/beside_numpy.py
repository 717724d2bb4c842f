"""How fast rows become a sketch, side by side with NumPy, scikit-learn and torch.

python benchmarks/sketching/beside_numpy.py

Every ratio is measured in this run, on one thread unless it says otherwise; each time is the best of several, in turns.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from rich.console import Console
from rich.table import Table

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.kernels import dispatch as kernel

M = 1024
SHAPES = {2: 60_000, 10: 60_000, 64: 20_000, 784: 4_000}
console = Console(width=150)


def best(functions: dict[str, Callable[[], object]], rounds: int = 9) -> dict[str, float]:
    """Best time of each function, the functions taking turns so that all see the same noise."""
    times = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            times[name] = min(times[name], time.perf_counter() - started)
    return times


def numpy_sums(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    total = np.zeros((2, W.shape[1]))
    for start in range(0, len(X), 512):
        phase = X[start : start + 512] @ W
        total[0] += np.cos(phase).sum(axis=0)
        total[1] += np.sin(phase).sum(axis=0)
    return total


def products_alone(X: np.ndarray, W: np.ndarray) -> None:
    for start in range(0, len(X), 512):
        X[start : start + 512] @ W


def data(d: int, n: int) -> tuple[np.ndarray, skl.features.FourierFeatures, np.ndarray]:
    X = np.random.default_rng(d).standard_normal((n, d)).astype(np.float32)
    operator = skl.features.FourierFeatures(d, M, law=Gaussian(np.sqrt(d)), seed=d)
    return X, operator, operator.frequencies.astype(np.float32)


def against_numpy() -> None:
    table = Table(title=f"{M} frequencies, one thread, float32 rows: ns per row and frequency")
    peers = ("NumPy float32", "exp(1j X W)", "RBFSampler", "torch")
    for column in ("d", "sketchlearn", *(c for peer in peers for c in (peer, "ratio"))):
        table.add_column(column, justify="right")
    for d, n in SHAPES.items():
        X, operator, W = data(d, n)
        few = X[: n // 4]
        times = best(
            {
                "own": lambda X=X, operator=operator: operator.sketch(X, n_jobs=1),
                "numpy": lambda X=X, W=W: numpy_sums(X, W),
            }
        )
        # The slow peers see a quarter of the rows.
        slow = best({"own": lambda few=few, operator=operator: operator.sketch(few, n_jobs=1), **slow_peers(few, W)}, 3)
        unit, slow_unit = 1e9 / (n * M), 1e9 / (len(few) * M)
        ratio = times["numpy"] / times["own"]
        row = [str(d), f"{times['own'] * unit:.2f}", f"{times['numpy'] * unit:.2f}", f"{ratio:.2f}"]
        for name in ("exp", "sampler", "torch"):
            known = name in slow
            row += [f"{slow[name] * slow_unit:.2f}", f"{slow[name] / slow['own']:.1f}"] if known else ["-", "-"]
        table.add_row(*row)
    console.print(table)


def slow_peers(X: np.ndarray, W: np.ndarray) -> dict[str, Callable[[], object]]:
    peers: dict[str, Callable[[], object]] = {"exp": lambda: np.exp(1j * X @ W).mean(0)}
    try:
        from sklearn.kernel_approximation import RBFSampler

        sampler = RBFSampler(n_components=M, random_state=0).fit(X[:2])
        peers["sampler"] = lambda: sampler.transform(X).mean(axis=0)
    except ImportError:
        console.print("scikit-learn is not installed: pip install 'sketchlearn[benchmark]'")
    try:
        import torch
    except ImportError:
        return peers
    torch.set_num_threads(1)
    x, w = torch.from_numpy(X), torch.from_numpy(W)

    def run() -> None:
        for start in range(0, len(x), 512):
            phase = x[start : start + 512] @ w
            (torch.cos(phase).sum(0), torch.sin(phase).sum(0))

    return {**peers, "torch": run}


def against_the_machine() -> None:
    """The limit: multiply-adds at the rate of sgemm (measured at d = 784), plus the wave (measured at d = 1)."""
    X, _, W = data(784, 4000)
    rate = 784 * len(X) * M / best({"products": lambda: products_alone(X, W)})["products"]
    one, operator, _ = data(1, 60_000)
    wave = best({"own": lambda: operator.sketch(one, n_jobs=1)})["own"] / (len(one) * M) - 1 / rate
    table = Table(title=f"Distance from the machine's limit (sgemm: {rate / 1e9:.1f}e9 multiply-adds a second)")
    for column in ("d", "limit, ns", "multiply-adds, ns", "wave, ns", "sketchlearn, ns", "limit / sketchlearn"):
        table.add_column(column, justify="right")
    for d, n in SHAPES.items():
        X, operator, _ = data(d, n)
        reached = best({"own": lambda X=X, operator=operator: operator.sketch(X, n_jobs=1)})["own"] / (n * M)
        limit = d / rate + wave
        numbers = (limit * 1e9, d / rate * 1e9, wave * 1e9, reached * 1e9)
        table.add_row(str(d), *(f"{x:.2f}" for x in numbers), f"{limit / reached:.2f}")
    console.print(table)


def waves_and_structure() -> None:
    table = Table(title="Other features, one thread")
    for column in ("what", "against", "ratio"):
        table.add_column(column)
    for d in (2, 10):
        X, operator, _ = data(d, SHAPES[d])
        square = skl.features.FourierFeatures(d, M, law=operator.law, wave="square", seed=d)
        both = {"exponential": operator, "square": square}
        times = best({name: lambda X=X, o=o: o.sketch(X, n_jobs=1) for name, o in both.items()})
        table.add_row(f"square wave, d = {d}", "exponential", f"{times['exponential'] / times['square']:.2f}")
    X = np.random.default_rng(0).standard_normal((600, 1024)).astype(np.float32)
    dense, fast = (skl.features.FourierFeatures(1024, 8192, law=Gaussian(32.0), structured=s) for s in (False, True))
    times = best({"dense": lambda: dense.sketch(X, n_jobs=1), "fast": lambda: fast.sketch(X, n_jobs=1)}, 3)
    table.add_row("structured, d = 1024, m = 8192", "dense", f"{times['dense'] / times['fast']:.2f}")
    X, operator, _ = data(10, 60_000)
    part = skl.features.FourierFeatures(10, M, law=operator.law, subsample=M // 8, seed=10)
    times = best({"a": lambda: operator.sketch(X, n_jobs=1), "b": lambda: part.sketch(X, n_jobs=1)})
    table.add_row("an eighth of the frequencies per record, d = 10", "all", f"{times['a'] / times['b']:.2f}")
    console.print(table)


def two_threads() -> None:
    """Beside a plain multiply-add loop: products of matrices that fit into the cache, in the same two threads."""
    if len(os.sched_getaffinity(0)) < 2:
        console.print("one core only: the scaling of two threads cannot be measured here")
        return
    X, operator, _ = data(10, 200_000)
    A = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)

    def loop(times: int) -> None:
        out = np.empty_like(A)
        for _ in range(times):
            np.matmul(A, A, out=out)

    def twice() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(loop, (150, 150)))

    times = best(
        {
            "loop 1": lambda: loop(300),
            "loop 2": twice,
            "own 1": lambda: operator.sketch(X, n_jobs=1),
            "own 2": lambda: operator.sketch(X, n_jobs=2),
        },
        7,
    )
    own, plain = times["own 1"] / times["own 2"], times["loop 1"] / times["loop 2"]
    console.print(f"Two threads: sketchlearn {own:.2f} times as fast as one, a multiply-add loop {plain:.2f} times.")


def main() -> None:
    versions = f"NumPy {np.__version__}, Python {platform.python_version()}"
    console.print(f"{platform.machine()}, kernel {kernel.active}, {versions}")
    against_numpy()
    against_the_machine()
    waves_and_structure()
    two_threads()


if __name__ == "__main__":
    main()
