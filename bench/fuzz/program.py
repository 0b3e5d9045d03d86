"""Programs as data: a sequence of steps on a tensor, none of which changes its shape or element type.

The effect of a step on the tensor's elements is described in its docstring and implemented in `evaluate`; it
does not depend on layouts. A step that needs another shape has inner steps that work on that shape. So any
step can be removed, or replaced by its inner steps, and the rest is still a program; `shrink` depends on
this.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Convert:
    """`ttg.convert_layout` to an encoding."""

    encoding: str


@dataclass(frozen=True)
class Shared:
    """A store to shared memory in layout `source`, and a load in layout `encoding`.

    `hoisted`: the buffer is allocated at the top of the function, so all iterations of a loop use the same one.
    """

    memory: str
    source: str
    encoding: str
    hoisted: bool


@dataclass(frozen=True)
class Reduce:
    """x + 2 * reduce(x), as integers: a reduction along `axis` with `operation`, in layout `encoding`.

    The steps `inner` are applied to the reduced tensor before it is broadcast.
    """

    axis: int
    operation: str
    encoding: str
    inner: Steps = ()


@dataclass(frozen=True)
class Scan:
    """Prefix sums along `axis` (`reverse`: suffix sums), as integers."""

    axis: int
    encoding: str
    reverse: bool


@dataclass(frozen=True)
class Add:
    """The addition of a constant to each element, as integers."""

    by: int


@dataclass(frozen=True)
class Transposed:
    """The steps `inner` on the transpose, whose dimension i is the tensor's dimension `order[i]`.

    The layout is `encoding` before the transpose, and `inner_encoding` after `inner`; both are linear.
    """

    order: tuple[int, ...]
    encoding: str
    inner_encoding: str
    inner: Steps


@dataclass(frozen=True)
class Reshaped:
    """The steps `inner` on the tensor reshaped to `shape`; layouts as in Transposed."""

    shape: tuple[int, ...]
    encoding: str
    inner_encoding: str
    inner: Steps


@dataclass(frozen=True)
class Loop:
    """A loop (`scf.for` or `scf.while`) that runs `inner` `trips` times, and carries the tensor in layout
    `encoding`.
    """

    kind: str
    trips: int
    encoding: str
    inner: Steps


@dataclass(frozen=True)
class Branch:
    """`scf.if`: `inner` in even iterations of the innermost loop and outside of loops, `other` in odd ones.

    Both branches return the tensor in layout `encoding`.
    """

    encoding: str
    inner: Steps
    other: Steps


@dataclass(frozen=True)
class Park:
    """y + 2 * x, as integers, where y is the result of `inner` on x, and x is kept until then.

    x is kept in registers, or, if `memory` is not empty, in shared memory with that encoding, stored in layout
    `source`. `encoding` is the layout of the sum.
    """

    memory: str
    source: str
    encoding: str
    inner: Steps


Step: TypeAlias = Convert | Shared | Reduce | Scan | Add | Transposed | Reshaped | Loop | Branch | Park
Steps: TypeAlias = tuple[Step, ...]
STEPS: tuple[type[Any], ...] = (
    Convert,
    Shared,
    Reduce,
    Scan,
    Add,
    Transposed,
    Reshaped,
    Loop,
    Branch,
    Park,
)


@dataclass(frozen=True)
class Program:
    """A function of one tensor: `steps` on an argument in layout `source`, in clusters of `ctas` CTAs.
    `region`: its region in a module of warp-specialised regions; such a program has no reproducer.
    """

    target: str
    warps: int
    shape: tuple[int, ...]
    element: str
    source: str
    steps: Steps
    region: int = 0
    ctas: int = 1

    def type(self, encoding: str) -> str:
        """The argument's type, with another encoding."""
        return f"tensor<{'x'.join(map(str, self.shape))}x{self.element}, {encoding}>"


def children(step: Step) -> dict[str, Steps]:
    """The inner steps of a step, by the name of the field that has them."""
    return {name: getattr(step, name) for name in ("inner", "other") if hasattr(step, name)}


def all_steps(steps: Steps) -> Iterator[Step]:
    """All steps, outer ones before their inner ones."""
    for step in steps:
        yield step
        for inner in children(step).values():
            yield from all_steps(inner)


def as_json(program: Program) -> str:
    """The program as JSON on one line, for `from_json`."""

    def plain(value: Any) -> Any:
        if isinstance(value, STEPS):
            fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
            return {"step": type(value).__name__, **fields}
        if isinstance(value, tuple):
            return [plain(v) for v in value]
        return value

    names = [field.name for field in dataclasses.fields(program) if field.name != "region" or program.region]
    return json.dumps({name: plain(getattr(program, name)) for name in names})


def from_json(text: str) -> Program:
    """The program that `as_json` wrote; raises ValueError for anything else."""

    def step(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(step(v) for v in value)
        if isinstance(value, dict):
            kinds = {kind.__name__: kind for kind in STEPS}
            fields = {name: step(v) for name, v in value.items() if name != "step"}
            return kinds[value["step"]](**fields)
        return value

    try:
        fields = {name: step(value) for name, value in json.loads(text).items()}
        return Program(**fields)
    except (TypeError, KeyError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"not a program: {error}") from error


HEADER = "// bench.fuzz: "


def program_in(text: str) -> Program | None:
    """The program in a reproducer's header; None if there is no header. Raises ValueError if it is invalid."""
    found = re.match(rf"{re.escape(HEADER)}(.*)$", text, re.MULTILINE)
    return from_json(found[1]) if found else None
