"""Whether a module computes what it did before its layouts were changed.

A layout says where a value lives, not what it is. So two modules that agree in everything but encodings,
conversions, and how often a value is recomputed compute the same. Here each value gets a number by what
computes it (value numbering): the operation, its attributes, the numbers of its operands, its shape and element
type. Conversions hand the number of their operand on. What is left to compare is, block by block, the sequence
of operations that do more than compute a value, with the numbers of what they take.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import lru_cache

from triton_linear.dialect.mlir_adapter import Operation, Type, Value, operations, text_of
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.flow import BOUNDS
from triton_linear.passes.analysis.writes import Writes
from triton_linear.passes.framework.verifiers import NotEquivalent
from triton_linear.passes.operations.names import CONSTANT, CONVERT, FOR, LOAD, YIELD
from triton_linear.passes.operations.table import is_volatile, named


@dataclass
class Numbering:
    """Numbers values; modules that are to be compared share one.

    A module is read in its printed form. It shows inherent attributes too, which the bindings do not list, and
    a question to the bindings takes as long as reading half a line.

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
    lines: Iterator[str] = field(default_factory=lambda: iter(()))
    """What is still to come of the text."""
    ops: Iterator[Operation] | None = None
    """The operations that are still to come; None if nothing is asked of them."""

    @contextmanager
    def same(self, root: Operation, change: str) -> Iterator[None]:
        """Raise NotEquivalent unless `root` computes after the block what it did before; `change` says what the
        block changes."""
        before = self.of(root)
        yield
        if self.of(root) != before:
            raise NotEquivalent(f"the module with {change} would not compute the same")

    def of(self, root: Operation) -> Hashable:
        """What `root` computes: equal for two modules only if they compute the same."""
        ops = operations(root) if self.loads_move or self.erased or self.shown else []
        self.ops = iter(ops[1:]) if ops else None
        self.writes = Writes.of(ops, distinct=self.distinct) if self.loads_move else None
        self.given = {argument: self.numbers[value] for argument, value in self.carried.items()}
        self.numbers = {}
        text = text_of(root, print_generic_op_form=True, use_local_scope=True, assume_verified=True)
        self.lines = map(str.lstrip, text.splitlines()[1:])
        found, _ = self._inside(root, {}, ())
        if next(self.lines, None) is not None:
            raise NotEquivalent("the text of a module goes on behind its last line")
        return found

    def _number(self, key: Hashable) -> int:
        return self.known.setdefault(key, len(self.known))

    def _inside(
        self, op: Operation | None, around: Mapping[str, int], path: tuple[int, ...]
    ) -> tuple[Hashable, str]:
        """What the blocks of an operation compute, whose first line has been read, and its last line. around:
        the numbers of values by their names, which other regions may give to other values."""
        names, blocks, known = dict(around), list[list[Hashable]](), self.known
        effects: list[Hashable] | None = None
        for line in self.lines:  # which are long: none is copied more often than it must be
            if (first := line[0]) == "}":
                if not line.startswith("}, {"):
                    return tuple(map(tuple, blocks)), line
                names, effects = dict(around), None
                continue
            if effects is None or first == "^":
                place, effects = (*path, len(blocks)), []
                blocks.append(effects)
                if first == "^":
                    self._number_arguments(line, op, place, names)
                    continue
            head, _, rest = line.partition(")")
            given, name, taken = head.split('"')
            try:
                operands = tuple(map(names.__getitem__, taken[1:].split(", "))) if len(taken) > 1 else ()
            except KeyError:
                raise NotEquivalent(f"an operand of '{name}' is not there") from None
            inner = None if self.ops is None else next(self.ops)
            inside: Hashable = None
            if rest[-1] == "{":
                inside, last = self._inside(inner, names, (*place, len(effects)))
                rest += last
            attributes, found, signature = rest.rpartition(" : (")
            results = signature.partition(") -> ")[2]
            if not found or (inner is not None and inner.name != name):
                raise NotEquivalent(f"the text of '{name}' is not understood")
            types = types_among(results)
            own: Sequence[int] = range(len(types))
            if name == CONVERT:
                numbers = list(operands)
            elif self.erased and inner is not None and given and inner.results[0] in self.erased:
                numbers = [self.numbers[self.erased[result]] for result in inner.results]
            else:
                if self.shown and inner is not None:
                    types = tuple(map(self._type_shown, inner.results, types))
                if self.given and name in (FOR, YIELD):
                    operands, own = self._without_given(inner, operands)
                    types = tuple([types[index] for index in own])
                if name == CONSTANT and (splat := _SPLAT.match(attributes)):
                    attributes = splat[1] + without_encoding(splat[2])
                key = name, attributes, operands, types
                facts = named(name)
                pure = (facts.recomputed or facts.elementwise) and inside is None
                if name == LOAD and self.writes is not None:  # may read the same at any place before a write
                    pure = not is_volatile(inner) and self.writes.passed(inner) is not None
                # What is not pure is an event of its own, told apart from its like by its place.
                number = known.setdefault(key if pure else (place, len(effects), key), len(known))
                numbers = [number] if pure and own else []
                if len(numbers) < len(own):
                    numbers += [self._number((number, index)) for index in range(len(numbers), len(own))]
                if not pure:
                    effects.append((number, inside))
            if ":" in given:
                result = given.partition(":")[0]
                names.update((f"{result}#{index}", number) for index, number in zip(own, numbers, strict=True))
            elif numbers:
                names[given[:-3]] = numbers[0]
            if inner is not None and (self.erased or name == LOAD):
                values = inner.results
                self.numbers.update((values[index], number) for index, number in zip(own, numbers, strict=True))
        raise NotEquivalent("the text of a module ends in a block")

    def _number_arguments(
        self, line: str, op: Operation | None, place: tuple[int, ...], names: dict[str, int]
    ) -> None:
        """Number the arguments of a block, which `line` begins, of an operation."""
        _, *found = _ARGUMENT.split(line.rpartition("):")[0])
        arguments: list[Value | None] = [None] * (len(found) // 2)
        if self.ops is not None and op is not None:
            blocks = [block for region in op.regions for block in region.blocks]
            arguments = list(blocks[place[-1]].arguments)
        for index, argument in enumerate(arguments):
            type_ = self._type_shown(argument, without_encoding(found[2 * index + 1].removesuffix(", ")))
            number = self.given.get(argument)
            if number is None:
                number = self._number(("argument", place, index, type_))
            names[found[2 * index]] = self.numbers[argument] = number

    def _type_shown(self, value: Value | None, type_: str) -> str:
        """The type that a value counts with; `type_` is its own."""
        return without_encoding(str(self.shown[value])) if value in self.shown else type_

    def _without_given(self, op: Operation, operands: tuple[int, ...]) -> tuple[tuple[int, ...], Sequence[int]]:
        """The operands of a loop, or of what ends its body, without those of arguments that are known, and the
        numbers of the results that are left."""
        loop, before = (op, BOUNDS) if op.name == FOR else (op.parent.operation, 0)
        if loop.name != FOR:
            return operands, range(len(op.results))
        carried = list(loop.regions[0].blocks[0].arguments)[1:]
        own = [number for number, argument in enumerate(carried) if argument not in self.given]
        kept = *operands[:before], *(operands[before + number] for number in own)
        return kept, own if len(op.results) else ()


_ARGUMENT = re.compile(r"(%[\w$.-]+): ")
"""What comes before the type of an argument of a block."""
_SPLAT = re.compile(r" <?{value = (dense<[^\[\"]\S*> : )(tensor<.*)")
"""A constant of equal elements: it says its type once more."""
_BRACKET = re.compile(r'"[^"]*"|->|[<({\[\]})>]|, ')


@lru_cache(maxsize=4096)
def types_among(results: str) -> tuple[str, ...]:
    """The types of results, without encodings.

    >>> types_among("(tensor<4xi32, #a<{b = [1, 0]}>>, i1)"), types_among("()"), types_among("i32")
    (('tensor<4xi32', 'i1'), (), ('i32',))
    """
    if not results.startswith("("):
        return (without_encoding(results),)
    found, begin, depth = list[str](), 1, 0
    for bracket in _BRACKET.finditer(results):
        depth += (bracket[0] in "<({[") - (bracket[0] in "]})>")
        if depth == 0 or (depth == 1 and bracket[0] == ", "):
            found.append(without_encoding(results[begin : bracket.start()]))
            begin = bracket.end()
    return tuple(filter(None, found))


def without_encoding(type_: str) -> str:
    """What a type says of a value besides its layout: that of a tensor up to its encoding, and any other."""
    bare = type_.partition(", #")[0]
    return bare if bare.startswith("tensor<") and bare.count("<") == bare.count(">") + 1 else type_


def attributes_alone(op: Operation) -> str:
    """The attributes of one operation, printed by itself."""
    text: str = op.get_asm(
        print_generic_op_form=True, use_local_scope=True, skip_regions=True, assume_verified=True
    )
    return text[text.index(")") + 1 : text.rindex(" : (")]
