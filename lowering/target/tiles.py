"""The instructions that move data inside a CTA on NVIDIA GPUs, as data.

Each has its PTX, with words `d`, double words `e`, predicate `p` and address `a`; the compute capability that
brought it; the bytes that it moves for each lane; and, where it reaches shared memory, of how many lanes the
addresses are served together. `lowering/target/clocks.py` has what was measured of them on one
H200; what is not there was not measured. Availability is from the PTX ISA, in the section named, and the tests
ask ptxas.
"""

from __future__ import annotations

from collections.abc import Iterator

from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target.clocks import H200

LANES = 32
WAVEFRONT_BYTES = 128


@dataclass(frozen=True, slots=True)
class InstructionClocks:
    """Clocks of one warp instruction: `busy` with 16 warps at work, `alone` with one, `chain` where each waits
    for the one before; None where that was not measured."""

    busy: float
    alone: float
    chain: float | None


@dataclass(frozen=True, slots=True)
class Tile:
    """One instruction; `name` is what bench/calibrate.py calls it.

    since: the first compute capability that has it, as in `sm_90`; 0: all have it. phase_lanes: lanes whose
    addresses one wavefront serves, 0 where there are none. also: other PTX for the same machine instruction.
    """

    name: str
    ptx: str
    since: int
    lane_bytes: int
    phase_lanes: int
    section: str
    also: tuple[str, ...] = ()

    @property
    def wavefronts(self) -> int:
        """The least that its bytes take; 0 for an instruction that moves registers alone."""
        return max(1, self.lane_bytes * LANES // WAVEFRONT_BYTES) if self.phase_lanes else 0

    @property
    def clocks(self) -> InstructionClocks | None:
        """What was measured on an H200."""
        found = H200.get(self.name)
        return None if found is None else InstructionClocks(*found)


def _words(count: int, name: str = "d") -> str:
    names = ", ".join(f"{name}{k}" for k in range(count))
    return f"{{{names}}}" if count > 1 else names


def _shared() -> Iterator[Tile]:
    """Every lane has an address of its own: 32 share a wavefront, fewer where each has more than a word."""
    rows = (
        ("u8", 1, 1, ()),
        ("u16", 2, 1, (f"v2.u8 {_words(2)}",)),
        ("b32", 4, 1, (f"v2.u16 {_words(2)}", f"v4.u8 {_words(4)}")),
        ("v2.b32", 8, 2, ("b64 e0", f"v4.u16 {_words(4)}")),
        ("v4.b32", 16, 4, (f"v2.b64 {_words(2, 'e')}",)),
    )
    for form, size, count, others in rows:
        phase = min(LANES, WAVEFRONT_BYTES // size)
        loads = tuple(f"ld.shared.{kind} {words}, [a]" for kind, _, words in (o.partition(" ") for o in others))
        stores = tuple(
            f"st.shared.{kind} [a], {words}" for kind, _, words in (o.partition(" ") for o in others)
        )
        yield Tile(f"ld.shared.{form}", f"ld.shared.{form} {_words(count)}, [a]", 0, size, phase, "ld", loads)
        yield Tile(f"st.shared.{form}", f"st.shared.{form} [a], {_words(count)}", 0, size, phase, "st", stores)


def _matrix() -> Iterator[Tile]:
    """Eight lanes have the addresses of a matrix's rows of 16 bytes, and a matrix is 128 bytes."""
    for count in (1, 2, 4):
        words = _words(count) if count > 1 else "{d0}"
        for trans in ("", ".trans"):
            form = f"sync.aligned.m8n8.x{count}{trans}.shared.b16"
            size = 4 * count
            yield Tile(f"ldmatrix.x{count}{trans}", f"ldmatrix.{form} {words}, [a]", 75, size, 8, "ldmatrix")
            yield Tile(f"stmatrix.x{count}{trans}", f"stmatrix.{form} [a], {words}", 90, size, 8, "stmatrix")
    for count in (1, 2):
        form = f"m16n16.x{count}.trans"
        ptx = f"ldmatrix.sync.aligned.{form}.shared.b8 {_words(2 * count)}, [a]"
        yield Tile(f"ldmatrix.{form}.b8", ptx, 100, 8 * count, 8, "ldmatrix")
    for count in (1, 2, 4):
        form = f"m16n8.x{count}.trans"
        words = _words(count) if count > 1 else "{d0}"
        ptx = f"stmatrix.sync.aligned.{form}.shared.b8 [a], {words}"
        yield Tile(f"stmatrix.{form}.b8", ptx, 100, 4 * count, 8, "stmatrix")


TILES: tuple[Tile, ...] = (
    *_shared(),
    *_matrix(),
    Tile("movmatrix.trans", "movmatrix.sync.aligned.m8n8.trans.b16 d0, d1", 75, 4, 0, "movmatrix"),
    Tile("shfl.bfly", "shfl.sync.bfly.b32 d0, d1, 1, 31, -1", 30, 4, 0, "shfl.sync"),
    Tile("shfl.idx", "shfl.sync.idx.b32 d0, d1, d2, 31, -1", 30, 4, 0, "shfl.sync"),
    Tile("prmt", "prmt.b32 d0, d1, d2, d3", 20, 4, 0, "prmt"),
    Tile("selp", "selp.b32 d0, d1, d2, p", 0, 4, 0, "selp", ("@p mov.b32 d0, d1",)),
    Tile("@p mul.lo", "@p mul.lo.u32 d0, d1, d2", 0, 4, 0, "mul"),
)
_BY_NAME = {tile.name: tile for tile in TILES}


def tile(name: str) -> Tile:
    """The instruction called `name`; raises KeyError where there is none."""
    return _BY_NAME[name]


def available(capability: int) -> tuple[Tile, ...]:
    """What a GPU of a compute capability has.

    >>> [t.name for t in TILES if t not in available(90)][:2]
    ['ldmatrix.m16n16.x1.trans.b8', 'ldmatrix.m16n16.x2.trans.b8']
    """
    return tuple(tile for tile in TILES if tile.since <= capability)


def phase_lanes(capability: int) -> dict[int, int]:
    """Lanes served together, by the bytes that each touches of shared memory.

    >>> phase_lanes(80)
    {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}
    """
    return {t.lane_bytes: t.phase_lanes for t in available(capability) if t.name.startswith("ld.shared.")}
