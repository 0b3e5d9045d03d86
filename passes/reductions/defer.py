"""Moves reductions whose results a loop only adds up behind the loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

from triton_linear.dialect import encodings, ll
from triton_linear.dialect.encodings import Blocked, transfer
from triton_linear.dialect.linear_layout import REGISTER, WARP
from triton_linear.dialect.mlir_adapter import (
    DenseElementsAttr,
    FloatAttr,
    InsertionPoint,
    IntegerAttr,
    Location,
    Operation,
    Type,
    UnitAttr,
    Value,
)
from triton_linear.dialect.records import dataclass
from triton_linear.passes.analysis.equivalence import Numbering, attributes_alone
from triton_linear.passes.analysis.flow import BOUNDS, constant, maker, terminator
from triton_linear.passes.framework import diagnostics
from triton_linear.passes.framework.base import Pass
from triton_linear.passes.framework.building import made
from triton_linear.passes.framework.planning import exact_field, unfit
from triton_linear.passes.operations.names import CONSTANT, FOR, REDUCE
from triton_linear.passes.reductions import proof
from triton_linear.passes.reductions.held import UNORDERED_BITS, KeptBits
from triton_linear.passes.reductions.region import commutes
from triton_linear.passes.reductions.rewrite import ReductionWriter, converted

_SUMS = frozenset({"arith.addf", "arith.mulf"})
_WIDE = frozenset({"f32", "f64"})
"""Floats whose sums are deferred: of narrower ones every addition rounds much, and there would be others."""
_PASSES_NANS_OVER = frozenset({"arith.maxnumf", "arith.minnumf"})


def identity(name: str, element: str) -> float | int | None:
    """e with e + x = x for every x, bit for bit, where + is the operation called `name`; None if that is not
    known.

    >>> identity("arith.addf", "f32"), identity("arith.maxsi", "i8"), identity("arith.andi", "i32")
    (-0.0, -128, -1)
    >>> identity("arith.subf", "f32") is None
    True
    """
    if element.startswith("i"):
        top = 1 << (int(element[1:]) - 1)
        integers = {"addi": 0, "ori": 0, "xori": 0, "maxui": 0, "muli": 1, "andi": -1, "minui": -1}
        return (integers | {"maxsi": -top, "minsi": top - 1}).get(name.removeprefix("arith."))
    floats = {"addf": -0.0, "mulf": 1.0}
    for extreme, value in (("max", -math.inf), ("min", math.inf)):
        floats |= {f"{extreme}numf": value, f"{extreme}imumf": value}
    return floats.get(name.removeprefix("arith."))


@dataclass(frozen=True, slots=True)
class Deferred:
    """A reduction that a loop only adds up.

    carried: the number of what the loop carries. combination: what adds the result to it. cut: how what is
    reduced is cut into what each thread has.
    """

    loop: Operation
    carried: int
    combination: Operation
    reduction: Operation
    cut: Cut


@dataclass(frozen=True)
class DeferReductions(Pass):
    """Moves reductions whose results a loop only adds up behind the loop.

    A reduction goes through shuffles, shared memory and barriers. Where a loop only adds its results up, it is
    the same to reduce, in the loop, what each thread has, to add that up, and to reduce the sums of all threads
    once. No thread then waits for another in the loop, and what it keeps is as much as its part of the result.

    Requires: one CTA a cluster, no warp-specialised regions; other modules are left as they are, and so are
    reductions inside one warp, where nobody waits for others, and tensors that cannot be `cut`.
    Ensures: the same elements are combined by the same operation, in another order, where no bits that have
    to stay show the order (`reductions/held.py`). A loop that does not run gives what it was given. A module
    that changed has `ll.deferred`.

        %s = scf.for ... iter_args(%a = %zero) { %r = "tt.reduce"(%x) {+} ; scf.yield %a + %r }

        %p = scf.for ... iter_args(%q = dense<-0.0>) {
          %y = tt.reshape %x : 1024 -> 2x128x4 ; %r = "tt.reduce"("tt.reduce"(%y)) {+} : 128 ; scf.yield %q + %r
        }
        %t = "tt.reduce"(%p) {+} ; %s = %zero + %t
    """

    exact: bool = exact_field()

    name: ClassVar[str] = "linear-defer-reductions"
    summary: ClassVar[str] = "reduce between threads behind a loop what the loop only adds up"

    def __call__(self, op: Operation, pass_: Any) -> bool | None:
        ops = pass_.operations(op)
        loops = [inner for inner in ops if inner.name == FOR]
        if not loops or not any(inner.name == REDUCE for inner in ops) or unfit(op, ops):
            return False
        kept, done = KeptBits.of(op, pass_, exact=self.exact), False
        for loop in reversed(loops):  # those inside others come first
            for found in _found(loop):
                if kept.shows_order(found.reduction):
                    text = f"the reduction stays in the loop: {UNORDERED_BITS}"
                    diagnostics.remark(found.reduction, text)
                    continue
                text = "the loop adds up what each thread has, and the reduction moves behind it"
                diagnostics.remark(found.reduction, text)
                numbering = Numbering(erased={found.reduction.results[0]: found.reduction.operands[0]})
                with numbering.same(op, "a reduction behind its loop"):
                    numbering.erased, numbering.shown = _defer(found)
                done = True
        if done:
            op.attributes[ll.DEFERRED] = UnitAttr.get(op.context)
        return done


def _found(loop: Operation) -> list[Deferred]:
    """The reductions that a loop only adds up."""
    body = loop.regions[0].blocks[0]
    yielded = terminator(body)
    found = []
    for number, carried in enumerate(list(body.arguments)[1:]):
        combination = _only_user(carried)
        if combination is None or combination.block != body or len(combination.results) != 1:
            continue
        uses = list(combination.results[0].uses)
        if len(uses) != 1 or uses[0].owner.operation != yielded or uses[0].operand_number != number:
            continue
        others = [operand for operand in combination.operands if operand != carried]
        reduction = maker(others[0]) if len(others) == 1 else None
        if reduction is None or reduction.name != REDUCE or reduction.block != body:
            continue
        if _is_sum(loop.operands[BOUNDS + number], combination, reduction) and (made := _cut(reduction)):
            found.append(Deferred(loop, number, combination, reduction, made))
    return found


def _cut(reduction: Operation) -> Cut | None:
    type_ = reduction.operands[0].type
    return cut(str(type_.encoding), tuple(type_.shape), reduction.attributes["axis"].value)


def _only_user(value: Value) -> Operation | None:
    uses = list(value.uses)
    return uses[0].owner.operation if len(uses) == 1 else None


def _is_sum(given: Value, combination: Operation, reduction: Operation) -> bool:
    """Whether a loop that begins with `given` adds up by the operation by which the reduction combines, nobody
    else takes its result, and the operation has an identity."""
    if len(reduction.results) != 1 or _only_user(reduction.results[0]) is None or not commutes(reduction):
        return False
    inside = [view.operation for view in reduction.regions[0].blocks[0].operations]
    if len(inside) != 2 or inside[0].name != combination.name:
        return False
    if attributes_alone(inside[0]) != attributes_alone(combination):
        return False
    element = str(reduction.operands[0].type.element_type)
    if identity(combination.name, element) is None or (combination.name in _SUMS and element not in _WIDE):
        return False
    return combination.name not in _PASSES_NANS_OVER or _is_number(given)


def _is_number(value: Value) -> bool:
    """Whether a value is a constant, and no NaN."""
    known = constant(value)
    return isinstance(known, FloatAttr) and not math.isnan(known.value)


def _defer(found: Deferred) -> tuple[dict[Value, Value], dict[Value, Type]]:
    """Rewrite the loop.

    Ensures: without the reductions, before and behind, the module is what it was without its own. Returns what
    stands for what in that: partial results for what is reduced, the identity for what the loop was given, and
    the total for what it gave; and the types that these had.
    """
    loop, combination, reduction = found.loop, found.combination, found.reduction
    given = loop.operands[BOUNDS + found.carried]
    carried = loop.regions[0].blocks[0].arguments[1 + found.carried]
    result = loop.results[found.carried]
    users = [(use.owner.operation, use.operand_number) for use in result.uses]
    is_first = combination.operands[0] == carried

    writer = ReductionWriter(reduction)
    partial = reduction.operands[0]
    if found.cut.inside:
        partial = writer.reshaped(partial, found.cut.shape, found.cut.encoding)
    for axis in found.cut.inside:
        (partial,) = writer.reduced([partial], axis)
    erased = _steps(partial, reduction.operands[0])
    (whole,) = writer.reduced([partial], found.cut.axis)
    proof.check(reduction, [whole])
    last = whole.owner.operation
    type_ = partial.type
    value = {"value": _identities(type_, combination.name)}
    start = made(CONSTANT, [], type_, loop, reduction.location, value)
    loop.operands[BOUNDS + found.carried] = start
    for value in (carried, result):
        value.set_type(type_)

    def combined(total: Value, other: Value, to: Type, ip: InsertionPoint) -> Value:
        copy = combination.clone(ip=ip)
        copy.results[0].set_type(to)
        copy.operands[0], copy.operands[1] = (total, other) if is_first else (other, total)
        total_: Value = copy.results[0]
        return total_

    sums = combined(carried, partial, type_, InsertionPoint(combination))
    combination.results[0].replace_all_uses_with(sums)
    last.move_after(loop)
    last.operands[0] = result
    wanted = reduction.results[0].type
    ip = InsertionPoint.after(last)
    total = combined(given, converted(whole, wanted, ip, reduction.location), wanted, ip)
    for user, number in users:
        user.operands[number] = total
    combination.erase()
    reduction.erase()
    erased |= {start: given, whole: result, total: result}
    return erased, dict.fromkeys((carried, result, sums), wanted)


def _steps(value: Value, source: Value) -> dict[Value, Value]:
    """The values between `source` and `value`, each with `source`."""
    found: dict[Value, Value] = {}
    while value != source:
        found[value] = source
        value = value.owner.operation.operands[0]
    return found


def _identities(type_: Any, name: str) -> DenseElementsAttr:
    """A tensor of identities of an operation."""
    element = type_.element_type
    value = identity(name, str(element))
    assert value is not None  # `_is_sum` has asked
    if isinstance(value, float):
        of = FloatAttr.get(element, value, Location.unknown(element.context))
    else:
        of = IntegerAttr.get(element, value)
    return DenseElementsAttr.get_splat(type_, of)


@dataclass(frozen=True, slots=True)
class Cut:
    """A tensor whose axis was cut into up to three dimensions.

    encoding: the encoding of the tensor with these dimensions. inside: the new dimensions that lie in
    registers, the last one first. After reducing along these, each thread has one partial result, and dimension
    `axis` lies in threads.
    """

    shape: tuple[int, ...]
    encoding: str
    inside: tuple[int, ...]
    axis: int


@lru_cache(maxsize=1024)
def cut(encoding: str, shape: tuple[int, ...], axis: int) -> Cut | None:
    """Cut the axis into repetitions x threads x neighbours; sizes of 1 are left out.

    None if one warp has the whole axis, if the encoding is not `#ttg.blocked`, or if threads hold copies. A
    tensor without elements of the axis in registers is not cut, whatever its encoding.

    Ensures: the reshape is free: every register keeps its element.

    >>> text = "#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"
    >>> found = cut(text, (1024,), 0)
    >>> found.shape, found.inside, found.axis
    ((2, 128, 4), (2, 0), 0)
    """
    layout = encodings.layout_of(encoding, shape)
    along = {name for name, bases in layout.bases if any(basis[axis] for basis in bases)}
    if WARP not in along:
        return None
    if REGISTER not in along:
        return Cut(shape, encoding, (), axis)
    blocked = encodings.parse(encoding)
    if not isinstance(blocked, Blocked):
        return None
    neighbours, lanes, warps = (
        each[axis] for each in (blocked.size_per_thread, blocked.threads_per_warp, blocked.warps_per_cta)
    )
    repetitions = shape[axis] // (neighbours * lanes * warps)
    if not repetitions:
        return None
    # For each part: its size, and how much of the size is in registers, lanes and warps.
    parts = [(lanes * warps, 1, lanes, warps)]
    if repetitions > 1:
        parts.insert(0, (repetitions, 1, 1, 1))
    if neighbours > 1:
        parts.append((neighbours, neighbours, 1, 1))
    threads = int(repetitions > 1)
    sizes, registers, in_warp, in_cta = zip(*parts, strict=True)

    def spread(each: Sequence[int], axis_as: Sequence[int]) -> tuple[int, ...]:
        return (*each[:axis], *axis_as, *each[axis + 1 :])

    order = []
    for dimension in blocked.order:
        if dimension == axis:
            order += [axis + place for place in reversed(range(len(parts)))]
        else:
            order.append(dimension + (len(parts) - 1) * (dimension > axis))
    found = Cut(
        spread(shape, sizes),
        f"#ttg.blocked<{{sizePerThread = {list(spread(blocked.size_per_thread, registers))}, "
        f"threadsPerWarp = {list(spread(blocked.threads_per_warp, in_warp))}, "
        f"warpsPerCTA = {list(spread(blocked.warps_per_cta, in_cta))}, order = {order}}}>",
        tuple(axis + place for place in reversed(range(len(parts))) if place != threads),
        axis,
    )
    moved = transfer.reshape(layout, found.shape)
    return found if encodings.layout_of(found.encoding, found.shape) == moved else None
