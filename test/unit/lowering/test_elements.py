"""Elements in words: how many operations it takes. That they are right is what executed conversions show."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from triton_linear.lowering.emit.elements import packed_words, unpacked
from triton_linear.lowering.emit.machines import machine_of
from triton_linear.lowering.emit.parts import Part, Vector, parts_of, side_by_side
from triton_linear.lowering.emit.text import FunctionWriter
from triton_linear.lowering.emit.words import WordWriter
from triton_linear.lowering.target.steps import Pick
from triton_linear.lowering.target.targets import target


def operations(writer: FunctionWriter) -> Counter[str]:
    return Counter(re.findall(r"= llvm\.([\w.]+)", writer.body()))


@pytest.mark.parametrize("element", ["f16", "bf16", "i16"])
def test_halves_are_parts_of_a_word_as_they_are(element: str) -> None:
    writer = FunctionWriter()
    parts = packed_words(writer, ["%a", "%b", "%c", "%d"], element, None)
    assert unpacked(writer, parts, element, 4) == ["%a", "%b", "%c", "%d"]
    assert not writer.body()
    moved = parts_of(writer, [part.word for part in parts])
    made = {"insertelement": 4, "bitcast": 2, "mlir.undef": 1, "mlir.constant": 2}
    assert operations(writer) == made
    assert f"vector<2x{element}> to i32" in writer.body()
    assert len(unpacked(writer, moved, element, 4)) == 4
    assert operations(writer) == Counter(made) + Counter({"extractelement": 4, "bitcast": 2})


@pytest.mark.parametrize(("element", "casts"), [("f16", 1), ("bf16", 1), ("i16", 0)])
def test_a_half_alone_has_zeros_above_it(element: str, casts: int) -> None:
    writer = FunctionWriter()
    moved = parts_of(writer, [part.word for part in packed_words(writer, ["%a"], element, None)])
    assert operations(writer) == Counter({"zext": 1, "bitcast": casts}) - Counter()
    (value,) = unpacked(writer, moved, element, 1)
    assert operations(writer)["extractelement"] == 1
    assert value in writer.body().splitlines()[-1]


@pytest.mark.parametrize(
    ("element", "count", "bits", "stored", "casts"),
    [
        ("f32", 4, 128, "vector<4xf32>", {}),
        ("f32", 1, 32, "f32", {}),
        ("f64", 2, 128, "vector<2xf64>", {}),
        ("f16", 8, 128, "vector<4xi32>", {"bitcast": 4}),
        ("f16", 1, 16, "i16", {"zext": 1, "trunc": 1, "bitcast": 1}),
        ("i8", 4, 16, "i16", {"trunc": 1, "bitcast": 1}),
    ],
)
def test_words_are_stored_as_they_came(
    element: str, count: int, bits: int, stored: str, casts: dict[str, int]
) -> None:
    writer = FunctionWriter()
    parts = packed_words(writer, [f"%{index}" for index in range(count)], element, None)
    assert side_by_side(writer, parts, bits)[1] == stored
    made = operations(writer)
    assert {name: made[name] for name in ("zext", "trunc", "bitcast") if made[name]} == casts


def test_parts_of_several_kinds_are_stored_as_words() -> None:
    writer = FunctionWriter()
    parts = [*packed_words(writer, ["%a", "%b"], "f16", None), Part.of(writer, "%word")]
    assert side_by_side(writer, parts, 64)[1] == "vector<2xi32>"
    low, high = packed_words(writer, ["%c"], "f64", None)
    assert side_by_side(writer, [high, low], 64)[1] == "vector<2xi32>"
    assert unpacked(writer, [low, high], "f64", 1) == ["%c"]
    assert unpacked(writer, [high, low], "f64", 1) != ["%c"]


def test_what_was_loaded_is_taken_apart_as_elements() -> None:
    writer = FunctionWriter()
    loaded = Vector(writer, "i32", whole="%loaded", count=4)
    values = unpacked(writer, [Part(loaded, index) for index in range(4)], "f16", 8)
    assert len(set(values)) == 8
    assert operations(writer) == {"bitcast": 1, "extractelement": 8, "mlir.constant": 8}
    assert "llvm.bitcast %loaded : vector<4xi32> to vector<8xf16>" in writer.body()
    parts = [Part(loaded, index) for index in range(4)]
    assert len(set(unpacked(writer, parts, "f64", 2))) == 2
    assert writer.body().count("vector<2xf64>") == 3
    unpacked(writer, parts[1:3], "f64", 1)
    assert "llvm.bitcast" in writer.body().splitlines()[-1] and "f64" in writer.body().splitlines()[-1]


def test_bytes_are_taken_out_of_their_word() -> None:
    writer = FunctionWriter()
    loaded = Vector(writer, "i32", whole="%loaded", count=2)
    assert len(set(unpacked(writer, [Part(loaded, 0), Part(loaded, 1)], "i8", 8))) == 8
    assert operations(writer) == {"bitcast": 2, "extractelement": 10, "mlir.constant": 4}
    assert writer.body().count("i32 to vector<4xi8>") == 2


def test_what_lies_above_a_narrow_value_is_zero() -> None:
    writer = FunctionWriter()
    part = Part(Vector(writer, "i16", whole="%loaded", count=1))
    assert part.slot("i16", 0) == "%loaded"
    part.slot("f16", 1)
    assert "llvm.zext %loaded : i16 to i32" in writer.body()
    writer = FunctionWriter()
    (part,) = packed_words(writer, ["%value"], "f16", None)
    assert part.slot("f16", 0) == "%value" != part.slot("f16", 1)
    assert "llvm.zext" in writer.body()


def test_other_elements_are_words_by_way_of_integers() -> None:
    writer = FunctionWriter()
    (part,) = packed_words(writer, ["%a"], "f32", None)
    assert f"{part.word} = llvm.bitcast %a : f32 to i32" in writer.body()
    writer = FunctionWriter()
    parts = packed_words(writer, ["%a", "%b", "%c", "%d"], "i1", None)
    assert len(parts) == 1 and operations(writer)["zext"] == 4
    assert len(unpacked(writer, parts, "i1", 4)) == 4 and operations(writer)["trunc"] == 4


@pytest.mark.parametrize("name", ["cuda:90", "hip:gfx942"])
def test_a_choice_of_predicates_takes_no_permute(name: str) -> None:
    """They are packed in the order that is asked for."""
    writer = FunctionWriter()
    words = [[part] for part in packed_words(writer, [f"%{value}" for value in "abcdefgh"], "i1", None)]
    step = Pick((0, 1), (), ((1, 3, 4, 6),))
    (part,) = WordWriter(writer, machine_of(target(name)), 4, words, 2).run([step]).word(2)
    assert part.word and operations(writer)["insertelement"] == 4
    assert "perm" not in writer.body() and "prmt" not in writer.body()


def test_bytes_in_words_are_chosen_by_a_permute() -> None:
    writer = FunctionWriter()
    words = [[Part.of(writer, "%x")], [Part.of(writer, "%y")]]
    machine = machine_of(target("cuda:90"))
    (part,) = WordWriter(writer, machine, 4, words, 2).run([Pick((0, 1), (), ((1, 3, 4, 6),))]).word(2)
    assert part.word and writer.body().count("llvm.nvvm.prmt") == 1
