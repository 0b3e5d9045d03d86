"""The compiled kernel: a loop that converts a tensor from layout A to B and back, and the same loop without.

Nothing may be folded away or hoisted, and nothing may be in the loop but the conversions. So the tensor enters,
crosses from one conversion to the next and leaves through inline assembly that has no instructions, in words of
32 bits (64 for elements of 64) as loads and matrix instructions leave it. The compiler takes the words on one
side of it for new ones in any registers, as the results of arithmetic would be. A kernel of this kind computes
nothing: it is there to be compiled.
"""

from __future__ import annotations

from typing import Any

import triton.experimental.gluon.language as gl
from triton.experimental import gluon
from triton.experimental.gluon._runtime import GluonASTSource

from bench.conversions.cases import Case
from bench.conversions.kernels import Words
from triton_linear.dialect.linear_layout import LinearLayout

ENTER, CROSS, LEAVE = "; the tensor enters", "; the tensor crosses", "; the tensor leaves"
_DTYPES = {8: gl.int8, 16: gl.int16, 32: gl.int32, 64: gl.int64}


@gluon.jit
def there_and_back(
    steps,
    SHAPE: gl.constexpr,
    A: gl.constexpr,
    B: gl.constexpr,
    DTYPE: gl.constexpr,
    CONVERT: gl.constexpr,
    ENTER: gl.constexpr,
    ENTERS: gl.constexpr,
    CROSS: gl.constexpr,
    CROSSES: gl.constexpr,
    LEAVE: gl.constexpr,
    LEAVES: gl.constexpr,
    PACK_A: gl.constexpr,
    PACK_B: gl.constexpr,
):
    zero = gl.full(SHAPE, 0, DTYPE, A)
    for _ in range(steps):
        x = gl.inline_asm_elementwise(ENTER, ENTERS, [zero], dtype=zero.dtype, is_pure=False, pack=PACK_A)
        if CONVERT:
            y = gl.convert_layout(x, B)
            y = gl.inline_asm_elementwise(CROSS, CROSSES, [y], dtype=zero.dtype, is_pure=False, pack=PACK_B)
            x = gl.convert_layout(y, A)
        gl.inline_asm_elementwise(LEAVE, LEAVES, [x], dtype=zero.dtype, is_pure=False, pack=PACK_A)


def _constraints(words: Words, given: str) -> str:
    """Every word out in vector registers, every word in as `given` says."""
    return ",".join(["=v"] * words.count + [given] * words.count)


def source(case: Case, a: LinearLayout, b: LinearLayout, convert: bool = True) -> GluonASTSource:
    """The kernel of a case as `triton.compile` takes it; the loop without conversions if not `convert`."""
    held, crossing = Words.of(a, case.bits), Words.of(b, case.bits)
    constants: dict[str, Any] = {
        "SHAPE": tuple(case.shape),
        "A": case.a,
        "B": case.b,
        "DTYPE": _DTYPES[case.bits],
        "CONVERT": convert,
        "ENTER": ENTER,
        # What enters is the constant zero, which takes no register.
        "ENTERS": _constraints(held, "I"),
        "CROSS": CROSS,
        "CROSSES": _constraints(crossing, "v"),
        "LEAVE": LEAVE,
        "LEAVES": _constraints(held, "v"),
        "PACK_A": held.pack,
        "PACK_B": crossing.pack,
    }
    names = list(there_and_back.arg_names)
    signature = {name: {"steps": "i32"}.get(name, "constexpr") for name in names}
    return GluonASTSource(there_and_back, signature, constexprs=constants)
