"""Every float32 phase of 2^-28 to 1/2 turns, either sign, through every wave: the largest error, integer and norms.

The phases beyond that only repeat these: a wave first takes off the nearest integer, which is exact.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from cases import WAVES
from thresholds import at_a_threshold

from sketchlearn.features.waves import Quantized
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import dense_plan

STEP = 1 << 22
SMALLEST = 2.0**-28  # below, all waves are constant but for signs, and those are looked at with a few


def phases(every):
    """Every so many phases, in blocks."""
    first, last = (int(np.float32(x).view(np.uint32)) for x in (SMALLEST, 0.5))
    for start in range(first, last + 1, every * STEP):
        positive = np.arange(start, min(start + every * STEP, last + 1), every, dtype=np.uint32).view(np.float32)
        yield positive
        yield -positive
    yield np.array([0.0, -0.0, 1e-45, -1e-45, 1e-38, -1e-38], np.float32)


def main(every: int) -> int:
    failed = 0
    for name, wave in WAVES.items():
        zero, one = np.zeros(1, np.float32), np.ones((1, 1), np.float32)
        plan = dense_plan(kernel.active, wave.feature, zero, zero, np.inf, wave.kernel_coefficients, 0, 1, one)
        error = largest = l1 = l2_squared = 0.0
        bound = wave.add_remove_sensitivity()
        for t in phases(every):
            integers = np.zeros((len(t), wave.parts), np.int32)
            plan.write(t[:, None], 2, integers)
            exact = wave(t.astype(np.float64))
            exact = np.stack([exact.real, exact.imag][: wave.parts], axis=1)
            errors = np.abs(integers - exact * wave.unit) / wave.unit
            if isinstance(wave, Quantized):  # of the wave before, so that the next step may begin there
                errors[at_a_threshold(wave, t.astype(np.float64))] = 0
            error = max(error, float(errors.max()))
            sizes = np.abs(integers).astype(np.int64)
            largest = max(largest, int(sizes.max()))
            l1 = max(l1, int(sizes.sum(axis=1).max()))
            l2_squared = max(l2_squared, int((sizes**2).sum(axis=1).max()))
        private = l1 <= bound.l1 and l2_squared <= bound.l2_squared
        fine = error <= 2.0**-19 and largest <= wave.largest_contribution and private
        failed += not fine
        print(
            f"{name:15} error {error * 2**20:6.3f} x 2^-20, largest integer {largest} of {wave.largest_contribution}, "
            f"L1 norm {l1} (bound {bound.l1}), squared L2 norm {l2_squared} (bound {bound.l2_squared}): "
            f"{'fine' if fine else 'FAILED'}",
            flush=True,
        )
    return failed > 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="look at every so many phases alone")
    sys.exit(main(parser.parse_args().every))
