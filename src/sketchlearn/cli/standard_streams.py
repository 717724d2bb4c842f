"""Files and standard streams: what is read, what is written, and that the two are never the same."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sketchlearn.cli.error_messages import misused
from sketchlearn.sketch import Sketch
from sketchlearn.storage import container
from sketchlearn.storage.sketch_files import from_bytes

STANDARD = "-"


def read(path: str) -> bytes:
    """The bytes of a file, or of standard input."""
    if path == STANDARD:
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OSError(f"cannot read {path}: {error.strerror}") from None


def named(path: str) -> str:
    """The file in words."""
    return "standard input" if path == STANDARD else path


def read_sketch(path: str) -> Sketch:
    """The sketch in a file, or on standard input."""
    data = read(path)
    try:
        return from_bytes(data)
    except container.FormatError as error:
        raise container.FormatError(f"{named(path)}: {error}") from None


def write(path: str, data: bytes) -> None:
    """Writes a file, all of it or nothing; or standard output."""
    if path == STANDARD:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        container.write(path, data)


def check_paths(inputs: Iterable[str], outputs: Iterable[str | None], *, json: bool = False) -> None:
    """Refuses, before any work, what would lose data or mix two things in one stream."""
    sources, targets = list(inputs), [path for path in outputs if path is not None]
    if sources.count(STANDARD) > 1:
        raise misused("standard input can be read only once: give - for one input at most")
    if targets.count(STANDARD) + json > 1:
        raise misused("--json and -o - both write to standard output: choose one")
    if STANDARD in targets and sys.stdout.isatty():
        raise misused("standard output is a terminal: give -o FILE, or send it into a pipe or file")
    for n, target in enumerate(targets):
        if target == STANDARD:
            continue
        if not os.path.basename(target) or os.path.isdir(target):
            raise misused(f"the output {target or '(nothing)'} is a folder: give the name of a file")
        if not os.path.isdir(os.path.dirname(os.path.abspath(target))):
            raise misused(f"cannot write {target}: there is no folder {os.path.dirname(target)}")
        if any(_same(target, source) for source in sources):
            raise misused(f"{target} is an input too: give another output, so that no data are lost")
        if any(_same(target, other) for other in targets[:n]):
            raise misused(f"{target} would be written twice: give two different names")


def _same(a: str, b: str) -> bool:
    if STANDARD in (a, b):
        return False
    try:
        return os.path.samefile(a, b)
    except OSError:
        return os.path.realpath(a) == os.path.realpath(b)


class Report:
    """What a verb tells: words for people or, with --json, one object; beside a result on standard output, words go to
    standard error."""

    def __init__(self, as_json: bool, outputs: Iterable[str | None] = ()) -> None:
        self.as_json = as_json
        self.stream = sys.stderr if STANDARD in outputs else sys.stdout

    def give(self, figures: dict[str, Any], *lines: str) -> None:
        """The figures for machines, the lines for people."""
        if self.as_json:
            print(json.dumps(figures, allow_nan=False, default=_plain))
        else:
            for line in lines:
                print(line, file=self.stream)
        self.stream.flush()


def _plain(item: Any) -> Any:
    return item.tolist() if hasattr(item, "tolist") else str(item)


def aligned(rows: list[tuple[str, str]]) -> list[str]:
    """Names and values in two columns."""
    width = max((len(name) for name, _ in rows), default=0)
    return [f"{name:{width}}  {value}" for name, value in rows]
