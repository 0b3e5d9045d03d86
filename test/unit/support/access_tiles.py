"""Kernels that access a tile of global memory."""

from __future__ import annotations

import re
from collections.abc import Mapping

from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import LinearLayout

COORDINATES = """\
    %r = tt.make_range {end = $ROWS : i32, start = 0 : i32}
      : tensor<$ROWSxi32, #ttg.slice<{dim = 1, parent = #l}>>
    %c = tt.make_range {end = $COLUMNS : i32, start = 0 : i32}
      : tensor<$COLUMNSxi32, #ttg.slice<{dim = 0, parent = #l}>>
    %r1 = tt.expand_dims %r {axis = 1 : i32}
      : tensor<$ROWSxi32, #ttg.slice<{dim = 1, parent = #l}>> -> tensor<$ROWSx1xi32, #l>
    %c1 = tt.expand_dims %c {axis = 0 : i32}
      : tensor<$COLUMNSxi32, #ttg.slice<{dim = 0, parent = #l}>> -> tensor<1x$COLUMNSxi32, #l>"""
"""TTGIR of the rows and columns of a tile."""
POINTERS = """\
    %c2 = arith.muli %c1, %side : tensor<1x$COLUMNSxi32, #l>
    %r3 = tt.broadcast %r2 : tensor<$ROWSx1xi32, #l> -> tensor<$SHAPExi32, #l>
    %c3 = tt.broadcast %c2 : tensor<1x$COLUMNSxi32, #l> -> tensor<$SHAPExi32, #l>
    %o = arith.addi %r3, %c3 : tensor<$SHAPExi32, #l>
    %b = tt.splat %from : !tt.ptr<$ELEMENT> -> tensor<$SHAPEx!tt.ptr<$ELEMENT>, #l>
    %p = tt.addptr %b, %o : tensor<$SHAPEx!tt.ptr<$ELEMENT>, #l>, tensor<$SHAPExi32, #l>"""
"""TTGIR of the pointers to a tile, from its rows `%r2` and columns, and the strides of the latter."""


class Tile:
    """A kernel for a tile with a layout and a type of elements, which are fields of subclasses."""

    layout: LinearLayout
    element: str

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the tile."""
        rows, columns = (size for _, size in self.layout.out_dims)
        return rows, columns

    def filled(self, kernel: str, **names: str) -> str:
        """The text of a kernel whose words `$NAME` are replaced by `names` and what the tile has."""
        rows, columns = self.shape
        known: Mapping[str, str] = {
            "LAYOUT": encodings.linear_encoding_text(self.layout),
            "ELEMENT": self.element,
            "ROWS": str(rows),
            "COLUMNS": str(columns),
            "SHAPE": f"{rows}x{columns}",
            **names,
        }
        return re.sub(r"\$([A-Z]+)", lambda match: known[match[1]], kernel)
