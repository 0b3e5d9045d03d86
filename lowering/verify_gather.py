"""Is a lowered gather right? Run its code in the interpreter on random indices, and compare every register.

Elements are identified as in `verify`. Indices are random and every lane has its own, so each trial asks for
other elements; of draws there are as many as are asked for.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.element import ElementType
from triton_linear.lowering.simulate_function import simulate_function
from triton_linear.lowering.targets import Target
from triton_linear.lowering.verify import Verdict, element_patterns, held_elements, judge


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
    """Run the function on a tensor laid out by `src` and indices laid out by `index`; compare what it returns.

    Requires: the layouts are as for `plan_gather`; the function takes the structs of both and returns one of a
    field per index register.
    Ensures: deterministic; every copy of an element and of an index is fed and checked, in CTA 0.

    Raises SimulationError where the function cannot be run.
    """
    sizes = [[size for _, size in layout.out_dims] for layout in (src, index)]
    rng = np.random.default_rng(seed)
    axis_size = sizes[0][axis]
    indices = rng.integers(0, axis_size, (draws, int(np.prod(sizes[1], dtype=np.int64))))
    if axis_size > 1 << index_element.bits:
        raise ValueError(f"verify_gather: an index of {index_element.bits} bits is short of {axis_size}")
    fed = held_elements(src, target.lanes, num_warps, 0)
    asked = held_elements(index, target.lanes, num_warps, 0)
    patterns = element_patterns(int(np.prod(sizes[0], dtype=np.int64)), element.bits)
    # Each draw meets each pattern: trial d * len(patterns) + p.
    registers = np.tile(patterns[:, fed].swapaxes(0, 1), (1, draws, 1))
    numbers = np.repeat(indices[:, asked].swapaxes(0, 1), len(patterns), axis=1).astype(np.uint64)
    outcome = simulate_function(function_text, symbol, [list(registers), list(numbers)], target, num_warps, 0)
    verdicts = []
    for draw in range(draws):
        expected = _elements(indices[draw], sizes, axis)[asked]
        trials = slice(draw * len(patterns), (draw + 1) * len(patterns))
        values, undefined = outcome.values[:, trials], outcome.undefined[:, trials]
        races, counts = outcome.races, outcome.counts
        verdicts.append(judge(values, undefined, races, counts, expected, patterns, element.bits))
    wrong = [verdict for verdict in verdicts if not verdict.ok]
    examples = wrong[0].examples if wrong else ()
    checked, failures = sum(v.checked for v in verdicts), sum(v.wrong for v in verdicts)
    return Verdict(checked, failures, examples, outcome.races, outcome.counts)


def _elements(indices: npt.NDArray[np.int64], sizes: list[list[int]], axis: int) -> npt.NDArray[np.int64]:
    """For each element of the index tensor the element of the source that it names; dimension 0 in the lowest
    bits of both numbers."""
    source, index = ([*reversed(side)] for side in sizes)
    at = len(source) - 1 - axis
    numbers = np.arange(int(np.prod(source, dtype=np.int64))).reshape(source)
    return np.take_along_axis(numbers, indices.reshape(index), at).reshape(-1)
