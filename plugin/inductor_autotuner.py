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
    if reason := _unsupported_reason(module):
        text = f"measuring both ways does nothing for torch.compile: {reason}"
        warnings.warn(f"triton_linear: {text}", LimitWarning, stacklevel=3)
        return
    autotuner = module.CachingAutotuner
    module.check_autotune_cache = _wrap_check_autotune_cache(module.check_autotune_cache)
    autotuner._precompile_config = _wrap_precompile_config(autotuner._precompile_config)
    autotuner._precompile_worker = _wrap_precompile_worker(autotuner._precompile_worker)


def _unsupported_reason(module: Any) -> str | None:
    """The reason why this Inductor is not supported; None if it is."""
    for path, parameters in _PARAMETERS.items():
        found = functools.reduce(lambda owner, name: getattr(owner, name, None), path.split("."), module)
        if found is None or not _begins(inspect.signature(found), parameters):
            return f"its Inductor has no {path}({', '.join(parameters)})"
    return None


def _begins(signature: inspect.Signature, names: tuple[str, ...]) -> bool:
    """True if a function has these parameters, and then only some with defaults."""
    given = list(signature.parameters.values())
    rest = given[len(names) :]
    return tuple(each.name for each in given[: len(names)]) == names and all(
        each.default is not each.empty for each in rest
    )


def _wrap_check_autotune_cache(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def check_autotune_cache(
        configs: Sequence[Any], filename: str | None, inductor_meta: Mapping[str, Any], *rest: Any, **more: Any
    ) -> Any:
        if filename is not None and _applies(configs, inductor_meta):
            configs = with_and_without(configs, ON)
        return stock(configs, filename, inductor_meta, *rest, **more)

    return check_autotune_cache


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


def _wrap_precompile_config(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def _precompile_config(tuner: Any, cfg: Any, *rest: Any, **more: Any) -> Any:
        mark = mark_of(cfg)
        if mark is None:
            return stock(tuner, cfg, *rest, **more)
        from triton_linear.hook import _state

        if mark == OFF:
            with _state.pinned(None):
                result = stock(tuner, marked(cfg, None), *rest, **more)
        else:
            result = stock(tuner, marked(cfg, None), *rest, **more)
        result.config = cfg
        return result

    return _precompile_config


def _wrap_precompile_worker(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def _precompile_worker(tuner: Any, *rest: Any, **more: Any) -> None:
        compiled = bool(tuner.compile_results)
        stock(tuner, *rest, **more)
        if not compiled:
            tuner.compile_results = _drop_same_binaries(tuner.compile_results)

    return _precompile_worker


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
