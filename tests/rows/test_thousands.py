"""Thousands that are set apart in CSV: read where the first lines, or a stated decimal point, leave no doubt."""

import io

import numpy as np
import pytest
from command_line import called, done

import sketchlearn as skl
from sketchlearn.rows.csv import CsvStream
from sketchlearn.rows.schemas.columns import Category, Number
from sketchlearn.rows.schemas.table_schema import Schema

#: the text of a file, what is said of it, and its numbers: rows, or a part of the refusal
FILES = {
    "points": ('a,b\n"1,234.5",1\n"12",2\n"-1,234,567",3\n', {}, [[1234.5, 1], [12, 2], [-1234567, 3]]),
    "commas": ("a;b\n1.234,5;1\n12;2\n-1.234.567;3\n", {}, [[1234.5, 1], [12, 2], [-1234567, 3]]),
    "in one doubtful cell": ('a,b\n"1,234",1\n"1,234.5",2\n', {}, [[1234, 1], [1234.5, 2]]),
    "decimals elsewhere": ("a;b\n1.234,5;1,5\n12;2\n", {}, [[1234.5, 1.5], [12, 2]]),
    "spaces": ("a;b\n1 234,5;1,5\n12;2\n", {}, [[1234.5, 1.5], [12, 2]]),
    "apostrophes": ("a;b\n1'234.5;1.5\n12;2\n", {}, [[1234.5, 1.5], [12, 2]]),
    "missing": ("a;b\n1.234,5;1\n;2\nn/a;3\n", {"nulls": "drop"}, [[1234.5, 1]]),
    "without names": ('"1,234.5",1\n12,2\n', {}, [[1234.5, 1], [12, 2]]),
    "semicolons without names": ("1.234,5;1\n12;2\n", {}, [[1234.5, 1], [12, 2]]),
    "stated point": ('a,b\n"1,234",1\n12,2\n', {"decimal": "."}, [[1234, 1], [12, 2]]),
    "stated comma": ("a;b\n1.234;1\n12;2\n", {"decimal": ","}, [[1234, 1], [12, 2]]),
    "doubtful": ('a,b\n"1,234",1\n12,2\n', {}, 'decimal="." if they set thousands apart'),
    "two meanings": ("a;b\n1.234,5;0.75\n12;2\n", {}, "column 'a' is text"),
    "dates": ("a;b\n31.12.2024;1,5\n12;2\n", {}, "column 'a' is text"),
    "telephones": ("a;b\n030 123 456;1,5\n12;2\n", {}, "column 'a' is text"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_and_streams(name, tmp_path):
    text, arguments, wanted = FILES[name]
    (tmp_path / "table.csv").write_text(text)
    makers = [lambda: skl.source(tmp_path / "table.csv", **arguments)]
    makers += [lambda: CsvStream(io.BytesIO(text.encode()), **arguments)]
    if isinstance(wanted, str):
        for make, sentence in zip(makers, (wanted, "is not a number"), strict=True):
            with pytest.raises((TypeError, ValueError)) as refused:
                list(make().blocks())
            assert sentence in str(refused.value)
        return
    for make in makers:
        rows = make()
        assert np.concatenate([block.rows for block in rows.blocks()]).tolist() == wanted
        assert any("thousands are set apart (inferred from its first lines)" in remark for remark in rows.remarks)


def test_streams_that_come_line_by_line():
    class Slow(io.BytesIO):
        def read1(self, _size=-1):
            return self.readline()

    rows = CsvStream(Slow(FILES["commas"][0].encode()))
    assert np.concatenate([block.rows for block in rows.blocks()]).tolist() == FILES["commas"][2]


def test_a_cell_that_is_no_number_is_named(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + '"1,234.5",1\n' * 100 + '"1,23",2\n')
    with pytest.raises(ValueError, match=r"table.csv: column 'a' holds '1,23', which is not a number"):
        list(skl.source(path).blocks())


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    values = np.random.default_rng(0).normal(0, 1e5, (5000, 2)).round(2)
    np.savetxt(tmp_path / "plain.csv", values, "%.2f", delimiter=",", header="a,b", comments="")
    lines = [f"{a:,.2f};{b:,.2f}" for a, b in values]
    (tmp_path / "points.csv").write_text("\n".join(["a;b", *lines]))
    swapped = [line.translate(str.maketrans(",.", ".,")) for line in lines]
    (tmp_path / "commas.csv").write_text("\n".join(["a;b", *swapped]))
    schema = Schema((Number("a"), Number("b")))
    for operator in (
        skl.design(values, n_components=3),
        skl.design(skl.source(tmp_path / "plain.csv"), schema=schema, n_components=3),
    ):
        first, *others = (operator.sketch(tmp_path / f"{name}.csv") for name in ("plain", "points", "commas"))
        assert all(np.array_equal(first.sums, other.sums) for other in others)


def test_words_stay_words(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + '"1,234.5",1\n"2,345.5",2\n' * 30)
    levels = Schema((Category("a", levels=("1,234.5", "2,345.5")), Number("b")))
    rows = np.concatenate([block.rows for block in skl.source(path, schema=levels).blocks()])
    assert rows[:2, :2].tolist() == [[1, 0], [0, 1]]


def test_the_command_line_states_it(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f'"{int(a):,}",{b:.3f}' for a, b in zip(rng.integers(1000, 9999, 500), rng.normal(0, 1, 500), strict=True)]
    (tmp_path / "table.csv").write_text("\n".join(["amount,size", *lines]))
    line = ["sketch", "table.csv", "-k", 2, "-o", "x.sketch"]
    result = called(*line, cwd=tmp_path)
    assert result.returncode == 1
    assert "use --decimal ',' if they are decimal commas, --decimal . if they set thousands apart" in result.stderr
    assert "500 records" in done(*line, "--decimal", ".", cwd=tmp_path).stdout
