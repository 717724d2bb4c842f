"""The same rows give the same bytes, whatever holds them; what cannot be read is refused in one sentence."""

import _thread
import functools
import gc
import subprocess
import sys
import threading
import time
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tables import ENDINGS, NAMES, arrow, in_files, in_memory, write

import sketchlearn as skl
from sketchlearn.rows import source_base as blocks_module
from sketchlearn.rows.sampling import sample
from sketchlearn.rows.source_base import one_ahead

ROWS = np.random.default_rng(0).standard_normal((2003, 8))
TABLES = {"float64": ROWS, "float32": ROWS.astype(np.float32)}
OPERATOR = skl.features.FourierFeatures(8, 20, law=skl.features.frequencies.Gaussian(1.0), center=np.full(8, 0.1))
NAMED = skl.features.FourierFeatures(
    8, 20, law=skl.features.frequencies.Gaussian(1.0), center=np.full(8, 0.1), columns=NAMES
)
KINDS = list(in_memory(ROWS))


@functools.cache
def expected_bytes(operator, kind):
    """Of the array, whatever the size of blocks was when it was first asked for."""
    return operator.sketch(TABLES[kind]).to_bytes()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return {kind: in_files(X, tmp_path_factory.mktemp(kind)) for kind, X in TABLES.items()}


@pytest.fixture
def blocks_of(monkeypatch):
    def change(block_bytes, gathered_bytes):
        monkeypatch.setattr(blocks_module, "BLOCK_BYTES", block_bytes)
        monkeypatch.setattr(blocks_module, "GATHERED_BYTES", gathered_bytes)

    return change


SIZES = [(1 << 25, 1 << 22), (1000, 1 << 22), (100_000, 500), (1, 1)]


@pytest.mark.parametrize("sizes", SIZES[:3], ids=str)
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("thing", KINDS)
def test_everything_in_memory_gives_the_same_bytes(thing, kind, sizes, blocks_of):
    blocks_of(*sizes)
    make = in_memory(TABLES[kind])[thing]
    assert OPERATOR.sketch(make(), n_jobs=2).to_bytes() == expected_bytes(OPERATOR, kind)
    assert NAMED.sketch(make(), n_jobs=1).to_bytes() == expected_bytes(NAMED, kind)


@pytest.mark.parametrize("sizes", SIZES[:3], ids=str)
@pytest.mark.parametrize("kind", TABLES)
def test_every_file_gives_the_same_bytes(kind, sizes, blocks_of, files):
    blocks_of(*sizes)
    for name, path in files[kind].items():
        as_text = str(path) if not isinstance(path, list) else iter(path)
        assert OPERATOR.sketch(path).to_bytes() == expected_bytes(OPERATOR, kind), name
        assert NAMED.sketch(as_text).to_bytes() == expected_bytes(NAMED, kind), name


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("thing", KINDS)
def test_blocks_are_as_promised(thing, kind, blocks_of):
    blocks_of(8 * 8 * 50, 8 * 8 * 20)
    rows = skl.source(in_memory(TABLES[kind])[thing]())
    assert rows.columns in (None, NAMES)
    assert rows.n_rows in (None, len(ROWS))
    start, seen = 0, []
    for block in rows.blocks(8):
        assert block.start == start
        assert len(block.rows) <= 50
        assert block.rows.flags.c_contiguous
        assert block.rows.dtype == (TABLES[kind].dtype if thing != "list of lists" else np.float64)
        start = block.end
        seen.append(block.rows.copy())
    assert np.array_equal(np.concatenate(seen), TABLES[kind])
    assert len(seen) <= 2 * len(ROWS) / 20 + 3  # small batches are put together


