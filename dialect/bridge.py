"""Move TritonGPU IR between libtriton and upstream MLIR, in both directions, as text that loses nothing.

`libtriton` (the module beside this one) prints and parses Triton's modules. Upstream MLIR keeps unknown
operations, types and attributes as they stand. Locations are part of the text.

Upstream MLIR does not parse the text of an unknown attribute, so an alias in that text, such as the parent in
`#ttg.slice<{dim = 1, parent = #blocked}>`, would lose its meaning. Therefore all aliases are expanded on the
way in. New aliases are introduced on the way out, where they halve the time that libtriton takes to parse.
"""

from __future__ import annotations

import re
from typing import Any

from triton_linear.dialect import encodings, ll
from triton_linear.dialect.libtriton import (
    BridgeError,
    expand_aliases,
    generic_text,
    in_memory,
    is_generic,
    parse_file,
    parse_triton,
    readable,
    triton_context,
)
from triton_linear.dialect.mlir_adapter import Context, Module, Operation, new_context, operations, text_of

__all__ = [
    "BridgeError",
    "expand_aliases",
    "generic_text",
    "generic_to_upstream",
    "introduce_aliases",
    "is_generic",
    "parse_triton",
    "printed",
    "readable",
    "text_to_upstream",
    "to_triton",
    "to_upstream",
    "triton_context",
    "triton_text",
    "upstream_context",
    "without_ll",
]

_ENCODING = re.compile(r'(#ttg\.\w+<\{[^{}"]*\}>)')
_LAYOUT = re.compile(r"#ll\.layout<\{[^{}]*\}, \[[\d, ]*\]>")


def upstream_context() -> Context:
    """A fresh upstream context with the `ll` dialect; it keeps every other dialect as unregistered IR."""
    context = new_context()
    ll.load(context)
    return context


def introduce_aliases(text: str) -> str:
    """`text` with an alias for each of Triton's layout encodings, which is written out only in its
    definition.
    """
    names: dict[str, str] = {}
    whole = text
    while len(parts := _ENCODING.split(text)) > 1:  # an encoding inside another is named first
        parts[1::2] = [
            names.get(part) or names.setdefault(part, f"#layout{len(names)}") for part in parts[1::2]
        ]
        text = "".join(parts)
    if "#layout" in '"'.join(text.split('"')[1::2]):  # a string may have what looks like an encoding
        return whole
    return "".join(f"{alias} = {encoding}\n" for encoding, alias in names.items()) + text


def to_upstream(module: Any, context: Context) -> Module:
    """A libtriton module as an upstream module in `context`; every operation keeps its location."""
    return generic_to_upstream(generic_text(module), context)


def generic_to_upstream(text: str, context: Context) -> Module:
    """Parse the generic form of a module, as libtriton prints it, into `context`."""
    return Module.parse(expand_aliases(text), context)


def text_to_upstream(text: str, context: Context, filename: str = "-") -> Module:
    """Parse `text`, in Triton's syntax or in generic form, as the contents of a file called `filename`.

    libtriton parses and verifies Triton's syntax. Upstream MLIR parses the generic form unchanged, with any
    `ll` attributes in it.
    """
    if is_generic(text):
        module = Module.parse(expand_aliases(text), context)
        printed = text_of(module.operation, print_generic_op_form=True, enable_debug_info=True)
        return Module.parse(_renamed(printed, "-", filename), context)
    with in_memory(readable(text)) as path:
        printed = generic_text(parse_file(path, triton_context()))
    return Module.parse(expand_aliases(_renamed(printed, path, filename)), context)


def _renamed(text: str, old: str, new: str) -> str:
    escaped = new.replace("\\", "\\\\").replace('"', "\\22")
    return text.replace(f'"{old}":', f'"{escaped}":')


def to_triton(module: Module, context: Any) -> Any:
    """An upstream module as a libtriton module in libtriton's `context`, which verifies it.

    `module` is not changed. Its `ll` attributes are left out, and an `#ll.layout` that is an encoding becomes
    Triton's `#ttg.linear`.
    """
    return parse_triton(triton_text(module), context)


def triton_text(module: Module) -> str:
    """The generic text of `module` that libtriton can parse."""
    copy, _ = without_ll(module)
    return printed(copy)


def without_ll(module: Module) -> tuple[Operation, list[Operation]]:
    """A copy of `module` without `ll` attributes, and the operations of the copy in textual order."""
    copy = module.operation.clone()
    ops = operations(copy)
    for op in ops:
        if len(attributes := op.attributes):  # which most operations have none of
            for name in [name for name in attributes if name.startswith("ll.")]:
                del attributes[name]
    return copy, ops


def printed(module: Operation) -> str:
    """The generic text, which libtriton can parse, of a module that has no `ll` attributes."""
    text = text_of(module, print_generic_op_form=True, enable_debug_info=True)
    if "#ll." in text:
        text = _LAYOUT.sub(lambda m: encodings.linear_encoding_text(ll.layout_from_text(m[0])), text)
    return introduce_aliases(text)
