"""Whether a module computes what it did before its layouts were changed.

A layout says where a value lives, not what it is. So two modules that agree in everything but encodings,
conversions, and how often a value is recomputed compute the same. Here each value gets a number by what
computes it (value numbering): the operation, its attributes, the numbers of its operands, its shape and element
type. Conversions hand the number of their operand on. What is left to compare is, block by block, the sequence
of operations that do more than compute a value, with the numbers of what they take.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from triton_linear.dialect.mlir_adapter import (
    Block,
    DenseElementsAttr,
    Operation,
    RankedTensorType,
    Type,
    Value,
    operations,
)
from triton_linear.passes.assignment import weights
from triton_linear.passes.verifiers import CONVERT

_PURE = frozenset({"tt.expand_dims", "tt.broadcast"})


def _is_pure(op: Operation) -> bool:
    return op.name in _PURE or (weights.is_elementwise(op.name) and len(op.regions) == 0)


@dataclass
class Numbering:
    """Numbers values; modules that are to be compared share one."""

    known: dict[Hashable, int] = field(default_factory=dict)
    types: dict[Type, Hashable] = field(default_factory=dict)
    printed: Iterator[str] = field(default_factory=lambda: iter(()))

    def of(self, root: Operation) -> Hashable:
        """What `root` computes: equal for two modules only if they compute the same."""
        self.printed = iter(printed_attributes(root))
        return self._effects(root, {}, ())

    def _number(self, key: Hashable) -> int:
        return self.known.setdefault(key, len(self.known))

    def _without_encoding(self, type_: Type) -> Hashable:
        if type_ not in self.types:
            bare: Hashable = type_
            if isinstance(type_, RankedTensorType):
                bare = tuple(type_.shape), type_.element_type
            self.types[type_] = self._number(bare)
        return self.types[type_]

    def _effects(self, op: Operation, numbers: dict[Value, int], path: tuple[int, ...]) -> Hashable:
        return tuple(
            self._block(block, numbers, (*path, index))
            for index, block in enumerate(block for region in op.regions for block in region.blocks)
        )

    def _block(self, block: Block, numbers: dict[Value, int], path: tuple[int, ...]) -> Hashable:
        for argument in block.arguments:
            place = "argument", path, argument.arg_number, self._without_encoding(argument.type)
            numbers[argument] = self._number(place)
        effects: list[Hashable] = []
        for view in block.operations:
            op = view.operation
            attributes = next(self.printed)
            if op.name == CONVERT:
                numbers[op.results[0]] = numbers[op.operands[0]]
                continue
            key = self._key(op, attributes, numbers)
            pure = _is_pure(op)
            # What is not pure is an event of its own, told apart from its like by its place.
            number = self._number(key if pure else (path, len(effects), key))
            for index, result in enumerate(op.results):
                numbers[result] = number if pure and index == 0 else self._number((number, index))
            if not pure:
                effects.append((number, self._effects(op, numbers, (*path, len(effects)))))
        return tuple(effects)

    def _key(self, op: Operation, attributes: str, numbers: dict[Value, int]) -> Hashable:
        operands = tuple([numbers[operand] for operand in op.operands])
        results = tuple([self._without_encoding(result.type) for result in op.results])
        return op.name, self._attributes(op, attributes), operands, results

    def _attributes(self, op: Operation, printed: str) -> Hashable:
        """All attributes of an operation. A constant says its type once more, there they are taken apart."""
        if op.name == "arith.constant":
            value = op.attributes["value"]
            if isinstance(value, DenseElementsAttr) and value.is_splat:
                return value.get_splat_value(), self._without_encoding(value.type)
        return printed


_OPERATION = re.compile(r'\s*(?:%[^"]* = )?"(?P<name>[^"]+)"\(')
_CLOSED = "})"


def printed_attributes(root: Operation) -> list[str]:
    """The attributes of every operation inside `root`, in the order they are written.

    The bindings list those only that an operation may go without. So they are read as they are printed: after
    the operands, and after the regions if there are any, up to the types. All at once takes half the time.
    """
    inside = operations(root)[1:]
    text: str = root.get_asm(print_generic_op_form=True, use_local_scope=True, assume_verified=True)
    found: list[str] = []
    open_: list[int] = []
    for line in text.splitlines()[1:]:
        match = _OPERATION.match(line)
        if match is not None:
            if len(found) == len(inside) or inside[len(found)].name != match["name"]:
                break
            after = line.index(")", match.end()) + 1
            if line.endswith("({"):
                open_.append(len(found))
                found.append(line[after:])
            else:
                found.append(line[after : line.rindex(" : (")])
        elif open_ and (closing := line.lstrip()).startswith(_CLOSED):
            found[open_.pop()] += closing[: closing.rindex(" : (")]
    if len(found) != len(inside) or open_:
        return [_alone(op) for op in inside]
    return found


def _alone(op: Operation) -> str:
    """The attributes of one operation, printed by itself."""
    text: str = op.get_asm(
        print_generic_op_form=True, use_local_scope=True, skip_regions=True, assume_verified=True
    )
    return text[text.index(")") + 1 : text.rindex(" : (")]
