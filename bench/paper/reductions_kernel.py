"""Kernels of one reduction, as text that Triton 3.6 and Triton 3.0 read."""

from __future__ import annotations

from dataclasses import dataclass

from bench.harness.ttgir import of_old, slice_of

WARPS = 4
SUM, ARGMAX = "sum", "argmax"
OLD = "3.0"
NEW = "new"
"""The flavours of TTGIR: that of Triton 3.0, which has no linear layouts, and today's."""


LOADED = "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [0, 1]}>"
STORED = "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"
"""What a tensor is converted from, and results to, as in Triton's own test of reductions of many layouts."""


@dataclass(frozen=True, slots=True)
class Case:
    """One reduction of a tensor of f32: of which kind of layout, in which one, along which axis. `alone`: not
    between a conversion to the layout and one of the results."""

    kind: str
    number: int
    encoding: str
    shape: tuple[int, int]
    axis: int
    operation: str
    alone: bool = False

    @property
    def key(self) -> str:
        """What it is called, different for each case."""
        size = "x".join(map(str, self.shape))
        alone = ", alone" if self.alone else ""
        return f"{self.kind} {self.number}, {size}, axis {self.axis}, {self.operation}{alone}"

    @property
    def sliced(self) -> str:
        """The encoding of the reduction's results."""
        return slice_of(self.axis, self.encoding)

    @property
    def given(self) -> str:
        """The encoding of the kernel's arguments."""
        return self.encoding if self.alone else LOADED

    @property
    def wanted(self) -> str:
        """The encoding of the kernel's results."""
        return self.sliced if self.alone else STORED


def kernel(case: Case, flavour: str = NEW) -> str:
    """A module with a kernel that takes the tensor (and for an argmax the indices, of i32) as arguments and
    hands each result to a sink, so that nothing but shared memory is accessed."""
    elements = ("f32", "i32") if case.operation == ARGMAX else ("f32",)
    numbers = range(len(elements))
    size, left = "x".join(map(str, case.shape)), case.shape[1 - case.axis]

    def types(dimensions: object, encoding: str) -> list[str]:
        return [f"tensor<{dimensions}x{element}, {encoding}>" for element in elements]

    arguments, taken = types(size, case.given), types(size, case.encoding)
    given, wanted = types(left, case.sliced), types(left, case.wanted)
    names = [f"%x{index}" for index in numbers]
    results = [f"%r#{index}" for index in numbers] if len(elements) > 1 else ["%r"]
    before: list[str] = []
    after: list[str] = []
    if not case.alone:
        convert = "ttg.convert_layout"
        before = [f"%y{i} = {convert} {names[i]} : {arguments[i]} -> {taken[i]}" for i in numbers]
        after = [f"%z{i} = {convert} {results[i]} : {given[i]} -> {wanted[i]}" for i in numbers]
    outputs = results if case.alone else [f"%z{index}" for index in numbers]
    inputs = names if case.alone else [f"%y{index}" for index in numbers]
    axis = f"{{axis = {case.axis} : i32}}"
    properties, attributes = ("", f" {axis}") if flavour == OLD else (f" <{axis}>", "")
    sinks = [
        f'%s{index} = tt.elementwise_inline_asm "// sink result{index}" '
        '{constraints = "=r,r", packed_element = 1 : i32, pure = false} '
        f"{outputs[index]} : {wanted[index]} -> {wanted[index]}"
        for index in numbers
    ]
    target = "" if flavour == OLD else ', ttg.target = "cuda:90"'
    lines = [
        *before,
        f'%r{":2" if len(elements) > 1 else ""} = "tt.reduce"({", ".join(inputs)}){properties} ({{',
        _REGIONS[case.operation],
        f"}}){attributes} : ({', '.join(taken)}) -> ({', '.join(given)})",
        *after,
        *sinks,
        "tt.return",
    ]
    parameters = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, arguments, strict=True))
    body = "\n    ".join(lines)
    text = f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {WARPS} : i32,
    "ttg.threads-per-warp" = 32 : i32{target}}} {{
  tt.func public @reduction({parameters}) {{
    {body}
  }}
}}
"""
    return of_old(text) if flavour == OLD else text


_REGIONS = {
    SUM: """    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32""",
    ARGMAX: """    ^bb0(%a: f32, %i: i32, %b: f32, %j: i32):
      %more = arith.cmpf ogt, %a, %b : f32
      %same = arith.cmpf oeq, %a, %b : f32
      %before = arith.cmpi slt, %i, %j : i32
      %tie = arith.andi %same, %before : i1
      %first = arith.ori %more, %tie : i1
      %c = arith.select %first, %a, %b : f32
      %k = arith.select %first, %i, %j : i32
      tt.reduce.return %c, %k : f32, i32""",
}
