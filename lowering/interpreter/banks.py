"""The words that a warp's accesses to given addresses read or write in each bank."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from triton_linear.lowering.interpreter.counts import joins, wavefronts
from triton_linear.lowering.target.phases import LOAD
from triton_linear.lowering.target.targets import Target

Addresses = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Phase:
    """Lanes that are served together, and the number of different words that they access in each bank."""

    lanes: tuple[int, ...]
    banks: dict[int, int] = field(hash=False)

    @property
    def wavefronts(self) -> int:
        """The words of the busiest bank."""
        return max(self.banks.values())


@dataclass(frozen=True, slots=True)
class Touch:
    """One access of a warp.

    registers: those that it moves. width: bytes of a lane. addresses: of each lane. minimum: the fewest
    wavefronts for the same number of words.
    """

    registers: tuple[int, ...]
    width: int
    addresses: tuple[int, ...]
    phases: tuple[Phase, ...]
    minimum: int

    @property
    def wavefronts(self) -> int:
        """Wavefronts of all phases."""
        return sum(phase.wavefronts for phase in self.phases)


def touches(places: Addresses, element_bytes: int, target: Target, kind: str = LOAD) -> tuple[Touch, ...]:
    """The loads or stores by which one warp moves every register of every lane, with the widest vectors that
    fit all lanes.

    Requires: `places` has shape (registers, lanes) and the byte address of each element.
    Ensures: registers with the same addresses are moved once; vectors have a power of two elements, at most
    `target.max_access_bytes`, and are aligned in every lane. Matrix instructions are not considered.
    """
    found: list[Touch] = []
    left: list[int] = []
    for register in range(len(places)):
        if not any((places[register] == places[other]).all() for other in left):
            left.append(register)
    while left:
        vector = _vector(places, left, element_bytes, target)
        left = [register for register in left if register not in vector]
        found.append(_touch(places[vector[0]], tuple(vector), element_bytes, target, kind))
    return tuple(found)


def _vector(places: Addresses, left: list[int], element_bytes: int, target: Target) -> list[int]:
    """The registers of the next access: the longest run that begins at an aligned address in every lane."""
    best: list[int] = []
    at = {places[register].tobytes(): register for register in reversed(left)}
    for first in left:
        vector = [first]
        while len(vector) * element_bytes < target.max_access_bytes:
            following = at.get((places[first] + len(vector) * element_bytes).tobytes())
            if following is None:
                break
            vector.append(following)
        length = 1 << (len(vector).bit_length() - 1)
        while length > 1 and (places[first] % (length * element_bytes)).any():
            length //= 2
        if length > len(best):
            best = vector[:length]
        if len(best) * element_bytes >= target.max_access_bytes:
            break
    return best


def _touch(
    addresses: Addresses, registers: tuple[int, ...], element_bytes: int, target: Target, kind: str
) -> Touch:
    width = len(registers) * element_bytes
    service = target.service(kind, width)
    if len(addresses) > service.count and joins(addresses, service):
        service = service.joined
    order = service.order(len(addresses))
    words = max(1, width // target.bank_bytes)
    phases = []
    for start in range(0, len(addresses), service.count):
        lanes = tuple(sorted(order[start : start + service.count]))
        accessed = {int(addresses[lane]) // target.bank_bytes + word for lane in lanes for word in range(words)}
        banks: dict[int, int] = {}
        for word in sorted(accessed):
            banks[word % service.banks] = banks.get(word % service.banks, 0) + 1
        phases.append(Phase(lanes, banks))
    _, minimum = wavefronts(addresses[None, list(order)], width, service.count, service.banks)
    return Touch(registers, width, tuple(map(int, addresses)), tuple(phases), int(minimum.sum()))
