"""`select_classes`: a private selection of the names of classes with enough records.

Each class that has records has noise of scale s on its count, and is named if the result reaches a threshold T. One
record moves one count by 1 (a replaced one, which may change its class, moves two), so that s = 1 / epsilon (or 2) is
epsilon-private for classes that are there with the record and without it. A class that is there with the record alone
has a count of 1, and is named with probability P(noise >= T - 1), which delta bounds (Rogers 2023, "A Unifying Privacy
Analysis Framework for Unknown Domain Algorithms in Differential Privacy").
"""

from __future__ import annotations

import math
import secrets
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sketchlearn.core.values import number, positive, whole
from sketchlearn.privacy.budget import Budget
from sketchlearn.privacy.mechanisms import DiscreteLaplace, opendp, short_scale
from sketchlearn.privacy.noise_plan import LARGEST_SCALE
from sketchlearn.privacy.release import LARGEST_DELTA, LARGEST_EPSILON, booked, releasable
from sketchlearn.sketch.batches import RELEASED, Batches
from sketchlearn.sketch.ledger import ADD_REMOVE, THRESHOLD, Ledger, SelectionCost, check_neighbors
from sketchlearn.sketch.sums import Sketch

LARGEST_COUNT = 2**62  # with noise, a count has to fit into 64 bits
# OpenDP 0.16 names counts from the threshold on, and computes delta for those above it: its delta is too small by up to
# a factor of e^epsilon (github.com/opendp/opendp/issues/2922, test_one_record_of_a_new_class_is_hardly_ever_named).
THRESHOLD_CORRECTION = 1


@dataclass(frozen=True)
class SelectedClasses:
    """Privately selected class names, in order, and what the selection has spent.

    They count as declared: `SketchClassifier().fit_sketch(releases, classes=selected)`.

    Attributes
    ----------
    labels : the names; of classes that were not selected, nothing is kept.
    ledger : what was spent, on all classes.
    """

    labels: tuple[Any, ...]
    ledger: Ledger

    def __iter__(self) -> Iterator[Any]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)


def select_classes(
    classes: Mapping[Any, Sketch | int],
    *,
    epsilon: float,
    delta: float,
    neighbors: str = ADD_REMOVE,
    already: Ledger | None = None,
    budget: Budget | Sequence[Budget] | None = None,
) -> SelectedClasses:
    """Selects the names of classes with many records privately; names taken from the data would not be private.

    Classes with noisy counts below a threshold are left out: those of few records nearly always. What is spent is added
    to releases of the same sketches, and to what `fit_sketch(..., classes=selected)` says.

    Parameters
    ----------
    classes : the exact sketch of each class, or its number of records; a record is one row, in one class.
    epsilon : the privacy loss: the smaller, the more records a class needs to be named.
    delta : bounds the probability that a class is named for one record alone. Above 0, and far below one over the
        number of records.
    neighbors : as in `privatize`; "replace" hides the class of a record, too, and needs about twice the records.
    already : as in `privatize`.
    budget : as in `privatize`; where classes have budgets of their own, all of them.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> operator = skl.design(bounds=([-5, -5], [5, 5]), task="moments")
    >>> rows = np.random.default_rng(0).standard_normal((4000, 2))
    >>> exact = {"a": operator.sketch(rows[:2000]), "b": operator.sketch(rows[2000:] + 2)}
    >>> exact["c"] = operator.sketch([[3, 3]])  # a single record
    >>> selected = skl.privacy.select_classes(exact, epsilon=0.5, delta=1e-6)
    >>> selected.labels, selected.ledger.epsilon
    (('a', 'b'), 0.5)
    >>> already = selected.ledger  # the same records: both are paid
    >>> releases = {label: skl.privatize(exact[label], epsilon=2.0, already=already) for label in selected}
    >>> skl.SketchClassifier().fit_sketch(releases, classes=selected).privacy_.epsilon
    2.5
    """
    epsilon, delta = positive("epsilon", epsilon), number("delta", delta)
    if not 0 < delta <= LARGEST_DELTA or epsilon > LARGEST_EPSILON:
        limits = f"delta must be above 0 and at most {LARGEST_DELTA:g}, and epsilon at most {LARGEST_EPSILON:g}"
        raise ValueError(f"{limits}, not {delta!r} and {epsilon!r}: without a delta, declare the names")
    check_neighbors(neighbors)
    if already is not None and not isinstance(already, Ledger):
        raise TypeError("already must be the ledger of an earlier release")
    if not isinstance(classes, Mapping):
        raise TypeError(f"expected a dictionary of labels and sketches or counts, not {type(classes).__name__}")
    found = {_plain_label(label): part.copy() if isinstance(part, Sketch) else part for label, part in classes.items()}
    if len({isinstance(label, str) for label in found}) > 1:
        raise ValueError("labels must be all words or all numbers")
    sketches = [part for part in found.values() if isinstance(part, Sketch)]
    batches, content = _batches(sketches)
    # a class without records is not one: that there is a sketch of it must not tell anything
    counts = {label: count for label, part in found.items() if (count := _count(part))}
    moved = 1 if neighbors == ADD_REMOVE else 2
    times = max((part.batches.largest for part in sketches), default=1)
    scale, threshold = _calibrated(epsilon, delta, moved, times)
    ledger = Ledger(
        mechanism=THRESHOLD,
        epsilon=epsilon,
        delta=delta,
        neighbors=neighbors,
        sensitivity=moved * times,
        sum_scale=0.0,
        count_scale=scale,
        count_share=0.0,
        sum_variance=0.0,
        count_variance=DiscreteLaplace(epsilon).variance(scale),
        selections=(SelectionCost(secrets.token_hex(8), epsilon, delta),),
    )
    budgets = [budget] if isinstance(budget, Budget) else list(budget or ())
    ledger = RELEASED.note(partial(booked, ledger, already, budgets, batches), batches, content)
    labels = list(counts)
    noisy = _measurement(scale, threshold)(dict(enumerate(counts.values())))
    return SelectedClasses(tuple(sorted(labels[i] for i in noisy)), ledger)  # in an order that the labels alone decide


