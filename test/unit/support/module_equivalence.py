"""Runs a module before and after passes in `module_machine`, and compares what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from module_machine import Machine, Memory, arguments_of, run
from promises import Promises

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.framework.run import run_passes

PASSES: Sequence[Any] = (AssignLayouts(),)
PROGRAMS = ((0, 0, 0), (1, 2, 1), (3, 0, 2))
"""Which programs run, each with other arguments."""


@dataclass
class Ran:
    """What a module stored in each run, whether masks were false and true, and which promises were broken."""

    stored: list[Memory]
    masked: set[bool]
    broken: set[str]

    def stores_what(self, other: Ran) -> bool:
        return all(mine.same(its) for mine, its in zip(self.stored, other.stored, strict=True))


def ran(root: Module) -> Ran:
    found = Ran([], set(), set())
    for seed, program in enumerate(PROGRAMS):
        machine = Machine(program=program)
        machine.watch = promises = Promises(root, machine.now)
        found.stored.append(run(root, arguments_of(root, seed), machine))
        found.masked |= machine.masked
        found.broken |= promises.broken
    return found


def upstream(text: str) -> Module:
    return bridge.text_to_upstream(text, bridge.upstream_context(), "module")


def stays_the_same(text: str, passes: Sequence[Any], before: Ran) -> Module:
    """The module after the passes, which computes what it did, promises nothing else, and Triton takes."""
    root = upstream(text)
    original = str(root)
    outcome = run_passes(root, passes, verify=True)
    assert outcome.succeeded, outcome.diagnostics
    if str(root) != original:
        after = ran(root)
        assert after.stores_what(before)
        assert after.broken <= before.broken
        bridge.to_triton(root, bridge.triton_context())
    return root
