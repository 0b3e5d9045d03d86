"""A kernel of ours for a contest: what a worker compiles it from, and where it puts it.

A worker starts from stock Triton's TTGIR, so it needs neither the user's source nor its modules. Its result
is in Triton's cache on disk, under a key of its own; a later process that wants the same kernel finds it
there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from triton_linear import unit_arguments
from triton_linear.checked import SPECIALISED
from triton_linear.decisions import kernel_digest, ptxas_version
from triton_linear.dialect import store
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.sources import source_digest
from triton_linear.environment import VARIABLE
from triton_linear.fallback import check_table
from triton_linear.report import Report
from triton_linear.setting import Options, Setting
from triton_linear.unit_arguments import NO_UNITS, UnitArguments
from triton_linear.variants import VARIANTS
from triton_linear.wrapping import target_name

FIRST: Final = "ttgir"
"""The stage whose result a worker starts from."""
_SOURCE: Final = "ttir"
"""The stage before it."""
_LLVM: Final = "llir"
"""The stage of our passes. What follows takes most of a compile, and is alike for the same LLVM IR."""
_BEFORE: Final = ("tensordesc_meta", "triton_version")
"""Metadata that are no options, and that stages before `llir` add."""

Knobs = Mapping[str, Mapping[str, Any]]
"""The values that a program has given Triton's knobs, by group."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else changes compiled kernels: environment variables, knobs, sources of Triton and this package."""

    environment: Mapping[str, str]
    knobs: Knobs
    sources: str

    @classmethod
    def here(cls) -> Surroundings | str:
        """Those of this process; or why a worker cannot have the same."""
        given = _knobs()
        return given if isinstance(given, str) else cls(dict(os.environ), given, _sources())

    def enter(self) -> None:
        """Make a worker's the same. Raises RuntimeError if its sources are others."""
        from triton import knobs  # type: ignore[import-untyped, unused-ignore]

        if _sources() != self.sources:
            raise RuntimeError("the worker found another Triton, or another version of this package")
        for name in os.environ.keys() - self.environment.keys():
            del os.environ[name]
        os.environ.update({**self.environment, VARIABLE: ""})
        for group in _groups():
            values = vars(getattr(knobs, group))
            for name in _plain(values):
                del values[name]
            values.update(self.knobs[group])


_HOOKS: Final = "runtime"
"""The group of knobs with the hooks of launches and compiles."""


def _groups() -> list[str]:
    from triton import knobs

    return [name for name, found in vars(knobs).items() if isinstance(found, knobs.base_knobs)]


def _knobs() -> Knobs | str:
    from triton import knobs

    found: dict[str, dict[str, Any]] = {}
    for group in _groups():
        values = vars(getattr(knobs, group))
        found[group] = _plain(values)
        if group != _HOOKS and (others := values.keys() - found[group].keys()):
            return f"knobs.{group}.{min(others)} is set to an object"
    return found


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that a worker can have as well."""
    return {
        name: value
        for name, value in values.items()
        if value is None or isinstance(value, (bool, int, float, str))
    }


def _sources() -> str:
    import triton

    return f"{triton.__version__} {triton.__file__} {source_digest()}"


@dataclass(frozen=True, slots=True)
class Job:
    """What a kernel of ours is compiled from.

    key: of the kernel in Triton's cache. name: of its files there. ttgir: stock Triton's module. ttir: the one
    before it. units: the arguments that are 1, for which a module of other layouts is made of the TTIR.
    options: those of the backend. metadata: what stock Triton's stages know of the kernel. codes: `digests_of`
    the kernels that take part already, of stock Triton's that of its binary.
    """

    key: str
    name: str
    ttgir: str
    ttir: str
    units: UnitArguments
    options: Mapping[str, Any]
    metadata: Mapping[str, Any]
    target: Any
    language: Any
    setting: Options
    surroundings: Surroundings
    codes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a job. differs: the kernel is in Triton's cache, and is none of those that take part.
    failure: why there is none; "" if the job was done. note: what failed and was done in another way."""

    differs: bool = False
    failure: str = ""
    note: str = ""
    reports: tuple[Report, ...] = ()


