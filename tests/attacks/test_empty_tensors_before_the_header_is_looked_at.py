"""Headers of safetensors files: 57 MB of empty tensors took 14.5 s and 1.8 GB, as all were made before the header was
looked at."""

import json
import struct

import numpy as np
import pytest
import safetensors.numpy

import sketchlearn as skl
from sketchlearn.core import containers as container
from sketchlearn.files.checkpoints import Reading, Work, sketch_files
from sketchlearn.files.sketches import KnownOperator

OPERATOR = skl.features.SecondMoments(2, bound=9.0)
SKETCH = OPERATOR.sketch(np.ones((200, 2)))
SUMS = {"dtype": "I64", "shape": [5], "data_offsets": [0, 40]}
EMPTY = {"dtype": "I64", "shape": [0], "data_offsets": [40, 40]}


@pytest.fixture
def made(monkeypatch):
    """How many arrays are made of files."""
    sizes, deserialize = [], safetensors.numpy.deserialize

    def counted(data):
        found = deserialize(data)
        sizes.extend(range(len(found)))
        return found

    monkeypatch.setattr(safetensors.numpy, "deserialize", counted)
    return sizes


def forged(arrays=None, text=None, length=None, body=None):
    """A sketch's file whose header is another one, with a digest that matches where there is one."""
    data = SKETCH.to_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, numbers = json.loads(data[8 : 8 + size]), data[8 + size :]
    if arrays is not None:
        header = {"__metadata__": header["__metadata__"], **arrays}
    text = json.dumps(header).encode() if text is None else text(json.dumps(header).encode())
    made = struct.pack("<Q", len(text) if length is None else length) + text + (numbers if body is None else body)
    digest = json.loads(header["__metadata__"]["sketchlearn"])["digest"].encode()
    return container.with_digest(made.replace(digest, b"0" * 64))


MANY = {"sums": SUMS, **{f"t{i}": EMPTY for i in range(100_000)}}
FILES = {
    "100,000 empty tensors": lambda: forged(MANY),
    "20 empty tensors": lambda: forged({"sums": SUMS, **{f"t{i}": EMPTY for i in range(20)}}),
    "sums of another name": lambda: forged({"sum": SUMS}),
    "floats": lambda: forged({"sums": {**SUMS, "dtype": "F64"}}),
    "another dimension": lambda: forged({"sums": {**SUMS, "shape": [5, 1]}}),
    "many dimensions": lambda: forged({"sums": {**SUMS, "shape": [1] * 100_000}}),
    "more numbers than there are": lambda: forged({"sums": {**SUMS, "shape": [6]}}),
    "10^30 numbers": lambda: forged({"sums": {**SUMS, "shape": [10**30]}}),
    "negative numbers": lambda: forged({"sums": {**SUMS, "shape": [-5]}}),
    "negative offsets": lambda: forged({"sums": {**SUMS, "data_offsets": [-8, 32]}}),
    "huge offsets": lambda: forged({"sums": {**SUMS, "data_offsets": [2**63, 2**63 + 40]}}),
    "offsets in the wrong order": lambda: forged({"sums": {**SUMS, "data_offsets": [40, 0]}}),
    "one offset": lambda: forged({"sums": {**SUMS, "data_offsets": [40]}}),
    "no offsets": lambda: forged({"sums": {"dtype": "I64", "shape": [5]}}),
    "a hole": lambda: forged({"sums": {**SUMS, "data_offsets": [8, 48]}}, body=b"\0" * 48),
    "bytes beyond": lambda: forged(body=b"\0" * 48),
    "too few bytes": lambda: forged(body=b"\0" * 32),
    "a key that comes twice": lambda: forged(
        text=lambda text: text[:-1] + b',"sums":' + json.dumps(SUMS).encode() + b"}"
    ),
    "no object": lambda: forged(text=lambda text: b"[" + text + b"]"),
    "deep": lambda: forged(text=lambda text: text[:-1] + b',"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
    "UTF-16": lambda: forged(text=lambda text: text.decode().encode("utf-16")),
    "a length of nothing": lambda: forged(length=0),
    "a length beyond the file": lambda: forged(length=2**40),
    "the largest length": lambda: forged(length=2**64 - 1),
    "seven bytes": lambda: SKETCH.to_bytes()[:7],
}


@pytest.mark.parametrize("name", FILES)
def test_forged_headers_are_refused_before_any_array_is_made(name, made):
    data = FILES[name]()
    made.clear()
    for load in (skl.from_bytes, KnownOperator(OPERATOR).from_file):
        with pytest.raises(skl.FormatError):
            load(data)
    assert made == []


def test_an_honest_file_is_read(made):
    assert skl.from_bytes(forged()) == SKETCH
    assert made == [0]


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path, made):
    path = tmp_path / "large.sketch"
    with path.open("wb") as file:
        file.write(SKETCH.to_bytes())
        file.truncate(70_000_001)  # zeros, which take no room on disk
    for load in (skl.load, skl.load, skl.load, skl.load):
        with pytest.raises(skl.FormatError, match=r"large.sketch: it is larger than the 70 MB .*TRUST_FILES=1"):
            load(path)
    assert made == []


def test_a_checkpoint_that_costs_too_much_is_not_ignored_in_silence(tmp_path, made):
    """To leave it aside would be to begin again, each time that the run is started."""
    np.save(tmp_path / "rows.npy", np.ones((200, 2)))
    paths, reading = [str(tmp_path / "rows.npy")], Reading(folder=tmp_path / "parts")
    sketch_files(OPERATOR, paths, reading, Work(paths))
    (part,) = (tmp_path / "parts").glob("*.part")
    part.write_bytes(forged(MANY))
    made.clear()
    with pytest.raises(skl.FormatError, match="reading it would take about"):
        sketch_files(OPERATOR, paths, reading, Work(paths))
    assert made == []
