"""Files: exact, atomic, checked, and readable without this package."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import reader
from cases import GOLDEN_ROWS, operators
from twin import record_integers

import sketchlearn as skl
from sketchlearn.core import containers as container
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.files.sketches import from_bytes

GOLDEN = Path(__file__).parents[1] / "golden" / "sketches"


@pytest.fixture
def sketch():
    return skl.features.FourierFeatures(9, 8, law=Gaussian(1.0), seed=1).sketch(GOLDEN_ROWS)


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
        ({"format": 5}, "format is newer than this sketchlearn reads"),
        ({"format": 2}, "a format of 2 says that it is private"),
        ({"ledger": {}}, "a format of 1 says that it is not private"),
        ({"format": 2, "ledger": {}}, "an object with a type"),
        ({"format": 2, "ledger": {"type": "Gaussian", "scale": 1.0}}, "'Gaussian' is not the type of any Ledger"),
        ({"format": True}, "not a sketchlearn file of a format that exists"),
        ({"operator": {"type": "os.system"}}, "'os.system' is not the type of any Operator that this version knows"),
        ({"operator": {"type": "x" * 10**6}}, r"'xxx.*\.\.\. is not the type"),
        ({"operator": {"type": "Gaussian", "scale": 1.0}}, "'Gaussian' is not the type of any Operator"),
        ({"operator": {"type": "Operator"}}, "'Operator' is not the type of any Operator"),
        ({"operator": None}, "expected the JSON form of an operator"),
        ({"count": "-1"}, "its count is not a decimal number"),
        ({"count": "3_0"}, "its count is not a decimal number"),
        ({"count": "\uff13"}, "its count is not a decimal number"),
        ({"count": "020"}, "its count is not a decimal number"),
        ({"count": 20}, "its count is not a decimal number"),
        ({"bits": 17}, "bits must be a whole number from 0 to 16"),
        ({"bits": 1.0}, "bits must be a whole number from 0 to 16"),
        ({"bits": True}, "bits must be a whole number from 0 to 16"),
        ({"sums": np.zeros(3, np.int64)}, "sums must be 16 integers"),
        ({"count": str(2**60)}, "overflow"),
        ({"count": "1"}, "the sums are larger than 1 records"),
    ],
)
def test_forged_files_are_refused_in_one_sentence(sketch, changes, message):
    with pytest.raises(skl.FormatError, match=message) as caught:
        from_bytes(forged(sketch, **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("n_features", "three", "n_features must be a whole number"),
        ("n_features", 10, "center must be|random numbers drawn here are not those"),
        ("law", {"type": "Gaussian", "scale": -1}, "scale must be a positive number"),
        ("law", "gaussian", "law must be one of"),
        ("wave", [], "wave must be one of"),
        ("wave", {"type": "Square", "complex": 2}, "complex must be True or False"),
        ("center", ["1"] * 9, "center must be 9 finite numbers"),
        ("seed", 2, "random numbers drawn here are not those"),
        ("digest", "f" * 64, "random numbers drawn here are not those"),
        ("extra", 1, "field 'extra' is unknown"),
        ("e" * 100_000, 1, r"field 'e{50,60}\.\.\. is unknown"),
    ],
)
def test_forged_operators_are_refused(sketch, field, value, message):
    form = {**sketch.operator.to_json(), field: value}
    with pytest.raises(skl.FormatError, match=message):
        from_bytes(forged(sketch, operator=form))


def test_missing_fields_are_named(sketch):
    for field in ("operator", "count", "bits"):
        _, description = container.unpack(sketch.to_bytes())
        del description["digest"], description[field]
        with pytest.raises(skl.FormatError, match=f"its description has no '{field}'"):
            from_bytes(container.pack(sketch.sums, description))


def test_digests_of_parts_are_checked():
    both = skl.features.concatenate(
        [skl.features.FourierFeatures(2, 3, law=Gaussian(1.0)), skl.features.SecondMoments(2, bound=1.0)]
    )
    form = both.to_json()
    form["parts"][0]["digest"] = "f" * 64
    with pytest.raises(skl.FormatError, match="random numbers drawn here"):
        from_bytes(forged(both.sketch([[0.5, 0.5]]), operator=form))


def test_a_small_file_cannot_ask_for_a_large_operator(sketch):
    form = {**sketch.operator.to_json(), "n_features": 65_536, "n_frequencies": 8192}
    data = forged(sketch, operator=form, sums=np.zeros(16_384, np.int64), count="0")
    with pytest.raises(skl.FormatError, match=r"would take about .* seconds and 6,4.. MB.*if you trust the file"):
        from_bytes(data)
    form = {**sketch.operator.to_json(), "n_features": 32_769, "n_frequencies": 1, "structured": True}
    with pytest.raises(skl.FormatError, match=r"would take about .* seconds .*SKETCHLEARN_TRUST_FILES=1"):
        from_bytes(forged(sketch, operator=form, sums=np.zeros(2, np.int64), count="0"))


def test_a_deeply_nested_description_is_refused(sketch):
    law = sketch.operator.law.to_json()
    for _ in range(400):
        law = {"type": "Mixture", "laws": [law], "shares": [1.0]}
    form = {**sketch.operator.to_json(), "law": law}
    data = forged(sketch, operator=form)
    with pytest.raises(skl.FormatError, match="nested too deeply"):
        from_bytes(data)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "a.sketch"
    for data in (b"", b"hello", b"\0" * 100, np.random.default_rng(0).bytes(1000), b"\xff" * 8 + b"{}"):
        path.write_bytes(data)
        with pytest.raises(skl.FormatError, match=r"not a sketchlearn file|it is empty"):
            skl.load(path)
    with pytest.raises(FileNotFoundError):
        skl.load(tmp_path / "none")


def test_same_sketch_same_bytes(sketch, tmp_path):
    other = sketch.operator.sketch(GOLDEN_ROWS[::-1], n_jobs=3)
    assert other.content() == sketch.content()
    sketch.save(tmp_path / "a.sketch")
    assert (tmp_path / "a.sketch").read_bytes() == sketch.to_bytes()
    assert os.listdir(tmp_path) == ["a.sketch"]


def test_saving_keeps_links_and_permissions(sketch, tmp_path):
    path, link = tmp_path / "a.sketch", tmp_path / "b.sketch"
    sketch.save(path)
    path.chmod(0o600)
    link.symlink_to(path)
    sketch.save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    for name, make in {"folder": os.mkdir, "pipe": os.mkfifo, "loop": lambda p: os.symlink(p, p)}.items():
        make(tmp_path / name)
        with pytest.raises(OSError, match="that is not a regular file"):
            sketch.save(tmp_path / name)
    sketch.save(tmp_path / ("a" * 250))
    with pytest.raises(FileNotFoundError, match=r"cannot save .*/no/a\.sketch: there is no folder"):
        sketch.save(tmp_path / "no" / "a.sketch")


def test_concurrent_saves_are_whole_and_for_their_owner_alone(sketch, tmp_path):
    old = os.umask(0o022)
    try:
        for i in range(20):
            path = tmp_path / f"{i}.sketch"
            with ThreadPoolExecutor(6) as pool:
                list(pool.map(sketch.save, [path] * 6))
            assert path.stat().st_mode & 0o777 == 0o600
            assert skl.load(path) == sketch
    finally:
        os.umask(old)


def test_bytes_round_trip(sketch):
    assert skl.from_bytes(sketch.to_bytes()) == sketch
    assert skl.from_bytes(bytearray(sketch.to_bytes())) == sketch


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
operator = skl.features.FourierFeatures(2, 2000, law=skl.features.frequencies.Gaussian(1.0))
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
    path = tmp_path / "a.sketch"
    sketch.save(path)
    description, sums = reader.read(path)
    assert sums.tolist() == sketch.sums.tolist()
    assert int(description["count"]) == sketch.count
    assert skl.extend.Operator.from_json(description["operator"]) == sketch.operator
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
    for single in (paths[0], str(paths[0]), sketch):
        with pytest.raises(TypeError, match="merge takes a list"):
            skl.merge(single)
    skl.features.FourierFeatures(9, 8, law=Gaussian(2.0), seed=1).sketch(GOLDEN_ROWS).save(paths[1])
    with pytest.raises(ValueError, match=r"1\.sketch: cannot add sketches: their scales differ"):
        skl.merge(paths)


def test_operators_survive_json():
    for operator in operators(9, m=8).values():
        again = skl.extend.Operator.from_json(json.loads(json.dumps(operator.to_json())))
        assert again == operator
        assert again.digest == operator.digest
