"""What a pass is, and what a run hands to each of its passes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from typing import Any, ClassVar, TypeVar

from triton_linear.dialect.mlir_adapter import Operation, operations
from triton_linear.dialect.records import dataclass
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.framework.plans import Plans
from triton_linear.passes.framework.verifiers import Verifier

_Fact = TypeVar("_Fact")


class Pass:
    """A frozen dataclass whose fields are the options, called with the module and its place in a run.
    `requires` and `ensures` are what is checked before and after it, where checks are asked for.

    It returns False where no operation came or went: then the next pass need not look for them again.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    requires: ClassVar[tuple[Verifier, ...]] = ()
    ensures: ClassVar[tuple[Verifier, ...]] = ()

    def __call__(self, op: Operation, pass_: PassRun) -> bool | None:
        raise NotImplementedError


@dataclass
class Walk:
    """The operations of the module of a run, as a pass before has found them, None where they may have changed
    since; and what has been found out about them."""

    found: list[Operation] | None = None
    facts: dict[Hashable, Any] = field(default_factory=dict)

    def forget(self) -> None:
        """Operations may have changed."""
        self.found = None
        self.facts.clear()


@dataclass
class PassRun:
    """One pass at work: MLIR's pass object behind it, the plans, operations and layouts of the whole run, and
    whether it has failed."""

    external: Any
    plans: Plans = field(default_factory=Plans)
    walk: Walk = field(default_factory=Walk)
    layouts: LayoutTable = field(default_factory=LayoutTable)
    failed: bool = False

    def operations(self, module: Operation) -> list[Operation]:
        """`module` and every operation inside it, outermost first, in the order they are written."""
        if self.walk.found is None:
            self.walk.found = operations(module)
        return self.walk.found

    def fact(self, key: Hashable, find: Callable[[], _Fact]) -> _Fact:
        """What `find` finds out about the operations, which is asked once as long as they stay."""
        if key not in self.walk.facts:
            self.walk.facts[key] = find()
        found: _Fact = self.walk.facts[key]
        return found

    def signal_pass_failure(self) -> None:
        """Let the run end with this pass. What is wrong has been reported as an error."""
        self.failed = True
        self.external.signal_pass_failure()
