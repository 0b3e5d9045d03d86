"""Changes code at random, one place at a time, and says which changes no test notices.

python test/mutants.py dialect/f2.py lowering/prove/plans.py --count 20 --seed 1

The tests of a file are those named after it (`test/unit/**/test_<module>*.py`) and those that import a module
of its name, unless `--tests` names others. A survivor is something to look at: a claim that no test makes, or a
change that means nothing. The exit status is 1 where any survives.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*", "build", "results", "node_modules", "*.egg-info")
_PYTEST = ("-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "--assert=plain", "--tb=no")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)

_PAIRS = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot)),
    *((ast.And, ast.Or), (ast.Add, ast.Sub), (ast.LShift, ast.RShift), (ast.Mult, ast.FloorDiv)),
)
_OTHER: dict[type, Any] = dict(_PAIRS) | {b: a for a, b in _PAIRS}
_OTHER |= {ast.BitXor: ast.BitOr, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitXor}
_NEVER_RUN = {"annotation", "returns", "decorator_list", "type_params", "exc", "msg"}
"""Fields of nodes that do not run, or are messages of errors."""


@dataclass(frozen=True)
class Mutant:
    """The text of a file, without its comments, in which one expression or statement is another."""

    file: str
    line: int
    kind: str
    old: str
    new: str
    text: str

    def __str__(self) -> str:
        old, new = (" ".join(code.split())[:90] for code in (self.old, self.new))
        return f"{self.file}:{self.line}: {self.kind}: {old} -> {new}"


def variants(node: Any, field: str, parent: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What may stand in a field in the place of a node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield "comparison", ast.Compare(node.left, [_OTHER[type(node.ops[0])]()], node.comparators)
    if field in ("test", "ifs") and not isinstance(parent, ast.Assert):
        yield "condition", ast.UnaryOp(ast.Not(), node)
    if isinstance(node, ast.BoolOp):
        yield "operator", ast.BoolOp(_OTHER[type(node.op)](), node.values)
    if isinstance(node, ast.BinOp) and type(node.op) in _OTHER:
        yield "operator", ast.BinOp(node.left, _OTHER[type(node.op)](), node.right)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield "constant", ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)
    if isinstance(node, ast.Call):
        given, named = node.args, node.keywords
        if len(given) > 1:
            yield "argument", ast.Call(node.func, given[:-1], named)
            if not any(isinstance(one, ast.Starred) for one in given[:2]):
                yield "argument", ast.Call(node.func, [given[1], given[0], *given[2:]], named)
        if named:
            yield "argument", ast.Call(node.func, given, named[:-1])
    if isinstance(node, ast.Expr | ast.AugAssign | ast.Continue | ast.Break | ast.Raise) or (
        isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    ):
        yield "statement", ast.Pass()
    if isinstance(parent, ast.Return):
        truth = isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp)
        yield "return", ast.UnaryOp(ast.Not(), node) if truth else ast.Constant(None)


def places(parent: ast.AST) -> Iterator[tuple[ast.AST, str, list[Any], int]]:
    """Nodes that run: the one above each, its field there, and the list and the place in it."""
    for field, value in ast.iter_fields(parent):
        inside = value if isinstance(value, list) else [value]
        for place, node in enumerate(inside):
            bare = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            if isinstance(node, ast.AST) and field not in _NEVER_RUN and not bare and not typing:
                yield parent, field, inside, place
                yield from places(node)


def mutants(file: str, text: str) -> list[Mutant]:
    """All mutants of a file, in the order of the text: those that compile, and are other code."""
    tree = ast.parse(text)
    found = {ast.unparse(tree): Mutant(file, 0, "", "", "", "")}
    for parent, field, inside, place in list(places(tree)):
        node = inside[place]
        for kind, new in variants(node, field, parent):
            inside[place] = ast.copy_location(new, node)
            setattr(parent, field, inside if isinstance(getattr(parent, field), list) else inside[0])
            changed = ast.unparse(tree)
            inside[place] = node
            setattr(parent, field, inside if isinstance(getattr(parent, field), list) else node)
            with contextlib.suppress(SyntaxError, ValueError):
                compile(changed, file, "exec")
                made = Mutant(file, node.lineno, kind, ast.unparse(node), ast.unparse(new), changed)
                found.setdefault(changed, made)
    return sorted([*found.values()][1:], key=lambda mutant: (mutant.line, mutant.kind, mutant.new))


def tests_of(root: Path, file: str) -> list[str]:
    """The test files named after a source file, then those that import a module of its name."""
    stem = re.escape(Path(file).stem if Path(file).stem != "__init__" else Path(file).parent.name)
    tests = sorted((root / "test/unit").rglob("test_*.py"))
    named = [test for test in tests if re.fullmatch(rf"test_(\w+_)?{stem}(_\w+)?", test.stem)]
    imports = re.compile(rf"^\s*(?:from|import) [^\n]*\b{stem}\b", re.MULTILINE)
    importing = [test for test in tests if test not in named and imports.search(test.read_text())]
    return [str(test.relative_to(root)) for test in (*named, *importing)]


def failing(copy: Path, tests: Sequence[str], seconds: float) -> str | None:
    """The first test of a copy of the project that fails, or does not end."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(copy / "src"), str(copy))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": str(Path(sys.executable).parent) + os.pathsep + os.environ.get("PATH", ""),
    }
    command = [sys.executable, *_PYTEST, *tests]
    options: dict[str, Any] = {"cwd": copy, "env": environment, "timeout": seconds}
    try:
        ran = subprocess.run(command, **options, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        return f"no end in {seconds:.0f} s"
    found = _FAILED.search(ran.stdout)
    return None if ran.returncode == 0 else found[1] if found else "pytest did not start"


def survivors(root: Path, file: str, chosen: Sequence[Mutant], tests: Sequence[str]) -> int:
    """How many the tests of their file do not notice; raises ValueError where tests fail without a change."""
    tests = tests or tests_of(root, file)
    if not tests:
        raise ValueError(f"no test is named after {file} or imports it; name some with --tests")
    left = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = shutil.copytree(root, Path(folder, "project"), symlinks=True, ignore=_LEFT_OUT)
        began = time.perf_counter()
        if (bad := failing(copy, tests, 3600)) is not None:
            raise ValueError(f"{file}: {bad} fails without any change")
        seconds = 60 + 5 * (time.perf_counter() - began)
        for mutant in chosen:
            (copy / file).write_text(mutant.text)
            caught = failing(copy, tests, seconds)
            left += caught is None
            print(f"{caught or 'SURVIVES'}: {mutant}", flush=True)
    return left


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", help="source files, from the root of the project")
    parser.add_argument("--count", type=int, default=10, help="mutants of each file (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which of them (default %(default)s)")
    parser.add_argument("--kinds", nargs="+", default=(), help="only such, as `comparison` or `return`")
    parser.add_argument("--tests", nargs="+", default=(), help="what is to notice them, as pytest takes it")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    count = left = 0
    for file in options.files:
        made = mutants(file, (options.root / file).read_text())
        made = [mutant for mutant in made if not options.kinds or mutant.kind in options.kinds]
        drawn = random.Random(f"{options.seed} {file}").sample(range(len(made)), min(options.count, len(made)))
        left += survivors(options.root, file, [made[place] for place in sorted(drawn)], options.tests)
        count += len(drawn)
    print(f"{count} mutants, {left} survive")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
