"""The compiled kernels of a side: what `explain` says of each, its layouts by line, and its resources:
registers, spills, shared memory and occupancy."""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from triton_linear import hook
from triton_linear.dialect import bridge
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import Module, operations
from triton_linear.examples.spec import gpu_target
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.operations.names import CONVERT
from triton_linear.ptxas.cubin import code, usage
from triton_linear.ptxas.occupancy import resident
from triton_linear.report import Outcome
from triton_linear.setting import Options
from triton_linear.tools.explain.accesses import REDUCTIONS, bits_of
from triton_linear.tools.explain.anchors import REASONS
from triton_linear.tools.explain.collect import AS_IT_IS, explained_module
from triton_linear.tools.explain.records import ConversionReport, ModuleReport, Place
from triton_linear.tools.support.backend import code_stages
from triton_linear.tools.support.compile import kernel_modules, kernels, place_of, read_module, set_target
from triton_linear.tools.support.errors import Diagnostic, ToolError, captured_stderr, fail, parse_diagnostics
from triton_linear.tools.support.inputs import empty_cache
from triton_linear.tools.support.words import in_words, short_encoding, vector_of

_NOT_ANCHORS = (CONVERT, "tt.call", "tt.return")


@dataclass(frozen=True)
class Layout:
    """The layout of an operation's tensor. run: the bytes that lie in a row in a thread's first registers."""

    operation: str
    tensor: str
    encoding: str
    words: str
    run: int
    linear: LinearLayout = field(repr=False)

    @property
    def key(self) -> tuple[str, str, LinearLayout]:
        """A key that is equal for equal layouts, whatever their encodings are called."""
        return self.operation, self.tensor, self.linear


@dataclass
class LineFacts:
    """The layouts and conversions of a source line."""

    layouts: list[Layout] = field(default_factory=list)
    conversions: list[ConversionReport] = field(default_factory=list)


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled kernel.

    given: the text of its TTGIR. left: why the plugin left it to stock Triton; empty if it did not. assembly:
    PTX or AMDGCN. split: some of its reductions were split into conversions.
    """

    name: str
    given: str
    report: ModuleReport
    left: str
    assembly: str
    binary: bytes
    resources: Resources
    lines: Mapping[Place, LineFacts]
    split: bool


def compiled_kernels(
    modules: Sequence[tuple[str, str]], target: str | None, options: Options | None
) -> Iterator[CompiledKernel]:
    """Compile each kernel of modules (names and texts) with the plugin; without `options` by stock Triton."""
    for name, text in modules:
        module = read_module(text, bridge.upstream_context(), name)
        gpu = set_target(module, target).name
        if not kernels(module):
            fail("the module has no kernel: none of its functions is public", *place_of(module))
        for kernel in kernel_modules(module):
            yield _compiled(kernel, name, gpu, options)


def _compiled(module: Module, file: str, target: str, options: Options | None) -> CompiledKernel:
    (name,) = kernels(module)
    text = bridge.triton_text(module)
    made, left = _assembled(text, file, target, options)
    passes = options.pipeline_for(name, gluon=False) if options is not None and not left else AS_IT_IS
    report, compilation = explained_module(text, file, target, passes)
    assembly, binary = (made.asm[stage] for stage in code_stages(target))
    lines: dict[Place, LineFacts] = defaultdict(LineFacts)
    for place, layout in layouts(compilation.module):
        if layout.key not in [other.key for other in lines[place].layouts]:
            lines[place].layouts.append(layout)
    for conversion in report.conversions:
        lines[conversion.place.whole_line].conversions.append(conversion)
    used = resources(binary, assembly, made.metadata.shared, report.num_warps, target_called(target))
    split = any(conversion.partials for conversion in compilation.conversions)
    return CompiledKernel(name, text, report, left, assembly, binary, used, lines, split)


def _assembled(text: str, file: str, target: str, options: Options | None) -> tuple[Any, str]:
    """Triton's compiled kernel, and why the plugin left it to stock Triton, empty if it did not."""
    import triton

    if options is not None:
        options = replace(options, strict=True, decisions=options.decisions or "none")
    with tempfile.TemporaryDirectory() as folder, empty_cache(), hook.pinned(options) as reports:
        path = Path(folder) / "kernel.ttgir"
        path.write_text(text, encoding="utf-8")
        with captured_stderr() as captured:
            try:
                made = triton.compile(str(path), target=gpu_target(target))
                failure = None
            except Exception as error:
                failure = error
    if failure is not None:
        errors = [one for one in parse_diagnostics(captured.text)[0] if one.severity == "error"]
        first = (str(failure).strip().splitlines() or [type(failure).__name__])[0]
        raise ToolError(*(errors or [Diagnostic("error", first, file)])) from failure
    left = [one for one in reports if one.outcome is not Outcome.CONVERTED]
    return made, "; ".join([left[0].outcome.value, *left[0].remarks]) if left else ""


