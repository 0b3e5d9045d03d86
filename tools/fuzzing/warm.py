"""What every module's process needs: imported once by the process from which the others are forked."""

from triton.backends import backends

assert backends
