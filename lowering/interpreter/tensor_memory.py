"""Tensor memory of a CTA: contents, undefined bits, and the handlers of its instructions (`tcgen05.alloc`,
`.ld`, `.st`, `.wait` and `.dealloc`).

Checks. A warp accesses only its own quarter of the rows, and only allocated columns. The address is the same in
all lanes. A stored word is undefined until `wait::st`; for other warps, an access to it before a barrier of the
CTA behind that is a race. A loaded value may be used after `wait::ld`, which sinks check. Tensor memory is not
interpreted for independent warps, and dots and copies are not interpreted at all.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.dialect.linear_layout import LANE, REGISTER
from triton_linear.lowering.interpreter.memory import Bits, IllegalAccess, Race, SimulationError
from triton_linear.lowering.interpreter.program import (
    Aggregate,
    Builder,
    Machine,
    Tree,
    leaves,
    scalar_mask,
)
from triton_linear.lowering.target.tensor_memory import (
    COL,
    COLUMNS,
    QUARTER_BASES,
    ROW,
    ROWS,
    SHAPES,
    WORD_BITS,
)

Indices = npt.NDArray[np.intp]

_ROW_SHIFT: Final = 16
"""The bit of an address at which its row begins (PTX ISA, tensor memory addressing)."""
_WORD: Final = WORD_BITS // 8
_UNDEFINED: Final = scalar_mask(WORD_BITS)
_QUARTER: Final = QUARTER_BASES[0][0]
_ADDRESS: Final = "an address of tensor memory"

ACCESS: Final = re.compile(
    r"(?:@\$(?P<predicate>\d+) )?tcgen05\.(?P<kind>ld|st)\.sync\.aligned\.(?P<shape>\w+)\.x(?P<repeat>\d+)"
    r"(?P<spread>\.pack::16b|\.unpack::16b)?\.b32 (?P<operands>[^;]*);"
)
_PLACE: Final = re.compile(r"\[\$(?P<base>\d+) \+ (?P<shift>\d+)\](?:, (?P<halves>\d+))?")
ALLOC: Final = re.compile(
    r"@\$0 tcgen05\.alloc\.cta_group::1\.sync\.aligned\.shared::cta\.b32 \[\$1\], (?P<columns>\d+);"
)
DEALLOC: Final = re.compile(r"@\$0 tcgen05\.dealloc\.cta_group::1\.sync\.aligned\.b32 \$1, (?P<columns>\d+);")
RELINQUISH: Final = re.compile(r"@\$0 tcgen05\.relinquish_alloc_permit\.cta_group::1\.sync\.aligned;")


@dataclass(slots=True)
class TensorMemory:
    """The words of tensor memory in `trials` runs.

    begin, columns: the first allocated column, and the number of allocated columns. They are the last columns,
    so that code which forgets the base goes wrong. writer: the warp that stored to a word since the last
    barrier of the CTA, plus one. stored: stores before their `wait::st`. loading: true if a load is before its
    `wait::ld`. given: initial words and their undefined bits.
    """

    trials: int
    words: Bits = field(init=False)
    undefined: Bits = field(init=False)
    begin: int = COLUMNS
    columns: int = 0
    loading: bool = False
    stored: list[tuple[Indices, Indices, Bits, Bits]] = field(default_factory=list)
    writer: npt.NDArray[np.int32] = field(init=False)
    barriers: int = 0
    given: tuple[Bits, Bits] | None = None

    def __post_init__(self) -> None:
        self.words = np.zeros((self.trials, ROWS, COLUMNS), np.uint64)
        self.undefined = np.full((ROWS, COLUMNS), _UNDEFINED, np.uint64)
        self.writer = np.zeros((ROWS, COLUMNS), np.int32)

    def allocate(self, columns: int) -> int:
        """Allocate `columns` columns, with the `given` contents; return their address."""
        if self.columns:
            raise SimulationError("tensor memory is allocated twice")
        self.begin, self.columns = COLUMNS - columns, columns
        if self.given is not None:
            words, undefined = self.given
            self.words[:, :, self.begin :], self.undefined[:, self.begin :] = (
                words[..., :columns],
                undefined[:, :columns],
            )
        return self.begin

    def free(self, address: int, columns: int) -> None:
        if (address, columns) != (self.begin, self.columns):
            raise IllegalAccess(f"{columns} columns at {address} of tensor memory are freed, but not allocated")
        self.columns = 0

    def contents(self) -> tuple[Bits, Bits]:
        """The words from the first allocated column on, and their undefined bits."""
        return self.words[:, :, self.begin :], self.undefined[:, self.begin :]

    def check(self, rows: Indices, columns: Indices, warps: Indices) -> None:
        """Raise if a warp accesses rows of another quarter, or columns that are not allocated."""
        foreign = rows // _QUARTER != warps % (ROWS // _QUARTER)
        if foreign.any():
            at = int(np.argmax(foreign))
            raise IllegalAccess(f"warp {int(warps[at])} reaches row {int(rows[at])} of tensor memory")
        outside = (columns < self.begin) | (columns >= self.begin + self.columns)
        if outside.any():
            column = int(columns[np.argmax(outside)]) - self.begin
            raise IllegalAccess(f"column {column} of tensor memory is out of bounds: there are {self.columns}")

    def ordered(self, rows: Indices, columns: Indices, warps: Indices) -> int | None:
        """None if no other warp stored to these words since the last barrier; else the offset of the first such
        byte."""
        writer = self.writer[rows, columns]
        late = (writer != 0) & (writer != warps + 1)
        if not late.any():
            return None
        at = int(np.argmax(late))
        return int((rows[at] * self.columns + columns[at] - self.begin) * _WORD)

    def store(self, rows: Indices, columns: Indices, warps: Indices, values: Bits, masks: Bits) -> None:
        """Store a word for each thread; `wait_for_stores` completes it."""
        self.undefined[rows, columns] = _UNDEFINED
        self.writer[rows, columns] = warps + 1
        self.stored.append((rows, columns, values, masks))

    def wait_for_stores(self) -> None:
        for rows, columns, values, masks in self.stored:
            self.words[:, rows, columns] = values & _UNDEFINED
            self.undefined[rows, columns] = masks
        self.stored.clear()

    def at_barrier(self, barriers: int) -> None:
        """Forget the writers before a barrier that all warps have passed."""
        if barriers != self.barriers:
            self.barriers = barriers
            self.writer.fill(0)


def memory_of(machine: Machine) -> TensorMemory:
    """The tensor memory of a run."""
    if machine.tensor is None:
        machine.tensor = TensorMemory(machine.memory.trials)
    memory: TensorMemory = machine.tensor
    memory.at_barrier(machine.memory.barriers)
    return memory


def check_loaded(machine: Machine) -> None:
    """Raise if a load from tensor memory has not been waited for."""
    if machine.tensor is not None and machine.tensor.loading:
        raise SimulationError("what was loaded from tensor memory is used without a wait for it")


@functools.lru_cache(maxsize=64)
def places(shape: str, repeat: int, spread: bool) -> tuple[Indices, Indices]:
    """The row and the column, relative to the address, of each register (first index) of each lane."""
    found = next((one for one in SHAPES if one.name == shape), None)
    if found is None or not 1 <= repeat <= found.most or repeat & (repeat - 1):
        raise SimulationError(f"an access to tensor memory of the form {shape}.x{repeat} is not interpreted")
    layout = found.repeated(repeat, spread)
    lanes = layout.in_dim_size(LANE)
    held = [
        [layout.apply({REGISTER: r, LANE: n % lanes}) for n in range(_QUARTER)]
        for r in range(repeat * found.registers)
    ]
    return tuple(np.array([[one[dim] for one in row] for row in held], np.intp) for dim in (ROW, COL))  # type: ignore[return-value]


# Handlers


def assembly(build: Builder, op: ir.Operation, text: str) -> tuple[bool, Tree | None]:
    """(true if inline assembly accesses tensor memory, its value)."""
    if not text.partition("tcgen05.")[1]:
        return False, None
    if build.independent:
        raise SimulationError("tensor memory is not interpreted for independent warps")
    if found := ACCESS.fullmatch(text):
        return True, _access(build, op, found)
    if found := ALLOC.fullmatch(text):
        _allocate(build, op, int(found["columns"]))
        return True, None
    if found := DEALLOC.fullmatch(text):
        _free(build, op, int(found["columns"]))
        return True, None
    if RELINQUISH.fullmatch(text):
        return True, None
    raise SimulationError(f"inline assembly '{text}' is not interpreted")


def _allocate(build: Builder, op: ir.Operation, columns: int) -> None:
    """The allocating warp stores the address of the allocation to shared memory."""
    predicate, place = (build.scalar(tree) for tree in build.operands(op))
    operation = build.operation
    build.granule = min(build.granule, _WORD)

    def step(machine: Machine) -> None:
        address = np.full((1, 1), memory_of(machine).allocate(columns), np.uint64)
        machine.refuse_undefined(place, "the address")
        before, asking = machine.memory.active, np.flatnonzero(machine.values[predicate][0])
        machine.memory.active = np.zeros(machine.threads, np.bool_)
        machine.memory.active[asking[:1]] = True
        machine.memory.store(operation, machine.values[place], _WORD, [address], [None], 1)
        machine.memory.active = before

    build.emit(step)


def _free(build: Builder, op: ir.Operation, columns: int) -> None:
    address = build.scalar(build.operands(op)[1])
    build.emit(lambda machine: memory_of(machine).free(_uniform(machine, address), columns))


def _uniform(machine: Machine, slot: int, what: str = _ADDRESS) -> int:
    """The value of a slot that is the same in all threads; raises if it is not."""
    machine.refuse_undefined(slot, what)
    values = machine.values[slot]
    if (values != values.flat[0]).any():
        raise SimulationError(f"{what} differs between threads")
    return int(values.flat[0])


def _access(build: Builder, op: ir.Operation, found: re.Match[str]) -> Tree | None:
    operands = [build.operands(op)[k] for k in range(len(op.operands))]
    place = _PLACE.search(found["operands"])
    if place is None:
        raise SimulationError(f"inline assembly '{found[0]}' is not interpreted")
    rows, columns = places(found["shape"], int(found["repeat"]), found["spread"] is not None)
    words, is_load = len(rows), found["kind"] == "ld"
    results = words if is_load else 0
    access = _Access(
        build.operation,
        build.scalar(operands[int(place["base"]) - results]),
        int(place["shift"]),
        rows,
        columns,
        None if place["halves"] is None else int(place["halves"]),
        found["spread"] is not None,
    )
    listed = [int(n) for n in re.findall(r"\$(\d+)", found["operands"].partition("{")[2].partition("}")[0])]
    if is_load:
        if listed != list(range(words)):
            raise SimulationError(f"inline assembly '{found[0]}' is not interpreted")
        slots = tuple(build.new() for _ in range(words))
        build.emit(lambda machine: access.load(machine, slots))
        type_ = build.type_of(op.results[0])
        fields = len(type_.fields) if isinstance(type_, Aggregate) else 1
        if fields != words or (words > 1 and not isinstance(type_, Aggregate)):
            raise SimulationError("the assembly's results do not fit its type")
        return slots if isinstance(type_, Aggregate) else slots[0]
    predicate = None if found["predicate"] is None else build.scalar(operands[int(found["predicate"])])
    stored = [build.solid(slot) for number in listed for slot in leaves(operands[number])]
    if len(stored) != words:
        raise SimulationError(f"inline assembly '{found[0]}' is not interpreted")
    build.emit(lambda machine: access.store(machine, predicate, stored))
    return None


@dataclass(frozen=True, slots=True, eq=False)
class _Access:
    """The words that an instruction accesses.

    base: the slot of the address, to which `shift` is added. rows, columns: relative to that address, by
    register and lane. halves: an additional distance for the upper half of the lanes. spread: a register has
    half-words of two columns.
    """

    operation: int
    base: int
    shift: int
    rows: Indices
    columns: Indices
    halves: int | None
    spread: bool

    def _words(self, machine: Machine) -> tuple[Indices, Indices, Indices]:
        """The warp of each thread, and the row and column of each register (first index) and thread."""
        machine.memory.all_execute("an access to tensor memory")
        machine.refuse_undefined(self.base, _ADDRESS)
        bases = np.broadcast_to(machine.values[self.base][:1], (1, machine.threads))[0].reshape(
            -1, machine.lanes
        )
        if (machine.values[self.base] != machine.values[self.base][:1]).any() or (bases != bases[:, :1]).any():
            raise SimulationError(f"{_ADDRESS} differs between the lanes of a warp, or between trials")
        starts = bases[:, 0].astype(np.int64) + self.shift
        warps = np.repeat(np.arange(len(bases)), machine.lanes)
        rows = np.tile(self.rows, (1, len(bases))) + np.repeat(starts >> _ROW_SHIFT, machine.lanes)
        columns = np.tile(self.columns, (1, len(bases)))
        columns = columns + np.repeat(starts & ((1 << _ROW_SHIFT) - 1), machine.lanes)
        if self.halves is not None:
            upper = (machine.lane >= machine.lanes // 2).astype(np.int64)
            rows = rows + upper * (self.halves >> _ROW_SHIFT)
            columns = columns + upper * (self.halves & ((1 << _ROW_SHIFT) - 1))
        return warps, rows, columns

    def _order(self, machine: Machine, hazard: str, rows: Indices, columns: Indices, warps: Indices) -> None:
        offset = memory_of(machine).ordered(rows, columns, warps)
        if offset is not None:
            machine.memory.races.append(Race("cta", hazard, self.operation, offset))

    def load(self, machine: Machine, slots: Sequence[int]) -> None:
        memory = memory_of(machine)
        warps, rows, columns = self._words(machine)
        half = np.uint64(WORD_BITS // 2)
        low = scalar_mask(WORD_BITS // 2)
        for slot, row, column in zip(slots, rows, columns, strict=True):
            values = np.zeros((memory.trials, machine.threads), np.uint64)
            masks = np.zeros(machine.threads, np.uint64)
            for k in range(2 if self.spread else 1):
                memory.check(row, column + k, warps)
                self._order(machine, "read after write", row, column + k, warps)
                word, mask = memory.words[:, row, column + k], memory.undefined[row, column + k]
                if self.spread:
                    word, mask = (word & low) << half * np.uint64(k), (mask & low) << half * np.uint64(k)
                values, masks = values | word, masks | mask
            machine.values[slot] = values
            machine.undefined.pop(slot, None)
            if masks.any():
                machine.undefined[slot] = masks[None, :]
        memory.loading = True

    def store(self, machine: Machine, predicate: int | None, slots: Sequence[int]) -> None:
        memory = memory_of(machine)
        if predicate is not None and not _uniform(
            machine, predicate, "the predicate of a store to tensor memory"
        ):
            return
        warps, rows, columns = self._words(machine)
        half = np.uint64(WORD_BITS // 2)
        low = scalar_mask(WORD_BITS // 2)
        for slot, row, column in zip(slots, rows, columns, strict=True):
            shape = (memory.trials, machine.threads)
            values = np.broadcast_to(machine.values[slot], shape)
            masks = (
                np.broadcast_to(machine.undefined.get(slot, np.zeros((1, 1), np.uint64)), shape)[0] & _UNDEFINED
            )
            for k in range(2 if self.spread else 1):
                memory.check(row, column + k, warps)
                self._order(machine, "write after write", row, column + k, warps)
                if self.spread:  # the PTX ISA does not define the other half of the column
                    moved = half * np.uint64(k)
                    part, gone = (values >> moved) & low, ((masks >> moved) & low) | (low << half)
                    memory.store(row, column + k, warps, part, gone)
                else:
                    memory.store(row, column, warps, values, masks)


def wait(build: Builder, op: ir.Operation) -> None:
    """`wait::ld` or `wait::st`."""
    stores = "store" in str(op.attributes["kind"])

    def step(machine: Machine) -> None:
        machine.memory.all_execute("a wait for tensor memory")
        if stores:
            memory_of(machine).wait_for_stores()
        else:
            memory_of(machine).loading = False

    build.emit(step)
