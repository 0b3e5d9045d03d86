"""A replacement for `dataclasses.dataclass` that creates classes several times as fast.

The standard library composes and compiles the source of each method of each class on import. That takes 0.4
ms for a frozen class, and the first compile of a process imports two hundred. Here only `__init__` is
compiled: when the first instance is made, and once for all classes whose fields have the same kinds. The
other methods are closures over the names of the fields. The library still collects the fields, so `fields`,
`replace` and `astuple` work.

    >>> @dataclass(frozen=True, slots=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1, 2) == Point(1, y=2), len({Point(3), Point(3)})
    (Point(x=1, y=0), True, 1)
    >>> dataclasses.replace(Point(1, 2), x=5)
    Point(x=5, y=2)
    >>> Point(1).x = 2
    Traceback (most recent call last):
    ...
    dataclasses.FrozenInstanceError: cannot assign to field 'x'
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


def _with_methods(cls: type, *, eq: bool, repr: bool, frozen: bool, slots: bool) -> type:
    """The class with the methods of a dataclass, except those that it defines itself."""
    own = {name for name, value in vars(cls).items() if name != "__hash__" or value is not None}
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    fields = dataclasses.fields(cls)
    methods: dict[str, Any] = {"__init__": _late_init(cls, fields, frozen)}
    if repr:
        methods["__repr__"] = _repr(tuple(field.name for field in fields if field.repr))
    if eq:
        compared = tuple(field.name for field in fields if field.compare)
        hashed = tuple(field.name for field in fields if (field.compare if field.hash is None else field.hash))
        methods["__eq__"] = _eq(_values(compared))
        methods["__hash__"] = _hash(_values(hashed)) if frozen else None
    if frozen:
        methods |= {"__setattr__": _set_frozen, "__delattr__": _delete_frozen}
    if frozen and slots:
        methods |= {"__getstate__": _state, "__setstate__": _set_state}
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, eq=True, repr=True, frozen=False, slots=False):
        """As `dataclasses.dataclass`, without support for `order`, keyword-only fields and `InitVar`."""

        def decorate(cls):
            return _with_methods(cls, eq=eq, repr=repr, frozen=frozen, slots=slots)

        return decorate if cls is None else decorate(cls)


def _late_init(cls: Any, fields: tuple[dataclasses.Field[Any], ...], frozen: bool) -> Callable[..., None]:
    """An `__init__` that replaces itself by the compiled one when it is first called."""

    def __init__(self: Any, /, *arguments: Any, **named: Any) -> None:
        compiled = _init(cls, fields, frozen)
        if cls.__init__ is __init__:
            cls.__init__ = compiled
        compiled(self, *arguments, **named)

    return __init__


def _init(cls: Any, fields: tuple[dataclasses.Field[Any], ...], frozen: bool) -> Callable[..., None]:
    """The `__init__` of a class: the cached code for its kinds of fields, with its own field names put in."""
    scope: dict[str, Any] = {"_set_": object.__setattr__, "_missing_": MISSING}
    defaults, kinds = [], []
    has_slots = frozen and all(hasattr(getattr(cls, field.name, None), "__set__") for field in fields)
    for number, field in enumerate(fields):
        if has_slots:
            scope[f"_slot{number}_"] = getattr(cls, field.name).__set__
        has_factory, has_default = field.default_factory is not MISSING, field.default is not MISSING
        if has_factory:
            scope[f"_factory{number}_"] = field.default_factory
        elif has_default and not field.init:
            scope[f"_default{number}_"] = field.default
        if field.init and (has_factory or has_default):
            defaults.append(field.default)  # MISSING if there is a factory
        kinds.append((field.init, has_factory, has_default and not field.init))
    code = _code(tuple(kinds), frozen, has_slots, hasattr(cls, "__post_init__"))
    names = {f"field{number}_": field.name for number, field in enumerate(fields)}

    def renamed(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([names.get(value, value) if type(value) is str else value for value in values])

    consts, globals_, variables = map(renamed, (code.co_consts, code.co_names, code.co_varnames))
    code = code.replace(co_consts=consts, co_names=globals_, co_varnames=variables)
    init = FunctionType(code, scope, "__init__", tuple(defaults))
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@functools.cache
def _code(
    kinds: tuple[tuple[bool, bool, bool], ...], frozen: bool, has_slots: bool, post_init: bool
) -> CodeType:
    """The code of an `__init__` whose fields are `field0_`, `field1_` and so on: compiling takes 0.1 ms.

    kinds: of each field, whether it is a parameter, has a factory, or always has its default. has_slots:
    whether each of a frozen class is in a slot. post_init: whether the class has a `__post_init__`.
    """
    parameters, lines = ["self"], []
    for number, (is_parameter, has_factory, fixed) in enumerate(kinds):
        name = value = f"field{number}_"
        if is_parameter:
            parameters.append(name)
        if has_factory:
            value = f"_factory{number}_()"
            if is_parameter:
                value = f"{value} if {name} is _missing_ else {name}"
        elif not is_parameter:
            if not fixed:
                continue
            value = f"_default{number}_"
        if has_slots:  # half the time of `object.__setattr__`, which looks for the slot by its name
            lines.append(f"_slot{number}_(self, {value})")
        else:
            lines.append(f"_set_(self, '{name}', {value})" if frozen else f"self.{name} = {value}")
    if post_init:
        lines.append("self.__post_init__()")
    scope: dict[str, Any] = {}
    exec("\n ".join([f"def __init__({', '.join(parameters)}):", *lines, "return"]), scope)
    code: CodeType = scope["__init__"].__code__
    return code


def _values(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """A function that returns the values of these fields of an instance."""
    return attrgetter(*names) if names else lambda instance: ()


def _repr(names: tuple[str, ...]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({values})"

    return recursive_repr()(__repr__)


def _eq(values: Callable[[Any], Any]) -> Callable[[Any, object], Any]:
    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash(values: Callable[[Any], Any]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _set_frozen(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete_frozen(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    """`__getstate__` of an instance without a `__dict__`, for copying and pickling."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
