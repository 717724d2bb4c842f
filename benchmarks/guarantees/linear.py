"""Coverage of intervals of regressions, principal and independent components, beside formulae that see all rows.

Rows are drawn anew each time: from laws with unequal and heavy-tailed errors, with weights, and from the rows of real
tables (with replacement, so that the table is the law). Entries of an attribute count alike; those without an error
are left out, and their share is told.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import sketchlearn as skl
from benchmarks.support.report import table_of, yes_or_no

LEVEL, LEAST, MOST = 0.95, 0.93, 0.97
PEERS = ("classical", "robust")
MOST_WITHHELD = 0.5  # An attribute that is withheld more often has no coverage to ask for.
Rows = NDArray[np.float64]
Law = Callable[[np.random.Generator, Any], Rows]
Truths = dict[str, Rows]
Errors = dict[str, Rows]
console = Console(width=150, highlight=False)


@dataclass(frozen=True)
class Drawn:
    """A model of one draw of rows, the truth, and standard errors of peers that see all rows, by their names."""

    model: Any
    truths: Truths
    peers: dict[str, Errors]


# Regressions


def ols_errors(X: Rows, y: Rows, weights: Rows | None = None, penalty: float = 0.0) -> dict[str, Errors]:
    """The textbook's errors and HC3, of coefficients and intercept."""
    w = np.ones(len(X)) if weights is None else weights
    A = np.column_stack([np.ones(len(X)), X])
    held = penalty * np.diag(np.append(0.0, np.ones(X.shape[1])))
    inverse = np.linalg.inv(A.T @ (w[:, None] * A) + held)
    residuals = y - A @ (inverse @ (A.T @ (w * y)))
    plain = w @ residuals**2 / (w.sum() - A.shape[1]) * np.diag(inverse @ (A.T @ (w[:, None] * A)) @ inverse)
    leverages = w * np.sum((A @ inverse) * A, axis=1)
    scores = (A @ inverse) * (w * residuals / (1 - leverages))[:, None]
    both = {"classical": np.sqrt(plain), "robust": np.sqrt(np.sum(scores**2, axis=0))}
    return {name: {"coef_": errors[1:], "intercept_": errors[0]} for name, errors in both.items()}


def regression(
    n: int,
    noise: Callable[[np.random.Generator, Rows], Rows],
    *,
    heavy: bool = False,
    weighted: bool = False,
    alpha=0.0,
) -> Callable[[int], Drawn]:
    """y = 2 + X beta + noise(X); weights, if any, do not depend on the errors' signs."""
    beta = np.array([1.0, -2.0, 0.5, 0.0, 3.0])

    def draw(seed: int) -> Drawn:
        rng = np.random.default_rng(seed)
        X = rng.standard_t(5, (n, 5)) if heavy else rng.standard_normal((n, 5))
        X[:, 1] += X[:, 0]
        y = 2 + X @ beta + noise(rng, X)
        weights = rng.uniform(0.05, 2, n) * (1 + (X[:, 0] > 0)) if weighted else None
        model = skl.SketchRidge(alpha) if alpha else skl.SketchLinearRegression()
        model.fit(X, y, sample_weight=weights)
        truths = {"coef_": beta, "intercept_": np.array(2.0)}
        if alpha:
            variance = np.eye(5) * (5 / 3 if heavy else 1.0)
            variance[1, 1] *= 2
            variance[0, 1] = variance[1, 0] = variance[0, 0]
            truths["coef_"] = np.linalg.solve(variance + alpha / n * np.eye(5), variance @ beta)
        return Drawn(model, truths, ols_errors(X, y, weights, alpha))

    return draw


def private_regression(n: int, epsilon: float) -> Callable[[int], Drawn]:
    """Within declared bounds, released; the peers see all rows without noise, and so do not tell its errors."""
    beta = np.array([1.0, -2.0, 0.5])

    def draw(seed: int) -> Drawn:
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (n, 3))
        y = 0.5 + X @ beta + rng.uniform(-1, 1, n)
        operator = skl.design(bounds=([-1, -1, -1, -5], [1, 1, 1, 5]), task="moments")
        private = skl.privatize(operator.sketch(np.column_stack([X, y])), epsilon=epsilon)
        model = skl.SketchLinearRegression().fit_sketch(private)
        return Drawn(model, {"coef_": beta, "intercept_": np.array(0.5)}, ols_errors(X, y))

    return draw


