"""Modules in Triton's own form, with the attributes of the `ll` dialect, which libtriton does not know.

In text that libtriton reads or prints, such an attribute is a string: `ll.plan = "ll!plan<...>"`.
"""

from __future__ import annotations

import re

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Attribute, Module, Operation, operations
from triton_linear.tools.support.errors import captured_stderr

_TYPED = "#ll."
_HIDDEN = "ll!"
"""What stands for `#ll.` in text that libtriton reads."""
_STRING = re.compile(r'(?P<name>\bll\.\w+ = )(?P<value>"(?:[^"\\]|\\.)*")')
_VALUE = re.compile(r"//.*|(?P<name>\bll\.\w+ = (?=#ll\.|\[))")
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|->|(?P<open>[<({\[])|(?P<close>[])}>])')


def own_form(module: Operation, debug: bool) -> str | None:
    """A module as Triton prints it, which sees attributes of `ll` as strings; None if Triton cannot read it."""
    copy = module.clone()
    for op in operations(copy):
        for name in [name for name in op.attributes if name.startswith("ll.")]:
            if _TYPED in (value := str(op.attributes[name])):
                op.attributes[name] = Attribute.parse(_quoted(value), copy.context)
    try:
        with captured_stderr():
            own = bridge.parse_triton(bridge.printed(copy), bridge.triton_context())
    except (bridge.BridgeError, ValueError):  # the text of some layouts is no encoding of Triton's
        return None
    return _STRING.sub(_shown, str(own) if debug else str(own.str_nodebug()))


def hidden(text: str) -> str:
    """The text of a module in Triton's form, with the attributes of the `ll` dialect as strings."""
    parts, at = [], 0
    for found in _VALUE.finditer(text) if _TYPED in text and not bridge.is_generic(text) else ():
        end, depth = found.end(), 0
        for bracket in _BRACKET.finditer(text, found.end()):
            depth += bool(bracket["open"]) - bool(bracket["close"])
            if depth == 0:
                end = bracket.end()
                break
        value = text[found.end() : end]
        if found["name"] and found.start() >= at and _TYPED in value:
            parts += [text[at : found.end()], _quoted(value)]
            at = end
    return "".join((*parts, text[at:]))


def restore(module: Module) -> None:
    """Give attributes that `hidden` has made strings their values again."""
    for op in operations(module.operation):
        for name in [name for name in op.attributes if name.startswith("ll.")]:
            value = getattr(op.attributes[name], "value", None)
            if isinstance(value, str) and _HIDDEN in value:
                op.attributes[name] = Attribute.parse(value.replace(_HIDDEN, _TYPED), module.context)


def _quoted(value: str) -> str:
    """An attribute as a string attribute."""
    text = value.replace(_TYPED, _HIDDEN).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _shown(found: re.Match[str]) -> str:
    text = found["value"]
    if _HIDDEN not in text:
        return found[0]
    value = str(Attribute.parse(text, bridge.upstream_context()).value)
    return found["name"] + value.replace(_HIDDEN, _TYPED)
