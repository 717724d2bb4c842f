"""The commands, in the order in which help lists them."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from sketchlearn.cli.collector_commands import pull, push, serve, verify
from sketchlearn.cli.design_commands import design, schema
from sketchlearn.cli.errors import in_sentences
from sketchlearn.cli.fit_commands import fit
from sketchlearn.cli.model_commands import predict, sample
from sketchlearn.cli.options import GroupedHelp
from sketchlearn.cli.privacy_commands import keygen, privatize, select_classes
from sketchlearn.cli.question_commands import ask, choose, compare, explain, info, marginal, report, watch
from sketchlearn.cli.sketch_commands import merge, sketch, subtract
from sketchlearn.cli.trial_commands import benchmark, demo


class Verbs(TyperGroup):
    """Verbs in the order they are declared, whose errors become sentences."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        names.remove("fit")  # groups come last unless they are moved
        names.insert(names.index("predict"), "fit")
        return names

    def invoke(self, ctx: Any) -> Any:
        with in_sentences():
            return super().invoke(ctx)


# help is without rich: importing it takes longer than all else together
app = typer.Typer(
    name="sketchlearn", cls=Verbs, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from sketchlearn.core.packages import __version__

        typer.echo(f"sketchlearn {__version__}")
        raise typer.Exit


@app.callback()
def sketchlearn(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Train models in one pass, without keeping the data.

    A dataset of any size becomes a small sketch; sketches add, and clusters and mixtures are learned from them.

    \b
    Example:
      sketchlearn design day1.csv --schema auto -k 3 --rows 500 -o design.json
      sketchlearn sketch day1.csv --design design.json -o day1.sketch
      sketchlearn sketch day2.csv --design design.json -o day2.sketch
      sketchlearn merge day1.sketch day2.sketch -o all.sketch
      sketchlearn fit kmeans -k 3 all.sketch -o model.json
      sketchlearn predict model.json day1.csv
    """
    del version


COMMANDS = (
    *(schema, design, sketch, merge, subtract, privatize, select_classes, info, choose, predict, report, sample),
    *(ask, compare, watch, marginal, explain, keygen, serve, push, pull, verify, benchmark, demo),
)
for command in COMMANDS:
    app.command(cls=GroupedHelp)(command)
app.add_typer(fit, name="fit")
