"""A function as a list of closures: its types, its values, and the builder that handlers write to.

A value of the function is a tree fixed at compile time: a slot number for a scalar, a tuple of trees for a
vector or struct. Moving values in and out of aggregates, zero extension and casts of equal width therefore
cost nothing at run time. A slot holds an array of bit patterns of shape (trials or 1, threads or 1). If some of
its bits are undefined, their mask is kept beside it. POISON stands for a whole value that `llvm.mlir.poison`
made: every operation on it except moving it yields POISON.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, TypeAlias, Union

import numpy as np
import numpy.typing as npt
from mlir import ir  # type: ignore[attr-defined, import-untyped, unused-ignore]

from triton_linear.lowering.interpreter.memory import Bits, IllegalAccess, SharedMemory, SimulationError
from triton_linear.lowering.target.targets import Target

POISON: Final = -1
Tree: TypeAlias = Union[int, "tuple[Tree, ...]"]
FULL: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Scalar:
    """An integer, float or pointer of `bits` bits; `space` is a pointer's address space."""

    bits: int
    space: int | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A vector, array or struct; `fields` are its elements' types."""

    kind: str
    fields: tuple[Type, ...]


Type: TypeAlias = Scalar | Aggregate


def scalar_mask(bits: int) -> np.uint64:
    """The low `bits` bits set."""
    mask: np.uint64 = np.uint64(FULL >> (64 - bits))
    return mask


def constant_bits(value: int, bits: int = 64) -> Bits:
    """The array of a slot with the same value in all threads."""
    return np.full((1, 1), value & (FULL >> (64 - bits)), np.uint64)


