"""Handlers of the LLVM dialect's arithmetic, casts, vectors and aggregates.

Undefined bits: bitwise operations, shifts by a defined amount, truncation and packing track them bit by bit;
the result of any other operation is undefined if any operand bit is. Poison (an `llvm.mlir.poison` element, a
shift beyond the width, a broken `disjoint`) makes the whole result undefined.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.lowering.interpreter.memory import Bits, SimulationError
from triton_linear.lowering.interpreter.program import (
    POISON,
    Aggregate,
    Builder,
    Machine,
    Scalar,
    Tree,
    Type,
    constant_bits,
    leaves,
    scalar_mask,
)

Flags: TypeAlias = npt.NDArray[np.bool_]
Handler: TypeAlias = Callable[[Builder, ir.Operation], "Tree | None"]
_ZERO: Final = np.uint64(0)
_NOTHING: Final = re.compile(r"\[(\{\}(, )?)*\]")
_OVERFLOW: Final = re.compile(r"overflow<([^>]*)>")
_ONES: Final = np.array([value.bit_count() for value in range(256)], np.uint64)


def each_slot(operands: list[Tree], function: Callable[..., int]) -> Tree:
    """Apply `function` to corresponding slots of equal trees; poison in, poison out."""
    if all(isinstance(x, int) for x in operands):
        return POISON if POISON in operands else function(*operands)
    return tuple(each_slot(list(parts), function) for parts in zip(*operands, strict=True))


def overflow_flags(build: Builder, op: ir.Operation) -> frozenset[str]:
    """The overflow flags of an operation, `nsw` and `nuw`."""
    if not build.has_flags or (found := _OVERFLOW.search(str(op).split(":", maxsplit=1)[0])) is None:
        return frozenset()
    return frozenset(found[1].replace(" ", "").split(","))


def refuse_flags(build: Builder, op: ir.Operation) -> None:
    if overflow_flags(build, op):
        raise SimulationError("overflow flags are not interpreted")


# Constants and aggregates


def float_pattern(value: float, bits: int, brain: bool) -> int:
    """Bits of a float of 16, 32 or 64 bits; `brain` for bf16."""
    if brain:
        return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16
    code, carrier = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}[bits]
    return int(struct.unpack(carrier, struct.pack(code, value))[0])


def _constant(build: Builder, op: ir.Operation) -> Tree:
    attribute = op.attributes["value"]
    type_ = build.type_of(op.results[0])
    bits = build.bits_of(op.results[0])
    if isinstance(attribute, ir.IntegerAttr):
        return build.constant(attribute.value, bits)
    if isinstance(attribute, ir.BoolAttr):
        return build.constant(int(attribute.value), bits)
    if isinstance(attribute, ir.FloatAttr):
        return build.constant(float_pattern(attribute.value, bits, "bf16" in str(attribute.type)), bits)
    if isinstance(attribute, ir.DenseIntElementsAttr) and isinstance(type_, Aggregate):
        return tuple(build.constant(int(attribute[i]), bits) for i in range(len(type_.fields)))
    if isinstance(attribute, ir.DenseFPElementsAttr) and isinstance(type_, Aggregate) and attribute.is_splat:
        one = ir.FloatAttr(attribute.get_splat_value())
        pattern = float_pattern(one.value, bits, "bf16" in str(one.type))
        return (build.constant(pattern, bits),) * len(type_.fields)
    raise SimulationError(f"constant {attribute} is not interpreted")


def filled(type_: Type, slot: int) -> Tree:
    """A tree of the shape of a type, with `slot` for every scalar."""
    return slot if isinstance(type_, Scalar) else tuple(filled(field, slot) for field in type_.fields)


def _undef(build: Builder, op: ir.Operation) -> Tree:
    return filled(build.type_of(op.results[0]), build.undefined_slot)


def _poison(build: Builder, op: ir.Operation) -> Tree:
    return filled(build.type_of(op.results[0]), POISON)


def _zero(build: Builder, op: ir.Operation) -> Tree:
    return filled(build.type_of(op.results[0]), build.constant(0, 64))


def _extract_value(build: Builder, op: ir.Operation) -> Tree:
    tree = build.tree(op.operands[0])
    for index in op.attributes["position"]:
        assert isinstance(tree, tuple)
        tree = tree[index]
    return tree


def _insert_value(build: Builder, op: ir.Operation) -> Tree:
    container, value = build.operands(op)
    return _replaced(container, list(op.attributes["position"]), value)


def _replaced(tree: Tree, path: list[int], value: Tree) -> Tree:
    if not path:
        return value
    assert isinstance(tree, tuple)
    index = path[0]
    return (*tree[:index], _replaced(tree[index], path[1:], value), *tree[index + 1 :])


def _index(build: Builder, tree: Tree) -> int:
    slot = build.scalar(tree)
    if slot not in build.constants:
        raise SimulationError("a vector index that is not a constant is not interpreted")
    return build.constants[slot]


def _extract_element(build: Builder, op: ir.Operation) -> Tree:
    vector, position = build.operands(op)
    assert isinstance(vector, tuple)
    index = _index(build, position)
    return vector[index] if index < len(vector) else POISON


def _insert_element(build: Builder, op: ir.Operation) -> Tree:
    vector, value, position = build.operands(op)
    assert isinstance(vector, tuple)
    index = _index(build, position)
    if index >= len(vector):
        return (POISON,) * len(vector)
    return (*vector[:index], value, *vector[index + 1 :])


def _shuffle_vector(build: Builder, op: ir.Operation) -> Tree:
    first, second = build.operands(op)
    both = leaves(first) + leaves(second)
    return tuple(both[index] if index >= 0 else POISON for index in op.attributes["mask"])


# Integers


def _bitwise(name: str, fn: Callable[[Bits, Bits], Bits]) -> Handler:
    def rule(machine: Machine, d: int, a: int, b: int) -> None:
        undefined = machine.undefined
        if a not in undefined and b not in undefined:
            return
        ua, ub = undefined.get(a, constant_bits(0)), undefined.get(b, constant_bits(0))
        va, vb = machine.values[a], machine.values[b]
        if name == "xor":
            mask = ua | ub
        elif name == "and":  # a defined 0 decides
            mask = (ua & ub) | (ua & vb) | (ub & va)
        else:  # a defined 1 decides
            mask = (ua & ub) | (ua & ~vb) | (ub & ~va)
        undefined[d] = np.bitwise_or.reduce(mask, axis=0, keepdims=True)

    def handler(build: Builder, op: ir.Operation) -> Tree:
        disjoint = name == "or" and "isDisjoint" in op.attributes
        bits = build.bits_of(op.results[0])

        def one(a: int, b: int) -> int:
            d = build.new()
            build.alu["logic"] += 1

            def step(machine: Machine) -> None:
                values = machine.values
                values[d] = fn(values[a], values[b])
                if machine.undefined:
                    rule(machine, d, a, b)
                if disjoint and (overlap := (values[a] & values[b]) != 0).any():
                    spoil(machine, d, bits, overlap)

            build.emit(step)
            return d

        return each_slot(build.operands(op), one)

    return handler


def spoil(machine: Machine, d: int, bits: int, where: Flags) -> None:
    """Make the value of `d` undefined in the threads in which the operation yields poison."""
    mask = np.where(where.any(axis=0, keepdims=True), scalar_mask(bits), _ZERO)
    machine.undefined[d] = mask | machine.undefined.get(d, constant_bits(0))


def computed(build: Builder, operands: list[Tree], function: Callable[..., Bits], bits: int, kind: str) -> Tree:
    """Apply a function of bit patterns to corresponding slots; results of `bits` bits."""

    def one(*slots: int) -> int:
        d = build.new()
        build.alu[kind] += 1

        def step(machine: Machine) -> None:
            with np.errstate(all="ignore"):
                machine.values[d] = function(*(machine.values[slot] for slot in slots))
            if machine.undefined:
                machine.taint(d, bits, *slots)

        build.emit(step)
        return d

    return each_slot(operands, one)


def _arithmetic(fn: Callable[[Bits, Bits], Bits]) -> Handler:
    def handler(build: Builder, op: ir.Operation) -> Tree:
        refuse_flags(build, op)
        bits = build.bits_of(op.results[0])
        limit = scalar_mask(bits)
        return computed(build, build.operands(op), lambda a, b: fn(a, b) & limit, bits, "arithmetic")

    return handler


def signed(value: Bits, bits: int) -> Bits:
    """The value sign-extended from `bits` to 64 bits."""
    sign = np.uint64(1 << (bits - 1))
    extended: Bits = (value ^ sign) - sign
    return extended


def _left(value: Bits, amount: Bits, bits: int) -> Bits:
    return np.bitwise_and(np.left_shift(value, amount), scalar_mask(bits))


def _right_signed(value: Bits, amount: Bits, bits: int) -> Bits:
    shifted = signed(value, bits).view(np.int64) >> amount.view(np.int64)
    return np.bitwise_and(shifted.view(np.uint64), scalar_mask(bits))


def _shift(fn: Callable[[Bits, Bits, int], Bits]) -> Handler:
    def handler(build: Builder, op: ir.Operation) -> Tree:
        refuse_flags(build, op)
        bits = build.bits_of(op.results[0])

        def one(a: int, b: int) -> int:
            d = build.new()
            build.alu["shift"] += 1
            known = build.constants.get(b)
            if known is not None and known >= bits:
                return POISON

            def step(machine: Machine) -> None:
                values = machine.values
                amount = values[b]
                beyond = None
                if known is None:
                    beyond = amount >= bits
                    if beyond.any():
                        amount = np.where(beyond, _ZERO, amount)
                values[d] = fn(values[a], amount, bits)
                if machine.undefined:
                    if a in machine.undefined and len(amount) == 1:
                        machine.undefined[d] = fn(machine.undefined[a], amount, bits)
                        if b in machine.undefined:
                            machine.taint(d, bits, a, b)
                    else:
                        machine.taint(d, bits, a, b)
                if beyond is not None and beyond.any():
                    spoil(machine, d, bits, beyond)

            build.emit(step)
            return d

        return each_slot(build.operands(op), one)

    return handler


_COMPARE: Final[tuple[tuple[Callable[[Bits, Bits], Flags], bool], ...]] = (
    (np.equal, False),
    (np.not_equal, False),
    (np.less, True),
    (np.less_equal, True),
    (np.greater, True),
    (np.greater_equal, True),
    (np.less, False),
    (np.less_equal, False),
    (np.greater, False),
    (np.greater_equal, False),
)


def _icmp(build: Builder, op: ir.Operation) -> Tree:
    compare, is_signed = _COMPARE[op.attributes["predicate"].value]
    flip = np.uint64(1 << (build.bits_of(op.operands[0]) - 1)) if is_signed else _ZERO

    def compared(a: Bits, b: Bits) -> Bits:
        flags: Flags = compare(a ^ flip, b ^ flip)
        return np.asarray(flags, np.uint64)

    return computed(build, build.operands(op), compared, 1, "compare")


def select_scalar(build: Builder, c: int, x: int, y: int, bits: int) -> int:
    """Slot `x` if the condition in slot `c` is true, else slot `y`; scalars of `bits` bits."""
    if c == POISON or (x == POISON and y == POISON):
        return POISON
    if x == y:
        return x
    x, y = build.solid(x), build.solid(y)
    d = build.new()
    build.alu["select"] += 1

    def step(machine: Machine) -> None:
        values = machine.values
        chosen = machine.conditions.get(c)
        if chosen is None:
            chosen = machine.conditions[c] = values[c].astype(np.bool_)
        values[d] = np.where(chosen, values[x], values[y])
        undefined = machine.undefined
        if undefined and (c in undefined or x in undefined or y in undefined):
            none = constant_bits(0)
            mask = np.where(chosen, undefined.get(x, none), undefined.get(y, none))
            if c in undefined:
                mask = mask | np.where(undefined[c] != 0, scalar_mask(bits), _ZERO)
            undefined[d] = np.bitwise_or.reduce(mask, axis=0, keepdims=True)

    build.emit(step)
    return d


def _select(build: Builder, op: ir.Operation) -> Tree:
    condition, yes, no = build.operands(op)
    type_ = build.type_of(op.results[0])

    def walk(c: Tree, x: Tree, y: Tree, part: Type) -> Tree:
        if isinstance(part, Scalar):
            return select_scalar(build, c, x, y, part.bits)  # type: ignore[arg-type]
        assert isinstance(x, tuple)
        assert isinstance(y, tuple)
        conditions = c if isinstance(c, tuple) else (c,) * len(x)
        parts = zip(conditions, x, y, part.fields, strict=True)
        return tuple(walk(*each) for each in parts)

    return walk(condition, yes, no, type_)


def _count_ones(build: Builder, op: ir.Operation) -> Tree:
    bits = build.bits_of(op.results[0])

    def one(a: int) -> int:
        d = build.new()
        build.alu["logic"] += 1

        def step(machine: Machine) -> None:
            x = machine.values[a]
            octets = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, 8)
            machine.values[d] = _ONES[octets].sum(axis=-1, dtype=np.uint64)
            machine.taint(d, bits, a)

        build.emit(step)
        return d

    return each_slot(build.operands(op), one)


def refuse_promises(op: ir.Operation) -> None:
    """Raise SimulationError if attributes of arguments or results promise something of their values."""
    for name, whose in (("arg_attrs", "arguments"), ("res_attrs", "results")):
        if name in op.attributes and not _NOTHING.fullmatch(given := str(op.attributes[name])):
            raise SimulationError(f"{given} of {whose} is not interpreted")


OPERATIONS: Final[dict[str, Handler]] = {
    "llvm.mlir.constant": _constant,
    "llvm.mlir.undef": _undef,
    "llvm.mlir.poison": _poison,
    "llvm.mlir.zero": _zero,
    "llvm.extractvalue": _extract_value,
    "llvm.insertvalue": _insert_value,
    "llvm.extractelement": _extract_element,
    "llvm.insertelement": _insert_element,
    "llvm.shufflevector": _shuffle_vector,
    "llvm.and": _bitwise("and", np.bitwise_and),
    "llvm.or": _bitwise("or", np.bitwise_or),
    "llvm.xor": _bitwise("xor", np.bitwise_xor),
    "llvm.add": _arithmetic(np.add),
    "llvm.sub": _arithmetic(np.subtract),
    "llvm.mul": _arithmetic(np.multiply),
    "llvm.shl": _shift(_left),
    "llvm.lshr": _shift(lambda value, amount, bits: np.right_shift(value, amount)),
    "llvm.ashr": _shift(_right_signed),
    "llvm.intr.ctpop": _count_ones,
    "llvm.icmp": _icmp,
    "llvm.select": _select,
}
