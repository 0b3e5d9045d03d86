"""`triton-linear verify --lowering=stock`: run the code that stock Triton emits for each conversion.

Each conversion is lowered by Triton alone, in a kernel that takes a tensor in the source layout and passes it
on in the destination layout. The interpreter runs it on data that identifies each element. Triton may crash
or hang on a conversion, so each has its own process.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.linear_layout import BLOCK, LinearLayout
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.interpreter.assembly import SINK
from triton_linear.lowering.interpreter.memory import IllegalAccess, SimulationError
from triton_linear.lowering.interpreter.verify import Verdict, verify_conversion
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import target as target_by_name
from triton_linear.tools.support import errors
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import read_module, set_target, to_triton
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.support.isolated import Isolation, Lost
from triton_linear.tools.support.words import count, findings, short_encoding, short_place, short_type

RIGHT: Final = "right"
WRONG: Final = "wrong"
RACES: Final = "races"
ILLEGAL: Final = "illegal access"
REFUSED: Final = "not interpreted"
UNREADABLE: Final = "no such type"
FAILS: Final = "Triton fails"
STATUSES: Final = (RIGHT, WRONG, RACES, ILLEGAL, REFUSED, UNREADABLE, FAILS)
SECONDS: Final = 60
MEMORY: Final = 8 << 30
# Modules that a new context imports; the process from which children are forked imports them once.
WARM: Final = tuple(f"mlir.dialects.{name}" for name in ("gpu", "llvm", "nvvm", "rocdl"))

_MEMORY_FILE = re.compile(r"/proc/self/fd/\d+")
_TENSOR = re.compile(r"tensor<(?P<shape>(?:\d+x)*)(?P<element>.*?), (?P<encoding>#.*)>")


@dataclass(frozen=True)
class Finding:
    """The result for one conversion: a status, and the verdict, or in `detail` the reason why there is none."""

    status: str
    detail: str = ""
    verdict: Verdict | None = None

    def __str__(self) -> str:
        if self.verdict is None:
            return f"{self.status}: {self.detail}"
        return findings(self.verdict)


def sink(value: str, type_: str, name: str) -> str:
    """A line of TTGIR that passes all registers of a tensor, in order, to the sink `name`."""
    return (
        f'%sink_{name} = tt.elementwise_inline_asm "{SINK}{name}" '
        f'{{constraints = "=r,r", packed_element = 1 : i32, pure = false}} {value} : {type_} -> {type_}'
    )


def kernel_text(source: str, destination: str, warps: int, lanes: int, target: str) -> str:
    """A module whose kernel makes one conversion, between two tensor types."""
    return (
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, '
        f'ttg.target = "{target}", "ttg.threads-per-warp" = {lanes} : i32}} {{\n'
        f"  tt.func public @conversion(%x: {source}) {{\n"
        f"    %y = ttg.convert_layout %x : {source} -> {destination}\n"
        f"    {sink('%y', destination, 'result')}\n    tt.return\n  }}\n}}\n"
    )


def layout_of_type(type_: str) -> tuple[LinearLayout, str]:
    """The layout of a tensor type, and its element type.

    Raises ValueError for a type that is no tensor, has no encoding, or has an unknown encoding.
    """
    match = _TENSOR.fullmatch(type_)
    if match is None:
        raise ValueError(f"'{type_}' is no tensor with a layout")
    shape = tuple(int(size) for size in match["shape"].split("x")[:-1])
    element = element_type(match["element"])
    return encodings.held_layout_of(match["encoding"], shape, element.bits), element.name


def check_conversion(source: str, destination: str, warps: int, target_name: str) -> Finding:
    """Lower one conversion by stock Triton and run it. Triton may crash the process.

    The status is `no such type` if this release rejects the type, as newer ones do with some older layouts.
    """
    target = target_by_name(target_name)
    try:
        (src, name), (dst, _) = layout_of_type(source), layout_of_type(destination)
    except ValueError as error:
        return Finding(REFUSED, str(error))
    if any(layout.has_in_dim(BLOCK) and layout.in_dim_size(BLOCK) > 1 for layout in (src, dst)):
        return Finding(REFUSED, "the tensor lies across several CTAs")
    text = kernel_text(source, destination, warps, target.lanes, target.name)
    try:
        module = to_triton(text)
    except ToolError as error:
        return Finding(UNREADABLE, _with_name(str(error)))
    try:
        lowered = _with_name(lower(module, target.name, "llvm").text("llvm"))
    except ToolError as error:
        return Finding(FAILS, _with_name(str(error)))
    try:
        verdict = verify_conversion(
            lowered, src, dst, element_type(name), target, warps, None, kernel="conversion", sink="result"
        )
    except IllegalAccess as error:
        return Finding(ILLEGAL, str(error))
    except (SimulationError, ValueError) as error:
        return Finding(REFUSED, str(error))
    status = WRONG if verdict.wrong else RACES if verdict.races else RIGHT
    return Finding(status, "", verdict)


def _with_name(text: str) -> str:
    """The text with the kernel's name in place of the file in memory from which Triton parsed it."""
    return _MEMORY_FILE.sub("conversion", text)


def _check_in_child(source: str, destination: str, warps: int, target_name: str) -> Finding:
    """`check_conversion` in a child process, whose last output the parent reads."""
    errors.capture_into_stderr()
    return check_conversion(source, destination, warps, target_name)


def check_conversions(
    conversions: Sequence[tuple[str, str, int, str]], seconds: int = SECONDS, workers: int = 1
) -> list[Finding]:
    """The findings for conversions (source type, destination type, warps, target), each in a process."""
    isolation: Isolation[Finding] = Isolation(_check_in_child, [__name__, *WARM], seconds, MEMORY)
    results = isolation.map(list(conversions), workers)
    return [Finding(FAILS, _with_name(one.reason)) if isinstance(one, Lost) else one for one in results]


def verify_stock(text: str, filename: str, target_name: str | None) -> int:
    """Verify stock Triton's lowering of a module's conversions, and print the results.

    Returns the exit status: 0 if all that the interpreter can run are right.
    """
    module = read_module(text, bridge.upstream_context(), filename)
    target = set_target(module, target_name)
    warps = module.operation.attributes["ttg.num-warps"].value
    places: list[tuple[str, tuple[str, str, int, str]]] = []
    for op in operations(module.operation):
        if op.name == "ttg.convert_layout":
            types = str(op.operands[0].type), str(op.results[0].type)
            places.append((str(op.location), (*types, warps, target.name)))
    distinct = list(dict.fromkeys(conversion for _, conversion in places))
    findings_of = dict(zip(distinct, check_conversions(distinct, SECONDS), strict=True))
    total = Counter(findings_of[conversion].status for _, conversion in places)
    bad = sum(total[status] for status in STATUSES if status not in (RIGHT, REFUSED, UNREADABLE))
    for place, conversion in places:
        finding = findings_of[conversion]
        source, destination = conversion[:2]
        print(f"{short_place(place)}: {short_type(source)} -> {short_encoding(destination)}: {finding}")
        if finding.verdict is not None:
            for line in (*finding.verdict.examples, *finding.verdict.races):
                print(f"    {line}")
    counts = ", ".join(f"{total[status]} {status}" for status in STATUSES if total[status])
    print(f"stock Triton, {count(len(places), 'conversion')}: {counts or 'none'}")
    return 1 if bad else 0
