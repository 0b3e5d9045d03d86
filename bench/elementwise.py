"""Measures what an elementwise operation of TritonGPU IR takes: clocks of a multiprocessor for each register of
a warp, when the warps of several CTAs keep it busy.

    python -m bench.elementwise --output DIR [--dry]

A kernel repeats an operation on eight registers of a thread, which are independent of each other. Its time
follows the number of repetitions; their slope is compared with that of additions of f32, of which a
multiprocessor does 128 in a clock (CUDA programming guide, arithmetic instructions). The result,
elementwise.json, has the clocks from which `passes/operations/arithmetic.py` has its rows.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from triton_linear.examples.compare import gpu_name
from triton_linear.examples.spec import gpu_target

from .harness import results
from .harness.options import Parser
from .harness.turns import captured, replay

REPEATED = 8
"""How often an operation stands in the loop."""
TRIPS = 32, 160
CTAS_OF_A_MULTIPROCESSOR = 8
ADDITION, CLOCKS = "arith.addf", 0.25
_TEXT = """\
#l = #ttg.blocked<{{sizePerThread = [8], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
module attributes {{
  "ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"
}} {{
  tt.func public @repeat(%from: !tt.ptr<{element}> {{tt.divisibility = 16 : i32}}, %trips: i32) {{
    %zero = arith.constant 0 : i32
    %step = arith.constant 1 : i32
    %r = tt.make_range {{end = 1024 : i32, start = 0 : i32}} : tensor<1024xi32, #l>
    %b = tt.splat %from : !tt.ptr<{element}> -> tensor<1024x!tt.ptr<{element}>, #l>
    %p = tt.addptr %b, %r : tensor<1024x!tt.ptr<{element}>, #l>, tensor<1024xi32, #l>
    %c = tt.load %p : tensor<1024x!tt.ptr<{element}>, #l>
    %k = arith.constant dense<{constant}> : tensor<1024x{element}, #l>
    %x = scf.for %i = %zero to %trips step %step iter_args(%x0 = %c) -> (tensor<1024x{element}, #l>) : i32 {{
{body}
      scf.yield %x{last} : tensor<1024x{element}, #l>
    }}
    tt.store %p, %x : tensor<1024x!tt.ptr<{element}>, #l>
    tt.return
  }}
}}
"""

# What is repeated: the element type, the operations, and those of them whose clocks are known and taken off.
# %x is what comes in, %y what goes out, %c is not known before the kernel runs, %k is a constant; T stands for
# the tensor, and T of another element type for one of these.
OPERATIONS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    ADDITION: ("f32", "%y = arith.addf %x, %c : T", ()),
    "arith.mulf": ("f32", "%y = arith.mulf %x, %c : T", ()),
    "math.fma": ("f32", "%y = math.fma %x, %c, %k : T", ()),
    "arith.maxnumf": ("f32", "%a = arith.maxnumf %x, %c : T;%y = arith.addf %a, %k : T", (ADDITION,)),
    "arith.divf": ("f32", "%y = arith.divf %x, %c : T", ()),
    "arith.divf 1": ("f32", "%y = arith.divf %k, %x : T", ()),
    "tt.approx_divf": ("f32", "%y = tt.approx_divf %x, %c : T", ()),
    "tt.precise_divf": ("f32", "%y = tt.precise_divf %x, %c : T", ()),
    "math.exp": ("f32", "%y = math.exp %x : T", ()),
    "math.exp2": ("f32", "%y = math.exp2 %x : T", ()),
    "math.log": ("f32", "%y = math.log %x : T", ()),
    "math.log2": ("f32", "%y = math.log2 %x : T", ()),
    "math.sqrt": ("f32", "%y = math.sqrt %x : T", ()),
    "tt.precise_sqrt": ("f32", "%y = tt.precise_sqrt %x : T", ()),
    "math.rsqrt": ("f32", "%y = math.rsqrt %x : T", ()),
    "math.erf": ("f32", "%y = math.erf %x : T", ()),
    "math.tanh": (
        "f32",
        '%y = tt.extern_elementwise %x {libname = "", libpath = "", symbol = "__nv_tanhf", pure = true} '
        ": (T) -> T",
        (),
    ),
    "math.sin": ("f32", "%y = math.sin %x : T", ()),
    "math.cos": ("f32", "%y = math.cos %x : T", ()),
    "arith.truncf, arith.extf": (
        "f32",
        "%a = arith.truncf %x : T to T<f16>;%y = arith.extf %a : T<f16> to T",
        (),
    ),
    "arith.truncf, arith.extf bf16": (
        "f32",
        "%a = arith.truncf %x : T to T<bf16>;%y = arith.extf %a : T<bf16> to T",
        (),
    ),
    "arith.fptosi, arith.sitofp": (
        "f32",
        "%a = arith.fptosi %x : T to T<i32>;%y = arith.sitofp %a : T<i32> to T",
        (),
    ),
    "arith.addi": ("i32", "%a = arith.xori %x, %c : T;%y = arith.addi %a, %k : T", ("arith.xori",)),
    "arith.xori": (
        "i32",
        "%a = arith.xori %x, %c : T;%b = arith.addi %a, %k : T;"
        "%d = arith.xori %b, %c : T;%y = arith.addi %d, %c : T",
        (),
    ),
    "arith.shli": ("i32", "%a = arith.shli %x, %c : T;%y = arith.addi %a, %k : T", ("arith.addi",)),
    "arith.muli": ("i32", "%y = arith.muli %x, %c : T", ()),
    "tt.mulhiui": ("i32", "%y = tt.mulhiui %x, %c : T", ()),
    "philox": (
        "i32",
        "%a = tt.mulhiui %x, %k : T;%b = arith.muli %x, %k : T;"
        "%d = arith.xori %a, %c : T;%y = arith.xori %d, %b : T",
        (),
    ),
    "arith.cmpi, arith.select": (
        "i32",
        "%a = arith.cmpi slt, %x, %c : T;%b = arith.addi %x, %k : T;%y = arith.select %a, %b, %c : T<i1>, T",
        ("arith.addi",),
    ),
    "arith.divsi": ("i32", "%a = arith.divsi %x, %c : T;%y = arith.addi %a, %k : T", ("arith.addi",)),
    "arith.divui": ("i32", "%a = arith.divui %x, %c : T;%y = arith.addi %a, %k : T", ("arith.addi",)),
    "arith.remsi": ("i32", "%a = arith.remsi %x, %c : T;%y = arith.addi %a, %k : T", ("arith.addi",)),
    "arith.divsi by constant": (
        "i32",
        "%a = arith.divsi %x, %k : T;%y = arith.addi %a, %c : T",
        ("arith.addi",),
    ),
    "arith.remsi by constant": (
        "i32",
        "%a = arith.remsi %x, %k : T;%y = arith.addi %a, %c : T",
        ("arith.addi",),
    ),
    "arith.addi i64": ("i64", "%a = arith.xori %x, %c : T;%y = arith.addi %a, %k : T", ()),
    "arith.muli i64": ("i64", "%y = arith.muli %x, %c : T", ()),
    "arith.divsi i64": ("i64", "%y = arith.divsi %x, %c : T", ()),
    "arith.addf f16": ("f16", "%y = arith.addf %x, %c : T", ()),
    "arith.addf f64": ("f64", "%y = arith.addf %x, %c : T", ()),
}


def text(operation: str) -> str:
    """The kernel that repeats an operation, as TritonGPU IR."""
    element, lines, _ = OPERATIONS[operation]
    body = []
    for number in range(REPEATED):
        named = {"x": f"%x{number}", "y": f"%x{number + 1}"} | {name: f"%{name}{number}" for name in "abd"}
        one = re.sub(r"%([abdxy])\b", lambda found: named[found[1]], lines)  # noqa: B023
        one = re.sub(r"\bT<(\w+)>", r"tensor<1024x\1, #l>", one)
        body += re.sub(r"\bT\b", f"tensor<1024x{element}, #l>", one).split(";")
    constant = "7.5" if element.startswith("f") else "7"
    return _TEXT.format(
        element=element, constant=constant, body="\n".join(f"      {line}" for line in body), last=REPEATED
    )


def compiled(operation: str, folder: str, target: Any = None) -> Any:
    """The kernel, for the GPU that is here if no other is named."""
    import triton

    path = Path(folder) / "repeat.ttgir"
    path.write_text(text(operation))
    return triton.compile(str(path), target=target, options={"num_warps": 4})


def slope(operation: str, folder: str) -> float:
    """Milliseconds that one more operation on every register takes."""
    import torch

    kernel = compiled(operation, folder)
    element = OPERATIONS[operation][0]
    kind = {"f32": torch.float32, "f16": torch.float16, "f64": torch.float64, "i64": torch.int64}
    given = torch.full((1024,), 3, dtype=kind.get(element, torch.int32), device="cuda")
    ctas = torch.cuda.get_device_properties(0).multi_processor_count * CTAS_OF_A_MULTIPROCESSOR
    graphs = {trips: [captured(partial(kernel[(ctas, 1, 1)], given.clone(), trips), 8)[0]] for trips in TRIPS}
    times = replay({str(trips): graph for trips, graph in graphs.items()}, 8)
    short, long = (min(times[str(trips)]) for trips in TRIPS)
    return (long - short) / (TRIPS[1] - TRIPS[0]) / REPEATED


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser("elementwise", __doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--dry", action="store_true", help="compile only")
    options = parser.parse_args(argv)
    found: dict[str, float | str] = {}
    with tempfile.TemporaryDirectory() as folder:
        if options.dry:
            for operation in OPERATIONS:
                compiled(operation, folder, gpu_target("cuda:90"))
            return 0
        clock = slope(ADDITION, folder) / CLOCKS
        for operation in OPERATIONS:
            try:
                found[operation] = slope(operation, folder) / clock
            except Exception as error:  # the others are measured nevertheless, and this is in the result
                found[operation] = f"{type(error).__name__}: {error}"
    for operation, (_, _, beside) in OPERATIONS.items():
        whole = found[operation]
        if isinstance(whole, float):
            found[operation] = round(whole - sum(c for o in beside if isinstance(c := found[o], float)), 3)
    # Four operations are repeated for the exclusive or, two of them additions, which take as long.
    if isinstance(four := found["arith.xori"], float):
        found["arith.xori"] = round(four / 4, 3)
    report = {"device": gpu_name(), **results.versions(), "clocks": found}
    options.output.mkdir(parents=True, exist_ok=True)
    results.replaced(options.output / "elementwise.json", json.dumps(report, indent=1) + "\n")
    print(json.dumps(report["clocks"], indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
