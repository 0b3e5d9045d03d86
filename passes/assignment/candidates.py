"""The layouts that each group may take.

Every group may keep what it has. Each load and store adds a layout of least memory cost; a load and a store
of one tensor add the pair that differs within warps only; where shared memory is accessed with conflicts,
layouts with fewer are added; and what one group may take, its neighbours may take as well, as far as edges
carry it. What a reduction leaves is held by several lanes or warps; layouts in which each of these keeps a part
of its registers come at the price of selects. In a cluster all of them leave each CTA the part of a tensor that
it has.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import lru_cache

from triton_linear.dialect import encodings
from triton_linear.dialect.encodings import transfer
from triton_linear.dialect.encodings.derived import slice_layout
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout, dim_names
from triton_linear.dialect.records import dataclass
from triton_linear.lowering.target import limits
from triton_linear.lowering.target.situation import Situation
from triton_linear.passes.analysis import global_memory as memory
from triton_linear.passes.analysis.clusters import around, blocks_of, part_of
from triton_linear.passes.analysis.global_memory import GlobalAccess
from triton_linear.passes.analysis.shared_memory import layouts as local_layouts
from triton_linear.passes.assignment.graph import Edge, Graph, Group, Path, Reduction, ShapeChange
from triton_linear.passes.reductions.costs import scratch_as_triton


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layout that a group may take, as the encoding of its values."""

    encoding: str
    layout: LinearLayout


class NoLayout(Exception):
    """An encoding that has no layout here; the message says why."""


def sliced(encoding: str, path: Path) -> str:
    """The encoding of a value with this path from one with this encoding. Raises NoLayout."""
    for step in path:
        if isinstance(step, ShapeChange):
            encoding = _operand(encoding, step)
        else:
            encoding = f"#ttg.slice<{{dim = {step}, parent = {encoding}}}>"
    return encoding


@lru_cache(maxsize=1024)
def _operand(encoding: str, change: ShapeChange) -> str:
    """The encoding of the operands of a change of shape whose results have this one."""
    try:
        layout = change.backward(encodings.layout_of(encoding, change.result))
        if layout is None:
            raise NoLayout(f"no operand of {change.name} has a result with {encoding}")
        text = memory.encoding_text(layout)
        if encodings.layout_of(text, change.operand) != layout:  # registers that hold copies, elsewhere
            text = encodings.linear_encoding_text(layout)
    except ValueError as error:
        raise NoLayout(str(error)) from error
    return text


@lru_cache(maxsize=8192)
def layout_of(encoding: str, shape: tuple[int, ...], path: Path = ()) -> LinearLayout:
    """The layout, without registers that hold copies, of a value of this shape with this path from one of this
    encoding. Raises NoLayout."""
    if path and isinstance(path[0], ShapeChange):
        return layout_of(_operand(encoding, path[0]), shape, path[1:])
    axes = [axis for axis in path if isinstance(axis, int)]
    whole = shape
    for axis in reversed(axes):
        whole = (*whole[:axis], 1, *whole[axis:])
    try:
        layout = encodings.layout_of(encoding, whole)
        for axis in axes:
            layout = slice_layout(layout, axis)
    except ValueError as error:
        raise NoLayout(str(error)) from error
    return layout.remove_zero_bases(REGISTER)


_SEPARABLE = ("#ttg.blocked", "#ttg.linear")
"""Encodings whose bases along one dimension do not depend on the size of another."""


def layout_in(candidate: Candidate, shape: tuple[int, ...], path: Path) -> LinearLayout:
    """`layout_of` the encoding of a candidate: without reading it, where the candidate's own layout tells."""
    if not path and shape == tuple([size for _, size in candidate.layout.out_dims]):
        return candidate.layout
    return _layout_in(candidate.layout, candidate.encoding, shape, path)


@lru_cache(maxsize=8192)
def _layout_in(own: LinearLayout, encoding: str, shape: tuple[int, ...], path: Path) -> LinearLayout:
    sizes = [size for _, size in own.out_dims]
    kept = list(range(len(sizes)))
    for step in path:
        if isinstance(step, ShapeChange):
            return layout_of(encoding, shape, path)
        del kept[step]
    fits = all(size in (1, sizes[axis]) for axis, size in zip(kept, shape, strict=True))
    if not fits or not encoding.startswith(_SEPARABLE):
        return layout_of(encoding, shape, path)
    return _restricted(own, tuple(kept), shape)


