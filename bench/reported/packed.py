"""Cases whose weights are brought into another order once, before any launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from triton_linear.dialect.packing import Packing

from ..kernels.case import Inputs
from ..kernels.kernel import Kernel, Tensor
from . import kernels_packed
from .case import Reported

ROWS = (16, 64, 256)
N, K = 16384, 4096
BLOCK_N, BLOCK_K = 128, 128


@dataclass(frozen=True)
class Packed(Kernel):
    """A kernel that takes `w_ptr` as a packing leaves it; its inputs are made as those of the other.

    `least` is added to scales that are exponents, of which 127 stands for one.
    """

    packing: Packing | None = None
    least: int = 0

    def make(self, torch: Any, inputs: Inputs) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """A launch on random input, which gives the outputs."""
        given = {name: tensor.made(inputs) for name, tensor in self.inputs.items()}
        given["scale_ptr"] = given["scale_ptr"] + self.least
        if self.packing is not None:
            given["w_ptr"] = self.packing.pack_nibbles(given["w_ptr"]).contiguous()
        return lambda: list(self.launch(torch, given).values()), ()


PACKING = Packing(
    BLOCK_N,
    BLOCK_K,
    (
        *((0, 3), (1, 3), (1, 0), (1, 4), (1, 5), (1, 1), (1, 2)),
        *((0, 0), (0, 1), (0, 2), (0, 4), (0, 5), (0, 6), (1, 6)),
    ),
)
"""What `triton-linear explain --pack` says of nibbles of either kernel for an H200: a test asks it again."""


def _kernel(name: str, rows: int, packing: Packing | None) -> Kernel:
    integers = name == "int4"
    kind = "float16" if integers else "bfloat16"
    scale = Tensor("float32", (N,)) if integers else Tensor("int8", (N, K // 32), 7, index=True)
    return Packed(
        getattr(kernels_packed, f"{name}_matmul"),
        {"w_ptr": Tensor("int8", (N, K // 2), 128), "scale_ptr": scale, "x_ptr": Tensor(kind, (rows, K))},
        {"out_ptr": Tensor(kind, (rows, N))},
        (N // BLOCK_N, -(-rows // 64)),
        {},
        {
            "N": N,
            "K": K,
            "BLOCK_M": min(rows, 64),
            "BLOCK_N": BLOCK_N,
            "BLOCK_K": BLOCK_K,
            "PACKED": packing is not None,
        },
        {"num_warps": 4, "num_stages": 3},
        packing,
        0 if integers else 120,
    )


def cases() -> Iterator[Reported]:
    """Both kinds of weights, for some numbers of rows of activations."""
    for name in ("int4", "mxfp4"):
        for rows in ROWS:
            yield Reported(
                f"{name}_{rows}",
                "https://github.com/triton-lang/triton/issues/4906",
                "Weights of a few bits are slow to multiply with on A100 and H100: they come through shared "
                "memory as single bytes, since they lie in rows and a thread needs some of many.",
                "A swizzle of mxfp4 weights in the kernels that Triton ships, written by hand for each GPU.",
                _kernel(name, rows, None),
                ("shared loads", "shared stores", "copies"),
                tolerance=2e-3 if name == "int4" else 1.6e-2,
                packed=_kernel(name, rows, PACKING),
            )
