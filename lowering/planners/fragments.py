"""The registers and address lanes that a matrix access of a warp covers, in order.

`transposing` has the instructions as permutations of bits. Seen from memory, each is an access of its row's
width by other lanes; placement needs to know no more.
"""

from __future__ import annotations

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.planners.transposing import FORMS, Form

Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fragment:
    """The columns that one matrix access of a warp covers, by the instruction `name` of `FORMS`.

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
