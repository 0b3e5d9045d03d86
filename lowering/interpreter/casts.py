"""Handlers of the LLVM dialect's casts and of address arithmetic.

Slots hold zero-extended bits, so a cast to an equal or greater width, a pointer cast and a bitcast between
scalars change nothing; bitcasts between widths pack or unpack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.lowering.interpreter.memory import Bits, SimulationError
from triton_linear.lowering.interpreter.ops import Flags, Handler, each_slot, overflow_flags, signed, spoil
from triton_linear.lowering.interpreter.program import (
    FULL,
    POISON,
    Builder,
    Machine,
    Scalar,
    Tree,
    Type,
    byte_size,
    element_bits,
    elements,
    leaves,
    scalar_mask,
)


def _keep(build: Builder, op: ir.Operation) -> Tree:
    """Values are kept zero-extended, so this one is unchanged."""
    return build.tree(op.operands[0])


def _freeze(build: Builder, op: ir.Operation) -> Tree:
    """`freeze` gives arbitrary defined bits. They would be wrong in any output, so they stay undefined."""
    return _each_solid(build, build.tree(op.operands[0]))


def _each_solid(build: Builder, tree: Tree) -> Tree:
    return build.solid(tree) if isinstance(tree, int) else tuple(_each_solid(build, part) for part in tree)


def _zext(build: Builder, op: ir.Operation) -> Tree:
    build.alu["convert"] += 1
    return _keep(build, op)


def _narrow(build: Builder, tree: Tree, bits: int, lost: Callable[[Bits, Bits], Flags] | None = None) -> Tree:
    """The low bits; poison if `lost(value, result)`."""
    limit = scalar_mask(bits)

    def one(a: int) -> int:
        d = build.new()
        build.alu["convert"] += 1

        def step(machine: Machine) -> None:
            machine.values[d] = machine.values[a] & limit
            if a in machine.undefined and (mask := machine.undefined[a] & limit).any():
                machine.undefined[d] = mask
            if lost is not None and (where := lost(machine.values[a], machine.values[d])).any():
                spoil(machine, d, bits, where)

        build.emit(step)
        return d

    return each_slot([tree], one)


def _trunc(build: Builder, op: ir.Operation) -> Tree:
    """With `nsw` or `nuw`, the result is poison if extending it does not give the value again."""
    flags = overflow_flags(build, op)
    source, bits = build.bits_of(op.operands[0]), build.bits_of(op.results[0])

    def lost(value: Bits, result: Bits) -> Flags:
        found = np.zeros(value.shape, np.bool_)
        if "nuw" in flags:
            found |= value != result
        if "nsw" in flags:
            found |= value != signed(result, bits) & scalar_mask(source)
        return found

    return _narrow(build, build.tree(op.operands[0]), bits, lost if flags else None)


def _sext(build: Builder, op: ir.Operation) -> Tree:
    source, result = build.bits_of(op.operands[0]), build.bits_of(op.results[0])
    limit = scalar_mask(result)

    def one(a: int) -> int:
        return _moved(build, a, lambda value: signed(value, source) & limit, "convert")

    return each_slot([build.tree(op.operands[0])], one)


def _moved(build: Builder, a: int, function: Callable[[Bits], Bits], kind: str) -> int:
    """Move the bits of a slot, the undefined ones as the others."""
    d = build.new()
    build.alu[kind] += 1

    def step(machine: Machine) -> None:
        machine.values[d] = function(machine.values[a])
        if a in machine.undefined and (mask := function(machine.undefined[a])).any():
            machine.undefined[d] = mask

    build.emit(step)
    return d


def _pointer_cast(build: Builder, op: ir.Operation) -> Tree:
    tree = build.tree(op.operands[0])
    source, result = build.bits_of(op.operands[0]), build.bits_of(op.results[0])
    return tree if result >= source else _narrow(build, tree, result)


def _bitcast(build: Builder, op: ir.Operation) -> Tree:
    source, result = build.type_of(op.operands[0]), build.type_of(op.results[0])
    slots = leaves(build.tree(op.operands[0]))
    from_bits, to_bits = element_bits(elements(source)[0]), element_bits(elements(result)[0])
    count = len(elements(result))
    if len(slots) * from_bits != count * to_bits or max(from_bits, to_bits) % min(from_bits, to_bits):
        raise SimulationError("a bitcast between these types is not interpreted")
    if from_bits == to_bits:
        parts = slots
    elif from_bits > to_bits:
        ratio = from_bits // to_bits
        parts = tuple(_field(build, slot, k * to_bits, to_bits) for slot in slots for k in range(ratio))
    else:
        ratio = to_bits // from_bits
        parts = tuple(_packed(build, slots[i * ratio : (i + 1) * ratio], from_bits) for i in range(count))
    return parts[0] if isinstance(result, Scalar) else parts


def _field(build: Builder, a: int, shift: int, bits: int) -> int:
    """Bits [shift, shift + bits) of a slot."""
    if a == POISON:
        return POISON
    amount, limit = np.uint64(shift), scalar_mask(bits)
    return _moved(build, a, lambda value: (value >> amount) & limit, "pack")


def _packed(build: Builder, slots: tuple[int, ...], bits: int) -> int:
    """Slots of `bits` bits side by side, the first lowest."""
    if POISON in slots:
        return POISON
    d = build.new()
    build.alu["pack"] += len(slots) - 1
    amounts = [np.uint64(k * bits) for k in range(len(slots))]

    def step(machine: Machine) -> None:
        values, undefined = machine.values, machine.undefined
        packed = values[slots[0]]
        for slot, amount in zip(slots[1:], amounts[1:], strict=True):
            packed = packed | (values[slot] << amount)
        values[d] = packed
        if undefined:
            masks = [undefined[slot] << k for slot, k in zip(slots, amounts, strict=True) if slot in undefined]
            if masks:
                mask = masks[0]
                for other in masks[1:]:
                    mask = mask | other
                undefined[d] = mask

    build.emit(step)
    return d


_DYNAMIC: Final = -(1 << 31)


def _getelementptr(build: Builder, op: ir.Operation) -> Tree:
    base, *dynamic = build.operands(op)
    type_: Type = build.read_type(op.attributes["elem_type"].value)
    constant = 0
    terms: list[tuple[int, np.uint64, int]] = []
    indices = iter(zip(dynamic, list(op.operands)[1:], strict=True))
    for position, raw in enumerate(op.attributes["rawConstantIndices"]):
        if position:
            if isinstance(type_, Scalar) or type_.kind == "struct":
                raise SimulationError("an index into this type is not interpreted")
            type_ = type_.fields[0]
        size = byte_size(type_)
        if raw == _DYNAMIC:
            tree, value = next(indices)
            terms.append((build.scalar(tree), np.uint64(size), build.bits_of(value)))
        else:
            constant += raw * size
    address = build.scalar(base)
    if not terms and not constant:
        return address
    d = build.new()
    offset = np.uint64(constant & FULL)
    build.alu["address"] += len(terms)

    def step(machine: Machine) -> None:
        values = machine.values
        total = values[address] + offset
        for slot, size, bits in terms:
            total = total + signed(values[slot], bits) * size
        values[d] = total
        if machine.undefined:
            machine.taint(d, 64, address, *(slot for slot, _, _ in terms))

    build.emit(step)
    return d


OPERATIONS: Final[dict[str, Handler]] = {
    "llvm.zext": _zext,
    "llvm.sext": _sext,
    "llvm.trunc": _trunc,
    "llvm.bitcast": _bitcast,
    "llvm.freeze": _freeze,
    "llvm.ptrtoint": _pointer_cast,
    "llvm.inttoptr": _pointer_cast,
    "llvm.getelementptr": _getelementptr,
}
