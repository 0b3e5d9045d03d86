"""What differs between vendors in the code that plans become."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol

from triton_linear.lowering.emit.text import (
    CLUSTER_SHARED,
    I32,
    SHARED,
    FunctionWriter,
    split_vector,
    struct_type,
    vector_type,
)
from triton_linear.lowering.plan.plans import CLUSTER
from triton_linear.lowering.target.lanes import (
    ACROSS_ROWS,
    DPP,
    IN_ROW,
    SWAP,
    SWIZZLE,
    Move,
    natives,
    route,
    shift,
)
from triton_linear.lowering.target.steps import Shuffle
from triton_linear.lowering.target.targets import Target

RANK = "mov.u32 $0, %cluster_ctarank;"
"""PTX for the number of the CTA in its cluster."""

THREAD = "mov.u32 $0, %tid.x;"
"""PTX for the number of the thread; a comment follows that is the conversion's own."""

COPY = "mov.u32 $0, $1;"
"""PTX for a copy of a number that LLVM is not to share with what the kernel computes of it."""

ALL_WARPS_BARRIER = "ttng.cluster_barrier"
"""Triton's barrier of a cluster, for which it has the warps of all warp-specialised regions come too."""

ONE = "{ .reg .u32 n; mov.u32 n, %nctaid.x; min.u32 $0, n, 1; }"
"""PTX for one, as every grid has a CTA."""

GUARDED = ("@$3 mul.lo.u32 $0, $2, $4;", "@!$3 mul.lo.u32 $0, $2, $4;")
"""PTX: where the predicate holds, or does not, the result is $2 times $4, else what it was, which is $1."""

SETTLE = "{ .reg .b16 low, high; mov.b32 {low, high}, $1; mov.b32 $0, {low, high}; }"
"""PTX for a copy that ptxas does not look through."""

SHUFFLE, PERMUTE_BACKWARD = "llvm.nvvm.shfl.sync", "llvm.amdgcn.ds.bpermute"
"""LLVM's names for a word of another lane, the first without the mode and the type."""

ZERO = {"nvidia": ("mov.u32 $0, 0;", "=r"), "amd": ("v_mov_b32 $0, 0", "=v")}
"""Assembly for zero, and its constraint, where Triton is not to see that it is."""


class InstructionWriter(Protocol):
    """What differs between vendors in the emitted code."""

    def thread(self, writer: FunctionWriter) -> str:
        """The number of the thread in its CTA."""

    def rank(self, writer: FunctionWriter) -> str:
        """The number of the CTA in its cluster."""

    def memory_of(self, writer: FunctionWriter, base: str, rank: str) -> str:
        """The pointer to where `base` is in the memory of the CTA that a value names."""

    def shuffle(self, writer: FunctionWriter, word: str, lane: str | int, kept: int = 0, bits: int = 32) -> str:
        """`word` of the lane that a value names, or of the own lane xor a constant. Bits of the lane that are
        `kept` are the own one's, whatever the value has there: where `Target.shuffles_in_segments`. In every
        lane only the lowest `bits` of the word may be set, which LLVM is told."""

    def route(self, step: Shuffle) -> tuple[Move, ...] | None:
        """The lane instructions that do a shuffle; None where `shuffle` is to."""

    def move(self, writer: FunctionWriter, word: str, move: Move) -> str:
        """`word` of the lane that a lane instruction reads."""

    def trade(self, writer: FunctionWriter, first: str, second: str, lane_bit: int) -> tuple[str, str]:
        """Two words after their choice and a bit of the lanes have changed places, by lane instructions."""

    def permute(self, writer: FunctionWriter, low: str, high: str, selector: str) -> str:
        """A word of bytes of two others, as `selector` says."""

    def selector(self, picked: Sequence[int]) -> int:
        """The selector that picks these bytes: 0 to 3 of the low word, 4 to 7 of the high one."""

    def replace(self, writer: FunctionWriter, condition: str, kept: str, other: str, inverted: bool) -> str:
        """`other` where the condition holds (`inverted`: where it does not), else `kept`, by an instruction
        that does not run where selects and permutes do, if there is one."""

    def settled(self, writer: FunctionWriter, value: str, type_: str) -> str:
        """A word that may be an accumulator of a matmul, f32 or i32, as an i32 for any instruction."""

    def load_matrix(self, writer: FunctionWriter, name: str, address: str, count: int) -> list[str]:
        """`count` words by a load that transposes."""

    def store_matrix(self, writer: FunctionWriter, address: str, words: Sequence[str]) -> None:
        """Store words by `stmatrix`."""

    def barrier(self, writer: FunctionWriter, scope: str) -> None:
        """Wait for the others of a "warp", a "cta" or a "cluster", and see what they wrote."""

    def arrive(self, writer: FunctionWriter) -> None:
        """The first half of the barrier of a cluster, which lets the others go on; where that is one operation,
        nothing."""

    def wait(self, writer: FunctionWriter) -> None:
        """The second half. No access to shared memory comes between."""

    def together(self, writer: FunctionWriter) -> None:
        """Keep loads that give the values of the stores that follow in flight together."""


