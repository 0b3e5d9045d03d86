"""Putting our code into a kernel before Triton lowers it.

A call of an outlined conversion or gather becomes the LLVM-dialect code of its plan between casts: from the
tensors that it takes to the structs of registers that Triton's type conversion will make of them, and back.
When Triton lowers the kernel the casts meet that conversion's own and cancel; the code in between is already
what Triton lowers to, and stays. So no module is printed or parsed a second time, and the code sits in the
kernel, inlined, with the own source location of what was called for under the name of its stub.

Scratch is a `ttg.local_alloc`, so Triton's allocation places it, shares its bytes with what is dead, and counts
it; the `ttg.local_dealloc` behind the code keeps the bytes reserved until its last read. Triton's barrier
analysis does not look into our code. It goes by marks: stores of an undefined value to a row of the
scratch. Each counts as a write of the whole scratch, and is gone from the LLVM IR (`marks`). The analysis
puts a barrier of the CTA before a mark whose bytes were accessed since the last barrier, and before whoever
accesses those bytes next.

- A mark before our code: so a barrier stands between earlier accesses to these bytes and our first store.
- Barriers of the CTA inside the code are `gpu.barrier`, which the analysis knows: what was accessed before one
  is settled, our own stores too.
- A mark behind the code stands for the loads since our last barrier, so that a barrier comes before the next
  store to these bytes, also around the back edge of a loop. It must follow the loads: LLVM may give a load
  that comes after it the undefined value.

Functions that others call are different: the analysis hands their callers what is unsettled where they return,
not what they touch before their first barrier. In a module that has such functions our barriers are of a form
that the analysis does not know: all scratch stays unsettled until it puts a barrier of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import InsertionPoint, Location, Module, Operation
from triton_linear.dialect.partitions import WARP_SPECIALIZE
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import (
    ADDRESSES_COLLECTED,
    BARRIER_0,
    PARTS_TRACKED,
    installed_release,
)
from triton_linear.lowering.emit import marks, scratch
from triton_linear.lowering.emit.bodies import emit_body, signature_of
from triton_linear.lowering.emit.buffers import ALIGNED_BYTES, Buffers
from triton_linear.lowering.emit.gathers import GatherSignature, emit_gather_body
from triton_linear.lowering.emit.machines import ALL_WARPS_BARRIER, MACHINES, RANK, THREAD, ZERO
from triton_linear.lowering.emit.partitions import Partition, partitions_of
from triton_linear.lowering.emit.scratch import Home, ScratchUse
from triton_linear.lowering.emit.text import BARRIER, FunctionWriter, Signature, struct_type
from triton_linear.lowering.emit.transposes import take_what_is_transposed
from triton_linear.lowering.emit.turns import Turn
from triton_linear.lowering.plan.gathers import GatherSharedPlan
from triton_linear.lowering.plan.plans import CLUSTER, SharedPlan
from triton_linear.lowering.plan.stubs import GatherStub, Stub
from triton_linear.lowering.target.targets import Target

THREAD_NUMBER = "%__own_thread"
"""What all code in a function calls the number of the thread."""
RANK_NUMBER = "%__own_rank"
"""And that of its CTA in the cluster."""

_HIDDEN_BARRIERS = {"nvidia": "nvvm.barrier", "amd": "rocdl.barrier"}
"""What Triton lowers `gpu.barrier` to, which its analysis does not know. `BARRIER_0`: with a 0 for NVIDIA."""
_CALL = "tt.call"
_PLACE = "triton_linear.place"
"""An operation that stands where text is to come, in the copy that is printed."""
_LINE = re.compile(
    r'^ *(?:(?P<result>%\w+) = "tt\.call"\((?P<operands>%[\w#]+(?:, %[\w#]+)?)\) '
    r"<?\{[^\n]*?callee = @(?P<symbol>\w+)[^\n]*?"
    r" : \((?P<types>tensor<.*>)\) -> (?P<destination>tensor<.*>) loc\((?P<location>#?\w+|.*)\)"
    rf'|"{re.escape(_PLACE)}"\(\)[^\n]*)\n',
    re.MULTILINE,
)
"""A line of such a place, or of a call of one or two tensors."""
_PROMISES = ("tt.contiguity", "tt.divisibility", "tt.constancy")
_CAST = "builtin.unrealized_conversion_cast"
_OWN = "%__own_"
_PIECE = "%__own_piece"
"""What begins the names of buffers of the warps and of pieces that exchanges of a cluster take turns with."""
_STRUCT = "!llvm.struct<(ptr<3>, i32, i32)>"


class EmbedError(Exception):
    """A module whose outlined conversions do not match their plans."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """A module with the code in it; `budget` bounds its shared memory where scratch takes more than it must."""

    text: str
    budget: int | None = None


def embed(
    module: Module,
    stubs: Mapping[str, Stub],
    target: Target,
    *,
    apart: bool = True,
    sparing: bool = False,
) -> Embedded:
    """The text of `module` with every call of a stub replaced by the code of its plan, and without the stubs.

    `apart` lets scratch take more memory than it must, within the target's budget, where that saves barriers;
    `sparing` only within what the scratch of others takes anyhow.

    Requires: `stubs` has every stub that is called. Ensures: `module` is as it was.

    Raises EmbedError where the calls are not found again in the text.
    """
    copy, ops = bridge.without_ll(module)
    program = scratch.NumberedModule(_without(ops, stubs))
    num_warps = module.operation.attributes["ttg.num-warps"].value
    calls = _calls(program, stubs, num_warps)
    if not calls:
        return Embedded(bridge.printed(copy))
    attributes = module.operation.attributes
    num_ctas = attributes["ttg.num-ctas"].value if "ttg.num-ctas" in attributes else 1
    has_calls = any(name == _CALL and n not in calls for n, name in enumerate(program.names))
    alone = not has_calls and WARP_SPECIALIZE not in program.names
    apart = apart and alone
    frame = program.frame()
    uses = {
        n: program.use(n, call.stub.plan, target, call.warps, framed=frame is not None)
        for n, call in calls.items()
        if isinstance(call.stub.plan, SharedPlan | GatherSharedPlan)
    }
    words = max(call.words for call in calls.values())
    homes, budget, taking = _homes(
        program, uses, _turns(program, calls, frame), target, num_warps, words, apart=apart, sparing=sparing
    )
    lasting = {n: home for n, home in homes.items() if home != Home(n + 1)}
    lent = {
        f"{_OWN}{calls[n].stub.plan.scratch_bytes}": calls[n].stub.plan.scratch_bytes
        for n in lasting
        if homes[n].lent
    }
    lent |= {f"{_PIECE}{n}": size for n, size in scratch.pieces(uses, taking).items()}
    freed: dict[int, list[int]] = {}
    for n, home in lasting.items():
        if not home.lent:
            freed.setdefault(home.freed, []).append(n)
    entered = {call.partition.begin: call.partition for call in calls.values() if call.partition is not None}
    places = {*freed, *entered, *((frame.begin, frame.end) if frame is not None else ())}
    take_what_is_transposed(program, [call.op for call in calls.values()])
    for n in places:
        _make_place(program.ops[n])
    text = bridge.printed(copy)
    lines = _lines(text, calls, places)
    specialized = WARP_SPECIALIZE in program.names
    # What regions of some warps, or functions, are handed lies anywhere.
    sparse = alone and installed_release() in ADDRESSES_COLLECTED and program.has_no_view_between(ALIGNED_BYTES)
    buffers = Buffers(target.lanes, num_ctas, sparse=sparse)
    writer = _Writer(target, num_warps, buffers, has_calls, specialized, framed=frame is not None)
    code = {
        n: writer.code(calls[n], line, homes.get(n), taking.get(n))
        for (n, is_call), line in lines.items()
        if is_call
    }

    def in_front(n: int) -> str:
        """What stands in front of operation n: what the function begins or ends with, scratch that is freed."""
        pieces = [writer.free(calls[user]) for user in freed.get(n, ())]
        if n in entered:
            pieces.append(writer.number_in(entered[n]))
        if frame is not None and n == frame.begin:
            pieces += [writer.own_numbers(), *(writer.make_own(*own) for own in sorted(lent.items()))]
        if frame is not None and n == frame.end:
            pieces += [writer.ending()] if any(not turn.closes for turn in taking.values()) else []
            pieces += [writer.free_own(*own) for own in sorted(lent.items())]
        return "".join(pieces)

    end, parts = 0, []
    for (n, is_call), line in lines.items():
        parts += [text[end : line.start()], code[n] if is_call else in_front(n)]
        end = line.end()
    whole = "".join((writer.definitions(), *parts, text[end:], *writer.locations))
    return Embedded(whole, budget if lasting or taking else None)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a stub: which operation of the module it is, which of the calls, and the warps that run it,
    those of a partition where it is in one."""

    op: Operation
    at: int
    number: int
    stub: Stub
    warps: int
    partition: Partition | None

    @property
    def signature(self) -> Signature | GatherSignature:
        """The structs that its code goes between."""
        stub = self.stub
        if isinstance(stub, GatherStub):
            return GatherSignature.of(stub.plan, stub.element, stub.index_element)
        return signature_of(stub.plan, stub.element)

    @property
    def promises(self) -> str:
        """What Triton's axis analysis is told of the result, which it reads off whatever gives it."""
        attributes = self.op.attributes
        told = [f"{name} = {attributes[name]}" for name in _PROMISES if name in attributes]
        return f" {{{', '.join(told)}}}" if told else ""

    @property
    def words(self) -> int:
        """Registers of 32 bits that a thread has for the source or the result, whichever takes more."""
        registers = max(self.signature.source_registers, self.signature.result_registers)
        return -(-registers * self.stub.element.bits // 32)


def _without(ops: Iterable[Operation], stubs: Mapping[str, Stub]) -> list[Operation]:
    """The operations but for the stubs, which are erased."""
    kept = []
    for op in ops:
        if op.name == "tt.func" and op.attributes["sym_name"].value in stubs:
            op.erase()
        else:
            kept.append(op)
    return kept


def _calls(program: scratch.NumberedModule, stubs: Mapping[str, Stub], num_warps: int) -> dict[int, _Call]:
    """The calls of stubs, by the numbers of their operations; the kernel has `num_warps` of its own."""
    found: dict[int, _Call] = {}
    inside = partitions_of(program) if WARP_SPECIALIZE in program.names else {}
    for n, name in enumerate(program.names):
        if name == _CALL:
            op = program.ops[n]
            symbol = op.attributes["callee"].value
            if symbol in stubs:
                own = inside.get(n)
                found[n] = _Call(op, n, len(found), stubs[symbol], own.warps if own else num_warps, own)
    return found


def _turns(
    program: scratch.NumberedModule, calls: Mapping[int, _Call], frame: scratch.Frame | None
) -> dict[int, Turn]:
    """How the exchanges of a cluster could take turns with scratch of their own."""
    plans = ((n, call.stub.plan) for n, call in calls.items())
    across = {n for n, plan in plans if isinstance(plan, SharedPlan) and plan.scope == CLUSTER}
    return program.turns(frame, across) if frame is not None and across else {}


def _homes(
    program: scratch.NumberedModule,
    uses: Mapping[int, ScratchUse],
    taking: Mapping[int, Turn],
    target: Target,
    num_warps: int,
    words: int,
    *,
    apart: bool,
    sparing: bool,
) -> tuple[dict[int, Home], int, Mapping[int, Turn]]:
    """Where each use has its scratch, the bytes that all may take, and the turns that are taken, by uses that
    have no home then.

    Outside loops a barrier costs less than the memory: what is shared, the first-level cache lacks. A barrier
    of a cluster costs more.
    """
    homes = {n: Home(use.end) for n, use in uses.items()}
    if not (apart and uses):
        return homes, 0, {}
    budget = target.shared_budget(num_warps, words)
    momentary = program.momentary_uses(num_warps)
    everybody = sorted((*uses.values(), *momentary), key=lambda use: use.start)
    others = program.buffer_bytes()
    if sparing:
        budget = min(budget, scratch.least(everybody, others))
    taking, budget = scratch.affordable(uses, taking, everybody, others, budget)
    everybody = [use for use in everybody if use.start not in taking]
    others += sum(scratch.pieces(uses, taking).values())
    homes = {n: home for n, home in homes.items() if n not in taking}
    arranged, budget = scratch.arrange(everybody, others, budget, target.policy.scratch_pieces)
    for use, home in zip(everybody, arranged, strict=True):
        if use.start in homes and use.may_repeat:
            homes[use.start] = home
    return homes, budget, taking


def _make_place(op: Operation) -> None:
    """Let a line of its own stand in front of an operation."""
    Operation.create(_PLACE, loc=Location.unknown(op.context), ip=InsertionPoint(op))


def _lines(
    text: str, calls: Mapping[int, _Call], places: Iterable[int]
) -> dict[tuple[int, bool], re.Match[str]]:
    """The lines of calls (True) and of places in front of operations (False), by the operations' numbers, in
    the order of the text."""
    wanted = sorted([*((n, True) for n in calls), *((n, False) for n in places)])
    symbols = {call.stub.symbol for call in calls.values()}
    lines = [line for line in _LINE.finditer(text) if line["result"] is None or line["symbol"] in symbols]
    if len(lines) != len(wanted):
        raise EmbedError(f"{len(wanted)} calls and places are in the module, {len(lines)} in its text")
    for (n, is_call), line in zip(wanted, lines, strict=True):
        if is_call != (line["result"] is not None) or (is_call and line["symbol"] != calls[n].stub.symbol):
            raise EmbedError(f"operation {n} is not what the text has in its place: {line[0].strip()[:200]}")
    return dict(zip(wanted, lines, strict=True))


class _Writer:
    """Writes what stands in place of calls, and collects what that needs defined around the module."""

    def __init__(
        self, target: Target, num_warps: int, buffers: Buffers, has_calls: bool, specialized: bool, framed: bool
    ) -> None:
        self._target = target
        self._num_warps = num_warps
        self._barrier = BARRIER
        if has_calls:
            self._barrier = _HIDDEN_BARRIERS[target.vendor]
            if self._barrier == "nvvm.barrier" and installed_release() in BARRIER_0:
                self._barrier = "nvvm.barrier0"
        self._cluster_barrier = ALL_WARPS_BARRIER if specialized else ""
        # Asked for once, before any loop: LLVM takes no inline assembly out of one.
        self._thread = THREAD_NUMBER if framed else None
        self._rank = RANK_NUMBER if framed else None
        self._uses_thread = self._uses_rank = False
        self._numbered = set[int]()  # partitions whose threads are
        self._types: dict[str, str] = {}
        self._buffers = buffers
        self.locations: list[str] = []

    def definitions(self) -> str:
        """Aliases for the struct types and, if there is scratch, its encodings."""
        lines = (f"{alias} = {type_}\n" for type_, alias in self._types.items())
        return "".join((*lines, *self._buffers.definitions()))

    def code(self, call: _Call, line: re.Match[str], home: Home | None, turn: Turn | None) -> str:
        """The code of one call, which takes the values and gives the result that its line names."""
        signature = call.signature
        for type_ in (*signature.arguments, signature.result):
            self._alias(type_)
        prefix, location = f"%__ll_{call.number}_", f"#__ll_loc{call.number}"
        self.locations.append(f'{location} = loc("{call.stub.symbol}"({line["location"]}))\n')
        own = self._lines(prefix, location)
        operands, types = line["operands"].split(", "), re.split(", (?=tensor<)", line["types"])
        names = [f"{prefix}{name}" for name in ("source", "index")]
        for name, operand, type_, struct in zip(names, operands, types, signature.arguments, strict=False):
            own.define(name, f"{_CAST} {operand} : {type_} to {own.type(struct)}")
        body = self._lines(prefix, location, call.partition.thread if call.partition else self._thread)
        if call.partition is not None:
            body.rank = None  # nothing of the function around it is known there
        if isinstance(call.stub, GatherStub):
            assert isinstance(signature, GatherSignature)  # it is that of the stub
            result = emit_gather_body(
                call.stub.plan, signature, self._target, body, names[0], names[1], f"{prefix}scratch"
            )
        else:
            assert isinstance(signature, Signature)
            result = emit_body(
                call.stub.plan,
                signature,
                self._target,
                body,
                names[0],
                f"{prefix}scratch",
                call.stub.accumulators,
                closes=turn is None or turn.closes,
            )
        if call.partition is None:
            self._uses_thread |= body.uses_thread
        elif body.uses_thread:
            self._numbered.add(call.partition.number)
        self._uses_rank |= body.uses_rank and call.partition is None
        if turn is not None:
            own.define(f"{prefix}scratch", f"llvm.extractvalue {_PIECE}{turn.piece}_place[0] : {_STRUCT}")
        if home is not None:
            self._make_scratch(own, location, call, home)
        after = self._lines(prefix, location)
        if home is not None and not home.lent:
            self._free_scratch(after, call, home, settles=body.waits_for_cta and self._barrier == BARRIER)
        destination, given = line["destination"], own.type(signature.result)
        if self._target.vendor == "nvidia":
            after.define(line["result"], f"{_CAST} {result} : {given} to {destination}{call.promises}")
            return "".join((own.body(), body.body(), after.body()))
        # AMD's axis analysis gives the tensor the rank of the struct and stops where a loop or branch joins
        # it with another of its own rank; it looks at a conversion's own type, and this one is no code.
        tensor = after.define(f"{prefix}tensor", f"{_CAST} {result} : {given} to {destination}")
        ranked = self._lines(prefix, line["location"])
        ranked.define(
            line["result"], f"ttg.convert_layout {tensor}{call.promises} : {destination} -> {destination}"
        )
        return "".join((own.body(), body.body(), after.body(), ranked.body()))

    def free(self, call: _Call) -> str:
        """The line that frees a call's scratch, for a place outside its code."""
        return self._free(f"%__ll_{call.number}_memory", call.stub.plan.scratch_bytes, call.warps)

    def own_numbers(self) -> str:
        """The lines that ask for the numbers of thread and CTA, for the beginning of the function."""
        asked = ((self._uses_thread, THREAD_NUMBER, THREAD), (self._uses_rank, RANK_NUMBER, RANK))
        return "".join(
            f'    {name} = llvm.inline_asm asm_dialect = att "{text}", "=r" : () -> i32 loc(unknown)\n'
            for used, name, text in asked
            if used
        )

    def number_in(self, partition: Partition) -> str:
        """The lines that number the threads of a partition, for its beginning."""
        lines = self._lines("", "unknown")
        if partition.number in self._numbered:
            partition.write_thread(lines, self._target.lanes, self._buffers.threads(partition.warps))
        return lines.body()

    def make_own(self, name: str, size: int) -> str:
        """The lines that make a buffer that lasts, for the beginning of the function."""
        memory, type_ = f"{name}_memory", self._buffers.of(size, self._num_warps).whole
        return (
            f"    {memory} = ttg.local_alloc {{alignment = 16 : i32}} : () -> {type_} loc(unknown)\n"
            f"    {name}_place = {_CAST} {memory} : {type_} to {_STRUCT} loc(unknown)\n"
        )

    def ending(self) -> str:
        """The barrier of the cluster at the end of a function whose exchanges take turns."""
        lines = self._lines("", "unknown")
        MACHINES[self._target.vendor].barrier(lines, CLUSTER)
        return lines.body()

    def free_own(self, name: str, size: int) -> str:
        """The line that frees such a buffer, for the function's end."""
        return self._free(f"{name}_memory", size, self._num_warps)

    def _free(self, memory: str, size: int, warps: int) -> str:
        return f"    ttg.local_dealloc {memory} : {self._buffers.of(size, warps).whole} loc(unknown)\n"

    def _lines(self, prefix: str, location: str, thread: str | None = None) -> FunctionWriter:
        return FunctionWriter(
            prefix,
            location=f" loc({location})",
            types=self._types,
            barrier=self._barrier,
            thread=thread,
            rank=self._rank,
            cluster_barrier=self._cluster_barrier,
        )

    def _alias(self, type_: str) -> str:
        return self._types.setdefault(type_, f"!__ll_registers{len(self._types)}")

    def _make_scratch(self, lines: FunctionWriter, location: str, call: _Call, home: Home) -> None:
        """Write what makes the scratch of a call, in front of its code."""
        p, size = lines.prefix, call.stub.plan.scratch_bytes
        if home.lent:
            plan = call.stub.plan
            assert isinstance(plan, SharedPlan | GatherSharedPlan)  # others have no home
            if home.waits and not (self._target.waits_before_stores and plan.stores_apart):
                waiting = self._lines(f"{p}wait_", location)
                MACHINES[self._target.vendor].barrier(waiting, "warp")
                lines.append(waiting)
            lines.define(f"{p}scratch", f"llvm.extractvalue {_OWN}{size}_place[0] : {_STRUCT}")
            return
        memory = self._buffers.of(size, call.warps)
        nothing = self._alias(struct_type(memory.element, 1))
        self._mark_value(lines, nothing)
        tensor = lines.define(f"{p}nothing", f"{_CAST} {p}value : {nothing} to {memory.mark}")
        buffer = lines.define(f"{p}memory", f"ttg.local_alloc {{alignment = 16 : i32}} : () -> {memory.whole}")
        first = lines.define(f"{p}first", self._first())
        row = lines.define(f"{p}row", f"ttg.memdesc_index {buffer}[{first}] : {memory.whole} -> {memory.row}")
        lines.effect(f"ttg.local_store {tensor}, {row} : {memory.mark} -> {memory.row}")
        place = lines.define(f"{p}place", f"{_CAST} {buffer} : {memory.whole} to {_STRUCT}")
        lines.define(f"{p}scratch", f"llvm.extractvalue {place}[0] : {_STRUCT}")

    def _free_scratch(self, lines: FunctionWriter, call: _Call, home: Home, settles: bool) -> None:
        """Write what stands behind the code; `settles`: Triton sees a barrier in it."""
        p, memory = lines.prefix, self._buffers.of(call.stub.plan.scratch_bytes, call.warps)
        if settles:
            lines.effect(f"ttg.local_store {p}nothing, {p}row : {memory.mark} -> {memory.row}")
        if home.freed == call.at + 1:
            lines.effect(f"ttg.local_dealloc {p}memory : {memory.whole}")

    def _mark_value(self, lines: FunctionWriter, struct: str) -> None:
        """Write what marks store: nothing, or what they are known by afterwards."""
        p = lines.prefix
        if not marks.are_kept(self._target.vendor, installed_release()):
            lines.define(f"{p}value", f"llvm.mlir.undef : {struct}")
            return
        empty = lines.define(f"{p}empty", f"llvm.mlir.undef : {struct}")
        number = lines.define(f"{p}number", f"llvm.mlir.constant({marks.NUMBER} : i64) : i64")
        lines.define(f"{p}value", f"llvm.insertvalue {number}, {empty}[0] : {struct}")

    def _first(self) -> str:
        """The index of the row that marks are stored to; they stand for an access to the whole buffer."""
        if installed_release() not in PARTS_TRACKED:
            return "llvm.mlir.constant(0 : i32) : i32"
        text, constraint = ZERO[self._target.vendor]
        return f'llvm.inline_asm asm_dialect = att "{text}", "{constraint}" : () -> i32'