@example(sizes=[1], block=1, gather=1, bad={0})  # no row is left
@given(
    sizes=st.lists(st.integers(0, 30), max_size=12),
    block=st.integers(1, 4000),
    gather=st.integers(1, 4000),
    bad=st.sets(st.integers(0, 300)),
)
def test_any_batches_any_blocks_any_gaps(sizes, block, gather, bad):
    X = np.random.default_rng(1).standard_normal((sum(sizes), 8))
    bad = sorted(i for i in bad if i < len(X))
    X[bad, 3] = np.nan
    parts = np.split(X, np.cumsum(sizes))[:-1]
    good = np.delete(X, bad, axis=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "BLOCK_BYTES", block)
        patch.setattr(blocks_module, "GATHERED_BYTES", gather)
        rows = skl.source(iter(parts), nulls="drop")
        assert OPERATOR.sketch(rows) == OPERATOR.sketch(good)
        assert rows.dropped == len(bad)
        if bad:
            with pytest.raises(ValueError, match=f"row {bad[0]}, column 3 is missing"):
                OPERATOR.sketch(iter(parts))
        weights = np.arange(len(X))
        weighted = OPERATOR.sketch(parts, sample_weight=weights, nulls="drop")
        assert weighted == OPERATOR.sketch(good, sample_weight=np.delete(weights, bad))


def with_gaps():
    X = ROWS.copy()
    X[[17, 900], [2, 0]] = np.nan
    return X


def gaps_as_nulls():
    table = arrow(with_gaps())
    return pa.table({name: pa.array(table[name].to_numpy(), from_pandas=True) for name in NAMES})


@pytest.mark.parametrize("thing", KINDS)
def test_missing_values_are_named_or_dropped(thing):
    make = in_memory(with_gaps())[thing]
    column = "'c'|2"
    with pytest.raises(
        ValueError, match=rf'row 17, column ({column}) is missing .*: fill it, or read with nulls="drop"'
    ):
        NAMED.sketch(make())
    rows = skl.source(make(), nulls="drop")
    expected = OPERATOR.sketch(np.delete(ROWS, [17, 900], axis=0))
    assert OPERATOR.sketch(rows) == expected
    assert rows.dropped == 2
    assert OPERATOR.sketch(make(), nulls="drop") == expected
    assert skl.Sketch(OPERATOR).update(make(), nulls="drop").forget(make(), nulls="drop") == skl.Sketch(OPERATOR)
    # among the chosen columns only
    other = skl.features.FourierFeatures(1, 5, law=skl.features.frequencies.Gaussian(1.0))
    columns = ["b"] if skl.source(make()).columns else [1]
    assert other.sketch(skl.source(make(), columns=columns)) == other.sketch(ROWS[:, [1]])


def test_nulls_of_arrow_and_in_files(tmp_path):
    table, expected = gaps_as_nulls(), OPERATOR.sketch(np.delete(ROWS, [17, 900], axis=0))
    pq.write_table(table, tmp_path / "a.parquet")
    pl.from_arrow(table).write_csv(tmp_path / "a.csv")
    write(with_gaps(), tmp_path / "nan.csv")
    for data in (table, pl.from_arrow(table), duckdb.from_arrow(table), *tmp_path.iterdir()):
        with pytest.raises(ValueError, match=r"row 17( of .*)?, column 'c' is missing"):
            NAMED.sketch(data)
        assert OPERATOR.sketch(data, nulls="drop") == expected
    with pytest.raises(ValueError, match="nulls must be 'error' or 'drop', not 'fill'"):
        skl.source(table, nulls="fill")
    with pytest.raises(ValueError, match=r"row 17 of .*a.parquet, column 'c'"):
        OPERATOR.sketch([tmp_path / "a.parquet"])
    one = tmp_path / "one.csv"
    one.write_text("a\n1\n\n3\n")
    with pytest.raises(ValueError, match=r"row 1 of .*one.csv, column 'a' is missing"):
        list(skl.source(one).blocks())


@pytest.mark.parametrize("thing", KINDS)
def test_infinite_values_are_refused_or_dropped(thing):
    X = ROWS.copy()
    X[5, 1] = -np.inf
    with pytest.raises(ValueError, match="row 5, column 'b' is -inf"):
        NAMED.sketch(in_memory(X)[thing]())
    assert NAMED.sketch(in_memory(X)[thing](), nulls="drop") == NAMED.sketch(np.delete(ROWS, 5, axis=0))


