"""Attacks with files: links and forged parts in checkpoints, names that steer terminals and spreadsheets, and who may
read what an exact sketch gives away."""

import csv
import functools
import io
import json
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import called, done

import sketchlearn as skl
from sketchlearn.core import containers as container
from sketchlearn.core.limits import FEW_RECORDS
from sketchlearn.core.messages import WARNED
from sketchlearn.core.owner_folder import LinkError
from sketchlearn.files.checkpoints import Reading, Work, sketch_files
from sketchlearn.files.designs import design_to_bytes

OPERATOR = skl.features.FourierFeatures(3, 20, law=skl.features.frequencies.Gaussian(1.0), seed=0)
ONE = OPERATOR.sketch(np.zeros((1, 3)))
EVIL = "price\x1b]0;owned\x07\x1b[2J"
SECRET = b"what the link leads to"


def permissions(path):
    return os.stat(path).st_mode & 0o777


def run(files, **reading):
    return sketch_files(OPERATOR, files, Reading(**reading), Work(files))


@pytest.fixture
def umask_022():
    old = os.umask(0o022)
    yield
    os.umask(old)


@pytest.fixture(params=["npy", "csv", "csv.gz"])
def file(request, tmp_path):
    rows = np.random.default_rng(0).standard_normal((500, 3))
    path = tmp_path / f"rows.{request.param}"
    if request.param == "npy":
        np.save(path, rows)
    else:
        pd.DataFrame(rows, columns=list("abc")).to_csv(path, index=False)
    return str(path)


# Checkpoints


@pytest.mark.parametrize("target", ["text", "sketch", "missing"])
def test_a_link_in_a_checkpoint_is_not_written_through(file, target, tmp_path):
    """Somebody who may write into the folder puts a link to another file of the victim under a part's name."""
    folder, victim = tmp_path / "parts", tmp_path / "victim"
    run([file], folder=folder)
    (part,) = folder.glob("*.part")
    if target != "missing":
        victim.write_bytes(part.read_bytes() if target == "sketch" else SECRET)
    before = victim.read_bytes() if target != "missing" else None
    part.unlink()
    part.symlink_to(victim)
    for skip_bad in (False, True):
        with pytest.raises(LinkError, match=rf"{part.name} is a link, .*: remove it, or give another folder"):
            run([file], folder=folder, skip_bad=skip_bad)
    assert part.is_symlink()
    assert (victim.read_bytes() if victim.exists() else None) == before


def test_a_link_that_comes_while_rows_are_read_is_not_written_through(file, tmp_path, monkeypatch):
    folder, victim = tmp_path / "parts", tmp_path / "victim"
    run([file], folder=folder)
    (part,) = folder.glob("*.part")
    part.unlink()
    victim.write_bytes(SECRET)
    sketch = skl.features.FourierFeatures.sketch

    def sketch_and_link(*arguments, **more):
        part.symlink_to(victim)
        return sketch(*arguments, **more)

    monkeypatch.setattr(skl.features.FourierFeatures, "sketch", sketch_and_link)
    with pytest.raises(LinkError, match="is a link"):
        run([file], folder=folder)
    assert victim.read_bytes() == SECRET


def test_a_link_that_comes_after_the_check_is_replaced_not_followed(tmp_path, monkeypatch):
    path, victim = tmp_path / "a.part", tmp_path / "victim"
    victim.write_bytes(SECRET)
    replace = os.replace

    def link_and_replace(part, target):
        os.symlink(victim, path)
        replace(part, target)

    monkeypatch.setattr(os, "replace", link_and_replace)
    container.write(path, b"a part", owner_only=True, through_links=False)
    assert victim.read_bytes() == SECRET
    assert path.read_bytes() == b"a part"
    assert not path.is_symlink()


def test_a_pipe_in_a_checkpoint_is_not_waited_for(file, tmp_path):
    folder = tmp_path / "parts"
    run([file], folder=folder)
    (part,) = folder.glob("*.part")
    part.unlink()
    os.mkfifo(part)
    with pytest.raises(LinkError, match="is not a regular file"):
        run([file], folder=folder)


