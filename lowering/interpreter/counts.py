"""The interpreter's counts: shared-memory wavefronts by the phase rule, and the operations of one warp.

The phase rule. An access of `width` bytes per lane is served in phases of lanes (`phases`); a phase has at most
`banks` words (32 lanes of 4 bytes or less, 16 of 8, 8 of 16). Within a phase every bank serves one of its words
per wavefront, to any number of lanes: lanes that access the same word (the same address, or other bytes of it)
share a wavefront. A phase therefore takes as many wavefronts as its busiest bank has distinct words. Source:
CUDA C++ programming guide, shared memory. Where pairs of lanes hold copies, phases of wide loads are joined
(`phases`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from triton_linear.lowering.interpreter.memory import Recorded
from triton_linear.lowering.target.phases import Service
from triton_linear.lowering.target.targets import Target

WORD_BYTES = 4


def wavefronts(
    addresses: npt.ArrayLike, width: int, lanes_per_phase: int, banks: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Wavefronts of warp accesses, and the fewest that any placement of the same distinct words needs.

    Requires: `addresses` has one byte address per lane on its last axis, phase by phase, each a multiple of
    min(width, 4); lanes_per_phase divides the number of lanes.
    Ensures: both results have the shape of the other axes; the second is at most the first.

    >>> counts, fewest = wavefronts([[lane * 128 for lane in range(32)], [0] * 32], 4, 32, 32)
    >>> counts.tolist(), fewest.tolist()
    ([32, 1], [1, 1])
    """
    first = np.asarray(addresses, dtype=np.int64) // WORD_BYTES
    words = first[..., None] + np.arange(max(1, width // WORD_BYTES))
    outer = first.shape[:-1]
    phases = first.shape[-1] // lanes_per_phase
    words = np.sort(words.reshape(-1, lanes_per_phase * words.shape[-1]), axis=-1)
    distinct = np.ones(words.shape, dtype=bool)
    distinct[:, 1:] = words[:, 1:] != words[:, :-1]
    row = np.broadcast_to(np.arange(len(words))[:, None], words.shape)
    per_bank = np.bincount((row * banks + words % banks)[distinct], minlength=len(words) * banks)
    busiest = per_bank.reshape(-1, banks).max(axis=-1)
    fewest = -(-distinct.sum(axis=-1) // banks)
    shape = (*outer, phases)
    return busiest.reshape(shape).sum(axis=-1), fewest.reshape(shape).sum(axis=-1)


def joins(addresses: npt.NDArray[np.int64], service: Service) -> npt.NDArray[np.bool_]:
    """Whether phases of warp accesses are joined (`Service.of`). `addresses` has the lanes on its last axis."""
    lanes = np.arange(addresses.shape[-1])
    found = np.zeros(addresses.shape[:-1], bool)
    for pair in service.pairs:
        found |= (addresses == addresses[..., lanes ^ pair]).all(axis=-1)
    return found


def _by_warp(
    addresses: npt.NDArray[np.int64], width: int, service: Service, joining: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`wavefronts` of warps with all of their lanes, in the order of lanes."""
    lanes = addresses.shape[-1]
    if lanes < service.count:
        return wavefronts(addresses, width, lanes, service.banks)
    counts, fewest = wavefronts(addresses[..., list(service.order(lanes))], width, service.count, service.banks)
    if joining and lanes > service.count and (joined := joins(addresses, service)).any():
        service = service.joined
        served = addresses[joined][:, list(service.order(lanes))]
        counts[joined], fewest[joined] = wavefronts(served, width, service.count, service.banks)
    return counts, fewest


@dataclass(frozen=True, slots=True)
class CountedAccess:
    """One shared-memory instruction: `operation` is its position in the function's block.

    `wavefronts` and `minimum` add up all warps of the CTA.
    """

    operation: int
    kind: str
    width: int
    wavefronts: int
    minimum: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one run of a function.

    `accesses` lists shared-memory instructions in program order. `shuffles`, `alu` and barriers count
    instructions of one warp (all warps run the same); AMD's wavefront fence is a warp barrier here.
    `bytes_stored` and `bytes_loaded` add up all threads.
    """

    warps: int
    accesses: tuple[CountedAccess, ...]
    shuffles: int
    alu: tuple[tuple[str, int], ...]
    warp_barriers: int
    cta_barriers: int
    bytes_stored: int
    bytes_loaded: int

    @property
    def wavefronts(self) -> int:
        """Wavefronts of all accesses of all warps."""
        return sum(access.wavefronts for access in self.accesses)

    @property
    def minimum_wavefronts(self) -> int:
        """Wavefronts of the same accesses without bank conflicts."""
        return sum(access.minimum for access in self.accesses)

    def of_kind(self, kind: str) -> Mapping[int, int]:
        """Instructions per width in bytes; kind is 'load' or 'store'."""
        widths: dict[int, int] = {}
        for access in self.accesses:
            if access.kind == kind:
                widths[access.width] = widths.get(access.width, 0) + 1
        return widths

    @property
    def alu_operations(self) -> int:
        """Arithmetic, logic, select, compare, convert and permute operations of one warp."""
        return sum(count for _, count in self.alu)


def costs(recorded: Sequence[Recorded], target: Target) -> tuple[CountedAccess, ...]:
    """The counts of each access, in order."""
    found: dict[int, CountedAccess] = {}
    whole = [k for k, r in enumerate(recorded) if r.threads is None]
    alike: dict[tuple[str, int, bool, int], list[int]] = {}
    for k in whole:
        key = recorded[k].kind, recorded[k].width, recorded[k].joins, len(recorded[k].addresses)
        alike.setdefault(key, []).append(k)
    for (kind, width, joining, _), which in alike.items():
        lanes = min(target.lanes, len(recorded[which[0]].addresses))
        addresses = np.stack([recorded[k].addresses for k in which]).reshape(len(which), -1, lanes)
        counts, fewest = _by_warp(addresses, width, target.service(kind, width), joining)
        for k, count, minimum in zip(which, counts.sum(axis=1), fewest.sum(axis=1), strict=True):
            found[k] = CountedAccess(recorded[k].operation, recorded[k].kind, width, int(count), int(minimum))
    for k, access in enumerate(recorded):
        if access.threads is not None:
            found[k] = _part(access, access.threads, target)
    return tuple(found[k] for k in range(len(recorded)))


def _part(access: Recorded, threads: npt.NDArray[np.intp], target: Target) -> CountedAccess:
    """The count of an access by some of the threads; an inactive lane counts as one with an active lane's
    address."""
    service, lanes = target.service(access.kind, access.width), np.arange(target.lanes)
    if len(threads) % target.lanes == 0:
        warps = threads.reshape(-1, target.lanes)
        if (warps % target.lanes == lanes).all() and (warps - lanes == warps[:, :1]).all():
            addresses = access.addresses.reshape(warps.shape)
            counts, fewest = _by_warp(addresses, access.width, service, access.joins)
            return CountedAccess(
                access.operation, access.kind, access.width, int(counts.sum()), int(fewest.sum())
            )
    place = np.argsort(service.order(target.lanes))
    phases = (threads // target.lanes * target.lanes + place[threads % target.lanes]) // service.count
    count = minimum = 0
    for number in np.unique(phases):
        addresses = access.addresses[phases == number]
        filled = np.concatenate([addresses, np.repeat(addresses[:1], service.count - len(addresses))])
        counts, fewest = wavefronts(filled, access.width, service.count, service.banks)
        count, minimum = count + int(counts), minimum + int(fewest)
    return CountedAccess(access.operation, access.kind, access.width, count, minimum)
