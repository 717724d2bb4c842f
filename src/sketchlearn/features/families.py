"""Families of features that an estimator or a design can be asked for: `Fourier`, `Cells` and `Moments`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, TypeAlias

from sketchlearn.core.errors import InvalidValueError, Parameter, either
from sketchlearn.core.values import shortened, truth, whole
from sketchlearn.features.directions import MOST_DIRECTIONS
from sketchlearn.features.waves import Wave, wave_from

AUTO = "auto"


def _in_words(features: Any) -> str:
    """The constructor's call that makes it, without defaults."""
    given = ((one.name, getattr(features, one.name), one.default) for one in fields(features))
    chosen = ", ".join(f"{name}={value!r}" for name, value, default in given if value != default)
    return f"skl.features.{type(features).__name__}({chosen})"


@dataclass(frozen=True, repr=False)
class Fourier:
    """Random Fourier features: samples of the empirical characteristic function.

    Parameters
    ----------
    n_frequencies : int, default=None
        Number of random frequencies. None chooses it for the task: 10 per coordinate of a center, for k-means, or per
        parameter of a mixture. Complex waves with dither get 25 % more, and real waves twice as many.
    wave : str or Wave, default="exponential"
        Periodic nonlinearity of the features: "exponential", "cosine", "square" (one bit per feature), "sawtooth" or
        "triangle".
    subsample : int, "auto" or None, default="auto"
        Number of frequencies that each record contributes to, which must divide the number of frequencies. "auto"
        chooses fewer for large tables (from about 200,000 rows), so that the squared error grows by less than a
        5000th, and None takes all of them.
    n_directions : int, "auto" or None, default="auto"
        For generators: number of principal directions of the sample in which rows are compared. "auto" chooses 16 above
        64 columns, and None takes all columns.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_normal((1000, 2))
    >>> model = skl.SketchKMeans(2, features=skl.features.Fourier(n_frequencies=100), random_state=0).fit(X)
    >>> model.sketch_.operator.part(skl.features.FourierFeatures).n_frequencies
    100
    """

    n_frequencies: int | None = None
    wave: str | Wave = "exponential"
    subsample: int | str | None = AUTO
    n_directions: int | str | None = AUTO

    __repr__ = _in_words

    def __post_init__(self) -> None:
        if self.n_frequencies is not None:
            whole("n_frequencies", self.n_frequencies)
        wave_from(self.wave)
        if self.subsample is not None:
            known = either('"auto", None for all frequencies,', "auto, all")
            _check_number("subsample", self.subsample, f"{known} or a number of frequencies")
        if self.n_directions is not None:
            _check_number("n_directions", self.n_directions, most=MOST_DIRECTIONS)


@dataclass(frozen=True, repr=False)
class Cells:
    """Voronoi cells of a pilot's centers: counts and exact sums of the rows in each cell.

    Parameters
    ----------
    n_directions : int or "auto", default="auto"
        Number of principal directions of the sample in which rows are assigned to cells; 0 assigns them in the columns
        themselves. "auto" means the columns up to 64 of them, and above as many directions as held-out rows need.
    normalize : bool, default=False
        Divide each row by its length first, as cosine similarity does: for embeddings.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_normal((1000, 8))
    >>> model = skl.SketchKMeans(2, features=skl.features.Cells(normalize=True), random_state=0).fit(X)
    >>> bool(np.all(np.linalg.norm(model.cluster_centers_, axis=1) < 1))
    True
    """

    n_directions: int | str = AUTO
    normalize: bool = False

    __repr__ = _in_words

    def __post_init__(self) -> None:
        _check_number("n_directions", self.n_directions, least=0, most=MOST_DIRECTIONS)
        truth("normalize", self.normalize)
        if self.n_directions == 0 and self.normalize:
            raise InvalidValueError("needs cells in directions", "leave out directions", parameter="normalize")


@dataclass(frozen=True, repr=False)
class Moments:
    """First and second moments, of all columns or in principal directions.

    Parameters
    ----------
    n_directions : int, default=None
        Number of principal directions of the sample, for classes of rows with many columns. None means the columns.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_normal((1000, 100))
    >>> skl.design(X, task="moments", features=skl.features.Moments(n_directions=8)).in_words
    'in 8 directions of 100 columns: ...'
    """

    n_directions: int | None = None

    __repr__ = _in_words

    def __post_init__(self) -> None:
        if self.n_directions is not None:
            whole("n_directions", self.n_directions, most=MOST_DIRECTIONS)


Features: TypeAlias = Fourier | Cells | Moments
KINDS = (Fourier, Cells, Moments)


def _check_number(
    name: str, given: Any, known: str = "a whole number or auto", least: int = 1, most: int = 2**63 - 1
) -> None:
    """Raises an error unless it is AUTO or a whole number; `known` says so of other words."""
    if isinstance(given, str) and given != AUTO:
        raise InvalidValueError(f"must be {known}, not {shortened(given)}", parameter=name)
    if given != AUTO:
        whole(name, given, least, most)


def frequencies_instead() -> str:
    """What asks for random frequencies where there would be cells, for a message.

    >>> frequencies_instead()
    'features=skl.features.Fourier()'
    """
    return either("features=skl.features.Fourier()", f"{Parameter('n_directions', None)}")


