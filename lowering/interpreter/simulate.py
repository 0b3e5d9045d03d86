"""The SIMT interpreter: runs one emitted LLVM-dialect function for every thread of a CTA, or of all CTAs of a
cluster, in lockstep.

    outcome = simulate(text, registers, target, num_warps=4, shared_bytes=16384)

The text is parsed by upstream MLIR, its operations become closures once (`program`, handlers in `ops`, `casts`,
`lanes`, `shared_memory`, `amd` and `matrix`), and those run over numpy arrays of shape (trials, threads): every
trial is an independent run with other register contents. Shared memory (`memory`) checks bounds and alignment
and finds races; `counts` counts wavefronts and instructions. Operations without a handler, control flow and
undefined behaviour are refused, with the place in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.lowering.interpreter import amd, casts, lanes, ops, shared_memory
from triton_linear.lowering.interpreter.counts import Counts, costs
from triton_linear.lowering.interpreter.memory import Bits, Race, SharedMemory, SimulationError
from triton_linear.lowering.interpreter.program import POISON, Aggregate, Builder, Machine, Scalar, Tree, leaves
from triton_linear.lowering.interpreter.shared_memory import BARRIER_OF_SOME
from triton_linear.lowering.target.targets import Target

__all__ = ["Race", "Simulated", "SimulationError", "simulate"]

HANDLERS = {
    **ops.OPERATIONS,
    **casts.OPERATIONS,
    **lanes.OPERATIONS,
    **shared_memory.OPERATIONS,
    **amd.OPERATIONS,
}

# Scratch starts where an allocator may put it: aligned to the widest access and to nothing more.
SHARED_BASE = 1040


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """The results of a run, its races and its counts.

    `values` and `undefined` have shape (results, trials, threads): bit patterns, and masks of the bits that no
    defined input determines.
    """

    values: Bits
    undefined: Bits
    races: tuple[Race, ...]
    counts: Counts


def simulate(
    function_text: str,
    registers: Sequence[Bits],
    target: Target,
    num_warps: int,
    shared_bytes: int = 0,
    shared_base: int = SHARED_BASE,
    ctas: int = 1,
) -> Simulated:
    """Run the function on `registers`, the fields of its first argument.

    Requires: each register is an array of shape (trials, threads) of bit patterns, the threads of a CTA
    together; `function_text` holds one function of one block.
    Ensures: deterministic; the text is not changed.

    Raises SimulationError for an unknown operation and for undefined behaviour: an access out of bounds,
    misaligned or at an undefined address.
    """
    program = _Program.compile(function_text, target, num_warps * target.lanes * ctas, ctas)
    return program.run(registers, shared_bytes, shared_base)


@dataclass(frozen=True, slots=True)
class _Program:
    """A compiled function of one block; the fields hold the slots of its arguments and results."""

    text: str
    build: Builder
    arguments: tuple[Tree, ...]
    shared: tuple[int, ...]
    results: tuple[int, ...]

    @classmethod
    def compile(cls, text: str, target: Target, threads: int, ctas: int) -> _Program:
        with interpreter_context():
            module = parsed(text)  # owns the block
            block = _only_block(module)
            build = Builder(target, threads, ctas=ctas, has_flags="overflow<" in text)
            arguments: list[Tree] = []
            shared: list[int] = []
            for argument in block.arguments:
                tree = _argument(build, argument, shared)
                build.values[argument] = tree
                arguments.append(tree)
            results: tuple[int, ...] = ()
            values = build.values
            for index, view in enumerate(block.operations):
                op = view.operation
                name = op.name
                build.operation = index
                if name == "llvm.return":
                    results = tuple(leaf for x in build.operands(op) for leaf in leaves(x))
                    continue
                handler = HANDLERS.get(name)
                if handler is None:
                    raise SimulationError(f"{place_of(op)}: operation '{name}' is not interpreted")
                try:
                    tree_or_none = handler(build, op)
                except SimulationError as error:
                    raise SimulationError(f"{place_of(op)}: {name}: {error}") from None
                if tree_or_none is not None:
                    values[op.results[0]] = tree_or_none
            build.values = {}
            build.types = {}
        return cls(text, build, tuple(arguments), tuple(shared), results)

    def run(self, registers: Sequence[Bits], shared_bytes: int, shared_base: int) -> Simulated:
        build = self.build
        fields = leaves(self.arguments[0]) if self.arguments else ()
        if len(fields) != len(registers):
            raise SimulationError(f"the function takes {len(fields)} registers, not {len(registers)}")
        trials = max((len(register) for register in registers), default=1)
        memory = SharedMemory(
            trials,
            build.threads,
            build.target.lanes,
            shared_bytes,
            shared_base,
            build.granule,
            ctas=build.ctas,
        )
        machine = Machine(build.slots, build.threads, build.target.lanes, memory)
        full = np.full((1, 1), np.iinfo(np.uint64).max, np.uint64)
        machine.undefined[build.undefined_slot] = full
        for slot, value in build.initial:
            machine.values[slot] = value
        for slot, value in zip(fields, registers, strict=True):
            machine.values[slot] = value
        for slot in self.shared:
            machine.values[slot] = np.full((1, 1), shared_base, np.uint64)
        position = -1
        try:
            for position, step in enumerate(build.steps):  # noqa: B007
                step(machine)
            memory.end(build.origins[-1] if build.origins else 0)
        except SimulationError as error:
            raise type(error)(f"{self._places()[build.origins[position]]}: {error}") from None
        return self._outcome(machine, trials)

    def _outcome(self, machine: Machine, trials: int) -> Simulated:
        shape = (len(self.results), trials, machine.threads)
        values, undefined = np.zeros(shape, np.uint64), np.zeros(shape, np.uint64)
        for index, slot in enumerate(self.results):
            if slot == POISON:
                undefined[index] = np.iinfo(np.uint64).max
                continue
            values[index] = machine.values[slot]
            if slot in machine.undefined:
                undefined[index] = machine.undefined[slot]
        races = machine.memory.races
        places = self._places() if races else []
        located = tuple(replace(race, location=places[race.operation]) for race in races)
        return Simulated(values, undefined, located, self._counts(machine.memory))

    def _counts(self, memory: SharedMemory) -> Counts:
        build = self.build
        warps = build.threads // build.target.lanes

        def moved(kind: str) -> int:
            return sum(r.width * len(r.addresses) for r in memory.recorded if r.kind == kind)

        return Counts(
            warps=warps,
            accesses=costs(memory.recorded, build.target),
            shuffles=build.shuffles,
            alu=tuple(sorted(build.alu.items())),
            warp_barriers=build.warp_barriers,
            cta_barriers=build.cta_barriers,
            bytes_stored=moved("store"),
            bytes_loaded=moved("load"),
            cluster_barriers=build.cluster_barriers,
        )

    def _places(self) -> list[str]:
        """Place and name of each operation. The text is parsed again, since no MLIR object outlives
        compilation."""
        with interpreter_context():
            module = parsed(self.text)  # owns the block
            operations = [op.operation for op in _only_block(module).operations]
            return [f"{place_of(op)}: {op.name}" for op in operations]


def interpreter_context() -> ir.Context:
    """A context with the dialects of emitted code alone, and without threads, which would not pay."""
    context = ir.Context(load_on_create_dialects=["gpu", "llvm", "nvvm", "rocdl"])
    context.enable_multithreading(False)
    return context


_SPELLINGS = {
    # MLIR parses a location behind `nvvm.barrier` as an operand.
    "nvvm.barrier loc(": "nvvm.barrier0 loc(",
    # For threads that may have diverged, which makes no difference in lockstep.
    "nvvm.barrier {aligned = false} loc(": "nvvm.barrier0 loc(",
    # Newer than the bindings.
    "rocdl.wave.id : i32": 'llvm.call_intrinsic "llvm.amdgcn.wave.id"() : () -> i32',
    "rocdl.wave.barrier loc(": 'llvm.call_intrinsic "llvm.amdgcn.wave.barrier"() : () -> () loc(',
}
"""The bindings' spellings of operations that newer releases of Triton print in another way."""

