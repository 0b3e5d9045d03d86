"""Compiles TTGIR to PTX with a Triton that has no linear layouts: 2.1 or 3.0.

    python bench/legacy/old.py CAPABILITY:FILE.ttgir...

Run by a Python that has that Triton, and nothing of this project. Prints JSON: the version, and by file the PTX
and the bytes of shared memory.
"""

import json
import sys


def compiled(path, capability):
    """The PTX of a module and its shared memory."""
    import triton

    if triton.__version__.startswith("2.1"):
        from triton._C.libtriton.triton import get_shared_memory_size, ir
        from triton.compiler import compiler

        module = ir.parse_mlir_module(path, context := ir.context())
        module.context = context
        llvm = compiler.translate_triton_gpu_to_llvmir(module, capability, False)
        return compiler.translate_llvmir_to_ptx(llvm, capability, 80), get_shared_memory_size(module)
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend

    backend = CUDABackend(GPUTarget("cuda", capability, 32))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = ir.parse_mlir_module(path, context)
    module.context = context
    options = backend.parse_options({"num_warps": 4, "ptx_version": 80})
    metadata = {"num_warps": 4}
    llvm = backend.make_llir(module, metadata, options, capability)
    return backend.make_ptx(llvm, metadata, options, capability), metadata["shared"]


def main():
    """Compile what the command line names."""
    import triton

    found = {}
    for argument in sys.argv[1:]:
        capability, _, path = argument.partition(":")
        ptx, shared = compiled(path, int(capability))
        found[path] = {"ptx": ptx, "shared": shared}
    print(json.dumps({"version": triton.__version__, "files": found}))


main()
