"""The bench of the algebra: its operations run, and its table has them by how often they are called."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from bench import algebra


def test_every_operation_runs_and_two_do_the_same_new_and_again() -> None:
    results = {name: call() for name, call in algebra.operations().items()}
    assert results["invert_and_compose, new"] == results["invert_and_compose, again"]
