"""The expected result of a program, computed on whole tensors by coordinates, without layouts, memory or
threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.fuzz.program import (
    Add,
    Branch,
    Convert,
    Loop,
    Park,
    Program,
    Reduce,
    Reshaped,
    Scan,
    Shared,
    Step,
    Steps,
    Transposed,
)
from triton_linear.lowering.interpreter.verify import element_patterns
from triton_linear.lowering.plan.element import element_type

Words = npt.NDArray[np.uint64]

# The trials of `element_patterns` distinguish elements that are only moved. Their sums might coincide, so
# there are trials with random bits as well.
RANDOM_TRIALS = 2

REDUCTIONS: dict[str, Callable[..., Words]] = {
    "addi": np.add.reduce,
    "xori": np.bitwise_xor.reduce,
    "ori": np.bitwise_or.reduce,
    "maxui": np.maximum.reduce,
    "minui": np.minimum.reduce,
}


def inputs(program: Program) -> Words:
    """The argument's bits in each trial: [trial, *coordinates]."""
    size, bits = int(np.prod(program.shape)), element_type(program.element).bits
    patterns = element_patterns(size, bits)
    noise = np.random.default_rng(size).integers(0, 1 << 64, (RANDOM_TRIALS, size), np.uint64)
    return by_coordinates(np.concatenate([patterns, noise & mask_of(bits)]), program.shape)


def evaluate(program: Program, x: Words) -> Words:
    """The result's bits in each trial: [trial, *coordinates]."""
    return _Evaluation(mask_of(element_type(program.element).bits)).steps(program.steps, x, None)


def by_coordinates(patterns: Words, shape: tuple[int, ...]) -> Words:
    """Convert [trial, element] to [trial, *coordinates]; dimension 0 is in the element number's lowest bits."""
    backwards: Words = patterns.reshape(len(patterns), *reversed(shape))
    forwards: Words = backwards.transpose(0, *range(len(shape), 0, -1))
    return forwards


def mask_of(bits: int) -> Any:
    """A mask of the lowest `bits` bits, as a numpy number."""
    return np.uint64((1 << bits) - 1)


class _Evaluation:
    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def steps(self, steps: Steps, x: Words, iteration: int | None) -> Words:
        for step in steps:
            x = self.step(step, x, iteration) & self.mask
        return x

    def step(self, step: Step, x: Words, iteration: int | None) -> Any:
        match step:
            case Convert() | Shared():
                return x
            case Reduce():
                reduced = REDUCTIONS[step.operation](x, step.axis + 1) & self.mask
                reduced = self.steps(step.inner, reduced, iteration) if x.ndim > 2 else reduced
                return x + np.uint64(2) * np.expand_dims(reduced, step.axis + 1)
            case Scan():
                axis = step.axis + 1
                if step.reverse:
                    return np.flip(np.add.accumulate(np.flip(x, axis), axis), axis)
                return np.add.accumulate(x, axis)
            case Add(by):
                return x + np.uint64(by)
            case Transposed():
                axes = (0, *(d + 1 for d in step.order))
                y = self.steps(step.inner, x.transpose(axes), iteration)
                return y.transpose(tuple(np.argsort(axes)))
            case Reshaped():
                y = self.steps(step.inner, x.reshape(len(x), *step.shape), iteration)
                return y.reshape(x.shape)
            case Loop():
                for number in range(step.trips):
                    x = self.steps(step.inner, x, number)
                return x
            case Branch():
                return self.steps(step.other if iteration and iteration % 2 else step.inner, x, iteration)
            case Park():
                return self.steps(step.inner, x, iteration) + np.uint64(2) * x
