"""The interpreter's model of the shared memory of a CTA: contents, undefined bits, hazards, accesses.

Hazards. For each granule (the narrowest element that the function moves), it records the last writer and reader
since the last synchronisation, at two levels: warps since the last barrier of the CTA, threads since the last
barrier of the warp or CTA. An agent (thread or warp) that accesses a granule which another agent wrote, or
writes one which another agent read, is in a race. Two agents that write the same bits are not: conversions of
replicated tensors do so on purpose. If an instruction moves rows for the whole warp, a row does not belong to
the thread that gives its address: only a barrier orders it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


_MANY = -1
_SCOPES = {"cta": "CTA", "warp": "warp"}
_UINT = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class SimulationError(ValueError):
    """The function does something that the machine does not allow or the interpreter does not know."""


class IllegalAccess(SimulationError):
    """The function accesses memory that the machine does not allow: out of bounds, misaligned or undefined."""


@dataclass(frozen=True, slots=True)
class Race:
    """Two unordered accesses of one address.

    scope: the barrier that is missing ('cta' or 'warp'). hazard: 'read after write', 'write after read' or
    'write after write'. operation: the position of the later access in the function's block. location: its
    place in the text. offset: the first byte concerned, from the start of the scratch.
    """

    scope: str
    hazard: str
    operation: int
    offset: int
    location: str = ""

    def __str__(self) -> str:
        ordering = _SCOPES[self.scope]
        return f"{self.location}: {self.hazard} at byte {self.offset} without a {ordering} barrier between"


@dataclass(frozen=True, slots=True)
class Meeting:
    """`warps` warps come to barrier `number`."""

    number: int
    warps: int

    def __str__(self) -> str:
        return f"barrier {self.number} for {self.warps}"


@dataclass(frozen=True, slots=True)
class Recorded:
    """An executed access. `addresses`: one for each thread that gave one. `threads`: these threads, if only
    some threads executed it. `joins`: copies in lanes may join phases (`phases`): it is no matrix
    instruction."""

    operation: int
    kind: str
    width: int
    addresses: npt.NDArray[np.int64]
    threads: Indices | None = None
    joins: bool = True


@dataclass(slots=True)
class _Agents:
    """The last writer and reader of each granule (0: none, _MANY: several), at one level of synchronisation."""

    scope: str
    agent: npt.NDArray[np.int32]
    writer: npt.NDArray[np.int32]
    reader: npt.NDArray[np.int32]

    def forget(self) -> None:
        self.writer.fill(0)
        self.reader.fill(0)

    def read(self, granules: Indices, agent: npt.NDArray[np.int32]) -> Flags:
        """Record a read; return flags of granules that another agent wrote."""
        _mark(self.reader, granules, agent)
        return _foreign(self.writer[granules], agent)

    def write(self, granules: Indices, agent: npt.NDArray[np.int32]) -> tuple[Flags, Flags, Flags]:
        """Record a write; return three flags: another agent read the granule before, wrote it before, writes it
        in the same access."""
        read = _foreign(self.reader[granules], agent)
        return (read, *_mark(self.writer, granules, agent))


def _foreign(owner: npt.NDArray[np.int32], agent: npt.NDArray[np.int32]) -> Flags:
    return np.asarray((owner != 0) & (owner != agent))


def _mark(
    owners: npt.NDArray[np.int32], granules: Indices, agent: npt.NDArray[np.int32]
) -> tuple[Flags, Flags]:
    """Make `agent` the owner, or _MANY if another agent owns a granule, from before or from this access.

    Returns flags of granules with another owner from before, and from this access.
    """
    before = _foreign(owners[granules], agent)
    owners[granules] = agent
    now = owners[granules] != agent
    shared = before | now
    if shared.any():
        owners[granules[shared]] = _MANY
    return before, now


@dataclass(slots=True)
class SharedMemory:
    """`size` bytes at address `base`, for `threads` threads in warps of `lanes`.

    active: the threads that execute the next operation; None: all. If warps run independently (`of_warp`),
    waiting: what the warp waits for; warps: all warps of the CTA.
    """

    trials: int
    threads: int
    lanes: int
    size: int
    base: int
    granule: int
    races: list[Race] = field(default_factory=list)
    recorded: list[Recorded] = field(default_factory=list)
    active: Flags | None = None
    waiting: Meeting | None = None
    warps: int = 1
    independent: bool = False
    _bytes: npt.NDArray[np.uint8] = field(init=False)
    _undefined: npt.NDArray[np.uint8] = field(init=False)
    _levels: tuple[Any, ...] = field(init=False)
    _collective: int = 0

    def __post_init__(self) -> None:
        rounded = -(-self.size // 8) * 8
        self._bytes = np.zeros((self.trials, rounded), np.uint8)
        self._undefined = np.full(rounded, 0xFF, np.uint8)
        thread = np.arange(self.threads, dtype=np.int32)
        granules = rounded // self.granule

        def level(scope: str, agent: npt.NDArray[np.int32]) -> _Agents:
            return _Agents(scope, agent + 1, np.zeros(granules, np.int32), np.zeros(granules, np.int32))

        self._levels = (level("cta", thread // self.lanes), level("warp", thread))

    def of_warp(self, level: Any, warps: int) -> SharedMemory:
        """The same bytes for an independent warp, one of `warps`; `level` records the accesses of the
        others."""
        mine = replace(self, races=[], recorded=[], warps=warps, independent=True)
        mine._bytes, mine._undefined = self._bytes, self._undefined
        mine._levels = (level, mine._levels[-1])
        return mine

    def named_barrier(self, number: int, threads: int | None) -> None:
        """Wait at barrier `number` for `threads` threads; None: for all."""
        self.all_execute("a barrier")
        warps = self.warps if threads is None else threads // self.lanes
        self.waiting = Meeting(number, warps)

    def forget_lanes(self) -> None:
        """Order the warp's own accesses, since it has passed a barrier."""
        self._levels[1].forget()

    def cta_barrier(self) -> None:
        """Order all threads' earlier accesses before all later ones."""
        self.all_execute("a barrier of the CTA")
        for agents in self._levels:
            agents.forget()

    def warp_barrier(self) -> None:
        """Order earlier accesses before later ones within each warp."""
        self.all_execute("a barrier of the warp")
        self._levels[-1].forget()

    def all_execute(self, what: str) -> None:
        """Raise if only some threads do `what`."""
        if self.active is not None:
            raise SimulationError(f"not all threads reach {what}")

    def load(
        self,
        operation: int,
        address: Bits,
        width: int,
        element: int,
        pieces: int,
        rows: Indices | None = None,
    ) -> tuple[list[Bits], list[Bits] | None]:
        """Load `width` bytes per thread: elements of `element` bytes each, and their undefined bits if any.

        pieces: the number of instructions of the access. rows: if the warp moves rows together, the threads
        that give an address; None: every thread accesses memory for itself.
        """
        threads, collective = self._accessing_threads(rows)
        offset = self._check(operation, "load", address, width, pieces, threads)
        granules, agents = self._granules(offset, width, threads, collective)
        foreign = [level.read(granules, agent) for level, agent in zip(self._levels, agents, strict=True)]
        self._report(operation, "read after write", granules, foreign)
        index = offset // element
        memory, undefined = self._bytes.view(_UINT[element]), self._undefined.view(_UINT[element])
        indices = [index + k for k in range(width // element)]
        values = [memory[:, i].astype(np.uint64) for i in indices]
        masks = [undefined[i].astype(np.uint64)[None, :] for i in indices]
        if self.active is not None:
            values = [self._spread(value, threads) for value in values]
            masks = [self._spread(mask, threads) for mask in masks]
        return values, (masks if any(mask.any() for mask in masks) else None)

    def store(
        self,
        operation: int,
        address: Bits,
        element: int,
        values: list[Bits],
        undefined: list[Bits | None],
        pieces: int,
        rows: Indices | None = None,
    ) -> None:
        """Store consecutive elements of `element` bytes; `undefined` has the undefined bits of each.

        `pieces` and `rows` as in `load`.
        """
        width = element * len(values)
        threads, collective = self._accessing_threads(rows)
        offset = self._check(operation, "store", address, width, pieces, threads)
        if self.active is not None:
            values = [self._at_threads(value, threads) for value in values]
            undefined = [None if mask is None else self._at_threads(mask, threads) for mask in undefined]
        granules, agents = self._granules(offset, width, threads, collective)
        found = [level.write(granules, agent) for level, agent in zip(self._levels, agents, strict=True)]
        self._report(operation, "write after read", granules, [read for read, _, _ in found])
        contended = any(flags.any() for _, before, now in found for flags in (before, now))
        before = self._contents(granules) if contended else None
        index = offset // element
        memory, masks = self._bytes.view(_UINT[element]), self._undefined.view(_UINT[element])
        for k, (value, mask) in enumerate(zip(values, undefined, strict=True)):
            memory[:, index + k] = value
            masks[index + k] = 0 if mask is None else mask[0]
        if before is not None:
            mine = self._image(len(offset), element, values, undefined)
            after = self._contents(granules)
            lost = (_differ(mine, before), _differ(mine, after))
            clashes = [(earlier & lost[0]) | (now & lost[1]) for _, earlier, now in found]
            self._report(operation, "write after write", granules, clashes)

    def clobber(self, operation: int, address: Bits, width: int) -> None:
        """A store of undefined bits, which LLVM removes: no access is recorded, and the bytes become undefined.
        With independent warps they stay, since other warps may still load them."""
        recorded = len(self.recorded)
        threads, _ = self._accessing_threads(None)
        offset = self._check(operation, "store", address, width, 1, threads)
        del self.recorded[recorded:]
        if self.independent:
            return
        for k in range(width):
            self._undefined[offset + k] = 0xFF

    def _accessing_threads(self, rows: Indices | None) -> tuple[Indices | None, bool]:
        """The threads that access memory (None: all), and true if they give addresses of rows."""
        if self.active is None:
            return rows, rows is not None
        if rows is not None:
            self.all_execute("an access of whole warps")
        return np.flatnonzero(self.active), False

    def _at_threads(self, value: Bits, threads: Indices | None) -> Bits:
        """The values of these threads."""
        return value if threads is None or value.shape[1] == 1 else value[:, threads]

    def _spread(self, value: Bits, threads: Indices | None) -> Bits:
        """The reverse of `_at_threads`, with zeros for the others."""
        full = np.zeros((len(value), self.threads), np.uint64)
        full[:, threads] = value
        return full

    def _check(
        self, operation: int, kind: str, address: Bits, width: int, pieces: int, rows: Indices | None
    ) -> Indices:
        """Check and record an access; return the offset of each thread that gives an address."""
        threads = np.arange(self.threads) if rows is None else rows
        if self.active is not None:
            address = self._at_threads(address, rows)
        if len(address) > 1:
            if (address != address[0]).any():
                raise SimulationError(f"{kind} address depends on the data converted")
            address = address[:1]
        flat = np.broadcast_to(address[0], threads.shape)
        offset: Indices = (flat - np.uint64(self.base)).astype(np.int64)
        outside = (offset < 0) | (offset > self.size - width)
        if outside.any():
            at = int(np.argmax(outside))
            raise IllegalAccess(
                f"{kind} of {width} bytes by thread {threads[at]} at byte {int(offset[at])} is out of bounds: "
                f"scratch has {self.size} bytes"
            )
        piece = width // pieces
        misaligned = (offset + self.base) % piece != 0
        if misaligned.any():
            at = int(np.argmax(misaligned))
            raise IllegalAccess(
                f"{kind} by thread {threads[at]} at byte {int(offset[at])} is misaligned: the address is no "
                f"multiple of {piece}"
            )
        who = None if self.active is None else threads
        for k in range(pieces):
            at_piece = flat.astype(np.int64) + k * piece
            self.recorded.append(Recorded(operation, kind, piece, at_piece, who, rows is None))
        return offset

    def check_promise(self, address: Bits, alignment: int) -> None:
        """Raise IllegalAccess if an active thread has an address that is no multiple of `alignment`."""
        rows = address if self.active is None or address.shape[1] == 1 else address[:, self.active]
        if (rows % np.uint64(alignment)).any():
            raise IllegalAccess(f"an address is no multiple of {alignment}, the alignment that is promised")

    def _granules(
        self, offset: Indices, width: int, threads: Indices | None, collective: bool
    ) -> tuple[Indices, list[npt.NDArray[np.int32]]]:
        count = width // self.granule
        granules = (offset // self.granule)[:, None] + np.arange(count)
        agents = [level.agent if threads is None else level.agent[threads] for level in self._levels]
        if collective:
            self._collective += 1
            agents[-1] = agents[-1] + np.int32(self._collective * self.threads)
        if count > 1:
            agents = [np.repeat(agent, count) for agent in agents]
        return granules.ravel(), agents

    def _contents(self, granules: Indices) -> Bits:
        """Values and undefined bits per granule, in the form in which writes are compared."""
        dtype = _UINT[self.granule]
        values = self._bytes.view(dtype)[:, granules]
        return np.concatenate([values, self._undefined.view(dtype)[None, granules]]).astype(np.uint64)

    def _image(self, count: int, element: int, values: list[Bits], undefined: list[Bits | None]) -> Bits:
        """The data of a store of `count` threads, in the form of `_contents`."""
        dtype = _UINT[element]
        image = np.zeros((self.trials + 1, count, len(values)), dtype)
        for k, (value, mask) in enumerate(zip(values, undefined, strict=True)):
            image[:-1, :, k] = value
            if mask is not None:
                image[-1, :, k] = mask[0]
        return image.reshape(self.trials + 1, -1).view(_UINT[self.granule]).astype(np.uint64)

    def _report(self, operation: int, hazard: str, granules: Indices, found: list[Flags]) -> None:
        for level, flags in zip(self._levels, found, strict=True):
            if flags.any():
                offset = int(granules[int(np.argmax(flags))]) * self.granule
                self.races.append(Race(level.scope, hazard, operation, offset))
                return


def _differ(left: Bits, right: Bits) -> Flags:
    """Flags of granules that differ in some trial, except in bits that are undefined in both."""
    defined = ~(left[-1] & right[-1])
    return np.asarray((((left ^ right) & defined) != 0).any(axis=0))
