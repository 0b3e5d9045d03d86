"""The instructions between tensor memory and registers, as data (PTX ISA, tcgen05.ld and tcgen05.st).

Tensor memory has 128 rows ("lanes" in the PTX ISA) of 512 columns of 32 bits. A warp reaches the 32 rows of its
quarter, which is its number modulo 4. An instruction of a shape and a repeat N moves N tiles of that shape,
side by side along the columns: its layout is `tile * identity_1d(N, register, col)`.
"""

from __future__ import annotations

from typing import Final

from triton_linear.dialect.linear_layout import LANE, REGISTER, LinearLayout
from triton_linear.dialect.records import dataclass

ROW: Final = "row"
COL: Final = "col"
ROWS: Final = 128
COLUMNS: Final = 512
WORD_BITS: Final = 32
SINCE: Final = 100
"""The first compute capability that has tensor memory."""

_identity = LinearLayout.identity_1d


@dataclass(frozen=True, slots=True)
class TensorShape:
    """The shape of an instruction; `tile` maps each register and lane to a word (row, column), relative to the
    address.

    rows: the rows that it reaches. most: the greatest repeat. halves: true if the upper half of the lanes has a
    place of its own, given as a distance from the address.
    """

    name: str
    tile: LinearLayout
    rows: int
    most: int
    halves: bool = False

    @property
    def registers(self) -> int:
        """Registers of a thread that one repetition takes."""
        return self.tile.in_dim_size(REGISTER)

    def repeated(self, repeat: int, spread: bool = False) -> LinearLayout:
        """The word of each register and lane, for `repeat` tiles side by side.

        `spread`: a register holds two elements of 16 bits, each in a column of its own (`.pack::16b` and
        `.unpack::16b`); the layout gives the first of the two columns.
        """
        columns = LinearLayout.zeros_1d(1, REGISTER, COL, 2) if spread else LinearLayout.empty()
        return (columns * self.tile * _identity(repeat, REGISTER, COL)).transpose_outs((ROW, COL))


def _tile(*factors: LinearLayout) -> LinearLayout:
    layout = _identity(1, REGISTER, ROW) * _identity(1, LANE, COL)
    for factor in factors:
        layout = layout * factor
    return layout.transpose_ins((REGISTER, LANE)).transpose_outs((ROW, COL))


SHAPES: Final = (
    TensorShape("32x32b", _tile(_identity(32, LANE, ROW)), 32, 128),
    TensorShape(
        "16x256b",
        _tile(
            _identity(2, REGISTER, COL),
            _identity(4, LANE, COL),
            _identity(8, LANE, ROW),
            _identity(2, REGISTER, ROW),
        ),
        16,
        32,
    ),
    TensorShape(
        "16x64b",
        LinearLayout.from_bases(
            [(REGISTER, []), (LANE, [(8, 0), (0, 1), (1, 0), (2, 0), (4, 0)])], {ROW: 16, COL: 2}
        ),
        16,
        128,
    ),
    TensorShape(
        "16x128b",
        _tile(_identity(4, LANE, COL), _identity(8, LANE, ROW), _identity(2, REGISTER, ROW)),
        16,
        64,
    ),
    TensorShape("16x32bx2", _tile(_identity(16, LANE, ROW)), 16, 128, halves=True),
)
"""In the order in which Triton tries them; at most one fits a register layout."""

QUARTER_BASES: Final = ((32, 0), (64, 0))
"""Row and column at which the quarters of warp 1 and warp 2 begin."""
