"""Reduce a failing program to a smaller one that fails the same way, by trying smaller programs.

A program is smaller with

    fewer steps, fewer iterations of loops, fewer warps, fewer elements, a simpler type, simpler encodings

in this order of importance. Each try is a whole run, so programs that are much smaller are tried first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from math import prod
from typing import Any

from bench.fuzz.encodings import (
    PLACES,
    Vector,
    bases_of,
    is_linear,
    layout_drawn,
    linear_text,
    reshaped,
    transposed,
)
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
    all_steps,
    children,
)
from triton_linear.dialect.linear_layout import BLOCK, LANE, REGISTER, WARP, LinearLayout, dim_names

# Simplest first.
_ELEMENTS = ("i32", "i16", "i8", "f32", "f16")
_ENCODINGS = ("source", "encoding", "inner_encoding")

Shape = tuple[int, ...]
Change = Callable[[str, Shape], str]


class _Impossible(Exception):
    """The requested smaller program does not exist."""


def shrink(
    program: Program, fails: Callable[[Program], bool], seconds: float, tried: Callable[[], None] = lambda: None
) -> Program:
    """The smallest program found in `seconds` for which `fails` is true. `tried` is called before each try.

    Requires: `fails(program)`. Ensures: `fails` is true for the result, and its `size` is at most that of
    `program`.
    """
    end = time.monotonic() + seconds
    seen: set[Program] = {program}
    again = True
    while again:
        again = False
        for candidate in smaller(program):
            if time.monotonic() > end:
                return program
            if candidate in seen or size(candidate) >= size(program):
                continue
            seen.add(candidate)
            tried()
            if fails(candidate):
                program, again = candidate, True
                break
    return program


def size(program: Program) -> tuple[int, ...]:
    """The quantities that are minimised, the most important first."""
    steps = list(all_steps(program.steps))
    rounds = sum(step.trips for step in steps if isinstance(step, Loop))
    buffers = sum(step.hoisted for step in steps if isinstance(step, Shared))
    buffers += sum(bool(step.memory) for step in steps if isinstance(step, Park))
    element = _ELEMENTS.index(program.element) if program.element in _ELEMENTS else len(_ELEMENTS)
    texts = [encoding for encoding, _ in encodings_in(program)]
    kinds = len(set(texts))
    vectors = sum(map(_complexity, texts))
    others = sum(not isinstance(step, Convert) for step in steps)
    return len(steps), others, rounds, buffers, program.warps, prod(program.shape), element, kinds, vectors


def _complexity(encoding: str) -> int:
    """A measure of an encoding: for a linear one the number of vectors, and of sums among them; more for
    others.
    """
    if not is_linear(encoding):
        return 1000 + len(encoding)
    vectors = [v for rows in bases_of(encoding).values() for v in rows]
    return len(vectors) + sum(by.bit_count() > 1 for v in vectors for by in v)


def smaller(program: Program) -> Iterator[Program]:
    """Programs that are smaller in one respect, the smallest first."""
    count = len(program.steps)
    for part in (count // 2, count // 4):
        if part > 1:
            for start in range(0, count, part):
                yield replace(program, steps=program.steps[:start] + program.steps[start + part :])
    for steps in _fewer(program.steps):
        yield replace(program, steps=steps)
    for steps in _simpler(program.steps, program.shape):
        yield replace(program, steps=steps)
    if program.warps > 1:
        yield from _if_possible(
            lambda: replace(_rewritten(program, _with_fewer_warps), warps=program.warps // 2)
        )
    for dimension, extent in enumerate(program.shape):
        if extent > 1:
            yield from _if_possible(lambda d=dimension: _halved(program, d))  # type: ignore[misc]
    for element in _ELEMENTS:
        if element != program.element:
            yield replace(program, element=element)
    yield from _simpler_encodings(program)


def _if_possible(make: Callable[[], Program]) -> Iterator[Program]:
    try:
        yield make()
    except (_Impossible, ValueError):
        return


def _fewer(steps: Steps) -> Iterator[Steps]:
    """The steps without one of them, or with one replaced by its inner steps; outer steps are tried first."""
    for k in range(len(steps)):
        yield steps[:k] + steps[k + 1 :]
    for k, step in enumerate(steps):
        if isinstance(step, Loop | Branch | Park):
            for inner in children(step).values():
                yield steps[:k] + inner + steps[k + 1 :]
        for name, inner in children(step).items():
            for fewer in _fewer(inner):
                yield (*steps[:k], _with(step, name, fewer), *steps[k + 1 :])


def _with(step: Step, name: str, value: Any) -> Step:
    changed: Any = replace(step, **{name: value})
    return changed  # type: ignore[no-any-return]


def result_encoding(
    step: Convert | Shared | Reduce | Scan | Loop | Branch | Park | Reshaped | Transposed,
    shape: Shape,
) -> str:
    """The encoding of a step's result."""
    if isinstance(step, Reshaped):
        return reshaped(step.inner_encoding, step.shape, shape)
    if isinstance(step, Transposed):
        return transposed(step.inner_encoding, [step.order.index(d) for d in range(len(shape))])
    return step.encoding