def layouts(module: Module) -> Iterator[tuple[Place, Layout]]:
    """The layouts of operations with layout preferences: loads, stores, dots, reductions, ..."""
    table = LayoutTable()
    for op in operations(module.operation):
        if op.name not in REASONS or op.name in _NOT_ANCHORS:
            continue
        values = [*op.operands, *op.results] if op.name in REDUCTIONS else [*op.results, *op.operands]
        type_: Any = next((value.type for value in values if _is_data(value.type)), None)
        linear = None if type_ is None else table.of(type_)
        if not isinstance(linear, LinearLayout):
            continue
        tensor = f"{'x'.join(map(str, type_.shape))}x{type_.element_type}"
        bits = bits_of(type_)
        run = vector_of(linear)[1] * bits // 8
        encoding = short_encoding(str(type_))
        yield (
            Place.of(str(op.location)).whole_line,
            Layout(op.name, tensor, encoding, in_words(linear, bits), run, linear),
        )


def _is_data(type_: Any) -> bool:
    return str(type_).startswith("tensor<") and "!tt.ptr<" not in str(type_)


_DIRECTIVE = re.compile(r"^\s*(?:\.(?:loc|file|section|ident)\b|//|;)")


def same_code(a: CompiledKernel, b: CompiledKernel) -> bool:
    """Whether two kernels have the same instructions."""
    if plain_assembly(a.assembly) != plain_assembly(b.assembly):
        return False
    first, second = code(a.binary), code(b.binary)
    return first is None or second is None or first == second


def plain_assembly(text: str) -> str:
    """The instructions of PTX or AMDGCN, without debug information."""
    kept = []
    for line in text.splitlines():
        if re.match(r"\s*\.section\s+\.debug", line):
            break
        bare = re.split(r"//|;(?=\s)", line)[0].strip()
        if bare and not _DIRECTIVE.match(line) and not re.match(r"^(?:\$L__|\.L)(?:tmp|func|debug)", bare):
            kept.append(bare)
    return "\n".join(kept)


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel; None if a value is not known.

    Of a thread: registers (on AMD GPUs vector registers, including accumulators), scalar registers, bytes of
    stack, which holds the spills, and spilled registers. shared: bytes of shared memory of a CTA. occupancy:
    CTAs that fit on a multiprocessor at a time. limited_by: the resource that limits them.
    """

    registers: int | None = None
    scalar_registers: int | None = None
    stack: int | None = None
    spilled: int | None = None
    shared: int | None = None
    occupancy: int | None = None
    limited_by: str = ""


def resources(binary: bytes, assembly: str, shared: int, warps: int, target: Target) -> Resources:
    """The resources that the cubin states, or the metadata in AMDGCN, and the occupancy."""
    if ".amdhsa_" in assembly:
        stated = _amdgcn(assembly, shared)
    else:
        used = usage(binary)
        registers, stack = (used.registers, used.stack) if used else (None, None)
        stated = Resources(registers, stack=stack, shared=shared)
    if stated.registers is None:
        return stated
    ctas, limited_by = occupancy(stated.registers, shared, warps, target)
    return replace(stated, occupancy=ctas, limited_by=limited_by)


def _amdgcn(text: str, shared: int) -> Resources:
    def value(name: str) -> int | None:
        match = re.search(rf"^ *(?:- )?\.{name}:\s+(\d+)", text, re.MULTILINE)
        return int(match[1]) if match else None

    spills = [value("vgpr_spill_count"), value("sgpr_spill_count")]
    return Resources(
        value("vgpr_count"),
        value("sgpr_count"),
        value("private_segment_fixed_size"),
        None if None in spills else sum(filter(None, spills)),
        shared,
    )


def occupancy(registers: int, shared: int, warps: int, target: Target) -> tuple[int, str]:
    """CTAs that a multiprocessor can hold at a time, and the resource that limits them."""
    whole = target.max_shared_bytes + target.reserved_shared_bytes
    limits = {
        "CTAs": target.resident_ctas,
        "warps": target.resident_warps // warps,
        "registers": resident(max(registers, 1), warps, target.registers, target.lanes),
        "shared memory": whole // taken
        if (taken := shared + target.reserved_shared_bytes)
        else target.resident_warps,
    }
    lowest = min(limits, key=lambda name: limits[name])
    return limits[lowest], lowest
