"""A self-contained HTML file with the views of a layout, a memory or a conversion, to click through."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from math import prod
from typing import Any

from triton_linear.dialect.linear_layout import LANE, WARP
from triton_linear.lowering.planners.shared_access import Touch
from triton_linear.lowering.target.phases import BANK_BYTES
from triton_linear.lowering.target.targets import Target
from triton_linear.tools.view.fold import Sizes, tile_of, tiles_of, words
from triton_linear.tools.view.memory import Memory
from triton_linear.tools.view.places import is_distributed
from triton_linear.tools.view.subject import Subject
from triton_linear.tools.view.text import thread_colour

MOST_ROWS, MOST_COLUMNS = 16, 32


def page(subjects: Sequence[Subject], target: Target, plan: str = "") -> str:
    """The page of a layout, of two register layouts (a conversion; `plan` describes its lowering), or of
    registers and the memory that they are stored to. It loads no other files."""
    template = files("triton_linear.tools.view").joinpath("page.html").read_text(encoding="utf-8")
    # In a script element only "</" and "<!--" have a meaning.
    content = json.dumps(described(subjects, target, plan)).replace("<", "\\u003c")
    return template.replace("@DATA@", content)


def described(subjects: Sequence[Subject], target: Target, plan: str) -> dict[str, Any]:
    """The data of the page: the bases, from which all else follows, and the addresses of padded memory."""
    layouts: list[dict[str, Any]] = []
    touches: list[dict[str, Any]] = []
    tiles = tiles_of([subject.layout for subject in subjects], lambda layouts: tile_of(layouts, _fits))
    for subject, tile in zip(subjects, tiles, strict=True):
        layout = subject.layout
        record: dict[str, Any] = {
            "text": subject.text,
            "bits": subject.element_bits,
            "bases": [[name, [list(vector) for vector in vectors]] for name, vectors in layout.bases],
            "outs": [list(dim) for dim in layout.out_dims],
            "tile": list(tile),
            "words": list(words(layout, tile)),
            "encoding": subject.encoding if subject.encoding != subject.text else "",
            "source": subject.source,
            "shared": subject.is_shared,
        }
        if is_distributed(layout):
            lanes, warps = layout.in_dim_size(LANE), layout.in_dim_size(WARP)
            record["colours"] = [[thread_colour(w, lane, lanes) for lane in range(lanes)] for w in range(warps)]
        if subject.is_shared:
            memory = Memory(subject, target)
            # Without padding the page computes them from the offsets.
            if memory.is_padded:
                record["addresses"] = memory.addresses.tolist()
            for registers in subjects:
                if is_distributed(registers.layout) and registers.layout.out_dims == layout.out_dims:
                    touches += [_touch_record(touch) for touch in memory.touches(registers.layout)]
        layouts.append(record)
    machine = {"name": target.name, "banks": target.banks, "bankBytes": BANK_BYTES}
    return {"layouts": layouts, "target": machine, "plan": plan, "touches": touches}


def _fits(tile: Sizes) -> bool:
    """Whether a tile, with a cell for each element, fits a window of 1400 by 900 pixels."""
    return prod(tile[-2:-1]) <= MOST_ROWS and tile[-1] <= MOST_COLUMNS and prod(tile[:-2]) == 1


def _touch_record(touch: Touch) -> dict[str, Any]:
    return {
        "registers": list(touch.registers),
        "width": touch.width,
        "addresses": list(touch.addresses),
        "phases": [{"lanes": list(phase.lanes), "banks": phase.banks} for phase in touch.phases],
    }
