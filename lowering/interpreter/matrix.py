"""Handlers of instructions that transpose: NVIDIA's `ldmatrix`, `stmatrix` and `movmatrix` of 8x8 matrices of
16 bits, its `ldmatrix` of 16x16 bytes, and AMD's loads `ds_read_b64_tr_b16` and `ds_read_b64_tr_b8`.

The fragment of a matrix: lane l holds elements 2(l mod 4) and 2(l mod 4)+1 of row l div 4, the first in the low
half of its register; `.trans` means the fragment of the transposed matrix. In memory every row is 16 bytes at
an address of its own: lane 8k+r gives that of row r of matrix k, and other lanes' addresses are not used.
Source: PTX ISA, `ldmatrix`, `stmatrix` and `movmatrix`.

The two memory instructions are intrinsics; `movmatrix`, which has none, is inline assembly.

AMD's loads read 8 bytes, n units, at the address of each lane, then exchange units within rows of 16 lanes:
unit u of lane i of a row is unit i mod n of lane (16 u + i) div n of that row. Source: CDNA4 ISA, LDS
transposing loads.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Final

import numpy as np
from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.lowering.interpreter.memory import Bits, Indices, SimulationError
from triton_linear.lowering.interpreter.ops import Handler
from triton_linear.lowering.interpreter.program import (
    Aggregate,
    Builder,
    Machine,
    Scalar,
    Tree,
    Type,
    element_bits,
    elements,
)

_LANES: Final = 32
_SIDE: Final = 8
_ELEMENT_BYTES: Final = 2
_ROW_BYTES: Final = _SIDE * _ELEMENT_BYTES
_HALF: Final = np.uint64(0xFFFF)
_SHIFT: Final = np.uint64(16)
_STORE_CAPABILITY: Final = 90
_BYTES_CAPABILITY: Final = 100
_READ_BYTES: Final = 8
_ROW_LANES: Final = 16
_BYTE: Final = 8

TRANSPOSE: Final = "movmatrix.sync.aligned.m8n8.trans.b16"


# Fragments


def _matrices(register: Bits, threads: int, transposed: bool) -> Bits:
    """The matrices whose fragments a register holds: (trials, warps, row, column)."""
    held = np.broadcast_to(register, (len(register), threads))
    halves = np.stack([held & _HALF, (held >> _SHIFT) & _HALF], axis=-1)
    matrices = halves.reshape(len(register), -1, _SIDE, _SIDE)
    return matrices.swapaxes(2, 3) if transposed else matrices


def _register(matrices: Bits, transposed: bool) -> Bits:
    """The register that holds the fragments of (trials, warps, row, column): (trials, threads)."""
    held = matrices.swapaxes(2, 3) if transposed else matrices
    halves = held.reshape(len(held), -1, 2)
    register: Bits = halves[..., 0] | (halves[..., 1] << _SHIFT)
    return register


def _solid(build: Builder, value: Tree) -> int:
    """The slot of a register, or the undefined slot in place of poison."""
    if not isinstance(value, int):
        raise SimulationError("expected a scalar, got an aggregate")
    return build.solid(value)


def transpose(build: Builder, operands: list[Tree]) -> Tree:
    """`movmatrix`: the fragment of the transposed matrix."""
    _require_warps(build)
    if len(operands) != 1:
        raise SimulationError(f"movmatrix takes 1 register, not {len(operands)}")
    a, d = _solid(build, operands[0]), build.new()
    build.shuffles += 1

    def step(machine: Machine) -> None:
        machine.values[d] = _register(_matrices(machine.values[a], machine.threads, True), False)
        if a in machine.undefined:
            machine.undefined[d] = _register(_matrices(machine.undefined[a], machine.threads, True), False)

    build.emit(step)
    return d


# Rows in memory


def _require_warps(build: Builder) -> None:
    if build.target.lanes != _LANES:
        raise SimulationError(f"matrix instructions need warps of {_LANES} lanes, not {build.target.lanes}")


def _address(build: Builder, op: ir.Operation, registers: int) -> int:
    """The slot of the row addresses; requires `registers` operands of 32 bits behind it."""
    _require_warps(build)
    pointer, *values = (build.type_of(operand) for operand in op.operands)
    if not isinstance(pointer, Scalar) or pointer.space != 3:
        raise SimulationError("an access outside shared memory (address space 3) is not interpreted")
    if values != [Scalar(32)] * registers:
        raise SimulationError(f"expected an address and {registers} registers of type i32")
    build.granule = min(build.granule, _ELEMENT_BYTES)
    build.released = build.arriving = build.waited = False
    return build.scalar(build.operands(op)[0])


def _rows(machine: Machine, slot: int, count: int) -> tuple[Indices, Bits]:
    """The threads that give the rows of `count` matrices, and their addresses."""
    rows = np.flatnonzero(machine.lane < _SIDE * count)
    if slot in machine.undefined:
        mask = np.broadcast_to(machine.undefined[slot], (len(machine.undefined[slot]), machine.threads))
        if mask[:, rows].any():
            raise SimulationError("the address of a matrix row is undefined")
    address = machine.values[slot]
    return rows, np.broadcast_to(address, (len(address), machine.threads))[:, rows]


def _gathered(elements: list[Bits], count: int) -> Bits:
    """Elements of consecutive rows as (trials, warps, matrix, row, column)."""
    stacked = np.stack(elements, axis=-1)
    return stacked.reshape(len(stacked), -1, count, _SIDE, _SIDE)


def _spread(matrices: list[Bits]) -> list[Bits]:
    """The inverse of `_gathered`, from the matrices of each warp: for each column, its element of every row."""
    trials = max(len(matrix) for matrix in matrices)
    same = [np.broadcast_to(matrix, (trials, *matrix.shape[1:])) for matrix in matrices]
    rows = np.stack(same, axis=2).reshape(trials, -1, _SIDE)
    return [rows[..., column] for column in range(_SIDE)]


def _load(count: int, transposed: bool) -> Handler:
    def handler(build: Builder, op: ir.Operation) -> Tree:
        address = _address(build, op, 0)
        fields = (Scalar(32),) * count
        expected: Type = Scalar(32) if count == 1 else Aggregate("struct", fields)
        if len(op.results) != 1 or build.type_of(op.results[0]) != expected:
            raise SimulationError(f"expected a result of {count} registers of type i32")
        slots = tuple(build.new() for _ in range(count))
        operation = build.operation

        def step(machine: Machine) -> None:
            rows, given = _rows(machine, address, count)
            values, masks = machine.memory.load(operation, given, _ROW_BYTES, _ELEMENT_BYTES, 1, rows)
            matrices = _gathered(values, count)
            for k, slot in enumerate(slots):
                machine.values[slot] = _register(matrices[:, :, k], transposed)
            if masks is not None:
                undefined = _gathered(masks, count)
                for k, slot in enumerate(slots):
                    machine.undefined[slot] = _register(undefined[:, :, k], transposed)

        build.emit(step)
        return slots[0] if count == 1 else slots

    return handler


def _load_bytes(count: int) -> Handler:
    """`ldmatrix` of 16x16 bytes, which transposes: byte b of register r of lane l is that of row 4(l mod 4) + b
    and column l div 4 + 8r. Lane 16k+i gives the address of row i of matrix k (PTX ISA, `ldmatrix`)."""

    def handler(build: Builder, op: ir.Operation) -> Tree:
        if int(build.target.name.partition(":")[2]) < _BYTES_CAPABILITY:
            raise SimulationError(f"{build.target.name} has no ldmatrix of bytes")
        address = _address(build, op, 0)
        build.granule = 1
        if len(op.results) != 1 or build.type_of(op.results[0]) != Aggregate(
            "struct", (Scalar(32),) * 2 * count
        ):
            raise SimulationError(f"expected a result of {2 * count} registers of type i32")
        slots = tuple(build.new() for _ in range(2 * count))
        operation = build.operation

        def registers(rows: list[Bits]) -> Bits:
            """(trials, warps, matrix, register, lane) of rows of bytes."""
            stacked = np.stack(rows, axis=-1)  # trials, rows of all warps and matrices, column
            parts = stacked.reshape(len(stacked), -1, count, 4, 4, 2, _SIDE)
            lanes = parts.transpose(0, 1, 2, 5, 6, 3, 4)  # ..., register, l div 4, l mod 4, byte
            words: Bits = (lanes << (np.arange(4, dtype=np.uint64) * np.uint64(_BYTE))).sum(axis=-1)
            return words.reshape(*words.shape[:4], _LANES)

        def spread(rows: list[Bits], into: MutableMapping[int, Bits] | list[Bits]) -> None:
            words = registers(rows)
            for number, slot in enumerate(slots):
                register = words[:, :, number // 2, number % 2]
                into[slot] = register.reshape(len(register), -1)

        def step(machine: Machine) -> None:
            rows, given = _rows(machine, address, 2 * count)
            values, masks = machine.memory.load(operation, given, _ROW_BYTES, 1, 1, rows)
            spread(values, machine.values)
            if masks is not None:
                spread(masks, machine.undefined)

        build.emit(step)
        return slots

    return handler


def _store(count: int, transposed: bool) -> Handler:
    def handler(build: Builder, op: ir.Operation) -> None:
        if int(build.target.name.partition(":")[2]) < _STORE_CAPABILITY:
            raise SimulationError(f"{build.target.name} has no stmatrix")
        address = _address(build, op, count)
        slots = [_solid(build, value) for value in build.operands(op)[1:]]
        operation = build.operation

        def step(machine: Machine) -> None:
            rows, given = _rows(machine, address, count)
            threads = machine.threads
            values = _spread([_matrices(machine.values[slot], threads, transposed) for slot in slots])
            undefined: list[Bits | None] = [None] * _SIDE
            if any(slot in machine.undefined for slot in slots):
                none = np.zeros((1, 1), np.uint64)
                masks = [machine.undefined.get(slot, none) for slot in slots]
                undefined = [*_spread([_matrices(mask, threads, transposed) for mask in masks])]
            machine.memory.store(operation, given, _ELEMENT_BYTES, values, undefined, 1, rows)

        build.emit(step)

    return handler


# AMD's loads


def _transposing(unit: int) -> Handler:
    def handler(build: Builder, op: ir.Operation) -> Tree:
        if not build.target.load_matrix or build.target.vendor != "amd":
            raise SimulationError(f"{build.target.name} has no loads that transpose")
        pointer = build.type_of(op.operands[0])
        if not isinstance(pointer, Scalar) or pointer.space != 3:
            raise SimulationError("an access outside shared memory (address space 3) is not interpreted")
        address = build.scalar(build.operands(op)[0])
        build.granule = min(build.granule, unit)
        build.released = build.arriving = build.waited = False
        whole = build.type_of(op.results[0])
        fields = elements(whole)
        bits = element_bits(fields[0])
        if bits * len(fields) != _READ_BYTES * _BYTE:
            raise SimulationError(f"expected a result of {_READ_BYTES} bytes")
        slots = tuple(build.new() for _ in fields)
        operation, units = build.operation, _READ_BYTES // unit

        def transposed(loaded: list[Bits], machine: Machine) -> list[Bits]:
            """The result's fields, from the units that each lane read."""
            wide = np.stack([np.broadcast_to(one, (len(one), machine.threads)) for one in loaded])
            lane = machine.thread % _ROW_LANES
            row = machine.thread - lane
            fields: list[Bits] = [np.zeros((wide.shape[1], machine.threads), np.uint64) for _ in slots]
            for u in range(units):
                found = wide[lane % units, :, row + (_ROW_LANES * u + lane) // units].T
                at = u * unit * _BYTE
                fields[at // bits] |= found << np.uint64(at % bits)
            return fields

        def step(machine: Machine) -> None:
            if machine.memory.active is not None and not machine.memory.active.all():
                raise SimulationError("lanes of a load that transposes do not execute it")
            if address in machine.undefined:
                raise SimulationError("the load's address is undefined")
            values, masks = machine.memory.load(operation, machine.values[address], _READ_BYTES, unit, 1)
            for slot, value in zip(slots, transposed(values, machine), strict=True):
                machine.values[slot] = value
            if masks is not None:
                for slot, mask in zip(slots, transposed(masks, machine), strict=True):
                    machine.undefined[slot] = mask

        build.emit(step)
        return slots

    return handler


READS: Final[dict[str, Handler]] = {"tr16.b64": _transposing(2), "tr8.b64": _transposing(1)}

INTRINSICS: Final[dict[str, Handler]] = {
    **{f"llvm.amdgcn.ds.read.{name}": handler for name, handler in READS.items()},
    **{f"llvm.nvvm.ldmatrix.sync.aligned.m16n16.x{n}.trans.b8": _load_bytes(n) for n in (1, 2)},
} | {
    f"llvm.nvvm.{name}.sync.aligned.m8n8.x{count}{suffix}.b16": make(count, bool(suffix))
    for name, make in (("ldmatrix", _load), ("stmatrix", _store))
    for count in (1, 2, 4)
    for suffix in ("", ".trans")
}
