"""What each operation gives on the machine that runs modules on tensors (`module_machine`)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from triton_linear.dialect.mlir_adapter import DenseElementsAttr, Operation, RankedTensorType, Type
from triton_linear.passes.analysis import addressing
from triton_linear.passes.analysis.axis import pointee_bytes, shape_of
from triton_linear.passes.framework.layouts import memory_of

if TYPE_CHECKING:
    from module_machine import Machine

Rule = Callable[["Machine", Operation, list[Any]], Sequence[Any]]
Numbers = npt.NDArray[np.int64]

TURNS = 4
"""Turns of a loop that are taken at most."""
UNWRITTEN = 0x5EED
"""What is in shared memory before anything is."""


class Unsupported(Exception):
    """An operation that the machine does not know."""


def mixed(*parts: Numbers | int) -> Numbers:
    """A number of 64 bits that depends on all of the parts and their order (the mixing of splitmix64)."""
    result = np.asarray(0x1E3779B97F4A7C15, np.uint64)
    for part in parts:
        result = (result ^ np.asarray(part, np.int64).view(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
        result = (result ^ result >> np.uint64(31)) * np.uint64(0x94D049BB133111EB)
        result = result ^ result >> np.uint64(29)
    return np.asarray(result).view(np.int64)


def named(*parts: object) -> int:
    """A number for something that has a name, the same in each process."""
    return zlib.crc32(repr(parts).encode())


def buffer_shape(type_: Type) -> tuple[int, ...]:
    """The shape of a buffer in shared memory."""
    found = memory_of(type_)
    assert found is not None
    return found[0]


def integer_bits(type_: Type) -> int:
    """The width of an integer, or of a tensor's elements that are; 0 for everything else."""
    text = str(type_.element_type if isinstance(type_, RankedTensorType) else type_)
    return 64 if text == "index" else int(text[1:]) if text[0] == "i" and text[1:].isdigit() else 0


def wrapped(numbers: Numbers, bits: int) -> Numbers:
    """Two's complement of `bits` bits; one bit is 0 or 1, and what is no integer stays as it is."""
    if bits == 1:
        return numbers & 1
    if bits in (0, 64):
        return numbers
    half = 1 << bits - 1
    result: Numbers = (numbers + half & 2 * half - 1) - half
    return result


def unsigned(numbers: Numbers, bits: int) -> npt.NDArray[np.uint64]:
    known = numbers.view(np.uint64)
    return known if bits == 64 else known & np.uint64((1 << bits) - 1)


