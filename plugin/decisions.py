"""Decisions: which variant of a kernel was measured to be the fastest. A file keeps them as lines of JSON.

A decision holds for one kernel, one kind of GPU, and one version of Triton, ptxas and this package.
`triton-linear tune` makes decisions; the plugin follows them in every compile. It reads the file once for each
setting, at the first compile, and its cache keys contain a digest of the decisions.

    decisions = "" | "none" | FILE

"" is the user's own file, `decisions.jsonl` in `folder()`, if it exists.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from triton_linear.dialect.records import dataclass
from triton_linear.dialect.store import write_whole
from triton_linear.dialect.verdicts import folder

NONE: Final = "none"
FILE: Final = "decisions.jsonl"

_NAME_BYTES: Final = 96
"""The longest name of a GPU (NVML)."""


class DecisionError(Exception):
    """A file of decisions cannot be read or written; the message says which, and why."""


class DecisionWarning(UserWarning):
    """Decisions cannot be read, so none are followed."""


@dataclass(frozen=True)
class Circumstances:
    """What a decision holds for.

    kernel: its digest (`kernel_digest`). gpu: the GPU's name; empty without a GPU and for AMD. target: Triton's
    name of the target. triton, ptxas, package: the versions that compile the kernel.
    """

    kernel: str
    gpu: str
    target: str
    triton: str
    ptxas: str
    package: str


@dataclass(frozen=True)
class Decision:
    """The variant to compile, and its measured speed.

    ratio: stock Triton's time divided by the variant's. low, high: its 95 % interval. name: the kernel's name.
    measured: date and time (UTC, "2026-11-23 12:00:00"), so that later times compare greater.
    """

    circumstances: Circumstances
    variant: str
    name: str
    ratio: float
    low: float
    high: float
    measured: str


_KEY: Final = tuple(entry.name for entry in fields(Circumstances))
_VALUES: Final = tuple(entry.name for entry in fields(Decision))[1:]


def default_file() -> Path:
    """The user's own file, which may not exist."""
    return folder() / FILE