def test_the_design_of_a_checkpoint_is_not_written_through_a_link(file, tmp_path):
    arguments = ("sketch", file, "-k", 3, "--checkpoint", tmp_path / "parts", "-o", tmp_path / "a.sketch")
    done(*arguments)
    (design,) = (tmp_path / "parts").glob("design-*.json")
    assert permissions(design) == 0o600
    (tmp_path / "victim").write_bytes(SECRET)
    design.unlink()
    design.symlink_to(tmp_path / "victim")
    result = called(*arguments)
    assert result.returncode == 1
    assert f"{design} is a link" in result.stderr
    assert (tmp_path / "victim").read_bytes() == SECRET


def resigned(data, sketch=None, **progress):
    """A part with other facts, or another sketch, and a digest that matches."""
    facts = container.unpack(data)[1]["progress"]
    return (sketch or skl.from_bytes(data)).to_bytes(progress={**facts, **progress})


FORGERIES = {
    "fewer rows than the sketch": {"rows": 499},
    "more rows than the sketch": {"rows": 501},
    "a range before the first row": {"rows": -1},
    "dropped rows where none may be": {"dropped": 1},
    "negative dropped rows": {"dropped": -1},
    "true for a number": {"rows": True},
    "unfinished, with a false count": {"done": False, "rows": 20},
    "no rows": {"sketch": skl.Sketch(OPERATOR), "rows": 0, "done": False},
    "a billion rows": {"sketch": skl.Sketch(OPERATOR, 10**9 * ONE.sums, 10**9), "rows": 10**9},
    "weights": {"sketch": OPERATOR.sketch(np.zeros((100, 3)), sample_weight=np.full(100, 5))},
    "fractions": {"sketch": OPERATOR.sketch(np.eye(3), sample_weight=[250.5, 0.5, 249.0])},
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_part_is_not_believed(name, file, tmp_path):
    folder, expected = tmp_path / "parts", OPERATOR.sketch(file)
    assert run([file], folder=folder).sketch == expected
    (part,) = folder.glob("*.part")
    part.write_bytes(resigned(part.read_bytes(), **FORGERIES[name]))
    again = run([file], folder=folder)
    assert again.kept == 0
    assert again.dropped == 0
    assert again.sketch == expected


def test_a_finished_part_of_fewer_rows_than_the_file_says_is_not_believed(tmp_path):
    rows = np.random.default_rng(0).standard_normal((500, 3))
    file, folder = tmp_path / "rows.npy", tmp_path / "parts"
    np.save(file, rows)
    run([str(file)], folder=folder)
    (part,) = folder.glob("*.part")
    part.write_bytes(resigned(part.read_bytes(), OPERATOR.sketch(rows[:400]), rows=400))
    again = run([str(file)], folder=folder)
    assert (again.kept, again.sketch) == (0, OPERATOR.sketch(rows))


def test_a_part_of_another_file_is_noticed(tmp_path):
    """Two files of as many rows: one part, signed anew for the other file, would count its rows twice."""
    files, folder = [str(tmp_path / f"{i}.npy") for i in range(2)], tmp_path / "parts"
    for i, file in enumerate(files):
        np.save(file, np.full((50, 3), float(i)))
    run(files[:1], folder=folder)
    (first,) = folder.glob("*.part")
    run(files, folder=folder)
    (second,) = set(folder.glob("*.part")) - {first}
    second.write_bytes(resigned(second.read_bytes(), skl.from_bytes(first.read_bytes())))
    with pytest.raises(ValueError, match=r"has the same rows in .*parts as another file has: remove the folder"):
        run(files, folder=folder)


# Who may read


@pytest.mark.usefixtures("umask_022")
def test_exact_sketches_and_checkpoints_are_for_their_owner_alone(file, tmp_path):
    exact, private, folder = tmp_path / "exact", tmp_path / "private", tmp_path / "deep" / "parts"
    sketch = OPERATOR.with_origin("declared").sketch(file)
    sketch.save(exact)
    seeded = tmp_path / "seeded"  # its noise can be subtracted
    skl.privatize(sketch, epsilon=1.0, seed_for_tests_not_private=0).save(seeded)
    assert permissions(seeded) == 0o600
    skl.privatize(sketch, epsilon=1.0, already=sketch.released).save(private)
    skl.save(OPERATOR, tmp_path / "design")
    run([file], folder=folder)
    (part,) = folder.glob("*.part")
    found = {path.name: oct(permissions(path)) for path in (exact, private, tmp_path / "design", folder, part)}
    assert list(found.values()) == ["0o600", "0o644", "0o644", "0o700", "0o600"], found
    for mode in (0o640, 0o666):
        exact.chmod(mode)
        sketch.save(exact)
        assert permissions(exact) == mode


@pytest.mark.usefixtures("umask_022")
def test_a_file_that_is_being_written_is_for_its_owner_alone(tmp_path, monkeypatch):
    """Nobody opens it before its permissions are set, not even where the old file is closed to others."""
    seen, replace, path = [], os.fsync, tmp_path / "a.sketch"

    def look(number):
        seen.append(os.fstat(number).st_mode & 0o777)
        replace(number)

    sketch = OPERATOR.sketch(np.zeros((200, 3)))
    sketch.save(path)
    path.chmod(0o640)
    monkeypatch.setattr(os, "fsync", look)
    sketch.save(path)
    sketch.save(tmp_path / "b.sketch")
    assert seen[::2] == [0o600, 0o600]
    assert permissions(path) == 0o640


@pytest.mark.usefixtures("umask_022")
def test_commands_write_exact_sketches_for_their_owner_alone(tmp_path):
    np.save(tmp_path / "one.npy", np.random.default_rng(0).standard_normal((300, 2)))
    np.save(tmp_path / "two.npy", np.random.default_rng(1).standard_normal((300, 2)))
    done("design", "--bounds", "-5,5", "--columns", "a,b", "-k", 2, "-o", "design.json", cwd=tmp_path)
    for name in ("one", "two"):
        done("sketch", f"{name}.npy", "--design", "design.json", "-o", f"{name}.sketch", cwd=tmp_path)
    done("merge", "one.sketch", "two.sketch", "-o", "both.sketch", cwd=tmp_path)
    done("subtract", "both.sketch", "two.sketch", "-o", "rest.sketch", cwd=tmp_path)
    done("privatize", "both.sketch", "--epsilon", 5, "-o", "private.sketch", cwd=tmp_path)
    done("fit", "kmeans", "-k", 2, "both.sketch", "-o", "model.json", cwd=tmp_path)
    found = {path.name: permissions(path) for path in tmp_path.iterdir() if path.suffix in (".sketch", ".json")}
    for_all = {"private.sketch", "design.json", "model.json"}
    assert found == {name: 0o644 if name in for_all else 0o600 for name in found}
    assert len(found) == 7


# Few records


def test_saving_few_records_warns_once(tmp_path):
    path, few, many = tmp_path / "a.sketch", OPERATOR.sketch(np.zeros((5, 3))), OPERATOR.sketch(np.zeros((100, 3)))
    WARNED.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        skl.Sketch(OPERATOR).save(path)
        many.save(path)
        declared = OPERATOR.with_origin("declared").sketch(np.zeros((5, 3)))
        skl.privatize(declared, epsilon=1.0, seed_for_tests_not_private=0).save(path)
    with pytest.warns(
        UserWarning, match=r"gives them back, and this one has 5 records: .* privatize, or merge"
    ) as told:
        few.save(path)
    assert [Path(warning.filename) for warning in told] == [Path(__file__)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few.save(path)


def test_commands_warn_of_few_records(tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("few", 99), ("many", 500)):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((n, 2)))
    done("design", "--bounds", "-5,5", "--columns", "a,b", "-k", 2, "-o", "design.json", cwd=tmp_path)
    few = ("sketch", "few.npy", "--design", "design.json", "-o", "few.sketch")
    many = ("sketch", "many.npy", "--design", "design.json", "-o", "many.sketch")
    merge = ("merge", "few.sketch", "many.sketch", "-o", "both.sketch")
    subtract = ("subtract", "both.sketch", "many.sketch", "-o", "rest.sketch")
    alone = ("merge", "rest.sketch", "-o", "again.sketch")
    for command, warned in ((few, True), (many, False), (merge, False), (subtract, True), (alone, True)):
        told = done(*command, cwd=tmp_path).stderr
        assert told.count("gives them back, and this one has 99 records") == warned, command
        assert told.count("sketchlearn privatize, or merge it with") == warned
        assert "gives them back" not in done(*command, "--min-records", 0, cwd=tmp_path).stderr
        assert "gives them back" in done(*command, "--min-records", 1000, cwd=tmp_path).stderr
    assert FEW_RECORDS == 100


# Names


@functools.cache
def honest(kind):
    """Files with a column or a class of the name "victim"."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((300, 2)), columns=["victim", "b"])
    if kind == "design":
        from sketchlearn.files.designs import design_to_bytes

        return design_to_bytes(skl.design(frame, n_components=2))
    operator = skl.design(frame, task="moments")
    if kind == "sketch":
        return operator.sketch(frame).to_bytes()
    from sketchlearn.estimators.files import model_to_bytes

    if kind == "model":
        return model_to_bytes(skl.SketchPCA(1).fit(frame))
    labelled = skl.SketchClassifier().fit(rng.standard_normal((300, 2)), np.where(np.arange(300) % 2, "victim", "no"))
    return model_to_bytes(labelled)


def forged(kind, name):
    """The same with another name."""
    data = honest(kind)
    if kind != "sketch":
        return data.replace(b'"victim"', json.dumps(name).encode())
    tensors, description = container.unpack(data)
    form = json.loads(json.dumps({**description, "digest": "0" * 64}).replace('"victim"', json.dumps(name)))
    return container.pack(tensors["sums"], form)


@pytest.mark.parametrize("name", [EVIL, "\x9b2J", "a\x00", "\u202etxt.exe", "\u2028", "del\x7f", "\ud800"])
@pytest.mark.parametrize("kind", ["design", "sketch", "model", "labels"])
def test_files_with_control_characters_in_names_are_refused(kind, name, tmp_path):
    path = tmp_path / "evil"
    path.write_bytes(forged(kind, name))
    load = {"design": skl.load, "sketch": skl.load}.get(kind, skl.load)
    with pytest.raises(
        skl.FormatError, match=r"the name of a (column|class) has control characters, .*rename it"
    ) as told:
        load(path)
    assert name not in str(told.value)
    result = called("info", path)
    assert result.returncode == 1
    assert name not in result.stdout + result.stderr
    path.write_bytes(forged(kind, "Gr\u00f6\u00dfe in \u20ac\nper \u200cunit"))  # line breaks come from spreadsheets
    load(path)


def test_what_cannot_be_read_again_is_not_written(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((300, 2)), columns=[EVIL, "b"])
    operator = skl.design(frame, n_components=2)
    sketch, path = operator.sketch(frame), tmp_path / "a"
    labels = np.where(np.arange(300) % 2, EVIL, "b")
    for save in (
        lambda: skl.save(operator, path),
        lambda: sketch.save(path),
        lambda: skl.save(skl.SketchPCA(1).fit(frame), path),
        lambda: skl.save(skl.SketchClassifier().fit(frame.to_numpy(), labels), path),
    ):
        with pytest.raises(ValueError, match=r"control characters, .*'price\\x1b\]0;owned\\x07\\x1b\[2J'; rename it"):
            save()
    assert not path.exists()


def test_the_command_line_escapes_what_it_prints(tmp_path):
    """Names of files, of columns in a CSV header, of skipped files and notes in files, and of labels."""
    evil = tmp_path / f"{EVIL}\nsketchlearn: all is well.csv"
    evil.write_text("a,b\n1,2\n")
    header = tmp_path / "header.csv"
    header.write_text(f"{EVIL},b\n" + "1,2\n3,4\n" * 50)
    lines = pd.DataFrame(np.random.default_rng(0).standard_normal((300, 2)), columns=["a\r\nforged  line", "b"])
    lines.to_csv(tmp_path / "lines.csv", index=False)
    broken = tmp_path / f"{EVIL}.npy"
    broken.write_bytes(b"no array")
    commands = [
        ("sketch", evil, "--columns", "z", "-k", 2, "-o", "x.sketch"),
        ("sketch", header, "-k", 2, "-o", "x.sketch"),
        ("sketch", header, "--columns", "z", "-k", 2, "-o", "x.sketch"),
        ("design", "lines.csv", "-k", 2, "-o", "design.json"),
        ("sketch", "lines.csv", broken, "--design", "design.json", "--skip-bad", "-o", "lines.sketch"),
        ("info", "lines.sketch"),
        ("info", "design.json"),
        ("marginal", "lines.sketch", "0"),
        ("fit", "kmeans", "-k", 2, "lines.sketch", "-o", "model.json"),
        ("info", "model.json"),
        ("info", "missing\x1b[2J"),
        ("sketch", "lines.csv", "--design", "design.json", "-o", EVIL),
        ("info", EVIL, "--json"),
    ]
    for command in commands:
        result = called(*command, cwd=tmp_path)
        told = result.stdout + result.stderr
        assert told
        assert not set(told) & set("\x1b\x07\r"), command
        assert not any(line.startswith(("forged", "sketchlearn: all")) for line in told.splitlines()), command
    assert "a\\r\\nforged" in done("info", "design.json", cwd=tmp_path).stdout


def test_notes_of_a_design_are_escaped(tmp_path):
    design = tmp_path / "design.json"
    Path(design).write_bytes(design_to_bytes(OPERATOR, {"from": f"{EVIL}\nforged"}))
    told = done("info", design).stdout
    assert "\x1b" not in told
    assert "\nforged" not in told


# Spreadsheets


@pytest.fixture
def formulas(tmp_path):
    """A mixture whose columns, and a classifier whose labels, begin as formulas do."""
    rng = np.random.default_rng(0)
    names = ["=HYPERLINK(A1)", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "plain"]
    rows = rng.standard_normal((400, len(names)))
    model = skl.SketchGaussianMixture(1, covariance_type="diag", random_state=0).fit(pd.DataFrame(rows, columns=names))
    skl.save(model, tmp_path / "mixture.json")
    labels = np.where(rows[:, 0] > 0, "=cmd|A0", "b")
    rows[:, 0] += 10 * (rows[:, 0] > 0)
    skl.save(skl.SketchClassifier(random_state=0).fit(rows, labels), tmp_path / "classes.json")
    np.save(tmp_path / "rows.npy", rows[:20])
    return tmp_path, names


def test_safe_csv_marks_formulas_as_text(formulas):
    folder, names = formulas
    sample = ("sample", folder / "mixture.json", "-n", 5)
    told = (done(*sample).stdout, done(*sample, "--safe-csv").stdout)
    (plain, *rows), (safe, *same) = (csv.reader(io.StringIO(text, newline="")) for text in told)
    assert plain == names
    assert safe == [*(f"'{name}" for name in names[:-1]), "plain"]
    assert rows == same  # negative numbers stay numbers
    assert any(cell.startswith("-") for row in rows for cell in row)


def test_safe_csv_of_labels_and_probabilities(formulas):
    folder, _ = formulas
    predict = ("predict", folder / "classes.json", folder / "rows.npy")
    assert set(done(*predict).stdout.splitlines()) == {"=cmd|A0", "b"}
    assert set(done(*predict, "--safe-csv").stdout.splitlines()) == {"'=cmd|A0", "b"}
    assert done(*predict, "--proba", "--safe-csv").stdout.splitlines()[0] == "'=cmd|A0,b"
    skl.save(skl.SketchKMeans(2, random_state=0).fit(np.load(folder / "rows.npy")), folder / "kmeans.json")
    clusters = ("predict", folder / "kmeans.json", folder / "rows.npy")
    assert done(*clusters, "--safe-csv").stdout == done(*clusters).stdout
