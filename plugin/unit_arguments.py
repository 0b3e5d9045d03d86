"""Arguments of a launch that are 1, which Triton's cache key says and its code does not use.

Triton makes a constant of an integer argument that is 1, unless its parameter is annotated with a type
(`stride: tl.int64`): then 1 is part of the key under which the kernel is kept in memory, and the code reads the
argument all the same. So where a stride of 1 is annotated, Triton does not see that elements are next to each
other, and loads them one by one.

A kernel of a contest is launched under that key alone. So its code may be specialised: a parameter that is a
stride (`passes.reductions.strides`) becomes a constant in Triton's first module (TTIR), from which Triton then
chooses layouts. The result is in the contest if all bits stay (`same_bits`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple

_ENTRY: Final = "  tt.func public @"
_PARAMETER: Final = re.compile(r"%(?P<name>[\w$.-]+): (?P<type>i\d+)\b|%[\w$.-]+: ")


class UnitArguments(NamedTuple):
    """The arguments of a launch that are 1 and that its code reads. arguments: their numbers in the launch.
    parameters: their numbers in the compiled function, which has no parameters for constants."""

    arguments: tuple[int, ...] = ()
    parameters: tuple[int, ...] = ()

    @classmethod
    def of(cls, specialization: Sequence[Any]) -> UnitArguments:
        """Those of a launch. specialization: Triton's key of each argument: its type, and what else is known.

        >>> UnitArguments.of([("*fp32", "D"), ("constexpr", 1), ("i64", 1), ("i64", "D"), ("i32", 1)])
        UnitArguments(arguments=(2, 4), parameters=(1, 3))
        """
        units, parameters, constants = [], [], 0
        for number, each in enumerate(specialization):
            # What a hook of stages adds to the key ("custom_pipeline") is a text.
            type_, known = ("", None) if isinstance(each, str) else each
            if not isinstance(type_, str) or type_.startswith("tensordesc"):
                break  # several parameters of the compiled function: none behind it is specialised
            constants += type_ == "constexpr"
            if type(known) is int and known == 1 and type_ != "constexpr":
                units.append(number)
                parameters.append(number - constants)
        return cls(tuple(units), tuple(parameters))


NO_UNITS: Final = UnitArguments()


class _Attributes(dict[Any, Any]):
    """What Triton knows of a kernel's parameters, and the units of the launch."""

    units: UnitArguments = NO_UNITS


def marking(stock: Callable[..., Any], wanted: Callable[[], bool]) -> Callable[..., Any]:
    """`JITFunction._pack_args`, whose attributes also have the units of the launch if they are `wanted`."""

    @wraps(stock)
    def _pack_args(self: Any, backend: Any, kwargs: Any, bound: Any, specialization: Any, given: Any) -> Any:
        options, signature, constants, attributes = stock(self, backend, kwargs, bound, specialization, given)
        if wanted():
            attributes = _Attributes(attributes)
            attributes.units = UnitArguments.of(specialization)
        return options, signature, constants, attributes

    return _pack_args


def units_of(attributes: Mapping[Any, Any]) -> UnitArguments:
    """The units of the launch for which a kernel is compiled, if they are known."""
    return attributes.units if isinstance(attributes, _Attributes) else NO_UNITS


def are_units(numbers: Iterable[int], arguments: Sequence[Any]) -> bool:
    """True if these arguments of a launch are 1, by their numbers."""
    return all(type(arguments[number]) is int and arguments[number] == 1 for number in numbers)


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
        end, other = found.end("name"), "_is_1"
        while f"{found['name']}{other}" in ttir:
            other += "_"
        lines[entry] = f"{lines[entry][:end]}{other}{lines[entry][end:]}"
    lines[entry + 1 : entry + 1] = constants
    return "\n".join(lines)
