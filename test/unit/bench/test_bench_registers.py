"""Estimated registers beside those of ptxas: what is counted."""

from __future__ import annotations

from typing import Any

from bench import registers
from bench.registers import FILES, Subject
from triton_linear.lowering.target.targets import target

H200 = target("cuda:90")


def row(
    name: str, before: float, stock: tuple[int, int], after: float | None = None, ours: tuple[int, int] = (0, 0)
) -> dict[str, Any]:
    found = {"group": FILES, "module": name, "warps": 8, "differs": after is not None}
    found |= {"stock": list(stock), "before": before}
    return found if after is None else found | {"ours": list(ours), "after": after}


ROWS = [
    row("stays", 50, (40, 0)),
    row("rises", 100, (120, 0), after=160, ours=(140, 0)),
    row("falls", 90, (100, 0), after=60, ours=(70, 0)),
    row("spills", 250, (255, 0), after=300, ours=(255, 80)),
    row("is wrong", 30, (40, 0), after=50, ours=(32, 0)),
]


def test_changes_are_counted_where_the_plugin_changes_something() -> None:
    changed = [each for each in ROWS if each["differs"]]
    found = registers.of_changes(changed)
    assert found["number"] == 4
    assert found["signs"] == [4, 3]
    (rise,) = [each for each in found["rises"] if each["step"] == 16]
    assert rise == {"step": 16, "told": 3, "more": 2, "half": 2, "there": 2, "there_and_told": 2}
    (fall,) = [each for each in found["falls"] if each["step"] == 16]
    assert fall == {"step": 16, "told": 1, "more": 1, "half": 1, "there": 1, "there_and_told": 1}


def test_what_costs_a_cta_or_spills() -> None:
    found = registers.crossings([each for each in ROWS if each["differs"]], H200)
    assert found["spills"] == [["spills"], ["spills"], ["spills"]]
    # Of 8 warps two CTAs find registers up to 128 a thread, five up to 48, six up to 40.
    assert found["a CTA less"] == [["rises", "is wrong"], ["rises"], ["rises"]]


def test_a_module_is_compiled_once() -> None:
    twice = [Subject(FILES, "a", "x loc(#loc1)\n#loc1 = f"), Subject(FILES, "b", "x loc(#loc7)\n#loc7 = g")]
    assert [each.name for each in registers.different([*twice, Subject(FILES, "c", "y")])] == ["a", "c"]
