"""Run `triton-linear-opt`: read the input, process its parts, and print what comes of them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from triton_linear.passes.user_passes import UserPass
from triton_linear.tools.opt import plugins as plugin_files
from triton_linear.tools.opt.arguments import BINARY, PLUGIN, parse_arguments
from triton_linear.tools.opt.expectations import compare
from triton_linear.tools.opt.process import InputPart, pass_steps, process
from triton_linear.tools.support.errors import Printer, fail
from triton_linear.tools.support.inputs import display_name, read_input, write

SPLIT = re.compile(r"^// -----[ \t]*$", re.MULTILINE)


def pieces(text: str, file: str, split: bool) -> list[InputPart]:
    """The input, or its parts between lines `// -----` if `split` is set."""
    if not split:
        return [InputPart(text, file)]
    starts = [0, *(match.end() for match in SPLIT.finditer(text))]
    ends = [*(match.start() for match in SPLIT.finditer(text)), len(text)]
    return [
        InputPart("\n" * text.count("\n", 0, start) + text[start:end], file)
        for start, end in zip(starts, ends, strict=True)
    ]


def timing_report(seconds: Sequence[tuple[str, float]]) -> Iterator[str]:
    """The lines of a table of passes and their times."""
    total = sum(took for _, took in seconds)
    yield "===- pass execution timing -==="
    yield f"  total: {total:.4f} seconds"
    for name, took in seconds:
        share = 100 * took / total if total else 0.0
        yield f"  {took:8.4f} ({share:5.1f}%)  {name}"


def joined(outputs: Sequence[str | bytes]) -> bytes:
    """The outputs of all parts, joined by `// -----` lines as in the input."""
    texts = [output if isinstance(output, bytes) else output.encode() for output in outputs]
    return texts[0] if len(texts) == 1 else b"// -----\n".join(texts)


def _loaded(file: str, printer: Printer) -> tuple[UserPass, ...]:
    """The passes of a user's file; its text is added to the printer's sources, so that errors quote its
    lines.
    """
    path = os.path.abspath(file)
    if os.path.isfile(path):
        printer.sources[path] = Path(path).read_text(errors="replace")
    return plugin_files.load(file)


def run(argv: Sequence[str], printer: Printer) -> int:
    """Run the command; the exit status is 1 after an error."""
    arguments = parse_arguments(argv)
    file = display_name(arguments.file)
    text = read_input(arguments.file)
    printer.sources[file] = text
    if arguments.split_input_file and arguments.emit in BINARY:
        fail(f"emit {arguments.emit}: not with --split-input-file; binaries cannot be divided")
    pass_steps(arguments.passes)  # report errors in the flags before those in the input
    plugins = {name: _loaded(name, printer) for flag, name in arguments.passes if flag == PLUGIN}
    results = [process(piece, arguments, plugins) for piece in pieces(text, file, arguments.split_input_file)]
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
        write(arguments.output, joined(outputs))
    return 0 if len(outputs) == len(results) else 1
