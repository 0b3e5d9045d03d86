"""Draws the pictures of the documentation from the layouts themselves:  python docs/draw.py"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from triton_linear.dialect.encodings import layout_of

CELL = 27
MARGIN = 24
STYLE = "text{font-family:DejaVu Sans,Verdana,sans-serif;fill:#222}.m{text-anchor:middle}.b{font-weight:bold}"

MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}>"
BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [16, 2], warpsPerCTA = [1, 1], order = [1, 0]}>"
)
PANELS = (
    (MMA, "A: accumulator of mma.sync", "each thread holds pairs"),
    (BLOCKED, "B: row-major for a store", "each thread holds 8 in a row"),
)


def text(x: float, y: float, content: str, size: int, style: str = "") -> str:
    """A line of text, its baseline at y; `style` has m for centred, b for bold."""
    classes = f' class="{style}"' if style else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{classes}>{escape(content)}</text>'


def colour(lane: int) -> str:
    """A light colour of its own for each of 32 lanes."""
    return f"hsl({lane * 360 / 32:.0f},{60 + 25 * (lane % 2)}%,{78 - 10 * (lane // 2 % 2)}%)"


def panel(encoding: str, left: float, top: float, shape: tuple[int, int]) -> list[str]:
    """Every element of the tensor as a cell with the lane and the register that hold it."""
    layout = layout_of(encoding, shape)
    parts = []
    for register in range(layout.in_dim_size("register")):
        for lane in range(layout.in_dim_size("lane")):
            at = layout.apply({"register": register, "lane": lane, "warp": 0, "block": 0})
            x, y = left + at["dim1"] * CELL, top + at["dim0"] * CELL
            fill = f'fill="{colour(lane)}" stroke="#fff"'
            parts.append(f'<rect x="{x:g}" y="{y:g}" width="{CELL}" height="{CELL}" {fill}/>')
            parts.append(text(x + CELL / 2, y + 12, f"t{lane}", 9, "m"))
            parts.append(text(x + CELL / 2, y + 22, f"r{register}", 8, "m"))
    return parts


def document(width: float, height: float, parts: Sequence[str]) -> str:
    """An SVG file with a white ground."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}">'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join((head, f"<style>{STYLE}</style>", ground, *parts, "</svg>\n"))


def layouts() -> str:
    """The two layouts of a 16x16 tensor in one warp that a matmul's epilogue converts between."""
    side = 16 * CELL
    parts = []
    for number, (encoding, title, subtitle) in enumerate(PANELS):
        left = MARGIN + number * (side + 2 * MARGIN)
        parts.append(text(left, MARGIN, title, 16, "b"))
        parts.append(text(left, MARGIN + 18, f"t = thread, r = register; {subtitle}", 12))
        parts += panel(encoding, left, MARGIN + 30, (16, 16))
    return document(2 * side + 4 * MARGIN, side + MARGIN + 30 + MARGIN, parts)


STEPS = (
    ("Triton", "TTGIR", "tt, ttg dialects"),
    ("bridge", "text", "to upstream MLIR"),
    ("passes", "attach, fold,", "select, outline"),
    ("embed", "LLVM dialect", "in each call's place"),
    ("Triton", "LLVM IR", "its own backend"),
    ("GPU code", "PTX, cubin,", "AMDGCN, hsaco"),
)


def pipeline() -> str:
    """The stations of a kernel; those of this package are filled."""
    width, height, gap = 128, 74, 30
    parts = []
    for number, (title, *lines) in enumerate(STEPS):
        left = MARGIN + number * (width + gap)
        ours = 0 < number < 4
        fill, stroke = ("#e7f0fb", "#2f6db5") if ours else ("#f4f4f4", "#888")
        box = f'x="{left}" y="{MARGIN}" width="{width}" height="{height}"'
        parts.append(f'<rect {box} rx="8" fill="{fill}" stroke="{stroke}"/>')
        middle = left + width / 2
        parts.append(text(middle, MARGIN + 24, title, 15, "m b"))
        for row, line in enumerate(lines):
            parts.append(text(middle, MARGIN + 44 + 16 * row, line, 12, "m"))
        if number:
            x, y = left - gap, MARGIN + height / 2
            parts.append(f'<path d="M{x + 4} {y} h{gap - 12} m-6 -5 l6 5 l-6 5" stroke="#444" fill="none"/>')
    total = 2 * MARGIN + len(STEPS) * width + (len(STEPS) - 1) * gap
    return document(total, height + 2 * MARGIN, parts)


def main() -> None:
    folder = Path(__file__).parent / "img"
    folder.mkdir(exist_ok=True)
    (folder / "layouts.svg").write_text(layouts())
    (folder / "pipeline.svg").write_text(pipeline())


if __name__ == "__main__":
    main()