def test_types_become_floats():
    table = pa.table({
        "i8": pa.array([1, None, 3], pa.int8()), "i64": pa.array([2**53 + 1, 2, 3]), "b": [True, False, None],
        "f16": pa.array(np.array([1.5, 2, 3], np.float16)), "u64": pa.array([2**64 - 1, 2, 3], pa.uint64()),
        "d": pa.array([Decimal(1)] * 3, pa.decimal128(20, 2)), "n": pa.nulls(3),
        "f32": pa.array([0.1, 2, 3], pa.float32()),
    })  # fmt: skip

    def first(columns, data=table):
        (block,) = skl.source(data, columns=columns, nulls="drop").blocks()
        return block.rows

    assert first(["i64", "u64", "d"]).tolist()[0] == [float(2**53 + 1), float(2**64 - 1), 1.0]
    assert first(["i8", "f16", "b"]).dtype == np.float32
    assert first(["i8", "f16", "b"]).tolist() == [[1.0, 1.5, 1.0]]
    assert first(["f32"]).dtype == np.float32
    assert first(["f32", "d"]).dtype == np.float64
    assert first(["n"]).shape == (0, 1)
    for frame in (table.to_pandas(types_mapper=pd.ArrowDtype), pl.from_arrow(table)):
        assert first(["i64", "d", "b"], frame).tolist() == first(["i64", "d", "b"]).tolist()
        assert first(["i8", "f32"], frame).dtype == np.float32
    nullable = pd.DataFrame({"a": pd.array([1, None, 3], "Int16"), "b": pd.array([True, False, None], "boolean")})
    assert first(["a", "b"], nullable).tolist() == [[1.0, 1.0]]
    assert first(["a", "b"], nullable).dtype == np.float32


REFUSED = {
    "text": pa.array(["x", "y"]), "dates": pa.array([1, 2], pa.date32()), "times": pa.array([1, 2], pa.timestamp("us")),
    "durations": pa.array([1, 2], pa.duration("s")), "categories": pa.array(["x", "y"]).dictionary_encode(),
    "lists": pa.array([[1.0], [2.0]]), "records": pa.array([{"x": 1.0}, {"x": 2.0}]), "bytes": pa.array([b"x", b"y"]),
}  # fmt: skip


@pytest.mark.parametrize("word", REFUSED)
def test_columns_that_are_not_numbers(word, tmp_path):
    table = pa.table({"age": [1.0, 2.0], "odd one": REFUSED[word]})
    pq.write_table(table, tmp_path / "t.parquet")
    operator = skl.features.FourierFeatures(2, 5, law=skl.features.frequencies.Gaussian(1.0))
    frames = [table.to_pandas()] if word not in ("lists", "records", "bytes", "dates") else []
    for data in (table, pl.from_arrow(table), tmp_path / "t.parquet", *frames):
        with pytest.raises(
            TypeError, match=r"column 'odd one' is \w+.*\(.*\), not numbers: .*, or choose other columns"
        ):
            operator.sketch(data)
        age = skl.features.FourierFeatures(1, 5, law=skl.features.frequencies.Gaussian(1.0), columns=["age"])
        assert age.sketch(data) == age.sketch([[1.0], [2.0]])
    with pytest.raises(TypeError, match=f"is {word}"):
        operator.sketch(table)


@pytest.mark.parametrize(
    ("column", "word"), [([1j, 2j], "complex numbers"), ([object(), None], "objects"), (["x", "y"], "text")]
)
def test_frames_that_are_not_numbers(column, word):
    with pytest.raises(TypeError, match=f"column 'z' is {word}"):
        list(skl.source(pd.DataFrame({"a": [1, 2], "z": column})).blocks())


def test_columns_are_chosen_by_name_or_position(files):
    for data in (arrow(ROWS), pd.DataFrame(ROWS, columns=list(NAMES)), pl.from_arrow(arrow(ROWS)),
                 *(files["float64"][name] for name in (".csv", ".parquet", ".arrow", ".ipc"))):  # fmt: skip
        chosen = skl.source(data, columns=["größe", "a"])
        assert chosen.columns == ("größe", "a")
        assert np.array_equal(np.concatenate([b.rows for b in chosen.blocks()]), ROWS[:, [7, 0]])
        with pytest.raises(ValueError, match="has no column 'z': its columns are"):
            skl.source(data, columns=["a", "z"])
        with pytest.raises(ValueError, match="different"):
            skl.source(data, columns=["a", "a"])
        with pytest.raises(ValueError, match="must be a list of names"):
            skl.source(data, columns="ab")
    for data in (ROWS, scipy.sparse.csr_array(ROWS), iter([ROWS]), files["float64"][".npy"]):
        assert np.array_equal(
            np.concatenate([b.rows for b in skl.source(data, columns=[7, 0]).blocks()]), ROWS[:, [7, 0]]
        )
    with pytest.raises(ValueError, match="there is no column 8"):
        skl.source(ROWS, columns=[8])
    with pytest.raises(ValueError, match="no column names: choose columns by position"):
        skl.source(ROWS, columns=["a"])


