"""`triton-linear view`: draw a layout, a conversion, or registers and the memory that they are stored to."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from triton_linear.dialect.linear_layout import LANE, WARP
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.tools.support.arguments import FORMATS
from triton_linear.tools.support.console import write
from triton_linear.tools.support.errors import fail
from triton_linear.tools.view import text as texts
from triton_linear.tools.view.fold import tiles_of
from triton_linear.tools.view.memory import access_text, memory_text
from triton_linear.tools.view.places import is_distributed
from triton_linear.tools.view.subject import Subject, check_same_tensor, place_of, subjects

_USUAL_TARGET = "cuda:90"


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
        check_same_tensor(shown[:2])
    kind = arguments.format or _kind_of(arguments.output)
    try:
        content = drawn(shown, kind, arguments.view, target)
    except ValueError as error:
        file, line = place_of(arguments.what) or ("", 0)
        fail(str(error), file, line, min(line, 1))
    _write(content, arguments.output, kind)
    return 0


def _kind_of(output: Path | None) -> str:
    if output is None or output.suffix == ".txt":
        return "text"
    kind = output.suffix.removeprefix(".")
    if kind not in FORMATS:
        fail(f"output: no format is called '{kind}'; say --format={'|'.join(FORMATS)}", str(output))
    return kind


def drawn(shown: Sequence[Subject], kind: str, view: str | None, target: Target) -> bytes:
    """The text, picture or page."""
    if kind == "html":
        from triton_linear.tools.view.page import page

        return page(shown, target, "\n".join(plan_of(shown, target))).encode()
    if kind != "text":
        from triton_linear.tools.view.picture import picture

        return picture(shown, view or "tensor", target)
    return (text_of(shown, view, target) + "\n").encode()


def text_of(shown: Sequence[Subject], view: str | None, target: Target) -> str:
    """The views of all layouts, then the conversion between two: as many rows as fit a screen."""
    for rows in texts.ROWS:
        text = text_of_rows(shown, view, target, rows)
        if text.count("\n") + 1 < texts.MOST_LINES:
            break
    return text


def text_of_rows(shown: Sequence[Subject], view: str | None, target: Target, rows: tuple[int, int]) -> str:
    """The views with at most so many rows of the tensor, and of lanes, of each layout."""
    count, (most, lanes) = len(shown), rows
    tiles = tiles_of([subject.layout for subject in shown], lambda layouts: texts.text_tile(layouts, most))
    parts = []
    for subject, size in zip(shown, tiles, strict=True):
        names = [subject.text if count > 1 or subject.source else ""]
        names += texts.wrapped(subject.source) if subject.source else []
        parts.append("\n".join(filter(None, names)))
        if view in (None, "tensor"):
            body = texts.tensor_text(subject.layout, most, size)
            parts.append("tensor: who holds each element\n" + body)
        if view in (None, "hardware") and is_distributed(subject.layout):
            parts.append("hardware: what each lane holds\n" + texts.hardware_text(subject.layout, lanes))
        if view in (None, "memory") and subject.is_shared:
            parts.append("memory: what is in the banks\n" + memory_text(subject, target, most))
        if view == "matrix" or (view is None and count <= 2):
            parts.append("matrix over F2\n" + texts.matrix_text(subject.layout))
    if count == 2 and view is None and shown[0].layout.out_dims == shown[1].layout.out_dims:
        parts.append("\n".join(part for line in plan_of(shown, target) for part in texts.wrapped(line)))
        for memory in shown:
            parts += [
                access_text(memory, r, target) for r in shown if memory.is_shared and is_distributed(r.layout)
            ]
    return "\n\n".join(filter(None, parts))


def plan_of(shown: Sequence[Subject], target: Target) -> tuple[str, ...]:
    """The lowering of the conversion, and why others were rejected; empty unless both are register layouts."""
    if shown[0].notes:
        return shown[0].notes
    if len(shown) != 2 or shown[0].layout.out_dims != shown[1].layout.out_dims:
        return ("",)
    if not all(is_distributed(subject.layout) for subject in shown):
        return ("",)
    source, destination = shown
    from triton_linear.lowering.planners.select import select
    from triton_linear.lowering.target.situation import Situation

    for subject in shown:
        if subject.layout.in_dim_size(LANE) != target.lanes:
            lanes = subject.layout.in_dim_size(LANE)
            return (
                f"no conversion for {target.name}: '{subject.text}' is for {lanes} lanes, not {target.lanes}",
            )
    if source.layout.in_dim_size(WARP) != destination.layout.in_dim_size(WARP):
        return ("no conversion: the layouts are for different numbers of warps",)
    element = element_type({8: "i8", 16: "f16", 32: "f32", 64: "f64"}.get(source.element_bits, "i1"))
    selection = select(source.layout, destination.layout, element, Situation.on(target))
    how = "left to Triton" if selection.plan is None else selection.plan.summary()
    return (f"conversion on {target.name}: {how}", *(f"  not {rejected}" for rejected in selection.rejected))


def _write(content: bytes, output: Path | None, kind: str) -> None:
    if output is None:
        if kind != "text" and sys.stdout.isatty():
            fail(f"{kind} is not for a terminal: -o FILE")
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return
    write(output, content)
