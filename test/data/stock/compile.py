"""Compile a module by stock Triton alone: python compile.py FILE.ttgir"""

import sys

import triton
from triton.backends.compiler import GPUTarget

triton.compile(sys.argv[1], target=GPUTarget("cuda", 90, 32))
print("compiled")
