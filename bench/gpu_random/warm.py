"""What every compile of a process pays once: imported by the process from which the others are forked."""

from triton.backends.nvidia.compiler import get_ptxas_version
from triton.runtime.cache import triton_key

import triton_linear.lowering.emit.embed
import triton_linear.passes.attempts  # noqa: F401

triton_key()  # Hashes all of libtriton.
get_ptxas_version(90)
