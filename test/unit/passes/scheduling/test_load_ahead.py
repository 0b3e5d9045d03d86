"""Loops begin the loads of their next iteration in the one before, and load nothing else."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from module_equivalence import ran, stays_the_same, upstream
from module_machine import Machine, run

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Attribute, IntegerAttr, Module, Operation, Value, operations
from triton_linear.lowering.target.targets import target
from triton_linear.passes.analysis.flow import terminator
from triton_linear.passes.analysis.writes import early
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.operations.names import COMPARE, CONSTANT, LOAD, STORE
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import pipeline
from triton_linear.passes.scheduling import load_ahead
from triton_linear.passes.scheduling.load_ahead import LoadAhead, _has_registers
from triton_linear.passes.screen import screened

A, B = "tensor<512xi32, #a>", "tensor<512xi32, #b>"
P, M = "tensor<512x!tt.ptr<i32>, #a>", "tensor<512xi1, #a>"
HEAD = """
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90",
                   "ttg.threads-per-warp" = 32 : i32} {
tt.func @f(%in: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %out: !tt.ptr<i32> {tt.divisibility = 16 : i32},
           %n: i32, %m: i32) {
  %lane = tt.make_range {start = 0 : i32, end = 512 : i32} : tensor<512xi32, #a>
  %from = tt.splat %in : !tt.ptr<i32> -> tensor<512x!tt.ptr<i32>, #a>
  %to = tt.splat %out : !tt.ptr<i32> -> tensor<512x!tt.ptr<i32>, #a>
  %p = tt.addptr %from, %lane : tensor<512x!tt.ptr<i32>, #a>, tensor<512xi32, #a>
  %q = tt.addptr %to, %lane : tensor<512x!tt.ptr<i32>, #a>, tensor<512xi32, #a>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  %far = arith.constant dense<512> : tensor<512xi32, #a>
  %none = arith.constant dense<-7> : tensor<512xi32, #a>
  %limit = tt.splat %m : i32 -> tensor<512xi32, #a>
  %low = tt.splat %n : i32 -> tensor<512xi32, #a>
"""
TAIL = "\n  tt.return\n}\n}\n"
OFFSETS = (
    f"%i0 = tt.splat %i : i32 -> {A}\n%i1 = arith.muli %i0, %far : {A}\n%o = arith.addi %lane, %i1 : {A}\n"
    f"%at = tt.addptr %p, %o : {P}, {A}"
)
LOADED = f"%x = tt.load %at : {P}"
EXCHANGED = f"%y = ttg.convert_layout %x : {A} -> {B}\n%z = ttg.convert_layout %y : {B} -> {A}"
STORED = f"%to_i = tt.addptr %q, %o : {P}, {A}\ntt.store %to_i, %z : {P}"


def loop(*steps: str, bounds: str = "%zero to %n step %one", carries: str = "") -> str:
    return f"scf.for %i = {bounds} {carries}: i32 {{\n" + "\n".join(steps) + "\n}"


def of(*steps: str) -> str:
    return HEAD + "\n".join(steps) + TAIL


class Recorded(Machine):
    """Counts the addresses that are loaded from."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: Counter[int] = Counter()

    def load(self, value: Value, addresses: Any, mask: Any, other: Any) -> Any:
        flags = np.broadcast_to(True if mask is None else np.asarray(mask) != 0, np.shape(addresses))
        self.loaded.update(np.asarray(addresses)[flags].reshape(-1).tolist())
        return super().load(value, addresses, mask, other)


def executed(root: Module, *numbers: int) -> Recorded:
    """The machine behind a run with these arguments beside the pointers."""
    machine = Recorded()
    run(root, [1 << 44, 2 << 44, *numbers], machine)
    return machine


def rewritten(text: str) -> Module:
    """The module after the pass: it stores what it did, and loads what it did, each as often."""
    root = stays_the_same(text, [LoadAhead()], ran(upstream(text)))
    for numbers in ((0, 4), (1, 0), (2, 3), (4, 4)):
        before, after = executed(upstream(text), *numbers), executed(root, *numbers)
        assert after.memory.same(before.memory)
        assert after.loaded == before.loaded
    return root


def goes_ahead(text: str) -> bool:
    return ll.EARLY in rewritten(text).operation.attributes


def body_of(root: Module) -> list[Operation]:
    (loop,) = (op for op in operations(root.operation) if op.name == "scf.for")
    return [view.operation for view in loop.regions[0].blocks[0].operations]


def test_arguments_may_lead_to_one_memory_unless_that_is_checked() -> None:
    """Each iteration stores where the next one loads, if the arguments are one buffer."""
    written = STORED.replace("%q, %o", "%q, %behind")
    text = of(loop(OFFSETS, LOADED, EXCHANGED, f"%behind = arith.addi %o, %far : {A}", written))
    assert tuple(early(rewritten(text).operation)) == ((0, 1),)
    for passes in ([LoadAhead(distinct=False)], [LoadAhead()]):
        root, machines = upstream(text), [Machine(), Machine()]
        assert run_passes(root, passes, verify=True).succeeded
        for module, machine in zip((upstream(text), root), machines, strict=True):
            run(module, [1 << 44, 1 << 44, 4, 4], machine)
        assert machines[0].memory.same(machines[1].memory) == (passes == [LoadAhead(distinct=False)])
        assert (ll.EARLY in root.operation.attributes) == (passes != [LoadAhead(distinct=False)])


def test_they_come_behind_the_last_use_of_this_iteration_s() -> None:
    doubled = f"%d = arith.addi %x, %x : {A}"
    inside = [
        op.name
        for op in body_of(rewritten(of(loop(OFFSETS, LOADED, doubled, EXCHANGED.replace("%x", "%d"), STORED))))
    ]
    first_use = inside.index("arith.addi", inside.index("tt.addptr"))
    assert first_use < inside.index(LOAD) < inside.index("ttg.convert_layout")


MASKED = f"%k = arith.cmpi slt, %o, %limit : {A}\n%x = tt.load %at, %k : {P}"
OTHERWISE = f"%k = arith.cmpi slt, %o, %limit : {A}\n%x = tt.load %at, %k, %none : {P}"
SCALAR = (
    f"%s = tt.addptr %in, %i : !tt.ptr<i32>, i32\n%w = tt.load %s : !tt.ptr<i32>\n%x = tt.splat %w : i32 -> {A}"
)
KEPT = f"%x = tt.load %at cacheModifier = ca evictionPolicy = evict_first : {P}"


@pytest.mark.parametrize("load", [LOADED, MASKED, OTHERWISE, SCALAR, KEPT])
@pytest.mark.parametrize(
    "bounds", ["%zero to %n step %one", "%n to %m step %three", "%one to %three step %one"]
)
def test_every_kind_of_load_in_loops_of_any_length(load: str, bounds: str) -> None:
    assert goes_ahead(of(loop(OFFSETS, load, EXCHANGED, STORED, bounds=bounds)))


def test_counters_below_zero() -> None:
    below = "%below = arith.constant -2 : i32\n"
    text = of(below + loop(OFFSETS, LOADED, EXCHANGED, STORED, bounds="%below to %one step %one"))
    root = rewritten(text)
    assert sum(executed(root, 0, 0).loaded.values()) == 3 * 512


def test_a_load_keeps_what_it_says_of_caches() -> None:
    def said(root: Module) -> set[tuple[str, ...]]:
        names = ("cache", "evict", "cachePolicy", "isVolatile")
        loads = [op for op in operations(root.operation) if op.name == LOAD]
        return {tuple(str(op.attributes[name]) for name in names if name in op.attributes) for op in loads}

    text = of(loop(OFFSETS, KEPT, EXCHANGED, STORED))
    assert said(rewritten(text)) == said(upstream(text)) != said(upstream(text.replace(KEPT, LOADED)))


def test_only_the_loads_whose_addresses_are_at_hand() -> None:
    indirect = f"%at2 = tt.addptr %p, %z : {P}, {A}\n%x2 = tt.load %at2 : {P}\n%z2 = arith.addi %z, %x2 : {A}"
    root = rewritten(of(loop(OFFSETS, LOADED, EXCHANGED, indirect, STORED.replace("%z", "%z2"))))
    assert [op.name for op in body_of(root)].count(LOAD) == 2
    names = [op.name for op in operations(root.operation)]
    assert names[: names.index("scf.for")].count(LOAD) == 1


CODE = (
    '%e = tt.elementwise_inline_asm "mov.u32 $0, $1;" {constraints = "=r,r", packed_element = 1 : i32, '
    f"pure = true}} %i1 : {A} -> {A}"
)
STAY = {
    "one address, whatever the mask": (
        *(f"%i0 = tt.splat %i : i32 -> {A}", f"%k = arith.cmpi slt, %i0, %limit : {A}"),
        *(f"%x = tt.load %p, %k : {P}", EXCHANGED, f"tt.store %q, %z : {P}"),
    ),
    "code of others in an address": (
        OFFSETS.replace("%o = ", f"{CODE}\n%o = ").replace("%lane, %i1", "%lane, %e"),
        *(LOADED, EXCHANGED, STORED),
    ),
    "no exchange": (OFFSETS, LOADED, STORED.replace("%z", "%x")),
    "a store to what is read": (OFFSETS, LOADED, EXCHANGED, f"tt.store %p, %z : {P}"),
    "a barrier": (OFFSETS, LOADED, EXCHANGED, "gpu.barrier", STORED),
    "a volatile load": (OFFSETS, f"%x = tt.load %at {{isVolatile = true}} : {P}", EXCHANGED, STORED),
    "an atomic operation": (
        *(OFFSETS, LOADED, EXCHANGED),
        f"%old = tt.atomic_rmw add, relaxed, gpu, %q, %z : ({P}, {A}) -> {A}",
    ),
    "a loop inside": (*(OFFSETS, LOADED, EXCHANGED), loop(STORED).replace("%i ", "%j ")),
    "a division that may be by zero": (
        *("%d = arith.divsi %i, %m : i32", OFFSETS.replace("splat %i", "splat %d"), LOADED, EXCHANGED),
        STORED,
    ),
}


def stays(text: str, **options: str) -> bool:
    root = upstream(text)
    before = str(root)
    assert run_passes(root, [LoadAhead(**options)], verify=True).succeeded
    return str(root) == before


@pytest.mark.parametrize("why", STAY)
def test_loops_that_stay(why: str) -> None:
    assert stays(of(loop(*STAY[why])))


AHEAD = {
    "addresses that it carries": "%end = "
    + loop(
        *(LOADED, EXCHANGED, f"tt.store %q, %z : {P}"),
        *(f"%next = tt.addptr %at, %far : {P}, {A}", f"scf.yield %next : {P}"),
        carries=f"iter_args(%at = %p) -> ({P}) ",
    )
    + f"\ntt.store %end, %lane : {P}",
    "addresses that take turns": "%end:2 = "
    + loop(
        *(LOADED, EXCHANGED, f"%to_i = tt.addptr %q, %z : {P}, {A}", f"tt.store %to_i, %z : {P}"),
        *(f"%further = tt.addptr %then, %far : {P}, {A}", f"scf.yield %further, %at : {P}, {P}"),
        carries=f"iter_args(%at = %p, %then = %from) -> ({P}, {P}) ",
    ),
    "a division by a constant": loop(
        *("%d = arith.divsi %i, %three : i32", OFFSETS.replace("splat %i", "splat %d")),
        *(LOADED, EXCHANGED, STORED),
    ),
    "a branch that stores": loop(
        *(OFFSETS, LOADED, EXCHANGED),
        f"%c = arith.cmpi slt, %i, %m : i32\nscf.if %c {{\ntt.store %q, %z : {P}\n}}",
    ),
}


@pytest.mark.parametrize("what", AHEAD)
def test_loops_that_go_ahead(what: str) -> None:
    assert goes_ahead(of(AHEAD[what]))


def test_what_is_undefined_past_the_last_iteration_masks_nothing() -> None:
    """There a shift by 32 bits makes a mask that is undefined, and so is its conjunction with anything."""
    numbers = "%two = arith.constant 2 : i32\n%sixteen = arith.constant 16 : i32"
    mask = (
        "%w = arith.muli %i, %sixteen : i32\n%h = arith.shrui %m, %w : i32\n%g = arith.trunci %h : i32 to i1\n"
        f"%k = tt.splat %g : i1 -> {M}\n%x = tt.load %at, %k, %none : {P}"
    )
    bounds = "%zero to %two step %one"
    root = rewritten(of(numbers, loop(OFFSETS, mask, EXCHANGED, STORED, bounds=bounds)))
    masks = [op.operands[1].owner.operation for op in operations(root.operation) if op.name == LOAD]
    assert [mask.name for mask in masks] == ["arith.select"] * 2
    runs = {mask.operands[0].owner.operation.name for mask in masks}
    assert runs == {"arith.cmpi"}


@pytest.mark.parametrize(
    ("elements", "said"),
    [(512, "1 load of the loop an iteration ahead, "), (65536, "1 load of the loop not an iteration ahead: ")],
)
def test_remarks_say_what_registers_decided(elements: int, said: str) -> None:
    text = of(loop(OFFSETS, LOADED, EXCHANGED, STORED)).replace("512", str(elements))
    done = run_passes(upstream(text), [LoadAhead()])
    assert said in str(done.diagnostics)
    assert "registers of a thread instead of" in str(done.diagnostics)


def test_many_operations_may_lead_to_an_address() -> None:
    chain = [f"%a{n} = arith.addi %a{n - 1}, %far : {A}" for n in range(1, 1500)]
    loads = f"%a0 = tt.splat %i : i32 -> {A}", *chain, f"%at = tt.addptr %p, %a1499 : {P}, {A}", LOADED
    root = upstream(of(loop(*loads, EXCHANGED, f"tt.store %q, %z : {P}")))
    assert run_passes(root, [LoadAhead()]).succeeded
    assert ll.EARLY in root.operation.attributes


def test_loads_keep_their_locations() -> None:
    text = of(loop(OFFSETS, f'{LOADED} loc("here")', EXCHANGED, STORED))
    root = rewritten(text)
    found = [str(op.location) for op in operations(root.operation) if op.name == LOAD]
    assert found == ['loc("here")'] * 2


@pytest.mark.parametrize(
    ("words", "warps", "fits"),
    [
        (80, 4, True),  # 92 registers: five CTAs of four warps
        (81, 4, True),
        (98, 16, False),  # one CTA of 16 warps
        (109, 4, False),
        (201, 4, False),  # eight warps
    ],
)
def test_registers_decide(words: float, warps: int, fits: bool) -> None:
    assert _has_registers(words, warps, target("cuda:90")) == fits


def test_clusters_stay() -> None:
    root = upstream(of(loop(OFFSETS, LOADED, EXCHANGED, STORED)))
    root.operation.attributes["ttg.num-ctas"] = Attribute.parse("2 : i32", root.context)
    assert run_passes(root, [LoadAhead()]).succeeded
    assert ll.EARLY not in root.operation.attributes


def test_screening_keeps_loops_that_load_and_scan() -> None:
    """A kernel that has nothing else for the passes."""
    for names, stays_in in (
        ({"scf.for": 1, "tt.load": 1, "tt.scan": 1}, True),
        ({"scf.for": 1, "tt.load": 1}, False),
        ({"tt.load": 1, "tt.scan": 1}, False),
    ):
        left = screened(PipelineOptions(), names, lambda: False)
        assert (left is not None) == stays_in
        if left is not None:
            assert [each.name for each in pipeline(left, "cuda:90")].count(LoadAhead.name) == 1
            assert not left.chooses_layouts
        assert screened(PipelineOptions(assign=False, reductions=False), names, lambda: False) is None


def test_nothing_is_said_for_gpus_where_no_loop_goes_ahead() -> None:
    text = of(loop(OFFSETS, LOADED, EXCHANGED, STORED))
    done = run_passes(upstream(text), [LoadAhead(target="hip:gfx942")])
    assert done.succeeded and not done.diagnostics


@st.composite
def loops(draw: st.DrawFn) -> str:
    """A loop over tensors: addresses by its counter or carried, masks, and uses before and behind exchanges."""
    count = draw(st.integers(1, 4))
    steps, carried, stored = [OFFSETS], draw(st.booleans()), "%lane"
    for n in range(count):
        pointer = draw(
            st.sampled_from(["%at", "%at", "%c0" if carried else "%at", f"%z{n - 1}p" if n else "%at"])
        )
        if pointer.endswith("p"):  # behind the exchange of what was loaded before
            steps.append(f"{pointer} = tt.addptr %p, %z{n - 1} : {P}, {A}")
        mask = draw(st.sampled_from(["", ", %k{n}", ", %k{n}, %none"])).format(n=n)
        against = draw(st.sampled_from(["%o", "%lane"]))
        steps.append(f"%k{n} = arith.cmpi slt, {against}, %limit : {A}")
        steps.append(f"%x{n} = tt.load {pointer}{mask} : {P}")
        if draw(st.booleans()):
            steps.append(f"%y{n} = ttg.convert_layout %x{n} : {A} -> {B}")
            steps.append(f"%z{n} = ttg.convert_layout %y{n} : {B} -> {A}")
        else:
            steps.append(f"%z{n} = arith.xori %x{n}, %far : {A}")
        stored = draw(st.sampled_from([f"%x{n}", f"%z{n}", stored]))
    steps.append(STORED.replace("%z", stored))
    bounds = draw(st.sampled_from(["%zero to %n step %one", "%n to %m step %one", "%zero to %m step %three"]))
    if not carried:
        return loop(*steps, bounds=bounds)
    steps += [f"%c1 = tt.addptr %c0, %far : {P}, {A}", f"scf.yield %c1 : {P}"]
    return "%end = " + loop(*steps, bounds=bounds, carries=f"iter_args(%c0 = %p) -> ({P}) ")


@settings(max_examples=30, deadline=None)
@given(loops())
def test_loops_load_and_store_what_they_did(text: str) -> None:
    rewritten(of(text))


# A rewriting that goes wrong


def yields_what_it_has(loop: Operation, argument: Value) -> None:
    """Each iteration hands on what it was given."""
    end = terminator(loop.regions[0].blocks[0])
    end.operands[len(end.operands) - 1] = argument


def begins_with_another(loop: Operation, argument: Value) -> None:
    """The first iteration is given the default of a masked load."""
    (none,) = (
        op for op in operations(loop.parent) if op.name == CONSTANT and "-7" in str(op.attributes["value"])
    )
    loop.operands[len(loop.operands) - 1] = none.results[0]


def goes_by_another_step(loop: Operation, argument: Value) -> None:
    loop.operands[2] = loop.operands[0]


def loses_a_store(loop: Operation, argument: Value) -> None:
    (store,) = (op for op in operations(loop) if op.name == STORE)
    store.erase()


def loads_unmasked_past_the_end(loop: Operation, argument: Value) -> None:
    for op in operations(loop):
        if op.name == COMPARE:
            op.attributes["predicate"] = IntegerAttr.get(op.attributes["predicate"].type, 3)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (yields_what_it_has, "an iteration would not yield what the next one loads"),
        (begins_with_another, "a loop would not be given what its first iteration loads"),
        (goes_by_another_step, "an iteration would not yield what the next one loads"),
        (loads_unmasked_past_the_end, "an iteration would not yield what the next one loads"),
        (loses_a_store, "with loads an iteration ahead would not compute the same"),
    ],
)
def test_another_program_is_refused(fault: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite = load_ahead._Advance.rewrite

    def wrong(self: Any) -> dict[Value, Value]:
        carried = rewrite(self)
        (argument,) = carried
        fault(argument.owner.owner.operation, argument)
        return carried

    monkeypatch.setattr(load_ahead._Advance, "rewrite", wrong)
    root = upstream(HEAD + loop(OFFSETS, LOADED, EXCHANGED, STORED) + TAIL)
    outcome = run_passes(root, [LoadAhead()])
    assert not outcome.succeeded and said in outcome.errors
