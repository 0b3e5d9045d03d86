"""Putting our bodies into Triton's LLVM-dialect module: each stub's text is replaced, all else is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from triton_linear.lowering.emit import emit
from triton_linear.lowering.plan import Plan
from triton_linear.lowering.targets import Target
from triton_linear.lowering.text import StubHeader

STUB_PREFIX = "__ll_cvt_"

# A function of the module, two spaces in; its closing brace is the first at that depth.
_STUB = re.compile(
    rf"^  llvm\.func (?:internal |private )?@({STUB_PREFIX}\w+)\((.*)\) -> (!llvm\.struct<\([^()]*\)>)"
    r"(?: attributes \{(.*)\})? \{\n(?:.*\n)*?  \}(?: loc\(.*\))?\n",
    re.MULTILINE,
)
_ARGUMENT = re.compile(r"(%\w+): (!llvm\.struct<\([^()]*\)>|!llvm\.ptr(?:<\d+>)?|[a-z]\w*)")


def stub_headers(text: str) -> Iterator[tuple[StubHeader, int, int]]:
    """Every stub of an LLVM-dialect module: its header, and where its text starts and ends."""
    position = 0
    marker = f"@{STUB_PREFIX}"
    while (found := text.find(marker, position)) >= 0:
        start = text.rfind("\n", 0, found) + 1
        stub = _STUB.match(text, start)
        if stub is None:
            position = found + len(marker)
            continue
        symbol, arguments, result, attributes = stub.groups()
        yield (
            StubHeader(symbol, _arguments(arguments), result, _without_noinline(attributes or "")),
            *stub.span(),
        )
        position = stub.end()


def splice(text: str, plans: Mapping[str, Plan], target: Target) -> str:
    """`text` with the body of every stub replaced by what its plan says.

    Requires: `plans` names every stub of the module.
    Ensures: everything outside the stubs is the same text.

    Raises ValueError for a stub without plan or a plan without stub.
    """
    pieces, end, missing = [], 0, set(plans)
    for header, start, stop in stub_headers(text):
        if header.symbol not in plans:
            raise ValueError(f"no plan for stub @{header.symbol}")
        missing.discard(header.symbol)
        pieces += [text[end:start], emit(plans[header.symbol], header, target)]
        end = stop
    if missing:
        raise ValueError(f"no stub in the module for @{min(missing)}")
    return "".join((*pieces, text[end:]))


def _arguments(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((found[1], found[2]) for found in _ARGUMENT.finditer(text))


def _without_noinline(attributes: str) -> str:
    attributes = re.sub(r"\bnoinline(?: = true)?(?:, |$)", "", attributes)
    attributes = re.sub(r'passthrough = \["noinline"\](?:, |$)', "", attributes)
    return attributes.removesuffix(", ")
