"""`make demo`: compile the example kernels for three GPUs, which need not be installed.

The demo shows every layout conversion with its source line, its layouts, its lowering, and the result of
running the emitted code of a whole CTA in the interpreter. It writes PTX or AMDGCN, and the TTGIR, to
build/demo.
"""

from __future__ import annotations

import argparse
import linecache
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import triton
from rich import box
from rich.table import Table
from rich.text import Text

from triton_linear.dialect import triton_versions
from triton_linear.dialect.locations import position
from triton_linear.examples import specs
from triton_linear.examples.spec import KernelSpec, gpu_target
from triton_linear.lowering.target.targets import target as target_by_name
from triton_linear.tools.support.backend import vendor_of
from triton_linear.tools.support.compile import Compilation, compile_text
from triton_linear.tools.support.console import opened, show
from triton_linear.tools.support.errors import Printer, fail, guarded
from triton_linear.tools.support.inputs import empty_cache
from triton_linear.tools.verify.command import Checked, check
from triton_linear.tools.verify.words import short_encoding, short_type

TARGETS = ("cuda:80", "cuda:90", "hip:gfx942")
_KINDS = {"noop": "no-op", "stock": "left to Triton"}


def compile_kernel(spec: KernelSpec, target: str) -> tuple[str, Compilation, list[Checked]]:
    """Compile a kernel with this package's passes: its TTGIR, the compilation, and each conversion with its
    verdict.
    """
    stock = triton.compile(spec.source(), target=gpu_target(target), options=dict(spec.options))
    compilation = compile_text(stock.asm["ttgir"], f"{spec.name}.ttgir", target, assembly_of(target))
    return stock.asm["ttgir"], compilation, check(compilation)


def assembly_of(target: str) -> str:
    """The stage of a target's assembly."""
    return "ptx" if target.startswith("cuda") else "amdgcn"


def row(checked: Checked) -> Sequence[str | Text]:
    """The cells of a conversion: its source line, layouts, lowering, costs, and whether its code is right."""
    conversion = checked.conversion
    file, line, _ = position(conversion.location)
    code = linecache.getline(file, line).strip()
    place = Text.assemble(f"  {Path(file).name}:{line}", (f"  {code}", "dim"), overflow="ellipsis")
    layouts = f"{short_type(conversion.source)} → {short_encoding(conversion.destination)}"
    lowering = _KINDS.get(conversion.kind, conversion.kind)
    if checked.verdict is None:
        return place, layouts, lowering, "", "", "", "", ""
    counts = checked.verdict.counts
    wavefronts = f"{counts.wavefronts}" if counts.accesses else "0"
    if counts.wavefronts > counts.minimum_wavefronts:
        wavefronts += f" (best {counts.minimum_wavefronts})"
    barriers = counts.cta_barriers or (f"{counts.warp_barriers} in warp" if counts.warp_barriers else 0)
    right = Text("yes", "green") if checked.ok else Text(f"NO: {checked.verdict.wrong} wrong", "bold red")
    moved = counts.bytes_stored + counts.bytes_loaded
    return place, layouts, lowering, wavefronts, str(counts.shuffles), str(barriers), str(moved), right


def write_assembly(ttgir: str, compilation: Compilation, kernel: str, target: str, folder: Path) -> Path:
    """Write the PTX or AMDGCN of a kernel, and its TTGIR, to the target's folder."""
    path = folder / target.replace(":", "-") / f"{kernel}.{assembly_of(target)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".ttgir").write_text(ttgir)
        path.write_text("".join(k.lowered.text(assembly_of(target)) for k in compilation.kernels))
    except OSError as error:
        fail(f"cannot write assembly there: {error.strerror}", str(folder))
    return path


def summary(checked: Sequence[Checked], kernels: int, seconds: float, folder: Path) -> list[str]:
    """The lines printed at the end."""
    kinds = Counter(_KINDS.get(c.conversion.kind, c.conversion.kind) for c in checked)
    by_kind = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    executed = [c for c in checked if c.verdict is not None]
    wrong = sum(not c.ok for c in executed)
    return [
        f"{kernels} kernels compiled in {seconds:.0f} s without a GPU; {len(checked)} conversions: {by_kind}",
        f"TTGIR and assembly in {folder}/",
        f"{len(executed)} conversions verified, {wrong} wrong",
    ]


def shown(target: str, folder: Path) -> tuple[list[Checked], int]:
    """Compile the examples for a target and print a table of their conversions; these, and how many kernels
    there are."""
    table = Table(title=target, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("kernel, source line", overflow="ellipsis", max_width=44, no_wrap=True)
    table.add_column("conversion", overflow="fold")
    for name in ("lowering", "wavefronts", "shuffles", "barriers", "bytes", "verified"):
        table.add_column(name, justify="left" if name in ("lowering", "verified") else "right")
    everything: list[Checked] = []
    kernels = specs(gpu_target(target))
    for spec in kernels:
        ttgir, compilation, checked = compile_kernel(spec, target)
        write_assembly(ttgir, compilation, spec.name, target, folder)
        table.add_row(Text(spec.name, "bold"))
        for conversion in checked:
            table.add_row(*row(conversion))
        everything += checked
    show(opened(), table)
    return everything, len(kernels)


def run(targets: Sequence[str], folder: Path) -> int:
    """Run the demo; the exit status is 1 if some emitted code is wrong."""
    triton_versions.require()
    for target in targets:
        vendor_of(target)
        try:
            target_by_name(target)
        except ValueError as error:
            fail(str(error))
    start = time.perf_counter()
    with empty_cache():
        results = [shown(target, folder) for target in targets]
    everything = [checked for found, _ in results for checked in found]
    kernels = sum(number for _, number in results)
    for line in summary(everything, kernels, time.perf_counter() - start, folder):
        print(line)
    return int(not all(checked.ok for checked in everything))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m triton_linear.tools.demo", description=__doc__)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), metavar="TARGET")
    parser.add_argument("--output", type=Path, default=Path("build/demo"), metavar="FOLDER")
    options = parser.parse_args(argv)
    return guarded(lambda: run(options.targets, options.output), Printer())


if __name__ == "__main__":
    raise SystemExit(main())
