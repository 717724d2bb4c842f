"""Points, and Gaussians whose covariance is spherical, diagonal, stretched, full, shared, or known."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sketchlearn.core.arrays import Double, Single
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.kernels import dispatch as kernel


class FrequencySet:
    """Frequencies omega, one per row, in radians, and the shifts of their phases."""

    def __init__(self, omega: NDArray[Any], shift: NDArray[Any] | None = None) -> None:
        self.omega: Single = np.ascontiguousarray(omega, np.float32)
        self.shift: Single | None = None if shift is None else np.asarray(shift, np.float32)
        #: omega in turns, shape (d, m)
        self.turns: Single = np.ascontiguousarray((np.asarray(omega, np.float64) / (2 * np.pi)).T, np.float32)

    def __len__(self) -> int:
        return len(self.omega)

    @property
    def n_features(self) -> int:
        return int(self.omega.shape[1])

    @cached_property
    def squares(self) -> Single:
        """omega squared, coordinate by coordinate: shape (m, d)."""
        return self.omega * self.omega

    @cached_property
    def half_squares(self) -> Single:
        """omega^2 / 2, coordinate by coordinate: shape (d, m)."""
        return np.ascontiguousarray(0.5 * self.squares.T)

    @cached_property
    def half_lengths(self) -> Single:
        """|omega|^2 / 2: shape (1, m)."""
        return np.ascontiguousarray(0.5 * self.lengths[None])

    @cached_property
    def shift_turns(self) -> Single | None:
        """The shifts in turns."""
        return None if self.shift is None else self.shift / np.float32(2 * np.pi)

    @cached_property
    def lengths(self) -> Single:
        """Squared lengths |omega|^2."""
        return np.asarray(self.squares.sum(axis=1))

    def waves(
        self, locations: NDArray[Any], exponents: Single | None = None, space: Single | None = None
    ) -> tuple[Single, Single]:
        """exp(-exponent) times cos and sin of omega . location + shift: two arrays of shape (locations, m).

        `space`, of shape (3, locations, m), is memory for phases, cosines and sines.
        """
        if space is None:
            space = np.empty((3, len(locations), len(self)), np.float32)
        phases, cosines, sines = space
        np.matmul(np.asarray(locations, np.float32), self.turns, out=phases)
        if self.shift_turns is not None:
            phases += self.shift_turns
        kernel.damped_waves(phases, exponents, cosines, sines)
        return cosines, sines


class Model(ABC):
    """A family of distributions around a location c: characteristic function exp(i omega . c - psi(omega; shape)).

    `shapes` has one row of parameters per component, or one row for all of them if the model is `tied`.
    """

    #: one shape for all components
    tied: ClassVar[bool] = False

    @abstractmethod
    def n_shape(self, n_features: int) -> int:
        """Free parameters of one shape."""

    @abstractmethod
    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        """psi of each component (or of all) at each frequency; None where it is zero."""

    def quadratics(self, frequencies: FrequencySet) -> Single | None:
        """The matrix Q, (length of a shape, m), if psi = shapes @ Q."""
        return None

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        """Gradient of sum(upstream * psi) along `shapes`, row by row; not needed where there are `quadratics`."""
        raise NotImplementedError(f"{type(self).__name__} has no gradient with respect to its shapes")

    @abstractmethod
    def shapes_of(self, covariances: Double) -> Double:
        """Shapes with covariances near these, (components, d, d)."""

    @abstractmethod
    def covariances(self, shapes: Double, n_features: int) -> Double:
        """Covariance of each row of shapes (for stable distributions, that of the Gaussian with alpha = 2)."""

    def bounds(self, n_features: int, least_variance: float) -> tuple[Double | float, Double | float]:
        """Lower and upper bounds of one shape's parameters."""
        return -np.inf, np.inf

    def steps(self, shapes: Double, frequencies: FrequencySet) -> NDArray[Any]:
        """Derivatives of psi along the coordinates of `moved`, at zero: (rows of shapes, m, coordinates or none)."""
        return np.zeros((len(shapes), len(frequencies), 0), np.float32)

    def moved(self, shapes: Double, step: Double) -> Double:
        """Shapes after a step in their coordinates (a row per row of shapes); unchanged by default."""
        return shapes

    def deviations(self, shapes: Double, others: Double) -> Double:
        """The difference of shapes from others, in the coordinates of `moved` (a row per row of shapes)."""
        return shapes[:, :0]

    def in_units(self, unit: Double) -> Model:
        """The model for rows that were multiplied by `unit`, column by column."""
        return self

    def scaled(self, shapes: Double, unit: Double) -> Double:
        """Shapes of `in_units(unit)` for rows that were multiplied by `unit`, column by column."""
        return self.in_units(unit).shapes_of(self.covariances(shapes, len(unit)) * np.outer(unit, unit))

    def n_parameters(self, n_components: int, n_features: int) -> int:
        """Free parameters of a mixture, its weights included."""
        rows = 1 if self.tied else n_components
        return n_components * (n_features + 1) + rows * self.n_shape(n_features)

    def draw(self, shapes: Double, size: tuple[int, int], rng: np.random.Generator) -> Double:
        """Random vectors around zero of shape (rows of shapes, *size): independent copies of each component's noise."""
        n, d = size
        factors = square_roots(self.covariances(shapes, d))
        return np.asarray(rng.standard_normal((len(factors), n, d)) @ factors.transpose(0, 2, 1))


