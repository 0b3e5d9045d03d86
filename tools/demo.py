"""`triton-linear demo`: compile the example kernels for three GPUs, which need not be installed.

The demo shows every layout conversion with its source line, its layouts, its lowering, and the result of
running the emitted code of a whole CTA in the interpreter. It writes PTX or AMDGCN, and the TTGIR, to
build/demo. If there is a GPU, it also runs the kernels, with and without the plugin.
"""

from __future__ import annotations

import argparse
import linecache
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import triton
from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triton_linear.dialect.locations import position
from triton_linear.examples import examples, specs
from triton_linear.examples.compare import Comparison, compare, gpu_name
from triton_linear.examples.spec import KernelSpec, gpu_target
from triton_linear.lowering.target.targets import target as target_by_name
from triton_linear.tools.support.backend import vendor_of
from triton_linear.tools.support.compile import Compilation, compile_text
from triton_linear.tools.support.console import opened, show
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.inputs import empty_cache
from triton_linear.tools.verify.command import Checked, check
from triton_linear.tools.verify.words import short_encoding, short_type

TARGETS = ("cuda:80", "cuda:90", "hip:gfx942")
WIDTH_OF_ONE_LINE = 150
"""The least terminal width, in characters, at which a conversion takes one line."""


def compile_kernel(spec: KernelSpec, target: str) -> tuple[str, Compilation, list[Checked]]:
    """Compile a kernel with this package's passes: its TTGIR, the compilation, and each conversion with its
    verdict.
    """
    stock = triton.compile(spec.source(), target=gpu_target(target), options=dict(spec.options))
    last = "ptx" if target.startswith("cuda") else "amdgcn"
    compilation = compile_text(stock.asm["ttgir"], f"{spec.name}.ttgir", target, last)
    return stock.asm["ttgir"], compilation, check(compilation)


