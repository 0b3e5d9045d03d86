"""Random programs with tensor memory: stores and loads in layouts that an instruction supports, with
conversions between them."""

from __future__ import annotations

import random

from bench.fuzz.program import Add, Convert, Program, Step, TensorMemory
from bench.fuzz.random_layouts import blocked_encoding
from bench.fuzz.write import write
from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP
from triton_linear.dialect.triton_versions import TENSOR_MEMORY_BY_LAYOUT, installed_release
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.planners.tensor_layouts import layouts_for
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.lowering.target.tensor_memory import SINCE, WORD_BITS
from triton_linear.tools.support.errors import fail

ELEMENTS = ("f32", "f32", "i32", "f16", "bf16", "i8")
WARPS = (4, 4, 8, 16)
MOST_REGISTERS = 64
"""The maximum number of elements of a thread."""
STEPS = (1, 2, 2, 3)


def check_tensor_memory(target_name: str) -> None:
    """Fail if the target has no tensor memory, or if its layouts are not supported with this Triton."""
    target = target_called(target_name)
    if target.vendor != "nvidia" or int(target.name.partition(":")[2]) // 10 != SINCE // 10:
        fail(f"tensor: '{target_name}' has no tensor memory")
    if installed_release() not in TENSOR_MEMORY_BY_LAYOUT:
        fail("tensor: this Triton moves tensor memory in other ways (docs/versions.md)")


def draw_tensor_program(rng: random.Random, target_name: str) -> Program:
    """A program that stores to tensor memory and loads from it, one to three times."""
    while True:
        warps, element = rng.choice(WARPS), rng.choice(ELEMENTS)
        bits = element_type(element).bits
        shape = (64 << rng.randint(0, 2), 1 << rng.randint(2, 8))
        if not 1 <= shape[0] * shape[1] // (32 * warps) <= MOST_REGISTERS:
            continue
        steps: list[Step] = []
        for _ in range(rng.choice(STEPS)):
            memory = _memory(rng, shape, bits)
            sides = _sides(rng, memory, shape, bits, warps)
            if not sides:
                break
            steps.append(TensorMemory(memory, rng.choice(sides), rng.choice(sides)))
            if rng.random() < 0.6:
                steps.append(Add(rng.randint(1, 100)))
            if rng.random() < 0.6:
                steps.append(Convert(rng.choice((*sides, blocked_encoding(rng, 32, warps, 2)))))
        program = Program(
            target_called(target_name).name,
            warps,
            shape,
            element,
            blocked_encoding(rng, 32, warps, 2),
            tuple(steps),
        )
        if steps and write(program).conversions:
            return program


def _memory(rng: random.Random, shape: tuple[int, int], bits: int) -> str:
    block_m = rng.choice([rows for rows in (64, 128) if rows <= shape[0]])
    block_n = max(2, shape[1] >> rng.randint(0, 2))
    stride = rng.choice((1, 1, WORD_BITS // bits))
    return f"#ttng.tensor_memory_encoding<blockM = {block_m}, blockN = {block_n}, colStride = {stride}>"


def _sides(rng: random.Random, memory: str, shape: tuple[int, int], bits: int, warps: int) -> list[str]:
    """Register encodings that instructions support. The order of registers is random, except within a word."""
    found = []
    for _, layout in layouts_for(encodings.layout_of(memory, shape), bits, warps):
        bases = {name: list(vectors) for name, vectors in layout.bases}
        first = (WORD_BITS // bits).bit_length() - 1
        rest = bases[REGISTER][first:]
        if rng.random() < 0.5:
            rng.shuffle(rest)
        bases[REGISTER][first:] = rest
        found.append(_text(bases))
    return found


def _text(bases: dict[str, list[tuple[int, ...]]]) -> str:
    vectors = {name: [list(basis) for basis in bases[name]] for name in (REGISTER, LANE, WARP, BLOCK)}
    return f"#ttg.linear<{{{', '.join(f'{name} = {found}' for name, found in vectors.items())}}}>"
