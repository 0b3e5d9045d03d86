"""A kernel of ours for a contest: what a worker compiles it from, and where it puts it.

A worker starts from stock Triton's TTGIR, so it needs neither the user's source nor its modules. Its result
is in Triton's cache on disk, under a key of its own; a later process that wants the same kernel finds it
there, and its contest's winner (`kept.store`)."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from triton_linear.dialect.records import dataclass
from triton_linear.kept import store
from triton_linear.report import Report
from triton_linear.setting import Options, Setting

_FIRST: Final = "ttgir"
"""The stage whose result a worker starts from."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a kernel of ours is compiled from.

    key: of the kernel in Triton's cache. name: of its files there. ttgir: stock Triton's module. options:
    those of the backend. metadata: what stock Triton's stages know of the kernel. environment: variables that
    change what Triton compiles; a worker in which they have other values compiles nothing. code: the digest
    of stock Triton's binary."""

    key: str
    name: str
    ttgir: str
    options: Mapping[str, Any]
    metadata: Mapping[str, Any]
    target: Any
    language: Any
    setting: Options
    environment: Mapping[str, Any]
    code: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a job. differs: the kernel is in Triton's cache, and is another one than stock Triton's.
    failure: why there is none; "" if the job was done."""

    differs: bool = False
    failure: str = ""
    reports: tuple[Report, ...] = ()


def key_of(stock: str, setting: Setting) -> str:
    """The key of our version of a kernel. stock: Triton's own key of the kernel."""
    return hashlib.sha256(f"{stock}-{setting.fingerprint}".encode()).hexdigest()


def code_digest(binary: bytes) -> str:
    """What two kernels with the same code have in common."""
    return hashlib.sha256(binary).hexdigest()


def environment() -> dict[str, Any]:
    """What changes the kernels that Triton compiles in this process."""
    from triton._C.libtriton import (  # type: ignore[import-untyped, unused-ignore]
        get_cache_invalidating_env_vars,
    )

    return dict(get_cache_invalidating_env_vars())


def job_of(kernel: Any, options: Any, key: str, setting: Options) -> Job:
    """The job for our version of a kernel of stock Triton's (`CompiledKernel`). options: those of the
    backend."""
    metadata = kernel.metadata._asdict()
    before = {name: metadata[name] for name in _BEFORE if name in metadata}
    binary = kernel.kernel
    return Job(
        key,
        kernel.src.name[:150],
        kernel.asm[_FIRST],
        dict(vars(options)),
        before,
        metadata["target"],
        kernel.src.language,
        setting,
        environment(),
        code_digest(binary),
    )


_BEFORE: Final = ("tensordesc_meta", "triton_version")
"""Metadata that are no options, and that stages before `llir` add."""


def answer_to(job: Job) -> Answer:
    """Compile a job, and put the kernel into Triton's cache. Nothing is launched, and nothing raised."""
    try:
        return _answer(job)
    except Exception as error:
        return Answer(failure=f"{type(error).__name__}: {error}")


def _answer(job: Job) -> Answer:
    from triton_linear.hook import pinned

    if environment() != job.environment:
        return Answer(
            failure="the environment variables that Triton follows have changed since this process started"
        )
    with pinned(job.setting) as reports:
        made = _compiled(job)
        differs = made is not None and code_digest(made[1]) != job.code
        if made is not None and differs:
            _put(job, *made)
    store.write(job.key, {"differs": differs})
    return Answer(differs, reports=tuple(reports))


Made = tuple[dict[str, Any], bytes, dict[str, Any]]


def _compiled(job: Job) -> Made | None:
    """The metadata, the binary and the results of all stages; None if the kernel is stock Triton's anyway."""
    from triton._C.libtriton import ir
    from triton.compiler.compiler import make_backend  # type: ignore[import-untyped, unused-ignore]

    from triton_linear.stage import LLIRStage

    backend = make_backend(job.target)
    backend.hash()  # the setting of this thread becomes the backend's
    options = backend.parse_options(dict(job.options))
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, job.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"kernel.{_FIRST}")
        path.write_text(job.ttgir)
        module = ir.parse_mlir_module(str(path), context)
    module.context = context
    metadata = {"hash": job.key, "target": job.target, **vars(options), **job.environment, **job.metadata}
    names = list(stages)
    files: dict[str, Any] = {_FIRST: job.ttgir}
    for name in names[names.index(_FIRST) + 1 :]:
        stage = stages[name]
        module = files[name] = stage(module, metadata)
        if isinstance(stage, LLIRStage) and not (stage.converted or stage.alike):
            return None
    return metadata, module, files


def _put(job: Job, metadata: dict[str, Any], _: bytes, files: Mapping[str, Any]) -> None:
    import json

    from triton.runtime.cache import get_cache_manager  # type: ignore[import-untyped, unused-ignore]

    cache = get_cache_manager(job.key)
    group = {f"{job.name}.{name}": cache.put(made, f"{job.name}.{name}") for name, made in files.items()}
    index = f"{job.name}.json"
    group[index] = cache.put(json.dumps(metadata, default=vars), index, binary=False)
    cache.put_group(index, group)


def found(kernel: Any, key: str) -> Any:
    """Our version of a kernel of stock Triton's, from Triton's cache: a `CompiledKernel`; None if it is not
    there."""
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime.cache import get_cache_manager

    index = f"{kernel.src.name[:150]}.json"
    group = get_cache_manager(key).get_group(index) or {}
    return CompiledKernel(kernel.src, group, key) if index in group else None
