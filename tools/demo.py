"""`make demo`: compile the example kernels for three GPUs, which need not be installed.

The demo shows every layout conversion with its source line, its layouts, its lowering, and the result of
running the emitted code of a whole CTA in the interpreter. Behind these stands what the assembly of each whole
kernel has of shared-memory accesses, shuffles and barriers, beside stock Triton's. It writes PTX or AMDGCN, and
the TTGIR, to build/demo.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import triton
from rich import box
from rich.table import Table
from rich.text import Text

from triton_linear.dialect import triton_versions
from triton_linear.examples import specs
from triton_linear.examples.spec import KernelSpec, gpu_target
from triton_linear.lowering.target.targets import target as target_by_name
from triton_linear.tools.explain.records import Place
from triton_linear.tools.support.backend import code_stages, vendor_of
from triton_linear.tools.support.compile import compile_text
from triton_linear.tools.support.console import show
from triton_linear.tools.support.errors import Printer, fail, guarded
from triton_linear.tools.support.inputs import empty_cache
from triton_linear.tools.support.words import Figures, short_encoding, short_type
from triton_linear.tools.verify.command import Checked, check

TARGETS = ("cuda:80", "cuda:90", "hip:gfx942")
_KINDS = {"noop": "no-op", "stock": "left to Triton"}
COUNTED: Final = ("accesses to shared memory", "shuffles", "barriers")
_PATTERNS: Final = {
    "ptx": (
        re.compile(r"^\s*(?:@\S+ )?(?:ld|st)(?:matrix)?\.\S*shared", re.MULTILINE),
        re.compile(r"\bshfl\.sync"),
        re.compile(r"\b(?:bar|barrier)\.(?:cta\.)?sync"),
    ),
    "amdgcn": (
        re.compile(r"^\s*ds_(?:read|write|load|store)", re.MULTILINE),
        re.compile(r"\bds_(?:bpermute|swizzle)|\bv_permlane|_dpp\b"),
        re.compile(r"^\s*s_barrier", re.MULTILINE),
    ),
}
"""For each kind of assembly, the instructions that `COUNTED` counts; barriers are those of a CTA."""


@dataclass(frozen=True)
class Compiled:
    """A kernel's TTGIR, its checked conversions, and the assembly of stock Triton and of this package."""

    name: str
    target: str
    ttgir: str
    checked: list[Checked]
    stock: str
    ours: str


def compile_kernel(spec: KernelSpec, target: str) -> Compiled:
    """Compile a kernel by stock Triton and with this package's passes, and run the code of its conversions."""
    kind = code_stages(target)[0]
    stock = triton.compile(spec.source(), target=gpu_target(target), options=dict(spec.options))
    compilation = compile_text(stock.asm["ttgir"], f"{spec.name}.ttgir", target, kind)
    ours = "".join(kernel.lowered.text(kind) for kernel in compilation.kernels)
    return Compiled(spec.name, target, stock.asm["ttgir"], check(compilation), stock.asm[kind], ours)


def counts(assembly: str, target: str) -> tuple[int, ...]:
    r"""How many instructions of each kind in `COUNTED` there are.

    >>> counts("@%p1 st.shared.b32 [%r1], %r2;\n  bar.sync 0;\n  ldmatrix.sync.x4.shared.b16 {%r3};", "cuda:90")
    (2, 0, 1)
    """
    return tuple(len(pattern.findall(assembly)) for pattern in _PATTERNS[code_stages(target)[0]])


