"""out = x^T for a matrix of 16-bit floats in Gluon, with layouts of several authors.

    python -m triton_linear.examples.gluon_transpose     # what each choice costs; with a GPU, its time

There is one kernel; the layouts are its arguments. The first three choices are layouts as people write them.
The last is the suggestion of `triton_linear.gluon`: `suggest_load_layout` for the load and the store, and
`suggest_shared_layout` for the memory between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import triton
import triton.experimental.gluon.language as gl
from triton.experimental import gluon

from triton_linear import gluon as toolbox

BLOCK = 64
WARPS = 4
SHAPE = (BLOCK, BLOCK)


@gluon.jit
def transpose_kernel(
    x_ptr, out_ptr, m, n, BLOCK: gl.constexpr, LOAD: gl.constexpr, SHARED: gl.constexpr, STORE: gl.constexpr
):
    """One tile: `x` is [m, n], `out` [n, m], both contiguous, `m` and `n` multiples of BLOCK."""
    first_row, first_column = gl.program_id(0) * BLOCK, gl.program_id(1) * BLOCK
    rows = first_row + gl.arange(0, BLOCK, gl.SliceLayout(1, LOAD))
    columns = first_column + gl.arange(0, BLOCK, gl.SliceLayout(0, LOAD))
    tile = gl.load(x_ptr + rows[:, None] * n + columns[None, :])
    memory = gl.allocate_shared_memory(tile.dtype, [BLOCK, BLOCK], SHARED, tile)
    turned = memory.load(STORE)
    rows = first_row + gl.arange(0, BLOCK, gl.SliceLayout(1, STORE))
    columns = first_column + gl.arange(0, BLOCK, gl.SliceLayout(0, STORE))
    gl.store(out_ptr + columns[None, :] * m + rows[:, None], turned)


@dataclass(frozen=True)
class Layouts:
    """The layouts of the loaded registers, of the shared memory, and of the stored registers."""

    load: Any
    shared: Any
    store: Any

    def constants(self) -> dict[str, Any]:
        """The kernel's constexpr arguments."""
        return {"BLOCK": BLOCK, "LOAD": self.load, "SHARED": self.shared, "STORE": self.store}

    def reports(self) -> tuple[toolbox.BankReport, toolbox.BankReport]:
        """The bank conflicts of writing and of reading the shared memory."""
        return tuple(  # type: ignore[return-value]
            toolbox.bank_conflicts(self.shared, registers, SHAPE, "f16")
            for registers in (self.load, self.store)
        )


def choices() -> Mapping[str, Layouts]:
    """The choices of layouts, by name; the first is the baseline."""
    plain = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    rows, columns = (
        gl.BlockedLayout([1, 1], [1, 32], [WARPS, 1], [1, 0]),
        gl.BlockedLayout([1, 1], [32, 1], [1, WARPS], [0, 1]),
    )
    wide_rows, wide_columns = (
        gl.BlockedLayout([1, 8], [4, 8], [WARPS, 1], [1, 0]),
        gl.BlockedLayout([8, 1], [8, 4], [1, WARPS], [0, 1]),
    )
    load = toolbox.suggest_load_layout(SHAPE, "f16", [1, 0], WARPS).layout
    store = toolbox.suggest_load_layout(SHAPE, "f16", [0, 1], WARPS).layout
    shared = toolbox.suggest_shared_layout([load], [store], SHAPE, "f16").layout
    return {
        "an element a thread, plain memory": Layouts(rows, plain, columns),
        "vectors, plain memory": Layouts(wide_rows, plain, wide_columns),
        "vectors, swizzled as for a matrix product": Layouts(
            wide_rows, gl.SwizzledSharedLayout(8, 1, 8, [1, 0]), wide_columns
        ),
        "suggested": Layouts(load, shared, store),
    }


def transpose(x: Any, layouts: Layouts) -> Any:
    """The transpose of `x` [m, n], of 16-bit floats and contiguous, sizes multiples of BLOCK."""
    import torch

    m, n = x.shape
    if x.dtype != torch.float16 or not x.is_contiguous() or m % BLOCK or n % BLOCK:
        raise ValueError(f"transpose: {list(x.shape)} of {x.dtype} is not contiguous tiles of float16")
    out = torch.empty(n, m, device=x.device, dtype=x.dtype)
    transpose_kernel[m // BLOCK, n // BLOCK](x, out, m, n, **layouts.constants(), num_warps=WARPS)
    return out


def checked(layouts: Layouts, size: int) -> Any:
    """Check the transpose of size x size distinct bit patterns, and return a function that repeats it."""
    import torch

    x = torch.arange(size * size, device="cuda", dtype=torch.int32).to(torch.int16).view(torch.float16)
    x = x.view(size, size)
    if not torch.equal(transpose(x, layouts).view(torch.int16), x.T.contiguous().view(torch.int16)):
        raise AssertionError("the transpose is wrong")
    return lambda: transpose(x, layouts)


def has_gpu() -> bool:
    """Whether PyTorch finds a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def main() -> None:
    """Print every choice with its bank conflicts and, if there is a GPU, its time for 8192 x 8192."""
    for name, layouts in choices().items():
        print(name)
        for what, report in zip(("written", "read"), layouts.reports(), strict=True):
            print(f"  {what}: {report}")
        if has_gpu():
            milliseconds = triton.testing.do_bench(checked(layouts, 8192), return_mode="median")
            print(f"  {milliseconds:.3f} ms")


if __name__ == "__main__":
    main()
