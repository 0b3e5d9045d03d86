"""Six realistic examples, and one for AMD GPUs, for the demo, the benchmarks and the tests.

Every module has the Triton kernels, `compile_specs(target)` to compile them without a GPU, and
`problem(device, target)` to run them on a GPU and compare with PyTorch. Importing them needs only Triton;
functions that run kernels import PyTorch.
"""

from __future__ import annotations

from types import ModuleType

from triton.backends.compiler import GPUTarget

from triton_linear.examples import (
    attention,
    fp8_attention,
    int4_matmul,
    layer_norm,
    matmul,
    mfma_matmul,
    transpose8,
)
from triton_linear.examples.spec import KernelSpec

EXAMPLES: tuple[ModuleType, ...] = (matmul, attention, fp8_attention, layer_norm, int4_matmul, transpose8)


AMD_EXAMPLES: tuple[ModuleType, ...] = (mfma_matmul,)
"""Examples for the matrix cores of AMD GPUs; for other GPUs their `compile_specs` returns nothing."""


def examples(target: GPUTarget) -> tuple[ModuleType, ...]:
    """The examples that `target` can run."""
    return (*EXAMPLES, *(example for example in AMD_EXAMPLES if example.compile_specs(target)))


def specs(target: GPUTarget) -> list[KernelSpec]:
    """Every kernel of every example, as it is compiled for `target`."""
    return [spec for example in examples(target) for spec in example.compile_specs(target)]