def test_operators_take_their_own_columns():
    operator = skl.features.FourierFeatures(2, 9, law=skl.features.frequencies.Gaussian(1.0), columns=("b", "d"))
    expected = operator.sketch(ROWS[:, [1, 3]])
    table = arrow(ROWS)
    for data in (table, pl.from_arrow(table).lazy(), table.to_pandas(), table.to_reader(), iter([table])):
        assert operator.sketch(data) == expected
    for data in (
        table.select(["d", "b"]),
        table.select(["d", "b"]).to_pandas(),
        duckdb.from_arrow(table.select(["d", "b"])),
    ):
        assert operator.sketch(data) == expected
        assert operator.sketch(skl.source(data, columns=["b", "d"])) == expected
    with pytest.raises(ValueError, match="the table has no column 'd'"):
        operator.sketch(table.select(["a", "b"]))
    with pytest.raises(ValueError, match="the rows have 8 columns, but the operator needs 2"):
        operator.sketch(ROWS)
    plain = skl.features.FourierFeatures(2, 9, law=skl.features.frequencies.Gaussian(1.0))
    assert np.array_equal(plain.sketch(table.select(["b", "d"])).sums, expected.sums)
    with pytest.raises(ValueError, match="the rows have 8 columns"):
        plain.sketch(table)
    twice = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    for data in (twice, pd.DataFrame([[1.0, 2.0]], columns=["a", "a"])):
        with pytest.raises(ValueError, match="has two columns 'a': rename one of them"):
            plain.sketch(data)


THIRD = {
    "missing column": (lambda t: t.drop_columns(["c"]), "has no column 'c', which .*part0"),
    "another column": (lambda t: t.append_column("z", t["a"]), "has a column 'z', which .*part0.* lacks"),
    "text": (lambda t: t.set_column(2, "c", pa.array(["x"] * len(t))), "column 'c' is text"),
    "other order": (lambda t: t.select(["b", "a", *NAMES[2:]]), r"has the columns \(b, a, .* but .*part0.*\(a, b"),
    "two of a name": (lambda t: t.append_column("a", t["a"]), "has two columns 'a'"),
}


@pytest.mark.parametrize("change", THIRD)
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_third_file_of_another_schema(change, ending, tmp_path):
    for i, part in enumerate(np.array_split(ROWS, 4)):
        write(part, tmp_path / f"part{i}{ending}")
    alter, message = THIRD[change]
    table = alter(arrow(ROWS[:9]))
    third = tmp_path / f"part2{ending}"
    if ending == ".csv":
        pa.csv.write_csv(table, third)
    else:
        pq.write_table(table, third)
    with pytest.raises((ValueError, TypeError), match=f"part2.*{message}"):
        OPERATOR.sketch(tmp_path)
    if change in ("missing column", "text"):
        with pytest.raises((ValueError, TypeError), match=r"part2\.(csv|parquet)"):
            NAMED.sketch(tmp_path)


def test_text_after_the_first_megabyte(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("a,b\n" + "1.25,2.5\n" * 200_000 + "1,two\n")
    operator = skl.features.FourierFeatures(2, 5, law=skl.features.frequencies.Gaussian(1.0))
    with pytest.raises(ValueError, match=r"late\.csv: column 'b' holds 'two', which is not a number"):
        operator.sketch(path)
    path.write_text("a,b\n" + "1,2\n" * 300_000 + "1.5,\n")
    assert operator.sketch(path, nulls="drop").count == 300_000


@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=15)
@given(share=st.floats(0, 0.999))
def test_files_cut_short(ending, share, tmp_path_factory):
    path = write(ROWS[:300], tmp_path_factory.mktemp("cut") / f"x{ending}")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    try:
        count, message = NAMED.sketch(path).count, None
    except (ValueError, OSError, TypeError) as error:
        count, message = 0, str(error)
    if message is None:  # nothing can be told of text that ends with a whole line, or within its last value
        assert ending == ".csv"
        assert count <= 300
    else:
        assert str(path) in message
        assert "\n" not in message
        assert len(message) < 500 + len(str(path))


