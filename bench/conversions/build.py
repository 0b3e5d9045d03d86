"""Compiles one case by one method, in a process of its own, and reads what came out.

Methods: `stock`; `ours` (the plugin); `legacy` (padded shared memory, always); `baseline` (no conversions); and
`forced:KIND`, where every conversion that has a plan of that kind uses it and the others what would be chosen.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import triton
from triton._C.libtriton import gluon_ir, ir

import triton_linear
from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.examples.spec import gpu_target
from triton_linear.lowering.emit.bodies import emit
from triton_linear.lowering.emit.embed import embed
from triton_linear.lowering.interpreter.verify import verify_conversion
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.plan.plans import NOOP, Plan, Stub
from triton_linear.lowering.planners import select as selection
from triton_linear.lowering.target import targets
from triton_linear.lowering.target.situation import Situation
from triton_linear.passes.pipeline import rewrite
from triton_linear.tools.support import compile as tools
from triton_linear.tools.support.compile import LOWERING

from ..harness.cases import called
from .cases import Case, Shape, cases
from .kernels import source

METHODS = ("stock", "legacy", "ours")
BASELINE = "baseline"
FORCED = "forced:"


@dataclass(frozen=True)
class Built:
    """A compiled kernel and what is known of it without running it.

    conversions: per direction the kind of plan, its summary, modelled clocks per warp and scratch bytes.
    instructions: SASS instructions of the loop by opcode; ptx: those of the whole kernel that matter here.
    verified: what the interpreter said of each direction's code, if it was asked.
    """

    case: str
    method: str
    cubin: bytes = b""
    kernel: str = ""
    parameters: int = 0
    shared: int = 0
    registers: int = 0
    spilled_bytes: int = 0
    conversions: tuple[Mapping[str, Any], ...] = ()
    instructions: Mapping[str, int] = field(default_factory=dict)
    ptx: Mapping[str, int] = field(default_factory=dict)
    verified: tuple[str, ...] = ()
    error: str | None = None

    def facts(self) -> dict[str, Any]:
        """Everything but the code, for JSON."""
        names = (
            "shared",
            "registers",
            "spilled_bytes",
            "conversions",
            "instructions",
            "ptx",
            "verified",
            "error",
        )
        return {name: getattr(self, name) for name in names}


@functools.cache
def _builder() -> tuple[Any, Any]:
    context = ir.context()
    ir.load_dialects(context)
    return gluon_ir.GluonOpBuilder(context), context


def layout_of(layout: Any, shape: Shape, bits: int) -> LinearLayout:
    """The linear layout of a Gluon layout."""
    builder, _ = _builder()
    attribute = layout._to_ir(builder)
    text = str(builder.get_distributed_ty(builder.get_half_ty(), list(shape), attribute))
    match = re.fullmatch(r"tensor<(?:\d+x)+f16, (#.*)>", text)
    if match is None:
        raise ValueError(f"layout_of: cannot read the type '{text}'")
    return encodings.layout_of(match[1], tuple(shape), bits)


def layouts(case: Case) -> tuple[LinearLayout, LinearLayout]:
    """A and B."""
    return layout_of(case.a, case.shape, case.bits), layout_of(case.b, case.shape, case.bits)


def directions(case: Case) -> tuple[tuple[LinearLayout, LinearLayout], ...]:
    """(source, destination) of the two conversions."""
    a, b = layouts(case)
    return (a, b), (b, a)


def plans(src: LinearLayout, dst: LinearLayout, bits: int, target: targets.Target) -> dict[str, Plan]:
    """Every plan that serves, best first, by kind; of one kind the second is called `KIND#2`."""
    found: dict[str, Plan] = {}
    for _, plan in selection.candidates(src, dst, element_type(f"i{bits}"), Situation.on(target)):
        alike = sum(kind.partition("#")[0] == plan.kind for kind in found)
        found[f"{plan.kind}#{alike + 1}" if alike else plan.kind] = plan
    return found


def forced_methods(case: Case, target: targets.Target) -> list[str]:
    """The kinds of plan that either direction can be forced to."""
    kinds: dict[str, None] = {}
    for src, dst in directions(case):
        kinds |= dict.fromkeys(plans(src, dst, case.bits, target))
    return [f"{FORCED}{kind}" for kind in kinds] if len(kinds) > 1 else []


def build(case_name: str, method: str, target_name: str, verify: bool = False) -> Built:
    """Compile; a failure is recorded, not raised, as it must not end the run of the others."""
    return build_case(called(case_name, cases()), method, target_name, verify)


def build_case(case: Case, method: str, target_name: str, verify: bool = False) -> Built:
    """`build`, of a case that need not be one of the suite's."""
    try:
        return _build(case, method, target_name, verify)
    except Exception as error:
        return Built(case.name, method, error=f"{type(error).__name__}: {error}")


