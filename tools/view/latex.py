"""Drawings as TikZ: a complete document, from which the picture can be copied."""

from __future__ import annotations

from triton_linear.tools.view.drawing import SIZE, Box, Drawing, Text

_POINTS = 0.75
"""The size of a pixel in TeX's unit `bp`."""
_ESCAPED = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    **{sign: f"\\{sign}" for sign in "#$%&_"},
}
_ANCHORS = {"left": "west", "center": "center", "right": "east"}
_HEAD = r"""% made by triton-linear view; any LaTeX with TikZ compiles it: pdflatex FILE
\documentclass[tikz]{standalone}
\usepackage[T1]{fontenc}
\usepackage{lmodern}
"""


def latex(drawing: Drawing) -> bytes:
    """The document. It defines each colour once; y grows downwards, as in the drawing."""
    colours = {
        colour: f"c{at}"
        for at, colour in enumerate(
            sorted({part.fill for part in drawing.boxes} | {part.colour for part in drawing.texts})
        )
    }
    lines = [
        *(f"\\definecolor{{{name}}}{{HTML}}{{{colour[1:].upper()}}}" for colour, name in colours.items()),
        "\\begin{document}",
        f"\\begin{{tikzpicture}}[x={_POINTS}bp, y=-{_POINTS}bp, inner sep=0,",
        f"  font=\\ttfamily\\fontsize{{{SIZE * _POINTS}bp}}{{{1.2 * SIZE * _POINTS}bp}}\\selectfont]",
        f"\\useasboundingbox (0,0) rectangle ({_number(drawing.width)},{_number(drawing.height)});",
        *(_box(box, colours[box.fill]) for box in drawing.boxes),
        *(_text(text, colours[text.colour]) for text in drawing.texts if text.text),
        "\\end{tikzpicture}",
        "\\end{document}",
    ]
    return (_HEAD + "\n".join(lines) + "\n").encode()


def _box(box: Box, colour: str) -> str:
    low, high = (box.x, box.y), (box.x + box.width, box.y + box.height)
    corners = " rectangle ".join(f"({_number(x)},{_number(y)})" for x, y in (low, high))
    return f"\\filldraw[fill={colour}, draw=white] {corners};"


def _text(text: Text, colour: str) -> str:
    written = escaped(text.text)
    if text.bold:
        written = f"\\textbf{{{written}}}"
    place = f"({_number(text.x)},{_number(text.y)})"
    return f"\\node[anchor={_ANCHORS[text.align]}, text={colour}] at {place} {{{written}}};"


def escaped(text: str) -> str:
    """Text with LaTeX's special characters escaped.

    >>> escaped("a_b")
    'a\\\\_b'
    """
    return "".join(_ESCAPED.get(letter, letter) for letter in text)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
