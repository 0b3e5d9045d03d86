"""`triton-linear-opt`: run passes over TritonGPU IR and print it at any stage of compilation.

triton-linear-opt kernel.ttgir --linear-fold-conversions --linear-select-lowering=target=cuda:90
triton-linear-opt kernel.ttgir --pass-pipeline='builtin.module(linear-attach-layouts)'
triton-linear-opt kernel.ttgir --linear-pipeline --emit=ptx -o kernel.ptx
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_linear import __version__
from triton_linear.tools.support.errors import (
    Diagnostic,
    Printer,
    ToolError,
    fail,
    guarded,
    supervised,
)
from triton_linear.tools.support.options import add_pipeline_options, pipeline_options

if TYPE_CHECKING:
    from triton_linear.dialect.mlir_adapter import Module
    from triton_linear.lowering.target.targets import Target
    from triton_linear.passes.framework.base import Pass
    from triton_linear.passes.framework.run import PipelineRun
    from triton_linear.passes.options import PipelineOptions

EMIT = ("mlir", "ttgir", "llvm", "llvmir", "ptx", "cubin", "amdgcn", "hsaco")
BINARY = ("cubin", "hsaco")
SPLIT = re.compile(r"^// -----[ \t]*$", re.MULTILINE)
PIPELINE = "linear-pipeline"


@dataclass(frozen=True)
class InputPart:
    """What is compiled at once: a file, or the part of it between two split markers.

    `text` begins with as many empty lines as precede the part, so that lines keep their numbers.
    """

    text: str
    file: str


@dataclass
class Result:
    """What became of a piece: what is to be written (None after an error) and what was reported."""

    output: str | bytes | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    seconds: tuple[tuple[str, float], ...] = ()


def pieces(text: str, file: str, split: bool) -> list[InputPart]:
    """The parts of the input."""
    if not split:
        return [InputPart(text, file)]
    starts = [0, *(match.end() for match in SPLIT.finditer(text))]
    ends = [*(match.start() for match in SPLIT.finditer(text)), len(text)]
    return [
        InputPart("\n" * text.count("\n", 0, start) + text[start:end], file)
        for start, end in zip(starts, ends, strict=True)
    ]


def pass_steps(flags: Sequence[tuple[str, str]], pipeline: Sequence[Pass] = ()) -> list[Pass | str]:
    """The passes that the flags name, in order; a string is one of upstream MLIR's.

    `pipeline`: those that the flag for all of them stands for.
    """
    from triton_linear.passes import parse

    steps: list[Pass | str] = []
    for name, options in flags:
        try:
            if name == PIPELINE:
                steps += pipeline
            elif name == "pass-pipeline":
                steps += parse.parse_pipeline(options)
            else:
                steps += parse.parse_pipeline(f"{name}{{{options}}}")
        except parse.PipelineError as error:
            fail(str(error))
    return steps


def process(piece: InputPart, arguments: argparse.Namespace) -> Result:
    """Read a piece, run the passes, and bring it to the stage that is asked for."""
    from triton_linear.tools.support.compile import blaming_the_input

    result = Result()
    try:
        with blaming_the_input(piece.text, piece.file):
            _process(piece, arguments, result)
    except ToolError as error:
        result.diagnostics += error.diagnostics
    return result


def _process(piece: InputPart, arguments: argparse.Namespace, result: Result) -> None:
    from triton_linear.dialect import bridge
    from triton_linear.passes.framework.run import run_passes
    from triton_linear.passes.pipeline import pipeline
    from triton_linear.pipeline import concerning
    from triton_linear.tools.support import backend
    from triton_linear.tools.support import compile as compiler

    module = compiler.read_module(piece.text, bridge.upstream_context(), piece.file)
    target = _target(module, arguments)
    if target is not None and arguments.emit not in ("mlir", "ttgir"):
        said_by = backend.NOWHERE if arguments.target else compiler.place_of(module)
        backend.check_stage(arguments.emit, target.name, said_by)
    options, alone = pipeline_options(arguments), [name for name, _ in arguments.passes] == [PIPELINE]
    stock = bridge.triton_text(module) if alone else None
    concerned = (
        concerning(options, module) if any(name == PIPELINE for name, _ in arguments.passes) else options
    )
    whole: list[Pass] = []
    if concerned is not None:
        whole = pipeline(concerned, target.name if target else None, attach=arguments.verify_each)
    steps = pass_steps(arguments.passes, whole)
    printed = sys.stderr if arguments.mlir_print_ir_after_all else None
    outcome = run_passes(
        module,
        steps,
        verify=arguments.verify_each,
        remarks=arguments.remarks or not alone,
        print_after_all=printed,
    )
    result.seconds = outcome.seconds
    result.diagnostics += map(compiler.from_pass, outcome.diagnostics)
    if not outcome.succeeded:
        errors = [d for d in result.diagnostics if d.severity == "error"]
        if any(compiler.INTERNAL in d.message for d in errors):
            result.diagnostics = [d for d in result.diagnostics if d not in errors]
            raise ToolError(*errors)
        if not errors:
            result.diagnostics.append(Diagnostic("error", "a pass failed without saying why", piece.file))
        return
    debug = arguments.mlir_print_debuginfo
    if arguments.emit == "mlir":
        result.output = module.operation.get_asm(enable_debug_info=debug) + "\n"
    elif target is None:
        result.output = _ttgir(bridge.triton_text(module), debug)
    else:
        rest = arguments.emit, debug, stock, result.diagnostics
        result.output = _emitted(module, target, concerned or options, outcome, *rest)


def _target(module: Module, arguments: argparse.Namespace) -> Target | None:
    """The target that is asked for, or the module's own where the stage needs one."""
    from triton_linear.tools.support import compile as compiler

    stated = "ttg.target" in module.operation.attributes
    if arguments.target is None and (arguments.emit == "mlir" or (arguments.emit == "ttgir" and not stated)):
        return None
    return compiler.set_target(module, arguments.target)


