"""Handlers of AMD's instructions that move words between lanes: DPP, `ds_swizzle` and `permlane16/32.swap`.

Source: CDNA3 and CDNA4 ISA, DPP_CTRL and DS_SWIZZLE_B32; V_PERMLANE16_SWAP_B32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.lowering.interpreter import lanes as lane_handlers
from triton_linear.lowering.interpreter import matrix
from triton_linear.lowering.interpreter.memory import Bits, SimulationError
from triton_linear.lowering.interpreter.ops import Handler
from triton_linear.lowering.interpreter.program import Builder, Machine, Source, Tree, scalar_mask

_NONE: Final = np.zeros((1, 1), np.uint64)
_ROW: Final = 16
_HALF_WAVE: Final = 32


def _dpp_source(control: int, lane: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The lane that each lane reads; -1 for one outside its row."""
    row, within = lane & -_ROW, lane & (_ROW - 1)
    kind, amount = control >> 4, control & 15
    if control < 0x100:
        quad = np.array([(control >> (2 * k)) & 3 for k in range(4)])
        return np.asarray((lane & ~3) | quad[lane & 3])
    if amount and kind in (0x10, 0x11):
        moved = within + amount if kind == 0x10 else within - amount
        return np.asarray(np.where((moved >= 0) & (moved < _ROW), row + moved, -1))
    if amount and kind == 0x12:
        return row | ((within - amount) & (_ROW - 1))
    if control == 0x140:
        return row | (_ROW - 1 - within)
    if control == 0x141:
        return (lane & ~7) | (7 - (lane & 7))
    if control == 0x142:
        return np.where(row > 0, row - 1, -1)
    if control == 0x143:
        return np.where(lane >= _HALF_WAVE, _HALF_WAVE - 1, -1)
    raise SimulationError(f"DPP control {control:#x} is not interpreted")


def _update_dpp(build: Builder, op: ir.Operation) -> Tree:
    """`update.dpp(old, source)`: a lane that is masked out, or reads outside its row, keeps `old`."""
    old, value = (build.scalar(build.solid_tree(tree)) for tree in build.operands(op))
    numbers = {name: op.attributes[name].value for name in ("dppCtrl", "rowMask", "bankMask")}
    zeros = bool(op.attributes["boundCtrl"].value)
    bits = build.bits_of(op.results[0])
    lane = np.arange(build.target.lanes, dtype=np.int64)
    source = _dpp_source(numbers["dppCtrl"], lane)
    masked = ((numbers["rowMask"] >> (lane // _ROW)) & 1 == 0) | (
        (numbers["bankMask"] >> (lane % _ROW // 4)) & 1 == 0
    )
    # A lane that is masked out keeps `old` even if it would read zero from outside its row.
    keeps, reads_zero = masked | ((source < 0) & (not zeros)), (source < 0) & zeros & ~masked
    d = build.new()
    build.alu["dpp"] += 1

    def step(machine: Machine) -> None:
        warps = machine.threads // machine.lanes
        base = np.repeat(np.arange(warps) * machine.lanes, machine.lanes)
        index = base + np.tile(np.where(source < 0, lane, source), warps)
        keep, zero = np.tile(keeps, warps), np.tile(reads_zero, warps)
        _refuse_inactive(machine, np.where(keep | zero, machine.thread, index))

        def moved(of: Bits, before: Bits) -> Bits:
            wide = np.broadcast_to(of, (len(of), machine.threads))
            return np.where(keep, before, np.where(zero, np.uint64(0), wide[:, index]))

        machine.values[d] = moved(machine.values[value], machine.values[old])
        if old in machine.undefined or value in machine.undefined:
            mask = moved(machine.undefined.get(value, _NONE), machine.undefined.get(old, _NONE))
            machine.undefined[d] = mask & scalar_mask(bits)

    build.emit(step)
    return d


def _refuse_inactive(machine: Machine, source: npt.NDArray[np.intp]) -> None:
    active = machine.memory.active
    if active is not None and not active[source[active]].all():
        raise SimulationError("a lane is read that does not execute the instruction")


def _swizzle(build: Builder, op: ir.Operation) -> Tree:
    value, pattern = build.operands(op)
    control = build.constants.get(build.scalar(pattern))
    if control is None:
        raise SimulationError("a swizzle that is not constant is not interpreted")
    if control >> 15 & 1:
        if control >> 8 != 0x80:
            raise SimulationError(f"ds_swizzle of {control:#x} is not interpreted")
        lanes = _quad(control & 0xFF)
    else:
        kept, forced, flipped = control & 31, control >> 5 & 31, control >> 10 & 31

        def lanes(lane: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
            return (lane & _HALF_WAVE) | (((lane & kept) | forced) ^ flipped)

    def find(machine: Machine) -> Source:
        base = machine.thread - machine.lane
        return Source((base + lanes(machine.lane))[None, :], np.ones((1, 1), np.uint64))

    return lane_handlers.exchange(build, ("swizzle", control), value, find)[0]


def _quad(control: int) -> Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]]:
    return lambda lane: _dpp_source(control, lane)


def _swap(rows: int) -> Handler:
    return lambda build, op: swapped(build, build.operands(op), rows)


def swapped(build: Builder, operands: list[Tree], rows: int) -> Tree:
    """Swap the odd groups of `rows` lanes of the first register with the even ones of the second."""
    if f"v_permlane{rows}_swap" not in build.target.lane_instructions:
        raise SimulationError(f"{build.target.name} has no v_permlane{rows}_swap")
    first, second = (build.scalar(build.solid_tree(tree)) for tree in operands)
    results = (build.new(), build.new())
    build.alu["swap"] += 1

    def step(machine: Machine) -> None:
        odd = (machine.lane & rows) != 0
        _refuse_inactive(machine, machine.thread ^ rows)

        def swapped(a: Bits, b: Bits) -> tuple[Bits, Bits]:
            wide = [np.broadcast_to(x, (len(x), machine.threads)) for x in (a, b)]
            other = machine.thread ^ rows
            return np.where(odd, wide[1][:, other], wide[0]), np.where(odd, wide[1], wide[0][:, other])

        values = swapped(machine.values[first], machine.values[second])
        for slot, value in zip(results, values, strict=True):
            machine.values[slot] = value
        if first in machine.undefined or second in machine.undefined:
            masks = swapped(machine.undefined.get(first, _NONE), machine.undefined.get(second, _NONE))
            for slot, mask in zip(results, masks, strict=True):
                machine.undefined[slot] = mask

    build.emit(step)
    return results


OPERATIONS: Final[dict[str, Handler]] = {
    "rocdl.update.dpp": _update_dpp,
    "rocdl.ds_swizzle": _swizzle,
    "rocdl.permlane16.swap": _swap(16),
    "rocdl.permlane32.swap": _swap(32),
    **{f"rocdl.ds.read.{name}": handler for name, handler in matrix.READS.items()},
}
