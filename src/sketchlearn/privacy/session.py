"""`Session` holds rows and a budget. Only private releases, and models learned from them, leave it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import warnings
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from sketchlearn.core.errors import InvalidValueError
from sketchlearn.features.operator import Operator
from sketchlearn.privacy.budget import Budget, BudgetError, Spent
from sketchlearn.privacy.forecast import Forecast, forecast
from sketchlearn.privacy.release import noisy, planned_release, releasable
from sketchlearn.sketch.batches import Batches
from sketchlearn.sketch.ledger import ADD_REMOVE, check_neighbors
from sketchlearn.sketch.privacy_unit import PrivacyUnit
from sketchlearn.sketch.sums import Release, Sketch

DROPPED = "drop"  # what becomes of rows with missing values: a refusal would tell that there is one
Bounds = Any  # a pair of lowest and highest values, or a dictionary of such pairs by column


class Learner(Protocol):
    """What a session needs of an estimator."""

    def design(self, **options: Any) -> Operator: ...
    def fit_sketch(self, sketch: Sketch, **options: Any) -> Any: ...


Estimator = TypeVar("Estimator", bound=Learner)


class SessionError(InvalidValueError):
    """The rows of a session cannot be sketched. The message tells nothing about them."""


class Session:
    """Rows and a privacy budget, for analysts who may query the rows but not see them.

    Every answer is made of a private release, which is booked in the budget before its noise is drawn; ledgers of later
    releases include the earlier ones. Nothing else that depends on the rows comes out: no counts, no warnings, and no
    error messages about values. Rows with missing values are left out. The rows are read anew for each release.

    Parameters
    ----------
    source : array, data frame, path, ...
        The rows, as `operator.sketch` takes them. A stream that can be read only once allows one release.
    budget : Budget or float
        What all releases of the session may spend together: a `Budget`, which outlives the session, or an epsilon for
        as long as it lasts.
    bounds : tuple or dict, default=None
        Public knowledge: the lowest and the highest value of each column, as a pair of numbers or lists, or by column:
        {"age": (0, 120)}. Values outside are clipped. Needed for `fit`.
    n_rows : int, default=None
        About how many rows there are, as far as that is public: it helps to choose the size of a sketch.
    unit, rows_per_unit : str and int, default=None
        The column of ids, such as "patient_id", and how many rows of one id count: releases then protect all rows of a
        person.
    neighbors : str, default="add-remove"
        "add-remove" hides whether a record is there, "replace" its values (see `privatize`).

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rows = np.random.default_rng(0).normal([[-3, 0]] * 5000 + [[3, 0]] * 5000)
    >>> session = skl.privacy.Session(rows, budget=2.0, bounds=([-9, -9], [9, 9]), n_rows=10_000)
    >>> model = session.fit(skl.SketchKMeans(2, random_state=0), epsilon=1.0)
    >>> bool(abs(abs(model.cluster_centers_[0, 0]) - 3) < 0.5), model.privacy_.epsilon
    (True, 1.0)
    >>> session
    <Session: epsilon 1 in 1 release, of 2>
    """

    def __init__(
        self,
        source: Any,
        budget: Budget | float,
        *,
        bounds: Bounds = None,
        n_rows: int | None = None,
        unit: str | None = None,
        rows_per_unit: int | None = None,
        neighbors: str = ADD_REMOVE,
    ) -> None:
        if isinstance(source, Sketch):
            raise TypeError("a session holds rows: release a sketch with privatize")
        if (unit is None) != (rows_per_unit is None):
            raise ValueError("unit and rows_per_unit belong together: give both")
        self._neighbors, self._lock = check_neighbors(neighbors), threading.Lock()
        if not isinstance(budget, Budget):
            folder = tempfile.mkdtemp(prefix="sketchlearn-session-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            budget = Budget(Path(folder) / "budget.sqlite", budget, neighbors=self._neighbors)
        if budget.neighbors != self._neighbors:
            raise BudgetError(
                f"the budget is about {budget.neighbors}: give the session neighbors={budget.neighbors!r}"
            )
        if budget.by_batch:
            raise BudgetError("a session's releases add up, whatever their designs: give it a budget without by_batch")
        self._source, self._budget = source, budget
        self._units: dict[str, Any] = {} if unit is None else {"unit": unit, "rows_per_unit": rows_per_unit}
        self._n_rows, self._columns, self._bounds = n_rows, *_checked_bounds(bounds)
        self._releases: tuple[Release, ...] = ()
        # no digest of the rows: whoever guesses them must not find it among what this process has released
        self._batch = Batches.at_random()

    def release(self, design: Operator, *, epsilon: float, delta: float = 0.0, **options: Any) -> Release:
        """A private release of the rows' sketch.

        Parameters
        ----------
        design : Operator
            An operator of public numbers, such as `skl.design(bounds=...)` makes.
        epsilon, delta : float
            What it may spend.
        **options
            Others of `privatize`: count_share, shares, allow_weak, assume_public_design.
        """
        if not isinstance(design, Operator):
            raise TypeError(f"release takes an operator, such as skl.design(bounds=...), not {type(design).__name__}")
        unknown = options.keys() - {"count_share", "shares", "allow_weak", "assume_public_design"}
        if unknown:
            raise TypeError(f"release has no option {sorted(unknown)[0]}")
        design = design.without_keeping()
        unit = PrivacyUnit(self._units["unit"], self._units["rows_per_unit"]) if self._units else None
        nobody = Sketch(design, unit=unit)  # what may be refused because of the design is, before a row is read
        plan, ledger = planned_release(nobody, epsilon=epsilon, delta=delta, neighbors=self._neighbors, **options)
        with self._lock:
            exact = self._sketched(design)
            # the ledger of the last release includes those before
            earlier = self._releases[-1].ledger if self._releases else None
            after = ledger.after(earlier)
            self._budget.reserve(ledger)
            released = noisy(exact.as_batches(self._batch), plan, after)
            self._releases += (released,)
        return released

    def fit(
        self, estimator: Estimator, *, epsilon: float, delta: float = 0.0, targets: Any = None, **options: Any
    ) -> Estimator:
        """The estimator, learned from one private release.

        Parameters
        ----------
        estimator : SketchKMeans, SketchPCA, ...
            Its own `design` makes the operator, from the session's bounds alone.
        epsilon, delta : float
            What the release may spend.
        targets : str or list, default=None
            Of regressions, the columns to predict; by default the last one.
        **options
            Others of `release`.
        """
        if self._bounds is None:
            raise ValueError("fit needs the range of the values: give the session bounds")
        size = {} if self._n_rows is None else {"n_rows": self._n_rows, "epsilon": epsilon, "delta": delta}
        own = {} if targets is None else {"targets": targets}
        known = {"bounds": self._bounds, "columns": self._columns, "neighbors": self._neighbors}
        design = estimator.design(**known, **size, **own)
        released = self.release(design, epsilon=epsilon, delta=delta, **options)
        estimator.fit_sketch(released, **own)
        return estimator

    def forecast(self, design: Operator, *, epsilon: float, delta: float = 0.0, **options: Any) -> Forecast:
        """The noise that a release would have (`skl.privacy.forecast`), for the declared number of rows."""
        return forecast(design, epsilon=epsilon, delta=delta, neighbors=self._neighbors, n_rows=self._n_rows, **options)

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases of this session, in order. They may be shared."""
        return self._releases

    @property
    def spent(self) -> Spent:
        """What all releases of the budget have spent together."""
        return self._budget.spent

    def check(self, design: Operator) -> None:
        """Sketches the rows and discards the sketch, to show the holder of the rows why they are refused.

        Its errors and warnings reveal single rows: only for those who may see them.
        """
        design.sketch(self._source, nulls=DROPPED, **self._units)

    def _sketched(self, design: Operator) -> Sketch:
        exact = None
        # libraries that read rows quote them in warnings, and in errors of their own
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            found = design.sketch(self._source, nulls=DROPPED, **self._units)
            releasable(found)
            exact = found
        if exact is None:  # raised here, so that it has no error about rows as its context
            raise SessionError(
                "the rows cannot be sketched by this design; session.check(design) tells their holder why"
            )
        return exact

    def __repr__(self) -> str:
        limit = "" if self._budget.epsilon is None else f", of {self._budget.epsilon:.4g}"
        return f"<Session: {self.spent}{limit}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session holds rows and is not copied: send releases")


def _checked_bounds(bounds: Bounds) -> tuple[tuple[str, ...] | None, Bounds]:
    """Names of columns, if bounds are given by column, and the bounds as a pair of lists."""
    if not isinstance(bounds, Mapping):
        return None, bounds
    try:
        low, high = zip(*bounds.values(), strict=True)
    except (TypeError, ValueError):
        raise ValueError('bounds by column must be pairs, such as {"age": (0, 120)}') from None
    return tuple(map(os.fspath, bounds)), (list(low), list(high))
