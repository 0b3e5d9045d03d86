"""Replace stages of a compile by the plugin's: `llir`, and on NVIDIA GPUs also `ptx` and `cubin`."""

from __future__ import annotations

import inspect
from types import CodeType
from typing import TYPE_CHECKING

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
) -> None:
    """Wrap the stages of a compile. If that fails, leave them as they are and warn (strict: raise)."""
    if "llir" not in stages:
        return
    with (
        fallback.guarded(setting, "any", str(backend.target)),
        garbage.held_back(),
    ):  # the first time, it imports
        name = target_name(backend, options)
        stages.update(_wrapped(stages, options, language, name, setting, own=are_own(backend, stages)))


def _wrapped(
    stages: Stages,
    options: object,
    language: object,
    target: str,
    setting: Setting,
    *,
    own: bool,
) -> Stages:
    """Our stages, which replace those of the same names. own: the backend's own are all there; else nothing is
    kept on disk of what ptxas does best."""
    from triton_linear.stage import LLIRStage

    stage = LLIRStage(stages["llir"], target, setting, gluon=getattr(language, "name", "") == GLUON)
    if "ptx" not in stages and not ("amdgcn" in stages and setting.options.occupancy):
        return {"llir": stage}
    from triton_linear.ptxas.registers import Assembler, user_controls_registers
    from triton_linear.spills import Scratch, Spills

    def is_ours() -> bool:
        return stage.converted and stage.options.occupancy

    def fails(error: Exception, metadata: Metadata) -> None:
        if setting.options.strict:
            raise error
        kernel = str(metadata.get("name", "unnamed"))
        fallback.warn(setting, kernel, target, error, metadata, done="assembled")

    if "ptx" not in stages:
        stage.finishes_later = True
        scratch = Scratch(stages["amdgcn"])
        return {"llir": stage, "amdgcn": Spills(lambda _: scratch, stage, is_ours, fails).text}
    ptx, stock_cubin = stages["ptx"], stages.get("cubin")
    if stock_cubin is None or not setting.options.occupancy or user_controls_registers(options):
        return {"llir": stage}

    def gpu() -> Target:
        from triton_linear.lowering.target import targets

        return targets.target(stage.target(assembling=True))

    def how() -> str:
        asked = f"{stage.target(assembling=True)} {setting.options.register_thresholds}"
        return f"{asked} {triton_versions.found()} {ptxas_version(target)} {options!r}"

    def assembly(ours: bool) -> Assembler:
        if not ours:
            return Assembler(ptx, stock_cubin)
        return Assembler(
            ptx,
            stock_cubin,
            gpu if is_ours() else None,
            fails=fails,
            again=lambda: stage.phase("assemble again"),
            how=how if setting.options.cache and own else None,
            own_warps=getattr(options, "num_warps", None),
        )

    stage.finishes_later = True
    both = Spills(assembly, stage, is_ours, fails)
    return {"llir": stage, "ptx": both.text, "cubin": both.code}


def target_name(backend: Backend, options: object) -> str:
    """Triton's name of what a backend compiles for: `cuda:90`, `hip:gfx942`."""
    arch = str(getattr(options, "arch", None) or backend.target.arch)
    return f"{backend.target.backend}:{arch.removeprefix('sm')}"
