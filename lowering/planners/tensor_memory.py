"""The instruction that moves a tensor between tensor memory and registers, from the two layouts.

The conversion from registers to memory, C = registers⁻¹ ∘ memory, maps each register of each thread to its row
and column. An instruction fits if its tile can be divided out of C from the left: the lanes of C are those of
the tile, the registers of the tile are among those of C in any order, and no other basis vector of C reaches
into the tile's rows and columns. The quotient numbers the instructions.

The choice is that of Triton, which emits the code: at most one shape fits a layout, and its greatest repeat is
taken that uses at most half of a thread's registers.
"""

from __future__ import annotations

from typing import Final

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import PADDED_TO_COLUMNS, Release, installed_release
from triton_linear.lowering.plan.plans import Rejected
from triton_linear.lowering.target.tensor_memory import COL, QUARTER_BASES, ROW, SHAPES, WORD_BITS, TensorShape

THREAD_REGISTERS: Final = 256
"""Registers of a thread without `ttg.maxnreg`."""

_PLANNER: Final = "tensor memory"


@dataclass(frozen=True, slots=True)
class TensorAccess:
    """An access to tensor memory: `instructions` of one shape and repeat, each of `words` registers of a
    thread.

    packed: elements in one register. spread: the two elements of a register have a column each. padded: a
    register holds one element, which is narrower. halves: (row, column) distance from the lower half of the
    lanes to the upper one, for a shape that takes it.
    """

    shape: str
    repeat: int
    instructions: int
    words: int
    packed: int = 1
    spread: bool = False
    padded: bool = False
    halves: tuple[int, int] | None = None

    @property
    def registers(self) -> int:
        """Registers of a thread that the access moves."""
        return self.instructions * self.words

    def summary(self) -> str:
        """One line for people.

        >>> TensorAccess("32x32b", 64, 4, 64).summary()
        '4 instructions 32x32b.x64, 256 registers'
        """
        several = "s" * (self.instructions != 1)
        return (
            f"{self.instructions} instruction{several} {self.shape}.x{self.repeat}, {self.registers} registers"
        )


def access_of(
    registers: LinearLayout,
    memory: LinearLayout,
    bits: int,
    most: int = THREAD_REGISTERS,
    release: Release | None = None,
) -> TensorAccess | Rejected:
    """The instructions between registers and tensor memory, as a release of Triton emits them.

    bits: width of an element. most: registers of a thread. release: by default the installed one.

    Requires: both are layouts of one tensor, or `memory` is the layout of a larger one.
    """
    found = release or installed_release()
    if not memory.has_in_dim(ROW) or not memory.has_in_dim(COL):
        return Rejected(_PLANNER, "the memory is no tensor memory")
    if bits > WORD_BITS:
        return Rejected(_PLANNER, f"elements of {bits} bits are wider than a column")
    if (reason := _warps_misplaced(registers, memory)) is not None:
        return Rejected(_PLANNER, reason)
    try:
        conversion = registers.invert_and_compose(memory)
    except ValueError as error:
        return Rejected(_PLANNER, str(error))
    within = _within_cta(conversion)
    if within is None:
        return Rejected(_PLANNER, "registers and memory are spread over the CTAs in different ways")
    return _served(_with_quarters(within), most, bits, found)


def _warps_misplaced(registers: LinearLayout, memory: LinearLayout) -> str | None:
    """The reason why warps cannot reach their rows; None if the first four have a quarter each."""
    for bit, row in ((0, 5), (1, 6)):
        if registers.in_dim_bits(WARP) <= bit:
            return f"{registers.in_dim_size(WARP)} warps do not reach all quarters of the memory"
        held, there = registers.basis(WARP, bit), memory.basis(ROW, row)
        if held != there:
            return f"warp={1 << bit} -> {held}; row={1 << row} is {there}"
    return None


def _within_cta(conversion: LinearLayout) -> LinearLayout | None:
    """The conversion inside one CTA, or None if elements change their CTA."""
    if conversion.has_in_dim(BLOCK) and conversion.has_out_dim(BLOCK):
        return conversion.quotient(BLOCK)
    if conversion.has_in_dim(BLOCK) and conversion.in_dim_size(BLOCK) == 1:
        return conversion.squeeze_ins(BLOCK)
    return None


def _with_quarters(conversion: LinearLayout) -> LinearLayout:
    """The conversion with the first four warps at their quarters, whether those hold copies or not."""
    bases = {name: list(vectors) for name, vectors in conversion.bases}
    bases[WARP][:2] = QUARTER_BASES
    return LinearLayout.from_bases(bases, conversion.out_dims, require_surjective=False)


