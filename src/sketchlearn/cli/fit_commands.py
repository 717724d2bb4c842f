"""The verbs under `fit`: one per kind of model. What they do is in fit.py and fit_tasks.py."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sketchlearn.cli.options import (
    Components,
    Covariance,
    Decoder,
    Json,
    ModelOutput,
    Plot,
    Progress,
    Sample,
    Seed,
    SketchFile,
    Strict,
)
from sketchlearn.tasks.registry import Task, foreign_tasks


class Fits(TyperGroup):
    """The kinds of models, and those that other packages bring."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *foreign_tasks()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        foreign = foreign_tasks()
        return _foreign_command(foreign[cmd_name]) if found is None and cmd_name in foreign else found


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


@fit.command()
def kmeans(
    sketch: SketchFile,
    n_components: Components,
    output: ModelOutput = None,
    sample: Sample = None,
    decoder: Decoder = "auto",
    seed: Seed = 0,
    plot: Plot = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Learn clusters: least sum of squared distances to centers.

    Rows that the sketch keeps (design --rows) are used by themselves; --sample gives rows to sketches that keep none.

    \b
    Example:
      sketchlearn fit kmeans -k 3 day1.sketch -o model.json
      sketchlearn fit kmeans -k 3 day1.sketch --sample day1.csv --strict -o model.json
    """
    from sketchlearn.cli.fit_clusters import run

    run("kmeans", sketch, n_components, sample, output, plot, strict, json, decoder=decoder, random_state=seed)


@fit.command()
def kmedians(
    sketch: SketchFile,
    n_components: Components,
    output: ModelOutput = None,
    sample: Sample = None,
    decoder: Decoder = "auto",
    seed: Seed = 0,
    plot: Plot = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Learn clusters: least sum of distances to centers.

    Outliers move such centers less.

    \b
    Example:
      sketchlearn fit kmedians -k 3 day1.sketch -o model.json
    """
    from sketchlearn.cli.fit_clusters import run

    run("kmedians", sketch, n_components, sample, output, plot, strict, json, decoder=decoder, random_state=seed)


@fit.command()
def gmm(
    sketch: SketchFile,
    n_components: Components,
    output: ModelOutput = None,
    covariance_type: Annotated[Covariance, typer.Option(help="Shape of the Gaussians.")] = Covariance.full,
    sample: Sample = None,
    decoder: Decoder = "auto",
    seed: Seed = 0,
    plot: Plot = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Learn a mixture of Gaussians.

    Best from a design for --task mixture, or mixture-full for full covariances.

    \b
    Example:
      sketchlearn fit gmm -k 3 --covariance-type diag day1.sketch -o model.json
    """
    from sketchlearn.cli.fit_clusters import run

    more = {"covariance_type": covariance_type.value, "decoder": decoder, "random_state": seed}
    run("gmm", sketch, n_components, sample, output, plot, strict, json, **more)


@fit.command()
def stable(
    sketch: SketchFile,
    n_components: Components,
    output: ModelOutput = None,
    sample: Sample = None,
    decoder: Decoder = "auto",
    seed: Seed = 0,
    plot: Plot = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Learn a mixture of stable laws, with heavy tails.

    Best from a design for --task stable.

    \b
    Example:
      sketchlearn fit stable -k 3 day1.sketch -o model.json
    """
    from sketchlearn.cli.fit_clusters import run

    run("stable", sketch, n_components, sample, output, plot, strict, json, decoder=decoder, random_state=seed)


@fit.command()
def generator(
    sketch: SketchFile,
    max_iter: Annotated[int, typer.Option(min=1, help="Steps of training at the most.")] = 4000,
    output: ModelOutput = None,
    seed: Seed = 0,
    progress: Progress = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Learn a network that generates rows; needs torch.

    The sketch is one of a design for --task generator. Rows are made by sketchlearn sample.

    \b
    Example:
      sketchlearn sketch day1.csv --task generator -o day1.sketch
      sketchlearn fit generator day1.sketch --max-iter 600 -o model.safetensors
      sketchlearn sample model.safetensors -n 10
    """
    from sketchlearn.cli.fit_generator import generator

    generator(sketch, max_iter, output, seed, progress, strict, json)


@fit.command()
def pca(
    sketch: SketchFile,
    n_components: Components,
    output: ModelOutput = None,
    json: Json = False,
) -> None:
    """Learn principal components.

    The sketch is one of a design for --task moments.

    \b
    Example:
      sketchlearn sketch day1.csv --task moments -o moments.sketch
      sketchlearn fit pca -k 2 moments.sketch -o model.json
    """
    from sketchlearn.cli.fit_tasks import pca

    pca(sketch, n_components, output, json)


@fit.command()
def ica(
    sketch: SketchFile,
    output: ModelOutput = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Learn independent components.

    The sketch is one of a design for --task ica.

    \b
    Example:
      sketchlearn sketch day1.csv --task ica -o ica.sketch
      sketchlearn fit ica ica.sketch -o model.json
    """
    from sketchlearn.cli.fit_tasks import ica

    ica(sketch, output, seed, json)


@fit.command()
def subspaces(
    sketch: SketchFile,
    n_components: Components,
    dimensions: Annotated[
        str, typer.Option("--dimensions", "-p", metavar="P,...", help="Dimension of all subspaces, or of each.")
    ] = "1",
    output: ModelOutput = None,
    seed: Seed = 0,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Learn lines, planes and larger subspaces through the origin that rows lie near.

    The sketch is one of a design for --task subspaces.

    \b
    Example:
      sketchlearn sketch day1.csv --task subspaces -o day1.fourth
      sketchlearn fit subspaces -k 2 -p 1 day1.fourth -o model.json
    """
    from sketchlearn.cli.fit_tasks import subspaces

    subspaces(sketch, n_components, dimensions, output, seed, strict, json)


@fit.command()
def regression(
    sketch: SketchFile,
    targets: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Names or positions of the targets; by default the last column."),
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="A ridge penalty, or gcv to choose one by cross-validation; by default none.")
    ] = None,
    output: ModelOutput = None,
    json: Json = False,
) -> None:
    """Learn a linear regression of some columns on the others.

    The sketch is one of a design for --task moments.

    \b
    Example:
      sketchlearn sketch day1.csv --task moments -o moments.sketch
      sketchlearn fit regression moments.sketch -o model.json
    """
    from sketchlearn.cli.fit_tasks import regression

    regression(sketch, targets, alpha, output, json)


@fit.command()
def classifier(
    sketches: Annotated[
        list[str], typer.Argument(metavar="LABEL=SKETCH...", help="One sketch file per class, all of one design.")
    ],
    output: ModelOutput = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Learn to tell classes apart, from one sketch of each.

    From a design for --task moments, each class is a Gaussian; from others, classes are compared by Parzen windows.

    \b
    Example:
      sketchlearn design day1.csv --task moments -o moments.json
      sketchlearn sketch day1.csv --design moments.json -o one.sketch
      sketchlearn sketch day2.csv --design moments.json -o two.sketch
      sketchlearn fit classifier one=one.sketch two=two.sketch -o model.json
    """
    from sketchlearn.cli.fit_tasks import classifier

    classifier(sketches, output, seed, json)
