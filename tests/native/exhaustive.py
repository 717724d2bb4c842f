"""Every float32 phase from -1/2 to 1/2 through every wave: the largest error, and the largest integer.

The phases beyond that only repeat these: a wave first takes off the nearest integer, which is exact.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from cases import WAVES

from sketchlearn import kernel

STEP = 1 << 22
SMALLEST = 2.0**-28  # below, sines and their errors vanish; the neighbourhood of zero is tested with denormals anyway


def phases():
    first, last = (int(np.float32(x).view(np.uint32)) for x in (SMALLEST, 0.5))
    for start in range(first, last + 1, STEP):
        positive = np.arange(start, min(start + STEP, last + 1), dtype=np.uint32).view(np.float32)
        yield positive
        yield -positive
    yield np.array([0.0, -0.0, 1e-45, -1e-45, 1e-38, -1e-38], np.float32)


def main() -> int:
    failed = 0
    for name, wave in WAVES.items():
        plan = kernel.plan(wave.kernel_id, np.zeros(1, np.float32), 1, series=wave.series)
        plan.dense(np.ones((1, 1), np.float32), np.zeros(1, np.float32))
        error = largest = square = 0.0
        for t in phases():
            integers = np.zeros((len(t), wave.parts), np.int32)
            plan.write(t[:, None], 2, integers)
            exact = wave(t.astype(np.float64))
            exact = np.stack([exact.real, exact.imag][: wave.parts], axis=1)
            error = max(error, float(np.abs(integers - exact * wave.unit).max()) / wave.unit)
            largest = max(largest, int(np.abs(integers).max()))
            square = max(square, int((integers.astype(np.int64) ** 2).sum(axis=1).max()))
        fine = error <= 2.0**-19 and largest <= wave.ceiling
        failed += not fine
        print(
            f"{name:15} error {error * 2**20:6.3f} x 2^-20, largest integer {largest} (ceiling {wave.ceiling}), "
            f"largest squared length {square}: {'fine' if fine else 'FAILED'}",
            flush=True,
        )
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
