"""Shared fixtures: every kernel of this machine, and hypothesis without a deadline (machines are noisy)."""

import dataclasses
import secrets

import hypothesis
import pytest

import sketchlearn as skl
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.sketch.batches import RELEASED

hypothesis.settings.register_profile("default", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.load_profile("default")


def with_kernel(operator, name, monkeypatch):
    """The same operator, its plan made for another kernel."""
    monkeypatch.setattr(kernel, "active", name)
    if hasattr(operator, "parts"):
        return type(operator)(tuple(with_kernel(part, name, monkeypatch) for part in operator.parts))
    own = {field.name: getattr(operator, field.name) for field in dataclasses.fields(operator)}
    inside = {
        field: with_kernel(o, name, monkeypatch) for field, o in own.items() if isinstance(o, skl.extend.Operator)
    }
    return dataclasses.replace(operator, **inside)


@pytest.fixture(params=kernel.available())
def kernel_name(request):
    return request.param


@pytest.fixture(autouse=True)
def nothing_was_released(tmp_path_factory, monkeypatch):
    """Tests release the same rows again and again."""
    RELEASED.forget()
    monkeypatch.setenv("SKETCHLEARN_BUDGETS", str(tmp_path_factory.getbasetemp() / f"budgets-{secrets.token_hex(4)}"))
