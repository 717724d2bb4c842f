"""A simulated network of sensors that send one bit per feature of a reading, and the server that adds them up.

Readings are like those of the Intel Berkeley laboratory (54 sensors; time of day, temperature, humidity, light,
voltage), clipped to declared ranges and brought to [0, 1]. By construction they are no mixture of Gaussians: days have
a cycle, lights are on or off, daylight falls on some sensors only, and each battery runs down at its own rate.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from sklearn.mixture import GaussianMixture

import sketchlearn as skl

SENSORS, DAYS = 54, 20
COLUMNS = ("time of day", "temperature", "humidity", "light", "voltage")
LOWEST = np.array([0.0, 12.0, 15.0, 0.0, 2.1])
HIGHEST = np.array([1.0, 34.0, 60.0, 900.0, 2.9])
COMPONENTS, PER_SENSOR, PILOT, HELD_OUT = 3, 2000, 100, 200  # readings of each sensor
FULL_SIZES, BIT_SIZES = (25, 40, 60, 100, 160, 250), (100, 160, 250, 400)  # frequencies
LARGEST, CHOSEN = 400, (100, 50, 25)  # frequencies, of which each reading contributes to some


def readings(n: int, seed: int) -> list[np.ndarray]:
    """n readings of each sensor at random times, as rows of five numbers between 0 and 1."""
    rng = np.random.default_rng(seed)
    weather = np.cumsum(rng.normal(0, 0.7, DAYS))
    weather -= weather.mean()
    moisture = rng.normal(0, 2.0, DAYS)
    come, leave = rng.normal(8.5, 0.5, DAYS) / 24, rng.normal(19.0, 1.0, DAYS) / 24
    return [_sensor(n, weather, moisture, come, leave, rng) for _ in range(SENSORS)]


def _sensor(
    n: int, weather: np.ndarray, moisture: np.ndarray, come: np.ndarray, leave: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    warmer, sunny, lamp = rng.normal(0, 1.0), rng.random() < 0.4, rng.uniform(150, 450)
    drain, fresh = rng.gamma(8, 0.0015), rng.normal(2.72, 0.03)
    day, hour = rng.integers(0, DAYS, n), rng.random(n)
    weekend = day % 7 >= 5
    office = (hour > come[day]) & (hour < leave[day]) & ~weekend & (rng.random(n) > 0.05)
    sun = np.maximum(np.sin(2 * np.pi * (hour - 0.27)), 0) * (500 if sunny else 60) * rng.uniform(0.3, 1.0, DAYS)[day]
    light = np.where(office, lamp, 0) + sun + rng.gamma(2.0, 6.0, n)
    warmth = 2.5 * np.sin(2 * np.pi * (hour - 0.38)) + 1.5 * office + (sun / 250 if sunny else 0)
    temperature = 20.5 + warmer + weather[day] + warmth + rng.normal(0, 0.5, n)
    humidity = 40 - 1.3 * (temperature - 20.5) + moisture[day] + 2 * office + rng.normal(0, 1.2, n)
    voltage = fresh - drain * (day + hour) + 0.004 * (temperature - 20.5) + rng.normal(0, 0.008, n)
    rows = np.column_stack([hour, temperature, humidity, light, voltage])
    return (np.clip(rows, LOWEST, HIGHEST) - LOWEST) / (HIGHEST - LOWEST)


@dataclass(frozen=True)
class Sensor:
    """Knows its own readings and the operator; what leaves it are signs, packed."""

    operator: skl.features.FourierFeatures
    rows: np.ndarray

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """Which part of the frequencies, and the packed signs of the readings that contribute to it.

        Without `subsample` there is one part. With it, a hash of each reading chooses the part it contributes to.
        """
        signs, _ = self.operator.write_rows(self.rows, 1)
        signs = signs.reshape(len(signs), 2, self.operator.n_groups, -1)  # two numbers per frequency
        for part in range(self.operator.n_groups):
            own = signs[:, :, part].reshape(len(signs), -1)
            chosen = own[own[:, 0] != 0]
            if len(chosen):
                yield part, skl.features.PackedBits.from_signs(chosen).to_bytes()


@dataclass
class Server:
    """Adds messages into sums of integers; it never sees a reading."""

    operator: skl.features.FourierFeatures
    received: int = 0  # bytes

    def __post_init__(self) -> None:
        parts = self.operator.n_groups
        self.sums, self.count = np.zeros((2, parts, self.operator.n_frequencies // parts), np.int64), 0

    def receive(self, messages: Iterable[tuple[int, bytes]]) -> None:
        for part, data in messages:
            bits = skl.features.PackedBits.from_bytes(data)
            self.sums[:, part] += bits.sums().reshape(2, -1)
            self.count += len(bits)
            self.received += len(data)

    def sketch(self) -> skl.Sketch:
        return skl.Sketch(self.operator, self.sums.ravel(), self.count)


def bits_per_reading(operator: skl.features.FourierFeatures, bits: int) -> int:
    """What a reading costs with so many bits per number: two numbers per frequency, and which part it is of."""
    part = (operator.n_groups - 1).bit_length()
    return 2 * (operator.subsample or operator.n_frequencies) * bits + part


def in_turn(n: int, seed: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Readings of each sensor, some of all that are sent in full before, and some that are held out."""
    parts = readings(n + PILOT + HELD_OUT, seed)
    pilot = np.concatenate([rows[:PILOT] for rows in parts])
    held_out = np.concatenate([rows[PILOT : PILOT + HELD_OUT] for rows in parts])
    return [rows[PILOT + HELD_OUT :] for rows in parts], pilot, held_out


