"""Print and parse TritonGPU IR by libtriton, as text that loses nothing.

libtriton's bindings print and parse modules but cannot walk or rewrite them. MLIR prints a module that fails
its verifier in generic form, which every MLIR parses; so one attribute is made invalid while libtriton prints.
This file does not import upstream MLIR.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from triton_linear.dialect import release_syntax, triton_versions

triton_versions.require()

from triton._C.libtriton import amd, nvidia  # type: ignore[import-untyped, unused-ignore]  # noqa: E402
from triton._C.libtriton import ir as triton_ir  # noqa: E402

_MARK = "forces_generic_form"
_QUOTED = f'"{_MARK}"'
_WARPS = "ttg.num-warps"
_WMMA = "#ttg.amd_wmma"
# A quote inside a printed string is written \22, so quotes pair up; a "#" between two of them is no alias.
_DEFINITION = re.compile(r"^(?P<name>[#!](?!loc\d*\b)[A-Za-z_]\w*) = (?P<value>(?!loc\().*)$", re.MULTILINE)
_ALIAS = re.compile(r"([#!](?!loc\d*\b)[A-Za-z_]\w*\b(?!\.))")
_GENERIC = re.compile(r'^\s*(?:%\S+ = )?"(?:builtin\.module|tt\.func)"\(', re.MULTILINE)


def is_generic(text: str) -> bool:
    """Whether a module is written in MLIR's generic form."""
    return _GENERIC.search(text) is not None


class BridgeError(Exception):
    """libtriton cannot read or print a module."""


def triton_context() -> Any:
    """A fresh libtriton context that knows every dialect of this Triton."""
    context = triton_ir.context()
    triton_ir.load_dialects(context)
    nvidia.load_dialects(context)
    amd.load_dialects(context)
    return context


def parse_triton(source: str | os.PathLike[str], context: Any) -> Any:
    """Parse and verify text, or the file at a path, with libtriton; messages go to standard error."""
    if isinstance(source, os.PathLike):
        path = os.fspath(source)
        original = _text_in(path)
        text = None if original is None else readable(original)
        if text is None or text == original:
            return parse_file(path, context)
    else:
        text = readable(source)
    with in_memory(text) as path:
        return parse_file(path, context)


def readable(text: str) -> str:
    """`text` rewritten so that the installed libtriton can parse it.

    It cannot parse the cache policies of other releases (`release_syntax`). Raises BridgeError if the text must
    not be parsed (`unreadable`).
    """
    if reason := unreadable(text):
        raise BridgeError(reason)
    if is_generic(text):
        return text
    return release_syntax.in_syntax_of(triton_versions.installed_release(), text)


def unreadable(text: str) -> str:
    """The reason why a module must not be parsed by libtriton; "" if there is none.

    Some of the WMMA encodings that libtriton prints end its process when it parses them.
    """
    return f"{_WMMA} is an encoding of GPUs that are left to Triton" if _WMMA in text else ""


def _text_in(path: str) -> str | None:
    """The text of a file; None if it cannot be read, so that the error comes from libtriton."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


@contextmanager
def in_memory(text: str) -> Iterator[str]:
    """The path of a file in memory that holds `text` and is gone after the `with` block."""
    descriptor = os.memfd_create("module.mlir")
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def parse_file(path: str, context: Any) -> Any:
    """Parse and verify the file at a path, without rewriting it."""
    try:
        module = triton_ir.parse_mlir_module(path, context)
    except RuntimeError as error:
        raise BridgeError(f"libtriton cannot read {path}: {error}") from error
    module.context = context  # Triton's own stages read it
    return module


def generic_text(module: Any) -> str:
    """A libtriton module in generic form, with its locations. `module` is unchanged afterwards."""
    builder = triton_ir.builder(module.context)
    mark = builder.get_string_attr(_MARK)
    warps = module.get_int_attr(_WARPS)
    if warps is not None:
        module.set_attr(_WARPS, mark)
        try:
            text = str(module)
        finally:
            module.set_attr(_WARPS, builder.get_int32_attr(warps))
        if _GENERIC.search(text):
            return _without_mark(text, f'"{_WARPS}" = {_QUOTED}', f'"{_WARPS}" = {warps} : i32')
    # Without tensors in registers an invalid number of warps is not an error. An attribute without a dialect
    # prefix is one too, but the bindings cannot remove an attribute, so it is set on a copy.
    copy = parse_triton(str(module), module.context)
    copy.set_attr(_MARK, mark)
    text = str(copy)
    entry = f"{_MARK} = {_QUOTED}"
    for around in (f"{entry}, ", f", {entry}", f" {{{entry}}}"):
        if around in text:
            return _without_mark(text, around, "")
    raise BridgeError(f"generic_text: '{entry}' was not printed")


def _without_mark(text: str, marked: str, unmarked: str) -> str:
    if text.count(marked) != 1:
        raise BridgeError(f"generic_text: '{marked}' was printed {text.count(marked)} times instead of once")
    return text.replace(marked, unmarked)


def expand_aliases(text: str) -> str:
    """`text` with all aliases, except those of locations, replaced by their definitions. Line numbers stay.

    >>> expand_aliases('#b = #ttg.blocked<{}>\\n%0 : tensor<4xf32, #ttg.slice<{parent = #b}>>')
    '\\n%0 : tensor<4xf32, #ttg.slice<{parent = #ttg.blocked<{}>}>>'
    """
    definitions: dict[str, str] = {}

    def expanded(piece: str) -> str:
        parts = _ALIAS.split(piece)  # what is between aliases, and these
        parts[1::2] = [definitions.get(name, name) for name in parts[1::2]]
        return "".join(parts)

    def define(match: re.Match[str]) -> str:
        definitions[match["name"]] = expanded(match["value"])
        return ""

    text = _DEFINITION.sub(define, text)
    if not definitions:
        return text
    pieces = text.split('"')
    outside = slice(None, None, 2)
    if not re.search("[#!]", '"'.join(pieces[1::2])):
        pieces, outside = [text], slice(None)
    pieces[outside] = [expanded(piece) for piece in pieces[outside]]
    return '"'.join(pieces)
