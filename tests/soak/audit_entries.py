"""End-to-end audits: what neighboring inputs of the public entry points tell, at 99.9 % confidence.

    python tests/soak/audit_entries.py --releases 2000

Each case gives one of two neighboring inputs (one record more or less) to a public entry point, again and again, and
looks at all that comes out: noisy numbers, notes, sizes, texts, refusals. Half of the answers choose the event that
tells most, the other half bounds its probabilities (Clopper and Pearson). The bound of epsilon must not lie above what
the ledger claims. Each case has a hole, which is one of the fixes taken out: `test_audit_entries.py` shows that the
audit finds it.
"""

import argparse
import contextlib
import math
import multiprocessing
import pickle
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
from audit import at_least, at_most

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from house import HOUR, NOON, House

import sketchlearn as skl
from sketchlearn.collector import releases as collector_releases
from sketchlearn.collector.routes import ENDPOINTS
from sketchlearn.estimators.base import state as fitted_state
from sketchlearn.estimators.base import state as row_samples
from sketchlearn.estimators.base.estimator import SketchEstimator
from sketchlearn.privacy import session
from sketchlearn.privacy.session import Session, SessionError
from sketchlearn.sketch.batches import RELEASED
from sketchlearn.sketch.sums import Release

CONFIDENCE = 1 - 1e-3
EPSILON = 1.0
BOUNDS = ([-5.0, -5.0], [5.0, 5.0])
OTHERS = np.random.default_rng(0).uniform(-1, 1, (50, 2))
VICTIM = np.array([[4.0, 4.0]])
BINS = skl.features.Histograms.even(*BOUNDS, bins=2)
PARTS = 16  # of the answers, on all cores
MOST_RECORDS = 100  # the collector's default minimum: the victim's epoch has so many with the victim


@dataclass(frozen=True)
class Case:
    """An entry point. `answers` makes a function that gives one answer for an input: numbers by name."""

    name: str
    answers: Callable
    hole: Callable  # a context manager that takes a fix out
    epsilon: float = EPSILON


def rows(more):
    return np.concatenate([OTHERS, VICTIM]) if more else OTHERS


def text_number(text):
    """A text as a number: equal texts have equal ones."""
    return float(zlib.crc32(text if isinstance(text, bytes) else str(text).encode()))


def moved(release):
    """The numbers that the victim moves, and the count."""
    return {"sum": float(release.sums[BINS.sketch(VICTIM).sums > 0].sum()), "count": float(release.count)}


def privately(sketch):
    RELEASED.forget()  # each answer is one of a kind
    return skl.privatize(sketch, epsilon=EPSILON)


# Sessions


@contextlib.contextmanager
def of_sessions(more, **_options):
    data = np.concatenate([OTHERS, [[np.nan, 0.0]]]) if more == "odd" else rows(more)

    def answer():
        RELEASED.forget()
        held = Session(data, budget=EPSILON, bounds=BOUNDS)
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                release = held.release(BINS, epsilon=EPSILON)
        except (SessionError, ValueError) as error:
            return {"error": text_number(error)}
        return {**moved(release), "warnings": text_number(said), "shown": text_number(held)}

    yield answer


def session_that_refuses():
    """Rows with missing values are refused, as plain sketches refuse them."""
    return mock.patch.object(session, "DROPPED", "error")


@contextlib.contextmanager
def of_odd_rows(more):
    with of_sessions("odd" if more else False) as answer:
        yield answer


# Pickles, files of models, reports


@contextlib.contextmanager
def of_pickles(more):
    exact = skl.Sketch(BINS)
    for row in rows(more):
        exact.update(row[None])

    def answer():
        sent = pickle.dumps(privately(exact))
        received = pickle.loads(sent)
        notes = {name: value for name, value in received.__dict__.items() if name not in ("sums", "units", "ledger")}
        batches = notes.pop("batches")
        return {**moved(received), "batches": float(sum(batches.times.values())), "notes": text_number(sorted(notes))}

    yield answer


def pickle_with_batches():
    """A release keeps the batches of the exact sketch, and pickles all that it has."""

    def note_rows(_self, release, batches):
        release.times.clear()
        release.times.update(batches.times)

    state = mock.patch.object(Release, "__getstate__", lambda self: dict(self.__dict__))
    back = mock.patch.object(Release, "__setstate__", lambda self, state: self.__dict__.update(state))
    return _together(mock.patch.object(type(RELEASED), "note_rows", note_rows), state, back)


def _together(*patches):
    stack = contextlib.ExitStack()
    for patch in patches:
        stack.enter_context(patch)
    return stack


@contextlib.contextmanager
def of_models(more):
    operator = skl.design(bounds=BOUNDS, n_components=1)
    exact = operator.sketch(rows(more))

    def answer():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = skl.SketchKMeans(1, random_state=0).fit_sketch(privately(exact))
            except ValueError as error:  # of noise alone
                return {"refused": text_number(type(error))}
            with tempfile.TemporaryDirectory() as folder:
                skl.save(model, Path(folder) / "model.json")
                text = (Path(folder) / "model.json").read_text()
                page = skl.report(model.sketch_, model, Path(folder) / "page.html")
        return {
            "records": float(model.n_records_),
            "center": float(model.cluster_centers_.sum()),
            "file, says the count": float(f'"n_records":{len(OTHERS) + 1}' in text.replace(" ", "")),
            "page, says the count": float(f">{len(OTHERS) + 1}<" in page),
            "page, private": float("<span>private release</span>" in page),
        }

    yield answer


