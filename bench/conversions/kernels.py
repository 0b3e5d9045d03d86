"""The timed kernel: a loop that converts a tensor from layout A to B and back, and the same loop without.

Nothing may be folded away or hoisted, and nothing may cost time but the conversions. So the tensor crosses from
one conversion to the next through inline assembly, in 32-bit words as loads and matrix instructions leave it,
and each crossing has a branch that is never taken but changes every word. Between iterations the words rest in
named PTX registers: a loop-carried tensor of bytes would be held, and unpacked, one byte to a register.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton.experimental.gluon.language as gl
from triton.experimental import gluon
from triton.experimental.gluon._runtime import GluonASTSource

from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout

from .cases import Case

NEVER = 0x7FFFFFFF
CLOCK_FIELDS = 3  # Per CTA: multiprocessor, first clock, last clock.
_DTYPES = {8: gl.int8, 16: gl.int16, 32: gl.int32, 64: gl.int64}


@gluon.jit
def tensor_offsets(SHAPE: gl.constexpr, LAYOUT: gl.constexpr):
    """Row-major offsets of a tensor of rank one or two."""
    if len(SHAPE) == 1:
        return gl.arange(0, SHAPE[0], LAYOUT)
    else:
        i = gl.arange(0, SHAPE[0], gl.SliceLayout(1, LAYOUT))[:, None]
        return i * SHAPE[1] + gl.arange(0, SHAPE[1], gl.SliceLayout(0, LAYOUT))[None, :]


@gluon.jit
def through(x, TARGET: gl.constexpr, SHAPE: gl.constexpr, PADDED: gl.constexpr):
    """x in the layout `TARGET`: converted, or by hand through the memory layout `PADDED`."""
    if PADDED is None:
        return gl.convert_layout(x, TARGET)
    else:
        memory = gl.allocate_shared_memory(x.dtype, SHAPE, PADDED)
        memory.store(x)
        return memory.load(TARGET)


@gluon.jit
def there_and_back(
    source,
    destination,
    clocks,
    steps,
    never,
    SHAPE: gl.constexpr,
    A: gl.constexpr,
    B: gl.constexpr,
    DTYPE: gl.constexpr,
    CONVERT: gl.constexpr,
    PADDED_A: gl.constexpr,
    PADDED_B: gl.constexpr,
    DECLARE: gl.constexpr,
    KEEP: gl.constexpr,
    KEEP_CONSTRAINTS: gl.constexpr,
    RECALL: gl.constexpr,
    PASS: gl.constexpr,
    PASS_CONSTRAINTS: gl.constexpr,
    PACK_A: gl.constexpr,
    PACK_B: gl.constexpr,
):
    offsets = tensor_offsets(SHAPE, A)
    x = gl.load(source + offsets)
    zero = gl.full(SHAPE, 0, DTYPE, A)
    gl.inline_asm_elementwise(DECLARE, "=r,r", [never], dtype=gl.int32, is_pure=False, pack=1)
    gl.inline_asm_elementwise(KEEP, KEEP_CONSTRAINTS, [x], dtype=x.dtype, is_pure=False, pack=PACK_A)
    unit = gl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=gl.int32, is_pure=False, pack=1)
    first = gl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=gl.int64, is_pure=False, pack=1)
    for _ in range(steps):
        x = gl.inline_asm_elementwise(
            RECALL, KEEP_CONSTRAINTS, [zero], dtype=x.dtype, is_pure=False, pack=PACK_A
        )
        if CONVERT:
            y = through(x, B, SHAPE, PADDED_B)
            y = gl.inline_asm_elementwise(
                PASS, PASS_CONSTRAINTS, [y], dtype=x.dtype, is_pure=False, pack=PACK_B
            )
            x = through(y, A, SHAPE, PADDED_A)
        gl.inline_asm_elementwise(KEEP, KEEP_CONSTRAINTS, [x], dtype=x.dtype, is_pure=False, pack=PACK_A)
    last = gl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=gl.int64, is_pure=False, pack=1)
    x = gl.inline_asm_elementwise(RECALL, KEEP_CONSTRAINTS, [zero], dtype=x.dtype, is_pure=False, pack=PACK_A)
    gl.store(destination + offsets, x)
    record = clocks + 3 * gl.program_id(0)
    gl.store(record, unit.to(gl.int64))
    gl.store(record + 1, first)
    gl.store(record + 2, last)


@dataclass(frozen=True)
class Words:
    """How a layout's registers are packed: `count` PTX registers of `bits`, `pack` elements in all."""

    count: int
    bits: int
    pack: int

    @staticmethod
    def of(layout: LinearLayout, bits: int) -> Words:
        """The words of a thread for elements of `bits` bits."""
        held = layout.in_dim_size(REGISTER)
        width = 64 if bits == 64 else 32
        count = -(-held * bits // width)
        return Words(count, width, count * width // bits)

    def constraints(self) -> str:
        """Every word in, every word out."""
        kind = "l" if self.bits == 64 else "r"
        return ",".join([f"={kind}"] * self.count + [kind] * self.count)

    def keep(self) -> str:
        """Put the words into the kept registers, by way of the branch that is never taken."""
        moves = [f"mov.b{self.bits} kept{i}, ${self.count + i};" for i in range(self.count)]
        return _guarded(moves, [f"kept{i}" for i in range(self.count)], self.bits)

    def recall(self) -> str:
        """Take the words from the kept registers."""
        return "\n".join(f"mov.b{self.bits} ${i}, kept{i};" for i in range(self.count))

    def pass_(self) -> str:
        """Hand the words on, by way of the branch that is never taken."""
        moves = [f"mov.b{self.bits} ${i}, ${self.count + i};" for i in range(self.count)]
        return _guarded(moves, [f"${i}" for i in range(self.count)], self.bits)


def _guarded(moves: list[str], words: list[str], bits: int) -> str:
    changes = [f"not.b{bits} {word}, {word};" for word in words]
    return "\n".join(["{", *moves, "@!taken bra.uni CROSSED;", *changes, "CROSSED:", "}"])


def padded(layout: LinearLayout, other: LinearLayout, bits: int) -> gl.PaddedSharedLayout:
    """The memory of the legacy method for a conversion to `layout`: its fastest dimension first, rows padded.

    The padding is the wider vector of the two sides, as it was before linear layouts.
    """
    rank = len(layout.out_dims)
    shape = [size for _, size in layout.out_dims]
    order = fastest_first(layout)
    vectors = [
        contiguous(side, order[0]) if fastest_first(side)[0] == order[0] else 1 for side in (layout, other)
    ]
    row = shape[order[0]]
    if rank == 1 or row == 1:
        return gl.PaddedSharedLayout.with_identity_for([[max(2, row), 1]], shape, order)
    widest = max(1, 128 // bits)
    return gl.PaddedSharedLayout.with_identity_for([[row, min(widest, max(vectors))]], shape, order)


def fastest_first(layout: LinearLayout) -> list[int]:
    """The dimensions, that along which registers (or lanes) step first at the front."""
    order: list[int] = []
    for dim in (REGISTER, LANE, WARP):
        for bit in range(layout.in_dim_bits(dim) if layout.has_in_dim(dim) else 0):
            order += [axis for axis, value in enumerate(layout.basis(dim, bit)) if value and axis not in order]
    return order + [axis for axis in reversed(range(len(layout.out_dims))) if axis not in order]


def contiguous(layout: LinearLayout, axis: int) -> int:
    """How many neighbours along `axis` the first registers hold."""
    length = 1
    unit = [0] * len(layout.out_dims)
    for bit in range(layout.in_dim_bits(REGISTER)):
        unit[axis] = length
        if tuple(unit) != tuple(layout.basis(REGISTER, bit)):
            break
        length *= 2
    return length


def source(case: Case, a: LinearLayout, b: LinearLayout, method: str) -> GluonASTSource:
    """The kernel of a case as `triton.compile` takes it.

    `method` is "baseline" for the loop without conversions, "legacy" for those through padded memory; every
    other name gives the conversions themselves.
    """
    kept, passed = Words.of(a, case.bits), Words.of(b, case.bits)
    legacy = method == "legacy"
    constants: dict[str, Any] = {
        "SHAPE": tuple(case.shape),
        "A": case.a,
        "B": case.b,
        "DTYPE": _DTYPES[case.bits],
        "CONVERT": method != "baseline",
        "PADDED_A": padded(a, b, case.bits) if legacy else None,
        "PADDED_B": padded(b, a, case.bits) if legacy else None,
        "DECLARE": f".reg .b{kept.bits} kept<{kept.count}>;\n.reg .pred taken;\n"
        f"setp.eq.u32 taken, $1, {NEVER};\nmov.u32 $0, 0;",
        "KEEP": kept.keep(),
        "KEEP_CONSTRAINTS": kept.constraints(),
        "RECALL": kept.recall(),
        "PASS": passed.pass_(),
        "PASS_CONSTRAINTS": passed.constraints(),
        "PACK_A": kept.pack,
        "PACK_B": passed.pack,
    }
    types = {
        "source": f"*i{case.bits}",
        "destination": f"*i{case.bits}",
        "clocks": "*i64",
        "steps": "i32",
        "never": "i32",
    }
    names = list(there_and_back.arg_names)
    signature = {name: types.get(name, "constexpr") for name in names}
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in ("source", "destination", "clocks")}
    return GluonASTSource(there_and_back, signature, constexprs=constants, attrs=aligned)
