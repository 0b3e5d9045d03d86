"""A child of `triton-linear tune` on a machine without a GPU: `python pretended_child.py NUMBER`.

It is the child as it is, but for what only a GPU can do: kernels take as long as their PTX is long, and results
are the same. A program launches with `launch`.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from measuring_support import FakeCuda, Said, Same

from triton_linear.tools.measuring import child
from triton_linear.tools.measuring.launches import Launch, Watch


def again(kernel: Any, launch: Launch, arguments: Any) -> Callable[[], int]:
    return lambda: len(kernel.asm["ptx"].splitlines())


_watches: list[Watch] = []


def started(watch: Watch) -> None:
    """Have `watch` see what is launched from now on."""
    _watches.append(watch)


def launch(kernel: Any) -> None:
    """What `Watch` does of a launch."""
    (watch,) = _watches
    said = Launch(kernel, (4, 1, 1), ())
    watch.counts[said.key] += 1
    behind = watch._visit(said)
    if behind is not None:
        behind()


if __name__ == "__main__":
    torch = types.ModuleType("torch")
    torch.cuda = FakeCuda()  # type: ignore[attr-defined]
    sys.modules["torch"] = torch
    sys.modules["pretended_child"] = sys.modules[__name__]
    child.GpuClock = Said  # type: ignore[misc, assignment]
    child.again = again  # type: ignore[assignment]
    child.Copies = child.Results = Same  # type: ignore[misc, assignment]
    Watch.start = started  # type: ignore[method-assign]
    child.main(Connection(int(sys.argv[1])))
