"""`triton-linear verify --lowering=stock`: run the code that Triton itself emits for each conversion.

Each conversion is lowered alone, in a kernel that takes a tensor in the source layout and hands it on in the
destination layout, by all of Triton's own passes, and run in the interpreter on elements that tell each other
apart. Triton may crash or run forever on a conversion, so each is a process of its own.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.linear_layout import BLOCK, LinearLayout
from triton_linear.dialect.locations import position
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.interpreter.memory import IllegalAccess, SimulationError
from triton_linear.lowering.interpreter.verify import Verdict, verify_kernel
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.tools.support import errors
from triton_linear.tools.support.backend import lower
from triton_linear.tools.support.compile import read_module, set_target, to_triton
from triton_linear.tools.support.errors import ToolError
from triton_linear.tools.support.functions import sink
from triton_linear.tools.support.isolated import Isolation, Lost
from triton_linear.tools.verify.words import figures, findings, short_encoding, short_type

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
# What a context imports when it is made; a process that is forked has it already.
WARM: Final = tuple(f"mlir.dialects.{name}" for name in ("gpu", "llvm", "nvvm", "rocdl"))

_MEMORY_FILE = re.compile(r"/proc/self/fd/\d+")
_TENSOR = re.compile(r"tensor<(?P<shape>(?:\d+x)*)(?P<element>.*?), (?P<encoding>#.*)>")


@dataclass(frozen=True)
class Finding:
    """What became of one conversion; `detail` says why there is no verdict."""

    status: str
    detail: str = ""
    verdict: Verdict | None = None

    def __str__(self) -> str:
        if self.verdict is None:
            return f"{self.status}: {self.detail}"
        return f"{figures(self.verdict)}; {findings(self.verdict)}"


def kernel_text(source: str, destination: str, warps: int, lanes: int, target: str) -> str:
    """A module with a kernel that does one conversion, between two tensor types."""
    return (
        f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, '
        f'ttg.target = "{target}", "ttg.threads-per-warp" = {lanes} : i32}} {{\n'
        f"  tt.func public @conversion(%x: {source}) {{\n"
        f"    %y = ttg.convert_layout %x : {source} -> {destination}\n"
        f"    {sink('%y', destination, 'result')}\n    tt.return\n  }}\n}}\n"
    )


def layout_of_type(type_: str) -> tuple[LinearLayout, str]:
    """The layout of a tensor type and its element type.

    Raises ValueError for what is no tensor with an encoding, or has one that is not known.
    """
    found = _TENSOR.fullmatch(type_)
    if found is None:
        raise ValueError(f"'{type_}' is no tensor with a layout")
    shape = tuple(int(size) for size in found["shape"].split("x")[:-1])
    element = element_type(found["element"])
    return encodings.held_layout_of(found["encoding"], shape, element.bits), element.name


def check_conversion(source: str, destination: str, warps: int, target_name: str) -> Finding:
    """Lower one conversion as stock Triton does and run it; Triton may crash the process.

    `no such type`: newer releases refuse layouts that older ones take.
    """
    target = target_called(target_name)
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
        return Finding(UNREADABLE, _named(str(error)))
    try:
        lowered = _named(lower(module, target.name, "llvm").text("llvm"))
    except ToolError as error:
        return Finding(FAILS, _named(str(error)))
    try:
        verdict = verify_kernel(lowered, "conversion", "result", src, dst, element_type(name), target, warps)
    except IllegalAccess as error:
        return Finding(ILLEGAL, str(error))
    except (SimulationError, ValueError) as error:
        return Finding(REFUSED, str(error))
    status = WRONG if verdict.wrong else RACES if verdict.races else RIGHT
    return Finding(status, "", verdict)


def _named(text: str) -> str:
    """The text with the kernel's own name where Triton says the file that it was read from."""
    return _MEMORY_FILE.sub("conversion", text)


def _alone(source: str, destination: str, warps: int, target_name: str) -> Finding:
    """`check_conversion` in a process of its own, whose last words the parent reads."""
    errors.keep_captured()
    return check_conversion(source, destination, warps, target_name)


def check_conversions(
    conversions: Sequence[tuple[str, str, int, str]], seconds: int = SECONDS, workers: int = 1
) -> list[Finding]:
    """The findings on conversions (source type, destination type, warps, target), each in a process."""
    isolation: Isolation[Finding] = Isolation(_alone, [__name__, *WARM], seconds, MEMORY)
    found = isolation.map(list(conversions), workers)
    return [Finding(FAILS, _named(f.reason)) if isinstance(f, Lost) else f for f in found]


def verify_stock(text: str, filename: str, target_name: str | None, as_json: bool) -> int:
    """Verify a module's conversions as stock Triton lowers them, print what was found, and return the exit
    status: 0 if all that can be interpreted are right."""
    module = read_module(text, bridge.upstream_context(), filename)
    target = set_target(module, target_name)
    warps = module.operation.attributes["ttg.num-warps"].value
    places: list[tuple[str, tuple[str, str, int, str]]] = []
    for op in operations(module.operation):
        if op.name == "ttg.convert_layout":
            types = str(op.operands[0].type), str(op.results[0].type)
            places.append((str(op.location), (*types, warps, target.name)))
    distinct = list(dict.fromkeys(conversion for _, conversion in places))
    found = dict(zip(distinct, check_conversions(distinct, SECONDS), strict=True))
    total = Counter(found[conversion].status for _, conversion in places)
    bad = sum(total[status] for status in STATUSES if status not in (RIGHT, REFUSED, UNREADABLE))
    if as_json:
        records = [_record(place, conversion, found[conversion]) for place, conversion in places]
        verified = total[RIGHT] + total[WRONG] + total[RACES] + total[ILLEGAL]
        print(json.dumps({"conversions": records, "verified": verified, "wrong": bad}, indent=2))
        return 1 if bad else 0
    for place, conversion in places:
        finding = found[conversion]
        source, destination = conversion[:2]
        print(f"{_at(place)}: {short_type(source)} -> {short_encoding(destination)}: {finding}")
        if finding.verdict is not None:
            for line in (*finding.verdict.examples, *finding.verdict.races):
                print(f"    {line}")
    counts = ", ".join(f"{total[status]} {status}" for status in STATUSES if total[status])
    print(f"stock Triton, {len(places)} conversion{'s' * (len(places) != 1)}: {counts or 'none'}")
    return 1 if bad else 0


def _at(location: str) -> str:
    file, line, column = position(location)
    return f"{file}:{line}:{column}" if line else location


def _record(place: str, conversion: tuple[str, str, int, str], finding: Finding) -> dict[str, Any]:
    record: dict[str, Any] = {
        "location": _at(place),
        "source": conversion[0],
        "destination": conversion[1],
        "status": finding.status,
    }
    if finding.verdict is None:
        return record | {"detail": finding.detail}
    counts = finding.verdict.counts
    return record | {
        "checked": finding.verdict.checked,
        "wrong": finding.verdict.wrong,
        "undefined": any(wrong.undefined for wrong in finding.verdict.examples),
        "races": len(finding.verdict.races),
        "wavefronts": counts.wavefronts,
        "minimum_wavefronts": counts.minimum_wavefronts,
        "shuffles": counts.shuffles,
        "alu": counts.alu_operations,
        "warp_barriers": counts.warp_barriers,
        "cta_barriers": counts.cta_barriers,
        "cluster_barriers": counts.cluster_barriers,
    }
