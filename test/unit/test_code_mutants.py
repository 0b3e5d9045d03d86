"""The list of mistakes that tests are to catch is that of the code as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from code_mutants import MUTANTS as PLANNERS
from code_mutants import CodeMutant
from code_mutants_machines import MUTANTS as MACHINES
from code_mutants_rewrites import MUTANTS as REWRITES

ROOT = Path(__file__).resolve().parent.parent.parent
MUTANTS = (*PLANNERS, *MACHINES, *REWRITES)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mistake_can_be_made(mutant: CodeMutant) -> None:
    source = (ROOT / mutant.file).read_text()
    assert source.count(mutant.old) == 1
    compile(source.replace(mutant.old, mutant.new), mutant.file, "exec")
    assert mutant.old != mutant.new
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).exists()
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text() or not name


def test_there_are_enough_and_no_two_alike() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 45
