"""Parses the attribute text that Triton prints for an encoding into a small tree.

Grammar, as printed by Triton 3.6 to 3.9 (aliases expanded)::

    attribute := '#' dialect '.' mnemonic [ '<' body '>' ]
    body      := item { ',' item } | item { item }          # padded_shared omits one comma
    item      := '{' pairs '}' | key '=' value | value      # a struct's pairs join the attribute's own
    value     := integer [':+' integer] | word | string | '[' values ']' | '{' pairs '}' | attribute

The parser knows no particular encoding. Each encoding's class reads its own fields through :class:`Fields`,
whose errors name the encoding and the field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from ..records import dataclass

__all__ = [
    "Attribute",
    "Basis",
    "Fields",
    "MalformedEncoding",
    "PaddingInterval",
    "UnknownEncoding",
    "parse_attribute",
]

Basis = tuple[int, ...]


class MalformedEncoding(ValueError):
    """The text is not an encoding attribute, or its fields are not those of the encoding that it names."""


class UnknownEncoding(ValueError):
    """The text is an attribute of an encoding that this package does not know; the message names it."""


@dataclass(frozen=True)
class Attribute:
    """``#dialect.mnemonic<...>`` with its key-value fields and its positional values."""

    name: str
    fields: Mapping[str, Value]
    positional: tuple[Value, ...]


@dataclass(frozen=True)
class PaddingInterval:
    """``interval:+amount`` in a padded encoding: ``amount`` unused elements after every ``interval``
    elements.
    """

    interval: int
    amount: int


Value: TypeAlias = "int | bool | str | Attribute | PaddingInterval | tuple[Value, ...] | Mapping[str, Value]"

_TOKEN = re.compile(
    r"\s*(?:(?P<attribute>#[A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*)?)|(?P<integer>-?\d+)"
    r'|(?P<word>[A-Za-z_][\w.]*)|(?P<string>"[^"]*")|(?P<punctuation>:\+|[\[\]{}<>=,]))'
)


