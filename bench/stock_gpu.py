"""Runs two of the reproducers in test/data/stock on a GPU, as stock Triton and as the plugin compile them.

    python -m bench.stock_gpu [--output FOLDER]

The reproducers are for the interpreter, which sees registers. Here `bytes` gets the filling and draining of
`bench/gpu_random` around its conversion, and `scratch_of_callee` loads and stores around its own.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import triton

import triton_linear
from bench.conversions.build import parameters
from bench.conversions.driver import Kernel, Memory, device, synchronize
from bench.fuzz.random_layouts import Pair
from bench.gpu_random.kernels import RandomCase
from bench.gpu_random.run import METHODS, build, launch
from bench.harness.options import Parser
from bench.harness.report import page, table
from bench.harness.results import publish
from triton_linear.examples.spec import gpu_target

REPRODUCERS = Path(__file__).parents[1] / "test" / "data" / "stock"
SIZE = 32


def bytes_case() -> RandomCase:
    """The conversion of bytes.ttgir."""
    text = (REPRODUCERS / "bytes.ttgir").read_text()
    source, destination = re.findall(r"^#[ab] = (.*)$", text, re.MULTILINE)
    return RandomCase(0, Pair((256,), "i8", source, destination, "bytes.ttgir"), 1, loop=False)


def of_bytes(target: str, method: str) -> tuple[int, int]:
    """Wrong registers, and all."""
    case = bytes_case()
    expected = case.expected()
    return int((launch(case, build(case, method, target)) != expected).sum()), expected.size


def callee_text() -> str:
    """The module of scratch_of_callee.ttgir with `kernel(x, y, out_x, out_y)` on matrices in memory."""
    text = (REPRODUCERS / "scratch_of_callee.ttgir").read_text()
    head, body = text.split("tt.func public @kernel")
    before = _addresses("a", "x", "y") + "".join(
        f"    %{name} = tt.load %{name}_p : tensor<{SIZE}x{SIZE}x!tt.ptr<i32>, #a>\n" for name in "xy"
    )
    kept = re.findall(r"^ *(?:%m|%0|%1) = .*\n", body, re.MULTILINE)
    behind = _addresses("b", "out_x", "out_y") + "".join(
        f"    tt.store %{name}_p, {value} : tensor<{SIZE}x{SIZE}x!tt.ptr<i32>, #b>\n"
        for name, value in (("out_x", "%0"), ("out_y", "%1"))
    )
    arguments = ", ".join(f"%{name}_base: !tt.ptr<i32>" for name in ("x", "y", "out_x", "out_y"))
    lines = "".join((before, *kept, behind))
    return f"{head}tt.func public @kernel({arguments}) {{\n{lines}    tt.return\n  }}\n}}\n"


def _addresses(layout: str, *names: str) -> str:
    """The addresses of each element of row-major matrices, in a layout."""
    square = f"{SIZE}x{SIZE}"
    lines = []
    for axis, other in ((0, 1), (1, 0)):
        sliced = f"#ttg.slice<{{dim = {other}, parent = #{layout}}}>"
        shape = f"{SIZE}x1" if axis == 0 else f"1x{SIZE}"
        name = f"%{layout}{axis}"
        lines += [
            f"{name}r = tt.make_range {{start = 0 : i32, end = {SIZE} : i32}} : tensor<{SIZE}xi32, {sliced}>",
            f"{name}e = tt.expand_dims {name}r {{axis = {other} : i32}} : "
            f"tensor<{SIZE}xi32, {sliced}> -> tensor<{shape}xi32, #{layout}>",
            f"{name} = tt.broadcast {name}e : "
            f"tensor<{shape}xi32, #{layout}> -> tensor<{square}xi32, #{layout}>",
        ]
    numbers, pointers = f"tensor<{square}xi32, #{layout}>", f"tensor<{square}x!tt.ptr<i32>, #{layout}>"
    lines += [
        f"%{layout}n = arith.constant dense<{SIZE}> : {numbers}",
        f"%{layout}m = arith.muli %{layout}0, %{layout}n : {numbers}",
        f"%{layout}o = arith.addi %{layout}m, %{layout}1 : {numbers}",
    ]
    for name in names:
        lines += [
            f"%{name}_s = tt.splat %{name}_base : !tt.ptr<i32> -> {pointers}",
            f"%{name}_p = tt.addptr %{name}_s, %{layout}o : {pointers}, {numbers}",
        ]
    return "".join(f"    {line}\n" for line in lines)


def compiled_callee(target: str, method: str) -> Any:
    """Triton's CompiledKernel."""
    with tempfile.TemporaryDirectory() as folder, triton.knobs.compilation.scope():
        triton.knobs.compilation.always_compile = True
        path = Path(folder) / "kernel.ttgir"
        path.write_text(callee_text())
        with triton_linear.enabled(assign=False) if method == "ours" else nullcontext():
            return triton.compile(str(path), target=gpu_target(target), options={"num_warps": 4})


def of_callee(target: str, method: str) -> tuple[int, int]:
    """Wrong elements of what the caller kept, and all."""
    kernel = compiled_callee(target, method)
    x, y = (np.arange(SIZE * SIZE, dtype=np.int32) + offset for offset in (1 << 20, 2 << 20))
    buffers = [Memory(x.nbytes) for _ in range(4)]
    for buffer, content in zip(buffers, (x, y), strict=False):
        buffer.write(content.tobytes())
    metadata = kernel.metadata
    count = parameters(kernel.asm["ptx"])
    Kernel(kernel.asm["cubin"], metadata.name, 4, metadata.shared, count).launch(1, buffers)
    synchronize()
    out_x, out_y = (np.frombuffer(buffer.read(), np.int32) for buffer in buffers[2:])
    if (out_x != x).any():
        raise AssertionError("the callee's own conversion is wrong")
    return int((out_y != y).sum()), y.size


def markdown(result: dict[str, Any]) -> str:
    """What was wrong, as a table."""
    return page(
        f"Reproducers of `test/data/stock` on {result['gpu']}, Triton {result['triton']}, {result['date']}.",
        "",
        *table(
            "reproducer | compiled by | wrong: | of:",
            ((row["name"], row["method"], row["wrong"], row["all"]) for row in result["rows"]),
        ),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run both by both methods; the exit status is 0 whatever stock Triton does."""
    arguments = Parser("stock_gpu", __doc__, whole=True).output().parse_args(argv)
    found = device()
    rows = []
    for name, run in (("bytes.ttgir", of_bytes), ("scratch_of_callee.ttgir", of_callee)):
        for method in METHODS:
            wrong, everything = run(found.target, method)
            rows.append({"name": name, "method": method, "wrong": wrong, "all": everything})
    publish(arguments.output, "stock_gpu", markdown, gpu=found.name, rows=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
