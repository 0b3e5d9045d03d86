"""What Triton has before each of its passes, as it dumps it (MLIR_ENABLE_DUMP)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Up to 3.8 it is "Canonicalizer (canonicalize) (...)", since then "CanonicalizerPass: canonicalize{...} (...)".
_HEAD = re.compile(
    r"^// -----// IR Dump Before (?P<class>[^\s:(]+)(?:: (?P<late>[\w-]+)| \((?P<early>[\w-]+)\))?.*"
    r"\('builtin\.module' operation\)"
)
_KERNEL = re.compile(r"tt\.func public @(?P<name>[^\s(\"]+|\"[^\"]+\")\(")


@dataclass(frozen=True)
class Dump:
    """The module before a pass, which is called as on MLIR's command lines."""

    name: str
    text: str

    @property
    def is_ttgir(self) -> bool:
        """Whether layouts are there already."""
        return '"ttg.num-warps"' in self.text


def dumps(path: Path) -> dict[str, list[list[Dump]]]:
    """The dumps in a file, by kernel, each compile of one for itself; nothing where there is no file.

    Of dumps only those count that have a kernel in Triton's own dialects.
    """
    found: dict[str, list[list[Dump]]] = {}
    texts: dict[str, str] = {}  # most passes change nothing, and one copy of a text is enough
    for dump in _read(path) if path.exists() else ():
        kernel = _KERNEL.search(dump.text)
        if kernel is None:
            continue
        compiles = found.setdefault(kernel["name"].strip('"'), [[]])
        if compiles[-1] and compiles[-1][-1].is_ttgir and not dump.is_ttgir:
            compiles.append([])  # TTIR again: it is another compile
        compiles[-1].append(Dump(dump.name, texts.setdefault(dump.text, dump.text)))
    return found


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
