"""What every probe's process needs, imported once by the process from which they are forked.

What cannot be imported is said by the probe that needs it.
"""

from contextlib import suppress

with suppress(Exception):
    from triton.backends import backends

    import triton_linear.tools.fuzzing.run
    from triton_linear.tools.support import compile

    assert backends and triton_linear.tools.fuzzing.run and compile
