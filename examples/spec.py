"""Descriptions of the example kernels: how to compile them, and how to run them on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource


def gpu_target(name: str) -> GPUTarget:
    """The target that a name such as `cuda:90` or `hip:gfx942` stands for.

    Requires: `name` is `cuda:<compute capability>` or `hip:<architecture>`.

    >>> gpu_target("hip:gfx942")
    GPUTarget(backend='hip', arch='gfx942', warp_size=64)
    """
    backend, _, arch = name.partition(":")
    if backend == "cuda" and arch.isdigit():
        return GPUTarget("cuda", int(arch), 32)
    if backend == "hip" and arch.startswith("gfx"):
        return GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)
    raise ValueError(f"target: {name!r} is neither 'cuda:<capability>' nor 'hip:<architecture>'")


@dataclass(frozen=True)
class KernelSpec:
    """One kernel, of Triton or Gluon, with its argument types, constants and launch options.

    `aligned` names the arguments that are multiples of 16, as Triton's JIT would find at launch.
    """

    name: str
    function: Any
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    aligned: tuple[str, ...]
    options: Mapping[str, int] = field(default_factory=dict)

    def source(self) -> ASTSource:
        """The argument of `triton.compile`."""
        names = list(self.function.arg_names)
        signature = {name: self.signature.get(name, "constexpr") for name in names}
        attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in self.aligned}
        source = GluonASTSource if self.function.is_gluon() else ASTSource
        return source(self.function, signature, constexprs=dict(self.constants), attrs=attributes)


@dataclass(frozen=True)
class Problem:
    """A run of an example on a GPU: `launch` and `reference` give the same named tensors.

    `tolerance` bounds |launch - reference| relative to the largest reference value.
    """

    name: str
    launch: Callable[[], Mapping[str, Any]]
    reference: Callable[[], Mapping[str, Any]]
    tolerance: float = 2e-2
