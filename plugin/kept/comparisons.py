"""Whether a kernel is stock Triton's after all, kept for the next process that compiles it (`store`).

To find that out takes a second compile of kernels that take long as it is. Both kernels follow from the module
and the options; what ptxas makes of them from its version and its options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from triton_linear.kept import store


@dataclass(frozen=True, slots=True)
class KeptComparisons:
    """What comparing kernels that are assembled alike has shown.

    how: ptxas and its options. It must not know the stage that asks, which would keep itself alive.
    """

    how: Callable[[], str]

    def read(self, module: str) -> str | None:
        """Why the kernel of a module, told by its own entry's name, is stock Triton's; "" where it is not, and
        None where nothing is kept."""
        entry = store.read(self._name(module))
        vetoed = None if entry is None else entry.get("vetoed")
        return vetoed if isinstance(vetoed, str) else None

    def write(self, module: str, vetoed: str) -> None:
        """Keep what comparing has shown."""
        store.write(self._name(module), {"vetoed": vetoed})

    def _name(self, module: str) -> str:
        return store.digest("compared", module, self.how())
