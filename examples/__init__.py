"""Four kernels as they are used in earnest, for the demo, the benches and the tests.

Every module has the Triton kernels, `compile_specs(target)` to compile them with no GPU, and `problem(device)` to run them
on one against PyTorch. Importing them needs Triton alone; PyTorch is imported by what runs on a GPU.
"""
