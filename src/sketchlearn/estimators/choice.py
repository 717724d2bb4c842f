"""A chosen number of clusters: why it, how the other numbers did, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any, Self

from sketchlearn.core.errors import InvalidValueError, Parameter, called, either
from sketchlearn.core.messages import in_certain_digits, in_digits
from sketchlearn.core.values import number, shortened, whole

LARGEST = "the criterion is least at the largest number looked at. Design a sketch for more, and ask with a larger"
MOST_CLUSTERS = 1 << 20  # that a file may speak of


class Basis(Enum):
    """What a choice rests on."""

    GAUSSIANS = "a mixture of so many Gaussians explains the sketch"
    GAP = "the gap statistic of k-means"
    CELLS = "Gaussians of clusters of cells"
    HIDDEN = "the noise of the private release hides clusters, all or some"


@dataclass(frozen=True)
class ClusterChoice:
    """How many clusters there are, as far as a sketch tells. Prints as sentences and a table.

    Attributes
    ----------
    n_clusters : the chosen number; 1 means that no clusters are seen.
    most : the largest number that was looked at.
    basis : what it rests on: `Basis.GAUSSIANS`, or, where no Gaussians explain the sketch, `Basis.GAP`; `Basis.CELLS`
        for sketches of cells; `Basis.HIDDEN` where the noise of a private release hides the number: there may be more
        clusters than are seen.
    low, high : the smallest and largest number that the criterion cannot tell from the chosen one.
    misfit : squared residual of the best mixture of Gaussians per degree of freedom, about 1 if records are drawn from
        it; None where that was not looked at.
    covariance_type : of those Gaussians, "diag" or "full".
    criteria, criterion_errors : for k = 1, 2, ..., how far the criterion lies above its least value, and one standard
        deviation of that. It is BIC for Gaussians and cells, and minus the gap statistic otherwise. Sizes that are far
        beyond the best are not looked at.
    inertias, inertia_errors : for k = 1, 2, ..., the inertia of k-means as a share of that of one cluster, with its
        error, where no Gaussians explain the sketch.
    agreements : for k = 2, 3, ..., how alike clusters of two halves of the rows sort them (adjusted Rand index: 1 is
        alike, 0 chance), where there are rows, kept or given.
    """

    n_clusters: int
    most: int
    basis: Basis
    low: int
    high: int
    misfit: float | None = None
    covariance_type: str = "diag"
    criteria: tuple[float, ...] = ()
    criterion_errors: tuple[float, ...] = ()
    inertias: tuple[float, ...] = ()
    inertia_errors: tuple[float, ...] = ()
    agreements: tuple[float, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """What was found, in words."""
        said = [self._verdict()]
        if self.basis is not Basis.HIDDEN and self.low < self.high:
            said.append(f"Within the error of the criterion there are {self.low} to {self.high}.")
        if self.basis is Basis.GAP:
            said.append("What counts as a cluster is then a matter of purpose: the curve shows what each more gains.")
        if self.agreements:
            if self.n_clusters > 1:
                agree = self.agreements[min(self.n_clusters - 2, len(self.agreements) - 1)]
                said.append(f"Clusters of two halves of the rows agree to {agree:.2f} (1 is alike, 0 is chance).")
        elif self.basis is Basis.GAP and self.most > 1:
            said.append(
                "That rests on draws of a fitted density, whose pieces can pass for clusters: keep rows beside the "
                f"sketch with {called('design', '...', rows=500)}, or give some with "
                f"{either('sample=rows', '--sample FILE')}."
            )
        return said

    @property
    def headline(self) -> str:
        """The number in words, such as "3 clusters", "20 or more clusters" or "no clusters"."""
        if self.n_clusters == 1:
            return "no clusters"
        return f"{self.n_clusters} {'or more ' if self.n_clusters == self.most else ''}clusters"

    def _verdict(self) -> str:
        k, found = self.n_clusters, self.headline
        if self.basis is Basis.HIDDEN:
            hides = "are seen: the noise of the private release hides them, if there are any"
            if k > 1:
                hides = "are seen, and the noise of the private release may hide more of them"
            return f"{found[:1].upper()}{found[1:]} {hides}. Release more records at once, or with a larger epsilon."
        if self.basis is Basis.CELLS:
            if k > 1 and k == self.most:
                return f"{found}: {LARGEST} {Parameter('max_clusters')}."
            if k == 1:
                return "No clusters: one Gaussian describes the cells of the sketch best."
            return f"{found}: {k} Gaussians, each of some cells of the sketch, describe the records best."
        if self.misfit is None:
            return (
                f"The gap statistic says {found}. Gaussians were not tried: that takes the exponential wave, without "
                "subsampling, and three records per parameter."
            )
        misfit = in_digits(self.misfit, 2)
        if self.basis is Basis.GAP:
            return (
                f"Not Gaussians, or more than {self.most} (misfit {misfit}, about 1 if they were): the gap statistic "
                f"says {found}."
            )
        if k > 1 and k == self.most:
            return f"{found}: {LARGEST} {Parameter('max_clusters')}."
        fit = f"explains the sketch (misfit {misfit}, about 1 if records are drawn from it)"
        return f"No clusters: one Gaussian {fit}." if k == 1 else f"{found}: a mixture of {k} Gaussians {fit}."

    def table(self) -> list[str]:
        """Lines of a table of all numbers of clusters that were looked at."""
        columns = {"criterion": _with_errors(self.criteria, self.criterion_errors)}
        if self.inertias:
            columns["inertia"] = _with_errors(self.inertias, self.inertia_errors)
        if self.agreements:
            columns["halves agree"] = ["", *(f"{agree:.2f}" for agree in self.agreements)]
        n = max(map(len, columns.values()))
        cells = [["k", *columns]]
        for i in range(n):
            mark = f"{i + 1} <" if i + 1 == self.n_clusters else f"{i + 1}  "
            cells.append([mark, *(column[i] if i < len(column) else "" for column in columns.values())])
        cells[0][0] = "k  "
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]

    def __str__(self) -> str:
        return "\n".join([" ".join(self.sentences), *self.table()])

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and words."""
        form = {name: list(part) if isinstance(part, tuple) else part for name, part in asdict(self).items()}
        return {**form, "basis": self.basis.name}

    @classmethod
    def from_json(cls, form: Any) -> Self:
        """That of a file; a `ValueError` says what is wrong with it."""
        names = [field.name for field in fields(cls)]
        if not isinstance(form, dict) or sorted(form) != sorted(names):
            raise ValueError(f"choice must say {', '.join(names)}")
        if not isinstance(form["basis"], str) or form["basis"] not in Basis.__members__:
            raise ValueError(f"choice: {shortened(form['basis'])} is no basis of a choice")
        if form["covariance_type"] not in ("diag", "full"):
            raise InvalidValueError(f"choice: {Parameter('covariance_type')} must be diag or full")
        read: dict[str, Any] = {name: _numbers(name, form[name]) for name in names[7:]}
        read |= {name: whole(name, form[name], 1, MOST_CLUSTERS) for name in ("n_clusters", "most", "low", "high")}
        read["misfit"] = None if form["misfit"] is None else number("misfit", form["misfit"])
        return cls(**read, basis=Basis[form["basis"]], covariance_type=form["covariance_type"])


def _numbers(name: str, form: Any) -> tuple[float, ...]:
    if not isinstance(form, list) or len(form) > MOST_CLUSTERS:
        raise ValueError(f"choice: {name} must be a list of numbers")
    return tuple(number(name, item) for item in form)


def _with_errors(values: Sequence[float], errors: Sequence[float]) -> list[str]:
    pairs = zip(values, errors, strict=True)
    return [f"{in_certain_digits(value, error)} +- {in_digits(error, 1 if error else 2)}" for value, error in pairs]
