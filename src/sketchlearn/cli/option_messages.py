"""Messages of the library in the words of the command line: options instead of Python's arguments.

Whatever the command line prints as a sentence goes through `in_options`. tests/test_plain_messages.py reads all
messages in the source and names those that would still show Python.
"""

from __future__ import annotations

import re

#: what Python says, and what the command line says instead, in the order in which they are replaced
OPTIONS = {
    # whole remedies
    r"say decimal=['\"],['\"]": "use --decimal ','",
    r"decimal=['\"]\.['\"] if": "--decimal . if",
    r"say encoding=['\"]cp1252['\"] if": "use --encoding cp1252 if",
    r"say which encoding it has": "say which it has with --encoding",
    r"give the delimiter, or repair the line": "give --delimiter, or repair the line",
    r"encode it with a schema \(skl\.schema\)": "encode it with a schema (sketchlearn schema)",
    r"or choose other columns": "or leave it out (--exclude, --numeric-only)",
    r"or leave such rows out with skl\.source\(X, nulls=['\"]drop['\"]\)": "or use --nulls drop",
    r"sketch those with unit= and rows_per_unit=, too": "sketch those with --unit and --rows-per-unit, too",
    r"add the shares with overlapping=False if no (.+?) is with two of them; with overlapping=True epsilons add up": (
        r"merge the shares with --disjoint if no \1 is with two of them; with --overlapping epsilons add up"
    ),
    r"give those columns missing=['\"]indicate['\"]": "let those columns say so in the schema (missing: indicate)",
    r"say scaling=['\"]standard['\"]": 'give it the scaling "standard"',
    r"read with nulls=['\"]drop['\"]": "use --nulls drop",
    r"choose them with source\(data, columns=\[\.\.\.\]\)": "choose them with --columns",
    r"bounds must be two lists, .*; all finite, each lowest below its highest.*": (
        "--bounds must be LOW,HIGH for all columns, or LOW,HIGH;LOW,HIGH;... for each: finite, each LOW below its HIGH"
    ),
    r"columns must be (?=names or positions|different ones)": "--columns must be ",
    r"(say|give|pass) assume_public_(design|sample)=True": r"give --assume-public-\2",
    r"make it with design\(bounds=\.\.\.\); or, if none was, say so with .* assume_public_design=True": (
        "use a sketch of sketchlearn design --bounds or, if none was, give --assume-public-design"
    ),
    r"make it with outside='clip', and a bound and center .*": "use a sketch of sketchlearn design --bounds",
    r"declare a larger bound \(estimators take .*\)": "use sketchlearn design with wider --bounds",
    r"say allow_weak=True": "give --allow-weak",
    r"pass already= that release, or a budget, and both are paid": "give it with --already, or give --budget FILE",
    r"pass budget=skl\.Budget\(path, epsilon=\.\.\.\)": "give --budget FILE and --budget-epsilon",
    r"privatize with delta=0": "leave out --delta",
    r"SketchRidge, or fewer columns": "--alpha gcv, or fewer columns",
    r"ask for a smaller epsilon \(": "ask for a smaller --epsilon (",
    r"use a\.merged\(b, overlapping=True\)": "give --overlapping",
    r"a\.merged\(b, overlapping=False\) says that it does not, and overlapping=True that it may": (
        "--disjoint says that it does not, and --overlapping that it may"
    ),
    r"sketch them with a batch= name of their own": "sketch them with --batch NAME",
    r"give SketchGenerator\(network\)\.load_weights\(path\)": "use it in Python",
    r"n_jobs must be None or": "--jobs must be",
    r"device must be (?=\"cpu\")": "--device must be ",
    r"subsample must be ['\"]auto['\"], None for all frequencies,": "--subsample must be auto, all",
    r"must be True or False": "must be true or false",
    r"say y=\[(\d+)\] for the last one": r"give --targets \1 for the last one",
    r"y must say which columns .*": "--targets must name columns of the sketch, or give their positions from 0",
    r"y names a column twice": "--targets names a column twice",
    # where sketches and designs come from
    r"ICA needs a sketch of second moments \(skl\.SecondMoments\)": (
        "ICA needs a sketch of second moments and cumulants (sketchlearn design --task ica)"
    ),
    r"but (the sketch|this one) is of [A-Z]\w+": r"but \1 has none",
    r"\(skl\.SecondMoments\), or of quadratic features .*": "(sketchlearn design --task moments)",
    r"\(skl\.SecondMoments\)": "(sketchlearn design --task moments)",
    r"\(skl\.VeroneseMoments\)": "(sketchlearn design --task subspaces)",
    r"\(skl\.design\(rows, task=['\"]([\w-]+)['\"]\)\)": r"(sketchlearn design --task \1)",
    r"an operator of design\(\)": "a sketch of sketchlearn design",
    r"design\(sample, n_components=(\d+)\)": r"sketchlearn design -k \1",
    r"design\((sample, \.\.\.)?\)": "sketchlearn design",
    r"design\(\.\.\., rows=(\d+)\)": r"sketchlearn design --rows \1",
    r"design\(\.\.\., standardize=True\)": "sketchlearn design --standardize",
    r"design\(\.\.\., task=['\"]([\w-]+)['\"]\)": r"sketchlearn design --task \1",
    r"(fit_sketch\(sketch, )?sample=(rows\b|\.\.\.)\)?": "--sample FILE",
    r"explain\(\w*\)": "sketchlearn explain",
    # arguments
    r"n_samples=(\d+) rows\b": r"\1 records",
    r"n_(components|clusters)=(\d+)": r"-k \2",
    r"n_(components|clusters)\b": "-k",
    r"task[= ]['\"]([\w-]+)['\"]": r"--task \1",
    r"rows and standardize\b": "--rows and --standardize",
    r"rows(?= must be a| must not be)": "--rows",
    r"leave out delta, or parties\b": "leave out --delta, or --parties",
    r"leave out (rows|epsilon|delta|n_rows|neighbors|subsample)\b": r"leave out --\1",
    r"standardize(=True)?\b": "--standardize",
    r"subsample=(\d+)": r"--subsample \1",
    r"subsample(?= needs| must)": "--subsample",
    r"random_state or decoder\b": "--seed or --decoder",
    r"random_state\b": "--seed",
    r"n_dimensions(=(\d+))?\b": r"--dimensions \2",
    r"nulls=['\"](\w+)['\"]": r"--nulls \1",
    r"covariance_type(?:=['\"](\w+)['\"])?": r"--covariance-type \1",
    r"n_frequencies=(\d+)": r"--n-frequencies \1",
    r"n_frequencies\b": "--n-frequencies",
    r"n_directions=None": "--directions none",
    r"n_directions\b": "--directions",
    r"along=\[(\d+)\]": r"--along \1",
    r"along(?= is for| needs| must be| names)": "--along",
    r"normalize(?= is for| need)": "--normalize",
    r"max_clusters\b": "--max-clusters",
    r"max_iter\b": "--max-iter",
    r"(--)?n_rows\b": "--n-rows",
    r"assume_public_(design|sample)=True": r"--assume-public-\1",
    r"allow_weak=True": "--allow-weak",
}
# names of files and columns stay as they are: those in quotes, and lists of them
NOT_IN_A_NAME, NOT_THE_START_OF_ONE = r"(?<![-\w'\"/.])", r"(?![\w/]|\.\w)"
NAMES = re.compile(r"((?:columns(?: are)?|rows of) \([^()]*\))")


def in_options(message: str) -> str:
    """The message as the command line says it.

    >>> in_options("try more components or another covariance_type")
    'try more components or another --covariance-type'
    >>> in_options("design(..., rows=500) keeps rows; n_samples=3000 rows cannot have 4000 clusters")
    'sketchlearn design --rows 500 keeps rows; 3000 records cannot have 4000 clusters'
    >>> in_options("n_rows.csv has no column 'age': its columns are (n_rows, max_iter)")
    "n_rows.csv has no column 'age': its columns are (n_rows, max_iter)"
    """
    pieces = NAMES.split(message)
    for python, option in OPTIONS.items():
        pieces[::2] = [re.sub(NOT_IN_A_NAME + python + NOT_THE_START_OF_ONE, option, piece) for piece in pieces[::2]]
    return re.sub(r" +(?= |$|,|;)", "", "".join(pieces))
