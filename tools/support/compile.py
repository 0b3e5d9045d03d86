"""Compile TTGIR text through our passes and Triton's own backends, without a GPU, up to any stage.

`compile_text` is the whole road: read, run the passes, put the code of the outlined conversions in, and lower
(`backend.lower`, which has the stages).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    Context,
    MLIRError,
    Module,
    block_arguments,
    operations,
)
from triton_linear.lowering.element import ElementType, element_type
from triton_linear.lowering.embed import embed
from triton_linear.lowering.gather_plan import LEGACY_GATHER
from triton_linear.lowering.plan import PADDED, Plan
from triton_linear.lowering.select import MOST_REGISTERS
from triton_linear.lowering.strategies import LINEAR
from triton_linear.lowering.targets import Target
from triton_linear.lowering.targets import target as target_called
from triton_linear.passes import diagnostics, driver, gather, wellformed
from triton_linear.passes.layouts import LayoutTable
from triton_linear.passes.split_reductions import spares_memory
from triton_linear.tools.backend import (
    FAILED,
    NOWHERE,
    Lowered,
    Place,
    lower,
    vendor_of,
)
from triton_linear.tools.errors import (
    Diagnostic,
    ToolError,
    captured_stderr,
    fail,
    now_at,
    parse_diagnostics,
    position,
)

_MEMORY_FILE = re.compile(r"/proc/self/fd/\d+|-")
_COMMENT = re.compile(r"//.*")


def _in_file(diagnostic: Diagnostic, filename: str) -> Diagnostic:
    """The diagnostic with the name that the user gave to the text."""
    file = filename if _MEMORY_FILE.fullmatch(diagnostic.file) or not diagnostic.file else diagnostic.file
    notes = tuple(_in_file(note, filename) for note in diagnostic.notes)
    return replace(diagnostic, file=file, notes=notes)


def from_pass(diagnostic: diagnostics.Diagnostic) -> Diagnostic:
    """What a pass reported, as the tools print it."""
    notes = tuple(map(from_pass, diagnostic.notes))
    return Diagnostic(diagnostic.severity, diagnostic.message, *position(diagnostic.location), notes)


def read_module(text: str, context: Context, filename: str) -> Module:
    """Parse TTGIR or MLIR text; what is wrong with it is reported in `filename`."""
    now_at(filename)
    text = text.removeprefix("\ufeff")
    if not _COMMENT.sub("", text).strip():
        fail("there is no module in the input", filename)
    module: Module | None = None
    failure: Exception | None = None
    found: list[Diagnostic] = []
    with captured_stderr() as captured, diagnostics.capture(context) as reported:
        try:
            module = bridge.text_to_upstream(text, context, filename)
        except MLIRError as error:
            failure = error
            found += map(from_pass, diagnostics.of_exception(error))
        except (bridge.BridgeError, RuntimeError) as error:
            failure = error
    found += map(from_pass, reported)
    found += parse_diagnostics(captured.text)[0]
    # A string that does not end inside an encoding is an error that libtriton reports, and goes on.
    if module is not None and not any(d.severity == "error" for d in found):
        sys.stderr.write(captured.text)
        _check(module, filename)
        return module
    errors = [_in_file(d, filename) for d in found if d.severity == "error"]
    raise ToolError(*(errors or [Diagnostic("error", str(failure), filename)])) from failure


def _check(module: Module, filename: str) -> None:
    """Fail with what is wrong with a module that could be parsed."""
    errors = [
        Diagnostic("error", message, *(place if (place := position(str(op.location)))[1] else (filename, 0, 0)))
        for op, message in wellformed.complaints(module)
    ]
    if errors:
        raise ToolError(*errors)


INTERNAL = "internal error: "
"""In what passes say of an exception that nobody meant to raise."""


@contextmanager
def blaming_the_input(text: str, filename: str) -> Iterator[None]:
    """Within the block, a failure that nobody meant becomes what libtriton finds wrong with `text`, if it is in
    generic form: that is taken as it stands, whether or not it is valid."""
    try:
        yield
    except ToolError as error:
        if any(diagnostic.message.startswith(FAILED) for diagnostic in error.diagnostics):
            raise ToolError(*(_in_file(diagnostic, filename) for diagnostic in error.diagnostics)) from error
        if not any(INTERNAL in diagnostic.message for diagnostic in error.diagnostics):
            raise
        _blame(text, filename)
        raise
    except Exception:
        _blame(text, filename)
        raise


def _blame(text: str, filename: str) -> None:
    """Fail with what libtriton finds wrong with a module in generic form."""
    if not bridge.is_generic(text):
        return
    module = read_module(text, bridge.upstream_context(), filename)
    try:
        to_triton(bridge.triton_text(module))
    except ToolError as error:
        raise ToolError(*(_in_file(diagnostic, filename) for diagnostic in error.diagnostics)) from error


def place_of(module: Module) -> Place:
    """Where a module begins."""
    return position(str(module.operation.location))


def set_target(module: Module, name: str | None) -> Target:
    """Say in the module that it is for the target called `name`; by default it says so itself.

    Fails on a module that does not say how many warps it is for, as every TTGIR module does.
    """
    attributes = module.operation.attributes
    place = place_of(module)
    said_by = NOWHERE
    if name is None:
        if "ttg.target" not in attributes:
            message = (
                "target: the module has no attribute 'ttg.target'; say --target=cuda:NUMBER or hip:gfxNAME"
            )
            fail(message, *place)
        name, said_by = attributes["ttg.target"].value, place
    vendor_of(name, said_by)
    try:
        target = target_called(name)
    except ValueError as error:
        fail(str(error), *said_by)
    if "ttg.threads-per-warp" in attributes:
        lanes = attributes["ttg.threads-per-warp"].value
        if lanes != target.lanes:
            message = f"target: '{name}' has {target.lanes} lanes, the module's ttg.threads-per-warp is {lanes}"
            fail(message, *place)
    if "ttg.num-warps" not in attributes:
        fail("the module has no 'ttg.num-warps': is it TTIR rather than TTGIR?", *place)
    attributes["ttg.target"] = Attribute.parse(f'"{target.name}"', module.context)
    return target


@dataclass(frozen=True)
class Stub:
    """An outlined conversion: what the function `symbol` is to do."""

    symbol: str
    source: LinearLayout
    destination: LinearLayout
    element: ElementType
    plan: Plan


@dataclass(frozen=True)
class Site:
    """A conversion of the module after folding; `stub` names its function, unless it is a no-op or Triton's."""

    converted: driver.Converted
    stub: str | None


