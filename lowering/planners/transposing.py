"""The instructions that read and write rows whose parts are in several lanes, as permutations of bits.

`ldmatrix` reads 8x8 matrices of 16-bit words. Lane i of its address lanes names a row of 16 bytes; lane l
receives the two words 2 (l % 4) and 2 (l % 4) + 1 of row l / 4: 32 bits that stay together. So along the bits
of the result

    32 bits in a row (2 bits, the lowest of the address) = result lane bits 0, 1
    row in a matrix (3 bits)                             = result lane bits 2, 3, 4
    matrix (0, 1 or 2 bits)                              = register bits

and the address lanes count rows, then matrices.

`ldmatrix.trans` transposes each matrix: lane l receives two words of column l / 4, those of rows 2 (l % 4) and
2 (l % 4) + 1. So along the bits of the result

    column in a row (3 bits, the lowest of the address) = result lane bits 2, 3, 4
    row in a matrix (3 bits)                            = half of a register, result lane bits 0, 1
    matrix (0, 1 or 2 bits)                             = register bits

with the same address lanes. `stmatrix` is the reverse, with `.trans` and without (PTX ISA, sections on ldmatrix
and stmatrix).

`ds_read_b64_tr_b16` reads 8 bytes at the address of every lane, four words of 16 bits; within each row of 16
lanes, lane i then receives word i % 4 of the lanes i / 4, 4 + i / 4, 8 + i / 4 and 12 + i / 4.
`ds_read_b64_tr_b8` does so with eight bytes: byte i % 8 of the lanes 2 r + i / 8 for r = 0..7 (CDNA4 ISA, LDS
transposing loads; the permutation as in Triton's lowering of local loads for gfx950). Here too result lanes
number the units of a row, and register bits number rows, which other lanes address.
"""

from __future__ import annotations

from collections.abc import Mapping

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """A matrix access as a permutation of bits.

    unit: bytes that stay together. row: the result lane bits that number units along a row, lowest address bit
    first. lanes: for each bit of an address lane, the result lane bit ("l2") or register bit ("r0") that it is.
    fewest: the least number of register bits; an access with fewer than all ignores the other address lane
    bits.
    """

    unit: int
    row: tuple[int, ...]
    lanes: tuple[str, ...]
    fewest: int

    @property
    def row_bytes(self) -> int:
        """Bytes at the address of a lane."""
        return self.unit << len(self.row)

    @property
    def register_bits(self) -> int:
        """The most register bits of an access."""
        return sum(source.startswith("r") for source in self.lanes)


WORD = 4
"""Bytes of a register of a lane."""
_ROWS = Form(WORD, (0, 1), ("l2", "l3", "l4", "r0", "r1"), fewest=1)
_COLUMNS = Form(2, (2, 3, 4), ("r0", "l0", "l1", "r1", "r2"), fewest=1)
FORMS: Mapping[str, Form] = {
    "ldmatrix": _ROWS,
    "ldmatrix.trans": _COLUMNS,
    "stmatrix": _ROWS,
    "stmatrix.trans": _COLUMNS,
    "ds_read_b64_tr_b16": Form(2, (0, 1), ("l2", "l3", "r0", "r1", "l4", "l5"), fewest=2),
    "ds_read_b64_tr_b8": Form(1, (0, 1, 2), ("l3", "r0", "r1", "r2", "l4", "l5"), fewest=3),
}


def moves_words(name: str) -> bool:
    """True if the matrix instruction of this name moves whole words; False for "", which is none."""
    return bool(name) and FORMS[name].unit == WORD


Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fragment:
    """The columns that one matrix access of a warp covers, by the instruction `name` of `FORMS`. Seen from
    memory it is an access of its row's width by other lanes; placement needs to know no more.

    vector: the columns of a row, the lowest address bits, in order.
    lanes: the column of each bit of an address lane.
    inner: the register columns that one access covers; bit by bit, the element's position in the access.
    outer: the register columns that number the accesses.
    """

    name: str
    vector: Columns
    lanes: Columns
    inner: Columns
    outer: Columns


def matrix_fragment(
    name: str, registers: Columns, lanes: Columns, shared: Columns, element_bytes: int
) -> Fragment | None:
    """The access `name` for these registers and lanes, or None if it does not fit.

    Elements smaller than the unit of the instruction travel side by side, along columns of `shared`, which are
    registers of both sides.
    """
    form = FORMS[name]
    if element_bytes > form.unit or len(lanes) != len({*form.row, *_of(form, "l")}):
        return None
    together = (form.unit // element_bytes).bit_length() - 1
    pair = shared[:together]
    vector = (*pair, *(lanes[lane] for lane in form.row))
    staying = [lanes[lane] for lane in _of(form, "l")]
    own = f2.extend((*vector, *staying), registers)
    if len(pair) < together or f2.rank(vector) < len(vector) or len(own) < form.fewest:
        return None
    taken = own[: form.register_bits]
    inner = (*pair, *taken)
    outer = f2.extend((*vector, *staying, *inner), registers)
    covered = f2.Echelon((*inner, *outer))
    if any(register not in covered for register in registers):
        return None
    by_source = {f"l{lane}": column for lane, column in enumerate(lanes)}
    by_source |= {f"r{bit}": column for bit, column in enumerate(taken)}
    return Fragment(
        name=name,
        vector=vector,
        lanes=tuple(by_source.get(source, 0) for source in form.lanes),
        inner=inner,
        outer=outer,
    )


def _of(form: Form, kind: str) -> list[int]:
    return [int(source[1:]) for source in form.lanes if source.startswith(kind)]
