"""Code for exchanges through shared memory: stores of words, a barrier, and loads by other threads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from triton_linear.lowering.emit.machines import InstructionWriter
from triton_linear.lowering.emit.parts import WORD, Part, Parts, Vector, parts_of, side_by_side
from triton_linear.lowering.emit.text import I32, SHARED, FunctionWriter, vector_type
from triton_linear.lowering.emit.words import WordWriter, linear_in_thread
from triton_linear.lowering.plan.packing import loaded_words, stored_words
from triton_linear.lowering.plan.plans import MemorySide, SharedPlan


def emit_exchange(
    writer: FunctionWriter,
    plan: SharedPlan,
    words: Sequence[Parts] | Callable[[int], Parts],
    machine: InstructionWriter,
    base: str,
    half: str,
) -> list[Parts]:
    """Write the exchange of a conversion; return the destination's words.

    words: the source's words, or a function that writes one. base: the name of the pointer to the scratch.
    half: the type of half-words.
    """
    storing, thread = stored_words(plan), machine.thread(writer)
    sources = WordWriter(writer, machine, plan.per_word, words, storing.given, half)
    store_address = pointers(writer, thread, plan.store.columns, base)
    load_address = pointers(writer, thread, plan.load.columns, base)
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
        machine.barrier(writer, plan.scope)
        for access in loads:
            loaded += _load_words(writer, plan, machine, load_address(access.offset))
    placed = loaded_words(plan)
    program = WordWriter(writer, machine, plan.per_word, loaded, placed.given, half).run(placed.steps)
    return [program.word(number) for number in placed.outputs]


def _load_words(
    writer: FunctionWriter, plan: SharedPlan, machine: InstructionWriter, address: str
) -> list[Parts]:
    """Write one load; return its words."""
    side = plan.load
    if side.matrix:
        count = side.slots * plan.element_bytes // 4
        parts = parts_of(writer, machine.load_matrix(writer, side.matrix, address, count))
    else:
        bits = 8 * side.access_bytes
        element, count = (I32, bits // WORD) if bits >= WORD else (f"i{bits}", 1)
        type_ = vector_type(element, count)
        value = writer.op(f"llvm.load {address} {_aligned(side)} : {SHARED} -> {type_}")
        loaded = Vector(writer, element, whole=value, count=count)
        parts = [Part(loaded, index) for index in range(count)]
    per_word = max(1, plan.element_bytes // 4)
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


def pointers(writer: FunctionWriter, thread: str, columns: Sequence[int], base: str) -> Callable[[int], str]:
    """A function that returns the pointer of the thread for an offset; `columns`: the side's address
    columns."""
    moving = functools.reduce(int.__or__, columns, 0)
    origin = linear_in_thread(writer, thread, columns)

    @functools.cache
    def row(flipped: int) -> str:
        if origin is None:
            return base
        offset = writer.binary("xor", origin, writer.constant(flipped)) if flipped else origin
        return writer.op(f"llvm.getelementptr {base}[{offset}] : ({SHARED}, {I32}) -> {SHARED}, i8")

    def address(offset: int) -> str:
        # In bits that no thread sets, xor is addition, and becomes an immediate offset.
        start, rest = row(offset & moving), offset & ~moving
        if not rest:
            return start
        return writer.op(f"llvm.getelementptr {start}[{rest}] : ({SHARED}) -> {SHARED}, i8")

    return address


def _aligned(side: MemorySide) -> str:
    return f"{{alignment = {side.access_bytes} : i64}}"