def key_of(stock: str, setting: Setting, units: UnitArguments = NO_UNITS) -> str:
    """The key of our version of a kernel. stock: Triton's own key of the kernel. units: the arguments that are
    1 in each launch of it."""
    specialised = f"-{units.parameters}" if units.parameters else ""
    return hashlib.sha256(f"{stock}-{setting.fingerprint}{specialised}".encode()).hexdigest()


def digests_of(kernel: Any) -> set[str]:
    """The digests of a kernel's binary and LLVM IR: others with one of them have the same code."""
    return {_digest(kernel.kernel), _digest(kernel.asm[_LLVM])}


def _digest(code: bytes | str) -> str:
    return hashlib.sha256(code.encode() if isinstance(code, str) else code).hexdigest()


def job_of(
    kernel: Any,
    options: Any,
    key: str,
    setting: Options,
    units: UnitArguments = NO_UNITS,
    codes: Iterable[str] = (),
    surroundings: Surroundings | str | None = None,
) -> Job | str:
    """The job for our version of a kernel of stock Triton's (`CompiledKernel`); or why a worker cannot do it.
    options: those of the backend. codes: `digests_of` other versions. surroundings: those in which stock
    Triton's was compiled; None: the present ones."""
    surroundings = surroundings or Surroundings.here()
    if isinstance(surroundings, str):
        return surroundings
    metadata = kernel.metadata._asdict()
    ttir = kernel.asm.get(_SOURCE, "")
    return Job(
        key,
        kernel.src.name[:150],
        kernel.asm[FIRST],
        ttir,
        units if ttir else NO_UNITS,
        dict(vars(options)),
        {name: metadata[name] for name in _BEFORE if name in metadata},
        metadata["target"],
        kernel.src.language,
        setting,
        surroundings,
        frozenset({_digest(kernel.kernel), *codes}),
    )


def answer_to(job: Job) -> Answer:
    """Compile a job, and put the kernel into Triton's cache. Nothing is launched, and nothing raised."""
    try:
        job.surroundings.enter()
        return _answer(job)
    except Exception as error:
        return Answer(failure=f"{type(error).__name__}: {error}")


def _answer(job: Job) -> Answer:
    from triton_linear.hook import pinned

    with pinned(job.setting) as reports:
        made, note = _compiled(job)
        differs = made is not None and _digest(made.code) not in job.codes
        if made is not None and differs:
            _put(job, made)
    store.write(job.key, {"differs": differs})
    return Answer(differs, note=note, reports=tuple(reports))


@dataclass(frozen=True, slots=True)
class _Made:
    """A compiled kernel. files: the result of each stage by its name. code: the last one, the binary."""

    metadata: dict[str, Any]
    files: dict[str, Any]

    @property
    def code(self) -> bytes | str:
        return list(self.files.values())[-1]  # type: ignore[no-any-return]


def _compiled(job: Job) -> tuple[_Made | None, str]:
    """The kernel, specialised on strides if that can be compiled and fits, None if it is stock Triton's anyway;
    and what failed when it was to be specialised, or ""."""
    note = ""
    if job.units.arguments:
        try:
            made = _made(job, specialised=True)
            if made is not None and _fits(made, job):
                return made, note
        except Exception as error:
            if job.setting.strict:
                raise
            note = f"it is not specialised on strides: {type(error).__name__}: {error}"
    return _made(job, specialised=False), note


def _fits(made: _Made, job: Job) -> bool:
    """True if a kernel has room in shared memory. Raises ValueError for a GPU that is not known."""
    from triton_linear.lowering.target.targets import target

    name = f"{job.target.backend}:{job.target.arch}"
    return bool(made.metadata["shared"] <= target(name).max_shared_bytes)


