"""Networks whose sketch matches a given one: gradients of |z - mean of Phi(G(noise))|^2 through the features.

The squared distance of a batch of b rows exceeds that of the network by a term that is all but constant, as features
have modulus 1: gradients of small batches are fair, and so are those of some of the frequencies.
This module needs torch, and is imported when that is there.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import gen_batches
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from sketchlearn.core.arrays import Double
from sketchlearn.estimators.generators.fitted import Generation
from sketchlearn.estimators.generators.networks import MixtureFirst, mixture_first, n_inputs, perceptron
from sketchlearn.features.waves import Exponential
from sketchlearn.inference.decoders import decoder_from
from sketchlearn.inference.decoders.density import cleaned, fit_density
from sketchlearn.inference.decoders.loop import Status
from sketchlearn.inference.decoders.problem import Problem, read
from sketchlearn.inference.decoders.target import HIGHEST_HARMONIC, Target, fourier_part
from sketchlearn.inference.distributions import DiagonalGaussian, Mixture
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.sketch.sums import Sketch

START_COMPONENTS = 20  # of the mixture that a network begins with, and several times as many if it needs them
MOST_COLUMNS = 64  # of a mixture to begin with: in 256 columns, with frequencies for each, one took minutes
MOST_IN_ALL = 200  # components of all classes
ROWS_PER_COMPONENT = 10
NUMBERS_PER_PARAMETER = 2  # of a sketch, that a component is worth
LEARNING_RATE, MENDING_RATE, BETAS = 5e-3, 1e-3, (0.9, 0.99)  # the second for networks that begin as a mixture
WARM_UP_SHARE = 0.02  # of the steps, in which the learning rate grows; then it falls as a cosine
FREQUENCIES_PER_STEP = 300  # at random: many rough steps are better than few fine ones
AVERAGE_DECAY = 0.99  # share of the weights' running mean that each step keeps
MOST_SPREAD, PULL_STRENGTH = 1.5, 0.1  # Columns with a larger second moment, relative to the records', are pulled in.
CHECK_STEPS, CHECK_ROWS = 100, 20_000  # steps between checks of the residual, and rows that are generated for one
EXPLAINED_MISFIT = 1.25  # What is left is then as small as the noise, up to chance.
PATIENCE = 3  # explained checks in a row that end the training
BLOCK_ROWS = 10_000  # rows generated at a time


class Goal:
    """The sketch to match, of records less their mean, in units of their deviations."""

    def __init__(self, sketch: Sketch, batch: int) -> None:
        part, operator = fourier_part(sketch)
        target = Target.of(part)
        mean, variances, _ = read(target, 1)
        deviations = np.sqrt(variances)
        self._operator, self.target, self._count = operator, target, float(part.count)
        self.place = target.origin + target.unit * mean, target.unit * deviations  # mean and deviations of records
        omega, shift = target.frequencies.omega.astype(np.float64), target.frequencies.shift
        self._omega = torch.from_numpy((omega * deviations).astype(np.float32))
        self._offset = torch.from_numpy(np.float32(omega @ mean + (0 if shift is None else shift)))
        self._values, self._weights = torch.from_numpy(target.parts), torch.from_numpy(target.part_weights)
        self._some = min(FREQUENCIES_PER_STEP, len(target))
        self._phases, self._cosines, self._sines = (torch.empty(batch, self._some) for _ in range(3))

    def pull(self, rows: torch.Tensor, noise: torch.Generator) -> torch.Tensor:
        """The gradient of the mean square distance at some frequencies, for each row.

        Columns that spread far more than the records are pulled in: a few far rows change less than a sketch's noise.
        """
        rows, which = rows.detach(), torch.randperm(len(self.target), generator=noise)[: self._some]
        omega = self._omega[which]
        torch.addmm(self._offset[which], rows, omega.T, out=self._phases)
        torch.cos(self._phases, out=self._cosines)
        torch.sin(self._phases, out=self._sines)
        left = torch.stack([self._cosines.mean(0), self._sines.mean(0)]) - self._values[:, which]
        forces = left * self._weights[:, which] * (2 / len(rows) / len(which))
        toward = self._cosines @ (forces[1, :, None] * omega) - self._sines @ (forces[0, :, None] * omega)
        excess = ((rows**2).mean(0) - MOST_SPREAD).clamp(min=0)
        return toward + rows * (excess * (PULL_STRENGTH / len(rows)))

    def look(self, rows: Double) -> tuple[float, float]:
        """The mean square distance of a value from the network's, and the part of it that noise of the sketch makes.

        Two halves of the generated rows have independent noise: the product of what they leave has none on average,
        and their difference tells how noisy the features are. Where the wave has harmonics, what they add to the
        sketch of these rows is taken off the values to match.
        """
        target = self.target
        halves = [Target.of(self._operator.sketch(half)).values for half in np.array_split(rows, 2)]
        first, second = (np.stack([left.real, left.imag]) for left in (target.values - half for half in halves))
        weights = target.part_weights / len(target)
        if target.harmonics:
            plain = replace(self._operator, wave=Exponential(), subsample=None).sketch(rows).mean
            shift = target.frequencies.shift
            first_harmonic = plain if shift is None else (plain * np.exp(1j * shift)).real
            more = (halves[0] + halves[1]) / 2 - first_harmonic
            self._values = torch.from_numpy(replace(target, values=target.values - more).parts)
        per_row = float(np.sum(weights * (first - second) ** 2)) * len(rows) / 4
        return float(np.sum(weights * first * second)), per_row / self._count + target.released


def first_network(
    sketches: Sequence[Sketch], n_latent: int, rng: np.random.Generator, say: Callable[[str], None]
) -> Any:
    """The network that training begins with: a mixture of Gaussians decoded from each sketch, as far as it tells.

    It needs a number more than there are columns; with fewer, or in hundreds of columns, a perceptron begins with
    nothing.
    """
    seed, d = int(rng.integers(2**63)), fourier_part(sketches[0])[1].n_features
    if n_latent <= d or d > MOST_COLUMNS:
        return perceptron(n_inputs(n_latent, len(sketches)), d, seed)
    most, mixtures = min(START_COMPONENTS, max(2, MOST_IN_ALL // len(sketches))), []
    for i, sketch in enumerate(sketches):
        say(f"a mixture to begin with: class {i + 1} of {len(sketches)}")
        with one_blas_thread():
            mixtures.append(_begin(sketch, most, rng))
    return mixture_first(n_latent, mixtures, seed)


def _begin(sketch: Sketch, most: int, rng: np.random.Generator) -> Mixture:
    """A diagonal mixture, of records less their mean, in units of their deviations."""
    (mean, deviations), target = Goal(sketch, 1).place, Target.of(fourier_part(sketch)[0], HIGHEST_HARMONIC)
    k = int(min(most, target.n_numbers // (NUMBERS_PER_PARAMETER * (2 * target.n_features + 1))))
    k = min(k, int(sketch.count) // ROWS_PER_COMPONENT)
    problem, decoder = Problem.of(target, max(k, 1)), decoder_from("auto")
    problem = cleaned(problem, decoder, rng)
    density, outcome = fit_density(problem, decoder, rng)
    if outcome.status is Status.HIDDEN:
        density = problem.in_data_units(problem.one_gaussian)
    variances = density.variances() / deviations**2
    return Mixture(DiagonalGaussian(), density.weights, (density.locations - mean) / deviations, variances)


def match(
    sketches: Sequence[Sketch],
    labels: tuple[Any, ...] | None,
    shares: Double,
    network: Any,
    n_latent: int,
    *,
    batch: int,
    steps: int,
    rng: np.random.Generator,
    say: Callable[[str], None],
) -> Generation:
    """Trains a copy of a network until its sketches match those of the classes, which have these labels and shares.

    The network maps `n_inputs` numbers to rows of the data less their mean, in units of their deviations.
    """
    share = -(-batch // len(sketches))
    goals = [Goal(sketch, share) for sketch in sketches]
    places, k = [goal.place for goal in goals], len(goals)
    network = copy.deepcopy(network).train()
    _check(network, n_inputs(n_latent, k), len(places[0][0]))
    averaged = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(AVERAGE_DECAY), use_buffers=True).eval()
    rate = MENDING_RATE if isinstance(network, MixtureFirst) else LEARNING_RATE
    optimizer = torch.optim.Adam(network.parameters(), rate, BETAS)
    noise = torch.Generator().manual_seed(int(rng.integers(2**63)))
    curve: list[float] = []
    good, step, cost, floor = 0, 0, math.inf, 1.0
    for step in range(1, steps + 1):
        progress = step / steps
        schedule = min(1.0, progress / WARM_UP_SHARE) * (1 + math.cos(math.pi * progress)) / 2
        optimizer.param_groups[0]["lr"] = rate * schedule
        inputs = [_inputs(share, n_latent, which, k, noise) for which in range(k)]
        rows = network(torch.cat(inputs))
        optimizer.zero_grad()
        rows.backward(torch.cat([goal.pull(part, noise) for goal, part in zip(goals, rows.split(share), strict=True)]))
        optimizer.step()
        averaged.update_parameters(network)
        if step % CHECK_STEPS == 0 or step == steps:
            each = enumerate(goals)
            drawn = (made_rows(averaged.module, goal.place, n_latent, i, k, CHECK_ROWS, noise) for i, goal in each)
            looks = [goal.look(rows) for goal, rows in zip(goals, drawn, strict=True)]
            cost, floor = (max(float(np.mean(column)), 0.0) for column in zip(*looks, strict=True))
            if not math.isfinite(cost):
                raise FloatingPointError("the network gives rows that are not finite: rescale it or its last layer")
            curve.append(cost)
            say(f"step {step} of {steps}: residual {math.sqrt(cost):.3g}, misfit {cost / floor:.3g}")
            good = good + 1 if cost <= EXPLAINED_MISFIT * floor else 0
            if good == PATIENCE:
                break
    return Generation(
        labels=labels,
        shares=shares,
        means=np.stack([mean for mean, _ in places]),
        deviations=np.stack([deviations for _, deviations in places]),
        n_latent=n_latent,
        residual=math.sqrt(cost),
        misfit=cost / floor,
        curve=np.array(curve),
        iterations=step,
        network=averaged.module,
    )


def _inputs(n_rows: int, n_latent: int, which: int, n_classes: int, noise: torch.Generator) -> torch.Tensor:
    """Normal numbers and, if there are several classes, which one it is."""
    latent = torch.randn(n_rows, n_latent, generator=noise)
    indicator = torch.eye(n_classes)[which].expand(n_rows, n_classes)
    return latent if n_classes == 1 else torch.cat([latent, indicator], dim=1)


def made_rows(
    network: Any,
    place: tuple[Double, Double],
    n_latent: int,
    which: int,
    n_classes: int,
    n_rows: int,
    noise: torch.Generator,
) -> Double:
    """Rows that a network makes of a class with this mean and these deviations."""
    mean, deviations = place
    made = np.empty((n_rows, len(mean)))
    for some in gen_batches(n_rows, BLOCK_ROWS):
        inputs = _inputs(some.stop - some.start, n_latent, which, n_classes, noise)
        made[some] = network(inputs).detach().double().numpy()
    return mean + deviations * made


def _check(network: Any, n_inputs: int, n_columns: int) -> None:
    """Refuses networks that do not map latent numbers to rows."""
    try:
        shape = tuple(network(torch.zeros(2, n_inputs)).shape)
    except RuntimeError as error:
        raise ValueError(f"the network must take rows of {n_inputs} numbers (n_latent, classes): {error}") from None
    if shape != (2, n_columns):
        raise ValueError(
            f"the network must give rows of {n_columns} columns, but for 2 rows its output has shape {shape}"
        )
