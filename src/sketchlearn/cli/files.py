"""What the commands read and write: files, standard streams and rows of both."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

import sketchlearn as skl
from sketchlearn.cli.errors import misused, refuse, say
from sketchlearn.cli.options import CsvOptions
from sketchlearn.core.limits import FormatError, read_at_most
from sketchlearn.core.messages import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray


STANDARD = "-"


def read(path: str) -> bytes:
    """The bytes of a file, or of standard input."""
    from sketchlearn.core.containers import bytes_of

    try:
        data = read_at_most(sys.stdin.buffer) if path == STANDARD else bytes_of(path)
    except OSError as error:
        raise OSError(f"cannot read {path}: {error.strerror}") from None
    if not data:
        raise ValueError(f"{named(path)} is empty: it has no bytes")
    return data


def named(path: str) -> str:
    return "standard input" if path == STANDARD else path


def read_as(kind: str, path: str, parse: Callable[[bytes], Any]) -> Any:
    """What `parse` makes of a file of a kind, or of standard input."""
    with naming(path, kind):
        return parse(read(path))


def read_sketch(path: str, trusted: list[str] | None = None) -> skl.Sketch:
    """The sketch in a file, or on standard input, signed by one of the keys of --trusted if there are any."""

    keys = keys_from(trusted)
    found: skl.Sketch = read_as("sketch", path, lambda data: skl.from_bytes(data, trusted=keys))
    return found


def keys_from(trusted: list[str] | None) -> frozenset[str] | None:
    from sketchlearn.core.signatures import public_keys

    return public_keys(trusted) if trusted else None


def signing_key(path: str | None) -> Any:
    """The private key of --key, to be read before any work."""
    from sketchlearn.core.signatures import private_key

    return None if path is None else private_key(path)


def model_from(path: str) -> Any:
    from sketchlearn.estimators.files import model_from_bytes

    return read_as("model", path, model_from_bytes)


def files_by_label(arguments: list[str]) -> dict[str, str]:
    """The file of each class, of arguments LABEL=SKETCH.

    >>> files_by_label(["setosa=one.sketch", "virginica=two.sketch"])
    {'setosa': 'one.sketch', 'virginica': 'two.sketch'}
    """
    files: dict[str, str] = {}
    for text in arguments:
        label, _, path = text.partition("=")
        if not label or not path:
            raise misused(f"{text}: give LABEL=SKETCH, such as setosa=setosa.sketch")
        if label in files:
            raise misused(f"the label {label} is given twice: merge the sketches of one class first")
        files[label] = path
    return files


def files_from(arguments: list[str]) -> list[str]:
    """All files that the arguments stand for, each once; `-` alone is standard input."""
    from sketchlearn.rows.paths import Address, files_of

    if STANDARD in arguments:
        if len(arguments) > 1:
            raise misused("- (standard input) cannot be mixed with files: sketch them apart, then merge")
        return arguments
    found = [os.fspath(path) for argument in arguments for path in files_of(Path(argument))]
    seen: dict[tuple[str, str | None], str] = {}
    for path in found:
        address = Address.of(path)
        real = os.path.realpath(address.file), address.name
        if real in seen:
            raise misused(f"{path} is given twice (as {seen[real]}): its rows would count twice")
        seen[real] = path
        refuse_own_file(path)
    return found


def rows_from(paths: list[str], **arguments: Any) -> skl.extend.Source:
    """The rows of files, or of standard input, with arguments of `source`; says what was assumed of them."""
    from sketchlearn.rows.csv import CsvStream

    if paths == [STANDARD]:
        if "schema" in arguments:
            raise misused("--schema needs files: save standard input to one first")
        rows: skl.extend.Source = CsvStream(sys.stdin.buffer, **arguments)
    else:
        rows = skl.source(paths if len(paths) > 1 else paths[0], **arguments)
    remarks_said_once()(rows.remarks)
    return rows


def remarks_said_once() -> Callable[[Mapping[str, str]], None]:
    """A function that says what was told from first lines, or left out: once, however many files it is true of."""
    said: set[str] = set()

    def say_new(remarks: Mapping[str, str]) -> None:
        for text, place in remarks.items():
            if text not in said:
                say(f"{place}: {text}")
        said.update(remarks)

    return say_new


def write_sketch(path: str, sketch: skl.Sketch, min_records: int = 0, *, key: Any = None) -> None:
    """Writes a sketch, an exact one or a share of noise for its owner alone; warns of exact ones of few records."""
    exact = sketch.ledger is None
    write(path, sketch.to_bytes(key=key), owner_only=exact or sketch.lacks_shares)
    if exact and 0 < sketch.count < min_records:
        from sketchlearn.sketch.sums import few_records

        remedy = "use sketchlearn privatize, or merge it with sketches of more records (--min-records 0 silences this)"
        say(f"warning: {few_records(sketch.count, remedy)}")


def write(path: str, data: bytes, *, owner_only: bool = False) -> None:
    """Writes a file, all of it or nothing; or standard output."""
    if path == STANDARD:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    from sketchlearn.core import containers as container

    container.write(path, data, owner_only=owner_only)


def check_paths(inputs: Iterable[str | None], outputs: Iterable[str | None], *, json: bool = False) -> None:
    """Refuses, before any work, what would lose data or mix two things in one stream."""
    sources, targets = ([path for path in paths if path is not None] for paths in (inputs, outputs))
    mistakes = {
        "standard input can be read only once: give - for one input at most": sources.count(STANDARD) > 1,
        "--json and -o - both write to standard output: choose one": targets.count(STANDARD) + json > 1,
        "standard output is a terminal: give -o FILE, or use a pipe": STANDARD in targets and sys.stdout.isatty(),
    }
    refuse(mistakes)
    for n, target in enumerate(targets):
        if target == STANDARD:
            continue
        folder, is_folder = os.path.dirname(target), not os.path.basename(target) or os.path.isdir(target)
        is_source, again = (any(_same(target, other) for other in others) for others in (sources, targets[:n]))
        mistakes = {
            f"the output {target or '(nothing)'} is a folder: give the name of a file": is_folder,
            f"cannot write {target}: there is no folder {folder}": not os.path.isdir(folder or "."),
            f"{target} is an input too: give another output, so that no data are lost": is_source,
            f"{target} would be written twice: give two different names": again,
        }
        refuse(mistakes)


def _same(a: str, b: str) -> bool:
    if STANDARD in (a, b):
        return False
    from sketchlearn.rows.paths import file_of

    a, b = os.fspath(file_of(a)), os.fspath(file_of(b))
    try:
        return os.path.samefile(a, b)
    except OSError:
        return os.path.realpath(a) == os.path.realpath(b)


def tell(as_json: bool, figures: dict[str, Any], *lines: str, output: str | None = None) -> None:
    """Prints the figures as one JSON object, or the lines for people, control characters in them escaped.

    The lines go to standard error if the result itself goes to standard output.
    """
    stream = sys.stderr if output == STANDARD else sys.stdout
    told = (json.dumps(figures, allow_nan=False, default=_plain),) if as_json else map(printable, lines)
    stream.writelines(f"{line}\n" for line in told)
    stream.flush()


def note(*lines: str) -> None:
    """Prints lines beside the result, on standard error, control characters in them escaped."""
    sys.stderr.writelines(f"{printable(line)}\n" for line in lines)
    sys.stderr.flush()


def _plain(item: Any) -> Any:
    return item.tolist() if hasattr(item, "tolist") else str(item)


MOST_BYTES = 1 << 27  # A larger file is not looked into.
OTHER_REMEDY = "sketchlearn info {path} says more"
#: (wanted, found) -> what to do about it
REMEDIES = {
    ("sketch", "design"): "sketchlearn sketch DATA --design {path} -o FILE makes a sketch",
    ("sketch", "model"): "give the sketch that it was learned from",
    ("sketch", "table of rows"): "first type sketchlearn sketch {path} -k K -o FILE, then this command with FILE",
    ("design", "sketch"): "give the design that it was made with",
    ("design", "model"): "sketchlearn design DATA -k K -o FILE makes a design",
    ("design", "table of rows"): "sketchlearn design {path} -k K -o FILE makes a design",
    ("model", "design"): "sketchlearn fit learns a model from a sketch",
    ("model", "sketch"): "sketchlearn fit kmeans -k K {path} -o FILE learns a model",
    ("model", "table of rows"): "sketchlearn fit learns a model from a sketch",
    ("design", "schema"): "sketchlearn design DATA -k K --schema {path} -o FILE makes a design",
    ("sketch", "schema"): "sketchlearn design DATA -k K --schema {path} -o FILE is the first step to a sketch",
    ("schema", "table of rows"): "sketchlearn schema {path} -o FILE proposes one",
}


@contextmanager
def naming(path: str, wanted: str = "") -> Iterator[None]:
    """Errors about a file, with its name and, if it was to be of a kind, what it is instead."""
    from sketchlearn.files.sketches import WrongKindError
    from sketchlearn.rows.paths import holds_rows

    try:
        yield
    except ValueError as error:
        name, found = named(path), ""
        if wanted and isinstance(error, FormatError):
            table = "table of rows" if holds_rows(path) else ""
            found = error.found if isinstance(error, WrongKindError) else table
        if found:
            remedy = REMEDIES.get((wanted, found), OTHER_REMEDY).format(path=path)
            raise ValueError(f"{name} is a {found}, not a {wanted}: {remedy}") from None
        raise ValueError(str(error) if str(error).startswith(name) else f"{name}: {error}") from None


def refuse_own_file(path: str) -> None:
    """Refuses a sketch, a design or a model where rows are wanted."""
    from sketchlearn.files.sketches import kind_of
    from sketchlearn.rows.paths import holds_rows

    if holds_rows(path) or os.path.getsize(path) > MOST_BYTES:
        return
    if found := kind_of(Path(path).read_bytes()):
        raise ValueError(f"{path} is a {found}, not a table of rows: give the file with the rows")


# What formulas begin with (OWASP, "CSV injection"); the last four are what Japanese keyboards have for the first four.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def safe_cells(row: Iterable[Any]) -> list[Any]:
    """The cells of a row, with ' before text that begins like a formula; numbers stay as they are.

    >>> safe_cells(["=cmd|' /C calc'!A0", "price", -1.5])
    ["'=cmd|' /C calc'!A0", 'price', -1.5]
    """
    return [f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell for cell in row]


def csv_lines(file: TextIO, rows: Iterable[Iterable[Any]], *, safe: bool = False) -> None:
    """Writes rows as lines of CSV, None as an empty cell.

    >>> import sys
    >>> csv_lines(sys.stdout, [["id", "label"], ["=1", None], ["a, b", 2]], safe=True)
    id,label
    '=1,
    "a, b",2
    """
    writer = csv.writer(file, lineterminator="\n")
    # before version 3.13, Python does not quote a \r where lines end in \n
    quoting = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        cells = safe_cells(row) if safe else list(row)
        (quoting if any(isinstance(cell, str) and "\r" in cell for cell in cells) else writer).writerow(cells)


LARGEST_SAMPLE = 20_000  # rows: a fit works on them many times


@dataclass(frozen=True)
class SampleFiles(CsvOptions):
    """The files of --sample, none if it was not given, and how they are read."""

    sample: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Some of the sketched rows, or rows like them (files or -), to calibrate to the sketch and cluster.",
        ),
    ] = None
    assume_public_sample: Annotated[
        bool,
        typer.Option(
            "--assume-public-sample", help="The rows of --sample are public: a private sketch takes no others."
        ),
    ] = False

    @cached_property
    def paths(self) -> list[str]:
        return [] if self.sample is None else files_from([self.sample])

    def rows(self, operator: Any, seed: int) -> NDArray[Any] | None:
        """The rows without those that have missing values; of many, some."""
        import numpy as np

        from sketchlearn.core.randomness import row_chooser
        from sketchlearn.rows.sampling import sample as some_of

        if not self.paths:
            return None
        rows = rows_from(self.paths, nulls="drop", **self.csv_arguments())
        rows = rows if operator.columns is None else rows.only(operator.columns)
        some, from_all_over, _ = some_of(rows, LARGEST_SAMPLE + 1, row_chooser(seed))
        if not len(some):
            raise ValueError("--sample has no rows: give some, or leave it out")
        if some.shape[1] != operator.n_features:
            raise ValueError(f"--sample has {some.shape[1]} columns, but the sketch has {operator.n_features}")
        if len(some) > LARGEST_SAMPLE:
            which = "drawn at random" if from_all_over else "the first"
            say(f"of --sample, {LARGEST_SAMPLE:,} rows are used ({which})")
        return np.asarray(some[:LARGEST_SAMPLE])
