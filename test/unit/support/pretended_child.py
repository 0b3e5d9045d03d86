"""A child of `triton-linear tune` on a machine without a GPU: `python pretended_child.py PLAN`.

It is the child as it is, but for what only a GPU can do: kernels take as long as their PTX is long, and results
are the same. A program launches with `launch`.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from typing import Any

from measuring_support import FakeCuda

from triton_linear.tools.measuring import child, contest
from triton_linear.tools.measuring.child import MeasuringPlan
from triton_linear.tools.support.launches import Launch, Watch


class Same:
    """Copies of arguments that are the arguments, and results that are as expected."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments[0]

    def restore(self) -> None:
        """Nothing has changed."""

    def difference(self, expected: Any, before: Any) -> str:
        return ""

    def same(self, expected: Any) -> bool:
        return True


class Lines:
    """A clock by which a launch takes what it says."""

    def __init__(self, flush: bool) -> None:
        pass

    def time(self, launch: Any, before: Any, row: int) -> float:
        return float(launch())


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


def main(plan: MeasuringPlan) -> None:
    """Become the program, as `child.main` does."""
    torch = types.ModuleType("torch")
    torch.cuda = FakeCuda()  # type: ignore[attr-defined]
    torch.cuda.get_device_name = lambda: "Some GPU"  # type: ignore[attr-defined]
    sys.modules["torch"] = torch
    sys.modules["pretended_child"] = sys.modules[__name__]
    child.GpuClock = Lines  # type: ignore[misc, assignment]
    contest.again = again
    child.Copies = contest.Results = Same  # type: ignore[misc, assignment]
    Watch.start = started  # type: ignore[method-assign]
    child.main(plan)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        main(MeasuringPlan(**json.load(file)))
