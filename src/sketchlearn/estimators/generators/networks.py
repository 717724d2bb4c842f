"""Networks that make rows of random numbers, trained until their sketch matches a given one.

Training follows gradients of |z - mean of Phi(G(noise))|^2 through the features. The squared distance of a batch of b
rows exceeds that of the network by a term that is nearly constant, as features have modulus 1: gradients of small
batches are unbiased up to that, and so are those of some of the frequencies. This module needs torch, and is imported
when that is there.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import gen_batches
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from sketchlearn.core.arrays import Double
from sketchlearn.estimators.generators.estimator import Generation
from sketchlearn.features.waves import Exponential
from sketchlearn.inference.decoders import decoder_from
from sketchlearn.inference.decoders.density import cleaned, fit_density
from sketchlearn.inference.decoders.loop import Status
from sketchlearn.inference.decoders.problem import Problem, read
from sketchlearn.inference.decoders.target import HIGHEST_HARMONIC, Target, fourier_part
from sketchlearn.inference.distributions import DiagonalGaussian, Mixture
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.sketch.sums import Sketch

WIDTH, DEPTH = 128, 3
ROWS_TO_SCALE = 10_000  # rows from which the spread of a perceptron's first outputs is estimated
MOST_COMPONENTS = 2**16  # in a file


class MixtureFirst(torch.nn.Module):
    """A mixture of Gaussians for each class, and a perceptron that corrects its rows, initially by 0.

    The first normal numbers of an input are those of its Gaussian; the last one chooses the component by its weight.
    """

    edges: torch.Tensor

    def __init__(self, inputs: int, n_latent: int, n_classes: int, n_components: int, n_features: int) -> None:
        super().__init__()
        self.n_latent = n_latent
        self.register_buffer("edges", torch.empty(n_classes, n_components))  # cumulative weights
        self.means = torch.nn.Parameter(torch.empty(n_classes, n_components, n_features))
        self.deviations = torch.nn.Parameter(torch.empty(n_classes, n_components, n_features))
        self.mending = _perceptron(inputs + n_features, n_features)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        n_classes, n_components, n_features = self.means.shape
        which = inputs[:, self.n_latent :].argmax(1) if n_classes > 1 else torch.zeros(len(inputs), dtype=torch.long)
        chance = torch.special.ndtr(inputs[:, self.n_latent - 1 : self.n_latent])
        part = (chance > self.edges[which]).sum(1).clamp(max=n_components - 1)
        rows = self.means[which, part] + self.deviations[which, part] * inputs[:, :n_features]
        mended: torch.Tensor = rows + self.mending(torch.cat([inputs, rows], 1))
        return mended


def n_inputs(n_latent: int, n_classes: int) -> int:
    """The number of a network's inputs: normal numbers and, for several classes, an indicator of the class."""
    return n_latent + (n_classes if n_classes > 1 else 0)


def mixture_first(n_latent: int, mixtures: Sequence[Mixture], seed: int) -> Any:
    """A network that generates rows of these mixtures, one per class, before it is trained."""
    k, d = max(map(len, mixtures)), mixtures[0].locations.shape[1]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        network = MixtureFirst(n_inputs(n_latent, len(mixtures)), n_latent, len(mixtures), k, d)
        for i, mixture in enumerate(mixtures):
            n, shares = len(mixture), np.cumsum(mixture.weights / mixture.weights.sum())
            network.edges[i] = torch.from_numpy(np.concatenate([shares[:-1], np.ones(k - n + 1)]))
            network.means[i, :n] = torch.from_numpy(mixture.locations)
            network.deviations[i, :n] = torch.from_numpy(np.sqrt(mixture.variances()))
            network.means[i, n:], network.deviations[i, n:] = 0.0, 1.0  # of weight 0
        for parameter in network.mending[-1].parameters():
            parameter.zero_()
    return network


