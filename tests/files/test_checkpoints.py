"""Long runs: checkpoints that survive kill -9, files that cannot be read, and what a sketch remembers of them."""

import os
from pathlib import Path

import numpy as np
import pytest
import reader
from kill import killed_runs, write_rows

import sketchlearn as skl
from sketchlearn.files.checkpoints import Reading, Work, sketch_files

OPERATOR = skl.features.FourierFeatures(3, 20, law=skl.features.frequencies.Gaussian(1.0), seed=0)


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", rng.standard_normal((500, 3)))
    return [str(tmp_path / f"{i}.npy") for i in range(3)]


def all_rows(files):
    return OPERATOR.sketch([np.load(file) for file in files])


def run(files, operator=OPERATOR, nulls="error", **reading):
    return sketch_files(operator, files, Reading(**reading, arguments={"nulls": nulls}), Work(files))


@pytest.mark.slow
def test_killed_runs_end_with_the_same_bytes(tmp_path):
    write_rows(tmp_path)
    kills, amid, ends = killed_runs(tmp_path, times=8)
    assert kills >= 8
    assert amid >= 1
    assert ends >= 1


@pytest.mark.parametrize("nulls", ["error", "drop"])
def test_a_run_goes_on_where_it_stopped(files, tmp_path, monkeypatch, nulls):
    """Stopped after every piece of a file in turn."""
    if nulls == "drop":
        rows = np.load(files[0])
        rows[::7, 1] = np.nan
        np.save(files[0], rows)
    monkeypatch.setattr("sketchlearn.files.checkpoints.LEAST_KERNEL_ROWS", 40)
    monkeypatch.setattr("sketchlearn.files.checkpoints.MOST_KERNEL_SUMS", 0)
    expected = run(files, nulls=nulls)
    from sketchlearn.files import checkpoints

    keep = checkpoints._keep
    for stop in range(1, 30, 4):
        folder, left = tmp_path / f"parts{stop}", [stop]

        def kept(*arguments, left=left):
            keep(*arguments)
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

        monkeypatch.setattr(checkpoints, "_keep", kept)
        with pytest.raises(KeyboardInterrupt):
            run(files, folder=folder, every=0.0, nulls=nulls)
        monkeypatch.setattr(checkpoints, "_keep", keep)
        again = run(files, folder=folder, every=0.0, nulls=nulls)
        assert again.sketch.to_bytes() == expected.sketch.to_bytes()
        assert again.dropped == expected.dropped == (72 if nulls == "drop" else 0)


def test_what_is_done_is_not_done_again(files, tmp_path):
    assert run(files, folder=tmp_path / "parts").kept == 0
    assert run(files, folder=tmp_path / "parts").kept == 3
    np.save(files[1], np.ones((7, 3)))
    changed = run(files, folder=tmp_path / "parts")
    assert changed.kept == 2
    assert changed.sketch == all_rows(files)
    other = skl.features.FourierFeatures(3, 20, law=skl.features.frequencies.Gaussian(2.0), seed=0)
    assert run(files, other, folder=tmp_path / "parts").kept == 0
    assert run(files, folder=tmp_path / "parts", nulls="drop").kept == 0
    assert run(files, folder=tmp_path / "parts").kept == 3


def test_damaged_and_foreign_parts_are_ignored(files, tmp_path):
    folder = tmp_path / "parts"
    run(files, folder=folder)
    parts = sorted(folder.glob("*.part"))
    parts[0].write_bytes(parts[0].read_bytes()[:-1])
    os.replace(parts[1], folder / "aside")
    (folder / "aside").rename(parts[2])  # the sketch of another file under this file's name
    again = run(files, folder=folder)
    assert again.kept == 0
    assert again.sketch == all_rows(files)


def test_bad_files_stop_the_run_or_are_listed(files, tmp_path):
    bad, odd, gone = (str(tmp_path / name) for name in ("bad.npy", "odd.npy", "gone.npy"))
    Path(bad).write_bytes(b"not an array")
    np.save(odd, np.full((4, 3), np.inf))
    for path in (bad, odd, gone):
        with pytest.raises((ValueError, OSError), match=os.path.basename(path)):
            run([files[0], path])
    made = run([gone, *files, bad, odd], skip_bad=True, folder=tmp_path / "parts")
    assert made.sketch == all_rows(files)
    assert made.sketch.skipped == (bad, gone, odd)
    assert all(path in reason for path, reason in made.skipped.items())
    with pytest.raises(ValueError, match=r"none of the 2 files could be read, the first because: .*bad"):
        run([bad, odd], skip_bad=True)


def test_a_sketch_remembers_skipped_files(files, tmp_path):
    a = skl.Sketch(OPERATOR, skipped=["b", "a", "b"])
    rest = all_rows(files)
    assert a.skipped == ("a", "b")
    both = a + rest + skl.Sketch(OPERATOR, skipped=["c"])
    assert both.skipped == ("a", "b", "c")
    assert both == rest
    assert (both - rest).skipped == both.copy().skipped == ("a", "b", "c")
    both.save(tmp_path / "a.sketch")
    assert skl.load(tmp_path / "a.sketch").skipped == ("a", "b", "c")
    assert skl.merge([tmp_path / "a.sketch", rest], overlapping=True).skipped == ("a", "b", "c")
    assert reader.read(tmp_path / "a.sketch")[0]["skipped"] == ["a", "b", "c"]
    assert b"skipped" not in rest.to_bytes()


@pytest.mark.parametrize("skipped", [[], ["b", "a"], ["a", "a"], "a", [1], None])
def test_forged_lists_of_skipped_files_are_refused(skipped):
    from sketchlearn.core import containers as container

    sketch = OPERATOR.sketch(np.ones((2, 3)))
    with pytest.raises(skl.FormatError, match="its list of skipped files is not"):
        skl.from_bytes(container.pack(sketch.sums, {**sketch.description(), "skipped": skipped}))
