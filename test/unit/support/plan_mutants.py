"""Plans with one thing changed, at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from triton_linear.lowering.plan.plans import MemorySide, Plan, RegisterPlan, SharedPlan, ShufflePlan
from triton_linear.lowering.target.steps import Pick, Shuffle, Trade

Mutant = tuple[str, Callable[[], Any]]


def _with(items: tuple[Any, ...], index: int, item: Any) -> tuple[Any, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _changed(rng: random.Random, items: tuple[Any, ...], change: Callable[[Any], Any]) -> tuple[Any, ...]:
    index = rng.randrange(len(items))
    return _with(items, index, change(items[index]))


def _swapped(rng: random.Random, items: tuple[Any, ...]) -> tuple[Any, ...]:
    first, second = rng.randrange(len(items)), rng.randrange(len(items))
    return _with(_with(items, first, items[second]), second, items[first])


def mutants(plan: Plan, rng: random.Random) -> Iterator[tuple[str, Plan]]:
    """What is changed, and the plan with that; equal plans are left out."""
    for name, make in _ways(plan, rng):
        mutant = make()
        if mutant != plan:
            yield name, mutant


def _ways(plan: Any, rng: random.Random) -> Iterator[Mutant]:
    def flip(value: int) -> int:
        return value ^ 1 << rng.randrange(max(1, value.bit_length() + 1))

    if isinstance(plan, RegisterPlan):
        yield "a register", lambda: replace(plan, sources=_changed(rng, plan.sources, flip))
        yield "two registers", lambda: replace(plan, sources=_swapped(rng, plan.sources))
    elif isinstance(plan, ShufflePlan):
        yield from _shuffle_ways(plan, rng, flip)
    elif isinstance(plan, SharedPlan):
        yield from _shared_ways(plan, rng, flip)


def _shuffle_ways(plan: ShufflePlan, rng: random.Random, flip: Callable[[int], int]) -> Iterator[Mutant]:
    if len(plan.outputs) > 1:
        yield "two outputs", lambda: replace(plan, outputs=_swapped(rng, plan.outputs))
    yield "an output", lambda: replace(plan, outputs=_changed(rng, plan.outputs, flip))
    for kind, ways in ((Shuffle, _SHUFFLE), (Pick, _PICK), (Trade, _TRADE)):
        numbers = [number for number, step in enumerate(plan.steps) if isinstance(step, kind)]
        for name, change in ways.items():
            if numbers:
                number = rng.choice(numbers)
                step = change(plan.steps[number], rng, flip)
                yield name, lambda n=number, s=step: replace(plan, steps=_with(plan.steps, n, s))


def _lane_columns(step: Shuffle, rng: random.Random, flip: Callable[[int], int]) -> Shuffle:
    if step.lane_columns is None:
        return replace(step, lane_xor=step.lane_xor ^ 1)
    return replace(step, lane_columns=_changed(rng, step.lane_columns, lambda c: c ^ 1 << rng.randrange(5)))


def _pick(step: Pick, rng: random.Random, flip: Callable[[int], int]) -> Pick:
    slots = len(step.picks[0]) * len(step.sources)
    return replace(
        step, picks=_changed(rng, step.picks, lambda r: _changed(rng, r, lambda _: rng.randrange(slots)))
    )


_SHUFFLE: dict[str, Callable[..., Shuffle]] = {
    "the lane": lambda step, rng, flip: replace(step, lane_xor=step.lane_xor ^ 1 << rng.randrange(5)),
    "a column of the lane": _lane_columns,
    "the word sent": lambda step, rng, flip: replace(step, word=flip(step.word)),
}
_PICK: dict[str, Callable[..., Pick]] = {
    "a condition": lambda step, rng, flip: (
        replace(step, masks=_changed(rng, step.masks, lambda m: m ^ 1 << rng.randrange(6)))
        if step.masks
        else step
    ),
    "two alternatives": lambda step, rng, flip: replace(step, picks=_swapped(rng, step.picks)),
    "a pick": _pick,
    "a source": lambda step, rng, flip: replace(step, sources=_changed(rng, step.sources, flip)),
}

_TRADE: dict[str, Callable[..., Trade]] = {
    "the lane bit": lambda step, rng, flip: replace(step, lane_bit=flip(step.lane_bit)),
    "the side": lambda step, rng, flip: replace(step, side=1 - step.side),
    "a word exchanged": lambda step, rng, flip: replace(step, words=_changed(rng, step.words, flip)),
}


def _shared_ways(plan: SharedPlan, rng: random.Random, flip: Callable[[int], int]) -> Iterator[Mutant]:
    yield "two outputs", lambda: replace(plan, outputs=_swapped(rng, plan.outputs))
    yield (
        "an output's place",
        lambda: replace(plan, outputs=_changed(rng, plan.outputs, lambda o: _changed(rng, o, flip))),
    )
    yield "the scratch", lambda: replace(plan, scratch_bytes=plan.scratch_bytes // 2)
    if plan.split:
        yield "who stores", lambda: replace(plan, split=_changed(rng, plan.split, lambda m: flip(m) or 1))
    if len(plan.store.rounds) > 1:
        yield (
            "rounds of the stores",
            lambda: replace(plan, store=replace(plan.store, rounds=_swapped(rng, plan.store.rounds))),
        )
    yield (
        "a round dropped",
        lambda: replace(
            plan,
            store=replace(plan.store, rounds=plan.store.rounds[1:]),
            load=replace(plan.load, rounds=plan.load.rounds[1:]),
        ),
    )
    for name in ("store", "load"):
        side: MemorySide = getattr(plan, name)
        aligned = 16 if side.matrix else side.access_bytes

        def bit(aligned: int = aligned) -> int:
            steps = max(1, (plan.scratch_bytes // aligned).bit_length() - 1)
            return aligned << rng.randrange(steps)

        def put(name: str = name, side: MemorySide = side, **fields: Any) -> SharedPlan:
            return replace(plan, **{name: replace(side, **fields)})

        def accesses(change: Callable[[Any], Any], side: MemorySide = side) -> Any:
            return _changed(
                rng, side.rounds, lambda round_: _changed(rng, round_, change) if round_ else round_
            )

        yield (
            f"an address column of the {name}s",
            lambda s=side, p=put, b=bit: p(columns=_changed(rng, s.columns, lambda c: c ^ b())),
        )
        yield f"two address columns of the {name}s", lambda s=side, p=put: p(columns=_swapped(rng, s.columns))
        yield (
            f"an offset of the {name}s",
            lambda p=put, a=accesses, b=bit: p(
                rounds=a(lambda access: replace(access, offset=access.offset ^ b()))
            ),
        )
        yield (
            f"an access of the {name}s dropped",
            lambda s=side, p=put: p(rounds=_changed(rng, s.rounds, lambda round_: round_[:-1])),
        )
        if name == "store":
            yield (
                "a register stored",
                lambda p=put, a=accesses: p(
                    rounds=a(lambda access: replace(access, registers=_changed(rng, access.registers, flip)))
                ),
            )
            yield (
                "two registers stored",
                lambda p=put, a=accesses: p(
                    rounds=a(lambda access: replace(access, registers=_swapped(rng, access.registers)))
                ),
            )
    for name in ("before", "after"):
        stage = getattr(plan, name)
        if stage is not None:
            yield f"nothing {name}", lambda n=name: replace(plan, **{n: None})
            for what, make in _shuffle_ways(stage, rng, flip):
                yield f"{what}, {name}", lambda n=name, m=make: replace(plan, **{n: m()})
