"""`triton-linear view` of large tensors: a tile is drawn, what is said of the others holds, and all fits."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import pytest
from drawn_encodings import COLUMNS, MMA, ROWS
from rich.text import Text

from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.lowering.target.targets import target
from triton_linear.tools.view.command import drawn
from triton_linear.tools.view.fold import tile_of, words
from triton_linear.tools.view.places import holders
from triton_linear.tools.view.subject import Subject, subjects
from triton_linear.tools.view.text import beside, text_tile, thread_colour

HOPPER, MI300 = target("cuda:90"), target("hip:gfx942")
MMA3 = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>"
OPERAND = f"#ttg.dot_op<{{opIdx = 0, parent = {MMA3}, kWidth = 2}}>"
MFMA = "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [32, 32, 8], isTransposed = true}>"
ROWS64 = ROWS.replace("[8, 4]", "[16, 4]").replace("[2, 1]", "[4, 1]")
SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
CONVERSIONS = {
    "blocked to mma": (ROWS, MMA, HOPPER),
    "mma to dot operand": (MMA3, OPERAND, HOPPER),
    "mfma to blocked": (MFMA, ROWS64, MI300),
    "rows to columns": (ROWS, COLUMNS, HOPPER),
    "registers to memory": (ROWS, SWIZZLED, HOPPER),
}
KINDS = [ROWS, COLUMNS, MMA, MMA3, OPERAND, MFMA, SWIZZLED]
SHAPES = ["64x64", "128x128"]
IN_TURN = list(zip(CONVERSIONS, itertools.cycle(SHAPES), strict=False))
"""Each conversion for one of the shapes."""
# Lanes and registers are spread over both dimensions, and one bit of each is a sum.
TWISTED = "twisted"
TWIST = {
    "register": [[0, 1], [1, 32], [32, 0], [4, 4]],
    "lane": [[2, 0], [0, 2], [4, 0], [8, 8], [0, 16]],
    "warp": [[16, 16], [0, 8], [1, 0], [0, 0]],
}


def of(encoding: str, shape: str) -> Subject:
    """The layout of an encoding, or the twisted one."""
    if encoding == TWISTED:
        return Subject(LinearLayout.from_bases(TWIST, ["dim0", "dim1"]), TWISTED, element_bits=16)
    (found,) = subjects(encoding, shape, "f16")
    return found


def said(lines: list[str]) -> dict[tuple[str, int], list[tuple[str, str, int]]]:
    """What each step changes, read from the words: (in-dim, sign, number)."""
    found: dict[tuple[str, int], list[tuple[str, str, int]]] = {}
    for line in lines[1:]:
        step, _, changes = line.strip().partition(": ")
        dim, _, sizes = step.partition(" += ")
        for which, size in enumerate(sizes.split(", ")):
            found[dim, int(size)] = []
            for change in changes.split(" and "):
                name, sign, numbers = re.fullmatch(r"(\w+) ([+^])= (.*)", change).groups()  # type: ignore[union-attr]
                found[dim, int(size)].append((name, sign, int(numbers.split(", ")[which])))
    return found


def check_words(layout: LinearLayout, tile: tuple[int, ...]) -> None:
    """Every element has the holders that the words derive from those of the tile."""
    everyone, changes = holders(layout), said(list(words(layout, tile)))
    names = layout.in_dim_names
    for point, found in everyone.items():
        inside = tuple(at % size for at, size in zip(point, tile, strict=True))
        derived = [list(index) for index in everyone[inside]]
        for dim, at, size in zip(layout.out_dim_names, point, tile, strict=True):
            for bit in range(at.bit_length()):
                if not at >> bit & 1 or 1 << bit < size:
                    continue
                for name, sign, number in changes[dim, 1 << bit]:
                    for index in derived:
                        value = index[names.index(name)]
                        index[names.index(name)] = value + number if sign == "+" else value ^ number
        assert sorted(map(tuple, derived)) == sorted(found), point


@pytest.mark.parametrize("kind", [*KINDS, TWISTED])
def test_what_is_said_of_other_tiles_holds_of_every_element(kind: str) -> None:
    layout = of(kind, "64x64").layout
    sizes = [size for _, size in layout.out_dims]
    for tile in ((8, 8), (16, 16), text_tile([layout], 16)):
        if all(part <= size for part, size in zip(tile, sizes, strict=True)):
            check_words(layout, tuple(tile))


def test_numbers_add_where_nothing_in_the_tile_has_them_and_are_xored_elsewhere() -> None:
    assert list(words(of(MMA3, "128x128").layout, (8, 8))) == [
        "a tile of 8x8, repeats 16x16 times:",
        "  dim0 += 8: register += 2",
        "  dim0 += 16, 32: warp += 1, 2",
        "  dim0 += 64: register += 64",
        "  dim1 += 8, 16, 32, 64: register += 4, 8, 16, 32",
    ]
    swizzled = list(words(of(SWIZZLED, "64x64").layout, (8, 8)))
    assert "  dim1 += 8, 16, 32: offset ^= 8, 16, 32" in swizzled


def test_steps_that_no_inputs_make_are_told() -> None:
    some = LinearLayout.from_bases({"offset": [[1]]}, ["dim0"], [4], require_surjective=False)
    assert list(words(some, (2,))) == ["a tile of 2, repeats 2 times:", "  dim0 += 2: no inputs do that"]


def test_a_tensor_that_fits_is_not_folded() -> None:
    layout = of(MMA, "64x64").layout
    assert tile_of([layout], lambda _: True) == (64, 64)
    assert list(words(layout, (64, 64))) == []


def test_the_tile_of_a_conversion_repeats_in_both() -> None:
    """A row of blocked registers is 8 elements, but lanes go on to 32; an accumulator repeats after 8."""
    layouts = [of(MMA, "128x128").layout, of(ROWS, "128x128").layout]
    assert tile_of(layouts, lambda tile: max(tile) <= 32) == (8, 32)


# What fits


@pytest.mark.parametrize(("name", "shape"), IN_TURN)
def test_a_conversion_is_below_120_lines_of_100_columns(name: str, shape: str) -> None:
    source, destination, machine = CONVERSIONS[name]
    text = drawn([of(source, shape), of(destination, shape)], "text", None, machine).decode()
    assert text.count("\n") < 120
    assert max(map(len, text.replace(source, "").replace(destination, "").splitlines())) <= 100
    assert source in text
    assert destination in text
    assert "repeats" in text


@pytest.mark.parametrize(("kind", "shape"), list(itertools.product([*KINDS, TWISTED], SHAPES)))
def test_a_layout_is_below_120_lines(kind: str, shape: str) -> None:
    text = drawn([of(kind, "64x64" if kind == TWISTED else shape)], "text", None, HOPPER).decode()
    assert text.count("\n") < 120


@pytest.mark.parametrize(("name", "shape"), IN_TURN)
def test_a_picture_fits_a_screen_and_hides_nothing(name: str, shape: str) -> None:
    source, destination, machine = CONVERSIONS[name]
    shown = [of(source, shape), of(destination, shape)]
    for view in ("tensor", "hardware", "matrix"):
        if view == "hardware" and name == "registers to memory":
            continue
        svg = drawn(shown, "svg", view, machine)
        boxes = boxes_of(svg)
        middle = max(right for _, _, right, _, _ in boxes) / 2
        assert any(left > middle for left, *_ in boxes), "both layouts are beside each other"
        written = " ".join(ElementTree.fromstring(svg).itertext())
        assert all(word in written for word in f"{source} {destination}".split())


def test_a_picture_of_more_than_one_slice_or_layout_fits() -> None:
    (cube,) = subjects("BlockedLayout([1, 1, 4], [1, 4, 8], [1, 2, 2], [2, 1, 0])", "8x16x64", "f16")
    for shown in ([cube], [of(kind, "128x128") for kind in (ROWS, MMA, MMA3)]):
        boxes_of(drawn(shown, "svg", "tensor", HOPPER))


Boxes = list[tuple[float, float, float, float, str]]


def boxes_of(svg: bytes) -> Boxes:
    """The cells of a picture with their colours: inside it, and none over another; it fits a screen."""
    root = ElementTree.fromstring(svg)
    name = "{http://www.w3.org/2000/svg}"
    wide, high = (float(root.attrib[side]) for side in ("width", "height"))
    assert wide <= 1400 and high <= 900
    boxes: Boxes = []
    for cell in root.iterfind(f"{name}g/{name}rect"):
        x, y, width, height = (float(cell.attrib[side]) for side in ("x", "y", "width", "height"))
        assert 0 <= x < x + width <= wide and 0 <= y < y + height <= high
        boxes.append((x, y, x + width, y + height, cell.attrib["fill"]))
    assert boxes
    for one, other in itertools.combinations(boxes, 2):
        assert (
            min(one[2], other[2]) - max(one[0], other[0]) < 0.1
            or min(one[3], other[3]) - max(one[1], other[1]) < 0.1
        )
    return boxes


def test_what_is_beside_a_shorter_text_stays_there() -> None:
    lines = list(beside([[Text("a")], [Text("b"), Text("c")]]))
    assert [line.plain.index(letter) for line, letter in zip(lines, "bc", strict=True)] == [5, 5]


def test_no_two_threads_have_one_colour() -> None:
    for lanes in (32, 64):
        colours = [thread_colour(warp, lane, lanes) for warp in range(32) for lane in range(lanes)]
        assert len(set(colours)) == len(colours)


@pytest.mark.parametrize("name", CONVERSIONS)
def test_cells_of_different_threads_differ_at_sight(name: str) -> None:
    source, destination, machine = CONVERSIONS[name]
    if name == "registers to memory":
        return
    boxes = boxes_of(drawn([of(source, "64x64"), of(destination, "64x64")], "svg", "tensor", machine))
    for one, other in itertools.combinations(boxes, 2):
        beside = abs(one[2] - other[0]) < 10 and abs(one[1] - other[1]) < 1
        below = abs(one[3] - other[1]) < 1 and abs(one[0] - other[0]) < 1
        if (beside or below) and one[4] != other[4]:
            assert distance(one[4], other[4]) > 24, (one, other)


def distance(one: str, other: str) -> float:
    """How far colours are apart, of 442 at most."""
    parts = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in (one, other)]
    return float(sum((a - b) ** 2 for a, b in zip(*parts, strict=True)) ** 0.5)


# What is written


def test_what_means_something_to_xml_is_escaped() -> None:
    evil = Subject(of(MMA, "16x16").layout, 'a<b>& "c"')
    svg = drawn([evil], "svg", "tensor", HOPPER)
    assert b'>a&lt;b&gt;&amp; "c"<' in svg
    assert 'a<b>& "c"' in "".join(ElementTree.fromstring(svg).itertext())
