"""Exchanges among the CTAs of a cluster that need no second barrier.

An exchange stores, waits for the cluster, and loads from other CTAs. Until all CTAs have loaded, none may store
to these bytes again. The barrier behind the loads ensures it. The barrier inside the next exchange ensures it
too, if that exchange stored to other bytes. So exchanges of a function, or of a warp-specialised region, take
turns with two pieces of scratch, which no other operation uses while that runs. Let E have piece p:

- If every exchange that may come next has the other piece, E needs no second barrier: a thread that stores to p
  again has passed the barrier of another exchange, behind E's loads.
- If some exchange that may come next has p (for example in a loop with one exchange), E keeps its second
  barrier, or all exchanges alternate: each takes the piece that the one before it had not, in the order in
  which they run. A word of each thread, in memory of its own, says which piece that is. Loading it takes less
  than any barrier of a cluster.

No CTA may exit, or use the bytes otherwise, before others have loaded from it: one more barrier stands at the
end of the function or region.

The exchanges that may come next follow from the regions of the operations. Of the regions of `scf.if` one runs.
The regions of any other operation may run in any order, repeatedly, or not at all.
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
WORD_BYTES = 4
_CHOICE = "scf.if"


@dataclass(frozen=True, slots=True)
class Turn:
    """The piece of scratch of an exchange; `closes`: it keeps the barrier behind its loads.

    half: if exchanges alternate, piece 0 is of all of them, and consists of two pieces of `half` bytes each and
    of a word for each of `threads` threads; else 0.
    """

    piece: int
    closes: bool
    half: int = 0
    threads: int = 0

    @property
    def bytes(self) -> int:
        """What all of that takes, if exchanges alternate."""
        return 2 * self.half + WORD_BYTES * self.threads


@dataclass(frozen=True, slots=True)
class Order:
    """The order of exchanges on all paths.

    first, last: the exchanges that may be first and last on a path. may_be_empty: true if some path has no
    exchange. follow: for each exchange, those that may be the next one.
    """

    first: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()
    may_be_empty: bool = True
    follow: Mapping[int, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def one(cls, number: int) -> Order:
        """The order of a single exchange."""
        return cls(frozenset({number}), frozenset({number}), False, {number: frozenset()})

    def then(self, other: Order) -> Order:
        """The order of a sequence: this, then `other`."""
        return Order(
            self.first | other.first if self.may_be_empty else self.first,
            other.last | self.last if other.may_be_empty else other.last,
            self.may_be_empty and other.may_be_empty,
            self._joined(other, dict.fromkeys(self.last, other.first)),
        )

    def either(self, other: Order) -> Order:
        """The order of a choice: this or `other`."""
        return Order(
            self.first | other.first,
            self.last | other.last,
            self.may_be_empty or other.may_be_empty,
            self._joined(other, {}),
        )

    def repeated(self) -> Order:
        """The order of a loop: this any number of times, or not at all."""
        again = self._joined(Order(), dict.fromkeys(self.last, self.first))
        return Order(self.first, self.last, True, again)

    def _joined(self, other: Order, more: Mapping[int, frozenset[int]]) -> dict[int, frozenset[int]]:
        none: frozenset[int] = frozenset()
        return {
            number: self.follow.get(number, none) | other.follow.get(number, none) | more.get(number, none)
            for number in (*self.follow, *other.follow)
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of one stretch of a function; with `repeats`, any of them may run, any number of times."""

    bodies: tuple[Stretch, ...]
    repeats: bool


Stretch: TypeAlias = tuple[int | Choice, ...]
"""Exchanges (by the numbers of their operations) and choices, in the order of a function."""


def stretch_of(block: Block, begin: int, exchanges: Collection[int]) -> Stretch:
    """The exchanges of a block.

    Requires: operations are numbered in the order of the text, with `begin` for the first one of the block.
    """
    return _of_block(block, itertools.count(begin), exchanges)


def _of_block(block: Block, numbers: Iterator[int], exchanges: Collection[int]) -> Stretch:
    found: list[int | Choice] = []
    for op in block.operations:
        number = next(numbers)
        found += [number] if number in exchanges else []
        inside = [_of_blocks(list(region.blocks), numbers, exchanges) for region in op.operation.regions]
        if any(inside):
            found.append(Choice(tuple(inside), op.operation.name != _CHOICE))
    return tuple(found)


def _of_blocks(blocks: Sequence[Block], numbers: Iterator[int], exchanges: Collection[int]) -> Stretch:
    found = [_of_block(block, numbers, exchanges) for block in blocks]
    if len(found) == 1 or not any(found):
        return found[0] if found else ()
    return (Choice(tuple(found), repeats=True),)


def order_of(stretch: Stretch, chosen: Collection[int]) -> Order:
    """The order of the `chosen` exchanges of a stretch.

    >>> order_of((1, Choice(((2,), ()), repeats=False), 3), {1, 2, 3}).follow[1] == {2, 3}
    True
    """
    order = Order()
    for step in stretch:
        if isinstance(step, Choice):
            bodies = [order_of(body, chosen) for body in step.bodies]
            choice = functools.reduce(Order.either, bodies) if bodies else Order()
            order = order.then(choice.repeated() if step.repeats else choice)
        elif step in chosen:
            order = order.then(Order.one(step))
    return order


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
