"""Encodings as text, for cases that are written as TTGIR.

Nothing is imported, so that a Python that has a Triton of old, and not this project, can read the cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def blocked(size: Sequence[int], threads: Sequence[int], warps: Sequence[int], order: Sequence[int]) -> str:
    """Blocks of `size` elements a thread."""
    return (
        f"#ttg.blocked<{{sizePerThread = {list(size)}, threadsPerWarp = {list(threads)}, "
        f"warpsPerCTA = {list(warps)}, order = {list(order)}}}>"
    )


def slice_of(dim: int, parent: str) -> str:
    """What is left of an encoding without a dimension."""
    return f"#ttg.slice<{{dim = {dim}, parent = {parent}}}>"


def mma(major: int, warps: Sequence[int], shape: Sequence[int]) -> str:
    """The accumulator of mma.sync (2) or wgmma (3)."""
    return (
        f"#ttg.nvidia_mma<{{versionMajor = {major}, versionMinor = 0, warpsPerCTA = {list(warps)}, "
        f"instrShape = {list(shape)}}}>"
    )


def dot_operand(index: int, parent: str, k_width: int) -> str:
    """An operand of a dot, in registers."""
    return f"#ttg.dot_op<{{opIdx = {index}, parent = {parent}, kWidth = {k_width}}}>"


def linear(bases: Mapping[str, Sequence[Sequence[int]]]) -> str:
    """A layout by its bases."""
    return f"#ttg.linear<{{{', '.join(f'{name} = {vectors}' for name, vectors in bases.items())}}}>"


def tensor(shape: Sequence[int], element: str, encoding: str) -> str:
    """A type.

    >>> tensor((64, 2), "f16", "#blocked")
    'tensor<64x2xf16, #blocked>'
    """
    return f"tensor<{'x'.join(map(str, shape))}x{element}, {encoding}>"


def of_old(text: str) -> str:
    """A module as Tritons before 3.2 spell it."""
    for new in ("#ttg.", '"ttg.', " ttg."):
        text = text.replace(new, new.replace("ttg", "triton_gpu"))
    return text