def _served(conversion: LinearLayout, most: int, bits: int, release: Release) -> TensorAccess | Rejected:
    """The access for elements of `bits`: packed into words, two to a register but each in its own column, or
    padded."""
    conversion = conversion.remove_zero_bases(REGISTER)
    if bits == WORD_BITS:
        return _matched(conversion, most, spread=False)
    packed, width = 1, bits
    quotient: LinearLayout | None = None
    while width < WORD_BITS:
        width *= 2
        divided = conversion.divide_left(LinearLayout.identity_1d(width // bits, REGISTER, COL))
        if divided is None:
            break
        packed, quotient = width // bits, divided
    if quotient is not None:
        return _of_words(quotient, most, bits * packed, release, packed=packed)
    apart = LinearLayout.zeros_1d(1, REGISTER, COL, WORD_BITS // bits)
    if bits == WORD_BITS // 2:
        two = conversion.divide_left(apart * LinearLayout.identity_1d(2, REGISTER, COL))
        if two is not None:
            return _of_words(apart * two, most, WORD_BITS, release, spread=True, packed=2)
    by_register = release in PADDED_TO_COLUMNS
    if by_register and conversion.out_dim_size(COL) * bits < WORD_BITS:  # all columns together are below a word
        conversion = conversion.resize_out_dim(COL, WORD_BITS // bits)
    quotient = conversion.divide_left(apart)
    if quotient is None:
        return Rejected(_PLANNER, "elements lie neither side by side nor in a column each")
    spread = bits == WORD_BITS // 2 and not by_register
    words = apart * quotient if spread else quotient
    return _of_words(words, most, WORD_BITS, release, spread=spread, padded=True)


def _of_words(
    conversion: LinearLayout,
    most: int,
    bits: int,
    release: Release,
    *,
    packed: int = 1,
    spread: bool = False,
    padded: bool = False,
) -> TensorAccess | Rejected:
    """The access in units of `bits`: a word, or less if fewer elements lie side by side."""
    if bits < WORD_BITS:
        found = _served(conversion, most, bits, release)
    else:
        found = _matched(conversion.remove_zero_bases(REGISTER), most, spread)
    if isinstance(found, Rejected):
        return found
    return TensorAccess(
        found.shape,
        found.repeat,
        found.instructions,
        found.words,
        packed * found.packed,
        spread or found.spread,
        padded or found.padded,
        found.halves,
    )


def _matched(conversion: LinearLayout, most: int, spread: bool) -> TensorAccess | Rejected:
    """The access for a conversion of whole words: the first shape that fits, with the greatest repeat."""
    registers = conversion.in_dim_size(REGISTER)
    limit = most // 2
    if most == THREAD_REGISTERS and registers > limit:
        limit //= 2  # as Triton has it, for the sake of ptxas' scheduler
    misfit = ""
    for shape in SHAPES:
        repeat = 0
        while (tried := max(1, 2 * repeat)) * shape.registers <= limit:
            reason = _misfit(conversion, shape, tried, spread)
            if reason is not None:
                misfit = misfit or reason
                break
            repeat = tried
        if repeat:
            words = repeat * shape.registers
            halves = None
            if shape.halves:
                row, column = conversion.transpose_outs((ROW, COL)).basis(LANE, 4)
                halves = row, column
            return TensorAccess(shape.name, repeat, registers // words, words, spread=spread, halves=halves)
    return Rejected(_PLANNER, f"no instruction serves the layout: {misfit}")


def _misfit(conversion: LinearLayout, shape: TensorShape, repeat: int, spread: bool) -> str | None:
    """The basis vector that does not fit the instruction's tile, as text; None if all fit."""
    tile = shape.repeated(repeat, spread)
    whole = conversion.transpose_outs((ROW, COL))
    wanted = [tile.basis(REGISTER, bit) for bit in range(tile.in_dim_bits(REGISTER))]
    rest: list[tuple[str, tuple[int, ...]]] = []
    held = [whole.basis(REGISTER, bit) for bit in range(whole.in_dim_bits(REGISTER))]
    for basis in wanted:
        if basis not in held:
            return f"no register -> {basis}, as {shape.name} has"
        held.remove(basis)
    rest += [("register", basis) for basis in held]
    for bit in range(whole.in_dim_bits(LANE)):
        basis = whole.basis(LANE, bit)
        if bit >= tile.in_dim_bits(LANE):
            rest.append((f"lane={1 << bit}", basis))
        elif basis != tile.basis(LANE, bit):
            return f"lane={1 << bit} -> {basis}; {shape.name} has {tile.basis(LANE, bit)}"
    rest += [(f"warp={1 << bit}", whole.basis(WARP, bit)) for bit in range(2, whole.in_dim_bits(WARP))]
    rows = (shape.rows - 1) | sum(row for row, _ in QUARTER_BASES)
    columns = tile.out_dim_size(COL) - 1
    for name, basis in rest:
        if basis[0] & rows or basis[1] & columns:
            return f"{name} -> {basis} is inside the tile of {shape.name}"
    return None
