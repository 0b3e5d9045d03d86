"""Handlers of barriers, fences and accesses to shared memory.

`gpu.barrier` orders the CTA. NVIDIA: so does `nvvm.barrier0`, or `nvvm.barrier` for the whole CTA;
`nvvm.bar.warp.sync` with all lanes in its mask orders each warp. A CTA of a cluster runs by itself: a barrier
of the cluster is taken to order nothing. AMD: `rocdl.barrier` orders the CTA. `rocdl.s.barrier` waits for no
access; it orders the CTA in two cases: with a workgroup release fence before it and an acquire fence behind,
and no shared-memory access in between; or with `rocdl.s.waitcnt` before it, which waits until no access is in
flight. Inside a wave, LDS operations execute in order, so that a fence of any scope or a wave barrier, which
prevent reordering by the compiler, order the wave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.interpreter.ops import Handler
from triton_linear.lowering.interpreter.program import (
    Builder,
    Machine,
    Scalar,
    Tree,
    byte_size,
    element_bits,
    elements,
    leaves,
    scalar_mask,
    text_of,
)
from triton_linear.lowering.target.phases import WIDEST

_ACQUIRE: Final = {4, 6, 7}
_RELEASE: Final = {5, 6, 7}
BARRIER_OF_SOME: Final = "llvm.nvvm.barrier.cta.sync.count"
"""The intrinsic for a barrier with a number and a count of threads."""
BARRIERS: Final = (BARRIER_OF_SOME, "llvm.nvvm.barrier.cta.sync.all")
"""The barrier intrinsics; the second is for all threads, in whichever partition they are."""


# Barriers


def _order_cta(build: Builder) -> None:
    build.emit(lambda machine: machine.memory.cta_barrier())


def _cta_barrier(build: Builder, op: ir.Operation) -> None:
    barrier_of(build, [build.constants.get(build.scalar(x)) for x in build.operands(op)])


def intrinsic(build: Builder, op: ir.Operation) -> None:
    """The handler of the intrinsics in `BARRIERS`."""
    numbers = [build.constants.get(build.scalar(tree)) for tree in build.operands(op)]
    barrier_of(build, numbers if len(numbers) > 1 else [*numbers, None])


def barrier_of(build: Builder, numbers: Sequence[int | None]) -> None:
    """A barrier with `numbers` (its number, its count of threads); without them the barrier of the CTA."""
    build.cta_barriers += 1
    if build.independent:
        _named_barrier(build, *(numbers or (0, None)))
        return
    if numbers and list(numbers) != [0, build.threads]:
        raise SimulationError("a named barrier, or one for part of the CTA, is not interpreted")
    _order_cta(build)


def _named_barrier(build: Builder, number: int | None, threads: int | None) -> None:
    """A barrier with a number, for `threads` threads of the CTA; None: for all."""
    if number is None or (threads or 0) % build.target.lanes:
        raise SimulationError("a barrier of parts of warps, or whose number is no constant, is not interpreted")
    build.emit(lambda machine: machine.memory.named_barrier(number, threads))


def _warp_sync(build: Builder, op: ir.Operation) -> None:
    mask = build.scalar(build.operands(op)[0])
    build.warp_barriers += 1

    def step(machine: Machine) -> None:
        machine.refuse_undefined(mask, "the barrier's mask")
        members = machine.values[mask].astype(np.int64)
        if (((members >> machine.lane) & 1) == 0).any():
            raise SimulationError("the member mask leaves out a lane that executes the instruction")
        machine.memory.warp_barrier()

    build.emit(step)


def _nothing(build: Builder, op: ir.Operation) -> None:
    """The handler of what orders nothing."""


def _s_waitcnt(build: Builder, op: ir.Operation) -> None:
    """Bits 8 to 11 are the number of LDS operations that may be in flight (CDNA ISA, S_WAITCNT)."""
    if op.attributes["bitfield"].value >> 8 & 0xF == 0:
        build.waited = True


def _s_barrier(build: Builder, op: ir.Operation) -> None:
    build.cta_barriers += 1
    if build.waited:
        _order_cta(build)
    build.arriving = build.released
    build.released = False


def _fence(build: Builder, op: ir.Operation) -> None:
    ordering = op.attributes["ordering"].value
    scope = text_of(op.attributes["syncscope"]) if "syncscope" in op.attributes else ""
    if build.target.vendor != "amd":
        return
    build.warp_barriers += scope in ("wavefront", "wavefront-one-as")
    if scope not in ("singlethread", "singlethread-one-as"):
        build.emit(lambda machine: machine.memory.warp_barrier())
    if scope in ("", "agent", "workgroup", "one-as", "agent-one-as", "workgroup-one-as"):
        if ordering in _ACQUIRE and build.arriving:
            _order_cta(build)
            build.arriving = False
        if ordering in _RELEASE:
            build.released = True


# Shared memory


def _address(build: Builder, op: ir.Operation, operand: int) -> int:
    type_ = build.type_of(op.operands[operand])
    if not isinstance(type_, Scalar) or type_.space != 3:
        raise SimulationError("an access outside shared memory (address space 3) is not interpreted")
    if "ordering" in op.attributes and op.attributes["ordering"].value:
        raise SimulationError("an atomic access is not interpreted")
    build.released = build.arriving = build.waited = False
    return build.scalar(build.operands(op)[operand])


def _access(build: Builder, op: ir.Operation, value: ir.Value, address: int) -> tuple[int, int, int, int]:
    """(element bits, element bytes, width in bytes, instructions of the access at its alignment).

    A greater alignment is a promise that LLVM may use, so it is checked as well.
    """
    type_ = build.type_of(value)
    parts = elements(type_)
    bits = element_bits(parts[0])
    element = byte_size(parts[0])
    if (len(parts) > 1 and bits < 8) or bits not in (1, 8, 16, 32, 64):
        raise SimulationError(f"memory elements of {bits} bits are not interpreted")
    width = element * len(parts)
    if width & (width - 1):
        raise SimulationError(f"an access of {width} bytes is not interpreted")
    alignment = op.attributes["alignment"].value if "alignment" in op.attributes else width
    piece = min(width, alignment, WIDEST)
    build.granule = min(build.granule, element, piece)
    if alignment > piece:
        build.emit(lambda machine: machine.memory.check_promise(machine.values[address], alignment))
    return bits, element, width, width // piece


def _load(build: Builder, op: ir.Operation) -> Tree:
    address = _address(build, op, 0)
    bits, element, width, pieces = _access(build, op, op.results[0], address)
    slots = tuple(build.new() for _ in range(width // element))
    operation, limit = build.operation, scalar_mask(bits)

    def step(machine: Machine) -> None:
        machine.refuse_undefined(address, "the load's address")
        values, masks = machine.memory.load(operation, machine.values[address], width, element, pieces)
        for slot, value in zip(slots, values, strict=True):
            machine.values[slot] = value & limit if bits < 8 else value
        if masks is not None:
            for slot, mask in zip(slots, masks, strict=True):
                machine.undefined[slot] = mask & limit

    build.emit(step)
    return slots[0] if isinstance(build.type_of(op.results[0]), Scalar) else slots


def _store(build: Builder, op: ir.Operation) -> None:
    address = _address(build, op, 1)
    _, element, _, pieces = _access(build, op, op.operands[0], address)
    slots = [build.solid(slot) for slot in leaves(build.operands(op)[0])]
    operation = build.operation

    def step(machine: Machine) -> None:
        machine.refuse_undefined(address, "the store's address")
        values = [machine.values[slot] for slot in slots]
        undefined = [machine.undefined.get(slot) for slot in slots]
        machine.memory.store(operation, machine.values[address], element, values, undefined, pieces)

    build.emit(step)


OPERATIONS: Final[dict[str, Handler]] = {
    "gpu.barrier": _cta_barrier,
    "nvvm.barrier0": _cta_barrier,
    "nvvm.barrier": _cta_barrier,
    "nvvm.bar.warp.sync": _warp_sync,
    "nvvm.cluster.arrive": _nothing,
    "nvvm.cluster.arrive.relaxed": _nothing,
    "nvvm.cluster.wait": _nothing,
    "rocdl.barrier": _cta_barrier,
    "rocdl.s.waitcnt": _s_waitcnt,
    "rocdl.s.barrier": _s_barrier,
    "llvm.fence": _fence,
    "llvm.load": _load,
    "llvm.store": _store,
}
