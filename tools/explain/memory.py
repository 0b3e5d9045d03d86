"""Buffers of shared memory: find the buffer of a view, also through loops, and describe layouts in words."""

from __future__ import annotations

from collections.abc import Mapping

from triton_linear.dialect import encodings
from triton_linear.dialect.mlir_adapter import Operation, Type, Value
from triton_linear.lowering.plan.element import element_type
from triton_linear.passes.framework.layouts import memory_of

VIEWS = (
    "ttg.memdesc_index",
    "ttg.memdesc_subslice",
    "ttg.memdesc_subview",
    "ttg.memdesc_trans",
    "ttg.memdesc_reshape",
    "ttg.memdesc_reinterpret",
)
"""Operations that return a part of a buffer, or the same buffer in another shape."""


def views_of(memory: Value, producers: Mapping[Value, Operation]) -> tuple[list[Operation], Value]:
    """The views through which a value is derived from a buffer, the last view first, and the buffer.

    If the buffer's allocation cannot be found, its place is taken by the first value of the chain.
    """
    views: list[Operation] = []
    seen: set[Value] = set()
    while memory not in seen:
        seen.add(memory)
        producer = producers.get(memory)
        if producer is None:
            before = _initial_value(memory)
        elif producer.name == "scf.for":
            before = producer.operands[3 + list(producer.results).index(memory)]
        elif producer.name in VIEWS:
            views.append(producer)
            before = producer.operands[0]
        else:
            before = None
        if before is None:
            break
        memory = before
    return views, memory


def _initial_value(value: Value) -> Value | None:
    """The initial value of a loop's argument; None for other values."""
    loop = getattr(getattr(value, "owner", None), "owner", None)
    if loop is None or loop.name != "scf.for" or value.arg_number == 0:
        return None
    first: Value = loop.operands[2 + value.arg_number]
    return first


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


def is_memory(type_: Type) -> bool:
    """Whether a type is a buffer of shared memory, or a part of one."""
    text = str(type_)
    return text.startswith("!ttg.memdesc<") and "#ttg.shared_memory" in text
