"""Check a module that was read from text for what the passes require.

libtriton verifies modules in Triton's own syntax, but not modules in generic form. In both forms the text may
have attributes of this package, which libtriton does not check. Mistakes are reported as errors of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    FlatSymbolRefAttr,
    IntegerAttr,
    Module,
    Operation,
    RankedTensorType,
    StringAttr,
    TypeAttr,
    operations,
)
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.conversions.stubs import STUB_PREFIX
from triton_linear.passes.framework.layouts import LayoutTable, Unknown
from triton_linear.passes.operations.names import CALL, CONVERT, FUNCTION

Complaint = tuple[Operation, str]

_COUNTS = ("ttg.num-warps", "ttg.num-ctas", "ttg.threads-per-warp")


def complaints(module: Module) -> Iterator[Complaint]:
    """The mistakes in a module, each with its operation."""
    root = module.operation
    for name in _COUNTS:
        if name in root.attributes and (wrong := _not_a_count(root.attributes[name])):
            yield root, f"{name}: {wrong}"
    if "ttg.target" in root.attributes and not isinstance(root.attributes["ttg.target"], StringAttr):
        yield root, f"ttg.target: expected a string, got '{root.attributes['ttg.target']}'"
    ops = operations(root)
    functions: dict[str, Operation] = {}
    for op in ops:
        attributes = op.attributes
        for name, check in _ATTRIBUTE_CHECKS.items():
            if name in attributes and (wrong := check(attributes[name])):
                yield op, f"{name}: {wrong}"
        if op.name == FUNCTION:
            yield from _function(op, functions)
        elif op.name == CONVERT:
            yield from _conversion(op)
    for op in ops:
        if op.name == CALL:
            yield from _call(op, functions)


def _function(op: Operation, functions: dict[str, Operation]) -> Iterator[Complaint]:
    attributes = op.attributes
    for name in ("sym_name", "sym_visibility"):
        if name in attributes and not isinstance(attributes[name], StringAttr):
            yield op, f"{name}: expected a string, got '{attributes[name]}'"
            return
    if "sym_name" not in attributes:
        yield op, "function has no 'sym_name'"
    elif (name := attributes["sym_name"].value) in functions:
        yield op, f"redefinition of function @{name}"
    else:
        functions[name] = op
    if "function_type" not in attributes or not isinstance(attributes["function_type"], TypeAttr):
        yield op, "function has no 'function_type'"
    elif ll.PLAN in attributes:
        yield from _stub(op)


def _stub(op: Operation) -> Iterator[Complaint]:
    """Check that an outlined conversion has its attributes and that they agree with its type."""
    attributes, type_ = op.attributes, op.attributes["function_type"].value
    if missing := [name for name in (ll.SOURCE, ll.DESTINATION, ll.ELEMENT) if name not in attributes]:
        yield op, f"function has '{ll.PLAN}' and no '{missing[0]}'"
        return
    if not hasattr(type_, "inputs") or len(type_.inputs) != 1 or len(type_.results) != 1:
        yield op, f"function with '{ll.PLAN}' takes one tensor and returns one, got '{type_}'"
        return
    table = LayoutTable()
    for name, side in ((ll.SOURCE, type_.inputs[0]), (ll.DESTINATION, type_.results[0])):
        layout = table.of(side)
        if layout is None or isinstance(layout, Unknown):
            yield op, f"function with '{ll.PLAN}': '{side}' has no layout"
        elif (
            _ATTRIBUTE_CHECKS[name](attributes[name]) is None
            and ll.layout_from_attribute(attributes[name]) != layout
        ):
            yield op, f"{name}: is not the layout of '{side}'"
        elif str(side.element_type) != attributes[ll.ELEMENT].value:
            yield op, f"{ll.ELEMENT}: '{side}' has no elements of {attributes[ll.ELEMENT]}"


def _conversion(op: Operation) -> Iterator[Complaint]:
    if len(op.operands) != 1 or len(op.results) != 1:
        yield op, f"conversion of {len(op.operands)} values to {len(op.results)}; it takes one and gives one"
        return
    source, result = op.operands[0].type, op.results[0].type
    if not isinstance(source, RankedTensorType) or not isinstance(result, RankedTensorType):
        yield op, f"conversion of '{source}' to '{result}'; both must be tensors"
    elif list(source.shape) != list(result.shape) or source.element_type != result.element_type:
        yield op, f"conversion of '{source}' to '{result}'; shape and element type must be the same"


def _call(op: Operation, functions: dict[str, Operation]) -> Iterator[Complaint]:
    if "callee" not in op.attributes or not isinstance(op.attributes["callee"], FlatSymbolRefAttr):
        yield op, "call has no 'callee'"
        return
    name = op.attributes["callee"].value
    if name not in functions:
        yield op, f"call of @{name}, and there is no such function"
        return
    declared = functions[name].attributes["function_type"].value
    if name.startswith(STUB_PREFIX) and ll.PLAN not in functions[name].attributes:
        yield op, f"call of @{name}, a name of outlined conversions, which has no '{ll.PLAN}'"
    given = [v.type for v in op.operands], [v.type for v in op.results]
    if not hasattr(declared, "inputs") or given != (list(declared.inputs), list(declared.results)):
        yield op, f"call of @{name} does not have the types that it is declared with, '{declared}'"


def _not_a_count(attribute: Attribute) -> str | None:
    if not isinstance(attribute, IntegerAttr):
        return f"expected an integer, got '{attribute}'"
    value = attribute.value
    return None if value > 0 and not value & (value - 1) else f"{value} is not a power of two"


def _read_by(read: Callable[[Attribute], object]) -> Callable[[Attribute], str | None]:
    """The check that an attribute can be read."""

    def check(attribute: Attribute) -> str | None:
        try:
            read(attribute)
        except ValueError as error:
            return str(error)
        return None

    return check


_not_a_layout = _read_by(ll.layout_from_attribute)


def _not_an_element(attribute: Attribute) -> str | None:
    if not isinstance(attribute, StringAttr):
        return f"expected a string, got '{attribute}'"
    return _read_by(lambda text: element_type(text.value))(attribute)


def _of_kind(kind: type, named: str) -> Callable[[Attribute], str | None]:
    return lambda attribute: None if isinstance(attribute, kind) else f"expected {named}, got '{attribute}'"


_ATTRIBUTE_CHECKS: dict[str, Callable[[Attribute], str | None]] = {
    ll.STOCK: _of_kind(StringAttr, "a string"),
    ll.SCRATCH_LIMIT: _of_kind(IntegerAttr, "an integer"),
    ll.PLAN: _read_by(ll.plan_from_attribute),
    ll.SOURCE: _not_a_layout,
    ll.DESTINATION: _not_a_layout,
    ll.ELEMENT: _not_an_element,
}
