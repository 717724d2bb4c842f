"""Quadratic features: the bounds of one row and of a replaced one, attacked by gradients."""

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.features import quadratic as quadratic_energy
from sketchlearn.features.quadratic import QuadraticEnergy
from sketchlearn.privacy.noise_plan import sensitivity


def unit_directions(d, m):
    w = np.random.default_rng(1).standard_normal((d, m))
    return w / np.linalg.norm(w, axis=0)


def climbed(w, power, *, pairs, starts=4, steps=120):
    """The largest sum of |t_j^2 - s_j^2|^power that gradients find over rows of length 1, and one such pair of rows."""
    rng, best = np.random.default_rng(0), (0.0, None)
    vectors = np.linalg.eigh(w @ w.T)[1]
    for start in range(starts):
        rows = rng.standard_normal((2, len(w))) if start else vectors[:, [-1, -2]].T
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True) * np.array([[1.0], [float(pairs)]])
        score, step = 0.0, 0.5
        for _ in range(steps):
            t, s = rows @ w
            change = t * t - s * s
            force = np.sign(change) * np.abs(change) ** (power - 1)
            slopes = np.stack([w @ (force * t), -w @ (force * s)])
            moved = rows + step * slopes / np.maximum(np.linalg.norm(slopes, axis=1, keepdims=True), 1e-12)
            moved *= np.array([[1.0], [float(pairs)]]) / np.linalg.norm(moved, axis=1, keepdims=True).clip(1e-12)
            found = np.sum(np.abs(np.subtract(*(moved @ w) ** 2)) ** power)
            rows, score, step = (moved, found, 1.1 * step) if found > score else (rows, score, 0.7 * step)
        best = max(best, (score, tuple(map(tuple, rows))), key=lambda each: each[0])
    return best


# What the search reaches of each bound, in norms: the bound of L1 is exact for one row.
REACHED = {
    (2, 30): (0.999, 0.70, 0.95, 0.99),
    (3, 5): (0.999, 0.80, 0.90, 0.98),
    (9, 60): (0.999, 0.70, 0.90, 0.95),
    (9, 600): (0.999, 0.65, 0.93, 0.95),
    (20, 100): (0.999, 0.75, 0.87, 0.90),
    (20, 2000): (0.999, 0.65, 0.93, 0.93),
    (100, 300): (0.999, 0.75, 0.80, 0.80),
}


@pytest.mark.parametrize("size", REACHED)
def test_no_rows_exceed_the_energy(size):
    w = unit_directions(*size)
    of = QuadraticEnergy.of_directions(w)
    bounds = (of.squares, of.replaced_squares, of.fourth_powers, of.replaced_fourth_powers)
    attacks = [(1, False), (1, True), (2, False), (2, True)]
    for bound, (power, pairs), reached in zip(bounds, attacks, REACHED[size], strict=True):
        found = climbed(w, power, pairs=pairs)[0]
        assert reached <= (found / bound) ** (1 / power) <= 1


@pytest.mark.parametrize("pairs", [False, True])
def test_integers_stay_within_the_bound(pairs):
    """The worst rows that gradients find, as the operator rounds them."""
    operator = skl.features.QuadraticFeatures(12, 400, bound=3.0, outside="clip", seed=2)
    bound = sensitivity(operator, "replace" if pairs else "add-remove")
    for power, limit, reached in ((1, bound.l1, 0.65), (2, bound.l2_squared, 0.85)):
        rows = np.array(climbed(operator.directions / 12**0.5, power, pairs=pairs)[1])
        integers = operator.write_rows(rows * (3.0 * (1 - 1e-7)), 1)[0].astype(np.float64)
        found = np.sum(np.abs(integers[0] - integers[1]) ** power)
        assert reached * limit <= found <= limit


def test_the_norm_counts_what_projections_share():
    """Many directions of few columns: the L2 bound is a third of what it was, sqrt(energy)."""
    operator = skl.features.QuadraticFeatures(20, 2000, bound=1.0, outside="clip")
    one, both = sensitivity(operator), sensitivity(operator, "replace")
    assert one.l2 < 0.45 * np.sqrt(one.l1 * 2**20)
    assert both.l2 < 0.40 * np.sqrt(2 * one.l1 * 2**20)
    assert both.l1 < 2 * one.l1


@pytest.mark.parametrize("most", [16, 40])
def test_matrices_in_blocks_bound_the_whole(most, monkeypatch):
    w = unit_directions(12, 70)
    exactly = QuadraticEnergy.of_directions(w)
    monkeypatch.setattr(quadratic_energy, "LARGEST_MATRIX", most)
    blocks = QuadraticEnergy.of_directions(w)
    assert exactly.fourth_powers < blocks.fourth_powers < blocks.squares
    monkeypatch.setattr(quadratic_energy, "MOST_MATRICES", 1)
    assert QuadraticEnergy.of_directions(w).fourth_powers == pytest.approx(blocks.squares, rel=1e-5)


@pytest.mark.parametrize("shape", [(40, 700), (30, 800)])
def test_a_proof_by_cholesky_is_near_the_eigenvalue(shape, monkeypatch):
    """Products of 700 directions, and of 465 entries: with the proof for large matrices, and with all eigenvalues."""
    w = unit_directions(*shape)
    monkeypatch.setattr(quadratic_energy, "SMALLEST_PROVED", 100)
    proved = QuadraticEnergy.of_directions(w)
    monkeypatch.setattr(quadratic_energy, "SMALLEST_PROVED", 1000)
    exactly = QuadraticEnergy.of_directions(w)
    assert 1 < proved.replaced_fourth_powers / exactly.replaced_fourth_powers < 1.002


def test_one_column_or_one_direction():
    line, single = QuadraticEnergy.of_directions(np.ones((1, 5))), QuadraticEnergy.of_directions(np.eye(3)[:, :1])
    assert [round(bound, 4) for bound in (line.replaced_squares, line.replaced_fourth_powers)] == [5.0, 5.0]
    assert [round(bound, 4) for bound in (single.replaced_squares, single.replaced_fourth_powers)] == [1.0, 1.0]
