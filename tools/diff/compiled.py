"""The compiled kernels of a side, each with its text at every stage.

A child process (`child.py`) compiles a module or a script with an empty cache. The cache is then read like a
folder on the command line: by the names of its files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import triton_linear
from triton_linear import environment
from triton_linear.dialect import bridge
from triton_linear.dialect.locations import user_position
from triton_linear.report import Outcome
from triton_linear.tools.diff.passes import Dump, dumps
from triton_linear.tools.diff.sides import Side
from triton_linear.tools.support.backend import lower, vendor_of
from triton_linear.tools.support.compile import (
    kernel_modules,
    kernels,
    place_of,
    read_module,
    set_target,
    to_triton,
)
from triton_linear.tools.support.errors import (
    Diagnostic,
    ToolError,
    fail,
    parse_diagnostics,
)
from triton_linear.tools.support.inputs import read_input

TEXTS = ("ttir", "ttgir", "llir", "ptx", "amdgcn")
BINARIES = ("cubin", "hsaco")
_SECONDS = 1800


@dataclass(frozen=True)
class Conversion:
    """A layout conversion in a report of the plugin."""

    place: tuple[str, int]
    source: str
    destination: str
    lowering: str


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled kernel.

    texts: its stages by name. metadata: Triton's, empty if there is none. after: the TTGIR that the plugin
    emitted. conversions: those of the plugin's report, None for a kernel of stock Triton. passes: the module
    before each pass of Triton. file: its path without the suffix.
    """

    name: str
    texts: Mapping[str, str]
    binary: bytes | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    after: str = ""
    conversions: tuple[Conversion, ...] | None = None
    passes: Sequence[Dump] = ()
    file: str = ""

    @property
    def layouts(self) -> str:
        """The TTGIR that was lowered."""
        return self.after or self.texts.get("ttgir", "")

    @property
    def assembly(self) -> str:
        """PTX or AMDGCN."""
        return self.texts.get("ptx") or self.texts.get("amdgcn") or ""


@dataclass(frozen=True)
class CompiledSide:
    """A side with its kernels, and the version of the Triton that compiled them; empty if not known."""

    side: Side
    triton: str
    kernels: tuple[CompiledKernel, ...]


def compile_side(side: Side, target: str | None, arguments: Sequence[str], folder: Path) -> CompiledSide:
    """Compile a side, or read the compiled kernels in its folder. `folder` is an empty working folder.

    Raises ToolError if there is no kernel.
    """
    if side.is_folder:
        return _read_folder(side, target)
    modules, own = ([], target) if side.is_script else _modules(side, target, folder)
    answer = _run(side, own, modules, arguments, folder)
    reports = _Reports(answer["reports"], folder / "after")
    dumped = dumps(folder / "passes.txt")
    compiled = []
    for kernel in _kernels(folder / "cache"):
        compiles = dumped.get(kernel.name, [])
        compiled.append(replace(reports.added_to(kernel), passes=compiles.pop(0) if compiles else ()))
    if not compiled:
        fail("the script compiled no kernel", str(side.what))
    return CompiledSide(side, answer["triton"], tuple(compiled))


def _read_folder(side: Side, target: str | None) -> CompiledSide:
    compiled = [_assembled(kernel, target) for kernel in _kernels(side.what)]
    if not compiled:
        fail("no compiled kernel was found: none of " + ", ".join(f"*.{end}" for end in TEXTS), str(side.what))
    versions = sorted(
        {str(kernel.metadata["triton_version"]) for kernel in compiled if "triton_version" in kernel.metadata}
    )
    return CompiledSide(side, ", ".join(versions), tuple(compiled))


def _assembled(kernel: CompiledKernel, target: str | None) -> CompiledKernel:
    """A kernel with assembly and binary: lowered from its TTGIR if the folder has only that."""
    if kernel.assembly or "ttgir" not in kernel.texts:
        return kernel
    text = kernel.texts["ttgir"]
    module = read_module(text, bridge.upstream_context(), f"{kernel.file}.ttgir")
    name = set_target(module, target).name
    last = "cubin" if vendor_of(name) == "nvidia" else "hsaco"
    lowered = lower(to_triton(bridge.triton_text(module)), name, last)
    stages = {stage: lowered.text(stage) for stage in lowered.stages if stage in TEXTS}
    binary = lowered.stages[last]
    metadata = {"shared": lowered.metadata.get("shared") or 0, **kernel.metadata}
    return replace(
        kernel,
        texts={**kernel.texts, **stages},
        binary=binary if isinstance(binary, bytes) else None,
        metadata=metadata,
    )


def _modules(side: Side, target: str | None, folder: Path) -> tuple[list[str], str]:
    """Write each kernel of a module to a file for Triton; return the files and the target.

    An operation without a location gets its line in the module as its location.
    """
    name = str(side.what)
    module = read_module(read_input(name), bridge.upstream_context(), name)
    attributes = module.operation.attributes
    stage = "ttgir" if "ttg.num-warps" in attributes else "ttir"
    if stage == "ttgir":
        target = set_target(module, target).name
    elif target is None:
        fail(
            "target: the module is TTIR, which has none; say --target=cuda:NUMBER or hip:gfxNAME",
            *place_of(module),
        )
    if not kernels(module):
        fail("the module has no kernel: none of its functions is public", *place_of(module))
    if side.python and len(kernels(module)) == 1 and side.what.suffix == f".{stage}":
        return [str(side.what.absolute())], target  # another release may not read what this one prints
    paths = []
    for number, kernel in enumerate(kernel_modules(module)):
        path = folder / f"kernel{number}.{stage}"
        path.write_text(bridge.triton_text(kernel), encoding="utf-8")
        paths.append(str(path))
    return paths, target


