"""What the axis analysis says of a module's values is so, whatever the module is run on."""

from __future__ import annotations

from pathlib import Path

import pytest
from assign_support import MODULES, axis_of, producers_of, seen, upstream
from index_expressions import distances

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module, Operation, operations
from triton_linear.passes.analysis import addressing
from triton_linear.passes.analysis.axis import AxisAnalysis, shape_of

SEEDS = range(1, 3)


def wrong(root: Module, axis: AxisAnalysis, seeds: range = SEEDS) -> list[str]:
    """What is said of values and is not so."""
    found = []
    for seed in seeds:
        for value, all_numbers in seen(root, seed).items():
            known, mask = axis.of(value), axis.mask(value)
            for numbers in all_numbers:
                for dim, bit, delta in distances(known):
                    size = numbers.shape[dim]
                    places = [place for place in range(size) if not place >> bit & 1]
                    low, high = numbers.take(places, dim), numbers.take([p | 1 << bit for p in places], dim)
                    if delta is not None and (high - low != delta).any():
                        found.append(f"{value}: bit {bit} of dimension {dim} does not add {delta}")
                    if ((high - low) % known.step(delta)).any():
                        found.append(f"{value}: {known.step(delta)} does not divide what bit {bit} adds")
                    if mask[dim][bit] and "i1" in str(value.type) and (high != low).any():
                        found.append(f"{value}: the mask changes with bit {bit} of dimension {dim}")
                base = int(numbers.reshape(-1)[0])
                if base % known.divisor:
                    found.append(f"{value}: {known.divisor} does not divide {base}")
                if known.constant not in (None, base):
                    found.append(f"{value}: is {base}, not {known.constant}")
    return found


@pytest.mark.parametrize("path", MODULES[2::3], ids=lambda path: path.stem)
def test_what_is_known_of_a_kernel_is_so(path: Path) -> None:
    root = upstream(path)
    assert wrong(root, axis_of(root)) == []


# One operation at a time, and loops.

HEAD = """
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func public @f(
  %p: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %n: i32 {tt.divisibility = 16 : i32}, %m: i32
) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c16 = arith.constant 16 : i32
  %c48 = arith.constant 48 : i32
  %zero = arith.constant dense<0> : tensor<128xi32, #b>
  %ones = arith.constant dense<1> : tensor<128xi32, #b>
  %eights = arith.constant dense<8> : tensor<128xi32, #b>
  %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #b>
  %ps = tt.splat %p : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
  %ns = tt.splat %n : i32 -> tensor<128xi32, #b>
  %ms = tt.splat %m : i32 -> tensor<128xi32, #b>
  %at = tt.addptr %ps, %r : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
"""
TAIL = "  tt.return\n}\n}\n"
ONES = (4, 8, 16, 32, 64, 128, 256)


def module(body: str) -> Module:
    return bridge.text_to_upstream(HEAD + body + TAIL, bridge.upstream_context(), "f.ttgir")


def loops(root: Module) -> list[Operation]:
    return [op for op in operations(root.operation) if op.name == "scf.for"]


@pytest.mark.parametrize(
    ("name", "deltas"),
    [
        ("arith.addi %r, %eights", (1, 2, 4, 8)),
        ("arith.subi %eights, %r", (-1, -2, -4, -8)),
        ("arith.muli %r, %eights", (8, 16, 32, 64)),
        ("arith.remsi %from8, %eights", (1, 2, 4, 0)),
        ("arith.remui %r, %eights", (1, 2, 4, 0)),
        ("arith.divsi %from8, %eights", (0, 0, 0, 1)),
        ("arith.divui %r, %eights", (0, 0, 0, 1)),
        ("arith.andi %r, %sevens", (1, 2, 4, 0)),
        ("arith.andi %r, %eights", (None, None, None, None)),
        ("arith.shli %r, %ones", (2, 4, 8, 16)),
        ("arith.shrsi %r, %ones", (0, 1, 2, 4)),
        ("arith.shrui %r, %ones", (0, 1, 2, 4)),
        ("arith.maxsi %ns, %ms", (0, 0, 0, 0)),
        ("arith.maxsi %r, %ms", (None, None, None, None)),
        ("arith.muli %ns, %r", (None, None, None, None)),
    ],
)
def test_operations(name: str, deltas: tuple[int | None, ...]) -> None:
    root = module(f"""
  %from8 = tt.make_range {{end = 136 : i32, start = 8 : i32}} : tensor<128xi32, #b>
  %sevens = arith.constant dense<7> : tensor<128xi32, #b>
  %result = {name} : tensor<128xi32, #b>
""")
    axis = axis_of(root)
    *_, result = producers_of(root)
    assert axis.of(result).deltas[0][:4] == deltas
    assert wrong(root, axis) == []


def bumped(step: str) -> Module:
    """A loop whose pointers move by `step` each turn, as most have."""
    return module(f"""
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%q = %at) -> (tensor<128x!tt.ptr<i32>, #b>) : i32 {{
    %x = tt.load %q : tensor<128x!tt.ptr<i32>, #b>
    tt.store %q, %x : tensor<128x!tt.ptr<i32>, #b>
    %next = tt.addptr %q, {step} : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
    scf.yield %next : tensor<128x!tt.ptr<i32>, #b>
  }}
""")


