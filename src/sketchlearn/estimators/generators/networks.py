"""Networks that make rows of random numbers. This module needs torch, and is imported when that is there."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sketchlearn.inference.distributions import Mixture

WIDTH, DEPTH = 128, 3
ROWS_TO_SCALE = 10_000  # rows that tell how far a perceptron's first outputs spread
MOST_COMPONENTS = 2**16  # of a file


class MixtureFirst(torch.nn.Module):
    """A mixture of Gaussians for each class, and a perceptron that mends its rows: it begins as the mixture.

    The first normal numbers of an input are those of its Gaussian, the last one chooses it by its share.
    """

    edges: torch.Tensor

    def __init__(self, inputs: int, n_latent: int, n_classes: int, n_components: int, n_features: int) -> None:
        super().__init__()
        self.n_latent = n_latent
        self.register_buffer("edges", torch.empty(n_classes, n_components))  # sums of shares
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
    """How many numbers a network takes: normal ones and, if there are several classes, an indicator of the class."""
    return n_latent + (n_classes if n_classes > 1 else 0)


def mixture_first(n_latent: int, mixtures: Sequence[Mixture], seed: int) -> Any:
    """A network that makes rows of these mixtures, one per class, before it is trained."""
    k, d = max(map(len, mixtures)), mixtures[0].locations.shape[1]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        network = MixtureFirst(n_inputs(n_latent, len(mixtures)), n_latent, len(mixtures), k, d)
        for i, mixture in enumerate(mixtures):
            n, shares = len(mixture), np.cumsum(mixture.weights / mixture.weights.sum())
            network.edges[i] = torch.from_numpy(np.concatenate([shares[:-1], np.ones(k - n + 1)]))
            network.means[i, :n] = torch.from_numpy(mixture.locations)
            network.deviations[i, :n] = torch.from_numpy(np.sqrt(mixture.variances()))
            network.means[i, n:], network.deviations[i, n:] = 0.0, 1.0  # of no share
        last = network.mending[-1]
        last.weight.zero_()
        last.bias.zero_()
    return network


def perceptron(inputs: int, n_features: int, seed: int) -> Any:
    """A perceptron of three hidden layers, whose first outputs have mean 0 and variance 1 as the records have."""
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
    """The same network, not initialised, for weights of a file; others are refused before memory is taken."""
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
    """Refuses weights of other names or shapes than the network has."""
    if {name: tuple(value.shape) for name, value in network.state_dict().items()} != shapes:
        raise ValueError(f"its weights are not those of {which}")


def _perceptron(inputs: int, n_features: int) -> Any:
    layers: list[Any] = []
    for one, other in itertools.pairwise([inputs, *[WIDTH] * DEPTH]):
        layers += [torch.nn.Linear(one, other), torch.nn.SiLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, n_features))
