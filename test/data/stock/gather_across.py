"""Two CTAs of a cluster reverse 512 numbers by `tl.gather`; each wants what the other holds.

Stock Triton 3.9.0 compiles that, without a message, to code that reads no other memory, so nothing it
stores can be right. With PyTorch and a GPU that has clusters, the kernel is run as well. The status is 1 where
the fault is seen.
"""

import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def reverse(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.gather(tl.load(x + i), N - 1 - i, 0))


signature = {"x": "*i32", "y": "*i32", "N": "constexpr"}
source = ASTSource(reverse, signature, constexprs={"N": 512})
kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_ctas": 2})
reads = "shared::cluster" in kernel.asm["ptx"]
print("the other CTA's memory is read" if reads else "the other CTA's memory is not read")
wrong = not reads
try:
    import torch
except ImportError:
    torch = None
if torch is not None and torch.cuda.is_available():
    x = torch.arange(512, device="cuda", dtype=torch.int32)
    y = torch.empty_like(x)
    reverse[(1,)](x, y, 512, num_ctas=2)
    right = int((y == x.flip(0)).sum())
    print(f"{right} of 512 numbers are right")
    wrong = right < 512
sys.exit(wrong)
