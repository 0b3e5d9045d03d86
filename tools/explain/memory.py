"""Describe buffers of shared memory in words."""

from __future__ import annotations

from triton_linear.dialect import encodings
from triton_linear.dialect.mlir_adapter import Type
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.framework.layouts import memory_of


def short_memory(type_: Type) -> str:
    """A buffer's shape, element type and kind of layout."""
    described = memory_of(type_)
    if described is None:
        return str(type_)
    shape, element, encoding = described
    return f"{'x'.join(map(str, shape))}x{element} {encoding.removeprefix('#ttg.').partition('<')[0]}"


def memory_in_words(type_: Type) -> str:
    """The layout of a buffer in words; empty if there is no simple description."""
    described = memory_of(type_)
    if described is None:
        return ""
    shape, element, encoding = described
    try:
        layout, size = encodings.parse(encoding), max(1, element_type(element).bits // 8)
    except ValueError:
        return ""
    return _in_words(layout, len(shape), size)


def _in_words(layout: encodings.Encoding, rank: int, size: int) -> str:
    match layout:
        case encodings.NvmmaShared():
            inner = rank - 2 if layout.transposed and rank > 1 else rank - 1
            width = layout.swizzle_bytes
            how = f"16-byte pieces swizzled within {width} bytes" if width else "not swizzled"
        case encodings.AmdRotatingShared():
            inner = rank - len(layout.order) + layout.order[0]
            how = f"runs of {_run(layout.vec, size)} rotated"
        case encodings.SwizzledShared():
            inner = rank - len(layout.order) + layout.order[0]
            phases = f"runs of {_run(layout.vec, size)} swizzled over {layout.max_phase} phases"
            how = phases if layout.max_phase > 1 else "not swizzled"
        case encodings.PaddedShared():
            return ", ".join(
                f"{_run(p.amount, size)} of padding behind every {p.interval}" for p in layout.paddings
            )
        case _:
            return ""
    return f"contiguous along dim{inner}, {how}"


def _run(elements: int, size: int) -> str:
    return f"{elements} element{'s' * (elements > 1)} ({elements * size} bytes)"
