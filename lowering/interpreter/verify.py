"""Verification of a lowered conversion: run its code in the interpreter, compare every register of every
thread.

Elements are identified byte by byte. In trial t, every byte of element i is digit t of i (base 256, or bits for
i1), xor a pattern for each byte, so that no identity is all zeros. One more trial numbers the bytes within the
element. So a result byte from another element, or from another byte of the same element, differs in some trial:
the comparison is exact, however narrow the element.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout
from triton_linear.lowering.interpreter.counts import Counts
from triton_linear.lowering.interpreter.function import FunctionOutcome, simulate_function
from triton_linear.lowering.interpreter.memory import Bits, Race
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.target.targets import Target

_FULL = np.uint64(np.iinfo(np.uint64).max)
_REPORTED = 8


@dataclass(frozen=True, slots=True)
class Wrong:
    """A destination register with a wrong or undefined value."""

    register: int
    thread: int
    element: int
    undefined: bool

    def __str__(self) -> str:
        held = "an undefined value" if self.undefined else "something else"
        place = f"register {self.register} of thread {self.thread}"
        return f"{place} should hold element {self.element}, holds {held}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`checked`: registers of all threads. `wrong`: the number of wrong ones; `examples` has the first few."""

    checked: int
    wrong: int
    examples: tuple[Wrong, ...]
    races: tuple[Race, ...]
    counts: Counts

    @property
    def ok(self) -> bool:
        """True if no register is wrong and there is no race."""
        return not self.wrong and not self.races


def verify_conversion(
    function_text: str,
    src: LinearLayout,
    dst: LinearLayout,
    element: ElementType,
    target: Target,
    num_warps: int,
    shared_bytes: int | None = 0,
    cta: int = 0,
    *,
    kernel: str | None = None,
    sink: str | None = None,
) -> Verdict:
    """Run the function on a tensor laid out by `src` and compare its result with `dst`. kernel: the name of the
    function if the module has others. sink: what it gives the result to instead of returning it.

    Requires: both layouts map register, lane, warp (and block) onto the same tensor; the function takes a
    struct of one field per source register and returns one of one field per destination register.
    Ensures: deterministic; every copy of an element is fed and checked in this CTA of the cluster.

    Raises SimulationError if the function cannot be run, ValueError if the layouts do not fit.
    """
    if src.out_dims != dst.out_dims:
        raise ValueError(f"source covers {src.out_dims}, destination covers {dst.out_dims}")
    fed, expected = (held_elements(side, target.lanes, num_warps, cta) for side in (src, dst))
    size = int(np.prod([size for _, size in src.out_dims], dtype=np.int64))
    patterns = element_patterns(size, element.bits)
    given = [list(patterns[:, fed].swapaxes(0, 1))]
    outcome = simulate_function(function_text, kernel, given, target, num_warps, shared_bytes)
    return judge(outcome, expected, patterns, element.bits, sink)


def verify_in_cluster(
    function_text: str,
    src: LinearLayout,
    dst: LinearLayout,
    element: ElementType,
    target: Target,
    num_warps: int,
    shared_bytes: int = 0,
) -> Verdict:
    """`verify_conversion` in all CTAs of a cluster, one after the other.

    Requires: no element crosses CTAs. Ensures: `wrong` and `checked` are summed over all CTAs; `counts` are
    those of one.
    """
    verdicts = [
        verify_conversion(function_text, src, dst, element, target, num_warps, shared_bytes, cta)
        for cta in range(1 << len(_columns(src, BLOCK)))
    ]
    return Verdict(
        sum(verdict.checked for verdict in verdicts),
        sum(verdict.wrong for verdict in verdicts),
        tuple(example for verdict in verdicts for example in verdict.examples)[:_REPORTED],
        tuple(race for verdict in verdicts for race in verdict.races),
        verdicts[0].counts,
    )


def judge(
    outcome: FunctionOutcome,
    expected: npt.NDArray[np.int64],
    patterns: Bits,
    bits: int,
    sink: str | None = None,
) -> Verdict:
    """Compare the values of registers with the elements expected in them. sink: what they were given to; None:
    they were returned."""
    values, undefined = (outcome.values, outcome.undefined) if sink is None else outcome.sinks[sink]
    if len(values) != len(expected):
        raise ValueError(f"the function returns {len(values)} registers, not {len(expected)}")
    limit = _FULL >> np.uint64(64 - bits)
    undefined = (undefined & limit).any(axis=1)
    different = (values != patterns[:, expected].swapaxes(0, 1)).any(axis=1)
    wrong = undefined | different
    examples = tuple(
        Wrong(int(r), int(t), int(expected[r, t]), bool(undefined[r, t]))
        for r, t in np.argwhere(wrong)[:_REPORTED]
    )
    return Verdict(wrong.size, int(wrong.sum()), examples, outcome.races, outcome.counts)


@functools.lru_cache(maxsize=256)
def held_elements(layout: LinearLayout, lanes: int, num_warps: int, block: int) -> npt.NDArray[np.int64]:
    """The element index in every (register, thread); out-dim 0 is in the lowest bits.

    Raises ValueError if the layout has another number of lanes or warps.
    """
    for dim, size in ((LANE, lanes), (WARP, num_warps)):
        if (found := 1 << len(_columns(layout, dim))) != size:
            raise ValueError(f"layout has {found} in '{dim}', the CTA has {size}")
    start = _values(_columns(layout, BLOCK))[block]
    registers = _values(_columns(layout, REGISTER))
    threads = _values(_columns(layout, LANE) + _columns(layout, WARP))
    held = registers[:, None] ^ threads[None, :] ^ start
    held.flags.writeable = False
    return np.asarray(held, np.int64)


def _columns(layout: LinearLayout, dim: str) -> tuple[int, ...]:
    return layout.columns(dim) if layout.has_in_dim(dim) else ()


def _values(columns: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """The sums of every subset of the columns, in binary order."""
    values = np.zeros(1, np.int64)
    for column in columns:
        values = np.concatenate([values, values ^ column])
    return values


@functools.lru_cache(maxsize=64)
def element_patterns(size: int, bits: int) -> Bits:
    """Bit patterns of shape (trials, size) that identify each of `size` elements; see the module's docstring.

    >>> len(element_patterns(256, 8)), len(element_patterns(512, 8)), len(element_patterns(512, 1))
    (1, 2, 9)
    """
    identity = np.arange(size, dtype=np.uint64)
    index_bits = max(1, (size - 1).bit_length())
    if bits < 8:
        trials = [((identity >> np.uint64(t)) ^ np.uint64(t & 1)) & np.uint64(1) for t in range(index_bits)]
        return np.stack(trials)
    count = bits // 8
    scramble = sum(((0xA7 + 0x1D * k) & 0xFF) << (8 * k) for k in range(count))
    spread = sum(1 << (8 * k) for k in range(count))
    digits = range(-(-index_bits // 8))
    trials = [((identity >> np.uint64(8 * t)) & np.uint64(0xFF)) * np.uint64(spread) for t in digits]
    if count > 1:
        trials.append(np.full(size, sum(k << (8 * k) for k in range(count)), np.uint64))
    result: Bits = np.stack(trials) ^ np.uint64(scramble)
    result.flags.writeable = False
    return result
