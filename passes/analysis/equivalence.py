"""Whether a module computes what it did before its layouts were changed.

A layout says where a value lives, not what it is. So two modules that agree in everything but encodings,
conversions, and how often a value is recomputed compute the same. Here each value gets a number by what
computes it (value numbering): the operation, its attributes, the numbers of its operands, its shape and element
type. Conversions hand the number of their operand on. What is left to compare is, block by block, the sequence
of operations that do more than compute a value, with the numbers of what they take.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from triton_linear.dialect.mlir_adapter import (
    Block,
    DenseElementsAttr,
    Operation,
    RankedTensorType,
    Type,
    Value,
    operations,
    text_of,
)
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.flow import BOUNDS
from triton_linear.passes.analysis.writes import Writes
from triton_linear.passes.framework.verifiers import NotEquivalent
from triton_linear.passes.operations.names import CONSTANT, CONVERT, FOR, LOAD, YIELD
from triton_linear.passes.operations.table import is_volatile, named


@dataclass
class Numbering:
    """Numbers values; modules that are to be compared share one.

    erased: values that get the number of others, as the results of conversions do. shown: the types that values
    are to count with. loads_move: loads may be at other places, unless what they read may be written before.
    distinct: as for `Writes`. carried: new arguments of loops, each with the value of the body that it was
    shown to equal in each iteration; that value is there in both modules.
    """

    known: dict[Hashable, int] = field(default_factory=dict)
    erased: Mapping[Value, Value] = field(default_factory=dict)
    shown: Mapping[Value, Type] = field(default_factory=dict)
    loads_move: bool = False
    distinct: bool = False
    carried: dict[Value, Value] = field(default_factory=dict)
    numbers: dict[Value, int] = field(default_factory=dict)
    given: dict[Value, int] = field(default_factory=dict)
    writes: Writes | None = None
    types: dict[Type, Hashable] = field(default_factory=dict)
    rest: Iterator[tuple[Operation, str, str]] = field(default_factory=lambda: iter(()))
    """Operations that are still to come, in the order they are written, each with its name and attributes."""

    @contextmanager
    def same(self, root: Operation, change: str, read: Sequence[Any] = ()) -> Iterator[None]:
        """Raise NotEquivalent unless `root` computes after the block what it did before; `change` says what the
        block changes. read: the operations as plain Python objects (`assignment.nodes`), which are faster; not
        with `loads_move`."""
        before = self.of(root, read)
        yield
        if self.of(root) != before:
            raise NotEquivalent(f"the module with {change} would not compute the same")

    def of(self, root: Operation, read: Sequence[Any] = ()) -> Hashable:
        """What `root` computes: equal for two modules only if they compute the same. read: as for `same`."""
        ops = read or operations(root)
        self.rest = iter(printed_operations(root, ops))
        self.writes = Writes.of(ops, distinct=self.distinct) if self.loads_move else None
        self.given = {argument: self.numbers[value] for argument, value in self.carried.items()}
        self.numbers = {}
        return self._effects(read[0] if read else root, ())

    def _number(self, key: Hashable) -> int:
        return self.known.setdefault(key, len(self.known))

    def _type_of(self, value: Value) -> Type:
        return self.shown.get(value, value.type) if self.shown else value.type

    def _without_encoding(self, type_: Type) -> Hashable:
        known = self.types.get(type_)
        if known is None:
            bare: Hashable = type_
            if isinstance(type_, RankedTensorType):
                bare = tuple(type_.shape), type_.element_type
            known = self.types[type_] = self._number(bare)
        return known

    def _effects(self, op: Operation, path: tuple[int, ...]) -> Hashable:
        return tuple(
            self._block(block, (*path, index))
            for index, block in enumerate(block for region in op.regions for block in region.blocks)
        )

    def _block(self, block: Block, path: tuple[int, ...]) -> Hashable:
        numbers = self.numbers
        for argument in block.arguments:
            place = "argument", path, argument.arg_number, self._without_encoding(self._type_of(argument))
            numbers[argument] = self.given[argument] if argument in self.given else self._number(place)
        effects: list[Hashable] = []
        known_types = self.types
        # A walk has found them. The bindings would look for a Python class of each, which loads its dialect.
        for _ in range(len(block.operations)):
            # Each question to the bindings takes a microsecond: none is asked twice.
            op, name, attributes = next(self.rest)
            results = list(op.results)
            if name == CONVERT:
                numbers[results[0]] = numbers[op.operands[0]]
                continue
            if self.erased and results and results[0] in self.erased:
                numbers.update((result, numbers[self.erased[result]]) for result in results)
                for _ in operations(op)[1:] if len(op.regions) else ():
                    next(self.rest)
                continue
            operands = tuple([numbers[operand] for operand in op.operands])
            if self.given and name in (FOR, YIELD):
                operands, results = self._without_given(op, operands, results)
            kinds = [self._type_of(result) for result in results] if self.shown else [v.type for v in results]
            types = tuple([known_types.get(kind) or self._without_encoding(kind) for kind in kinds])
            key = name, self._constant(op) or attributes if name == CONSTANT else attributes, operands, types
            known = named(name)
            has_regions = len(op.regions) > 0
            pure = known.recomputed or (known.elementwise and not has_regions) or self._is_free_load(op, name)
            # What is not pure is an event of its own, told apart from its like by its place.
            number = self._number(key if pure else (path, len(effects), key))
            for index, result in enumerate(results):
                numbers[result] = number if pure and index == 0 else self._number((number, index))
            if not pure:
                inside = self._effects(op, (*path, len(effects))) if has_regions else ()
                effects.append((number, inside))
        return tuple(effects)

    def _is_free_load(self, op: Operation, name: str) -> bool:
        """True if a load reads the same at any place before the next write."""
        writes = self.writes
        return writes is not None and name == LOAD and not is_volatile(op) and writes.passed(op) is not None

    def _without_given(
        self, op: Operation, operands: tuple[int, ...], results: list[Value]
    ) -> tuple[tuple[int, ...], list[Value]]:
        """The operands and results of a loop, or of what ends its body, without those of arguments that are
        known."""
        loop, before = (op, BOUNDS) if op.name == FOR else (op.parent.operation, 0)
        if loop.name != FOR:
            return operands, results
        carried = list(loop.regions[0].blocks[0].arguments)[1:]
        own = [number for number, argument in enumerate(carried) if argument not in self.given]
        kept = *operands[:before], *(operands[before + number] for number in own)
        return kept, [results[number] for number in own] if results else results

    def _constant(self, op: Operation) -> Hashable:
        """What stands for the attributes of a constant that is a splat: they say its type once more. None for
        others."""
        value = op.attributes["value"]
        if isinstance(value, DenseElementsAttr) and value.is_splat:
            return value.get_splat_value(), self._without_encoding(value.type)
        return None


_CLOSED = "})"


def printed_operations(root: Operation, ops: Sequence[Any]) -> list[tuple[Operation, str, str]]:
    """Every operation inside `root`, in the order they are written, with its name and attributes. ops: these,
    and `root` in front of them.

    The bindings list those only that an operation may go without. So they are read as they are printed: after
    the operands, and after the regions if there are any, up to the types. All at once takes less time.
    """
    inside = ops[1:]
    names = [op.name for op in inside]
    text = text_of(root, print_generic_op_form=True, use_local_scope=True, assume_verified=True)
    found: list[str] = []
    open_: list[int] = []
    for line in text.splitlines()[1:]:
        at = line.find('"') + 1
        if at and len(found) < len(inside) and line.startswith(f'{names[len(found)]}"(', at):
            after = line.index(")", at) + 1
            if line.endswith("({"):
                open_.append(len(found))
                found.append(line[after:])
            else:
                found.append(line[after : line.rindex(" : (")])
        elif open_ and (closing := line.lstrip()).startswith(_CLOSED):
            found[open_.pop()] += closing[: closing.rindex(" : (")]
    if len(found) != len(inside) or open_:
        found = [attributes_alone(op) for op in operations(root)[1:]]
    return list(zip(inside, names, found, strict=True))


def attributes_alone(op: Operation) -> str:
    """The attributes of one operation, printed by itself."""
    text: str = op.get_asm(
        print_generic_op_form=True, use_local_scope=True, skip_regions=True, assume_verified=True
    )
    return text[text.index(")") + 1 : text.rindex(" : (")]
