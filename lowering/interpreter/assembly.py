"""Handlers of the code that Triton's own lowerings emit around conversions, and of sinks and given tensors.

- `// given NAME` as inline assembly returns a register of a tensor of the caller.
- `// sink NAME` as inline assembly gives its operands to the caller; its own results are undefined.
- PTX accesses, `st.shared.b32 [ $0 + 0 ], $1;`, and `ld` accordingly. With a predicate, `@$2 st.shared...`,
  threads with a false one access nothing, and their loads are undefined. The store of a mark's number counts as
  a store of undefined bits: it is removed from the LLVM IR (`marks`).
- `cp.async`: it stores the contents of global memory, which are undefined bits here. Waiting for it is not
  interpreted, so that a kernel which reads the copied bytes is refused.
- NVIDIA: `ldmatrix` and `stmatrix` as operations, `redux.sync`, and division to two units in the last place,
  whose result is undefined here.
- AMD: `permlane16/32.swap` as intrinsics.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.lowering.emit.marks import NUMBER
from triton_linear.lowering.interpreter import amd, arithmetic, lanes, matrix, shared_memory
from triton_linear.lowering.interpreter.memory import Bits, SimulationError
from triton_linear.lowering.interpreter.ops import Handler, filled, refuse_promises, signed
from triton_linear.lowering.interpreter.program import (
    Aggregate,
    Builder,
    Machine,
    Scalar,
    Tree,
    byte_size,
    leaves,
    scalar_mask,
    text_of,
)


class Predicated:
    """Makes the threads with a false predicate inactive, within a `with` block."""

    def __init__(self, machine: Machine, predicate: int | None) -> None:
        self.memory, self.before = machine.memory, machine.memory.active
        holds = np.ones(machine.threads, np.bool_)
        if predicate is not None:
            machine.refuse_undefined(predicate, "the predicate")
            value = machine.values[predicate]
            if (machine.executing(value) != machine.executing(value)[:1]).any():
                raise SimulationError("the predicate depends on the data of the trial")
            holds = np.broadcast_to(value[0] != 0, (machine.threads,))
        self.threads = holds if self.before is None else holds & self.before
        self.any_active, self.all_active = bool(self.threads.any()), bool(self.threads.all())

    def __enter__(self) -> Predicated:
        self.memory.active = None if self.all_active else self.threads
        return self

    def __exit__(self, *_: object) -> None:
        self.memory.active = self.before


SINK: Final = "// sink "
GIVEN: Final = "// given "
_NONE: Final = np.zeros((1, 1), np.uint64)
_ACCESS: Final = re.compile(
    r"(?:@\$(?P<predicate>\d+) )?(?P<kind>ld|st)\.shared(?:::cta)?(?:\.v(?P<count>[24]))?"
    r"\.b(?P<bits>8|16|32|64) (?P<operands>[^;]*);"
)
_COPY: Final = re.compile(
    r"(?:@\$(?P<predicate>\d+) )?cp\.async\.c[ag]\.shared\.global \[ \$(?P<base>\d+) \+ (?P<shift>-?\d+) \], "
    r"\[ \$\d+ \+ -?\d+ \], 0x(?P<bytes>[0-9a-f]+)(?:, (?:0x[0-9a-f]+|\$\d+))?;"
)
_BARRIER: Final = "bar.sync 0;"
_WORD: Final = 4
_APPROXIMATE: Final = ("llvm.nvvm.div.full", "llvm.nvvm.div.full.ftz")
"""Intrinsics with approximate results, whose bits are not defined."""


# Inline assembly


def _inline_assembly(build: Builder, op: ir.Operation) -> Tree | None:
    text = text_of(op.attributes["asm_string"]).strip()
    if text.startswith(SINK):
        return _sink(build, op, text.removeprefix(SINK).strip())
    if text.startswith(GIVEN):
        return _given(build, op, text.removeprefix(GIVEN).strip())
    if found := _ACCESS.fullmatch(text):
        return _access(build, op, found)
    if found := _COPY.fullmatch(text):
        _copy(build, op, found)
        return None
    if text.startswith("//"):
        return None
    if text == _BARRIER:
        shared_memory.barrier_of(build, ())
        return None
    return lanes.OPERATIONS["llvm.inline_asm"](build, op)


def _sink(build: Builder, op: ir.Operation, name: str) -> Tree | None:
    slots = [build.solid(slot) for tree in build.operands(op) for slot in leaves(tree)]

    def step(machine: Machine) -> None:
        machine.memory.all_execute(f"the sink '{name}'")
        heard = machine.sinks.setdefault(name, [])
        heard += [(machine.values[slot], machine.undefined.get(slot, _NONE)) for slot in slots]

    build.emit(step)
    if not len(op.results):
        return None
    return filled(build.type_of(op.results[0]), build.undefined_slot)


def _given(build: Builder, op: ir.Operation, name: str) -> Tree:
    slot = build.new()

    def step(machine: Machine) -> None:
        if machine.ask is None:
            raise SimulationError(f"nobody has given '{name}'")
        machine.values[slot] = machine.ask(name)

    build.emit(step)
    return slot


def _access(build: Builder, op: ir.Operation, found: re.Match[str]) -> Tree | None:
    operands = [build.operands(op)[k] for k in range(len(op.operands))]
    count, bits = int(found["count"] or 1), int(found["bits"])
    results = count if found["kind"] == "ld" else 0
    predicate = (
        None if found["predicate"] is None else build.scalar(operands[int(found["predicate"]) - results])
    )
    numbers = [int(n) for n in re.findall(r"\$(\d+)", found["operands"])]
    offset = re.search(r"\[ \$(\d+) \+ (-?\d+) \]", found["operands"])
    if offset is None:
        raise SimulationError(f"inline assembly '{found[0]}' is not interpreted")
    base = build.scalar(operands[int(offset[1]) - results])
    shift = np.uint64(int(offset[2]) & scalar_mask(64).item())
    element, operation = bits // 8, build.operation
    build.granule = min(build.granule, element)
    build.released = build.arriving = build.waited = False

    def address(machine: Machine) -> Bits:
        machine.refuse_undefined(base, "the address")
        return np.asarray(machine.values[base] + shift)

    if results:
        if numbers != [*range(count), int(offset[1])]:
            raise SimulationError(f"inline assembly '{found[0]}' is not interpreted")
        slots = tuple(build.new() for _ in range(count))

        def load(machine: Machine) -> None:
            with Predicated(machine, predicate) as predicated:
                values, masks = [_NONE] * count, [_NONE] * count
                if predicated.any_active:
                    values, some = machine.memory.load(operation, address(machine), element * count, element, 1)
                    masks = some or masks
            for slot, value, mask in zip(slots, values, masks, strict=True):
                machine.values[slot] = value
                if predicated.any_active and predicated.all_active and not mask.any():
                    machine.undefined.pop(slot, None)
                    continue
                machine.undefined[slot] = np.where(predicated.threads, mask, scalar_mask(bits))

        build.emit(load)
        return _shaped(build.type_of(op.results[0]), slots)
    stored = tuple(slot for n in numbers if n != int(offset[1]) for slot in leaves(operands[n]))
    if len(stored) != count:
        raise SimulationError(f"inline assembly '{found[0]}' is not interpreted")
    if all(build.constants.get(slot) == NUMBER for slot in stored) and bits == 64:
        build.emit(lambda machine: machine.memory.clobber(operation, address(machine), element * count))
        return None
    stored = tuple(build.solid(slot) for slot in stored)

    def store(machine: Machine) -> None:
        with Predicated(machine, predicate) as predicated:
            if predicated.any_active:
                values = [machine.values[slot] for slot in stored]
                undefined = [machine.undefined.get(slot) for slot in stored]
                machine.memory.store(operation, address(machine), element, values, undefined, 1)

    build.emit(store)
    return None


def _copy(build: Builder, op: ir.Operation, found: re.Match[str]) -> None:
    """A copy from global memory: 4, 8 or 16 bytes of each thread whose predicate is true."""
    operands = build.operands(op)
    predicate = None if found["predicate"] is None else build.scalar(operands[int(found["predicate"])])
    base, operation = build.scalar(operands[int(found["base"])]), build.operation
    shift = np.uint64(int(found["shift"]) & scalar_mask(64).item())
    words = int(found["bytes"], 16) // _WORD
    build.granule = min(build.granule, _WORD)
    build.released = build.arriving = build.waited = False

    def step(machine: Machine) -> None:
        machine.refuse_undefined(base, "the address")
        with Predicated(machine, predicate) as predicated:
            if predicated.any_active:
                anything, unknown = np.zeros((1, 1), np.uint64), np.full((1, 1), scalar_mask(32), np.uint64)
                address = np.asarray(machine.values[base] + shift)
                machine.memory.store(operation, address, _WORD, [anything] * words, [unknown] * words, 1)

    build.emit(step)


def _shaped(type_: object, slots: tuple[int, ...]) -> Tree:
    """The slots as the tree of a type."""
    if isinstance(type_, Aggregate):
        rest = list(slots)
        return tuple(_shaped(part, (rest.pop(0),)) for part in type_.fields)
    if len(slots) != 1 or not isinstance(type_, Scalar):
        raise SimulationError("the assembly's results do not fit its type")
    return slots[0]


# Stores


def _store(build: Builder, op: ir.Operation) -> None:
    """A store. LLVM removes a store of undefined bits, which marks accesses to scratch for Triton's
    analysis."""
    slots = {build.solid(slot) for slot in leaves(build.operands(op)[0])}
    if slots != {build.undefined_slot}:
        shared_memory.OPERATIONS["llvm.store"](build, op)
        return
    type_ = build.type_of(op.operands[1])
    if not isinstance(type_, Scalar) or type_.space != 3:
        raise SimulationError("an access outside shared memory (address space 3) is not interpreted")
    address, width = build.scalar(build.operands(op)[1]), byte_size(build.type_of(op.operands[0]))
    operation = build.operation
    build.emit(lambda machine: machine.memory.clobber(operation, machine.values[address], width))


# NVIDIA


_SHAPE: Final = re.compile(r"m = (\d+), n = (\d+)")


def _matrix(load: bool) -> Handler:
    def handler(build: Builder, op: ir.Operation) -> Tree | None:
        attributes = {name: str(op.attributes[name]) for name in ("layout", "shape", "eltType")}
        shape = _SHAPE.search(attributes["shape"])
        element = "b8" if "b8>" in attributes["eltType"] else "b16" if "b16>" in attributes["eltType"] else ""
        if shape is None or not element:
            raise SimulationError(f"matrices of {attributes['eltType']} are not interpreted")
        count = int(op.attributes["num"].value) if load else len(op.operands) - 1
        suffix = ".trans" if "col" in attributes["layout"] else ""
        form = f"m{shape[1]}n{shape[2]}.x{count}{suffix}.{element}"
        name = f"llvm.nvvm.{'ldmatrix' if load else 'stmatrix'}.sync.aligned.{form}"
        if name not in matrix.INTRINSICS:
            raise SimulationError(f"matrices of the form {form} are not interpreted")
        build.released = build.arriving = build.waited = False
        return matrix.INTRINSICS[name](build, op)

    return handler


def _folded(function: np.ufunc) -> Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]]:
    return lambda x: np.asarray(function.reduce(x, axis=-1))


_REDUX: Final[dict[str, Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]]]] = {
    "add": lambda x: x.sum(axis=-1),
    "max": lambda x: x.max(axis=-1),
    "min": lambda x: x.min(axis=-1),
    "umax": lambda x: x.max(axis=-1),
    "umin": lambda x: x.min(axis=-1),
    "and": _folded(np.bitwise_and),
    "or": _folded(np.bitwise_or),
    "xor": _folded(np.bitwise_xor),
}


def _redux(build: Builder, op: ir.Operation) -> Tree:
    found = re.search(r"redux_kind\s+(\w+)", str(op.attributes["kind"]))
    kind = found[1] if found else ""
    value, mask = (build.scalar(tree) for tree in build.operands(op))
    if kind not in _REDUX or build.constants.get(mask) != 0xFFFFFFFF or build.bits_of(op.operands[0]) != 32:
        raise SimulationError("this reduction over a warp is not interpreted")
    d = build.new()
    build.shuffles += 1

    def step(machine: Machine) -> None:
        machine.memory.all_execute("a reduction over a warp")
        held = machine.values[value]
        words = signed(held, 32).view(np.int64) if kind in ("max", "min") else held.view(np.int64)
        lanes = np.broadcast_to(words, (len(words), machine.threads)).reshape(len(words), -1, machine.lanes)
        reduced = _REDUX[kind](lanes).view(np.uint64) & scalar_mask(32)
        machine.values[d] = np.repeat(reduced, machine.lanes, axis=1)
        machine.refuse_undefined(value, "an operand of a reduction over a warp")

    build.emit(step)
    return d


def _intrinsic(build: Builder, op: ir.Operation) -> Tree | None:
    refuse_promises(op)
    name = text_of(op.attributes["intrin"])
    if found := re.fullmatch(r"llvm\.amdgcn\.permlane(16|32)\.swap", name):
        first, second, *flags = build.operands(op)
        if any(build.constants.get(build.scalar(flag)) for flag in flags):
            raise SimulationError("a swap that fetches from inactive lanes is not interpreted")
        return amd.swapped(build, [first, second], int(found[1]))
    if name in _APPROXIMATE:
        build.alu["arithmetic"] += 1
        return filled(build.type_of(op.results[0]), build.undefined_slot)
    if name == "llvm.is.fpclass":
        return arithmetic.is_class(build, build.operands(op), str(op.operands[0].type))
    return lanes.OPERATIONS["llvm.call_intrinsic"](build, op)


# The grid of a single CTA, and operations without an effect on registers and shared memory.


def _number(value: int) -> Handler:
    return lambda build, op: build.constant(value, build.bits_of(op.results[0]))


def _nothing(build: Builder, op: ir.Operation) -> None:
    return None


OPERATIONS: Final[dict[str, Handler]] = {
    **arithmetic.OPERATIONS,
    **{f"nvvm.read.ptx.sreg.ctaid.{axis}": _number(0) for axis in "xyz"},
    **{f"nvvm.read.ptx.sreg.nctaid.{axis}": _number(1) for axis in "xyz"},
    **{f"rocdl.workgroup.id.{axis}": _number(0) for axis in "xyz"},
    "llvm.inline_asm": _inline_assembly,
    "llvm.call_intrinsic": _intrinsic,
    "llvm.intr.assume": _nothing,
    "llvm.store": _store,
    "nvvm.fence.proxy": _nothing,
    "nvvm.setmaxregister": _nothing,
    "nvvm.ldmatrix": _matrix(load=True),
    "nvvm.stmatrix": _matrix(load=False),
    "nvvm.redux.sync": _redux,
}