def model_with_exact_count():
    """A model file says how many records there were, exactly."""
    exact, fit_sketch = {}, SketchEstimator._state_of

    def noted(self, sketch):
        exact["n"] = float(len(OTHERS)) if not exact.get("more") else float(len(OTHERS) + 1)
        return fit_sketch(self, sketch)

    released = mock.patch.object(skl, "privatize", _noting(skl.privatize, exact))
    count = mock.patch.object(SketchEstimator, "n_records_", property(lambda _self: exact["n"]))
    return _together(released, count, mock.patch.object(SketchEstimator, "_state_of", noted))


def _noting(privatize, exact):
    def noted(sketch, **options):
        exact["more"] = sketch.units > len(OTHERS)
        return privatize(sketch, **options)

    return noted


# Rows beside a release


@contextlib.contextmanager
def of_samples(more):
    operator = skl.design(bounds=BOUNDS, n_components=1)
    exact, given = operator.sketch(rows(more)), np.repeat(rows(more)[-1:], 20, axis=0)

    def answer():
        release = privately(exact)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = skl.SketchKMeans(1, random_state=0).fit_sketch(release, sample=given)
        except ValueError as error:
            return {"error": text_number(error)}
        return {"distance": float(np.abs(model.cluster_centers_ - VICTIM).sum(axis=1).min())}

    yield answer


def sample_is_taken():
    nothing = mock.Mock()
    return _together(
        mock.patch.object(row_samples, "check_public_rows", nothing),
        mock.patch.object(fitted_state, "check_public_rows", nothing),
    )


# Features computed elsewhere