def row(checked: Checked) -> Sequence[str | Text]:
    """The cells of a conversion: its source line, layouts, lowering, costs, and whether its code is right."""
    conversion = checked.of
    at = Place.of(conversion.location)
    place = Text.assemble(f"  {Path(at.file).name}:{at.line}", (f"  {at.code}", "dim"), overflow="ellipsis")
    layouts = f"{short_type(conversion.source)} → {short_encoding(conversion.destination)}"
    lowering = _KINDS.get(conversion.kind, conversion.kind)
    if checked.verdict is None:
        return place, layouts, lowering, "", "", "", "", ""
    counted = Figures.of(checked.verdict)
    best = f" (best {counted.minimum_wavefronts})" if counted.wavefronts > counted.minimum_wavefronts else ""
    barriers = counted.barriers or (f"{counted.warp_barriers} in warp" if counted.warp_barriers else 0)
    right = Text("yes", "green") if checked.ok else Text(f"NO: {counted.wrong} wrong", "bold red")
    numbers = f"{counted.wavefronts}{best}", counted.shuffles, barriers, counted.bytes
    return place, layouts, lowering, *map(str, numbers), right


def save(kernel: Compiled, folder: Path) -> None:
    """Write the PTX or AMDGCN of a kernel, and its TTGIR, to the target's folder."""
    path = folder / kernel.target.replace(":", "-") / f"{kernel.name}.{code_stages(kernel.target)[0]}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".ttgir").write_text(kernel.ttgir)
        path.write_text(kernel.ours)
    except OSError as error:
        fail(f"cannot write assembly there: {error.strerror}", str(folder))


def summary(kernels: Sequence[Compiled], seconds: float, folder: Path) -> list[str]:
    """The lines printed at the end; the last one is the verdict."""
    checked = [one for kernel in kernels for one in kernel.checked]
    kinds = Counter(_KINDS.get(one.of.kind, one.of.kind) for one in checked)
    run = sum(one.verdict is not None for one in checked)
    stock, ours = (
        map(sum, zip(*(counts(getattr(kernel, side), kernel.target) for kernel in kernels), strict=True))
        for side in ("stock", "ours")
    )
    beside = (f"{a} {name} become {b}" for name, a, b in zip(COUNTED, stock, ours, strict=True))
    return [
        f"{len(kernels)} kernels compiled in {seconds:.0f} s without a GPU",
        f"{len(checked)} conversions: {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}",
        f"instructions of stock Triton and of ours, all kernels together: {', '.join(beside)}",
        f"TTGIR and assembly in {folder}/",
        f"{run} conversions verified, {sum(not one.ok for one in checked)} wrong",
    ]


def shown(target: str, folder: Path) -> list[Compiled]:
    """Compile the examples for a target, and print a table of their conversions and one of whole kernels."""
    table = Table(title=target, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("kernel, source line", overflow="ellipsis", max_width=44, no_wrap=True)
    table.add_column("conversion", overflow="fold")
    for name in ("lowering", "wavefronts", "shuffles", "barriers", "bytes", "verified"):
        table.add_column(name, justify="left" if name in ("lowering", "verified") else "right")
    beside = Table(f"instructions of a kernel for {target}: stock Triton → ours", box=box.SIMPLE_HEAD)
    for name in COUNTED:
        beside.add_column(name, justify="right")
    kernels = [compile_kernel(spec, target) for spec in specs(gpu_target(target))]
    for kernel in kernels:
        save(kernel, folder)
        table.add_row(Text(kernel.name, "bold"))
        for conversion in kernel.checked:
            table.add_row(*row(conversion))
        pairs = zip(counts(kernel.stock, target), counts(kernel.ours, target), strict=True)
        beside.add_row(kernel.name, *(f"{stock} → {ours}" for stock, ours in pairs))
    show(table)
    show(beside)
    return kernels


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
        kernels = [kernel for target in targets for kernel in shown(target, folder)]
    for line in summary(kernels, time.perf_counter() - start, folder):
        print(line)
    return int(not all(checked.ok for kernel in kernels for checked in kernel.checked))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m triton_linear.tools.demo", description=__doc__)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), metavar="TARGET")
    parser.add_argument("--output", type=Path, default=Path("build/demo"), metavar="FOLDER")
    options = parser.parse_args(argv)
    return guarded(lambda: run(options.targets, options.output), Printer())


if __name__ == "__main__":
    _status = main()
    # Triton's bindings list what is still alive when Python ends, also where stock Triton alone has compiled.
    # That would stand behind the verdict. All is written, so the process ends without that.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_status)
