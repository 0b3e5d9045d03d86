"""Whether a kernel was better off with other registers, kept for the next process that assembles it (`store`).

ptxas is a function of the PTX, its version and its options, so what was found out about one PTX holds for the
same. Its line table has no say in it, and the kernel's name has none.
"""

from __future__ import annotations

from collections.abc import Callable

from triton_linear.dialect.records import dataclass
from triton_linear.dialect.sources import source_digest
from triton_linear.kept import store

_DEBUG = "\n\t.section\t.debug"
_LINES = "\t.loc\t", "\t.file\t", "\t// .globl\t"
_CALLED = "{}_param_", ".entry {}(", "// @{}\n"
"""Where PTX, as LLVM writes it, tells places in source files and the kernel's name."""


@dataclass(frozen=True, slots=True)
class KeptDirective:
    """directive: the one that the kernel is assembled with; "" for none. stack: what a thread may have in
    memory then, in bytes. granted: what of that is for the directive's sake. stalls: its warps wait so long
    that it is to be compared with stock Triton's kernel."""

    directive: str
    stack: int
    granted: int = 0
    stalls: bool = False


_SLOTS = "directive", "stack", "granted", "stalls"


@dataclass(frozen=True)
class KeptDirectives:
    """What was decided about kernels that are assembled alike.

    how: all that tells how they are, but for the PTX: the GPU, ptxas and its options, what others do in the
    stages.
    """

    how: Callable[[], str]

    def name(self, text: str, kernel: str, *facts: object) -> str:
        """The name of what is decided about the PTX of a kernel, of which these facts are known besides."""
        lines = text.partition(_DEBUG)[0].split("\n")
        bare = "\n".join([line for line in lines if not line.startswith(_LINES)])
        for called in _CALLED:
            bare = bare.replace(called.format(kernel), called)
        return store.digest("registers", bare, self.how(), repr(facts), source_digest())

    def read(self, name: str) -> KeptDirective | None:
        """What was decided; None where nothing is kept."""
        entry = store.read(name)
        if entry is None:
            return None
        directive, stack, granted, stalls = (entry.get(slot) for slot in _SLOTS)
        if not isinstance(directive, str) or not isinstance(stack, int) or not isinstance(granted, int):
            return None
        return KeptDirective(directive, stack, granted, stalls is True)

    def write(self, name: str, decided: KeptDirective) -> None:
        """Keep what was decided."""
        store.write(name, {slot: getattr(decided, slot) for slot in _SLOTS})