def resampled_regression(X: Rows, y: Rows, n: int) -> Callable[[int], Drawn]:
    """The table's rows are the law."""
    A = np.column_stack([np.ones(len(X)), X])
    solution = np.linalg.lstsq(A, y, rcond=None)[0]

    def draw(seed: int) -> Drawn:
        which = np.random.default_rng(seed).integers(len(X), size=n)
        model = skl.SketchLinearRegression().fit(X[which], y[which])
        truths = {"coef_": solution[1:], "intercept_": solution[0]}
        return Drawn(model, truths, ols_errors(X[which], y[which]))

    return draw


# Components


def pca_errors(X: Rows, k: int) -> dict[str, Errors]:
    """Anderson's errors for normal rows, and those of the rows' own fourth moments."""
    n, away = len(X), X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(away.T @ away / n)
    values, vectors = values[::-1], vectors[:, ::-1]
    scores = away @ vectors
    plain: Errors = {"explained_variance_": values[:k] * np.sqrt(2 / n), "components_": np.empty((k, X.shape[1]))}
    robust: Errors = {
        "explained_variance_": (scores**2).std(axis=0)[:k] / np.sqrt(n),
        "components_": np.empty((k, X.shape[1])),
    }
    for i in range(k):
        gaps = values[i] - values
        gaps[i] = np.inf
        plain["components_"][i] = np.sqrt(values[i] / n * (vectors**2 @ (values / gaps**2)))
        robust["components_"][i] = np.sqrt(
            np.mean((((scores / gaps) @ vectors.T) * scores[:, i : i + 1]) ** 2, axis=0) / n
        )
    return {"classical": plain, "robust": robust}


def component_truths(mean: Rows, covariance: Rows, model: Any) -> Truths:
    """Of the components of a law, with the model's signs."""
    values, vectors = np.linalg.eigh(covariance)
    k = len(model.components_)
    variances, components = values[::-1][:k], vectors.T[::-1][:k]
    signs = np.sign(np.sum(components * model.components_, axis=1))[:, None]
    return {
        "explained_variance_": variances,
        "explained_variance_ratio_": variances / values.sum(),
        "components_": components * signs,
        "mean_": mean,
    }


def components(
    rows: Law, n: int, *, weighted: bool = False, second: float = 6.0, **chosen: Any
) -> Callable[[int], Drawn]:
    """Six columns with the variances 10, second, 3, 1, 1, 1 along random directions."""
    d, variances = 6, np.array([10.0, second, 3.0, 1.0, 1.0, 1.0])
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((d, d)))[0]

    def draw(seed: int) -> Drawn:
        rng = np.random.default_rng(seed)
        X = (rows(rng, n) * np.sqrt(variances)) @ turned.T + 3
        weights = rng.uniform(0.05, 2, n) if weighted else None
        model = skl.SketchPCA(3, random_state=seed, **chosen).fit(X, sample_weight=weights)
        covariance = (turned * variances) @ turned.T
        return Drawn(model, component_truths(np.full(d, 3.0), covariance, model), pca_errors(X, 3))

    return draw


def private_components(n: int, epsilon: float) -> Callable[[int], Drawn]:
    """Sums of uniform values within declared bounds, released."""
    mixing = np.array([[1.0, 0.6, 0.2, 0.0], [0.0, 0.7, -0.4, 0.1], [0.0, 0.0, 0.5, 0.1], [0.0, 0.1, 0.0, 0.3]])
    bound = np.abs(mixing).sum(axis=0)

    def draw(seed: int) -> Drawn:
        X = np.random.default_rng(seed).triangular(-1, 0, 1, (n, 4)) @ mixing
        operator = skl.design(bounds=(-bound, bound), task="moments")
        private = skl.privatize(operator.sketch(X), epsilon=epsilon)
        model = skl.SketchPCA(2).fit_sketch(private)
        truths = component_truths(np.zeros(4), mixing.T @ mixing / 6, model)
        return Drawn(model, truths, pca_errors(X, 2))

    return draw


