"""The geometry of charts as SVG: places in percent of the width, so that they fit any screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HEIGHT = 110  # pixels of a chart of bars
HEADROOM = 1.2  # above the highest bar, for the mark of an alarm
GAP = 0.15  # of a bar's room
MARGIN = 0.12  # of the range of a map, on each side


@dataclass(frozen=True)
class Bar:
    """One bar: its time, its value (None where it is not shown), a description, and whether it is an alarm."""

    when: str
    value: float | None
    words: str
    alarm: bool = False


def bar_chart(caption: str, bars: Sequence[Bar], level: float | None = None) -> dict[str, Any]:
    """What the template draws: bars over time, with a line at a level."""
    values = [bar.value for bar in bars if bar.value is not None]
    top = HEADROOM * max([*values, level or 0.0], default=0.0) or 1.0
    room = 100 / max(1, len(bars))
    drawn = []
    for i, bar in enumerate(bars):
        height = 6.0 if bar.value is None else max(1.0, HEIGHT * bar.value / top)
        place = {
            "x": f"{room * (i + GAP / 2):.3f}",
            "width": f"{room * (1 - GAP):.3f}",
            "y": f"{HEIGHT - height:.2f}",
            "height": f"{height:.2f}",
            "middle": f"{room * (i + 0.5):.3f}",
            "mark": f"{max(12.0, HEIGHT - height - 4):.1f}",
        }
        style = "bar unknown" if bar.value is None else "bar alarm" if bar.alarm else "bar"
        drawn.append({"when": bar.when, "words": bar.words, "alarm": bar.alarm, "style": style, **place})
    label = f"{caption}: {len(bars)} bars" + (f", from {bars[0].when} to {bars[-1].when}" if bars else "")
    ends = [bar.when for bar in (bars if len(bars) < 2 else (bars[0], bars[-1]))]
    at = None if level is None else f"{HEIGHT - HEIGHT * level / top:.2f}"
    return {"caption": caption, "label": label, "height": HEIGHT, "bars": drawn, "level": at, "ends": ends}


@dataclass(frozen=True)
class Place:
    """A cluster in two columns: its center, its standard deviations, and its center before, if that is known."""

    number: int
    center: tuple[float, float]
    spread: tuple[float, float]
    share: float
    before: tuple[float, float] | None


def cluster_map(places: Sequence[Place], columns: tuple[str, str]) -> dict[str, Any]:
    """What the template draws: ellipses of one standard deviation, and arrows from the centers before."""
    low, high = [], []
    for axis in range(2):
        reach = [p.center[axis] + side * 1.2 * p.spread[axis] for p in places for side in (-1, 1)]
        reach += [p.before[axis] for p in places if p.before is not None]
        lowest, highest = min(reach), max(reach)
        wide = (highest - lowest) or 1.0
        low.append(lowest - MARGIN * wide)
        high.append(highest + MARGIN * wide)

    def at(point: tuple[float, float]) -> tuple[str, str]:
        x, y = ((point[i] - low[i]) / (high[i] - low[i]) for i in range(2))
        return f"{100 * x:.2f}%", f"{100 * (1 - y):.2f}%"

    drawn = [
        {
            "number": place.number,
            "at": at(place.center),
            "spread": [f"{100 * place.spread[i] / (high[i] - low[i]):.2f}%" for i in range(2)],
            "before": None if place.before is None else at(place.before),
            "radius": f"{9 + 14 * math.sqrt(max(0.0, place.share)):.1f}",
        }
        for place in places
    ]
    first, second = columns
    label = f"Map of {len(places)} clusters: {first} from left to right, {second} from below to above"
    return {"places": drawn, "columns": columns, "label": label}
