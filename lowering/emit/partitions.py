"""The number of a thread within its partition, for code in a warp-specialised region.

Only Triton knows the first warp of a partition, so the number cannot be computed from the thread number in the
CTA. It is the thread's element of a `tt.make_range` instead, written once, at the start of the region: LLVM
hoists no inline assembly out of loops, nor values that depend on it.
"""

from __future__ import annotations

from triton_linear.dialect.partitions import first_of_partition, partition_warps
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.emit.machines import COPY
from triton_linear.lowering.emit.scratch import NumberedModule
from triton_linear.lowering.emit.text import FunctionWriter, struct_type

THREAD_IN_PARTITION = "%__own_partition"
"""Prefix of the names of these numbers."""

_CAST = "builtin.unrealized_conversion_cast"


@dataclass(frozen=True, slots=True)
class Partition:
    """A warp-specialised region with emitted code.

    number: its number among these regions. begin, end: the numbers of its first operation in the module and of
    the one that ends it; `end` is None if it has several blocks. warps: the warps that run it.
    """

    number: int
    begin: int
    warps: int
    end: int | None = None

    @property
    def thread(self) -> str:
        """The name of the value with the thread's number."""
        return f"{THREAD_IN_PARTITION}{self.number}_thread"

    def write_thread(self, lines: FunctionWriter, lanes: int, encoding: str) -> None:
        """Write the operations that compute `thread`, for the start of the region.

        `encoding`: the name of an encoding with one element for each thread.
        """
        p, threads = f"{THREAD_IN_PARTITION}{self.number}_", lanes * self.warps
        range_, one = f"tensor<{threads}xi32, {encoding}>", struct_type("i32", 1)
        lines.define(f"{p}range", f"tt.make_range {{end = {threads} : i32, start = 0 : i32}} : {range_}")
        lines.define(f"{p}held", f"{_CAST} {p}range : {range_} to {one}")
        lines.define(f"{p}counted", f"llvm.extractvalue {p}held[0] : {one}")
        asm = f'llvm.inline_asm asm_dialect = att "{COPY} // {p}", "=r,r"'
        lines.define(self.thread, f"{asm} {p}counted : (i32) -> i32")


def partitions_of(program: NumberedModule) -> dict[int, Partition]:
    """The partition of each call that is inside one, by the number of the call."""
    found: dict[int, Partition] = {}
    known: dict[int, Partition] = {}
    numbers = {op: n for n, op in enumerate(program.ops)}
    for n, name in enumerate(program.names):
        op = program.ops[n]
        if name != "tt.call" or (warps := partition_warps(op)) is None:
            continue
        first = first_of_partition(op)
        assert first is not None  # it is in a partition
        begin = numbers[first]
        if begin not in known:
            block = first.block
            last = block.operations[len(block.operations) - 1].operation
            end = numbers[last] if len(block.region.blocks) == 1 else None
            known[begin] = Partition(len(known), begin, warps, end)
        found[n] = known[begin]
    return found