class _Nvidia:
    """PTX through NVVM. `shfl.sync` reads the lane given; clamp 31 lets it be any of the warp."""

    def thread(self, writer: FunctionWriter) -> str:
        # Addresses are computed from it. Were it the register that the kernel computes its own from, LLVM would
        # share what is common before and after a loop (PRE), for which it splits the edge around the loop; then
        # ptxas finds the accumulators of wgmma defined in two places, and serialises wgmma.
        if writer.thread is not None:
            writer.uses_thread = True
            return writer.thread
        text = f"{THREAD} // {writer.prefix}"
        return writer.once(f'llvm.inline_asm asm_dialect = att "{text}", "=r" : () -> {I32}')

    def rank(self, writer: FunctionWriter) -> str:
        if writer.rank is not None:
            writer.uses_rank = True
            return writer.rank
        text = f"{RANK} // {writer.prefix}"
        return writer.once(f'llvm.inline_asm asm_dialect = att "{text}", "=r" : () -> {I32}')

    def memory_of(self, writer: FunctionWriter, base: str, rank: str) -> str:
        return writer.op(f"nvvm.mapa {base}, {rank} : {SHARED} -> {CLUSTER_SHARED}")

    def shuffle(self, writer: FunctionWriter, word: str, lane: str | int, kept: int = 0, bits: int = 32) -> str:
        mode, where = ("bfly", writer.constant(lane)) if isinstance(lane, int) else ("idx", lane)
        everyone, clamp = writer.constant(-1), writer.constant(kept << 8 | 31)
        if bits < 32:
            return _narrow(writer, f"{SHUFFLE}.{mode}.i32", (everyone, word, where, clamp), bits)
        return writer.op(f"nvvm.shfl.sync {mode} {everyone}, {word}, {where}, {clamp} : {I32} -> {I32}")

    def route(self, step: Shuffle) -> tuple[Move, ...] | None:
        return None

    def move(self, writer: FunctionWriter, word: str, move: Move) -> str:
        raise ValueError(f"no NVIDIA GPU has {move}")

    def trade(self, writer: FunctionWriter, first: str, second: str, lane_bit: int) -> tuple[str, str]:
        raise ValueError("no NVIDIA GPU exchanges registers with lanes")

    def permute(self, writer: FunctionWriter, low: str, high: str, selector: str) -> str:
        operands, types = ", ".join((low, high, selector)), ", ".join((I32, I32, I32))
        return writer.op(f'llvm.call_intrinsic "llvm.nvvm.prmt"({operands}) : ({types}) -> {I32}')

    def selector(self, picked: Sequence[int]) -> int:
        return sum(byte << 4 * k for k, byte in enumerate(picked))

    def replace(self, writer: FunctionWriter, condition: str, kept: str, other: str, inverted: bool) -> str:
        # Predicated moves become SEL again, on the pipe that is full; IMAD is on another. The assembler must
        # not see that it multiplies by one.
        one = writer.once(f'llvm.inline_asm asm_dialect = att "{ONE}", "=r" : () -> {I32}')
        types = ", ".join((I32, I32, "i1", I32))
        operands = ", ".join((kept, other, condition, one))
        text = GUARDED[inverted]
        return writer.op(
            f'llvm.inline_asm asm_dialect = att "{text}", "=r,0,r,b,r" {operands} : ({types}) -> {I32}'
        )

    def settled(self, writer: FunctionWriter, value: str, type_: str) -> str:
        # Where the accumulators of wgmma begin as a constant, ptxas gives integer instructions that constant.
        # LLVM must not see that a float becomes bits: it makes integer instructions of what comes before, then.
        asm = f'"{SETTLE}", "=r,{"f" if type_ == "f32" else "r"}"'
        return writer.op(f"llvm.inline_asm asm_dialect = att {asm} {value} : ({type_}) -> {I32}")

    def load_matrix(self, writer: FunctionWriter, name: str, address: str, count: int) -> list[str]:
        result = I32 if count == 1 else struct_type(I32, count)
        intrinsic = _matrix_intrinsic("ld", count)
        loaded = writer.op(f"llvm.call_intrinsic {intrinsic}({address}) : ({SHARED}) -> {result}")
        if count == 1:
            return [loaded]
        return [writer.op(f"llvm.extractvalue {loaded}[{index}] : {result}") for index in range(count)]

    def store_matrix(self, writer: FunctionWriter, address: str, words: Sequence[str]) -> None:
        types, values = ", ".join([I32] * len(words)), ", ".join(words)
        intrinsic = _matrix_intrinsic("st", len(words))
        writer.effect(f"llvm.call_intrinsic {intrinsic}({address}, {values}) : ({SHARED}, {types}) -> ()")

    def barrier(self, writer: FunctionWriter, scope: str) -> None:
        if scope == "warp":
            writer.effect(f"nvvm.bar.warp.sync {writer.constant(-1)} : {I32}")
        elif scope == CLUSTER:
            self.arrive(writer)
            self.wait(writer)
        else:
            writer.wait_for_cta()

    def arrive(self, writer: FunctionWriter) -> None:
        if not writer.cluster_barrier:
            writer.effect("nvvm.cluster.arrive {aligned}")

    def wait(self, writer: FunctionWriter) -> None:
        writer.effect(writer.cluster_barrier or "nvvm.cluster.wait {aligned}")

    def together(self, writer: FunctionWriter) -> None:
        # To save registers ptxas stores what one load of global memory gave before it begins the next, and
        # waits for each in turn. It moves nothing across a barrier, and a warp's takes a third of a clock.
        self.barrier(writer, "warp")


