"""What would make a conversion unnecessary if the source were changed, where that is known."""

from __future__ import annotations

from triton_linear.dialect.linear_layout import LANE, LinearLayout
from triton_linear.tools.explain.anchors import Anchor
from triton_linear.tools.explain.words import vector_of

_DOTS = ("tt.dot", "ttng.warp_group_dot", "tt.dot_scaled")
_ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas")
_FREE = ("noop", "registers")
# What takes a loaded value in a layout that is not chosen for the load.
_TAKERS = {
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
    """One sentence from what both layouts are for; empty where it costs nothing, or nothing is known.

    Loads and stores are compared by the dimension that neighbouring elements of a thread, or else neighbouring
    lanes, run along; without layouts nothing is said of them.
    """
    if kind in _FREE:
        return ""
    match (before.operation if before else "", after.operation if after else ""):
        case ("tt.load", "tt.load" | "tt.store" as to) | ("tt.load", "tt.atomic_rmw" | "tt.atomic_cas" as to):
            return _memory_to_memory("load", to, source, destination)
        case ("tt.scan", "tt.store" as to):
            return _memory_to_memory("scan", to, source, destination)
        case ("tt.load", to) if to in _TAKERS:
            return _load_for(_TAKERS[to], source, destination)
        case ("tt.reduce", "tt.store"):
            return "a reduction leaves its result spread as its operand was: reduce over another dimension"
        case (origin, "tt.store") if origin in _DOTS:
            return (
                "an accumulator is stored by rows: a descriptor store (TMA) brings its own way through memory"
            )
        case (origin, use) if origin in _DOTS and use in _DOTS:
            return "an accumulator is an operand of another dot: in 16 bits it may be one as it lies"
        case ("tt.load", use) if use in _DOTS:
            return "an operand goes through registers: without arithmetic before the dot it need not"
        case ("tt.call", _) | (_, "tt.call" | "tt.return"):
            return (
                "a function that is not inlined fixes layouts in its signature: without noinline it would not"
            )
    return ""


def _load_for(taker: str, source: LinearLayout | None, destination: LinearLayout | None) -> str:
    """A loaded value that is taken in a layout that its other operands, or the taker, decide."""
    if source is None or destination is None:
        return ""
    here, there = _along(source), _along(destination)
    if here != there:
        if here is None or there is None:
            return ""
        return (
            f"the load would have to run along dim{there}, as {taker} takes it, not along dim{here}: a tensor "
            "with that dimension contiguous"
        )
    one, other = vector_of(source)[1], vector_of(destination)[1]
    return f"the load would have to take {other} at once along dim{here}, not {one}" if one != other else ""


def _memory_to_memory(
    origin: str, to: str, source: LinearLayout | None, destination: LinearLayout | None
) -> str:
    """A loaded or scanned value that is stored, or that other addresses or masks come from."""
    if source is None or destination is None:
        return ""
    verb = "atomic" if to in _ATOMICS else to.removeprefix("tt.")
    if _along(source) != _along(destination):
        if to == "tt.load":
            return (
                "a loaded value leads to a load that is coalesced otherwise: one order of dimensions for both"
            )
        how = "run along different dimensions of memory"
        return f"{origin} and {verb} {how}: one of both tensors stored transposed"
    one, other = vector_of(source)[1], vector_of(destination)[1]
    if one == other:
        return ""
    return (
        f"{origin} and {verb} run along the same dimension, by {one} and {other} elements: with elements of "
        "one width and equal alignment both take as many"
    )


def _along(layout: LinearLayout) -> int | None:
    """The dimension that a thread's first registers run along, or else its first lanes."""
    axis, length = vector_of(layout)
    if length > 1:
        return axis
    for vector in dict(layout.bases)[LANE]:
        for axis, value in enumerate(vector):
            if value:
                return axis
    return None
