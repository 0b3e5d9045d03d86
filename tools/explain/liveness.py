"""Live ranges of buffers in shared memory: from the allocation to the last operation that may access them.

Operations are numbered in textual order. A buffer is accessed through itself, its views, and loop arguments
and results of regions that carry either. If a buffer from outside a loop is accessed inside, it lives to the
loop's end, because the next iteration may access it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from triton_linear.dialect.mlir_adapter import Operation, Value
from triton_linear.passes.analysis.places import Places
from triton_linear.tools.explain.memory import VIEWS, is_memory


class Liveness:
    """The numbers of a kernel's operations, and the users of each buffer."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.places = Places(ops)
        self.users: dict[Value, list[Operation]] = {}
        for op in ops:
            for operand in op.operands:
                if is_memory(operand.type):
                    self.users.setdefault(operand, []).append(op)

    def last(self, buffer: Operation) -> int:
        """The number of the last operation that may access a buffer."""
        last = self.places.numbers[buffer]
        around = self.places.around(buffer)
        pending, seen = list(buffer.results), set[Value]()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            for user in self.users.get(value, ()):
                last = max(last, self.places.ends[user], self.places.loop_end(user, around) or 0)
                pending += _aliases(user, value)
        return last


def _aliases(user: Operation, value: Value) -> list[Value]:
    """The other values that are the same buffer, or a part of it, because of this use."""
    if user.name in VIEWS:
        return list(user.results)
    numbers = [number for number, operand in enumerate(user.operands) if operand == value]
    match user.name:
        case "scf.for":
            carried = [number - 3 for number in numbers if number >= 3]
            arguments = user.regions[0].blocks[0].arguments
            return [*(arguments[n + 1] for n in carried), *(user.results[n] for n in carried)]
        case "scf.while":
            arguments = user.regions[0].blocks[0].arguments
            return [arguments[number] for number in numbers]
        case "scf.condition":
            parent = user.parent
            after = parent.regions[1].blocks[0].arguments
            return [x for n in numbers if n > 0 for x in (after[n - 1], parent.results[n - 1])]
        case "scf.yield":
            parent = user.parent
            aliases = [parent.results[n] for n in numbers if n < len(parent.results)]
            if parent.name == "scf.for":
                aliases += [parent.regions[0].blocks[0].arguments[n + 1] for n in numbers]
            elif parent.name == "scf.while":
                aliases = [parent.regions[0].blocks[0].arguments[n] for n in numbers]
            return aliases
        case _:  # operations that wait, for instance for a dot, return their operands
            same = [user.results[n] for n in numbers if n < len(user.results)]
            return [result for result in same if is_memory(result.type)]