@pytest.mark.parametrize(("step", "divisor"), [("%ns", 16), ("%eights", 16), ("%ms", 4), ("%ones", 4)])
def test_pointers_that_move_each_turn_keep_their_shape(step: str, divisor: int) -> None:
    root = bumped(step)
    argument = loops(root)[0].regions[0].blocks[0].arguments[1]
    known = axis_of(root).of(argument)
    assert (known.deltas, known.divisor, known.constant) == ((ONES,), divisor, None)
    assert wrong(root, axis_of(root)) == []


def test_rows_of_unknown_length_keep_what_divides_them() -> None:
    root = module("""
  %o = arith.muli %r, %ns : tensor<128xi32, #b>
  %rows = tt.addptr %ps, %o : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%q = %rows) -> (tensor<128x!tt.ptr<i32>, #b>) : i32 {
    %next = tt.addptr %q, %eights : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
    scf.yield %next : tensor<128x!tt.ptr<i32>, #b>
  }
""")
    axis = axis_of(root)
    known = axis.of(loops(root)[0].regions[0].blocks[0].arguments[1])
    assert known == addressing.Affine(((None,) * 7,), 16, None, 64)
    assert wrong(root, axis) == []


def test_pointers_that_move_unevenly_are_unknown() -> None:
    root = bumped("%r")
    argument = loops(root)[0].regions[0].blocks[0].arguments[1]
    axis = axis_of(root)
    assert axis.of(argument).deltas == ((None,) * 7,)
    assert wrong(root, axis) == []


@pytest.mark.parametrize("first", [0, 1], ids=["a first", "b first"])
def test_arguments_that_change_places_are_neither_one(first: int) -> None:
    root = module("""
  %ends:2 = scf.for %i = %c0 to %c48 step %c1 iter_args(%a = %c0, %b = %c1) -> (i32, i32) : i32 {
    scf.yield %b, %a : i32, i32
  }
""")
    axis = axis_of(root)
    axis.of(loops(root)[0].regions[0].blocks[0].arguments[1 + first])
    assert wrong(root, axis) == []


@pytest.mark.parametrize(
    ("bounds", "divisor"),
    [
        ("%c0 to %n step %c16", 16),
        ("%n to %c48 step %c48", 16),
        ("%m to %n step %c16", 1),
        ("%c0 to %m step %c2", 2),
    ],
)
def test_a_counter_is_a_multiple_of_what_divides_its_start_and_its_step(bounds: str, divisor: int) -> None:
    root = module(f"scf.for %i = {bounds} : i32 {{\n %s = tt.splat %i : i32 -> tensor<128xi32, #b>\n}}\n")
    counter = loops(root)[0].regions[0].blocks[0].arguments[0]
    axis = axis_of(root)
    assert (axis.of(counter).divisor, axis.of(counter).constant) == (divisor, None)
    assert wrong(root, axis) == []


NESTED = """
  %end = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %n) -> (i32) : i32 {
    %inner = scf.for %j = %c0 to %c2 step %c1 iter_args(%b = %a) -> (i32) : i32 {
      %more = arith.addi %b, {STEP} : i32
      scf.yield %more : i32
    }
    {SUM} = arith.addi {TERMS} : i32
    scf.yield %next : i32
  }
"""


@pytest.mark.parametrize("step", ["%c16", "%c2", "%m", "%a", "%i"])
@pytest.mark.parametrize("terms", ["%a, %c16", "%a, %inner", "%inner, %c1"])
def test_loops_in_loops(step: str, terms: str) -> None:
    text = NESTED.replace("{STEP}", step).replace("{SUM}", "%next").replace("{TERMS}", terms)
    root = module(text)
    for order in (1, -1):
        axis = axis_of(root)
        for loop in loops(root)[::order]:
            axis.of(loop.regions[0].blocks[0].arguments[1])
        assert wrong(root, axis) == []


def test_a_mask_is_not_remembered_from_a_guess_that_failed() -> None:
    """%x is 0, 1, 2, ...: were it 0 each turn, `%r < %x` would never change."""
    root = module("""
  %end = scf.for %i = %c0 to %c16 step %c1 iter_args(%x = %zero) -> (tensor<128xi32, #b>) : i32 {
    %under = arith.cmpi slt, %r, %x : tensor<128xi32, #b>
    %loaded = tt.load %ps, %under, %zero : tensor<128x!tt.ptr<i32>, #b>
    %sum = arith.addi %x, %ones : tensor<128xi32, #b>
    %next = arith.addi %sum, %loaded : tensor<128xi32, #b>
    scf.yield %next : tensor<128xi32, #b>
  }
""")
    axis = axis_of(root)
    axis.of(loops(root)[0].regions[0].blocks[0].arguments[1])
    assert wrong(root, axis) == []