@dataclass(frozen=True)
class Kernel:
    """A kernel: the text that Triton's backend took, and what it made of it."""

    embedded: str
    lowered: Lowered


@dataclass(frozen=True)
class Compilation:
    """A module after the whole road."""

    target: Target
    num_warps: int
    stubs: dict[str, Stub]
    sites: tuple[Site, ...]
    remarks: tuple[Diagnostic, ...]
    kernels: tuple[Kernel, ...]
    gathers: tuple[driver.Gathered, ...] = ()
    gather_stubs: Mapping[str, gather.Stub] = field(default_factory=dict)


def compile_text(
    text: str, filename: str, target_name: str | None, last: str, lowering: str = LINEAR
) -> Compilation:
    """Take TTGIR text through the passes and Triton's backend up to the stage `last`, each kernel by itself.

    `lowering`: how conversions are lowered, one of `strategies`.

    Raises ToolError with what was reported where any of them fails.
    """
    with blaming_the_input(text, filename):
        return _compiled(text, filename, target_name, last, lowering)


def _compiled(text: str, filename: str, target_name: str | None, last: str, lowering: str) -> Compilation:
    context = bridge.upstream_context()
    module = read_module(text, context, filename)
    target = set_target(module, target_name)
    try:
        prepared = driver.run_linear_pipeline(module, target, lowering=lowering)
    except driver.PassFailure as error:
        found, _ = parse_diagnostics(str(error))
        raise ToolError(*(found or [Diagnostic("error", str(error), filename)])) from error
    stubs = stubs_of(module, prepared.plans)
    sites = _sites(module, prepared.conversions, stubs)
    warps = module.operation.attributes["ttg.num-warps"].value
    check_sizes(module)
    if (stubs or prepared.gather_stubs) and not kernels(module):
        fail("the module has conversions and no kernel: none of its functions is public", *place_of(module))
    compiled = []
    for kernel in one_by_one(module):
        embedded = triton_text(kernel, prepared.plans, target)
        compiled.append(Kernel(embedded, lower(to_triton(embedded), target.name, last)))
    remarks = tuple(map(from_pass, prepared.outcome.diagnostics))
    gathers, gather_stubs = prepared.gathers, prepared.gather_stubs
    return Compilation(target, warps, stubs, sites, remarks, tuple(compiled), gathers, gather_stubs)


