"""Modules to assign layouts of, and what their values are when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from machine_operations import Numbers, mixed
from module_machine import Machine, Memory, arguments_of, run

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module, OpaqueType, Operation, Value, operations
from triton_linear.passes.analysis.axis import AxisAnalysis

DATA = Path(__file__).parents[2] / "data" / "ttgir"
MODULES = sorted(DATA.rglob("*.ttgir"))
"""TritonGPU IR of torch.compile (`inductor` and what is not in a folder) and of other kernels (`kernels`)."""


def upstream(path: Path) -> Module:
    return bridge.text_to_upstream(path.read_text(), bridge.upstream_context(), path.name)


def path_of(name: str) -> Path:
    """The module called `name`."""
    (path,) = [path for path in MODULES if path.stem == name]
    return path


def producers_of(root: Module) -> dict[Value, Operation]:
    return {result: op for op in operations(root.operation) for result in op.results}


def axis_of(root: Module) -> AxisAnalysis:
    return AxisAnalysis(producers_of(root))


def seen(root: Module, seed: int) -> dict[Value, list[Numbers]]:
    """Every number, or tensor of numbers, that each value of a module is when it runs on random arguments.

    What is loaded are small numbers, so that what is computed of them does not wrap around.
    """
    found: dict[Value, list[Numbers]] = {}

    def watch(value: Value, what: Any) -> None:
        if not isinstance(value.type, OpaqueType) or str(value.type).startswith("!tt.ptr"):
            found.setdefault(value, []).append(np.asarray(what))

    machine = Machine(Memory(lambda addresses: mixed(addresses) & 0xFFFFF), watch)
    run(root, arguments_of(root, seed), machine)
    return found
