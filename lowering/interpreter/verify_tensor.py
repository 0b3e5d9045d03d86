"""Verification of an access to tensor memory: run a kernel with one access, on elements that identify
themselves.

A load starts with the contents that follow from the layout of the memory, and the registers are compared. After
a store the contents are compared. So neither access is checked by the other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.interpreter.function import simulate_function
from triton_linear.lowering.interpreter.memory import Bits
from triton_linear.lowering.interpreter.program import scalar_mask
from triton_linear.lowering.interpreter.tensor_memory import TensorMemory
from triton_linear.lowering.interpreter.verify import Verdict, Wrong, element_patterns, held_elements, judge
from triton_linear.lowering.target.targets import Target
from triton_linear.lowering.target.tensor_memory import COL, ROW, ROWS, WORD_BITS

_REPORTED = 8
_COPIED_ROWS = (5, 6)
"""Row bits whose basis is zero if quarters hold copies; any other zero basis marks places without an
element."""


def elements_in(memory: LinearLayout) -> npt.NDArray[np.int64]:
    """The element at each row and column of a CTA, in columns of one element; -1 for no element."""
    rows, columns = memory.columns(ROW), memory.columns(COL)
    places = np.zeros((1 << len(rows), 1 << len(columns)), np.int64)
    empty = np.zeros(places.shape, np.bool_)
    row, column = np.arange(places.shape[0])[:, None], np.arange(places.shape[1])[None, :]
    for bit, basis in enumerate(rows):
        places ^= np.where(row >> bit & 1, basis, 0)
        empty |= bool(not basis and bit not in _COPIED_ROWS) & (row >> bit & 1 == 1)
    for bit, basis in enumerate(columns):
        places ^= np.where(column >> bit & 1, basis, 0)
        empty |= bool(not basis) & (column >> bit & 1 == 1)
    return np.where(empty, -1, places)


def words_of(memory: LinearLayout, patterns: Bits, bits: int) -> tuple[Bits, Bits]:
    """The words of tensor memory (trial, row, column) that hold a tensor's elements, and their undefined
    bits."""
    held = elements_in(memory)
    each = WORD_BITS // bits
    columns = -(-held.shape[1] // each)
    words = np.zeros((len(patterns), ROWS, columns), np.uint64)
    undefined = np.full((ROWS, columns), scalar_mask(WORD_BITS), np.uint64)
    for column in range(held.shape[1]):
        here = held[:, column] >= 0
        shift, there = np.uint64(column % each * bits), column // each
        values = patterns[:, np.maximum(held[:, column], 0)] << shift
        words[:, : len(held), there] |= np.where(here, values, np.uint64(0))
        undefined[: len(held), there] &= ~np.where(here, scalar_mask(bits) << shift, np.uint64(0))
    return words, undefined


def verify_load(
    text: str,
    name: str,
    sink: str,
    memory: LinearLayout,
    registers: LinearLayout,
    bits: int,
    target: Target,
    warps: int,
) -> Verdict:
    """Run a kernel without arguments that allocates tensor memory, loads from it and gives the result to the
    sink.

    Requires: it loads the tensor of the layout `memory`, or the first part of it, into the layout `registers`.
    Raises SimulationError if it cannot be run.
    """
    patterns = element_patterns(_size(registers), bits)
    whole = _of_part(patterns, memory, registers)
    tensor = TensorMemory(len(patterns), given=words_of(memory, whole, bits))
    outcome = simulate_function(text, name, [], target, warps, trials=len(patterns), tensor=tensor)
    expected = held_elements(registers, target.lanes, warps, 0)
    return judge(outcome, expected, patterns, bits, sink)


def verify_store(
    text: str, name: str, memory: LinearLayout, registers: LinearLayout, bits: int, target: Target, warps: int
) -> Verdict:
    """Run a kernel that stores its only argument to the tensor memory that it allocates; see `verify_load`.

    Ensures: `wrong` counts places of the memory without their element; `register` of an example is a column,
    `thread` is a row.
    """
    patterns = element_patterns(_size(registers), bits)
    whole = _of_part(patterns, memory, registers)
    tensor = TensorMemory(len(patterns))
    held = held_elements(registers, target.lanes, warps, 0)
    given = list(patterns[:, held].swapaxes(0, 1))
    outcome = simulate_function(text, name, [given], target, warps, trials=len(patterns), tensor=tensor)
    expected, missing = words_of(memory, whole, bits)
    found, undefined = tensor.contents()
    columns = expected.shape[2]
    places = elements_in(memory)
    different = ((found[:, :, :columns] ^ expected) & ~missing).any(axis=0) | (
        (undefined[:, :columns] & ~missing) != 0
    )
    wrong = [
        Wrong(int(column), int(row), int(places[row, column]), bool(undefined[row, column * bits // WORD_BITS]))
        for row, column in np.argwhere((places >= 0) & (places < _size(registers)))
        if different[row, column * bits // WORD_BITS]
    ]
    checked = int(((places >= 0) & (places < _size(registers))).sum())
    return Verdict(checked, len(wrong), tuple(wrong[:_REPORTED]), outcome.races, outcome.counts)


def _size(layout: LinearLayout) -> int:
    return int(np.prod([size for _, size in layout.out_dims], dtype=np.int64))


def _of_part(patterns: Bits, memory: LinearLayout, registers: LinearLayout) -> Bits:
    """Patterns of a whole tensor: `patterns` in its first part, of the shape of `registers`, zeros
    elsewhere."""
    sizes = [size for _, size in memory.out_dims]
    part = [size for _, size in registers.out_dims]
    if sizes == part:
        return patterns
    whole = np.zeros((len(patterns), *reversed(sizes)), np.uint64)
    first = (slice(None), *(slice(0, size) for size in reversed(part)))
    whole[first] = patterns.reshape(-1, *reversed(part))
    return whole.reshape(len(patterns), -1)
