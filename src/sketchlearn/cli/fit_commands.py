"""The commands under `fit`: each kind of model, and those that other packages bring."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from sketchlearn.cli.fit_clusters import gmm, kmeans, kmedians, stable
from sketchlearn.cli.fit_generator import generator
from sketchlearn.cli.fit_tasks import classifier, ica, pca, regression, subspaces
from sketchlearn.cli.options import Json, ModelOutput, Seed, SketchFile
from sketchlearn.tasks.registry import Task, foreign_tasks


class Fits(TyperGroup):
    """The kinds of models, and those that other packages bring."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *foreign_tasks()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        task = foreign_tasks().get(cmd_name)
        return None if task is None else _foreign_command(task)


def _foreign_command(task: Task) -> Any:
    """The command of a task that another package brings."""

    def learn(sketch: SketchFile, output: ModelOutput = None, seed: Seed = 0, json: Json = False) -> None:
        from sketchlearn.cli.fit_tasks import foreign

        foreign(task.name, sketch, output, seed, json)

    app = typer.Typer(rich_markup_mode=None)
    app.command(task.name, help=f"Learn: {task.title}.")(learn)
    return typer.main.get_command(app)


fit = typer.Typer(
    cls=Fits, no_args_is_help=True, rich_markup_mode=None, help="Learn a model from a sketch, to a model file."
)
for command in (kmeans, kmedians, gmm, stable, generator, pca, ica, subspaces, regression, classifier):
    fit.command()(command)