def _ttgir(text: str, debug: bool) -> str:
    from triton_linear.tools.support import compile as compiler

    module = compiler.to_triton(text)
    return str(module) if debug else str(module.str_nodebug())


def _emitted(
    module: Module,
    target: Target,
    options: PipelineOptions,
    done: PipelineRun,
    stage: str,
    debug: bool,
    stock: str | None,
    reported: list[Diagnostic],
) -> str | bytes:
    """The module at a stage from `ttgir` on, with the code of outlined conversions, as the plugin compiles it:
    as it came, which `stock` is, where shared memory does not suffice."""
    from triton_linear.passes.conversions.stubs import StubError
    from triton_linear.passes.pipeline import rewritten
    from triton_linear.pipeline import EXHAUSTED, Prepared
    from triton_linear.tools.support import compile as compiler

    if stage != "ttgir":
        compiler.check_one_kernel(module, stage)
        compiler.check_sizes(module)
    try:
        found = rewritten(module, done, target)
    except StubError as error:
        fail(str(error), *compiler.place_of(module))
    prepared = Prepared(module, target, options, found, differs=True)
    needs_scratch = any(stub.plan.scratch_bytes for stub in found.stubs.values())
    if stage == "ttgir" and not (needs_scratch and len(compiler.kernels(module)) == 1):
        return _ttgir(next(prepared.attempts()).text, debug)
    last = "llvm" if stage == "ttgir" else stage
    made = compiler.compiled(prepared, last, lenient=stage == "ttgir", stock=stock)
    if found.stubs and not made.stubs:
        reported.append(
            Diagnostic("remark", f"the kernel is left to Triton: {EXHAUSTED}", *compiler.place_of(module))
        )
    return _ttgir(made.embedded, debug) if stage == "ttgir" else made.lowered.stages[stage]


