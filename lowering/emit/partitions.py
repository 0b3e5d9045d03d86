"""The number of a thread among those of its partition, which code in a warp-specialised region goes by.

The number of the thread in the CTA would not do, and where a partition begins, Triton knows. So the number is
the element of a range that the thread has. It is asked for once, where the region begins: LLVM takes no inline
assembly out of a loop, nor what is computed of it.
"""

from __future__ import annotations

from triton_linear.dialect.partitions import first_of_partition, partition_warps
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.emit.machines import COPY
from triton_linear.lowering.emit.scratch import NumberedModule
from triton_linear.lowering.emit.text import FunctionWriter, struct_type

THREAD_IN_PARTITION = "%__own_partition"
"""What begins the names of such numbers."""

_CAST = "builtin.unrealized_conversion_cast"


@dataclass(frozen=True, slots=True)
class Partition:
    """A region that some warps run by themselves: which of those with code of ours, the number of its first
    operation in the module, and its warps."""

    number: int
    begin: int
    warps: int

    @property
    def thread(self) -> str:
        """What the number of the thread is called."""
        return f"{THREAD_IN_PARTITION}{self.number}_thread"

    def write_thread(self, lines: FunctionWriter, lanes: int, encoding: str) -> None:
        """Write what gives that number, for the beginning of the region. `encoding`: one element a thread."""
        p, threads = f"{THREAD_IN_PARTITION}{self.number}_", lanes * self.warps
        range_, one = f"tensor<{threads}xi32, {encoding}>", struct_type("i32", 1)
        lines.define(f"{p}range", f"tt.make_range {{end = {threads} : i32, start = 0 : i32}} : {range_}")
        lines.define(f"{p}held", f"{_CAST} {p}range : {range_} to {one}")
        lines.define(f"{p}counted", f"llvm.extractvalue {p}held[0] : {one}")
        asm = f'llvm.inline_asm asm_dialect = att "{COPY} // {p}", "=r,r"'
        lines.define(self.thread, f"{asm} {p}counted : (i32) -> i32")


def partitions_of(program: NumberedModule) -> dict[int, Partition]:
    """The partition of each call that is in one, by the numbers of the calls."""
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
        found[n] = known.setdefault(begin, Partition(len(known), begin, warps))
    return found
