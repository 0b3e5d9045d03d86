"""Read the dumps of modules that Triton writes before each of its passes (MLIR_ENABLE_DUMP)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Up to 3.8 the head is "Canonicalizer (canonicalize) (...)", then "CanonicalizerPass: canonicalize{...} (...)".
_HEAD = re.compile(
    r"^// -----// IR Dump Before (?P<class>[^\s:(]+)(?:: (?P<late>[\w-]+)| \((?P<early>[\w-]+)\))?.*"
    r"\('builtin\.module' operation\)"
)
_KERNEL = re.compile(r"tt\.func public @(?P<name>[^\s(\"]+|\"[^\"]+\")\(")


@dataclass(frozen=True)
class Dump:
    """The module before a pass; `name` is the pass's command-line name."""

    name: str
    text: str

    @property
    def is_ttgir(self) -> bool:
        """Whether the module has layouts already."""
        return '"ttg.num-warps"' in self.text


def dumps(path: Path) -> dict[str, list[list[Dump]]]:
    """The dumps in a file: for each kernel, one list per compile. Empty if there is no file.

    Dumps without a kernel in Triton's dialects are left out.
    """
    by_kernel: dict[str, list[list[Dump]]] = {}
    texts: dict[str, str] = {}  # most passes change nothing, so equal texts share one string
    for dump in _read(path) if path.exists() else ():
        kernel = _KERNEL.search(dump.text)
        if kernel is None:
            continue
        compiles = by_kernel.setdefault(kernel["name"].strip('"'), [[]])
        if compiles[-1] and compiles[-1][-1].is_ttgir and not dump.is_ttgir:
            compiles.append([])  # TTIR after TTGIR: another compile begins
        compiles[-1].append(Dump(dump.name, texts.setdefault(dump.text, dump.text)))
    return by_kernel


def _read(path: Path) -> Iterator[Dump]:
    name = ""
    lines: list[str] = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("// -----//"):
                if name:
                    yield Dump(name, "".join(lines))
                head = _HEAD.match(line)
                name = (head["late"] or head["early"] or head["class"]) if head else ""
                lines = []
            elif name:
                lines.append(line)
    if name:
        yield Dump(name, "".join(lines))
