"""The audit of the public entry points finds nothing, and finds each hole that is made by taking a fix out."""

import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")
pytest.importorskip("opendp")

from audit_entries import CASES, audited

ANSWERS = dict.fromkeys((case.name for case in CASES), 120) | {"model file and report of a release": 90}  # 0.4 s each
BY_NAME = {case.name: case for case in CASES}
MINUTES = ("collector", "model")  # that a case of these takes
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * name.startswith(MINUTES)) for name in BY_NAME]


@pytest.mark.parametrize("name", NAMES)
def test_no_claim_is_exceeded(name):
    bound, number = audited(BY_NAME[name], ANSWERS[name])
    assert bound <= BY_NAME[name].epsilon, number


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_fix_that_is_taken_out_is_found(name):
    bound, _ = audited(BY_NAME[name], ANSWERS[name], hole=True)
    assert bound > BY_NAME[name].epsilon
