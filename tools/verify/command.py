"""`triton-linear verify`: run the code that this package emits into a kernel, and check its results.

Every conversion is run, also those that layout assignment and split reductions insert.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triton_linear.dialect.linear_layout import WARP
from triton_linear.lowering.emit.calls import THREAD_IN_PARTITION, THREAD_NUMBER
from triton_linear.lowering.emit.machines import THREAD
from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.interpreter.verify import Verdict, verify_in_cluster
from triton_linear.lowering.plan.plans import Stub
from triton_linear.lowering.prove.plans import refuted
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.framework.plans import NOOP, DecidedConversion
from triton_linear.passes.options import PipelineOptions
from triton_linear.tools.support.arguments import pipeline_options
from triton_linear.tools.support.compile import DEFAULTS, Compilation, compile_text
from triton_linear.tools.support.errors import Diagnostic, ToolError
from triton_linear.tools.support.inputs import modules
from triton_linear.tools.support.words import count, findings, short_encoding, short_place, short_type
from triton_linear.tools.verify.stock import verify_stock

STOCK = PipelineOptions(assign=False, reductions=False, lower=False)
"""With these options a module stays as it is."""
_EMBEDDED = re.compile(r'^#__ll_loc(?P<number>\d+) = loc\("(?P<symbol>\w+)"\(', re.MULTILINE)
_IN_PARTITION = re.compile(rf"{THREAD_IN_PARTITION}\d+_thread\b")
_OF_PARTITIONS = f'    %thread = llvm.inline_asm asm_dialect = att "{THREAD}", "=r" : () -> i32'
"""The number of the thread, in place of the number in the partition."""
_INTERFACE = re.compile(
    r"^ *(?P<name>%\S+) = builtin\.unrealized_conversion_cast (?P<value>%\S+) : (?P<type>.*) to (?P<result>.*)$"
)


def embedded_functions(text: str) -> Iterator[tuple[str, str]]:
    """For each conversion in a module, in order: the symbol of its stub, and its code as a function.

    The function takes the registers and the scratch. The code that allocates the scratch and synchronises
    with its other users is left out.
    """
    types = "".join(re.findall(r"^!__ll_\w+ = .*\n", text, re.MULTILINE))
    shared = re.findall(rf"^( *{THREAD_NUMBER} = .*) loc\(unknown\)$", text, re.MULTILINE)[:1]
    lines: dict[str, list[str]] = {}
    for line in text.splitlines():
        if found := re.search(r" loc\(#__ll_loc(\d+)\)$", line):
            lines.setdefault(found[1], []).append(line[: found.start()])
    for found in _EMBEDDED.finditer(text):
        symbol, number = found["symbol"], found["number"]
        yield symbol, types + _function(symbol, f"%__ll_{number}_", lines[number], shared)


def _function(symbol: str, prefix: str, lines: Sequence[str], shared: Sequence[str]) -> str:
    source, result = (_INTERFACE.match(line) for line in (lines[0], lines[-1]))
    if source is None or source["name"] != f"{prefix}source" or result is None:
        raise ValueError(f"code of @{symbol} does not stand between casts")
    scratch = f"{prefix}scratch = "
    definitions = [number for number, line in enumerate(lines) if line.lstrip().startswith(scratch)]
    start = max(definitions, default=0) + 1
    body = [line for line in lines[start:-1] if not line.lstrip().startswith("ttg.")]
    if any(_IN_PARTITION.search(line) for line in body):  # only the partition's threads are simulated
        shared = [*shared, _OF_PARTITIONS]
        body = [_IN_PARTITION.sub("%thread", line) for line in body]
    arguments = f"%source: {source['result']}, %scratch: !llvm.ptr<3>"
    text = "\n".join(
        (
            f"llvm.func @{symbol}({arguments}) -> {result['type']} {{",
            *shared,
            *body,
            f"    llvm.return {result['value']} : {result['type']}",
            "}\n",
        )
    )
    return text.replace(prefix, "%")


def run_stubs(compilation: Compilation) -> dict[str, Verdict]:
    """The verdict on the code of every stub of a compiled module, by symbol.

    All calls of a stub in a kernel must have equal code, except that calls in partitions use another thread
    number. If kernels have different plans for a stub, a wrong one determines the verdict.
    """
    verdicts: dict[str, Verdict] = {}
    for kernel in compilation.kernels:
        texts: dict[tuple[str, bool], str] = {}
        for symbol, function in embedded_functions(kernel.embedded):
            kind = symbol, "%thread = " in function
            if texts.setdefault(kind, function) != function:
                message = f"two calls of @{symbol} got different code; this is a bug"
                raise ToolError(Diagnostic("error", message))
        if missing := set(kernel.stubs) - {symbol for symbol, *_ in texts}:
            raise ToolError(Diagnostic("error", f"no code of @{min(missing)} in the module; this is a bug"))
        for (symbol, *_), function in texts.items():
            if symbol not in verdicts or verdicts[symbol].ok:
                stub = kernel.stubs[symbol]
                verdicts[symbol] = _run(function, stub, compilation.target)
    return verdicts


def _run(function: str, stub: Stub, target: Target) -> Verdict:
    scratch = stub.plan.scratch_bytes
    # If the calls are in a partition, the layouts have the partition's warps.
    warps = stub.source.in_dim_size(WARP) if stub.source.has_in_dim(WARP) else 1
    try:
        return verify_in_cluster(function, stub.source, stub.destination, stub.element, target, warps, scratch)
    except SimulationError as error:
        message = f"@{stub.symbol} ({stub.plan.summary()}) cannot be run: {error}"
        raise ToolError(Diagnostic("error", message)) from error


@dataclass(frozen=True)
class Checked:
    """A conversion whose code was run.

    head: its place and types. plan: how it is lowered. verdict: None if no code was run, for the reason in
    `plan`. proved: whether its plan is.
    """

    of: DecidedConversion
    head: str
    plan: str
    verdict: Verdict | None
    proved: bool = False

    @property
    def ok(self) -> bool:
        """True if the code is right and the plan is proved, or there is no code to run."""
        return self.verdict is None or (self.verdict.ok and self.proved)

    def __str__(self) -> str:
        if self.verdict is None:
            return f"{self.head}: {self.plan}"
        proof = "proved" if self.proved else "not proved"
        return f"{self.head}: {self.plan}; {findings(self.verdict)}, plan {proof}"


def check(compilation: Compilation) -> list[Checked]:
    """Every conversion of a compiled module, with the verdict of running its code."""
    verdicts = run_stubs(compilation)
    stubs = {symbol: stub for kernel in compilation.kernels for symbol, stub in kernel.stubs.items()}
    checked = []
    for one in compilation.conversions:
        types = f"{short_type(one.source)} -> {short_encoding(one.destination)}"
        head = f"{short_place(one.location)}: {types}{' of partial results' if one.partials else ''}"
        stub = stubs.get(one.stub or "")
        if stub is not None:
            sides = stub.source, stub.destination, stub.element
            proved = refuted(stub.plan, *sides, compilation.target) is None
            checked.append(Checked(one, head, stub.plan.summary(), verdicts[stub.symbol], proved))
        else:
            plan = "no-op" if one.kind == NOOP else f"left to Triton: {one.detail}"
            checked.append(Checked(one, head, plan, None))
    return checked


@dataclass(frozen=True)
class Verified:
    """The verified conversions of a module.

    `failure`: why Triton cannot lower the whole module, empty if it can. `ours`: it could before the passes.
    """

    name: str
    conversions: tuple[Checked, ...]
    failure: str
    ours: bool

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.ours and all(one.ok for one in self.conversions)


def verified(text: str, name: str, target: str | None, options: PipelineOptions = DEFAULTS) -> Verified:
    """Compile a module as the plugin does, and run all code that this package emits into it.

    The code is run even if Triton cannot lower the whole module, because each conversion has its own code.
    """
    compilation = compile_text(text, name, target, "llvm", options, lenient=True)
    failures = _failures(compilation)
    ours = bool(failures) and not _failures(compile_text(text, name, target, "llvm", STOCK, lenient=True))
    return Verified(name, tuple(check(compilation)), "; ".join(failures), ours)


def _failures(compilation: Compilation) -> list[str]:
    return [str(kernel.failure) for kernel in compilation.kernels if kernel.failure is not None]


def run(arguments: argparse.Namespace) -> int:
    """Verify the modules, and print the results; the exit status is 0 if all is right."""
    named_texts = modules(arguments.what, arguments.arguments, arguments.target)
    options = pipeline_options(arguments)
    results: list[Verified] = []
    status = 0
    for name, text in named_texts:
        arguments.sources[name] = text
        if arguments.lowering != "ours":
            status |= verify_stock(text, name, arguments.target)
        if arguments.lowering != "stock":
            results.append(verified(text, name, arguments.target, options))
            _show(results[-1])
    if arguments.lowering != "stock":
        _show_totals(results)
    return status or int(not all(one.ok for one in results))


def _show(module: Verified) -> None:
    if module.failure:
        # Remove libtriton's place, which is in the emitted text, not in the user's, and what follows from it.
        reason = (module.failure.partition(": error: ")[2] or module.failure).partition("\n")[0]
        changed = " after the passes, though it does before" if module.ours else ""
        print(
            f"{module.name}: Triton does not lower this module as a whole{changed}: {reason}", file=sys.stderr
        )
    for one in module.conversions:
        print(one)
        if one.verdict is not None:
            for finding in (*one.verdict.examples, *one.verdict.races):
                print(f"    {finding}")


def _show_totals(results: Sequence[Verified]) -> None:
    """Print the totals; the last line counts conversions."""
    conversions = [one for module in results for one in module.conversions]
    left = sum(one.verdict is None for one in conversions)
    if left:
        noops = sum(one.of.kind == NOOP for one in conversions)
        print(f"{count(noops, 'no-op')}, {left - noops} left to Triton")
    wrong = sum(not one.ok for one in conversions)
    print(f"{count(len(conversions) - left, 'conversion')} verified, {wrong} wrong")
