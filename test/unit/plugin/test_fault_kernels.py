"""Kernels of every kind come out of the plugin: converted, or left to Triton for a reason that is said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import machine_operations
import numpy as np
import pytest
from bridge_kernels import TARGETS
from fault_kernels import KERNELS, lowered, source, ttgir
from machine_operations import mixed, named, wrapped
from module_machine import Machine, Memory, arguments_of, run

from triton_linear.dialect import bridge, libtriton, ll
from triton_linear.dialect.mlir_adapter import Module, Operation, operations
from triton_linear.dialect.triton_versions import CLUSTERS_ORDERED, installed_release
from triton_linear.lowering.emit import embed
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.axis import shape_of
from triton_linear.passes.conversions.stubs import STUB_PREFIX
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import rewrite
from triton_linear.report import Outcome

pytestmark = pytest.mark.usefixtures("fresh")

ORDERED = installed_release() in CLUSTERS_ORDERED
REASONS = ("2 CTAs share their memory",)
NO_CLUSTERS = "num_ctas > 1"
OURS = {
    "in_branches": 2,
    "carried": 3,
    "calls": 2,
    "effects": 3,
    "tables": 3,
    "assembly": 1,
    "clusters": 0,
    "clusters_dot": 0,
    "partitions": 4,
    "descriptors": 0,
    "warp_specialised": 0,
}
"""Conversions of a kernel that are ours, at least, on every GPU."""


def is_left_by_triton(name: str, gpu: str) -> bool:
    """Whether Triton has no such kernel for a GPU."""
    if name.startswith("clusters"):
        return gpu not in ("cuda:90", "cuda:100")
    return name == "partitions" and gpu.startswith("hip")


EACH = [(name, gpu) for gpu in TARGETS for name in KERNELS if not is_left_by_triton(name, gpu)][::3]
"""Each third: each kernel, and each target."""


@pytest.mark.parametrize(("name", "gpu"), EACH)
def test_each_kernel_for_each_target(name: str, gpu: str) -> None:
    chosen = TARGETS[gpu]
    made = lowered(source(name, chosen), chosen, KERNELS[name].options, {"strict": True})
    report = made.report
    assert report is not None
    assert made.metadata["shared"] <= target(gpu).max_shared_bytes
    assert report.emitted >= OURS[name] + (name.startswith("clusters") and ORDERED)
    assert report.outcome in (Outcome.CONVERTED, Outcome.LEFT, Outcome.NOTHING_TO_DO)
    assert (report.outcome is Outcome.CONVERTED) == (report.emitted > 0)
    for conversion in report.left:
        assert any(reason in conversion.detail for reason in REASONS), conversion
    assert bool(report.left) == (name.startswith("clusters") and not ORDERED)
    assert "unrealized_conversion_cast" not in made.llir


def test_what_triton_refuses_is_refused_as_ever() -> None:
    chosen = TARGETS["hip:gfx942"]
    for plugin in (None, {"strict": True}):
        with pytest.raises(ValueError, match=NO_CLUSTERS):
            lowered(source("clusters", chosen), chosen, {"num_ctas": 2}, plugin)
    with pytest.raises(Exception) as stock:
        lowered(source("partitions", chosen), chosen, {}, None)
    with pytest.raises(type(stock.value)):
        lowered(source("partitions", chosen), chosen, {}, {"strict": True})


def casts_from_transposes(text: str) -> set[str]:
    """What transposes give and code of ours takes."""
    transposes = set(re.findall(r"(%\S+) = \"tt\.trans\"", text))
    assert transposes
    return transposes & set(re.findall(r"builtin\.unrealized_conversion_cast\"?[( ]*(%[\w#]+)", text))


def test_a_transpose_of_what_a_branch_takes_needs_its_own_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to Triton 3.7, AMD's stage cannot lower a cast from it; that is what `carried` has."""
    parse, texts = libtriton.parse_triton, []

    def kept(text: Any, context: Any) -> Any:
        texts.append(text)
        return parse(text, context)

    monkeypatch.setattr(libtriton, "parse_triton", kept)
    chosen = TARGETS["hip:gfx942"]
    lowered(source("carried", chosen), chosen, {}, {"strict": True})
    assert not casts_from_transposes(texts[-1])
    monkeypatch.setattr(embed, "take_what_is_transposed", lambda *_: None)
    if installed_release() < (3, 8):
        with pytest.raises(RuntimeError, match="failed to translate"):
            lowered(source("carried", chosen), chosen, {}, {"strict": True})
    else:
        made = lowered(source("carried", chosen), chosen, {}, {"strict": True})
        assert "unrealized_conversion_cast" not in made.llir
    assert casts_from_transposes(texts[-1])