def _build(case: Case, method: str, target_name: str, verify: bool) -> Built:
    target = targets.target(target_name)
    a, b = layouts(case)
    kernel_source = source(case, a, b, method)
    options = {"num_warps": case.warps}
    gpu = gpu_target(target_name)
    reports: Sequence[Any] = ()
    chosen: list[Plan | None] = []
    if method == "ours":
        with triton_linear.enabled(strict=True, assign=False, occupancy=False) as reports:
            kernel = triton.compile(kernel_source, target=gpu, options=options)
        element = element_type(f"i{case.bits}")
        chosen = [
            selection.select(src, dst, element, Situation.on(target)).plan for src, dst in directions(case)
        ]
    elif method.startswith(FORCED):
        stock = triton.compile(kernel_source, target=gpu, options=options)
        chosen = [_forced(case, direction, method, target) for direction in directions(case)]
        text = embed_plans(stock.asm["ttgir"], case, chosen, target)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{stock.name}.ttgir"
            path.write_text(text)
            kernel = triton.compile(str(path), target=gpu, options=options)
    else:
        kernel = triton.compile(kernel_source, target=gpu, options=options)
    if reports and len(reports[-1].conversions) != 2:
        raise ValueError(f"{len(reports[-1].conversions)} of 2 conversions are left in the loop")
    ptx, cubin = kernel.asm["ptx"], kernel.asm["cubin"]
    registers, stack = resource_usage(cubin)
    return Built(
        case.name,
        method,
        cubin,
        kernel.metadata.name,
        parameters(ptx),
        kernel.metadata.shared,
        registers,
        stack,
        tuple(_described(case, plan, target) for plan in chosen),
        loop_instructions(disassemble(cubin)),
        ptx_counts(ptx),
        tuple(_verdict(case, plan, side, target) for side, plan in zip(directions(case), chosen, strict=True))
        if verify and chosen
        else (),
    )


def _forced(
    case: Case, direction: tuple[LinearLayout, LinearLayout], method: str, target: targets.Target
) -> Plan | None:
    """The plan of the kind that `method` names, or the one chosen where there is none."""
    available = plans(*direction, case.bits, target)
    kind = method.removeprefix(FORCED)
    return (
        available.get(kind)
        or selection.select(*direction, element_type(f"i{case.bits}"), Situation.on(target)).plan
    )


def embed_plans(ttgir: str, case: Case, chosen: Sequence[Plan | None], target: targets.Target) -> str:
    """The module with its two conversions carried out by `chosen`; one that has no code stays as it was."""
    module = tools.read_module(ttgir, bridge.upstream_context(), f"{case.name}.ttgir")
    prepared = rewrite(module, LOWERING, target)
    sides = directions(case)
    forced: dict[str, Stub] = {}
    for symbol, stub in prepared.stubs.items():
        plan = chosen[sides.index((stub.source, stub.destination))]
        if plan is None or plan.kind == NOOP:
            raise ValueError(f"the stub @{symbol} is forced to a plan that has no code")
        forced[symbol] = replace(stub, plan=plan)
    return embed(module, forced, Situation.on(target), sparing=prepared.spares_memory).text


def _described(case: Case, plan: Plan | None, target: targets.Target) -> dict[str, Any]:
    if plan is None:
        return {"kind": "triton", "summary": "left to Triton", "clocks": None, "scratch_bytes": 0}
    cost = selection.cost(plan, element_type(f"i{case.bits}"), target)
    return {
        "kind": plan.kind,
        "summary": plan.summary(),
        "clocks": cost.clocks,
        "scratch_bytes": plan.scratch_bytes,
    }


