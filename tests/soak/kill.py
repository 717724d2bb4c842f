"""Kills a checkpointed run at random moments until it ends; the result must have the bytes of an undisturbed run.

The design keeps rows, which are among those bytes.

python tests/soak/kill.py --times 50
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import sketchlearn as skl

COMMAND = [sys.executable, "-m", "sketchlearn"]


def write_rows(folder, n_files=4, n_rows=60_000):
    """Files of rows, and a design that keeps some of them."""
    rng = np.random.default_rng(0)
    for i in range(n_files):
        rows = rng.standard_normal((n_rows, 6)).astype(np.float32) + 8 * rng.integers(0, 3, (n_rows, 1))
        np.save(folder / f"rows{i}.npy", rows)
    skl.save(
        skl.design(rows[:1000], n_components=3, features=skl.features.Fourier(n_frequencies=2000), rows=500),
        folder / "design.json",
    )


def sketch(folder, output, *more):
    """The command that sketches all files, slowly enough to be killed."""
    files = sorted(map(str, folder.glob("rows*.npy")))
    choices = ["--design", str(folder / "design.json"), "--jobs", "1"]
    return [*COMMAND, "sketch", *files, *choices, "-o", str(output), *more]


def killed_runs(folder, times, seed=0):
    """Kills runs on one checkpoint, and on a new one after each that ends.

    Gives how many were killed, how many of those had done some of the work, and how many ended.
    """
    expected, output = folder / "expected.sketch", folder / "output.sketch"
    began = time.monotonic()
    subprocess.run(sketch(folder, expected), check=True, capture_output=True)
    longest = time.monotonic() - began
    assert len(skl.load(expected).kept) == 500
    rng, kills, amid, ends = random.Random(seed), 0, 0, 0
    while kills < times or not ends:
        checkpoint = folder / f"parts{ends}"
        before = _state(checkpoint)
        process = subprocess.Popen(
            sketch(folder, output, "--checkpoint", str(checkpoint), "--checkpoint-every", "0.02"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            if kills < times and rng.random() < 0.9:  # the others may be killed while they start
                _wait_for_work(process, checkpoint, before)
                process.wait(rng.uniform(0.0, 0.2))
            else:
                process.wait(rng.uniform(0.0, longest) if kills < times else None)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills, amid = kills + 1, amid + (_state(checkpoint) != before)
            assert not output.exists() or output.read_bytes() == expected.read_bytes(), "half an output"
            continue
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
        assert output.read_bytes() == expected.read_bytes(), "other bytes than those of an undisturbed run"
        output.unlink()
        ends += 1
    return kills, amid, ends


def _wait_for_work(process, checkpoint, before):
    while process.poll() is None and _state(checkpoint) == before:
        time.sleep(0.005)


def _state(checkpoint):
    """What is in a checkpoint, to see whether a run did something."""
    return {path.name: path.stat().st_mtime_ns for path in checkpoint.glob("*.part") if path.name[0] != "."}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder)
        kills, amid, ends = killed_runs(folder, arguments.times, arguments.seed)
    print(f"killed {kills} times, {amid} of them amid the work; {ends} runs came to an end, all with the same bytes")


if __name__ == "__main__":
    main()