def map_eigenvalues(matrices: Double, function: Callable[[Double], Double]) -> Double:
    """Symmetric matrices with a function applied to their eigenvalues."""
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray((vectors * function(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def square_roots(covariances: Double) -> Double:
    """A factor F of each covariance F F'."""
    values, vectors = np.linalg.eigh(covariances)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0))[..., None, :])


class SphericalGaussian(Model):
    """N(c, v I): psi = v |omega|^2 / 2. The shape is v."""

    def n_shape(self, n_features: int) -> int:
        return 1

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        return np.asarray((0.5 * shapes).astype(np.float32) @ self._squares(frequencies).T)

    def quadratics(self, frequencies: FrequencySet) -> Single:
        return frequencies.half_lengths

    def _squares(self, frequencies: FrequencySet) -> Single:
        """The matrix (m, length of a shape) with psi = shapes @ squares' / 2, in the layout of the frequencies."""
        return frequencies.lengths[:, None]

    def shapes_of(self, covariances: Double) -> Double:
        return np.asarray(np.trace(covariances, axis1=1, axis2=2)[:, None] / covariances.shape[1])

    def covariances(self, shapes: Double, n_features: int) -> Double:
        return shapes[:, :, None] * np.eye(n_features)

    def bounds(self, n_features: int, least_variance: float) -> tuple[Double | float, Double | float]:
        return least_variance, np.inf

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        return np.asarray((0.5 * shapes[:, None, :]).astype(np.float32) * self._squares(frequencies))

    def moved(self, shapes: Double, step: Double) -> Double:
        return np.asarray(shapes * np.exp(np.clip(step, -1.0, 1.0)))

    def deviations(self, shapes: Double, others: Double) -> Double:
        return np.asarray(np.log(shapes / others))


class DiagonalGaussian(SphericalGaussian):
    """N(c, diag(v)): psi = sum over coordinates of v omega^2 / 2. The shape is v."""

    def n_shape(self, n_features: int) -> int:
        return n_features

    def quadratics(self, frequencies: FrequencySet) -> Single:
        return frequencies.half_squares

    def _squares(self, frequencies: FrequencySet) -> Single:
        return frequencies.squares

    def shapes_of(self, covariances: Double) -> Double:
        return np.diagonal(covariances, axis1=1, axis2=2).copy()


class StretchedGaussian(Model):
    """N(c, diag(v) + f f'): psi = (sum over coordinates of v omega^2 + (f . omega)^2) / 2. The shape is (v, f)."""

    def n_shape(self, n_features: int) -> int:
        return 2 * n_features

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        variances, along = np.hsplit(shapes, 2)
        psi = (0.5 * variances).astype(np.float32) @ frequencies.squares.T
        psi += np.float32(0.5) * (along.astype(np.float32) @ frequencies.omega.T) ** 2
        return np.asarray(psi)

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        projected = np.hsplit(shapes, 2)[1].astype(np.float32) @ frequencies.omega.T
        by_variance = 0.5 * (upstream @ frequencies.squares)
        by_direction = (upstream * projected) @ frequencies.omega
        return np.concatenate([by_variance, by_direction], axis=1).astype(np.float64)

    def shapes_of(self, covariances: Double) -> Double:
        """With f = 0, from the variances alone."""
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        return np.concatenate([variances, np.zeros_like(variances)], axis=1)

    def covariances(self, shapes: Double, n_features: int) -> Double:
        variances, along = np.hsplit(shapes, 2)
        return np.asarray(variances[:, :, None] * np.eye(n_features) + along[:, :, None] * along[:, None, :])

    def scaled(self, shapes: Double, unit: Double) -> Double:
        variances, along = np.hsplit(shapes, 2)
        return np.concatenate([variances * unit**2, along * unit], axis=1)

    def bounds(self, n_features: int, least_variance: float) -> tuple[Double | float, Double | float]:
        return np.repeat([least_variance, -np.inf], n_features), np.inf

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        variances, along = np.hsplit(shapes.astype(np.float32), 2)
        by_variance = 0.5 * variances[:, None, :] * frequencies.squares
        return np.concatenate([by_variance, (along @ frequencies.omega.T)[:, :, None] * frequencies.omega], axis=2)

    def moved(self, shapes: Double, step: Double) -> Double:
        (variances, along), (factor, way) = np.hsplit(shapes, 2), np.hsplit(step, 2)
        return np.concatenate([variances * np.exp(np.clip(factor, -1.0, 1.0)), along + way], axis=1)


