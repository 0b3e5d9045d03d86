"""The proof that a module whose accesses were made wider computes what it did.

It takes the rewritten module and, for each access, what it was given before: values, and where its result went.
What is shown is

1. that all tensors of an access became rows in one way: place i of the row is the same element of each of them,
   and of what the access gives. The changes of shape are followed on the coordinates of every element;
2. that what is promised of pointers and masks follows from what is known of them as they were;
3. that without those changes of shape it is the module that it was (`assignment.equivalence`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from triton_linear.dialect.mlir_adapter import DenseElementsAttr, Operation, Type, Value, producers_of
from triton_linear.passes.analysis.addresses import HINTS
from triton_linear.passes.analysis.addressing import Affine, Mask
from triton_linear.passes.framework.proofs import NotProved
from triton_linear.passes.framework.verifiers import CONVERT

Elements = NDArray[np.int64]


@dataclass(frozen=True)
class Widened:
    """An access that was made wider, and the claim of the rewriting.

    before: the tensors that it took, by the number of the operand. type: what its result was, None for a store.
    result: what its users take now. address: the operand that are its pointers, or offsets of elements of one
    byte; `size` bytes are between neighbours, or 1. mask: the operand that is its mask.
    """

    op: Operation
    before: Mapping[int, Value]
    type: Type | None
    result: Value | None
    address: int
    known: Affine
    size: int
    mask: int | None
    constant: Mask | None


def check(
    ops: Sequence[Operation], accesses: Sequence[Widened]
) -> tuple[dict[Value, Value], dict[Value, Type]]:
    """Show the first two; raises NotProved where that fails.

    Gives each value of a change of shape with the value that it shows, and what type results of accesses had.
    """
    producers = producers_of(ops)
    erased: dict[Value, Value] = {}
    types: dict[Value, Type] = {}
    for access in accesses:
        row = None
        for index, source in access.before.items():
            elements = _followed(access.op.operands[index], source, producers, erased)
            if row is not None and not np.array_equal(row, elements):
                raise NotProved(f"operand {index} of '{access.op.name}' is another row")
            row = elements
        if row is None or row.ndim != 1 or len(access.op.operands) < len(access.before):
            raise NotProved(f"'{access.op.name}' takes no row")
        if access.result is not None and access.type is not None:
            made = access.op.results[0]
            back = _followed(access.result, made, producers, erased)
            shape = tuple(access.type.shape)
            if not np.array_equal(row[back], np.arange(prod(shape)).reshape(shape)):
                raise NotProved(f"what '{access.op.name}' gives is another tensor")
            types[made] = access.type
        _check_claims(access, row, producers)
    return erased, types


def _followed(
    value: Value, source: Value, producers: Mapping[Value, Operation], erased: dict[Value, Value]
) -> Elements:
    """Which element of `source`, counted with the last dimension fastest, is where in `value`."""
    steps = []
    at = value
    while at != source:
        op = producers.get(at)
        if op is None or op.name not in ("tt.reshape", "tt.trans", CONVERT):
            raise NotProved(f"'{op.name if op else 'an argument'}' is no change of shape")
        if any(name in op.attributes for name in ("allow_reorder", "efficient_layout")):
            raise NotProved("a reshape may move elements")
        steps.append(op)
        at = op.operands[0]
    shape = tuple(source.type.shape)
    elements: Elements = np.arange(prod(shape)).reshape(shape)
    for op in reversed(steps):
        if op.name == "tt.trans":
            elements = elements.transpose(list(op.attributes["order"]))
        else:
            elements = elements.reshape(tuple(op.results[0].type.shape))
        if elements.shape != tuple(op.results[0].type.shape):
            raise NotProved(f"'{op.name}' gives another shape")
        erased[op.results[0]] = op.operands[0]
    return elements


def _check_claims(access: Widened, row: Elements, producers: Mapping[Value, Operation]) -> None:
    """Whether what is promised of the addresses and of the mask is so, wherever the tensor begins."""
    addresses = producers[access.op.operands[access.address]]
    claimed = _claims(addresses)
    shape = tuple(len(bits) for bits in access.known.deltas)
    coordinates = np.unravel_index(row, tuple(1 << bits for bits in shape))
    for place, (axis, bit, delta) in _moves(access.known, coordinates, claimed["tt.contiguity"]):
        if delta != access.size * place:
            raise NotProved(f"bit {bit} of dimension {axis} moves by {delta}, not by {access.size * place}")
    divisor = claimed["tt.divisibility"]
    if access.known.divisor % divisor:
        raise NotProved(f"what addresses have in common is no multiple of {divisor}")
    inside = {(axis, bit) for _, (axis, bit, _) in _moves(access.known, coordinates, claimed["tt.contiguity"])}
    for axis, deltas in enumerate(access.known.deltas):
        for bit, delta in enumerate(deltas):
            if (axis, bit) not in inside and (access.known.unit if delta is None else delta) % divisor:
                raise NotProved(f"bit {bit} of dimension {axis} moves by no multiple of {divisor}")
    if claimed["tt.constancy"] != 1:
        raise NotProved("addresses are promised to be the same")
    if access.mask is None:
        return
    claimed = _claims(producers[access.op.operands[access.mask]])
    if access.constant is None or claimed["tt.contiguity"] != 1 or claimed["tt.divisibility"] != 1:
        raise NotProved("more is promised of a mask than that it is the same")
    flags = Affine(tuple(tuple(0 if same else None for same in bits) for bits in access.constant))
    for _, (axis, bit, delta) in _moves(flags, coordinates, claimed["tt.constancy"]):
        if delta != 0:
            raise NotProved(f"the mask may change with bit {bit} of dimension {axis}")


def _claims(op: Operation) -> dict[str, int]:
    found = dict.fromkeys(HINTS, 1)
    for name in HINTS:
        if name in op.attributes:
            attribute = op.attributes[name]
            numbers = [int(n) for n in attribute] if isinstance(attribute, DenseElementsAttr) else []
            if len(numbers) != 1 or numbers[0] < 1 or numbers[0] & (numbers[0] - 1):
                raise NotProved(f"'{name}' is no power of two")
            found[name] = numbers[0]
    return found


def _moves(
    known: Affine, coordinates: Sequence[Elements], run: int
) -> list[tuple[int, tuple[int, int, int | None]]]:
    """For each bit of the places in a run at the beginning of a row: the bit of the coordinates that it is, and
    what that adds. A bit of the row is one of the coordinates wherever it is set."""
    found = []
    size = len(coordinates[0]) if coordinates else 1
    if run > size:
        raise NotProved(f"a run of {run} is promised in a row of {size}")
    everywhere = np.arange(size)
    place = 1
    while place < run:
        without = everywhere[everywhere & place == 0]
        changed = [along[without | place] ^ along[without] for along in coordinates]
        moved = [axis for axis, bits in enumerate(changed) if bits.any()]
        bits = changed[moved[0]]
        if len(moved) != 1 or (bits != bits[0]).any() or int(bits[0]).bit_count() != 1:
            raise NotProved(f"place {place} of a row is not one bit of the coordinates")
        bit = int(bits[0]).bit_length() - 1
        found.append((place, (moved[0], bit, known.deltas[moved[0]][bit])))
        place *= 2
    return found
