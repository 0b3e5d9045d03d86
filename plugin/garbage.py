"""Disable Python's garbage collector while the plugin works.

The collector scans new objects after every few hundred allocations, and sometimes all objects of the process:
20 to 30 ms if Triton is imported. The passes and their imports make tens of thousands of objects, but hardly
any reference cycles, so the collector would run often and free nothing.
"""

from __future__ import annotations

import gc

from triton_linear.dialect.blocks import Blocks

_stopped = False


def _settle(is_open: bool) -> None:
    """Disable the collector, unless it is disabled, while a block is open. `_stopped` is set before and reset
    after, since another thread may fork in between."""
    global _stopped  # noqa: PLW0603
    if is_open and not _stopped and gc.isenabled():
        _stopped = True
        gc.disable()
    elif not is_open and _stopped:
        gc.enable()
        _stopped = False


held_back = Blocks(_settle).block
"""Within the block, no thread collects garbage, except by calling `gc.collect`."""
