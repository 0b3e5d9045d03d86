"""Keep on disk whether our kernel or stock Triton's was better (`store`).

A comparison compiles the kernel a second time, and kernels that are compared take long to compile. Its result
depends on the module, the options, the environment variables that LLVM follows, the version and options of
ptxas, and the changes of other hooks to the stages. All of these are in the key.
"""

from __future__ import annotations

from collections.abc import Callable

from triton_linear.dialect.records import dataclass
from triton_linear.kept import store


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison. vetoed: why our kernel gives way; "" if it does not. remarks: those of the
    compile before the comparison. kept: it gives way to ours with Triton's layouts, not to stock Triton's."""

    vetoed: str
    remarks: tuple[str, ...] = ()
    kept: bool = False


@dataclass(frozen=True, slots=True)
class KeptComparisons:
    """The results on disk of comparing kernels that are assembled in one way.

    how: a key of ptxas, its options, and the changes of other hooks to the stages. It must not refer to the
    stage `llir`: that stage refers to this object, and the cycle would keep it alive.
    """

    how: Callable[[], str]

    def read(self, module: str) -> Comparison | None:
        """The result for a module, by the name of the module's own entry; None if there is none."""
        entry = store.read(self._name(module))
        if entry is None:
            return None
        vetoed, remarks = entry.get("vetoed"), entry.get("remarks")
        if not isinstance(vetoed, str) or not isinstance(remarks, list) or not all(map(_is_text, remarks)):
            return None
        return Comparison(vetoed, tuple(remarks), entry.get("kept") is True)

    def write(self, module: str, comparison: Comparison) -> None:
        """Keep the result for a module."""
        facts = {"vetoed": comparison.vetoed, "remarks": list(comparison.remarks), "kept": comparison.kept}
        store.write(self._name(module), facts)

    def _name(self, module: str) -> str:
        from triton._C.libtriton import (  # type: ignore[import-untyped, unused-ignore]
            get_cache_invalidating_env_vars,
        )

        environment = sorted(get_cache_invalidating_env_vars().items())
        return store.digest("compared", module, self.how(), repr(environment))


def _is_text(value: object) -> bool:
    return isinstance(value, str)