@settings(max_examples=40)
@given(noise=st.binary(max_size=300), ending=st.sampled_from(ENDINGS))
def test_files_of_nonsense(noise, ending, tmp_path_factory):
    path = tmp_path_factory.mktemp("noise") / f"x{ending}"
    path.write_bytes(noise)
    with pytest.raises((ValueError, OSError, TypeError), match="x") as caught:
        NAMED.sketch(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ending", ENDINGS)
def test_empty_tables_and_one_row(ending, tmp_path):
    assert NAMED.sketch(write(ROWS[:0], tmp_path / f"none{ending}")).count == 0
    assert NAMED.sketch(write(ROWS[:1], tmp_path / f"one{ending}")) == NAMED.sketch(ROWS[:1])
    assert NAMED.sketch(tmp_path).count == 1


def test_many_columns(tmp_path):
    X = np.random.default_rng(0).standard_normal((500, 3000))
    names = [f"spalte {i} ü" for i in range(3000)]
    operator = skl.features.FourierFeatures(3000, 5, law=skl.features.frequencies.Gaussian(50.0), columns=names)
    table = pa.table(dict(zip(names, X.T, strict=True)))
    pq.write_table(table, tmp_path / "wide.parquet")
    pa.csv.write_csv(table, tmp_path / "wide.csv")
    expected = operator.sketch(X)
    for data in (table, pl.from_arrow(table), tmp_path / "wide.parquet", tmp_path / "wide.csv"):
        assert operator.sketch(data) == expected


def test_paths_that_lead_nowhere(tmp_path):
    (tmp_path / "a.txt").write_text("1")
    (tmp_path / "a.csv").write_text("")
    np.savez(tmp_path / "two.npz", one=ROWS, two=ROWS)
    np.save(tmp_path / "objects.npy", np.array([[None]]), allow_pickle=True)
    for path, message in {
        "a.txt": "a.txt has an unknown ending: files of rows end in .csv, .tsv, .parquet",
        "b.csv": "there is no file .*b.csv",
        "*.parquet": "no file matches",
        "a.csv": "a.csv is empty",
        "two.npz": r"two.npz has the arrays \(one, two\): name the one with the rows X",
        "objects.npy": "objects.npy cannot be read, it holds Python objects",
    }.items():
        with pytest.raises((ValueError, OSError), match=message):
            skl.source(tmp_path / path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="there are no files of rows in"):
        skl.source(tmp_path / "empty")
    for odd in (pl.Series([1.0]), pa.array([1.0]), pd.Series([1.0]), {"a": [1.0]}, 3.0, None):
        with pytest.raises((TypeError, ValueError)) as caught:
            OPERATOR.sketch(odd)
        assert "\n" not in str(caught.value)


def test_threads_end_with_the_pass(tmp_path, blocks_of):
    path = write(ROWS, tmp_path / "x.parquet")
    blocks_of(8 * 8 * 100, 1)
    rows = skl.source(path).blocks()
    next(rows)
    rows.close()
    X = ROWS.copy()
    X[1000] = np.inf
    with pytest.raises(ValueError, match="row 1000 of"):
        OPERATOR.sketch(write(X, tmp_path / "bad.parquet"))
    gc.collect()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sketchlearn")]


def test_one_row_group_needs_little_memory(tmp_path, blocks_of):
    blocks_of(1 << 20, 1 << 18)
    path = tmp_path / "large.parquet"
    X = np.random.default_rng(0).standard_normal((1_000_000, 8))
    pq.write_table(arrow(X), path, row_group_size=len(X), use_dictionary=False)
    operator = skl.features.SecondMoments(8, bound=10.0)
    expected = operator.sketch(X)
    del X
    gc.collect()
    pool = pa.system_memory_pool()
    pa.set_memory_pool(pool)
    before, most = pa.total_allocated_bytes(), 0
    rows = skl.source(path)
    total = skl.Sketch(operator)
    for block in rows.blocks():
        most = max(most, pa.total_allocated_bytes() - before)
        total.update(block.rows)
    assert total == expected
    assert most < path.stat().st_size / 4


def test_samples_lose_nothing(files):
    rng = np.random.default_rng(0)
    for name, path in files["float64"].items():
        some, representative, rest = sample(skl.source(path), 500, rng)
        assert some.shape == (500, 8), name
        assert representative == (name not in (".csv.gz", ".arrow", ".ipc", ".feather")), name
        assert {tuple(row) for row in some} <= {tuple(row) for row in ROWS}, name
        assert OPERATOR.sketch(rest).sums.tolist() == OPERATOR.sketch(ROWS).sums.tolist(), name
    for name, make in in_memory(ROWS).items():
        rows = skl.source(make())
        some, representative, rest = sample(rows, 500, rng)
        assert len(some) == 500, name
        assert OPERATOR.sketch(rest) == OPERATOR.sketch(ROWS), name
        assert representative == (rows.replayable and name not in ("polars lazy", "dataset", "duckdb")), name
        everything, representative, _ = sample(skl.source(make()), 5000, rng)
        assert representative
        assert len(everything) == len(ROWS)


def test_samples_of_large_files_come_from_all_over(tmp_path):
    X = np.column_stack([np.arange(400_000.0), np.zeros(400_000)])
    pa.csv.write_csv(pa.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "x.csv")
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "x.parquet", row_group_size=10_000)
    for path in tmp_path.iterdir():
        rows, representative, _ = sample(skl.source(path), 1000, np.random.default_rng(0))
        assert representative
        assert len(np.unique(rows[:, 0])) == len(rows) == 1000
        assert abs(rows[:, 0].mean() - 200_000) < 50_000
        assert np.ptp(rows[:, 0]) > 300_000


