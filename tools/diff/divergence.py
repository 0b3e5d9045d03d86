"""Where two compiles of one kernel began to differ: the first stage, and of TTIR and TTGIR the pass.

Texts are compared without names of values and without places. Layouts are compared too, as other releases
print the same in other words: where those began to differ may be later.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from triton_linear.dialect.triton_versions import Release, release_of
from triton_linear.tools.diff.ir import conversions, layout, layouts, operations
from triton_linear.tools.diff.made import Made
from triton_linear.tools.diff.passes import Dump

_VALUE = re.compile(r"%[\w$.-]+")
_PLACE = re.compile(r"\s+loc\((?:[^()\"]|\"[^\"]*\"|\([^()]*\))*\)(?=[\s,)]|$)")
_NAME = re.compile(r"(?P<before>tt\.func public @|\.func\S* |\.entry |define \w+ @)[\w$]+")


OURS = "the passes of triton-linear"


@dataclass(frozen=True)
class Began:
    """The first stage that differs; of one with passes those of each side behind which it does, none of either
    where it is what came. None: nobody dumped any, or what they leave is alike as far as that goes."""

    stage: str
    passes: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    def __str__(self) -> str:
        if self.passes is None:
            return self.stage
        a, b = self.passes
        if not a and not b:
            return f"{self.stage}, before any pass"
        if a == b:
            return f"{self.stage}, after {_several(a)}"
        return f"{self.stage}, after {_several(a)} in A, {_several(b)} in B"


def _several(passes: Sequence[str]) -> str:
    return ", ".join(passes) if passes else "no pass"


def plain(text: str) -> str:
    """A module's text without places, and with values called by number."""
    names: dict[str, str] = {}
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("#loc", "//"))]
    bare = _NAME.sub(lambda found: found["before"] + "kernel", _PLACE.sub("", "\n".join(lines)))
    return _VALUE.sub(lambda value: names.setdefault(value[0], f"%{len(names)}"), bare)


_DIRECTIVE = re.compile(r"^\s*(?:\.(?:loc|file|section|ident)\b|//|;)")


def plain_assembly(text: str) -> str:
    """The instructions of PTX or AMDGCN, without what is about debugging."""
    kept = []
    for line in text.splitlines():
        if re.match(r"\s*\.section\s+\.debug", line):
            break
        bare = re.split(r"//|;(?=\s)", line)[0].strip()
        if bare and not _DIRECTIVE.match(line) and not re.match(r"^(?:\$L__|\.L)(?:tmp|func|debug)", bare):
            kept.append(bare)
    return "\n".join(kept)


def began(a: Made, b: Made) -> Began | None:
    """The first stage at which the texts of two compiles differ; None where their code is the same."""
    for stage in ("ttir", "ttgir"):
        texts = [made.texts.get(stage) for made in (a, b)]
        if None not in texts and plain(texts[0] or "") != plain(texts[1] or ""):
            return Began(stage.upper(), _first((a.passes, b.passes), stage == "ttgir", plain, plain))
    if a.after != b.after and plain(a.layouts) != plain(b.layouts):
        return Began(OURS)
    if a.assembly and b.assembly and plain_assembly(a.assembly) != plain_assembly(b.assembly):
        which = "PTX" if "ptx" in a.texts else "AMDGCN"
        llir = [made.texts.get("llir") for made in (a, b)]
        same = None not in llir and _llir(llir[0] or "") == _llir(llir[1] or "")
        return Began(which if same else f"the lowering of TTGIR to {which}")
    if (
        a.binary is not None
        and b.binary is not None
        and "ptx" in a.texts
        and not _same_code(a.binary, b.binary)
    ):
        return Began("cubin (another ptxas, or told otherwise)")
    return None


def _same_code(a: bytes, b: bytes) -> bool:
    """Whether two cubins have the same instructions."""
    from triton_linear.ptxas.cubin import code

    found = code(a), code(b)
    return a == b or (found[0] is not None and found[0] == found[1])


def _llir(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith(("!", ";", "source_filename", "target"))]
    return plain(re.sub(r", !\w+ !\d+", "", "\n".join(lines)))


def layouts_began(a: Made, b: Made, tritons: tuple[str, str]) -> Began | None:
    """Where layouts or conversions began to differ; None where they never do, or one side has no TTGIR."""
    releases = [release_of(triton) for triton in tritons]
    if not (a.layouts and b.layouts):
        return None

    def key(side: int) -> Callable[[str], Hashable]:
        return lambda text: _layouts(text, releases[side])

    ends = [key(side)(made.texts.get("ttgir", "")) for side, made in enumerate((a, b))]
    if ends[0] != ends[1]:
        return Began("TTGIR", _first((a.passes, b.passes), True, key(0), key(1)))
    ends = [key(side)(made.layouts) for side, made in enumerate((a, b))]
    return Began(OURS) if ends[0] != ends[1] else None


def _layouts(text: str, release: Release | None) -> Hashable:
    """How many operations there are with each layout, and conversions between which two; not in which lines, as
    releases do not agree on the line of an operation whose statement has several."""
    ops = list(operations(text))
    held = Counter(one.key for found in layouts(ops, release, every=True).values() for one in found)
    moved = Counter(
        tuple(
            (tensor, linear or encoding) for tensor, encoding, linear in (layout(t, release) for t in op.types)
        )
        for op in conversions(ops)
    )
    return frozenset(held.items()), frozenset(moved.items())


def _first(
    sides: tuple[Sequence[Dump], Sequence[Dump]],
    with_layouts: bool,
    key: Callable[[str], Hashable],
    other: Callable[[str], Hashable],
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The passes of each side between the last dump that both have alike and the first that differs; of dumps
    with layouts, where TTIR is alike, or of those before. None: none that both have differs.
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