def _quotient(a: Numbers, b: Numbers) -> Numbers:
    """Rounded towards zero, as the machine does; any number for a division by zero."""
    safe = np.where(b == 0, 1, b)
    result: Numbers = np.sign(a) * np.sign(safe) * (abs(a) // abs(safe))
    return result


SIGNED: Mapping[str, Callable[[Any, Any], Any]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divsi": _quotient,
    "arith.remsi": lambda a, b: a - b * _quotient(a, b),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": lambda a, b: a << np.clip(b, 0, 63),
    "arith.shrsi": lambda a, b: a >> np.clip(b, 0, 63),
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
}
UNSIGNED: Mapping[str, Callable[[Any, Any], Any]] = {
    "arith.divui": lambda a, b: a // np.where(b == 0, 1, b).astype(np.uint64),
    "arith.remui": lambda a, b: a % np.where(b == 0, 1, b).astype(np.uint64),
    "arith.shrui": lambda a, b: a >> np.minimum(b, np.uint64(63)),
    "arith.maxui": np.maximum,
    "arith.minui": np.minimum,
}
EXTREMES: Mapping[str, Any] = {
    "arith.maximumf": np.maximum,
    "arith.maxnumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.minnumf": np.minimum,
}
COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_ORDERED = (None, "eq", "gt", "ge", "lt", "le", "ne", None) * 2
"""What comparisons of floats ask, by their number. Numbers that stand for floats are never unordered."""
SAME = frozenset(
    {
        "amdg.in_thread_transpose",
        "arith.index_cast",
        "arith.trunci",
        "tt.int_to_ptr",
        "tt.ptr_to_int",
        "tt.splat",
        "ttg.convert_layout",
    }
)
NOTHING = frozenset(
    {
        "cf.br",
        "cf.cond_br",
        "gpu.barrier",
        "ttg.barrier",
        "scf.condition",
        "scf.yield",
        "tt.assert",
        "tt.reduce.return",
        "tt.return",
        "tt.scan.return",
        "ttg.async_commit_group",
        "ttg.async_wait",
        "ttg.local_dealloc",
        "ttng.fence_async_shared",
    }
)
"""What gives nothing, or a token; and terminators, which hand on what they take."""
ATOMIC_KINDS = ("", "and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin", "exch")
"""Atomics by their number."""
SAYING = ("predicate", "rounding", "symbol", "fastmath")
"""Attributes that say which of several functions an operation of one name is."""


def _constant(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    attribute, result = op.attributes["value"], op.results[0]
    if isinstance(attribute, DenseElementsAttr):
        if attribute.is_splat:
            attribute = attribute.get_splat_value()
        else:
            entries = [e if isinstance(e, int) else named(e) for e in attribute]
            return [
                wrapped(np.array(entries, np.int64).reshape(shape_of(result.type)), machine.bits(result.type))
            ]
    if isinstance(attribute.value, int):  # or bool
        return [wrapped(np.asarray(int(attribute.value), np.int64), machine.bits(result.type))]
    return [mixed(named(attribute.value))]


def _compare_integers(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    predicate = addressing.PREDICATES[op.attributes["predicate"].value]
    if predicate in COMPARED:
        return [COMPARED[predicate](*taken).astype(np.int64)]
    bits = machine.bits(op.operands[0].type)
    if predicate[0] == "u":
        taken = [unsigned(np.asarray(each), bits) for each in taken]
    elif bits == 1:
        taken = [-each for each in taken]
    return [COMPARED[predicate[1:]](*taken).astype(np.int64)]


def _compare_floats(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    number = op.attributes["predicate"].value
    asks = _ORDERED[number]
    if asks is None:
        return [np.full_like(taken[0], number in (7, 15))]
    return [COMPARED[asks](*taken).astype(np.int64)]


def _bitcast(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    old, new = (machine.bits(value.type) for value in (op.operands[0], op.results[0]))
    if "ptr" in str(op.results[0].type) or (old and new):
        return [wrapped(taken[0], new)]
    return [wrapped(mixed(named("bitcast", new), taken[0]), new)]


def _load(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    return [machine.load(op.results[0], *[*taken, None, None][:3])]


def _store(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    machine.store(*[*taken, None][:3])
    return []


ATOMIC: Mapping[str, np.ufunc] = {"add": np.add, "fadd": np.add, "max": np.maximum, "min": np.minimum}
"""Atomics that are the same in any order, and give what was there before."""


def _atomic(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    kind = ATOMIC_KINDS[op.attributes["atomic_rmw_op"].value]
    if kind not in ATOMIC:
        raise Unsupported(f"the machine does not know atomics that {kind}")
    addresses, values = np.broadcast_arrays(*taken[:2])
    flags = np.broadcast_to(True if len(taken) < 3 else taken[2] != 0, addresses.shape)
    kept, places = np.unique(addresses[flags], return_inverse=True)
    bits = machine.bits(op.results[0].type)
    new = wrapped(machine.memory.load(kept), bits)
    old = np.where(flags, wrapped(machine.memory.load(np.asarray(addresses)), bits), 0)
    if len(kept) < np.count_nonzero(flags) and list(op.results[0].uses):
        raise Unsupported("the machine does not know which of several atomics comes first")
    ATOMIC[kind].at(new, places.reshape(-1), values[flags])
    machine.store(kept, wrapped(new, bits), None)
    return [old]


def _segments(op: Operation, taken: list[Any]) -> list[Any]:
    """The operands one by one, None for each that is left out."""
    given = iter(taken)
    return [next(given) if size else None for size in op.attributes["operandSegmentSizes"]]


def _pointers(base: Numbers, offsets: Numbers, type_: Type) -> Numbers:
    result: Numbers = base + offsets * pointee_bytes(type_)
    return result


def _buffer_load(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    base, offsets, _, mask, other = _segments(op, taken)
    return [machine.load(op.results[0], _pointers(base, offsets, op.operands[0].type), mask, other)]


def _buffer_store(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    values, base, offsets, _, mask = _segments(op, taken)
    machine.store(_pointers(base, offsets, op.operands[1].type), values, mask)
    return []


def _copy(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    pointers, buffer, mask, other = _segments(op, taken)
    element = op.operands[1].type.data.split("memdesc<")[1].split(",")[0].rsplit("x", 1)[1]
    loaded = machine.load(op.operands[0], pointers, mask, other)
    buffer[...] = wrapped(loaded, int(element[1:]) if element[0] == "i" else 0)
    return [None]


def _slices(array: Any, axis: int, *bounds: int | None) -> Any:
    return array[(slice(None),) * axis + (slice(*bounds),)]


def _reduce(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    """A commutative operation is done in any order; everything else on neighbours, these again, and so on."""
    axis = op.attributes["axis"].value
    combine, *others = (view.operation for view in op.regions[0].blocks[0].operations)
    arguments = set(op.regions[0].blocks[0].arguments)
    if len(others) == len(taken) == 1 and combine.name in COMMUTATIVE and set(combine.operands) == arguments:
        whole = COMMUTATIVE[combine.name].reduce(taken[0], axis=axis)
        return [wrapped(np.asarray(whole), machine.bits(op.operands[0].type))]
    while taken[0].shape[axis] > 1:
        left, right = ([_slices(each, axis, start, None, 2) for each in taken] for start in (0, 1))
        taken = machine.fold(op, left, right)
    return [each.squeeze(axis) for each in taken]


def _scan(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    """Each element takes in what is before it: one, then two, then four of them."""
    axis = op.attributes["axis"].value
    backwards = "reverse" in op.attributes and bool(op.attributes["reverse"].value)
    turned = [np.flip(each, axis) if backwards else each for each in taken]
    distance = 1
    while distance < turned[0].shape[axis]:
        before = [_slices(each, axis, None, -distance) for each in turned]
        after = machine.fold(op, before, [_slices(each, axis, distance, None) for each in turned])
        first = [_slices(each, axis, None, distance) for each in turned]
        turned = [np.concatenate(parts, axis) for parts in zip(first, after, strict=True)]
        distance *= 2
    return [np.flip(each, axis) if backwards else each for each in turned]


def _dot(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    """A sum over k of exact products, and what it is added to unless a flag says that it is not."""
    left, right, total, *others = taken
    if any(np.ndim(other) for other in others) or left.shape[-1] != right.shape[-2]:
        raise Unsupported("the machine does not know scales")
    product = left @ right
    if not others or others[0]:
        product = product + total
    return [wrapped(product, machine.bits(op.results[0].type))]


def _for(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    low, high, step, *carried = taken
    for counter in range(int(low), int(high), max(1, int(step)))[:TURNS]:
        carried = machine.block(op.regions[0].blocks[0], [np.asarray(counter, np.int64), *carried])
    return carried


def _while(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    before, after = (region.blocks[0] for region in op.regions)
    for _ in range(TURNS):
        condition, *given = machine.block(before, taken)
        if not condition:
            break
        taken = machine.block(after, given)
    return given


def _if(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    branch = op.regions[0 if taken[0] else 1]
    return machine.block(branch.blocks[0]) if len(branch.blocks) else []


def _alloc(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    return [taken[0].copy() if taken else np.full(buffer_shape(op.results[0].type), UNWRITTEN, np.int64)]


def _local_store(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    taken[1][...] = taken[0]
    return []


def _subslice(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    sizes = zip(op.attributes["offsets"], buffer_shape(op.results[0].type), strict=True)
    return [taken[0][tuple(slice(start, start + size) for start, size in sizes)]]


def _transposed(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    return [taken[0].transpose(tuple(op.attributes["order"]))]


def _range(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    return [np.arange(op.attributes["start"].value, op.attributes["end"].value)]


def _expanded(machine: Machine, op: Operation, taken: list[Any]) -> Sequence[Any]:
    return [np.expand_dims(taken[0], op.attributes["axis"].value)]


COMMUTATIVE: Mapping[str, np.ufunc] = {
    "arith.addf": np.add,
    "arith.mulf": np.multiply,
    **{f"arith.{name}i": SIGNED[f"arith.{name}i"] for name in ("add", "mul", "and", "or", "xor")},
    **{f"arith.{name}si": SIGNED[f"arith.{name}si"] for name in ("max", "min")},
    **EXTREMES,
}
RULES: Mapping[str, Rule] = {
    "amdg.buffer_load": _buffer_load,
    "amdg.buffer_store": _buffer_store,
    "arith.bitcast": _bitcast,
    "arith.cmpf": _compare_floats,
    "arith.cmpi": _compare_integers,
    "arith.constant": _constant,
    "arith.extsi": lambda machine, op, taken: [
        -taken[0] if machine.bits(op.operands[0].type) == 1 else taken[0]
    ],
    "arith.extui": lambda machine, op, taken: [
        unsigned(np.asarray(taken[0]), machine.bits(op.operands[0].type)).view(np.int64)
    ],
    "arith.select": lambda machine, op, taken: [np.where(taken[0] != 0, taken[1], taken[2])],
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    "tt.atomic_rmw": _atomic,
    "tt.addptr": lambda machine, op, taken: [_pointers(*taken, op.results[0].type)],
    "tt.bitcast": _bitcast,
    "tt.broadcast": lambda machine, op, taken: taken,
    "tt.dot": _dot,
    "tt.dot_scaled": _dot,
    "tt.expand_dims": _expanded,
    "tt.get_num_programs": lambda machine, op, taken: [np.asarray(8)],
    "tt.get_program_id": lambda machine, op, taken: [np.asarray(machine.program[op.attributes["axis"].value])],
    "tt.join": lambda machine, op, taken: [np.stack(taken, -1)],
    "tt.load": _load,
    "tt.make_range": _range,
    "tt.reduce": _reduce,
    "tt.reshape": lambda machine, op, taken: [taken[0].reshape(shape_of(op.results[0].type))],
    "tt.scan": _scan,
    "tt.split": lambda machine, op, taken: [taken[0][..., 0], taken[0][..., 1]],
    "tt.store": _store,
    "tt.trans": _transposed,
    "tt.unsplat": lambda machine, op, taken: [np.asarray(taken[0]).reshape(-1)[0]],
    "ttg.async_copy_global_to_local": _copy,
    "ttg.local_alloc": _alloc,
    "ttg.local_load": lambda machine, op, taken: [taken[0].copy()],
    "ttg.local_store": _local_store,
    "ttg.memdesc_index": lambda machine, op, taken: [taken[0][int(taken[1])]],
    "ttg.memdesc_subslice": _subslice,
    "ttg.memdesc_trans": _transposed,
    "ttng.warp_group_dot": _dot,
    "ttng.warp_group_dot_wait": lambda machine, op, taken: taken,
}
