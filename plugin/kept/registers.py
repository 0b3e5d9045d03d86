"""Keep on disk which directive on registers a kernel is assembled with (`store`).

ptxas is a function of the PTX, its version and its options, so a decision holds for every kernel with the same
PTX. Source locations and the kernel's name are left out of the key, since they change no instruction.
"""

from __future__ import annotations

from collections.abc import Callable

from triton_linear.dialect.records import dataclass
from triton_linear.dialect.sources import source_digest
from triton_linear.kept import store

_DEBUG = "\n\t.section\t.debug"
_LINES = "\t.loc\t", "\t.file\t", "\t// .globl\t"
_CALLED = "{}_param_", ".entry {}(", "// @{}\n"
"""The lines of PTX, as LLVM prints it, with source locations, and the places of the kernel's name."""


@dataclass(frozen=True, slots=True)
class KeptDirective:
    """A decision. directive: the one that the kernel is assembled with; "" for none. stack: the bytes of a
    thread's stack with it."""

    directive: str
    stack: int


@dataclass(frozen=True)
class KeptDirectives:
    """The decisions about kernels that are assembled in one way.

    how: returns a key of the target with its thresholds, ptxas, its options, and the changes of other hooks to
    the stages.
    """

    how: Callable[[], str]

    def name(self, text: str, kernel: str, *facts: object) -> str:
        """The name of the entry for a kernel. text: its PTX. facts: what else the decision depends on."""
        lines = text.partition(_DEBUG)[0].split("\n")
        bare = "\n".join([line for line in lines if not line.startswith(_LINES)])
        for called in _CALLED:
            bare = bare.replace(called.format(kernel), called)
        return store.digest("registers", bare, self.how(), repr(facts), source_digest())

    def read(self, name: str) -> KeptDirective | None:
        """The decision in the entry; None if there is no entry, or an invalid one."""
        entry = store.read(name)
        if entry is None:
            return None
        directive, stack = entry.get("directive"), entry.get("stack")
        if not isinstance(directive, str) or not isinstance(stack, int):
            return None
        return KeptDirective(directive, stack)

    def write(self, name: str, decided: KeptDirective) -> None:
        """Write a decision to the entry."""
        store.write(name, {"directive": decided.directive, "stack": decided.stack})