# What they compute


def _call(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    name = op.attributes["callee"].value
    root = op
    while root.parent is not None:
        root = root.parent
    function = next(
        f for f in operations(root) if f.name == "tt.func" and f.attributes["sym_name"].value == name
    )
    if ll.PLAN in function.attributes:  # a conversion, whose layouts say where elements are
        return taken
    inner = Machine(machine.memory, program=machine.program)
    inner.call(function, taken)
    return []


def _atomic(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    at, *values = taken
    if op.name == "amdg.buffer_atomic_rmw":
        at = at + values.pop(0) * 4
    elif op.name == "tt.atomic_rmw" and len(values) == 2:
        assert np.all(values.pop() != 0)
    before = machine.memory.load(np.atleast_1d(at).ravel()).reshape(np.shape(at))
    bits = machine.bits(op.results[0].type)
    after = wrapped(mixed(named("atomic"), before, *values), bits)
    machine.memory.store(np.atleast_1d(at).ravel(), np.atleast_1d(after).ravel())
    return [wrapped(before, bits)]


def _gather(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    return [np.take_along_axis(taken[0], taken[1], op.attributes["axis"].value)]


def _histogram(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    (size,) = shape_of(op.results[0].type)
    return [np.bincount(np.asarray(taken[0]) % size, minlength=size)]


def _assembly(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    text = op.attributes["asm_string"].value
    return [wrapped(mixed(named(text), *taken), machine.bits(op.results[0].type))]


MORE = {
    "tt.call": _call,
    "tt.atomic_rmw": _atomic,
    "tt.atomic_cas": _atomic,
    "amdg.buffer_atomic_rmw": _atomic,
    "tt.gather": _gather,
    "tt.histogram": _histogram,
    "tt.elementwise_inline_asm": _assembly,
}
QUIET = ("tt.assert", "tt.print", "gpu.barrier", "ttg.barrier", "ttg.local_barrier")


def stored(root: Module) -> list[Memory]:
    found = []
    for seed in (1, 2):
        arguments = arguments_of(root, seed)
        found.append(run(root, arguments, Machine(program=(seed, 0, 0))))
    return found


RUN = ["in_branches", "carried", "calls", "effects", "tables", "assembly"]


@pytest.fixture
def knows_more(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, rule in MORE.items():
        monkeypatch.setitem(machine_operations.RULES, name, rule)  # type: ignore[misc]
    for name in QUIET:
        monkeypatch.setitem(machine_operations.RULES, name, lambda *_: [])  # type: ignore[misc]


@pytest.mark.usefixtures("knows_more")
@pytest.mark.parametrize("gpu", ["cuda:90", "hip:gfx942"])
@pytest.mark.parametrize("name", RUN)
def test_the_passes_leave_what_is_stored(name: str, gpu: str) -> None:
    text = str(ttgir(name, gpu))
    root = bridge.text_to_upstream(text, bridge.upstream_context())
    before = stored(root)
    assert all(len(memory.addresses) for memory in before)
    found = rewrite(root, PipelineOptions(assign=True, reductions=False), target(gpu), verify=True)
    assert found.stubs
    assert all(mine.same(its) for mine, its in zip(stored(root), before, strict=True))


@pytest.mark.usefixtures("knows_more")
def test_the_machine_sees_a_conversion_of_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    root = bridge.text_to_upstream(str(ttgir("calls", "cuda:90")), bridge.upstream_context())
    before = stored(root)
    stubs = [op for op in operations(root.operation) if op.name == "tt.call"]
    assert stubs and STUB_PREFIX not in str(root)
    rewrite(root, PipelineOptions(assign=True, reductions=False), target("cuda:90"))

    def reversed_(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
        return [each[::-1] for each in _call(machine, op, taken)]

    monkeypatch.setitem(machine_operations.RULES, "tt.call", reversed_)  # type: ignore[misc]
    assert not any(mine.same(its) for mine, its in zip(stored(root), before, strict=True))
