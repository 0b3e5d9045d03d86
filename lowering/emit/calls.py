"""The code that stands in the place of a call of a stub, and what it needs around it: the number of the thread,
and buffers that last.

`embed` says where each of these goes, and why scratch is made, marked and freed as it is.
"""

from __future__ import annotations

import re

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.dialect.partitions import first_of_partition, partition_warps
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import BARRIER_0, PARTS_TRACKED, Release
from triton_linear.lowering.emit import marks
from triton_linear.lowering.emit.bodies import emit_body, structs
from triton_linear.lowering.emit.buffers import Buffer, Buffers
from triton_linear.lowering.emit.machines import COPY, MACHINES, THREAD, ZERO
from triton_linear.lowering.emit.scratch import Home, NumberedModule
from triton_linear.lowering.emit.text import BARRIER, FunctionWriter, struct_type
from triton_linear.lowering.plan.plans import SharedPlan, Stub
from triton_linear.lowering.target.targets import Target

THREAD_IN_PARTITION = "%__own_partition"
"""Prefix of the names of these numbers."""

_CAST = "builtin.unrealized_conversion_cast"


@dataclass(frozen=True, slots=True)
class Partition:
    """A warp-specialised region with emitted code.

    Only Triton knows the first warp of a partition, so a thread's number in it cannot be computed from that in
    the CTA. It is the thread's element of a `tt.make_range` instead, written once, at the start of the region:
    LLVM hoists no inline assembly out of loops, nor values that depend on it.

    number: its number among these regions. begin, end: the numbers of its first operation in the module and of
    the one that ends it; `end` is None if it has several blocks. warps: the warps that run it.
    """

    number: int
    begin: int
    warps: int
    end: int | None = None

    @property
    def thread(self) -> str:
        """The name of the value with the thread's number."""
        return f"{THREAD_IN_PARTITION}{self.number}_thread"

    def write_thread(self, lines: FunctionWriter, lanes: int, encoding: str) -> None:
        """Write the operations that compute `thread`, for the start of the region.

        `encoding`: the name of an encoding with one element for each thread.
        """
        p, threads = f"{THREAD_IN_PARTITION}{self.number}_", lanes * self.warps
        range_, one = f"tensor<{threads}xi32, {encoding}>", struct_type("i32", 1)
        lines.define(f"{p}range", f"tt.make_range {{end = {threads} : i32, start = 0 : i32}} : {range_}")
        lines.define(f"{p}held", f"{_CAST} {p}range : {range_} to {one}")
        lines.define(f"{p}counted", f"llvm.extractvalue {p}held[0] : {one}")
        asm = f'llvm.inline_asm asm_dialect = att "{COPY} // {p}", "=r,r"'
        lines.define(self.thread, f"{asm} {p}counted : (i32) -> i32")


def partitions_of(program: NumberedModule) -> dict[int, Partition]:
    """The partition of each call that is inside one, by the number of the call."""
    found: dict[int, Partition] = {}
    known: dict[int, Partition] = {}
    numbers = {op: n for n, op in enumerate(program.ops)}
    for n, name in enumerate(program.names):
        op = program.ops[n]
        if name != "tt.call" or (warps := partition_warps(op)) is None:
            continue
        first = first_of_partition(op)
        assert first is not None  # it is in a partition
        begin = numbers[first]
        if begin not in known:
            block = first.block
            last = block.operations[len(block.operations) - 1].operation
            end = numbers[last] if len(block.region.blocks) == 1 else None
            known[begin] = Partition(len(known), begin, warps, end)
        found[n] = known[begin]
    return found


THREAD_NUMBER = "%__own_thread"
"""What all code in a function calls the number of the thread."""

_HIDDEN_BARRIERS = {"nvidia": "nvvm.barrier", "amd": "rocdl.barrier"}
"""What Triton lowers `gpu.barrier` to, which its analysis does not know. `BARRIER_0`: with a 0 for NVIDIA."""
_PROMISES = ("tt.contiguity", "tt.divisibility", "tt.constancy")
OWN = "%__own_"
"""What begins the names of buffers of the warps."""
_STRUCT = "!llvm.struct<(ptr<3>, i32, i32)>"