def test_reading_needs_no_pyarrow_where_it_need_not(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    code = f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyarrow":
            raise ImportError("blocked")
sys.meta_path.insert(0, Blocker())
import numpy as np, pandas as pd, scipy.sparse, sketchlearn as skl
X = np.load(r"{tmp_path / "x.npy"}")
operator = skl.features.FourierFeatures(8, 5, law=skl.features.frequencies.Gaussian(1.0))
expected = operator.sketch(X)
for data in (pd.DataFrame(X), scipy.sparse.csr_array(X), r"{tmp_path / "x.npy"}", iter([X])):
    assert operator.sketch(data) == expected
for data in (r"{tmp_path / "x.csv"}", r"{tmp_path / "x.parquet"}"):
    try:
        operator.sketch(data)
    except ImportError as error:
        assert "pip install 'sketchlearn[arrow]'" in str(error), error
    else:
        raise AssertionError(data)
assert "pyarrow" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tensors():
    torch = pytest.importorskip("torch")
    X = torch.tensor(ROWS, requires_grad=True)
    assert OPERATOR.sketch(X) == OPERATOR.sketch(ROWS)
    assert OPERATOR.sketch([X[:5], X[5:]]) == OPERATOR.sketch(ROWS)


def test_progress_tells_rows_bytes_and_rate(tmp_path, capsys):
    OPERATOR.sketch(write(ROWS, tmp_path / "x.csv"), progress=True)
    shown = capsys.readouterr().err
    assert "2,003 rows" in shown
    assert "rows/s" in shown.replace("\n", "")
    assert "kB" in shown


def test_an_abandoned_reader_is_closed_where_threads_cannot_be_joined():
    """The garbage collector may close it while another thread starts, which holds the lock that a join asks for."""
    reading = one_ahead(iter(np.zeros((5, 10, 2))))
    next(reading)
    with threading._shutdown_locks_lock:
        _thread.start_new_thread(reading.close, ())
        for _ in range(1000):
            if reading.gi_frame is None:
                break
            time.sleep(0.01)
        assert reading.gi_frame is None
