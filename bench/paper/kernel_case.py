"""What a kernel of the figure of whole kernels is: its launches, its sizes, what it must compute."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.kernels.case import TRITON, Inputs
from bench.kernels.case import Case as Measured
from bench.kernels.kernel import Kernel, Tensor

Reference = Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]
"""(torch, the inputs, those of floats in float64) -> results in float64, named as the outputs are."""


@dataclass(frozen=True)
class Drawn(Tensor):
    """Random numbers of which `then(torch, tensor)` makes the argument, of the same type and shape."""

    then: Callable[[Any, Any], Any] | None = None

    def made(self, inputs: Inputs) -> Any:
        """Random ones."""
        import torch

        drawn = super().made(inputs)
        if self.then is None:
            return drawn
        return self.then(torch, drawn.float()).to(drawn.dtype).contiguous()


@dataclass(frozen=True)
class Fixed(Tensor):
    """An argument whose values are given, in order."""

    values: tuple[int, ...] = ()

    def made(self, inputs: Inputs) -> Any:
        """The values, on the device of the inputs."""
        import torch

        device = inputs.integers(0, 1, 1).device
        return torch.tensor(self.values, dtype=getattr(torch, self.dtype), device=device).reshape(self.shape)


@dataclass(frozen=True)
class Work:
    """Kernels launched one after another; an input of one may be an output of one before it.

    What is in both of the results and the reference may differ by `tolerance` times the largest magnitude of
    the reference.
    """

    kernels: Sequence[Kernel]
    reference: Reference
    tolerance: float

    def given(self, inputs: Inputs) -> dict[str, Any]:
        """The arguments that no kernel computes."""
        made: dict[str, Any] = {}
        computed: set[str] = set()
        for kernel in self.kernels:
            for name, tensor in kernel.inputs.items():
                if name not in computed and name not in made:
                    made[name] = tensor.made(inputs)
            computed |= kernel.outputs.keys()
        return made

    def launch(self, torch: Any, given: Mapping[str, Any], device: str = "cuda") -> dict[str, Any]:
        """The outputs of every kernel."""
        known: dict[str, Any] = dict(given)
        found: dict[str, Any] = {}
        for kernel in self.kernels:
            found |= kernel.launch(torch, known, device)
            known |= found
        return found

    def expected(self, torch: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the outputs are to be, in float64."""
        wide = {name: t.double() if t.dtype.is_floating_point else t for name, t in given.items()}
        return self.reference(torch, wide)

    def forget(self) -> None:
        """Let the next launch load its kernels from Triton's cache, so that whoever watches sees them."""
        for kernel in self.kernels:
            kernel.function.device_caches.clear()

    def warm(self, torch: Any) -> None:
        """Compile every kernel into Triton's cache."""
        self.forget()
        for kernel in self.kernels:
            kernel.warm(torch)

    def measured(self, name: str) -> Measured:
        """As `bench.kernels` measures it."""

        def make(torch: Any, inputs: Inputs) -> tuple[Callable[..., Any], tuple[Any, ...]]:
            self.forget()
            given = self.given(inputs)
            return lambda: list(self.launch(torch, given).values()), ()

        def sources(target: Any) -> Mapping[str, tuple[Any, Mapping[str, Any]]]:
            return {f"{n}": (kernel.source(), kernel.options) for n, kernel in enumerate(self.kernels)}

        return Measured(name, "paper", TRITON, make, sources=sources)


def apart(expected: Mapping[str, Any], found: Mapping[str, Any]) -> float:
    """The largest difference of what is in both, relative to the largest magnitude that is expected of it.

    Infinite where a result is not finite and should be, or the shapes differ.
    """
    worst = 0.0
    for name, want in expected.items():
        got = found[name]
        if got.shape != want.shape:
            return float("inf")
        difference = float((got.double() - want).abs().max())
        if math.isnan(difference):
            return float("inf")
        worst = max(worst, difference / max(float(want.abs().max()), 1e-30))
    return worst


@dataclass(frozen=True)
class Family:
    """One kernel of the figure: how it is made at a size, the sizes, and some small enough to interpret."""

    name: str
    build: Callable[..., Work]
    sizes: Sequence[Mapping[str, Any]]
    small: Sequence[Mapping[str, Any]]


def family(
    to: list[Family],
    *sizes: Mapping[str, Any],
    small: Mapping[str, Any],
    also: Sequence[Mapping[str, Any]] = (),
) -> Callable[[Callable[..., Work]], Callable[..., Work]]:
    """Add the function that is decorated, and named as the kernel is, to a list, with its sizes.

    `small` is a size to interpret, as is each of `also` with the rest from `small`.
    """

    def add(build: Callable[..., Work]) -> Callable[..., Work]:
        smalls = [small, *({**small, **more} for more in also)]
        to.append(Family(build.__name__, build, sizes, smalls))
        return build

    return add


@dataclass(frozen=True)
class Case:
    """A kernel at one of its sizes."""

    kernel: str
    size: tuple[tuple[str, Any], ...]

    @property
    def key(self) -> str:
        """The kernel, and its sizes in order; of what it may have or not, the name if it has."""
        parts = [name if value is True else str(value) for name, value in self.size]
        return f"{self.kernel}/{'x'.join(parts)}"

    def work(self) -> Work:
        """What it is made of."""
        return families()[self.kernel].build(**dict(self.size))


@functools.cache
def families() -> Mapping[str, Family]:
    """Every kernel, by name."""
    from . import kernels_attention, kernels_gemm, kernels_losses, kernels_norm, kernels_rows

    modules = (kernels_gemm, kernels_attention, kernels_losses, kernels_norm, kernels_rows)
    return {each.name: each for module in modules for each in module.FAMILIES}


def cases() -> tuple[Case, ...]:
    """In the order in which they run."""

    def every() -> Iterator[Case]:
        for each in families().values():
            for size in each.sizes:
                yield Case(each.name, tuple(size.items()))

    return tuple(every())