def byte_size(type_: Type) -> int:
    """Bytes between consecutive elements of this type in memory; vectors are padded to a power of two."""
    if isinstance(type_, Scalar):
        return -(-type_.bits // 8)
    if type_.kind == "vector":
        bits = sum(element_bits(element) for element in type_.fields)
        return 1 << (-(-bits // 8) - 1).bit_length()
    if type_.kind == "array":
        return len(type_.fields) * byte_size(type_.fields[0])
    raise SimulationError("the memory layout of structs is not interpreted")


def element_bits(type_: Type) -> int:
    """Width of a scalar."""
    if isinstance(type_, Scalar):
        return type_.bits
    raise SimulationError(f"expected a scalar, got a {type_.kind}")


def elements(type_: Type) -> tuple[Type, ...]:
    """Element types of a vector, or the scalar itself."""
    return (type_,) if isinstance(type_, Scalar) else type_.fields


def text_of(attribute: ir.Attribute) -> str:
    """The string that an attribute holds."""
    return str(attribute).strip('"')


def leaves(tree: Tree) -> tuple[int, ...]:
    """Slots of a scalar or vector in order."""
    if isinstance(tree, int):
        return (tree,)
    return tuple(leaf for part in tree for leaf in leaves(part))


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The sources of a lane exchange.

    thread: the thread that each thread reads. inside: 1 if the requested lane was in range. unsupplied: the
    bits of the result that no thread supplies; None: none.
    """

    thread: npt.NDArray[np.intp]
    inside: Bits
    unsupplied: Bits | None = None


class Machine:
    """State of one run: slot values, undefined bits, shared memory, and values derived from slots.

    first: the number of its first thread in the CTA. ask: a function that returns the next register of a given
    tensor, or None.
    """

    __slots__ = (
        "ask",
        "conditions",
        "first",
        "lane",
        "lanes",
        "memory",
        "sinks",
        "sources",
        "thread",
        "threads",
        "undefined",
        "values",
    )

    def __init__(self, slots: int, threads: int, lanes: int, memory: SharedMemory) -> None:
        self.values: list[Bits] = [_UNSET] * slots
        self.undefined: dict[int, Bits] = {}
        self.threads = threads
        self.lanes = lanes
        self.first = 0
        self.ask: Callable[[str], Bits] | None = None
        self.memory = memory
        self.thread = np.arange(threads, dtype=np.int64)
        self.lane = self.thread % lanes
        self.conditions: dict[int, npt.NDArray[np.bool_]] = {}
        self.sources: dict[Hashable, Source] = {}
        self.sinks: dict[str, list[tuple[Bits, Bits]]] = {}

    def taint(self, result: int, bits: int, *operands: int) -> None:
        """Make the result undefined in the threads in which an operand has an undefined bit."""
        masks = [self.undefined[x] for x in operands if x in self.undefined]
        if masks:
            touched = masks[0] != 0
            for mask in masks[1:]:
                touched = touched | (mask != 0)
            self.undefined[result] = np.where(touched, scalar_mask(bits), np.uint64(0))

    def refuse_undefined(self, slot: int, what: str) -> None:
        """Raise if any bit of the slot is undefined in an active thread."""
        if slot in self.undefined and self.executing(self.undefined[slot]).any():
            raise IllegalAccess(f"{what} is undefined")

    def executing(self, value: Bits) -> Bits:
        """The values of the active threads."""
        active = self.memory.active
        return value if active is None or value.shape[1] == 1 else value[:, active]


_UNSET: Final = np.zeros((1, 1), np.uint64)

Step: TypeAlias = Callable[[Machine], None]


@dataclass(slots=True)
class Builder:
    """Collects the steps of a function; a handler reads operands through it and emits steps. `independent`: the
    steps are run by one of several independent warps."""

    target: Target
    threads: int
    independent: bool = False
    operation: int = 0
    slots: int = 0
    granule: int = 8
    shuffles: int = 0
    warp_barriers: int = 0
    cta_barriers: int = 0
    released: bool = False
    arriving: bool = False
    waited: bool = False
    has_flags: bool = False
    steps: list[Step] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    initial: list[tuple[int, Bits]] = field(default_factory=list)
    constants: dict[int, int] = field(default_factory=dict)
    alu: Counter[str] = field(default_factory=Counter)
    values: dict[ir.Value, Tree] = field(default_factory=dict)
    types: dict[ir.Type, Type] = field(default_factory=dict)
    undefined_slot: int = field(init=False)

    def __post_init__(self) -> None:
        self.undefined_slot = self.new()
        self.initial.append((self.undefined_slot, constant_bits(0)))

    def new(self) -> int:
        """A new slot."""
        self.slots += 1
        return self.slots - 1

    def emit(self, step: Step) -> None:
        """Append a step of the current operation."""
        self.steps.append(step)
        self.origins.append(self.operation)

    def constant(self, value: int, bits: int) -> int:
        """A slot with the same value in all threads."""
        slot = self.new()
        value &= FULL >> (64 - bits)
        self.initial.append((slot, constant_bits(value)))
        self.constants[slot] = value
        return slot

    def tree(self, value: ir.Value) -> Tree:
        """The value's tree."""
        return self.values[value]

    def operands(self, op: ir.Operation) -> list[Tree]:
        """Trees of all operands."""
        values = self.values
        return [values[operand] for operand in op.operands]

    def scalar(self, tree: Tree) -> int:
        """The slot of a scalar; raises SimulationError for an aggregate or poison."""
        if not isinstance(tree, int):
            raise SimulationError("expected a scalar, got an aggregate")
        if tree == POISON:
            raise SimulationError("operand is poison")
        return tree

    def type_of(self, value: ir.Value) -> Type:
        """The value's type."""
        return self.read_type(value.type)

    def bits_of(self, value: ir.Value) -> int:
        """Width of a scalar value, or of a vector's elements."""
        type_ = self.read_type(value.type)
        return type_.bits if isinstance(type_, Scalar) else element_bits(type_.fields[0])

    def read_type(self, type_: ir.Type) -> Type:
        """The interpreter's form of an MLIR type."""
        found = self.types.get(type_)
        if found is None:
            found = self.types[type_] = parse_type(str(type_))
        return found

    def solid(self, slot: int) -> int:
        """The slot itself, or the undefined slot in place of poison."""
        return self.undefined_slot if slot == POISON else slot

    def solid_tree(self, tree: Tree) -> Tree:
        """The tree with the undefined slot in place of poison."""
        return self.solid(tree) if isinstance(tree, int) else tuple(map(self.solid_tree, tree))


_WIDTHS: Final = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


@functools.cache
def parse_type(text: str) -> Type:
    """Parse the text of an LLVM-dialect type.

    >>> parse_type("vector<2xf16>")
    Aggregate(kind='vector', fields=(Scalar(bits=16, space=None), Scalar(bits=16, space=None)))
    """
    text = text.strip()
    if integer := re.fullmatch(r"i(\d+)", text):
        bits = int(integer[1])
        if 1 <= bits <= 64:
            return Scalar(bits)
    if text in _WIDTHS:
        return Scalar(_WIDTHS[text])
    if re.fullmatch(r"f8E\d+M\d+\w*", text):
        return Scalar(8)
    if pointer := re.fullmatch(r"(?:!llvm\.)?ptr(?:<(\d+)>)?", text):
        return Scalar(64, int(pointer[1] or 0))
    if sequence := re.fullmatch(r"(?:!llvm\.)?(vector|array|vec)<\s*(\d+)\s*x\s*(.*)>", text, re.DOTALL):
        kind = "array" if sequence[1] == "array" else "vector"
        return Aggregate(kind, (parse_type(sequence[3]),) * int(sequence[2]))
    if struct := re.fullmatch(r"(?:!llvm\.)?struct<(?:packed )?\((.*)\)>", text, re.DOTALL):
        return Aggregate("struct", tuple(parse_type(part) for part in _split(struct[1])))
    raise SimulationError(f"type '{text}' is not interpreted")


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    if "<" not in text:
        return text.split(",") if text.strip() else []
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]