class FullGaussian(Model):
    """N(c, L L'): psi = |L' omega|^2 / 2. The shape is the factor L, row by row."""

    def n_shape(self, n_features: int) -> int:
        return n_features * (n_features + 1) // 2

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        projected = frequencies.omega @ _factors(shapes).astype(np.float32)
        return np.asarray(0.5 * np.einsum("kmd,kmd->km", projected, projected))

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        omega = frequencies.omega
        spread = np.stack([(omega * row[:, None]).T @ omega for row in upstream]).astype(np.float64)
        return np.asarray((spread @ _factors(shapes)).reshape(shapes.shape))

    def shapes_of(self, covariances: Double) -> Double:
        return np.asarray(np.linalg.cholesky(covariances), np.float64).reshape(len(covariances), -1)

    def covariances(self, shapes: Double, n_features: int) -> Double:
        factors = _factors(shapes)
        return np.asarray(factors @ factors.transpose(0, 2, 1))

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        # S = L exp(A) L' for a symmetric A, of which the upper triangle are the coordinates
        projected = frequencies.omega @ _factors(shapes).astype(np.float32)
        i, j = np.triu_indices(frequencies.n_features)
        return np.asarray(projected[:, :, i] * projected[:, :, j] * np.where(i == j, 0.5, 1.0).astype(np.float32))

    def moved(self, shapes: Double, step: Double) -> Double:
        factors = _factors(shapes)
        i, j = np.triu_indices(factors.shape[1])
        symmetric = np.zeros(factors.shape)
        symmetric[:, i, j] = step
        symmetric[:, j, i] = step
        root = map_eigenvalues(symmetric, lambda values: np.exp(0.5 * np.clip(values, -1.0, 1.0)))
        return np.asarray((factors @ root).reshape(shapes.shape))

    def deviations(self, shapes: Double, others: Double) -> Double:
        seen = np.linalg.solve(_factors(others), _factors(shapes))
        squares = seen @ seen.transpose(0, 2, 1)
        logarithms = map_eigenvalues(squares, lambda values: np.log(np.maximum(values, 1e-300)))
        return np.asarray(logarithms[:, *np.triu_indices(seen.shape[1])])


class TiedGaussian(FullGaussian):
    """N(c, L L') with one covariance for all components."""

    tied = True

    def shapes_of(self, covariances: Double) -> Double:
        return super().shapes_of(covariances.mean(axis=0, keepdims=True))


class TiedDiagonalGaussian(DiagonalGaussian):
    """N(c, diag(v)) with one v for all components."""

    tied = True

    def shapes_of(self, covariances: Double) -> Double:
        return super().shapes_of(covariances.mean(axis=0, keepdims=True))


class Dirac(Model):
    """A point: characteristic function exp(i omega . c)."""

    tied = True

    def n_shape(self, n_features: int) -> int:
        return 0

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        return None

    def shapes_of(self, covariances: Double) -> Double:
        return np.zeros((1, 0))

    def covariances(self, shapes: Double, n_features: int) -> Double:
        return np.zeros((len(shapes), n_features, n_features))


