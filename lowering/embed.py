"""Putting our code into a kernel before Triton lowers it.

A call of an outlined conversion becomes, in the text that goes back to libtriton, the LLVM-dialect code of
its plan between two casts: from the source tensor to the struct of registers that Triton's type conversion will
make of it, and back. When Triton lowers the kernel the casts meet that conversion's own and cancel; the code in
between is already what Triton lowers to, and stays. So no module is printed or parsed a second time, and the
code sits in the kernel, inlined, with the conversion's own source location under the name of its stub.

Scratch is a `ttg.local_alloc`, so Triton's allocation places it, shares its bytes with what is dead, and counts
it; the `ttg.local_dealloc` behind the code keeps the bytes reserved until its last read. Triton's barrier
analysis does not look into our code. It goes by marks: stores of an undefined value to one element of the
scratch. Each counts as a write of the whole scratch, and LLVM drops it. The analysis puts a barrier of the CTA
before a mark whose bytes were accessed since the last barrier, and before whoever accesses those bytes next.

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
from collections.abc import Mapping

from triton_linear.lowering.element import ElementType, element_type
from triton_linear.lowering.emit import emit_body
from triton_linear.lowering.machines import BARRIER
from triton_linear.lowering.plan import NoOpPlan, Plan, RegisterPlan, SharedPlan, ShufflePlan
from triton_linear.lowering.targets import Target
from triton_linear.lowering.text import FunctionWriter, Signature, struct_type

STUB_PREFIX = "__ll_cvt_"

_CALL = re.compile(
    rf'^ *(?P<result>%\w+) = "tt\.call"\((?P<operand>%[\w#]+)\) '
    rf"[^\n]*?callee = @(?P<symbol>{STUB_PREFIX}\w+)[^\n]*?"
    r" : \((?P<source>tensor<.*>)\) -> (?P<destination>tensor<.*>) loc\((?P<location>#?\w+|.*)\)$",
    re.MULTILINE,
)
_STUB = re.compile(
    rf'^  "tt\.func"\(\) [^\n]*sym_name = "(?P<symbol>{STUB_PREFIX}\w+)"'
    r"(?:[^\n]*\(\{\n(?:.*\n)*?  \}\)[^\n]*|[^\n]*)\n",
    re.MULTILINE,
)
_ELEMENT = re.compile(r"^tensor<(?:\d+x)*(.*?)(?:, #.*)?>$")
_OTHER_CALL = re.compile(rf'"tt\.call"[^\n]*?callee = @(?!{STUB_PREFIX})')
_HIDDEN_BARRIERS = {"nvidia": "nvvm.barrier0", "amd": "rocdl.barrier"}
"""What Triton lowers `gpu.barrier` to, which its analysis does not know."""
_PREFIX = "%__ll_"
_STRUCT = "!llvm.struct<(ptr<3>, i32)>"


class EmbedError(Exception):
    """A module whose outlined conversions do not match their plans."""


def embed(text: str, plans: Mapping[str, Plan], target: Target, num_warps: int) -> str:
    """`text` with every call of a stub replaced by the code of its plan, and the stubs removed.

    Requires: `text` is a module in generic form with locations; `plans` has every stub that is called.
    Ensures: what is not a stub or its call is the same text, but for definitions before and after it.

    Raises EmbedError when a call of a stub is left over or has no plan.
    """
    writer = _Embedder(plans, target, num_warps, has_calls=bool(_OTHER_CALL.search(text)))
    text = _STUB.sub(lambda stub: "" if stub["symbol"] in plans else stub[0], text)
    text = _CALL.sub(writer.replace_call, text)
    if left := re.search(rf'^.*"tt\.call"[^"]*callee = @{STUB_PREFIX}.*$', text, re.MULTILINE):
        raise EmbedError(f"call of a stub in a form that is not understood: {left[0].strip()[:200]}")
    return "".join((writer.definitions(), text, *writer.locations))


class _Embedder:
    """Collects what the replaced calls need defined around the module."""

    def __init__(self, plans: Mapping[str, Plan], target: Target, num_warps: int, has_calls: bool) -> None:
        self._plans = plans
        self._target = target
        self._num_warps = num_warps
        self._has_calls = has_calls
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

    def replace_call(self, call: re.Match[str]) -> str:
        """The code of one call, in lines without the last newline."""
        plan = self._plans.get(call["symbol"])
        if plan is None:
            raise EmbedError(f"no plan for stub @{call['symbol']}")
        number = len(self.locations)
        location = f"#__ll_loc{number}"
        self.locations.append(f'{location} = loc("{call["symbol"]}"({call["location"]}))\n')
        source, destination = call["source"], call["destination"]
        signature = signature_of(plan, element_type(_element(source)))
        code, result = _code(plan, signature, self._target)
        if self._has_calls:
            code = code.replace(BARRIER, _HIDDEN_BARRIERS[self._target.vendor])
        structs = {type_: self._alias(type_) for type_ in (signature.source, signature.result)}
        for type_, alias in structs.items():
            code = code.replace(type_, alias)
        before, after = self._around(plan, settles=BARRIER in code)
        cast = "builtin.unrealized_conversion_cast"
        lines = (
            f"    {_PREFIX}source = {cast} {call['operand']} : {source} to {structs[signature.source]}\n"
            f"{before}{code}{after}"
            f"    {_PREFIX}result = {cast} {result} : {structs[signature.result]} to {destination}\n"
        )
        name = call["result"]
        tail = ""
        if self._target.vendor == "amd":
            # AMD's axis analysis gives the tensor the rank of the struct and stops where a loop or branch joins
            # it with another of its own rank; it looks at a conversion's own type, and this one is no code.
            name = f"{_PREFIX}tensor"
            tail = (
                f"\n    {call['result']} = ttg.convert_layout {name} : {destination} -> {destination} "
                f"loc({call['location']})"
            ).replace(_PREFIX, f"{_PREFIX}{number}_")
        lines = lines.replace(f"{_PREFIX}result =", f"{name} =").replace(_PREFIX, f"{_PREFIX}{number}_")
        return lines.replace("\n", f" loc({location})\n").removesuffix("\n") + tail

    def _alias(self, type_: str) -> str:
        return self._types.setdefault(type_, f"!__ll_registers{len(self._types)}")

    def _around(self, plan: Plan, settles: bool) -> tuple[str, str]:
        """The lines that make the scratch and those that free it; `settles`: Triton sees a barrier between."""
        if not plan.scratch_bytes:
            return "", ""
        self._scratch = True
        words = max(1, plan.scratch_bytes // 8)
        tensor = "tensor<1xi64, #__ll_blocked>"
        memory, word = (f"!ttg.memdesc<{n}xi64, #__ll_shared, #ttg.shared_memory, mutable>" for n in (words, 1))
        nothing = self._alias(struct_type("i64", 1))
        cast = "builtin.unrealized_conversion_cast"
        p = _PREFIX
        mark = f"    ttg.local_store {p}nothing, {p}word : {tensor} -> {word}\n"
        before = (
            f"    {p}undef = llvm.mlir.undef : {nothing}\n"
            f"    {p}nothing = {cast} {p}undef : {nothing} to {tensor}\n"
            f"    {p}memory = ttg.local_alloc {{alignment = 16 : i32}} : () -> {memory}\n"
            f"    {p}word = ttg.memdesc_reinterpret {p}memory : {memory} -> {word}\n"
            f"{mark}"
            f"    {p}place = {cast} {p}memory : {memory} to {_STRUCT}\n"
            f"    {p}scratch = llvm.extractvalue {p}place[0] : {_STRUCT}\n"
        )
        return before, f"{mark if settles else ''}    ttg.local_dealloc {p}memory : {memory}\n"


def signature_of(plan: Plan, element: ElementType) -> Signature:
    """The structs that a plan converts between."""
    if isinstance(plan, NoOpPlan):
        raise ValueError("a no-op has no code")
    if isinstance(plan, RegisterPlan):
        return Signature(element.llvm, plan.source_registers, len(plan.sources))
    if isinstance(plan, ShufflePlan):
        return Signature(element.llvm, plan.source_registers, plan.destination_registers)
    return Signature(element.llvm, plan.source_registers, len(plan.outputs))


@functools.lru_cache(maxsize=256)
def _code(
    plan: ShufflePlan | SharedPlan | RegisterPlan, signature: Signature, target: Target
) -> tuple[str, str]:
    writer = FunctionWriter(_PREFIX)
    result = emit_body(plan, signature, target, writer, f"{_PREFIX}source", f"{_PREFIX}scratch")
    return writer.body(), result


def _element(tensor: str) -> str:
    found = _ELEMENT.match(tensor)
    if found is None:
        raise EmbedError(f"'{tensor}' is not a tensor type")
    return found[1]
