"""Whether a kernel is stock Triton's after all, kept for the next process that compiles it (`store`).

To find that out takes a second compile of kernels that take long as it is. Both kernels follow from the module,
the options and what LLVM is told by the environment; what ptxas makes of them from its version and its options.
Where somebody else has changed the stages, it follows from that as well.
"""

from __future__ import annotations

from collections.abc import Callable

from triton_linear.dialect.records import dataclass
from triton_linear.kept import store


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing has shown. vetoed: why stock Triton's kernel is taken; "" where it is not. remarks: those
    on ours before that."""

    vetoed: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptComparisons:
    """What comparing kernels that are assembled alike has shown.

    how: ptxas, its options, and what others do in the stages. It must not know the stage that asks, which would
    keep itself alive.
    """

    how: Callable[[], str]

    def read(self, module: str) -> Comparison | None:
        """What is kept about a module, told by its own entry's name; None where nothing is."""
        entry = store.read(self._name(module))
        if entry is None:
            return None
        vetoed, remarks = entry.get("vetoed"), entry.get("remarks")
        if not isinstance(vetoed, str) or not isinstance(remarks, list) or not all(map(_is_text, remarks)):
            return None
        return Comparison(vetoed, tuple(remarks))

    def write(self, module: str, found: Comparison) -> None:
        """Keep what comparing has shown."""
        store.write(self._name(module), {"vetoed": found.vetoed, "remarks": list(found.remarks)})

    def _name(self, module: str) -> str:
        from triton._C.libtriton import (  # type: ignore[import-untyped, unused-ignore]
            get_cache_invalidating_env_vars,
        )

        environment = sorted(get_cache_invalidating_env_vars().items())
        return store.digest("compared", module, self.how(), repr(environment))


def _is_text(value: object) -> bool:
    return isinstance(value, str)
