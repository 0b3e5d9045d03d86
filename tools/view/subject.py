"""Parse what the user wants to see: an encoding, a Gluon layout, or a line of a file."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from triton_linear.dialect import bridge, encodings, gluon
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.locations import user_position
from triton_linear.dialect.mlir_adapter import Operation, operations
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.operations.names import CONVERT
from triton_linear.tools.explain.collect import explained
from triton_linear.tools.explain.records import Place
from triton_linear.tools.support.compile import read_module
from triton_linear.tools.support.errors import ToolError, fail
from triton_linear.tools.support.inputs import modules, read_input
from triton_linear.tools.support.words import short_encoding

_TYPE = re.compile(
    r"(?P<kind>tensor|memdesc)<(?P<shape>(?:\d+x)+)(?P<element>[^,<>]+|!tt\.ptr<[^<>]*>), ?(?P<encoding>#)"
)
_PLACE = re.compile(r"(?!#)(?P<file>.+?)(?::(?P<kernel>[A-Za-z_]\w*))?:(?P<line>\d+)")
_ALIAS = re.compile(r"#[A-Za-z_]\w*")
_GLUON = re.compile(r"(?:\w+\.)*(?P<class>\w*Layout)\(", re.DOTALL)
MOST_LINES = 8
"""The maximum number of lines of a file that an error message suggests."""
MOST_SHOWN = 4
"""The maximum number of layouts of a line that are drawn."""
MOST_LETTERS = 90
"""The maximum length of a line of code in a heading."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A layout with the user's name for it, its encoding if it has one, the width of its elements in bits, the
    line of code that it is from, and what is known about the conversion of that line."""

    layout: LinearLayout
    text: str
    encoding: str = ""
    element_bits: int = 32
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def element_bytes(self) -> int:
        """The size of an element in memory."""
        return max(1, self.element_bits // 8)

    @property
    def is_shared(self) -> bool:
        """Whether it is a layout of shared memory."""
        return self.layout.has_in_dim("offset")


def shape_of(text: str) -> tuple[int, ...]:
    """The sizes in `16x8`; fails unless they are powers of two."""
    if not re.fullmatch(r"\d+(x\d+)*", text):
        fail(f"shape: '{text}' is not sizes with an x between, as in 64x32")
    sizes = tuple(map(int, text.split("x")))
    for size in sizes:
        if size < 1 or size & (size - 1):
            fail(f"shape: {size} is not a power of two")
    return sizes


def bits_of(element: str) -> int:
    """The width of an element type, as `f16` or `f8E4M3FN`; pointers have 64 bits."""
    if element.startswith("!tt.ptr"):
        return 64
    try:
        return element_type(element).bits
    except ValueError:
        fail(f"type: '{element}' is no element type of Triton's, as f16, bf16, f8E4M3FN or i32")


def of_encoding(text: str, shape: tuple[int, ...], element_bits: int, shown: str = "") -> Subject:
    """The layout of an attribute."""
    try:
        layout = encodings.layout_of(text, shape, element_bits)
    except ValueError as error:
        fail(str(error))
    return Subject(layout, shown or text, text, element_bits)


def of_gluon(text: str, shape: tuple[int, ...], element_bits: int) -> Subject:
    """The layout of a Gluon expression, as `BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])`."""
    try:
        layout = _gluon_value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError):
        fail(f"'{text}' is not Python")
    try:
        return of_encoding(gluon.encoding_text(layout, shape), shape, element_bits, text)
    except ValueError as error:
        fail(str(error))


def _gluon_value(node: ast.expr) -> Any:
    """The value of an expression of Gluon's layout classes and literals; nothing else is evaluated."""
    from triton.experimental.gluon import language  # type: ignore[import-untyped, unused-ignore]

    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        homes = (language, getattr(language, "amd", None), getattr(language, "nvidia", None))
        layout_class = next(
            (getattr(home, name) for home in homes if name.endswith("Layout") and hasattr(home, name)), None
        )
        if layout_class is None:
            fail(f"'{ast.unparse(node.func)}' is no layout of Gluon's")
        try:
            return layout_class(
                *map(_gluon_value, node.args),
                **{keyword.arg: _gluon_value(keyword.value) for keyword in node.keywords if keyword.arg},
            )
        except (TypeError, ValueError, AssertionError) as error:
            fail(f"{name}: {error}")
    try:
        return ast.literal_eval(node)
    except ValueError:
        fail(f"'{ast.unparse(node)}' is neither a layout of Gluon's nor a literal")