def _made(job: Job, *, specialised: bool) -> _Made | None:
    """The kernel by all of the backend's stages, from TTIR specialised on strides or from stock Triton's TTGIR;
    None if it is not specialised, or stock Triton's anyway."""
    from triton._C.libtriton import (  # type: ignore[import-untyped, unused-ignore]
        get_cache_invalidating_env_vars,
    )
    from triton.compiler.compiler import make_backend  # type: ignore[import-untyped, unused-ignore]

    from triton_linear.stage import LLIRStage

    backend = make_backend(job.target)
    backend.hash()  # the setting of this thread becomes the backend's
    options = backend.parse_options(dict(job.options))
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, job.language)
    metadata = {"hash": job.key, "target": job.target, **vars(options), **get_cache_invalidating_env_vars()}
    metadata.update(job.metadata)
    files: dict[str, Any] = {FIRST: job.ttgir}
    if not specialised:
        module = _parsed(job.ttgir)
    elif found := _specialised(job, stages[FIRST], metadata):
        module, ttir = found
        files = {_SOURCE: ttir, FIRST: str(module)}
    else:
        return None
    names = list(stages)
    for name in names[names.index(FIRST) + 1 :]:
        stage = stages[name]
        module = files[name] = stage(module, metadata)
        if isinstance(stage, LLIRStage) and not (stage.converted or specialised):
            return None
        if name == _LLVM and _digest(module) in job.codes:
            break  # the binary would be one of those too
    return _Made(metadata, files)


def _specialised(job: Job, stage: Callable[..., Any], metadata: dict[str, Any]) -> tuple[Any, str] | None:
    """The TTGIR that Triton makes of a kernel if it knows which strides are 1, and the TTIR for that; None if
    there are none, or if bits may change.

    stage: Triton's own. metadata: gets what the stage adds, and under `SPECIALISED` the numbers of the strides
    among the arguments of a launch."""
    from triton_linear.dialect import bridge
    from triton_linear.passes.reductions.strides import same_bits, strides

    def upstream(module: Any) -> Any:
        return bridge.to_upstream(module, bridge.upstream_context()).operation

    found = strides(upstream(_parsed(job.ttir)), job.units.parameters)
    if not found:
        return None
    ttir, added = unit_arguments.with_units(job.ttir, found), dict(metadata)
    module = stage(_parsed(ttir), added)
    if not same_bits(upstream(_parsed(job.ttgir)), upstream(module)):
        return None
    metadata.update(added)
    metadata[SPECIALISED] = [number for number, each in zip(*job.units, strict=True) if each in found]
    return module, ttir


def _parsed(text: str) -> Any:
    """A module of Triton's, in a context of its own."""
    from triton_linear.dialect import libtriton

    return libtriton.parse_triton(text, libtriton.triton_context())


def is_decided(kernel: Any, setting: Setting) -> bool:
    """True if there is a decision for a kernel of stock Triton's (`CompiledKernel`): it has no contest.
    One that names a variant of another version of this package is none.

    Raises UnknownTarget for a GPU without a table."""
    from triton.compiler.compiler import make_backend

    if not setting.decisions or FIRST not in kernel.asm:
        return False
    # What comes from JSON has lists for tuples.
    facts = kernel.metadata._asdict().items()
    metadata = {name: tuple(value) if isinstance(value, list) else value for name, value in facts}
    target = target_name(make_backend(metadata["target"]), kernel.metadata)
    check_table(target)  # what such a GPU has, may not be parsed
    text = _parsed(kernel.asm[FIRST]).str_nodebug()
    key = kernel_digest(text, metadata)
    return setting.decisions.variant(key, target, ptxas_version(target)) in VARIANTS


def _put(job: Job, made: _Made) -> None:
    from triton.runtime.cache import get_cache_manager  # type: ignore[import-untyped, unused-ignore]

    cache = get_cache_manager(job.key)
    files = {f"{job.name}.{stage}": result for stage, result in made.files.items()}
    group = {file: cache.put(result, file) for file, result in files.items()}
    index = f"{job.name}.json"
    group[index] = cache.put(json.dumps(made.metadata, default=vars), index, binary=False)
    cache.put_group(index, group)


def found(kernel: Any, key: str) -> Any:
    """Our version of a kernel of stock Triton's in Triton's cache (`CompiledKernel`); None if there is none."""
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime.cache import get_cache_manager

    index = f"{kernel.src.name[:150]}.json"
    group = get_cache_manager(key).get_group(index) or {}
    if index not in group:
        return None
    stock = {file: path for file, path in kernel.metadata_group.items() if not file.endswith(".json")}
    return CompiledKernel(kernel.src, {**stock, **group}, key)
