"""`triton-linear explain` on real kernels: accesses to shared memory, reductions, who holds shared memory.

What is said of operations that ran alone is compared with the instructions that stand at the same place in what
Triton made of the whole kernel.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
from explain_support import SCHEMA, layout_of, shared_bytes

from triton_linear.dialect import bridge
from triton_linear.dialect.locations import position
from triton_linear.dialect.mlir_adapter import Operation, Type, operations
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.analysis.shared_memory import LocalAccess
from triton_linear.passes.framework.layouts import memory_of
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.staging.local import LowerLocal
from triton_linear.tools.explain.accesses import is_access
from triton_linear.tools.explain.collect import explained
from triton_linear.tools.explain.records import Ledger, ModuleReport, Place
from triton_linear.tools.support.allocation import OFFSET, allocate
from triton_linear.tools.support.compile import Compilation, compile_text, to_triton
from triton_linear.tools.support.functions import LOWERING

DATA = Path(__file__).parents[2] / "data" / "ttgir"
MODULES = sorted([*(DATA / "attention").glob("*.ttgir"), *(DATA / "kernels").glob("*.ttgir")])[::2]


@pytest.fixture(scope="module")
def real() -> list[tuple[ModuleReport, Compilation]]:
    """Real modules, each explained and compiled with the layouts and reductions that it has."""
    found = []
    for path in MODULES:
        text, name = path.read_text(), str(path)
        compilation = compile_text(text, name, None, "llvm", LOWERING)
        found.append((explained(text, name, None, options=LOWERING), compilation))
    assert len(found) >= 15
    return found


def test_everything_has_a_place_and_the_schema_holds(real: list[tuple[ModuleReport, Compilation]]) -> None:
    accesses = reductions = 0
    for report, _ in real:
        jsonschema.validate({"modules": [json.loads(json.dumps(report.as_json()))]}, SCHEMA)
        for one in (*report.conversions, *report.accesses, *report.reductions):
            assert one.place.line > 0
        for access in report.accesses:
            assert access.registers_words
            assert access.memory_words
            assert access.buffer.line > 0
            assert access.figures is not None, access
        assert all(one.figures is not None and one.spread for one in report.reductions)
        accesses, reductions = accesses + len(report.accesses), reductions + len(report.reductions)
    assert accesses >= 40
    assert reductions >= 8


def test_wavefronts_are_those_that_the_layouts_say(real: list[tuple[ModuleReport, Compilation]]) -> None:
    """Layouts are chosen by a prediction of the same, from ranks over F2 instead of addresses."""
    compared = 0
    for (report, compilation), path in zip(real, MODULES, strict=True):
        module = bridge.text_to_upstream(path.read_text(), bridge.upstream_context(), str(path))
        assert run_passes(module, [LowerLocal(compilation.target.name)]).succeeded
        predicted = Counter[tuple[int, int]]()
        for op in operations(module.operation):
            if is_access(op):
                warp = _local(op).wavefronts(layout_of(_registers(op)), compilation.target)
                predicted[position(str(op.location))[1], warp * compilation.num_warps] += 1
        for access in report.accesses:
            if access.figures is not None:
                assert predicted[access.place.line, access.figures.wavefronts], access
                compared += 1
    assert compared >= 40


def _registers(op: Operation) -> Type:
    return (op.results[0] if op.name == "ttg.local_load" else op.operands[0]).type


def _memory(op: Operation) -> Type:
    values = {"ttg.local_load": op.operands, "ttg.local_alloc": op.results}.get(op.name, list(op.operands)[1:])
    return values[0].type


def _local(op: Operation) -> LocalAccess:
    memory = memory_of(_memory(op))
    assert memory is not None
    shape, element, _ = memory
    size = element_type(element).bits // 8
    local = LocalAccess.of(layout_of(_memory(op)), shape, size, op.name != "ttg.local_load")
    assert local is not None
    return local


_ALIAS = re.compile(r"^(?P<name>#\w+) = (?P<location>loc\(.*\))$", re.MULTILINE)
_MOVED = (
    (re.compile(r"cp\.async\.c[ag]\.shared\.global [^;]*?\], 0x(\w+)"), lambda m: int(m[1], 16)),
    (re.compile(r"(?:ld|st)\.shared(?:\.v(\d))?\.b(\d+)"), lambda m: int(m[1] or 1) * int(m[2]) // 8),
    (
        re.compile(r"nvvm\.(?:ldmatrix|stmatrix) .*: \((.*)\) -> (.*) loc"),
        lambda m: 4 * max(map(_words, m.groups())),
    ),
)


def _words(types: str) -> int:
    """Registers of 32 bits among some types."""
    return len(re.findall(r"\bi32\b", types))


def at_places(llvm: str) -> tuple[Counter[int], Counter[int]]:
    """Shuffles, and bytes that a thread moves by assembly and matrix instructions, by line."""
    names = {found["name"]: found["location"] for found in _ALIAS.finditer(llvm)}
    shuffles, moved = Counter[int](), Counter[int]()
    for line in llvm.splitlines():
        at = re.search(r"loc\((#\w+)\)$", line)
        location = names.get(at[1], "") if at else ""
        while alias := re.search(r"#loc\w*", location):
            location = location.replace(alias[0], names.get(alias[0], ""))
        place = position(location)[1]
        shuffles[place] += "nvvm.shfl.sync" in line or "nvvm.redux.sync" in line
        for pattern, size in _MOVED:
            if found := pattern.search(line):
                moved[place] += size(found)
    return shuffles, moved


def test_the_whole_kernel_has_the_instructions_that_were_counted(
    real: list[tuple[ModuleReport, Compilation]],
) -> None:
    shuffled = copied = 0
    for report, compilation in real:
        if not report.target.startswith("cuda") or len(compilation.kernels) > 1:
            continue
        shuffles, moved = at_places(compilation.kernels[0].lowered.text("llvm"))
        threads = 32 * report.num_warps
        for line, found in itertools.groupby(sorted(report.reductions, key=_line), key=_line):
            assert sum(one.figures.shuffles for one in found if one.figures) == shuffles[line], (
                report.file,
                line,
            )
            shuffled += 1
        for line, accesses in itertools.groupby(sorted(report.accesses, key=_line), key=_line):
            group = list(accesses)
            if all(one.operation.startswith("ttg.async_copy") for one in group):
                total = sum(one.figures.bytes for one in group if one.figures)
                assert total == threads * moved[line], (report.file, line)
                copied += 1
    assert shuffled >= 8
    assert copied >= 8


def _line(one: object) -> int:
    place = getattr(one, "place")  # noqa: B009
    assert isinstance(place, Place)
    return place.line


def test_the_ledger_is_that_of_tritons_allocation(real: list[tuple[ModuleReport, Compilation]]) -> None:
    kinds = Counter[str]()
    for report, compilation in real:
        for ledger, kernel in zip(report.shared_memory, compilation.kernels, strict=True):
            assert ledger.peak == shared_bytes(kernel.lowered.text("llvm"))
            assert ledger.live <= ledger.peak
            ends = [h.offset + h.bytes for h in ledger.holders if h.offset is not None and h.bytes is not None]
            assert len(ends) == len(ledger.holders), report.file
            assert max(ends, default=0) == ledger.peak, report.file
            assert _shared_at_once(ledger) == [], report.file
            assert Counter(h.bytes for h in ledger.holders if h.kind != "buffer") >= _sizes(
                kernel.embedded, report
            )
            kinds.update(holder.kind for holder in ledger.holders)
    assert kinds >= Counter(buffer=15, conversion=25, reduction=8, scan=1), kinds


def _shared_at_once(ledger: Ledger) -> list[tuple[str, str]]:
    """Holders that live together and share bytes."""
    return [
        (str(a.place), str(b.place))
        for a, b in itertools.combinations(ledger.holders, 2)
        if a.first <= b.last and b.first <= a.last
        if a.offset is not None and b.offset is not None and a.bytes is not None and b.bytes is not None
        if a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes
    ]


def _sizes(embedded: str, report: ModuleReport) -> Counter[int | None]:
    """The sizes of scratch that the installed Triton says beside its offsets; older ones do not."""
    module = allocate(to_triton(embedded), report.target).module
    return Counter(
        op.attributes["allocation.size"].value
        for op in operations(module.operation)
        if OFFSET in op.attributes and "allocation.size" in op.attributes
    )


def test_what_layouts_save_is_said_by_line() -> None:
    path = DATA / "emb_sum-0.ttgir"
    said = explained(path.read_text(), str(path), "cuda:90").assignment
    head = next(number for number, line in enumerate(said) if line.startswith("layouts are assigned: "))
    lines = said[head + 1 :]
    assert lines[0].startswith("  emb_sum-0.ttgir:") and re.search(
        r":\d+: saves [\d.]+ other clocks: reduce of", lines[0]
    )
    assert any(": costs " in line for line in lines)
    for line in lines:
        number = int(line.split(":")[1])
        assert re.search(r"tt\.|ttg\.|arith\.|math\.", path.read_text().splitlines()[number - 1])


def test_loops_that_load_ahead_are_said_by_line() -> None:
    path = Path(__file__).parents[2] / "lit" / "passes" / "load-ahead.mlir"
    text = path.read_text().split("// -----")[0]
    said = explained(text, str(path), "cuda:90").assignment
    number = next(n for n, line in enumerate(text.splitlines(), 1) if "scf.for %i" in line)
    assert said[-1].startswith(f"load-ahead.mlir:{number}: 1 load of the loop an iteration ahead, with ")
