"""The work of a plan, and the one formula that turns work into clocks."""

from __future__ import annotations

from triton_linear.dialect.records import dataclass
from triton_linear.lowering.plan.plans import Cost
from triton_linear.lowering.target.targets import InstructionCosts


@dataclass(frozen=True, slots=True)
class Work:
    """What one warp executes; a part is fractional if it is a mean or a bound.

    shuffles, wavefronts: passes through the pipe of shuffles and shared memory. alu: selects, permutes and
    other arithmetic. waits: how often shuffles, or selects alone,
    are waited for. rounds: how often loads from shared memory are. accesses: stores and loads of a thread.
    warp_barriers, barriers: those of a warp, and those of more.
    """

    shuffles: float = 0
    alu: float = 0
    wavefronts: float = 0
    waits: int = 0
    rounds: int = 0
    accesses: float = 0
    warp_barriers: int = 0
    barriers: int = 0

    def clocks(self, table: InstructionCosts) -> float:
        """Clocks on a multiprocessor with enough other warps: of the pipes together, and of barriers."""
        memory = self.wavefronts * table.wavefront + self.shuffles * table.shuffle
        pipes = table.clocks(memory, self.alu)
        return pipes + self.barriers * table.cta_barrier

    def latency(self, table: InstructionCosts, warps: int) -> float:
        """Clocks to the result, if a CTA of `warps` warps is alone on a multiprocessor.

        Each of four warps has a scheduler of its own; all warps share the memory pipe.
        """
        moving = self.shuffles * max(table.lone_shuffle, warps * table.shuffle)
        busy = table.alone * (moving + self.alu * table.lone_alu)
        busy += table.alone * warps * self.wavefronts * table.wavefront
        wait = table.shuffle_wait if self.shuffles else table.select_wait
        busy += self.rounds * table.memory_wait + self.accesses * table.lone_access
        return busy + self.barriers * table.barrier_wait + self.waits * wait

    def cost(self, table: InstructionCosts, warps: int, scratch_bytes: int = 0) -> Cost:
        """Both, with the counts of instructions."""
        return Cost(
            self.clocks(table),
            self.latency(table, warps),
            shuffles=int(self.shuffles),
            alu=int(self.alu),
            wavefronts=round(self.wavefronts + 0.499),
            barriers=self.barriers + self.warp_barriers,
            scratch_bytes=scratch_bytes,
        )