def _simpler(steps: Steps, shape: Shape) -> Iterator[Steps]:
    """The steps with one of them simplified."""
    for k, step in enumerate(steps):
        simpler: list[Step] = []
        if isinstance(step, Loop):
            simpler += [replace(step, trips=trips) for trips in range(1, step.trips)]
        elif isinstance(step, Shared) and step.hoisted:
            simpler.append(replace(step, hoisted=False))
        elif isinstance(step, Park) and step.memory:
            simpler.append(replace(step, memory=""))
        elif isinstance(step, Add) and step.by != 1:
            simpler.append(replace(step, by=1))
        if not isinstance(step, Convert | Add):
            simpler.append(Convert(result_encoding(step, shape)))
        for name, inner in children(step).items():
            simpler += [_with(step, name, found) for found in _simpler(inner, inner_shape(step, shape))]
        for found in simpler:
            yield (*steps[:k], found, *steps[k + 1 :])


def _rewritten(program: Program, change: Change) -> Program:
    """The program with `change` applied to each encoding of a tensor."""

    def rewritten_step(step: Step, shape: Shape) -> Step:
        inside = inner_shape(step, shape)
        changed: dict[str, Any] = {}
        for field in fields(step):
            value = getattr(step, field.name)
            if field.name in _ENCODINGS and value:
                changed[field.name] = change(value, inside if field.name == "inner_encoding" else shape)
        for name, inner in children(step).items():
            changed[name] = tuple(rewritten_step(s, inside) for s in inner)
        found: Any = replace(step, **changed)
        return found  # type: ignore[no-any-return]

    source = change(program.source, program.shape)
    return replace(program, source=source, steps=tuple(rewritten_step(s, program.shape) for s in program.steps))


def encodings_in(program: Program) -> list[tuple[str, Shape]]:
    """All encodings, each with the shape of its tensor."""
    found: list[tuple[str, Shape]] = []

    def note(encoding: str, shape: Shape) -> str:
        found.append((encoding, shape))
        return encoding

    _rewritten(program, note)
    return found


def inner_shape(step: Step, shape: Shape) -> Shape:
    """The shape of the tensor that a step's inner steps work on."""
    if isinstance(step, Transposed):
        return tuple(shape[d] for d in step.order)
    if isinstance(step, Reshaped):
        return step.shape
    if isinstance(step, Reduce):
        return shape[: step.axis] + shape[step.axis + 1 :]
    return shape


def _with_fewer_warps(encoding: str, shape: Shape) -> str:
    """The encoding with half as many warps."""
    if not is_linear(encoding):
        if "warpsPerCTA" not in encoding:
            raise _Impossible

        def fewer(found: re.Match[str]) -> str:
            sizes = [int(n) for n in found[1].split(",")]
            at = max(range(len(sizes)), key=sizes.__getitem__)
            sizes[at] //= 2
            return f"warpsPerCTA = {sizes}"

        return re.sub(r"warpsPerCTA = \[([\d, ]+)\]", fewer, encoding)
    bases = bases_of(encoding)
    last = bases[WARP].pop()
    if not _covers(bases, shape):
        bases[REGISTER].append(last)
    return linear_text(bases)