def checked(features: Any, allowed: tuple[type, ...], purpose: str, *, in_directions: bool = False) -> Any:
    """The features, if they are of an allowed family; frequencies with `n_directions` only if `in_directions`."""
    if isinstance(features, Fourier) and not in_directions and features.n_directions not in (AUTO, None):
        remedy = either("leave it out, or give skl.features.Cells(n_directions=...)", "leave it out")
        raise InvalidValueError("of frequencies is for generators", remedy, parameter="n_directions")
    if features is None or isinstance(features, allowed):
        return features
    if isinstance(features, Features):
        names = " or ".join(f"skl.features.{kind.__name__}" for kind in allowed)
        remedy = either(f"leave features out, or give {names}", "leave out --directions and --normalize")
        if not allowed:
            remedy = either("leave features out", "leave out --n-frequencies, --wave, --subsample and --directions")
        raise InvalidValueError(f"{either(repr(features), 'such features')} cannot be used for {purpose}", remedy)
    of_class = f"the class itself: write skl.features.{features.__name__}()" if features in KINDS else ""
    names = " or ".join(f"skl.features.{kind.__name__}(...)" for kind in allowed or KINDS)
    raise TypeError(f"features must be {names}, not {of_class or shortened(features)}")


# Flat names: those of model files, of the command line's options, and of earlier releases

_DEFAULTS: dict[str, Any] = {one.name: one.default for kind in (Fourier, Cells) for one in fields(kind)}
FLAT_NAMES = tuple(_DEFAULTS)


def from_flat(given: dict[str, Any], task: str = "kmeans") -> Features | None:
    """The features that flat names stand for; None where all have their defaults.

    >>> from_flat({"n_frequencies": 100}), from_flat({"n_directions": None}), from_flat({"n_directions": 8})
    (skl.features.Fourier(n_frequencies=100), skl.features.Fourier(), skl.features.Cells(n_directions=8))
    >>> from_flat({"wave": "exponential"})
    """
    chosen = {name: value for name, value in given.items() if value is not _DEFAULTS[name] and value != _DEFAULTS[name]}
    if not chosen:
        return None
    if task == "moments":
        if others := sorted(chosen.keys() - {"n_directions"}):
            remedy = f"leave out {Parameter(others[0])}"
            raise InvalidValueError("has one size for all", remedy, Parameter("task", task))
        return Moments(chosen["n_directions"])
    if task == "generator" and "normalize" not in chosen:
        return Fourier(**chosen)
    of_cells = chosen.keys() & {"n_directions", "normalize"}
    if of_cells == {"n_directions"} and chosen["n_directions"] is None:
        return Fourier(**{name: value for name, value in chosen.items() if name != "n_directions"})
    if not of_cells:
        return Fourier(**chosen)
    if of_frequencies := sorted(chosen.keys() - of_cells):
        name, other = of_frequencies[0], Parameter(min(of_cells))
        raise InvalidValueError(f"is for frequencies, and {other} for cells", "leave out one of them", parameter=name)
    if chosen.get("n_directions", AUTO) is None:
        remedy = f"leave out {Parameter('n_directions')}"
        raise InvalidValueError("needs cells", remedy, parameter="normalize")
    return Cells(**chosen)


def to_flat(features: Features | None, task: str = "kmeans") -> dict[str, Any]:
    """The flat names, with the values that are not defaults.

    >>> to_flat(Fourier(wave="square")), to_flat(Cells(8))
    ({'wave': 'square', 'n_directions': None}, {'n_directions': 8})
    """
    if features is None:
        return {}
    flat = {one.name: getattr(features, one.name) for one in fields(features)}
    if isinstance(features, Fourier) and task != "generator":
        flat["n_directions"] = None
    return {name: value for name, value in flat.items() if value != _DEFAULTS[name]}


def with_present_names(
    given: dict[str, Any], function: str, task: str = "kmeans", before: Features | None = None
) -> dict[str, Any]:
    """Arguments of an earlier release under the names of this one, with a warning; `before` are features to change."""
    former = {name: given.pop(name) for name in (*FLAT_NAMES, "along") if name in given}
    if not former:
        return given
    old, present = ", ".join(f"{name}=" for name in former), {}
    if "along" in former:
        present["profile_columns"] = former.pop("along")
    if former:
        present["features"] = from_flat(to_flat(before, task) | former, task)
    if both := sorted(name for name in present if given.get(name) is not None):
        raise TypeError(f"{function}() got {old} beside {both[0]}=, which has taken its place: give {both[0]}= alone")
    new = ", ".join(f"{name}={value!r}" for name, value in present.items())
    warnings.warn(f"{function}({old}) is deprecated: use {new}", DeprecationWarning, stacklevel=3)
    return given | present


def former_parameters(cls: Any) -> Any:
    """Lets an estimator's class take, for one release, parameters that are fields of `features` now."""
    clusters_alone = () if "profile_columns" in {one.name for one in fields(cls)} else ("along",)
    for method in (cls.__init__, cls.set_params):

        def present(self: Any, *args: Any, _method: Any = method, **parameters: Any) -> Any:
            others = {name: parameters.pop(name) for name in clusters_alone if name in parameters}
            before = vars(self).get("features")  # of an estimator that is made already
            return _method(
                self, *args, **with_present_names(parameters, cls.__name__, cls.design_task, before), **others
            )

        setattr(cls, method.__name__, wraps(method)(present))
    return cls
