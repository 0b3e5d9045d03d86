"""The instructions that differ between vendors in the code of plans."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol

from triton_linear.lowering.emit.text import I32, SHARED, FunctionWriter, split_vector, struct_type, vector_type
from triton_linear.lowering.target.lanes import DPP, LANES, SWAP, SWIZZLE, Move, native_exchanges, route, shift
from triton_linear.lowering.target.steps import Shuffle
from triton_linear.lowering.target.targets import Target

THREAD = "mov.u32 $0, %tid.x;"
"""PTX for the thread number. A comment behind it differs for each conversion, so that LLVM keeps them apart."""

COPY = "mov.u32 $0, $1;"
"""PTX for a copy of a number, so that LLVM shares no computation with the kernel's own uses of the number."""

SETTLE = "{ .reg .b16 low, high; mov.b32 {low, high}, $1; mov.b32 $0, {low, high}; }"
"""PTX for a copy that ptxas does not look through."""

ZERO = {"nvidia": ("mov.u32 $0, 0;", "=r"), "amd": ("v_mov_b32 $0, 0", "=v")}
"""Assembly for a zero that Triton must not fold, and its constraint."""


_NO_LANES = "there are no instructions that exchange registers with lanes"


class InstructionWriter(Protocol):
    """Writes the instructions of one vendor. What a vendor has no instruction for raises ValueError."""

    def thread(self, writer: FunctionWriter) -> str:
        """The number of the thread in its CTA."""

    def shuffle(self, writer: FunctionWriter, word: str, lane: str | int) -> str:
        """`word` of another lane: of lane number `lane` if it is a value, of the own lane xor `lane` if it is
        an int."""

    def route(self, step: Shuffle) -> tuple[Move, ...] | None:
        """The lane instructions that do a shuffle; None if `shuffle` has to."""
        return None

    def move(self, writer: FunctionWriter, word: str, move: Move) -> str:
        """`word` of the lane that the lane instruction `move` reads."""
        raise ValueError(_NO_LANES)

    def trade(self, writer: FunctionWriter, first: str, second: str, lane_bit: int) -> tuple[str, str]:
        """Two words after the bit that numbers them and a lane bit have changed places, by lane
        instructions."""
        raise ValueError(_NO_LANES)

    def permute(self, writer: FunctionWriter, low: str, high: str, selector: str) -> str:
        """A word whose bytes `selector` picks from two words."""

    def selector(self, picked: Sequence[int]) -> int:
        """The selector that picks these bytes: 0 to 3 of the low word, 4 to 7 of the high one."""

    def settled(self, writer: FunctionWriter, value: str, type_: str) -> str:
        """An f32 or i32 that may be an accumulator of a matmul, copied to an i32 that any instruction may
        use."""
        raise ValueError("matmuls leave registers like any others")

    def load_matrix(self, writer: FunctionWriter, name: str, address: str, count: int) -> list[str]:
        """Load `count` words by the matrix instruction `name`."""

    def store_matrix(self, writer: FunctionWriter, name: str, address: str, words: Sequence[str]) -> None:
        """Store words by the matrix instruction `name`."""
        raise ValueError("there are no stores of matrices")

    def barrier(self, writer: FunctionWriter, scope: str) -> None:
        """Wait for all threads of the scope ("warp" or "cta") and see what they wrote."""

    def keep_loads_in_flight(self, writer: FunctionWriter) -> None:
        """Make the compiler issue the loads of all values that are stored next before it waits for any.
        LLVM waits by the count of loads in flight, so there may be nothing to write."""
        return


