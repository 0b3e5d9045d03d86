"""Whole kernels, by `torch.compile` and written by hand, timed with stock Triton and the plugin side by side.

`python -m bench.kernels` runs the suite; `python -m bench.kernels --help` lists its options.
"""
