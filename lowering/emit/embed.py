"""Putting our code into a kernel before Triton lowers it.

A call of an outlined conversion becomes the LLVM-dialect code of its plan between casts: from the tensor that
it takes to the struct of registers that Triton's type conversion will make of it, and back.
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

import bisect
import re
from collections.abc import Iterable, Mapping

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Block, InsertionPoint, Location, Module, Operation
from triton_linear.dialect.partitions import WARP_SPECIALIZE, first_of_partition
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.triton_versions import ADDRESSES_COLLECTED
from triton_linear.lowering.emit import scratch
from triton_linear.lowering.emit.buffers import ALIGNED_BYTES, Buffers
from triton_linear.lowering.emit.calls import Call, CallWriter, OwnBuffer, Partition, partitions_of
from triton_linear.lowering.emit.scratch import Home, ScratchUse
from triton_linear.lowering.plan.plans import SharedPlan, Stub
from triton_linear.lowering.target import limits
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target

_CALL = "tt.call"
_PLACE = "triton_linear.place"
"""An operation that stands where text is to come, in the copy that is printed."""
_LINE = re.compile(
    r' *(?:(?P<result>%\w+) = "tt\.call"\((?P<operand>%[\w#]+)\) '
    r"<?\{[^\n]*?callee = @(?P<symbol>\w+)[^\n]*?"
    r" : \((?P<source>tensor<.*>)\) -> (?P<destination>tensor<.*>) loc\((?P<location>#?\w+|.*)\)"
    rf'|"{re.escape(_PLACE)}"\(\)[^\n]*)\n'
)
"""A line of such a place, or of a call of one tensor."""
_NAME = re.compile(r'"t(?:t\.call|riton_linear\.place)"\(')
"""What such a line has, which takes less time to find."""


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
    situation: Situation,
    *,
    apart: bool = True,
    sparing: bool = False,
) -> Embedded:
    """The text of `module` with every call of a stub replaced by the code of its plan, and without the stubs.

    `apart` lets scratch take more memory than it must, within the GPU's budget, where that saves barriers;
    `sparing` only within what the scratch of others takes anyhow.

    Requires: `stubs` has every stub that is called. Ensures: `module` is as it was.

    Raises EmbedError where the calls are not found again in the text.
    """
    target, release = situation.gpu, situation.release
    copy, ops = bridge.without_ll(module)
    program = scratch.NumberedModule(_without(ops, stubs))
    num_warps = module.operation.attributes["ttg.num-warps"].value
    calls = _calls(program, stubs, num_warps)
    if not calls:
        return Embedded(bridge.printed(copy))
    attributes = module.operation.attributes
    num_ctas = attributes["ttg.num-ctas"].value if "ttg.num-ctas" in attributes else 1
    has_calls = any(name == _CALL and n not in calls for n, name in enumerate(program.names))
    specialized = WARP_SPECIALIZE in program.names
    alone = not has_calls and not specialized
    frame = program.frame()
    uses = {
        n: program.use(n, call.stub.plan, target, call.warps, framed=_is_framed(call, frame))
        for n, call in calls.items()
        if isinstance(call.stub.plan, SharedPlan)
    }
    words = max(call.words for call in calls.values())
    if specialized and apart and not has_calls:
        homes, budget = _homes_in_regions(
            program, uses, calls, target, num_warps, num_ctas, words, sparing=sparing
        )
    elif apart and alone and uses:
        homes, budget = _homes(program, uses, target, num_warps, words, sparing=sparing)
    else:
        homes, budget = {n: Home(use.end) for n, use in uses.items()}, 0
    lasting = {n: home for n, home in homes.items() if home != Home(n + 1)}
    lent = {calls[n].own_buffer for n in lasting if homes[n].lent}
    freed: dict[int, list[int]] = {}
    for n, home in lasting.items():
        if not home.lent:
            freed.setdefault(home.freed, []).append(n)
    entered = {call.partition.begin: call.partition for call in calls.values() if call.partition is not None}
    left = {found.end: found for found in entered.values() if found.end is not None}
    places = {*freed, *entered, *left, *((frame.begin, frame.end) if frame is not None else ())}
    take_what_is_transposed(program, [call.op for call in calls.values()])
    for n in places:
        at = program.ops[n]
        Operation.create(_PLACE, loc=Location.unknown(at.context), ip=InsertionPoint(at))
    text = bridge.printed(copy)
    lines = _lines(text, calls, places)
    # What regions of some warps, or functions, are handed lies anywhere.
    sparse = alone and release in ADDRESSES_COLLECTED and program.has_no_view_between(ALIGNED_BYTES)
    buffers = Buffers(target.lanes, num_ctas, sparse=sparse)
    writer = CallWriter(target, release, buffers, has_calls, framed=frame is not None)
    code = {n: writer.code(calls[n], line, homes.get(n)) for (n, is_call), line in lines.items() if is_call}

    def owned(partition: int | None) -> list[OwnBuffer]:
        return sorted((own for own in lent if own.partition == partition), key=lambda own: own.name)

    def in_front(n: int) -> str:
        """What stands in front of operation n: what the function begins or ends with, scratch that is freed."""
        pieces = [writer.free(calls[user]) for user in freed.get(n, ())]
        if n in entered:
            pieces += [writer.number_in(entered[n]), *map(writer.make_own, owned(entered[n].number))]
        if n in left:
            pieces += map(writer.free_own, owned(left[n].number))
        if frame is not None and n == frame.begin:
            pieces += [writer.own_number(), *map(writer.make_own, owned(None))]
        if frame is not None and n == frame.end:
            pieces += map(writer.free_own, owned(None))
        return "".join(pieces)

    end, parts = 0, []
    for (n, is_call), line in lines.items():
        parts += [text[end : line.start()], code[n] if is_call else in_front(n)]
        end = line.end()
    whole = "".join((writer.definitions(), *parts, text[end:], *writer.locations))
    return Embedded(whole, budget if lasting else None)


def _without(ops: Iterable[Operation], stubs: Mapping[str, Stub]) -> list[Operation]:
    """The operations but for the stubs, which are erased."""
    kept = []
    for op in ops:
        if op.name == "tt.func" and op.attributes["sym_name"].value in stubs:
            op.erase()
        else:
            kept.append(op)
    return kept


def _calls(program: scratch.NumberedModule, stubs: Mapping[str, Stub], num_warps: int) -> dict[int, Call]:
    """The calls of stubs, by the numbers of their operations; the kernel has `num_warps` of its own."""
    found: dict[int, Call] = {}
    inside = partitions_of(program) if WARP_SPECIALIZE in program.names else {}
    for n, name in enumerate(program.names):
        if name == _CALL:
            op = program.ops[n]
            symbol = op.attributes["callee"].value
            if symbol in stubs:
                own = inside.get(n)
                found[n] = Call(op, n, len(found), stubs[symbol], own.warps if own else num_warps, own)
    return found


def _by_region(calls: Iterable[Call]) -> dict[Partition | None, list[Call]]:
    """Calls by the partition that they are in; None: in none."""
    found: dict[Partition | None, list[Call]] = {}
    for call in calls:
        found.setdefault(call.partition, []).append(call)
    return found


def _homes(
    program: scratch.NumberedModule,
    uses: Mapping[int, ScratchUse],
    target: Target,
    num_warps: int,
    words: int,
    *,
    sparing: bool,
) -> tuple[dict[int, Home], int]:
    """Where each use has its scratch, and the bytes that all may take."""
    budget = target.shared_budget(num_warps, words)
    momentary = program.momentary_uses(num_warps)
    everybody = sorted((*uses.values(), *momentary), key=lambda use: use.start)
    others = program.buffer_bytes()
    if sparing:
        budget = min(budget, scratch.least(everybody, others))
    kept, budget = scratch.arranged(everybody, others, budget, limits.SCRATCH_PIECES, limits.SMALL_SCRATCH)
    return {use.start: home for use, home in zip(everybody, kept, strict=True) if use.start in uses}, budget


def _is_framed(call: Call, frame: scratch.Frame | None) -> bool:
    """Whether there is a place where a buffer for a call can be made and one where it can be freed."""
    return frame is not None if call.partition is None else call.partition.end is not None


def _homes_in_regions(
    program: scratch.NumberedModule,
    uses: Mapping[int, ScratchUse],
    calls: Mapping[int, Call],
    target: Target,
    num_warps: int,
    num_ctas: int,
    words: int,
    *,
    sparing: bool,
) -> tuple[dict[int, Home], int]:
    """What `_homes` gives, in a module with warp-specialised regions."""
    regions = _by_region(calls[n] for n in sorted(uses))
    groups = {region: [uses[call.at] for call in members] for region, members in regions.items()}
    by_first = {
        None if region is None else program.ops[region.begin]: group for region, group in groups.items()
    }
    others = program.buffer_bytes()
    for use in program.momentary_uses(max(call.warps for call in calls.values())):
        if (group := by_first.get(first_of_partition(program.ops[use.start]))) is None:
            others += use.bytes
        else:
            bisect.insort(group, use, key=lambda use: use.start)
    # Operations with regions run one after the other. The widest partition alone bounds the CTAs from above.
    warps = num_warps + max((region.warps for region in regions if region is not None), default=0)
    budget = 0 if sparing else target.shared_budget(warps, words, program.bytes_across_regions(num_ctas))
    homes = scratch.in_regions(
        list(groups.values()), others, budget, limits.SCRATCH_PIECES, limits.SMALL_SCRATCH
    )
    return {n: home for n, home in homes.items() if n in uses}, budget


def _lines(
    text: str, calls: Mapping[int, Call], places: Iterable[int]
) -> dict[tuple[int, bool], re.Match[str]]:
    """The lines of calls (True) and of places in front of operations (False), by the operations' numbers, in
    the order of the text."""
    wanted = sorted([*((n, True) for n in calls), *((n, False) for n in places)])
    symbols = {None, *(call.stub.symbol for call in calls.values())}
    begins = (text.rfind("\n", 0, name.start()) + 1 for name in _NAME.finditer(text))
    lines = [line for begin in begins if (line := _LINE.match(text, begin)) and line["symbol"] in symbols]
    if len(lines) != len(wanted):
        raise EmbedError(f"{len(wanted)} calls and places are in the module, {len(lines)} in its text")
    for (n, is_call), line in zip(wanted, lines, strict=True):
        if is_call != (line["result"] is not None) or (is_call and line["symbol"] != calls[n].stub.symbol):
            raise EmbedError(f"operation {n} is not what the text has in its place: {line[0].strip()[:200]}")
    return dict(zip(wanted, lines, strict=True))


def take_what_is_transposed(program: scratch.NumberedModule, calls: Iterable[Operation]) -> None:
    """Replace the operand of each call by the operand of the `tt.trans` before it, which moves no register.

    Up to Triton 3.7, AMD's stage fails to remove a cast from a transpose if a branch takes the transposed
    value.
    """
    if "tt.trans" not in program.names:
        return
    for call in calls:
        while not isinstance(view := call.operands[0].owner, Block) and view.name == "tt.trans":
            call.operands[0] = view.operands[0]