class _Nvidia(InstructionWriter):
    """PTX through NVVM. `shfl.sync` reads the lane given; clamp 31 lets it be any of the warp."""

    def thread(self, writer: FunctionWriter) -> str:
        # Addresses are computed from this value. If the kernel's own addresses used the same value, LLVM would
        # share common parts before and after a loop (PRE) and split the edge around the loop. ptxas would then
        # find the accumulators of wgmma defined in two places, and serialise wgmma.
        if writer.thread is not None:
            writer.uses_thread = True
            return writer.thread
        text = f"{THREAD} // {writer.prefix}"
        return writer.once(f'llvm.inline_asm asm_dialect = att "{text}", "=r" : () -> {I32}')

    def shuffle(self, writer: FunctionWriter, word: str, lane: str | int) -> str:
        mode, where = ("bfly", writer.constant(lane)) if isinstance(lane, int) else ("idx", lane)
        everyone, clamp = writer.constant(-1), writer.constant(31)
        return writer.op(f"nvvm.shfl.sync {mode} {everyone}, {word}, {where}, {clamp} : {I32} -> {I32}")

    def permute(self, writer: FunctionWriter, low: str, high: str, selector: str) -> str:
        operands, types = ", ".join((low, high, selector)), ", ".join((I32, I32, I32))
        return writer.op(f'llvm.call_intrinsic "llvm.nvvm.prmt"({operands}) : ({types}) -> {I32}')

    def selector(self, picked: Sequence[int]) -> int:
        return sum(byte << 4 * k for k, byte in enumerate(picked))

    def settled(self, writer: FunctionWriter, value: str, type_: str) -> str:
        # If the accumulators of wgmma are initialised with a constant, ptxas gives that constant to integer
        # instructions that read them. And if LLVM sees a float become bits, it turns the float instructions
        # before it into integer instructions. The assembly hides both.
        asm = f'"{SETTLE}", "=r,{"f" if type_ == "f32" else "r"}"'
        return writer.op(f"llvm.inline_asm asm_dialect = att {asm} {value} : ({type_}) -> {I32}")

    def load_matrix(self, writer: FunctionWriter, name: str, address: str, count: int) -> list[str]:
        result = I32 if count == 1 else struct_type(I32, count)
        intrinsic = _matrix_intrinsic(name, count)
        loaded = writer.op(f"llvm.call_intrinsic {intrinsic}({address}) : ({SHARED}) -> {result}")
        if count == 1:
            return [loaded]
        return [writer.op(f"llvm.extractvalue {loaded}[{index}] : {result}") for index in range(count)]

    def store_matrix(self, writer: FunctionWriter, name: str, address: str, words: Sequence[str]) -> None:
        types, values = ", ".join([I32] * len(words)), ", ".join(words)
        intrinsic = _matrix_intrinsic(name, len(words))
        writer.effect(f"llvm.call_intrinsic {intrinsic}({address}, {values}) : ({SHARED}, {types}) -> ()")

    def barrier(self, writer: FunctionWriter, scope: str) -> None:
        if scope == "warp":
            writer.effect(f"nvvm.bar.warp.sync {writer.constant(-1)} : {I32}")
        else:
            writer.wait_for_cta()

    def keep_loads_in_flight(self, writer: FunctionWriter) -> None:
        # To save registers, ptxas stores the result of one load from global memory before it issues the next,
        # and so waits for each load. It moves no load across a barrier; a warp's barrier takes a third of a
        # clock.
        self.barrier(writer, "warp")


def _matrix_intrinsic(name: str, count: int) -> str:
    """The intrinsic of a matrix instruction of `transposing.FORMS` for `count` matrices."""
    instruction, *suffix = name.split(".")
    form = ".".join((f"m8n8.x{count}", *suffix))
    return f'"llvm.nvvm.{instruction}.sync.aligned.{form}.b16"'


TRANSPOSING = {
    "ds_read_b64_tr_b16": ("llvm.amdgcn.ds.read.tr16.b64", vector_type("i16", 4)),
    "ds_read_b64_tr_b8": ("llvm.amdgcn.ds.read.tr8.b64", vector_type(I32, 2)),
}
"""The intrinsic of each of AMD's transposing loads, and its result type in LLVM."""


