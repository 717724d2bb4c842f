"""Arguments and options that the commands share."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import partial, wraps
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from sketchlearn.core.packages import required
from sketchlearn.estimators.registry import DESIGNS, designs

Nulls = StrEnum("Nulls", ["error", "drop"])
Neighbors = StrEnum("Neighbors", {"add_remove": "add-remove", "replace_one": "replace"})
NeighborsOption = Annotated[Neighbors, typer.Option(help="Hide whether a record is there, or only its values.")]
Covariance = StrEnum("Covariance", ["full", "tied", "diag", "spherical"])

AUTO, ALL, NONE = "auto", "all", "none"
#: options that help lists under a head of their own, as few need them
_reading = partial(typer.Option, rich_help_panel="Reading tables")
_designing = partial(typer.Option, rich_help_panel="The operator")
running = partial(typer.Option, rich_help_panel="Running")
_signing = partial(typer.Option, rich_help_panel="Signatures")


class GroupedHelp(TyperCommand):
    """A command whose help lists its options in groups; without rich, which takes longer to import than all else."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                default = "Arguments" if param.param_type_name == "argument" else "Options"
                groups.setdefault(getattr(param, "rich_help_panel", None) or default, []).append(record)
        for name, records in filter(all, groups.items()):
            with formatter.section(name):
                formatter.write_dl(records)


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """The command as typer takes it: the options of a dataclass, in the place of a parameter that takes one."""
    parameters, groups = list[inspect.Parameter](), dict[str, tuple[Any, list[str]]]()
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        own, kind = [parameter], parameter.annotation
        if is_dataclass(kind):
            hints = get_type_hints(kind, include_extras=True)
            chosen = [field for field in fields(kind) if hasattr(hints[field.name], "__metadata__")]
            own = [parameter.replace(name=one.name, default=one.default, annotation=hints[one.name]) for one in chosen]
            groups[parameter.name] = kind, [one.name for one in chosen]
        parameters += [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]

    @wraps(function)
    def command(**given: Any) -> None:
        made = {name: kind(**{own: given.pop(own) for own in names}) for name, (kind, names) in groups.items()}
        function(**given, **made)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def columns_from(text: str) -> tuple[Any, ...]:
    """The columns of `--columns a,b`: names, or positions if all are whole numbers.

    >>> columns_from("a, b"), columns_from("0,2")
    (('a', 'b'), (0, 2))
    """
    names = tuple(name.strip() for name in next(csv.reader([text]), []))
    if not all(names):
        raise typer.BadParameter(f"{text!r}: give names with commas between them, such as a,b")
    return tuple(map(int, names)) if all(name.isdecimal() for name in names) else names


def _number(text: Any, otherwise: str = "") -> int:
    """The number of -k; `otherwise` is what else it may be."""
    digits = str(text).strip()
    if not digits.isdecimal() or int(digits) < 1:
        raise typer.BadParameter(f"{text!r} is not a positive whole number{otherwise}")
    return int(digits)


def _number_or_auto(text: Any) -> int | str:
    return AUTO if text == AUTO else _number(text, ", or auto")


def _touched(text: Any) -> int | str | None:
    """How many frequencies a record contributes to; None for all."""
    return None if text == ALL else AUTO if text == AUTO else _number(text, ", auto or all")


def _directions(text: Any) -> int | str | None:
    """In how many directions cells are told apart; None for frequencies instead."""
    return None if text == NONE else AUTO if text == AUTO else _number(text, ", auto or none")


