"""Declares stubs: private functions without a body, each under a name that no other function has."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from triton_linear.dialect.mlir_adapter import InsertionPoint, Operation, Type
from triton_linear.dialect.records import dataclass
from triton_linear.passes.operations.names import FUNCTION


@dataclass(frozen=True)
class Declarations:
    """The stubs of one module, which stand behind its other functions. taken: the names of functions."""

    end: InsertionPoint
    taken: set[str]

    @classmethod
    def of(cls, module: Operation, ops: Sequence[Operation]) -> Declarations:
        """Those of a module; `ops`: all operations in it."""
        taken = {op.attributes["sym_name"].value for op in ops if op.name == FUNCTION}
        return cls(InsertionPoint(module.regions[0].blocks[0]), taken)

    def declare(
        self,
        prefix: str,
        first: int,
        types: tuple[Sequence[Type], Type],
        attributes: Mapping[str, object],
        stands_for: Operation,
    ) -> str:
        """Declare the stub that an operation stands for, and return its name: the prefix, and the first number
        from `first` on that is free. types: of the operands and of the result. attributes: their texts by
        name; None: a unit attribute."""
        numbered = (f"{prefix}{number}" for number in itertools.count(first))
        name = next(name for name in numbered if name not in self.taken)
        self.taken.add(name)
        operands, result = types
        signature = f"({', '.join(map(str, operands))}) -> {result}"
        properties = f'function_type = {signature}, sym_name = "{name}", sym_visibility = "private"'
        entries = (key if value is None else f"{key} = {value}" for key, value in attributes.items())
        listed = ", ".join([*entries, "noinline = true"])
        text = f'"{FUNCTION}"() <{{{properties}}}> ({{}}) {{{listed}}} : () -> () {stands_for.location}'
        self.end.insert(Operation.parse(text, context=stands_for.context))
        return name
