"""Which values have to stay where they are, and as they are, for results to have the bits of stock Triton's.

A layout says where an element is, not what it is. It decides about bits all the same in four ways:

- A reduction combines the elements in an order that follows from the layout of its operand. `is_order_free`
  says of which the order does not show; the operands of the others keep their encodings.
- LLVM and ptxas make one operation, which rounds once, of a multiplication and an addition, where both are done
  in the same thread with nothing in between. So a product that may be added to something is *held*, on all of
  its way: what is together stays together, and what a conversion keeps apart stays apart.
- Of a sum of two products, one is fused with the addition and the other is rounded first. Which one LLVM takes
  follows from the order of the text all around, so a kernel with such a sum is held as a whole.
- Lanes that combine by shuffles have their own element first. Where the region of a reduction does not commute,
  they end with different bits in what should be copies. Which copy is taken then shows, so the results of such
  reductions are held, and all that is made of them.

Layouts of held values do not change, and what moves or stores them is left to Triton.

What is not known counts as a product, and as a sum.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

from triton_linear.dialect.mlir_adapter import Operation, RankedTensorType, Value
from triton_linear.passes.analysis.addresses import passed_to, results_of
from triton_linear.passes.analysis.axis import shape_of
from triton_linear.passes.reductions.region import REDUCE, SCAN, commutes, is_order_free

# Operations whose results are elements of their operands, as far as LLVM may see through them. A load gives
# what it is told to where it is masked off.
_PASSED = frozenset(
    {
        "amdg.buffer_load",
        "arith.bitcast",
        "arith.extf",
        "arith.negf",
        "arith.select",
        "math.absf",
        "math.copysign",
        "tt.bitcast",
        "tt.broadcast",
        "tt.cat",
        "tt.expand_dims",
        "tt.gather",
        "tt.join",
        "tt.load",
        "tt.reshape",
        "tt.splat",
        "tt.split",
        "tt.trans",
        "tt.unsplat",
        "ttg.convert_layout",
        "ttng.warp_group_dot_wait",
    }
)
# Operations that end neither with a multiplication nor begin with an addition: what they take or give has been
# in memory, or comes out of an instruction of its own.
_APART = frozenset(
    {
        "arith.cmpf",
        "arith.constant",
        "arith.maximumf",
        "arith.maxnumf",
        "arith.minimumf",
        "arith.minnumf",
        "arith.fptosi",
        "arith.fptoui",
        "arith.sitofp",
        "arith.truncf",
        "arith.uitofp",
        "tt.atomic_cas",
        "tt.atomic_rmw",
        "tt.clampf",
        "tt.descriptor_load",
        "tt.descriptor_store",
        "tt.dot",
        "tt.dot_scaled",
        "tt.print",
        "tt.return",
        "tt.store",
        "ttg.local_alloc",
        "ttg.local_load",
        "ttg.local_store",
        "ttng.tmem_alloc",
        "ttng.tmem_load",
        "ttng.tmem_store",
        "ttng.warp_group_dot",
        "amdg.buffer_store",
    }
)
_NO_PRODUCTS = frozenset({"arith.addf", "arith.subf", "math.fma"})
"""Further ones that give no product."""
_NO_SUMS = frozenset({"arith.mulf"})
"""Further ones that add nothing to what they take."""
# The same on NVIDIA GPUs, doubles apart: instructions of their own (`ex2`, `rsqrt`, `sqrt`, `div.full`, `cvt`,
# and assembly that works on bits) with at most a multiplication before them. On AMD GPUs they are several.
_NVIDIA_NO_PRODUCTS = frozenset({"math.exp", "math.exp2", "math.rsqrt", "tt.fp_to_fp"})
_NVIDIA_NO_SUMS = _NVIDIA_NO_PRODUCTS | {"arith.divf", "math.sqrt"}
_BRANCHES = ("cf.br", "cf.cond_br")
_ENDS = ("tt.reduce.return", "tt.scan.return")

HELD = "where it is lowered decides about bits of what is added to it, and results are to be exact"
"""Why something that takes or gives a held value is left to Triton."""

Steps = Mapping[Value, Sequence[Value]]


def held_values(ops: Sequence[Operation], nvidia: bool) -> frozenset[Value]:
    """The values whose layouts, and ways from one to another, decide about bits of results.

    Requires: `ops` are an operation and all that is inside it. `nvidia`: whether they are for an NVIDIA GPU.
    """
    forward = _handed_on(ops)
    backward: dict[Value, list[Value]] = {}
    for value, others in forward.items():
        for other in others:
            backward.setdefault(other, []).append(value)
    no_products = _NO_PRODUCTS, _NVIDIA_NO_PRODUCTS if nvidia else frozenset()
    no_sums = _NO_SUMS, _NVIDIA_NO_SUMS if nvidia else frozenset()
    products = _reached((v for op in ops if not _is_apart(op, *no_products) for v in op.results), forward)
    summands = _reached((v for op in ops if not _is_apart(op, *no_sums) for v in op.operands), backward)
    if any(_adds_two(op, products) for op in ops if not _is_apart(op, *no_sums)):
        return _all_values(ops)
    return frozenset((products & summands) | _unlike_copies(ops, forward, nvidia))


def is_for_nvidia(module: Operation) -> bool:
    """Whether a module says that it is for an NVIDIA GPU."""
    attributes = module.attributes
    return "ttg.target" in attributes and str(attributes["ttg.target"].value).startswith("cuda:")


def _is_apart(op: Operation, others: frozenset[str], unless_doubles: frozenset[str]) -> bool:
    """Whether an operation gives no product, or adds nothing to what it takes: the names say which is asked."""
    name = op.name
    if name in _PASSED or name in _APART or name in others or name in (REDUCE, SCAN, *_ENDS, *_BRANCHES):
        return True
    if name.startswith("scf.") or name in ("tt.func", "builtin.module"):
        return True
    floats = [value for value in (*op.results, *op.operands) if is_float(value)]
    return not floats or (name in unless_doubles and not any(_element(value) == "f64" for value in floats))


def _adds_two(op: Operation, products: set[Value]) -> bool:
    """Whether two of what an operation takes may be products, one of which is fused with the addition."""
    return sum(operand in products for operand in op.operands) > 1


def _all_values(ops: Sequence[Operation]) -> frozenset[Value]:
    """The results of operations, and the arguments of their blocks."""
    blocks = (block for op in ops for region in op.regions for block in region.blocks)
    return frozenset(itertools.chain(*(op.results for op in ops), *(block.arguments for block in blocks)))


def _element(value: Value) -> str:
    type_ = value.type
    return str(type_.element_type if isinstance(type_, RankedTensorType) else type_)


def is_float(value: Value) -> bool:
    """Whether a value is a float, or a tensor of floats."""
    return _element(value).startswith(("f", "bf"))


def _handed_on(ops: Iterable[Operation]) -> dict[Value, list[Value]]:
    """For each value those that may be it, or elements of it: behind changes of shape and layout, inside and
    behind loops and branches, in regions of reductions."""
    steps: dict[Value, list[Value]] = {}

    def step(sources: Iterable[Value], targets: Iterable[Value]) -> None:
        found = list(targets)
        for source in sources:
            steps.setdefault(source, []).extend(found)

    for op in ops:
        if op.name in _PASSED:
            step(op.operands, op.results)
        elif op.name in (REDUCE, SCAN):
            _into_region(op, step)
        elif op.name.startswith("scf."):
            for index, result in enumerate(op.results):
                step(results_of(op, index), [result])
            for region in op.regions:
                for block in region.blocks:
                    for argument in block.arguments:
                        step(passed_to(argument), [argument])
        elif op.name in _BRANCHES:
            for block in op.successors:
                step(op.operands, block.arguments)
    return steps


def _into_region(op: Operation, step: Callable[[Iterable[Value], Iterable[Value]], None]) -> None:
    """A reduction or scan hands its elements to its region, and gets back what that returns."""
    (block,) = op.regions[0].blocks
    arguments, results = list(block.arguments), list(op.results)
    half = len(arguments) // 2
    last = block.operations[len(block.operations) - 1].operation
    for index, operand in enumerate(op.operands):
        both = [arguments[index], arguments[half + index]]
        step([operand], both)
        step([last.operands[index]], [*both, results[index]])
        # The first element of a scan, and the only one of a reduction, goes through no region.
        if op.name == SCAN or prod(shape_of(operand.type)) == prod(shape_of(results[index].type)):
            step([operand], [results[index]])


def _unlike_copies(ops: Sequence[Operation], forward: Steps, nvidia: bool) -> set[Value]:
    """What reductions leave where copies of an element may have different bits, and all that is made of it."""
    reductions = (op for op in ops if op.name == REDUCE)
    found = {v for op in reductions if not is_order_free(op, nvidia) and not commutes(op) for v in op.results}
    if not found:
        return found
    seen = len(found) - 1
    while seen < len(found):
        seen = len(found)
        for op in ops:
            if any(operand in found for operand in op.operands):
                found.update(op.results)
        found = _reached(found, forward)
    return found


def _reached(values: Iterable[Value], steps: Steps) -> set[Value]:
    """These values, and all that one comes to from them."""
    found: set[Value] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            pending += steps.get(value, ())
    return found


def takes_held(op: Operation, held: frozenset[Value]) -> bool:
    """Whether an operation takes a held value."""
    return any(operand in held for operand in op.operands)
