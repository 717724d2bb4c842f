"""Forecasts of private releases: the noise is known before anything is spent, and callers choose how it is split."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import sketchlearn as skl
from sketchlearn.cli.commands import app
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.privacy.forecast import forecast
from sketchlearn.privacy.mechanisms import ratio_of
from sketchlearn.privacy.noise_plan import plan_noise, sensitivity, split_budget
from sketchlearn.privacy.release import privatize
from sketchlearn.sketch.ledger import largest_ratio

N = 2000
ROWS = np.random.default_rng(0).standard_normal((N, 2))
BOUNDS = ([-5, -5], [5, 5])
WHOLE = skl.design(bounds=BOUNDS, n_components=3)  # frequencies, histograms, second moments
WAVES = skl.features.FourierFeatures(2, 400, law=Gaussian(1.0)).with_origin("declared")
OPERATORS = {
    "concatenated": WHOLE,
    "one": WAVES,
    "one bit": replace(WAVES, wave=skl.features.waves.Square()).with_origin("declared"),
    "subsample": replace(WAVES, subsample=25).with_origin("declared"),
    "moments": skl.design(bounds=BOUNDS, task="moments"),
}
SPLIT = {skl.features.Histograms: 0.3, skl.features.SecondMoments: 0.05}


# the forecast is the release


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0.7},
        {"epsilon": 0.7, "neighbors": "replace", "count_share": 0.1},
        {"epsilon": 0.7, "delta": 1e-6},
        {"epsilon": 0.7, "delta": 1e-6, "neighbors": "replace"},
        {"epsilon": 0.7, "parties": 20},
    ],
    ids=str,
)
def test_the_forecast_is_the_ledger_of_the_release(name, options):
    operator = OPERATORS[name]
    expected = forecast(operator, n_rows=N, **options)
    assert expected.ledger == privatize(operator.sketch(ROWS), **options).ledger


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_so_it_is_of_a_chosen_split(delta):
    exact = WHOLE.sketch(ROWS)
    options = {"epsilon": 1.0, "delta": delta, "shares": SPLIT, "count_share": 0.05}
    expected = forecast(exact, **options)
    assert [round(part.share, 9) for part in expected.parts] == [0.6, 0.3, 0.05]
    assert expected.n_rows == N
    assert expected.ledger == privatize(exact, **options).ledger


def test_records_that_count_twice_have_twice_the_noise():
    twice = (one := WAVES.sketch(ROWS)).merged(one, overlapping=True)
    assert forecast(twice, epsilon=1.0).parts[0].sensitivity == 2 * forecast(one, epsilon=1.0).parts[0].sensitivity
    assert forecast(twice, epsilon=1.0).ledger == privatize(twice, epsilon=1.0).ledger


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("options", [{}, {"delta": 1e-6}, {"delta": 1e-6, "neighbors": "replace"}], ids=str)
def test_means_have_the_noise_that_was_forecast(name, options):
    """Deviations within five of their standard errors, sqrt(kurtosis - 1) / (2 sqrt(numbers)): one in 10^6 fails."""
    operator = OPERATORS[name]
    exact = operator.sketch(ROWS)
    private = privatize(exact, epsilon=1.0, seed_for_tests_not_private=0, **options)
    noise = np.split(private.sums - exact.sums, np.cumsum([part.n_sums for part in operator.side_by_side])[:-1])
    excess = 2 if "delta" in options else 5
    for part, found, own in zip(
        operator.side_by_side, forecast(exact, epsilon=1.0, **options).parts, noise, strict=True
    ):
        tolerance = 5 * math.sqrt(excess / (4 * len(own)))
        assert own.std() == pytest.approx(found.deviation, rel=tolerance)
        # a mean of records whose numbers are all of the largest size, as the operator itself counts it
        largest = np.abs(
            part.mean_of(np.full(part.n_sums, float(part.largest_contribution) / getattr(part, "n_groups", 1)))
        )
        means = np.abs(part.mean_of(np.full(part.n_sums, found.deviation))) / N
        np.testing.assert_allclose(means / largest, found.mean_deviation, rtol=1e-9)


def test_subsampled_means_have_more_gaussian_noise():
    plain, few = (OPERATORS[name] for name in ("one", "subsample"))
    noise = [
        [forecast(operator, n_rows=N, epsilon=1.0, delta=delta).parts[0].mean_deviation for operator in (plain, few)]
        for delta in (1e-6, 0.0)
    ]
    assert noise[0][1] / noise[0][0] == pytest.approx(math.sqrt(400 / 25), rel=1e-3)
    assert noise[1][1] / noise[1][0] == pytest.approx(1, rel=1e-3)
    said = forecast(few, n_rows=N, epsilon=1.0, delta=1e-6).verdict
    assert "subsample makes the noise on means 4 times as large (the root of 16) with delta > 0: leave it out" in said
    assert "subsample" not in forecast(few, n_rows=N, epsilon=1.0).verdict


def test_shares_of_noise_are_forecast_for_their_sum():
    one, shared = (forecast(WAVES, n_rows=N, epsilon=1.0, parties=parties) for parties in (None, 50))
    assert shared.parts[0].deviation == pytest.approx(one.parts[0].deviation, rel=1e-3)
    assert shared.ledger.sum_variance == pytest.approx(one.ledger.sum_variance / 50, rel=1e-3)
    assert "the sum of 50 parties' shares" in str(shared)


def test_a_forecast_spends_nothing():
    exact = WHOLE.sketch(ROWS)
    for _ in range(3):
        forecast(exact, epsilon=5.0)
    assert exact.released is None
    assert privatize(exact, epsilon=1.0).ledger.releases == 1
    with pytest.raises(ValueError, match="were released before"):
        privatize(exact, epsilon=1.0)


# what a forecast says


def test_a_forecast_never_praises_what_it_cannot_judge():
    unknown = "depends on the records, which were not looked at"
    clear = forecast(WHOLE, n_rows=10**7, epsilon=1.0, delta=1e-6, n_components=3)
    assert (clear.cautions, clear.hidden) == ((), None)
    assert clear.verdict == f"Compare the noise of a mean with what you look for, where the signal is unknown: " \
        f"whether that suffices {unknown}."  # fmt: skip
    waves = forecast(WAVES, n_rows=10**7, epsilon=1.0, n_components=3)
    assert waves.verdict == f"Noise is smaller than the signals above: whether that suffices {unknown}."
    assert waves.parts[0].signal == pytest.approx(1 / 3)
    for operator, options, message in [
        (WAVES, {"n_components": 3}, "Noise will hide 3 clusters of 100 records at epsilon 1: about"),
        (WAVES, {}, "Noise drowns the means of FourierFeatures"),
        (skl.features.Histograms.even([0], [1]), {"epsilon": 0.5}, "Noise hides histogram bins with an even share"),
        (WAVES, {"epsilon": 21.0}, "protects next to nothing"),
        (WAVES.with_origin("sample"), {}, "asks for assume_public_design=True"),
    ]:
        found = forecast(operator, **{"n_rows": 100, "epsilon": 1.0, **options})
        assert message in found.verdict
        assert "smaller than" not in found.verdict
        assert str(found).endswith(found.verdict)


def test_more_records_or_epsilon_show_what_was_hidden():
    hidden = forecast(WAVES, n_rows=10**3, epsilon=0.1, n_components=3).hidden
    records = int(hidden.split("about ")[1].split(" records")[0].replace(",", ""))
    assert forecast(WAVES, n_rows=int(0.99 * records), epsilon=0.1, n_components=3).hidden is not None
    assert forecast(WAVES, n_rows=int(1.01 * records), epsilon=0.1, n_components=3).hidden is None


@pytest.mark.parametrize(
    ("sketched", "options", "message"),
    [
        (WHOLE, {}, "the approximate number of records is required: give n_rows"),
        (WHOLE, {"n_rows": 0}, "n_rows must be a whole number"),
        (WHOLE, {"n_rows": 10, "n_components": 0}, "n_components must be a whole number"),
        (WHOLE, {"n_rows": 10, "epsilon": 0.0}, "epsilon must be a positive number"),
        (WHOLE, {"n_rows": 10, "neighbors": "swap"}, "neighbors must be 'add-remove' or 'replace'"),
        (WHOLE, {"n_rows": 10, "epsilon": 1e-12}, "so small that its noise exceeds 64 bits"),
        (skl.features.SecondMoments(2, bound=1.0), {"n_rows": 10}, "refuses rows outside its bound"),
    ],
)
def test_what_cannot_be_released_has_no_forecast(sketched, options, message):
    with pytest.raises(ValueError, match=message):
        forecast(sketched, **{"epsilon": 1.0, **options})


def test_rows_have_no_forecast():
    with pytest.raises(TypeError, match="an operator or an exact sketch, not ndarray"):
        forecast(ROWS, epsilon=1.0)


def test_one_budget_pays_for_a_count_histograms_and_clusters():
    """The noise is seeded; bounds are five deviations, which one release in 10^5 exceeds."""
    rng = np.random.default_rng(2)
    centers = np.array([[-12.0, -12.0], [0.0, 12.0], [12.0, -12.0]])
    rows = centers[rng.integers(0, 3, 20_000)] + rng.standard_normal((20_000, 2))
    planned = {"epsilon": 1.0, "delta": 1e-6}
    operator = skl.design(
        bounds=([-20] * 2, [20] * 2),
        n_components=3,
        features=skl.features.Fourier(n_frequencies=60),
        n_rows=20_000,
        **planned,
    )
    expected = forecast(operator, n_rows=20_000, n_components=3, shares=SPLIT, **planned)
    private = privatize(operator.sketch(rows), shares=SPLIT, seed_for_tests_not_private=0, **planned)
    assert abs(private.count - 20_000) < 5 * expected.count_deviation
    found = skl.Questions(private).marginal(0, bins=8)
    true = np.histogram(rows[:, 0], found.edges)[0] / 20_000
    assert np.all(np.abs(found.shares - true) < 5 * found.errors)
    model = skl.SketchKMeans(3, random_state=0).fit_sketch(private)
    assert np.abs(model.cluster_centers_[np.argsort(model.cluster_centers_[:, 0])] - centers).max() < 0.2
    assert (model.privacy_.epsilon, model.privacy_.delta) == (1.0, 1e-6)
    assert model.privacy_.parts == expected.ledger.parts


# attacks on the split


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({skl.features.Histograms: 1.5}, "between 0 and 1"),
        ({skl.features.Histograms: -0.5}, "between 0 and 1"),  # would pay for more noise-free frequencies
        ({skl.features.Histograms: 0.0}, "between 0 and 1"),
        ({skl.features.Histograms: math.nan}, "a share must be a finite number"),
        ({skl.features.Histograms: True}, "a share must be a finite number"),
        ({skl.features.Histograms: "0.5"}, "a share must be a finite number"),
        (
            {skl.features.Histograms: 0.9, skl.features.SecondMoments: 0.9},
            "add up to 1.82, and leave nothing for the other parts",
        ),
        ({skl.features.Histograms: 0.98}, "add up to 1, and leave nothing"),
        (
            {skl.features.FourierFeatures: 0.9, skl.features.Histograms: 0.9, skl.features.SecondMoments: 0.9},
            "add up to 2.72: make them add up",
        ),
        (
            {skl.features.FourierFeatures: 0.1, skl.features.Histograms: 0.1, skl.features.SecondMoments: 0.1},
            "add up to 0.32: make them add up",
        ),
        (
            {skl.features.QuadraticFeatures: 0.5},
            r"kinds of parts that the sketch has \(FourierFeatures, Histograms, Second",
        ),
        ({"Histograms": 0.5}, "kinds of parts that the sketch has"),
        ([0.5, 0.3, 0.2], "shares must be a dictionary"),
    ],
)
def test_splits_that_spend_too_much_or_nothing_are_refused(shares, message):
    exact = WHOLE.sketch(ROWS)
    with pytest.raises(ValueError, match=message) as caught:
        privatize(exact, epsilon=1.0, shares=shares)
    assert "\n" not in str(caught.value)
    assert exact.released is None


@pytest.mark.parametrize("excess", [0.0, 9e-10, -9e-10])
def test_no_split_spends_more_than_the_budget(excess):
    """Even one that adds up to a little more than 1, which is taken for rounding."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        some = rng.dirichlet([1, 1, 1, 1])
        shares = dict(
            zip(
                (skl.features.FourierFeatures, skl.features.Histograms, skl.features.SecondMoments),
                some[:3] + excess / 3,
                strict=True,
            )
        )
        options = {"epsilon": 0.5, "count_share": some[3], "shares": shares}
        pure, gaussian = (plan_noise(WHOLE, **options, delta=delta) for delta in (0.0, 1e-6))
        assert math.fsum(part.sensitivity / part.scale for part in (*pure.parts, pure.count)) <= 0.5 * (1 + 1e-12)
        bounds = [*map(sensitivity, WHOLE.parts), Sensitivity.of_integers(1, 1)]
        ratios = map(ratio_spent, bounds, gaussian.scales)
        assert math.fsum(ratio**2 for ratio in ratios) <= largest_ratio(0.5, 1e-6) ** 2


