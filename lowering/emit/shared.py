"""Code for exchanges through shared memory: stores of words, a barrier, and loads by other threads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from triton_linear.lowering.emit.machines import InstructionWriter
from triton_linear.lowering.emit.parts import WORD, Part, Parts, Vector, parts_of, side_by_side
from triton_linear.lowering.emit.text import (
    CLUSTER_SHARED,
    I32,
    SHARED,
    FunctionWriter,
    vector_type,
)
from triton_linear.lowering.emit.words import WordWriter, in_cluster, linear_in_thread
from triton_linear.lowering.plan.packing import loaded_words, stored_words
from triton_linear.lowering.plan.plans import CLUSTER, MemorySide, SharedPlan

LoadAddress = Callable[[int, int, int], str]
"""Writes the pointer of a load, by its round, its number in the round, and its offset."""


def emit_exchange(
    writer: FunctionWriter,
    plan: SharedPlan,
    words: Sequence[Parts] | Callable[[int], Parts],
    machine: InstructionWriter,
    base: str,
    half: str,
    closes: bool = True,
) -> list[Parts]:
    """Write the exchange of a conversion; return the destination's words.

    words: the source's words, or a function that writes one. base: the name of the pointer to the scratch.
    half: the type of half-words. closes: in a cluster, write the barrier behind the loads.
    """
    thread = machine.thread(writer)
    within = _load_thread(writer, plan, machine, thread, len(plan.store.columns))
    loaded = emit_trip(
        *(writer, plan, words, machine, thread, base, half),
        lambda: _load_pointers(writer, within, plan, machine, base),
    )
    closing = closes and plan.scope == CLUSTER
    if closing:
        machine.arrive(writer)
    placed = loaded_words(plan)
    program = WordWriter(writer, machine, plan.per_word, loaded, placed.given, half).run(placed.steps)
    words_loaded = [program.word(number) for number in placed.outputs]
    if closing:
        machine.wait(writer)
    return words_loaded


def emit_trip(
    writer: FunctionWriter,
    plan: SharedPlan,
    words: Sequence[Parts] | Callable[[int], Parts],
    machine: InstructionWriter,
    thread: str,
    base: str,
    half: str,
    loads_at: Callable[[], LoadAddress],
) -> list[Parts]:
    """Write the stores, barriers and loads of all rounds; return the words of the loads in order.

    thread: the number of the thread in its CTA. loads_at: called once, when the pointers of stores are written,
    for what writes those of loads. Others as for `emit_exchange`.
    """
    memory, storing = _Memory(writer, plan, machine), stored_words(plan)
    sources = WordWriter(writer, machine, plan.per_word, words, storing.given, half)
    store_address = pointers(writer, thread, plan.store.columns, base)
    load_address = loads_at()
    written = 0
    loaded: list[Parts] = []
    for index, (stores, loads) in enumerate(zip(plan.store.rounds, plan.load.rounds, strict=True)):
        if index:
            machine.barrier(writer, plan.scope)
        elif plan.stores_apart:
            machine.keep_loads_in_flight(writer)
        for access, made in zip(stores, storing.words[index], strict=True):
            needed = max(written, max(made) - storing.given + 1)
            sources.run(storing.steps[written:needed])
            written = needed
            words_of_access = [sources.word(number) for number in made]
            _store_words(writer, machine, plan.store, words_of_access, store_address(access.offset))
        first: Parts = []  # of each load
        machine.barrier(writer, plan.scope)
        for number, access in enumerate(loads):
            words_of_access = memory.load(load_address(index, number, access.offset))
            loaded += words_of_access
            first.append(words_of_access[0][0])
        if plan.ranks is not None:
            machine.receive(writer, [part.word for part in first])
    return loaded


def _load_thread(
    writer: FunctionWriter, plan: SharedPlan, machine: InstructionWriter, thread: str, bits: int
) -> str:
    """The thread number for loads: the number in the cluster if loads depend on the CTA's rank, else `thread`.

    bits: of the thread's number in its CTA.
    """
    columns = (*plan.load.columns[bits:], *(() if plan.ranks is None else plan.ranks.columns[bits:]))
    if not any(columns):
        return thread
    return in_cluster(writer, machine, bits)


def _load_pointers(
    writer: FunctionWriter, thread: str, plan: SharedPlan, machine: InstructionWriter, base: str
) -> LoadAddress:
    """What writes the pointers of a conversion's loads."""
    ranks = plan.ranks
    if ranks is None:
        own = pointers(writer, thread, plan.load.columns, base)
        return lambda _round, _number, offset: own(offset)
    columns, loads = ranks.columns, ranks.loads

    @functools.cache
    def origin() -> str | None:
        return linear_in_thread(writer, thread, columns)

    @functools.cache
    def memory_of(flipped: int) -> Callable[[int], str]:
        rank = origin()
        if rank is None:
            rank = writer.constant(flipped)
        elif flipped:
            rank = writer.binary("xor", rank, writer.constant(flipped))
        far_base = machine.memory_of(writer, base, rank)
        return pointers(writer, thread, plan.load.columns, far_base, space=CLUSTER_SHARED)

    return lambda round_, number, offset: memory_of(loads[round_][number])(offset)


