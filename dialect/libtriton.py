"""TritonGPU IR in and out of libtriton, as text that loses nothing.

libtriton's bindings print and parse modules but cannot walk or rewrite them. MLIR prints a module that fails
its verifier in generic form, which every MLIR parses, so one attribute is made invalid while libtriton prints.
Upstream MLIR is not needed for any of this, and is not imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from triton_linear.dialect import cache_policies, triton_versions, wmma_text

triton_versions.require()

from triton._C.libtriton import amd, nvidia  # type: ignore[import-untyped, unused-ignore]  # noqa: E402
from triton._C.libtriton import ir as triton_ir  # noqa: E402

_MARK = "forces_generic_form"
_QUOTED = f'"{_MARK}"'
_WARPS = "ttg.num-warps"
# A quote inside a printed string is written \22, so quotes pair up; a "#" between two of them is no alias.
_DEFINITION = re.compile(r"^(?P<name>[#!](?!loc\d*\b)[A-Za-z_]\w*) = (?P<value>(?!loc\().*)$", re.MULTILINE)
_ALIAS = re.compile(r"[#!](?!loc\d*\b)[A-Za-z_]\w*\b(?!\.)")
_GENERIC = re.compile(r'^\s*(?:%\S+ = )?"(?:builtin\.module|tt\.func)"\(', re.MULTILINE)


def is_generic(text: str) -> bool:
    """Whether a module is written in generic form, which is taken as it stands."""
    return _GENERIC.search(text) is not None


class BridgeError(Exception):
    """IR that one side cannot take from the other."""


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
        written = _text_in(path)
        text = None if written is None else readable(written)
        if text is None or text == written:
            return parse_file(path, context)
    else:
        text = readable(source)
    with in_memory(text) as path:
        return parse_file(path, context)


def readable(text: str) -> str:
    """`text` as libtriton reads it.

    That is not always as it prints it (`wmma_text`), or as another release has printed it (`cache_policies`).
    """
    if not is_generic(text):
        text = cache_policies.in_words_of(triton_versions.installed_release(), text)
    return with_wmma(text)


def with_wmma(text: str) -> str:
    """`text` with what libtriton does not print of WMMA encodings (`wmma_text`)."""
    if wmma_text.lacks_warps(text):
        text = expand_aliases(text)  # the tensor may have to tell the rank
    return wmma_text.with_what_is_not_printed(text) if wmma_text.has_bases(text) else text


def _text_in(path: str) -> str | None:
    """What a file holds; None where libtriton has to say what is wrong with it."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


@contextmanager
def in_memory(text: str) -> Iterator[str]:
    """The path of a file that holds `text`; it takes no disk and leaves nothing behind."""
    descriptor = os.memfd_create("module.mlir")
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def parse_file(path: str, context: Any) -> Any:
    """Parse and verify the file at a path as it stands."""
    try:
        module = triton_ir.parse_mlir_module(path, context)
    except RuntimeError as error:
        raise BridgeError(f"libtriton cannot read {path}: {error}") from error
    module.context = context  # Triton's own stages read it
    return module


def generic_text(module: Any) -> str:
    """A libtriton module in generic form with its locations; `module` comes out as it went in."""
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
    # Only tensors in registers make the number of warps matter. A module takes no attribute without a dialect
    # either, but one that is set cannot be taken away again, so this is done to a copy.
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
    """`text` with every alias but those of locations replaced by its meaning; lines keep their numbers.

    >>> expand_aliases('#b = #ttg.blocked<{}>\\n%0 : tensor<4xf32, #ttg.slice<{parent = #b}>>')
    '\\n%0 : tensor<4xf32, #ttg.slice<{parent = #ttg.blocked<{}>}>>'
    """
    meanings: dict[str, str] = {}

    def meaning(match: re.Match[str]) -> str:
        return meanings.get(match[0], match[0])

    def define(match: re.Match[str]) -> str:
        meanings[match["name"]] = _ALIAS.sub(meaning, match["value"])
        return ""

    text = _DEFINITION.sub(define, text)
    if not meanings:
        return text
    pieces = text.split('"')
    if not any("#" in piece or "!" in piece for piece in pieces[1::2]):
        return _ALIAS.sub(meaning, text)
    pieces[::2] = [_ALIAS.sub(meaning, piece) for piece in pieces[::2]]
    return '"'.join(pieces)
