"""The bench of the algebra: its operations run, and its table has them by how often they are called."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from bench import algebra


def test_every_operation_runs_and_two_do_the_same_new_and_again() -> None:
    results = {name: call() for name, call in algebra.operations().items()}
    assert results["invert_and_compose, new"] == results["invert_and_compose, again"]


def test_the_table_begins_with_what_is_called_most() -> None:
    now = dict.fromkeys(algebra.operations(), 0.5)
    result = {
        "python": "3.11",
        "machine": "a machine",
        "date": "a day",
        "samples": 9,
        "modules": 2,
        "calls": {"rank": 4, "fitted": 3, "multiply_vector": 8, "sums": 7},
        "microseconds": [now, {**now, "rank": 2.0}],
    }
    lines = algebra.markdown(result).splitlines()
    rows = [line for line in lines if line.startswith("|")][2:]
    assert rows[0] == "| multiply_vector | 4 | 0.50 | 0.50 | 1.00 |"
    assert rows[1] == "| rank | 2 | 0.50 | 2.00 | 0.25 |"
    assert lines[-1] == "Called as well, in all modules: sums 7."
