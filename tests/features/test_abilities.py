"""What sketches can answer: declared by operators, asked for by tasks, shown by `sketchlearn info`."""

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.features.abilities import Ability, needed_part, part_with

X = np.random.default_rng(0).standard_normal((500, 4))
DESIGNS = {
    "kmeans": (Ability.CLUSTERS, Ability.MIXTURES, Ability.COMPARISONS, Ability.DENSITIES, Ability.MARGINALS),
    "moments": (Ability.MOMENTS,),
    "ica": (Ability.MOMENTS, Ability.INDEPENDENT_COMPONENTS),
    "subspaces": (Ability.SUBSPACES,),
    "kernel": (Ability.KERNEL_REGRESSIONS,),
}


def designed(task):
    return skl.design(X, task=task, n_components=3 if task == "kmeans" else None)


@pytest.mark.parametrize("task", DESIGNS)
def test_a_design_declares_what_it_is_for(task):
    operator = designed(task)
    assert operator.abilities == set(DESIGNS[task])
    sketch = operator.sketch(X)
    for ability in Ability:
        assert (part_with(sketch, ability) is not None) == (ability in DESIGNS[task])


def test_cells_and_columns_of_other_operators():
    cells = skl.design(X, n_components=3, features=skl.features.Cells())
    assert cells.abilities == {Ability.CLUSTERS, Ability.PROFILES}
    some = skl.features.SomeColumns(cells, 6, which=[1, 2, 3, 5])
    assert some.abilities == cells.abilities
    assert skl.features.ConvolutionalFeatures((4, 4), pixels=(0, 1)).abilities == set()


@pytest.mark.parametrize("ability", list(Ability))
def test_what_is_missing_is_refused_with_the_design_that_has_it(ability):
    sketch = skl.features.ColumnMoments(4, bound=9.0).sketch(X)
    with pytest.raises(ValueError, match="this task needs") as told:
        needed_part(sketch, ability, "this task")
    assert ability.features in str(told.value)
    assert "but the sketch is of ColumnMoments" in str(told.value)
    made = ability.made
    if made.startswith("skl.design(sample, task="):
        task = made.split('"')[1]
        operator = skl.design(X, task=task, n_components=3 if task == "mixture" else None)
        assert ability in operator.abilities or ability is Ability.PROJECTED_COMPONENTS


@pytest.mark.parametrize("task", DESIGNS)
def test_info_says_it(task):
    from sketchlearn.cli.question_commands import _of_operator

    figures, rows = _of_operator(designed(task))
    assert figures["answers"] == [ability.answers for ability in Ability if ability in DESIGNS[task]]
    assert ("answers", ", ".join(figures["answers"])) in rows
