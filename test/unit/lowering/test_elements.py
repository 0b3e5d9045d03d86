"""Elements in words: how many operations it takes. That they are right is what executed conversions show."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from triton_linear.lowering.emit.elements import packed_words, unpacked
from triton_linear.lowering.emit.text import FunctionWriter


def operations(writer: FunctionWriter) -> Counter[str]:
    return Counter(re.findall(r"= llvm\.([\w.]+)", writer.body()))


@pytest.mark.parametrize("element", ["f16", "bf16", "i16"])
def test_halves_are_parts_of_a_word_as_they_are(element: str) -> None:
    writer = FunctionWriter()
    words = packed_words(writer, ["%a", "%b", "%c", "%d"], element, None)
    assert len(words) == 2
    made = {"insertelement": 4, "bitcast": 2, "mlir.undef": 1, "mlir.constant": 2}
    assert operations(writer) == made
    assert f"vector<2x{element}> to i32" in writer.body()
    assert len(unpacked(writer, words, element, 4)) == 4
    assert operations(writer) == Counter(made) + Counter({"extractelement": 4, "bitcast": 2})


@pytest.mark.parametrize(("element", "casts"), [("f16", 1), ("bf16", 1), ("i16", 0)])
def test_a_half_alone_has_zeros_above_it(element: str, casts: int) -> None:
    writer = FunctionWriter()
    words = packed_words(writer, ["%a"], element, None)
    assert operations(writer) == Counter({"zext": 1, "bitcast": casts}) - Counter()
    (value,) = unpacked(writer, words, element, 1)
    assert operations(writer) == Counter({"zext": 1, "trunc": 1, "bitcast": 2 * casts}) - Counter()
    assert value in writer.body().splitlines()[-1]


def test_other_elements_are_words_by_way_of_integers() -> None:
    writer = FunctionWriter()
    (word,) = packed_words(writer, ["%a"], "f32", None)
    assert f"{word} = llvm.bitcast %a : f32 to i32" in writer.body()
    writer = FunctionWriter()
    words = packed_words(writer, ["%a", "%b", "%c", "%d"], "i1", None)
    assert len(words) == 1 and operations(writer)["zext"] == 4
    assert len(unpacked(writer, words, "i1", 4)) == 4 and operations(writer)["trunc"] == 4
