"""Random layout conversions on a GPU, as stock Triton compiles them and as the plugin does, bit for bit.

`python -m bench.gpu_random` runs them; `python -m bench.gpu_random --help` lists its options.
"""
