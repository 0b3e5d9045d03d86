"""What a case of this bench is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..kernels.case import Inputs
from ..kernels.kernel import Kernel


@dataclass(frozen=True)
class Added(Kernel):
    """A kernel that adds to its outputs, which are zeroed before each launch."""

    def make(self, torch: Any, inputs: Inputs) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """A launch on random input, which gives the outputs."""
        given = {name: tensor.made(inputs) for name, tensor in self.inputs.items()}
        made = {
            name: torch.zeros(t.shape, dtype=getattr(torch, t.dtype), device="cuda")
            for name, t in self.outputs.items()
        }

        def launch() -> list[Any]:
            for output in made.values():
                output.zero_()
            self.start({**given, **made, **self.numbers})
            return list(made.values())

        return launch, ()

    def start(self, arguments: Mapping[str, Any]) -> None:
        """Launch it on tensors and numbers."""
        self.function[self.grid](**arguments, **self.constants, **self.options)


@dataclass(frozen=True)
class Reported:
    """A complaint: where it is, what it says, what came of it upstream, and a kernel of ours that shows it.

    `shown` are the kinds of `counts.KINDS` that it is about. Results may differ by `tolerance` times the
    largest magnitude where sums are of another order; None: by what is usual for their type.
    """

    name: str
    thread: str
    complaint: str
    upstream: str
    kernel: Kernel
    shown: tuple[str, ...]
    target: str = "cuda:90"
    """The GPU that it was reported for, where counts of another would not show it."""
    tolerance: float | None = None

    @property
    def number(self) -> str:
        """How people call the thread.

        >>> from bench.reported.cases import CASES
        >>> CASES[0].number
        '#11373'
        """
        return f"#{self.thread.rpartition('/')[2]}"
