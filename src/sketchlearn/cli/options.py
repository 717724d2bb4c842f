"""Arguments and options that the commands share."""

from __future__ import annotations

import csv
import inspect
import sys
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

AUTO = "auto"
#: options that help lists under a head of their own, as few need them
reading = partial(typer.Option, rich_help_panel="Reading tables")
designing = partial(typer.Option, rich_help_panel="The operator")
running = partial(typer.Option, rich_help_panel="Running")
_writing = partial(typer.Option, "--output", "-o", metavar="FILE")
counting = partial(typer.Option, "-k", "--n-components")
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


def number_or(**words: Any) -> Callable[[Any], Any]:
    """A parser of positive whole numbers, and of words that stand for other values."""

    def parsed(text: Any) -> Any:
        digits = str(text).strip()
        if digits in words:
            return words[digits]
        if not digits.isdecimal() or int(digits) < 1:
            raise typer.BadParameter(
                f"{text!r} is not a positive whole number{', or ' * bool(words)}{' or '.join(words)}"
            )
        return int(digits)

    return parsed


def largest_number(text: Any) -> Any:
    if text == AUTO:
        raise typer.BadParameter(
            "a sketch is designed for a number: give the most clusters that there may be, such as -k 20; sketchlearn "
            "fit kmeans -k auto then finds how many there are"
        )
    return number_or()(text)


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
Output = Annotated[str, _writing(help="Where to write; - is standard output.")]
OptionalOutput = Annotated[str | None, _writing(help="Where to write; - is standard output.")]
Components = Annotated[int, counting(parser=number_or(), metavar="K", help="Number of clusters or components.")]
ComponentsOrAuto = Annotated[
    Any,
    counting(
        parser=number_or(auto=AUTO),
        metavar="K|auto",
        help="Number of clusters or components; auto chooses it by the sketch.",
    ),
]
MaxClusters = Annotated[int, typer.Option(min=1, help="The largest number of clusters to look at.")]
Exclude = Annotated[
    Any, reading(parser=columns_from, metavar="A,B,...", help="Columns to leave out: names, or positions.")
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


def _shown(progress: bool | None) -> bool:
    return sys.stderr.isatty() if progress is None else progress


Progress = Annotated[
    bool | None,
    running(
        "--progress/--no-progress",
        callback=_shown,
        help="Show progress on standard error; by default if it is a terminal.",
    ),
]


def known_task(name: str) -> str:
    if name not in DESIGNS and name not in designs():
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, designs()))}.")
    return name


targeting = partial(typer.Option, "--targets", parser=columns_from, metavar="A,B,...")
Jobs = Annotated[int | None, running("--jobs", "-j", help="Threads; by default all cores.")]


def _drawable(picture: str | None) -> str | None:
    """Refuses a picture that cannot be drawn before any work is done for it."""
    if picture is not None:
        required("matplotlib", "plot")
    return picture


Plot = Annotated[
    str | None,
    typer.Option(metavar="PICTURE", callback=_drawable, help="Draw a picture to this file: out.png."),
]
Rows = Annotated[
    int | None,
    designing(min=1, help="Keep this many rows in each sketch, in the clear, for clusters and standard errors."),
]
MinRecords = Annotated[
    int, running(min=0, help="Warn of an exact sketch of fewer records, which gives them back; 0 never warns.")
]
SafeCsv = Annotated[
    bool, typer.Option("--safe-csv", help="Put ' before text that a spreadsheet would take for a formula.")
]
StrictAlarms = Annotated[bool, typer.Option("--strict", help="Exit with code 3 if the records differ or changed.")]
Decoder = Annotated[
    str, typer.Option(help="auto, ompr, splitting, shift, amp, genetic; for k-means also dirac-ompr, dirac-omp.")
]


@dataclass(frozen=True)
class CsvOptions:
    """How CSV is read."""

    delimiter: Annotated[
        str | None,
        reading(metavar="CHARACTER", help="What is between the cells of CSV (tab for tabs); inferred by default."),
    ] = None
    decimal: Annotated[str | None, reading(metavar="[.|,]", help="The decimal point of CSV; inferred by default.")] = (
        None
    )
    header: Annotated[
        bool | None,
        reading("--header/--no-header", help="Whether the first line names columns; by default unless it is numbers."),
    ] = None
    encoding: Annotated[
        str | None, reading(metavar="NAME", help="The encoding of CSV that is not UTF-8, such as cp1252 or latin-1.")
    ] = None

    def csv_arguments(self) -> dict[str, Any]:
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

    columns: Annotated[
        Any, reading(parser=columns_from, metavar="A,B,...", help="Columns to read: names, or positions from 0.")
    ] = None
    exclude: Exclude = None
    numeric_only: Annotated[
        bool, reading("--numeric-only", help="Leave out columns that are not numbers, and say which.")
    ] = False
    nulls: Annotated[Nulls, reading(help="Refuse missing values, or drop rows that have any.")] = Nulls.error

    def arguments(self) -> dict[str, Any]:
        chosen = {"columns": self.columns, "exclude": self.exclude or (), "numeric_only": self.numeric_only}
        return {**chosen, "nulls": self.nulls.value, **self.csv_arguments()}