def _restricted(layout: LinearLayout, kept: tuple[int, ...], shape: tuple[int, ...]) -> LinearLayout:
    """The layout along the dimensions `kept`, each of which is as large as in `layout` or one element, without
    registers that hold copies."""
    moving = [axis if size > 1 else -1 for axis, size in zip(kept, shape, strict=True)]
    bases = []
    for name, vectors in layout.bases:
        left = tuple([tuple([basis[axis] if axis >= 0 else 0 for axis in moving]) for basis in vectors])
        bases.append((name, tuple(filter(any, left)) if name == REGISTER else left))
    return LinearLayout.fitted(tuple(bases), tuple(zip(dim_names(len(shape)), shape, strict=True)))


@dataclass
class Candidates:
    """What each group of a graph chooses from; the first is what it has."""

    graph: Graph
    warps: int
    situation: Situation

    def __post_init__(self) -> None:
        self.target = self.situation.gpu
        self.lanes = self.target.lanes.bit_length() - 1
        self.of: dict[Group, list[Candidate]] = {}
        self.asked: set[tuple[Group, LinearLayout, str | None]] = set()
        self.parts: dict[Group, tuple[int, ...] | None] = {}
        self.changes: dict[Group, dict[ShapeChange, None]] = {}
        self._most_scratch = 0
        self._in_cluster = False

    def find(self) -> dict[Group, list[Candidate]]:
        """Raises NoLayout where a group's present encoding has no layout, and it is no pinned one."""
        paths = [(edge.target, edge.wanted) for edge in self.graph.edges]
        paths += [(group, path) for group in self.graph.groups for _, path in group.requests]
        for group, path in paths:
            if path and isinstance(path[0], ShapeChange):
                self.changes.setdefault(group, {})[path[0]] = None
        for group in self.graph.groups:
            present = layout_of(group.encoding, group.shape)
            self.of[group] = [Candidate(group.encoding, present)]
            self.parts[group] = group.shape
            if blocks_of(present):
                self.parts[group] = part_of(present)
                self._in_cluster = True
            for reduction in group.reductions:
                taken = scratch_as_triton(
                    self.of[group][0].layout, reduction.axis, reduction.widths, self.situation.release
                )
                self._most_scratch = max(self._most_scratch, taken)
        by_group: dict[Group, list[Edge]] = {}
        for edge in self.graph.edges:
            by_group.setdefault(edge.source, []).append(edge)
            if edge.target is not edge.source:
                by_group.setdefault(edge.target, []).append(edge)
        # Between memory that is loaded and memory that is stored, what is packed is unpacked: an edge more.
        new: list[tuple[Group, Candidate]] = list(self._stored())
        new += self._carried(new, by_group)
        for group in self.graph.groups:
            for access, _ in group.accesses:
                if (part := self.parts[group]) is not None:
                    new += self._add_part(group, memory.coalesced(access, part, self.lanes, self.warps))
        new += self._meetings()
        new += [(group, self.of[group][0]) for group in self.graph.groups]
        for _ in range(limits.CARRIED_EDGES):
            new = self._carried(new, by_group)
            if not new:
                break
        return self.of

    def _carried(
        self, known: list[tuple[Group, Candidate]], edges: Mapping[Group, list[Edge]]
    ) -> list[tuple[Group, Candidate]]:
        """What the neighbours of these groups may take too. A change of shape moves nothing: it is no edge."""
        known = list(known)
        new: list[tuple[Group, Candidate]] = []
        for group, candidate in known:
            for edge in edges.get(group, ()):
                (known if edge.changes_shape else new).extend(self._carry(edge, group, candidate))
        return new

    def _meetings(self) -> Iterator[tuple[Group, Candidate]]:
        accessing = [group for group in self.graph.groups if group.accesses and not group.pinned]
        loads = [g for g in accessing if not g.accesses[0][0].is_store]
        stores = [g for g in accessing if g.accesses[0][0].is_store]
        pairs = ((a, b) for a, b in itertools.product(loads, stores) if self._are_alike(a, b))
        for load, store in itertools.islice(pairs, limits.MEETING_PAIRS):
            part = self.parts[load]
            if part is None:
                continue
            met = memory.meeting(load.accesses[0][0], store.accesses[0][0], part, self.lanes, self.warps)
            if met is not None:
                yield from self._add_part(load, met[0])
                yield from self._add_part(store, met[1])

    def _are_alike(self, first: Group, second: Group) -> bool:
        """Whether tensors of two groups have the same shape, and what a CTA has of them as well."""
        return first.shape == second.shape and self.parts[first] == self.parts[second]

    def _stored(self) -> Iterator[tuple[Group, Candidate]]:
        """Where an access to shared memory takes its banks in turn: layouts that are cheap for it and for what
        its tensor may come from."""
        for group in self.graph.groups:
            part = self.parts[group]
            if not group.locals or group.pinned or part is None or not self._is_slow(group, part):
                continue
            local = group.locals[0][0]
            partners: list[tuple[Group, GlobalAccess | None]] = [
                (other, other.accesses[0][0])
                for other in self.graph.groups
                if other.accesses and self._are_alike(other, group) and (other is group or not local.copied)
            ]
            for other, access in (
                *partners[: limits.LOCAL_PARTNERS],
                *([] if local.copied else [(group, None)]),
            ):
                for layout in local_layouts(local, access, part, self.lanes, self.warps, self.target):
                    yield from self._add_part(group, layout)
                    if other is not group:
                        yield from self._add_part(other, layout)

    def _has_scratch(self, reduction: Reduction, layout: LinearLayout) -> bool:
        """Whether a reduction may be done in this layout, by the shared memory that it takes."""
        if not self.target.policy.spares_shared_memory:
            return True
        return (
            scratch_as_triton(layout, reduction.axis, reduction.widths, self.situation.release)
            <= self._most_scratch
        )

    def _is_slow(self, group: Group, part: tuple[int, ...]) -> bool:
        local = group.locals[0][0]
        fewest = local.fewest(part, self.warps, self.target)
        return local.wavefronts(self.of[group][0].layout, self.target) > fewest

    def _has_room(self, group: Group) -> bool:
        """Whether it may choose, and from more than it has."""
        if group.pinned or self.parts[group] is None:
            return False
        return len(self.of[group]) < limits.CANDIDATES

    def _add_part(self, group: Group, part: LinearLayout) -> list[tuple[Group, Candidate]]:
        """Let each CTA choose from the layout `part` of what it has."""
        return self._add(group, around(part, self.of[group][0].layout) if self._in_cluster else part)

    def _add(
        self, group: Group, layout: LinearLayout, encoding: str | None = None
    ) -> list[tuple[Group, Candidate]]:
        """Let `group` choose from `layout` too, unless it does already or cannot."""
        if not self._has_room(group):
            return []
        layout = layout.remove_zero_bases(REGISTER)
        asked = group, layout, encoding
        if asked in self.asked:
            return []  # it has it, or cannot
        self.asked.add(asked)
        known = self.of[group]
        if any(c.layout == layout for c in known):
            return []
        if self._in_cluster and blocks_of(layout) != blocks_of(known[0].layout):
            return []
        # Triton 3.6 and 3.7 have such layouts, and end the process at some operations that get one.
        if has_sums(layout) and not has_sums(known[0].layout):
            return []
        try:
            candidate = Candidate(encoding or memory.encoding_text(layout), layout)
        except ValueError:  # a layout that no encoding of Triton's denotes
            return []
        if not all(reducible(candidate, reduction.axis) for reduction in group.reductions):
            return []
        if not all(self._has_scratch(reduction, layout) for reduction in group.reductions):
            return []
        # On AMD targets each warp must write its lanes in a row.
        nvidia = self.target.vendor == "nvidia"
        if any(local.copied and not (nvidia and local.copies_rightly(layout)) for local, _ in group.locals):
            return []
        try:
            for change in self.changes.get(group, ()):
                _operand(candidate.encoding, change)
        except NoLayout:
            return []
        known.append(candidate)
        return [(group, candidate)]

    def _carry(self, edge: Edge, group: Group, candidate: Candidate) -> Iterator[tuple[Group, Candidate]]:
        """Across an edge, so that nothing has to move there, or only within threads."""
        shape = edge.kind.shape
        other = edge.target if group is edge.source else edge.source
        if not self._has_room(other):
            return
        if not edge.given and not edge.wanted and other.shape == group.shape:
            part = self.parts[other]
            assert part is not None  # it has room
            for access, _ in other.accesses if self._are_alike(other, group) else ():
                if (close := memory.near(access, candidate.layout, part, memory.LEAST_LINE_BYTES)) is not None:
                    yield from self._add_part(other, close)
        if group is edge.source:
            encoding = sliced(candidate.encoding, edge.given)
            layout = layout_in(candidate, shape, edge.given)
            if edge.changes_shape:
                # Registers that hold copies count here.
                layout = encodings.layout_of(encoding, shape)
            yield from self._arrive(edge, encoding, layout)
            if edge.given:
                for kept in spread(layout, limits.SPREAD_STARTS):
                    yield from self._arrive(edge, None, kept)
        elif not edge.given:
            try:
                layout = layout_in(candidate, edge.source.shape, edge.wanted)
                encoding = sliced(candidate.encoding, edge.wanted)
            except NoLayout:
                return
            yield from self._add(edge.source, layout, encoding)

    def _arrive(
        self, edge: Edge, encoding: str | None, layout: LinearLayout
    ) -> Iterator[tuple[Group, Candidate]]:
        """Let the target of `edge` choose a layout under which its operand has `layout`."""
        target = edge.target
        for axis in reversed(edge.wanted):
            if isinstance(axis, ShapeChange):
                changed = axis.forward(layout)
                if changed is None:
                    return
                layout, encoding = changed, None
                continue
            slice_ = f"#ttg.slice<{{dim = {axis}, parent = "
            encoding = encoding[len(slice_) : -2] if encoding and encoding.startswith(slice_) else None
            layout = transfer.expand_dims(layout, axis)
        if encoding is None and not layout.is_surjective():
            return
        try:
            if encoding is None and _is_whole(layout, target.shape):  # most are known already
                yield from self._add(target, layout)
            else:
                encoding = encoding or memory.encoding_text(layout)
                yield from self._add(target, layout_of(encoding, target.shape), encoding)
        except (NoLayout, ValueError):
            return