class _Memory:
    """Writes the loads of a plan."""

    def __init__(self, writer: FunctionWriter, plan: SharedPlan, machine: InstructionWriter) -> None:
        self._writer, self._plan, self._machine = writer, plan, machine

    def load(self, address: str) -> list[Parts]:
        """The words of one access."""
        writer, side = self._writer, self._plan.load
        if side.matrix:
            count = side.slots * self._plan.element_bytes // 4
            parts = parts_of(writer, self._machine.load_matrix(writer, side.matrix, address, count))
        else:
            bits = 8 * side.access_bytes
            element, count = (I32, bits // WORD) if bits >= WORD else (f"i{bits}", 1)
            space = SHARED if self._plan.ranks is None else CLUSTER_SHARED
            type_ = vector_type(element, count)
            value = writer.op(f"llvm.load {address} {_aligned(side)} : {space} -> {type_}")
            loaded = Vector(writer, element, whole=value, count=count)
            parts = [Part(loaded, index) for index in range(count)]
        per_word = max(1, self._plan.element_bytes // 4)
        return [parts[start : start + per_word] for start in range(0, len(parts), per_word)]


def _store_words(
    writer: FunctionWriter, machine: InstructionWriter, side: MemorySide, words: Sequence[Parts], address: str
) -> None:
    """Write the words of one store."""
    parts = [part for word in words for part in word]
    if side.matrix:
        machine.store_matrix(writer, side.matrix, address, [part.word for part in parts])
        return
    value, type_ = side_by_side(writer, parts, 8 * side.access_bytes)
    writer.effect(f"llvm.store {value}, {address} {_aligned(side)} : {type_}, {SHARED}")


def pointers(
    writer: FunctionWriter,
    thread: str,
    columns: Sequence[int],
    base: str,
    space: str = SHARED,
) -> Callable[[int], str]:
    """A function that returns the pointer of the thread for an offset; `columns`: the side's address
    columns."""
    moving = functools.reduce(int.__or__, columns, 0)
    origin = linear_in_thread(writer, thread, columns)

    @functools.cache
    def row(flipped: int) -> str:
        if origin is None:
            return base
        offset = writer.binary("xor", origin, writer.constant(flipped)) if flipped else origin
        return writer.op(f"llvm.getelementptr {base}[{offset}] : ({space}, {I32}) -> {space}, i8")

    def address(offset: int) -> str:
        # In bits that no thread sets, xor is addition, and becomes an immediate offset.
        start, rest = row(offset & moving), offset & ~moving
        if not rest:
            return start
        return writer.op(f"llvm.getelementptr {start}[{rest}] : ({space}) -> {space}, i8")

    return address


def _aligned(side: MemorySide) -> str:
    return f"{{alignment = {side.access_bytes} : i64}}"
