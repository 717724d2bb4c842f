"""What a user sees when something goes wrong: one sentence on standard error, and an exit code."""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import typer

from sketchlearn.cli.option_messages import in_options
from sketchlearn.core.messages import printable

FAILED, USAGE, DOUBTFUL, INTERRUPTED, CLOSED_PIPE = 1, 2, 3, 130, 141  # exit codes
#: mistakes of users and their files: their messages are sentences already
EXPECTED_ERRORS = (ValueError, TypeError, OSError, OverflowError, ImportError)
#: what typer's checker says of arguments, and plain words for it
CHECKERS_WORDS = {
    r"Input should be a valid integer\b.*": "it must be a whole number",
    r"Input should be a valid number\b.*": "it must be a number",
    r"Input should be greater than or equal to (\S+)": r"it must be at least \1",
    r"Input should be less than or equal to (\S+)": r"it must be at most \1",
    r"Input should be\b": "it must be",
    r"\bValue error, ": "",
}
#: an error about the arguments, for exit code 2
misused = typer.BadParameter


def say(message: str) -> None:
    """Prints one line on standard error, control characters in it escaped."""
    with suppress(OSError):
        print(f"sketchlearn: {printable(message)}", file=sys.stderr, flush=True)


def warn(message: Warning | str, *_others: Any, **_more: Any) -> None:
    """Prints a warning in one line; takes the arguments of `warnings.showwarning`."""
    say(f"warning: {in_options(' '.join(str(message).split()))}")


@contextmanager
def in_sentences() -> Iterator[None]:
    """Turns errors into a sentence and an exit code; with SKETCHLEARN_DEBUG=1 they keep their traceback."""
    warnings.showwarning = warn
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
    """The error in one line, in the words of the command line."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for that"
    if isinstance(error, OSError) and error.strerror:
        # files are named by whoever writes them: what has no name is standard output
        full = error.filename is None and error.strerror == os.strerror(errno.ENOSPC)
        where = " (standard output)" if full else f" ({error.filename})" if error.filename is not None else ""
        return f"{error.strerror}{where}"
    said = in_options(" ".join(str(error).split()))
    if isinstance(error, EXPECTED_ERRORS) and said:
        return said
    return f"unexpected error, {type(error).__name__}: {said} (SKETCHLEARN_DEBUG=1 shows where it happened)"


def usage(error: Exception) -> int:
    """Says what is wrong with the arguments."""
    if not hasattr(error, "format_message"):
        raise error
    context = getattr(error, "ctx", None)
    if context is not None and error.format_message() == context.get_help():  # called without arguments
        print(context.get_help(), file=sys.stderr)
        return USAGE
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    elsewhere = _other_commands(context, getattr(error, "option_name", None))
    message = " ".join(error.format_message().split()).rstrip(".")
    for words, plain in CHECKERS_WORDS.items():
        message = re.sub(words, plain, message)
    say(f"{message}{elsewhere}{hint}")
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
    """Says that Ctrl-C was pressed."""
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
