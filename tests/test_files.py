"""Files: exact, atomic, checked, and readable without this package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reader
from cases import operators
from twin import record_integers

import sketchlearn as skl
from sketchlearn import container
from sketchlearn.files import from_bytes
from sketchlearn.frequencies import Gaussian

GOLDEN = Path(__file__).parent / "golden"
GOLDEN_ROWS = (np.arange(180).reshape(20, 9) % 17 - 8).astype(np.float32) / 4


@pytest.fixture
def sketch():
    return skl.FourierFeatures(9, 8, law=Gaussian(1.0), seed=1).sketch(GOLDEN_ROWS)


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.sketch")))
def test_golden_files_of_format_1(name):
    """Files written once and checked in: they load, and what they hold is still what the twin computes."""
    loaded = skl.load(GOLDEN / f"{name}.sketch")
    operator = operators(9, m=8)[name]
    assert loaded.operator == operator
    assert loaded.count == 20
    assert np.array_equal(loaded.sums, record_integers(operator, GOLDEN_ROWS).sum(axis=0))
    assert loaded == operator.sketch(GOLDEN_ROWS)


def test_there_is_a_golden_file_of_every_operator():
    assert {path.stem for path in GOLDEN.glob("*.sketch")} == set(operators(9, m=8))


def test_every_flipped_byte_is_refused(sketch, tmp_path):
    data = sketch.to_bytes()
    path = tmp_path / "a.sketch"
    for i in range(len(data)):
        for mask in (0x01, 0x20, 0x80, 0xFF):
            path.write_bytes(data[:i] + bytes([data[i] ^ mask]) + data[i + 1 :])
            with pytest.raises(skl.FormatError):
                skl.load(path)


def test_truncated_and_extended_files_are_refused(sketch, tmp_path):
    data = sketch.to_bytes()
    path = tmp_path / "a.sketch"
    for changed in [data[:n] for n in range(0, len(data), 7)] + [data + b"\0", data + data]:
        path.write_bytes(changed)
        with pytest.raises(skl.FormatError, match=r"a\.sketch: "):
            skl.load(path)


def forged(sketch, **changes):
    """A well-formed file, digest and all, that says something else."""
    _, description = container.unpack(sketch.to_bytes())
    del description["digest"]
    return container.pack(changes.pop("sums", sketch.sums), {**description, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format 2 is newer than this version of sketchlearn reads"),
        ({"operator": {"type": "os.system"}}, "'os.system' is not a Operator that this version knows"),
        ({"operator": {"type": "Gaussian", "scale": 1.0}}, "'Gaussian' is not a Operator"),
        ({"operator": None}, "expected the JSON form of a Operator"),
        ({"count": "-1"}, "negative number of records"),
        ({"count": "many"}, "not a sketch that this version can use"),
        ({"count": None}, "its description is incomplete"),
        ({"sums": np.zeros(3, np.int64)}, "the operator gives 16 sums"),
        ({"count": str(2**60)}, "overflow"),
        ({"count": "1"}, "larger than 1 records can add up to"),
    ],
)
def test_forged_files_are_refused_in_one_sentence(sketch, changes, message):
    with pytest.raises(skl.FormatError, match=message) as caught:
        from_bytes(forged(sketch, **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", ["n_features", "law", "wave", "seed", "digest", "extra"])
def test_forged_operators_are_refused(sketch, field):
    form = sketch.operator.to_json()
    odd = {"n_features": "three", "law": {"type": "Gaussian", "scale": -1}, "wave": [], "seed": 2, "digest": "f" * 64}
    form[field] = odd.get(field, 1)
    with pytest.raises(skl.FormatError):
        from_bytes(forged(sketch, operator=form))


def test_a_deeply_nested_description_is_refused(sketch):
    law = sketch.operator.law.to_json()
    for _ in range(400):
        law = {"type": "Mixture", "laws": [law], "shares": [1.0]}
    form = {**sketch.operator.to_json(), "law": law}
    data = forged(sketch, operator=form)
    with pytest.raises(skl.FormatError):
        from_bytes(data)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "a.sketch"
    for data in (b"", b"hello", b"\0" * 100, os.urandom(1000), b"\xff" * 8 + b"{}"):
        path.write_bytes(data)
        with pytest.raises(skl.FormatError, match="not a sketchlearn file"):
            skl.load(path)
    with pytest.raises(FileNotFoundError):
        skl.load(tmp_path / "none")


def test_same_sketch_same_bytes(sketch, tmp_path):
    other = sketch.operator.sketch(GOLDEN_ROWS[::-1], n_jobs=3)
    assert other.to_bytes() == sketch.to_bytes()
    sketch.save(tmp_path / "a.sketch")
    assert (tmp_path / "a.sketch").read_bytes() == sketch.to_bytes()
    assert os.listdir(tmp_path) == ["a.sketch"]


def test_a_failed_save_leaves_the_old_file(sketch, tmp_path, monkeypatch):
    path = tmp_path / "a.sketch"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        sketch.save(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.sketch"]


def test_a_kill_in_the_middle_of_a_save_leaves_a_whole_file(tmp_path):
    """A process that saves for ever is killed at a random moment: the file is always one of those it saved."""
    program = """
import numpy as np, sketchlearn as skl, sys
operator = skl.FourierFeatures(2, 2000, law=skl.frequencies.Gaussian(1.0))
sketch = operator.sketch(np.ones((1, 2)))
while True:
    sketch.save(sys.argv[1])
    print("saved", flush=True)
    sketch.update(np.ones((1, 2)))
"""
    path = tmp_path / "a.sketch"
    for wait in (1, 5, 20):
        with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as process:
            for _ in range(wait):
                assert process.stdout.readline() == b"saved\n"
            process.kill()
        loaded = skl.load(path)
        assert loaded == loaded.operator.sketch(np.ones((int(loaded.count), 2)))


def test_the_standard_library_reader_agrees(sketch, tmp_path):
    assert len(Path(reader.__file__).read_text().splitlines()) <= 65
    path = tmp_path / "a.sketch"
    sketch.save(path)
    description, sums = reader.read(path)
    assert sums.tolist() == sketch.sums.tolist()
    assert int(description["count"]) == sketch.count
    assert skl.Operator.from_json(description["operator"]) == sketch.operator
    assert np.allclose(reader.mean(path), sketch.mean, rtol=1e-15, atol=1e-16)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="digest"):
        reader.read(path)


def test_merge_of_files(sketch, tmp_path):
    paths = []
    for i, part in enumerate(np.array_split(GOLDEN_ROWS, 3)):
        paths.append(tmp_path / f"{i}.sketch")
        sketch.operator.sketch(part).save(paths[-1])
    assert skl.merge(paths) == sketch
    assert skl.merge([skl.load(paths[0]), *map(str, paths[1:])]) == sketch
    with pytest.raises(ValueError, match="nothing to merge"):
        skl.merge([])


def test_operators_survive_json():
    for operator in operators(9, m=8).values():
        again = skl.Operator.from_json(json.loads(json.dumps(operator.to_json())))
        assert again == operator
        assert again.digest == operator.digest
