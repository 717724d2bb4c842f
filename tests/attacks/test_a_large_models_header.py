"""Generators: a model of 23 MB took 9.6 s, as hundreds of thousands of tensors were made before their names were
compared with those of its network."""

import json
import struct

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.core.containers import MODEL
from sketchlearn.estimators.files import model_from_bytes, model_to_bytes

pytest.importorskip("torch")
import safetensors.torch

EMPTY = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}


@pytest.fixture
def made(monkeypatch):
    """How many arrays are made of files."""
    sizes, deserialize = [], safetensors.torch.deserialize

    def counted(data):
        found = deserialize(data)
        sizes.extend(range(len(found)))
        return found

    monkeypatch.setattr(safetensors.torch, "deserialize", counted)
    return sizes


@pytest.fixture(scope="module")
def honest():
    rows = np.random.default_rng(0).standard_normal((300, 2))
    model = skl.SketchGenerator(
        max_iter=2, features=skl.features.Fourier(n_frequencies=20), batch_size=20, random_state=0
    ).fit(rows)
    return model_to_bytes(model)


def with_header(data, change):
    """The file with another header, and perhaps other numbers after it."""
    size = struct.unpack("<Q", data[:8])[0]
    header, numbers = json.loads(data[8 : 8 + size]), data[8 + size :]
    numbers = change(header, numbers) or numbers
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + numbers


def test_many_tensors_are_counted_before_they_are_made(made):
    entry = json.dumps({"kind": MODEL, "version": 1, "type": "generator", "own_network": False})
    header = {"__metadata__": {"sketchlearn": entry}, **{f"t{i}": EMPTY for i in range(200_000)}}
    text = json.dumps(header).encode()
    with pytest.raises(skl.FormatError, match="reading it would take about"):
        model_from_bytes(struct.pack("<Q", len(text)) + text)
    assert made == []


def renamed(header, _):
    header["weight of nothing"] = header.pop("edges")


def added(header, _):
    header |= {f"t{i}": EMPTY for i in range(100)}


def wider(header, numbers):
    shape, (_, last) = [1, 1, 10_000_000], header["means"]["data_offsets"]
    header["means"] |= {"shape": shape, "data_offsets": [last, last + 40_000_000]}
    return numbers + b"\0" * 40_000_000


def lifted(header, _):
    header |= {f"lift:{name}": EMPTY for name in ("back", "slopes", "means")}


@pytest.mark.parametrize("change", [renamed, added, wider, lifted])
def test_other_weights_are_refused_before_they_are_made(change, honest, made):
    made.clear()
    with pytest.raises(skl.FormatError, match=r"weights are not those|directions do not fit"):
        model_from_bytes(with_header(honest, change))
    assert made == []


def test_an_honest_generator_is_read(honest, made):
    made.clear()
    model = model_from_bytes(with_header(honest, lambda _header, _numbers: None))
    assert model.sample(3).shape == (3, 2)
    assert len(made) == len(model.network_.state_dict())
