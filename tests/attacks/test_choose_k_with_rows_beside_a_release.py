"""`choose_k` with rows beside a release: the number of clusters, criteria and agreements of private rows."""

import numpy as np
import pytest

import sketchlearn as skl

RNG = np.random.default_rng(0)
X = np.concatenate([c + 0.3 * RNG.standard_normal((2000, 2)) for c in ([-6.0, 0.0], [0.0, 6.0], [6.0, 0.0])])
OPERATOR = skl.design(bounds=([-10.0] * 2, [10.0] * 2), n_components=4)
EXACT = OPERATOR.sketch(X)
RELEASE = skl.privatize(EXACT, epsilon=10.0)


def test_a_choice_tells_nothing_of_rows_beside_a_release():
    """Whether one person is among the rows moved the agreement of the halves, which a choice shows in full."""
    for rows in (X[::20], X[20::20]):  # neighbours: without the first
        with pytest.raises(ValueError, match=r"rows beside a private release .* assume_public_sample=True"):
            skl.choose_k(RELEASE, 4, rows)


def test_public_rows_are_taken_if_the_caller_says_so():
    public = skl.choose_k(RELEASE, 4, X[::20], assume_public_sample=True)
    assert public.agreements
    assert not skl.choose_k(RELEASE, 4).agreements
    assert skl.choose_k(EXACT, 4, X[::20]).agreements


def test_a_model_that_chose_its_number_by_public_rows_says_so():
    model = skl.SketchKMeans("auto", max_clusters=4, random_state=0)
    model.fit_sketch(RELEASE, sample=X[::20], assume_public_sample=True)
    assert model.choice_.agreements
    assert "the sample is assumed to be public" in str(model.privacy_)
