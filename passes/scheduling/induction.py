"""The proof that an argument of a loop is what a load of the body loads in the same iteration.

By induction: the loop is given what the load loads in the first iteration, and each iteration yields what it
loads in the next, both where that iteration runs. A value of the body in another iteration is what the same
operations give for the arguments of that iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from triton_linear.dialect.mlir_adapter import Attribute, Block, Operation, Value
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.equivalence import attributes_alone
from triton_linear.passes.analysis.flow import BOUNDS, constant, maker, terminator
from triton_linear.passes.framework.verifiers import NotEquivalent
from triton_linear.passes.operations import names

SEGMENTS: Final = "operandSegmentSizes"
_UNSIGNED: Final = "unsignedCmp"
_SLT, _ULT = 2, 6
"""The predicates of `arith.cmpi` for "less", of signed numbers and of unsigned ones."""
_OF_LOOPS: Final = (_UNSIGNED,)
_OF_LOADS: Final = ("isVolatile", "cache", "evict", "cachePolicy", "boundaryCheck", "padding")
"""The attributes that loops and loads have by definition, in any release, which the bindings do not list."""


def attributes_of(op: Operation) -> dict[str, Attribute]:
    """The attributes of a loop or a load, without the number of its operands."""
    defined = _OF_LOOPS if op.name == names.FOR else _OF_LOADS
    found = dict(op.attributes) | {name: op.attributes[name] for name in defined if name in op.attributes}
    found.pop(SEGMENTS, None)
    return found


def less(loop: Operation) -> int:
    """The predicate by which the counter of a loop is less than the bound, as long as the loop runs."""
    return _ULT if _UNSIGNED in loop.attributes else _SLT


def check(carried: Mapping[Value, Value]) -> None:
    """Raise NotEquivalent unless each argument of a loop is what the load that gives the other value loads."""
    for argument, loaded in carried.items():
        body, number, load = argument.owner, argument.arg_number - 1, loaded.owner.operation
        loop = body.owner.operation
        counter, *arguments = body.arguments
        given, yielded = list(loop.operands)[BOUNDS:], list(terminator(body).operands)
        first = dict(zip(arguments, given, strict=True)) | {counter: loop.operands[0]}
        if not _Iteration(loop, body, first).has(load, given[number]):
            raise NotEquivalent("a loop would not be given what its first iteration loads")
        if not _Iteration(loop, body, dict(zip(arguments, yielded, strict=True))).has(load, yielded[number]):
            raise NotEquivalent("an iteration would not yield what the next one loads")


@dataclass
class _Iteration:
    """An iteration of a loop. known: what values of the body are in it; without the counter, it is the next."""

    loop: Operation
    body: Block
    known: dict[Value, Value]

    def has(self, load: Operation, other: Value) -> bool:
        """True if `other` is what a load of the body loads in the iteration, if that runs, and nothing else."""
        ahead = maker(other)
        if ahead is None or ahead.name != names.LOAD or other.type != load.results[0].type:
            return False
        if attributes_of(ahead) != attributes_of(load) or len(ahead.operands) != max(2, len(load.operands)):
            return False
        pointer, *rest = load.operands
        other_pointer, guard, *others = ahead.operands
        runs = maker(guard)
        if rest:
            if runs is None or runs.name != names.SELECT or not _is_false(runs.operands[2]):
                return False
            others = [runs.operands[1], *others]
            runs = maker(runs.operands[0])
        elif runs is not None and runs.name == names.SPLAT:
            runs = maker(runs.operands[0])
        pairs = [(pointer, other_pointer), *zip(rest, others, strict=True)]
        return self.is_condition(runs) and all(self.same(*pair) for pair in pairs)

    def is_condition(self, op: Operation | None) -> bool:
        """True if an operation says whether the iteration runs."""
        if op is None or op.name != names.COMPARE or op.attributes["predicate"].value != less(self.loop):
            return False
        counter, bound = op.operands
        return self.same(self.body.arguments[0], counter) and bound == self.loop.operands[1]

    def same(self, value: Value, other: Value) -> bool:
        """True if `other` is what `value` is in the iteration."""
        pending = [(value, other)]
        while pending:
            one, other = pending.pop()
            op, made = maker(one), maker(other)
            if one in self.known:
                if self.known[one] != other:
                    return False
            elif one == self.body.arguments[0]:
                if (
                    made is None
                    or made.name != names.ADD
                    or list(made.operands) != [one, self.loop.operands[2]]
                ):
                    return False
            elif op is None or op.block != self.body:
                if one != other:
                    return False
            elif made is None or not _are_alike(op, made):
                return False
            else:
                self.known[one] = other
                pending += zip(op.operands, made.operands, strict=True)
        return True


def _are_alike(one: Operation, other: Operation) -> bool:
    """True if two operations compute the same of their operands, and nothing else."""
    return (
        one.name == other.name
        and len(one.regions) == len(other.regions) == 0
        and len(one.operands) == len(other.operands)
        and [result.type for result in one.results] == [result.type for result in other.results]
        and attributes_alone(one) == attributes_alone(other)
    )


def _is_false(value: Value) -> bool:
    """True if a mask is constant, and hides all elements."""
    known = constant(value)
    return known is not None and not known.value