def _largest_number(text: Any) -> int:
    if text == AUTO:
        raise typer.BadParameter(
            "a sketch is designed for a number: give the most clusters that there may be, such as -k 20; sketchlearn "
            "fit kmeans -k auto then finds how many there are"
        )
    return _number(text)


Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...",
        help="Files (.csv, .tsv, .jsonl, .parquet, .arrow, .npy, .npz, .xlsx), patterns or folders; tables "
        "(sqlite:shop.db?table=orders, duckdb:...); - is CSV on standard input.",
    ),
]
ClassFiles = Annotated[
    list[str], typer.Argument(metavar="LABEL=SKETCH...", help="One sketch file per class, all of one design.")
]
SketchFile = Annotated[str, typer.Argument(metavar="SKETCH", help="A sketch file; - is standard input.")]
Output = Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Where to write; - is standard output.")]
SchemaOutput = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="The schema file to write; - is standard output.")
]
ModelOutput = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="The model file to write; - is standard output.")
]
Components = Annotated[
    int, typer.Option("-k", "--n-components", parser=_number, metavar="K", help="Number of clusters or components.")
]
ExplainedComponents = Annotated[
    int | None,
    typer.Option("-k", "--n-components", parser=_number, metavar="K", help="Number of clusters to look for."),
]
ComponentsOrAuto = Annotated[
    Any,
    typer.Option(
        "-k",
        "--n-components",
        parser=_number_or_auto,
        metavar="K|auto",
        help="Number of clusters or components; auto lets the sketch tell it.",
    ),
]
DesignComponents = Annotated[
    int | None,
    typer.Option(
        "-k",
        "--n-components",
        parser=_largest_number,
        metavar="K",
        help="Number of clusters or components, or the most that there may be; where the task needs it.",
    ),
]
MaxClusters = Annotated[int, typer.Option(min=1, help="The largest number of clusters to look at.")]
Columns = Annotated[
    Any, _reading(parser=columns_from, metavar="A,B,...", help="Columns to read: names, or positions from 0.")
]
Exclude = Annotated[
    Any, _reading(parser=columns_from, metavar="A,B,...", help="Columns to leave out: names, or positions.")
]
SchemaOption = Annotated[
    str | None,
    _reading(
        "--schema", metavar="auto|FILE", help="Take text, categories, dates and flags, too: as proposed, or by a file."
    ),
]
NumericOnly = Annotated[bool, _reading("--numeric-only", help="Leave out columns that are not numbers, and say which.")]
Delimiter = Annotated[
    str | None,
    _reading(metavar="CHARACTER", help="What is between the cells of CSV (tab for tabs); by default as seen."),
]
Decimal = Annotated[str | None, _reading(metavar="[.|,]", help="The decimal point of CSV; by default as seen.")]
Header = Annotated[
    bool | None,
    _reading("--header/--no-header", help="Whether the first line names columns; by default unless it is numbers."),
]
Encoding = Annotated[
    str | None, _reading(metavar="NAME", help="The encoding of CSV that is not UTF-8, such as cp1252 or latin-1.")
]
NullsOption = Annotated[Nulls, _reading(help="Refuse missing values, or drop rows that have any.")]
UnitColumn = Annotated[
    Any,
    typer.Option(
        parser=columns_from,
        metavar="COLUMN",
        help="Ids of people (or the like) that releases shall protect, instead of rows.",
    ),
]
RowsPerUnit = Annotated[
    int | None, typer.Option(min=1, help="With --unit: how many rows of each of them count at most.")
]
Seed = Annotated[int, running(min=0, help="Seed of all random choices.")]
Key = Annotated[
    str | None, _signing("--key", metavar="FILE", help="Sign the sketch with this private key: see keygen.")
]
Trusted = Annotated[
    list[str] | None,
    _signing(
        "--trusted", metavar="FILE", help="Accept only sketches signed by this public key; give it again for more keys."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object to standard output, for machines.")]
Progress = Annotated[
    bool | None,
    running("--progress/--no-progress", help="Show progress on standard error; by default if it is a terminal."),
]


def _known_task(name: str) -> str:
    if name not in DESIGNS and name not in designs():
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, designs()))}.")
    return name


TaskOption = Annotated[
    str,
    _designing(metavar=f"[{'|'.join(DESIGNS)}]", callback=_known_task, help="What will be learned from the sketches."),
]
DesignTargets = Annotated[
    Any,
    _designing(
        "--targets",
        parser=columns_from,
        metavar="A,B,...",
        help="For --task kernel: names or positions of the targets; by default the last column.",
    ),
]
Frequencies = Annotated[int | None, _designing(min=1, help="Size of the sketch; by default 10 per parameter.")]
Subsample = Annotated[
    Any,
    _designing(
        parser=_touched,
        metavar="auto|all|R",
        help="How many frequencies a record contributes to; auto takes fewer where --n-rows is large.",
    ),
]
Wave = Annotated[str, _designing(help="exponential, cosine, square (one bit per feature), sawtooth or triangle.")]
Jobs = Annotated[int | None, running("--jobs", "-j", help="Threads; by default all cores.")]
DeviceOption = Annotated[
    str | None, running("--device", metavar="NAME", help="Where features are computed: cpu, cuda, cuda:1 or auto.")
]


