"""Kernels of one reduction, as text that Triton 3.6 and Triton 3.0 read."""

from __future__ import annotations

from dataclasses import dataclass

WARPS = 4
SUM, ARGMAX = "sum", "argmax"
OLD = "3.0"
NEW = "new"
"""The flavours of TTGIR: that of Triton 3.0, which has no linear layouts, and today's."""


@dataclass(frozen=True, slots=True)
class Case:
    """One reduction of a tensor of f32: of which kind of layout, in which one, along which axis."""

    kind: str
    number: int
    encoding: str
    shape: tuple[int, int]
    axis: int
    operation: str

    @property
    def key(self) -> str:
        """What it is called, different for each case."""
        size = "x".join(map(str, self.shape))
        return f"{self.kind} {self.number}, {size}, axis {self.axis}, {self.operation}"


def kernel(case: Case, flavour: str = NEW) -> str:
    """A module with a kernel that takes the tensor (and for an argmax the indices, of i32) as arguments and
    hands each result to a sink, so that nothing but shared memory is accessed."""
    size = "x".join(map(str, case.shape))
    left = case.shape[1 - case.axis]
    sliced = f"#ttg.slice<{{dim = {case.axis}, parent = {case.encoding}}}>"
    elements = ("f32", "i32") if case.operation == ARGMAX else ("f32",)
    taken = [f"tensor<{size}x{element}, {case.encoding}>" for element in elements]
    given = [f"tensor<{left}x{element}, {sliced}>" for element in elements]
    names = [f"%x{index}" for index in range(len(elements))]
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, taken, strict=True))
    several = len(elements) > 1
    axis = f"{{axis = {case.axis} : i32}}"
    before, after = ("", f" {axis}") if flavour == OLD else (f" <{axis}>", "")
    sinks = "\n".join(
        f'    %s{index} = tt.elementwise_inline_asm "// sink result{index}" '
        '{constraints = "=r,r", packed_element = 1 : i32, pure = false} '
        f"%r{f'#{index}' if several else ''} : {type_} -> {type_}"
        for index, type_ in enumerate(given)
    )
    target = "" if flavour == OLD else ', ttg.target = "cuda:90"'
    text = f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {WARPS} : i32,
    "ttg.threads-per-warp" = 32 : i32{target}}} {{
  tt.func public @reduction({arguments}) {{
    %r{":2" if several else ""} = "tt.reduce"({", ".join(names)}){before} ({{
{_REGIONS[case.operation]}
    }}){after} : ({", ".join(taken)}) -> ({", ".join(given)})
{sinks}
    tt.return
  }}
}}
"""
    if flavour == OLD:
        text = text.replace("#ttg.", "#triton_gpu.").replace('"ttg.', '"triton_gpu.')
    return text


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
