"""Which rows of a unit count: the same ones whatever the order, batches, threads, files and engines."""

import hashlib
import struct

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from patients import FRAME, IDS, OPERATOR, X

import sketchlearn as skl
from sketchlearn.rows import source_base as blocks
from sketchlearn.rows import units as unit_rows
from sketchlearn.rows.units import id_digests
from sketchlearn.sketch.privacy_unit import PrivacyUnit

WHOLE = OPERATOR.sketch(X, unit=IDS, rows_per_unit=5)
HOLES = FRAME.assign(patient_id=np.where(IDS > 0, IDS, np.nan))


# The same bits, whatever the order, batches, threads, files


@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(0, 900), max_size=4), most=st.integers(1, 20))
def test_order_and_batches_do_not_matter(seed, cuts, most):
    order = np.random.default_rng(seed).permutation(len(X))
    parts = np.split(X[order], np.sort(cuts))
    whole = OPERATOR.sketch(X, unit=IDS, rows_per_unit=most)
    assert OPERATOR.sketch(parts, unit=IDS[order].astype(str), rows_per_unit=most).to_bytes() == whole.to_bytes()


def test_small_blocks_threads_and_compactions_do_not_matter(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 16 * 7)
    monkeypatch.setattr(unit_rows, "LEAST_WAITING", 30)
    for jobs in (1, 3):
        assert OPERATOR.sketch(X, unit=IDS, rows_per_unit=5, n_jobs=jobs) == WHOLE
    holes = X.copy()
    holes[::13, 1] = np.nan
    kept = ~np.isnan(holes[:, 1])
    found = OPERATOR.sketch(holes, unit=IDS, rows_per_unit=5, nulls="drop")
    assert found == OPERATOR.sketch(X[kept], unit=IDS[kept], rows_per_unit=5)


def as_files(folder, frame, write, ending):
    folder.mkdir()
    for i, part in enumerate((frame[:1], frame[1:500], frame[500:])):
        write(part, folder / f"{i}{ending}")
    return folder


