"""Arguments of a launch that are 1, which Triton's cache key says and its code does not use.

Triton makes a constant of an integer argument that is 1, unless its parameter is annotated with a type
(`stride: tl.int64`): then 1 is part of the key under which the kernel is kept in memory, and the code reads the
argument all the same. So where a stride of 1 is annotated, Triton does not see that elements are next to each
other, and loads them one by one.

A kernel of a contest is launched under that key alone. So its code may take the 1 for granted: its parameter is
replaced by a constant in Triton's first module (TTIR), from which Triton then chooses layouts. It is taken if
that leaves all bits as they are (`same_bits`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple

Attributes = Mapping[Any, Any]
"""What Triton knows of a kernel's parameters, by their paths."""

_ENTRY: Final = "  tt.func public @"
_PARAMETER: Final = re.compile(r"%(?P<name>[\w$.-]+): (?P<type>i\d+)\b|%[\w$.-]+: ")


class Units(NamedTuple):
    """The arguments of a launch that are 1 and that its code reads. arguments: their numbers in the launch.
    parameters: their numbers in the compiled function, which has no parameters for constants."""

    arguments: tuple[int, ...] = ()
    parameters: tuple[int, ...] = ()

    @classmethod
    def of(cls, specialization: Sequence[Any]) -> Units:
        """Those of a launch. specialization: Triton's key of each argument: its type, and what else is known.

        >>> Units.of([("*fp32", "D"), ("constexpr", 1), ("i64", 1), ("i64", "D"), ("i32", 1)])
        Units(arguments=(2, 4), parameters=(1, 3))
        """
        units, parameters, constants = [], [], 0
        for number, (type_, known) in enumerate(each[:2] for each in specialization):
            if not isinstance(type_, str) or type_.startswith("tensordesc"):
                break  # which is several parameters
            constants += type_ == "constexpr"
            if type(known) is int and known == 1 and type_ != "constexpr":
                units.append(number)
                parameters.append(number - constants)
        return cls(tuple(units), tuple(parameters))

    def hold(self, arguments: Sequence[Any]) -> bool:
        """True if they are 1 in a launch: who keeps a kernel may launch it with others."""
        return all(type(arguments[number]) is int and arguments[number] == 1 for number in self.arguments)


NO_UNITS: Final = Units()
_KEY: Final = ("triton_linear", "units")
"""The path under which `Units` are among the attributes of parameters."""


def marking(stock: Callable[..., Any], wanted: Callable[[], bool]) -> Callable[..., Any]:
    """`JITFunction._pack_args`, whose attributes also have the units of the launch if they are `wanted`."""

    @wraps(stock)
    def _pack_args(self: Any, backend: Any, kwargs: Any, bound: Any, specialization: Any, given: Any) -> Any:
        options, signature, constants, attributes = stock(self, backend, kwargs, bound, specialization, given)
        if wanted():
            attributes = {**attributes, _KEY: Units.of(specialization)}
        return options, signature, constants, attributes

    return _pack_args


def unmarked(attributes: Attributes) -> tuple[dict[Any, Any], Units]:
    """The attributes as stock Triton has them, and the units of the launch, if it is known."""
    others = {path: found for path, found in attributes.items() if path != _KEY}
    return others, attributes.get(_KEY, NO_UNITS)


def with_units(ttir: str, parameters: Iterable[int]) -> str:
    """TTIR, as Triton prints it, in which some parameters of the kernel are replaced by 1.

    >>> print(with_units("  tt.func public @f(%n: i64) {\\n    use %n : i64\\n", [0]))
      tt.func public @f(%n_is_1: i64) {
        %n = arith.constant 1 : i64
        use %n : i64
    <BLANKLINE>

    Raises ValueError if one is no integer.
    """
    lines = ttir.split("\n")
    entry = next(number for number, line in enumerate(lines) if line.startswith(_ENTRY))
    declared = list(_PARAMETER.finditer(lines[entry]))
    constants = []
    for parameter in sorted(parameters, reverse=True):
        found = declared[parameter]
        if not found["name"]:
            raise ValueError(f"parameter {parameter} is no integer: {lines[entry][found.start() :][:60]}")
        constants.append(f"    %{found['name']} = arith.constant 1 : {found['type']}")
        end = found.end("name")
        lines[entry] = f"{lines[entry][:end]}_is_1{lines[entry][end:]}"
    lines[entry + 1 : entry + 1] = constants
    return "\n".join(lines)
