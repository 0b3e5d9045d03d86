"""Lets operands of dots of doubles lie as the instruction has them."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    Operation,
    RankedTensorType,
    Type,
    UnitAttr,
    Value,
    block_arguments,
)
from triton_linear.dialect.records import dataclass
from triton_linear.passes.framework.base import Pass
from triton_linear.passes.operations.names import CONSTANT, DOTS, FUNCTION
from triton_linear.passes.reductions.held import KeptBits

_OPERAND = re.compile(
    r"#ttg\.dot_op<\{opIdx = \d, parent = (?P<parent>#ttg\.nvidia_mma<.*>), kWidth = (?P<width>\d+)\}>"
)
_WIDTH = re.compile(r"kWidth = \d+")


@dataclass(frozen=True)
class NarrowOperands(Pass):
    """Lets operands of dots of doubles lie as the instruction has them: `kWidth = 1`.

    Triton chooses how many neighbours along k a thread holds by the narrowest type that an operand was
    converted from: four if bytes become doubles. Before 3.9, its code for the instruction on doubles takes no
    more than one, and compiling fails. Any layout will do in front of a dot, as long as all that leads to it
    agrees.

    Requires: nothing. A module stays as it is where operands cross the boundary of a function, the matrix
    layout has dots of other types as well, or the order in which a dot adds shows in bits that have to stay
    (`reductions/held.py`).
    Ensures: operands of `tt.dot` of f64 have `kWidth = 1`; what has the same encoding has it too. A module that
    changed has `ll.narrowed`.

        tt.dot %a, %b, %c : tensor<16x16xf64, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 4}>> * ...
        tt.dot %a, %b, %c : tensor<16x16xf64, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 1}>> * ...
    """

    name: ClassVar[str] = "linear-narrow-operands"
    summary: ClassVar[str] = "let operands of dots of doubles lie as the instruction has them"

    def __call__(self, op: Operation, pass_: Any) -> bool | None:
        ops = pass_.operations(op)
        dots = [inner for inner in ops if inner.name in DOTS]
        if not any(_doubles(dot) for dot in dots):
            return False
        parents = {found["parent"] for dot in dots if _doubles(dot) for found in _wide(dot)}
        parents -= {found["parent"] for dot in dots if not _doubles(dot) for found in _operands(dot)}
        signatures = (str(inner.attributes["function_type"]) for inner in ops if inner.name == FUNCTION)
        kept = KeptBits.of(op, pass_, exact=False)
        parents -= {found["parent"] for dot in dots if kept.shows_order(dot) for found in _operands(dot)}
        if not parents or any("#ttg.dot_op" in signature for signature in signatures):
            return False
        types: dict[Type, Type] = {}
        for inner in ops:
            for value in (*inner.results, *block_arguments(inner)):
                _narrow(value, parents, types)
            if inner.name == CONSTANT:
                text, _, type_ = str(inner.attributes["value"]).partition(" : ")
                if (new := str(inner.results[0].type)) != type_:
                    inner.attributes["value"] = Attribute.parse(f"{text} : {new}", op.context)
        op.attributes[ll.NARROWED] = UnitAttr.get(op.context)
        return False


def _doubles(dot: Operation) -> bool:
    """Whether a dot is one of doubles."""
    type_ = dot.operands[0].type
    return isinstance(type_, RankedTensorType) and str(type_.element_type) == "f64"


def _operands(dot: Operation) -> list[re.Match[str]]:
    """The encodings of the operands that are those of an NVIDIA dot."""
    types = [dot.operands[index].type for index in (0, 1)]
    encodings = (str(type_.encoding) for type_ in types if isinstance(type_, RankedTensorType))
    return [found for encoding in encodings if (found := _OPERAND.fullmatch(encoding))]


def _wide(dot: Operation) -> list[re.Match[str]]:
    """Those of more than one neighbour."""
    return [found for found in _operands(dot) if found["width"] != "1"]


def _narrow(value: Value, parents: set[str], types: dict[Type, Type]) -> None:
    """Give a value its new type, if it has one of the encodings."""
    type_ = value.type
    if type_ not in types:
        types[type_] = _narrowed(type_, parents)
    if types[type_] != type_:
        value.set_type(types[type_])


def _narrowed(type_: Type, parents: set[str]) -> Type:
    if not isinstance(type_, RankedTensorType) or type_.encoding is None:
        return type_
    text = str(type_)
    found = _OPERAND.search(text)
    if found is None or found["parent"] not in parents:
        return type_
    return Type.parse(_WIDTH.sub("kWidth = 1", text), type_.context)