class KnownGaussian(Dirac):
    """N(c, S) with a covariance that is given, not learned."""

    def __init__(self, covariance: ArrayLike) -> None:
        self.covariance = np.asarray(covariance, np.float64)

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        omega = frequencies.omega
        return np.asarray(0.5 * np.sum((omega @ self.covariance.astype(np.float32)) * omega, axis=1)[None])

    def covariances(self, shapes: Double, n_features: int) -> Double:
        return self.covariance[None]

    def in_units(self, unit: Double) -> KnownGaussian:
        return KnownGaussian(self.covariance * np.outer(unit, unit))


def _factors(shapes: Double) -> Double:
    d = math.isqrt(shapes.shape[1])
    return shapes.reshape(-1, d, d)


def n_parameters(k: int, d: int, covariance_type: str) -> int:
    """The number of free parameters of a mixture of k Gaussians in d columns.

    >>> n_parameters(2, 3, "diag")
    13
    """
    triangle = d * (d + 1) // 2
    shapes = {"full": k * triangle, "tied": triangle, "known": 0, "diag": k * d, "spherical": k}[covariance_type]
    return k - 1 + k * d + shapes


LEAST_ALPHA = 0.5
LARGEST_ALPHA_STEP = 0.3  # One Gauss-Newton step changes alpha by at most this much.


class SymmetricStable(Model):
    """The elliptical symmetric alpha-stable distribution: psi = q^(alpha / 2), q = the sum of v omega^2 / 2.

    The shape is (v, alpha), 0.5 <= alpha <= 2; alpha = 2 is the Gaussian N(c, diag(v)), alpha = 1 is Cauchy.
    A draw is the square root of a one-sided stable number times a Gaussian vector (sub-Gaussian representation).
    """

    def n_shape(self, n_features: int) -> int:
        return n_features + 1

    def _powers(self, shapes: Double, frequencies: FrequencySet) -> tuple[Single, Single, Single]:
        """q, alpha / 2 and q^(alpha / 2): (rows of shapes, m) and (rows of shapes, 1)."""
        q = np.maximum((0.5 * shapes[:, :-1]).astype(np.float32) @ frequencies.squares.T, np.float32(1e-30))
        half = (0.5 * shapes[:, -1:]).astype(np.float32)
        return q, half, q**half

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        return self._powers(shapes, frequencies)[2]

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        q, half, psi = self._powers(shapes, frequencies)
        psi = upstream * psi
        by_scale = 0.5 * ((half * psi / q) @ frequencies.squares)
        by_alpha = 0.5 * np.sum(psi * np.log(q), axis=1, keepdims=True)
        return np.concatenate([by_scale, by_alpha], axis=1).astype(np.float64)

    def shapes_of(self, covariances: Double) -> Double:
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        return np.concatenate([variances, np.full((len(variances), 1), 1.8)], axis=1)

    def covariances(self, shapes: Double, n_features: int) -> Double:
        return shapes[:, :-1, None] * np.eye(n_features)

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        q, half, psi = self._powers(shapes, frequencies)
        parts = (0.5 * shapes[:, None, :-1]).astype(np.float32) * frequencies.squares
        by_scale = (half * psi / q)[:, :, None] * parts
        return np.concatenate([by_scale, (0.5 * psi * np.log(q))[:, :, None]], axis=2)

    def moved(self, shapes: Double, step: Double) -> Double:
        variances = shapes[:, :-1] * np.exp(np.clip(step[:, :-1], -1.0, 1.0))
        alphas = shapes[:, -1:] + np.clip(step[:, -1:], -LARGEST_ALPHA_STEP, LARGEST_ALPHA_STEP)
        return np.concatenate([variances, np.clip(alphas, LEAST_ALPHA, 2.0)], axis=1)

    def deviations(self, shapes: Double, others: Double) -> Double:
        scales = np.log(shapes[:, :-1] / others[:, :-1])
        return np.concatenate([scales, shapes[:, -1:] - others[:, -1:]], axis=1)

    def scaled(self, shapes: Double, unit: Double) -> Double:
        return np.concatenate([shapes[:, :-1] * unit**2, shapes[:, -1:]], axis=1)

    def bounds(self, n_features: int, least_variance: float) -> tuple[Double | float, Double | float]:
        return np.repeat([least_variance, LEAST_ALPHA], [n_features, 1]), np.repeat([np.inf, 2.0], [n_features, 1])

    def draw(self, shapes: Double, size: tuple[int, int], rng: np.random.Generator) -> Double:
        normal = super().draw(shapes, size, rng)
        stretch = np.stack([one_sided(row[-1], rng.random(size[0]), rng.random(size[0])) for row in shapes])
        return np.asarray(normal * np.sqrt(stretch)[:, :, None])


