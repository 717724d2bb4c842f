"""The verbs: their arguments and their help. What each does is in the file of its name."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sketchlearn.cli.fit_commands import fit
from sketchlearn.cli.options import (
    Columns,
    Data,
    DesignComponents,
    Frequencies,
    Jobs,
    Json,
    Neighbors,
    Nulls,
    NullsOption,
    Output,
    Progress,
    Rows,
    Seed,
    SketchFile,
    Standardize,
    TaskOption,
    Wave,
)
from sketchlearn.cli.query_commands import compare, explain, marginal, watch


class Verbs(TyperGroup):
    """Verbs in the order they are declared, whose errors become sentences."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        names.remove("fit")  # groups come last unless they are moved
        names.insert(names.index("predict"), "fit")
        return names

    def invoke(self, ctx: Any) -> Any:
        from sketchlearn.cli.error_messages import in_sentences

        with in_sentences():
            return super().invoke(ctx)


# help without rich: importing it takes longer than all else together
app = typer.Typer(
    name="sketchlearn",
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from sketchlearn.version import __version__

        typer.echo(f"sketchlearn {__version__}")
        raise typer.Exit


@app.callback()
def sketchlearn(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Learn from data that you saw once.

    A dataset of any size becomes a small sketch; sketches add, and clusters and mixtures are learned from them.

    \b
    Example:
      sketchlearn design day1.csv -k 3 -o design.json
      sketchlearn sketch day1.csv --design design.json -o day1.sketch
      sketchlearn sketch day2.csv --design design.json -o day2.sketch
      sketchlearn merge day1.sketch day2.sketch -o all.sketch
      sketchlearn fit kmeans -k 3 all.sketch -o model.json
      sketchlearn predict model.json day1.csv
    """
    del version


@app.command()
def design(
    output: Output,
    n_components: DesignComponents = None,
    data: Annotated[list[str] | None, typer.Argument(metavar="[DATA]...", help="Where to draw a sample from.")] = None,
    task: TaskOption = "kmeans",
    columns: Columns = None,
    nulls: NullsOption = Nulls.error,
    bounds: Annotated[
        str | None,
        typer.Option(metavar="LOW,HIGH", help="Instead of DATA: lowest and highest value, of all --columns or each."),
    ] = None,
    images: Annotated[
        str | None, typer.Option(metavar="H,W", help="For images of H x W pixels (or H,W,CHANNELS) within --bounds.")
    ] = None,
    n_frequencies: Frequencies = None,
    wave: Wave = "exponential",
    seed: Seed = 0,
    n_rows: Annotated[int | None, typer.Option(help="For private releases: about how many records.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="For private releases: what will be spent.")] = None,
    delta: Annotated[float, typer.Option(help="For private releases: what will be spent.")] = 0.0,
    rows: Rows = None,
    standardize: Standardize = False,
    json: Json = False,
) -> None:
    """Choose an operator: all sketches made with it can be merged.

    It is designed on a sample of rows, or on bounds alone: LOW,HIGH for all columns, or
    LOW,HIGH;LOW,HIGH;... for each. With --epsilon its size follows from the noise of a private release.
    --task moments is for fit pca and fit regression, --task ica and --task subspaces for the fits of these names,
    --images for fit classifier.

    With --rows 500, each sketch keeps 500 of its records beside its sums, and clusters learned from it are never
    much worse than those of a good sample. They are in its file, in the clear: leave this out where rows must not
    travel. With --standardize, errors count in standard deviations, so that money does not outweigh ages and flags.

    \b
    Example:
      sketchlearn design day1.csv -k 3 -o design.json
      sketchlearn design day1.csv -k 3 --rows 500 --standardize -o rows.json
      sketchlearn design day1.csv --task moments -o moments.json
      sketchlearn design --bounds -20,20 --columns a,b -k 3 -o bounds.json
      sketchlearn design --images 28,28 --bounds 0,255 -o images.json
      sketchlearn design --bounds -20,20 --columns a,b -k 3 --n-rows 100000 --epsilon 0.5 -o private.json
    """
    from sketchlearn.cli.design_command import run

    budget = (n_rows, epsilon, delta)
    table = (data or [], output, n_components, task, columns, nulls.value, bounds, images)
    run(*table, n_frequencies, wave, seed, budget, rows, standardize, json)


@app.command()
def sketch(
    data: Data,
    output: Output,
    design: Annotated[
        str | None, typer.Option(metavar="FILE", help="The design; without one, it is made on first rows, for -k.")
    ] = None,
    n_components: Annotated[
        int | None, typer.Option("-k", "--n-components", min=1, help="Without --design: number of clusters.")
    ] = None,
    task: TaskOption = "kmeans",
    n_frequencies: Frequencies = None,
    wave: Wave = "exponential",
    seed: Seed = 0,
    rows: Rows = None,
    standardize: Standardize = False,
    columns: Columns = None,
    nulls: NullsOption = Nulls.error,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Keep what is done here: a run that was killed goes on.")
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(min=0.0, help="Seconds between parts of one file.")] = 20.0,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out files that cannot be read, and list them.")
    ] = False,
    jobs: Jobs = None,
    progress: Progress = None,
    json: Json = False,
) -> None:
    """Turn rows into a sketch: exact sums that merge. The operator is in it.

    \b
    Example:
      sketchlearn sketch day1.csv day2.csv --design design.json -o days.sketch
      sketchlearn sketch day1.csv -k 3 -o day1.sketch
      sketchlearn sketch day1.csv -k 3 --rows 500 -o rows.sketch
      cat day1.csv | sketchlearn sketch - --design design.json -o - > day1.sketch
      sketchlearn sketch day1.csv day2.csv --design design.json --checkpoint parts --skip-bad -o days.sketch
    """
    from sketchlearn.cli.error_messages import misused
    from sketchlearn.cli.sketch_command import Choices, Kept, run
    from sketchlearn.tasks.registry import designs

    if design is not None and (rows is not None or standardize):
        raise misused("--rows and --standardize belong to the design: give them to sketchlearn design")
    told = n_components is not None or (design is None and not designs()[task])
    options = (n_components, task, n_frequencies, wave, seed)
    chosen = Choices(*options, rows=rows, standardize=standardize) if told else None
    kept = Kept(checkpoint, checkpoint_every)
    run(data, output, design, chosen, columns, nulls.value, kept, skip_bad, jobs, progress, json)


@app.command()
def merge(
    sketches: Annotated[list[str], typer.Argument(metavar="SKETCH...", help="Sketch files; - is standard input.")],
    output: Output,
    overlapping: Annotated[
        bool,
        typer.Option("--overlapping/--disjoint", help="Of private sketches: may a record be in more than one of them?"),
    ] = True,
    json: Json = False,
) -> None:
    """Add sketches: what all their rows together give, to the bit.

    Epsilons of private sketches add up, unless they are --disjoint: then the largest holds.

    \b
    Example:
      sketchlearn merge day1.sketch day2.sketch -o all.sketch
    """
    from sketchlearn.cli.merge_command import run

    run(sketches, output, overlapping, json)


@app.command()
def subtract(
    whole: Annotated[str, typer.Argument(metavar="WHOLE", help="A sketch file; - is standard input.")],
    part: Annotated[str, typer.Argument(metavar="PART", help="The sketch of rows to take out.")],
    output: Output,
    json: Json = False,
) -> None:
    """Take rows out of a sketch, as if they had never been there.

    \b
    Example:
      sketchlearn merge day1.sketch day2.sketch -o all.sketch
      sketchlearn subtract all.sketch day1.sketch -o rest.sketch
    """
    from sketchlearn.cli.subtract_command import run

    run(whole, part, output, json)


@app.command()
def privatize(
    sketch: SketchFile,
    output: Output,
    epsilon: Annotated[float, typer.Option(help="The privacy loss: the smaller, the more noise.")],
    delta: Annotated[float, typer.Option(help="0 for pure epsilon; otherwise far below one over the records.")] = 0.0,
    neighbors: Annotated[
        Neighbors, typer.Option(help="Hide whether a record is there, or only its values.")
    ] = Neighbors.add_remove,
    already: Annotated[
        str | None, typer.Option(metavar="FILE", help="An earlier private release of these rows: both are paid.")
    ] = None,
    assume_public_design: Annotated[
        bool, typer.Option("--assume-public-design", help="The design was made on other rows than these.")
    ] = False,
    json: Json = False,
) -> None:
    """Release a sketch with noise that hides each single record.

    What is learned from the result is differentially private, too. Best from a design on bounds.

    \b
    Example:
      sketchlearn design --bounds -20,20 --columns a,b -k 3 -o bounds.json
      sketchlearn design --bounds -20,20 --columns a,b -k 3 --n-rows 100000 --epsilon 0.5 -o private.json
      sketchlearn sketch day1.csv --design bounds.json -o exact.sketch
      sketchlearn privatize exact.sketch --epsilon 1 -o day1.private.sketch
      sketchlearn fit kmeans -k 3 day1.private.sketch -o model.json
    """
    from sketchlearn.cli.privatize_command import run

    run(sketch, output, epsilon, delta, neighbors.value, already, assume_public_design, json)


@app.command()
def info(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A sketch, a design or a model; - is standard input.")],
    json: Json = False,
) -> None:
    """Say what a sketch, design or model file holds.

    \b
    Example:
      sketchlearn info day1.sketch
      sketchlearn info design.json --json
    """
    from sketchlearn.cli.info_command import run

    run(file, json)


app.add_typer(fit, name="fit")


@app.command()
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file.")],
    data: Data,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities of components as CSV, for mixtures.")] = False,
    columns: Columns = None,
    nulls: NullsOption = Nulls.error,
    json: Json = False,
) -> None:
    """Print what a model says of each row, line by line.

    That is its cluster, component or class; its targets; or its coordinates.

    \b
    Example:
      sketchlearn predict model.json day1.csv
      head -n 4 day1.csv | sketchlearn predict model.json -
    """
    from sketchlearn.cli.predict_command import run

    run(model, data, proba, columns, nulls.value, json)


@app.command()
def sample(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file of a generator or a mixture.")],
    n_rows: Annotated[int, typer.Option("-n", "--n-rows", min=1, help="How many rows.")] = 1000,
    label: Annotated[str | None, typer.Option(help="The class of all rows, if the generator has classes.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Print random rows of a model, as CSV.

    \b
    Example:
      sketchlearn fit gmm -k 3 day1.sketch -o gmm.json
      sketchlearn sample gmm.json -n 10
    """
    from sketchlearn.cli.sample_command import run

    run(model, n_rows, label, seed, json)


for question in (compare, watch, marginal, explain):
    app.command()(question)


@app.command()
def benchmark(
    rows: Annotated[int, typer.Option(min=1000, help="How many rows to sketch.")] = 200_000,
    json: Json = False,
) -> None:
    """Measure how fast this machine sketches and decodes.

    \b
    Example:
      sketchlearn benchmark --rows 20000
    """
    from sketchlearn.cli.benchmark_command import run

    run(rows, json)


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=100_000, help="How many rows to generate.")] = 10_000_000,
    json: Json = False,
) -> None:
    """Sketch rows twice, in different ways: the same, to the bit.

    \b
    Example:
      sketchlearn demo --rows 200000
    """
    from sketchlearn.cli.demo_command import run

    run(rows, json)
