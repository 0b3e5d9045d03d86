"""The SIMT interpreter: runs a function in Triton's LLVM dialect, with loops, branches and calls, for every
thread of a CTA in lockstep.

    outcome = simulate(text, registers, target, num_warps=4, shared_bytes=16384)
    outcome = simulate_function(text, "kernel", [registers, 3], target, num_warps=4)

The text is parsed by upstream MLIR, its operations become closures once (`blocks`, `program`, handlers in
`ops`, `casts`, `lanes`, `shared_memory`, `amd`, `matrix` and `assembly`), and those run over numpy arrays of
shape (trials, threads): every trial is an independent run with other register contents. Shared memory
(`memory`) checks bounds and alignment and finds races; `counts` counts wavefronts and instructions. Operations
without a handler and undefined behaviour are refused, with the place in the text.

`simulate` runs the code of one conversion, `simulate_function` a whole kernel: several conversions, reductions
and buffers together, which share the bytes of Triton's allocation and are ordered by the barriers of Triton's
analysis. Arguments are those of the function: the registers of a tensor, a number, or None for an undefined
one. The pointers that Triton appends are added: shared memory begins where scratch does, other memory is
undefined. The outcome has the values that the function returns, and those that it gives to inline assembly of
the text `// sink NAME`.

Control flow. If a branch condition is the same in all threads, the branch is followed. If threads diverge, each
side runs with the other threads inactive, until both meet in the nearest block that postdominates. Inactive
threads access no memory. A barrier or lane exchange that needs them is refused, and so is a loop that threads
leave in different iterations. A condition that depends on the trial, or is undefined, is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from triton_linear.lowering.interpreter.blocks import Compiler, FunctionProgram, Jump, StraightLine, joins_of
from triton_linear.lowering.interpreter.counts import Counts, costs
from triton_linear.lowering.interpreter.memory import Bits, Meeting, Race, SharedMemory, SimulationError
from triton_linear.lowering.interpreter.parsing import SHARED_BASE, interpreter_context, parsed
from triton_linear.lowering.interpreter.program import Machine, leaves
from triton_linear.lowering.target.targets import Target

__all__ = ["FunctionOutcome", "simulate", "simulate_function"]

Argument: TypeAlias = Sequence[Bits] | int | None
Flags: TypeAlias = npt.NDArray[np.bool_]
STEP_LIMIT: Final = 5_000_000
_ALL: Final = np.iinfo(np.uint64).max


@dataclass(frozen=True, slots=True, eq=False)
class FunctionOutcome:
    """The results of a run, its races and its counts.

    values, undefined: of shape (results, trials, threads), the bit patterns of the returned scalars, and masks
    of the bits that no defined input determines. sinks: such a pair for each sink, with one row for each value
    that it received. races: each place and hazard once. counts: as executed, with every iteration of a loop.
    """

    values: Bits
    undefined: Bits
    sinks: Mapping[str, tuple[Bits, Bits]]
    races: tuple[Race, ...]
    counts: Counts

    @property
    def wavefronts(self) -> int:
        """Wavefronts of all accesses of all warps."""
        return self.counts.wavefronts

    @property
    def cta_barriers(self) -> int:
        """Barriers of the CTA that were executed."""
        return self.counts.cta_barriers


def simulate(
    function_text: str,
    registers: Sequence[Bits],
    target: Target,
    num_warps: int,
    shared_bytes: int = 0,
) -> FunctionOutcome:
    """Run the only function of a module on `registers`, the fields of its first argument."""
    return simulate_function(function_text, None, [registers], target, num_warps, shared_bytes)


def simulate_function(
    module_text: str,
    name: str | None,
    arguments: Sequence[Argument],
    target: Target,
    num_warps: int,
    shared_bytes: int | None = None,
    *,
    trials: int = 1,
    step_limit: int = STEP_LIMIT,
) -> FunctionOutcome:
    """Run the function `name` of a module, or its only one, on `arguments`.

    shared_bytes: by default the module's `ttg.shared`.

    Requires: registers of a tensor are arrays of shape (trials, threads) of bit patterns.
    Ensures: deterministic; the interpreter has a handler for every executed operation.

    Raises SimulationError, with the place in the text, for an unknown operation, for undefined behaviour (an
    access out of bounds, misaligned or at an undefined address) and for a run of more than `step_limit`
    operations.
    """
    with interpreter_context():
        module = parsed(module_text)
        if shared_bytes is None:
            attributes = module.operation.attributes
            shared_bytes = attributes["ttg.shared"].value if "ttg.shared" in attributes else 0
        compiler = Compiler(module, target, num_warps * target.lanes, "overflow<" in module_text)
        program = compiler.compile(name, len(arguments))
        run = Run(program, arguments, trials, None, step_limit, shared_bytes)
        for meeting in run.steps(0, -1):
            raise SimulationError(f"{meeting} is for independent warps")
        return run.outcome()


class Run:
    """One execution of a program, by threads in lockstep. `memory`: shared with other runs, or None."""

    def __init__(
        self,
        program: FunctionProgram,
        arguments: Sequence[Argument],
        trials: int,
        memory: SharedMemory | None,
        step_limit: int,
        shared_bytes: int = 0,
    ) -> None:
        self.program = program
        self.left = self.limit = step_limit
        self.visits = Counter[int]()
        build = program.build
        trials = max([trials, *(len(r) for a in arguments if isinstance(a, Sequence) for r in a)])
        self.trials = trials
        self.memory = memory or SharedMemory(
            trials, build.threads, build.target.lanes, shared_bytes, SHARED_BASE, build.granule
        )
        self.machine = Machine(build.slots, build.threads, build.target.lanes, self.memory)
        machine = self.machine
        machine.undefined[build.undefined_slot] = np.full((1, 1), _ALL, np.uint64)
        for slot, value in build.initial:
            machine.values[slot] = value
        for slot in program.shared:
            machine.values[slot] = np.full((1, 1), SHARED_BASE, np.uint64)
        for number, (given, tree) in enumerate(zip(arguments, program.arguments, strict=True)):
            self._pass(number, given, leaves(tree))
        self.joins: dict[int, int] | None = None
        self.diverged: list[int] = []

    def _pass(self, number: int, given: Argument, slots: Sequence[int]) -> None:
        machine = self.machine
        if given is None:
            for slot in slots:
                machine.undefined[slot] = np.full((1, 1), _ALL, np.uint64)
            return
        if isinstance(given, int):
            given = [np.full((1, 1), given & _ALL, np.uint64)]
        if len(given) != len(slots):
            raise SimulationError(f"argument {number} has {len(slots)} registers, not {len(given)}")
        for slot, value in zip(slots, given, strict=True):
            machine.values[slot] = np.asarray(value, np.uint64)

    def steps(self, piece: int, stop: int) -> Iterator[Meeting]:
        """Run from piece `piece` to piece `stop`, or to the end. Yields what it has to wait for other
        runs at."""
        pieces, machine = self.program.pieces, self.machine
        while piece != stop:
            if piece in self.diverged:
                where = self.program.where(pieces[piece].last)
                raise SimulationError(f"{where}: threads leave a loop at different times")
            code = pieces[piece]
            yield from self._line(piece, code)
            if not code.jumps:
                return
            if code.condition is None:
                piece = self._jump(code.jumps[0])
                continue
            machine.conditions.clear()
            chosen = self._decide(code)
            active = self.memory.active
            counted = chosen if active is None else chosen[active]
            if counted.all():
                piece = self._jump(code.jumps[0])
            elif not counted.any():
                piece = self._jump(code.jumps[1])
            else:
                piece = yield from self._diverge(piece, code, chosen)

    def _line(self, piece: int, code: StraightLine) -> Iterator[Meeting]:
        machine = self.machine
        self.visits[piece] += 1
        self.left -= len(code.steps) + 1
        if self.left < 0:
            where = self.program.where(code.origins[0] if code.origins else code.last)
            raise SimulationError(f"{where}: the run takes more than {self.limit} operations")
        machine.conditions.clear()
        machine.sources.clear()
        if len(machine.undefined) > 1 and self.visits[piece] > 1:
            for slot in [slot for slot in machine.undefined if slot in code.slots]:
                if slot != self.program.build.undefined_slot:
                    del machine.undefined[slot]
        position, memory = 0, self.memory
        try:
            for position, step in enumerate(code.steps):  # noqa: B007
                step(machine)
                if memory.waiting is not None:
                    meeting, memory.waiting = memory.waiting, None
                    yield meeting
        except SimulationError as error:
            raise type(error)(f"{self.program.where(code.origins[position])}: {error}") from None

    def _decide(self, code: StraightLine) -> Flags:
        """The condition of each thread."""
        machine, slot = self.machine, code.condition
        assert slot is not None
        try:
            machine.refuse_undefined(slot, "the condition")
            value = machine.executing(machine.values[slot])
            if (value != value[:1]).any():
                raise SimulationError("the condition depends on the data of the trial")
        except SimulationError as error:
            raise type(error)(f"{self.program.where(code.last)}: {error}") from None
        return np.broadcast_to(machine.values[slot][0] != 0, (machine.threads,))

    def _jump(self, jump: Jump) -> int:
        """Pass the values of a jump, and return its target; inactive threads keep their values."""
        machine, active = self.machine, self.memory.active
        none = np.zeros((1, 1), np.uint64)
        fresh = [
            (slot, machine.values[source], machine.undefined.get(source, none)) for source, slot in jump.moves
        ]
        for slot, value, mask in fresh:
            kept = machine.undefined.pop(slot, none)
            if active is not None:
                machine.values[slot] = np.where(active, value, machine.values[slot])
                merged = np.where(active, mask, kept)
            else:
                machine.values[slot], merged = value, mask
            if merged.any():
                machine.undefined[slot] = merged
        return jump.target

    def _diverge(self, piece: int, code: StraightLine, chosen: Flags) -> Generator[Meeting, None, int]:
        """Run both sides of a branch, each with its own threads; return the piece in which they meet."""
        if self.joins is None:
            self.joins = joins_of(self.program.pieces)
        join = self.joins.get(piece)
        where = self.program.where(code.last)
        if join is None:
            raise SimulationError(f"{where}: threads diverge and do not meet again")
        before = self.memory.active
        self.diverged.append(piece)
        for jump, side in zip(code.jumps, (chosen, ~chosen), strict=True):
            self.memory.active = side if before is None else side & before
            yield from self.steps(self._jump(jump), join)
        self.diverged.pop()
        self.memory.active = before
        return join

    def outcome(self) -> FunctionOutcome:
        """The outcome of the run."""
        program, machine = self.program, self.machine
        values, undefined = self.stacked(
            [
                (machine.values[slot], machine.undefined.get(slot, np.zeros((1, 1), np.uint64)))
                for slot in program.results
            ]
        )
        races = {
            (race.scope, race.hazard, place): replace(race, location=place)
            for race in reversed(self.memory.races)
            for place in [program.where(race.operation)]
        }
        return FunctionOutcome(
            values,
            undefined,
            {name: self.stacked(rows) for name, rows in machine.sinks.items()},
            tuple(reversed(races.values())),
            self._counts(),
        )

    def _counts(self) -> Counts:
        program, recorded = self.program, self.memory.recorded
        target = program.build.target

        def total(of: Callable[[StraightLine], int]) -> int:
            return sum(times * of(program.pieces[piece]) for piece, times in self.visits.items())

        def moved(kind: str) -> int:
            return sum(r.width * len(r.addresses) for r in recorded if r.kind == kind)

        alu = Counter[str]()
        for piece, times in self.visits.items():
            for kind, count in program.pieces[piece].alu.items():
                alu[kind] += times * count
        return Counts(
            warps=self.machine.threads // target.lanes,
            accesses=costs(recorded, target),
            shuffles=total(lambda piece: piece.shuffles),
            alu=tuple(sorted(alu.items())),
            warp_barriers=total(lambda piece: piece.warp_barriers),
            cta_barriers=total(lambda piece: piece.cta_barriers),
            bytes_stored=moved("store"),
            bytes_loaded=moved("load"),
        )

    def stacked(self, rows: Sequence[tuple[Bits, Bits]]) -> tuple[Bits, Bits]:
        """Values and undefined bits as arrays of shape (rows, trials, threads)."""
        shape = (len(rows), self.trials, self.machine.threads)
        values, undefined = np.zeros(shape, np.uint64), np.zeros(shape, np.uint64)
        for index, (value, mask) in enumerate(rows):
            values[index], undefined[index] = value, mask
        return values, undefined
