"""From the plan of a gather to code: structs of source and index registers to one of result registers."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from triton_linear.lowering.element import ElementType
from triton_linear.lowering.emit_elements import from_integer, packed_words, unpacked, width
from triton_linear.lowering.emit_words import Parts, linear_in_thread
from triton_linear.lowering.gather import Columns, GatherPlan, Wanted
from triton_linear.lowering.machines import Machine, machine_of
from triton_linear.lowering.targets import Target
from triton_linear.lowering.text import I32, I64, FunctionWriter, struct_type


@dataclass(frozen=True, slots=True)
class GatherSignature:
    """The structs of registers that a gather takes and gives."""

    element: str
    index_element: str
    source_registers: int
    index_registers: int

    @staticmethod
    def of(plan: GatherPlan, element: ElementType, index_element: ElementType) -> GatherSignature:
        """The structs that `plan` goes between."""
        return GatherSignature(element.llvm, index_element.llvm, plan.source_registers, plan.index_registers)

    @property
    def source(self) -> str:
        """The type of the struct of source registers."""
        return struct_type(self.element, self.source_registers)

    @property
    def index(self) -> str:
        """The type of the struct of index registers."""
        return struct_type(self.index_element, self.index_registers)

    @property
    def result(self) -> str:
        """The type of the struct of result registers."""
        return struct_type(self.element, self.index_registers)


def emit_gather_body(
    plan: GatherPlan,
    signature: GatherSignature,
    target: Target,
    writer: FunctionWriter,
    source: str,
    index: str,
) -> str:
    """Write the code from the structs `source` and `index` to that of result registers; name the latter."""
    values = _Gather(plan, signature, machine_of(target), writer, source, index).results()
    result = writer.op(f"llvm.mlir.undef : {signature.result}")
    for number, field in enumerate(plan.outputs):
        result = writer.op(f"llvm.insertvalue {values[field]}, {result}[{number}] : {signature.result}")
    return result


def emit_gather(plan: GatherPlan, signature: GatherSignature, target: Target, symbol: str = "gather") -> str:
    """The gather as a function of its own: `(source struct, index struct) -> result struct`.

    Its body is, line by line, what is put into a kernel.
    """
    writer = FunctionWriter()
    result = emit_gather_body(plan, signature, target, writer, "%source", "%index")
    writer.effect(f"llvm.return {result} : {signature.result}")
    arguments = f"%source: {signature.source}, %index: {signature.index}"
    return f"  llvm.func @{symbol}({arguments}) -> {signature.result} {{\n{writer.body()}  }}\n"


class _Gather:
    """Writes one gather."""

    def __init__(
        self,
        plan: GatherPlan,
        signature: GatherSignature,
        machine: Machine,
        writer: FunctionWriter,
        source: str,
        index: str,
    ) -> None:
        self._plan, self._signature, self._machine, self._writer = plan, signature, machine, writer
        self._source, self._index = source, index
        self._word = functools.cache(self._packed)
        self._by_thread = functools.cache(self._linear_in_own_thread)

    def results(self) -> list[str]:
        """The values that registers of the result are."""
        plan = self._plan
        return [self._result(*both) for both in zip(plan.indices, plan.wanted, strict=True)]

    def _result(self, register: int, wanted: Wanted) -> str:
        plan, writer = self._plan, self._writer
        words = [self._word(group) for group in plan.groups(wanted)]
        number = self._number(register) if plan.moves or plan.choices else ""
        if plan.moves:
            lane = self._sum(number, plan.lane_by_index, plan.lane_by_thread, wanted.lane_flip)
            words = [[self._machine.shuffle(writer, part, lane) for part in word] for word in words]
        if plan.choices:
            choice = self._sum(number, plan.choice_by_index, plan.choice_by_thread, wanted.choice_flip)
            words = self._selected(words, choice)
            if plan.packed:
                words = [[self._taken(words[0][0], words[-1][0], choice)]]
        element = self._signature.element
        (value,) = unpacked(writer, words[0], width(element), 1)
        return from_integer(writer, value, element)

    def _selected(self, words: list[Parts], choice: str) -> list[Parts]:
        """The word that the choice's high bits name; the pair of two, of which a permute is to take one."""
        plan, writer = self._plan, self._writer
        for bit in reversed(range(len(plan.choices) - plan.select_bits, len(plan.choices))):
            masked = writer.binary("and", choice, writer.constant(1 << bit))
            condition = writer.op(f'llvm.icmp "ne" {masked}, {writer.constant(0)} : {I32}')
            half = len(words) // 2
            words = [
                [
                    writer.op(f"llvm.select {condition}, {one}, {zero} : i1, {I32}")
                    for zero, one in zip(*pair, strict=True)
                ]
                for pair in zip(words[:half], words[half:], strict=True)
            ]
        return words

    def _taken(self, low: str, high: str, choice: str) -> str:
        """A word with the element of two words that the choice's low bits name lowest."""
        plan, writer, machine = self._plan, self._writer, self._machine
        size = width(self._signature.element) // 8
        # A selector is linear in the number of the element that it picks.
        step = machine.selector([size] * size)
        start = machine.selector(list(range(size)))
        slot = choice
        if plan.select_bits:
            mask = (1 << (len(plan.choices) - plan.select_bits)) - 1
            slot = writer.binary("and", choice, writer.constant(mask))
        if step > 1:
            slot = writer.binary("mul", slot, writer.constant(step))
        if start:
            slot = writer.binary("add", slot, writer.constant(start))
        return machine.permute(writer, low, high, slot)

    def _packed(self, group: tuple[int, ...]) -> Parts:
        """The word of these source registers."""
        registers = [
            self._writer.once(f"llvm.extractvalue {self._source}[{register}] : {self._signature.source}")
            for register in group
        ]
        return packed_words(self._writer, registers, self._signature.element, None)

    def _number(self, register: int) -> str:
        """An index as 32 bits; the axis is shorter than 2^31, and negative indices mean nothing."""
        writer, element = self._writer, self._signature.index_element
        value = writer.op(f"llvm.extractvalue {self._index}[{register}] : {self._signature.index}")
        if element == I32:
            return value
        cast = "trunc" if element == I64 else "zext"
        return writer.op(f"llvm.{cast} {value} : {element} to {I32}")

    def _sum(self, number: str, by_index: Columns, by_thread: Columns, flip: int) -> str:
        """The xor of what index and thread number give and `flip`."""
        writer = self._writer
        parts = [linear_in_thread(writer, number, by_index), self._by_thread(by_thread)]
        parts += [writer.constant(flip)] if flip else []
        known = [part for part in parts if part is not None]
        if not known:
            return writer.constant(0)
        return functools.reduce(lambda a, b: writer.binary("xor", a, b), known)

    def _linear_in_own_thread(self, columns: Columns) -> str | None:
        if not any(columns):
            return None
        return linear_in_thread(self._writer, self._machine.thread(self._writer), columns)
