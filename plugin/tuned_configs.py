"""What Triton's autotuner and Inductor's are changed by: configurations with a mark, which tells whether to
compile with the plugin or without it.

The mark is one of a configuration's `kwargs`. Triton's and Inductor's autotuners copy, print and cache these
with the configuration. The wrapped functions that launch or compile a configuration remove the mark first.
"""

from __future__ import annotations

import copy
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from triton_linear.report import LimitWarning

MARK: Final = "triton_linear"
"""The name of the mark among `kwargs`; its value is ON or OFF."""
ON: Final = "on"
OFF: Final = "off"


def mark_of(config: Any) -> str | None:
    """The mark of a configuration; None if it has none."""
    found: str | None = (getattr(config, "kwargs", None) or {}).get(MARK)
    return found


def marked(config: Any, mark: str | None) -> Any:
    """A copy of a configuration with this mark, or without a mark if None."""
    made = copy.copy(config)
    made.kwargs = {name: value for name, value in config.kwargs.items() if name != MARK}
    if mark is not None:
        made.kwargs[MARK] = mark
    return made


def with_and_without(configs: Sequence[Any], on: str | None) -> list[Any]:
    """All configurations with the plugin, then all without it; so of equally fast ones, that with it is chosen.

    on: the mark of those with the plugin; None: they are the objects in `configs`, without a mark.

    >>> from types import SimpleNamespace
    >>> [mark_of(each) for each in with_and_without([SimpleNamespace(kwargs={"BLOCK": 64})], ON)]
    ['on', 'off']
    """
    first = list(configs) if on is None else [marked(config, on) for config in configs]
    return first + [marked(config, OFF) for config in configs]


def missing(owner: Any, functions: Mapping[str, tuple[str, ...]]) -> str:
    """The first of these functions that an autotuner lacks; "" if it has all.

    functions: by their path from `owner`, the first parameters of each. All others must have defaults."""
    for path, names in functions.items():
        found = functools.reduce(lambda holder, name: getattr(holder, name, None), path.split("."), owner)
        given = [] if found is None else list(inspect.signature(found).parameters.values())
        rest = given[len(names) :]
        if tuple(each.name for each in given[: len(names)]) != names or any(
            each.default is each.empty for each in rest
        ):
            return f"{path}({', '.join(names)})"
    return ""


def wrapped(stock: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls `ours` with `stock` before the arguments."""

    @functools.wraps(stock)
    def call(*args: Any, **kwargs: Any) -> Any:
        return ours(stock, *args, **kwargs)

    return call


def warn_unsupported(whose: str, reason: str) -> None:
    """Warn that an autotuner measures as without the plugin."""
    text = f"measuring both ways does nothing for {whose}: {reason}"
    warnings.warn(f"triton_linear: {text}", LimitWarning, stacklevel=4)