CARRIED = """
  %first = arith.cmpi slt, %r, %ns : tensor<128xi32, #b>
  %end = scf.for %i = %c0 to %m step %c1 iter_args(%mask = %first) -> (tensor<128xi1, #b>) : i32 {
    tt.store %at, %r, %mask : tensor<128x!tt.ptr<i32>, #b>
    %moved = arith.muli %i, %c16 : i32
    %far = tt.splat %moved : i32 -> tensor<128xi32, #b>
    %numbers = arith.addi %r, %far : tensor<128xi32, #b>
    %next = arith.cmpi slt, %numbers, {BOUND} : tensor<128xi32, #b>
    scf.yield %next : tensor<128xi1, #b>
  }
"""


@pytest.mark.parametrize(("bound", "together"), [("%ns", 4), ("%ms", 0)])
def test_a_mask_that_a_loop_carries_changes_where_one_of_an_iteration_does(bound: str, together: int) -> None:
    """As loops have them whose loads are begun an iteration early."""
    root = module(CARRIED.replace("{BOUND}", bound))
    axis = axis_of(root)
    carried = loops(root)[0].regions[0].blocks[0].arguments[1]
    assert axis.mask(carried) == (tuple(bit < together for bit in range(7)),)
    assert wrong(root, axis) == []


def test_a_product_of_masks_changes_where_one_of_them_does() -> None:
    root = module("""
  %some = arith.cmpi slt, %r, %ns : tensor<128xi32, #b>
  %all = arith.cmpi slt, %ms, %ns : tensor<128xi32, #b>
  %both = arith.muli %some, %all : tensor<128xi1, #b>
  %go = arith.cmpi slt, %n, %m : i32
  %either = arith.select %go, %some, %all : tensor<128xi1, #b>
""")
    axis = axis_of(root)
    *_, both, _, either = producers_of(root)
    assert axis.mask(both) == axis.mask(either) == (tuple(bit < 4 for bit in range(7)),)
    assert wrong(root, axis) == []


def test_a_constant_mask_that_is_no_splat_may_change() -> None:
    text = """
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func public @f() {
  %mixed = arith.constant dense<[true, false]> : tensor<2xi1, #b>
  %same = arith.constant dense<true> : tensor<2xi1, #b>
  tt.return
}
}
"""
    root = bridge.text_to_upstream(text, bridge.upstream_context(), "f.ttgir")
    masks = [axis_of(root).mask(value) for value in producers_of(root)]
    assert masks == [((False,),), ((True,),)]


def test_a_hint_says_what_divides() -> None:
    root = module("""
  %hinted = arith.muli %ms, %ms {tt.divisibility = dense<16> : tensor<1xi32>} : tensor<128xi32, #b>
  %moved = tt.addptr %ps, %ms {tt.divisibility = dense<8> : tensor<1xi32>}
    : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
""")
    axis = axis_of(root)
    *_, hinted, moved = producers_of(root)
    assert (axis.of(hinted).divisor, axis.of(moved).divisor) == (16, 8)


def test_a_promise_says_what_is_next_to_what() -> None:
    root = module("""
  %near = tt.load %at {tt.contiguity = dense<4> : tensor<1xi32>, tt.divisibility = dense<8> : tensor<1xi32>}
    : tensor<128x!tt.ptr<i32>, #b>
  %same = arith.muli %ms, %near {tt.constancy = dense<2> : tensor<1xi32>} : tensor<128xi32, #b>
  %there = tt.addptr %at, %near : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
""")
    axis = axis_of(root)
    *_, near, same, there = producers_of(root)
    assert axis.of(near) == addressing.Affine(((1, 2, *[None] * 5),), 8, None, 8)
    assert axis.of(same).deltas == ((0, *[None] * 6),)
    assert axis.of(there).deltas[0][:3] == (8, 16, None)


def test_a_load_of_one_place_is_one_value() -> None:
    root = module("""
  %flags = arith.cmpi slt, %r, %ns : tensor<128xi32, #b>
  %one = tt.load %ps : tensor<128x!tt.ptr<i32>, #b>
  %each = tt.load %at : tensor<128x!tt.ptr<i32>, #b>
  %some = tt.load %ps, %flags, %zero : tensor<128x!tt.ptr<i32>, #b>
  %other = tt.load %ps, %flags, %r : tensor<128x!tt.ptr<i32>, #b>
""")
    axis = axis_of(root)
    loads = [op.results[0] for op in operations(root.operation) if op.name == "tt.load"]
    assert [axis.of(value).deltas[0] for value in loads] == [
        (0,) * 7,
        (None,) * 7,
        (0, 0, 0, 0, None, None, None),
        (None,) * 7,
    ]
    assert wrong(root, axis) == []


def test_the_machine_sees_what_changes() -> None:
    """Or nothing above could fail."""

    class Sure(AxisAnalysis):
        def of(self, value: object) -> addressing.Affine:
            return addressing.Affine.uniform(shape_of(value.type), 8)  # type: ignore[attr-defined]

    root = bumped("%ns")
    found = "\n".join(wrong(root, Sure(producers_of(root))))
    assert "does not add 0" in found
    assert "8 does not divide" in found
