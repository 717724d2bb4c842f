"""`ChangeDetector`: whether, and since when, a stream of sketches holds other records than before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from sketchlearn.plain_digits import in_digits
from sketchlearn.queries.two_sample import Drift, two_sample_test
from sketchlearn.sketch import Sketch
from sketchlearn.values import positive, whole


@dataclass(frozen=True)
class Change:
    """What a detector says of the newest sketch."""

    step: int  # number of the sketch, from 0
    alarm: bool  # whether the records changed
    since: int | None  # the first sketch of the changed records, if there is an alarm
    p_value: float  # of the most surprising comparison, times the number of comparisons
    drift: Drift | None  # that comparison; None while there is nothing to compare with

    def __str__(self) -> str:
        if self.drift is None:
            return f"{self.step}: nothing to compare with yet"
        if not self.alarm:
            return f"{self.step}: no change (p = {in_digits(self.p_value, 2)})"
        return f"{self.step}: changed since {self.since}. {self.drift}"


class ChangeDetector:
    """Compares the newest sketches of a stream with all that came before them since the last change.

    At each step, the newest sketch, the newest two, four, ... of them are tested against those before, by
    `two_sample_test`: a large change is seen at once, a small one when enough of it has been seen. The level is shared
    among the comparisons, so that at most so many of the steps raise a false alarm. After an alarm, the changed records
    are what further sketches are compared with.

    That holds if sketches are alike while nothing changes: where nights differ from days, give it sums of whole days.

    Parameters
    ----------
    level : part of the steps that may raise a false alarm.
    windows : numbers of newest sketches that are compared with those before.
    seed : of the tests.
    history : earlier sketches of the stream since its last change, oldest first: compared with, but not tested again.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> days = [rng.standard_normal((500, 2)) + (1 if day >= 5 else 0) for day in range(8)]
    >>> operator = skl.design(days[0], n_components=1)
    >>> detector = skl.ChangeDetector()
    >>> [change.since for day in days if (change := detector.update(operator.sketch(day))).alarm]
    [5]
    """

    def __init__(
        self,
        *,
        level: float = 0.001,
        windows: Sequence[int] = (1, 2, 4, 8),
        seed: int = 0,
        history: Sequence[Sketch] = (),
    ) -> None:
        if not positive("level", level) < 1:
            raise ValueError(f"level must lie between 0 and 1, not {level!r}")
        self.level = float(level)
        self.windows = tuple(sorted({whole("each of the windows", window) for window in windows}))
        if not self.windows:
            raise ValueError("windows must name at least one number of sketches")
        self.seed = whole("seed", seed, 0)
        #: what was said, step by step
        self.changes: list[Change] = []
        older = list(history[: -max(self.windows)])
        self._before = [_total(older)] if older else []  # the sum of those older than all windows, if there are any
        self._recent = list(history[-max(self.windows) :])
        self._steps_before = len(history)

    def update(self, sketch: Sketch) -> Change:
        """Takes the next sketch of the stream, and says whether the records changed."""
        if not isinstance(sketch, Sketch):
            raise TypeError(f"update takes a sketch, not {type(sketch).__name__}: sketch the rows first")
        if sketch.count == 0:
            raise ValueError("the sketch is empty: leave steps without records out")
        step = self._steps_before + len(self.changes)
        recent = [*self._recent, sketch]
        found = []
        for window in self.windows:
            older = [*self._before, *recent[:-window]]
            if older and window <= len(recent):
                found.append((two_sample_test(_total(older), _total(recent[-window:]), seed=self.seed), window))
        drift, window = min(found, key=lambda pair: pair[0].p_value, default=(None, 0))
        p = 1.0 if drift is None else min(1.0, len(found) * drift.p_value)
        alarm = drift is not None and p < self.level
        change = Change(step, alarm, step - window + 1 if alarm else None, p, drift)
        if alarm:
            self._before, self._recent = [], recent[-window:]
        else:
            older, self._recent = [*self._before, *recent[: -max(self.windows)]], recent[-max(self.windows) :]
            self._before = [_total(older)] if older else []
        self.changes.append(change)
        return change


def _total(sketches: list[Sketch]) -> Sketch:
    return reduce(lambda a, b: a.merged(b, overlapping=True), sketches)
