"""What the parser takes, what it refuses and how it says so; both spellings; texts written from layouts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from strategies import dealt_layouts

from triton_linear.dialect import encodings
from triton_linear.dialect.encodings import MalformedEncoding, PaddedShared, UnknownEncoding, layout_of
from triton_linear.dialect.linear_layout import LinearLayout

BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [2, 1], order = [1, 0]}>"
)
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 1], instrShape = [16, 8]}>"
SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#ttg.nosuch<{order = [1, 0]}>", "unknown encoding '#ttg.nosuch'"),
        ("#gluon.auto_encoding", "unknown encoding '#gluon.auto_encoding'"),
        ("#blocked", "unknown encoding '#blocked' (an alias? expand aliases first)"),
        ("#ttg.slice<{dim = 0, parent = #mma}>", "unknown encoding '#mma'"),
        (MMA.replace("versionMajor = 2", "versionMajor = 5"), "#ttg.nvidia_mma: version 5 has no register"),
        (
            f"#ttg.dot_op<{{opIdx = 0, parent = #ttg.slice<{{dim = 0, parent = {BLOCKED}}}>}}>",
            "#ttg.dot_op: no operand layout is known for the parent #ttg.slice",
        ),
    ],
)
def test_unknown_encodings_are_named(text: str, message: str) -> None:
    with pytest.raises(UnknownEncoding) as refusal:
        layout_of(text, (64, 64))
    assert message in str(refusal.value)
    assert isinstance(refusal.value, ValueError)


def test_wgmma_has_no_right_operand_in_registers() -> None:
    parent = (
        "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>"
    )
    with pytest.raises(UnknownEncoding, match="wgmma takes its right operand from shared memory"):
        layout_of(f"#ttg.dot_op<{{opIdx = 1, parent = {parent}, kWidth = 2}}>", (64, 64))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected an attribute '#dialect.name<...>' at offset 0, got 'end of text'"),
        ("blocked", "expected an attribute '#dialect.name<...>' at offset 0, got 'blocked'"),
        ("#ttg.linear<{register = [[1]}>", "expected ']' at offset 28, got '}'"),
        ("#ttg.linear<{register = [[1]]}", "expected ',' or '>' at offset 30, got 'end of text'"),
        ("#ttg.linear<{register = }>", "expected a value at offset 24, got '}'"),
        ("#ttg.linear<{= [1]}>", "expected a field name at offset 13, got '='"),
        ("#ttg.linear<{lane = [], lane = []}>", "field 'lane' is given twice"),
        ("#ttg.linear<{lane = ?}>", "unexpected character at offset 19"),
        (BLOCKED + " x", "expected the end of the text"),
        (BLOCKED.replace(", order = [1, 0]", ""), "#ttg.blocked: required field 'order' is missing"),
        (BLOCKED.replace("order", "ordre"), "#ttg.blocked: required field 'order' is missing"),
        (BLOCKED.replace("}>", ", extra = 1}>"), "#ttg.blocked: unknown field 'extra'"),
        (BLOCKED.replace("[1, 4]", "[1, 3]"), "field 'sizePerThread' must be a list of powers of two, got [1,"),
        (BLOCKED.replace("[2, 1]", "[2]"), "field 'warpsPerCTA' must be a list of 2 integers, got [2]"),
        (BLOCKED.replace("[1, 0]", "[1, 1]"), "field 'order' must be a permutation of 0..1, got [1, 1]"),
        (BLOCKED.replace("[1, 0]", "true"), "field 'order' must be a list of non-negative integers, got true"),
        (BLOCKED.replace("}>", ", CGALayout = [[1]]}>"), "basis [1] of 'CGALayout' has 1 coordinates"),
        (BLOCKED.replace("}>", ", CGALayout = [[1, 1]]}>"), "basis [1, 1] of 'CGALayout' is not one power"),
        (f"#ttg.slice<{{dim = 2, parent = {BLOCKED}}}>", "dim 2 is not a dimension of the parent #ttg.blocked"),
        (f"#ttg.slice<{{dim = 0, parent = {SWIZZLED}}}>", "#ttg.slice: the parent must be distributed"),
        ("#ttg.slice<{dim = 0, parent = 3}>", "field 'parent' must be an encoding attribute, got 3"),
        (f"#ttg.dot_op<{{opIdx = 2, parent = {MMA}, kWidth = 2}}>", "'opIdx' must be 0 or 1, got 2"),
        (f"#ttg.dot_op<{{opIdx = 1, parent = {MMA}, kWidth = 3}}>", "'kWidth' must be a power of two, got 3"),
        (f"#ttg.dot_op<{{opIdx = 1, parent = {MMA}}}>", "'kWidth' must be a power of two, got 0"),
        (MMA.replace("[16, 8]", "[16, 8, 16]"), "'instrShape' must have 2 numbers, got [16, 8, 16]"),
        (MMA.replace("[16, 8]", "[16, 4]"), "'instrShape' [16, 4] is not made of 8x8 tiles"),
        (SWIZZLED.replace("vec = 8", "vec = 6"), "#ttg.swizzled_shared: field 'vec' must be a power of two,"),
        (
            "#ttg.linear<{register = [[0, 1], [1, 1]], lane = [], warp = [], block = []}>",
            "#ttg.linear: basis [1, 1] moves in more than one dimension",
        ),
        ("#ttg.linear<{register = [[1], [0, 1]], lane = [], warp = [], block = []}>", "vectors of one length"),
        ("#ttg.linear<{register = [[1]], lane = [[0, 1]], warp = [], block = []}>", "have different ranks"),
        ("#ttg.padded_shared<[4] {order = [0], shape = [8]}>", "a padding is written 'interval:+amount'"),
        ("#ttg.padded_shared<[4:+3] {order = [0], shape = [8]}>", "padding 4:+3 is not of powers of two"),
        (
            "#ttg.nvmma_shared<{swizzlingByteWidth = 48, transposed = false, elementBitWidth = 16}>",
            "'swizzlingByteWidth' must be 0, 32, 64 or 128, got 48",
        ),
        (
            "#ttg.amd_mfma<{version = 3, warpsPerCTA = [1, 1], instrShape = [8, 8, 4], isTransposed = true}>",
            "'instrShape' must begin with 32x32, 16x16, 64x4 or 4x64, got [8, 8, 4]",
        ),
        (
            "#ttg.amd_mfma<{version = 3, warpsPerCTA = [1, 1], instrShape = [64, 4, 4], isTransposed = false}>",
            "results of 64x4 are laid out transposed only",
        ),
    ],
)
def test_malformed_encodings(text: str, message: str) -> None:
    with pytest.raises(MalformedEncoding) as refusal:
        layout_of(text, (64, 64))
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        (BLOCKED, (64,), "#ttg.blocked: the encoding has rank 2, the shape [64] has rank 1"),
        (BLOCKED, (64, 48), "#ttg.blocked: size 48 of the shape [64, 48] is not a power of two"),
        (BLOCKED, (64, 0), "#ttg.blocked: size 0 of the shape [64, 0] is not a power of two"),
        ("#ttg.shared_linear<{offset = [[1], [2]]}, alignment = 16>", (8,), "the bases span [4]"),
        (
            "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>",
            (64, 32),
            "is shorter than the swizzled row of 64 elements",
        ),
        (
            "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>",
            (4, 64),
            "is smaller than a core matrix of 8 x 64 elements",
        ),
    ],
)
def test_shapes_that_do_not_fit(text: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        layout_of(text, shape)


# Spellings: what Triton 3.9 prints, and what earlier releases printed.


@pytest.mark.parametrize(
    ("triple", "bases"),
    [
        ("CTAsPerCGA = [2, 1], CTASplitNum = [2, 1], CTAOrder = [1, 0]", "[[1, 0]]"),
        ("CTAsPerCGA = [2, 2], CTASplitNum = [2, 2], CTAOrder = [1, 0]", "[[0, 1], [1, 0]]"),
        ("CTAsPerCGA = [2, 2], CTASplitNum = [2, 2], CTAOrder = [0, 1]", "[[1, 0], [0, 1]]"),
        ("CTAsPerCGA = [4, 2], CTASplitNum = [2, 1], CTAOrder = [0, 1]", "[[1, 0], [0, 0], [0, 0]]"),
        ("CTAsPerCGA = [1, 1], CTASplitNum = [1, 1], CTAOrder = [1, 0]", "[]"),
    ],
)
@pytest.mark.parametrize("shape", [(1, 1), (2, 64), (64, 64), (128, 16)])
def test_clusters_in_both_spellings(triple: str, bases: str, shape: tuple[int, int]) -> None:
    for text in (BLOCKED, MMA, SWIZZLED):
        old, new = (text.replace("}>", f", {cga}}}>") for cga in (triple, f"CGALayout = {bases}"))
        assert layout_of(old, shape) == layout_of(new, shape)


# Points in which releases differ on equal texts: (release before, release since).


def test_copies_in_registers_are_dropped_since_3_9() -> None:
    old, new = (layout_of(BLOCKED, (8, 2), release=release) for release in ((3, 8), (3, 9)))
    assert dict(old.bases)["register"] == ((0, 1), (0, 0))
    assert dict(new.bases)["register"] == ((0, 1),)


def test_transposed_rows_come_first_since_3_8() -> None:
    text = "#ttg.nvmma_shared<{swizzlingByteWidth = 0, transposed = true, elementBitWidth = 16}>"
    old, new = (layout_of(text, (2, 4), release=release) for release in ((3, 7), (3, 8)))
    assert dict(old.bases)["offset"] == ((0, 1), (0, 2), (1, 0))
    assert dict(new.bases)["offset"] == ((1, 0), (0, 1), (0, 2))


def test_double_precision_operands_are_small_since_3_8() -> None:
    text = f"#ttg.dot_op<{{opIdx = 0, parent = {MMA.replace('[16, 8]', '[8, 8]')}, kWidth = 1}}>"
    old, new = (layout_of(text, (16, 8), release=release) for release in ((3, 7), (3, 8)))
    assert dict(old.bases)["register"] == ((8, 0), (0, 4))
    assert dict(old.bases)["warp"] == ((0, 0),)
    assert dict(new.bases)["register"] == ((0, 4),)
    assert dict(new.bases)["warp"] == ((8, 0),)


# Encodings that only Triton 3.9 prints.


def test_generic_linear_may_swizzle_warps() -> None:
    bases = "register = [[0, 1]], lane = [[0, 2], [1, 0]], warp = [[2, 1]], block = []"
    layout = layout_of(f"#ttg.generic_linear<{{{bases}}}>", (4, 4))
    assert dict(layout.bases)["warp"] == ((2, 1),)
    with pytest.raises(MalformedEncoding, match="more than one dimension"):
        layout_of(f"#ttg.linear<{{{bases}}}>", (4, 4))


def test_partitions_take_pieces_in_turn() -> None:
    """Eight rows, two buffers, two groups: buffer 0 has rows 0-1 and 4-5, buffer 1 rows 2-3 and 6-7."""
    inner = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
    numbers = "numPartitions = 2, numGroups = 2, partitionDim = 0"
    text = f"#ttg.partitioned_shared<{{{numbers}, partitionLayout = {inner}}}>"
    layout = layout_of(text, (8, 2))
    assert layout.in_dim_names == ("offset", "block", "partition")
    rows = [[layout.apply({"offset": o, "block": 0, "partition": p})["dim0"] for o in range(8)] for p in (0, 1)]
    assert rows == [[0, 0, 1, 1, 4, 4, 5, 5], [2, 2, 3, 3, 6, 6, 7, 7]]


# Padding


def test_padded_shared_keeps_padding_apart() -> None:
    text = "#ttg.padded_shared<[4:+1, 8:+2] {order = [1, 0], shape = [4, 4]}>"
    explicit = text.replace(
        "order = [1, 0], shape = [4, 4]", "offset = [[0, 1], [0, 2], [1, 0], [2, 0]], block = []"
    )
    padded = encodings.parse(text)
    assert isinstance(padded, PaddedShared)
    assert layout_of(text, (4, 4)) == layout_of(explicit, (4, 4))
    assert layout_of(text, (4, 4)).in_dim_names == ("offset", "block")
    places = [padded.padded_offset(offset) for offset in range(16)]
    assert places == [0, 1, 2, 3, 5, 6, 7, 8, 12, 13, 14, 15, 17, 18, 19, 20]


def test_padding_is_described_by_a_walk_over_the_elements() -> None:
    """Against the definition: after every interval, so many unused places."""
    padded = encodings.parse("#ttg.padded_shared<[2:+2, 8:+4] {order = [0], shape = [64]}>")
    assert isinstance(padded, PaddedShared)
    place = 0
    for offset in range(64):
        assert padded.padded_offset(offset) == place
        place += 1 + sum(p.amount for p in padded.paddings if (offset + 1) % p.interval == 0)


# Caching


def test_layouts_are_cached() -> None:
    assert layout_of(BLOCKED, (64, 64), 16) is layout_of(BLOCKED, (64, 64), 16)


# linear_encoding_text


@given(dealt_layouts(max_rank=4, max_bits=3))
def test_linear_text_round_trip(layout: LinearLayout) -> None:
    text = encodings.linear_encoding_text(layout)
    assert layout_of(text, tuple(size for _, size in layout.out_dims)) == layout
    assert encodings.parse(text).space == "distributed"


def test_absent_in_dims_become_empty() -> None:
    text = encodings.linear_encoding_text(LinearLayout.identity_1d(4, "lane", "dim0"))
    assert text == "#ttg.linear<{register = [], lane = [[1], [2]], warp = [], block = []}>"


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (LinearLayout.identity_1d(4, "offset", "dim0"), "in-dim 'offset' is none of register, lane, warp,"),
        (LinearLayout.identity_1d(4, "lane", "x"), "out-dims must be dim0 in this order, got x"),
        (
            LinearLayout.from_bases([("lane", [(0, 1), (1, 1)])], ["dim0", "dim1"]),
            "lane=2 -> (1, 1) moves in more than one dimension",
        ),
        (LinearLayout.zeros_1d(2, "lane", "dim0", 2), "the layout is not surjective"),
    ],
)
def test_layouts_that_are_no_linear_encoding(layout: LinearLayout, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        encodings.linear_encoding_text(layout)
