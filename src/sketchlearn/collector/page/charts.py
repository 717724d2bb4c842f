"""Charts as SVG: places in percent of the width, so that they fit any screen, and colours by the page's style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from sketchlearn.core.messages import printable
from sketchlearn.views.report.elements import CLUSTER_COLORS, element, table

HEIGHT = 110  # pixels of a chart of bars
MAP_HEIGHT = 340
HEADROOM = 1.2  # above the highest bar, for the mark of an alarm
GAP = 0.15  # of a bar's room
MARGIN = 0.12  # of the range of a map, on each side


@dataclass(frozen=True)
class Bar:
    """One bar: when, how much (None where it is not shown), what is said of it, and whether it stands out."""

    when: str
    value: float | None
    words: str
    alarm: bool = False


def bar_chart(caption: str, bars: Sequence[Bar], unit: str, *, level: float | None = None) -> Element:
    """Bars over time, with a line at a level, and the same as a table for those who do not see it."""
    values = [bar.value for bar in bars if bar.value is not None]
    top = HEADROOM * max([*values, level or 0.0], default=0.0) or 1.0
    room = 100 / max(1, len(bars))
    drawn = []
    for i, bar in enumerate(bars):
        height = 6.0 if bar.value is None else max(1.0, HEIGHT * bar.value / top)
        kind = "bar unknown" if bar.value is None else "bar alarm" if bar.alarm else "bar"
        place = {"x": f"{room * (i + GAP / 2):.3f}%", "width": f"{room * (1 - GAP):.3f}%"}
        title = element("title", f"{bar.when}: {bar.words}")
        drawn.append(element("rect", title, y=f"{HEIGHT - height:.2f}", height=f"{height:.2f}", class_=kind, **place))
        if bar.alarm:
            middle = f"{room * (i + 0.5):.3f}%"
            drawn.append(element("text", "!", x=middle, y=f"{max(12.0, HEIGHT - height - 4):.1f}", class_="mark"))
    base = {"y1": str(HEIGHT), "y2": str(HEIGHT)}
    drawn.append(element("line", x1="0", x2="100%", class_="axis", **base))
    if level is not None:
        at = f"{HEIGHT - HEIGHT * level / top:.2f}"
        drawn.append(element("line", x1="0", x2="100%", y1=at, y2=at, class_="middle"))
    told = f"{caption}: {len(bars)} bars" + (f", from {bars[0].when} to {bars[-1].when}" if bars else "")
    picture = element("svg", *drawn, height=str(HEIGHT + 2), role="img", aria_label=told)
    ends = element("div", *(element("span", bar.when) for bar in _ends(bars)), class_="ends")
    rows = [(bar.when, bar.words) for bar in reversed(bars)]
    numbers = element("details", element("summary", "As a table"), table(caption, ("When", unit), rows))
    return element("figure", element("figcaption", caption), picture, ends, numbers, class_="card chart")


def _ends(bars: Sequence[Bar]) -> list[Bar]:
    return [bars[0], bars[-1]] if len(bars) > 1 else list(bars)


@dataclass(frozen=True)
class Place:
    """Where a cluster lies in two columns, how far its records spread, and where it was before, if that is known."""

    number: int
    center: tuple[float, float]
    spread: tuple[float, float]
    share: float
    before: tuple[float, float] | None


def cluster_map(places: Sequence[Place], columns: tuple[str, str]) -> Element:
    """Clusters in two columns: ellipses of one standard deviation, and arrows from where they were before."""
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

    ellipses, arrows, labels = [], [], []
    for place in places:
        x, y = at(place.center)
        rx, ry = (f"{100 * place.spread[i] / (high[i] - low[i]):.2f}%" for i in range(2))
        color = f"--own: var(--c{place.number % CLUSTER_COLORS})"
        ellipses.append(element("ellipse", cx=x, cy=y, rx=rx, ry=ry, class_="spread", style=color))
        if place.before is not None:
            x0, y0 = at(place.before)
            arrows.append(element("circle", cx=x0, cy=y0, r="5", class_="earlier", style=color))
            arrows.append(element("line", x1=x0, y1=y0, x2=x, y2=y, class_="moved", style=color))
        radius = f"{9 + 14 * math.sqrt(max(0.0, place.share)):.1f}"
        labels.append(element("circle", cx=x, cy=y, r=radius, class_="dot own", style=color))
        labels.append(element("text", str(place.number), x=x, y=y, dy="4"))
    first, second = columns
    told = f"Map of {len(places)} clusters: {first} from left to right, {second} from below to above"
    picture = element(
        "svg", *ellipses, *arrows, *labels, height=str(MAP_HEIGHT), role="img", aria_label=told, class_="map"
    )
    axes = (element("span", printable(first), " →"), element("span", "↑ ", printable(second)))
    return element("div", picture, element("div", *axes, class_="ends"))
