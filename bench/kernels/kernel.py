"""A kernel written by hand at one size: how it is launched on random input, and compiled without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from .case import Inputs

_TYPES = {
    "float16": "*fp16",
    "bfloat16": "*bf16",
    "float32": "*fp32",
    "float8_e4m3fn": "*fp8e4nv",
    "int8": "*i8",
    "int16": "*i16",
    "int32": "*i32",
    "int64": "*i64",
}


@dataclass(frozen=True)
class Tensor:
    """An argument of a kernel: of `below` (None: normal) an integer in -below..below-1, or 0.. if `index`."""

    dtype: str
    shape: tuple[int, ...]
    below: int | None = None
    index: bool = False

    def made(self, inputs: Inputs) -> Any:
        """Random ones."""
        if self.below is None:
            return inputs.normal(*self.shape, dtype=self.dtype)
        return inputs.integers(0 if self.index else -self.below, self.below, *self.shape, dtype=self.dtype)


@dataclass(frozen=True)
class Kernel:
    """A kernel at one size. Its arguments come in the order of the function's: tensors, numbers, constants."""

    function: Any
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    grid: tuple[int, ...]
    numbers: Mapping[str, int | float] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, int] = field(default_factory=dict)

    def source(self) -> ASTSource:
        """As `triton.compile` takes it, specialised as a launch would be."""
        names = list(self.function.arg_names)
        types = {name: _TYPES[t.dtype] for name, t in (*self.inputs.items(), *self.outputs.items())}
        # A launch compiles an argument of 1 as a constant.
        whole = {name: value for name, value in self.numbers.items() if isinstance(value, int)}
        ones = {name: 1 for name, value in whole.items() if value == 1}
        types |= {
            name: "fp32" if isinstance(value, float) else "i32"
            for name, value in self.numbers.items()
            if name not in ones
        }
        signature = {name: types.get(name, "constexpr") for name in names}
        aligned = [n for n in names if types.get(n, "fp32") != "fp32" and whole.get(n, 0) % 16 == 0]
        attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in aligned}
        kind = GluonASTSource if self.function.is_gluon() else ASTSource
        return kind(self.function, signature, constexprs=dict(self.constants) | ones, attrs=attributes)

    def make(self, torch: Any, inputs: Inputs) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """A launch on random input, which gives the outputs."""
        given = {name: tensor.made(inputs) for name, tensor in self.inputs.items()}

        return lambda: list(self.launch(torch, given).values()), ()

    def launch(self, torch: Any, given: Mapping[str, Any], device: str = "cuda") -> dict[str, Any]:
        """Launch on `given`, which has the inputs and may have more; gives the outputs."""
        made = {
            name: torch.empty(t.shape, dtype=getattr(torch, t.dtype), device=device)
            for name, t in self.outputs.items()
        }
        inputs = {name: given[name] for name in self.inputs}
        self.function[self.grid](**inputs, **made, **self.numbers, **self.constants, **self.options)
        return made

    def warm(self, torch: Any) -> None:
        """Compile into Triton's cache what a launch would, without tensors; or load it from there.

        Requires: an active driver, for its target. Tensors lie at multiples of 16 bytes, as PyTorch's do.
        """
        tensors = {**self.inputs, **self.outputs}
        types = {name: getattr(torch, tensor.dtype) for name, tensor in tensors.items()}
        known = {**types, **self.numbers, **self.constants}
        # Triton takes types for tensors among arguments by position alone.
        arguments = [known[name] for name in self.function.arg_names]
        self.function.warmup(*arguments, grid=self.grid, **self.options)
