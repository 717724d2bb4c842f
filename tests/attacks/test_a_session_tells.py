"""Whoever has a session may ask for releases: nothing else that depends on the rows comes out of it."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.privacy.budget import BudgetError
from sketchlearn.privacy.session import Session, SessionError
from sketchlearn.sketch.sums import Release

BOUNDS = ([-5, -5], [5, 5])
OPERATOR = skl.design(bounds=BOUNDS, n_components=2)
ROWS = np.random.default_rng(0).uniform(-5, 5, (200, 2))
ODD = {
    "text": [["a", "b"]],
    "another number of columns": ROWS[:, :1],
    "a file that is not there": "nowhere.csv",
}


@pytest.mark.parametrize("name", ODD)
def test_errors_say_nothing_about_rows(name):
    session = Session(ODD[name], budget=1.0)
    with pytest.raises(SessionError) as caught:
        session.release(OPERATOR, epsilon=1.0)
    assert (
        str(caught.value) == "the rows cannot be sketched by this design; session.check(design) tells their holder why"
    )
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert session.spent.releases == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_has_no_place_is_left_out(value):
    """A refusal would tell that there is one."""
    odd = np.vstack([ROWS, [value, 0.0]])
    released = Session(odd, budget=20.0).release(skl.features.Histograms.even(*BOUNDS), epsilon=20.0)
    assert abs(released.count - 200) < 30


def test_warnings_say_nothing_about_rows():
    far = skl.features.FourierFeatures(2, 10, law=skl.features.frequencies.Gaussian(1e-9)).with_origin("declared")
    with pytest.warns(UserWarning, match="phases are only noise"):
        far.sketch(ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Session(ROWS, budget=1.0).release(far, epsilon=1.0)


def test_what_leaves_is_a_release_and_a_session_is_not_copied():
    session = Session(ROWS, budget=2.0, bounds=BOUNDS)
    assert type(session.release(OPERATOR, epsilon=1.0)) is Release
    assert all(type(release) is Release for release in session.releases)
    for take in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="is not copied"):
            take(session)
    public = [name for name in dir(session) if not name.startswith("_")]
    assert public == ["check", "fit", "forecast", "release", "releases", "spent"]
    assert "200" not in repr(session)


def test_releases_add_up_whatever_the_design():
    session = Session(ROWS, budget=2.5, bounds=BOUNDS)
    first = session.release(OPERATOR, epsilon=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 200 rows: whether components stand out of the noise is up to the noise
        other = session.fit(skl.SketchPCA(1), epsilon=1.0)
    assert (first.ledger.epsilon, other.privacy_.epsilon) == (1.0, 2.0)
    with pytest.raises(BudgetError, match="would spend more"):
        session.release(skl.features.Histograms.even(*BOUNDS), epsilon=1.0)
    assert len(session.releases) == 2


def test_a_model_is_learned_from_the_release_alone(monkeypatch):
    clusters = np.random.default_rng(1).normal([[-3, 0]] * 5000 + [[3, 0]] * 5000, 0.5)
    session, seen = Session(clusters, budget=1.0, bounds=BOUNDS, n_rows=10_000), []
    model = skl.SketchKMeans(2, random_state=0)
    fit_sketch = type(model).fit_sketch
    monkeypatch.setattr(
        type(model), "fit_sketch", lambda self, *a, **k: seen.append((a, k)) or fit_sketch(self, *a, **k)
    )
    session.fit(model, epsilon=1.0)
    assert seen == [((session.releases[0],), {})]
    assert pickle.loads(pickle.dumps(model)).privacy_ == session.releases[0].ledger


def test_designs_that_tell_about_rows_are_refused():
    with pytest.raises(ValueError, match="designed on a sample"):
        Session(ROWS, budget=1.0).release(skl.design(ROWS, n_components=2), epsilon=1.0)


def test_bounds_that_are_refused_tell_nothing():
    """A design that refuses rows outside its bound: which error comes would tell, for nothing, where all rows lie."""
    session, said = Session(ROWS, budget=1.0, bounds=BOUNDS), set()
    for bound in (0.1, 4.0, 100.0):
        with pytest.raises(ValueError, match="tells that there are none") as caught:
            session.release(skl.features.SecondMoments(2, bound=bound).with_origin("declared"), epsilon=1.0)
        said.add((type(caught.value), str(caught.value)))
    assert len(said) == 1


def test_a_guess_of_all_rows_is_not_confirmed():
    """Neither by what the process has released, nor by what a session's ledger says."""
    session = Session(ROWS, budget=3.0, bounds=BOUNDS)
    session.release(OPERATOR, epsilon=1.0)
    guess = OPERATOR.sketch(ROWS)
    assert guess.released is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        skl.privatize(guess, epsilon=1.0)
    assert Session(ROWS, budget=3.0).release(OPERATOR, epsilon=0.5).ledger.epsilon == 0.5


class Telling:
    """A source of blocks whose library has errors of its own."""

    def __iter__(self):
        raise Exception("bob-has-it")


def test_errors_of_other_libraries_stay_inside():
    for source in (Telling(), ROWS):
        session = Session(source, budget=1.0)
        design = OPERATOR if source is not ROWS else skl.design(bounds=([0] * 3, [1] * 3), n_components=2)
        with pytest.raises(SessionError, match=r"session\.check") as caught:
            session.release(design, epsilon=1.0)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


def test_a_budget_by_batch_is_refused(tmp_path):
    """It would have a limit for each design, and the releases of a session add up."""
    with pytest.raises(BudgetError, match="without by_batch"):
        Session(ROWS, budget=skl.privacy.Budget(tmp_path / "budget", epsilon=1.0, by_batch=True))
