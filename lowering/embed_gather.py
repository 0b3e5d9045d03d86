"""Putting the code of outlined gathers into a kernel, as `embed` does with conversions.

A gather needs no scratch and no barriers, so its code stands between casts alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

from triton_linear.lowering.emit_gather import GatherSignature, emit_gather_body
from triton_linear.lowering.gather import GatherPlan
from triton_linear.lowering.targets import Target
from triton_linear.lowering.text import FunctionWriter

GATHER_PREFIX = "__ll_gather_"
_CALL = re.compile(
    rf'^ *(?P<result>%\w+) = "tt\.call"\((?P<source>%[\w#]+), (?P<index>%[\w#]+)\) '
    rf"[^\n]*?callee = @(?P<symbol>{GATHER_PREFIX}\w+)[^\n]*?"
    r" : \((?P<source_type>tensor<.*>), (?P<index_type>tensor<.*>)\) -> (?P<result_type>tensor<.*>)"
    r" loc\((?P<location>#?\w+|.*)\)$",
    re.MULTILINE,
)
_STUB = re.compile(
    rf'^  "tt\.func"\(\) [^\n]*sym_name = "(?P<symbol>{GATHER_PREFIX}\w+)"'
    r"(?:[^\n]*\(\{\n(?:.*\n)*?  \}\)[^\n]*|[^\n]*)\n",
    re.MULTILINE,
)
_CAST = "builtin.unrealized_conversion_cast"


class EmbedGatherError(Exception):
    """A module whose outlined gathers do not match their plans."""


def embed_gathers(text: str, stubs: Mapping[str, tuple[GatherPlan, GatherSignature]], target: Target) -> str:
    """`text` with every call of a gather's stub replaced by the code of its plan, and the stubs removed.

    Requires: `text` is a module in generic form with locations.
    Ensures: what is no such stub or call is the same text, but for locations behind it.

    Raises EmbedGatherError when a call of a stub is left over.
    """
    if not stubs:
        return text
    numbers = itertools.count()
    locations: list[str] = []

    def code(found: re.Match[str]) -> str:
        number = next(numbers)
        locations.append(f'#__ll_gather_loc{number} = loc("{found["symbol"]}"({found["location"]}))\n')
        return _code(found, number, *stubs[found["symbol"]], target)

    text = _STUB.sub(lambda stub: "" if stub["symbol"] in stubs else stub[0], text)
    text = _CALL.sub(lambda found: code(found) if found["symbol"] in stubs else found[0], text)
    if left := re.search(rf'^.*"tt\.call"[^"]*callee = @{GATHER_PREFIX}.*$', text, re.MULTILINE):
        raise EmbedGatherError(f"call of a stub in a form that is not understood: {left[0].strip()[:200]}")
    return "".join((text, *locations))


def _code(
    found: re.Match[str], number: int, plan: GatherPlan, signature: GatherSignature, target: Target
) -> str:
    """The code of one call, in lines without the last newline."""
    p = f"%__ll_gather_{number}_"
    writer = FunctionWriter(p)
    result = emit_gather_body(plan, signature, target, writer, f"{p}source", f"{p}index")
    tensor = found["result_type"]
    name, tail = found["result"], ""
    if target.vendor == "amd":
        # As in `embed`: AMD's axis analysis takes the tensor's rank from a conversion's own type.
        name = f"{p}tensor"
        same = f"{found['result']} = ttg.convert_layout {name} : {tensor} -> {tensor}"
        tail = f"\n    {same} loc({found['location']})"
    lines = (
        f"    {p}source = {_CAST} {found['source']} : {found['source_type']} to {signature.source}\n"
        f"    {p}index = {_CAST} {found['index']} : {found['index_type']} to {signature.index}\n"
        f"{writer.body()}"
        f"    {name} = {_CAST} {result} : {signature.result} to {tensor}\n"
    )
    return lines.replace("\n", f" loc(#__ll_gather_loc{number})\n").removesuffix("\n") + tail