def _is_whole(layout: LinearLayout, shape: tuple[int, ...]) -> bool:
    """Whether a layout is that of a tensor of this shape, and no register holds a copy."""
    registers = dict(layout.bases)[REGISTER]
    return tuple([size for _, size in layout.out_dims]) == shape and all(map(any, registers))


def spread(layout: LinearLayout, starts: int) -> Iterator[LinearLayout]:
    """Layouts in which lanes and warps that hold copies keep different registers of theirs instead.

    They keep registers in a row from one of the first `starts` on, as many as find room, or the highest. No
    element leaves its thread: a thread's registers become fewer.
    """
    bases = {name: list(vectors) for name, vectors in layout.bases}
    free = [(name, i) for name in (LANE, WARP) for i, basis in enumerate(bases.get(name, ())) if not any(basis)]
    registers = bases[REGISTER]
    if not free or not registers:
        return
    # The first registers may be those of a vector.
    choices = [registers[kept:][: len(free)] for kept in range(min(starts, len(registers)))]
    for moved in (*choices, registers[-len(free) :]):
        changed = {name: list(vectors) for name, vectors in layout.bases}
        for (name, index), basis in zip(free, moved, strict=False):
            changed[name][index] = basis
        changed[REGISTER] = [basis for basis in registers if basis not in moved]
        yield LinearLayout.fitted(tuple((name, tuple(v)) for name, v in changed.items()), layout.out_dims)


def has_sums(layout: LinearLayout) -> bool:
    """Whether a basis vector has several bits."""
    return any(column & (column - 1) for column in layout.matrix())


def reducible(candidate: Candidate, axis: int) -> bool:
    """Whether Triton's lowering reduces a tensor of this layout along `axis` rightly.

    It takes the lanes along the axis for one run of bits, and finds warps along it by an encoding's own account
    of them, which a `#ttg.linear` one does not have.
    """
    bases = dict(candidate.layout.bases)
    along = [index for index, basis in enumerate(bases[LANE]) if basis[axis]]
    if along and along[-1] - along[0] + 1 != len(along):
        return False
    if any(basis[axis] and sum(map(bool, basis)) > 1 for vectors in bases.values() for basis in vectors):
        return False
    crosses = any(basis[axis] for basis in bases.get(WARP, ()))
    return not crosses or not candidate.encoding.startswith("#ttg.linear")
