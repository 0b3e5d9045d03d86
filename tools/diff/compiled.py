"""What a side has become: its kernels, each with what Triton left of it at every stage.

A side that is compiled is compiled by a child process (`child.py`) with an empty cache; then that, like a
folder that was named, is read by the names of its files.
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
    kernels,
    one_by_one,
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
    """A layout conversion as the plugin reported it."""

    place: tuple[str, int]
    source: str
    destination: str
    lowering: str


@dataclass(frozen=True)
class Made:
    """One compiled kernel. `texts` are its stages by name, `after` what the plugin made of its TTGIR, and
    `conversions` what it made of the conversions; None for a kernel of stock Triton's. `metadata` is Triton's;
    empty where there is none. `passes`: what Triton had before each pass. `file`: where it is, without the end
    of its name."""

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
class Compiled:
    """A side with its kernels, and the Triton that compiled them; empty where nobody says."""

    side: Side
    triton: str
    kernels: tuple[Made, ...]


def compiled(side: Side, target: str | None, arguments: Sequence[str], folder: Path) -> Compiled:
    """Compile a side, or read what is there. `folder` is an empty one to do so in.

    Raises ToolError with what was wrong where there is no kernel.
    """
    if side.is_made:
        return _left(side, target)
    modules, own = ([], target) if side.is_script else _modules(side, target, folder)
    answer = _run(side, own, modules, arguments, folder)
    reports = _Reports(answer["reports"], folder / "after")
    dumped = dumps(folder / "passes.txt")
    found = []
    for made in _kernels(folder / "cache"):
        following = dumped.get(made.name, [])
        found.append(replace(reports.told(made), passes=following.pop(0) if following else ()))
    if not found:
        fail("the script compiled no kernel", str(side.what))
    return Compiled(side, answer["triton"], tuple(found))


def _left(side: Side, target: str | None) -> Compiled:
    found = [_assembled(made, target) for made in _kernels(side.what)]
    if not found:
        fail("no compiled kernel was found: none of " + ", ".join(f"*.{end}" for end in TEXTS), str(side.what))
    versions = sorted(
        {str(made.metadata["triton_version"]) for made in found if "triton_version" in made.metadata}
    )
    return Compiled(side, ", ".join(versions), tuple(found))


def _assembled(made: Made, target: str | None) -> Made:
    """A kernel with the stages that follow from its TTGIR, where nobody left them."""
    if made.assembly or "ttgir" not in made.texts:
        return made
    text = made.texts["ttgir"]
    module = read_module(text, bridge.upstream_context(), f"{made.file}.ttgir")
    name = set_target(module, target).name
    last = "cubin" if vendor_of(name) == "nvidia" else "hsaco"
    lowered = lower(to_triton(bridge.triton_text(module)), name, last)
    stages = {stage: lowered.text(stage) for stage in lowered.stages if stage in TEXTS}
    binary = lowered.stages[last]
    metadata = {"shared": lowered.metadata.get("shared") or 0, **made.metadata}
    return replace(
        made,
        texts={**made.texts, **stages},
        binary=binary if isinstance(binary, bytes) else None,
        metadata=metadata,
    )


def _modules(side: Side, target: str | None, folder: Path) -> tuple[list[str], str]:
    """A module's kernels as files for Triton, each by itself, and the target.

    Places without one are lines of the module itself."""
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
    found = []
    for number, kernel in enumerate(one_by_one(module)):
        path = folder / f"kernel{number}.{stage}"
        path.write_text(bridge.triton_text(kernel), encoding="utf-8")
        found.append(str(path))
    return found, target


def _run(
    side: Side, target: str | None, modules: Sequence[str], arguments: Sequence[str], folder: Path
) -> dict[str, Any]:
    """Run the child; its answer. Raises ToolError where it failed."""
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
    asked = folder / "request.json"
    asked.write_text(json.dumps(request), encoding="utf-8")
    kept = {key: value for key, value in os.environ.items() if key != environment.VARIABLE}
    variables = kept | {
        "TRITON_CACHE_DIR": str(folder / "cache"),
        "MLIR_ENABLE_DUMP": "1",
        "MLIR_DUMP_PATH": str(folder / "passes.txt"),
    }
    said = folder / "said.txt"
    command = [side.python or sys.executable, str(Path(__file__).with_name("child.py")), str(asked)]
    sys.stdout.flush()
    with said.open("wb") as errors, (folder / "printed.txt").open("wb") as printed:
        try:
            ended = subprocess.run(
                command, env=variables, stdout=printed, stderr=errors, check=False, timeout=_SECONDS
            )
        except OSError as error:
            fail(f"{side.letter}: {command[0]} cannot be run: {error.strerror}")
        except subprocess.TimeoutExpired:
            fail(f"{side.letter}: it took more than {_SECONDS} s", str(side.what))
    words = said.read_text(encoding="utf-8", errors="replace")
    if not answer.exists():
        _failed(side, f"the compiler ended with status {ended.returncode}", words)
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    if found["error"]:
        _failed(side, found["error"], words)
    return found


def _failed(side: Side, why: str, said: str) -> None:
    """Raise what a child failed of: the first error that MLIR printed, or what Python said."""
    errors = [one for one in parse_diagnostics(said)[0] if one.severity == "error"]
    if errors:
        raise ToolError(replace(errors[0], message=f"{side.letter}: {errors[0].message}", notes=()))
    telling = [line for line in said.splitlines() if "Assertion" in line or "rror:" in line]
    more = f": {telling[-1].strip()[:300]}" if telling and telling[-1].strip() not in why else ""
    raise ToolError(Diagnostic("error", f"{side.letter}: {why}{more}", str(side.what)))


class _Reports:
    """What the plugin said of its kernels, and the TTGIR that it made, by name and in order."""

    def __init__(self, reports: Sequence[Mapping[str, Any]], folder: Path) -> None:
        self._reports = list(reports)
        self._after = {}
        for path in sorted(folder.glob("*.after.ttgir")) if folder.is_dir() else ():
            before = path.with_name(path.name.replace(".after.", ".before."))
            self._after[_plain(before.read_text(encoding="utf-8"))] = path.read_text(encoding="utf-8")

    def told(self, made: Made) -> Made:
        """A kernel with what is said of it."""
        report = next((one for one in self._reports if one["kernel"] == made.name), None)
        if report is None:
            return made
        self._reports.remove(report)
        if report["outcome"] != Outcome.CONVERTED.value:
            return made
        conversions = tuple(
            Conversion(_place(place), source, destination, lowering)
            for place, source, destination, lowering in report["conversions"]
        )
        after = self._after.get(_plain(made.texts.get("ttgir", "")), "")
        return replace(made, after=after, conversions=conversions)


def _plain(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#loc"))


def _place(said: str) -> tuple[str, int]:
    file, _, line = said.rpartition(":")
    if file and line.isdecimal():
        return file, int(line)
    return user_position(said)[:2]


def _kernels(folder: Path) -> Iterator[Made]:
    """The kernels in a folder, in the order in which they were compiled; equal ones once."""
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
        yield Made(
            stem.name.removeprefix("@"), texts, binary, _metadata(stem.with_suffix(".json")), file=str(stem)
        )


def _metadata(path: Path) -> dict[str, Any]:
    """What Triton says of a kernel beside its code; nothing where the file is not there, or no such file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
