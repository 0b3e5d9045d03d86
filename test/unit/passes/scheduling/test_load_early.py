"""Loads come before exchanges between warps, and pass nothing else that matters."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from module_equivalence import ran, stays_the_same, upstream

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Module, Operation, operations
from triton_linear.passes.analysis.writes import early
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.scheduling.load_early import LOAD, LoadEarly

HEAD = """
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#across = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [1, 4], order = [1, 0]}>
#within = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32} {
tt.func @f(%in: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %out: !tt.ptr<i32> {tt.divisibility = 16 : i32}) {
  %lane = tt.make_range {start = 0 : i32, end = 512 : i32} : tensor<512xi32, #a>
  %from = tt.splat %in : !tt.ptr<i32> -> tensor<512x!tt.ptr<i32>, #a>
  %to = tt.splat %out : !tt.ptr<i32> -> tensor<512x!tt.ptr<i32>, #a>
  %p0 = tt.addptr %from, %lane : tensor<512x!tt.ptr<i32>, #a>, tensor<512xi32, #a>
  %q = tt.addptr %to, %lane : tensor<512x!tt.ptr<i32>, #a>, tensor<512xi32, #a>
  %x0 = tt.load %p0 : tensor<512x!tt.ptr<i32>, #a>
"""
TAIL = "  tt.return\n}\n}\n"
FENCES = {
    "store": "tt.store %q, %x0 : tensor<512x!tt.ptr<i32>, #a>",
    "atomic": "%old = tt.atomic_rmw add, relaxed, gpu, %q, %x0 : "
    "(tensor<512x!tt.ptr<i32>, #a>, tensor<512xi32, #a>) -> tensor<512xi32, #a>",
    "barrier": "gpu.barrier",
    "volatile load": "%v = tt.load %p0 {isVolatile = true} : tensor<512x!tt.ptr<i32>, #a>",
    "uncached load": "%v = tt.load %p0 cacheModifier = cv : tensor<512x!tt.ptr<i32>, #a>",
    "impure code": '%v = tt.elementwise_inline_asm "mov.u32 $0, %clock;" '
    '{constraints = "=r,r", packed_element = 1 : i32, pure = false} %x0 : '
    "tensor<512xi32, #a> -> tensor<512xi32, #a>",
    "impure function": '%v = tt.extern_elementwise %x0 {libname = "", libpath = "", symbol = "f", pure = false}'
    " : (tensor<512xi32, #a>) -> tensor<512xi32, #a>",
    "print": 'tt.print "x" {hex = false, isSigned = array<i32: 1>} : %x0 : tensor<512xi32, #a>',
}
STAGED = (
    "%m = ttg.local_alloc %x0 : (tensor<512xi32, #a>) -> !ttg.memdesc<512xi32, #ttg.swizzled_shared<"
    "{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>, #ttg.shared_memory>"
)
RUNNABLE = ("store", "volatile load")
"""Those that the interpreter of modules runs."""


def exchange(n: int) -> str:
    return f"%c{n} = ttg.convert_layout %x0 : tensor<512xi32, #a> -> tensor<512xi32, #b>"


def load(n: int, offsets: str = "%lane") -> str:
    return (
        f"%p{n} = tt.addptr %p0, {offsets} : tensor<512x!tt.ptr<i32>, #a>, tensor<512xi32, #a>\n"
        f"%x{n} = tt.load %p{n} : tensor<512x!tt.ptr<i32>, #a>"
    )


def exchanged_offsets(n: int) -> str:
    """Offsets that come through an exchange."""
    return f"{exchange(n)}\n%o{n} = ttg.convert_layout %c{n} : tensor<512xi32, #b> -> tensor<512xi32, #a>"


def reduction(layout: str, inside: str = "%s = arith.addi %l, %r : i32") -> str:
    """A reduction of rows of what is loaded."""
    rows = f"tensor<4x128x!tt.ptr<i32>, #{layout}>"
    return (
        f"%rows = tt.splat %in : !tt.ptr<i32> -> {rows}\n%{layout} = tt.load %rows : {rows}\n"
        f'%r = "tt.reduce"(%{layout}) <{{axis = 1 : i32}}> ({{\n^bb0(%l: i32, %r1: i32):\n'
        f"{inside.replace('%r', '%r1')}\ntt.reduce.return %s : i32\n}}) : "
        f"(tensor<4x128xi32, #{layout}>) -> tensor<4xi32, #ttg.slice<{{dim = 1, parent = #{layout}}}>>"
    )


def looped(*steps: str) -> list[str]:
    return [LOOP + "scf.for %i = %lo to %hi step %by : i32 {", *steps, "}"]


def of(*steps: str) -> str:
    return HEAD + "\n".join(steps) + "\n" + TAIL


def names(root: Module) -> list[str]:
    """What the kernel does from its first load on."""
    found = [op.name.partition(".")[2] for op in operations(root.operation)]
    return found[found.index("load") : -1]


def after(*steps: str) -> list[str]:
    """What the kernel does after the pass, which is run and computes the same."""
    text = of(*steps)
    root = stays_the_same(text, [LoadEarly()], ran(upstream(text)))
    assert (names(root) != names(upstream(text))) == (ll.EARLY in root.operation.attributes)
    return names(root)


def test_load_from_a_loaded_address_moves_with_it() -> None:
    assert after(exchange(0), load(1), load(2, "%x1")) == ["load", *("addptr", "load") * 2, "convert_layout"]


@pytest.mark.parametrize(("layout", "moves"), [("across", True), ("within", False)])
def test_reduction_in_a_loop_is_an_exchange_if_it_crosses_warps(layout: str, moves: bool) -> None:
    assert stays(of(*looped(reduction(layout), load(1)))) != moves
    assert stays(of(reduction(layout), load(1)))


def test_exchange_that_waits_for_no_load_is_not_worth_it() -> None:
    assert stays(of(exchange(0).replace("%x0", "%lane"), load(1)))


def test_nothing_passes_a_reduction_with_effects() -> None:
    clock = '%s = tt.elementwise_inline_asm "" {constraints = "=r,r,r", packed_element = 1 : i32, pure = false}'
    assert stays(of(*looped(reduction("across", f"{clock} %l, %r : i32, i32 -> i32"), load(1))))


@pytest.mark.parametrize("name", FENCES)
def test_nothing_passes(name: str) -> None:
    assert stays(of(exchange(0), FENCES[name], load(1)))
    assert stays(of(FENCES[name], exchange(0), load(1))) == ("impure" in name)  # which may write anywhere


ROW = "tensor<512x!tt.ptr<i32>, #a>"
LOOP = "%lo = arith.constant 0 : i32\n%hi = arith.constant 4 : i32\n%by = arith.constant 1 : i32\n"
WRITES = {
    "store": "tt.store %p0, %x0 : tensor<512x!tt.ptr<i32>, #a>",
    "atomic": FENCES["atomic"].replace("%q", "%p0"),
    "scalar": "%one = arith.constant 1 : i32\ntt.store %in, %one : !tt.ptr<i32>",
    "from a number": "%no = arith.constant dense<64> : tensor<512xi64, #a>\n"
    "%n = tt.int_to_ptr %no : tensor<512xi64, #a> -> tensor<512x!tt.ptr<i32>, #a>\n"
    "tt.store %n, %x0 : tensor<512x!tt.ptr<i32>, #a>",
    "in a loop": f"{LOOP}%end = scf.for %i = %lo to %hi step %by iter_args(%at = %p0) -> ({ROW}) : i32 {{\n"
    f"tt.store %at, %x0 : {ROW}\n%next = tt.addptr %at, %lane : {ROW}, tensor<512xi32, #a>\n"
    f"scf.yield %next : {ROW}\n}}",
    "in every other iteration": f"{LOOP}%end:2 = scf.for %i = %lo to %hi step %by "
    f"iter_args(%at = %q, %then = %p0) -> ({ROW}, {ROW}) : i32 {{\n"
    f"tt.store %at, %x0 : {ROW}\nscf.yield %then, %at : {ROW}, {ROW}\n}}",
}
"""Ways to write to the memory that the loads read."""


def test_arguments_may_lead_to_one_memory_unless_that_is_checked() -> None:
    for write in ("store", "atomic"):
        root = upstream(of(FENCES[write], exchange(0), load(1)))
        assert run_passes(root, [LoadEarly(distinct=False)], verify=True).succeeded
        assert ll.EARLY not in root.operation.attributes
        assert run_passes(root, [LoadEarly()], verify=True).succeeded
        assert early(root.operation) == ((0, 1),)


def test_what_is_written_before_an_early_return_is_not_written_before_other_loads() -> None:
    def text(behind: str) -> str:
        branches = f"cf.cond_br %yes, ^returns, ^goes_on\n^returns:\n{WRITES['store']}\n{behind}\n^goes_on:\n"
        return of("%yes = arith.constant true", branches, load(2), exchange(0).replace("%x0", "%x2"), load(1))

    for behind, expected in (("tt.return", True), ("cf.br ^goes_on", False)):
        root = upstream(text(behind))
        assert run_passes(root, [LoadEarly(distinct=False)], verify=True).succeeded
        assert (ll.EARLY in root.operation.attributes) == expected


@pytest.mark.parametrize("name", WRITES)
def test_load_of_what_was_written_stays_behind_the_barrier(name: str) -> None:
    assert stays(of(WRITES[name], exchange(0), load(1)))
    assert not stays(of(exchange(0), load(1), WRITES[name]))


def test_load_of_what_an_iteration_writes_stays_in_the_next() -> None:
    for write, moves in ((FENCES["store"], True), (WRITES["store"], False)):
        assert stays(of(*looped(load(2), exchange(0).replace("%x0", "%x2"), load(1), write))) != moves


def test_nothing_moves_in_modules_with_calls() -> None:
    text = of("tt.call @g(%in) : (!tt.ptr<i32>) -> ()", exchange(0), load(1))
    assert stays(text[: text.rindex("}")] + "tt.func private @g(%p: !tt.ptr<i32>) {\ntt.return\n}\n}\n")


def test_gathers_are_exchanges() -> None:
    gather = "%g = tt.gather %x0[%lane] {axis = 0 : i32} : (tensor<512xi32, #a>, tensor<512xi32, #a>) -> "
    root = upstream(of(gather + "tensor<512xi32, #a>", load(1)))
    assert run_passes(root, [LoadEarly()], verify=True).succeeded
    assert names(root)[:3] == ["load", "addptr", "load"]


def stays(text: str) -> bool:
    root = upstream(text)
    before = str(root)
    assert run_passes(root, [LoadEarly()], verify=True).succeeded
    return str(root) == before


def test_accesses_to_shared_memory_count_in_loops() -> None:
    assert stays(of(STAGED, load(1)))
    assert not stays(of(*looped(load(2), STAGED.replace("%x0", "%x2"), load(1))))


@st.composite
def kernels(draw: st.DrawFn) -> list[str]:
    """The steps of a kernel: exchanges, loads, some of them from exchanged addresses, and what none passes."""
    steps: list[str] = []
    for n in range(1, draw(st.integers(2, 12))):
        kind = draw(st.sampled_from(["exchange", "load", "load", "dependent", *RUNNABLE]))
        if kind == "exchange":
            steps.append(exchange(n))
        elif kind == "load":
            steps.append(load(n))
        elif kind == "dependent":
            steps += [exchanged_offsets(n), load(n, f"%o{n}")]
        else:
            steps.append(FENCES[kind].replace("%v", f"%v{n}"))
    return steps


@settings(max_examples=30, deadline=None)
@given(kernels())
def test_every_load_is_as_early_as_it_can_be_and_no_earlier(steps: list[str]) -> None:
    text = of(*steps)
    before, root = upstream(text), stays_the_same(text, [LoadEarly()], ran(upstream(text)))
    assert sorted(names(root)) == sorted(names(before))
    assert between_fences(before) == between_fences(root)
    for stretch in stretches(root):
        needed: set[object] = set()
        exchanges = 0
        for op in stretch:
            if op.name == "ttg.convert_layout":
                exchanges += 1
            if op.name == "ttg.convert_layout" or any(operand in needed for operand in op.operands):
                needed.update(op.results)
            elif op.name == LOAD:
                assert not exchanges


def stretches(root: Module) -> list[list[Operation]]:
    """The operations of a kernel between those that no load passes."""
    found: list[list[Operation]] = [[]]
    for op in operations(root.operation):
        if op.name == "tt.store" or "isVolatile = true" in str(op).splitlines()[0]:
            found.append([])
        else:
            found[-1].append(op)
    return found


def between_fences(root: Module) -> Sequence[int]:
    """How many loads each stretch has."""
    return [sum(op.name == LOAD for op in stretch) for stretch in stretches(root)]
