"""One self-contained HTML file: the stages of both sides beside each other, lines of one source line linked."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from triton_linear.tools.diff.assembly import Where, sourced
from triton_linear.tools.diff.compare import Comparison, Pair, files_of
from triton_linear.tools.diff.ir import sourced as sourced_ir
from triton_linear.tools.diff.lines import aligned
from triton_linear.tools.diff.made import Made
from triton_linear.tools.diff.render import code_of, widths

Line = tuple[str, Where | None]
_DEBUG = re.compile(r"^\s*\.section\s+\"?\.(?:debug|AMDGPU)", re.MULTILINE)


def page(comparison: Comparison) -> str:
    """The page of a comparison. It loads nothing."""
    template = files("triton_linear.tools.diff").joinpath("page.html").read_text(encoding="utf-8")
    # In a script element only "</" and "<!--" mean something to a browser.
    content = json.dumps(described(comparison)).replace("<", "\\u003c")
    return template.replace("@DATA@", content)


def described(comparison: Comparison) -> dict[str, Any]:
    """What the page shows: of each kernel the texts, with the number of the source line of each line."""
    sides = [
        {"letter": one.side.letter, "called": f"{one.side.what} {one.side.words}", "triton": one.triton}
        for one in comparison.sides
    ]
    return {"sides": sides, "kernels": [_kernel(pair) for pair in comparison.pairs]}


def _kernel(pair: Pair) -> dict[str, Any]:
    sources: dict[Where, int] = {}
    places = aligned(*(files_of(made) for made in pair.made))

    def number(place: Where | None, side: int) -> int:
        return -1 if place is None or not place[1] else sources.setdefault(places[side](place), len(sources))

    sides = [
        [
            {"name": name, "lines": [[text, number(place, side)] for text, place in lines]}
            for name, lines in _stages(made)
        ]
        for side, made in enumerate(pair.made)
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
        "began": str(pair.began) if pair.began else "nowhere: the code is the same",
        "figures": [[one.name, one.a, one.b] for one in pair.figures],
        "sources": [[*place, code_of(place), differs.get(place, "")] for place in sources],
        "sides": sides,
    }


def _stages(made: Made) -> list[tuple[str, list[Line]]]:
    """TTIR, TTGIR and assembly, as far as they are there, without what is only about places."""
    found = []
    for name, text in (("TTIR", made.texts.get("ttir")), ("TTGIR", made.layouts)):
        if text:
            found.append((name, list(sourced_ir(text))))
    if made.assembly:
        cut = _DEBUG.search(made.assembly)
        text = made.assembly[: cut.start()] if cut else made.assembly
        found.append(("PTX" if "ptx" in made.texts else "AMDGCN", list(sourced(text, made.assembly))))
    return found
