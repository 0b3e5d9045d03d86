"""Inductor's autotuner: each configuration with the plugin and without, where a setting asks for that.

In `torch._inductor.runtime.triton_heuristics`, as it is in PyTorch 2.13:

- `check_autotune_cache` sees all configurations of a kernel that is generated: it gets each of them twice,
  marked. Inductor keeps its choice under keys that have these in them;
- `CachingAutotuner._precompile_config` compiles one: the mark is taken out for that, and stock Triton compiles
  where it says so. What is compiled goes on with the mark, through further tuning and into the file that keeps
  the best;
- `CachingAutotuner._precompile_worker` compiles all of a kernel: those without the plugin go that are no other
  binary than with it, so a kernel that the plugin leaves as it is is not measured for it.

Inductor measures on copies of what a kernel writes, so it can do that for kernels with one configuration too.
Where it is to be deterministic, nothing is measured. The wrappers stay, and do nothing where no setting with
`autotune` is in force: what was generated under one has marks.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_linear.report import LimitWarning
from triton_linear.tuned_configs import OFF, ON, mark_of, marked, with_and_without

MODULE = "torch._inductor.runtime.triton_heuristics"
_FUNCTIONS = {
    "check_autotune_cache": ("configs", "filename", "inductor_meta"),
    "CachingAutotuner._precompile_config": ("self", "cfg"),
    "CachingAutotuner._precompile_worker": ("self",),
}
"""What is wrapped, and its parameters."""
_DETERMINISTIC = ("deterministic", "are_deterministic_algorithms_enabled")
_WRAPPED = "_triton_linear_tunes"


def wrap() -> None:
    """Wrap Inductor's functions, if they are imported and not wrapped yet."""
    module: Any = sys.modules.get(MODULE)
    if module is None or hasattr(module, _WRAPPED):
        return
    setattr(module, _WRAPPED, True)
    if reason := _unknown(module):
        text = f"autotune=True does nothing for torch.compile: {reason}"
        warnings.warn(f"triton_linear: {text}", LimitWarning, stacklevel=3)
        return
    autotuner = module.CachingAutotuner
    module.check_autotune_cache = _offering(module.check_autotune_cache)
    autotuner._precompile_config = _compiling(autotuner._precompile_config)
    autotuner._precompile_worker = _dropping(autotuner._precompile_worker)


def _unknown(module: Any) -> str | None:
    """Why it is not known how to have Inductor try both; None where it is."""
    for path, parameters in _FUNCTIONS.items():
        found = functools.reduce(lambda owner, name: getattr(owner, name, None), path.split("."), module)
        if found is None or tuple(inspect.signature(found).parameters) != parameters:
            return f"its Inductor has no {path}({', '.join(parameters)})"
    return None


def _offering(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def check_autotune_cache(
        configs: Sequence[Any], filename: str | None, inductor_meta: Mapping[str, Any]
    ) -> Any:
        if filename is not None and _applies(configs, inductor_meta):
            configs = with_and_without(configs, ON)
        return stock(configs, filename, inductor_meta)

    return check_autotune_cache


def _applies(configs: Sequence[Any], inductor_meta: Mapping[str, Any]) -> bool:
    from triton_linear.hook import _state

    setting = _state.current()
    return (
        setting is not None
        and setting.options.autotune
        and os.environ.get("TRITON_INTERPRET", "0") != "1"
        and not any(map(mark_of, configs))
        and not any(inductor_meta.get(name) for name in _DETERMINISTIC)
    )


def _compiling(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def _precompile_config(tuner: Any, cfg: Any) -> Any:
        mark = mark_of(cfg)
        if mark is None:
            return stock(tuner, cfg)
        from triton_linear.hook import _state

        if mark == OFF:
            with _state.pinned(None):
                result = stock(tuner, marked(cfg, None))
        else:
            result = stock(tuner, marked(cfg, None))
        result.config = cfg
        return result

    return _precompile_config


def _dropping(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def _precompile_worker(tuner: Any) -> None:
        compiled = bool(tuner.compile_results)
        stock(tuner)
        if not compiled:
            tuner.compile_results = _different(tuner.compile_results)

    return _precompile_worker


def _different(results: Sequence[Any]) -> list[Any]:
    """What was compiled, less those without the plugin that are the same binary as with it."""
    ours = {str(marked(each.config, None)): _binary(each) for each in results if mark_of(each.config) == ON}

    def is_other(result: Any) -> bool:
        if mark_of(result.config) != OFF:
            return True
        binary = ours.get(str(marked(result.config, None)))
        return binary is None or binary != _binary(result)

    return [each for each in results if is_other(each)]


def _binary(result: Any) -> object:
    """The binary of something compiled, as either kind of launcher has it; None where it is not known."""
    kernel = result.kernel
    for name in ("kernel", "cubin_raw"):
        if isinstance(code := getattr(kernel, name, None), bytes):
            return code
    path = getattr(kernel, "cubin_path", None)
    try:
        return None if path is None else Path(path).read_bytes()
    except OSError:
        return None