class IndependentStable(SymmetricStable):
    """Coordinates that are independent symmetric stable numbers of one alpha: psi = sum of (v omega^2 / 2)^(alpha / 2).

    In one column it is the elliptical distribution; in more, its tails lie along the axes.
    """

    def _powers(self, shapes: Double, frequencies: FrequencySet) -> tuple[Single, Single, Single]:
        """The same of q = v omega^2 / 2 of each coordinate: (rows of shapes, m, d) and (rows of shapes, 1, 1)."""
        q = np.maximum((0.5 * shapes[:, None, :-1]).astype(np.float32) * frequencies.squares, np.float32(1e-30))
        half = (0.5 * shapes[:, -1:, None]).astype(np.float32)
        return q, half, q**half

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        return np.asarray(self._powers(shapes, frequencies)[2].sum(axis=2))

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        steps = self.steps(shapes, frequencies)
        steps[:, :, :-1] /= shapes[:, None, :-1].astype(np.float32)
        return np.asarray(np.einsum("km,kmp->kp", upstream, steps), np.float64)

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        q, half, psi = self._powers(shapes, frequencies)
        return np.concatenate([half * psi, 0.5 * np.sum(psi * np.log(q), axis=2, keepdims=True)], axis=2)

    def draw(self, shapes: Double, size: tuple[int, int], rng: np.random.Generator) -> Double:
        stretch = np.stack([one_sided(row[-1], rng.random(size), rng.random(size)) for row in shapes])
        return np.asarray(rng.standard_normal(stretch.shape) * np.sqrt(stretch * shapes[:, None, :-1]))


def one_sided(alpha: float, u: Double, v: Double) -> Double:
    """Positive numbers A with Laplace transform E exp(-s A) = exp(-s^(alpha / 2)), from uniform ones (Kanter 1975)."""
    a = alpha / 2
    if a >= 1:
        return np.ones_like(u)
    theta, e = np.pi * np.clip(u, 1e-12, 1 - 1e-12), -np.log(np.clip(v, 1e-300, 1 - 1e-16))
    # Kanter's product, to the power (1 - a) / a, in logarithms: near a = 1 its factors overflow
    logs = np.log(np.sin(a * theta)) - np.log(np.sin(theta)) / a + (1 - a) / a * np.log(np.sin((1 - a) * theta) / e)
    return np.asarray(np.exp(np.clip(logs, -600, 600)))


LEAST_RELATIVE_WEIGHT = 1e-6  # A lighter component, relative to the heaviest, is numerical noise.


