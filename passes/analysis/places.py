"""Where the operations of a module stand, and how far what is made at one place must last.

Operations are numbered in the order in which they are written. What is made outside a loop and touched inside
lasts to the loop's end, as the next iteration may touch it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from triton_linear.dialect.mlir_adapter import Operation

LOOPS = frozenset({"scf.for", "scf.while"})


class Places:
    """The operations of a module, outermost first, in the order in which they are written: `operations(root)`.

    numbers: the number of each. ends: that of the last operation inside each; its own where there is none.
    """

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.ops = ops
        self.numbers = {op: number for number, op in enumerate(ops)}
        self._parents = {op: op.parent for op in ops}
        self.ends = dict(self.numbers)
        for op in reversed(ops):
            if (parent := self._parents[op]) in self.ends:
                self.ends[parent] = max(self.ends[parent], self.ends[op])

    def around(self, op: Operation) -> list[Operation]:
        """The operations around an operation, the innermost first."""
        found, at = [], self._parents[op]
        while at in self.numbers:
            found.append(at)
            at = self._parents[at]
        return found

    def loop_end(self, user: Operation, outside: Sequence[Operation]) -> int | None:
        """Up to which number lasts what is touched by `user`, in loops, and was made outside of them, where
        `outside` are the operations around: the end of the outermost of those loops. None: there is none."""
        last = None
        for parent in self.around(user):
            if parent in outside:
                break
            if parent.name in LOOPS:
                last = self.ends[parent]
        return last