def ratio_spent(bound, scale):
    """The deviation of continuous noise, over which a record moves the sums, that is as private: at least."""
    if bound.each and scale < 40:  # few integers have a law of their own
        return ratio_of(scale, bound.l1 // bound.each, bound.each)
    return math.sqrt(bound.l2_squared) / scale


def test_parts_that_are_not_named_share_the_rest_as_before():
    usual, chosen = split_budget(WHOLE.parts), split_budget(WHOLE.parts, 0.02, {skl.features.Histograms: 0.49})
    assert chosen[1:] == pytest.approx([0.49, usual[2] * 0.49 / (1 - 0.02 - usual[1]), 0.02])
    assert sum(chosen) == pytest.approx(1)
    both = skl.features.concatenate([WAVES, WAVES, skl.features.Histograms.even([0, 0], [1, 1])])
    assert split_budget(both.parts, 0.1, {skl.features.FourierFeatures: 0.6}) == pytest.approx([0.3, 0.3, 0.3, 0.1])


# designs


def test_designs_for_replaced_records_are_those_of_half_the_epsilon():
    for epsilon in (0.05, 0.4, 1.0, 3.0):
        options = {"bounds": (-9, [9] * 3), "n_components": 5, "n_rows": 50_000}
        replaced = skl.design(**options, epsilon=2 * epsilon, neighbors="replace")
        assert replaced == skl.design(**options, epsilon=epsilon)


def test_a_design_says_that_noise_hides_clusters_of_replaced_records():
    options = {"bounds": (-9, [9] * 10), "n_components": 10, "n_rows": 100_000, "epsilon": 0.07}
    skl.design(**options)  # warnings are errors
    with pytest.warns(UserWarning, match="noise will hide 10 clusters of 100,000 records at epsilon 0.07"):
        skl.design(**options, neighbors="replace")


@pytest.mark.parametrize("neighbors", ["add-remove", "replace"])
@pytest.mark.parametrize("n_rows", [1200, 1500, 1800, 2200, 2600, 3100])
def test_moments_are_designed_where_their_released_noise_is_small(n_rows, neighbors):
    """The noise of the release itself, not of a formula near it: that was a quarter too large."""
    budget = {"epsilon": 1.0, "delta": 1e-6, "neighbors": neighbors}
    designed = skl.design(bounds=(-1, [1] * 10), n_components=4, n_rows=n_rows, **budget)
    largest = skl.design(bounds=(-1, [1] * 10), n_components=4, n_rows=10**6, epsilon=1.0, delta=1e-6)
    ledger = privatize(largest.sketch(np.zeros((1, 10))), **budget).ledger
    noise = math.sqrt(ledger.parts[2].variance) / (2**30 * n_rows)
    assert (designed.part(skl.features.SecondMoments) is not None) == (noise <= 0.06)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"neighbors": "replace"}, "neighbors are for private releases: give epsilon, too"),
        ({"neighbors": "swap", "epsilon": 1.0, "n_rows": 100}, "neighbors must be 'add-remove' or 'replace'"),
        ({"task": "moments", "n_components": None, "neighbors": "replace"}, "leave out neighbors"),
    ],
)
def test_designs_refuse_neighbors_in_a_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        skl.design(**{"bounds": BOUNDS, "n_components": 3, **options})