@dataclass(frozen=True, slots=True)
class OwnBuffer:
    """A buffer that lasts from the beginning of the function, or of the partition with that number, to the end
    of that."""

    name: str
    bytes: int
    warps: int
    partition: int | None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a stub: which operation of the module it is, which of the calls, and the warps that run it,
    those of a partition where it is in one."""

    op: Operation
    at: int
    number: int
    stub: Stub
    warps: int
    partition: Partition | None

    @property
    def own_buffer(self) -> OwnBuffer:
        """The buffer of the warps that its scratch can be in."""
        size, region = self.stub.plan.scratch_bytes, self.partition
        name = f"{OWN}{size}" if region is None else f"{region.thread}_{size}"
        return OwnBuffer(name, size, self.warps, None if region is None else region.number)

    @property
    def promises(self) -> str:
        """What Triton's axis analysis is told of the result, which it reads off whatever gives it."""
        attributes = self.op.attributes
        told = [f"{name} = {attributes[name]}" for name in _PROMISES if name in attributes]
        return f" {{{', '.join(told)}}}" if told else ""

    @property
    def words(self) -> int:
        """Registers of 32 bits that a thread has for the source or the result, whichever takes more."""
        plan = self.stub.plan
        registers = max(plan.source_registers, plan.destination_registers)
        return -(-registers * self.stub.element.bits // 32)


class CallWriter:
    """Writes what stands in place of calls, and collects what that needs defined around the module."""

    def __init__(
        self, target: Target, release: Release, buffers: Buffers, has_calls: bool, framed: bool
    ) -> None:
        self._target, self._release = target, release
        self._barrier = BARRIER
        if has_calls:
            self._barrier = _HIDDEN_BARRIERS[target.vendor]
            if self._barrier == "nvvm.barrier" and release in BARRIER_0:
                self._barrier = "nvvm.barrier0"
        # Asked for once, before any loop: LLVM takes no inline assembly out of one.
        self._thread = THREAD_NUMBER if framed else None
        self._uses_thread = False
        self._numbered = set[int]()  # partitions that ask for the thread
        self._types: dict[str, str] = {}
        self._bodies: dict[tuple[str, str | None], tuple[int, FunctionWriter, str]] = {}
        self._buffers = buffers
        self.locations: list[str] = []

    def definitions(self) -> str:
        """Aliases for the struct types and, if there is scratch, its encodings."""
        lines = (f"{alias} = {type_}\n" for type_, alias in self._types.items())
        return "".join((*lines, *self._buffers.definitions()))

    def code(self, call: Call, line: re.Match[str], home: Home | None) -> str:
        """The code of one call, which takes the value and gives the result that its line names."""
        stub = call.stub
        taken, given = map(self._alias, structs(stub.plan, stub.element))
        prefix, location = f"%__ll_{call.number}_", f"#__ll_loc{call.number}"
        self.locations.append(f'{location} = loc("{stub.symbol}"({line["location"]}))\n')
        own = self._lines(prefix, location)
        cast = f"{_CAST} {line['operand']} : {line['source']} to {taken}"
        own.define(f"{prefix}source", cast)
        first, body, result = self._body(call, prefix, location)
        text, result = body.body(), result.replace(f"%__ll_{first}_", prefix)
        if first != call.number:  # to write the same again would take longer
            text = text.replace(f"%__ll_{first}_", prefix).replace(f"#__ll_loc{first})", f"{location})")
        if call.partition is None:
            self._uses_thread |= body.uses_thread
        elif body.uses_thread:
            self._numbered.add(call.partition.number)
        if home is not None:
            self._make_scratch(own, location, call, home)
        after = self._lines(prefix, location)
        if home is not None and not home.lent:
            self._free_scratch(after, call, home, settles=body.waits_for_cta and self._barrier == BARRIER)
        destination = line["destination"]
        if self._target.vendor == "nvidia":
            after.define(line["result"], f"{_CAST} {result} : {given} to {destination}{call.promises}")
            return "".join((own.body(), text, after.body()))
        # AMD's axis analysis gives the tensor the rank of the struct and stops where a loop or branch joins
        # it with another of its own rank; it looks at a conversion's own type, and this one is no code.
        tensor = after.define(f"{prefix}tensor", f"{_CAST} {result} : {given} to {destination}")
        ranked = self._lines(prefix, line["location"])
        ranked.define(
            line["result"], f"ttg.convert_layout {tensor}{call.promises} : {destination} -> {destination}"
        )
        return "".join((own.body(), text, after.body(), ranked.body()))

    def _body(self, call: Call, prefix: str, location: str) -> tuple[int, FunctionWriter, str]:
        """The code of a stub, as its first call has it: the number of that, the code, and the result's name."""
        stub, thread = call.stub, call.partition.thread if call.partition else self._thread
        key = stub.symbol, thread
        if key not in self._bodies:
            body, ends = self._lines(prefix, location, thread), (f"{prefix}source", f"{prefix}scratch")
            result = emit_body(stub.plan, stub.element, self._target, body, *ends, stub.accumulators)
            self._bodies[key] = call.number, body, result
        return self._bodies[key]

    def free(self, call: Call) -> str:
        """The line that frees a call's scratch, for a place outside its code."""
        return self._free(f"%__ll_{call.number}_memory", call.stub.plan.scratch_bytes, call.warps)

    def own_number(self) -> str:
        """The line that asks for the number of the thread, for the beginning of the function; none if no code
        uses it."""
        asked = f'llvm.inline_asm asm_dialect = att "{THREAD}", "=r" : () -> i32 loc(unknown)'
        return f"    {THREAD_NUMBER} = {asked}\n" if self._uses_thread else ""

    def number_in(self, partition: Partition) -> str:
        """The lines that number the threads of a partition, for its beginning."""
        lines = self._lines("", "unknown")
        if partition.number in self._numbered:
            partition.write_thread(lines, self._target.lanes, self._buffers.threads(partition.warps))
        return lines.body()

    def make_own(self, own: OwnBuffer) -> str:
        """The lines that make a buffer that lasts, for the beginning of the function or of a partition.

        Nobody else ever has the bytes of the function's. Those of a partition are others' before and behind it:
        marks tell Triton, which puts barriers and fences between.
        """
        lines, memory = self._lines(f"{own.name}_", "unknown"), self._buffers.of(own.bytes, own.warps)
        self._make_buffer(lines, memory)
        lines.define(f"{own.name}_place", f"{_CAST} {own.name}_memory : {memory.whole} to {_STRUCT}")
        if own.partition is not None:
            self._mark(lines, memory)
        return lines.body()

    def free_own(self, own: OwnBuffer) -> str:
        """The lines that free such a buffer, for the end of the function or of the partition."""
        lines, memory = self._lines(f"{own.name}_", "unknown"), self._buffers.of(own.bytes, own.warps)
        if own.partition is not None:
            self._mark_again(lines, memory)
        return lines.body() + self._free(f"{own.name}_memory", own.bytes, own.warps)

    def _free(self, memory: str, size: int, warps: int) -> str:
        return f"    ttg.local_dealloc {memory} : {self._buffers.of(size, warps).whole} loc(unknown)\n"

    def _lines(self, prefix: str, location: str, thread: str | None = None) -> FunctionWriter:
        return FunctionWriter(prefix, f" loc({location})", self._types, self._barrier, thread)

    def _alias(self, type_: str) -> str:
        return self._types.setdefault(type_, f"!__ll_registers{len(self._types)}")

    def _make_scratch(self, lines: FunctionWriter, location: str, call: Call, home: Home) -> None:
        """Write what makes the scratch of a call, in front of its code."""
        p, size = lines.prefix, call.stub.plan.scratch_bytes
        if home.lent:
            plan = call.stub.plan
            assert isinstance(plan, SharedPlan)  # others have no home
            if home.waits and not (self._target.waits_before_stores and plan.stores_apart):
                waiting = self._lines(f"{p}wait_", location)
                MACHINES[self._target.vendor].barrier(waiting, "warp")
                lines.append(waiting)
            lines.define(f"{p}scratch", f"llvm.extractvalue {call.own_buffer.name}_place[0] : {_STRUCT}")
            return
        memory = self._buffers.of(size, call.warps)
        self._make_buffer(lines, memory)
        self._mark(lines, memory)
        place = lines.define(f"{p}place", f"{_CAST} {p}memory : {memory.whole} to {_STRUCT}")
        lines.define(f"{p}scratch", f"llvm.extractvalue {place}[0] : {_STRUCT}")

    def _make_buffer(self, lines: FunctionWriter, memory: Buffer) -> None:
        lines.define(
            f"{lines.prefix}memory", f"ttg.local_alloc {{alignment = 16 : i32}} : () -> {memory.whole}"
        )

    def _mark(self, lines: FunctionWriter, memory: Buffer) -> None:
        """Write a mark of the buffer that the lines have made."""
        p, nothing = lines.prefix, self._alias(struct_type(memory.element, 1))
        self._mark_value(lines, nothing)
        lines.define(f"{p}nothing", f"{_CAST} {p}value : {nothing} to {memory.mark}")
        first = lines.define(f"{p}first", self._first())
        lines.define(f"{p}row", f"ttg.memdesc_index {p}memory[{first}] : {memory.whole} -> {memory.row}")
        self._mark_again(lines, memory)

    def _mark_again(self, lines: FunctionWriter, memory: Buffer) -> None:
        p = lines.prefix
        lines.effect(f"ttg.local_store {p}nothing, {p}row : {memory.mark} -> {memory.row}")

    def _free_scratch(self, lines: FunctionWriter, call: Call, home: Home, settles: bool) -> None:
        """Write what stands behind the code; `settles`: Triton sees a barrier in it."""
        p, memory = lines.prefix, self._buffers.of(call.stub.plan.scratch_bytes, call.warps)
        if settles:
            self._mark_again(lines, memory)
        if home.freed == call.at + 1:
            lines.effect(f"ttg.local_dealloc {p}memory : {memory.whole}")

    def _mark_value(self, lines: FunctionWriter, struct: str) -> None:
        """Write what marks store: nothing, or what they are known by afterwards."""
        p = lines.prefix
        if not marks.are_kept(self._target.vendor, self._release):
            lines.define(f"{p}value", f"llvm.mlir.undef : {struct}")
            return
        empty = lines.define(f"{p}empty", f"llvm.mlir.undef : {struct}")
        number = lines.define(f"{p}number", f"llvm.mlir.constant({marks.NUMBER} : i64) : i64")
        lines.define(f"{p}value", f"llvm.insertvalue {number}, {empty}[0] : {struct}")

    def _first(self) -> str:
        """The index of the row that marks are stored to; they stand for an access to the whole buffer."""
        if self._release not in PARTS_TRACKED:
            return "llvm.mlir.constant(0 : i32) : i32"
        text, constraint = ZERO[self._target.vendor]
        return f'llvm.inline_asm asm_dialect = att "{text}", "{constraint}" : () -> i32'
