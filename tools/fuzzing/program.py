"""A program as data: a tensor that goes through steps, each of which leaves its shape and element type alone.

What a step does to coordinates and bits is said twice, in words by its docstring and in numpy by `evaluate`;
layouts do not come into it. A step that needs another shape has steps inside it that work on that. So any step
can be left out, or replaced by those inside it, and the rest is still a program: `shrink` lives on this.
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
    """Through shared memory: stored in layout `source`, loaded in layout `encoding`.

    `hoisted`: the buffer is made at the top of the function, so a loop stores to it again and again.
    """

    memory: str
    source: str
    encoding: str
    hoisted: bool


@dataclass(frozen=True)
class TensorMemory:
    """Through tensor memory with the encoding `memory`: stored in layout `source`, loaded in `encoding`."""

    memory: str
    source: str
    encoding: str


@dataclass(frozen=True)
class Reduce:
    """x + 2 * reduce(x), as integers: along `axis` by `operation` in layout `encoding`.

    The reduced tensor goes through `inner` before it is broadcast.
    """

    axis: int
    operation: str
    encoding: str
    inner: Steps = ()


@dataclass(frozen=True)
class Scan:
    """The sums of all elements up to each (`reverse`: from each on) along `axis`, as integers."""

    axis: int
    encoding: str
    reverse: bool


@dataclass(frozen=True)
class Add:
    """A constant added to each element, as integers."""

    by: int


@dataclass(frozen=True)
class Transposed:
    """`inner` on the transpose: dimension i of it is dimension `order[i]`.

    Layouts: `encoding` before, `inner_encoding` at the end of `inner`, both linear.
    """

    order: tuple[int, ...]
    encoding: str
    inner_encoding: str
    inner: Steps


@dataclass(frozen=True)
class Reshaped:
    """`inner` on the tensor reshaped to `shape`; layouts as in Transposed."""

    shape: tuple[int, ...]
    encoding: str
    inner_encoding: str
    inner: Steps


@dataclass(frozen=True)
class Loop:
    """`inner`, `trips` times, the tensor carried in layout `encoding` by `scf.for` or `scf.while`."""

    kind: str
    trips: int
    encoding: str
    inner: Steps


@dataclass(frozen=True)
class Branch:
    """`scf.if`: `inner` in even iterations of the innermost loop and outside of loops, `other` in odd ones.

    Both give the tensor in layout `encoding`.
    """

    encoding: str
    inner: Steps
    other: Steps


@dataclass(frozen=True)
class Park:
    """y + 2 * x, as integers, where y is what `inner` makes of x, and x is kept meanwhile.

    It is kept in registers, or in shared memory with the encoding `memory`, stored from layout `source`;
    `encoding` is that of the sum.
    """

    memory: str
    source: str
    encoding: str
    inner: Steps


Step: TypeAlias = (
    Convert | Shared | TensorMemory | Reduce | Scan | Add | Transposed | Reshaped | Loop | Branch | Park
)
Steps: TypeAlias = tuple[Step, ...]
STEPS: tuple[type[Any], ...] = (
    Convert,
    Shared,
    TensorMemory,
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
    """A function of one tensor: `steps` on an argument in layout `source`, in clusters of `ctas`; `region`:
    where it stands in a module of warp-specialised regions, which has no reproducer of its own."""

    target: str
    warps: int
    shape: tuple[int, ...]
    element: str
    source: str
    steps: Steps
    region: int = 0
    ctas: int = 1

    def type(self, encoding: str) -> str:
        """The argument's type with another encoding."""
        return f"tensor<{'x'.join(map(str, self.shape))}x{self.element}, {encoding}>"


def children(step: Step) -> dict[str, Steps]:
    """The steps inside a step, by the name of the field that holds them."""
    return {name: getattr(step, name) for name in ("inner", "other") if hasattr(step, name)}


def all_steps(steps: Steps) -> Iterator[Step]:
    """All steps, outer before inner."""
    for step in steps:
        yield step
        for inner in children(step).values():
            yield from all_steps(inner)


def as_json(program: Program) -> str:
    """The program on one line; `from_json` reads it."""

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


HEADER = "// triton-linear fuzz: "


def program_in(text: str) -> Program | None:
    """The program that a reproducer says it is, if it does; raises ValueError where that is not one."""
    found = re.match(rf"{re.escape(HEADER)}(.*)$", text, re.MULTILINE)
    return from_json(found[1]) if found else None
