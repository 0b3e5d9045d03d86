"""Layouts in notebooks: a picture of the tensor if it is small, and the matrix over F2."""

from __future__ import annotations

import base64
import html

from rich.text import Text

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.target.targets import target
from triton_linear.tools.view.places import tensor_grids
from triton_linear.tools.view.subject import Subject
from triton_linear.tools.view.text import beside, grid_lines, matrix_text, painter, picture

MOST_POINTS = 1 << 12
"""The tensor is drawn if the layout has at most as many points, as one of 64x64 elements without copies has."""
MOST_CELLS = 1 << 8
"""The tensor is drawn if the picture has at most as many cells: few are easy to read, and notebooks store
pictures."""
_COLOURED_FOR = "cuda:90"
"""Any target will do: a picture depends only on the number of banks, which is 32 on all targets."""


def svg_of(layout: LinearLayout) -> str | None:
    """A picture of the holders of each element, if there are few, and of the matrix beside it.

    None if there is nothing to draw: the layout is of one point.
    """
    if not layout.total_in_bits or not layout.total_out_bits:
        return None
    parts = [[Text("matrix over F2", "bold"), *matrix_text(layout)]]
    # More than two dimensions would need many slices, and the dimensions of a conversion's layout are no
    # tensor's. The matrix shows these.
    if layout.num_out_dims <= 2 and layout.total_in_bits <= MOST_POINTS.bit_length() - 1:
        (grid,) = tensor_grids(layout)
        if len(grid.rows) * len(grid.columns) <= MOST_CELLS:
            paint = painter(Subject(layout, ""), target(_COLOURED_FOR))
            parts.insert(0, [Text("who holds each element", "bold"), *grid_lines(grid, paint)])
    return picture(beside(parts)).decode()


def explained(text: str, layout: LinearLayout | None) -> str:
    """The text as it is printed, then the picture, as HTML that does not depend on the page around it."""
    parts = [f"<pre>{html.escape(text)}</pre>"]
    picture = None if layout is None else svg_of(layout)
    if picture is not None:
        # As an image, so that the style sheet and the identifiers of a picture do not affect others.
        data = base64.b64encode(picture.encode()).decode()
        parts.append(f'<img alt="the layout" src="data:image/svg+xml;base64,{data}"/>')
    return "\n".join(parts)
