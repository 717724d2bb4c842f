"""One table as every kind of thing that holds rows."""

import gzip

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import scipy.sparse

NAMES = (*"abcdefg", "größe")


class Capsule:
    """Something that only speaks Arrow's C interface."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class CapsuleOfBatch:
    def __init__(self, batch):
        self.batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self.batch.__arrow_c_array__(requested_schema)


def arrow(X):
    return pa.table({name: X[:, i] for i, name in enumerate(NAMES)})


def pieces(rows, n=700):
    return [rows[i : i + n] for i in range(0, len(rows), n)]


def one_buffer(X, n=7):
    """A generator that uses the same memory for every batch."""
    buffer = np.empty((n, X.shape[1]), X.dtype)
    for part in pieces(X, n):
        buffer[: len(part)] = part
        yield buffer[: len(part)]


def in_memory(X):
    """name -> function that makes it anew."""
    table, frame = arrow(X), pd.DataFrame(X, columns=list(NAMES))
    return {
        "array": lambda: X,
        "fortran": lambda: np.asfortranarray(X),
        "list of lists": lambda: X.tolist(),
        "big-endian": lambda: X.astype(X.dtype.newbyteorder(">")),
        "csr": lambda: scipy.sparse.csr_matrix(X),
        "csc": lambda: scipy.sparse.csc_array(X),
        "coo": lambda: scipy.sparse.coo_array(X),
        "pandas": lambda: frame,
        "pandas nullable": lambda: frame.convert_dtypes(dtype_backend="numpy_nullable"),
        "pandas arrow": lambda: frame.convert_dtypes(dtype_backend="pyarrow"),
        "polars": lambda: pl.from_arrow(table),
        "polars lazy": lambda: pl.from_arrow(table).lazy(),
        "table": lambda: table,
        "chunked": lambda: pa.concat_tables([table[:10], table[10:11], table[11:]]),
        "batch": lambda: table.combine_chunks().to_batches()[0],
        "reader": lambda: table.to_reader(max_chunksize=33),
        "dataset": lambda: pa.dataset.dataset(table),
        "scanner": lambda: pa.dataset.dataset(table).scanner(),
        "duckdb": lambda: duckdb.from_arrow(table),
        "capsule": lambda: Capsule(table),
        "capsule of a batch": lambda: CapsuleOfBatch(table.combine_chunks().to_batches()[0]),
        "list of arrays": lambda: pieces(X),
        "list of frames": lambda: [frame[:5], frame[5:]],
        "generator": lambda: iter(pieces(X, 3)),
        "one buffer": lambda: one_buffer(X),
        "generator of tables": lambda: (table[i : i + 50] for i in range(0, len(X), 50)),
        "generator of kinds": lambda: iter([table[:9], pl.from_arrow(table[9:20]), frame[20:]]),
    }


def write(X, path):
    """Writes the table, by the end of the path's name."""
    table = arrow(X)
    if path.suffix == ".npy":
        np.save(path, X)
    elif path.suffix == ".npz":
        np.savez(path, X=X, other=np.zeros(3))
    elif path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=257)
    elif path.suffix == ".feather":
        pa.feather.write_feather(table, path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table, max_chunksize=100)
    elif path.suffix == ".ipc":
        with pa.ipc.new_stream(path, table.schema) as file:
            file.write_table(table, max_chunksize=100)
    else:
        lines = [",".join(NAMES), *(",".join(map(repr, row)) for row in X.tolist())]
        text = "\n".join(lines).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


ENDINGS = (".npy", ".npz", ".csv", ".csv.gz", ".parquet", ".feather", ".arrow", ".ipc")


def in_files(X, folder):
    """name -> path, of files, folders and patterns with the rows of X."""
    found = {ending: write(X, folder / f"all{ending}") for ending in ENDINGS}
    np.savetxt(folder / "plain.csv", X, delimiter=",", fmt="%.17g")
    found["CSV without names"] = folder / "plain.csv"
    for ending in (".csv", ".parquet"):
        place = folder / f"folder{ending}"
        (place / "deep" / "_ignored").mkdir(parents=True)
        cuts = np.array_split(X, 5)
        for i, part in enumerate(cuts):
            write(part, place / ("deep" if i > 2 else "") / f"part{i}{ending}")
        write(X[:0], place / f"part9{ending}")
        write(X[:3], place / f".hidden{ending}")
        write(X[:3], place / f"_begun{ending}")
        write(X[:3], place / "deep" / "_ignored" / f"other{ending}")
        (place / "readme.txt").write_text("not rows")
        found[f"folder of {ending}"] = place
        found[f"list of {ending}"] = [*sorted(place.glob("part*")), *sorted((place / "deep").glob("part*"))]
    found["pattern"] = str(folder / "folder.parquet" / "**" / "part*.parquet")
    found["generator of paths"] = found["list of .csv"]
    return found