class _Amd(InstructionWriter):
    """AMDGCN through ROCDL. `ds_bpermute` addresses lanes in bytes; a wave's LDS accesses execute in order,
    so inside a wave only the compiler needs a fence."""

    def __init__(self, instructions: tuple[str, ...] = ()) -> None:
        self._instructions = instructions

    def route(self, step: Shuffle) -> tuple[Move, ...] | None:
        return route(step, self._instructions)

    def thread(self, writer: FunctionWriter) -> str:
        return writer.op(f"rocdl.workitem.id.x : {I32}")

    def shuffle(self, writer: FunctionWriter, word: str, lane: str | int) -> str:
        if isinstance(lane, int):
            own = writer.binary("and", self.thread(writer), writer.constant(LANES - 1))
            lane = writer.binary("xor", own, writer.constant(lane))
        address = writer.binary("shl", lane, writer.constant(2))
        return writer.op(f"rocdl.ds_bpermute {address}, {word} : ({I32}, {I32}) -> {I32}")

    def move(self, writer: FunctionWriter, word: str, move: Move) -> str:
        if move.operation == DPP:
            # Every lane reads a lane of its row, so that no lane keeps the old value.
            old = writer.op(f"llvm.mlir.undef : {I32}")
            return writer.op(f"rocdl.update.dpp {old}, {word} with {move.control}, 15, 15, true : {I32}")
        if move.operation == SWIZZLE:
            offset = writer.constant(move.control)
            return writer.op(f"rocdl.ds_swizzle {word}, {offset} : ({I32}, {I32}) -> {I32}")
        even, odd = self._swapped(writer, word, word, move.control)
        own = writer.binary("and", self.thread(writer), writer.constant(move.control))
        is_odd = writer.op(f'llvm.icmp "ne" {own}, {writer.constant(0)} : {I32}')
        return writer.op(f"llvm.select {is_odd}, {even}, {odd} : i1, {I32}")

    def trade(self, writer: FunctionWriter, first: str, second: str, lane_bit: int) -> tuple[str, str]:
        if native_exchanges(self._instructions)[lane_bit].operation == SWAP:
            return self._swapped(writer, first, second, 1 << lane_bit)
        sides = []
        for side, (kept, taken) in enumerate(((first, second), (second, first))):
            control, banks = shift(lane_bit, side)
            dpp = f"rocdl.update.dpp {kept}, {taken} with {control}, 15, {banks}, false"
            sides.append(writer.op(f"{dpp} : {I32}"))
        return sides[0], sides[1]

    def _swapped(self, writer: FunctionWriter, first: str, second: str, rows: int) -> tuple[str, str]:
        """Both words after a swap of the first one's odd groups of `rows` lanes with the second one's even
        ones."""
        pair = struct_type(I32, 2)
        swap = f"rocdl.permlane{rows}.swap {first}, {second}, false, false"
        swapped = writer.op(f"{swap} : ({I32}, {I32}) -> {pair}")
        zero, one = (writer.op(f"llvm.extractvalue {swapped}[{index}] : {pair}") for index in (0, 1))
        return zero, one

    def permute(self, writer: FunctionWriter, low: str, high: str, selector: str) -> str:
        # V_PERM_B32 numbers the bytes of its second operand first, and has a byte for each byte it picks.
        operands, types = ", ".join((high, low, selector)), ", ".join((I32, I32, I32))
        return writer.op(f'llvm.call_intrinsic "llvm.amdgcn.perm"({operands}) : ({types}) -> {I32}')

    def selector(self, picked: Sequence[int]) -> int:
        return sum(byte << 8 * k for k, byte in enumerate(picked))

    def load_matrix(self, writer: FunctionWriter, name: str, address: str, count: int) -> list[str]:
        intrinsic, type_ = TRANSPOSING[name]
        words = vector_type(I32, count)
        loaded = writer.op(f'llvm.call_intrinsic "{intrinsic}"({address}) : ({SHARED}) -> {type_}')
        if type_ != words:
            loaded = writer.op(f"llvm.bitcast {loaded} : {type_} to {words}")
        return split_vector(writer, loaded, count)

    def barrier(self, writer: FunctionWriter, scope: str) -> None:
        if scope == "warp":
            writer.effect('llvm.fence syncscope("wavefront") acq_rel')
        else:
            writer.wait_for_cta()


MACHINES: dict[str, InstructionWriter] = {"nvidia": _Nvidia(), "amd": _Amd()}
"""The writers by `Target.vendor`; AMD's writer here has no lane instructions."""


@functools.cache
def machine_of(target: Target) -> InstructionWriter:
    """The instruction writer of a target."""
    if not target.lane_instructions:
        return MACHINES[target.vendor]
    return _Amd(target.lane_instructions)
