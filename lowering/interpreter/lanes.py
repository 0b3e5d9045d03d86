"""Handlers of thread identifiers, and of exchanges between lanes through registers.

Shuffles follow PTX's `shfl.sync`: a lane out of range reads itself; since all lanes execute, a mask that leaves
one out is refused. `ds_bpermute` takes the lane number times four, modulo the wave.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Final

import numpy as np
import numpy.typing as npt
from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.lowering.emit.machines import COPY, SETTLE, THREAD, ZERO
from triton_linear.lowering.interpreter import matrix, shared_memory
from triton_linear.lowering.interpreter.memory import Bits, SimulationError
from triton_linear.lowering.interpreter.ops import Handler
from triton_linear.lowering.interpreter.program import (
    POISON,
    Aggregate,
    Builder,
    Machine,
    Source,
    Tree,
    text_of,
)

Lanes = npt.NDArray[np.intp]
OnOperands = Callable[[Builder, "list[Tree]"], "Tree | None"]
_MODES: Final = ("bfly", "idx", "up", "down")


# Identifiers


def _identifier(value: Callable[[Machine], npt.NDArray[np.int64]]) -> Handler:
    def handler(build: Builder, op: ir.Operation) -> Tree:
        d = build.new()

        def step(machine: Machine) -> None:
            machine.values[d] = value(machine).astype(np.uint64)[None, :]

        build.emit(step)
        return d

    return handler


def _thread_count(build: Builder, op: ir.Operation) -> Tree:
    return build.constant(build.threads, 32)


# Lane exchanges


def exchange(build: Builder, key: Hashable, value: Tree, find: Callable[[Machine], Source]) -> tuple[Tree, int]:
    """Every thread reads `value` of another thread, which `find` returns; equal keys mean equal sources.

    Returns the slots of the value read and of whether the lane was in range. Counts as a shuffle.
    """
    build.shuffles += 1
    if not isinstance(value, int):
        raise SimulationError("expected a scalar, got an aggregate")
    result, inside = build.new(), build.new()
    a = build.solid(value)

    def step(machine: Machine) -> None:
        source = machine.sources.get(key)
        if source is None:
            source = machine.sources[key] = find(machine)
        if machine.memory.active is not None:
            _refuse_inactive(machine, source)
        machine.values[result] = _read_threads(machine.values[a], source.thread)
        machine.values[inside] = source.inside
        undefined = machine.undefined
        if a in undefined:
            mask = _read_threads(undefined[a], source.thread)
            undefined[result] = np.bitwise_or.reduce(mask, axis=0, keepdims=True)
        if source.unsupplied is not None:
            undefined[result] = undefined[result] | source.unsupplied if a in undefined else source.unsupplied

    build.emit(step)
    return (POISON if value == POISON else result), inside


def _refuse_inactive(machine: Machine, source: Source) -> None:
    """Raise if an active thread reads from an inactive one."""
    active = machine.memory.active
    assert active is not None
    if not active[np.broadcast_to(source.thread, (len(source.thread), machine.threads))[:, active]].all():
        raise SimulationError("a lane is read that does not execute the instruction")


def _read_threads(value: Bits, source: Lanes) -> Bits:
    if len(source) == 1:
        return value if value.shape[1] == 1 else value.take(source[0], axis=1)
    trials, threads = max(len(value), len(source)), source.shape[1]
    return np.take_along_axis(np.broadcast_to(value, (trials, threads)), source, axis=1)


def _shuffle(build: Builder, op: ir.Operation) -> Tree:
    found = re.search(r"shfl_kind\s+(\w+)", str(op.attributes["kind"]))
    mode = found[1] if found else ""
    if mode not in _MODES:
        raise SimulationError(f"shuffle kind {op.attributes['kind']} is not interpreted")
    operands = build.operands(op)
    mask, where, clamp = (build.scalar(operands[i]) for i in (0, 2, 3))

    def find(machine: Machine) -> Source:
        for slot, what in ((mask, "mask"), (where, "lane operand"), (clamp, "clamp operand")):
            machine.refuse_undefined(slot, f"the shuffle's {what}")
        return _shuffle_source(machine, mode, mask, where, clamp)

    shuffled, inside = exchange(build, ("shfl", mode, mask, where, clamp), operands[1], find)
    return (shuffled, inside) if isinstance(build.type_of(op.results[0]), Aggregate) else shuffled


def _shuffle_source(machine: Machine, mode: str, mask: int, where: int, clamp: int) -> Source:
    """PTX ISA, `shfl.sync`: the semantics of its four modes, with segment mask and clamp in operand c."""
    lane = machine.lane[None, :]
    b = machine.values[where].astype(np.int64) & 31
    c = machine.values[clamp].astype(np.int64)
    segment, limit = (c >> 8) & 31, c & 31
    lowest, highest = lane & segment, (lane & segment) | (limit & ~segment)
    if mode == "up":
        j = lane - b
        inside = j >= highest
    else:
        j = {"down": lane + b, "bfly": lane ^ b, "idx": lowest | (b & ~segment)}[mode]
        inside = j <= highest
    j = np.where(inside, j, lane)
    members = machine.values[mask].astype(np.int64)
    if (active := machine.memory.active) is not None:
        warps = active.reshape(-1, machine.lanes)
        if (warps.any(axis=1) & ~warps.all(axis=1)).any():
            raise SimulationError("not all lanes of the warp execute the instruction")
    if (machine.executing((members >> lane).astype(np.uint64) & np.uint64(1)) == 0).any():
        raise SimulationError("the member mask leaves out a lane that executes the instruction")
    return Source(machine.thread[None, :] - lane + j, inside.astype(np.uint64))


def _of_lane(lanes_of: Callable[[Machine, int], Lanes], index: int, value: int) -> OnOperands:
    """A handler that reads operand `value` from the lane in operand `index`."""

    def handler(build: Builder, operands: list[Tree]) -> Tree:
        where = build.scalar(operands[index])

        def find(machine: Machine) -> Source:
            machine.refuse_undefined(where, "the lane operand")
            lane = lanes_of(machine, where) % machine.lanes
            return Source((machine.thread - machine.lane)[None, :] + lane, np.ones((1, 1), np.uint64))

        return exchange(build, (lanes_of, where), operands[value], find)[0]

    return handler


def _bpermute_lanes(machine: Machine, slot: int) -> Lanes:
    return np.right_shift(machine.values[slot].astype(np.int64), 2)


def _plain_lanes(machine: Machine, slot: int) -> Lanes:
    lanes = machine.values[slot].astype(np.int64)
    by_wave = np.broadcast_to(lanes, (len(lanes), machine.threads)).reshape(len(lanes), -1, machine.lanes)
    if (by_wave != by_wave[..., :1]).any():
        raise SimulationError("the lane operand differs within a wave")
    return lanes


def _first_lane(build: Builder, op: ir.Operation) -> Tree:
    def find(machine: Machine) -> Source:
        return Source((machine.thread - machine.lane)[None, :], np.ones((1, 1), np.uint64))

    return exchange(build, "first lane", build.operands(op)[0], find)[0]


# Byte permutes and inline assembly


def permute_bytes(a: Bits, b: Bits, selector: Bits) -> Bits:
    """PTX `prmt.b32` in its default mode: byte k of the result is byte selector[4k..4k+2] of b:a.

    Bit 4k+3 replicates the sign of that byte instead.
    """
    both = a | (b << np.uint64(32))
    result = np.zeros(1, np.uint64)
    for k in range(4):
        nibble = (selector >> np.uint64(4 * k)) & np.uint64(15)
        byte = (both >> ((nibble & np.uint64(7)) << np.uint64(3))) & np.uint64(0xFF)
        sign = np.where(byte >= 0x80, np.uint64(0xFF), np.uint64(0))
        result = result | (np.where(nibble >= 8, sign, byte) << np.uint64(8 * k))
    return result


def selector_of_perm(selector: Bits) -> Bits:
    """Convert the selector of `v_perm_b32` (a byte for each byte of the result) to one of `prmt` (four bits).

    Values above 7, which give signs and constants (CDNA ISA, V_PERM_B32), are refused.
    """
    if (selector & np.uint64(0xF8F8F8F8)).any():
        raise SimulationError("v_perm_b32 with a selector byte above 7 is not interpreted")
    result = np.zeros(1, np.uint64)
    for k in range(4):
        result = result | ((selector >> np.uint64(8 * k) & np.uint64(7)) << np.uint64(4 * k))
    return result


def _perm(build: Builder, operands: list[Tree]) -> Tree:
    high, low, selector = operands
    return _permute(build, [low, high, selector], selector_of_perm)


def _permute(
    build: Builder, operands: list[Tree], selected: Callable[[Bits], Bits] = lambda bits: bits
) -> Tree:
    if POISON in operands:
        return POISON
    a, b, selector = (build.scalar(x) for x in operands)
    d = build.new()
    build.alu["permute"] += 1

    def step(machine: Machine) -> None:
        values, undefined = machine.values, machine.undefined
        chosen = selected(values[selector])
        values[d] = permute_bytes(values[a], values[b], chosen)
        if a in undefined or b in undefined or selector in undefined:
            none = np.zeros((1, 1), np.uint64)
            mask = permute_bytes(undefined.get(a, none), undefined.get(b, none), chosen)
            undefined[d] = np.bitwise_or.reduce(mask, axis=0, keepdims=True)
            if selector in undefined:
                machine.taint(d, 32, selector)

    build.emit(step)
    return d


def _wave_barrier(build: Builder, operands: list[Tree]) -> None:
    build.warp_barriers += 1
    build.emit(lambda machine: machine.memory.warp_barrier())


INTRINSICS: Final[dict[str, OnOperands]] = {
    "llvm.amdgcn.perm": _perm,
    "llvm.amdgcn.wave.barrier": _wave_barrier,
    "llvm.nvvm.prmt": _permute,
}

# One instruction of inline assembly by mnemonic; operands in the order the text names them.
ASSEMBLY: Final[dict[str, OnOperands]] = {
    "prmt.b32": _permute,
    matrix.TRANSPOSE: matrix.transpose,
}


# Handlers by the whole text of inline assembly.
TEXTS: Final[dict[str, OnOperands]] = {
    **dict.fromkeys((text for text, _ in ZERO.values()), lambda build, _: build.constant(0, 32)),
    SETTLE: lambda _, operands: operands[0],
}


def _intrinsic(build: Builder, op: ir.Operation) -> Tree | None:
    name = text_of(op.attributes["intrin"])
    if name in shared_memory.BARRIERS:
        shared_memory.intrinsic(build, op)
        return None
    handler = matrix.INTRINSICS.get(name.removesuffix(".p3"))
    if handler is not None:
        return handler(build, op)
    if name not in INTRINSICS:
        raise SimulationError(f"intrinsic '{name}' is not interpreted")
    return INTRINSICS[name](build, build.operands(op))


def _inline_assembly(build: Builder, op: ir.Operation) -> Tree | None:
    text = text_of(op.attributes["asm_string"]).strip()
    if text.startswith(THREAD):
        return OPERATIONS["nvvm.read.ptx.sreg.tid.x"](build, op)
    if text.startswith(COPY):
        return build.operands(op)[0]
    if text in TEXTS:
        return TEXTS[text](build, build.operands(op))
    found = re.fullmatch(r"([\w.]+)\s*([^;]*);?", text)
    if found is None or found[1] not in ASSEMBLY:
        raise SimulationError(f"inline assembly '{text}' is not interpreted")
    given = build.operands(op)
    results = 1 if len(op.results) else 0
    operands: list[Tree] = []
    for token in (part.strip() for part in found[2].split(",")):
        if re.fullmatch(r"\$\d+", token):
            number = int(token[1:])
            if number >= results:
                operands.append(given[number - results])
        else:
            try:
                operands.append(build.constant(int(token, 0), 32))
            except ValueError:
                raise SimulationError(f"inline assembly '{text}' is not interpreted") from None
    return ASSEMBLY[found[1]](build, operands)


def _on_operands(handler: OnOperands) -> Handler:
    return lambda build, op: handler(build, build.operands(op))


OPERATIONS: Final[dict[str, Handler]] = {
    "nvvm.read.ptx.sreg.tid.x": _identifier(lambda machine: machine.first + machine.thread),
    "nvvm.read.ptx.sreg.cluster.ctarank": lambda build, op: build.constant(0, 32),
    "nvvm.read.ptx.sreg.laneid": _identifier(lambda machine: machine.lane),
    "nvvm.read.ptx.sreg.ntid.x": _thread_count,
    "rocdl.workitem.id.x": _identifier(lambda machine: machine.thread),
    "nvvm.shfl.sync": _shuffle,
    "rocdl.ds_bpermute": _on_operands(_of_lane(_bpermute_lanes, index=0, value=1)),
    "rocdl.readlane": _on_operands(_of_lane(_plain_lanes, index=1, value=0)),
    "rocdl.readfirstlane": _first_lane,
    "llvm.call_intrinsic": _intrinsic,
    "llvm.inline_asm": _inline_assembly,
    "rocdl.wave.barrier": _on_operands(_wave_barrier),
}
