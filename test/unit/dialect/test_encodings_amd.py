"""Every form of AMD's matrix layouts that Triton takes, and their operands and slices, against Triton's own.

What the verifiers take is asked of Triton, so that no form is left out. Each instruction, operand and kWidth
meets a few tensors; each arrangement of warps, tiles, CTAs and shapes meets a few instructions.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from triton_linear.dialect import encodings
from triton_linear.dialect.bridge import BridgeError, parse_triton, triton_context
from triton_linear.tools.doctor.encodings import Oracle
from triton_linear.tools.support.errors import captured_stderr

pytestmark = pytest.mark.skipif(
    encodings.installed_release() >= (3, 7), reason="the forms are those of Triton 3.6; later, wmma has bases"
)

Shape = tuple[int, ...]
MODULE = """module attributes {{"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = {lanes} : i32}} {{
  tt.func private @f(%x: tensor<64x64xf16, {encoding}>)
}}
"""
POWERS = [1 << bit for bit in range(9)]
BOTH = (False, True)

# Rows and columns of an mfma with the Ks that the instructions of a version have, scaled ones last.
MFMA_K = {
    1: {(32, 32): (2, 4, 8), (16, 16): (4, 8, 16), (64, 4): (1, 4), (4, 64): (1, 4)},
    2: {(32, 32): (2, 4, 8), (16, 16): (4, 8, 16), (64, 4): (1, 4), (4, 64): (1, 4)},
    3: {(32, 32): (2, 8, 16), (16, 16): (4, 16, 32), (64, 4): (1, 4), (4, 64): (1, 4)},
    4: {(32, 32): (2, 8, 16, 64), (16, 16): (4, 16, 32, 128), (64, 4): (1, 4), (4, 64): (1, 4)},
}
MFMA_WIDTHS = (1, 2, 4, 8, 16, 32)
WMMA_K = {1: (16,), 2: (16, 32), 3: (4, 32, 64, 128)}
WMMA_WIDTHS = {1: (8, 16), 2: (4, 8, 16), 3: (2, 8, 16)}


@dataclass(frozen=True)
class Place:
    """How warps, tiles of a warp and CTAs lie in a tensor of this shape."""

    shape: Shape
    warps: Shape
    tiles: Shape
    cga: tuple[Shape, ...] = ()


def places(rank: int) -> Iterator[Place]:
    """All arrangements of a few kinds, with tensors below, at and above the size of a tile."""
    if rank == 2:
        shapes: Sequence[Shape] = ((1, 1), (1, 64), (16, 16), (32, 128), (64, 64), (512, 16))
        warps: Sequence[Shape] = ((1, 1), (4, 1), (1, 4), (2, 2))
        tiles: Sequence[Shape] = ((1, 1), (1, 2), (4, 1), (2, 2))
        cgas: Sequence[tuple[Shape, ...]] = ((), ((1, 0), (0, 1)), ((0, 0),), ((0, 1), (0, 2), (1, 0)))
    else:
        shapes = ((1, 1, 1), (2, 64, 64), (8, 128, 32))
        warps = ((1, 1, 1), (2, 2, 2), (4, 1, 1))
        tiles = ((1, 1, 1), (1, 2, 2), (1, 1, 4))
        cgas = ((), ((0, 1, 0), (0, 0, 1)), ((1, 0, 0),))
    return itertools.starmap(Place, itertools.product(shapes, warps, tiles, cgas))


FEW = [
    Place((64, 64), (2, 2), (1, 1)),
    Place((256, 128), (1, 4), (2, 2)),
    Place((16, 512), (4, 1), (1, 2), ((0, 1),)),
    Place((4, 128, 64), (2, 1, 2), (1, 2, 1)),
]
"""Places where each instruction meets each operand."""


class Comparison:
    """Compares layouts with Triton's and counts them by what they are."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.builder = oracle.builder
        self.seen: Counter[str] = Counter()
        self.texts: set[str] = set()

    def same(self, kind: str, attribute: Any, shape: Shape) -> None:
        """One layout, bit for bit."""
        text = self.oracle.text(attribute, shape)
        expected = self.oracle.distributed(attribute, shape)
        actual = encodings.layout_of(text, shape, 16)
        assert actual == expected, f"{kind}: {text} {shape}\n{actual}\nTriton says:{expected}"
        self.seen[kind] += 1
        self.texts.add(text)

    def slices(self, kind: str, attribute: Any, shape: Shape) -> None:
        """Along each dimension, and along two."""
        for axis in range(len(shape)):
            rest = (*shape[:axis], *shape[axis + 1 :])
            slice_ = self.builder.get_slice_layout(axis, attribute)
            self.same(f"slice of {kind}", slice_, rest)
            if len(rest) == 2:
                self.same(f"slice of slice of {kind}", self.builder.get_slice_layout(1, slice_), rest[:1])

    def operands(self, kind: str, attribute: Any, place: Place, widths: Sequence[int], sliced: bool) -> None:
        """Both operands with all widths."""
        for index, width in itertools.product((0, 1), widths):
            operand = self.builder.get_dot_operand_layout(index, attribute, width)
            self.same(f"dot of {kind}", operand, place.shape)
            if sliced:
                self.slices(f"dot of {kind}", operand, place.shape)

    def mfma(self, place: Place, version: int, shape: Sequence[int], transposed: bool, bits: int = 32) -> Any:
        cga = [list(basis) for basis in place.cga]
        return self.builder.get_amd_mfma_layout(
            version, list(place.warps), list(shape), transposed, cga, list(place.tiles), bits
        )

    def wmma(self, place: Place, version: int, k: int, transposed: bool) -> Any:
        cga = [list(basis) for basis in place.cga]
        return self.builder.get_amd_wmma_layout(
            version, transposed, list(place.warps), list(place.tiles), cga, [16, 16, k]
        )


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