_BARRIER_OF_SOME = re.compile(r"nvvm\.barrier id = (%\w+) number_of_threads = (%\w+)(?= loc\()")
_NO_RESULT = re.compile(r"%\w+ = (llvm\.call_intrinsic [^\n]*) -> !llvm\.void")


def parsed(text: str) -> ir.Module:
    """Parse a module as Triton prints it."""
    for printed, known in _SPELLINGS.items():
        text = text.replace(printed, known)
    some = rf'llvm.call_intrinsic "{BARRIER_OF_SOME}"(\1, \2) : (i32, i32) -> ()'
    text = _NO_RESULT.sub(r"\1 -> ()", _BARRIER_OF_SOME.sub(some, text))
    try:
        return ir.Module.parse(text)
    except ir.MLIRError as error:
        raise SimulationError(f"the function does not parse: {error}") from None


def _only_block(module: ir.Module) -> ir.Block:
    functions = [op for op in module.body.operations if op.operation.name == "llvm.func"]
    if len(functions) != 1:
        raise SimulationError(f"expected one llvm.func, found {len(functions)}")
    blocks = list(functions[0].regions[0].blocks)
    if len(blocks) != 1:
        raise SimulationError(f"expected a body of one block, found {len(blocks)}")
    return blocks[0]


def _argument(build: Builder, argument: ir.Value, shared: list[int]) -> Tree:
    """New slots for the registers of the first argument and for shared memory; other arguments are
    undefined."""
    type_ = build.type_of(argument)

    def fill(part: object) -> Tree:
        if isinstance(part, Aggregate):
            return tuple(fill(field) for field in part.fields)
        return build.new()

    if argument.arg_number == 0:
        return fill(type_)
    if isinstance(type_, Scalar) and type_.space == 3:
        shared.append(build.new())
        if len(shared) > 1:
            raise SimulationError("a second pointer to shared memory is not interpreted")
        return shared[0]
    return ops.filled(type_, build.undefined_slot)


def place_of(op: ir.Operation) -> str:
    """Line and column in the function's text, or the place in a file that its location names."""
    found = re.search(r'"((?:[^"\\\\]|\\\\.)*)":(\d+):(\d+)', str(op.location))
    if found is None:
        return str(op.location)
    return f"{found[2]}:{found[3]}" if found[1] == "-" else f"{found[1]}:{found[2]}:{found[3]}"