def _calibrated(epsilon: float, delta: float, moved: int, times: int) -> tuple[float, int]:
    """The scale of the noise and the threshold, by OpenDP's privacy maps: a record moves so many counts, so often."""
    far = (moved, moved * times, times)  # how many counts change, by how much together, and each by how much
    scale = short_scale(moved * times / epsilon)
    if not scale <= LARGEST_SCALE:
        raise ValueError(f"epsilon {epsilon!r} is so small that its noise exceeds 64 bits: use a larger one")

    def cost(threshold: int) -> tuple[float, float]:
        spent: tuple[float, float] = _measurement(scale, threshold).map(far)
        return spent

    while cost(times)[0] > epsilon:
        scale = short_scale(math.nextafter(scale, math.inf))
    thresholds = range(times, LARGEST_COUNT)
    position = bisect_left(thresholds, True, key=lambda threshold: cost(threshold)[1] <= delta)
    if position == len(thresholds):
        raise ValueError("the threshold does not fit into 64 bits: use a larger epsilon or delta")
    return scale, thresholds[position] + THRESHOLD_CORRECTION


def _measurement(scale: float, threshold: int) -> Any:
    """OpenDP's measurement of counts by key, which leaves out those that stay below the threshold with noise."""
    dp = opendp()
    counts = dp.domains.map_domain(dp.domains.atom_domain(T="i64"), dp.domains.atom_domain(T="i64"))
    metric = dp.metrics.l01inf_distance(dp.metrics.absolute_distance(T="i64"))
    return dp.measurements.make_laplace_threshold(counts, metric, scale=scale, threshold=threshold)


# Messages below name no class: it may be one of those that must not be seen.
def _batches(sketches: list[Sketch]) -> tuple[Batches, Batches]:
    """The batches of all sketches, and their contents; the same rows in two classes are refused."""
    classes: dict[int, Sketch] = {}
    contents: dict[int, int] = {}
    for sketch in sketches:
        if sketch.unit is not None:
            raise ValueError("these sketches protect units, which may be in many classes: declare the names instead")
        shared = classes.keys() & sketch.batches.times.keys()
        if not all(sketch.may_equal(classes[number]) for number in shared):
            raise ValueError("two of the sketches share a batch of rows: each row must be in one class")
        classes |= dict.fromkeys(sketch.batches.times, sketch)
        contents |= Batches.of_content(sketch.operator.identity, sketch.sums, sketch.units).times
    most = max((sketch.batches.most for sketch in sketches), default=1)
    below = min((sketch.batches.missing_from for sketch in sketches), default=Batches().below)
    return Batches(dict.fromkeys(classes, 1), below=below, most=most), Batches(contents)


def _count(part: Any) -> int:
    if isinstance(part, Sketch):
        releasable(part)
        return part.units
    try:
        return whole("count", part, 0, LARGEST_COUNT)
    except (TypeError, ValueError):
        raise ValueError(
            "each class needs an exact sketch, or its number of records as a whole number that is not negative"
        ) from None


def _plain_label(label: Any) -> Any:
    """A label as a word or a finite number, without NumPy."""
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, str | int) or (isinstance(plain, float) and math.isfinite(plain)):
        return plain
    raise ValueError("labels must be words or finite numbers")
