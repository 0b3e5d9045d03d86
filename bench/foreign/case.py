"""What a case is: one operator of a package, forward and backward, at one size."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class Inputs:
    """Random tensors on the GPU, the same ones in every process.

    `pretended`: the GPU is not there (`pretend`), and no kernel reads them.
    """

    def __init__(self, pretended: bool = False) -> None:
        import torch

        self.torch, self.pretended = torch, pretended
        torch.manual_seed(0)

    def normal(self, *shape: int, dtype: str = "bfloat16", grad: bool = False, scale: float = 1.0) -> Any:
        """Normal, rounded to `dtype`; `grad`: a gradient with respect to it is wanted."""
        made = (self.torch.randn(shape, device="cuda") * scale).to(getattr(self.torch, dtype))
        return made.requires_grad_(grad)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0, dtype: str = "float32") -> Any:
        """Uniform between two bounds."""
        made = self.torch.rand(shape, device="cuda") * (high - low) + low
        return made.to(getattr(self.torch, dtype))

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int64") -> Any:
        """Uniform in low..high-1."""
        return self.torch.randint(low, high, shape, device="cuda", dtype=getattr(self.torch, dtype))

    def distinct(self, high: int, *shape: int) -> Any:
        """Integers in 0..high-1, each at most once along the last dimension: stores there need no order."""
        *outer, count = shape
        if count > high:
            raise ValueError(f"distinct: there are no {count} integers below {high}")
        return self.torch.rand((*outer, high), device="cuda").argsort(-1)[..., :count].contiguous()

    def zeros(self, *shape: int, dtype: str = "bfloat16") -> Any:
        return self.torch.zeros(shape, device="cuda", dtype=getattr(self.torch, dtype))

    def empty(self, *shape: int, dtype: str = "bfloat16") -> Any:
        return self.torch.empty(shape, device="cuda", dtype=getattr(self.torch, dtype))


@dataclass(frozen=True)
class Case:
    """`make(inputs)` imports the operator and gives a call without arguments that runs it, backward too.

    `tolerance`: how far floats may be apart, relative to the largest; None: what is usual for their type.
    """

    name: str
    package: str
    make: Callable[[Inputs], Callable[[], Any]]
    tolerance: float | None = None


def tensors(result: Any) -> list[Any]:
    """The tensors in a result, in order."""
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [tensor for part in result for tensor in tensors(part)]
    return [result] if hasattr(result, "data_ptr") else []


def graded(function: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[], list[Any]]:
    """A call that gives the results of `function` and the gradients with respect to what wants one."""
    import torch

    wanted = [each for each in (*arguments, *options.values()) if isinstance(each, torch.Tensor)]
    wanted = [each for each in wanted if each.requires_grad]

    def call() -> list[Any]:
        # Operators may change their inputs; leaves that want gradients must not be.
        copies = {id(each): each.detach().clone().requires_grad_() for each in wanted}
        given = [copies.get(id(each), each) for each in arguments]
        named = {key: copies.get(id(each), each) for key, each in options.items()}
        results = tensors(function(*given, **named))
        rooted = [each for each in results if each.requires_grad]
        if not rooted:
            return results
        torch.manual_seed(1)
        seeds = [torch.randn(each.shape, device=each.device).to(each.dtype) for each in rooted]
        leaves = list(copies.values())
        grads = torch.autograd.grad(rooted, leaves, seeds, allow_unused=True)
        return [*(each.detach() for each in results), *(each for each in grads if each is not None)]

    return call


Maker = Callable[..., Callable[[], Any]]


class Cases(list[Case]):
    """A list to which decorated functions add cases."""

    def of(self, package: str, name: str | None = None) -> Callable[[Maker], Maker]:
        """Add a case of `package`, named as the function is if not otherwise."""

        def add(make: Maker) -> Maker:
            assert len(inspect.signature(make).parameters) == 1
            self.append(Case(f"{package}: {name or make.__name__.replace('_', ' ')}", package, make))
            return make

        return add

    def each(self, package: str, rows: Mapping[str, Mapping[str, Any]]) -> Callable[[Maker], Maker]:
        """Add a case of `package` for each name, with the options that are there for the decorated function."""

        def add(make: Maker) -> Maker:
            for name, options in rows.items():
                self.append(Case(f"{package}: {name}", package, functools.partial(make, **options)))
            return make

        return add


def plain(function: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[], Any]:
    """A call of `function`, forward only."""

    def call() -> Any:
        return function(*arguments, **options)

    return call