def _verdict(
    case: Case, plan: Plan | None, side: tuple[LinearLayout, LinearLayout], target: targets.Target
) -> str:
    """`ok`, `no code`, or what is wrong."""
    if plan is None or plan.kind == NOOP:
        return "no code"
    element = element_type(f"i{case.bits}")
    text = emit(plan, element, target, "conversion")
    verdict = verify_conversion(text, *side, element, target, case.warps, plan.scratch_bytes)
    return "ok" if verdict.ok else f"{verdict.wrong} wrong, {len(verdict.races)} races"


def parameters(ptx: str) -> int:
    """How many parameters the entry function takes; Triton adds pointers of its own behind ours."""
    entry = re.search(r"\.entry \w+\((.*?)\)", ptx, re.DOTALL)
    if entry is None:
        raise ValueError("the PTX has no entry function")
    return entry[1].count(".param")


_PTX = {
    "shfl": r"\bshfl\.sync",
    "movmatrix": r"\bmovmatrix\.",
    "prmt": r"\bprmt\.",
    "select": r"\bselp\.",
    "ld.shared": r"\bld\.shared",
    "st.shared": r"\bst\.shared",
    "ldmatrix": r"\bldmatrix\.",
    "stmatrix": r"\bstmatrix\.",
    "bar.sync": r"\bbar\.sync|\bbarrier\.sync",
    "bar.warp": r"\bbar\.warp\.sync",
}


def ptx_counts(ptx: str) -> dict[str, int]:
    """PTX instructions that conversions are made of; those of count zero are left out."""
    counts = {name: len(re.findall(pattern, ptx)) for name, pattern in _PTX.items()}
    return {name: count for name, count in counts.items() if count}


def nvidia_tool(name: str) -> str:
    """A binary of the CUDA toolkit that the Triton wheel brings, or the one on the path."""
    import triton.backends.nvidia

    path = Path(triton.backends.nvidia.__file__).with_name("bin") / name
    return str(path) if path.exists() else name


def _run_on(tool: str, flags: Sequence[str], cubin: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [nvidia_tool(tool), *flags, file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def disassemble(cubin: bytes) -> str:
    """SASS with labels."""
    return _run_on("nvdisasm", ["-c"], cubin)


def resource_usage(cubin: bytes) -> tuple[int, int]:
    """Registers per thread, and bytes of stack, which is where registers are spilled to."""
    text = _run_on("cuobjdump", ["-res-usage"], cubin)
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    if found is None:
        raise ValueError("cuobjdump does not say how many registers the kernel takes")
    return int(found[1]), int(found[2])


_LABEL = re.compile(r"^(\.L_x_\d+):")
_INSTRUCTION = re.compile(
    r"^\s+/\*[0-9a-f]+\*/\s+(?P<guard>@!?U?P\w+ )?(?P<opcode>[A-Z][A-Z0-9_]*(?:\.[\w.]+)?)(?P<rest>.*)"
)


def loop_instructions(sass: str, guards: bool = False) -> dict[str, int]:
    """Instructions of the timed loop by opcode: from a label to the last branch back to it.

    Includes the words' changes that are never reached, where the assembler left them inside the loop.
    guards: call what is predicated `@P OPCODE`.
    """
    lines: list[tuple[str | None, str, str]] = []
    for line in sass.splitlines():
        if label := _LABEL.match(line):
            lines.append((label[1], "", ""))
        elif instruction := _INSTRUCTION.match(line):
            guard = "@P " if guards and instruction["guard"] else ""
            lines.append((None, guard + instruction["opcode"], instruction["rest"]))
    at = {label: index for index, (label, _, _) in enumerate(lines) if label}
    loops = []
    for index, (_, opcode, rest) in enumerate(lines):
        target = re.search(r"\.L_x_\d+", rest)
        if opcode.removeprefix("@P ").startswith("BRA") and target and at.get(target[0], index) < index - 1:
            loops.append((index - at[target[0]], at[target[0]], index))
    if not loops:
        return {}
    _, first, last = max(loops)
    counts = Counter(opcode for _, opcode, _ in lines[first : last + 1] if opcode and opcode != "NOP")
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