def resampled_components(X: Rows, k: int, n: int) -> Callable[[int], Drawn]:
    """The rows of a table in units of the columns' deviations are the law."""
    X = (X - X.mean(axis=0)) / X.std(axis=0)

    def draw(seed: int) -> Drawn:
        own = X[np.random.default_rng(seed).integers(len(X), size=n)]
        model = skl.SketchPCA(k).fit(own)
        return Drawn(model, component_truths(X.mean(axis=0), np.cov(X.T, bias=True), model), pca_errors(own, k))

    return draw


def independent(n: int) -> Callable[[int], Drawn]:
    """A uniform, a Laplace and an exponential source."""
    mixing = np.random.default_rng(5).standard_normal((3, 3))

    def draw(seed: int) -> Drawn:
        rng = np.random.default_rng(seed)
        sources = [rng.uniform(-1, 1, n) * np.sqrt(3), rng.laplace(size=n) / np.sqrt(2), rng.exponential(size=n) - 1]
        model = skl.SketchICA(random_state=seed).fit(np.column_stack(sources) @ mixing.T + 2)
        matches = model.components_ @ mixing
        order = np.argmax(np.abs(matches), axis=1)
        signs = np.sign(matches[np.arange(3), order])
        unmixing = np.linalg.inv(mixing)[order] * signs[:, None]
        return Drawn(
            model, {"components_": unmixing, "mixing_": mixing[:, order] * signs, "mean_": np.full(3, 2.0)}, {}
        )

    return draw


def stable(n: int, wave: str) -> Callable[[int], Drawn]:
    """Two Cauchy laws in two columns."""

    def draw(seed: int) -> Drawn:
        rng = np.random.default_rng(seed)
        means, weights = np.array([[-2.0, -2.0], [6.0, 6.0]]), np.array([0.6, 0.4])
        stretch = np.abs(rng.standard_normal((n, 1)))
        X = means[rng.choice(2, n, p=weights)] + rng.standard_normal((n, 2)) / stretch
        model = skl.SketchStableMixture(2, features=skl.features.Fourier(wave=wave), random_state=seed).fit(X)
        scales = np.full((2, 2), np.sqrt(2))
        return Drawn(model, {"weights_": weights, "means_": means, "scales_": scales}, {})

    return draw


# The table


def settings_of() -> dict[str, Callable[[int], Drawn]]:
    def unequal(rng: np.random.Generator, X: Rows) -> Rows:
        return (0.3 + np.abs(X[:, 0])) * rng.standard_normal(len(X))

    def heavy(rng: np.random.Generator, X: Rows) -> Rows:
        return rng.standard_t(3, len(X)) * (1 + 0.5 * np.abs(X[:, 2]))

    diabetes, cancer, wine = (load(return_X_y=True) for load in (load_diabetes, load_breast_cancer, load_wine))
    area = cancer[0][:, 3] / 100, cancer[0][:, [0, 1, 4, 5, 6, 9]]
    return {
        "regression, equal errors, n = 2000": regression(2000, lambda rng, X: rng.standard_normal(len(X))),
        "regression, unequal errors, n = 1000": regression(1000, unequal),
        "regression, unequal errors, n = 30,000": regression(30_000, unequal),
        "regression, heavy tails, n = 30,000": regression(30_000, heavy, heavy=True),
        "regression, weights, n = 20,000": regression(20_000, unequal, weighted=True),
        "ridge, unequal errors, n = 10,000": regression(10_000, unequal, alpha=3000.0),
        "regression, private, n = 100,000": private_regression(100_000, 1.0),
        "regression, diabetes, n = 5000": resampled_regression(*diabetes, 5000),
        "regression, breast cancer, n = 5000": resampled_regression(area[1], area[0], 5000),
        "components, normal, n = 10,000": components(lambda rng, n: rng.standard_normal((n, 6)), 10_000),
        "components, heavy tails, n = 30,000": components(
            lambda rng, n: rng.standard_t(10, (n, 6)) / np.sqrt(10 / 8), 30_000
        ),
        "components, two-sided exponential, n = 30,000": components(
            lambda rng, n: rng.laplace(size=(n, 6)) / np.sqrt(2), 30_000
        ),
        "components, weights, n = 10,000": components(
            lambda rng, n: rng.standard_normal((n, 6)), 10_000, weighted=True
        ),
        "components, compressive, n = 10,000": components(
            lambda rng, n: rng.laplace(size=(n, 6)) / np.sqrt(2), 10_000, n_directions=100
        ),
        "components, close variances, n = 1000": components(
            lambda rng, n: rng.standard_normal((n, 6)), 1000, second=8.5
        ),
        "components, private, n = 100,000": private_components(100_000, 1.0),
        "components, wine, n = 5000": resampled_components(wine[0], 3, 5000),
        "components, breast cancer, n = 5000": resampled_components(cancer[0], 4, 5000),
        "independent components, n = 20,000": independent(20_000),
        "stable mixture, n = 20,000": stable(20_000, "exponential"),
        "stable mixture, one-bit, n = 20,000": stable(20_000, "square"),
    }


