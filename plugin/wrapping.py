"""What the plugin puts in the places of a compile's stages: `llir`, and where registers have a say `ptx` and
`cubin`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from triton_linear import fallback, garbage
from triton_linear.decisions import ptxas_version
from triton_linear.dialect import triton_versions
from triton_linear.interfaces import Backend, Metadata, Stages
from triton_linear.setting import Setting

if TYPE_CHECKING:
    from triton_linear.lowering.target.targets import Target

GLUON = "GLUON"
"""The name of the language, among Triton's, in which authors write layouts."""


def wrap_stages(backend: Backend, stages: Stages, options: object, language: object, setting: Setting) -> None:
    """Put the plugin into the stages of a compile; where it fails to, they stay (strict: it is raised)."""
    if "llir" not in stages:
        return
    name = str(backend.target)
    try:
        name = target_name(backend, options)
        with garbage.held_back():  # the first time, it imports
            stages.update(_wrapped(stages, options, language, name, setting))
    except Exception as error:
        if setting.options.strict:
            raise
        fallback.warn(setting, "any", name, error, {})


def _wrapped(stages: Stages, options: object, language: object, target: str, setting: Setting) -> Stages:
    """The stages that take the places of those of the same names."""
    from triton_linear.stage import LLIRStage

    stage = LLIRStage(stages["llir"], target, setting, gluon=getattr(language, "name", "") == GLUON)
    if not ({"ptx", "cubin"} <= stages.keys() and setting.options.occupancy):
        return {"llir": stage}
    from triton_linear.kept.comparisons import KeptComparisons
    from triton_linear.kept.registers import KeptDirectives
    from triton_linear.ptxas.registers import Assembler, has_say
    from triton_linear.ptxas.veto import Veto

    if has_say(options):
        return {"llir": stage}
    every = setting.options.everywhere

    def fails(error: Exception, metadata: Metadata) -> None:
        if setting.options.strict:
            raise error
        kernel = str(metadata.get("name", "unnamed"))
        fallback.warn(setting, kernel, target, error, metadata, done="assembled")

    def applies() -> bool:
        return (every or stage.converted) and stage.options.occupancy and not stage.vetoed

    def gpu() -> Target:
        from triton_linear.lowering.target import targets

        return targets.target(stage.planned_for)

    def again() -> AbstractContextManager[None]:
        return stage.phase("assemble again")

    def assembled() -> str:
        return f"{triton_versions.found()} {ptxas_version(target)} {options!r}"

    def how() -> str:
        return f"{stage.planned_for} {assembled()}"

    decisions, warps = None, getattr(options, "num_warps", None)
    if setting.options.cache:
        decisions, stage.comparisons = KeptDirectives(how), KeptComparisons(assembled)
    assembler = Assembler(stages["ptx"], stages["cubin"], applies, gpu, fails, again, decisions, warps)
    veto = Veto(assembler, stages["ptx"], stages["cubin"], stage, fails)
    stage.awaited = True
    return {"llir": stage, "ptx": veto.ptx, "cubin": veto.cubin}


def target_name(backend: Backend, options: object) -> str:
    """Triton's name of what a backend compiles for: `cuda:90`, `hip:gfx942`."""
    arch = str(getattr(options, "arch", None) or backend.target.arch)
    return f"{backend.target.backend}:{arch.removeprefix('sm')}"
