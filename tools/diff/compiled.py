"""The compiled kernels of a side: what `explain` says of each, its layouts by line, and the resources that it
takes."""

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
from triton_linear.dialect.mlir_adapter import Module, Operation, operations
from triton_linear.examples.spec import gpu_target
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.operations.names import CONVERT
from triton_linear.report import Outcome
from triton_linear.setting import Options
from triton_linear.tools.diff.resources import Resources, resources
from triton_linear.tools.explain.accesses import bits_of
from triton_linear.tools.explain.anchors import REASONS, name_of
from triton_linear.tools.explain.collect import AS_IT_IS, explained_module
from triton_linear.tools.explain.records import ConversionReport, ModuleReport, Place
from triton_linear.tools.support.compile import kernel_modules, kernels, place_of, read_module, set_target
from triton_linear.tools.support.errors import Diagnostic, ToolError, captured_stderr, fail, parse_diagnostics
from triton_linear.tools.support.inputs import empty_cache
from triton_linear.tools.support.words import in_words, short_encoding, vector_of

_NOT_ANCHORS = (CONVERT, "tt.call", "tt.return")


@dataclass(frozen=True)
class Layout:
    """The layout of an operation's tensor: the operation's name, the tensor's shape and element, its
    encoding. run: the bytes that lie in a row in a thread's first registers."""

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
    """Compile each kernel of some modules, given as names and texts, with the plugin or, without `options`, by
    stock Triton."""
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
    assembly = made.asm["ptx" if target.startswith("cuda") else "amdgcn"]
    binary = made.asm["cubin" if target.startswith("cuda") else "hsaco"]
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
        if name_of(op) not in REASONS or name_of(op) in _NOT_ANCHORS or op.name == "tt.call":
            continue
        type_: Any = next(filter(_is_data, (value.type for value in _values(op))), None)
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


def _values(op: Operation) -> list[Any]:
    reduces = op.name in ("tt.reduce", "tt.scan")
    return [*op.operands, *op.results] if reduces else [*op.results, *op.operands]


def _is_data(type_: Any) -> bool:
    return str(type_).startswith("tensor<") and "!tt.ptr<" not in str(type_)


_DIRECTIVE = re.compile(r"^\s*(?:\.(?:loc|file|section|ident)\b|//|;)")


def same_code(a: CompiledKernel, b: CompiledKernel) -> bool:
    """Whether two kernels have the same instructions."""
    from triton_linear.ptxas.cubin import code

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