def linear(settings: argparse.Namespace) -> Iterator[bool]:
    """Coverage of 95 % intervals: asked 93 to 97 %."""
    chosen = {name: draw for name, draw in settings_of().items() if settings.settings in name}
    title = f"Coverage of {100 * LEVEL:.0f} % intervals over {settings.draws} draws; asked {LEAST} to {MOST}"
    heads = ["setting", "attribute", "coverage", "withheld", "width over robust", *PEERS, "reached"]
    table = table_of(title, heads)
    for name, draw in chosen.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what is withheld is counted; releases need no budget here
            drawn = [_figures(draw(settings.seed + i)) for i in range(settings.draws)]
        for attribute in drawn[0]:
            cells, reached = _row([one[attribute] for one in drawn])
            table.add_row(name, attribute, *cells, yes_or_no(reached))
            yield reached
    console.print(table)


def _row(figures: list[dict[str, Any]]) -> tuple[list[str], bool]:
    """The cells of an attribute, and whether its intervals cover as asked, up to two errors of so many draws."""
    covered, withheld = (np.array([one[key] for one in figures]) for key in ("covered", "withheld"))
    told = np.sum(~withheld, axis=1)
    missing, each = float(withheld.mean()), np.sum(covered & ~withheld, axis=1)
    rate = float(each.sum() / told.sum()) if missing < 1 else np.nan
    unsure = float(np.sqrt(np.sum((each - rate * told) ** 2)) / told.sum()) if missing < 1 else np.nan
    widths = f"{np.nanmedian([one['width'] for one in figures]):.3f}" if "width" in figures[0] else ""
    peers = [f"{np.mean([one[peer] for one in figures]):.3f}" if peer in figures[0] else "" for peer in PEERS]
    reached = missing > MOST_WITHHELD or LEAST - 2 * unsure <= rate <= MOST + 2 * unsure
    return [f"{rate:.3f} ± {unsure:.3f}", f"{missing:.2f}", widths, *peers], reached


def _figures(drawn: Drawn) -> dict[str, dict[str, Any]]:
    """Of each attribute: which entries are covered, which have no error, how many entries peers' intervals cover."""
    intervals = drawn.model.intervals(LEVEL)
    found = {}
    for name, truth in drawn.truths.items():
        value = np.asarray(getattr(drawn.model, name))
        low, high = intervals.get(name, (np.full_like(value, np.nan),) * 2)
        with np.errstate(invalid="ignore"):
            covered = (low <= truth) & (truth <= high)
        found[name] = {"covered": np.ravel(covered), "withheld": np.ravel(np.isnan(low))}
        for peer, errors in drawn.peers.items():
            if name in errors:
                found[name][peer] = float(np.mean(np.abs(value - truth) <= 1.96 * errors[name]))
                if peer == "robust":
                    with np.errstate(invalid="ignore", divide="ignore"):
                        found[name]["width"] = float(np.nanmedian((high - low) / (2 * 1.96 * errors[name])))
    return found
