"""Records are what the standard library's dataclasses are, and none of their methods is compiled on import."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import dataclass as library_dataclass
from dataclasses import field
from typing import Any, ClassVar

import pytest

from triton_linear.dialect.records import dataclass as record

Decorator = Callable[..., Any]


def classes(decorator: Decorator, **options: bool) -> tuple[type, type]:
    """A class with every kind of field, and one that adds to it."""

    @decorator(**options)
    class Base:
        first: int
        second: tuple[int, ...] = ()
        aside: str = field(default="x", compare=False)
        hidden: str = field(default="y", repr=False)
        unhashed: list[int] = field(default_factory=list, hash=False)
        derived: int = field(init=False)
        constant: int = field(init=False, default=7)
        shared: ClassVar[int] = 5

        def __post_init__(self) -> None:
            object.__setattr__(self, "derived", 2 * self.first)

    @decorator(**options)
    class Derived(Base):
        third: int = 3

    return Base, Derived


OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"eq": False},
    {"frozen": True, "eq": False, "repr": False, "slots": True},
]
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, (2,), "z"), {"hidden": "h"}),
    ((1, (2,)), {"unhashed": [4]}),
    ((1, (2,)), {"aside": "other"}),
    ((True,), {"second": (0,)}),
]


def outcome(question: Callable[[], object]) -> object:
    """What is answered, or the error."""
    try:
        return question()
    except Exception as error:
        return type(error), str(error).replace("library", "")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("which", [0, 1])
def test_a_record_does_what_a_dataclass_does(options: dict[str, bool], which: int) -> None:
    ours, library = (classes(kind, **options)[which] for kind in (record, library_dataclass))
    mine = [ours(*arguments, **named) for arguments, named in CALLS]
    theirs = [library(*arguments, **named) for arguments, named in CALLS]
    for a, b in zip(mine, theirs, strict=True):
        assert dataclasses.astuple(a) == dataclasses.astuple(b)
        assert dataclasses.astuple(dataclasses.replace(a, first=9)) == dataclasses.astuple(
            dataclasses.replace(b, first=9)
        )
        assert dataclasses.astuple(copy.copy(a)) == dataclasses.astuple(a)
        assert dataclasses.astuple(copy.deepcopy(a)) == dataclasses.astuple(a)
        if options.get("repr", True):
            assert repr(a) == repr(b)
        assert outcome(lambda a=a: setattr(a, "first", 1)) == outcome(lambda b=b: setattr(b, "first", 1))
        assert outcome(lambda a=a: delattr(a, "first")) == outcome(lambda b=b: delattr(b, "first"))
    mine, theirs = ([kind(*arguments, **named) for arguments, named in CALLS] for kind in (ours, library))
    assert [[a == b for a in mine] for b in mine] == [[a == b for a in theirs] for b in theirs]
    hashes = [[outcome(lambda a=a: isinstance(hash(a), int)) for a in made] for made in (mine, theirs)]
    assert hashes[0] == hashes[1]
    if options.get("frozen") and options.get("eq", True):
        assert len(set(mine)) == len(set(theirs))
    assert hasattr(mine[0], "__dict__") == hasattr(theirs[0], "__dict__")
    for wrong in (lambda kind: kind(), lambda kind: kind(1, absent=2), lambda kind: kind(1, 2, 3, 4, 5, 6, 7)):
        assert outcome(lambda wrong=wrong: wrong(ours)) == outcome(lambda wrong=wrong: wrong(library))


@record(frozen=True, slots=True)
class Pickled:
    first: int
    second: str = "s"


@record(frozen=True)
class Own:  # noqa: PLW1641 - the decorator gives it a hash
    value: int

    def __eq__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "own"


def test_records_can_be_pickled_and_keep_methods_of_their_own() -> None:
    assert pickle.loads(pickle.dumps(Pickled(1))) == Pickled(1)
    assert Own(1) == Own(2)
    assert repr(Own(1)) == "own"
    assert hash(Own(1)) == hash(Own(1)) != hash(Own(2))
    match Pickled(3, "t"):
        case Pickled(first, second):
            assert (first, second) == (3, "t")
