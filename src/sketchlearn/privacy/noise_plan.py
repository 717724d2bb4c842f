"""The noise of a release before it is drawn: the split of the budget, and each part's scale. `privatize` draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sketchlearn.core.errors import InvalidValueError, Parameter
from sketchlearn.core.values import number, positive, shortened, whole
from sketchlearn.features.composed import Concatenated
from sketchlearn.features.directions import SomeDirections
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.histograms import Histograms
from sketchlearn.features.moments import SecondMoments
from sketchlearn.features.operator import Operator
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, Mechanism
from sketchlearn.privacy.noise_shares import DiscreteLaplaceShare
from sketchlearn.sketch.ledger import ADD_REMOVE, Ledger, PartNoise, check_neighbors
from sketchlearn.sketch.privacy_unit import PrivacyUnit

# Shares of the budget; docs/reference/privacy.md has the measurements behind them.
COUNT_SHARE = 0.02  # The count is one number of sensitivity 1, beside sums of hundreds.
HISTOGRAM_SHARE = 0.15  # Of the budget for sums, where histograms stand beside other parts.
MOMENT_SHARE = 0.15  # Of the same, for moments beside histograms and Fourier features, which they help to decode.
SHARE_ROUNDING = 1e-9  # Shares that a caller writes out may miss their total by so much, and are brought to it.
MOST_PARTIES = 10**6
LARGEST_SCALE = 2.0**56  # Scales beyond this leave no room for noise in 64 bits.

#: kinds of operators, and their shares of the budget (keys of mappings are invariant: a dict of one kind must fit)
Shares = Mapping[type[Any], float]


@dataclass(frozen=True)
class NoisePlan:
    """The noise of a release, part by part, and what the release will say of it."""

    operator: Operator
    mechanism: Mechanism
    delta: float
    neighbors: str
    shares: tuple[float, ...]  # of the budget, of each part; the last one is the count's
    parts: tuple[PartNoise, ...]
    count: PartNoise
    parties: int | None
    unit: PrivacyUnit | None = None  # whom the release protects, if not rows

    @property
    def scales(self) -> list[float]:
        return [part.scale for part in (*self.parts, self.count)]

    def ledger(self, design: str, *, private: bool = True) -> Ledger:
        """What a release with this noise spends."""
        noisiest = max(self.parts, key=lambda part: part.variance)
        return Ledger(
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.epsilon,
            delta=self.delta,
            neighbors=self.neighbors,
            sensitivity=noisiest.sensitivity,
            sum_scale=noisiest.scale,
            count_scale=self.count.scale,
            count_share=self.shares[-1],
            sum_variance=noisiest.variance,
            count_variance=self.count.variance,
            private=private,
            design=design,
            parts=self.parts if isinstance(self.operator, Concatenated) else None,
            rho=self.mechanism.rho,
            parties=self.parties,
            shares=None if self.parties is None else 1,
            **({} if self.unit is None else self.unit.to_json()),
        )


def plan_noise(
    operator: Operator,
    *,
    epsilon: float,
    delta: float = 0.0,
    neighbors: str = ADD_REMOVE,
    count_share: float = COUNT_SHARE,
    shares: Shares | None = None,
    parties: int | None = None,
    times: int = 1,
    unit: PrivacyUnit | None = None,
) -> NoisePlan:
    """The noise that a release needs, if one record may count so many times, or a unit is protected.

    >>> import sketchlearn as skl
    >>> bins = skl.features.Histograms.even([0, 0], [1, 1])
    >>> plan = plan_noise(bins, epsilon=1.0, count_share=0.5)
    >>> [part.sensitivity for part in plan.parts], plan.scales
    ([2], [4.0, 2.0])
    """
    epsilon, delta = checked_budget(epsilon, delta)
    if parties is not None and delta:
        remedy = f"leave out {Parameter('delta')}, or {Parameter('parties')}"
        raise InvalidValueError("distributed noise is Laplace noise, which needs no delta", remedy)
    mechanism: Mechanism = DiscreteGaussian(epsilon, delta) if delta else DiscreteLaplace(epsilon)
    if parties is not None:
        mechanism = DiscreteLaplaceShare(epsilon, whole("parties", parties, most=MOST_PARTIES))
    most = times if unit is None else max(times, unit.rows_per_unit)
    bounds = [sensitivity(part, neighbors).counted(most) for part in operator.side_by_side]
    split = split_budget(operator.side_by_side, count_share, shares)
    # neighbors that replace a record differ in count, too, where rows are left out for their values
    bounds.append(Sensitivity.of_integers(1, most))
    scales = mechanism.scales_of(bounds, split)
    if max(scales) > LARGEST_SCALE:
        raise ValueError(f"epsilon {epsilon!r} is so small that its noise exceeds 64 bits: use a larger one")
    *parts, count = map(PartNoise, map(mechanism.norm, bounds), scales, map(mechanism.variance, scales))
    return NoisePlan(operator, mechanism, delta, neighbors, tuple(split), tuple(parts), count, parties, unit)


def checked_budget(epsilon: float, delta: float) -> tuple[float, float]:
    epsilon, delta = positive("epsilon", epsilon), number("delta", delta)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and below 1, not {delta!r}")
    return epsilon, delta


def sensitivity(operator: Operator, neighbors: str = ADD_REMOVE) -> Sensitivity:
    """The most that adding or removing one record, or replacing one by another, changes the sums.

    A record is one row of weight 1. The bound includes the rounding to integers, and holds for every row.

    >>> import sketchlearn as skl
    >>> sensitivity(skl.features.FourierFeatures(3, 100, law=skl.features.frequencies.Gaussian(1.0), wave="square"))
    Sensitivity(l1=200, l2_squared=200)
    """
    if check_neighbors(neighbors) == ADD_REMOVE:
        return operator.add_remove_sensitivity()
    return operator.replace_one_sensitivity()


def split_budget(
    parts: Sequence[Operator], count_share: float = COUNT_SHARE, chosen: Shares | None = None
) -> list[float]:
    """The share of the whole budget that each part has and, the last one, the count.

    Kinds of parts that the caller names have the shares given, each divided among the parts of its kind; the others
    share what is left as they would without.

    >>> import sketchlearn as skl
    >>> parts = skl.design(bounds=([0, 0], [1, 1]), n_components=3, n_rows=10**5, epsilon=1.0).parts
    >>> [round(share, 3) for share in split_budget(parts)]
    [0.833, 0.147, 0.02]
    >>> [round(share, 3) for share in split_budget(parts, 0.02, {skl.features.Histograms: 0.4})]
    [0.58, 0.4, 0.02]
    """
    share = number("count_share", count_share)
    if not 0 < share < 1:
        raise ValueError(f"count_share must be a number between 0 and 1, not {count_share!r}")
    usual = shares_of(parts)
    if chosen is None:
        return [*((1 - share) * own for own in usual), share]
    given = _checked_shares(chosen, parts)
    kinds = [next((kind for kind in given if isinstance(part, kind)), None) for part in parts]
    named, left = sum(given.values()), 1 - share - sum(given.values())
    others = sum(own for own, kind in zip(usual, kinds, strict=True) if kind is None)
    if others and left <= SHARE_ROUNDING:
        raise ValueError(f"shares and count_share add up to {named + share:.6g}, and leave nothing for the other parts")
    if not others and abs(left) > SHARE_ROUNDING:
        advice = "make them add up to 1, or leave one out, which then gets the rest"
        raise ValueError(f"shares and count_share add up to {named + share:.6g}: {advice}")
    factor = 1.0 if others else (1 - share) / named
    found = [
        left * own / others if kind is None else factor * given[kind] / kinds.count(kind)
        for own, kind in zip(usual, kinds, strict=True)
    ]
    return [*found, share]


def _checked_shares(chosen: Shares, parts: Sequence[Operator]) -> dict[type[Any], float]:
    names = ", ".join(dict.fromkeys(type(part).__name__ for part in parts))
    if not isinstance(chosen, Mapping):
        raise ValueError(
            f"shares must be a dictionary such as {{skl.features.Histograms: 0.3}}, not {shortened(chosen)}"
        )
    for kind in chosen:
        if not isinstance(kind, type) or not any(isinstance(part, kind) for part in parts):
            raise ValueError(f"shares are for kinds of parts that the sketch has ({names}), not {shortened(kind)}")
    found = {kind: number("a share", share) for kind, share in chosen.items()}
    if not all(0 < share < 1 for share in found.values()):
        raise ValueError(f"shares must be numbers between 0 and 1, not {shortened(list(chosen.values()))}")
    return found


def shares_of(parts: Sequence[Operator]) -> list[float]:
    """Each part's share of the budget for sums: equal ones, but histograms beside others have 15 % together.

    So have second moments that `design` puts beside histograms and Fourier features.
    """
    parts = [part.inner if isinstance(part, SomeDirections) else part for part in parts]
    fixed: dict[type[Operator], float] = {Histograms: HISTOGRAM_SHARE}
    if all(any(isinstance(part, kind) for part in parts) for kind in (Histograms, FourierFeatures)):
        fixed[SecondMoments] = MOMENT_SHARE
    kinds = [next((kind for kind in fixed if isinstance(part, kind)), None) for part in parts]
    if not kinds.count(None):
        return [1 / len(parts)] * len(parts)
    rest = 1 - sum(fixed[kind] for kind in set(kinds) if kind is not None)
    return [(rest if kind is None else fixed[kind]) / kinds.count(kind) for kind in kinds]
