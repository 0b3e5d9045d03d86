"""`dataclass` as the standard library has it, made several times as fast.

The library composes and compiles the source of each method of each class on import. That takes 0.4 ms for a
frozen one, and a process's first compile imports two hundred. Here only `__init__` is compiled, when the first
instance is made, and once for all classes with as many fields; the others are closures over the names of the
fields. The library still reads the fields, so `fields`, `replace`, `astuple` and the like know these classes.

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


def _made(cls: type, *, eq: bool, repr: bool, frozen: bool, slots: bool) -> type:
    """The class with the methods of a dataclass, but for those that it has itself."""
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
        """As the standard library's. Orders, fields of keywords only and `InitVar` are left to that."""

        def decorate(cls):
            return _made(cls, eq=eq, repr=repr, frozen=frozen, slots=slots)

        return decorate if cls is None else decorate(cls)


def _late_init(cls: Any, fields: tuple[dataclasses.Field[Any], ...], frozen: bool) -> Callable[..., None]:
    """An `__init__` that puts the compiled one into its place, and calls it."""

    def __init__(self: Any, /, *arguments: Any, **named: Any) -> None:
        compiled = _init(cls, fields, frozen)
        if cls.__init__ is __init__:
            cls.__init__ = compiled
        compiled(self, *arguments, **named)

    return __init__


def _init(cls: Any, fields: tuple[dataclasses.Field[Any], ...], frozen: bool) -> Callable[..., None]:
    """The `__init__` of a class: that of every class of its shape, with the names of its own fields."""
    scope: dict[str, Any] = {"_set_": object.__setattr__, "_missing_": MISSING}
    defaults, kinds = [], []
    for number, field in enumerate(fields):
        made, given = field.default_factory is not MISSING, field.default is not MISSING
        if made:
            scope[f"_made{number}_"] = field.default_factory
        elif given and not field.init:
            scope[f"_given{number}_"] = field.default
        if field.init and (made or given):
            defaults.append(field.default)  # MISSING where it is made
        kinds.append((field.init, made, given and not field.init))  # a parameter's default is no code
    code = _code(tuple(kinds), frozen, hasattr(cls, "__post_init__"))
    names = {f"field{number}_": field.name for number, field in enumerate(fields)}

    def named(found: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([names.get(each, each) if type(each) is str else each for each in found])

    consts, used, variables = map(named, (code.co_consts, code.co_names, code.co_varnames))
    code = code.replace(co_consts=consts, co_names=used, co_varnames=variables)
    init = FunctionType(code, scope, "__init__", tuple(defaults))
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@functools.cache
def _code(kinds: tuple[tuple[bool, bool, bool], ...], frozen: bool, ends: bool) -> CodeType:
    """The code of an `__init__` whose fields are `field0_`, `field1_` and so on: compiling takes 0.1 ms.

    kinds: of each field whether it is a parameter, is made by a factory, or always has its default. ends: with
    `__post_init__`.
    """
    parameters, lines = ["self"], []
    for number, (asked, made, given) in enumerate(kinds):
        name = value = f"field{number}_"
        if asked:
            parameters.append(name)
        if made:
            value = f"_made{number}_()"
            if asked:
                value = f"{value} if {name} is _missing_ else {name}"
        elif not asked:
            if not given:
                continue
            value = f"_given{number}_"
        lines.append(f"_set_(self, '{name}', {value})" if frozen else f"self.{name} = {value}")
    if ends:
        lines.append("self.__post_init__()")
    scope: dict[str, Any] = {}
    exec("\n ".join([f"def __init__({', '.join(parameters)}):", *lines, "return"]), scope)
    code: CodeType = scope["__init__"].__code__
    return code


def _values(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """What reads the fields of these names."""
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
    """What copying and pickling take of an instance without a `__dict__`."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
