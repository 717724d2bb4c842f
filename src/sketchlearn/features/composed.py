"""Operators made of others: of several in one pass, or of one that sees mapped rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Integers, Rows, Weights
from sketchlearn.core.limits import MOST_NESTED, Cost
from sketchlearn.core.values import listed, shortened, whole
from sketchlearn.features.bounded import check_column_numbers, check_columns
from sketchlearn.features.histograms import Histograms
from sketchlearn.features.operator import LEADING_COLUMN, MOST_FEATURES, CountingOperator, Kind, Operator, of
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.kernels.gpu.driver import Device
from sketchlearn.kernels.gpu.plans import FeatureWriter
from sketchlearn.kernels.gpu.rows import ColumnsPlan
from sketchlearn.sketch.priority_sample import Keeping
from sketchlearn.sketch.sums import Sketch


class FeatureUser(Operator):
    """An operator that works with the integers of another: computed once, where the two are concatenated."""

    #: the operator whose integers it works with
    crossed: Operator

    @abstractmethod
    def add_with_features(
        self, rows: Rows, weights: Weights, threads: int, of_features: Integers | None, sums: Integers
    ) -> int:
        """As `add_rows`, and adds the integers of the needed features to their own sums."""


def renumbered(reason: str, which: Sequence[int]) -> str:
    """A sentence that begins with the number of a chosen column, with that of the column among all instead."""
    return LEADING_COLUMN.sub(lambda found: f"column {which[int(found[1])]}", reason)


def first_bad(*rows: int) -> int:
    """The first of several rows that were refused, where -1 stands for none."""
    return min((bad for bad in rows if bad >= 0), default=-1)


class Composed(Operator):
    """An operator made of others, which some of its fields hold: they are drawn, digested and verified with it."""

    @property
    def inside(self) -> tuple[Operator, ...]:
        """The operators that it is made of."""
        return tuple(operator for operators in self.made_of().values() for operator in operators)

    @cached_property
    def depth(self) -> int:
        """How many operators are in each other, itself included."""
        return 1 + max(operator.depth if isinstance(operator, Composed) else 1 for operator in self.inside)

    def check_depth(self) -> None:
        """Refuses operators that are nested more deeply than in any file."""
        if self.depth > MOST_NESTED:
            raise ValueError(f"operators are nested at most {MOST_NESTED} deep: concatenate parts, not concatenations")

    @property
    def own_cost(self) -> Cost:
        """The cost beside that of the operators inside."""
        return Cost()

    @cached_property
    def cost(self) -> Cost:
        inside = sum((operator.cost for operator in self.inside), Cost())
        return self.own_cost + inside + Cost(0, inside.bytes)  # what is drawn inside is digested once more

    def random_parts(self) -> list[NDArray[Any]]:
        return [drawn for operator in self.inside for drawn in operator.random_parts()]

    def verify(self, form: dict[str, Any]) -> None:
        super().verify(form)
        for name, operators in self.made_of().items():
            described = form[name] if isinstance(form[name], list) else [form[name]]
            for operator, own in zip(operators, described, strict=True):
                operator.verify(own)


def of_parts(name: str, combined: Callable[[Iterator[Any]], Any]) -> Any:
    """A property that combines those of the parts."""
    return property(lambda self: combined(getattr(part, name) for part in self.parts))


def first_known(values: Iterator[Any]) -> Any:
    """The first value that is not None, if there is one."""
    return next((value for value in values if value is not None), None)


@dataclass(frozen=True)
class Concatenated(Composed, CountingOperator):
    """Phi(x) = (Phi_1(x), Phi_2(x), ...): one pass, several tasks. Made by `concatenate`."""

    _has_numbers = False
    side_by_side = of("parts")
    n_features = of_parts("n_features", next)
    columns = of_parts("columns", next)
    n_sums = of_parts("n_sums", sum)
    largest_contribution = of_parts("largest_contribution", max)
    in_words = of_parts("in_words", "; ".join)
    data_dependent_errors = of_parts("data_dependent_errors", any)
    can_keep = of_parts("can_keep", any)
    abilities = of_parts("abilities", lambda all_of_them: frozenset().union(*all_of_them))
    error_units = of_parts("error_units", first_known)
    keeping = of_parts("keeping", first_known)
    parts: tuple[Operator, ...]

    def __post_init__(self) -> None:
        parts = listed(self.parts)
        if not parts or not all(isinstance(part, Operator) for part in parts):
            raise ValueError("concatenate takes a list of at least one operator")
        widths = sorted({part.n_features for part in parts})
        if len(widths) > 1:
            raise ValueError(f"the operators need different numbers of columns ({widths[0]} and {widths[1]})")
        if len({part.columns for part in parts}) > 1:
            raise ValueError("the operators are for columns of different names")
        self._set(parts=parts)
        self.check_depth()

    def pieces(self, vector: NDArray[Any]) -> list[tuple[Operator, NDArray[Any]]]:
        """Each part, with a view of its own integers or features of a vector of all."""
        ends = np.cumsum([part.n_sums for part in self.parts])[:-1]
        return list(zip(self.parts, np.split(vector, ends, axis=-1), strict=True))

    def split(self, sketch: Sketch) -> list[Sketch]:
        """The sketch of each part, from a sketch of all."""
        if sketch.operator != self:
            raise ValueError("the sketch was made by another operator")
        ledger = sketch.ledger
        return [
            sketch.of_same_records(part.without_keeping(), sums, None if ledger is None else ledger.of_part(n))
            for n, (part, sums) in enumerate(self.pieces(sketch.sums))
        ]

    def leaves(self, sketch: Sketch) -> list[Sketch]:
        return [leaf for part in self.split(sketch) for leaf in part.operator.leaves(part)]

    def add_remove_sensitivity(self) -> Sensitivity:
        return sum((part.add_remove_sensitivity() for part in self.parts), Sensitivity(0, 0))

    def replace_one_sensitivity(self) -> Sensitivity:
        return sum((part.replace_one_sensitivity() for part in self.parts), Sensitivity(0, 0))

    def with_columns(self, columns: tuple[str, ...] | None) -> Self:
        return replace(self, parts=tuple(part.with_columns(columns) for part in self.parts))

    def part(self, kind: type[Kind]) -> Kind | None:
        return next((found for own in self.parts if (found := own.part(kind)) is not None), None)

    def with_keeping(self, rule: Keeping | None) -> Self:
        parts = [part.without_keeping() for part in self.parts]
        if rule is not None:
            able = next((n for n, part in enumerate(parts) if part.can_keep), 0)
            parts[able] = parts[able].with_keeping(rule)
        return self._twin(parts=tuple(parts))

    @cached_property
    def _users(self) -> dict[int, int]:
        """Which part's integers are worked with by which other part: both are then computed together."""
        users: dict[int, int] = {}
        for n, part in enumerate(self.parts):
            if not isinstance(part, FeatureUser):
                continue
            first = next((i for i, p in enumerate(self.parts) if p == part.crossed and i not in users), None)
            if first is not None:
                users[first] = n
        return users

    def add_counted(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> tuple[int, int]:
        pieces, refused, moved = self.pieces(sums), [], []
        for n, (part, own) in enumerate(pieces):
            if n in self._users:
                user, of_user = pieces[self._users[n]]
                assert isinstance(user, FeatureUser)
                refused.append(user.add_with_features(rows, weights, threads, own, of_user))
                moved.append(int(np.count_nonzero(user.beyond(rows))))
            elif n not in self._users.values():
                bad, count = part.add_counted(rows, weights, threads, own)
                refused.append(bad)
                moved.append(count)
        # several parts may move the same row
        count = sum(moved) if np.count_nonzero(moved) < 2 else int(np.count_nonzero(self.beyond(rows)))
        return first_bad(*refused), count

    def write_rows(self, rows: Rows, threads: int) -> tuple[NDArray[np.integer], int]:
        values, outcomes = zip(*(part.write_rows(rows, threads) for part in self.parts), strict=True)
        return np.concatenate(values, axis=1), first_bad(*outcomes)

    def mean_of(self, sums: Double) -> NDArray[Any]:
        return np.concatenate([part.mean_of(own) for part, own in self.pieces(sums)], axis=-1)

    def explain_refusal(self, row: Double) -> str:
        for part in self.parts:
            if part.add_rows(row[None], None, 1, np.zeros(part.n_sums, np.int64)) >= 0:
                return part.explain_refusal(row)
        raise AssertionError("a refused row is refused by some part")

    def beyond(self, rows: Rows) -> NDArray[np.bool_]:
        return np.asarray(np.any([part.beyond(rows) for part in self.parts], axis=0))

    def why_impossible(self, sums: Integers, units: int) -> str | None:
        reasons = (part.why_impossible(own, units) for part, own in self.pieces(sums))
        return next(filter(None, reasons), None)

    def warn_of_noise(self, rows: Rows) -> None:
        for part in self.parts:
            part.warn_of_noise(rows)
            if isinstance(part, Histograms):  # beside other features they are those of a design
                part.warn_of_range(rows)


def concatenate(operators: Sequence[Operator]) -> Concatenated:
    """One operator that computes the features of all, in one pass.

    >>> import sketchlearn as skl
    >>> moments, squares = skl.features.SecondMoments(2, bound=9.0), skl.features.QuadraticFeatures(2, 5, bound=9.0)
    >>> both = skl.features.concatenate([moments, squares])
    >>> both.sketch([[1.0, 2.0]]).sums.shape
    (10,)
    >>> [part.sums.shape for part in both.split(both.sketch([[1.0, 2.0]]))]
    [(5,), (5,)]
    """
    return Concatenated(operators)  # type: ignore[arg-type]


class Mapped(Operator):
    """Phi(x) = Psi(g(x)): a map g of rows, and the operator Psi of what it gives.

    The value of g at a row must be the same bits in whatever block the row comes.
    """

    #: whether there is no inner operator before random numbers are drawn, of which files state the cost first
    inner_is_drawn: ClassVar[bool] = False
    n_sums = of("inner.n_sums")
    largest_contribution = of("inner.largest_contribution")
    add_remove_sensitivity = of("inner.add_remove_sensitivity")
    replace_one_sensitivity = of("inner.replace_one_sensitivity")
    clip_contributions = of("inner.clip_contributions")
    mean_of = of("inner.mean_of")
    cost = of("inner.cost")
    random_parts = of("inner.random_parts")

    @property
    @abstractmethod
    def inner(self) -> Operator:
        """The operator of mapped rows."""

    @abstractmethod
    def mapped(self, rows: Rows, threads: int) -> NDArray[Any]:
        """g of each row; not finite where the row is not."""

    def inner_sketch(self, sketch: Sketch) -> Sketch:
        """The same integers as the inner operator's sketch of mapped rows, with the worse provenance of both."""
        return sketch.of_same_records(self.inner.with_worse_origin(self), sketch.sums, sketch.ledger)

    def add_rows(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> int:
        return self.inner.add_rows(self.mapped(rows, threads), weights, threads, sums)

    def write_rows(self, rows: Rows, threads: int) -> tuple[NDArray[np.integer], int]:
        return self.inner.write_rows(self.mapped(rows, threads), threads)


class Selecting(Composed, Mapped):
    """An operator of some columns, or of some directions, by an inner operator that is one of its fields."""

    inner_operator: Operator
    data_dependent_errors = of("inner_operator.data_dependent_errors")
    why_impossible = of("inner_operator.why_impossible")

    @property
    def inner(self) -> Operator:
        return self.inner_operator

    def _checked_inner(self) -> Operator:
        """The inner operator without a priority sample."""
        if not isinstance(self.inner_operator, Operator):
            raise ValueError(f"inner_operator must be an operator, not {shortened(self.inner_operator)}")
        return self.inner_operator.without_keeping()

    def warn_of_noise(self, rows: Rows) -> None:
        self.inner.warn_of_noise(self.mapped(rows, 1))


@dataclass(frozen=True)
class SomeColumns(Selecting):
    """Phi(x) = Psi(x_S): what an operator Psi makes of some columns of a row.

    Clusters or mixtures of these columns are learned from its sketch as from that of Psi; what stands beside it in one
    pass, such as `CrossFeatures` of it, may look at the other columns.

    Parameters
    ----------
    inner_operator : the operator of the chosen columns.
    n_features : number of columns of the data.
    which : the chosen columns, as numbers from 0, in the inner operator's order.
    columns : names of all columns, for tables that have names; the inner operator then has those of the chosen ones.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> waves = skl.features.FourierFeatures(2, 50, law=skl.features.frequencies.Gaussian(1.0))
    >>> some, rows = skl.features.SomeColumns(waves, 4, which=[2, 0]), np.eye(4)
    >>> bool(np.all(some.sketch(rows).sums == waves.sketch(rows[:, [2, 0]]).sums))
    True
    """

    _has_numbers = False
    _words = "of {0.inner.n_features:,} of {0.n_features:,} columns: {0.inner.in_words}"
    abilities = of("inner.abilities")
    packed_bits = of("inner.packed_bits")
    inner_operator: Operator
    n_features: int
    _: KW_ONLY
    which: tuple[int, ...]
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        inner, n_features = self._checked_inner(), whole("n_features", self.n_features, most=MOST_FEATURES)
        which = check_column_numbers("which", self.which, n_features)
        if len(which) != inner.n_features:
            raise ValueError(f"which must be {inner.n_features} columns, as many as the operator takes")
        columns = check_columns(self.columns, n_features)
        chosen = None if columns is None else tuple(columns[k] for k in which)
        if inner.columns != chosen:
            inner = inner.with_columns(chosen)
        self._set(inner_operator=inner, n_features=n_features, which=which, columns=columns)
        self._set(inner_operator=inner.with_worse_origin(self))  # which has names of a schema, perhaps
        self.check_depth()

    def mapped(self, rows: Rows, threads: int) -> NDArray[Any]:  # noqa: ARG002
        """The chosen columns."""
        return rows[:, self.which]

    def device_plan(self, owner: Device) -> ColumnsPlan | None:
        inner = self.inner.device_plan(owner)
        return None if inner is None else ColumnsPlan(owner, self.which, inner)

    def feature_writer(self, owner: Device, n: int | None = None) -> FeatureWriter | None:
        inner = self.inner.feature_writer(owner, n)
        return None if inner is None else inner.of_columns(self.which)

    def part(self, kind: type[Kind]) -> Kind | None:
        return super().part(kind) or self.inner.part(kind)

    def leaves(self, sketch: Sketch) -> list[Sketch]:
        return self.inner.leaves(self.inner_sketch(sketch))

    def add_counted(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> tuple[int, int]:
        return self.inner.add_counted(self.mapped(rows, threads), weights, threads, sums)

    def beyond(self, rows: Rows) -> NDArray[np.bool_]:
        return self.inner.beyond(self.mapped(rows, 1))

    def explain_refusal(self, row: Double) -> str:
        return renumbered(self.inner.explain_refusal(row[list(self.which)]), self.which)

    @classmethod
    def _build(cls, fields: dict[str, Any]) -> Self:
        operator = super()._build(fields)
        if operator.inner.columns != fields["inner_operator"].columns:  # nothing is renamed while a file is read
            raise ValueError("SomeColumns: its inner operator must have the names of the chosen columns")
        return operator