@dataclass
class Mixture:
    """sum over l of weights_l times the model's distribution around locations_l.

    >>> from sketchlearn.inference.distributions import Dirac
    >>> point = Mixture(Dirac(), np.ones(1), np.zeros((1, 2)), np.zeros((1, 0)))
    >>> point.characteristic(FrequencySet(np.ones((3, 2)))).real
    array([1., 1., 1.])
    """

    model: Model
    weights: Double
    locations: Double
    shapes: Double

    def __len__(self) -> int:
        return len(self.weights)

    def waves(self, frequencies: FrequencySet, space: Single | None = None) -> tuple[Single, Single]:
        """Real and imaginary parts of each component's characteristic function; `space` as in `FrequencySet.waves`."""
        return frequencies.waves(self.locations, self.model.exponents(self.shapes, frequencies), space)

    def characteristic(self, frequencies: FrequencySet) -> NDArray[np.complex128]:
        """The characteristic function, shifts of the phases included."""
        cosines, sines = self.waves(frequencies)
        return self.weights @ cosines.astype(np.float64) + 1j * (self.weights @ sines.astype(np.float64))

    def component_characteristics(self, frequencies: FrequencySet) -> NDArray[np.complex128]:
        """The characteristic function of each component, shifts of the phases included: (components, m)."""
        cosines, sines = self.waves(frequencies)
        return cosines.astype(np.float64) + 1j * sines.astype(np.float64)

    def sketch(self, operator: FourierFeatures) -> NDArray[Any]:
        """The expected sketch of such records, under the operator's wave and dither.

        Higher harmonics of the wave average out over the dither, so only the first, F_1, is counted.
        """
        centered = replace(self, locations=self.locations - operator.middle)
        z = centered.characteristic(FrequencySet(operator.frequencies.T, operator.dither))
        z *= operator.wave.coefficient(1) * operator.feature_weights
        return z if operator.wave.complex else 2 * z.real

    def covariances(self) -> Double:
        """Covariance of each component."""
        own = self.model.covariances(self.shapes, self.locations.shape[1])
        return np.broadcast_to(own, (len(self), *own.shape[1:])).copy()

    def variances(self) -> Double:
        """Variance of each component in each column, without keeping all covariances in memory."""
        shapes = self.shapes[:1] if self.model.tied else self.shapes
        own = [self.model.covariances(shape[None], self.locations.shape[1])[0].diagonal() for shape in shapes]
        return np.broadcast_to(np.stack(own), self.locations.shape).copy()

    def parts(self) -> tuple[Double, Double, Double]:
        """Weights, locations and covariances."""
        return self.weights, self.locations, self.covariances()

    def some(self, which: Any) -> Mixture:
        """Some of the components, by index."""
        shapes = self.shapes if self.model.tied else self.shapes[which]
        return Mixture(self.model, self.weights[which], self.locations[which], shapes)

    def untied(self) -> Mixture:
        """The mixture of diagonal Gaussians with a shape for each component instead of one for all."""
        return replace(self, model=DiagonalGaussian(), shapes=np.repeat(self.shapes, len(self), axis=0))

    def heavy(self) -> Mixture:
        """The components that have weight, with weights normalised to a sum of one."""
        kept = self.some(self.weights > LEAST_RELATIVE_WEIGHT * self.weights.max())
        return replace(kept, weights=kept.weights / kept.weights.sum())

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Double, NDArray[np.int64]]:
        """n random rows and the component of each, component by component."""
        counts = rng.multinomial(n, self.weights / self.weights.sum())
        labels = np.repeat(np.arange(len(self)), counts)
        return self.locations[labels] + np.concatenate([self.noise(*each, rng) for each in enumerate(counts)]), labels

    def noise(self, component: int, n: int, rng: np.random.Generator) -> Double:
        """n random rows of a component, around zero."""
        shape = self.shapes[0 if self.model.tied else component]
        return self.model.draw(shape[None], (n, self.locations.shape[1]), rng)[0]


def merge_components(weights: Double, means: Double, covariances: Double, k: int) -> tuple[Double, Double, Double]:
    """k Gaussians with the moments of the given ones; covariances are matrices, or variances (components, d).

    Each step merges the pair for which Runnalls' bound on the Kullback-Leibler divergence is least (IEEE Transactions
    on Aerospace and Electronic Systems 43, 2007).
    """
    n, diagonal = len(weights), covariances.ndim == 2
    weights, means, flat = weights.copy(), means.copy(), covariances.reshape(n, -1).copy()

    def log_determinants(some: Double) -> Double:
        if diagonal:
            return np.asarray(np.sum(np.log(some), axis=1))
        return np.linalg.slogdet(some.reshape(-1, *covariances.shape[1:]))[1]

    def merged(i: int, others: NDArray[np.integer]) -> tuple[Double, Double, Double]:
        """Weights, means and covariances of component i merged with each of the others."""
        total, away = weights[i] + weights[others], means[others] - means[i]
        a, b = (weights[i] / total)[:, None], (weights[others] / total)[:, None]
        outer = away**2 if diagonal else (away[:, :, None] * away[:, None, :]).reshape(-1, flat.shape[1])
        return total, a * means[i] + b * means[others], a * flat[i] + b * flat[others] + a * b * outer

    def bounds(i: int, others: NDArray[np.integer]) -> Double:
        """Twice Runnalls' bound for component i and each of the others."""
        total, _, own = merged(i, others)
        return np.asarray(total * log_determinants(own) - weights[i] * logs[i] - weights[others] * logs[others])

    logs, costs, alive = log_determinants(flat), np.full((n, n), np.inf), np.arange(n)
    for row in range(n):
        costs[row, :row] = bounds(row, alive[:row])
    while len(alive) > k:
        i, j = divmod(int(np.argmin(costs)), n)
        (weights[i],), (means[i],), (flat[i],) = merged(i, np.array([j]))
        logs[i] = log_determinants(flat[[i]])[0]
        costs[j, :] = costs[:, j] = np.inf
        alive = alive[alive != j]
        others = alive[alive != i]
        costs[np.maximum(i, others), np.minimum(i, others)] = bounds(i, others)
    return weights[alive], means[alive], flat[alive].reshape(-1, *covariances.shape[1:])
