"""The simulated sensors: what the server adds up is the sketch of all readings."""

import sys
from pathlib import Path

import numpy as np
import pytest

import sketchlearn as skl

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import sensor_network as network


@pytest.mark.parametrize("subsample", [None, 10])
def test_the_server_has_the_sketch_of_all_readings(subsample):
    parts = network.readings(30, seed=1)
    law = skl.features.frequencies.Gaussian(0.5)
    operator = skl.features.FourierFeatures(5, 40, law=law, wave="square", seed=3, subsample=subsample)
    server = network.Server(operator)
    for rows in parts:
        server.receive(network.Sensor(operator, rows).messages())
    assert server.sketch() == operator.sketch(np.concatenate(parts))
    header = 24 * network.SENSORS * operator.n_groups
    per_reading = 2 * (subsample or 40) // 8 + (4 if subsample else 0)  # whole bytes
    assert server.received <= header + per_reading * server.count
    assert network.bits_per_reading(operator, 1) == (22 if subsample else 80)


def test_readings_fill_their_ranges():
    rows = np.concatenate(network.readings(50, seed=2))
    assert rows.shape == (50 * network.SENSORS, 5)
    assert rows.min() >= 0
    assert rows.max() <= 1
    assert np.all(rows.std(axis=0) > 0.05)
