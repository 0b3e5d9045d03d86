"""The tool that changes code at random finds what tests do not notice, and nothing else."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "test"))

import mutants  # noqa: E402

CODE = '''"""Of widths."""

def narrower(a: int, b: int = 3) -> bool:
    """Whether a is."""
    if not a:
        raise ValueError("no width")
    return a < b

def unseen(width: int) -> int:
    return width + 1
'''
TEST = """
from triton_linear.dialect.widths import narrower
from pytest import raises

def test_narrower():
    assert narrower(2) and not narrower(3) and not narrower(9, 8)
    with raises(ValueError):
        narrower(0)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One with a function that a test calls, and one that none does."""
    root = tmp_path / "project"
    for file, text in {
        "dialect/widths.py": CODE,
        "dialect/__init__.py": "",
        "src/triton_linear/__init__.py": "",
        "test/unit/dialect/test_widths.py": TEST,
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    (root / "src/triton_linear/dialect").symlink_to("../../dialect")
    return root


def test_what_no_test_calls_survives_and_the_rest_does_not(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["dialect/widths.py", "--kinds", "comparison", "operator", "statement", "--root", str(project)]
    assert mutants.main(command) == 1
    *found, total = capsys.readouterr().out.splitlines()
    noticed = "test/unit/dialect/test_widths.py::test_narrower: dialect/widths.py"
    assert found == [
        f"{noticed}:6: statement: raise ValueError('no width') -> pass",
        f"{noticed}:7: comparison: a < b -> a <= b",
        "SURVIVES: dialect/widths.py:10: operator: width + 1 -> width - 1",
    ]
    assert total == "3 mutants, 1 survive"
    assert (project / "dialect/widths.py").read_text() == CODE


def test_every_kind_is_made_and_changes_what_runs() -> None:
    text = CODE + "\ndef calls(x, y):\n    return narrower(x, b=y) if x and y else unseen(x ^ y, 1)\n"
    made = mutants.mutants("widths.py", text)
    kinds = {"argument", "comparison", "condition", "constant", "operator", "return", "statement"}
    assert {mutant.kind for mutant in made} == kinds
    assert len({ast.dump(ast.parse(mutant.text)) for mutant in made} - {ast.dump(ast.parse(text))}) == len(made)
    assert {(mutant.line, mutant.old, mutant.new) for mutant in made if mutant.kind == "argument"} == {
        (13, "narrower(x, b=y)", "narrower(x)"),
        (13, "unseen(x ^ y, 1)", "unseen(x ^ y)"),
        (13, "unseen(x ^ y, 1)", "unseen(1, x ^ y)"),
    }


def test_tests_that_fail_without_a_change_show_nothing(project: Path) -> None:
    test = project / "test/unit/dialect/test_widths.py"
    test.write_text(TEST.replace("not narrower(3)", "narrower(3)"))
    with pytest.raises(ValueError, match="test_narrower fails without any change"):
        mutants.main(["dialect/widths.py", "--count", "1", "--root", str(project)])
