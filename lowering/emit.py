"""From plan to code: LLVM-dialect operations that take a struct of source registers to destination ones.

Emission decides nothing; it follows the plan. Elements are moved as integers of their width (i1 as i8 where
it is packed or stored), so no float operation can touch a NaN's payload.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

from triton_linear.lowering.plan import (
    Access,
    MemorySide,
    NoOpPlan,
    Plan,
    RegisterPlan,
    SharedPlan,
    ShufflePlan,
)
from triton_linear.lowering.targets import Target
from triton_linear.lowering.text import (
    I32,
    I64,
    SHARED,
    FunctionWriter,
    Signature,
    build_vector,
    split_vector,
    struct_type,
    vector_type,
)
from triton_linear.lowering.words import Gather, Shuffle


class _Machine(Protocol):
    """What differs between vendors in the emitted code."""

    def thread(self, writer: FunctionWriter) -> str: ...
    def shuffle(self, writer: FunctionWriter, word: str, lane: str | int) -> str: ...
    def permute(self, writer: FunctionWriter, low: str, high: str, selector: str) -> str: ...
    def selector(self, picked: Sequence[int]) -> int: ...
    def barrier(self, writer: FunctionWriter, scope: str) -> None: ...


class _Nvidia:
    """PTX through NVVM. `shfl.sync` reads the lane given; clamp 31 lets it be any of the warp."""

    def thread(self, writer: FunctionWriter) -> str:
        return writer.op(f"nvvm.read.ptx.sreg.tid.x : {I32}")

    def shuffle(self, writer: FunctionWriter, word: str, lane: str | int) -> str:
        mode, where = ("bfly", writer.constant(lane)) if isinstance(lane, int) else ("idx", lane)
        everyone, clamp = writer.constant(-1), writer.constant(31)
        return writer.op(f"nvvm.shfl.sync {mode} {everyone}, {word}, {where}, {clamp} : {I32} -> {I32}")

    def permute(self, writer: FunctionWriter, low: str, high: str, selector: str) -> str:
        operands, types = ", ".join((low, high, selector)), ", ".join((I32, I32, I32))
        return writer.op(f'llvm.call_intrinsic "llvm.nvvm.prmt"({operands}) : ({types}) -> {I32}')

    def selector(self, picked: Sequence[int]) -> int:
        return sum(byte << 4 * k for k, byte in enumerate(picked))

    def barrier(self, writer: FunctionWriter, scope: str) -> None:
        if scope == "warp":
            writer.effect(f"nvvm.bar.warp.sync {writer.constant(-1)} : {I32}")
        else:
            writer.effect("nvvm.barrier")


class _Amd:
    """AMDGCN through ROCDL. `ds_bpermute` addresses lanes in bytes; a wave's LDS accesses execute in order,
    so inside a wave only the compiler needs a fence."""

    def thread(self, writer: FunctionWriter) -> str:
        return writer.op(f"rocdl.workitem.id.x : {I32}")

    def shuffle(self, writer: FunctionWriter, word: str, lane: str | int) -> str:
        if isinstance(lane, int):
            own = writer.binary("and", self.thread(writer), writer.constant(63))
            lane = writer.binary("xor", own, writer.constant(lane))
        address = writer.binary("shl", lane, writer.constant(2))
        return writer.op(f"rocdl.ds_bpermute {address}, {word} : ({I32}, {I32}) -> {I32}")

    def permute(self, writer: FunctionWriter, low: str, high: str, selector: str) -> str:
        # V_PERM_B32 numbers the bytes of its second operand first, and has a byte for each byte it picks.
        operands, types = ", ".join((high, low, selector)), ", ".join((I32, I32, I32))
        return writer.op(f'llvm.call_intrinsic "llvm.amdgcn.perm"({operands}) : ({types}) -> {I32}')

    def selector(self, picked: Sequence[int]) -> int:
        return sum(byte << 8 * k for k, byte in enumerate(picked))

    def barrier(self, writer: FunctionWriter, scope: str) -> None:
        if scope == "warp":
            writer.effect('llvm.fence syncscope("wavefront") acq_rel')
            return
        writer.effect('llvm.fence syncscope("workgroup") release')
        writer.effect("rocdl.s.barrier")
        writer.effect('llvm.fence syncscope("workgroup") acquire')


_MACHINES: dict[str, _Machine] = {"nvidia": _Nvidia(), "amd": _Amd()}


def emit_body(
    plan: Plan, signature: Signature, target: Target, writer: FunctionWriter, value: str, base: str
) -> str:
    """Write the code from the struct `value` of source registers to that of destination ones; name the latter.

    `base` names the `!llvm.ptr<3>` at which the plan's scratch begins; plans without scratch do not use it.
    """
    machine = _MACHINES[target.vendor]
    element = signature.element

    @functools.cache
    def register(index: int) -> str:
        return writer.op(f"llvm.extractvalue {value}[{index}] : {signature.source}")

    if isinstance(plan, NoOpPlan):
        values = [register(index) for index in range(signature.source_registers)]
    elif isinstance(plan, RegisterPlan):
        values = [register(index) for index in plan.sources]
    elif isinstance(plan, ShufflePlan):
        values = _emit_shuffle(writer, plan, element, register, machine)
    else:
        values = _emit_shared(writer, plan, element, register, machine, base)
    result = writer.op(f"llvm.mlir.undef : {signature.result}")
    for index, field in enumerate(values):
        result = writer.op(f"llvm.insertvalue {field}, {result}[{index}] : {signature.result}")
    return result


def emit(plan: Plan, signature: Signature, target: Target, symbol: str = "conversion") -> str:
    """The conversion as a function of its own: `(source struct, !llvm.ptr<3> scratch) -> destination struct`.

    Its body is, line by line, what `embed` puts into a kernel.
    """
    writer = FunctionWriter()
    result = emit_body(plan, signature, target, writer, "%source", "%scratch")
    writer.effect(f"llvm.return {result} : {signature.result}")
    arguments = f"%source: {signature.source}, %scratch: {SHARED}"
    return f"  llvm.func @{symbol}({arguments}) -> {signature.result} {{\n{writer.body()}  }}\n"


# --- elements as integers ---------------------------------------------------------------------------------


def _width(element: str) -> int:
    """Bits of an LLVM element type; an i1 moves as 8 bits."""
    if element.startswith("!llvm.ptr"):
        return 64
    if element == "bf16":
        return 16
    return max(8, int(element[1:]))


def _to_integer(writer: FunctionWriter, value: str, element: str) -> str:
    integer = f"i{_width(element)}"
    if element.startswith("!llvm.ptr"):
        return writer.op(f"llvm.ptrtoint {value} : {element} to {integer}")
    if element == "i1":
        return writer.op(f"llvm.zext {value} : i1 to i8")
    return value if element == integer else writer.op(f"llvm.bitcast {value} : {element} to {integer}")


def _from_integer(writer: FunctionWriter, value: str, element: str) -> str:
    integer = f"i{_width(element)}"
    if element.startswith("!llvm.ptr"):
        return writer.op(f"llvm.inttoptr {value} : {integer} to {element}")
    if element == "i1":
        return writer.op(f"llvm.trunc {value} : i8 to i1")
    return value if element == integer else writer.op(f"llvm.bitcast {value} : {integer} to {element}")


def _pack(writer: FunctionWriter, values: Sequence[str], bits: int) -> list[str]:
    """Integers of `bits` bits as 32-bit words, lowest first; fewer than 32 bits are zero-extended."""
    if bits == 32:
        return list(values)
    if bits == 64:
        words = [writer.op(f"llvm.bitcast {value} : {I64} to vector<2xi32>") for value in values]
        return [part for word in words for part in split_vector(writer, word, I32, 2)]
    per_word = min(len(values), 32 // bits)
    words = []
    for start in range(0, len(values), per_word):
        vector = build_vector(writer, values[start : start + per_word], f"i{bits}")
        packed_bits = bits * per_word
        if per_word > 1:
            vector = writer.op(f"llvm.bitcast {vector} : vector<{per_word}xi{bits}> to i{packed_bits}")
        words.append(
            vector if packed_bits == 32 else writer.op(f"llvm.zext {vector} : i{packed_bits} to {I32}")
        )
    return words


def _unpack(writer: FunctionWriter, words: Sequence[str], bits: int, count: int) -> list[str]:
    """The inverse of `_pack` for `count` integers."""
    if bits == 32:
        return list(words)
    if bits == 64:
        pairs = [build_vector(writer, words[start : start + 2], I32) for start in range(0, len(words), 2)]
        return [writer.op(f"llvm.bitcast {pair} : vector<2xi32> to {I64}") for pair in pairs]
    per_word = min(count, 32 // bits)
    values = []
    for word in words:
        packed_bits = bits * per_word
        narrow = word if packed_bits == 32 else writer.op(f"llvm.trunc {word} : {I32} to i{packed_bits}")
        if per_word > 1:
            narrow = writer.op(f"llvm.bitcast {narrow} : i{packed_bits} to vector<{per_word}xi{bits}>")
        values += split_vector(writer, narrow, f"i{bits}", per_word)
    return values


# --- functions of the thread number ------------------------------------------------------------------------


def _linear_in_thread(writer: FunctionWriter, thread: str, columns: Sequence[int]) -> str | None:
    """The xor of columns[j] over the set bits j of the thread number; None when it is always zero.

    Bits that move by the same distance are moved together.
    """
    masks: dict[int, int] = {}
    for bit, column in enumerate(columns):
        for place in range(column.bit_length()):
            if column >> place & 1:
                masks[place - bit] = masks.get(place - bit, 0) | 1 << bit
    total: str | None = None
    for shift, mask in sorted(masks.items()):
        part = writer.binary("and", thread, writer.constant(mask))
        if shift:
            part = writer.binary("shl" if shift > 0 else "lshr", part, writer.constant(abs(shift)))
        total = part if total is None else writer.binary("xor", total, part)
    return total


def _parity(writer: FunctionWriter, thread: str, mask: int) -> str:
    """An i1: whether an odd number of the bits of `mask` are set in the thread number."""
    selected = writer.binary("and", thread, writer.constant(mask))
    if mask & (mask - 1):
        count = writer.op(f"llvm.intr.ctpop({selected}) : ({I32}) -> {I32}")
        selected = writer.binary("and", count, writer.constant(1))
    return writer.op(f'llvm.icmp "ne" {selected}, {writer.constant(0)} : {I32}')


# --- the two ways of moving data ----------------------------------------------------------------------------


def _emit_shuffle(
    writer: FunctionWriter, plan: ShufflePlan, element: str, register: Callable[[int], str], machine: _Machine
) -> list[str]:
    program = _WordProgram(writer, plan, element, register, machine)
    bits = _width(element)
    values: list[str] = []
    for word in plan.outputs:
        count = min(plan.slots, plan.destination_registers - len(values))
        values += _unpack(writer, program.word(word), bits, count)
    return [_from_integer(writer, value, element) for value in values]


class _WordProgram:
    """Writes the words of a plan, each as 32-bit parts, in the plan's order: compilers keep much of it."""

    def __init__(
        self,
        writer: FunctionWriter,
        plan: ShufflePlan,
        element: str,
        register: Callable[[int], str],
        machine: _Machine,
    ) -> None:
        self._writer, self._plan, self._element = writer, plan, element
        self._register, self._machine = register, machine
        self._bits = _width(element)
        self._given = max(1, plan.source_registers // plan.slots)
        self._thread = machine.thread(writer)
        self._words: dict[int, list[str]] = {}
        self._conditions: dict[int, str] = {}
        self._lanes: dict[tuple[tuple[int, ...], int], str] = {}
        self._selectors: dict[tuple[tuple[int, ...], tuple[int, ...]], str] = {}
        for number in range(len(plan.steps)):
            self.word(self._given + number)

    def word(self, number: int) -> list[str]:
        """The parts of a word."""
        if number not in self._words:
            self._words[number] = self._write(number)
        return self._words[number]

    def _write(self, number: int) -> list[str]:
        if number < self._given:
            first, writer = number * self._plan.slots, self._writer
            last = min(first + self._plan.slots, self._plan.source_registers)
            values = [_to_integer(writer, self._register(r), self._element) for r in range(first, last)]
            return _pack(writer, values, self._bits)
        step = self._plan.steps[number - self._given]
        if isinstance(step, Shuffle):
            columns = step.lane_columns
            lane = step.lane_xor if columns is None else self._lane(columns, step.lane_xor)
            return [self._machine.shuffle(self._writer, part, lane) for part in self.word(step.word)]
        return self._gather(step)

    def _lane(self, columns: tuple[int, ...], flipped: int) -> str:
        """The lane that the columns name, with these bits flipped."""
        key = (columns, flipped)
        if key not in self._lanes:
            writer = self._writer
            if flipped:
                own = self._lane(columns, 0)
                self._lanes[key] = writer.binary("xor", own, writer.constant(flipped))
            else:
                lane = _linear_in_thread(writer, self._thread, columns)
                self._lanes[key] = writer.constant(0) if lane is None else lane
        return self._lanes[key]

    def _condition(self, mask: int) -> str:
        if mask not in self._conditions:
            self._conditions[mask] = _parity(self._writer, self._thread, mask)
        return self._conditions[mask]

    def _gather(self, step: Gather) -> list[str]:
        writer, slots = self._writer, self._plan.slots
        sources = [self.word(source) for source in step.sources]
        whole = _whole_words(step, slots)
        if whole is not None and len(whole) == 1:
            return sources[whole[0]]
        if whole is not None and len(whole) == 2:
            condition = self._condition(step.masks[0])
            zero, one = (sources[number] for number in whole)
            return [
                writer.op(f"llvm.select {condition}, {b}, {a} : i1, {I32}")
                for a, b in zip(zero, one, strict=True)
            ]
        selectors = tuple(self._machine.selector(_bytes_of(picks, 4 // slots)) for picks in step.picks)
        (low,), (high,) = sources[0], sources[-1]
        return [self._machine.permute(writer, low, high, self._selector(step.masks, selectors))]

    def _selector(self, masks: tuple[int, ...], selectors: tuple[int, ...]) -> str:
        """The selector of this thread's alternative."""
        if len(set(selectors)) == 1:
            return self._writer.constant(selectors[0])
        key = (masks, selectors)
        if key not in self._selectors:
            half = len(selectors) // 2
            zero, one = (self._selector(masks[:-1], part) for part in (selectors[:half], selectors[half:]))
            condition = self._condition(masks[-1])
            self._selectors[key] = self._writer.op(f"llvm.select {condition}, {one}, {zero} : i1, {I32}")
        return self._selectors[key]


def _whole_words(step: Gather, slots: int) -> tuple[int, ...] | None:
    """Which source each alternative takes as it is, for at most two of them; None where one is not whole."""
    if len(step.picks) > 2:
        return None
    whole = []
    for picks in step.picks:
        found = {pick // slots for pick in picks if pick >= 0}
        if len(found) > 1 or any(pick >= 0 and pick % slots != slot for slot, pick in enumerate(picks)):
            return None
        whole.append(found.pop() if found else 0)
    return tuple(whole)


def _bytes_of(picks: Sequence[int], size: int) -> list[int]:
    """The bytes to pick for slots of `size` bytes, counted through both words; what nobody reads stays."""
    return [
        (slot if pick < 0 else pick) * size + byte for slot, pick in enumerate(picks) for byte in range(size)
    ]


def _emit_shared(
    writer: FunctionWriter,
    plan: SharedPlan,
    element: str,
    register: Callable[[int], str],
    machine: _Machine,
    base: str,
) -> list[str]:
    bits = _width(element)
    thread = machine.thread(writer)

    def words_of(side: MemorySide) -> tuple[int, str, int, str]:
        """Bits and type of the words that make an access, their count, and the access's type."""
        access_bits = side.slots * plan.element_bytes * 8
        word_bits = min(64 if bits == 64 else 32, access_bits)
        count = access_bits // word_bits
        return word_bits, f"i{word_bits}", count, vector_type(f"i{word_bits}", count)

    def addresses(columns: Sequence[int]) -> Callable[[int], str]:
        moving = functools.reduce(int.__or__, columns, 0)
        origin = _linear_in_thread(writer, thread, columns)

        @functools.cache
        def row(flipped: int) -> str:
            if origin is None:
                return base
            offset = writer.binary("xor", origin, writer.constant(flipped)) if flipped else origin
            return writer.op(f"llvm.getelementptr {base}[{offset}] : ({SHARED}, {I32}) -> {SHARED}, i8")

        def address(offset: int) -> str:
            # Where the thread's own bits cannot reach, xor is addition and becomes an immediate offset.
            start, rest = row(offset & moving), offset & ~moving
            if not rest:
                return start
            return writer.op(f"llvm.getelementptr {start}[{rest}] : ({SHARED}) -> {SHARED}, i8")

        return address

    @functools.cache
    def integer(index: int) -> str:
        return _to_integer(writer, register(index), element)

    choices = [_parity(writer, thread, mask) for mask in plan.split]

    def store(access: Access, address: str) -> None:
        word_bits, word, count, type_ = words_of(plan.store)
        slots = len(access.registers) >> len(choices)
        alternatives = [
            _regroup(writer, [integer(r) for r in access.registers[start : start + slots]], bits, word_bits)
            for start in range(0, len(access.registers), slots)
        ]
        for choice in choices:
            alternatives = [
                [writer.op(f"llvm.select {choice}, {b}, {a} : i1, {word}") for a, b in zip(*pair, strict=True)]
                for pair in zip(alternatives[::2], alternatives[1::2], strict=True)
            ]
        if plan.store.transposed:
            types = ", ".join([word] * count)
            intrinsic = f'"llvm.nvvm.stmatrix.sync.aligned.m8n8.x{count}.trans.b16"'
            values = ", ".join(alternatives[0])
            writer.effect(f"llvm.call_intrinsic {intrinsic}({address}, {values}) : ({SHARED}, {types}) -> ()")
            return
        vector = build_vector(writer, alternatives[0], word)
        alignment = f"{{alignment = {plan.store.access_bytes} : i64}}"
        writer.effect(f"llvm.store {vector}, {address} {alignment} : {type_}, {SHARED}")

    def load(address: str) -> list[str]:
        word_bits, word, count, type_ = words_of(plan.load)
        if plan.load.transposed:
            parts = load_matrix(address, count)
        else:
            alignment = f"{{alignment = {plan.load.access_bytes} : i64}}"
            vector = writer.op(f"llvm.load {address} {alignment} : {SHARED} -> {type_}")
            parts = split_vector(writer, vector, word, count)
        values = _degroup(writer, parts, bits, word_bits, plan.load.slots)
        return [_from_integer(writer, value, element) for value in values]

    def load_matrix(address: str, count: int) -> list[str]:
        result = I32 if count == 1 else struct_type(I32, count)
        intrinsic = f'"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}.trans.b16"'
        loaded = writer.op(f"llvm.call_intrinsic {intrinsic}({address}) : ({SHARED}) -> {result}")
        if count == 1:
            return [loaded]
        return [writer.op(f"llvm.extractvalue {loaded}[{index}] : {result}") for index in range(count)]

    store_address, load_address = addresses(plan.store.columns), addresses(plan.load.columns)
    loaded: list[list[list[str]]] = []
    for index, (stores, loads) in enumerate(zip(plan.store.rounds, plan.load.rounds, strict=True)):
        if index:
            machine.barrier(writer, plan.scope)
        for access in stores:
            store(access, store_address(access.offset))
        machine.barrier(writer, plan.scope)
        loaded.append([load(load_address(access.offset)) for access in loads])
    return [loaded[round_][access][position] for round_, access, position in plan.outputs]


def _regroup(writer: FunctionWriter, values: list[str], bits: int, word_bits: int) -> list[str]:
    """Element integers as memory words of `word_bits` bits."""
    if bits == word_bits:
        return values
    if word_bits == 32:
        return _pack(writer, values, bits)
    vector = build_vector(writer, values, f"i{bits}")
    return [writer.op(f"llvm.bitcast {vector} : {vector_type(f'i{bits}', len(values))} to i{word_bits}")]


def _degroup(writer: FunctionWriter, words: list[str], bits: int, word_bits: int, count: int) -> list[str]:
    """The inverse of `_regroup`."""
    if bits == word_bits:
        return words
    if word_bits == 32:
        return _unpack(writer, words, bits, count)
    vector = writer.op(f"llvm.bitcast {words[0]} : i{word_bits} to {vector_type(f'i{bits}', count)}")
    return split_vector(writer, vector, f"i{bits}", count)
