"""Have Inductor's autotuner measure each configuration with the plugin and without it.

Under a setting with the option `autotune`, or without `wait`, three functions of
`torch._inductor.runtime.triton_heuristics` (as in PyTorch 2.13 and 2.14) are wrapped:

- `check_autotune_cache` gets all configurations of a generated kernel: the wrapper passes each of them twice,
  with the marks ON and OFF. Inductor's keys for its choice contain the configurations with their marks;
- `CachingAutotuner._precompile_config` compiles one configuration: the wrapper removes the mark first, and has
  stock Triton compile if it is OFF. The result gets the mark back, and keeps it in further tuning and in the
  file of the best configuration;
- `CachingAutotuner._precompile_worker` compiles all configurations of a kernel: the wrapper drops those without
  the plugin whose binary is the same as with it. So a kernel that the plugin does not change is not measured.

Inductor measures on copies of the tensors that a kernel writes, so a kernel with one configuration is
measured too. If Inductor is told to be deterministic, nothing is measured. The wrappers are not removed when
such a setting ends, since configurations of kernels generated under it have marks. They leave others alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from triton_linear.autotuner import (
    OFF,
    ON,
    mark_of,
    marked,
    missing,
    warn_unsupported,
    with_and_without,
    wrapped,
)

MODULE = "torch._inductor.runtime.triton_heuristics"
_PARAMETERS = {
    "check_autotune_cache": ("configs", "filename", "inductor_meta"),
    "CachingAutotuner._precompile_config": ("self", "cfg"),
    "CachingAutotuner._precompile_worker": ("self",),
}
"""The wrapped functions and their first parameters; others have defaults, and are passed on."""
_DETERMINISTIC = ("deterministic", "are_deterministic_algorithms_enabled")
_WRAPPED = "_triton_linear_tunes"


def wrap() -> None:
    """Wrap Inductor's functions, unless they are wrapped or not yet imported."""
    module: Any = sys.modules.get(MODULE)
    if module is None or hasattr(module, _WRAPPED):
        return
    setattr(module, _WRAPPED, True)
    if lacking := missing(module, _PARAMETERS):
        return warn_unsupported("torch.compile", f"its Inductor has no {lacking}")
    tuner = module.CachingAutotuner
    module.check_autotune_cache = wrapped(module.check_autotune_cache, _check_autotune_cache)
    tuner._precompile_config = wrapped(tuner._precompile_config, _precompile_config)
    tuner._precompile_worker = wrapped(tuner._precompile_worker, _precompile_worker)
    return None


def _check_autotune_cache(
    stock: Callable[..., Any],
    configs: Sequence[Any],
    filename: str | None,
    inductor_meta: Mapping[str, Any],
    *rest: Any,
    **more: Any,
) -> Any:
    if filename is not None and _applies(configs, inductor_meta):
        configs = with_and_without(configs, ON)
    return stock(configs, filename, inductor_meta, *rest, **more)


def _applies(configs: Sequence[Any], inductor_meta: Mapping[str, Any]) -> bool:
    from triton_linear.hook import _state

    setting = _state.current()
    return (
        setting is not None
        and setting.options.autotunes
        and os.environ.get("TRITON_INTERPRET", "0") != "1"
        and not any(map(mark_of, configs))
        and not any(inductor_meta.get(name) for name in _DETERMINISTIC)
    )


def _precompile_config(stock: Callable[..., Any], tuner: Any, cfg: Any, *rest: Any, **more: Any) -> Any:
    mark = mark_of(cfg)
    if mark is None:
        return stock(tuner, cfg, *rest, **more)
    from triton_linear.hook import _state

    with _state.pinned(None) if mark == OFF else nullcontext():
        result = stock(tuner, marked(cfg, None), *rest, **more)
    result.config = cfg
    return result


def _precompile_worker(stock: Callable[..., Any], tuner: Any, *rest: Any, **more: Any) -> None:
    compiled = bool(tuner.compile_results)
    stock(tuner, *rest, **more)
    if not compiled:
        tuner.compile_results = _drop_same_binaries(tuner.compile_results)


def _drop_same_binaries(results: Sequence[Any]) -> list[Any]:
    """The compiled configurations except those without the plugin whose binary is the same as with it."""
    ours = {str(marked(each.config, None)): _binary(each) for each in results if mark_of(each.config) == ON}

    def is_other(result: Any) -> bool:
        if mark_of(result.config) != OFF:
            return True
        binary = ours.get(str(marked(result.config, None)))
        return binary is None or binary != _binary(result)

    return [each for each in results if is_other(each)]


def _binary(result: Any) -> object:
    """The binary of a compiled configuration, as either kind of launcher has it; None if it is not found."""
    kernel = result.kernel
    for name in ("kernel", "cubin_raw"):
        if isinstance(code := getattr(kernel, name, None), bytes):
            return code
    path = getattr(kernel, "cubin_path", None)
    try:
        return None if path is None else Path(path).read_bytes()
    except OSError:
        return None
