"""`privatize`: the private release of an exact sketch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sketchlearn.core.errors import InvalidValueError, Parameter, either
from sketchlearn.core.messages import warn_caller_once
from sketchlearn.core.values import truth, whole
from sketchlearn.features.operator import Operator
from sketchlearn.features.provenance import public_design
from sketchlearn.privacy.budget import Budget
from sketchlearn.privacy.noise_plan import COUNT_SHARE, NoisePlan, Shares, checked_budget, plan_noise
from sketchlearn.sketch.batches import RELEASED, Batches
from sketchlearn.sketch.ledger import ADD_REMOVE, Ledger
from sketchlearn.sketch.sums import Release, Sketch

LARGEST_EPSILON, LARGEST_DELTA = 20.0, 0.01  # Beyond, a release protects next to nothing.


def privatize(
    sketch: Sketch,
    *,
    epsilon: float,
    delta: float = 0.0,
    neighbors: str = ADD_REMOVE,
    count_share: float = COUNT_SHARE,
    shares: Shares | None = None,
    already: Ledger | Sketch | None = None,
    assume_public_design: bool = False,
    budget: Budget | None = None,
    parties: int | None = None,
    allow_weak: bool = False,
    seed_for_tests_not_private: int | None = None,
) -> Release:
    """A differentially private release of an exact sketch: sums and count with integer noise.

    Whatever is learned from the release is private, too. A record is one row of weight 1 or, of a sketch that was made
    with `unit=` and `rows_per_unit=`, all rows of a unit. The page "Private releases" says what is guaranteed,
    and what is not.

    Parameters
    ----------
    sketch : an exact sketch, without fractional weights.
    epsilon : the privacy loss, of sums and count together: the smaller, the more noise.
    delta : 0 gives pure epsilon by discrete Laplace noise; more gives (epsilon, delta) by discrete Gaussian noise,
        which is much smaller for many frequencies. Far below one over the number of records.
    neighbors : "add-remove" hides whether any one record is there; "replace" hides its values, at up to twice the
        noise: Fourier features cost twice, moments hardly more.
    count_share : the count's share of the budget.
    shares : the shares of other parts, such as {Histograms: 0.3}; parts that are not named share the rest as they
        do without. They are shares of the whole budget: of epsilon or, with delta > 0, of mu^2.
        `skl.privacy.forecast` shows what noise a split gives, before anything is spent.
    already : the ledger of earlier releases of any of these records, or a private sketch that has it: both are paid.
        Releases in this process are known without it if there is a budget.
    assume_public_design : the caller knows that the operator was designed on other data, or on none.
    budget : a `Budget` that books the release before the noise is drawn, or refuses it. Without one, nobody keeps count
        over several processes and days.
    parties : release a share of noise, as one of at least so many parties that have records of their own and whose
        shares are added: their sum has the noise of one release, and the guarantee; a single share protects little.
        With delta = 0 alone.
    allow_weak : release with epsilon above 20 or delta above 0.01 all the same, which protects next to nothing.
    seed_for_tests_not_private : draws the noise from a seed. Whoever knows it can subtract the noise, so the result is
        marked as not private.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> operator = skl.design(bounds=([-5, -5], [5, 5]), n_components=2)
    >>> exact = operator.sketch(np.random.default_rng(0).standard_normal((10_000, 2)))
    >>> private = skl.privatize(exact, epsilon=1.0)
    >>> private.ledger.epsilon, private.ledger.private, abs(private.count - 10_000) < 2000
    (1.0, True, True)
    """
    rng = None
    if seed_for_tests_not_private is not None:
        rng = np.random.default_rng(whole("seed_for_tests_not_private", seed_for_tests_not_private, 0))
    if not isinstance(sketch, Sketch):
        raise TypeError(f"expected a Sketch, not {type(sketch).__name__}: sketch the rows first")
    sketch = sketch.copy()  # other threads may add to it meanwhile
    earlier = already.ledger if isinstance(already, Sketch) else already
    if already is not None and not isinstance(earlier, Ledger):
        raise TypeError("already must be the ledger of an earlier release, or that private sketch")
    if earlier is not None and earlier.lacking and parties is None:
        raise ValueError("already must be a release, and a share of noise protects little by itself: give the sum")

    plan, ledger = planned_release(
        sketch,
        epsilon=epsilon,
        delta=delta,
        neighbors=neighbors,
        count_share=count_share,
        shares=shares,
        assume_public_design=assume_public_design,
        parties=parties,
        allow_weak=allow_weak,
        private=rng is None,
    )
    operator = plan.operator
    others = isinstance(already, Sketch) and RELEASED.of_others(already.batches, sketch.batches)
    if rng is None:
        # nobody is in an empty sketch: another one, of the same id, is not released again
        batches = sketch.batches if sketch.units else Batches.at_random()
        content = Batches.of_content(operator.identity, sketch.sums, sketch.units) if sketch.units else batches
        book = partial(booked, ledger, earlier, [] if budget is None else [budget], batches, others=others)
        ledger = RELEASED.note(book, batches, content)
    else:
        ledger = ledger.after(earlier)
    return noisy(sketch, plan, ledger, rng)


def planned_release(
    sketch: Sketch,
    *,
    epsilon: float,
    delta: float = 0.0,
    assume_public_design: bool = False,
    allow_weak: bool = False,
    private: bool = True,
    **options: Any,
) -> tuple[NoisePlan, Ledger]:
    """The noise of a release, and the ledger of what it costs by itself. Other options are those of `plan_noise`.

    For a sketch without records, it depends on the design alone.
    """
    epsilon, delta = checked_budget(epsilon, delta)
    if (epsilon > LARGEST_EPSILON or delta > LARGEST_DELTA) and not truth("allow_weak", allow_weak):
        raise InvalidValueError(
            f"epsilon above {LARGEST_EPSILON:g} or delta above {LARGEST_DELTA:g} protects next to nothing",
            f"ask for less, or give {Parameter('allow_weak', True)}",
        )
    operator = releasable(sketch)
    design = public_design(operator, truth("assume_public_design", assume_public_design))
    plan = plan_noise(
        operator,
        epsilon=epsilon,
        delta=delta,
        times=sketch.batches.largest,  # a record may count several times, in a sum of overlapping sketches
        unit=sketch.unit,
        **options,
    )
    return plan, plan.ledger(design, private=private)


def noisy(sketch: Sketch, plan: NoisePlan, ledger: Ledger, rng: Any = None) -> Release:
    """The planned and booked release: sums and count with noise."""
    operator, release = plan.operator, plan.mechanism.release
    pieces = np.split(sketch.sums, np.cumsum([part.n_sums for part in operator.side_by_side])[:-1])
    pieces.append(np.array([sketch.units], np.int64))
    *parts, count = (release(piece, scale, rng) for piece, scale in zip(pieces, plan.scales, strict=True))
    units = int(count[0])
    made = Release(operator, np.concatenate(parts), units if ledger.lacking else max(1, units), ledger)
    RELEASED.note_rows(made.batches, sketch.batches)
    return made


def booked(
    ledger: Ledger,
    earlier: Ledger | None,
    budgets: list[Budget],
    batches: Batches,
    spent: Ledger | None,
    *,
    others: bool = False,
) -> Ledger:
    """What is spent after this release, if it may be made, knowing what this process has spent on the records.

    It is booked in all budgets; if one refuses, those before have booked too much. `others` says that `earlier` is of
    other releases than those, even if it is equal.
    """
    if spent is not None and (others or earlier != spent):
        # one that admits to as much may be of other releases: then both are paid, perhaps once too often
        if not budgets and (earlier is None or not earlier.covers(spent)):
            said = f"records of this sketch were released before ({spent})"
            paid = either(
                "pass that release as already=, or a budget, so that both count",
                "give it with --already, or give --budget FILE",
            )
            named = either("a batch= name of their own", "--batch NAME")
            raise InvalidValueError(said, f"{paid}; if they are other rows with equal values, sketch them with {named}")
        earlier = spent if earlier is None else earlier.merged(spent, overlapping=True)
    after = ledger.after(earlier)
    if not budgets:
        warn_caller_once(
            "no budget",
            "nobody keeps count of what the releases of these records spend together: "
            + either("pass budget=skl.privacy.Budget(path, epsilon=...)", "give --budget FILE and --budget-epsilon")
            + " to track and limit it",
        )
    for budget in budgets:
        budget.reserve(ledger, batches)  # the last step that may refuse
    return after


def releasable(sketch: Sketch) -> Operator:
    """The operator of a release of this sketch; raises an error if the bounds do not hold for its records."""
    if sketch.ledger is not None:
        raise ValueError("the sketch is private already: release the exact one")
    if sketch.bits:
        raise ValueError("the sketch has fractional weights, and the bounds are for rows of weight 1: drop the weights")
    if sketch.heaviest > 1:
        weights = f"rows of weight up to {sketch.heaviest:,}"
        raise ValueError(f"the sketch has {weights}, and the bounds are for rows of weight 1: sketch without weights")
    if sketch.skipped:
        raise ValueError("files were skipped, and one record may have been the reason: sketch without skipping any")
    operator: Operator = sketch.operator
    for leaf in operator.leaves(sketch):
        if leaf.operator.data_dependent_errors:
            raise InvalidValueError(
                f"a {type(leaf.operator).__name__} that refuses rows outside its bound tells that there are none",
                either(
                    "design it with bounds=(low, high), which clips such rows, from no row; a class of your own that "
                    "takes every finite row says so by data_dependent_errors = False",
                    "use a sketch of sketchlearn design --bounds",
                ),
            )
    return operator.without_keeping()  # rows are never released