def of_line(text: str, name: str, line: int, target: str | None = None) -> tuple[Subject, ...]:
    """The layouts of the types on a line of a TTGIR file, each once; of a conversion, those of ours."""
    given, lines = text.split("\n"), bridge.expand_aliases(text).split("\n")
    if not 1 <= line <= len(lines):
        fail(f"the file has {len(lines)} lines", name, line, 1)
    types = _types(lines[line - 1])
    if not types:
        have = [at for at, other in enumerate(lines, 1) if _TYPE.search(other)]
        fail(f"no type with an encoding is on this line{_nearest(have, line)}", name, line, 1)
    if CONVERT in given[line - 1]:
        number = sum(CONVERT in other for other in given[: line - 1])
        return _conversion(text, name, number, target, types, (name, line), given[line - 1])
    return _of_texts(types, name, line, given[line - 1])[:MOST_SHOWN]


def _conversion(
    text: str,
    name: str,
    where: int | Place,
    target: str | None,
    types: Sequence[str],
    place: tuple[str, int],
    source: str,
) -> tuple[Subject, ...]:
    """The layouts of the conversion that the plugin makes of one of a module's, or has on a line of its source,
    with notes; those of `types` if there is none, or the module cannot be compiled."""
    found, notes = _explained(text, name, where, target) or (types, ())
    shown = _of_texts(found, *place, source)[:MOST_SHOWN]
    return tuple(dataclasses.replace(one, notes=notes) for one in shown)


def _types(line: str) -> list[str]:
    """For each type with an encoding on a line, the rest of the line from it on."""
    return [line[match.start() :] for match in _TYPE.finditer(line)]


def _nearest(have: Sequence[int], line: int) -> str:
    """The end of an error message: the lines of `have` nearest to a line."""
    near = sorted(sorted(have, key=lambda at: (abs(at - line), at))[:2])
    return f"; the nearest with one: {', '.join(map(str, near))}" if near else ""


def of_source_line(name: str, line: int, kernel: str = "", target: str | None = None) -> tuple[Subject, ...]:
    """The layouts of the first conversion that `explain` shows for a line of a script, else of stock Triton's,
    else of the first tensor.

    The script is run. Its kernels are searched in the order of their names, or only `kernel`.
    """
    making: dict[int, None] = {}
    first: tuple[list[str], str] | None = None
    kernels: dict[str, None] = {}
    searched: list[tuple[str, str]] = []
    for file_name, text in modules(name, target=target):
        called = Path(file_name).stem
        kernels[called] = None
        if kernel and called != kernel:
            continue
        searched.append((file_name, text))
        where: Place | None = None
        types: list[str] = []
        module = bridge.text_to_upstream(text, bridge.upstream_context(), file_name)
        for op in operations(module.operation):
            file, at, _ = user_position(str(op.location))
            if not _encoded(op) or not _is(file, name):
                continue
            making[at] = None
            if at == line:
                where, first = Place.at(file, line), first or (_encoded(op)[:1], called)
                if op.name == CONVERT and not types:
                    types = [str(op.operands[0].type), str(op.results[0].type)]
        if where:
            code = _code(name, line, called)
            if shown := _conversion(text, file_name, where, target, types, (name, line), code):
                return shown
    if kernel and kernel not in kernels:
        fail(f"no kernel is called '{kernel}'; the script compiles {', '.join(kernels)}", name)
    if first is not None:
        return _of_texts(first[0], name, line, _code(name, line, first[1]))
    reports = (explained(text, file_name, target) for file_name, text in searched)
    moving = (one.place for report in reports for one in report.conversions if one.moves)
    converting = sorted({place.line for place in moving if _is(place.file, name)})
    if not line:
        _ask_for_a_line(converting, name)
    lines = ", ".join(map(str, converting[:MOST_LINES]))
    near = _nearest(list(making), line)
    fail(f"no tensor is made on this line{near}; conversions are on lines {lines or '(none)'}", name, line, 1)


def _is(file: str, name: str) -> bool:
    """Whether the file of a location is there, and is the one of this name."""
    return bool(file) and Path(file).exists() and Path(file).samefile(name)


def _code(name: str, line: int, kernel: str) -> str:
    """A line of a script, with the kernel that it belongs to."""
    lines = read_input(name).split("\n")
    return f"{kernel}, line {line}: {lines[line - 1].strip() if line <= len(lines) else ''}"


def _encoded(op: Operation) -> list[str]:
    """The types with an encoding of an operation's results, then of its operands."""
    types = (str(value.type) for value in (*op.results, *op.operands))
    return [type_ for type_ in types if _TYPE.match(type_)]