def table_of(target: str, width: int) -> Table:
    """The empty table of a target; on a narrow terminal a conversion takes two lines."""
    table = Table(title=target, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    names = ["lowering", "wavefronts", "shuffles", "barriers", "bytes", "verified"]
    if width >= WIDTH_OF_ONE_LINE:
        table.add_column("kernel, source line", overflow="ellipsis", max_width=44)
        table.add_column("conversion", no_wrap=True)
    else:
        table.show_edge, table.pad_edge, table.padding = False, False, 0
        table.add_column("kernel, source line,\nconversion", overflow="ellipsis")
        names = ["lowering", "wave-\nfronts", "shuf-\nfles", "bar-\nriers", "bytes", "veri-\nfied"]
    for name in names:
        left = name in (names[0], names[-1])
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    return table


def add_rows(table: Table, checked: Checked) -> None:
    """Add a conversion to a table of `table_of`."""
    place, layouts, *rest = row(checked)
    if len(table.columns) == len(rest) + 2:
        table.add_row(place, layouts, *rest)
    else:
        table.add_row(place)
        table.add_row(Padding(layouts, (0, 0, 0, 4)), *rest)


def row(checked: Checked) -> Sequence[str | Text]:
    """The cells of a conversion: its source line, layouts, lowering, costs, and whether its code is right."""
    conversion = checked.conversion
    file, line, _ = position(conversion.location)
    code = linecache.getline(file, line).strip()
    place = Text.assemble(
        f"  {Path(file).name}:{line}", (f"  {code}", "dim"), no_wrap=True, overflow="ellipsis"
    )
    layouts = f"{short_type(conversion.source)} → {short_encoding(conversion.destination)}"
    lowering = {"noop": "no-op", "stock": "left to Triton"}.get(conversion.kind, conversion.kind)
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


def assembly_folder(folder: Path, target: str) -> Path:
    """The folder to which the assembly for a target is written."""
    return folder / target.replace(":", "-")


def write_assembly(ttgir: str, compilation: Compilation, kernel: str, target: str, folder: Path) -> Path:
    """Write the PTX or AMDGCN of a kernel, and its TTGIR, to the target's folder."""
    stage = "ptx" if target.startswith("cuda") else "amdgcn"
    path = assembly_folder(folder, target) / f"{kernel}.{stage}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".ttgir").write_text(ttgir)
    path.write_text("".join(k.lowered.text(stage) for k in compilation.kernels))
    return path


def summary(checked: Sequence[Checked], kernels: int, seconds: float, folder: Path) -> list[str]:
    """The lines printed at the end."""
    kinds = Counter(c.conversion.kind for c in checked)
    names: Mapping[str, str] = {"noop": "no-op", "stock": "left to Triton"}
    by_kind = ", ".join(f"{count} {names.get(kind, kind)}" for kind, count in sorted(kinds.items()))
    executed = [c for c in checked if c.verdict is not None]
    wrong = sum(not c.ok for c in executed)
    return [
        f"{kernels} kernels compiled in {seconds:.0f} s without a GPU; {len(checked)} conversions: {by_kind}",
        f"TTGIR and assembly in {folder}/",
        f"{len(executed)} conversions verified, {wrong} wrong",
    ]


def gpu_table(device: str, results: Mapping[str, Comparison]) -> Table:
    """The table of the runs on a GPU."""
    table = Table(title=f"[bold]{device}", title_justify="left", header_style="bold")
    for name in (
        "example",
        "same bits as stock",
        "agrees with PyTorch",
        "stock ms",
        "with the plugin ms",
        "ratio",
    ):
        table.add_column(name)
    for name, ran in results.items():
        cells = (str(ran.identical).lower(), str(ran.right["plugin"]).lower())
        times = (f"{ran.milliseconds[mode]:.4f}" for mode in ("stock", "plugin"))
        table.add_row(name, *cells, *times, f"{ran.speedup:.3f}")
    return table


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; the exit status is 1 if some emitted code is wrong."""
    parser = argparse.ArgumentParser(
        prog="triton-linear demo",
        description="Compile the example kernels for GPUs that need not be there, and show each conversion: "
        "its source line, its layouts, the lowering chosen, and what running the emitted code counted.",
    )
    parser.add_argument(
        "--targets",
        nargs="+",
        default=list(TARGETS),
        metavar="TARGET",
        help=f"cuda:NUMBER or hip:gfxNAME (default {' '.join(TARGETS)})",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("build/demo"),
        metavar="FOLDER",
        help="where TTGIR and assembly are left (default %(default)s)",
    )
    options = parser.parse_args(argv)
    for target in options.targets:
        vendor_of(target)
        try:
            target_by_name(target)
        except ValueError as error:
            fail(str(error))
    try:
        for target in options.targets:
            assembly_folder(options.output, target).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"cannot write assembly there: {error.strerror}", str(options.output))
    console = opened()

    start = time.perf_counter()
    everything: list[Checked] = []
    kernels = 0
    with empty_cache():
        for target in options.targets:
            table = table_of(target, console.width)
            for spec in specs(gpu_target(target)):
                ttgir, compilation, checked = compile_kernel(spec, target)
                write_assembly(ttgir, compilation, spec.name, target, options.output)
                table.add_row(Text(spec.name, "bold"))
                for conversion in checked:
                    add_rows(table, conversion)
                everything += checked
                kernels += 1
            show(console, table)
    closing = summary(everything, kernels, time.perf_counter() - start, options.output)
    failed = not all(checked.ok for checked in everything)

    device = gpu_name()
    if device is not None:
        present = triton.runtime.driver.active.get_current_target()
        results = {example.__name__.rpartition(".")[2]: compare(example) for example in examples(present)}
        show(console, gpu_table(device, results))
        failed |= not all(ran.identical and ran.right["plugin"] for ran in results.values())
    for line in closing:
        console.print(line, highlight=False)
    return int(failed)