# the command line

DESIGN = ["design", "--bounds", "-9,9", "--columns", "a,b", "-k", "3"]


def called(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_command_shows_the_noise_of_a_planned_release(tmp_path):
    budget = ["--n-rows", 20_000, "--epsilon", 0.5, "--delta", 1e-6, "--neighbors", "replace"]
    told = called(*DESIGN, *budget, "-o", tmp_path / "d.json")
    operator = skl.load(tmp_path / "d.json")
    options = {"epsilon": 0.5, "delta": 1e-6, "neighbors": "replace"}
    expected = forecast(operator, n_rows=20_000, n_components=3, **options)
    assert str(expected) in told.stderr
    assert "Expected noise" not in told.stdout
    told = json.loads(called(*DESIGN, *budget, "-o", tmp_path / "d.json", "--json").stdout)
    assert told["forecast"]["ledger"] == expected.ledger.to_json()
    assert told["made"]["neighbors"] == "replace"
    assert "Expected noise" not in called(*DESIGN, "-o", tmp_path / "d.json").stderr


def test_the_command_forecasts_without_releasing(tmp_path):
    exact, path = WHOLE.sketch(ROWS), tmp_path / "exact.sketch"
    exact.save(path)
    options = ["privatize", path, "--epsilon", 1]
    told = called(*options, "--forecast", "-k", 3)
    assert told.exit_code == 0, told.output
    assert str(forecast(exact, epsilon=1.0, n_components=3)) in told.stdout
    assert "keep this table to yourself" in told.stdout
    assert [file.name for file in tmp_path.iterdir()] == ["exact.sketch"]  # no budget either
    released = json.loads(called(*options, "-o", tmp_path / "x", "--json").stdout)
    assert released["ledger"] == forecast(exact, epsilon=1.0).ledger.to_json()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--forecast", "-o", "x"], "--forecast releases nothing: leave out -o"),
        ([], "Missing option '--output' / '-o'"),
        (["-k", 3, "-o", "x"], "-k is for --forecast"),
    ],
)
def test_the_command_refuses_half_a_forecast(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    WHOLE.sketch(ROWS).save("exact.sketch")
    told = called("privatize", "exact.sketch", "--epsilon", 1, *options)
    assert told.exit_code == 2
    assert message in told.output.replace("│", "").replace("\n", " ")
    assert [file.name for file in tmp_path.iterdir()] == ["exact.sketch"]


def test_verdicts_of_the_command_speak_of_options(tmp_path):
    WAVES.with_origin("sample").sketch(ROWS).save(tmp_path / "exact.sketch")
    told = called("privatize", tmp_path / "exact.sketch", "--epsilon", 30, "--forecast")
    assert "privatize asks for --allow-weak. " in told.stdout
    assert "privatize asks for --assume-public-design." in told.stdout