@contextlib.contextmanager
def of_features(more):
    wave = skl.features.waves.FourierSeries((0.005,))
    operator = skl.features.FourierFeatures(2, 1, law=skl.features.frequencies.Gaussian(1.0), wave=wave).with_origin(
        "declared"
    )
    features = operator.features(OTHERS)
    if more:
        features = np.concatenate([features, [[1.0]]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that features were clipped is for the holder of the rows
        exact = operator.sketch_features(features)

    def answer():
        release = privately(exact)
        return {"sum": float(release.sums[0]), "count": float(release.count)}

    yield answer


def features_are_taken_as_they_come():
    """Each number is rounded, and nobody asks how far the row moves."""
    plain = skl.features.FourierFeatures
    return _together(
        mock.patch.object(plain, "clip_contributions", lambda _self, integers: integers),
        mock.patch.object(
            plain, "integers_of_features", lambda self, f: np.rint(np.asarray(f) * self.wave.unit).astype(np.int64)
        ),
        mock.patch.object(plain, "why_impossible", return_value=None),
    )


# A collector


@contextlib.contextmanager
def collected(more, *, victims_alone=False, **rules):
    """A collector with two closed epochs: many records, and in the second one the victim."""
    with tempfile.TemporaryDirectory() as folder:
        house = House(Path(folder))
        try:
            house.collection(operator=BINS, grace_seconds=0, min_records=MOST_RECORDS, sealed_only=True, **rules)
            sender, reader = house.sender(), house.token("read")
            house.send(sender, BINS.sketch(np.tile(OTHERS, (20, 1))), "many")
            house.now += HOUR
            few = np.tile(VICTIM, (MOST_RECORDS - 1 + more, 1))
            house.send(sender, BINS.sketch(few[:1] if victims_alone else few), "few")
            house.now += HOUR
            house.store.maintain()
            yield house, reader
        finally:
            house.close()


@contextlib.contextmanager
def of_collector_releases(more):
    window = {"from": str(NOON), "to": str(NOON + 2 * HOUR), "epsilon": EPSILON}
    with collected(more, private_reading=True) as (house, _reader):

        def answer():
            RELEASED.forget()
            made = house.ask("POST", "/collections/c/releases", json=window, status=201).json()
            file = house.ask("GET", f"/collections/c/releases/{made['id']}/sketch").content
            told = {name: value for name, value in made.items() if name not in ("id", "ledger")}
            return {**moved(skl.from_bytes(file)), "told": text_number(told)}

        yield answer


def epochs_of_few_records_are_left_out():
    between = collector_releases.epochs_between

    def shown(*arguments):
        return [epoch for epoch in between(*arguments) if epoch.records >= MOST_RECORDS]

    return mock.patch.object(collector_releases, "epochs_between", shown)


@contextlib.contextmanager
def of_private_reading(more, private_reading=True):
    with collected(more, private_reading=private_reading) as (house, reader):
        paths = {e.path for e in ENDPOINTS if e.method == "GET" and "{" not in e.path.replace("{collection}", "")}
        paths = sorted(path for path in paths if not path.endswith("second-key"))  # drawn at random by each collector

        def answer():
            return {
                path: text_number(
                    _lasting(house.client.get(path.replace("{collection}", "c"), headers=_bearer(reader)))
                )
                for path in paths
            }

        yield answer


def _bearer(token):
    return {"Authorization": f"Bearer {token}"}


def _lasting(answer):
    """An answer without what differs between any two collectors: tokens, and what Prometheus measures of processes."""
    return f"{answer.status_code} {answer.text}" if "metrics" not in str(answer.url) else str(answer.status_code)


@contextlib.contextmanager
def reading_is_exact():
    global of_private_reading
    private = of_private_reading
    of_private_reading = lambda more: private(more, private_reading=False)  # noqa: E731
    try:
        yield
    finally:
        of_private_reading = private


CASES = (
    Case("session, release", lambda more: of_sessions(more), lambda: mock.patch.object(session, "noisy", _exact)),
    Case("session, a row with a missing value", of_odd_rows, session_that_refuses),
    Case("pickle of a release", of_pickles, pickle_with_batches),
    Case("model file and report of a release", of_models, model_with_exact_count),
    Case("sample beside a release", of_samples, sample_is_taken),
    Case("features computed elsewhere", of_features, features_are_taken_as_they_come),
    Case("collector, release at the threshold", of_collector_releases, epochs_of_few_records_are_left_out),
    Case("collector, private reading", lambda more: of_private_reading(more), reading_is_exact),
)


def _exact(sketch, _plan, ledger):
    """A mechanism that forgets its noise."""
    return Release(sketch.operator, sketch.sums, sketch.units, ledger)


def answers_of(case, more, n):
    with case.answers(more) as answer:
        return [answer() for _ in range(n)]


def _answers_of(number, more, n):
    """The same in another process."""
    warnings.filterwarnings("ignore", "nobody keeps count")
    return answers_of(CASES[number], more, n)


def observed(case, n, pool=None):
    """Answers of both neighbors: for each, an array (answers, numbers), of the same names."""
    if pool is None:
        found = [answers_of(case, more, n) for more in (False, True)]
    else:
        parts = [len(some) for some in np.array_split(range(n), PARTS)]
        asked = [[pool.submit(_answers_of, CASES.index(case), more, some) for some in parts] for more in (False, True)]
        found = [[one for part in parts for one in part.result()] for parts in asked]
    names = sorted({name for answers in found for one in answers for name in one})
    missing = math.pi * 1e6  # of what an answer does not have
    return [np.array([[one.get(name, missing) for name in names] for one in answers]) for answers in found], names


def least_epsilon(less, more, names):
    """What epsilon is at least, and which number tells it: chosen on one half, bounded on the other."""
    best = (-math.inf, None)
    for column in range(less.shape[1]):
        a, b = less[::2, column], more[::2, column]
        seen = np.unique(np.concatenate([np.quantile(both, np.linspace(0, 1, 30)) for both in (a, b)]))
        gaps = np.diff(seen) if len(seen) > 1 else np.ones(1)
        limits = seen[:-1] + gaps / 2 if len(seen) > 1 else seen
        for limit, gap in zip(limits, gaps / gaps.max(), strict=True):  # of equally good limits, one far from all
            for sign in (1, -1):
                for swapped in (False, True):
                    seldom, often = (b, a) if swapped else (a, b)
                    rates = [np.mean(sign * some >= sign * limit) for some in (seldom, often)]
                    score = math.log((rates[1] + 1e-9) / (rates[0] + 1 / len(a))) + 1e-3 * gap
                    if score > best[0]:
                        best = (score, (column, limit, sign, swapped))
    column, limit, sign, swapped = best[1]
    halves = [some[1::2, column] for some in (less, more)]
    seldom, often = reversed(halves) if swapped else halves
    hits = [int(np.count_nonzero(sign * some >= sign * limit)) for some in (seldom, often)]
    top = at_least(hits[1], len(often), 1 - (1 - CONFIDENCE) / 2)
    bound = math.log(max(top, 1e-12) / at_most(hits[0], len(seldom), 1 - (1 - CONFIDENCE) / 2))
    return max(0.0, bound), names[column]


def audited(case, n, *, hole=False, pool=None):
    """The lower bound of epsilon, and the number that tells it."""
    with case.hole() if hole else contextlib.nullcontext():
        (less, more), names = observed(case, n, pool)
    return least_epsilon(less, more, names)


def main(n):
    print(f"{n:,} answers of each of two neighbors; epsilon is at least, at a confidence of {CONFIDENCE}:")
    exceeded = 0
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for case in CASES:
            bound, name = audited(case, n, pool=pool)
            wrong = bound > case.epsilon
            exceeded += wrong
            words = f"  EXCEEDED, by {name}" if wrong else ""
            print(f"{case.name:40} claimed {case.epsilon:g}, at least {bound:.3f}{words}", flush=True)
    return f"{exceeded} claims were exceeded" if exceeded else None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=2000)
    warnings.filterwarnings("ignore", "nobody keeps count")
    sys.exit(main(parser.parse_args().releases))
