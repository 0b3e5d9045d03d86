"""Keep on disk how kernels are assembled best: with which directive on registers, and whether ours is taken.

ptxas is a function of the PTX, its version and its options, so a directive holds for every kernel with the same
PTX. Source locations and the kernel's name are left out of the key, since they change no instruction.

Comparing our kernel with stock Triton's compiles it a second time, and kernels that are compared take long to
compile. The result depends on the module, the options, the environment variables that LLVM follows, the version
and options of ptxas, and the changes of other hooks to the stages. All of these are in the key.
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
        return store.read_as(name, KeptDirective)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison. reason: why our kernel gives way; "" if it does not. remarks: those of the
    compile before the comparison."""

    reason: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptComparisons:
    """The results of comparing kernels that are assembled in one way.

    how: as above, without the thresholds. It must not refer to the stage `llir`: that stage refers to this
    object, and the cycle would keep it alive.
    """

    how: Callable[[], str]

    def name(self, module: str) -> str:
        """The name of the entry for a module. module: the name of what is known of it."""
        from triton._C.libtriton import (  # type: ignore[import-untyped, unused-ignore]
            get_cache_invalidating_env_vars,
        )

        environment = sorted(get_cache_invalidating_env_vars().items())
        return store.digest("compared", module, self.how(), repr(environment))
