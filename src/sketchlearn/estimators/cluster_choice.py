"""A chosen number of clusters, with the criterion of each number and its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any, Self

from sketchlearn.core.errors import InvalidValueError, Parameter, called, either
from sketchlearn.core.messages import in_certain_digits, in_digits
from sketchlearn.core.values import number, shortened, whole

LARGEST = "the criterion is least at the largest number tried. Design a sketch for more, and use a larger"
MOST_CLUSTERS = 1 << 20  # in a file


class Basis(Enum):
    """The criterion by which a number was chosen."""

    GAUSSIANS = "a mixture of so many Gaussians explains the sketch"
    GAP = "the gap statistic of k-means"
    CELLS = "Gaussians of clusters of cells"
    HIDDEN = "the noise of the private release hides clusters, all or some"


@dataclass(frozen=True)
class ClusterChoice:
    """An estimated number of clusters. Prints as sentences and a table.

    Attributes
    ----------
    n_clusters : the chosen number; 1 means that no clusters were found.
    most : the largest number that was tried.
    basis : the criterion: `Basis.GAUSSIANS`, or `Basis.GAP` where no mixture of Gaussians fits the sketch;
        `Basis.CELLS` for sketches of cells; `Basis.HIDDEN` where the noise of a private release may hide clusters.
    low, high : the smallest and the largest number whose criterion is as good, within its error.
    misfit : squared residual of the best mixture of Gaussians per degree of freedom, about 1 if records are drawn from
        it; None where no mixtures were fitted.
    covariance_type : of those Gaussians, "diag" or "full".
    criteria, criterion_errors : for k = 1, 2, ..., the criterion less its minimum, and its standard error. It is BIC
        for Gaussians and cells, and minus the gap statistic otherwise. Numbers far beyond the best are not tried.
    inertias, inertia_errors : for k = 1, 2, ..., the inertia of k-means relative to that of one cluster, with its
        error, where no Gaussians fit the sketch.
    agreements : for k = 2, 3, ..., the agreement of the clusters of two halves of the rows (adjusted Rand index: 1 is
        equal, 0 is chance), where there are rows.
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
        """The choice in words."""
        said = [self._verdict()]
        if self.basis is not Basis.HIDDEN and self.low < self.high:
            said.append(f"Within the error of the criterion there are {self.low} to {self.high}.")
        if self.basis is Basis.GAP:
            said.append("No single k is clearly best: the curve shows the gain from each additional cluster.")
        if self.agreements:
            if self.n_clusters > 1:
                agree = self.agreements[min(self.n_clusters - 2, len(self.agreements) - 1)]
                said.append(f"Clusters of two halves of the rows agree to {agree:.2f} (1 is equal, 0 is chance).")
        elif self.basis is Basis.GAP and self.most > 1:
            said.append(
                "The rows are draws of a fitted density, whose components can look like clusters: keep rows beside the "
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
        k, found = self.n_clusters, self.headline[:1].upper() + self.headline[1:]
        if self.basis is Basis.HIDDEN:
            hides = "found: the noise of the private release may hide them"
            if k > 1:
                hides = "found; the noise of the private release may hide more"
            return f"{found} {hides}. Release more records at once, or with a larger epsilon."
        misfit = "" if self.misfit is None else f"residual {in_digits(self.misfit, 2)} times that of sampling"
        if self.basis is Basis.GAP:
            by = f"{found} by the gap statistic"
            if misfit:
                return f"{by}: no mixture of up to {self.most} Gaussians fits ({misfit})."
            return (
                f"{by}. Gaussians were not tried: they need the exponential wave, without subsampling, and three "
                "records per parameter."
            )
        if k > 1 and k == self.most:
            return f"{found}: {LARGEST} {Parameter('max_clusters')}."
        if self.basis is Basis.CELLS:
            if k == 1:
                return "No clusters: one Gaussian describes the cells of the sketch best."
            return f"{found}: {k} Gaussians, each of some cells of the sketch, describe the records best."
        fit = f"fits the sketch ({misfit})"
        return f"No clusters: one Gaussian {fit}." if k == 1 else f"{found}: a mixture of {k} Gaussians {fit}."

    def table(self) -> list[str]:
        """Lines of a table of all numbers of clusters that were tried."""
        columns = {"criterion": _with_errors(self.criteria, self.criterion_errors)}
        if self.inertias:
            columns["inertia"] = _with_errors(self.inertias, self.inertia_errors)
        if self.agreements:
            columns["halves agree"] = ["", *(f"{agree:.2f}" for agree in self.agreements)]
        n = max(map(len, columns.values()))
        marks = [f"{k} <" if k == self.n_clusters else f"{k}  " for k in range(1, n + 1)]
        named = ([name, *cells, *[""] * (n - len(cells))] for name, cells in columns.items())
        table = [["k  ", *marks], *named]
        padded = [[cell.rjust(max(map(len, column))) for cell in column] for column in table]
        return ["  ".join(line).rstrip() for line in zip(*padded, strict=True)]

    def __str__(self) -> str:
        return "\n".join([" ".join(self.sentences), *self.table()])

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and words."""
        form = {name: list(part) if isinstance(part, tuple) else part for name, part in asdict(self).items()}
        return {**form, "basis": self.basis.name}

    @classmethod
    def from_json(cls, form: Any) -> Self:
        """The choice in a file; a `ValueError` says what is wrong with it."""
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