SOURCES = {
    "frame": lambda _: FRAME,
    "frame of text ids": lambda _: FRAME.assign(patient_id=FRAME.patient_id.astype(str)),
    "frame of categories": lambda _: FRAME.assign(patient_id=FRAME.patient_id.astype(str).astype("category")),
    "frame of nullable ids": lambda _: FRAME.assign(patient_id=FRAME.patient_id.astype("Int64")),
    "list of frames": lambda _: [FRAME[:17], FRAME[17:]],
    "source of two columns": lambda _: skl.source(FRAME, columns=["a", "b"]),
    "arrow": lambda _: __import__("pyarrow").Table.from_pandas(FRAME),
    "polars": lambda _: __import__("polars").from_pandas(FRAME.assign(patient_id=FRAME.patient_id.astype(str))),
    "csv": lambda f: as_files(f / "csv", FRAME, lambda part, path: part.to_csv(path, index=False), ".csv"),
    "csv, floats": lambda f: as_files(
        f / "f", FRAME.astype({"patient_id": float}), lambda part, path: part.to_csv(path, index=False), ".csv.gz"
    ),
    "parquet": lambda f: as_files(f / "p", FRAME, lambda part, path: part.to_parquet(path), ".parquet"),
    "pattern": lambda f: str(as_files(f / "q", FRAME, lambda part, path: part.to_feather(path), ".feather") / "*"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", SOURCES)
def test_any_source_gives_the_same_bits(name, tmp_path):
    data = SOURCES[name](tmp_path)
    found = OPERATOR.sketch(data, unit="patient_id", rows_per_unit=5)
    assert found == WHOLE
    assert found.unit == PrivacyUnit("patient_id", 5)
    named = OPERATOR.with_columns(("a", "b"))
    assert np.array_equal(named.sketch(data, unit="patient_id", rows_per_unit=5).sums, WHOLE.sums)


def test_a_column_without_a_name_is_given_by_its_position():
    table = np.column_stack([X[:, 0], IDS, X[:, 1]])
    found = OPERATOR.sketch(table, unit=1, rows_per_unit=5)
    assert (found, found.unit.name) == (WHOLE, "column 1")
    large = np.array([[2**53, 1], [2**53 + 1, 2]])
    assert skl.features.Histograms.even([0], [9], bins=3).sketch(large, unit=0, rows_per_unit=1).count == 2


def test_zeros_before_an_id_are_the_same_in_all_files(tmp_path):
    """The first file has numbers alone, the second letters, too: "07" is one person in both."""
    (tmp_path / "1.csv").write_text("a,b,who\n1,2,07\n3,4,7\n")
    (tmp_path / "2.csv").write_text("a,b,who\n1,3,07\n5,6,x\n")
    assert OPERATOR.sketch(tmp_path, unit="who", rows_per_unit=1).count == 3


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_dask_gives_the_same_bits(scheduler):
    dask, dd = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    mixed = FRAME.assign(patient_id=[f"{i}.0" if n % 2 else f" {i}" for n, i in enumerate(IDS)])
    for frame in (FRAME, mixed):
        with dask.config.set(scheduler=scheduler):
            collection = dd.from_pandas(frame, npartitions=5)
            found = skl.engines.sketch(collection, OPERATOR, unit="patient_id", rows_per_unit=5)
        assert (found, found.unit, len(found.batches.times)) == (WHOLE, PrivacyUnit("patient_id", 5), 1)


def test_dask_refuses_in_a_sentence():
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    with pytest.raises(TypeError, match="units need a Dask data frame"):
        skl.engines.sketch(da.from_array(X, chunks=100), OPERATOR, unit="patient_id", rows_per_unit=5)
    frame = dd.from_pandas(FRAME.assign(patient_id=FRAME.patient_id.where(IDS > 0).astype(object)), npartitions=2)
    with pytest.raises(ValueError, match="the ids in 'patient_id': one is missing, and every row needs one"):
        skl.engines.sketch(frame, OPERATOR, unit="patient_id", rows_per_unit=5)
    with pytest.raises(ValueError, match="the data frame has no column 'who'"):
        skl.engines.sketch(frame, OPERATOR, unit="who", rows_per_unit=5)


# Ids


def test_a_person_who_replaces_ids_by_others_of_the_same_spelling_is_still_one():
    spellings = np.array([7, 7.0, "7", " 7 ", "7.0", np.int8(7), np.float32(7)], dtype=object)
    rows = np.arange(14.0).reshape(7, 2)
    assert OPERATOR.sketch(rows, unit=spellings, rows_per_unit=2).count == 2
    others = np.array(["07", "7a", "A", "a", 7.5, -7, "-07"], dtype=object)
    assert OPERATOR.sketch(rows, unit=others, rows_per_unit=2).count == 7


def test_ids_that_floats_cannot_tell_apart_are_refused():
    for ids in (np.array([2.0**53, 1.0]), np.array([2.0**24, 1.0], np.float32), np.array([np.inf, 1.0])):
        with pytest.raises(ValueError, match="store ids as integers or text"):
            OPERATOR.sketch(X[:2], unit=ids, rows_per_unit=1)
    assert OPERATOR.sketch(X[:2], unit=np.array([2**53, 2**53 + 1]), rows_per_unit=1).count == 2


def test_rows_that_change_between_the_readings_are_refused():
    class Shifting:
        shape, dtype, readings = X.shape, X.dtype, 0

        def __len__(self):
            return len(X)

        def __getitem__(self, which):
            Shifting.readings += 1
            return X[which] + (Shifting.readings > 1)

    with pytest.raises(ValueError, match="the rows changed between two readings: start again"):
        OPERATOR.sketch(Shifting(), unit=IDS, rows_per_unit=5)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (iter([X]), {"unit": IDS}, "can be read only once: save it to files, or collect it in memory"),
        (X, {"unit": IDS, "sample_weight": np.ones(900)}, "leave out sample_weight, or unit and rows_per_unit"),
        (X, {"unit": IDS[1:]}, "899 ids of units, but 900 rows"),
        (X, {"unit": None}, "give unit= and rows_per_unit= together"),
        (X, {"unit": IDS, "rows_per_unit": None}, "give unit= and rows_per_unit= together"),
        (X, {"unit": IDS, "rows_per_unit": 0}, "rows_per_unit must be a whole number"),
        (X, {"unit": "patient_id"}, "has no column names"),
        (FRAME, {"unit": "who"}, "the table has no column 'who'"),
        (HOLES, {"unit": "patient_id"}, r"row \d+: the id in 'patient_id' is missing"),
        (X, {"unit": [""] * 900}, "row 0: the id in 'unit' is missing, and every row needs one"),
        (X, {"unit": pd.Series(pd.date_range("2020", periods=900))}, "ids of units are text or numbers"),
        (X, {"unit": [b"x"] * 900}, "ids of units are text or numbers, not bytes"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_in_a_sentence(data, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        OPERATOR.sketch(data, **{"rows_per_unit": 5, **options})


def test_a_missing_id_in_a_file_is_named(tmp_path):
    (tmp_path / "1.csv").write_text("a,b,who\n1,2,x\n3,4,\n")
    with pytest.raises(ValueError, match=r"row 1 of .*1.csv: the id in 'who' is missing"):
        OPERATOR.sketch(tmp_path / "1.csv", unit="who", rows_per_unit=1)
    with pytest.raises(ValueError, match="ids of units are not features"):
        OPERATOR.with_columns(("a", "who")).sketch(tmp_path / "1.csv", unit="who", rows_per_unit=1)


@pytest.mark.parametrize("query", ["polars", "duckdb"])
def test_queries_whose_order_may_change_are_refused(query):
    module = pytest.importorskip(query)
    lazy = module.from_pandas(FRAME).lazy() if query == "polars" else module.from_df(FRAME)
    with pytest.raises(ValueError, match="collect it into a data frame or an Arrow table first"):
        OPERATOR.sketch(lazy, unit="patient_id", rows_per_unit=1)


def twin(rows, ids, most):
    """The chosen rows, row by row, as docs/reference/arithmetic.md says it."""
    found = {}
    for row, text in zip(rows, ids, strict=True):
        digest = hashlib.blake2b(text.encode(), digest_size=16, key=b"sketchlearn unit").digest()
        r, s = (plain_hash(row, key) for key in (0x756E697420726F77, 0x6F6620612077686F))
        h = r ^ int.from_bytes(digest[:8], "little")
        h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        h = (h ^ h >> 27) * 0x94D049BB133111EB % 2**64
        words = (h ^ h >> 31).to_bytes(8, "little") + s.to_bytes(8, "little")
        found.setdefault(digest, []).append((words, tuple(row)))
    return [row for of_one in found.values() for _, row in sorted(of_one)[:most]]


def plain_hash(row, state):
    for value in row:
        (bits,) = struct.unpack("<Q", struct.pack("<d", value + 0.0))
        state = (state ^ bits) * 0x9E3779B97F4A7C15 % 2**64
        state ^= state >> 29
    state = (state ^ state >> 33) * 0xFF51AFD7ED558CCD % 2**64
    state = (state ^ state >> 33) * 0xC4CEB9FE1A85EC53 % 2**64
    return state ^ state >> 33


def test_the_chosen_rows_are_those_of_the_arithmetic():
    assert OPERATOR.sketch(np.array(twin(X, IDS.astype(str), 5))) == WHOLE


def test_ids_have_two_words_of_a_keyed_hash():
    """A known value: other places, and later versions, must choose the same rows."""
    digests, missing = id_digests(np.array(["7"], dtype=object))
    assert (digests.tolist(), missing.tolist()) == ([[5397428214858435896, 6807834577774342357]], [False])
    assert WHOLE.sums[:3].tolist() == [164715147, 219499848, 79668304]