def operator_of(pilot: np.ndarray, n_frequencies: int, wave: str, seed: int) -> skl.features.FourierFeatures:
    features = skl.features.Fourier(n_frequencies, wave=wave)
    return skl.design(pilot, n_components=COMPONENTS, task="mixture-full", features=features, seed=seed)


def likelihood(sketch: skl.Sketch, held_out: np.ndarray, seed: int) -> float:
    """Of held-out readings, in nats per reading, of the mixture that the sketch tells of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the readings are no mixture of three Gaussians, and the estimator says so
        return skl.SketchGaussianMixture(COMPONENTS, random_state=seed).fit_sketch(sketch).score(held_out)


@dataclass(frozen=True)
class Point:
    """What is sent, bits per reading, and the likelihood of held-out readings."""

    way: str
    bits: int
    likelihood: float


def points(seed: int, n: int = PER_SENSOR) -> Iterator[Point]:
    """Likelihoods of one draw of readings and operators: full precision, one bit, fewer features, raw readings."""
    parts, pilot, held_out = in_turn(n, seed)
    rows = np.concatenate(parts)
    for size in FULL_SIZES:
        full = operator_of(pilot, size, "exponential", seed)
        found = likelihood(full.sketch(rows), held_out, seed)
        yield Point("float64", bits_per_reading(full, 64), found)
        yield Point("float32", bits_per_reading(full, 32), found)
    for size in BIT_SIZES:
        bits = operator_of(pilot, size, "square", seed)
        yield Point("one bit", bits_per_reading(bits, 1), likelihood(bits.sketch(rows), held_out, seed))
    for way, wave, precision in (("float32, subsample", "exponential", 32), ("one bit, subsample", "square", 1)):
        large = operator_of(pilot, LARGEST, wave, seed)
        for chosen in CHOSEN:
            fewer = replace(large, subsample=chosen)
            found = likelihood(fewer.sketch(rows), held_out, seed)
            yield Point(way, bits_per_reading(fewer, precision), found)
    em = GaussianMixture(COMPONENTS, random_state=seed).fit(rows)
    yield Point("raw float32", 32 * len(COLUMNS), float(em.score(held_out)))


def likelihoods(seeds: Iterable[int], n: int = PER_SENSOR) -> dict[str, dict[int, list[float]]]:
    """Likelihoods by way and bits, one of each draw."""
    found: dict[str, dict[int, list[float]]] = {}
    for seed in seeds:
        for point in points(seed, n):
            found.setdefault(point.way, {}).setdefault(point.bits, []).append(point.likelihood)
    return found
