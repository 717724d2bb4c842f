"""The commands under `fit`: each kind of model, and those that other packages bring."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from sketchlearn.cli.error_messages import misused, two_commands
from sketchlearn.cli.fit_clusters import CLUSTER_HELP, clusters, gmm
from sketchlearn.cli.fit_tasks import classifier, foreign, generator, ica, kernel, pca, regression, subspaces
from sketchlearn.cli.wanted_files import MOST_BYTES
from sketchlearn.estimators.registry import foreign_tasks

#: what people call kinds of models, and the command for it
OTHER_NAMES = {
    "ridge": "regression --alpha gcv",
    "linear": "regression",
    "ols": "regression",
    "kernel-ridge": "kernel",
    "krr": "kernel",
    "k-means": "kmeans",
    "clusters": "kmeans",
    "k-medians": "kmedians",
    "mixture": "gmm",
    "gaussian": "gmm",
    "classes": "classifier",
    "classification": "classifier",
}


class Fits(TyperGroup):
    """The kinds of models, and those that other packages bring."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *foreign_tasks()]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and os.path.exists(args[0]):
            raise misused(f"{args[0]} is a file, and fit takes the kind of model first: {_commands(args[0])}", ctx)
        if args and args[0].lower() in OTHER_NAMES and self.get_command(ctx, args[0]) is None:
            meant = OTHER_NAMES[args[0].lower()]
            raise misused(f"there is no fit {args[0]}: did you mean sketchlearn fit {meant}?", ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        task = foreign_tasks().get(cmd_name)
        own = super().get_command(ctx, cmd_name)
        if own is not None or task is None:
            return own
        app = typer.Typer(rich_markup_mode=None)
        app.command(cmd_name, help=f"Learn: {task.title}.")(foreign)
        return typer.main.get_command(app)


def _commands(path: str) -> str:
    """What to type to learn from a file: one command if it is a sketch, two if it is a table."""
    from sketchlearn.files.sketches import kind_of

    try:
        found = kind_of(Path(path).read_bytes()) if os.path.getsize(path) <= MOST_BYTES else None
    except OSError:
        found = None
    return f"type sketchlearn fit kmeans -k K {path} -o FILE" if found == "sketch" else two_commands(path)


fit = typer.Typer(
    cls=Fits, no_args_is_help=True, rich_markup_mode=None, help="Learn a model from a sketch, to a model file."
)
for name in ("kmeans", "kmedians"):
    fit.command(name, help=CLUSTER_HELP[name])(clusters)
fit.command()(gmm)
fit.command("stable", help=CLUSTER_HELP["stable"])(clusters)
for command in (generator, pca, ica, subspaces, regression, kernel, classifier):
    fit.command()(command)
