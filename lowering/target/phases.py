"""Which lanes shared memory serves together, and over how many banks, by the kind and width of the access.

A wave or warp is served in phases. The lanes of one phase are a coset of a subspace of the lane numbers, not
always consecutive ones: a wide load of CDNA takes lanes 0 to 3 with 20 to 23. Lanes of different phases never
conflict. Each bank gives one word in a wavefront.

NVIDIA GPUs return at most 128 bytes of a load in a clock, so wide loads take several phases. A word for two
lanes counts once if their numbers differ in the lowest bit alone, or in the next one alone, and if that is
so for all lanes of the warp. Such a load takes half as many phases, of twice as many lanes; copies in more
lanes make them no fewer. Stores take as many phases as without copies. (Measured on an H200: loads and stores
of 4, 8 and 16 bytes, with copies in each pair of lane bits. NVIDIA says the same of compute capabilities 7.0
to 7.5. Of others it is not assumed.)

Sources. NVIDIA: CUDA C++ programming guide, `bench/results/instructions.md`. AMD: the conflicts that
nod-ai/amd-shark-ai measured pair by pair on MI300X and MI350X (docs/empirical-lds), those of all pairs that
HipKittens measured on MI355X (analysis/paper_experiments/phases), the ROCm documentation of Composable Kernel
("LDS bank conflicts") for wide stores, and rocRoller's LDSBankModel for the accesses with 64 banks on CDNA4. No
measurement of gfx90a was found: it is assumed to be like gfx942. For loads of 32 bits on CDNA4 the sources
disagree, one phase of 64 banks or two of 32; the table has two, which take as long in the worst case.
Transposing loads are assumed to be like loads of their width, and stores of 96 bits like those of 128.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from triton_linear.dialect import f2
from triton_linear.dialect.records import dataclass

LOAD, STORE = "load", "store"
BANK_BYTES: Final = 4
"""Bytes that a bank gives in a wavefront."""
WIDEST: Final = 16
"""Bytes of the widest access of a lane."""


@dataclass(frozen=True, slots=True)
class Service:
    """One phase: the lanes served with lane 0 are the xors of subsets of `lanes`; the phase has `banks`
    banks.

    pairs: if all lanes whose numbers differ by one of these (xor) access the same address, two phases are one.
    """

    lanes: tuple[int, ...]
    banks: int
    pairs: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Lanes of one phase."""
        return 1 << len(self.lanes)

    @property
    def joined(self) -> Service:
        """Two phases that are one."""
        return replace(self, lanes=(*self.lanes, 1 << len(self.lanes)))

    def of(self, columns: Sequence[int]) -> Service:
        """The phases of an access to whose addresses lane bit j contributes `columns[j]` by xor.

        >>> wide = Service((1, 2, 4), 32, pairs=(1, 2))
        >>> wide.of((16, 0, 32, 64, 128)).count, wide.of((16, 32, 0, 64, 128)).count
        (16, 8)
        """
        copies = any(not f2.multiply_vector(columns, pair) for pair in self.pairs)
        return self.joined if copies else self

    def order(self, lanes: int) -> tuple[int, ...]:
        """All `lanes` lanes of a warp, phase by phase.

        >>> Service((1, 4), 32).order(8)
        (0, 1, 4, 5, 2, 3, 6, 7)
        """
        return _order(self.lanes, lanes)

    @functools.lru_cache(maxsize=1024)  # noqa: B019
    def columns(self, lanes: tuple[int, ...]) -> tuple[int, ...]:
        """A basis of the values that the lanes of a phase have, if lane bit j contributes `lanes[j]` by xor."""
        return f2.extend((), (f2.multiply_vector(lanes, lane) for lane in self.lanes))


Services = Mapping[tuple[str, int], Service]
"""By kind of access and the bytes that each lane touches."""


@functools.cache
def _order(phase: tuple[int, ...], lanes: int) -> tuple[int, ...]:
    together = sorted(f2.sums(phase))
    starts = f2.sums(f2.extend(phase, f2.identity(lanes.bit_length() - 1)))
    return tuple(start ^ lane for start in sorted(starts) for lane in together)


def consecutive(count: int, banks: int = 32) -> Service:
    """Phases of `count` consecutive lanes."""
    return Service(f2.identity(count.bit_length() - 1), banks)


def nvidia(joins: bool) -> Services:
    """Phases of consecutive lanes, 128 bytes at most; with `joins`, those of loads of copies are joined."""
    return {
        (kind, size): replace(service, pairs=(1, 2))
        if joins and kind == LOAD and service.count < 32
        else service
        for (kind, size), service in uniform({1: 32, 2: 32, 4: 32, 8: 16, 16: 8}).items()
    }


def uniform(lanes: Mapping[int, int]) -> Services:
    """Phases of `lanes[size]` consecutive lanes for accesses of `size` bytes, loads and stores alike."""
    return {(kind, size): consecutive(count) for kind in (LOAD, STORE) for size, count in lanes.items()}


CDNA3: Services = {
    **uniform({1: 32, 2: 32, 4: 32, 8: 16, 12: 8, 16: 8}),
    (LOAD, 12): Service((1, 2, 20), 32),
    (LOAD, 16): Service((1, 2, 20), 32),
}
"""Loads of 128 bits: lanes 0-3 and 20-23, 4-7 and 16-19, 8-11 and 28-31, 12-15 and 24-27; the lanes from 32 on
in the same way."""

CDNA4: Services = {**CDNA3, (LOAD, 8): consecutive(32, 64), (LOAD, 16): Service((1, 2, 12, 20), 64)}
"""Loads of 64 and 128 bits have 64 banks. Loads of 128 bits: lanes 0-3, 12-15 and 20-27, then the rest of 0-31;
the lanes from 32 on in the same way."""
