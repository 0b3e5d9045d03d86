"""The count of wavefronts: what is foreseen of an access as Triton emits it is what the interpreter counts."""

from __future__ import annotations

import pytest
from shared_accesses import Case, random_cases

TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942", "hip:gfx950")


@pytest.mark.parametrize("name", TARGETS)
def test_any_layout_of_registers_with_any_of_memory(name: str) -> None:
    for case, _ in zip(random_cases(1, name), range(6), strict=False):
        assert case.foreseen == case.wavefronts(), case


@pytest.mark.parametrize(
    ("lanes", "joined"), [([0, 0, 1, 2, 4], True), ([1, 0, 0, 2, 4], True), ([1, 2, 0, 0, 4], False)]
)
def test_loads_of_copies_take_half_as_many_wavefronts(lanes: list[int], joined: bool) -> None:
    """A warp loads eight rows of 32 bytes, 16 at once, from memory with rows of 32 bytes."""
    lane = [[row, 0] for row in lanes]
    bases = f"register = [[0, 1], [0, 2], [0, 4], [0, 8]], lane = {lane}, warp = [[8, 0], [16, 0]], block = []"
    registers = f"#ttg.linear<{{{bases}}}>"
    plain = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
    case = Case("cuda:90", 4, (32, 16), "f16", registers, plain, is_store=False)
    assert case.foreseen == case.wavefronts() == (4 if joined else 8) * 4
