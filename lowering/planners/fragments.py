"""What a transposing access of a warp covers: which registers, which lanes' addresses, in what order.

The instructions, as permutations of bits, are in `transposing`. Seen from memory each is an access of its row's
width by other lanes; placement need not know more.

Without transposing, NVIDIA's matrix instructions move whole words, as vectors do, in as many wavefronts. Round
trips on an H200 took as long or longer: the registers that one access takes are then fixed by the lanes, and
moves bring them together.
"""

from __future__ import annotations

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.planners.transposing import FORMS, Form

Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fragment:
    """What one transposing access of a warp covers, an instruction of `FORMS`.

    vector: the lowest address bits, in order: a row.
    lanes: per bit of an address lane, what it adds to the address.
    inner: the register directions that one access covers, the element's position in the access bit by bit.
    outer: the register directions that number the accesses.
    """

    name: str
    vector: Columns
    lanes: Columns
    inner: Columns
    outer: Columns


def transposed(
    name: str, registers: Columns, lanes: Columns, shared: Columns, element_bytes: int
) -> Fragment | None:
    """The access `name` for these registers and lanes, or None where there is none.

    Elements smaller than what stays together travel side by side, along directions of `shared`, which are
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
