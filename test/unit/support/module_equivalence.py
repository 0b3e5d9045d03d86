"""Runs a module before and after passes in `module_machine`, and compares what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from machine_operations import Numbers, mixed
from module_machine import Machine, Memory, arguments_of, run
from promises import Promises

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module
from triton_linear.passes.assignment.assign import AssignLayouts
from triton_linear.passes.contraction.contract import PermuteContraction
from triton_linear.passes.framework.run import run_passes

PASSES: Mapping[str, Sequence[Any]] = {
    "permuted": [PermuteContraction()],
    "assigned": [AssignLayouts()],
    "both": [PermuteContraction(), AssignLayouts()],
}
PROGRAMS = ((0, 0, 0), (1, 2, 1), (3, 0, 2))
"""Which programs run, each with other arguments."""
TABLE = 7
"""The argument whose entries go up by one, in runs of sixteen."""


@dataclass
class Ran:
    """What a module stored in each run, whether masks were false and true, and which promises were broken."""

    stored: list[Memory]
    masked: set[bool]
    broken: set[str]

    def stores_what(self, other: Ran) -> bool:
        return all(mine.same(its) for mine, its in zip(self.stored, other.stored, strict=True))


def loaded(addresses: Numbers) -> Numbers:
    table = addresses >> 44 == TABLE
    entry = (addresses & (1 << 44) - 1) // 4
    return np.where(table, (mixed(entry // 16) & 63) * 16 + entry % 16, mixed(addresses))


def ran(root: Module) -> Ran:
    found = Ran([], set(), set())
    for seed, program in enumerate(PROGRAMS):
        arguments = arguments_of(root, seed)
        if len(arguments) >= TABLE and arguments[TABLE - 1] >> 44 == TABLE:
            arguments[TABLE - 1] = TABLE << 44
        machine = Machine(Memory(loaded), program=program)
        machine.watch = promises = Promises(root, machine.now)
        found.stored.append(run(root, arguments, machine))
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