def _of_texts(types: Sequence[str], name: str, line: int, source: str) -> tuple[Subject, ...]:
    """The layouts of types, each once. Each text begins with a type, on this line; `source` is its code."""
    source = source.strip()
    shown = source if len(source) <= MOST_LETTERS else f"{source[: MOST_LETTERS - 3]}..."
    found: dict[Subject, None] = {}
    for text in types:
        match = _TYPE.search(text)
        assert match is not None  # the texts were found with this expression
        encoding = gluon.attribute_at(text[match.start("encoding") :])
        shape = tuple(map(int, match["shape"].strip("x").split("x")))
        what = f"{match['shape']}{match['element']} {short_encoding(encoding)}"
        try:
            one = of_encoding(encoding, shape, bits_of(match["element"]), what)
            found[dataclasses.replace(one, source=shown)] = None
        except ToolError as error:
            fail(error.diagnostics[0].message, name, line, 1)
    return tuple(found)


def subjects(what: str, shape: str | None, element: str, target: str | None = None) -> tuple[Subject, ...]:
    """The layouts that `what` names: `FILE:LINE`, `SCRIPT.py:KERNEL:LINE`, an encoding, a Gluon layout."""
    what = what.strip()
    bits = bits_of(element)
    if place := place_of(what):
        file, line, kernel = place
        if file.endswith(".py"):
            return of_source_line(file, line, kernel, target)
        return of_line(read_input(file), file, line, target)
    sizes = shape_of(shape) if shape else None
    if not what.startswith("#") and not _GLUON.match(what):
        for name in (what, what.rpartition(":")[0]):
            if name.endswith(".py") and Path(name).is_file():
                return of_source_line(name, 0, target=target)
            if Path(name).is_file():
                lines = enumerate(read_input(name).split("\n"), 1)
                _ask_for_a_line([at for at, line in lines if CONVERT in line], name)
        fail(f"'{what}' is no encoding (#ttg...), no layout of Gluon's, and not FILE:LINE")
    if _ALIAS.fullmatch(what):
        fail(f"'{what}' is an alias: give what it stands for, #ttg..., or a line that uses it, FILE:LINE")
    if sizes is None:
        fail("the shape of the tensor is missing: --shape 64x32")
    return (of_encoding(what, sizes, bits) if what.startswith("#") else of_gluon(what, sizes, bits),)


def place_of(what: str) -> tuple[str, int, str] | None:
    """The file, the line and the kernel, or "", if `what` is `FILE:LINE` or `SCRIPT.py:KERNEL:LINE`."""
    place = _PLACE.fullmatch(what.strip())
    return None if place is None else (place["file"], int(place["line"]), place["kernel"] or "")


def _ask_for_a_line(conversions: Sequence[int], name: str) -> NoReturn:
    """Fail because a file was given without a line, and suggest lines."""
    if not conversions:
        fail(f"say which line, as {name}:LINE; there is no conversion in it", name)
    more = f" and {len(conversions) - MOST_LINES} more" if len(conversions) > MOST_LINES else ""
    listed = f"{', '.join(map(str, conversions[:MOST_LINES]))}{more}"
    lines = f"line{'s' if len(conversions) > 1 else ''} {listed}"
    fail(f"say which line, as {name}:{conversions[0]}; it has conversions on {lines}", name)


def _explained(
    text: str, name: str, where: int | Place, target: str | None
) -> tuple[Sequence[str], tuple[str, ...]] | None:
    """What becomes of the conversion with this number in a module, or of those of a line of its source: the
    types before and after, and lines about how it is done, with stock Triton's conversions of that line of the
    source. None if the module cannot be compiled, or nothing is converted there."""
    if target is None and "ttg.target" not in text:
        return None
    try:
        if isinstance(where, int):
            module = read_module(text, bridge.upstream_context(), name)
            conversions = [op for op in operations(module.operation) if op.name == CONVERT]
            where = Place.of(str(conversions[where].location)).whole_line
        report = explained(text, name, target, stock=True)
    except (ToolError, IndexError):
        return None
    ours, theirs = (
        [one for one in side if one.moves and one.place.whole_line == where]
        for side in (report.conversions, report.stock or ())
    )
    lines = [f"stock Triton on {report.target}: {one}" for one in theirs]
    if not ours:
        places = dict.fromkeys(str(one.place) for one in report.conversions if one.moves)
        elsewhere = f"; there are some at {', '.join(places)}" if places else ""
        lines.insert(0, f"ours on {report.target}: no conversion on this line{elsewhere}")
        return (theirs[0].types, tuple(lines)) if theirs else None
    first, *others = ours
    counted = f"; {first.figures}" if first.figures is not None else ""
    head = f"ours on {report.target}: {first.lowering}{counted}"
    more = [f"ours as well: {one}" for one in others]
    rejected = [f"  not {each}" for each in first.rejected]
    return first.types, (head, *rejected, *more, *lines)
