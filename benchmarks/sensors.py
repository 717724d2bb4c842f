"""A network of sensors that send bits, beside full precision: python benchmarks/tasks.py --only sensors

54 simulated sensors (examples/sensor_network.py) send signs; a server adds them and learns three Gaussians. Bits per
reading are held against the mean log-likelihood of held-out readings. "The same" is: no more than 0.01 nats below full
precision at its own best size, the smallest one that is within 0.01 nats of the best of all sizes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from report import table_of, yes_or_no
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import sensor_network as network

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
    found = network.medians(settings.seed + i for i in range(settings.draws))
    middle = {way: {bits: float(np.median(own)) for bits, own in curve.items()} for way, curve in found.items()}
    full = middle["float32"]
    best = min(bits for bits, value in full.items() if value >= max(full.values()) - ALIKE)
    title = f"Held-out log-likelihood, medians of {settings.draws} draws of readings and operators"
    table = table_of(title, ["sent", "bits per reading", "nats", "lowest", "highest", "below full", "fewer bits"])
    for way, curve in found.items():
        for bits, own in curve.items():
            nats, below = middle[way][bits], full[best] - middle[way][bits]
            mark = " (best size)" if (way, bits) == ("float32", best) else ""
            words = [f"{nats:.4f}", f"{own[0]:.4f}", f"{own[-1]:.4f}", f"{below:.4f}", f"{best / bits:.1f} times"]
            table.add_row(way + mark, f"{bits:,}", *words)
    signs = middle["one bit"] | middle["one bit, subsample"]
    alike = [bits for bits, value in signs.items() if value >= full[best] - ALIKE]
    ratio = best / min(alike) if alike else 0.0
    table.caption = (
        f"one bit, the same within {ALIKE:g} nats: {ratio:.1f} times fewer bits than float32, {2 * ratio:.1f} than "
        f"float64; asked: {FEWER} than float32: {yes_or_no(ratio >= FEWER)}"
    )
    return table, [ratio >= FEWER]


def tables(settings: argparse.Namespace) -> Iterator[tuple[Table, list[bool]]]:
    """Each table, and whether the figures asked for were reached."""
    yield exactness(settings.seed)
    yield compared(settings)
