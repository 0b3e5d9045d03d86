"""Layouts as notebooks show them: the tensor while it is small, and the matrix over F2."""

from __future__ import annotations

import base64
import html
from importlib.util import find_spec

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.target.targets import target
from triton_linear.tools.view.drawing import Panel
from triton_linear.tools.view.picture import panels_drawn
from triton_linear.tools.view.places import tensor_grids
from triton_linear.tools.view.subject import Subject

MOST_POINTS = 1 << 12
"""Points of a layout whose tensor is drawn; one of 64x64 elements without copies has as many."""
MOST_CELLS = 1 << 8
"""Cells of a tensor that is drawn: as many as are read at a glance, in a document that keeps every picture."""
_COLOURED_FOR = "cuda:90"
"""The number of banks is all that a picture takes of a target, and all have 32."""


def svg_of(layout: LinearLayout) -> str | None:
    """A picture: who holds each element, where these are few, and beside it the matrix.

    None where there is nothing to draw, a layout of one point, or nothing to draw with: no matplotlib.
    """
    if find_spec("matplotlib") is None or not layout.total_in_bits or not layout.total_out_bits:
        return None
    panels: list[Panel] = []
    # More dimensions than two are so many slices, and a conversion's are no tensor's: the matrix shows it all.
    if layout.num_out_dims <= 2 and layout.total_in_bits <= MOST_POINTS.bit_length() - 1:
        (grid,) = tensor_grids(layout)
        if len(grid.rows) * len(grid.columns) <= MOST_CELLS:
            panels.append(Panel(Subject(layout, "who holds each element"), grid))
    panels.append(Panel(Subject(layout, "matrix over F2")))
    return panels_drawn(panels, target(_COLOURED_FOR), "svg").decode()


def explained(text: str, layout: LinearLayout | None) -> str:
    """The text as it is printed, then the picture, as HTML that takes nothing from the page around it."""
    parts = [f"<pre>{html.escape(text)}</pre>"]
    picture = None if layout is None else svg_of(layout)
    if picture is not None:
        # As an image: the style sheet and the identifiers of one picture do not reach others.
        data = base64.b64encode(picture.encode()).decode()
        parts.append(f'<img alt="the layout" src="data:image/svg+xml;base64,{data}"/>')
    return "\n".join(parts)
