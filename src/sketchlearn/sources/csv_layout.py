"""How the text of a CSV file is cut into cells: what the user says, and what the first lines tell of the rest."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from sketchlearn.schemas.raw_values import is_missing
from sketchlearn.schemas.written_numbers import DECIMALS, DOUBTFUL, has_groups

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}  # in the order in which a tie is decided
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")  # 1,234 may be one and a bit, or more than a thousand
MARKS = re.compile(r"[.,]")
LINE_END = re.compile(r"\r\n|\r|\n")
#: blank lines, and a line that names the separator, which some programs write for Excel
PREAMBLE = re.compile(r"(?: *(?:\r\n|\r|\n))*(?:\"?sep=(?P<separator>[^\r\n])\"?(?:\r\n|\r|\n))?")
SNIFFED_RECORDS = 64  # Records that are looked at: more tell little more.
OVERRIDABLE = "told from its first lines"  # The end of a remark; the command line adds which options say otherwise.
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Dialect:
    """What a user says about CSV files; None means that the first lines tell.

    Parameters
    ----------
    delimiter : the character between cells.
    decimal : the decimal point of numbers, "." or ",".
    header : whether the first line names the columns.
    encoding : of the text, such as "cp1252"; None means UTF-8, or UTF-16 if the file begins with its mark.
    """

    delimiter: str | None = None
    decimal: str | None = None
    header: bool | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ValueError(f'delimiter must be one character, such as ";", not {self.delimiter!r}')
        if self.decimal is not None and self.decimal not in DECIMALS:
            raise ValueError(f'decimal must be "." or ",", not {self.decimal!r}')
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            raise ValueError(f'there is no encoding {self.encoding!r}: "cp1252" and "latin-1" are some') from None

    def encoding_of(self, first: bytes) -> str | None:
        """The encoding of a file that begins so; None for UTF-8."""
        return self.encoding or ("utf-16" if first.startswith(UTF_16_MARKS) else None)


@dataclass(frozen=True)
class Layout:
    """How a file is cut into cells.

    Attributes
    ----------
    delimiter, decimal : as of a `Dialect`.
    header : whether the first record names the columns.
    cells : the first record.
    commas : positions of columns whose numbers have commas that were not taken for decimal ones.
    grouped : positions of columns of numbers whose thousands are set apart, such as 1,234.5 or, with decimal commas,
        1.234,5 or 1 234,5.
    skipped : lines before it, which are blank or name the delimiter.
    remark : what was told from the first lines, if it is not what CSV is by its name; empty otherwise.
    """

    delimiter: str
    decimal: str
    header: bool
    cells: tuple[str, ...]
    commas: tuple[int, ...] = ()
    grouped: tuple[int, ...] = ()
    skipped: int = 0
    remark: str = ""

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the columns, if they have any."""
        return self.cells if self.header else None


def layout_of(data: bytes, dialect: Dialect, *, ended: bool) -> Layout | None:
    """The layout of a file that begins with these lines, the last of them whole; None if there are none.

    >>> layout_of(b"a;b\\n1,5;2\\n", Dialect(), ended=True).remark
    'cells are separated by semicolons, and numbers have decimal commas (told from its first lines)'
    """
    text = text_of(data)
    before = PREAMBLE.match(text)
    assert before is not None
    if before["separator"]:
        dialect = replace(dialect, delimiter=dialect.delimiter or before["separator"])
    text = text[before.end() :]
    delimiter = dialect.delimiter or _delimiter(text, ended)
    records = _records(text, delimiter, ended)
    if not records:
        return None
    header = not are_numbers(records[0]) if dialect.header is None else dialect.header
    decimal = dialect.decimal or decimal_of(records[header:], delimiter)
    grouped = grouped_columns(records[header:], decimal, sure=dialect.decimal is not None)
    commas = tuple(i for i in _with_commas(records[header:]) if decimal == "." and i not in grouped)
    facts = []
    if dialect.delimiter is None and delimiter != ",":
        facts.append(f"cells are separated by {DELIMITERS[delimiter]}")
    if dialect.decimal is None and decimal == ",":
        facts.append("numbers have decimal commas")
    if grouped:
        facts.append("thousands are set apart")
    remark = f"{', and '.join(facts)} ({OVERRIDABLE})" if facts else ""
    skipped = len(LINE_END.findall(before[0]))
    return Layout(delimiter, decimal, header, tuple(records[0]), commas, grouped, skipped, remark)


def text_of(data: bytes) -> str:
    """The text of the first lines: UTF-8 or, where it cannot be that, what Windows or Latin-1 make of it."""
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            pass
    return data.decode("latin-1")


