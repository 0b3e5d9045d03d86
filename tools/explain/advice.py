"""Advice on changes of the source that would make a conversion unnecessary."""

from __future__ import annotations

from triton_linear.dialect.linear_layout import LANE, LinearLayout
from triton_linear.passes.operations.names import DOTS
from triton_linear.tools.explain.anchors import Anchor
from triton_linear.tools.support.words import vector_of

_ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas")
_FREE = ("noop", "registers")
# Operations that use a loaded value in a layout that does not suit the load.
_CONSUMERS = {
    "tt.reduce": "the reduction",
    "tt.scan": "the scan",
    "tt.gather": "the gather",
    "tt.histogram": "the histogram",
}


def advice(
    kind: str,
    before: Anchor | None,
    after: Anchor | None,
    source: LinearLayout | None,
    destination: LinearLayout | None,
) -> str:
    """One sentence of advice, from the anchors of both layouts; empty if the conversion is free or no advice
    is known.

    For loads and stores the advice depends on the dimension of neighbouring elements of a thread, or else of
    neighbouring lanes; it is empty if the layouts are not known.
    """
    if kind in _FREE:
        return ""
    ends = before.operation if before else "", after.operation if after else ""
    if source is not None and destination is not None:
        match ends:
            case ("tt.scan", "tt.store"):
                return _memory_to_memory("scan", "tt.store", source, destination)
            case ("tt.load", to) if to in ("tt.load", "tt.store", *_ATOMICS):
                return _memory_to_memory("load", to, source, destination)
            case ("tt.load", to) if to in _CONSUMERS:
                return _load_for(_CONSUMERS[to], source, destination)
    match ends:
        case ("tt.reduce", "tt.store"):
            return "a reduction leaves its result spread as its operand was: reduce over another dimension"
        case (origin, "tt.store") if origin in DOTS:
            return (
                "an accumulator is stored by rows: a descriptor store (TMA) brings its own way through memory"
            )
        case (origin, use) if origin in DOTS and use in DOTS:
            return "an accumulator is an operand of another dot: in 16 bits it may be one as it lies"
        case ("tt.load", use) if use in DOTS:
            return "an operand goes through registers: without arithmetic before the dot it need not"
        case ("tt.call", _) | (_, "tt.call" | "tt.return"):
            return (
                "a function that is not inlined fixes layouts in its signature: without noinline it would not"
            )
    return ""


def _load_for(consumer: str, source: LinearLayout, destination: LinearLayout) -> str:
    """Advice for a loaded value that a consumer uses in a layout of its own."""
    here, there = _fastest_dimension(source), _fastest_dimension(destination)
    one, other = vector_of(source)[1], vector_of(destination)[1]
    if here == there:
        return f"the load would have to take {other} at once along dim{here}, not {one}" if one != other else ""
    if here is None or there is None:
        return ""
    where = f"along dim{there}, as {consumer} takes it, not along dim{here}"
    return f"the load would have to run {where}: a tensor with that dimension contiguous"


def _memory_to_memory(origin: str, to: str, source: LinearLayout, destination: LinearLayout) -> str:
    """Advice for a loaded or scanned value that is stored, or from which addresses or masks are computed."""
    both = f"{origin} and {'atomic' if to in _ATOMICS else to.removeprefix('tt.')} run along"
    if _fastest_dimension(source) != _fastest_dimension(destination):
        if to == "tt.load":
            return (
                "a loaded value leads to a load that is coalesced otherwise: one order of dimensions for both"
            )
        return f"{both} different dimensions of memory: one of both tensors stored transposed"
    one, other = vector_of(source)[1], vector_of(destination)[1]
    widths = f"by {one} and {other} elements: with elements of one width and equal alignment both take as many"
    return "" if one == other else f"{both} the same dimension, {widths}"


def _fastest_dimension(layout: LinearLayout) -> int | None:
    """The dimension along which a thread's first registers run; if they do not, that of the first lanes."""
    axis, length = vector_of(layout)
    if length > 1:
        return axis
    for vector in dict(layout.bases)[LANE]:
        for axis, value in enumerate(vector):
            if value:
                return axis
    return None
