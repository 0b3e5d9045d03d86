"""Draw shared memory: rows of all banks, and the accesses of a warp to them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from triton_linear.dialect import encodings
from triton_linear.dialect.encodings.shared import PARTITION, PaddedShared
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.gluon.memory import BankReport, touches_of
from triton_linear.lowering.planners.shared_access import Touch
from triton_linear.lowering.target.phases import LOAD, STORE
from triton_linear.lowering.target.targets import Target
from triton_linear.tools.support.errors import fail
from triton_linear.tools.view.places import Cell, Grid, coordinates, grid_of
from triton_linear.tools.view.subject import Subject


class Memory:
    """The bytes of a shared allocation; the addresses include padding."""

    def __init__(self, subject: Subject, target: Target) -> None:
        if subject.layout.has_in_dim(PARTITION):
            fail("memory in partitions is not drawn: each partition is an allocation of its own")
        self.layout = subject.layout
        self.size = subject.element_bytes
        self.target = target
        parsed = encodings.parse(subject.encoding) if subject.encoding else None
        self.is_padded = isinstance(parsed, PaddedShared)
        table = coordinates(subject.layout)
        self.points = table.reshape(table.shape[0], -1, table.shape[-1])[:, 0]  # of block 0
        offsets = range(len(self.points))
        places = [parsed.padded_offset(at) for at in offsets] if isinstance(parsed, PaddedShared) else offsets
        self.addresses = np.array(places, np.int64) * self.size

    def grid(self) -> Grid:
        """A grid with a row for each pass over all banks, and a cell for each run of consecutive elements."""
        line = self.target.wavefront_bytes
        per_line = max(1, line // self.size)
        rows = [[Cell()] * per_line for _ in range(int(self.addresses[-1]) // line + 1)]
        for offset, (address, point) in enumerate(
            zip(self.addresses.tolist(), self.points.tolist(), strict=True)
        ):
            rows[address // line][address % line // self.size] = Cell.at(point, (), offset)
        names = (str(number * line) for number in range(len(rows)))
        return grid_of("shared memory", "byte \\ element", names, rows)

    def row(self, offset: int) -> int:
        """The number of the row that has an element."""
        return int(self.addresses[offset]) // self.target.wavefront_bytes

    def touches(self, registers: LinearLayout, kind: str = LOAD) -> tuple[Touch, ...]:
        """The accesses of warp 0 that load or store a tensor with this register layout, with the widest
        vectors that fit every lane.

        Requires: both are layouts of one tensor. Matrix instructions are not considered.
        """
        tensor = np.zeros([size for _, size in self.layout.out_dims], np.int64)
        # If an element has several places, the first is its address, so it must be written last.
        tensor[tuple(self.points[::-1].T)] = self.addresses[::-1]
        return touches_of(tensor, registers, self.size, self.target, (0,) * tensor.ndim, kind)


def is_drawn(subject: Subject) -> bool:
    """Whether a subject is a layout of one allocation of shared memory."""
    return subject.is_shared and not subject.layout.has_in_dim(PARTITION)


def memory_words(memory: Memory, rows: int) -> Iterator[str]:
    """A line that describes the elements after the first `rows` rows; none if there are no more rows."""
    if rows >= memory.row(len(memory.addresses) - 1) + 1:
        return
    # The bits of the offset that lead to rows that are not shown.
    steps = [bit for bit in range(len(memory.addresses).bit_length() - 1) if memory.row(1 << bit) >= rows]
    vectors = [memory.layout.basis("offset", bit) for bit in steps]
    by = ", ".join(f"({', '.join(map(str, vector))})" for vector in vectors)
    starts = ", ".join(str(int(memory.addresses[1 << bit])) for bit in steps)
    if steps:
        yield f"from byte {starts} on: coordinates xor {by}"


def access_lines(memory: Subject, registers: Subject, target: Target) -> list[str]:
    """A line about the bank conflicts of accesses; two if the hardware treats loads and stores differently."""
    place = Memory(memory, target)
    loads, stores = (
        str(BankReport(place.touches(registers.layout, kind), target.name)) for kind in (LOAD, STORE)
    )
    return [f"accesses: {loads}"] if loads == stores else [f"loads: {loads}", f"stores: {stores}"]
