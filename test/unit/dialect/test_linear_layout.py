"""Linear layouts: worked examples, the text forms, refusals, and what the modules may import."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable

import pytest

from triton_linear.dialect.linear_layout import BLOCK, LANE, OFFSET, REGISTER, WARP, LinearLayout, dim_names

ALGEBRA = ("f2", "dimensions", "labelled_matrix", "linear_layout")

# 16x16 elements: 2x2 registers, 4x8 threads, 2x1 warps.
PATCHES = LinearLayout.from_bases(
    [(REGISTER, [(0, 1), (1, 0)]), (LANE, [(0, 2), (0, 4), (0, 8), (2, 0), (4, 0)]), (WARP, [(8, 0)])],
    dim_names(2),
)

identity = LinearLayout.identity_1d
zeros = LinearLayout.zeros_1d


def test_running_example() -> None:
    assert PATCHES.apply({REGISTER: 1, LANE: 9, WARP: 0}) == {"dim0": 2, "dim1": 3}
    assert PATCHES.apply({LANE: 31, WARP: 1, REGISTER: 3}) == {"dim0": 15, "dim1": 15}
    assert PATCHES.out_dims == (("dim0", 16), ("dim1", 16))
    assert PATCHES.is_invertible()
    # dim0 is the minor output: (2, 3) is 2 + 16 * 3.
    assert PATCHES.columns(REGISTER) == (16, 1)
    assert PATCHES.matrix() == (16, 1, 32, 64, 128, 2, 4, 8)


def test_queries() -> None:
    assert PATCHES.in_dim_names == (REGISTER, LANE, WARP)
    assert PATCHES.in_dims == ((REGISTER, 4), (LANE, 32), (WARP, 2))
    assert PATCHES.out_dim_names == ("dim0", "dim1")
    assert (PATCHES.in_dim_bits(LANE), PATCHES.in_dim_size(LANE)) == (5, 32)
    assert PATCHES.out_dim_size("dim1") == 16
    assert PATCHES.num_out_dims == 2
    assert (PATCHES.total_in_bits, PATCHES.total_out_bits) == (8, 8)
    assert (PATCHES.has_in_dim(WARP), PATCHES.has_in_dim(BLOCK)) == (True, False)
    assert (PATCHES.has_out_dim("dim1"), PATCHES.has_out_dim(WARP)) == (True, False)
    assert PATCHES.basis(LANE, 3) == (2, 0)


def test_repr_and_str() -> None:
    layout = LinearLayout.from_bases(
        [(REGISTER, [(1, 0), (0, 2)]), (WARP, [])], [("dim0", 2), ("dim1", 4)], None, False
    )
    assert repr(layout) == (
        "LinearLayout((('register', ((1, 0), (0, 2))), ('warp', ())), (('dim0', 2), ('dim1', 4)))"
    )
    assert str(layout) == (
        "\n"
        " - register=1 -> (1, 0)\n"
        "   register=2 -> (0, 2)\n"
        " - warp is a size 1 dimension\n"
        "where out dims are: [dim0 (size 2), dim1 (size 4)]"
    )
    assert str(LinearLayout.empty()) == "\n(empty layout)"
    only_outs = LinearLayout((), (("dim0", 2),))
    assert str(only_outs) == "\n(empty layout with out-dims [dim0 (size 2)])"
    assert eval(repr(only_outs)) == only_outs


def test_constructor_accepts_lists_and_freezes_them() -> None:
    layout = LinearLayout([["lane", [[1], [2]]]], [["dim0", 4]])  # type: ignore[arg-type]
    assert layout == identity(4, "lane", "dim0")
    assert hash(layout) == hash(identity(4, "lane", "dim0"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        layout.bases = ()  # type: ignore[misc]
    assert not hasattr(layout, "__dict__")


def test_operations_keep_the_type() -> None:
    inverse = PATCHES.invert()
    made = [PATCHES.transpose_outs(["dim1", "dim0"]), PATCHES.compose(inverse), PATCHES * PATCHES, inverse]
    assert all(type(layout) is LinearLayout for layout in made)


def test_from_bases_takes_names_sizes_or_both() -> None:
    expected = LinearLayout((("lane", ((1, 0), (0, 1))),), (("dim0", 2), ("dim1", 2)))
    vectors = [[1, 0], [0, 1]]
    assert LinearLayout.from_bases({"lane": vectors}, ["dim0", "dim1"]) == expected
    assert LinearLayout.from_bases([("lane", vectors)], {"dim0": 2, "dim1": 2}) == expected
    assert LinearLayout.from_bases([("lane", vectors)], [("dim0", 2), ("dim1", 2)]) == expected
    assert LinearLayout.from_bases([("lane", vectors)], ["dim0", "dim1"], [2, 2]) == expected
    roomy = LinearLayout.from_bases([("lane", vectors)], ["dim0", "dim1"], [4, 2], require_surjective=False)
    assert roomy.out_dims == (("dim0", 4), ("dim1", 2))


def test_product_orders_dimensions_so_that_both_factors_keep_theirs() -> None:
    a = identity(2, "lane", "dim1")
    b = identity(2, "register", "dim0") * identity(2, "lane", "dim1")
    assert (a * b).in_dim_names == ("register", "lane")
    assert (a * b).out_dim_names == ("dim0", "dim1")


def test_division_by_an_instruction_tile() -> None:
    tile = identity(4, REGISTER, OFFSET)
    memory = LinearLayout.from_matrix(PATCHES.matrix(), PATCHES.in_dims, [(OFFSET, 256)])
    assert memory.divide_left(tile) is None  # register=1 goes to offset 16, the tile needs 1
    vector = identity(4, REGISTER, OFFSET) * identity(8, LANE, OFFSET)
    assert vector.divide_left(tile) == zeros(1, REGISTER, OFFSET) * identity(8, LANE, OFFSET)
    assert vector.divide_left(identity(8, REGISTER, OFFSET)) is None  # larger than the layout
    assert vector.divide_left(identity(2, WARP, OFFSET)) is None  # a dimension it lacks


def test_division_goes_by_names() -> None:
    tile = identity(2, "lane", "dim1") * identity(2, "lane", "dim0")
    layout = (tile * identity(2, "warp", "dim0")).transpose_outs(["dim0", "dim1"])
    rest = layout.divide_left(tile)
    assert rest is not None
    assert rest.out_dims == (("dim0", 2), ("dim1", 1))
    assert (tile * rest).transpose_outs(["dim0", "dim1"]) == layout


def test_invert_and_compose_keeps_copies_where_they_are() -> None:
    # Both warps hold everything on both sides; nothing needs to cross warps.
    src = LinearLayout.from_bases({LANE: [[1], [2]], WARP: [[0]]}, ["dim0"])
    dst = LinearLayout.from_bases({LANE: [[2], [1]], WARP: [[0]]}, ["dim0"])
    conversion = src.invert_and_compose(dst)
    assert conversion.quotient([WARP]) is not None
    assert conversion.basis(LANE, 0) == (2, 0)


def test_invert_and_compose_uses_equal_dimensions_if_it_must() -> None:
    # warp is alike on both sides, yet lane=1 -> 3 needs the warp bit of outer.
    src = LinearLayout.from_bases([(WARP, [[1]]), (LANE, [[3]])], ["dim0"])
    dst = LinearLayout.from_bases([(WARP, [[1]]), (LANE, [[2]])], ["dim0"])
    conversion = src.invert_and_compose(dst)
    assert conversion.bases == ((WARP, ((1, 0),)), (LANE, ((1, 1),)))
    assert conversion.compose(dst) == src


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: identity(3, "lane", "dim0"), "strided_1d: in-dim 'lane' has size 3, which is not a power of two"),
    (lambda: identity(0, "lane", "dim0"), "has size 0, which is not a power of two"),
    (lambda: LinearLayout.strided_1d(4, 3, "a", "b"), "the stride has size 3"),
    (lambda: zeros(4, "a", "b", 6), "zeros_1d: out-dim 'b' has size 6, which is not a power of two"),
    (lambda: LinearLayout((("a", ((1,),)),), (("b", 3),)), "out-dim 'b' has size 3, which is not a power"),
    (lambda: LinearLayout((("a", ((1,), (2,))),), (("b", 2),)), r"basis a=2 -> \(2,\) leaves out-dim 'b' of"),
    (lambda: LinearLayout((("a", ((-1,),)),), (("b", 2),)), r"basis a=1 -> \(-1,\) leaves out-dim 'b'"),
    (lambda: LinearLayout((("a", ((0,), (0, 1))),), (("b", 2),)), r"basis a=2 -> \(0, 1\) needs one"),
    (lambda: LinearLayout((("a", ()), ("a", ())), ()), r"in-dim names must be distinct, got \[a, a\]"),
    (lambda: LinearLayout((), (("b", 1), ("b", 2))), r"out-dim names must be distinct, got \[b, b\]"),
    (lambda: LinearLayout(((1, ()),), ()), "name of an in-dim must be a string, got 1"),  # type: ignore[arg-type]
    (lambda: LinearLayout.from_bases({"a": [[2]]}, ["b"]), "not surjective: its bases have rank 1, .*b=4.* 2"),
    (lambda: LinearLayout.from_bases({"a": [[1]]}, ["b"], [2, 2]), r"2 sizes for the out-dims \[b\]"),
    (lambda: LinearLayout.from_matrix((1,), [("a", 4)], [("b", 4)]), "1 columns for in-dims of 2 bits"),
    (lambda: LinearLayout.from_matrix((4,), [("a", 2)], [("b", 4)]), "column 0 = 4 does not fit in 2 bits"),
    (lambda: PATCHES.in_dim_size("block"), r"'block' is no in-dim; the in-dims are \[register, lane, warp\]"),
    (lambda: PATCHES.columns("block"), "'block' is no in-dim"),
    (lambda: PATCHES.out_dim_size("dim2"), r"'dim2' is no out-dim; the out-dims are \[dim0, dim1\]"),
    (lambda: PATCHES.basis(WARP, 1), "basis: in-dim 'warp' has 1 bits, no bit 1"),
    (lambda: PATCHES.basis(WARP, -1), "no bit -1"),
    (lambda: PATCHES.apply({LANE: 0, WARP: 0}), "apply: no value for in-dim 'register'"),
    (lambda: PATCHES.apply({REGISTER: 4, LANE: 0, WARP: 0}), "apply: register=4 is outside .* of size 4"),
    (lambda: PATCHES.apply({REGISTER: -1, LANE: 0, WARP: 0}), "apply: register=-1 is outside"),
    (lambda: PATCHES.apply({REGISTER: 0, LANE: 0, WARP: 0, BLOCK: 0}), "are not the in-dims"),
    (lambda: PATCHES.compose(PATCHES), r"compose: the out-dims \[dim0=16, dim1=16\] are not the in-dims"),
    (lambda: identity(8, "a", "b").compose(identity(4, "b", "c")), "compose: out-dim b=8 does not fit in b=4"),
    (lambda: zeros(2, "a", "b").invert(), "invert: the layout is not invertible: rank 0, 1 bits of in-dims"),
    (lambda: zeros(2, "a", "b", 2).pseudoinvert(), "pseudoinvert: the layout is not surjective: rank 0"),
    (lambda: identity(8, "a", "b").invert_and_compose(identity(4, "c", "b")), "out-dim b=8 does not fit in"),
    (lambda: identity(2, "a", "b").invert_and_compose(identity(2, "a", "c")), "are not the out-dims"),
    (lambda: identity(4, "a", "b").invert_and_compose(zeros(2, "c", "b", 4)), r"invert_and_compose: outer"),
    (lambda: PATCHES.transpose_ins([LANE, WARP]), r"\[lane, warp\] is no permutation of \[register, lane,"),
    (lambda: PATCHES.transpose_ins([LANE, LANE, WARP]), "transpose_ins: .* is no permutation"),
    (lambda: PATCHES.transpose_outs(["dim0"]), "transpose_outs: .* is no permutation"),
    (lambda: PATCHES.sublayout(["block"], []), r"sublayout: 'block' is no in-dim; the in-dims are \[register"),
    (lambda: PATCHES.sublayout([], "dim7"), "sublayout: 'dim7' is no out-dim"),
    (lambda: PATCHES.remove_zero_bases("a"), "'a' is no in-dim"),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS, ids=[message[:40] for _, message in REFUSALS])
def test_refusals_name_the_rule_and_the_value(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        call()
    text = str(refused.value)
    assert text[0].islower() or text[0] == "'"
    assert not text.endswith(".")


@pytest.mark.parametrize("module", ALGEBRA)
def test_the_algebra_imports_neither_mlir_nor_triton_nor_numpy(module: str) -> None:
    script = (
        "import sys\n"
        "for name in ('mlir', 'triton', 'numpy'):\n"
        "    sys.modules[name] = None\n"
        f"import triton_linear.dialect.{module}\n"
        "roots = [n.split('.')[0] for n, module in sys.modules.items() if module]\n"
        "loaded = {'mlir', 'triton', 'numpy'} & set(roots)\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
