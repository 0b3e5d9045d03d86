"""Replace stages of a compile by the plugin's: `llir`, and on NVIDIA GPUs also `ptx` and `cubin`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import CodeType
from typing import TYPE_CHECKING, Any

from triton_linear import fallback, garbage
from triton_linear.decisions import ptxas_version
from triton_linear.dialect import triton_versions
from triton_linear.dialect.interfaces import Backend, Metadata, Stages
from triton_linear.setting import Setting

if TYPE_CHECKING:
    from triton_linear.lowering.target.targets import Target

GLUON = "GLUON"
"""Triton's name of the language in which authors write the layouts."""


def are_own(backend: Backend, stages: Stages) -> bool:
    """True if the backend's own `add_stages` made every stage, and no other hook replaced one."""
    add_stages = inspect.unwrap(type(backend).add_stages)
    own = [code for code in add_stages.__code__.co_consts if isinstance(code, CodeType)]
    return all(getattr(stage, "__code__", None) in own for stage in stages.values())


def wrap_stages(
    backend: Backend,
    stages: Stages,
    options: object,
    language: object,
    setting: Setting,
    hook: Callable[[], object] | None = None,
) -> None:
    """Wrap the stages of a compile. If that fails, leave them as they are and warn (strict: raise).

    hook: another hook that was called before with the backend's own stages, and may have changed them.
    """
    if "llir" not in stages:
        return
    with (
        fallback.guarded(setting, "any", str(backend.target)),
        garbage.held_back(),
    ):  # the first time, it imports
        name = target_name(backend, options)
        others = _what_others_do(backend, stages, hook)
        stages.update(_wrapped(stages, options, language, name, setting, others))


def _what_others_do(backend: Backend, stages: Stages, hook: Callable[[], Any] | None) -> str | None:
    """A key of how other hooks changed the stages: "" if they are the backend's own; else the key and hash that
    `hook` gives Triton for its cache; None if it gives none."""
    if are_own(backend, stages):
        return ""
    if hook is None:
        return None
    try:
        key, digest = hook()
    except Exception:  # Triton 3.6 never calls a hook without arguments, so it need not support that
        return None
    return f"{key} {digest}"


def _wrapped(
    stages: Stages,
    options: object,
    language: object,
    target: str,
    setting: Setting,
    others: str | None,
) -> Stages:
    """Our stages, which replace those of the same names.

    others: the key of how other hooks changed the stages; None: it is not known, and nothing is kept on disk.
    """
    from triton_linear.stage import LLIRStage

    stage = LLIRStage(stages["llir"], target, setting, gluon=getattr(language, "name", "") == GLUON)
    if "ptx" not in stages and not ("amdgcn" in stages and setting.options.occupancy):
        return {"llir": stage}
    from triton_linear.kept.assembly import KeptComparisons, KeptDirectives
    from triton_linear.ptxas.fences import with_known_fences
    from triton_linear.ptxas.spills import Maker, Spills, scratch_of

    def applies() -> bool:
        return stage.converted and stage.options.occupancy

    def gpu() -> Target:
        from triton_linear.lowering.target import targets

        return targets.target(stage.target(assembling=True))

    def fails(error: Exception, metadata: Metadata) -> None:
        if setting.options.strict:
            raise error
        kernel = str(metadata.get("name", "unnamed"))
        fallback.warn(setting, kernel, target, error, metadata, done="assembled")

    def assembled() -> str:
        asked = setting.options.register_thresholds
        return f"{triton_versions.found()} {ptxas_version(target)} {options!r} {others} {asked}"

    def compared(ours: Callable[[], Maker], stock: Callable[[], Maker]) -> Spills:
        if setting.options.cache and others is not None:
            stage.comparisons = KeptComparisons(assembled)
        stage.finishes_later = True
        return Spills(ours, stock, stage, fails)

    if "ptx" not in stages:
        made = Maker(stages["amdgcn"], lambda text, _: scratch_of(text) if applies() else None)
        return {"llir": stage, "amdgcn": compared(lambda: made, lambda: made).text}
    stock_ptx = stages["ptx"]

    def ptx(src: object, metadata: Metadata) -> object:
        return with_known_fences(stock_ptx(src, metadata))

    if "cubin" not in stages or not setting.options.occupancy:
        return {"llir": stage, "ptx": ptx}
    from triton_linear.ptxas.registers import Assembler, user_controls_registers

    if user_controls_registers(options):
        return {"llir": stage, "ptx": ptx}
    stock_cubin = stages["cubin"]

    def again() -> AbstractContextManager[None]:
        return stage.phase("assemble again")

    def how() -> str:
        return f"{stage.target(assembling=True)} {assembled()}"

    warps = getattr(options, "num_warps", None)
    decisions = KeptDirectives(how) if setting.options.cache and others is not None else None

    def ours() -> Maker:
        assembler = Assembler(ptx, stock_cubin, applies, gpu, fails, again, decisions, warps)
        return Maker(assembler.ptx, assembler.spilled, assembler.cubin)

    def stock() -> Maker:
        assembler = Assembler(stock_ptx, stock_cubin, bool, gpu, own_warps=warps)
        return Maker(assembler.ptx, assembler.measured, assembler.cubin)

    both = compared(ours, stock)
    return {"llir": stage, "ptx": both.text, "cubin": both.code}


def target_name(backend: Backend, options: object) -> str:
    """Triton's name of what a backend compiles for: `cuda:90`, `hip:gfx942`."""
    arch = str(getattr(options, "arch", None) or backend.target.arch)
    return f"{backend.target.backend}:{arch.removeprefix('sm')}"
