"""Build the optimisation problem of a module from its operations, in the order they are written.

Each operation ties the groups of its operands and results, begins groups of its own, or pins the layouts of its
operands. The `draft` records all of this and becomes the problem in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.linear_layout import REGISTER, LinearLayout
from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.dialect.partitions import PARTITIONS
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import Target
from triton_linear.passes.analysis import weights
from triton_linear.passes.analysis.axis import pointee_bytes
from triton_linear.passes.analysis.clusters import blocks_of
from triton_linear.passes.analysis.global_memory import GlobalAccess, fastest_dimension, is_unplaced
from triton_linear.passes.analysis.shared_memory import LocalAccess, is_access, sides_of
from triton_linear.passes.analysis.widths import VECTOR
from triton_linear.passes.assignment.draft import Draft
from triton_linear.passes.assignment.graph import SHAPE_CHANGES, Anchor, Graph, Group, Reduction, ShapeChange
from triton_linear.passes.assignment.nodes import Kind, OpNode, ValueNode, read
from triton_linear.passes.assignment.scopes import Facts, Scope, scopes_of
from triton_linear.passes.framework.layouts import LayoutTable
from triton_linear.passes.operations import names
from triton_linear.passes.operations.table import named
from triton_linear.passes.reductions.held import KeptBits
from triton_linear.passes.reductions.region import must_stay

_UNTIED = frozenset({"tt.assert"})
_PADDED = "#ttg.padded_shared"
_VECTORS = "contiguity"
_LOCAL = {
    names.LOCAL_ALLOC: "local store",
    names.LOCAL_STORE: "local store",
    names.LOCAL_LOAD: "local load",
    names.COPY: "copy",
}
"""Operations that access shared memory, and the names of their anchors in remarks."""


def build(ops: Sequence[Operation], gpu: Target, kept: KeptBits | None = None) -> Graph:
    """The problem of a module's operations, given in the order they are written. If the module has
    warp-specialised regions: the problem of the kernel's own warps.

    `kept`: what must stay so that results keep their bits (`reductions.held`); None: nothing.
    """
    nodes = read(ops)
    return build_scope(scopes_of(nodes)[0], Facts.of(nodes, gpu.policy.unknown_trips), Situation.on(gpu), kept)


def build_scope(scope: Scope, facts: Facts, situation: Situation, kept: KeptBits | None = None) -> Graph:
    """The problem of one scope of a module; `kept` as for `build`."""
    return _Builder(scope, facts, situation, kept).build()


class _Builder(Draft):
    """Adds the operations of a scope to the draft and finishes it."""

    def build(self) -> Graph:
        self.layouts = LayoutTable()
        self._own_in_groups(self.scope.arguments)
        for op in self.scope.ops:
            self._visit(op)
        return self.finish()

    def _visit(self, op: OpNode) -> None:
        name = op.name
        if name == names.MODULE:
            return
        known = named(name)
        frequency = 1.0 if name == names.FUNCTION else self.frequencies.of(op.block)
        if known.elementwise and op.results:  # most are
            self._elementwise(op, frequency)
        elif name == names.CONVERT:
            self._convert(op, frequency)
        elif name == names.FOR:
            self._loop(op)
        elif name in (names.IF, names.FUNCTION):
            self._results_in_own_groups(op, pinned=name == names.FUNCTION)
        elif name == names.YIELD:
            self._yield(op)
        elif name == names.LOAD and self._takes_tensors(op):
            self._load(op, frequency)
        elif name == names.STORE and self._takes_tensors(op):
            self._store(op, frequency)
        elif name in _LOCAL and self._local(op, frequency):
            pass
        elif name == names.REDUCE:
            self._reduce(op, frequency)
        elif known.recomputed:
            self._shape_change(op, frequency)
        elif name in SHAPE_CHANGES and self._changes_shape(op):
            pass
        elif name in _UNTIED:
            self._free_sink(op)
        else:
            self._pin(op)

    def _takes_tensors(self, op: OpNode) -> bool:
        return op.operands[0].kind is not None

    def _convert(self, op: OpNode, frequency: float) -> None:
        source, result = op.operands[0], op.results[0]
        if self._is_held(result) and self.resolve(source) in self.recipes:
            self._pin(op)  # recomputing the value would remove this conversion
            return
        self.aliases[result] = source
        value = self.resolve(source)
        kind = result.kind
        recipe = self.recipes.get(value)
        if recipe is not None and kind is not None and value not in self.owners:
            self.converted.append((recipe, kind.encoding, frequency))

    def _elementwise(self, op: OpNode, frequency: float) -> None:
        results = [kind for result in op.results if (kind := result.kind) is not None]
        if not results:
            return
        if op.name == names.CONSTANT and not op.attributes["value"].is_splat:
            self._pin(op)
            return
        tensors = [(i, kind) for i, operand in enumerate(op.operands) if (kind := operand.kind) is not None]
        if all(self.resolve(op.operands[i]) in self.recipes for i, _ in tensors):
            if any(self._is_held(value) for value in (*op.operands, *op.results)):
                self._pin(op)
                return
            if not self._add_recipes(op, frequency):
                return
        kind = results[0]
        widest = max([k.bits for _, k in tensors] + [k.bits for k in results])
        group = self._new_group(kind)
        cast = named(op.name).cast
        for index, operand in tensors:
            narrow = cast and operand.bits < widest
            self._require_operand(op, index, group.find(), tie=not narrow)
        group = group.find()
        clocks = weights.of(op, widest, self.situation.gpu.costs) * frequency
        if clocks:
            group.add_work(((), kind.shape, self._constancy(op.results[0])), clocks)
        for result in op.results:
            if result.kind is None:
                continue
            if cast and result.kind.bits < widest:
                # The narrow result may be converted where it is used: its users have groups of their own.
                self.owners[result] = group, ()
                group.values.append(result)
                self.cut.add(result)
            else:
                self._add_value(result, group)

    def _pin(self, op: OpNode) -> None:
        """Make all operands and results of an operation keep their layouts."""
        for index, operand in enumerate(op.operands):
            kind = operand.kind
            if kind is not None:
                group = self._new_group(kind, pinned=True)
                group.anchors.append(Anchor(op.name, op))
                self._require_operand(op, index, group)
        self._results_in_own_groups(op, pinned=True)

    def _results_in_own_groups(self, op: OpNode, pinned: bool) -> None:
        for result in op.results:
            kind = result.kind
            if kind is not None:
                group = self._new_group(kind, pinned)
                if pinned:
                    group.anchors.append(Anchor(op.name, op))
                self._add_value(result, group)
        if op.name not in (names.FOR, PARTITIONS):
            for region in op.regions:
                for block in region.blocks:
                    self._own_in_groups(block.arguments)

    def _own_in_groups(self, arguments: Sequence[ValueNode]) -> None:
        """Put each argument into a group of its own that keeps its layout."""
        for argument in arguments:
            if (kind := argument.kind) is not None:
                self._add_value(argument, self._new_group(kind, pinned=True))

    def _loop(self, op: OpNode) -> None:
        arguments = list(op.regions[0].blocks[0].arguments)
        for index, (argument, result) in enumerate(zip(arguments[1:], op.results, strict=True)):
            kind = argument.kind
            if kind is None:
                continue
            group = self._new_group(kind)
            self._add_value(argument, group)
            self._add_value(result, group)
            self._require_operand(op, 3 + index, group)

    def _yield(self, op: OpNode) -> None:
        parent = op.parent
        if parent is None or parent.name not in (names.FOR, names.IF):
            self._pin(op)
            return
        for index, result in enumerate(parent.results):
            if result.kind is not None:
                self._require_operand(op, index, self.owners[result][0].find(), tie=True)

    def _load(self, op: OpNode, frequency: float) -> None:
        result = op.results[0]
        kind = result.kind
        assert kind is not None
        group = self._new_group(kind)
        self._add_value(result, group)
        self.cut.add(result)
        for index in range(len(op.operands)):
            self._require_operand(op, index, group)
        operands = list(op.operands)
        mask = operands[1] if len(operands) > 1 else None
        self._access(op, group, mask, frequency, is_store=False)

    def _store(self, op: OpNode, frequency: float) -> None:
        kind = op.operands[1].kind
        if kind is None:
            self._pin(op)
            return
        group = self._new_group(kind)
        for index in range(len(op.operands)):
            self._require_operand(op, index, group)
        operands = list(op.operands)
        mask = operands[2] if len(operands) > 2 else None
        self._access(op, group, mask, frequency, is_store=True)

    def _local(self, op: OpNode, frequency: float) -> bool:
        """Add an access to shared memory; False if this package does not model the access."""
        operands, is_load = list(op.operands), op.name == names.LOCAL_LOAD
        if not is_access(op):
            return False
        tensor, memory = sides_of(op)
        kind, layout = tensor.kind, self.layouts.of(memory.type)
        if kind is None or not isinstance(layout, LinearLayout) or _PADDED in str(memory.type):
            return False
        copied = None
        size = kind.type.memory_bytes
        if op.name == names.COPY:
            copied = self._global_side(op, operands[2] if len(operands) > 2 else None, is_store=False)
            size = copied.element_bytes
            if not _sees_vectors(op, kind, copied):
                return False
        local = LocalAccess.of(layout, kind.shape, size, not is_load, copied)
        if local is None:
            return False
        group = self._new_group(kind)
        group.anchors.append(Anchor(_LOCAL[op.name], op))
        group.locals.append((local, frequency))
        if copied is not None:
            group.accesses.append((copied, frequency))
        if is_load:
            self._add_value(op.results[0], group)
            self.cut.add(op.results[0])
        else:
            for index in range(len(operands)):
                self._require_operand(op, index, group)
        return True

    def _access(
        self, op: OpNode, group: Group, mask: ValueNode | None, frequency: float, is_store: bool
    ) -> None:
        access = self._global_side(op, mask, is_store)
        group = group.find()
        group.accesses.append((access, frequency))
        group.anchors.append(Anchor("store" if is_store else "load", op))

    def _global_side(self, op: OpNode, mask: ValueNode | None, is_store: bool) -> GlobalAccess:
        """The access of an operation to global memory. Requires: its first operand is the pointers."""
        flags = None
        if mask is not None and mask.kind is not None:
            flags = self.axis.mask(self.resolve(mask))
        pointer = op.operands[0]
        places, kind, given, fastest = self.axis.of(pointer), pointer.kind, None, None
        if kind is not None and is_unplaced(places):
            with suppress(ValueError):  # unknown encodings have no layout
                given = layout_of(kind.encoding, kind.shape)
                fastest = fastest_dimension(kind.encoding, given)
        return GlobalAccess(places, flags, pointee_bytes(pointer.type), is_store, given, fastest)

    def _reduce(self, op: OpNode, frequency: float) -> None:
        kind = next((k for operand in op.operands if (k := operand.kind) is not None), None)
        if kind is None:
            self._pin(op)
            return
        axis = op.attributes["axis"].value
        across = self._is_across_ctas(kind, axis)
        group = self._new_group(kind, pinned=across or self._shows_order(op))
        for index in range(len(op.operands)):
            self._require_operand(op, index, group.find(), tie=True)
        group = group.find()
        widths = tuple(k.bits for operand in op.operands if (k := operand.kind) is not None)
        weight = weights.of_region(op, self.situation.gpu.costs)
        group.reductions.append(Reduction(axis, widths, weight, frequency, self._stays(op)))
        group.anchors.append(Anchor("reduce across CTAs" if across else "reduce", op))
        for result in op.results:
            if result.kind is not None:
                self._add_value(result, group, (axis,))

    def _is_across_ctas(self, kind: Kind, axis: int) -> bool:
        """True if CTAs of a cluster have different coordinates along an axis, or if that is not known."""
        if not self.facts.clusters:
            return False
        try:
            return any(basis[axis] for basis in blocks_of(layout_of(kind.encoding, kind.shape)))
        except ValueError:
            return True

    def _stays(self, reduction: OpNode) -> bool:
        """True if a reduction must not be split across warps, whatever its layout."""
        if self._shows_order(reduction) or any(map(self._is_held, reduction.operands)):
            return True
        return must_stay(reduction.op, self.situation.release) is not None

    def _shows_order(self, reduction: OpNode) -> bool:
        """True if results must keep their bits and these depend on the order in which the reduction
        combines."""
        return self.kept is not None and self.kept.shows_order(reduction.op)

    def _shape_change(self, op: OpNode, frequency: float) -> None:
        kind = op.results[0].kind
        if kind is None or op.operands[0].kind is None:
            self._pin(op)
            return
        if self.resolve(op.operands[0]) in self.recipes and not self._add_recipes(op, frequency):
            return
        group = self._new_group(kind)
        self._add_value(op.results[0], group)
        path = (op.attributes["axis"].value,) if op.name == names.EXPAND else ()
        self._require_operand(op, 0, group, path)

    def _changes_shape(self, op: OpNode) -> bool:
        """Add a transpose, reshape, join or split; False if its layouts do not follow from each other."""
        change, kind = ShapeChange.of(op), op.results[0].kind
        if change is None or kind is None or op.operands[0].kind is None:
            return False
        layouts = self.layouts.both(op.operands[0].type, op.results[0].type)
        if isinstance(layouts, str) or change.backward(layouts[1]) != layouts[0]:
            return False
        group = self._new_group(kind)
        for value in op.results:
            self._add_value(value, group)
        for index in range(len(op.operands)):
            self._require_operand(op, index, group, (change,))
        return True

    def _free_sink(self, op: OpNode) -> None:
        """Add an operation without results that accepts its operands in any layout."""
        for index, operand in enumerate(op.operands):
            kind = operand.kind
            if kind is not None:
                self._require_operand(op, index, self._new_group(kind), tie=True)


def _sees_vectors(op: OpNode, kind: Kind, copied: GlobalAccess) -> bool:
    """True if the axis analysis confirms the vector length that the copy's `contiguity` states and Triton
    trusts."""
    attributes = op.attributes
    if _VECTORS not in attributes:
        return True
    layout = layout_of(kind.encoding, kind.shape)
    registers = [basis for basis in dict(layout.bases)[REGISTER] if any(basis)]
    stated = min(attributes[_VECTORS].value, VECTOR // copied.element_bytes)
    return bool(1 << copied.vector_bits(registers) >= stated)
