"""The privacy ledger: what a private sketch has spent. It travels with the sketch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from typing import Any, ClassVar

from scipy.special import log_ndtr

from sketchlearn.core.messages import counted, in_digits
from sketchlearn.core.values import Value, number, positive, shortened, truth, whole
from sketchlearn.sketch.privacy_unit import PrivacyUnit

ROUNDING_VARIANCE = 2.0  # r^2
LEAST_DEVIATION = 2.0  # of the continuous noise
EPSILON_ROOM = 1e-6  # the share of epsilon that is set aside for rounding to integers
UNIT_ERROR = 1e-15  # several times what floating-point numbers of size 1 are rounded by
LARGEST_EPSILON = 1e12  # beyond, rounding errors are as large as what is computed


def profile(epsilon: float, mu: float) -> float:
    """The smallest delta, rounded up: Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu).

    >>> round(profile(1.0, 1.0), 6)
    0.126937
    """
    ratio = epsilon / mu
    first, second = log_ndtr(mu / 2 - ratio), epsilon + log_ndtr(-mu / 2 - ratio)
    error = UNIT_ERROR * (1 + ratio + mu) ** 2  # logarithms and epsilon are of the size of these squares
    return 1.0 if error > 1 else min(1.0, math.exp(first + error) * -math.expm1(min(second - first, 0.0) - error))


@cache
def largest_ratio(epsilon: float, delta: float) -> float:
    """The largest mu that is (epsilon, delta)-private, rounded down.

    >>> mu = largest_ratio(1.0, 1e-6)
    >>> round(1 / mu, 4), profile(1.0, mu) <= 1e-6
    (4.2247, True)
    """
    epsilon = min(epsilon, LARGEST_EPSILON)
    low = math.sqrt(2 * epsilon)  # where the first probability is a half
    while profile(epsilon, low) > delta:
        low /= 2
    high = 2 * low
    while profile(epsilon, high) <= delta:
        low, high = high, 2 * high
    return _bisected(lambda mu: profile(epsilon, mu) <= delta, low, high)


@cache
def smallest_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon at which noise of ratio mu is private with this delta, rounded up; infinite for delta 0.

    Ten releases of (1, 1e-6), with the delta of all of them:

    >>> round(smallest_epsilon(math.sqrt(10) * largest_ratio(1.0, 1e-6), 1e-5), 2)
    3.14
    """
    if profile(0.0, mu) <= delta:
        return 0.0
    high = mu
    while profile(high, mu) > delta:
        high *= 2
        if high > LARGEST_EPSILON or not delta > 0:
            return math.inf
    low = high / 2
    while profile(low, mu) <= delta:
        low, high = low / 2, low
    return _bisected(lambda epsilon: profile(epsilon, mu) <= delta, high, low)


def _bisected(holds: Callable[[float], bool], sound: float, wrong: float) -> float:
    """A number that holds, to 12 digits from one that does not."""
    while abs(wrong - sound) > 1e-12 * sound:
        middle = (sound + wrong) / 2
        sound, wrong = (middle, wrong) if holds(middle) else (sound, middle)
    return sound


LAPLACE, GAUSSIAN, RANDOMISED_RESPONSE = "discrete Laplace", "discrete Gaussian", "randomised response"
THRESHOLD = "threshold of noisy counts"  # of the names of classes; its noise is Laplace noise, and needs a delta
MECHANISMS = (LAPLACE, GAUSSIAN, RANDOMISED_RESPONSE, THRESHOLD)
MOST_SELECTIONS = 1000  # that a ledger lists
ADD_REMOVE, REPLACE = "add-remove", "replace"
DECLARED, ASSUMED = "declared", "assumed public"
SINGLE, PARALLEL, SEQUENTIAL, MIXED = "single", "parallel", "sequential", "mixed"
LARGEST_SENSITIVITY = 2**80

_CHOICES = {
    "mechanism": tuple(" and ".join(some) for n in (1, 2, 3, 4) for some in combinations(MECHANISMS, n)),
    "neighbors": (ADD_REMOVE, REPLACE),
    "design": (DECLARED, ASSUMED),
    "composition": (SINGLE, PARALLEL, SEQUENTIAL, MIXED),
}


def _size(name: str, x: Any) -> float:
    size = number(name, x)
    if size < 0:
        raise ValueError(f"{name} must not be negative, not {size!r}")
    return size


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("epsilon", "rho"), positive),
    **dict.fromkeys(("delta", "count_share"), number),
    **dict.fromkeys(("sum_scale", "count_scale", "sum_variance", "count_variance"), _size),
    **dict.fromkeys(("parties", "releases"), whole),
    "sensitivity": partial(whole, least=0, most=LARGEST_SENSITIVITY),
    "private": truth,
}
_LARGEST = ("sensitivity", "sum_scale", "count_scale", "count_share")  # of several releases, the largest is told


