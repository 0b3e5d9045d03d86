"""Putting our code into a kernel before Triton lowers it.

A call of an outlined conversion or gather becomes, in the text that goes back to libtriton, the LLVM-dialect
code of its plan between casts: from the tensors that it takes to the structs of registers that Triton's type
conversion will make of them, and back. When Triton lowers the kernel the casts meet that conversion's own and
cancel; the code in between is already what Triton lowers to, and stays. So no module is printed or parsed a
second time, and the code sits in the kernel, inlined, with the own source location of what was called for under
the name of its stub.

Scratch is a `ttg.local_alloc`, so Triton's allocation places it, shares its bytes with what is dead, and counts
it; the `ttg.local_dealloc` behind the code keeps the bytes reserved until its last read. Triton's barrier
analysis does not look into our code. It goes by marks: stores of an undefined value to one element of the
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

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from triton_linear.dialect.triton_versions import BARRIER_0, PARTS_TRACKED, installed_release
from triton_linear.lowering import marks, scratch
from triton_linear.lowering.element import ElementType, element_type
from triton_linear.lowering.emit import emit_body
from triton_linear.lowering.emit_gather import GatherSignature, emit_gather_body
from triton_linear.lowering.gather_plan import AnyGatherPlan, GatherPlan, GatherSharedPlan
from triton_linear.lowering.machines import BARRIER, MACHINES, THREAD, ZERO
from triton_linear.lowering.plan import FreePlan, NoOpPlan, Plan, RegisterPlan, SharedPlan, ShufflePlan
from triton_linear.lowering.scratch import Home
from triton_linear.lowering.targets import Target
from triton_linear.lowering.text import FunctionWriter, Signature, struct_type

STUB_PREFIX = "__ll_cvt_"
ACCUMULATORS = "_accumulators"
"""Ends the name of a stub whose calls take what `wgmma` left in its registers."""

GATHER_PREFIX = "__ll_gather_"
GatherCode = tuple[AnyGatherPlan, GatherSignature]
"""What a stub of a gather stands for."""

_PREFIXES = f"(?:{STUB_PREFIX}|{GATHER_PREFIX})"
_CALL = re.compile(
    r'^ *(?P<result>%\w+) = "tt\.call"\((?P<operands>%[\w#]+(?:, %[\w#]+)?)\) '
    rf"[^\n]*?callee = @(?P<symbol>{_PREFIXES}\w+)[^\n]*?"
    r" : \((?P<types>tensor<.*>)\) -> (?P<destination>tensor<.*>) loc\((?P<location>#?\w+|.*)\)$",
    re.MULTILINE,
)
_STUB = re.compile(
    rf'^  "tt\.func"\(\) [^\n]*sym_name = "(?P<symbol>{_PREFIXES}\w+)"'
    r"(?:[^\n]*\(\{\n(?:.*\n)*?  \}\)[^\n]*|[^\n]*)\n",
    re.MULTILINE,
)
_ELEMENT = re.compile(r"^tensor<(?:\d+x)*(.*?)(?:, #.*)?>$")
_OTHER_CALL = re.compile(rf'"tt\.call"[^\n]*?callee = @(?!{_PREFIXES})')
_HIDDEN_BARRIERS = {"nvidia": "nvvm.barrier", "amd": "rocdl.barrier"}
"""What Triton lowers `gpu.barrier` to, which its analysis does not know. `BARRIER_0`: with a 0 for NVIDIA."""
_TRANSPOSE = re.compile(
    r'%\w+ = "tt\.trans"\((?P<operand>%[\w#]+)\) [^\n]*? : \((?P<type>tensor<[^\n]*>)\) -> tensor<'
)
_SPECIALIZED = '"ttg.warp_specialize"('
_CAST = "builtin.unrealized_conversion_cast"
_PREFIX = "%__ll_"
_ARGUMENTS = ("source", "index")
_THREAD_NUMBER = re.compile(rf"^    (%\w+) = llvm\.inline_asm [^\n]*{re.escape(THREAD)}[^\n]*\n", re.MULTILINE)
_OWN = "%__own_"
THREAD_NUMBER = f"{_OWN}thread"
"""What all code in a function calls the number of the thread."""
_STRUCT = "!llvm.struct<(ptr<3>, i32, i32)>"


class EmbedError(Exception):
    """A module whose outlined conversions do not match their plans."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """A module with the code in it; `budget` bounds its shared memory where scratch takes more than it must."""

    text: str
    budget: int | None = None


def embed(
    text: str,
    plans: Mapping[str, Plan],
    target: Target,
    num_warps: int,
    apart: bool = True,
    gathers: Mapping[str, GatherCode] | None = None,
    *,
    sparing: bool = False,
) -> Embedded:
    """`text` with every call of a stub replaced by the code of its plan, and the stubs removed.

    `apart` lets scratch take more memory than it must, within the target's budget, where that saves barriers;
    `sparing` only within what the scratch of others takes anyhow.

    Requires: `text` is a module in generic form with locations; `plans` has every stub of a conversion that is
    called, `gathers` every one of a gather.
    Ensures: what is not a stub or its call is the same text, but for definitions before and after it and for
    operations that make and free scratch.

    Raises EmbedError when a call of a stub is left over or has no plan.
    """
    gathers = gathers or {}
    known = {*plans, *gathers}
    text = _STUB.sub(lambda stub: "" if stub["symbol"] in known else stub[0], text)
    calls = [_Call.read(found, plans, gathers) for found in _CALL.finditer(text)]
    has_calls = _OTHER_CALL.search(text) is not None
    frame = scratch.frame(text)
    uses = {
        number: scratch.use_of(text, call.start, call.end + 1, call.plan, target, num_warps, frame is not None)
        for number, call in enumerate(calls)
        if isinstance(call.plan, SharedPlan | GatherSharedPlan)
    }
    homes, budget = {number: Home(use.end) for number, use in uses.items()}, 0
    if apart and uses and not has_calls and _SPECIALIZED not in text:
        budget = target.shared_budget(num_warps, max(call.words for call in calls))
        everybody = sorted(
            (*uses.values(), *scratch.momentary_uses(text, num_warps)), key=lambda use: use.start
        )
        others = scratch.buffer_bytes(text)
        if sparing:
            budget = min(budget, scratch.least(everybody, others))
        arranged, budget = scratch.arrange(everybody, others, budget)
        by_start = {use.start: home for use, home in zip(everybody, arranged, strict=True)}
        # Outside loops a barrier costs less than the memory: what is shared, the first-level cache lacks.
        homes |= {number: by_start[use.start] for number, use in uses.items() if use.may_repeat}
    longer = {number: home for number, home in homes.items() if home != Home(uses[number].end)}
    writer = _Embedder(target, num_warps, has_calls, frame is not None)
    edits = [(call.start, call.end, writer.code(call, n, homes.get(n))) for n, call in enumerate(calls)]
    for number, home in longer.items():
        if not home.lent:
            edits.append((home.freed, home.freed, writer.free(calls[number].plan, number)))
    if frame is not None:
        begin, end = frame
        edits.append((begin, begin, writer.thread_number()))
        for size in sorted({uses[number].bytes for number, home in longer.items() if home.lent}):
            edits += [(begin, begin, writer.make_own(size)), (end, end, writer.free_own(size))]
    text = _edited(text, edits)
    if left := re.search(rf'^.*"tt\.call"[^"]*callee = @{_PREFIXES}.*$', text, re.MULTILINE):
        raise EmbedError(f"call of a stub in a form that is not understood: {left[0].strip()[:200]}")
    text = "".join((writer.definitions(), text, *writer.locations))
    return Embedded(text, budget if longer else None)


def _edited(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """`text` with other text from one place to another each; what goes to the same place keeps its order."""
    at, pieces = 0, []
    for start, end, replacement in sorted(edits, key=lambda edit: edit[:2]):
        pieces += [text[at:start], replacement]
        at = end
    return "".join((*pieces, text[at:]))


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a stub: where it stands in the text, and what it says."""

    start: int
    end: int
    symbol: str
    operands: tuple[str, ...]
    types: tuple[str, ...]
    result: str
    destination: str
    location: str
    plan: Plan | AnyGatherPlan
    signature: Signature | GatherSignature

    @classmethod
    def read(cls, found: re.Match[str], plans: Mapping[str, Plan], gathers: Mapping[str, GatherCode]) -> _Call:
        """The call that `_CALL` found.

        A transpose before a conversion moves no register, so what it takes is taken. (AMD's stage leaves a cast
        from a transpose standing where a branch takes what is transposed.)
        """
        symbol = found["symbol"]
        operands, types = found["operands"].split(", "), re.split(", (?=tensor<)", found["types"])
        while view := _transpose(found.string, operands[0], found.start()):
            operands[0], types[0] = view
        if symbol in gathers:
            plan: Plan | AnyGatherPlan
            signature: Signature | GatherSignature
            plan, signature = gathers[symbol]
        elif symbol in plans:
            plan = plans[symbol]
            signature = signature_of(plan, element_type(_element(types[0])))
        else:
            raise EmbedError(f"no plan for stub @{symbol}")
        return cls(
            found.start(),
            found.end(),
            symbol,
            (*operands,),
            (*types,),
            found["result"],
            found["destination"],
            found["location"],
            plan,
            signature,
        )

    @property
    def words(self) -> int:
        """Registers of 32 bits that a thread has for the source or the result, whichever takes more."""
        registers = max(self.signature.source_registers, self.signature.result_registers)
        return -(-registers * element_type(_element(self.types[0])).bits // 32)


class _Embedder:
    """Writes what stands in place of calls, and collects what that needs defined around the module."""

    def __init__(self, target: Target, num_warps: int, has_calls: bool, alone: bool) -> None:
        self._target = target
        self._num_warps = num_warps
        self._has_calls = has_calls
        self._alone = alone
        self._threads = False
        self._types: dict[str, str] = {}
        self._scratch = False
        self.locations: list[str] = []

    def definitions(self) -> str:
        """Aliases for the struct types and, if there is scratch, its encodings."""
        lines = [f"{alias} = {type_}\n" for type_, alias in self._types.items()]
        if self._scratch:
            lanes, warps = self._target.lanes, self._num_warps
            shape = f"sizePerThread = [1], threadsPerWarp = [{lanes}], warpsPerCTA = [{warps}]"
            lines.append(f"#__ll_blocked = #ttg.blocked<{{{shape}, order = [0]}}>\n")
            lines.append(
                "#__ll_shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>\n"
            )
        return "".join(lines)

    def code(self, call: _Call, number: int, home: Home | None) -> str:
        """The code of one call, in lines without the last newline."""
        location = f"#__ll_loc{number}"
        self.locations.append(f'{location} = loc("{call.symbol}"({call.location}))\n')
        if isinstance(call.plan, GatherPlan | GatherSharedPlan):
            assert isinstance(call.signature, GatherSignature)  # they come together
            code, result = _gather_code(call.plan, call.signature, self._target)
        else:
            assert isinstance(call.signature, Signature)
            code, result = _code(call.plan, call.signature, self._target, call.symbol.endswith(ACCUMULATORS))
        if self._has_calls:
            hidden = _HIDDEN_BARRIERS[self._target.vendor]
            if hidden == "nvvm.barrier" and installed_release() in BARRIER_0:
                hidden = "nvvm.barrier0"
            code = code.replace(BARRIER, hidden)
        if self._alone and (asked := _THREAD_NUMBER.search(code)):
            # Asked for once, before any loop: LLVM takes no inline assembly out of one.
            code = re.sub(rf"{asked[1]}\b", THREAD_NUMBER, code.replace(asked[0], ""))
            self._threads = True
        structs = {type_: self._alias(type_) for type_ in (*call.signature.arguments, call.signature.result)}
        for type_, alias in structs.items():
            code = code.replace(type_, alias)
        before, after = self._around(call, home, settles=BARRIER in code)
        destination = call.destination
        given = "".join(
            f"    {_PREFIX}{name} = {_CAST} {operand} : {type_} to {structs[struct]}\n"
            for name, operand, type_, struct in zip(
                _ARGUMENTS, call.operands, call.types, call.signature.arguments, strict=False
            )
        )
        lines = (
            f"{given}{before}{code}{after}"
            f"    {_PREFIX}result = {_CAST} {result} : {structs[call.signature.result]} to {destination}\n"
        )
        name = call.result
        tail = ""
        if self._target.vendor == "amd":
            # AMD's axis analysis gives the tensor the rank of the struct and stops where a loop or branch joins
            # it with another of its own rank; it looks at a conversion's own type, and this one is no code.
            name = f"{_PREFIX}tensor"
            tail = (
                f"\n    {call.result} = ttg.convert_layout {name} : {destination} -> {destination} "
                f"loc({call.location})"
            ).replace(_PREFIX, f"{_PREFIX}{number}_")
        lines = lines.replace(f"{_PREFIX}result =", f"{name} =").replace(_PREFIX, f"{_PREFIX}{number}_")
        return lines.replace("\n", f" loc({location})\n").removesuffix("\n") + tail

    def free(self, plan: Plan | AnyGatherPlan, number: int) -> str:
        """The line that frees a call's scratch, for a place outside its code."""
        name = f"{_PREFIX}{number}_memory"
        return f"    ttg.local_dealloc {name} : {_memory(plan.scratch_bytes)} loc(unknown)\n"

    def thread_number(self) -> str:
        """The line that asks for the thread's number, for the beginning of the function."""
        if not self._threads:
            return ""
        asm = f'llvm.inline_asm asm_dialect = att "{THREAD}", "=r" : () -> i32'
        return f"    {THREAD_NUMBER} = {asm} loc(unknown)\n"

    def make_own(self, size: int) -> str:
        """The lines that make a buffer of the warps, for the beginning of the function."""
        memory = f"{_OWN}{size}_memory"
        return (
            f"    {memory} = ttg.local_alloc {{alignment = 16 : i32}} : () -> {_memory(size)} loc(unknown)\n"
            f"    {_OWN}{size}_place = {_CAST} {memory} : {_memory(size)} to {_STRUCT} loc(unknown)\n"
        )

    def free_own(self, size: int) -> str:
        """The line that frees a buffer of the warps, for the function's end."""
        return f"    ttg.local_dealloc {_OWN}{size}_memory : {_memory(size)} loc(unknown)\n"

    def _mark_value(self, struct: str) -> str:
        """The lines that make what marks store: nothing, or what they are known by afterwards."""
        p = _PREFIX
        if not marks.are_kept(self._target.vendor, installed_release()):
            return f"    {p}value = llvm.mlir.undef : {struct}\n"
        return (
            f"    {p}empty = llvm.mlir.undef : {struct}\n"
            f"    {p}number = llvm.mlir.constant({marks.NUMBER} : i64) : i64\n"
            f"    {p}value = llvm.insertvalue {p}number, {p}empty[0] : {struct}\n"
        )

    def _first(self) -> str:
        """The index of the word that marks are stored to; they stand for an access to the whole buffer."""
        if installed_release() not in PARTS_TRACKED:
            return "llvm.mlir.constant(0 : i32) : i32"
        text, constraint = ZERO[self._target.vendor]
        return f'llvm.inline_asm asm_dialect = att "{text}", "{constraint}" : () -> i32'

    def _alias(self, type_: str) -> str:
        return self._types.setdefault(type_, f"!__ll_registers{len(self._types)}")

    def _around(self, call: _Call, home: Home | None, settles: bool) -> tuple[str, str]:
        """The lines that make the scratch and those that free it; `settles`: Triton sees a barrier between."""
        size = call.plan.scratch_bytes
        if home is None:
            return "", ""
        self._scratch = True
        p = _PREFIX
        if home.lent:
            writer = FunctionWriter(f"{p}wait_")
            assert isinstance(call.plan, SharedPlan | GatherSharedPlan)  # others have no home
            if home.waits and not (self._target.waits_before_stores and call.plan.stores_apart):
                MACHINES[self._target.vendor].barrier(writer, "warp")
            return f"{writer.body()}    {p}scratch = llvm.extractvalue {_OWN}{size}_place[0] : {_STRUCT}\n", ""
        tensor = "tensor<1xi64, #__ll_blocked>"
        memory, word = _memory(size), _WORD
        nothing = self._alias(struct_type("i64", 1))
        mark = f"    ttg.local_store {p}nothing, {p}word : {tensor} -> {word}\n"
        before = (
            f"{self._mark_value(nothing)}"
            f"    {p}nothing = {_CAST} {p}value : {nothing} to {tensor}\n"
            f"    {p}memory = ttg.local_alloc {{alignment = 16 : i32}} : () -> {memory}\n"
            f"    {p}first = {self._first()}\n"
            f"    {p}word = ttg.memdesc_index {p}memory[{p}first] : {memory} -> {word}\n"
            f"{mark}"
            f"    {p}place = {_CAST} {p}memory : {memory} to {_STRUCT}\n"
            f"    {p}scratch = llvm.extractvalue {p}place[0] : {_STRUCT}\n"
        )
        after = mark if settles else ""
        if home.freed == call.end + 1:
            after += f"    ttg.local_dealloc {p}memory : {memory}\n"
        return before, after


def _transpose(text: str, value: str, before: int) -> tuple[str, str] | None:
    """What the transpose that gives `value` takes, and its type; None where it is given by something else.

    The definition of a value is the last one of its name before its use.
    """
    start = text.rfind(f"{value} = ", 0, before)
    found = _TRANSPOSE.match(text, start) if start >= 0 else None
    return found and (found["operand"], found["type"])


_WORD = "!ttg.memdesc<1xi64, #__ll_shared, #ttg.shared_memory, mutable>"


def _memory(size: int) -> str:
    """The type of a buffer of `size` bytes: words of 8, one of which `ttg.memdesc_index` can ask for."""
    return f"!ttg.memdesc<{max(1, -(-size // 8))}x1xi64, #__ll_shared, #ttg.shared_memory, mutable>"


def signature_of(plan: Plan, element: ElementType) -> Signature:
    """The structs that a plan converts between."""
    if isinstance(plan, NoOpPlan):
        raise ValueError("a no-op has no code")
    if isinstance(plan, RegisterPlan):
        return Signature(element.llvm, plan.source_registers, len(plan.sources))
    if isinstance(plan, ShufflePlan):
        return Signature(element.llvm, plan.source_registers, plan.destination_registers)
    if isinstance(plan, FreePlan):
        return Signature(element.llvm, plan.source_registers, len(plan.registers))
    return Signature(element.llvm, plan.source_registers, len(plan.outputs))


@functools.lru_cache(maxsize=256)
def _code(plan: Plan, signature: Signature, target: Target, accumulators: bool) -> tuple[str, str]:
    writer = FunctionWriter(_PREFIX)
    result = emit_body(plan, signature, target, writer, f"{_PREFIX}source", f"{_PREFIX}scratch", accumulators)
    return writer.body(), result


@functools.lru_cache(maxsize=64)
def _gather_code(plan: AnyGatherPlan, signature: GatherSignature, target: Target) -> tuple[str, str]:
    writer = FunctionWriter(_PREFIX)
    names = (f"{_PREFIX}{name}" for name in (*_ARGUMENTS, "scratch"))
    result = emit_gather_body(plan, signature, target, writer, *names)
    return writer.body(), result


def _element(tensor: str) -> str:
    found = _ELEMENT.match(tensor)
    if found is None:
        raise EmbedError(f"'{tensor}' is not a tensor type")
    return found[1]
