"""TTGIR as text, of any release: the layouts and conversions of each line of the source.

Modules of other releases may not parse with the installed one, and a compile has dozens; so this reads lines,
which is enough for operations, their types and their places.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.locations import user_position
from triton_linear.dialect.triton_versions import Release
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.framework.verifiers import CONVERT
from triton_linear.tools.diff.assembly import Where
from triton_linear.tools.explain.anchors import REASONS
from triton_linear.tools.explain.words import in_words

NOOP, REGISTERS, LANES, WARPS, CTAS = "no-op", "registers", "across lanes", "across warps", "across CTAs"
UNKNOWN = "unknown"
_CROSSED = ((BLOCK, CTAS), (WARP, WARPS), (LANE, LANES), (REGISTER, REGISTERS))
_OPERATION = re.compile(r'^\s*(?:%[^=]*? = )?"?(?P<name>[a-z_]+\.[\w.]+)"?')
_LOCATION = re.compile(r"\bloc\((?P<what>#loc\w*|.*)\)\s*\{?\s*$")
_ALIAS = re.compile(r"^(?P<name>#loc\w*) = loc\((?P<what>.*)\)\s*$", re.MULTILINE)
_OURS = '"__ll_'
_LOOPS = ("scf.for", "scf.while")


@dataclass(frozen=True)
class Operation:
    """An operation with its place, the types that are written behind it, and how many loops are around it."""

    name: str
    where: Where
    types: tuple[str, ...]
    loops: int


@dataclass(frozen=True)
class Layout:
    """The layout that an operation has at a line: what a tensor is, and how it is held."""

    operation: str
    tensor: str
    encoding: str
    linear: LinearLayout | None

    @property
    def key(self) -> tuple[str, str, object]:
        """Equal for layouts that hold the same elements in the same places, however they are called."""
        return self.operation, self.tensor, self.linear or self.encoding

    @property
    def words(self) -> str:
        """What a thread, a warp and the CTA hold."""
        return in_words(self.linear, _bits(self.tensor)) if self.linear is not None else self.encoding


def operations(text: str) -> Iterator[Operation]:
    """The operations of a module, in order."""
    text = bridge.expand_aliases(text)
    aliases = {found["name"]: found["what"] for found in _ALIAS.finditer(text)}
    places: dict[str, Where | None] = {}
    opened: list[str] = []
    for line in text.splitlines():
        if line.startswith(("#", "module", "//")):
            continue
        stripped = line.strip()
        closes = stripped.startswith("}") and bool(opened)
        name = opened.pop() if closes else ""
        if not closes and (found := _OPERATION.match(line)):
            name = found["name"]
        if stripped.rpartition(" loc(")[0].endswith("{") or stripped.endswith("{"):
            opened.append(name)  # `} else {` opens what it closed
            continue
        if not name or name.startswith("^"):
            continue
        place = _LOCATION.search(line)
        where = _place(place["what"], aliases, places) if place else ("", 0)
        if where is None:
            continue
        yield Operation(name, where, _types(line, _region(name, closes)), sum(one in _LOOPS for one in opened))


def sourced(text: str) -> Iterator[tuple[str, Where | None]]:
    """The lines of a module, encodings by their aliases, with the user's line of each, or None."""
    aliases = {found["name"]: found["what"] for found in _ALIAS.finditer(text)}
    places: dict[str, Where | None] = {}
    for line in text.splitlines():
        if line.startswith("#loc") or not line.strip():
            continue
        place = _LOCATION.search(line)
        bare = line[: place.start()] if place else line
        bare = re.sub(r" loc\((?:\"[^\"]*\"\([^()]*\)|#loc\w*)\)", "", bare).rstrip()
        opened = " {" if place and line.rstrip().endswith("{") and not bare.endswith("{") else ""
        yield bare + opened, _place(place["what"], aliases, places) if place else None


def _region(name: str, closes: bool) -> bool:
    return closes and name in ("tt.reduce", "tt.scan")


