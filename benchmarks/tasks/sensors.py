"""A network of sensors that send bits, beside full precision: python benchmarks/tasks/all.py --only sensors

54 simulated sensors (examples/sensor_network.py) send signs; a server adds them and learns three Gaussians. Bits per
reading are held against the mean log-likelihood of held-out readings. "The same" is: a median
over draws of at most 0.01 nats below full precision on the same readings at its own best size, the smallest one whose
median is within 0.01 nats of the best of all sizes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import sensor_network as network

from benchmarks.support.report import table_of, yes_or_no

ALIKE = 0.01  # nats per reading
FEWER = 20  # times fewer bits than float32


def exactness(seed: int) -> tuple[Table, list[bool]]:
    """Whether what the server added up is the sketch of all readings."""
    table = table_of("Messages of 54 sensors", ["operator", "bytes received", "bits per reading", "sums are exact"])
    parts, pilot, _ = network.in_turn(100, seed)
    reached = []
    for subsample in (None, 50):
        operator = network.operator_of(pilot, 200, "square", seed)
        operator = operator if subsample is None else network.replace(operator, subsample=subsample)
        server = network.Server(operator)
        for rows in parts:
            server.receive(network.Sensor(operator, rows).messages())
        reached.append(server.sketch() == operator.sketch(np.concatenate(parts)))
        name = "m = 200" + (f", subsample = {subsample}" if subsample else "")
        sent = f"{8 * server.received / server.count:.0f}"
        table.add_row(name, f"{server.received:,}", sent, yes_or_no(reached[-1]))
    return table, reached


def compared(settings: argparse.Namespace) -> tuple[Table, list[bool]]:
    found = network.likelihoods(settings.seed + i for i in range(settings.draws))
    middle = {bits: float(np.median(own)) for bits, own in found["float32"].items()}
    best = min(bits for bits, value in middle.items() if value >= max(middle.values()) - ALIKE)
    full = np.array(found["float32"][best])
    below = {way: {bits: float(np.median(full - own)) for bits, own in curve.items()} for way, curve in found.items()}
    title = f"Held-out log-likelihood, medians of {settings.draws} draws of readings and operators"
    table = table_of(title, ["sent", "bits per reading", "nats", "lowest", "highest", "below full", "fewer bits"])
    for way, curve in found.items():
        for bits, own in curve.items():
            mark = " (best size)" if (way, bits) == ("float32", best) else ""
            nats = [f"{value:.4f}" for value in (np.median(own), min(own), max(own), below[way][bits])]
            table.add_row(way + mark, f"{bits:,}", *nats, f"{best / bits:.1f} times")

    def fewest(*ways: str) -> float:
        return min((bits for way in ways for bits, away in below[way].items() if away <= ALIKE), default=np.inf)

    signs = fewest("one bit", "one bit, subsample")
    ratio, alike = best / signs, fewest("float32", "float32, subsample") / signs
    reached = [ratio >= FEWER, alike >= FEWER]
    table.caption = (
        f"one bit, the same within {ALIKE:g} nats, has fewer bits: {ratio:.1f} times than float32 "
        f"({yes_or_no(reached[0])}), {2 * ratio:.1f} than float64, {alike:.1f} than float32 with subsample "
        f"({yes_or_no(reached[1])}); asked: {FEWER}"
    )
    return table, reached


def tables(settings: argparse.Namespace) -> Iterator[tuple[Table, list[bool]]]:
    """Each table, and whether the figures asked for were reached."""
    yield exactness(settings.seed)
    yield compared(settings)