def perceptron(inputs: int, n_features: int, seed: int) -> Any:
    """A perceptron of three hidden layers, whose initial outputs have mean 0 and variance 1, as the records have."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        network = _perceptron(inputs, n_features)
        *hidden, last = (layer for layer in network if isinstance(layer, torch.nn.Linear))
        for layer in hidden:
            torch.nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        made = network(torch.randn(ROWS_TO_SCALE, inputs))
        last.weight /= made.std(0)[:, None]
        last.bias.copy_((last.bias - made.mean(0)) / made.std(0))
    return network


def bare_network(n_latent: int, n_classes: int, n_features: int, shapes: dict[str, tuple[int, ...]]) -> Any:
    """An uninitialised network for weights of a file; wrong shapes are refused before memory is allocated."""
    inputs, means = n_inputs(n_latent, n_classes), shapes.get("means")
    with torch.device("meta"):
        if means is None:
            network: Any = _perceptron(inputs, n_features)
        elif len(means) == 3 and 1 <= means[1] <= MOST_COMPONENTS and n_latent > n_features:
            network = MixtureFirst(inputs, n_latent, n_classes, means[1], n_features)
        else:
            raise ValueError("its weights are not those of the default network")
    check_weights(network, shapes, "the default network")
    return network.to_empty(device="cpu")


def check_weights(network: Any, shapes: dict[str, tuple[int, ...]], which: str) -> None:
    """Refuses weights whose names or shapes are not those of the network."""
    if {name: tuple(value.shape) for name, value in network.state_dict().items()} != shapes:
        raise ValueError(f"its weights are not those of {which}")


def _perceptron(inputs: int, n_features: int) -> Any:
    sizes = itertools.pairwise([inputs, *[WIDTH] * DEPTH])
    hidden = [layer for pair in sizes for layer in (torch.nn.Linear(*pair), torch.nn.SiLU())]
    return torch.nn.Sequential(*hidden, torch.nn.Linear(WIDTH, n_features))


START_COMPONENTS = 20  # of the initial mixture, and several times as many if it needs them
MOST_COLUMNS = 64  # of an initial mixture: in 256 columns, with frequencies for each, it took minutes
MOST_IN_ALL = 200  # components of all classes
ROWS_PER_COMPONENT = 10
NUMBERS_PER_PARAMETER = 2  # of a sketch
LEARNING_RATE, MENDING_RATE, BETAS = 5e-3, 1e-3, (0.9, 0.99)  # the second for networks that begin as a mixture
WARM_UP_SHARE = 0.02  # of the steps, in which the learning rate grows; then it falls as a cosine
FREQUENCIES_PER_STEP = 300  # random ones: many rough steps are better than few fine ones
AVERAGE_DECAY = 0.99  # share of the weights' running mean that each step keeps
MOST_SPREAD, PULL_STRENGTH = 1.5, 0.1  # Columns with a larger second moment, relative to the records', are pulled in.
CHECK_STEPS, CHECK_ROWS = 100, 20_000  # steps between checks of the residual, and rows that are generated for one
EXPLAINED_MISFIT = 1.25  # residual relative to that of noise at which the sketch counts as matched
PATIENCE = 3  # successive checks with such a residual that end the training
BLOCK_ROWS = 10_000  # rows generated at a time


class Goal:
    """The sketch to match, of records less their mean, in units of their standard deviations."""

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

        Columns that spread far more than the records are pulled in: a few distant rows may not affect the sketch.
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
        """The mean square difference of a value from the network's, and the part of it due to the sketch's noise.

        Two halves of the generated rows have independent noise: the product of their residuals is unbiased, and their
        difference gives the variance of the features. The harmonics of the wave in the sketch of these rows are
        subtracted from the values to match.
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
    """The initial network: a mixture of Gaussians decoded from each sketch.

    It needs more latent numbers than columns; with fewer, or in hundreds of columns, it is a random perceptron.
    """
    seed, d = int(rng.integers(2**63)), fourier_part(sketches[0])[1].n_features
    if n_latent <= d or d > MOST_COLUMNS:
        return perceptron(n_inputs(n_latent, len(sketches)), d, seed)
    most, mixtures = min(START_COMPONENTS, max(2, MOST_IN_ALL // len(sketches))), []
    for i, sketch in enumerate(sketches):
        say(f"initial mixture: class {i + 1} of {len(sketches)}")
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
            looks = [
                goal.look(made_rows(averaged.module, goal.place, (n_latent, which, k), CHECK_ROWS, noise))
                for which, goal in enumerate(goals)
            ]
            cost, floor = (max(float(np.mean(column)), 0.0) for column in zip(*looks, strict=True))
            if not math.isfinite(cost):
                raise FloatingPointError("the network gives rows that are not finite: rescale it or its last layer")
            curve.append(cost)
            say(f"step {step} of {steps}: residual {math.sqrt(cost):.3g}, {cost / floor:.3g} times the noise, squared")
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
    network: Any, place: tuple[Double, Double], inputs: tuple[int, int, int], n_rows: int, noise: torch.Generator
) -> Double:
    """Rows of a class with this mean and these deviations; `inputs` are n_latent, the class and their number."""
    mean, deviations = place
    made = np.empty((n_rows, len(mean)))
    for some in gen_batches(n_rows, BLOCK_ROWS):
        made[some] = network(_inputs(some.stop - some.start, *inputs, noise)).detach().double().numpy()
    return mean + deviations * made


def _check(network: Any, n_inputs: int, n_columns: int) -> None:
    """Refuses networks that do not map latent numbers to rows."""
    try:
        shape = tuple(network(torch.zeros(2, n_inputs)).shape)
    except RuntimeError as error:
        raise ValueError(f"the network must take rows of {n_inputs} numbers (n_latent, classes): {error}") from None
    if shape != (2, n_columns):
        raise ValueError(f"the network must give rows of {n_columns} columns, but for 2 rows it gives shape {shape}")
