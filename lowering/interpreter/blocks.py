"""The program of `simulate_function`: a module's functions as a graph of straight-line pieces.

Each call gets a copy of the called function, so that a program is one graph. The arguments of a block have
slots of their own, which a jump sets; all other values stay in the slots of their operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.lowering.interpreter import ops
from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.interpreter.parsing import HANDLERS, place_of
from triton_linear.lowering.interpreter.program import (
    Aggregate,
    Builder,
    Machine,
    Scalar,
    Step,
    Tree,
    leaves,
    scalar_mask,
)
from triton_linear.lowering.target.targets import Target

_CALL_DEPTH: Final = 16


@dataclass(slots=True)
class Jump:
    """A jump to another piece; `moves` has (source slot, destination slot) of the values that it passes."""

    target: int
    moves: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class StraightLine:
    """A straight line of steps, and its `jumps`: two with a condition, one, or none.

    slots: the slots that its steps set; their undefined bits are reset when the piece runs again.
    """

    steps: list[Step] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    slots: range = range(0)
    condition: int | None = None
    last: int = -1
    jumps: tuple[Jump, ...] = ()
    cta_barriers: int = 0
    warp_barriers: int = 0
    shuffles: int = 0
    alu: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class FunctionProgram:
    """A compiled function; `where` names the place of an operation by its number."""

    build: Builder
    pieces: list[StraightLine]
    arguments: list[Tree]
    shared: list[int]
    results: tuple[int, ...]
    places: list[ir.Operation]

    def where(self, operation: int) -> str:
        op = self.places[operation]
        return f"{place_of(op)}: {op.name}"


class Compiler:
    """Compiles a function, and a copy of a called function for each call, to pieces."""

    def __init__(
        self,
        module: ir.Module,
        target: Target,
        threads: int,
        has_flags: bool,
        independent: bool = False,
    ) -> None:
        self.functions: dict[str, ir.Operation] = {}
        self.globals: set[str] = set()
        for op in module.body.operations:
            if op.operation.name == "llvm.func":
                self.functions[op.operation.attributes["sym_name"].value] = op.operation
            elif op.operation.name == "llvm.mlir.global":
                self.globals.add(op.operation.attributes["sym_name"].value)
        self.build = Builder(target, threads, has_flags=has_flags, independent=independent)
        self.shared: list[int] = []
        self.pieces: list[StraightLine] = []
        self.places: list[ir.Operation] = []
        self.depth = 0

    def compile(self, name: str | None, given: int) -> FunctionProgram:
        if name is None:
            if len(self.functions) != 1:
                raise SimulationError(f"expected one llvm.func, found {len(self.functions)}")
            (name,) = self.functions
        function = self.functions.get(name)
        if function is None or not function.regions[0].blocks:
            found = ", ".join(self.functions) or "none"
            raise SimulationError(f"no function '{name}' with a body in the module; there are: {found}")
        arguments: list[Tree] = []
        for argument in function.regions[0].blocks[0].arguments:
            type_ = self.build.type_of(argument)
            if argument.arg_number < given:
                arguments.append(self._fresh(type_))
            elif isinstance(type_, Scalar) and type_.space == 3:
                arguments.append(self._shared())
            else:
                arguments.append(ops.filled(type_, self.build.undefined_slot))
        if given > len(arguments):
            raise SimulationError(f"'{name}' takes {len(arguments)} arguments, not {given}")
        end, results = self._inline(function, arguments, self._piece())
        self.build.values = {}
        slots = tuple(leaf for tree in results for leaf in leaves(tree))
        assert not self.pieces[end].jumps
        return FunctionProgram(self.build, self.pieces, arguments[:given], self.shared, slots, self.places)

    def _piece(self) -> int:
        self.pieces.append(StraightLine())
        return len(self.pieces) - 1

    def _fresh(self, type_: object) -> Tree:
        if isinstance(type_, Aggregate):
            return tuple(self._fresh(part) for part in type_.fields)
        return self.build.new()

    def _shared(self) -> int:
        if not self.shared:
            self.shared.append(self.build.new())
        return self.shared[0]

    def _inline(self, function: ir.Operation, arguments: Sequence[Tree], entry: int) -> tuple[int, list[Tree]]:
        """Compile a body that begins in the piece `entry`; return the piece in which it ends, and its
        results."""
        if self.depth >= _CALL_DEPTH:
            raise SimulationError(f"calls are nested more than {_CALL_DEPTH} deep")
        self.depth += 1
        outer, self.build.values = self.build.values, {}
        blocks = _reverse_postorder(list(function.regions[0].blocks))
        pieces = {blocks[0]: entry}
        trees: dict[ir.Block, list[Tree]] = {}
        for block in blocks[1:]:
            pieces[block] = self._piece()
            trees[block] = [self._fresh(self.build.type_of(argument)) for argument in block.arguments]
        trees[blocks[0]] = list(arguments)
        end = self._piece()
        results: list[Tree] = []
        for block in blocks:
            for argument, tree in zip(block.arguments, trees[block], strict=True):
                self.build.values[argument] = tree
            results = self._block(block, pieces, trees, end) or results
        self.build.values = outer
        self.depth -= 1
        return end, results

    def _block(
        self, block: ir.Block, pieces: dict[ir.Block, int], trees: dict[ir.Block, list[Tree]], end: int
    ) -> list[Tree]:
        build = self.build
        piece = pieces[block]
        self._begin(piece)
        results: list[Tree] = []
        for view in block.operations:
            op = view.operation
            name = op.name
            self.places.append(op)
            build.operation = len(self.places) - 1
            try:
                if name == "llvm.return":
                    operands = build.operands(op)
                    results = [build.solid_tree(tree) for tree in operands]
                    # A return from several places would need its values joined; Triton's functions have one.
                    if operands and self.pieces[end].last >= 0:
                        raise SimulationError("a second return is not interpreted")
                    self.pieces[end].last = build.operation
                    self._end(piece, (Jump(end, ()),))
                elif name == "llvm.br":
                    self._end(piece, (self._jump(build.operands(op), op.successors[0], pieces, trees),))
                elif name == "llvm.cond_br":
                    self._branch(piece, op, pieces, trees)
                elif name == "llvm.switch":
                    self._switch(piece, op, pieces, trees)
                elif name == "llvm.call":
                    piece = self._call(piece, op)
                elif name == "llvm.mlir.addressof":
                    if _symbol(op, "global_name") != "global_smem":
                        raise SimulationError("memory that is not shared memory is not interpreted")
                    build.values[op.results[0]] = self._shared()
                else:
                    handler = HANDLERS.get(name)
                    if handler is None:
                        raise SimulationError("the operation is not interpreted")
                    tree = handler(build, op)
                    if tree is not None:
                        build.values[op.results[0]] = tree
            except SimulationError as error:
                if getattr(error, "placed", False):
                    raise
                placed = SimulationError(f"{place_of(op)}: {name}: {error}")
                placed.placed = True  # type: ignore[attr-defined]
                raise placed from None
        return results

    def _begin(self, piece: int) -> None:
        build, into = self.build, self.pieces[piece]
        build.steps, build.origins = into.steps, into.origins
        into.slots = range(build.slots, build.slots)
        # A fence orders a barrier only within the same block.
        build.released = build.arriving = build.waited = False
        build.cta_barriers = build.warp_barriers = build.shuffles = 0
        build.alu = Counter()

    def _end(self, piece: int, jumps: tuple[Jump, ...], condition: int | None = None) -> None:
        build, into = self.build, self.pieces[piece]
        into.slots = range(into.slots.start, build.slots)
        into.jumps, into.condition, into.last = jumps, condition, build.operation
        into.cta_barriers, into.warp_barriers = build.cta_barriers, build.warp_barriers
        into.shuffles, into.alu = build.shuffles, build.alu

    def _jump(
        self,
        operands: Sequence[Tree],
        block: ir.Block,
        pieces: dict[ir.Block, int],
        trees: dict[ir.Block, list[Tree]],
    ) -> Jump:
        moves: list[tuple[int, int]] = []
        for tree, into in zip(operands, trees[block], strict=True):
            for source, slot in zip(leaves(tree), leaves(into), strict=True):
                moves.append((self.build.solid(source), slot))
        return Jump(pieces[block], tuple(moves))

    def _branch(
        self, piece: int, op: ir.Operation, pieces: dict[ir.Block, int], trees: dict[ir.Block, list[Tree]]
    ) -> None:
        condition, *rest = self.build.operands(op)
        yes, no = op.successors
        first = len(yes.arguments)
        jumps = (
            self._jump(rest[:first], yes, pieces, trees),
            self._jump(rest[first:], no, pieces, trees),
        )
        self._end(piece, jumps, self.build.scalar(condition))

    def _switch(
        self, piece: int, op: ir.Operation, pieces: dict[ir.Block, int], trees: dict[ir.Block, list[Tree]]
    ) -> None:
        """A switch, as a sequence of branches with one comparison for each case."""
        build = self.build
        operands, (default, *blocks) = build.operands(op), op.successors
        cases = [int(n) for n in op.attributes["case_values"]] if blocks else []
        if len(operands) > 1:
            raise SimulationError("a switch that hands on values is not interpreted")
        value = build.scalar(operands[0])
        for case, block in zip(cases, blocks, strict=True):
            condition, wanted = build.new(), np.uint64(case & scalar_mask(build.bits_of(op.operands[0])).item())

            def step(machine: Machine, condition: int = condition, wanted: np.uint64 = wanted) -> None:
                machine.refuse_undefined(value, "the number that is switched by")
                machine.values[condition] = (machine.values[value] == wanted).astype(np.uint64)

            build.emit(step)
            following = self._piece()
            self._end(piece, (self._jump([], block, pieces, trees), Jump(following, ())), condition)
            piece = following
            self._begin(piece)
        self._end(piece, (self._jump([], default, pieces, trees),))

    def _call(self, piece: int, op: ir.Operation) -> int:
        """Inline the called function; return the piece of the operations behind the call."""
        callee = self.functions.get(_symbol(op, "callee")) if "callee" in op.attributes else None
        if callee is None or not callee.regions[0].blocks:
            raise SimulationError(f"a call of {op.attributes.get('callee', 'a pointer')} is not interpreted")
        entry = self._piece()
        operands = self.build.operands(op)
        self._end(piece, (Jump(entry, ()),))
        end, results = self._inline(callee, operands, entry)
        if op.results:
            self.build.values[op.results[0]] = results[0]
        self.places.append(op)
        self.build.operation = len(self.places) - 1
        self.pieces[end].last = -1
        self._begin(end)
        return end


def _symbol(op: ir.Operation, attribute: str) -> str:
    return str(op.attributes[attribute]).lstrip("@").strip('"')


def _reverse_postorder(blocks: list[ir.Block]) -> list[ir.Block]:
    """The reachable blocks, each behind its dominators."""
    done: list[ir.Block] = []
    seen = {blocks[0]}
    stack = [(blocks[0], iter(_successors(blocks[0])))]
    while stack:
        block, following = stack[-1]
        for successor in following:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(_successors(successor))))
                break
        else:
            done.append(block)
            stack.pop()
    return done[::-1]


def _successors(block: ir.Block) -> list[ir.Block]:
    operations = list(block.operations)
    return list(operations[-1].operation.successors)


def joins_of(pieces: Sequence[StraightLine]) -> dict[int, int]:
    """The nearest postdominator of each piece that has one, by the number of the piece."""
    everything = set(range(len(pieces)))
    behind = [everything if piece.jumps else {k} for k, piece in enumerate(pieces)]
    changed = True
    while changed:
        changed = False
        for k in reversed(range(len(pieces))):
            if pieces[k].jumps:
                common = set.intersection(*(behind[jump.target] for jump in pieces[k].jumps)) | {k}
                if common != behind[k]:
                    behind[k], changed = common, True
    # The nearest of a piece's postdominators is postdominated by all others.
    return {
        k: max(found - {k}, key=lambda other: len(behind[other]))
        for k, found in enumerate(behind)
        if found - {k}
    }
