"""What a user sees when something goes wrong: one sentence on standard error, and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import typer

from sketchlearn.core.errors import Words, worded
from sketchlearn.core.messages import printable

FAILED, USAGE, DOUBTFUL, INTERRUPTED, CLOSED_PIPE = 1, 2, 3, 130, 141  # exit codes
#: mistakes of users and their files: their messages are sentences already
EXPECTED_ERRORS = (ValueError, TypeError, OSError, OverflowError, ImportError)
#: plain words for what typer's checker found, by its name for it
CHECKERS_WORDS = {
    "int_parsing": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_parsing": "it must be a number",
    "greater_than_equal": "it must be at least {ge:g}",
    "less_than_equal": "it must be at most {le:g}",
    "enum": "it must be {expected}",
    "value_error": "{error}",
}
#: parameters whose options have other names
OTHER_NAMES = {
    "n_components": "-k",
    "n_clusters": "-k",
    "n_dimensions": "--dimensions",
    "n_directions": "--directions",
    "n_jobs": "--jobs",
    "random_state": "--seed",
    "y": "--targets",
    "targets": "--targets",
}
#: parameters whose options have their names
SAME_NAMES = frozenset(
    {
        *("allow_weak", "assume_public_design", "assume_public_sample", "columns", "covariance_type"),
        *("decimal", "decoder", "delta", "device", "epsilon", "max_clusters", "max_iter", "n_frequencies", "n_rows"),
        *("normalize", "overlapping", "parties", "profile_columns", "rows", "standardize", "subsample", "task"),
    }
)
#: options of parameters without a value
OPTIONS_OF_NONE = {"n_directions": "none", "subsample": "all"}
#: an error about the arguments, for exit code 2
misused = typer.BadParameter


class OptionWords(Words):
    """How the command line names parameters and functions: as options and commands.

    >>> words = OptionWords()
    >>> words.parameter("n_components", 3), words.parameter("allow_weak", True), words.parameter("scale")
    ('-k 3', '--allow-weak', 'scale')
    >>> words.call("design", ("...",), {"rows": 500})
    'sketchlearn design --rows 500'
    """

    def parameter(self, name: str, value: Any = ...) -> str:
        option = OTHER_NAMES.get(name) or (f"--{name.replace('_', '-')}" if name in SAME_NAMES else None)
        if option is None:
            return super().parameter(name, value)
        if value is ... or value is True:
            return option
        if value is False:
            return {"--overlapping": "--disjoint"}[option]
        return f"{option} {OPTIONS_OF_NONE[name] if value is None else value}"

    def call(self, function: str, arguments: tuple[str, ...], parameters: dict[str, Any]) -> str:  # noqa: ARG002
        given = [self.parameter(name, value) for name, value in parameters.items()]
        return " ".join(["sketchlearn", function.removeprefix("skl."), *given])

    def either(self, python: str, command_line: str) -> str:  # noqa: ARG002
        return command_line


def refuse(mistakes: dict[str, bool]) -> None:
    """Refuses the arguments by the message of the first mistake that was made."""
    for message, made in mistakes.items():
        if made:
            raise misused(message)


def say(message: str) -> None:
    """Prints one line on standard error, control characters in it escaped."""
    with suppress(OSError):
        print(f"sketchlearn: {printable(message)}", file=sys.stderr, flush=True)


def warn(message: Warning | str, *_others: Any, **_more: Any) -> None:
    """Prints a warning in one line; takes the arguments of `warnings.showwarning`."""
    say(f"warning: {_in_one_line(message)}")


@contextmanager
def fit_warnings() -> Iterator[list[str]]:
    """Prints each warning about a fit once, whatever Python's settings are, and collects them for --strict."""
    from sklearn.exceptions import ConvergenceWarning

    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always", ConvergenceWarning)
        yield sentences
    for warning in log:
        sentence = _in_one_line(warning.message)
        if not issubclass(warning.category, ConvergenceWarning):
            warn(sentence)
        elif sentence not in sentences:
            sentences.append(sentence)
            warn(sentence)


@contextmanager
def in_sentences() -> Iterator[None]:
    """Turns errors into a sentence and an exit code; with SKETCHLEARN_DEBUG=1 they keep their traceback."""
    warnings.showwarning = warn
    with worded(OptionWords()):
        if os.environ.get("SKETCHLEARN_DEBUG") == "1":
            yield
            return
        try:
            yield
        except BrokenPipeError:
            raise typer.Exit(_closed_pipe()) from None
        except KeyboardInterrupt:
            raise typer.Exit(interrupted()) from None
        except Exception as error:
            if isinstance(error, typer.Exit | typer.Abort) or hasattr(error, "format_message"):
                raise
            say(sentence(error))
            raise typer.Exit(FAILED) from None


def sentence(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory for that"
    if isinstance(error, OSError) and error.strerror:
        # files are named by whoever writes them: what has no name is standard output
        full = error.filename is None and error.strerror == os.strerror(errno.ENOSPC)
        where = " (standard output)" if full else f" ({error.filename})" if error.filename is not None else ""
        return f"{error.strerror}{where}"
    said = _in_one_line(error)
    if isinstance(error, EXPECTED_ERRORS) and said:
        return said
    return f"unexpected error, {type(error).__name__}: {said} (SKETCHLEARN_DEBUG=1 shows where it happened)"


def _in_one_line(message: Any) -> str:
    return " ".join(str(message).split())


def usage(error: Any) -> int:
    """Says what is wrong with the arguments."""
    if not hasattr(error, "format_message"):
        raise error
    context = getattr(error, "ctx", None)
    if context is not None and error.format_message() == context.get_help():  # called without arguments
        print(context.get_help(), file=sys.stderr)
        return USAGE
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    elsewhere = _other_commands(context, getattr(error, "option_name", None))
    if hasattr(error.__cause__, "errors"):  # of the checker's values
        found = error.__cause__.errors()[0]
        if found["type"] in CHECKERS_WORDS:
            error.message = CHECKERS_WORDS[found["type"]].format(**found.get("ctx", {}))
    say(f"{_in_one_line(error.format_message()).rstrip('.')}{elsewhere}{hint}")
    return int(getattr(error, "exit_code", USAGE))


def two_commands(path: str) -> str:
    """What to type where a model shall be learned from a table."""
    return f"type sketchlearn sketch {path} -k K -o FILE, then sketchlearn fit kmeans -k K FILE"


def _other_commands(context: Any, option: str | None) -> str:
    """Which commands have an option that this one lacks."""
    if context is None or option is None:
        return ""
    commands = getattr(context.find_root().command, "commands", {})
    having = [name for name, one in commands.items() if any(option in param.opts for param in one.params)]
    if not having:
        return ""
    named = f"; it belongs to sketchlearn {', '.join(having)}"
    tabular = context.command_path.startswith("sketchlearn fit") and "sketch" in having
    return f"{named}, as fit takes a sketch: {two_commands('TABLE ' + option)}" if tabular else named


def interrupted() -> int:
    say("interrupted")
    return INTERRUPTED


def leave(code: int) -> NoReturn:
    """Exits; output that nobody reads any more is not an error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _closed_pipe()
    except OSError as error:
        say(sentence(error))
        code = FAILED
        _closed_pipe()
    sys.exit(code)


def _closed_pipe() -> int:
    # what is still buffered would be written at exit, and fail again
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED_PIPE
