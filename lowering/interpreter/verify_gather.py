"""Verification of a lowered gather: run its code in the interpreter on random indices, compare every register.

Elements are identified as in `verify`. Every lane has random indices of its own.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from triton_linear.dialect.linear_layout import BLOCK, LinearLayout
from triton_linear.lowering.interpreter.function import simulate_function
from triton_linear.lowering.interpreter.verify import Verdict, element_patterns, held_elements, judge
from triton_linear.lowering.plan.element import ElementType
from triton_linear.lowering.target.targets import Target


def verify_gather(
    function_text: str,
    symbol: str,
    src: LinearLayout,
    index: LinearLayout,
    axis: int,
    element: ElementType,
    index_element: ElementType,
    target: Target,
    num_warps: int,
    *,
    draws: int = 2,
    seed: int = 0,
) -> Verdict:
    """Run the function on a tensor laid out by `src` and indices laid out by `index`; compare its result.

    `draws`: the number of runs with different indices.

    Requires: the layouts are as for `plan_gather`; the function takes the structs of both, and returns a struct
    with a field for each index register.
    Ensures: deterministic; every copy of an element and of an index is fed and checked, in all CTAs of a
    cluster, one after the other; `counts` are those of one draw in one CTA.

    Raises SimulationError if the function cannot be run.
    """
    sizes = [[size for _, size in layout.out_dims] for layout in (src, index)]
    rng = np.random.default_rng(seed)
    axis_size = sizes[0][axis]
    indices = rng.integers(0, axis_size, (draws, int(np.prod(sizes[1], dtype=np.int64))))
    if axis_size > 1 << index_element.bits:
        raise ValueError(f"verify_gather: an index of {index_element.bits} bits is short of {axis_size}")
    patterns = element_patterns(int(np.prod(sizes[0], dtype=np.int64)), element.bits)
    verdicts = []
    ctas = src.in_dim_size(BLOCK) if src.has_in_dim(BLOCK) else 1
    for cta, draw in itertools.product(range(ctas), indices):
        # Addresses must be equal in all trials of a run, so each draw is a run of its own.
        fed, asked = (held_elements(side, target.lanes, num_warps, cta) for side in (src, index))
        registers = list(patterns[:, fed].swapaxes(0, 1))
        numbers = list(draw[asked][:, None, :].astype(np.uint64))
        given = [registers, numbers]
        outcome = simulate_function(function_text, symbol, given, target, num_warps, 0)
        expected = _elements(draw, sizes, axis)[asked]
        verdicts.append(judge(outcome, expected, patterns, element.bits))
    wrong = [verdict for verdict in verdicts if not verdict.ok]
    shown = (wrong or verdicts)[0]
    checked, failures = sum(v.checked for v in verdicts), sum(v.wrong for v in verdicts)
    return Verdict(checked, failures, shown.examples, shown.races, shown.counts)


def _elements(indices: npt.NDArray[np.int64], sizes: list[list[int]], axis: int) -> npt.NDArray[np.int64]:
    """For each element of the index tensor, the element of the source that it names; both numbers have
    dimension 0 in the lowest bits."""
    source, index = ([*reversed(side)] for side in sizes)
    at = len(source) - 1 - axis
    numbers = np.arange(int(np.prod(source, dtype=np.int64))).reshape(source)
    return np.take_along_axis(numbers, indices.reshape(index), at).reshape(-1)
