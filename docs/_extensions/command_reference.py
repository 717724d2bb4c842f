"""The directive `command-reference`: every command of a typer application, its arguments and options, from itself."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

PROGRAM = "sketchlearn"


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command with the words that call it, in the order in which help lists them; a group comes before its own."""
    if path:
        yield path, command
    if hasattr(command, "list_commands"):
        context = typer.Context(command, info_name=" ".join((PROGRAM, *path)))
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), (*path, name))


def usage(path: tuple[str, ...], command: Any) -> str:
    """The command as it is typed."""
    context = typer.Context(command, info_name=" ".join((PROGRAM, *path)))
    return " ".join((PROGRAM, *path, *command.collect_usage_pieces(context)))


def explained(path: tuple[str, ...], command: Any) -> list[tuple[str, str]]:
    """Each argument and option that help shows, with what it says of it."""
    context = typer.Context(command, info_name=" ".join((PROGRAM, *path)))
    records = (parameter.get_help_record(context) for parameter in command.get_params(context))
    return [record for record in records if record is not None and not record[0].startswith("--help")]


def paragraphs(text: str) -> list[tuple[str, bool]]:
    """The help of a command, and which of its paragraphs keep their lines (those that begin with click's mark \\b)."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        verbatim = paragraph.lstrip().startswith("\b")
        found.append((paragraph.replace("\b\n", "").rstrip(), verbatim))
    return found


class CommandReference(SphinxDirective):
    """`command-reference` with the place of an application: sketchlearn.cli.commands:app."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module, _, name = self.arguments[0].partition(":")
        program = typer.main.get_command(getattr(import_module(module), name))
        return [self.section(path, command) for path, command in commands(program)]

    def section(self, path: tuple[str, ...], command: Any) -> nodes.Node:
        title = " ".join(path)
        section = nodes.section(ids=[f"{PROGRAM}-{'-'.join(path)}"], names=[title])
        section += nodes.title(title, title)
        section += nodes.literal_block(usage(path, command), usage(path, command), language="none")
        for text, verbatim in paragraphs(command.help or ""):
            if verbatim:
                heading, _, lines = text.partition("\n")
                section += nodes.paragraph(heading, heading)
                section += nodes.literal_block(lines, _unindented(lines), language="console")
            else:
                section += self.prose(" ".join(text.split()))
        rows = explained(path, command)
        if rows:
            section += self.table(rows)
        return section

    def prose(self, text: str) -> nodes.Node:
        return nodes.paragraph(text, text)

    def table(self, rows: list[tuple[str, str]]) -> nodes.Node:
        group = nodes.tgroup(cols=2)
        group += [nodes.colspec(colwidth=30), nodes.colspec(colwidth=70)]
        body = nodes.tbody()
        for written, meaning in rows:
            row = nodes.row()
            row += nodes.entry("", nodes.paragraph("", "", nodes.literal(written, written)))
            row += nodes.entry("", self.prose(meaning))
            body += row
        group += body
        table = nodes.table(classes=["options"])
        table += group
        return table


def _unindented(lines: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in lines.splitlines())


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("command-reference", CommandReference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