def _run(
    side: Side, target: str | None, modules: Sequence[str], arguments: Sequence[str], folder: Path
) -> dict[str, Any]:
    """Run the child and return its answer. Raises ToolError if it fails."""
    library = folder / "library"
    library.mkdir()
    (library / "triton_linear").symlink_to(Path(triton_linear.__file__).resolve().parent)
    plugin = None
    if side.plugin is not None:
        plugin = environment.arguments(side.plugin)
        plugin |= {"strict": True, "dump": str(folder / "after"), "decisions": plugin["decisions"] or "none"}
    answer = folder / "answer.json"
    request = {
        "library": str(library),
        "target": target,
        "modules": list(modules),
        "script": str(side.what.absolute()) if side.is_script else "",
        "arguments": list(arguments),
        "plugin": plugin,
        "answer": str(answer),
    }
    request_file = folder / "request.json"
    request_file.write_text(json.dumps(request), encoding="utf-8")
    inherited = {key: value for key, value in os.environ.items() if key != environment.VARIABLE}
    variables = inherited | {
        "TRITON_CACHE_DIR": str(folder / "cache"),
        "MLIR_ENABLE_DUMP": "1",
        "MLIR_DUMP_PATH": str(folder / "passes.txt"),
    }
    stderr = folder / "stderr.txt"
    command = [side.python or sys.executable, str(Path(__file__).with_name("child.py")), str(request_file)]
    sys.stdout.flush()
    with stderr.open("wb") as errors, (folder / "stdout.txt").open("wb") as printed:
        try:
            ended = subprocess.run(
                command, env=variables, stdout=printed, stderr=errors, check=False, timeout=_SECONDS
            )
        except OSError as error:
            fail(f"{side.letter}: {command[0]} cannot be run: {error.strerror}")
        except subprocess.TimeoutExpired:
            fail(f"{side.letter}: it took more than {_SECONDS} s", str(side.what))
    output = stderr.read_text(encoding="utf-8", errors="replace")
    if not answer.exists():
        _raise_failure(side, f"the compiler ended with status {ended.returncode}", output)
    result: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    if result["error"]:
        _raise_failure(side, result["error"], output)
    return result


def _raise_failure(side: Side, why: str, stderr: str) -> None:
    """Raise the first error of MLIR in a child's standard error, or `why` with the last error or assertion."""
    errors = [one for one in parse_diagnostics(stderr)[0] if one.severity == "error"]
    if errors:
        raise ToolError(replace(errors[0], message=f"{side.letter}: {errors[0].message}", notes=()))
    lines = [line for line in stderr.splitlines() if "Assertion" in line or "rror:" in line]
    more = f": {lines[-1].strip()[:300]}" if lines and lines[-1].strip() not in why else ""
    raise ToolError(Diagnostic("error", f"{side.letter}: {why}{more}", str(side.what)))


class _Reports:
    """The plugin's reports, in order, and the TTGIR that it emitted for each TTGIR that it was given."""

    def __init__(self, reports: Sequence[Mapping[str, Any]], folder: Path) -> None:
        self._reports = list(reports)
        self._after = {}
        for path in sorted(folder.glob("*.after.ttgir")) if folder.is_dir() else ():
            before = path.with_name(path.name.replace(".after.", ".before."))
            self._after[_plain(before.read_text(encoding="utf-8"))] = path.read_text(encoding="utf-8")

    def added_to(self, kernel: CompiledKernel) -> CompiledKernel:
        """The kernel with the emitted TTGIR and the conversions of its report, which is consumed."""
        report = next((one for one in self._reports if one["kernel"] == kernel.name), None)
        if report is None:
            return kernel
        self._reports.remove(report)
        if report["outcome"] != Outcome.CONVERTED.value:
            return kernel
        conversions = tuple(
            Conversion(_place(place), source, destination, lowering)
            for place, source, destination, lowering in report["conversions"]
        )
        after = self._after.get(_plain(kernel.texts.get("ttgir", "")), "")
        return replace(kernel, after=after, conversions=conversions)


def _plain(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#loc"))


def _place(location: str) -> tuple[str, int]:
    file, _, line = location.rpartition(":")
    if file and line.isdecimal():
        return file, int(line)
    return user_position(location)[:2]


def _kernels(folder: Path) -> Iterator[CompiledKernel]:
    """The kernels in a folder, in the order of compilation, without duplicates."""
    groups: dict[Path, dict[str, Path]] = {}
    for path in sorted(folder.rglob("*")):
        end = path.suffix.removeprefix(".")
        if end in (*TEXTS, *BINARIES) and path.is_file():
            groups.setdefault(path.with_suffix(""), {})[end] = path
        elif path.suffix == ".mlir" and path.is_file():
            groups.setdefault(path.with_suffix(""), {})["ttgir"] = path
    seen: set[tuple[tuple[str, str], ...]] = set()
    ordered = sorted(
        groups.items(), key=lambda item: (max(p.stat().st_mtime_ns for p in item[1].values()), item[0])
    )
    for stem, files in ordered:
        texts = {end: read_input(str(path)) for end, path in files.items() if end in TEXTS}
        key = tuple(sorted(texts.items()))
        if not texts or key in seen:
            continue
        seen.add(key)
        binary = next((files[end].read_bytes() for end in BINARIES if end in files), None)
        yield CompiledKernel(
            stem.name.removeprefix("@"), texts, binary, _metadata(stem.with_suffix(".json")), file=str(stem)
        )


def _metadata(path: Path) -> dict[str, Any]:
    """Triton's metadata of a kernel; empty if the file is missing or is not a JSON object."""
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return metadata if isinstance(metadata, dict) else {}
