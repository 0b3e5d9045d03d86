"""Handlers of arithmetic in Triton's own lowerings: division, extrema and floats.

A float operation rounds once, to nearest even, as the machine does; bf16 is computed in f32, which has
enough bits for a second rounding to change nothing. The payload of a NaN is not modelled. A result is undefined
if any bit of an operand is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.lowering.interpreter.memory import Bits, SimulationError
from triton_linear.lowering.interpreter.ops import Handler, computed, each_slot, signed
from triton_linear.lowering.interpreter.program import Builder, Machine, Tree, scalar_mask

Floats: TypeAlias = npt.NDArray[Any]
_HALF: Final = np.uint64(16)
_FORMATS: Final[dict[str, type]] = {"f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64}
_CARRIERS: Final = {16: np.uint16, 32: np.uint32, 64: np.uint64}


# Integers


def _division(quotient: bool, is_signed: bool) -> Handler:
    def handler(build: Builder, op: ir.Operation) -> Tree:
        bits = build.bits_of(op.results[0])
        limit = scalar_mask(bits)

        def divided(a: Bits, b: Bits) -> Bits:
            if is_signed:
                x, y = signed(a, bits).view(np.int64), signed(b, bits).view(np.int64)
                # Towards zero: numpy's fmod is, its division is not.
                rest = np.fmod(x, y)
                found = ((x - rest) // y if quotient else rest).view(np.uint64)
            else:
                found = a // b if quotient else a % b
            return np.bitwise_and(found, limit)

        def one(a: int, b: int) -> int:
            d = build.new()
            build.alu["arithmetic"] += 1

            def step(machine: Machine) -> None:
                divisor = machine.values[b]
                if (machine.executing(divisor) == 0).any():
                    raise SimulationError("division by zero")
                machine.values[d] = divided(machine.values[a], np.where(divisor == 0, np.uint64(1), divisor))
                if machine.undefined:
                    machine.taint(d, bits, a, b)

            build.emit(step)
            return d

        return each_slot(build.operands(op), one)

    return handler


def _extremum(choose: Callable[[Any, Any], Any], is_signed: bool) -> Handler:
    def handler(build: Builder, op: ir.Operation) -> Tree:
        bits = build.bits_of(op.results[0])
        flip = np.uint64(1 << (bits - 1)) if is_signed else np.uint64(0)

        def chosen(a: Bits, b: Bits) -> Bits:
            found: Bits = np.bitwise_xor(choose(a ^ flip, b ^ flip), flip)
            return found

        return computed(build, build.operands(op), chosen, bits, "arithmetic")

    return handler


# Floats


def _format(value: ir.Value) -> str:
    """The float type of a scalar or of a vector's elements: f16, bf16, f32 or f64."""
    text = str(value.type)
    name = text.rpartition("x")[2].rstrip(">") if text.startswith("vector") else text
    if name not in _FORMATS:
        raise SimulationError(f"arithmetic on '{text}' is not interpreted")
    return name


def decoded(pattern: Bits, name: str) -> Floats:
    """Bit patterns as floats; bf16 as f32."""
    if name == "bf16":
        return np.asarray((pattern << _HALF).astype(np.uint32).view(np.float32))
    dtype = _FORMATS[name]
    return np.asarray(pattern.astype(_CARRIERS[np.dtype(dtype).itemsize * 8]).view(dtype))


def encoded(value: Floats, name: str) -> Bits:
    """Floats as bit patterns of a format, rounded to nearest even."""
    if name == "bf16":
        word = value.astype(np.float32).view(np.uint32).astype(np.uint64)
        even = (word + np.uint64(0x7FFF) + ((word >> _HALF) & np.uint64(1))) >> _HALF
        return np.asarray(np.where(np.isnan(value), np.uint64(0x7FC0), even))
    dtype = np.dtype(_FORMATS[name])
    carried = value.astype(dtype).view(_CARRIERS[dtype.itemsize * 8])
    return np.asarray(carried.astype(np.uint64))


def _float(function: Callable[..., Floats]) -> Handler:
    def handler(build: Builder, op: ir.Operation) -> Tree:
        name, bits = _format(op.results[0]), build.bits_of(op.results[0])

        def found(*patterns: Bits) -> Bits:
            return encoded(function(*(decoded(pattern, name) for pattern in patterns)), name)

        return computed(build, build.operands(op), found, bits, "float")

    return handler