@dataclass(frozen=True)
class PartNoise(Value):
    """The noise of one part of a concatenated sketch."""

    sensitivity: int
    scale: float
    variance: float

    def __post_init__(self) -> None:
        self._set(sensitivity=_CHECKS["sensitivity"]("sensitivity", self.sensitivity))
        self._set(scale=_size("scale", self.scale), variance=_size("variance", self.variance))

    def merged(self, other: PartNoise) -> PartNoise:
        sensitivity, scale = max(self.sensitivity, other.sensitivity), max(self.scale, other.scale)
        return PartNoise(sensitivity, scale, self.variance + other.variance)


@dataclass(frozen=True)
class SelectionCost(Value):
    """What selecting the names of classes has cost; `selection` is its random number, in 16 hexadecimal digits."""

    selection: str
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        name = self.selection
        if not isinstance(name, str) or len(name) != 16 or not set(name) <= set("0123456789abcdef"):
            raise ValueError(f"a selection must be identified by 16 hexadecimal digits, not {shortened(name)}")
        self._set(epsilon=positive("epsilon", self.epsilon), delta=positive("delta", self.delta))


@dataclass(frozen=True)
class Ledger(Value):
    """The privacy guarantee of a sketch, and the noise that was added for it.

    Attributes
    ----------
    mechanism : "discrete Laplace", "discrete Gaussian", of local privacy "randomised response", of names of classes
        "threshold of noisy counts"; several, if such releases were merged.
    epsilon, delta : what is guaranteed, of sums and count together.
    neighbors : "add-remove" (datasets that differ by one record more or less) or "replace" (by one record's values).
    sensitivity : how far one record can move the integers: L1 for Laplace noise, L2 (rounded up) for Gaussian noise.
    sum_scale, count_scale : scales of the noise on each sum and on the count; of several releases, the largest. For
        randomised response, the factor of each bit that was sent.
    count_share : the count's share of epsilon (Laplace), or of rho = 1 / (2 scale^2) (Gaussian).
    sum_variance, count_variance : variances of the noise on each integer of `sketch.sums` and on the count; they add
        up where sketches are merged.
    private : False if a seed for tests was used, and nothing is guaranteed.
    design : "declared", or "assumed public" if the caller said that the operator was designed on other data.
    releases : how many releases it covers.
    composition : "single", "parallel" (of disjoint records), "sequential" (of records that may overlap) or "mixed".
    parts : the noise of each part of a concatenated operator, which is not the same; the sums' fields above are then
        those of the noisiest part.
    parties, shares : of distributed noise generation (`privatize(..., parties=50)`), how many shares must be added
        before the guarantee holds, and how many are.
    selections : what selecting the names of classes has cost, as far as epsilon and delta include it.
    rho : of Gaussian noise alone, half the squared ratio of sensitivity to noise: releases add up in it, exactly.
    unit, rows_per_unit : the privacy unit: the column of ids, such as patients', and how many rows of one unit count at
        most; a "record" above is then all rows of a unit. None where each row is protected by itself.
    sample : of a model, "assumed public" if it was learned from the release and from rows beside it, which the caller
        said are public. None where there were no such rows.
    """

    _omitted: ClassVar[dict[str, Any]] = dict.fromkeys(
        ("parts", "rho", "parties", "shares", "selections", "unit", "rows_per_unit", "sample")
    )
    mechanism: str
    epsilon: float
    delta: float
    neighbors: str
    sensitivity: int
    sum_scale: float
    count_scale: float
    count_share: float
    sum_variance: float
    count_variance: float
    private: bool = True
    design: str = DECLARED
    releases: int = 1
    composition: str = SINGLE
    parts: tuple[PartNoise, ...] | None = None
    rho: float | None = None
    parties: int | None = None
    shares: int | None = None
    selections: tuple[SelectionCost, ...] | None = None
    unit: str | None = None
    rows_per_unit: int | None = None
    sample: str | None = None

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {shortened(getattr(self, name))}")
        if self.sample not in (None, ASSUMED):
            raise ValueError(f"sample must be {ASSUMED} or left out, not {shortened(self.sample)}")
        for name, check in _CHECKS.items():
            if (value := getattr(self, name)) is not None or name not in self._omitted:
                self._set(**{name: check(name, value)})
        if not 0 <= self.delta <= 1 or not 0 <= self.count_share < 1:
            raise ValueError("delta and the share of the count must be numbers from 0 to 1")
        parts = self.parts or ()
        if not isinstance(parts, tuple) or not all(isinstance(part, PartNoise) for part in parts):
            raise ValueError("parts must be a tuple of PartNoise")
        _check_selections(self)
        if self.unit is not None or self.rows_per_unit is not None:
            self._set(rows_per_unit=PrivacyUnit(self.unit, self.rows_per_unit).rows_per_unit)  # type: ignore[arg-type]
        self._set(shares=None if self.parties is None else whole("shares", self.shares))

    def of_part(self, index: int) -> Ledger:
        """The ledger of one part of a concatenated sketch: the same guarantee, the part's own noise."""
        if self.parts is None:
            return self
        own = self.parts[index]
        return replace(self, sensitivity=own.sensitivity, sum_scale=own.scale, sum_variance=own.variance, parts=None)

    def merged(self, other: Ledger, *, overlapping: bool) -> Ledger:
        """The ledger of the sum of two private sketches.

        Epsilon and delta add up where records may overlap. Of disjoint records, the larger ones hold: each is in one.
        """
        if self.neighbors != other.neighbors:
            both = f"{self.neighbors} and {other.neighbors}"
            raise ValueError(f"the guarantees are about different neighbors ({both}): release with the same neighbors")
        if self.unit != other.unit:
            both = " and ".join("rows" if unit is None else unit for unit in (self.unit, other.unit))
            raise ValueError(f"the guarantees protect different units ({both}): release sketches of the same unit")
        in_shares = self.parties == other.parties and bool(self.lacking or other.lacking)  # of one release
        step, parts = SEQUENTIAL if overlapping else SINGLE if in_shares else PARALLEL, None
        if self.parts is not None and other.parts is not None and len(self.parts) == len(other.parts):
            parts = tuple(a.merged(b) for a, b in zip(self.parts, other.parts, strict=True))
        composed: Callable[[float, float], float] = _added if overlapping else max
        delta, epsilon = min(1.0, composed(self.delta, other.delta)), composed(self.epsilon, other.epsilon)
        rho = None
        if self.rho is not None and other.rho is not None:
            rho = composed(self.rho, other.rho)
            if overlapping:
                epsilon = min(epsilon, max(smallest_epsilon(math.sqrt(2 * rho), delta), 1e-300))
        selections, others = dict.fromkeys(self.selections or ()), dict.fromkeys(other.selections or ())
        # of disjoint records, the sum pays for the selections that both have paid for
        kept = selections | others if overlapping else (cost for cost in selections if cost in others)
        rows = self.rows_per_unit or 0, other.rows_per_unit or 0
        return replace(
            self,
            mechanism=" and ".join(name for name in MECHANISMS if name in self.mechanism + other.mechanism),
            epsilon=epsilon,
            delta=delta,
            **{name: max(getattr(self, name), getattr(other, name)) for name in _LARGEST},
            sum_variance=self.sum_variance + other.sum_variance,
            count_variance=self.count_variance + other.count_variance,
            private=self.private and other.private,
            design=ASSUMED if ASSUMED in (self.design, other.design) else DECLARED,
            releases=max(self.releases, other.releases) if in_shares else self.releases + other.releases,
            composition=step if {self.composition, other.composition} <= {SINGLE, step} else MIXED,
            parts=parts,
            rho=rho,
            parties=self.parties if in_shares else None,
            shares=(self.shares or 1) + (other.shares or 1) if in_shares else None,
            selections=tuple(kept) or None,
            rows_per_unit=(sum(rows) if overlapping else max(rows)) or None,
            sample=self.sample or other.sample,
        )

    def of_shares(self, n: int) -> Ledger:
        """The ledger of a sum of n shares like this one, of records of n different parties."""
        if self.parties is None or self.shares != 1:
            raise ValueError("of_shares needs the ledger of a single share of noise")
        parts = None if self.parts is None else tuple(replace(p, variance=n * p.variance) for p in self.parts)
        sums, count = n * self.sum_variance, n * self.count_variance
        return replace(self, sum_variance=sums, count_variance=count, parts=parts, shares=n)

    def includes(self, selection: Ledger) -> bool:
        """Whether the cost of this selection of class names is included."""
        return set(selection.selections or ()) <= set(self.selections or ())

    def after(self, earlier: Ledger | None) -> Ledger:
        """The ledger of a release after an earlier one of the same records: costs add up, the noise is this one's."""
        if earlier is None:
            return self
        both = earlier.merged(self, overlapping=True)
        own = (*_LARGEST, "mechanism", "sum_variance", "count_variance", "parts", "parties", "shares", "rows_per_unit")
        return replace(both, **{name: getattr(self, name) for name in own})

    def about_replacing(self) -> Ledger:
        """The same for replace-one neighbors: a record is removed and another added, so that the cost doubles."""
        if self.neighbors == REPLACE:
            return self
        delta = min(1.0, self.delta * (1 + math.exp(min(self.epsilon, 700.0)))) if self.delta else 0.0
        epsilon = _added(self.epsilon, self.epsilon)
        return replace(self, neighbors=REPLACE, epsilon=epsilon, delta=delta, rho=None, selections=None)

    def across_classes(self) -> Ledger:
        """The ledger of disjoint classes: a replaced record may change its class, so that the cost doubles.

        A selection of the classes' names counts once, because it used all classes together.
        """
        if self.neighbors == ADD_REMOVE or self.unit is not None:  # units may be in all classes, which were added up
            return self
        costs = self.selections or ()
        epsilon = _twice_less(self.epsilon, [cost.epsilon for cost in costs])
        delta = min(1.0, _twice_less(self.delta, [cost.delta for cost in costs]))
        return replace(self, epsilon=epsilon, delta=delta, composition=MIXED, rho=None)

    @property
    def lacking(self) -> int:
        """How many more shares of noise must be added before the guarantee holds."""
        return 0 if self.parties is None else max(0, self.parties - (self.shares or 1))

    @property
    def local(self) -> bool:
        """Whether this is local privacy: each record was randomised before it was sent."""
        return self.mechanism == RANDOMISED_RESPONSE

    @property
    def protected(self) -> str:
        """The protected unit, in words."""
        if self.unit is None or self.rows_per_unit is None:
            return "one record"
        return f"all rows of one unit, per {self.unit} (at most {counted(self.rows_per_unit, 'row')} each)"

    def covers(self, other: Ledger) -> bool:
        """Whether this ledger includes at least what the other has spent."""
        if self.rho is not None and (other.rho is None or other.rho > self.rho):
            return False  # by rho, further releases would add less to it than to the other
        same = (self.neighbors, self.unit) == (other.neighbors, other.unit)
        return same and self.epsilon >= other.epsilon and self.delta >= other.delta

    def __str__(self) -> str:
        if not self.private:
            return f"NOT private: the noise was drawn from a seed for tests (epsilon {self.epsilon:.4g} was asked for)"
        delta = f", delta {self.delta:.4g}" if self.delta else ""
        kind = "local privacy: " if self.local else ""
        change = "adding or removing" if self.neighbors == ADD_REMOVE else "replacing"
        count = f" and {in_digits(math.sqrt(self.count_variance), 3)} on the count" if self.count_variance else ""
        noise = f"{self.mechanism} noise of deviation {in_digits(math.sqrt(self.sum_variance), 3)} on each sum{count}"
        if self.mechanism == THRESHOLD:
            noise = f"names of classes by counts with noise of deviation {in_digits(math.sqrt(self.count_variance), 3)}"
        several = f"; {self.releases:,} releases, {self.composition} composition" if self.releases > 1 else ""
        assumed = "; the design is assumed to be public" if self.design == ASSUMED else ""
        assumed += "; the sample is assumed to be public" if self.sample == ASSUMED else ""
        if self.lacking:
            few = "one of them" if self.shares == 1 else f"{self.shares:,} of them"
            kind = (
                f"a share of noise, NOT private until {self.parties:,} parties' shares are added, and this is {few}: "
            )
        return f"{kind}epsilon {self.epsilon:.4g}{delta} for {change} {self.protected}; {noise}{several}{assumed}"