def _docstring(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


def pass_help() -> str:
    """What each pass does and its options, for --help."""
    from triton_linear.passes.registry import PASSES

    sections = []
    for name, kind in PASSES.items():
        lines = [f"  --{name}", *(f"      {line}".rstrip() for line in _docstring(kind).splitlines())]
        for option in fields(kind):  # type: ignore[arg-type]
            help_text = option.metadata.get("help", "")
            lines.append(f"      option {option.name.replace('_', '-')}=...: {help_text}")
        sections.append("\n".join(lines))
    return "passes:\n" + "\n\n".join(sections)


class _PassFlag(argparse.Action):
    """Appends (pass, options) to `passes`, so that flags of all passes keep their order."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        name = self.option_strings[0].removeprefix("--")
        namespace.passes = [*namespace.passes, (name, values or "")]


def parser() -> argparse.ArgumentParser:
    """The command line, but for the flags of passes."""
    top = argparse.ArgumentParser(
        prog="triton-linear-opt",
        description="Run passes over TritonGPU IR, in the order of their flags, and print any stage.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    top.add_argument("file", nargs="?", default="-", metavar="FILE", help="input; - or nothing: standard input")
    top.add_argument("-o", dest="output", default="-", metavar="FILE", help="where to write (default: -)")
    top.add_argument("--emit", choices=EMIT, default="mlir", help="the stage to print (default: %(default)s)")
    top.add_argument("--target", help="cuda:NUMBER or hip:gfxNAME; by default what the module says")
    top.add_argument(
        "--pass-pipeline",
        action=_PassFlag,
        metavar="TEXT",
        help="passes as text, 'builtin.module(linear-select-lowering{target=cuda:90},cse)'",
    )
    top.add_argument(
        f"--{PIPELINE}",
        action=_PassFlag,
        nargs=0,
        metavar=PIPELINE,
        help="the passes that the plugin runs with the installed Triton, in order",
    )
    top.add_argument(
        "--split-input-file", action="store_true", help="compile the parts between lines '// -----' one by one"
    )
    top.add_argument(
        "--verify-diagnostics",
        nargs="?",
        choices=("all", "only-expected"),
        const="all",
        help="compare what is reported with comments such as // expected-error@+1 {{text}}; print nothing else",
    )
    top.add_argument(
        "--no-verify-each", dest="verify_each", action="store_false", help="do not check the IR between passes"
    )
    top.add_argument(
        "--mlir-print-ir-after-all", action="store_true", help="print the IR after each pass, to standard error"
    )
    top.add_argument("--mlir-print-debuginfo", action="store_true", help="print locations")
    top.add_argument(
        "--mlir-timing", action="store_true", help="print the seconds each pass took, to standard error"
    )
    top.add_argument(
        "--remarks",
        action="store_true",
        help=f"print the remarks of --{PIPELINE}; passes named one by one print theirs always",
    )
    add_pipeline_options(top)
    top.set_defaults(passes=[])
    return top


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command line; every pass has a flag, which takes its options after an equals sign."""
    from triton_linear.passes.registry import PASSES

    top = parser()
    top.epilog = pass_help()
    for name in PASSES:
        top.add_argument(f"--{name}", action=_PassFlag, help=argparse.SUPPRESS)
    bare = {f"--{name}" for name in PASSES}
    words = [f"{word}=" if word in bare else word for word in argv]
    words = ["--verify-diagnostics=all" if word == "--verify-diagnostics" else word for word in words]
    return top.parse_args(words)


def timing_report(seconds: Sequence[tuple[str, float]]) -> Iterator[str]:
    """A table of passes and their seconds."""
    total = sum(took for _, took in seconds)
    yield "===- pass execution timing -==="
    yield f"  total: {total:.4f} seconds"
    for name, took in seconds:
        share = 100 * took / total if total else 0.0
        yield f"  {took:8.4f} ({share:5.1f}%)  {name}"


def write_output(name: str, output: bytes) -> None:
    """Write to a file, or to the standard output for `-`."""
    if name == "-":
        sys.stdout.buffer.write(output)
        sys.stdout.flush()
        return
    try:
        Path(name).write_bytes(output)
    except OSError as error:
        fail(f"cannot open output file: {error.strerror}", name)


def joined(outputs: Sequence[str | bytes]) -> bytes:
    """The outputs of all pieces; text is divided as the input was."""
    texts = [output if isinstance(output, bytes) else output.encode() for output in outputs]
    return texts[0] if len(texts) == 1 else b"// -----\n".join(texts)


def _run(arguments: argparse.Namespace, printer: Printer) -> int:
    from triton_linear.tools.opt.expectations import compare
    from triton_linear.tools.support.inputs import display_name, read_input

    file = display_name(arguments.file)
    text = read_input(arguments.file)
    printer.sources = {file: text}
    if arguments.split_input_file and arguments.emit in BINARY:
        fail(f"emit {arguments.emit}: not with --split-input-file; binaries cannot be divided")
    pass_steps(arguments.passes)  # a mistake in the flags is not one of the input
    results = [process(piece, arguments) for piece in pieces(text, file, arguments.split_input_file)]
    if arguments.mlir_timing:
        print("\n".join(timing_report([s for result in results for s in result.seconds])), file=sys.stderr)
    reported = [diagnostic for result in results for diagnostic in result.diagnostics]
    if arguments.verify_diagnostics is not None:
        unmet = compare(text, file, reported, arguments.verify_diagnostics == "only-expected")
        for diagnostic in unmet:
            printer.print(diagnostic)
        return 1 if unmet else 0
    for diagnostic in reported:
        printer.print(diagnostic)
    outputs = [result.output for result in results if result.output is not None]
    if outputs:
        write_output(arguments.output, joined(outputs))
    return 0 if len(outputs) == len(results) else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run `triton-linear-opt`; the exit status is 1 after an error, 2 for a wrong command line."""
    printer = Printer()

    def run() -> int:
        return guarded(lambda: _run(parse_arguments(sys.argv[1:] if argv is None else argv), printer), printer)

    return supervised(run) if argv is None else run()


if __name__ == "__main__":
    sys.exit(main())
