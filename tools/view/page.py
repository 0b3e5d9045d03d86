"""One self-contained HTML file: the views of a layout, a memory or a conversion, to click through."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from triton_linear.lowering.interpreter.banks import Touch
from triton_linear.lowering.target.targets import Target
from triton_linear.tools.view.memory import Memory
from triton_linear.tools.view.subject import Subject


def page(subjects: Sequence[Subject], target: Target, plan: str = "") -> str:
    """The page of one layout, of two register layouts (a conversion, which `plan` says how is done), or of
    registers and the memory that they are stored to. It loads nothing."""
    template = files("triton_linear.tools.view").joinpath("page.html").read_text(encoding="utf-8")
    # In a script element only "</" and "<!--" mean something to a browser.
    content = json.dumps(described(subjects, target, plan)).replace("<", "\\u003c")
    return template.replace("@DATA@", content)


def described(subjects: Sequence[Subject], target: Target, plan: str) -> dict[str, Any]:
    """What the page draws from: bases, as everything else follows from them, and what padding adds."""
    layouts: list[dict[str, Any]] = []
    touches: list[dict[str, Any]] = []
    for subject in subjects:
        layout = subject.layout
        record: dict[str, Any] = {
            "text": subject.text,
            "bits": subject.element_bits,
            "bases": [[name, [list(vector) for vector in vectors]] for name, vectors in layout.bases],
            "outs": [list(dim) for dim in layout.out_dims],
        }
        if subject.is_shared:
            memory = Memory(subject, target)
            record["addresses"] = memory.addresses.tolist()
            for registers in subjects:
                if not registers.is_shared:
                    touches += [_touched(touch) for touch in memory.touches(registers.layout)]
        layouts.append(record)
    machine = {"name": target.name, "banks": target.banks, "bankBytes": target.bank_bytes}
    return {"layouts": layouts, "target": machine, "plan": plan, "touches": touches}


def _touched(touch: Touch) -> dict[str, Any]:
    return {
        "registers": list(touch.registers),
        "width": touch.width,
        "addresses": list(touch.addresses),
        "phases": [{"lanes": list(phase.lanes), "banks": phase.banks} for phase in touch.phases],
    }