def check_neighbors(neighbors: Any) -> str:
    if neighbors not in (ADD_REMOVE, REPLACE):
        raise ValueError(f"neighbors must be {ADD_REMOVE!r} or {REPLACE!r}, not {shortened(neighbors)}")
    return str(neighbors)


def _added(a: float, b: float) -> float:
    """The sum, never rounded down: a guarantee must not shrink."""
    if math.isinf(a + b):
        raise ValueError("the sum of the epsilons overflows: nothing is protected any more")
    return _rounded_up(Fraction(a) + Fraction(b))


def _twice_less(total: float, once: list[float]) -> float:
    """Twice the total, but what is counted once; never rounded down."""
    return _rounded_up(Fraction(_added(total, total)) - sum(map(Fraction, once)))


def _rounded_up(exact: Fraction) -> float:
    found = float(exact)
    return found if Fraction(found) >= exact else math.nextafter(found, math.inf)


def _check_selections(ledger: Ledger) -> None:
    costs = ledger.selections or ()
    if not isinstance(costs, tuple) or not all(isinstance(cost, SelectionCost) for cost in costs):
        raise ValueError("selections must be a tuple of SelectionCost")
    if len(costs) > MOST_SELECTIONS:
        raise ValueError(f"a ledger lists at most {MOST_SELECTIONS:,} selections of names of classes")
    for name in ("epsilon", "delta"):
        if sum(Fraction(getattr(cost, name)) for cost in costs) > Fraction(number(name, getattr(ledger, name))):
            raise ValueError(f"selections of names of classes cannot cost more {name} than the ledger has")
