"""Layouts are assigned in real kernels: at no higher cost, of modules that Triton takes, and with reasons."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from assign_support import MODULES, path_of, upstream

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.mlir_adapter import Attribute, Module, operations
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.equivalence import Numbering
from triton_linear.passes.assignment.assign import AssignLayouts, _pays
from triton_linear.passes.assignment.build import build
from triton_linear.passes.assignment.costs import AssignmentCosts
from triton_linear.passes.assignment.explain import by_line, shares
from triton_linear.passes.assignment.plan import Assignment, assign
from triton_linear.passes.framework.run import PipelineRun, run_passes
from triton_linear.passes.operations.names import CONVERT
from triton_linear.tools.support import compile as compiler
from triton_linear.tools.support.compile import LOWERING
from triton_linear.tools.verify import command as verify

IDS = [path.stem for path in MODULES]
CUDA = target("cuda:90")
COMPILED = ["bn_nhwc-1", "emb_sum-0", "cross_entropy", "instance_norm", "matmul_gelu", "sgd_momentum"]
"""Modules of every kind, most of which change: these are compiled too.

None has fp8: what Triton compiles such casts to is settled for a process by the first GPU it does so for.
"""


def assigned(path: Path, gpu: str = "cuda:90") -> tuple[Module, PipelineRun]:
    root = retargeted(path, gpu)
    return root, run_passes(root, [AssignLayouts(gpu)], verify=True)


def retargeted(path: Path, gpu: str) -> Module:
    """A module as it would be for another GPU whose warps have as many lanes."""
    root = upstream(path)
    root.operation.attributes["ttg.target"] = Attribute.parse(f'"{gpu}"', root.context)
    return root


def warps_of(root: Module) -> int:
    return int(root.operation.attributes["ttg.num-warps"].value)


def assignment_of(root: Module) -> Assignment:
    costs = AssignmentCosts(Situation.on(CUDA), warps_of(root))
    return assign(build(operations(root.operation), costs.target), costs)


def clocks_of(root: Module) -> tuple[float, float] | None:
    """What the pass says of the module, if it has changed it."""
    if ll.ASSIGNED not in root.operation.attributes:
        return None
    before, after = (entry.value for entry in root.operation.attributes[ll.ASSIGNED])
    return before, after


def conversions(root: Module) -> int:
    return sum(op.name == CONVERT for op in operations(root.operation))


@pytest.mark.parametrize("path", MODULES[::3], ids=IDS[::3])
def test_real_modules(path: Path) -> None:
    """Cheaper if changed; the same computation; taken by Triton; explained; the same when asked again."""
    root = upstream(path)
    numbering = Numbering()
    before, text = numbering.of(root.operation), str(root)
    outcome = run_passes(root, [AssignLayouts("cuda:90")], verify=True)
    assert outcome.succeeded
    messages = [d.message for d in outcome.diagnostics]
    assert messages[0].startswith(("layouts are assigned: ", "layouts stay as they are: "))
    assert {d.severity for d in outcome.diagnostics} == {"remark"}
    clocks = clocks_of(root)
    assert (clocks is not None) == messages[0].startswith("layouts are assigned") == (str(root) != text)
    assert clocks is None or clocks[1] <= clocks[0]
    assert numbering.of(root.operation) == before
    bridge.to_triton(root, bridge.triton_context())


@pytest.mark.parametrize("path", MODULES[::5], ids=IDS[::5])
def test_remarks_are_composed_only_if_asked_for(path: Path) -> None:
    """What is done does not depend on it."""
    loud, quiet = upstream(path), upstream(path)
    assert run_passes(loud, [AssignLayouts("cuda:90")]).diagnostics
    assert run_passes(quiet, [AssignLayouts("cuda:90")], remarks=False).diagnostics == ()
    assert str(quiet) == str(loud)


def test_some_modules_change_and_some_do_not() -> None:
    found = {path.stem: clocks_of(assigned(path)[0]) for path in MODULES}
    changed = {name for name, clocks in found.items() if clocks is not None}
    assert len(found) * 0.2 < len(changed) < len(found)
    assert len(changed & set(COMPILED)) >= len(COMPILED) - 2


@pytest.mark.parametrize("path", MODULES[::3], ids=IDS[::3])
def test_the_assignment_is_the_best_of_its_kind(path: Path) -> None:
    """Its cost is that of its parts; what is there costs no less, weighted as the solver was asked."""
    assignment = assignment_of(upstream(path))
    total = {True: 0.0, False: 0.0}
    for group, priced in assignment.candidates.items():
        assert priced[0][0].encoding == group.encoding
        for now in (True, False):
            wanted = group.encoding if now else assignment.chosen[group].encoding
            price = next(price for choice, price in priced if choice.encoding == wanted)
            total[now] += price.memory + assignment.weight * price.other
    for before, after in assignment.edges.values():
        total[True] += assignment.weight * before
        total[False] += assignment.weight * after
    assert total[False] <= total[True] * (1 + 1e-9)
    after = assignment.after
    assert after.memory + assignment.weight * after.other == pytest.approx(total[False])
    if _pays(assignment, CUDA):
        assert after.clocks <= assignment.before.clocks


@pytest.mark.parametrize("name", COMPILED)
def test_conversions_that_are_left_are_right(name: str) -> None:
    """Every one that we lower is executed on data that tells where each element went."""
    root, _ = assigned(path_of(name))
    text = str(bridge.to_triton(root, bridge.triton_context()))
    compilation = compiler.compile_text(text, name, None, "llvm", LOWERING)
    checked = verify.check(compilation)
    assert all(conversion.ok for conversion in checked)
    assert len(checked) <= conversions(root)


def for_waves_of_64(text: str) -> str:
    """The text of a module for 32 lanes as one for 64: blocked layouts have twice the lanes."""

    def doubled(found: re.Match[str]) -> str:
        threads = [int(count) for count in found[1].split(", ")]
        fastest = int(found[3].split(",")[0])
        threads[fastest] *= 2
        return f"threadsPerWarp = {threads}{found[2]}order = [{found[3]}]"

    text = re.sub(r"threadsPerWarp = \[([\d, ]+)\]([^}]*?)order = \[([\d, ]+)\]", doubled, text)
    return text.replace('"ttg.threads-per-warp" = 32', '"ttg.threads-per-warp" = 64').replace(
        "cuda:90", "hip:gfx942"
    )


@pytest.mark.parametrize("name", ["bn_nhwc-1", "emb_sum-0", "instance_norm", "cumulative_columns"])
def test_waves_of_64_lanes(name: str) -> None:
    text = for_waves_of_64(path_of(name).read_text())
    root = bridge.text_to_upstream(text, bridge.upstream_context(), name)
    outcome = run_passes(root, [AssignLayouts("hip:gfx942")], verify=True)
    assert outcome.succeeded
    assert outcome.diagnostics[0].message.startswith("layouts")
    lowered = compiler.lower(bridge.to_triton(root, bridge.triton_context()), "hip:gfx942", "amdgcn")
    assert "gfx942" in lowered.text("amdgcn")


def test_where_costs_were_not_measured_more_must_be_saved() -> None:
    """The constants are those of an NVIDIA GPU."""
    saved: dict[str, list[float]] = {"hip:gfx942": [], "cuda:90": []}
    for path in MODULES[::2]:
        text = path.read_text()
        if "nvidia_mma" in text or "linear<" in text:
            continue
        for gpu, module in (("cuda:90", text), ("hip:gfx942", for_waves_of_64(text))):
            root = bridge.text_to_upstream(module, bridge.upstream_context(), path.stem)
            run_passes(root, [AssignLayouts(gpu)])
            if clocks := clocks_of(root):
                saved[gpu].append(1 - clocks[1] / clocks[0])
    assert min(saved["hip:gfx942"]) > 0.1 > min(saved["cuda:90"])


@pytest.mark.parametrize("path", MODULES[::2], ids=IDS[::2])
def test_what_is_saved_is_shared_out_among_the_lines(path: Path) -> None:
    """The differences sum up to that of the whole, in what is computed and in what is told."""
    root = upstream(path)
    graph, costs = build(operations(root.operation), CUDA), AssignmentCosts(Situation.on(CUDA), warps_of(root))
    assignment = assign(graph, costs)
    found = list(shares(assignment))
    memory = assignment.after.memory - assignment.before.memory
    other = assignment.after.other - assignment.before.other
    assert sum(share.memory for share in found) == pytest.approx(memory, abs=1e-6, rel=1e-12)
    assert sum(share.other for share in found) == pytest.approx(other, abs=1e-6, rel=1e-12)
    notes = by_line(found)
    told = [re.findall(r"(saves|costs) ([\d.]+) (clocks of memory|other clocks)", text) for _, text in notes]
    for _, text in notes:
        each = [float(n) for n in re.findall(r" ([+-][\d.]+)(?:,|$)", text)]
        whole = sum(
            float(n) * (1 if sign == "costs" else -1) for sign, n in re.findall(r"(saves|costs) ([\d.]+)", text)
        )
        assert not each or sum(each) == pytest.approx(whole, abs=0.1 * (len(each) + 2))
    assert all(told) and len({str(op.location) for op, _ in notes}) == len(notes)
    signed = [(what, float(n) if sign == "costs" else -float(n)) for line in told for sign, n, what in line]
    digits = 0.1 * (len(notes) + 1)
    assert sum(n for what, n in signed if what == "other clocks") == pytest.approx(other, abs=digits)
    assert sum(n for what, n in signed if what != "other clocks") == pytest.approx(memory, abs=digits)


def test_lines_that_change_most_come_first() -> None:
    _, outcome = assigned(path_of("emb_sum-0"))
    notes = [note.message for note in outcome.diagnostics[0].notes]
    assert notes[0].endswith(": reduce of 32x64") and notes[0].startswith("saves ")
    assert any(re.fullmatch(r"costs [\d.]+ other clocks: conversion of 32x64xf16", note) for note in notes)
    sizes = [sum(map(float, re.findall(r"(?:saves|costs) ([\d.]+)", note))) for note in notes]
    assert sizes == sorted(sizes, reverse=True)
