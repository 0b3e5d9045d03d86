"""The Gluon example: it compiles with every choice of layouts, and the suggested ones have no conflicts."""

from __future__ import annotations

import re

import pytest
import triton
from triton.experimental.gluon._runtime import GluonASTSource

from triton_linear.examples.gluon_transpose import WARPS, choices, main, transpose_kernel
from triton_linear.examples.spec import gpu_target

SIGNATURE = {"x_ptr": "*fp16", "out_ptr": "*fp16", "m": "i32", "n": "i32"}


def assembly(name: str) -> str:
    constants = choices()[name].constants()
    names = list(transpose_kernel.arg_names)
    signature = {each: SIGNATURE.get(each, "constexpr") for each in names}
    aligned = {(names.index(each),): [["tt.divisibility", 16]] for each in SIGNATURE}
    source = GluonASTSource(transpose_kernel, signature, constexprs=constants, attrs=aligned)
    return str(triton.compile(source, target=gpu_target("cuda:90"), options={"num_warps": WARPS}).asm["ptx"])


@pytest.mark.parametrize("name", choices())
def test_every_choice_makes_the_accesses_that_its_report_counts(name: str) -> None:
    ptx = assembly(name)
    for report, kind in zip(choices()[name].reports(), ("st", "ld"), strict=True):
        widths = re.findall(rf"\b{kind}\.shared(?:\.v(\d))?\.[bu](\d+)", ptx)
        found = sorted(int(count or 1) * int(width) for count, width in widths)
        assert found == sorted(8 * touch.width for touch in report.touches)


def test_only_what_is_suggested_has_no_conflicts() -> None:
    for name, layouts in choices().items():
        conflicts = sum(report.conflicts for report in layouts.reports())
        assert (conflicts == 0) == (name == "suggested")


def test_it_says_what_each_choice_costs(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    said = capsys.readouterr().out
    assert all(name in said for name in choices())
    assert said.count("no conflicts") == 5