def _place(said: str, aliases: dict[str, str], known: dict[str, Where | None]) -> Where | None:
    """The user's line; None for code that this package has put in place of a conversion."""
    if said not in known:
        text, before = said, ""
        while text != before and "#loc" in text:
            before = text
            text = re.sub(r"#loc\w*", lambda alias: aliases.get(alias[0], "unknown"), text)
        known[said] = None if _OURS in text else user_position(text)[:2]
    return known[said]


def _types(line: str, region: bool = False) -> tuple[str, ...]:
    """The tensor types behind an operation."""
    at = line.rfind(" : ") if not region else line.find(" : ")
    # Attributes have " : " too, as in `{axis = 1 : i32}`, so types begin where the last run of them does.
    first = line.find("tensor<")
    if at < 0 or first < 0:
        return ()
    found = []
    while first >= 0:
        depth, end = 0, first + len("tensor")
        while end < len(line):
            depth += {"<": 1, ">": -1}.get(line[end], 0) if line[end - 1] != "-" else 0
            end += 1
            if depth == 0:
                break
        found.append(line[first:end])
        first = line.find("tensor<", end)
    return tuple(found)


_TENSOR = re.compile(r"tensor<(?P<shape>(?:\d+x)*)(?P<element>.*?)(?:, (?P<encoding>#.*))?>$", re.DOTALL)


@functools.lru_cache(maxsize=8192)
def layout(type_: str, release: Release | None = None) -> tuple[str, str, LinearLayout | None]:
    """Shape and element, encoding and layout of a tensor type; no layout where the encoding is not known."""
    found = _TENSOR.match(type_)
    if found is None:
        return type_, "", None
    tensor, encoding = found["shape"] + found["element"], found["encoding"] or ""
    try:
        shape = tuple(int(size) for size in found["shape"].split("x")[:-1])
        linear = encodings.layout_of(encoding, shape, release=release) if encoding else None
    except ValueError:
        linear = None
    return tensor, encoding, linear


def _bits(tensor: str) -> int:
    try:
        return element_type(re.sub(r"^(?:\d+x)*", "", tensor)).bits
    except ValueError:
        return 0


def layouts(
    ops: Sequence[Operation], release: Release | None = None, *, every: bool = False
) -> dict[Where, list[Layout]]:
    """The layouts that operations ask for at each line: loads, stores, dots, reductions and the like;
    equal ones once, or `every` one."""
    found: dict[Where, list[Layout]] = {}
    for op in ops:
        if (
            op.name in REASONS
            and op.name != CONVERT
            and op.types
            and not op.name.startswith(("tt.call", "tt.return"))
        ):
            tensor, encoding, linear = layout(_pointee(op.types[0]), release)
            if not encoding:
                continue
            one = Layout(op.name, tensor, encoding, linear)
            at = found.setdefault(op.where, [])
            if every or one.key not in [other.key for other in at]:
                at.append(one)
    return found


def _pointee(type_: str) -> str:
    """A tensor of pointers as the tensor that they point to."""
    return re.sub(r"!tt\.ptr<([^<>,]+)(?:, [^<>]*)?>", r"\1", type_)


def conversions(ops: Sequence[Operation]) -> list[Operation]:
    """The conversions between layouts."""
    return [op for op in ops if op.name == CONVERT and len(op.types) == 2]


@functools.lru_cache(maxsize=4096)
def crossed(source: str, destination: str, release: Release | None = None) -> str:
    """The farthest that a conversion moves data, between two tensor types.

    >>> text = "#ttg.blocked<{{sizePerThread = [1, 1], threadsPerWarp = {}, warpsPerCTA = [1, 4], order = {}}}>"
    >>> rows, columns = text.format("[8, 4]", "[1, 0]"), text.format("[4, 8]", "[0, 1]")
    >>> crossed(f"tensor<8x32xf32, {rows}>", f"tensor<8x32xf32, {columns}>")
    'across warps'
    """
    before, after = layout(source, release)[2], layout(destination, release)[2]
    if before is None or after is None:
        return UNKNOWN
    try:
        moved = after.invert_and_compose(before)
    except ValueError:
        return UNKNOWN
    for dim, kind in _CROSSED:
        if not moved.has_in_dim(dim):
            continue
        if not moved.is_trivial_over(dim):
            return kind
    return NOOP
