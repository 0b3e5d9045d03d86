"""Configurations of autotuners, marked as those with the plugin or without.

The mark is one of a configuration's `kwargs`: both autotuners carry these along wherever a configuration goes,
print them, and keep them in their caches on disk. What launches or compiles takes the mark out again.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

MARK: Final = "triton_linear"
"""The name among `kwargs`; its value is ON or OFF."""
ON: Final = "on"
OFF: Final = "off"


def mark_of(config: Any) -> str | None:
    """The mark of a configuration; None where it has none."""
    found: str | None = (getattr(config, "kwargs", None) or {}).get(MARK)
    return found


def marked(config: Any, mark: str | None) -> Any:
    """A copy of a configuration with another mark; None takes it out."""
    made = copy.copy(config)
    made.kwargs = {name: value for name, value in config.kwargs.items() if name != MARK}
    if mark is not None:
        made.kwargs[MARK] = mark
    return made


def with_and_without(configs: Sequence[Any], on: str | None) -> list[Any]:
    """Each configuration with the plugin and without; those with it come first, and count where both are equal.

    on: the mark of the first; None leaves them the objects that they are.

    >>> from types import SimpleNamespace
    >>> [mark_of(each) for each in with_and_without([SimpleNamespace(kwargs={"BLOCK": 64})], ON)]
    ['on', 'off']
    """
    first = list(configs) if on is None else [marked(config, on) for config in configs]
    return first + [marked(config, OFF) for config in configs]
