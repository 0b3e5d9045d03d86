"""Where two compiles of one kernel diverge: the first stage that differs and, in TTIR and TTGIR, the pass.

Texts are compared without names of values and without locations. Because releases may print equal modules
differently, layouts and conversions are compared as well; they may diverge later than the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from triton_linear.dialect.triton_versions import Release, release_of
from triton_linear.tools.diff.compiled import CompiledKernel
from triton_linear.tools.diff.ir import conversions, layout, layouts, operations
from triton_linear.tools.diff.passes import Dump

_VALUE = re.compile(r"%[\w$.-]+")
_PLACE = re.compile(r"\s+loc\((?:[^()\"]|\"[^\"]*\"|\([^()]*\))*\)(?=[\s,)]|$)")
_NAME = re.compile(r"(?P<before>tt\.func public @|\.func\S* |\.entry |define \w+ @)[\w$]+")


OURS = "the passes of triton-linear"


@dataclass(frozen=True)
class Divergence:
    """The first stage that differs.

    passes: for each side, the passes after which the stage differs; both empty if its input differs already.
    None if the stage has no passes, there are no dumps, or no common dump differs.
    """

    stage: str
    passes: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    def __str__(self) -> str:
        if self.passes is None:
            return self.stage
        a, b = self.passes
        if not a and not b:
            return f"{self.stage}, before any pass"
        if a == b:
            return f"{self.stage}, after {_joined(a)}"
        return f"{self.stage}, after {_joined(a)} in A, {_joined(b)} in B"


def _joined(passes: Sequence[str]) -> str:
    return ", ".join(passes) if passes else "no pass"


def plain(text: str) -> str:
    """A module's text without locations, with values numbered."""
    names: dict[str, str] = {}
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("#loc", "//"))]
    bare = _NAME.sub(lambda match: match["before"] + "kernel", _PLACE.sub("", "\n".join(lines)))
    return _VALUE.sub(lambda value: names.setdefault(value[0], f"%{len(names)}"), bare)


_DIRECTIVE = re.compile(r"^\s*(?:\.(?:loc|file|section|ident)\b|//|;)")


def plain_assembly(text: str) -> str:
    """The instructions of PTX or AMDGCN, without debug information."""
    kept = []
    for line in text.splitlines():
        if re.match(r"\s*\.section\s+\.debug", line):
            break
        bare = re.split(r"//|;(?=\s)", line)[0].strip()
        if bare and not _DIRECTIVE.match(line) and not re.match(r"^(?:\$L__|\.L)(?:tmp|func|debug)", bare):
            kept.append(bare)
    return "\n".join(kept)


def divergence(a: CompiledKernel, b: CompiledKernel) -> Divergence | None:
    """The first stage at which the texts of two compiles differ; None if their code is the same."""
    for stage in ("ttir", "ttgir"):
        texts = [kernel.texts.get(stage) for kernel in (a, b)]
        if None not in texts and plain(texts[0] or "") != plain(texts[1] or ""):
            return Divergence(stage.upper(), _first((a.passes, b.passes), stage == "ttgir", plain, plain))
    if a.after != b.after and plain(a.layouts) != plain(b.layouts):
        return Divergence(OURS)
    if a.assembly and b.assembly and plain_assembly(a.assembly) != plain_assembly(b.assembly):
        which = "PTX" if "ptx" in a.texts else "AMDGCN"
        llir = [kernel.texts.get("llir") for kernel in (a, b)]
        same = None not in llir and _llir(llir[0] or "") == _llir(llir[1] or "")
        return Divergence(which if same else f"the lowering of TTGIR to {which}")
    if (
        a.binary is not None
        and b.binary is not None
        and "ptx" in a.texts
        and not _same_code(a.binary, b.binary)
    ):
        return Divergence("cubin (another ptxas, or told otherwise)")
    return None


def _same_code(a: bytes, b: bytes) -> bool:
    """Whether two cubins have the same instructions."""
    from triton_linear.ptxas.cubin import code

    instructions = code(a), code(b)
    return a == b or (instructions[0] is not None and instructions[0] == instructions[1])


def _llir(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith(("!", ";", "source_filename", "target"))]
    return plain(re.sub(r", !\w+ !\d+", "", "\n".join(lines)))


def layout_divergence(a: CompiledKernel, b: CompiledKernel, tritons: tuple[str, str]) -> Divergence | None:
    """The first stage at which layouts or conversions differ; None if there is none, or a side has no TTGIR."""
    releases = [release_of(triton) for triton in tritons]
    if not (a.layouts and b.layouts):
        return None

    def key(side: int) -> Callable[[str], Hashable]:
        return lambda text: _layouts(text, releases[side])

    ends = [key(side)(kernel.texts.get("ttgir", "")) for side, kernel in enumerate((a, b))]
    if ends[0] != ends[1]:
        return Divergence("TTGIR", _first((a.passes, b.passes), True, key(0), key(1)))
    ends = [key(side)(kernel.layouts) for side, kernel in enumerate((a, b))]
    return Divergence(OURS) if ends[0] != ends[1] else None


def _layouts(text: str, release: Release | None) -> Hashable:
    """The number of operations for each layout, and of conversions for each pair of layouts.

    Lines are not compared: if a statement has several lines, releases give an operation different ones.
    """
    ops = list(operations(text))
    used = Counter(one.key for in_line in layouts(ops, release, every=True).values() for one in in_line)
    converted = Counter(
        tuple(
            (tensor, linear or encoding) for tensor, encoding, linear in (layout(t, release) for t in op.types)
        )
        for op in conversions(ops)
    )
    return frozenset(used.items()), frozenset(converted.items())


def _first(
    sides: tuple[Sequence[Dump], Sequence[Dump]],
    with_layouts: bool,
    key: Callable[[str], Hashable],
    other: Callable[[str], Hashable],
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """For each side, the passes between the last common dump that is equal and the first that differs.

    `with_layouts` selects the dumps of TTGIR, otherwise those of TTIR. `key` and `other` give what is
    compared of a dump of the first and of the second side. None if no common dump differs.
    """
    a, b = sides
    names = [[dump.name for dump in side] for side in sides]
    starts = [next((n for n, dump in enumerate(side) if dump.is_ttgir), len(side)) for side in sides]
    last = (starts[0] - 1, starts[1] - 1) if with_layouts else (0, 0)
    for i, j, size in SequenceMatcher(None, names[0], names[1], autojunk=False).get_matching_blocks():
        for x, y in zip(range(i, i + size), range(j, j + size), strict=True):
            if (x >= starts[0], y >= starts[1]) != (with_layouts, with_layouts):
                continue
            if key(a[x].text) != other(b[y].text):
                return tuple(names[0][max(last[0], 0) : x]), tuple(names[1][max(last[1], 0) : y])
            last = x, y
    return None
