"""Which exchanges among the CTAs of a cluster can do without their second barrier.

An exchange stores, waits for the cluster, and loads from other CTAs. Until all have loaded, nobody may store to
these bytes again. The barrier behind the loads says so; the barrier inside the exchange that comes next says so
too, if that has stored to other bytes. So exchanges take turns with two pieces of scratch, which nobody else
has while the function runs. Let E have piece p:

- Whatever exchange comes next on any path has the other piece: E needs no second barrier. Who stores to p
  again has come through the barrier of another exchange, behind E's loads.
- Some exchange that may come next has p (a loop with one exchange, say): E keeps it.

No CTA may end before others have loaded from it: one more barrier stands at the end of the function, for all.

What may come next is read from the regions of the operations. Those of `scf.if` do not follow each other; those
of any other operation may, may run again, and may be left out.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from triton_linear.dialect.mlir_adapter import Block
from triton_linear.dialect.records import dataclass

PIECES = 2
_CHOICE = "scf.if"


@dataclass(frozen=True, slots=True)
class Turn:
    """The piece of scratch that an exchange has; `closes`: it keeps the barrier behind its loads."""

    piece: int
    closes: bool


@dataclass(frozen=True, slots=True)
class Order:
    """The exchanges that may come `first`, those that may be `last`, whether none may come at all, and of each
    those that may `follow` it."""

    first: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()
    passed: bool = True
    follow: Mapping[int, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def one(cls, number: int) -> Order:
        """A single exchange."""
        return cls(frozenset({number}), frozenset({number}), False, {number: frozenset()})

    def then(self, other: Order) -> Order:
        """This, and the other behind it."""
        return Order(
            self.first | other.first if self.passed else self.first,
            other.last | self.last if other.passed else other.last,
            self.passed and other.passed,
            self._joined(other, dict.fromkeys(self.last, other.first)),
        )

    def either(self, other: Order) -> Order:
        """This or the other."""
        return Order(
            self.first | other.first,
            self.last | other.last,
            self.passed or other.passed,
            self._joined(other, {}),
        )

    def repeated(self) -> Order:
        """This any number of times, or not at all."""
        again = self._joined(Order(), dict.fromkeys(self.last, self.first))
        return Order(self.first, self.last, True, again)

    def _joined(self, other: Order, more: Mapping[int, frozenset[int]]) -> dict[int, frozenset[int]]:
        none: frozenset[int] = frozenset()
        return {
            number: self.follow.get(number, none) | other.follow.get(number, none) | more.get(number, none)
            for number in (*self.follow, *other.follow)
        }


@dataclass(frozen=True, slots=True)
class Ways:
    """One of several stretches of a function runs; where it `repeats` any of them, any number of times."""

    bodies: tuple[Stretch, ...]
    repeats: bool


Stretch: TypeAlias = tuple[int | Ways, ...]
"""Exchanges, by the numbers of their operations, and what is between them, in the order of a function."""


def stretch_of(block: Block, begin: int, exchanges: Collection[int]) -> Stretch:
    """The exchanges of a block.

    Requires: operations are numbered as they are written, from `begin` for the first one of the block.
    """
    return _of_block(block, itertools.count(begin), exchanges)


def _of_block(block: Block, numbers: Iterator[int], exchanges: Collection[int]) -> Stretch:
    found: list[int | Ways] = []
    for op in block.operations:
        number = next(numbers)
        found += [number] if number in exchanges else []
        inside = [_of_blocks(list(region.blocks), numbers, exchanges) for region in op.operation.regions]
        if any(inside):
            found.append(Ways(tuple(inside), op.operation.name != _CHOICE))
    return tuple(found)


def _of_blocks(blocks: Sequence[Block], numbers: Iterator[int], exchanges: Collection[int]) -> Stretch:
    found = [_of_block(block, numbers, exchanges) for block in blocks]
    if len(found) == 1 or not any(found):
        return found[0] if found else ()
    return (Ways(tuple(found), repeats=True),)


def order_of(stretch: Stretch, chosen: Collection[int]) -> Order:
    """In which order the `chosen` exchanges of a stretch may come.

    >>> order_of((1, Ways(((2,), ()), repeats=False), 3), {1, 2, 3}).follow[1] == {2, 3}
    True
    """
    order = Order()
    for step in stretch:
        if isinstance(step, Ways):
            ways = any_of([order_of(body, chosen) for body in step.bodies])
            order = order.then(ways.repeated() if step.repeats else ways)
        elif step in chosen:
            order = order.then(Order.one(step))
    return order


def any_of(orders: Sequence[Order]) -> Order:
    """One of these; none comes where there are none."""
    return functools.reduce(Order.either, orders) if orders else Order()


def turns(order: Order) -> dict[int, Turn]:
    """The turn of each exchange.

    >>> a, b, c = map(Order.one, (1, 2, 3))
    >>> {n: (t.piece, t.closes) for n, t in turns(a.then(b).repeated().then(c)).items()}
    {1: (0, False), 2: (1, False), 3: (0, False)}
    >>> turns(a.repeated())[1].closes
    True
    """
    pieces: dict[int, int] = {}
    for number in sorted(order.follow):
        near = {
            pieces[other] for other in pieces if number in order.follow[other] or other in order.follow[number]
        }
        pieces[number] = next((piece for piece in range(PIECES) if piece not in near), 0)
    return {
        number: Turn(
            piece,
            any(pieces[following] == piece for following in order.follow[number]),
        )
        for number, piece in pieces.items()
    }
