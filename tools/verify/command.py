"""`triton-linear verify`: run the emitted code of every conversion in a module and look at what it gives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from triton_linear.lowering.embed import THREAD_NUMBER
from triton_linear.lowering.prove import refuted
from triton_linear.lowering.simulate_memory import SimulationError
from triton_linear.lowering.strategies import LINEAR
from triton_linear.lowering.verify import Verdict, verify_conversion
from triton_linear.lowering.verify_gather import verify_gather
from triton_linear.passes.driver import Gathered
from triton_linear.tools.compile import Compilation, Site, compile_text
from triton_linear.tools.errors import Diagnostic, ToolError, position


@dataclass(frozen=True)
class Checked:
    """One conversion, what running its code showed and whether its plan is proved; no verdict where no code of
    ours was emitted."""

    site: Site
    plan: str
    verdict: Verdict | None
    proved: bool = False

    @property
    def ok(self) -> bool:
        """Nothing wrong and the plan proved, or nothing to run."""
        return self.verdict is None or (self.verdict.ok and self.proved)

    @property
    def place(self) -> str:
        """Where the conversion is, as `file:line:column`."""
        file, line, column = position(self.site.converted.location)
        return f"{file}:{line}:{column}" if line else self.site.converted.location

    def __str__(self) -> str:
        conversion = self.site.converted
        head = f"{self.place}: {short_type(conversion.source)} -> {short_encoding(conversion.destination)}"
        if self.verdict is None:
            return f"{head}: {self.plan}"
        proof = "proved" if self.proved else "not proved"
        return f"{head}: {self.plan}; {figures(self.verdict)}; {findings(self.verdict)}, plan {proof}"

    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        conversion = self.site.converted
        record: dict[str, Any] = {
            "location": self.place,
            "source": conversion.source,
            "destination": conversion.destination,
            "kind": conversion.kind,
            "plan": self.plan,
        }
        if self.verdict is not None:
            counts = self.verdict.counts
            record |= {
                "proved": self.proved,
                "checked": self.verdict.checked,
                "wrong": self.verdict.wrong,
                "races": len(self.verdict.races),
                "wavefronts": counts.wavefronts,
                "minimum_wavefronts": counts.minimum_wavefronts,
                "shuffles": counts.shuffles,
                "alu": counts.alu_operations,
                "warp_barriers": counts.warp_barriers,
                "cta_barriers": counts.cta_barriers,
            }
        return record


@dataclass(frozen=True)
class CheckedGather:
    """One gather, and what running its code on random indices showed; no verdict where Triton lowers it.

    A gather has no code before its plan is proved.
    """

    gather: Gathered
    verdict: Verdict | None

    @property
    def place(self) -> str:
        """Where the gather is, as `file:line:column`."""
        file, line, column = position(self.gather.location)
        return f"{file}:{line}:{column}" if line else self.gather.location

    def __str__(self) -> str:
        gather = self.gather
        head = f"{self.place}: {short_type(gather.source)} by {short_type(gather.index)}"
        if self.verdict is None:
            return f"{head}: gather left to Triton: {gather.detail}"
        return f"{head}: {gather.detail}; {figures(self.verdict)}; {findings(self.verdict)}, plan proved"

    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        gather = self.gather
        record: dict[str, Any] = {
            "location": self.place,
            "source": gather.source,
            "index": gather.index,
            "kind": gather.kind,
            "plan": gather.detail,
        }
        if self.verdict is not None:
            counts = self.verdict.counts
            record |= {
                "checked": self.verdict.checked,
                "wrong": self.verdict.wrong,
                "shuffles": counts.shuffles,
                "alu": counts.alu_operations,
            }
        return record


def short_encoding(type_: str) -> str:
    """The kind of a tensor type's encoding, with what it is a part of.

    >>> short_encoding("tensor<4xf32, #ttg.slice<{dim = 1, parent = #ttg.blocked<{order = [0]}>}>>")
    'slice(blocked)'
    """
    kinds = re.findall(r"#\w+\.(\w+)<", type_)
    return "(".join(kinds) + ")" * (len(kinds) - 1) if kinds else "no encoding"


def short_type(type_: str) -> str:
    """A tensor type with its encoding shortened.

    >>> short_type("tensor<4x2xf32, #ttg.blocked<{order = [0, 1]}>>")
    '4x2xf32 blocked'
    """
    return f"{type_.removeprefix('tensor<').partition(', #')[0]} {short_encoding(type_)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def figures(verdict: Verdict) -> str:
    """What the code costs, as counted."""
    counts = verdict.counts
    parts = [
        _count(counts.wavefronts, "wavefront") + f" ({counts.minimum_wavefronts} at least)",
        _count(counts.shuffles, "shuffle"),
        f"{counts.alu_operations} alu",
        _count(counts.cta_barriers, "barrier"),
    ]
    if counts.warp_barriers:
        parts.append(_count(counts.warp_barriers, "warp barrier"))
    return ", ".join(parts)


def findings(verdict: Verdict) -> str:
    """Whether the code is right."""
    return f"{verdict.wrong} wrong of {verdict.checked}, {_count(len(verdict.races), 'race')}"


_EMBEDDED = re.compile(r'^#__ll_loc(?P<number>\d+) = loc\("(?P<symbol>\w+)"\(', re.MULTILINE)
_INTERFACE = re.compile(
    r"^ *(?P<name>%\S+) = builtin\.unrealized_conversion_cast (?P<value>%\S+) : (?P<type>.*) to (?P<result>.*)$"
)


def embedded_functions(text: str) -> Iterator[tuple[str, str]]:
    """The code of each conversion and gather as it stands in a module, in order: the symbol of its stub, and a
    function.

    What is around it is left out, making the scratch and waiting for others who use it: the function takes the
    registers and the scratch.
    """
    types = "".join(re.findall(r"^!__ll_\w+ = .*\n", text, re.MULTILINE))
    shared = re.findall(rf"^( *{THREAD_NUMBER} = .*) loc\(unknown\)$", text, re.MULTILINE)[:1]
    lines: dict[str, list[str]] = {}
    for line in text.splitlines():
        if found := re.search(r" loc\(#__ll_loc(\d+)\)$", line):
            lines.setdefault(found[1], []).append(line[: found.start()])
    for found in _EMBEDDED.finditer(text):
        number, symbol = found["number"], found["symbol"]
        yield symbol, types + _function(symbol, f"%__ll_{number}_", lines[number], shared)


def _function(symbol: str, prefix: str, lines: Sequence[str], shared: Sequence[str]) -> str:
    casts = [_INTERFACE.match(line) for line in lines]
    given = {cast["name"].removeprefix(prefix): cast["result"] for cast in casts[:-1] if cast is not None}
    result = casts[-1]
    registers = [name for name in ("source", "index") if name in given]
    if result is None or "source" not in given:
        raise ValueError(f"code of @{symbol} does not stand between casts")
    scratch = [number for number, line in enumerate(lines) if line.lstrip().startswith(f"{prefix}scratch = ")]
    start = max(scratch, default=len(registers) - 1) + 1
    body = [line for line in lines[start:-1] if not line.lstrip().startswith("ttg.")]
    arguments = ", ".join([*(f"%{name}: {given[name]}" for name in registers), "%scratch: !llvm.ptr<3>"])
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
    """The verdict on the code of every outlined conversion of a compiled module, by symbol."""
    verdicts: dict[str, Verdict] = {}
    texts: dict[str, str] = {}
    functions = (f for kernel in compilation.kernels for f in embedded_functions(kernel.embedded))
    for symbol, function in functions:
        if texts.setdefault(symbol, function) != function:
            raise ToolError(Diagnostic("error", f"two calls of @{symbol} got different code; this is a bug"))
        if symbol in verdicts or symbol in compilation.gather_stubs:
            continue
        stub = compilation.stubs[symbol]
        try:
            verdicts[symbol] = verify_conversion(
                function,
                stub.source,
                stub.destination,
                stub.element,
                compilation.target,
                compilation.num_warps,
                stub.plan.scratch_bytes,
            )
        except SimulationError as error:
            message = f"@{symbol} ({stub.plan.summary()}) cannot be run: {error}"
            raise ToolError(Diagnostic("error", message)) from error
    if missing := set(compilation.stubs) - set(verdicts):
        raise ToolError(Diagnostic("error", f"no code of @{min(missing)} in the module; this is a bug"))
    return verdicts


def check(compilation: Compilation) -> list[Checked]:
    """Run every conversion of a compiled module."""
    verdicts = run_stubs(compilation)
    checked = []
    for site in compilation.sites:
        if site.stub is not None:
            stub = compilation.stubs[site.stub]
            refutation = refuted(stub.plan, stub.source, stub.destination, stub.element, compilation.target)
            checked.append(Checked(site, stub.plan.summary(), verdicts[site.stub], refutation is None))
        elif site.converted.kind == "noop":
            checked.append(Checked(site, "no-op", None))
        else:
            checked.append(Checked(site, f"left to Triton: {site.converted.detail}", None))
    return checked


def check_gathers(compilation: Compilation) -> list[CheckedGather]:
    """Run every gather of a compiled module."""
    verdicts: dict[str, Verdict] = {}
    functions = {
        symbol: function
        for kernel in compilation.kernels
        for symbol, function in embedded_functions(kernel.embedded)
        if symbol in compilation.gather_stubs
    }
    for name, stub in compilation.gather_stubs.items():
        sides = stub.source, stub.index, stub.axis, stub.element, stub.index_element
        try:
            gpu, scratch = compilation.target, stub.plan.scratch_bytes
            verdicts[name] = verify_gather(functions[name], name, *sides, gpu, compilation.num_warps, scratch)
        except SimulationError as error:
            message = f"@{name} ({stub.plan.summary()}) cannot be run: {error}"
            raise ToolError(Diagnostic("error", message)) from error
    return [CheckedGather(g, None if g.stub is None else verdicts[g.stub]) for g in compilation.gathers]


def verify_text(text: str, filename: str, target: str | None, as_json: bool, lowering: str = LINEAR) -> int:
    """Verify a module, print what was found, and return the exit status: 0 if all is right."""
    compilation = compile_text(text, filename, target, "llvm", lowering)
    checked, gathers = check(compilation), check_gathers(compilation)
    wrong_gathers = [g for g in gathers if g.verdict is not None and not g.verdict.ok]
    verified = [c for c in checked if c.verdict is not None]
    wrong = [c for c in verified if not c.ok]
    if as_json:
        report = {
            "conversions": [c.as_json() for c in checked],
            "verified": len(verified),
            "wrong": len(wrong),
        }
        if gathers:
            report["gathers"] = [g.as_json() for g in gathers]
        print(json.dumps(report, indent=2))
        return 1 if wrong or wrong_gathers else 0
    for conversion in checked:
        print(conversion)
        if conversion.verdict is not None:
            for finding in (*conversion.verdict.examples, *conversion.verdict.races):
                print(f"    {finding}")
    for gather in gathers:
        print(gather)
        for example in () if gather.verdict is None else gather.verdict.examples:
            print(f"    {example}")
    noops = sum(c.site.converted.kind == "noop" for c in checked)
    if others := len(checked) - len(verified):
        print(f"{_count(noops, 'no-op')}, {others - noops} left to Triton")
    print(f"{_count(len(verified), 'conversion')} verified, {len(wrong)} wrong")
    if gathers:
        run = sum(g.verdict is not None for g in gathers)
        print(
            f"{_count(run, 'gather')} verified, {len(wrong_gathers)} wrong, {len(gathers) - run} left to Triton"
        )
    return 1 if wrong or wrong_gathers else 0
