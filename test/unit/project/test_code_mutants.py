"""The list of mistakes that tests are to catch is that of the code as it is."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from anchors import AnchorError, replaced
from code_mutants import MUTANTS
from code_mutants_base import CodeMutant

ROOT = Path(__file__).resolve().parents[3]


@cache
def laid_out(file: str) -> str:
    return ast.unparse(ast.parse((ROOT / file).read_text())) + "\n"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mistake_can_be_made(mutant: CodeMutant) -> None:
    changed = mutant.of((ROOT / mutant.file).read_text())
    assert changed != laid_out(mutant.file)
    compile(changed, mutant.file, "exec")
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).exists()
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text() or not name


def test_there_are_enough_and_no_two_alike() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 139


CODE = """
LIMIT = 2  # LIMIT = 3

class Layout:
    size = LIMIT * 8

    def widest(self, run):
        # As wide as
        # they are.
        if run:
            found = (1 <<
                     run)
        elif self:
            found = 0
        def inner(one):
            return 1 << run
        return found, f"{run}, {found} : i1"
"""


@pytest.mark.parametrize(
    ("function", "old", "new", "made"),
    [
        ("Layout.widest", "1 << run", "2 << run", "found = 2 << run"),
        ("Layout.widest.inner", "1 << run", "2 << run", "return 2 << run"),
        (
            "Layout.widest",
            "if run: ...",
            "if not run: ...",
            "if not run:\n            found = 1 << run\n        elif",
        ),
        ("Layout.widest", "found = 0", "pass", "elif self:\n            pass"),
        ("Layout.widest", 'f"{run}, {found}"', 'f"{found}, {run}"', "return (found, f'{found}, {run} : i1')"),
        ("Layout", "LIMIT * 8", "LIMIT", "size = LIMIT\n"),
        ("", "LIMIT = 2", "LIMIT = 4", "LIMIT = 4\n"),
    ],
)
def test_a_change_is_made_where_the_code_says_so(function: str, old: str, new: str, made: str) -> None:
    changed = replaced(CODE, function, old, new)
    assert made in changed
    assert made not in ast.unparse(ast.parse(CODE))
    assert replaced(changed, function, new, old) == ast.unparse(ast.parse(CODE)) + "\n" or new == "pass"


@pytest.mark.parametrize(
    ("function", "old", "why"),
    [
        ("Layout.width", "1 << run", "there is no function 'Layout.width'"),
        ("Layout.widest", "1 << size", "'Layout.widest' has this 0 times instead of once: 1 << size"),
        ("Layout.widest", "run", "'Layout.widest' has this 3 times instead of once: run"),
    ],
)
def test_what_is_not_there_once_is_not_changed(function: str, old: str, why: str) -> None:
    mutant = CodeMutant("layout.py", function, old, "None", "as wide as they are", ())
    with pytest.raises(AnchorError, match=rf"the mistake 'as wide .*' cannot be made in layout.py: {why}"):
        mutant.of(CODE)