def are_numbers(cells: Sequence[str]) -> bool:
    """Whether the cells of a first line are numbers alone, so that it is a row and not the names of columns."""
    return all(map(_is_written_number, cells))


def grouped_columns(rows: Sequence[Sequence[str]], decimal: str, *, sure: bool) -> tuple[int, ...]:
    """Positions of columns of numbers whose thousands are set apart.

    It is `sure` where the user states the decimal point: then 1,234 is more than a thousand, or a little more than
    one. Otherwise some number of the column has to leave no doubt.
    """
    columns = [_values(column) for column in zip(*rows, strict=False)]
    return tuple(i for i, values in enumerate(columns) if has_groups(values, decimal, sure=sure))


def decimal_of(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """The decimal point of these rows: a comma if some column has numbers with commas, and none has points.

    >>> decimal_of([["1,5", "2"], ["1,25", "Zoë"]], ";"), decimal_of([["1,234", "1.5"]], ",")
    (',', '.')
    >>> decimal_of([["1.234,50", "1.234"]], ";"), decimal_of([["1,234.50", "1,5"]], ";")
    (',', '.')
    """
    columns = [_values(column) for column in zip(*rows, strict=False)]
    points = [cell for values in columns if all(map(_is_number, values)) for cell in values if "." in cell]
    with_marks = {sign for sign in DECIMALS for i in grouped_columns(rows, sign, sure=False) if _has_marks(columns[i])}
    if len(with_marks) == 1 and all(map(DOUBTFUL[","].fullmatch, map(str.strip, points))):
        return with_marks.pop()
    if points:
        return "."
    # between semicolons, a comma is a decimal one; elsewhere 1,234 may as well be a thousand and more
    cells = [cell for position in _with_commas(rows) for cell in columns[position] if "," in cell]
    sure = delimiter == ";" or not all(map(THOUSANDS.fullmatch, cells))
    return "," if cells and sure else "."


def _with_commas(rows: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Positions of columns that are numbers if commas are decimal points, and not otherwise."""
    columns = [_values(column) for column in zip(*rows, strict=False)]
    return tuple(
        position
        for position, values in enumerate(columns)
        if all(_is_number(_with_point(cell)) for cell in values) and not all(map(_is_number, values))
    )


def _has_marks(values: Sequence[str]) -> bool:
    """Whether points and commas tell thousands from decimals: spaces between thousands say nothing of decimals."""
    return any(len(set(MARKS.findall(cell))) == 2 or len(MARKS.findall(cell)) > 1 for cell in values)


def _values(column: Sequence[str]) -> list[str]:
    return [cell for cell in column if not is_missing(cell)]


def _delimiter(text: str, ended: bool) -> str:
    """The delimiter that makes records of one length and, of several, most numbers and fewest other delimiters."""
    found, best = ",", (0.0, 0.0, 0.0)
    for delimiter in DELIMITERS:
        records = _records(text, delimiter, ended)
        if not records or len(records[0]) < 2:
            continue
        alike = sum(len(record) == len(records[0]) for record in records) / len(records)
        cells = [cell for record in records[1:] or records for cell in record]
        numbers = [_is_written_number(cell) for cell in cells]
        others = set(DELIMITERS) - {delimiter}
        clean = [known or not others & set(cell) for known, cell in zip(numbers, cells, strict=True)]
        score = (alike, sum(numbers) / len(cells), sum(clean) / len(cells))
        if score > best:
            found, best = delimiter, score
    return found


def _records(text: str, delimiter: str, ended: bool) -> list[list[str]]:
    """The first records that are not blank; of text that goes on, the last one may be cut and is left out."""
    found: list[list[str]] = []
    with suppress(csv.Error):  # a quote that is never closed
        for record in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            found += [record] if record else []
            if len(found) > SNIFFED_RECORDS:
                return found
    return found if ended or len(found) < 2 else found[:-1]


def _is_written_number(cell: str) -> bool:
    """Whether a cell is a number with a decimal point or comma, or with thousands that are set apart beyond doubt."""
    plain = _is_number(cell) or _is_number(_with_point(cell))
    return plain or any(has_groups([cell], sign, sure=False) for sign in DECIMALS)


def _is_number(cell: str) -> bool:
    return NUMBER.fullmatch(cell) is not None


def _with_point(cell: str) -> str:
    """A number with a decimal comma as one with a point; others as something that is no number."""
    return cell.replace(",", ".") if "." not in cell else "not one"
