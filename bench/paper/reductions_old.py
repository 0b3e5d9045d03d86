"""Compiles a TTGIR module to PTX with Triton 3.0: python bench/paper/reductions_old.py FILE.ttgir

Run by a Python that has that Triton, and nothing of this project. Prints JSON.
"""

import json
import sys

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend

CAPABILITY, WARPS = 90, 4


def main() -> None:
    """Compile what the command line names."""
    backend = CUDABackend(GPUTarget("cuda", CAPABILITY, 32))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = ir.parse_mlir_module(sys.argv[1], context)
    module.context = context
    options = backend.parse_options({"num_warps": WARPS, "ptx_version": 80})
    metadata = {"num_warps": WARPS}
    llvm = backend.make_llir(module, metadata, options, CAPABILITY)
    ptx = backend.make_ptx(llvm, metadata, options, CAPABILITY)
    print(json.dumps({"ptx": ptx, "shared": metadata["shared"]}))


main()