def kernels(module: Module) -> list[str]:
    """The names of the kernels of a module: its public functions."""
    return [op.attributes["sym_name"].value for op in module.body.operations if _is_kernel(op)]


def _is_kernel(op: Any) -> bool:
    attributes = op.attributes
    if op.operation.name != "tt.func":
        return False
    return "sym_visibility" not in attributes or attributes["sym_visibility"].value == "public"


def check_one_kernel(module: Module, stage: str) -> None:
    """Triton's backends compile one kernel at a time."""
    names = kernels(module)
    if len(names) != 1:
        listed = f": {', '.join(names)}" if names else ""
        place = place_of(module)
        fail(f"emit {stage}: the module must hold exactly one kernel, found {len(names)}{listed}", *place)


def one_by_one(module: Module) -> Iterator[Module]:
    """The module once for each of its kernels, without the others: Triton compiles one kernel at a time."""
    names = kernels(module)
    if len(names) == 1:
        yield module
        return
    text = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    for name in names:
        copy = Module.parse(text, module.context)
        for op in list(copy.body.operations):
            if _is_kernel(op) and op.attributes["sym_name"].value != name:
                op.operation.erase()
        yield copy


def triton_text(module: Module, plans: Mapping[str, Plan], target: Target) -> str:
    """The module as libtriton can read it, with our code where conversions and gathers were outlined."""
    text = bridge.triton_text(module)
    stubs = gather.gather_stubs(module, target)
    if not plans and not stubs:
        return text
    # Scratch that lasts longer saves barriers, which is no part of the legacy lowering.
    kinds = {*(plan.kind for plan in plans.values()), *(stub.plan.kind for stub in stubs.values())}
    apart = kinds.isdisjoint((PADDED, LEGACY_GATHER))
    gathers = {name: (stub.plan, stub.signature) for name, stub in stubs.items()}
    warps, sparing = module.operation.attributes["ttg.num-warps"].value, spares_memory(module, target)
    return embed(text, plans, target, warps, apart, gathers, sparing=sparing).text


def check_sizes(module: Module) -> None:
    """Fail on a tensor of which a thread has more than Triton's backend gets through in any useful time."""
    table = LayoutTable()
    for op in operations(module.operation):
        for value in (*op.results, *block_arguments(op)):
            layout = table.of(value.type)
            if not isinstance(layout, LinearLayout) or not layout.has_in_dim(REGISTER):
                continue
            if (registers := layout.in_dim_size(REGISTER)) > MOST_REGISTERS:
                held = f"a thread holds {registers} elements of '{value.type}'"
                fail(f"{held}; at most {MOST_REGISTERS} are compiled", *position(str(op.location)))


def to_triton(text: str) -> Any:
    """Parse and verify text in a libtriton context of its own."""
    with captured_stderr() as captured:
        try:
            return bridge.parse_triton(text, bridge.triton_context())
        except bridge.BridgeError as error:
            failure = error
    found, _ = parse_diagnostics(captured.text)
    raise ToolError(*(found or [Diagnostic("error", str(failure))])) from failure


def stubs_of(module: Module, plans: Mapping[str, Plan]) -> dict[str, Stub]:
    """The outlined conversions of a module, by symbol."""
    found: dict[str, Stub] = {}
    for op in operations(module.operation):
        if op.name == "tt.func" and ll.PLAN in op.attributes:
            attributes = op.attributes
            symbol = attributes["sym_name"].value
            found[symbol] = Stub(
                symbol,
                ll.layout_from_attribute(attributes[ll.SOURCE]),
                ll.layout_from_attribute(attributes[ll.DESTINATION]),
                element_type(attributes[ll.ELEMENT].value),
                plans[symbol],
            )
    return found


def _sites(
    module: Module, conversions: Iterable[driver.Converted], stubs: Mapping[str, Stub]
) -> tuple[Site, ...]:
    """Pair the conversions, in the order of the module, with the calls that took their places."""
    calls = iter(
        [
            op.attributes["callee"].value
            for op in operations(module.operation)
            if op.name == "tt.call" and op.attributes["callee"].value in stubs
        ]
    )
    return tuple(Site(c, None if c.kind in ("noop", "stock") else next(calls)) for c in conversions)
