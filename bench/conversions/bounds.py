"""The least time that the hardware lets a conversion take, whatever the code.

What one CTA's conversion must move, counted from the layouts alone:

- stored: bytes that some warp needs and does not hold. Each goes to shared memory once.
- loaded: per warp, the bytes that it needs and does not hold; lanes that need the same one read it together.
- exchanged: per warp, the bytes that a lane needs and only other lanes of the warp hold: by shuffles once per
  lane, or by shared memory stored once, unless it is there for other warps anyhow, and read once per warp.
- permuted: 32-bit words that a thread can make from its own registers alone, but from no single one of them.

The clocks on one multiprocessor are the largest of

    transport  (stored + loaded + exchanged) / 128    one pipe carries shared memory and shuffles, 128 B/clk
    permutes   permuted / 64                          16 lanes in each of 4 schedulers
    issue      warp instructions / 4                  512 B a shared access, 128 B a shuffle, 32 permutes

Synchronisation, addresses and latency are not in it, so it is a bound and no estimate.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from triton_linear.dialect.linear_layout import LANE, WARP, LinearLayout
from triton_linear.lowering.interpreter.verify import held_elements

PIPE_BYTES = 128
PERMUTES = 64
ISSUE = 4
LANES = 32
WIDEST_ACCESS = 512

Held = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Bound:
    """What must move for one CTA: bytes, and words for `permuted`."""

    stored: float = 0
    loaded: float = 0
    exchanged: float = 0
    permuted: int = 0

    @property
    def transport(self) -> float:
        """Clocks of the pipe that shared memory and shuffles use."""
        return (self.stored + self.loaded + self.exchanged) / PIPE_BYTES

    @property
    def permutes(self) -> float:
        """Clocks of the integer units."""
        return self.permuted / PERMUTES

    @property
    def issue(self) -> float:
        """Clocks of the schedulers."""
        shared = (self.stored + self.loaded) / WIDEST_ACCESS
        return (shared + self.exchanged / PIPE_BYTES + self.permuted / LANES) / ISSUE

    @property
    def clocks(self) -> float:
        """The largest of the three."""
        return max(self.transport, self.permutes, self.issue)

    @property
    def limit(self) -> str:
        """Which of the three it is."""
        if self.clocks == 0:
            return "nothing moves"
        return max(("transport", "permutes", "issue"), key=lambda name: float(getattr(self, name)))


@functools.lru_cache(maxsize=1024)
def bound(src: LinearLayout, dst: LinearLayout, bits: int) -> Bound:
    """What a conversion of elements of `bits` bits from `src` to `dst` must move in one CTA.

    Requires: both map register, lane, warp onto the same tensor.
    """
    size = bits / 8
    warps = src.in_dim_size(WARP) if src.has_in_dim(WARP) else 1
    lanes = src.in_dim_size(LANE)
    given, wanted = (held_elements(layout, lanes, warps, 0) for layout in (src, dst))
    by_thread_src, by_thread_dst = _by_thread(given), _by_thread(wanted)
    elements = by_thread_src.shape[1]
    by_warp_src = by_thread_src.reshape(warps, lanes, elements).any(axis=1)
    by_warp_dst = by_thread_dst.reshape(warps, lanes, elements).any(axis=1)
    foreign = by_warp_dst & ~by_warp_src
    near = by_thread_dst & ~by_thread_src & np.repeat(by_warp_src, lanes, axis=0)
    shuffled = near.reshape(warps, lanes, elements).sum(axis=1)
    read = (shuffled > 0).sum(axis=0)
    exchanged = np.where(foreign.any(axis=0), read, np.minimum(shuffled.sum(axis=0), read + (read > 0)))
    return Bound(
        stored=float(foreign.any(axis=0).sum()) * size,
        loaded=float(foreign.sum()) * size,
        exchanged=float(exchanged.sum()) * size,
        permuted=_permuted(given, wanted, by_thread_src, max(1, 32 // bits)),
    )


def _by_thread(held: npt.NDArray[np.int64]) -> Held:
    """Whether a thread holds an element, of shape (threads, elements)."""
    found: Held = np.zeros((held.shape[1], int(np.max(held)) + 1), np.bool_)
    found[np.broadcast_to(np.arange(held.shape[1]), held.shape), held] = True
    return found


def _permuted(
    given: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64], by_thread: Held, packing: int
) -> int:
    """Destination words of elements the thread holds, that are none of its source words."""
    if packing == 1 or len(wanted) < packing or len(given) < packing:
        return 0
    have, want = (held.reshape(-1, packing, held.shape[1]) for held in (given, wanted))
    own = by_thread[np.arange(want.shape[2]), want].all(axis=1)
    moved = np.zeros(own.shape, np.bool_)
    for thread in range(want.shape[2]):
        sources = {tuple(word) for word in have[:, :, thread].tolist()}
        moved[:, thread] = [tuple(word) not in sources for word in want[:, :, thread].tolist()]
    return int((own & moved).sum())
