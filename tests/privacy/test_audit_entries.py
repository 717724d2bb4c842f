"""The audit of the public entry points finds nothing, and finds each hole that is made by taking a fix out."""

import pytest

pytest.importorskip("starlette")
pytest.importorskip("prometheus_client")
pytest.importorskip("httpx")
pytest.importorskip("opendp")

from audit_entries import CASES, audited

ANSWERS = dict.fromkeys((case.name for case in CASES), 120) | {"model file and report of a release": 90}  # 0.4 s each
BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("name", BY_NAME)
def test_no_claim_is_exceeded(name):
    bound, number = audited(BY_NAME[name], ANSWERS[name])
    assert bound <= BY_NAME[name].epsilon, number


@pytest.mark.parametrize("name", BY_NAME)
def test_a_fix_that_is_taken_out_is_found(name):
    bound, _ = audited(BY_NAME[name], ANSWERS[name], hole=True)
    assert bound > BY_NAME[name].epsilon
