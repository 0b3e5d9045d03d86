"""What the matrix and `make check` run by name is there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "test"))

import matrix  # noqa: E402
from run import CHECKED_UNITS  # noqa: E402


@pytest.mark.parametrize(("triton", "python", "units"), matrix.ROWS)
def test_each_name_of_the_matrix_stands_for_files(triton: str, python: str, units: Sequence[str]) -> None:
    assert len(matrix.files_of(units)) >= len(units)


def test_a_name_that_stands_for_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="no test file in plugin has the name unheard"):
        matrix.files_of(["plugin/unheard"])


def test_what_make_check_runs_is_there() -> None:
    assert [unit for unit in CHECKED_UNITS if not (ROOT / unit).exists()] == []