@dataclass(frozen=True)
class DecisionFile:
    """A file of decisions. Each call opens it anew; several processes may read and write it at once.

    All methods raise DecisionError if the file has anything else in it, or cannot be read or written.
    """

    path: Path

    def read(self) -> list[Decision]:
        """All decisions, in the order of their circumstances; none if there is no file."""
        if not os.path.exists(self.path):
            return []
        found: list[Decision] = []
        try:
            for line in self.path.read_text(encoding="utf-8").splitlines():
                found.append(of_line(line))
        except OSError as error:
            raise DecisionError(f"{self.path}: {error.strerror or error}") from error
        except ValueError as error:
            raise DecisionError(f"{self.path}:{len(found) + 1}: holds no decision of triton-linear") from error
        return sorted(found, key=lambda each: astuple(each.circumstances))

    def put(self, decisions: Iterable[Decision]) -> None:
        """Add decisions and replace those for the same circumstances: all of them, or none if it fails."""
        with self._changed() as kept:
            kept.update((each.circumstances, each) for each in decisions)

    def remove(self, circumstances: Iterable[Circumstances]) -> int:
        """Remove decisions; returns how many there were."""
        with self._changed() as kept:
            return sum(kept.pop(each, None) is not None for each in circumstances)

    @contextlib.contextmanager
    def _changed(self) -> Iterator[dict[Circumstances, Decision]]:
        """The decisions, which the block may change, and which are then written. Nobody else writes then."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            held = os.open(self.path.parent, os.O_RDONLY)
            try:
                with contextlib.suppress(OSError):  # a file system without locks
                    fcntl.flock(held, fcntl.LOCK_EX)
                decisions = {each.circumstances: each for each in self.read()}
                yield decisions
                write_whole(self.path, "".join(map(as_line, decisions.values())).encode())
            finally:
                os.close(held)
        except OSError as error:
            raise DecisionError(f"{self.path}: {error.strerror or error}") from error


def as_line(decision: Decision) -> str:
    """A decision as a line of JSON."""
    import json

    about = asdict(decision.circumstances)
    return json.dumps(about | {name: getattr(decision, name) for name in _VALUES}) + "\n"


def of_line(text: str) -> Decision:
    """The decision in a line of JSON. Raises ValueError if there is none."""
    import json

    try:
        data = json.loads(text)
        values = [data[name] for name in (*_KEY, *_VALUES)] if data.keys() == {*_KEY, *_VALUES} else []
        found: list[Any] = [float(each) if isinstance(each, int) else each for each in values]
    except (AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"no decision: {text}") from error
    texts, figures = (*found[: len(_KEY) + 2], *found[-1:]), found[len(_KEY) + 2 : -1]
    is_one = all(isinstance(each, str) for each in texts) and all(isinstance(each, float) for each in figures)
    if not (found and is_one):
        raise ValueError(f"no decision: {text}")
    return Decision(Circumstances(*found[: len(_KEY)]), *found[len(_KEY) :])


@dataclass(frozen=True)
class Decisions:
    """The variants to compile, by kernel, target and ptxas. digest: of these; empty if there are none."""

    variants: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    digest: str = ""

    def __bool__(self) -> bool:
        return bool(self.variants)

    def variant(self, kernel: str, target: str, ptxas: str) -> str | None:
        """The name of the variant for a kernel; None if there is no decision."""
        return self.variants.get((kernel, target, ptxas))

    @classmethod
    def among(cls, decisions: Iterable[Decision], triton: str, package: str, gpus: frozenset[str]) -> Decisions:
        """The decisions for this Triton and package that agree for all of these GPUs; if `gpus` is empty, for
        all measured GPUs. A compile does not know which GPU it is for, so it follows none if they differ."""
        found: dict[tuple[str, str, str], dict[str, str]] = {}
        for each in decisions:
            about = each.circumstances
            if (about.triton, about.package) == (triton, package):
                found.setdefault((about.kernel, about.target, about.ptxas), {})[about.gpu] = each.variant
        variants: dict[tuple[str, str, str], str] = {}
        for key, by_gpu in sorted(found.items()):
            named = gpus if key[1].startswith("cuda") else frozenset({""})
            wanted = {by_gpu.get(gpu) for gpu in named} if named else set(by_gpu.values())
            if len(wanted) == 1 and (one := wanted.pop()) is not None:
                variants[key] = one
        digest = hashlib.sha256(repr(variants).encode()).hexdigest()[:32] if variants else ""
        return cls(variants, digest)


NO_DECISIONS: Final = Decisions()


def load(place: str) -> Decisions:
    """The decisions at `place` that hold for this machine, its Triton and this version of emitted code.

    Raises DecisionError if they cannot be read. The user's own file may be missing, or in a folder without
    access: then there are no decisions.
    """
    if place == NONE:
        return NO_DECISIONS
    path = file_of(place)
    if place and not os.path.exists(path):
        hint = "; decisions are read from files, not from URLs" if "://" in place else ""
        raise DecisionError(f"{place if hint else path}: there is no such file{hint}")
    made = DecisionFile(path).read()
    if not made:
        return NO_DECISIONS
    from triton_linear.dialect.sources import CODE_VERSION
    from triton_linear.dialect.triton_versions import found

    return Decisions.among(made, found() or "", CODE_VERSION, gpu_names())


def file_of(place: str) -> Path:
    """The file that `place` names."""
    return Path(place).expanduser() if place else default_file()


UNSEEN: Final = (
    "allow_flush_denorm",
    "enable_fp_fusion",
    "enable_reflect_ftz",
    "llvm_fn_attrs",
    "min_shared_mem",
    "ptx_options",
    "sched4reg",
    "schedule_hint",
    "waves_per_eu",
    "wgp_cu_mode",
)
"""Compile options, of all releases, that later stages follow but that do not show in TTGIR."""


def kernel_digest(ttgir: str, options: Mapping[str, object] = MappingProxyType({})) -> str:
    """The identity of a kernel: the digest of its TTGIR, and of the compile options that do not show there.

    Requires: `ttgir` has no source locations.

    >>> kernel_digest("module {}")[:16]
    'fd224b3138074712'
    >>> kernel_digest("module {}", {"num_warps": 4}) == kernel_digest("module {}")
    True
    >>> kernel_digest("module {}", {"waves_per_eu": 2}) == kernel_digest("module {}")
    False
    """
    text = ttgir + "".join(f"\n// {name} = {options[name]}" for name in UNSEEN if name in options)
    return hashlib.sha256(text.encode()).hexdigest()


def ptxas_version(target: str) -> str:
    """The version of ptxas for a target in Triton's notation, for example "12.9.86"; empty if it has no ptxas.

    >>> ptxas_version("hip:gfx942")
    ''
    """
    vendor, _, capability = target.partition(":")
    if vendor != "cuda":
        return ""
    import re

    from triton.backends.nvidia.compiler import (  # type: ignore[import-untyped, unused-ignore]
        get_ptxas_version,
    )

    said: str = get_ptxas_version(int(capability))
    version = re.search(r"\bV(\d+(?:\.\d+)+)", said)
    return version[1] if version else said.strip()


@functools.cache
def gpu_names() -> frozenset[str]:
    """The names of the NVIDIA GPUs, such as "NVIDIA H200"; empty if there is no driver.

    NVML needs no CUDA context, which a process that forks later must not have.
    """
    import ctypes

    found = set()
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        if library.nvmlInit_v2():
            return frozenset()
        count = ctypes.c_uint()
        library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for index in range(count.value):
            device, name = ctypes.c_void_p(), ctypes.create_string_buffer(_NAME_BYTES)
            failed = library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))
            if not (failed or library.nvmlDeviceGetName(device, name, _NAME_BYTES)):
                found.add(name.value.decode(errors="replace"))
        library.nvmlShutdown()
    except (OSError, AttributeError):  # no such library, or no such function
        pass
    return frozenset(found)