class _Reader:
    """A recursive-descent parser of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise MalformedEncoding(f"encoding '{text}': unexpected character at offset {position}")
            group = match.lastgroup or ""
            self.tokens.append((group, match[group], match.start(group)))
            position = match.end()
        self.tokens.append(("end", "end of text", end))
        self.index = 0

    def peek(self) -> str:
        return self.tokens[self.index][1]

    def kind(self) -> str:
        return self.tokens[self.index][0]

    def next(self) -> str:
        token = self.tokens[self.index][1]
        self.index += 1
        return token

    def accept(self, token: str) -> bool:
        if self.kind() == "punctuation" and self.peek() == token:
            self.index += 1
            return True
        return False

    def fail(self, expected: str) -> MalformedEncoding:
        _, token, offset = self.tokens[self.index]
        return MalformedEncoding(
            f"encoding '{self.text}': expected {expected} at offset {offset}, got '{token}'"
        )

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.fail(f"'{token}'")

    def attribute(self) -> Attribute:
        if self.kind() != "attribute":
            raise self.fail("an attribute '#dialect.name<...>'")
        name = self.next()
        fields: dict[str, Value] = {}
        positional: list[Value] = []
        if self.accept("<"):
            while not self.accept(">"):
                if self.accept("{"):
                    self.pairs(fields)
                elif self.kind() == "word" and self.tokens[self.index + 1][1] == "=":
                    self.pair(fields)
                else:
                    positional.append(self.value())
                if not self.accept(",") and self.peek() not in (">", "{"):
                    raise self.fail("',' or '>'")
        return Attribute(name, fields, tuple(positional))

    def pairs(self, into: dict[str, Value]) -> None:
        if self.accept("}"):
            return
        while True:
            self.pair(into)
            if not self.accept(","):
                break
        self.expect("}")

    def pair(self, into: dict[str, Value]) -> None:
        if self.kind() != "word":
            raise self.fail("a field name")
        key = self.next()
        self.expect("=")
        if key in into:
            raise MalformedEncoding(f"encoding '{self.text}': field '{key}' is given twice")
        into[key] = self.value()

    def value(self) -> Value:
        kind = self.kind()
        if kind == "integer":
            number = int(self.next())
            if self.accept(":+"):
                if self.kind() != "integer":
                    raise self.fail("a padding amount")
                return PaddingInterval(number, int(self.next()))
            return number
        if kind == "attribute":
            return self.attribute()
        if kind == "word":
            word = self.next()
            return {"true": True, "false": False}.get(word, word)
        if kind == "string":
            return self.next()[1:-1]
        if self.accept("["):
            items: list[Value] = []
            if not self.accept("]"):
                while True:
                    items.append(self.value())
                    if not self.accept(","):
                        break
                self.expect("]")
            return tuple(items)
        if self.accept("{"):
            nested: dict[str, Value] = {}
            self.pairs(nested)
            return nested
        raise self.fail("a value")


_OPENING, _KEY, _NAME = re.compile(r"(#[A-Za-z_]\w*\.[A-Za-z_]\w*)<\{"), re.compile(r"([A-Za-z_]\w*) = "), "#"


def _parse_as_json(text: str) -> Attribute | None:
    """The attribute if its values are only integers, booleans, lists and attributes, as in most texts; else
    None.

    Such a text becomes JSON by replacing punctuation, and the `json` module is many times faster than
    `_Reader`.
    """
    braces = text.count("<{")
    if '"' in text or "null" in text or not braces == text.count("{") == text.count("}") == text.count("}>"):
        return None
    parts = _OPENING.split(text.replace("}>", "}"))
    parts[1::2] = [f'{{"#": "{name}", ' for name in parts[1::2]]
    parts = _KEY.split("".join(parts))
    parts[1::2] = [f'"{key}": ' for key in parts[1::2]]
    written = "".join(parts)
    try:
        value = _DECODER.decode(written)
    except ValueError:
        return None
    return value if isinstance(value, Attribute) else None


def _attribute(pairs: list[tuple[str, Any]]) -> Attribute:
    (first, name), *others = pairs
    fields = {key: _tuple(value) if isinstance(value, list) else value for key, value in others}
    if first != _NAME or len(fields) != len(others):
        raise ValueError
    return Attribute(name, fields, ())


def _tuple(values: list[Any]) -> tuple[Value, ...]:
    return tuple([_tuple(value) if isinstance(value, list) else value for value in values])


def _reject(number: str) -> None:
    raise ValueError


_DECODER = json.JSONDecoder(object_pairs_hook=_attribute, parse_float=_reject, parse_constant=_reject)


def parse_attribute(text: str) -> Attribute:
    """Parse the text of one attribute.

    Requires: aliases are expanded. Raises `MalformedEncoding` with the offset of the first unexpected token.

    >>> parse_attribute("#ttg.slice<{dim = 1, parent = #ttg.blocked<{order = [1, 0]}>}>").fields["dim"]
    1
    """
    if (attribute := _parse_as_json(text)) is not None:
        return attribute
    reader = _Reader(text)
    result = reader.attribute()
    if reader.kind() != "end":
        raise reader.fail("the end of the text")
    return result


class Fields:
    """Typed access to an attribute's fields; `finish` raises if a field was not read."""

    def __init__(self, name: str, values: Mapping[str, Value]) -> None:
        self.name = name
        self._values = values
        self._unread = set(values)

    def _take(self, key: str) -> Value:
        if key not in self._values:
            raise MalformedEncoding(f"{self.name}: required field '{key}' is missing")
        self._unread.discard(key)
        return self._values[key]

    def _wrong(self, key: str, expected: str) -> MalformedEncoding:
        return MalformedEncoding(
            f"{self.name}: field '{key}' must be {expected}, got {_shown(self._values[key])}"
        )

    def has(self, key: str) -> bool:
        """Whether the attribute gives this field."""
        return key in self._values

    def integer(self, key: str, default: int | None = None) -> int:
        """A non-negative integer."""
        if default is not None and key not in self._values:
            return default
        value = self._take(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._wrong(key, "a non-negative integer")
        return value

    def power_of_two(self, key: str, default: int | None = None) -> int:
        """An integer that is a power of two."""
        value = self.integer(key, default)
        if value <= 0 or value & (value - 1):
            raise self._wrong(key, "a power of two")
        return value

    def boolean(self, key: str, default: bool | None = None) -> bool:
        """``true`` or ``false``."""
        if default is not None and key not in self._values:
            return default
        value = self._take(key)
        if not isinstance(value, bool):
            raise self._wrong(key, "'true' or 'false'")
        return value

    def integers(self, key: str, rank: int | None = None) -> tuple[int, ...]:
        """A list of non-negative integers, of length ``rank`` if that is given."""
        value = self._take(key)
        if not _is_integers(value):
            raise self._wrong(key, "a list of non-negative integers")
        result: tuple[int, ...] = value  # type: ignore[assignment]
        if rank is not None and len(result) != rank:
            raise self._wrong(key, f"a list of {rank} integers")
        return result

    def powers_of_two(
        self, key: str, rank: int | None = None, default: tuple[int, ...] | None = None
    ) -> tuple[int, ...]:
        """A list of powers of two."""
        if default is not None and key not in self._values:
            return default
        result = self.integers(key, rank)
        if any(n <= 0 or n & (n - 1) for n in result):
            raise self._wrong(key, "a list of powers of two")
        return result

    def permutation(self, key: str, rank: int) -> tuple[int, ...]:
        """A list that holds each of 0..rank-1 once."""
        result = self.integers(key, rank)
        if sorted(result) != list(range(rank)):
            raise self._wrong(key, f"a permutation of 0..{rank - 1}")
        return result

    def bases(self, key: str, default: tuple[Basis, ...] | None = None) -> tuple[Basis, ...]:
        """A list of equally long basis vectors."""
        if default is not None and key not in self._values:
            return default
        value = self._take(key)
        if not isinstance(value, tuple) or not all(_is_integers(vector) for vector in value):
            raise self._wrong(key, "a list of basis vectors")
        result: tuple[Basis, ...] = value  # type: ignore[assignment]
        if len({len(vector) for vector in result}) > 1:
            raise self._wrong(key, "a list of basis vectors of one length")
        return result

    def attribute(self, key: str) -> Attribute:
        """A nested attribute."""
        value = self._take(key)
        if not isinstance(value, Attribute):
            raise self._wrong(key, "an encoding attribute")
        return value

    def finish(self) -> None:
        """Raises unless every field was read."""
        if self._unread:
            raise MalformedEncoding(f"{self.name}: unknown field '{min(self._unread)}'")


def _is_integers(value: Value) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in value
    )


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, PaddingInterval):
        return f"{value.interval}:+{value.amount}"
    if isinstance(value, Attribute):
        return f"{value.name}<...>"
    return str(value)
