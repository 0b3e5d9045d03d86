"""A self-contained HTML page: the stages of both sides side by side, with lines of the same source line
linked."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from triton_linear.tools.diff.assembly import Where, sourced
from triton_linear.tools.diff.compare import Comparison, Pair, files_of
from triton_linear.tools.diff.compiled import CompiledKernel
from triton_linear.tools.diff.ir import sourced as sourced_ir
from triton_linear.tools.diff.lines import aligned
from triton_linear.tools.diff.render import code_of, widths

Line = tuple[str, Where | None]
_DEBUG = re.compile(r"^\s*\.section\s+\"?\.(?:debug|AMDGPU)", re.MULTILINE)


def page(comparison: Comparison) -> str:
    """The page of a comparison. It loads no other files."""
    template = files("triton_linear.tools.diff").joinpath("page.html").read_text(encoding="utf-8")
    # "</" and "<!--" must not occur in a script element.
    content = json.dumps(described(comparison)).replace("<", "\\u003c")
    return template.replace("@DATA@", content)


def described(comparison: Comparison) -> dict[str, Any]:
    """The data of the page: the texts of each kernel, with the index of a source line for each line of text."""
    sides = [
        {"letter": one.side.letter, "called": f"{one.side.what} {one.side.words}", "triton": one.triton}
        for one in comparison.sides
    ]
    return {"sides": sides, "kernels": [_kernel(pair) for pair in comparison.pairs]}


def _kernel(pair: Pair) -> dict[str, Any]:
    sources: dict[Where, int] = {}
    places = aligned(*(files_of(kernel) for kernel in pair.kernels))

    def number(place: Where | None, side: int) -> int:
        return -1 if place is None or not place[1] else sources.setdefault(places[side](place), len(sources))

    sides = [
        [
            {"name": name, "lines": [[text, number(place, side)] for text, place in lines]}
            for name, lines in _stages(kernel)
        ]
        for side, kernel in enumerate(pair.kernels)
    ]
    differs: dict[Where, str] = {}
    for line in pair.lines:
        kinds = [
            f"{kind}: {widths(line.a.instructions.get(kind))} / {widths(line.b.instructions.get(kind))}"
            for kind in line.instructions
        ]
        kinds += ["conversions"] * line.conversions + ["layouts"] * line.layouts
        differs[line.where] = "; ".join(kinds)
        sources.setdefault(line.where, len(sources))
    return {
        "name": pair.name,
        "target": pair.facts[0].target,
        "began": str(pair.divergence) if pair.divergence else "nowhere: the code is the same",
        "figures": [[one.name, one.a, one.b] for one in pair.figures],
        "sources": [[*place, code_of(place), differs.get(place, "")] for place in sources],
        "sides": sides,
    }


def _stages(kernel: CompiledKernel) -> list[tuple[str, list[Line]]]:
    """The lines of TTIR, TTGIR and assembly, as far as they exist, without locations and debug information."""
    stages = []
    for name, text in (("TTIR", kernel.texts.get("ttir")), ("TTGIR", kernel.layouts)):
        if text:
            stages.append((name, list(sourced_ir(text))))
    if kernel.assembly:
        debug = _DEBUG.search(kernel.assembly)
        text = kernel.assembly[: debug.start()] if debug else kernel.assembly
        stages.append(("PTX" if "ptx" in kernel.texts else "AMDGCN", list(sourced(text, kernel.assembly))))
    return stages