@pytest.fixture
def comparison(oracle: Oracle) -> Comparison:
    return Comparison(oracle)


def has_result(rows: int, transposed: bool) -> bool:
    """Triton lays out results of 64x4 transposed only."""
    return rows != 64 or transposed


def fits_wmma(shape: Shape) -> bool:
    """Triton lays out results of wmma of whole instructions, or of a single row or column."""
    return all(size == 1 or size >= 16 for size in shape[-2:])


def is_taken(encoding: str, lanes: int) -> bool:
    """Whether Triton's verifiers take an encoding."""
    with captured_stderr():
        try:
            parse_triton(MODULE.format(lanes=lanes, encoding=encoding), triton_context())
        except BridgeError:
            return False
    return True


def mfma_text(version: int = 3, shape: Sequence[int] = (32, 32, 8), bits: int = 32) -> str:
    return (
        f"#ttg.amd_mfma<{{version = {version}, warpsPerCTA = [2, 2], instrShape = {list(shape)}, "
        f"isTransposed = true, elementBitWidth = {bits}}}>"
    )


def wmma_text(version: int, shape: Sequence[int]) -> str:
    return (
        f"#ttg.amd_wmma<{{version = {version}, isTranspose = false, warpsPerCTA = [2, 2], "
        f"instrShape = {list(shape)}}}>"
    )


def operand_text(parent: str, width: int) -> str:
    return f"#ttg.dot_op<{{opIdx = 0, parent = {parent}, kWidth = {width}}}>"


def test_these_are_the_forms_of_mfma() -> None:
    """Version 0, which the verifier takes as well, is of no GPU, and Gluon refuses it."""
    sides = [
        (m, n) for m, n in itertools.product(POWERS[:8], repeat=2) if is_taken(mfma_text(shape=(m, n, 8)), 64)
    ]
    assert sorted(sides) == sorted(MFMA_K[3])
    assert [v for v in range(6) if is_taken(mfma_text(version=v), 64)] == [0, *MFMA_K]
    assert [bits for bits in (8, *POWERS[4:8]) if is_taken(mfma_text(bits=bits), 64)] == [32, 64]
    assert not is_taken(operand_text(mfma_text(), 0), 64)
    assert all(is_taken(operand_text(mfma_text(), width), 64) for width in MFMA_WIDTHS)


def test_these_are_the_forms_of_wmma() -> None:
    found = {
        version: tuple(k for k in POWERS if is_taken(wmma_text(version, (16, 16, k)), 32))
        for version in range(5)
    }
    assert {version: ks for version, ks in found.items() if ks} == WMMA_K
    for m, n in itertools.product(POWERS[3:7], repeat=2):
        assert (m, n) == (16, 16) or not any(is_taken(wmma_text(v, (m, n, WMMA_K[v][0])), 32) for v in WMMA_K)
    for version, ks in WMMA_K.items():
        for k in ks:
            parent = wmma_text(version, (16, 16, k))
            widths = tuple(w for w in range(33) if is_taken(operand_text(parent, w), 32))
            assert widths == WMMA_WIDTHS[version]