def _narrow(writer: FunctionWriter, intrinsic: str, operands: Sequence[str], bits: int) -> str:
    """A word by an intrinsic, of which no more than the lowest `bits` are set.

    Were LLVM not told, it would mask what one gather of a loop gave before the next one shuffles it.
    """
    types = ", ".join([I32] * len(operands))
    result = f"({I32} {{llvm.range = #llvm.constant_range<i32, 0, {1 << bits}>}})"
    return writer.op(f'llvm.call_intrinsic "{intrinsic}"({", ".join(operands)}) : ({types}) -> {result}')


def _matrix_intrinsic(kind: str, count: int) -> str:
    return f'"llvm.nvvm.{kind}matrix.sync.aligned.m8n8.x{count}.trans.b16"'


TRANSPOSING = {
    "ds_read_b64_tr_b16": ("llvm.amdgcn.ds.read.tr16.b64", vector_type("i16", 4)),
    "ds_read_b64_tr_b8": ("llvm.amdgcn.ds.read.tr8.b64", vector_type(I32, 2)),
}
"""AMD's loads that transpose: the intrinsic, and the type that LLVM has it give."""


_NO_CLUSTERS = "AMD's workgroups do not load from each other's memory"


class _Amd:
    """AMDGCN through ROCDL. `ds_bpermute` addresses lanes in bytes; a wave's LDS accesses execute in order,
    so inside a wave only the compiler needs a fence."""

    def __init__(self, lanes: int = 64, instructions: tuple[str, ...] = ()) -> None:
        self._lanes, self._instructions = lanes, instructions

    def route(self, step: Shuffle) -> tuple[Move, ...] | None:
        return route(step, self._instructions, self._lanes)

    def thread(self, writer: FunctionWriter) -> str:
        return writer.op(f"rocdl.workitem.id.x : {I32}")

    def rank(self, writer: FunctionWriter) -> str:
        raise ValueError(_NO_CLUSTERS)

    def memory_of(self, writer: FunctionWriter, base: str, rank: str) -> str:
        raise ValueError(_NO_CLUSTERS)

    def arrive(self, writer: FunctionWriter) -> None:
        raise ValueError(_NO_CLUSTERS)

    def wait(self, writer: FunctionWriter) -> None:
        raise ValueError(_NO_CLUSTERS)

    def shuffle(self, writer: FunctionWriter, word: str, lane: str | int, kept: int = 0, bits: int = 32) -> str:
        if kept:
            raise ValueError("AMD's shuffles have no segments")
        if isinstance(lane, int):
            own = writer.binary("and", self.thread(writer), writer.constant(self._lanes - 1))
            lane = writer.binary("xor", own, writer.constant(lane))
        address = writer.binary("shl", lane, writer.constant(2))
        if bits < 32:
            return _narrow(writer, PERMUTE_BACKWARD, (address, word), bits)
        return writer.op(f"rocdl.ds_bpermute {address}, {word} : ({I32}, {I32}) -> {I32}")

    def move(self, writer: FunctionWriter, word: str, move: Move) -> str:
        if move.operation == DPP:
            # Every lane reads one of its row, so nothing is left of what was there.
            old = writer.op(f"llvm.mlir.undef : {I32}")
            return writer.op(f"rocdl.update.dpp {old}, {word} with {move.control}, 15, 15, true : {I32}")
        if move.operation == SWIZZLE:
            offset = writer.constant(move.control)
            return writer.op(f"rocdl.ds_swizzle {word}, {offset} : ({I32}, {I32}) -> {I32}")
        if move.operation in (IN_ROW, ACROSS_ROWS):
            return self._selected(writer, word, move)
        even, odd = self._swapped(writer, word, word, move.control)
        own = writer.binary("and", self.thread(writer), writer.constant(move.control))
        is_odd = writer.op(f'llvm.icmp "ne" {own}, {writer.constant(0)} : {I32}')
        return writer.op(f"llvm.select {is_odd}, {even}, {odd} : i1, {I32}")

    def _selected(self, writer: FunctionWriter, word: str, move: Move) -> str:
        """`word` of the lane of the own row, or of the other one of a pair, that the selects name."""
        old = writer.op(f"llvm.mlir.undef : {I32}")
        halves = (move.control & 0xFFFFFFFF, move.control >> 32)
        low, high = (writer.constant(half - (half >> 31 << 32)) for half in halves)
        if move.operation == ACROSS_ROWS:
            # All lanes are active; `fi` says that nobody depends on that, so that nothing is left of `old`.
            return writer.op(f"rocdl.permlanex16 {old}, {word}, {low}, {high}, true, false : {I32}, {I32}")
        yes, no = (writer.once(f"llvm.mlir.constant({value}) : i1") for value in ("true", "false"))
        operands, types = ", ".join((old, word, low, high, yes, no)), ", ".join((*(I32,) * 4, "i1", "i1"))
        return writer.op(f'llvm.call_intrinsic "llvm.amdgcn.permlane16"({operands}) : ({types}) -> {I32}')

    def trade(self, writer: FunctionWriter, first: str, second: str, lane_bit: int) -> tuple[str, str]:
        if natives(self._instructions)[lane_bit].operation == SWAP:
            return self._swapped(writer, first, second, 1 << lane_bit)
        sides = []
        for side, (kept, taken) in enumerate(((first, second), (second, first))):
            control, banks = shift(lane_bit, side)
            dpp = f"rocdl.update.dpp {kept}, {taken} with {control}, 15, {banks}, false"
            sides.append(writer.op(f"{dpp} : {I32}"))
        return sides[0], sides[1]

    def _swapped(self, writer: FunctionWriter, first: str, second: str, rows: int) -> tuple[str, str]:
        """Both words after the odd groups of `rows` lanes of the first and the even ones of the second have
        changed places."""
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

    def replace(self, writer: FunctionWriter, condition: str, kept: str, other: str, inverted: bool) -> str:
        zero, one = (other, kept) if inverted else (kept, other)
        return writer.op(f"llvm.select {condition}, {one}, {zero} : i1, {I32}")

    def settled(self, writer: FunctionWriter, value: str, type_: str) -> str:
        raise ValueError("AMD's matmuls leave registers like any others")

    def load_matrix(self, writer: FunctionWriter, name: str, address: str, count: int) -> list[str]:
        intrinsic, type_ = TRANSPOSING[name]
        words = vector_type(I32, count)
        loaded = writer.op(f'llvm.call_intrinsic "{intrinsic}"({address}) : ({SHARED}) -> {type_}')
        if type_ != words:
            loaded = writer.op(f"llvm.bitcast {loaded} : {type_} to {words}")
        return split_vector(writer, loaded, I32, count)

    def store_matrix(self, writer: FunctionWriter, address: str, words: Sequence[str]) -> None:
        raise ValueError("AMD has no stores that transpose")

    def barrier(self, writer: FunctionWriter, scope: str) -> None:
        if scope == "warp":
            writer.effect('llvm.fence syncscope("wavefront") acq_rel')
        else:
            writer.wait_for_cta()

    def together(self, writer: FunctionWriter) -> None:
        pass  # LLVM's scheduler counts what is in flight


MACHINES: dict[str, InstructionWriter] = {"nvidia": _Nvidia(), "amd": _Amd()}
"""By `Target.vendor`; those of AMD without what only some of its GPUs have."""


@functools.cache
def machine_of(target: Target) -> InstructionWriter:
    """The machine of a target."""
    if not target.lane_instructions:
        return MACHINES[target.vendor]
    return _Amd(target.lanes, target.lane_instructions)
