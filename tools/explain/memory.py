"""Buffers of shared memory: what a view is of, through loops, and in words how elements lie there."""

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
"""Operations that take a buffer and give a part of it, or the same in another shape."""


def views_of(memory: Value, producers: Mapping[Value, Operation]) -> tuple[list[Operation], Value]:
    """The views that lead to a buffer, the last first, and what they are of: the buffer that was made, or where
    that cannot be seen a value of its type."""
    views: list[Operation] = []
    seen: set[Value] = set()
    while memory not in seen:
        seen.add(memory)
        producer = producers.get(memory)
        if producer is None:
            before = _at_first(memory)
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


def _at_first(value: Value) -> Value | None:
    """What a loop's argument is at first; None for what is none."""
    loop = getattr(getattr(value, "owner", None), "owner", None)
    if loop is None or loop.name != "scf.for" or value.arg_number == 0:
        return None
    first: Value = loop.operands[2 + value.arg_number]
    return first


def short_memory(type_: Type) -> str:
    """A buffer's shape, element type and kind of layout."""
    found = memory_of(type_)
    if found is None:
        return str(type_)
    shape, element, encoding = found
    return f"{'x'.join(map(str, shape))}x{element} {encoding.removeprefix('#ttg.').partition('<')[0]}"


def memory_in_words(type_: Type) -> str:
    """How the elements of a buffer lie; empty where nothing simple can be said."""
    found = memory_of(type_)
    if found is None:
        return ""
    shape, element, encoding = found
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
