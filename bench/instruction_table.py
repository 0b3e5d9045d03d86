"""The instructions that move data inside a CTA on NVIDIA GPUs, as data.

Each has its PTX, with words `d`, double words `e`, predicate `p` and address `a`; the first compute capability
that has it; the bytes that it moves for each lane; and, if it accesses shared memory, the number of lanes whose
addresses are served together. `bench/results/calibration.json` has the clocks of those that were measured on an
H200. Availability is from the named section of the PTX ISA, and the tests check it with ptxas.
"""

from __future__ import annotations

from collections.abc import Iterator

from triton_linear.dialect.records import dataclass

LANES = 32
WAVEFRONT_BYTES = 128


@dataclass(frozen=True, slots=True)
class Tile:
    """One instruction; `name` is what bench/calibrate.py calls it.

    since: the first compute capability that has it, 90 for `sm_90`; 0: all have it. phase_lanes: lanes whose
    addresses one wavefront serves, 0 without addresses. also: other PTX for the same machine instruction.
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
        """The fewest wavefronts for its bytes; 0 for an instruction without an access to shared memory."""
        return max(1, self.lane_bytes * LANES // WAVEFRONT_BYTES) if self.phase_lanes else 0


def _words(count: int, name: str = "d") -> str:
    names = ", ".join(f"{name}{k}" for k in range(count))
    return f"{{{names}}}" if count > 1 else names


def _shared() -> Iterator[Tile]:
    """Accesses with an address in each lane: 32 lanes share a wavefront, fewer if each has more than a word."""
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
    """Accesses of matrices of 128 bytes; eight lanes have the addresses of the rows of 16 bytes."""
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


def available(capability: int) -> tuple[Tile, ...]:
    """The instructions of a GPU of a compute capability.

    >>> [t.name for t in TILES if t not in available(90)][:2]
    ['ldmatrix.m16n16.x1.trans.b8', 'ldmatrix.m16n16.x2.trans.b8']
    """
    return tuple(tile for tile in TILES if tile.since <= capability)


def phase_lanes(capability: int) -> dict[int, int]:
    """The number of lanes served together, by the bytes of shared memory that each accesses.

    >>> phase_lanes(80)
    {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}
    """
    return {t.lane_bytes: t.phase_lanes for t in available(capability) if t.name.startswith("ld.shared.")}
