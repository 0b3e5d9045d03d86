"""What is known about an operation, and what counts for one that is not known."""

from __future__ import annotations

from typing import Final, Literal

from triton_linear.dialect.records import dataclass

Fused = Literal["may", "not on NVIDIA", "never"]
"""Whether LLVM or ptxas may fuse an operation with a neighbour. "not on NVIDIA": there they are instructions of
their own (`ex2`, `rsqrt`, `sqrt`, `div.full`, `cvt`, assembly that works on bits), doubles apart; on AMD GPUs
several."""

_DECIDING: Final = frozenset({"pointer", "offset", "mask", "index", "condition", "bound"})


@dataclass(frozen=True, slots=True)
class Facts:
    """What passes ask about an operation. The defaults let the least happen to it; `UNKNOWN` is the answer for
    operations without a row, which may also fill memory on the chip.

    Values
    roles: what each operand is: pointer, offset, mask, index, condition or bound, which decide about accesses
        and control flow; data, other (the default of a masked load) or memory (a buffer), which do not, nor do
        those that are not listed. None: every integer may decide.
    hands_over: operands are handed to where no analysis follows them.
    decides_by_floats: bits of floats may become integers, masks or what other threads see exchanged.
    elementwise: each element of the results is computed from the same element of the operands, and nothing else
        depends on the layout; or there are no tensors among the operands.
    cast: it only changes the element type, or compares.
    copies: elements of the results are elements of operands, as far as LLVM may see through it.
    multiplies, adds: whether a result may be a product, and an operand a summand, that is fused.

    Places of elements
    view: it only gives elements other coordinates.
    in_place: each element of the one operand stays in its register.
    recomputed: a view that is so cheap that it is repeated for each layout.

    Arithmetic
    clocks: of an SM that a warp takes for one register of each lane; None: as many as an addition of floats.
        0.4 where nobody measured.
    divides: division or remainder of integers.
    integers: arithmetic on integers, which leaves each byte in a register of its own.
    commutes, associative: of two operands, but for NaNs.
    extreme: the lesser or greater of two floats.
    rounds: floats among the results may be rounded.

    Memory
    writes: it may write to the global memory that operands lead to, or does something that is unknown.
    leads_on: its results lead to the memory that its operands lead to.
    loads_pass: a load from global memory may come before it: it neither writes to global memory nor waits for
        what another thread writes there.
    fills: it stores a tensor to memory on the chip.

    Triton's axis analysis
    followed: it derives the result from the operands.
    hints: "same" if `AxisAnalysis` knows as much of the result, "more" if Triton may know more.
    """

    roles: tuple[str, ...] | None = None
    hands_over: bool = False
    decides_by_floats: bool = True
    elementwise: bool = False
    cast: bool = False
    copies: bool = False
    multiplies: Fused = "may"
    adds: Fused = "may"
    view: bool = False
    in_place: bool = False
    recomputed: bool = False
    clocks: float | None = 0.4
    divides: bool = False
    integers: bool = False
    commutes: bool = False
    associative: bool = False
    extreme: bool = False
    rounds: bool = True
    writes: bool = True
    leads_on: bool = False
    loads_pass: bool = False
    fills: bool = False
    followed: bool = False
    hints: Literal["", "same", "more"] = ""

    def at(self, role: str) -> int | None:
        """The number of the operand that has a role."""
        return self.roles.index(role) if self.roles is not None and role in self.roles else None

    @property
    def deciding(self) -> tuple[int, ...] | None:
        """The numbers of the operands that decide about accesses and control flow; None if that is unknown."""
        if self.roles is None:
            return None
        return tuple(number for number, role in enumerate(self.roles) if role in _DECIDING)


UNKNOWN: Final = Facts(fills=True)
Family = dict[str, Facts]


def family(dialect: str, *rows: tuple[str, Facts]) -> dict[str, Facts]:
    """The facts of operations of a dialect, from rows of their names and what they have in common.

    >>> [*family("tt", ("dot dot_scaled", UNKNOWN), ("load", UNKNOWN))]
    ['tt.dot', 'tt.dot_scaled', 'tt.load']
    """
    return {f"{dialect}.{name}": facts for names, facts in rows for name in names.split()}