def _covers(bases: dict[str, list[Vector]], shape: Sequence[int]) -> bool:
    """Whether the layout has every element of the tensor."""
    ins = [(name, bases[name]) for name in PLACES]
    return LinearLayout.from_bases(ins, dim_names(len(shape)), shape, require_surjective=False).is_surjective()


def _halved(program: Program, dimension: int) -> Program:
    """The program with half the size of a dimension."""

    def shorter(encoding: str, shape: Shape, d: int) -> str:
        if not is_linear(encoding):
            return encoding
        half = shape[d] // 2

        def cut(v: Vector) -> Vector:
            return (*v[:d], v[d] & (half - 1), *v[d + 1 :])

        bases = {name: [cut(v) for v in rows] for name, rows in bases_of(encoding).items()}
        bases[REGISTER] = [v for v in bases[REGISTER] if any(v)]
        return linear_text(bases)

    def halved_step(step: Step, shape: Shape, d: int) -> Step:
        inside, inner_d = inner_shape(step, shape), d
        if isinstance(step, Reshaped):
            raise _Impossible
        if isinstance(step, Transposed):
            inner_d = step.order.index(d)
        if isinstance(step, Reduce):
            if d == step.axis:
                return replace(step, encoding=shorter(step.encoding, shape, d))
            inner_d = d - (d > step.axis)
        changed: dict[str, Any] = {}
        for field in fields(step):
            value = getattr(step, field.name)
            if field.name in _ENCODINGS and value:
                inner = field.name == "inner_encoding"
                changed[field.name] = shorter(value, inside if inner else shape, inner_d if inner else d)
        for name, steps in children(step).items():
            changed[name] = tuple(halved_step(s, inside, inner_d) for s in steps)
        found: Any = replace(step, **changed)
        return found  # type: ignore[no-any-return]

    shape = program.shape
    return replace(
        program,
        shape=(*shape[:dimension], shape[dimension] // 2, *shape[dimension + 1 :]),
        source=shorter(program.source, shape, dimension),
        steps=tuple(halved_step(step, shape, dimension) for step in program.steps),
    )


def _simpler_encodings(program: Program) -> Iterator[Program]:
    """The program with all occurrences of an encoding replaced by a simpler one, or by another of the
    program.
    """
    found = list(dict.fromkeys(encodings_in(program)))
    for encoding, shape in found:
        others = [e for e, s in found if s == shape and e != encoding]
        for other in (*others, *_plainer(encoding, shape, program.element)):
            # If a step does not support the new encoding, the program fails in another way, and is not used.
            simpler = _rewritten(
                program,
                lambda e, s, a=encoding, b=other, w=shape: b if (e, s) == (a, w) else e,  # type: ignore[misc]
            )
            # The encoding of a transposed or reshaped tensor is only known for linear ones.
            shaping = (step for step in all_steps(simpler.steps) if isinstance(step, (Transposed, Reshaped)))
            if all(is_linear(step.encoding) and is_linear(step.inner_encoding) for step in shaping):
                yield simpler


def _plainer(encoding: str, shape: Shape, element: str) -> Iterator[str]:
    """Simpler encodings with the same numbers of threads."""
    if not is_linear(encoding):
        layout = layout_drawn(encoding, shape, element)
        yield _text_of(layout)
        return
    bases = bases_of(encoding)
    for place in (REGISTER, LANE, WARP, BLOCK):
        for k, vector in enumerate(bases[place]):
            rows = bases[place]
            if place == REGISTER and not any(vector):
                yield linear_text({**bases, place: rows[:k] + rows[k + 1 :]})
            for d, by in enumerate(vector):
                if by.bit_count() > 1:
                    single = (*vector[:d], 1 << (by.bit_length() - 1), *vector[d + 1 :])
                    simpler = {**bases, place: [*rows[:k], single, *rows[k + 1 :]]}
                    if _covers(simpler, shape):
                        yield linear_text(simpler)


def _text_of(layout: LinearLayout) -> str:
    """A layout as `#ttg.linear`."""
    bases = {name: [tuple(v) for v in rows] for name, rows in dict(layout.bases).items()}
    return linear_text({name: bases.get(name, []) for name in PLACES})