def _drawable(picture: str | None) -> str | None:
    """Refuses a picture that cannot be drawn before any work is done for it."""
    if picture is not None:
        required("matplotlib", "plot")
    return picture


Plot = Annotated[
    str | None,
    typer.Option(metavar="PICTURE", callback=_drawable, help="Draw a picture to this file, such as out.png."),
]
Rows = Annotated[
    int | None,
    _designing(min=1, help="Keep this many rows in each sketch, in the clear, for clusters and standard errors."),
]
Standardize = Annotated[
    bool, _designing("--standardize", help="Measure errors in standard deviations, so that units do not matter.")
]
Normalize = Annotated[
    bool, _designing("--normalize", help="Divide rows by their lengths first, as cosine similarity does.")
]
Directions = Annotated[
    Any,
    _designing(
        "--directions",
        parser=_directions,
        metavar="auto|none|P",
        help="Of many columns: in how many directions cells are told apart (none takes frequencies), or moments known.",
    ),
]
ProfileColumns = Annotated[
    Any,
    _designing(
        "--profile-columns",
        "--along",
        parser=columns_from,
        metavar="A,B,...",
        help="Columns that are not clustered on, but summed in each cluster: names or positions.",
    ),
]
Sample = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Some of the sketched rows, or rows like them (files or -): they are reweighted, and clustered.",
    ),
]
AssumePublicSample = Annotated[
    bool,
    typer.Option("--assume-public-sample", help="The rows of --sample are public: a private sketch takes no others."),
]
MinRecords = Annotated[
    int, running(min=0, help="Warn of an exact sketch of fewer records, which gives them back; 0 never warns.")
]
SafeCsv = Annotated[
    bool, typer.Option("--safe-csv", help="Put ' before text that a spreadsheet would take for a formula.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with code 3 if there was a warning about the fit.")]
StrictAlarms = Annotated[bool, typer.Option("--strict", help="Exit with code 3 if the records differ or changed.")]
Decoder = Annotated[
    str, typer.Option(help="auto, ompr, splitting, shift, amp, genetic; for k-means also dirac-ompr, dirac-omp.")
]


@dataclass(frozen=True)
class CsvOptions:
    """How CSV is read."""

    delimiter: Delimiter = None
    decimal: Decimal = None
    header: Header = None
    encoding: Encoding = None

    def csv_arguments(self) -> dict[str, Any]:
        """The arguments of `source` that they stand for."""
        delimiter = "\t" if self.delimiter in ("tab", "\\t") else self.delimiter
        if delimiter is not None and len(delimiter) != 1:
            raise typer.BadParameter(f"--delimiter must be one character, such as ';', or tab, not {delimiter!r}")
        if self.decimal not in (None, ".", ","):
            raise typer.BadParameter(f"--decimal must be . or , and not {self.decimal!r}")
        return {"delimiter": delimiter, "decimal": self.decimal, "header": self.header, "encoding": self.encoding}


@dataclass(frozen=True)
class ReadingOptions(CsvOptions):
    """How tables are read.

    >>> arguments = ReadingOptions(delimiter="tab", exclude=("id", "name")).arguments()
    >>> arguments["exclude"], arguments["delimiter"]
    (('id', 'name'), '\\t')
    """

    columns: Columns = None
    exclude: Exclude = None
    numeric_only: NumericOnly = False
    nulls: NullsOption = Nulls.error

    def arguments(self) -> dict[str, Any]:
        """The arguments of `source` that they stand for."""
        chosen = {"columns": self.columns, "exclude": self.exclude or (), "numeric_only": self.numeric_only}
        return {**chosen, "nulls": self.nulls.value, **self.csv_arguments()}
