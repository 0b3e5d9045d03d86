"""Imports that every probe needs, loaded once in the process from which the probes' processes are forked.

If one fails, the probe that needs it reports the error.
"""

from contextlib import suppress

with suppress(Exception):
    from triton.backends import backends

    from triton_linear.tools.support import compile

    assert backends and compile
