"""What a case of the suite is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

TORCH = "torch.compile"
TRITON = "Triton"
GLUON = "Gluon"


class Inputs(Protocol):
    """Random tensors on the GPU, the same ones in every process."""

    def normal(self, *shape: int, dtype: str = "float16") -> Any:
        """Standard normal, rounded to `dtype`."""

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int64") -> Any:
        """Uniform in low..high-1."""


@dataclass(frozen=True)
class Case:
    """One kernel, or the few that one function becomes, at one size.

    `make(torch, inputs)` gives a function and its arguments; for `kind` TORCH it is yet to be compiled. Where
    two ways to compute round differently, results may differ by `tolerance` times the largest magnitude (None:
    by what is usual for their type), integers by `slack`. `sources(target)` gives, of a kernel written by
    hand, what compiles without a GPU.
    """

    name: str
    group: str
    kind: str
    make: Callable[[Any, Inputs], tuple[Callable[..., Any], tuple[Any, ...]]]
    tolerance: float | None = None
    slack: int = 0
    sources: Callable[[Any], Mapping[str, tuple[Any, Mapping[str, Any]]]] | None = None


Made = tuple[Callable[..., Any], tuple[Any, ...]]
Maker = Callable[[Any, Inputs], Made]


def compiled_case(
    to: list[Case], group: str, tolerance: float | None = None, slack: int = 0
) -> Callable[[Maker], Maker]:
    """Add the function that is decorated, and named as the case is, to a list, as one for `torch.compile`."""

    def add(make: Maker) -> Maker:
        to.append(Case(make.__name__, group, TORCH, make, tolerance, slack))
        return make

    return add
