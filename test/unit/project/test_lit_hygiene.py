"""The lit tests check what they seem to check: nothing in them is silently ignored."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

LIT = Path(__file__).parents[2] / "lit"
TESTS = sorted(path for path in LIT.rglob("*") if path.suffix in (".mlir", ".ttgir"))
SUFFIX = r"(?:-(?:NEXT|NOT|DAG|SAME|LABEL|EMPTY|COUNT-\d+))?"
SPLIT = re.compile(r"^// -----\s*$", re.MULTILINE)


def run_lines(text: str) -> str:
    return "\n".join(re.findall(r"^// RUN:(.*)$", text, re.MULTILINE))


def prefixes(runs: str) -> set[str]:
    """The prefixes that some FileCheck of the file looks for."""
    found = set()
    for command in re.findall(r"FileCheck[^|;&\n]*", runs):
        named = re.findall(r"--check-prefix(?:es)?[= ](\S+)", command)
        found |= {name for names in named for name in names.split(",")} or {"CHECK"}
    return found


def problems(text: str) -> list[str]:
    """What a reader would believe is checked and is not."""
    runs = run_lines(text)
    wanted = prefixes(runs)
    found = []
    if not runs:
        found.append("no RUN line")
    body = [line for line in text.splitlines() if not line.startswith("// RUN:")]
    written = set()
    for line in body:
        directive = re.match(rf"^\s*// ?([A-Z][A-Z0-9_-]*?){SUFFIX}:", line)
        if directive is not None:
            written.add(directive[1])
            if directive[1] not in wanted:
                found.append(f"no FileCheck reads '{line.strip()}'")
        elif re.match(rf"\s*//+\s*(?:{'|'.join({*wanted, 'RUN', 'CHECK'})})\b", line):
            found.append(f"FileCheck would ignore '{line.strip()}'")
        expectation = re.search(r"expected-(error|warning|remark|note)", line)
        if expectation and "--verify-diagnostics" not in runs:
            found.append(f"nothing verifies '{line.strip()}'")
    found += [f"prefix {name} is never written" for name in sorted(wanted - written)]
    if SPLIT.search(text) and "--split-input-file" not in runs:
        found.append("split marker without --split-input-file")
    return found


def test_there_are_lit_tests_in_several_rooms() -> None:
    assert len(TESTS) >= 10
    assert {"tools", "lowering"} <= {path.relative_to(LIT).parts[0] for path in TESTS}


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(LIT)))
def test_nothing_is_ignored(path: Path) -> None:
    assert problems(path.read_text()) == []


RUN = "// RUN: triton-linear-opt %s | FileCheck %s\n"


@pytest.mark.parametrize(
    "text",
    [
        "module {}\n",
        RUN + "// CHECK: a\n// CHEKC: b\n",
        RUN + "// CHECK: a\n// CHECK-NXT: b\n",
        RUN + "// CHECK: a\n// CHECK-NOT b\n",
        RUN + "// CHECK: a\n// CHECK : b\n",
        RUN + "module {}\n",
        RUN + "// CHECK: a\n// -----\n",
        RUN + "// CHECK: a\n// expected-error@+1 {{b}}\n",
        "// RUN: triton-linear-opt %s | FileCheck %s --check-prefix=OTHER\n// OTHER: a\n// CHECK: b\n",
    ],
)
def test_what_would_be_ignored_is_found(text: str) -> None:
    assert problems(text) != []


def test_good_directives_are_good() -> None:
    good = (
        "// Words: the colon after a word is no directive. CHECK this.\n"
        "// CHECK-LABEL: a\n// CHECK-COUNT-3: b\n"
        "// CHECK-NOT: {{c}}\n  // CHECK: d\n"
    )
    assert problems(RUN + good) == []