# The ordered predicates of the LLVM dialect by number. The unordered ones follow in the same order from
# _OR_UNORDERED on.
_ORDERED: Final[dict[int, Callable[[Floats, Floats], npt.NDArray[np.bool_]]]] = {
    1: np.equal,
    2: np.greater,
    3: np.greater_equal,
    4: np.less,
    5: np.less_equal,
    6: lambda a, b: np.less(a, b) | np.greater(a, b),
}
_OR_UNORDERED: Final = 8
_ORD: Final = 7
_UNO: Final = 14


def _fcmp(build: Builder, op: ir.Operation) -> Tree:
    predicate, name = op.attributes["predicate"].value, _format(op.operands[0])

    def compared(x: Bits, y: Bits) -> Bits:
        a, b = decoded(x, name), decoded(y, name)
        unordered = np.isnan(a) | np.isnan(b)
        if predicate in (_ORD, _UNO):
            return (unordered if predicate == _UNO else ~unordered).astype(np.uint64)
        if predicate in _ORDERED:
            return (_ORDERED[predicate](a, b) & ~unordered).astype(np.uint64)
        if predicate - _OR_UNORDERED + 1 in _ORDERED:
            return (_ORDERED[predicate - _OR_UNORDERED + 1](a, b) | unordered).astype(np.uint64)
        raise SimulationError("a comparison that is always true or false is not interpreted")

    return computed(build, build.operands(op), compared, 1, "compare")


def _float_cast(build: Builder, op: ir.Operation) -> Tree:
    source, result = _format(op.operands[0]), _format(op.results[0])
    if source == "f64" and result == "bf16":
        raise SimulationError("rounding f64 to bf16 is not interpreted")
    bits = build.bits_of(op.results[0])

    def cast(x: Bits) -> Bits:
        return encoded(decoded(x, source).astype(_FORMATS[result]), result)

    return computed(build, build.operands(op), cast, bits, "convert")


def _from_integer(is_signed: bool) -> Handler:
    def handler(build: Builder, op: ir.Operation) -> Tree:
        source, name = build.bits_of(op.operands[0]), _format(op.results[0])
        bits = build.bits_of(op.results[0])
        if name == "bf16" and source > 16:
            raise SimulationError("rounding a wide integer to bf16 is not interpreted")

        def cast(x: Bits) -> Bits:
            value = signed(x, source).view(np.int64) if is_signed else x
            return encoded(value.astype(_FORMATS[name]), name)

        return computed(build, build.operands(op), cast, bits, "convert")

    return handler


def _negated(value: Floats) -> Floats:
    result: Floats = -value
    return result


# llvm.is.fpclass: bits of its mask for signalling and quiet NaNs.
_NAN_CLASSES: Final = 3


def is_class(build: Builder, operands: list[Tree], name: str) -> Tree:
    """`llvm.is.fpclass` for NaNs; other classes are refused."""
    value, mask = operands
    if build.constants.get(build.scalar(mask)) != _NAN_CLASSES:
        raise SimulationError("a test for a class of floats but NaN is not interpreted")
    return computed(build, [value], lambda x: np.isnan(decoded(x, name)).astype(np.uint64), 1, "compare")


OPERATIONS: Final[dict[str, Handler]] = {
    "llvm.udiv": _division(quotient=True, is_signed=False),
    "llvm.urem": _division(quotient=False, is_signed=False),
    "llvm.sdiv": _division(quotient=True, is_signed=True),
    "llvm.srem": _division(quotient=False, is_signed=True),
    "llvm.intr.umin": _extremum(np.minimum, is_signed=False),
    "llvm.intr.umax": _extremum(np.maximum, is_signed=False),
    "llvm.intr.smin": _extremum(np.minimum, is_signed=True),
    "llvm.intr.smax": _extremum(np.maximum, is_signed=True),
    "llvm.fadd": _float(np.add),
    "llvm.fsub": _float(np.subtract),
    "llvm.fmul": _float(np.multiply),
    "llvm.fdiv": _float(np.divide),
    "llvm.fneg": _float(_negated),
    "llvm.intr.fabs": _float(np.abs),
    "llvm.intr.maxnum": _float(np.fmax),
    "llvm.intr.minnum": _float(np.fmin),
    "llvm.intr.maximum": _float(np.maximum),
    "llvm.intr.minimum": _float(np.minimum),
    "llvm.fcmp": _fcmp,
    "llvm.fpext": _float_cast,
    "llvm.fptrunc": _float_cast,
    "llvm.sitofp": _from_integer(is_signed=True),
    "llvm.uitofp": _from_integer(is_signed=False),
}
