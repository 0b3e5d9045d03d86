"""The matrix instructions that move 16-bit words between registers and shared memory, as permutations of bits.

`ldmatrix.trans` reads 8x8 matrices of 16-bit words. Lane i of its address lanes names a row of 16 bytes; lane l
receives two words of column l / 4, those of rows 2 (l % 4) and 2 (l % 4) + 1. So along the bits of the result

    column in a row (3 bits, the lowest of the address) = result lane bits 2, 3, 4
    row in a matrix (3 bits)                            = half of a register, result lane bits 0, 1
    matrix (0, 1 or 2 bits)                             = register bits

and the address lanes count rows, then matrices. `stmatrix.trans` is the reverse (PTX ISA, sections on ldmatrix
and stmatrix). Seen from memory it is a 16-byte access of other lanes; placement need not know more.

Without `.trans` they move whole words, as vectors do, in as many wavefronts. Round trips on an H200 took as
long or longer: the registers that one access takes are then fixed by the lanes, and moves bring them together.
"""

from __future__ import annotations

from dataclasses import dataclass

from triton_linear.dialect import f2

Columns = tuple[int, ...]
_LANE_BITS = 5
_MATRIX_BITS = 2


@dataclass(frozen=True, slots=True)
class Fragment:
    """What one matrix access of a warp covers.

    vector: the lowest address bits, in order: a row.
    lanes: per bit of an address lane, what it adds to the address.
    inner: the register directions that one access covers, the element's position in the access bit by bit.
    outer: the register directions that number the accesses.
    """

    vector: Columns
    lanes: Columns
    inner: Columns
    outer: Columns


def transposed(registers: Columns, lanes: Columns, shared: Columns, element_bytes: int) -> Fragment | None:
    """The transposing access for these registers and lanes, or None where there is none.

    Elements of one byte travel in pairs, along a direction of `shared`, which are registers of both sides.
    """
    if element_bytes > 2 or len(lanes) != _LANE_BITS:
        return None
    pair = shared[: 2 - element_bytes]
    vector = (*pair, *lanes[2:])
    own = f2.extend((*vector, *lanes[:2]), registers)
    if len(pair) < 2 - element_bytes or f2.rank(vector) < len(vector) or not own:
        return None
    half, matrices = own[:1], own[1 : 1 + _MATRIX_BITS]
    inner = (*pair, *half, *matrices)
    outer = f2.extend((*vector, *lanes[:2], *inner), registers)
    covered = f2.Echelon((*inner, *outer))
    if any(register not in covered for register in registers):
        return None
    unused = (0,) * (_MATRIX_BITS - len(matrices))
    return Fragment(
        vector=vector,
        lanes=(*half, *lanes[:2], *matrices, *unused),
        inner=inner,
        outer=outer,
    )