def test_every_mfma_instruction(comparison: Comparison) -> None:
    for version, sides in MFMA_K.items():
        for ((m, n), ks), transposed, place in itertools.product(sides.items(), BOTH, FEW):
            for bits, k in itertools.product((32, 64), ks) if has_result(m, transposed) else ():
                result = comparison.mfma(place, version, (m, n, k), transposed, bits)
                comparison.same("mfma", result, place.shape)
                if k == ks[0]:
                    comparison.slices("mfma", result, place.shape)
            for k in ks:
                parent = comparison.mfma(place, version, (m, n, k), transposed)
                comparison.operands("mfma", parent, place, MFMA_WIDTHS, sliced=k == ks[-1] and transposed)
    assert set(comparison.seen) == {
        f"{of}{what}mfma" for of in ("", "slice of ", "slice of slice of ") for what in ("", "dot of ")
    }
    assert comparison.seen["dot of mfma"] == len(FEW) * 2 * 2 * len(MFMA_WIDTHS) * (10 + 10 + 10 + 12)


def test_every_wmma_instruction(comparison: Comparison) -> None:
    for version, ks in WMMA_K.items():
        for k, transposed, place in itertools.product(ks, BOTH, FEW):
            result = comparison.wmma(place, version, k, transposed)
            comparison.same("wmma", result, place.shape)
            comparison.slices("wmma", result, place.shape)
            comparison.operands("wmma", result, place, WMMA_WIDTHS[version], sliced=True)
    assert set(comparison.seen) == {
        f"{of}{what}wmma" for of in ("", "slice of ", "slice of slice of ") for what in ("", "dot of ")
    }
    assert comparison.seen["dot of wmma"] == len(FEW) * 2 * 2 * (1 * 2 + 2 * 3 + 4 * 3)


@pytest.mark.parametrize("rank", [2, 3])
def test_every_arrangement_of_mfma(comparison: Comparison, rank: int) -> None:
    everywhere = list(places(rank))
    for place, (m, n), transposed in itertools.product(everywhere, MFMA_K[3], BOTH):
        for bits in (32, 64) if has_result(m, transposed) else ():
            comparison.same("mfma", comparison.mfma(place, 3, (m, n, 8), transposed, bits), place.shape)
        if transposed:
            parent = comparison.mfma(place, 3, (m, n, 8), transposed)
            comparison.operands("mfma", parent, place, (4, 16), sliced=False)
    assert comparison.seen["mfma"] == 2 * 7 * len(everywhere)
    assert comparison.seen["dot of mfma"] == 2 * 2 * 4 * len(everywhere)


@pytest.mark.parametrize("rank", [2, 3])
def test_every_arrangement_of_wmma(comparison: Comparison, rank: int) -> None:
    everywhere = list(places(rank))
    for place, (version, ks), transposed in itertools.product(everywhere, WMMA_K.items(), BOTH):
        result = comparison.wmma(place, version, ks[-1], transposed)
        if fits_wmma(place.shape):
            comparison.same("wmma", result, place.shape)
        if not transposed:
            comparison.operands("wmma", result, place, WMMA_WIDTHS[version][-2:], sliced=False)
    assert comparison.seen["wmma"] == 3 * 2 * sum(fits_wmma(place.shape) for place in everywhere)
    assert comparison.seen["dot of wmma"] == 3 * 2 * 2 * len(everywhere)


@pytest.mark.parametrize("bits", [32, 64])
def test_results_of_64x4_are_transposed_only(oracle: Oracle, bits: int) -> None:
    """Triton ends the process where it is to lay out others; their operands it does lay out."""
    parent = Comparison(oracle).mfma(FEW[0], 3, (64, 4, 4), False, bits)
    with pytest.raises(encodings.MalformedEncoding, match="results of 64x4 are laid out transposed only"):
        encodings.layout_of(oracle.text(parent, (64, 64)), (64, 64))
    Comparison(oracle).same("dot", oracle.builder.get_dot_operand_layout(0, parent, 4), (64, 64))
