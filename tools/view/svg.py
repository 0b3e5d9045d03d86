"""Drawings as SVG, which browsers, notebooks and documents show, and most programs convert."""

from __future__ import annotations

from xml.sax.saxutils import escape

from triton_linear.tools.view.drawing import INK, SIZE, Box, Drawing, Text

_BASELINE = 0.35
"""How far the baseline is below the middle of a letter, as a part of its size."""
_ANCHORS = {"left": "", "center": ' text-anchor="middle"', "right": ' text-anchor="end"'}
_FONT = f'font-family="DejaVu Sans Mono, monospace" font-size="{SIZE}" xml:space="preserve"'


def svg(drawing: Drawing) -> bytes:
    """The document; its unit is a pixel."""
    width, height = _number(drawing.width), _number(drawing.height)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<g stroke="#ffffff" stroke-width="0.8">',
        *map(_box, drawing.boxes),
        f'</g>\n<g {_FONT} fill="{INK}">',
        *map(_text, drawing.texts),
        "</g>\n</svg>\n",
    ]
    return "\n".join(lines).encode()


def _box(box: Box) -> str:
    place = f'x="{_number(box.x)}" y="{_number(box.y)}"'
    return f'<rect {place} width="{_number(box.width)}" height="{_number(box.height)}" fill="{box.fill}"/>'


def _text(text: Text) -> str:
    style = _ANCHORS[text.align]
    style += f' fill="{text.colour}"' if text.colour != INK else ""
    style += ' font-weight="bold"' if text.bold else ""
    y = _number(text.y + _BASELINE * SIZE)
    return f'<text x="{_number(text.x)}" y="{y}"{style}>{escape(text.text)}</text>'


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
