"""Coloured text as SVG."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from xml.sax.saxutils import escape

from rich.style import Style
from rich.text import Span, Text

from triton_linear.tools.view.text import INK

_LETTER, _LINE, _SIZE, _MARGIN = 6.05, 16, 10, 14
"""In pixels; the width of a letter is 0.602 of its size in DejaVu Sans Mono."""
_GAP = 4
"""The columns between two texts beside each other."""
_SOFT = "#5b6472"
_PHRASE = re.compile(r"\S+(?: \S+)*")
_FONT = f'font-family="DejaVu Sans Mono, monospace" font-size="{_SIZE}" xml:space="preserve"'


def beside(texts: Sequence[Sequence[Text]]) -> Iterator[Text]:
    """The lines of texts beside each other."""
    width = max((line.cell_len for text in texts[:-1] for line in text), default=0)
    for lines in zip_longest(*texts, fillvalue=Text()):
        joined = Text()
        for number, line in enumerate(lines):
            joined.pad_right(number * (width + _GAP) - joined.cell_len)
            joined.append_text(line)
        yield joined


def picture(lines: Iterable[Text]) -> bytes:
    """Lines as SVG: a box for each cell, with its text in the middle."""
    boxes, texts, width, height = [], [], 0, 0
    for line in lines:
        width, height = max(width, line.cell_len), height + 1
        y = _MARGIN + (height - 1) * _LINE
        for start, part, style in _parts(line):
            x, wide = _MARGIN + start * _LETTER, len(part) * _LETTER
            align, weight = "", ' font-weight="bold"' if style.bold else ""
            fill = f' fill="{_SOFT}"' if style.dim else ""
            if style.bgcolor is not None:
                x, align = x + wide / 2, ' text-anchor="middle"'
                box = f'x="{x - wide / 2 - _LETTER / 2:g}" y="{y}" width="{wide + _LETTER:g}" height="{_LINE}"'
                boxes.append(f'<rect {box} fill="{style.bgcolor.name}"/>')
                fill = ' fill="#ffffff"' if style.color is not None and style.color.name == "white" else ""
            place = f'x="{x:g}" y="{y + 0.72 * _LINE:g}"'
            texts.append(f"<text {place}{align}{fill}{weight}>{escape(part.strip())}</text>")
    size = f"{2 * _MARGIN + width * _LETTER:g}", f"{2 * _MARGIN + height * _LINE}"
    document = (
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
        f'viewBox="0 0 {size[0]} {size[1]}">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<g stroke="#ffffff" stroke-width="0.8">',
        *boxes,
        f'</g>\n<g {_FONT} fill="{INK}">',
        *texts,
        "</g>\n</svg>\n",
    )
    return "\n".join(document).encode()


def _parts(line: Text) -> Iterator[tuple[int, str, Style]]:
    """The cells of a line, and the texts between that have two blanks around them, with their places."""
    at = 0
    for span in [*sorted(line.spans), Span(len(line), len(line), "")]:
        style = Style.parse(str(span.style))
        parts = [(at, span.start, Style.null()), (span.start, span.end, style)]
        for start, end, own in parts:
            if own.bgcolor is not None:
                yield start, line.plain[start:end], own
            else:
                found = _PHRASE.finditer(line.plain, start, end)
                yield from ((phrase.start(), phrase[0], own) for phrase in found)
        at = span.end
