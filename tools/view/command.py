"""`triton-linear view`: draw a layout, a conversion, or registers and the memory that they are stored to."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from triton_linear.dialect.linear_layout import LANE, WARP
from triton_linear.gluon.conversions import ConversionCost
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.planners.shared_access import Touch
from triton_linear.lowering.target.phases import BANK_BYTES
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.tools.support.errors import fail
from triton_linear.tools.support.inputs import write
from triton_linear.tools.view import text as texts
from triton_linear.tools.view.fold import Sizes, tile_of, tiles_of, words
from triton_linear.tools.view.memory import Memory, access_lines, is_drawn
from triton_linear.tools.view.places import is_distributed
from triton_linear.tools.view.subject import Subject, place_of, subjects
from triton_linear.tools.view.text import beside, painter, picture, thread_colour

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


FORMATS = ("text", "svg", "html")
_USUAL_TARGET = "cuda:90"
_NARROWEST = 76
"""The minimum width of a panel of a picture, so that the name of an encoding needs only a few lines."""


def run(arguments: argparse.Namespace) -> int:
    """Draw the layouts that the arguments name; the exit status is 0."""
    try:
        target = target_called(arguments.target or _USUAL_TARGET)
    except ValueError as error:
        fail(str(error))
    shown = subjects(arguments.what, arguments.shape, arguments.element, arguments.target)
    if arguments.to is not None:
        first = dataclasses.replace(shown[0], notes=())
        shown = (first, subjects(arguments.to, arguments.shape, arguments.element, arguments.target)[-1])
        dims = [one.layout.out_dims for one in shown]
        if dims[0] != dims[1]:
            fail(f"the layouts are of different tensors: {dims[0]} and {dims[1]}")
    kind = _kind_of(arguments.output)
    try:
        if arguments.output is None and sys.stdout.isatty():
            for line in text_of(shown, arguments.view, target):
                Console().print(line, soft_wrap=True)
            return 0
        content = drawn(shown, kind, arguments.view, target)
    except ValueError as error:
        file, line_number, _ = place_of(arguments.what) or ("", 0, "")
        fail(str(error), file, line_number, min(line_number, 1))
    if arguments.output is not None:
        write(str(arguments.output), content)
    else:
        sys.stdout.write(content.decode())
    return 0


def _kind_of(output: Path | None) -> str:
    if output is None or output.suffix == ".txt":
        return "text"
    kind = output.suffix.removeprefix(".")
    if kind not in FORMATS:
        fail(f"output: no format is called '{kind}'; there are {', '.join(FORMATS)}", str(output))
    return kind


def drawn(shown: Sequence[Subject], kind: str, view: str | None, target: Target) -> bytes:
    """The text, picture or page."""
    if kind == "html":
        from triton_linear.tools.view.command import page

        return page(shown, target, "\n".join(plan_of(shown, target))).encode()
    if kind == "svg":
        return picture(lines_of_picture(shown, view or "tensor", target))
    return "".join(f"{line.plain.rstrip()}\n" for line in text_of(shown, view, target)).encode()


def text_of(shown: Sequence[Subject], view: str | None, target: Target) -> list[Text]:
    """The views of all layouts, then the conversion between two: as many rows as fit a screen."""
    for rows in texts.ROWS:
        text = text_of_rows(shown, view, target, rows)
        if len(text) < texts.MOST_LINES:
            break
    return text


def text_of_rows(
    shown: Sequence[Subject], view: str | None, target: Target, rows: tuple[int, int]
) -> list[Text]:
    """The views with at most so many rows of the tensor, and of lanes, of each layout."""
    parts: list[list[Text]] = []
    for subject, sections in zip(shown, _sections(shown, view, target, rows), strict=True):
        names = [Text(subject.text, "bold")] if len(shown) > 1 or subject.source else []
        parts += [[*names, *(texts.wrapped(subject.source) if subject.source else [])], *sections]
    if len(shown) == 2 and view is None and shown[0].layout.out_dims == shown[1].layout.out_dims:
        parts.append([part for line in plan_of(shown, target) for part in texts.wrapped(line)])
        for memory in filter(is_drawn, shown):
            parts += [
                [part for line in access_lines(memory, registers, target) for part in texts.wrapped(line)]
                for registers in shown
                if is_distributed(registers.layout)
            ]
    return [line for part in parts if any(part) for line in (Text(), *part)][1:]


def _sections(
    shown: Sequence[Subject], view: str | None, target: Target, rows: tuple[int, int]
) -> Iterator[list[list[Text]]]:
    """The views of each layout, each with a line that says what it shows."""
    most, lanes = rows
    tiles = tiles_of([subject.layout for subject in shown], lambda layouts: texts.text_tile(layouts, most))
    for subject, size in zip(shown, tiles, strict=True):
        layout, paint = subject.layout, painter(subject, target)
        found = []
        if view in (None, "tensor"):
            body = texts.tensor_text(layout, paint, size)
            found.append([Text("tensor: who holds each element"), *body])
        if view in (None, "hardware") and is_distributed(layout):
            body = texts.hardware_text(layout, paint, lanes)
            found.append([Text("hardware: what each lane holds"), *body])
        if view in (None, "memory") and subject.is_shared:
            body = texts.memory_text(Memory(subject, target), paint, most)
            found.append([Text("memory: what is in the banks"), *body])
        if view == "matrix" or (view is None and len(shown) <= 2):
            found.append([Text("matrix over F2"), *texts.matrix_text(layout)])
        yield found


def lines_of_picture(shown: Sequence[Subject], view: str, target: Target) -> list[Text]:
    """One view of the layouts, two beside each other."""
    for subject in shown:
        if view == "hardware" and not is_distributed(subject.layout):
            fail("view: lanes hold nothing of a layout of memory; its views are tensor, memory and matrix")
        if view == "memory" and not subject.is_shared:
            views = "tensor, hardware and matrix"
            fail(f"view: only layouts of shared memory have banks; this one's views are {views}")
    rows = texts.ROWS[0 if len(shown) <= 2 else 1]
    blocks = []
    for subject, ((_, *body),) in zip(shown, _sections(shown, view, target, rows), strict=True):
        wide = max(_NARROWEST, *(line.cell_len for line in body))
        known = [subject.encoding if subject.encoding != subject.text else "", subject.source]
        heading = [Text(line, "bold") for line in textwrap.wrap(subject.text, wide)]
        heading += [Text(line, texts.HEADS) for note in known for line in textwrap.wrap(note, wide)]
        blocks.append((heading, body))
    lines: list[Text] = []
    for first in range(0, len(blocks), 2):
        pair = blocks[first : first + 2]
        high = max(len(heading) for heading, _ in pair)
        padded = [[*heading, *[Text()] * (high - len(heading) + 1), *body] for heading, body in pair]
        lines += [*[Text()] * bool(lines), *beside(padded)]
    return lines


def plan_of(shown: Sequence[Subject], target: Target) -> tuple[str, ...]:
    """The lowering of the conversion, and why others were rejected; empty unless both are register layouts."""
    if shown[0].notes:
        return shown[0].notes
    if len(shown) != 2 or shown[0].layout.out_dims != shown[1].layout.out_dims:
        return ()
    if not all(is_distributed(subject.layout) for subject in shown):
        return ()
    source, destination = shown
    element = element_type({8: "i8", 16: "f16", 32: "f32", 64: "f64"}.get(source.element_bits, "i1"))
    selection = select(source.layout, destination.layout, element, Situation.on(target))
    if selection.plan is None:
        return (f"no conversion on {target.name}", *(f"  {reason}" for reason in selection.rejected))
    return tuple(f"conversion on {target.name}: {ConversionCost.of(selection)}".split("\n"))
