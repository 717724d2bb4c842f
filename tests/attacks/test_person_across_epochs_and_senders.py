"""One person with rows in every epoch and at every sender: a release must protect all of them, and tell no more."""

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")
pytest.importorskip("opendp")

from house import HOUR, NOON, House
from patients import OPERATOR, people

from sketchlearn.collector import releases
from sketchlearn.privacy.noise_plan import sensitivity

HOURS, SENDERS, ROWS_EACH = 3, ("clinic", "lab"), 2
UNITS = {"unit": "patient_id", "rows_per_unit": ROWS_EACH}
PERSON = 77


def filled(folder, *, person, alone=True, **rules):
    """A collector of visits; a person has 5 of them in each hour at each sender, and is `alone` at one in an hour."""
    folder.mkdir()
    house, rng = House(folder), np.random.default_rng(0)
    settings = {"grace_seconds": 0, "private_reading": True, **UNITS, "reports_per_epoch": 1, **rules}
    house.collection(operator=OPERATOR, **settings)
    tokens = {name: house.sender(name) for name in SENDERS}
    for hour in range(HOURS):
        for name, token in tokens.items():
            rows, ids = rng.standard_normal((30, 2)), rng.integers(0, 12, 30)
            if alone and (hour, name) == (1, "lab"):
                rows, ids = rows[:0], ids[:0]
            if person:
                rows, ids = np.concatenate([rows, np.full((5, 2), 9.0)]), np.append(ids, [PERSON] * 5)
            if len(rows):
                sketch = people(rows, ids, ROWS_EACH)
                assert house.send(token, sketch, f"r{hour}").status_code == 201
        house.now += HOUR
        house.store.maintain()
    return house


@pytest.fixture
def exact(monkeypatch):
    """What goes into the mechanism, release by release."""
    found, draw = [], releases.privatize
    monkeypatch.setattr(releases, "privatize", lambda sketch, **more: found.append(sketch) or draw(sketch, **more))
    return found


def release(house, hours=HOURS, **changes):
    form = {"from": str(NOON), "to": str(NOON + hours * HOUR), "epsilon": 1.0, **changes}
    return house.ask("POST", "/collections/c/releases", json=form)


@pytest.mark.parametrize("alone", [True, False])
def test_a_person_more_or_less(tmp_path, exact, alone):
    """The person moves the sums by no more than the noise is for, and nothing else of the release.

    Where a report has this person alone, there is no such report without them: their number must not tell.
    """
    made = []
    for person in (False, True):
        house = filled(tmp_path / str(person), person=person, alone=alone)
        made.append(release(house))
        house.close()
    without, with_person = (answer.json() for answer in made)
    assert [answer.status_code for answer in made] == [201, 201]
    assert without == with_person
    ledger = with_person["ledger"]
    assert (ledger["unit"], ledger["rows_per_unit"]) == ("patient_id", ROWS_EACH * len(SENDERS) * HOURS)
    moved = np.abs(exact[1].sums - exact[0].sums).sum()
    rows = exact[1].count - exact[0].count
    assert rows == ROWS_EACH * len(SENDERS) * HOURS  # of all that this person had
    assert 0 < moved <= ledger["rows_per_unit"] * sensitivity(OPERATOR).l1


def test_every_epoch_of_the_window_counts_with_reports_or_without(tmp_path):
    """A longer window has more noise, for the epochs in which a person could have been."""
    house = filled(tmp_path / "c", person=True)
    house.now += 10 * HOUR
    assert release(house, 1).json()["ledger"]["rows_per_unit"] == ROWS_EACH * len(SENDERS)
    assert release(house, 6).json()["ledger"]["rows_per_unit"] == 6 * ROWS_EACH * len(SENDERS)
    # all releases are of the same people, whatever their windows
    third = release(house, 1, **{"from": str(NOON + 4 * HOUR), "to": str(NOON + 5 * HOUR)}).json()["ledger"]
    assert (third["epsilon"], third["releases"]) == (3.0, 3)
    house.close()


def test_people_that_are_in_one_report_alone(tmp_path):
    house = filled(tmp_path / "c", person=False, disjoint=True, reports_per_epoch=None)
    assert release(house).json()["ledger"]["rows_per_unit"] == ROWS_EACH
    house.close()


def test_reports_that_could_be_any_number_are_not_released(tmp_path):
    """Without a limit on reports there is none on a person's rows; the refusal does not depend on what was sent."""
    answers = []
    for person in (False, True):
        house = filled(tmp_path / str(person), person=person, reports_per_epoch=None)
        answers.append(release(house))
        house.close()
    assert answers[0].json() == answers[1].json()
    house.refused(answers[0], 409, "reports_per_epoch")


def test_reports_by_other_units_are_refused(tmp_path):
    house = House(tmp_path)
    house.collection(operator=OPERATOR, **UNITS)
    token = house.sender()
    house.refused(house.send(token, OPERATOR.sketch(np.zeros((3, 2))), "r"), 422, "unit='patient_id', rows_per_unit=2")
    house.refused(house.send(token, people(most=ROWS_EACH, name="visit"), "r"), 422, "rows of units")
    house.refused(house.send(token, people(most=ROWS_EACH + 1), "r"), 422, "rows of units")
    assert house.send(token, people(most=1), "r").status_code == 201
    house.close()


def test_rules_without_a_unit_release_no_people(tmp_path):
    """Reports by units in a collection whose rules name none: their number would be in the noise."""
    house = House(tmp_path)
    house.collection(operator=OPERATOR, grace_seconds=0)
    assert house.send(house.sender(), people(most=ROWS_EACH), "r").status_code == 201
    house.now += HOUR
    house.refused(release(house, 1), 409, "set the rules unit and rows_per_unit")
    house.close()
