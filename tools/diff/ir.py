"""Read TTGIR of any release as text: the layouts and conversions of each source line.

The installed Triton may not parse modules of another release, and one compile dumps dozens of them. So this
reads the text line by line, which suffices for operations, their types and their locations.
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
from triton_linear.passes.operations.names import CONVERT
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
    """An operation: its name, its source line, the tensor types after it, and the number of loops around it."""

    name: str
    where: Where
    types: tuple[str, ...]
    loops: int


@dataclass(frozen=True)
class Layout:
    """The layout of an operation's tensor: the operation's name, the tensor's shape and element, the layout."""

    operation: str
    tensor: str
    encoding: str
    linear: LinearLayout | None

    @property
    def key(self) -> tuple[str, str, object]:
        """A key that is equal for layouts with equal bases, whatever their encodings are called."""
        return self.operation, self.tensor, self.linear or self.encoding

    @property
    def words(self) -> str:
        """A description of the elements that a thread, a warp and the CTA hold."""
        return in_words(self.linear, _bits(self.tensor)) if self.linear is not None else self.encoding


def operations(text: str) -> Iterator[Operation]:
    """The operations of a module, in order."""
    text = bridge.expand_aliases(text)
    aliases = {match["name"]: match["what"] for match in _ALIAS.finditer(text)}
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


def _region(name: str, closes: bool) -> bool:
    return closes and name in ("tt.reduce", "tt.scan")


def _place(location: str, aliases: dict[str, str], known: dict[str, Where | None]) -> Where | None:
    """The user's line of a location; None for code that this package emitted. `known` is a cache."""
    if location not in known:
        text, before = location, ""
        while text != before and "#loc" in text:
            before = text
            text = re.sub(r"#loc\w*", lambda alias: aliases.get(alias[0], "unknown"), text)
        known[location] = None if _OURS in text else user_position(text)[:2]
    return known[location]


def _types(line: str, region: bool = False) -> tuple[str, ...]:
    """The tensor types of an operation; `region`: the line closes the region of a reduction or scan."""
    at = line.rfind(" : ") if not region else line.find(" : ")
    # Attributes have " : " too, as in `{axis = 1 : i32}`, so types are found by "tensor<".
    first = line.find("tensor<")
    if at < 0 or first < 0:
        return ()
    types = []
    while first >= 0:
        depth, end = 0, first + len("tensor")
        while end < len(line):
            depth += {"<": 1, ">": -1}.get(line[end], 0) if line[end - 1] != "-" else 0
            end += 1
            if depth == 0:
                break
        types.append(line[first:end])
        first = line.find("tensor<", end)
    return tuple(types)


_TENSOR = re.compile(r"tensor<(?P<shape>(?:\d+x)*)(?P<element>.*?)(?:, (?P<encoding>#.*))?>$", re.DOTALL)


@functools.lru_cache(maxsize=8192)
def layout(type_: str, release: Release | None = None) -> tuple[str, str, LinearLayout | None]:
    """The shape with element, the encoding, and the layout (None for an unknown encoding) of a tensor type."""
    match = _TENSOR.match(type_)
    if match is None:
        return type_, "", None
    tensor, encoding = match["shape"] + match["element"], match["encoding"] or ""
    try:
        shape = tuple(int(size) for size in match["shape"].split("x")[:-1])
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
    """For each line, the layouts of operations with layout preferences: loads, stores, dots, reductions, ...

    Equal layouts of a line are listed once, unless `every` is set.
    """
    by_line: dict[Where, list[Layout]] = {}
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
            in_line = by_line.setdefault(op.where, [])
            if every or one.key not in [other.key for other in in_line]:
                in_line.append(one)
    return by_line


def _pointee(type_: str) -> str:
    """The type of the tensor to which a tensor of pointers points."""
    return re.sub(r"!tt\.ptr<([^<>,]+)(?:, [^<>]*)?>", r"\1", type_)


def conversions(ops: Sequence[Operation]) -> list[Operation]:
    """The conversions between layouts."""
    return [op for op in ops if op.name == CONVERT and len(op.types) == 2]


@functools.lru_cache(maxsize=4096)
def crossed(source: str, destination: str, release: Release | None = None) -> str:
    """How far a conversion between two tensor types moves data: the outermost level that it crosses.

    >>> text = "#ttg.blocked<{{sizePerThread = [1, 1], threadsPerWarp = {}, warpsPerCTA = [1, 4], order = {}}}>"
    >>> rows, columns = text.format("[8, 4]", "[1, 0]"), text.format("[4, 8]", "[0, 1]")
    >>> crossed(f"tensor<8x32xf32, {rows}>", f"tensor<8x32xf32, {columns}>")
    'across warps'
    """
    before, after = layout(source, release)[2], layout(destination, release)[2]
    if before is None or after is None:
        return UNKNOWN
    try:
        conversion = after.invert_and_compose(before)
    except ValueError:
        return UNKNOWN
    for dim, kind in _CROSSED:
        if not conversion.has_in_dim(dim):
            continue
        if not conversion.is_trivial_over(dim):
            return kind
    return NOOP
