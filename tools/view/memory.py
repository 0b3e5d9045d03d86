"""Draw shared memory: rows of all banks, and the accesses of a warp to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from triton_linear.dialect import encodings
from triton_linear.dialect.encodings.shared import PARTITION, PaddedShared
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.planners.shared_access import Touch, touches
from triton_linear.lowering.target.phases import LOAD, STORE
from triton_linear.lowering.target.targets import Target
from triton_linear.tools.support.errors import fail
from triton_linear.tools.view.places import Grid, LaneRun, coordinates
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
        self._padded: Callable[[int], int] = (
            parsed.padded_offset if isinstance(parsed, PaddedShared) else lambda offset: offset
        )
        table = coordinates(subject.layout)
        self.points = table.reshape(table.shape[0], -1, table.shape[-1])[:, 0]  # of block 0
        self.addresses = np.array([self._padded(o) * self.size for o in range(len(self.points))], np.int64)

    def grid(self) -> Grid:
        """A grid with a row for each pass over all banks, and a cell for each run of consecutive elements."""
        line = self.target.wavefront_bytes
        per_line = max(1, line // self.size)
        rows = int(self.addresses[-1]) // line + 1
        held: list[list[tuple[int, ...] | None]] = [[None] * per_line for _ in range(rows)]
        for address, point in zip(self.addresses.tolist(), self.points.tolist(), strict=True):
            held[address // line][address % line // self.size] = tuple(point)
        starts = [0]
        for at in range(1, per_line):
            if not all(_follows(row[at - 1], row[at]) for row in held):
                starts.append(at)
        spans = [(at, end - at) for at, end in zip(starts, [*starts[1:], per_line], strict=True)]
        cells = tuple(
            tuple(
                LaneRun(_label(row[at], count), row[at] or (), at * self.size // self.target.bank_bytes)
                for at, count in spans
            )
            for row in held
        )
        names = tuple(str(row * line) for row in range(rows))
        return Grid("shared memory", "byte \\ element", names, tuple(spans), cells)

    def row(self, offset: int) -> int:
        """The number of the row that has an element."""
        return int(self.addresses[offset]) // self.target.wavefront_bytes

    def touches(self, registers: LinearLayout, kind: str = LOAD) -> tuple[Touch, ...]:
        """The accesses of warp 0 that load or store a tensor with this register layout, with the widest
        vectors that fit every lane.

        Requires: both are layouts of one tensor. Matrix instructions are not considered.
        """
        offset_of = {tuple(point): offset for offset, point in reversed(list(enumerate(self.points.tolist())))}
        table = coordinates(registers)[:, :, 0, 0]
        places = [[int(self.addresses[offset_of[tuple(point)]]) for point in row] for row in table.tolist()]
        return touches(places, self.size, self.target, kind)


def _follows(before: tuple[int, ...] | None, now: tuple[int, ...] | None) -> bool:
    if before is None or now is None:
        return before is now
    return before[:-1] == now[:-1] and now[-1] == before[-1] + 1


def _label(point: tuple[int, ...] | None, count: int) -> str:
    if point is None:
        return "."
    *front, last = point
    return ",".join([*map(str, front), str(last) if count == 1 else f"{last}-{last + count - 1}"])


def memory_text(subject: Subject, target: Target, most_rows: int) -> str:
    """The rows of banks, see `Memory.grid`: at most `most_rows` lines, however wide the rows are, then a line
    about the other elements.
    """
    from triton_linear.tools.view.text import columns_per_line, grid_lines, wrapped

    memory = Memory(subject, target)
    grid = memory.grid()
    parts = -(-len(grid.columns) // columns_per_line(grid))
    rows = max(1, most_rows // parts)
    lines = list(grid_lines(grid, rows))
    lines += [part for line in memory_words(memory, rows) for part in wrapped(line)]
    return "\n".join(lines)


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


def access_text(memory: Subject, registers: Subject, target: Target) -> str:
    """A line for each kind of access, and a line about the worst phase of those with bank conflicts. Loads
    and stores are described separately if the hardware treats them differently.
    """
    place = Memory(memory, target)
    loads, stores = (place.touches(registers.layout, kind) for kind in (LOAD, STORE))
    if loads == stores:
        return "\n".join(_access_lines("accesses", loads))
    return "\n".join((*_access_lines("loads", loads), *_access_lines("stores", stores)))


def _access_lines(accesses: str, asked: tuple[Touch, ...]) -> list[str]:
    total, least = sum(t.wavefronts for t in asked), sum(t.minimum for t in asked)
    lines = [f"{accesses} of warp 0: {total} wavefronts ({least} at least)"]
    kinds: dict[tuple[int, int, int], list[Touch]] = {}
    for touch in asked:
        kinds.setdefault((touch.width, touch.wavefronts, touch.minimum), []).append(touch)
    for (width, times, minimum), same in kinds.items():
        what = f"access of {width * 8} bits" if len(same) == 1 else f"accesses of {width * 8} bits, each"
        lines.append(f"  {len(same)} {what}: {_wavefronts(times)} ({minimum} at least)")
        phase = max(same[0].phases, key=lambda phase: phase.wavefronts)
        if times > minimum:
            worst = [str(bank) for bank, words in phase.banks.items() if words == phase.wavefronts]
            shown = ", ".join(worst[:8]) + (", ..." if len(worst) > 8 else "")
            who = f"lanes {_runs(phase.lanes)} ask {phase.wavefronts} words"
            first = ", ".join(map(str, same[0].registers))
            lines.append(f"    for register {first}, {who} of bank {shown}")
    return lines


def _runs(numbers: tuple[int, ...]) -> str:
    """Ascending numbers written as ranges, as in "0-3, 20-23"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" for first, last in runs)


def _wavefronts(count: int) -> str:
    return "1 wavefront" if count == 1 else f"{count} wavefronts"
