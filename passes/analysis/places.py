"""The order of a module's operations, and the ends of live ranges through loops.

Operations are numbered in the order in which they are written. A value that is defined outside a loop and used
inside is live to the loop's end, as the next iteration may use it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.passes.analysis.flow import terminator
from triton_linear.passes.operations.names import LOOPS


class Places:
    """The operations of a module, outermost first, in the order in which they are written: `operations(root)`.

    numbers: the number of each operation. ends: the number of the last operation inside each; its own number if
    it has no regions.
    """

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.ops = ops
        self.numbers = {op: number for number, op in enumerate(ops)}
        self.ends = dict(self.numbers)
        for op in reversed(ops):
            if len(op.regions):
                blocks = [block for region in op.regions for block in region.blocks if len(block.operations)]
                self.ends[op] = max([self.ends[terminator(each)] for each in blocks], default=self.ends[op])

    def around(self, op: Operation) -> list[Operation]:
        """The operations around an operation, the innermost first."""
        parents, parent = [], op.parent
        while parent in self.numbers:
            parents.append(parent)
            parent = parent.parent
        return parents

    def loop_end(self, user: Operation, outside: Sequence[Operation]) -> int | None:
        """The number up to which a value is live that `user` uses inside loops and that is defined outside of
        them: the end of the outermost of these loops. None if there is no such loop. `outside`: the operations
        around the definition."""
        last = None
        for parent in self.around(user):
            if parent in outside:
                break
            if parent.name in LOOPS:
                last = self.ends[parent]
        return last
