"""Accesses to shared memory by way of other layouts: the same results, in the wavefronts foreseen."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from staged_accesses import Case, random_cases, wavefront_difference
from staged_layouts import MMA, SWIZZLED

from bench.whole_kernels import LOWERING, lower_kernel
from triton_linear.dialect import bridge, f2, ll
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.planners.conversion import Reach, conversion
from triton_linear.lowering.planners.select import select
from triton_linear.lowering.target import limits
from triton_linear.lowering.target.policy import UNBOUNDED
from triton_linear.lowering.target.situation import Situation
from triton_linear.lowering.target.targets import target
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.staging import choice, family
from triton_linear.passes.staging.choice import Staging, staging_for
from triton_linear.passes.staging.family import places
from triton_linear.passes.staging.local import LowerLocal
from triton_linear.tools.support.compile import lower, to_triton

TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942", "hip:gfx950", "hip:gfx1200")
ROWS = "#ttg.blocked<{sizePerThread = [1, 16], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
TURNED = "#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 8}>"


@pytest.mark.parametrize("name", TARGETS)
def test_any_layout_of_registers_with_any_of_memory(name: str) -> None:
    """The kernel computes what it did; what is foreseen of Triton, and of the staged access, is what is run."""
    chosen = 0
    for case, _ in zip(random_cases(1, name), range(4), strict=False):
        assert wavefront_difference(case) is None, case
        if isinstance(case.choice, Staging):
            chosen += 1
            assert case.choice.after.wavefronts < case.choice.before.wavefronts, case
    assert chosen >= 1


@pytest.mark.parametrize(
    ("lanes", "joined"), [([0, 0, 1, 2, 4], True), ([1, 0, 0, 2, 4], True), ([1, 2, 0, 0, 4], False)]
)
def test_loads_of_copies_take_half_as_many_wavefronts(lanes: list[int], joined: bool) -> None:
    """A warp loads eight rows of 32 bytes, 16 at once, from memory with rows of 32 bytes."""
    lane = [[row, 0] for row in lanes]
    bases = f"register = [[0, 1], [0, 2], [0, 4], [0, 8]], lane = {lane}, warp = [[8, 0], [16, 0]], block = []"
    registers = f"#ttg.linear<{{{bases}}}>"
    plain = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
    case = Case("cuda:90", 4, (32, 16), "f16", registers, plain, is_store=False)
    assert wavefront_difference(case) is None
    assert case.wavefronts(ours=False) == (4 if joined else 8) * 4


@pytest.mark.parametrize("name", TARGETS)
def test_a_staged_access_stays_inside_the_warps_and_pays(name: str) -> None:
    chosen = 0
    for case, _ in zip(random_cases(2, name), range(12), strict=False):
        wanted, choice = case.layout(case.registers), case.choice
        if not isinstance(choice, Staging):
            continue
        chosen += 1
        sides = (wanted, choice.layout) if case.is_store else (choice.layout, wanted)
        assert conversion(*sides).reach <= Reach.WARP
        assert choice.plan.kind in ("noop", "registers", "shuffle")
        assert choice.plan.scratch_bytes == 0
        assert choice.plan == select(*sides, case.type, Situation.on(target(name))).plan
        assert choice.after.expected < target(name).policy.staging_left * choice.before.expected
    assert chosen >= 2


@pytest.mark.parametrize("name", TARGETS)
def test_every_layout_of_the_family_holds_the_same_elements_in_each_warp(name: str) -> None:
    for case, _ in zip(random_cases(3, name), range(12), strict=False):
        wanted = case.layout(case.registers)
        bases = dict(wanted.bases)
        held = set(f2.sums(f2.extend((), (*wanted.columns(REGISTER), *wanted.columns(LANE)))))
        for found in places(case.access, wanted, target(name)):
            layout = found.layout(wanted)
            assert set(f2.sums(f2.extend((), (*layout.columns(REGISTER), *layout.columns(LANE))))) == held
            assert dict(layout.bases)[WARP] == bases[WARP]
            assert found.wavefronts == case.access.wavefronts(layout, target(name))


@pytest.mark.parametrize("name", TARGETS)
def test_placements_below_so_many_wavefronts_are_those_among_all(name: str) -> None:
    left_out = 0
    for case, _ in zip(random_cases(4, name), range(8), strict=False):
        wanted, gpu = case.layout(case.registers), target(name)
        every = places(case.access, wanted, gpu)
        for below in {found.wavefronts for found in every}:
            fewer = [found for found in every if found.wavefronts < below]
            assert places(case.access, wanted, gpu, below) == fewer, case
            left_out += len(every) - len(fewer)
    assert left_out


def test_bytes_that_lie_the_other_way_are_stored_in_words() -> None:
    """64x128 of 8 bits from rows to columns: `st.shared.b8` of 32 wavefronts each, or words of four. What takes
    half as many wavefronts wants a conversion that goes through shared memory itself."""
    case = Case("cuda:90", 4, (64, 128), "f8E4M3FN", ROWS, TURNED, is_store=True)
    assert case.wavefronts(ours=False) == 2048
    assert case.wavefronts(ours=True) <= 512


def test_operands_of_bytes_across_their_rows_are_loaded_in_words() -> None:
    """The right operand of an 8-bit product, of rows: `ld.shared.b8`, four wavefronts for one."""
    case = Case("cuda:80", 4, (64, 128), "f8E5M2", MMA.replace("$", "1"), SWIZZLED, is_store=False)
    assert case.wavefronts(ours=False) == 1024
    assert case.wavefronts(ours=True) == 256


def _ptx(case: Case, *, ours: bool) -> Mapping[str, int]:
    text = lower_kernel(case.text, "local.ttgir", case.target, LOWERING if ours else None).embedded
    ptx = lower(to_triton(text), case.target, "ptx").text("ptx")
    lines = [line.split()[0] for line in ptx.splitlines() if line.startswith("\t") and line.split()]
    return {
        name: sum(line.startswith(name) for line in lines)
        for name in ("ld.shared", "st.shared", "shfl", "bar.")
    }


def test_ptx_has_no_more_barriers_and_fewer_accesses() -> None:
    case = Case("cuda:80", 4, (64, 128), "f8E5M2", MMA.replace("$", "1"), SWIZZLED, is_store=False)
    stock, ours = _ptx(case, ours=False), _ptx(case, ours=True)
    assert stock["ld.shared"] == 256
    assert ours["ld.shared"] == 64
    assert ours["bar."] == stock["bar."]
    assert ours["shfl"] > stock["shfl"] == 0


def test_operands_that_matrix_instructions_fetch_stay() -> None:
    """`ldmatrix` is at the bound."""
    swizzled = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
    encoding = MMA.replace("$", "0").replace("kWidth = 4", "kWidth = 2")
    case = Case("cuda:80", 4, (128, 64), "f16", encoding, swizzled, is_store=False)
    module = bridge.text_to_upstream(case.text, bridge.upstream_context(), "local.ttgir")
    outcome = run_passes(module, [LowerLocal("cuda:80")])
    loads = [op for op in operations(module.operation) if op.name == "ttg.local_load"]
    assert outcome.succeeded
    assert not any(ll.STAGED in op.attributes for op in loads)


@pytest.mark.parametrize("padding", ["", "[256:+4] "])
def test_memory_with_padding_stays(padding: str) -> None:
    """Offsets there are no linear function, and banks are not those that the models foresee."""
    plain = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>"
    padded = f"#ttg.padded_shared<{padding}{{order = [0, 1], shape = [64, 128]}}>"
    text = Case("cuda:90", 4, (64, 128), "i8", ROWS, padded if padding else plain, is_store=True).text
    module = bridge.text_to_upstream(text, bridge.upstream_context(), "local.ttgir")
    assert run_passes(module, [LowerLocal("cuda:90")]).succeeded
    found = [op.name for op in operations(module.operation) if ll.STAGED in op.attributes]
    assert ("ttg.local_store" in found) == (not padding)


@pytest.mark.parametrize("hint", ["", " {tt.contiguity = dense<4> : tensor<2xi32>}"])
def test_a_load_that_promises_something_stays(hint: str) -> None:
    """Triton's axis analysis reads the promise, and has to find it where the value is used."""
    text = Case("cuda:90", 4, (64, 128), "i8", ROWS, TURNED, is_store=False).text
    text = text.replace("= ttg.local_load %m", f"= ttg.local_load %m{hint}")
    module = bridge.text_to_upstream(text, bridge.upstream_context(), "local.ttgir")
    assert run_passes(module, [LowerLocal("cuda:90")]).succeeded
    found = [op.name for op in operations(module.operation) if ll.STAGED in op.attributes]
    assert ("ttg.local_load" in found) == (not hint)


RIGHT = MMA.replace("$", "1")
TAKEN = {
    "nothing": ("", True),
    "arithmetic": (f"%z = arith.extui %y : tensor<64x128xi8, {RIGHT}> to tensor<64x128xi16, {RIGHT}>", False),
    "unpacking": (
        f"%z = ttg.fp4_to_fp %y {{axis = 0 : i32}} : tensor<64x128xi8, {RIGHT}> -> "
        f"tensor<128x128xbf16, {RIGHT.replace('kWidth = 4', 'kWidth = 8')}>",
        False,
    ),
}


@pytest.mark.parametrize("taken", TAKEN)
def test_bytes_that_are_taken_one_by_one_are_loaded_so(taken: str) -> None:
    """A staged access loads words: taking bytes out counts, where an access by itself has them apart."""
    use, expected = TAKEN[taken]
    text = Case("cuda:90", 4, (64, 128), "i8", RIGHT, SWIZZLED, is_store=False).text
    text = text.replace("tt.return", f"{use}\ntt.return")
    module = bridge.text_to_upstream(text, bridge.upstream_context(), "local.ttgir")
    assert run_passes(module, [LowerLocal("cuda:90")]).succeeded
    found = [op.name for op in operations(module.operation) if ll.STAGED in op.attributes]
    assert ("ttg.local_load" in found) == expected


FARTHER = {"staging_fillings": 384}
DECIDED = {
    "staging_giving_way": Case(
        "hip:gfx942",
        1,
        (64, 32),
        "f32",
        "#ttg.dot_op<{opIdx = 0, parent = #ttg.amd_mfma<{version = 3, warpsPerCTA = [1, 1], "
        "instrShape = [16, 16, 16], isTransposed = true}>, kWidth = 4}>",
        "#ttg.amd_rotating_shared<{vec = 4, perPhase = 4, maxPhase = 2, order = [1, 0]}>",
        False,
        1,
    ),
    "staging_alike": Case(
        "hip:gfx942",
        4,
        (32, 32),
        "f8E5M2",
        "#ttg.slice<{dim = 2, parent = #ttg.blocked<{sizePerThread = [1, 2, 1], threadsPerWarp = [1, 32, 2], "
        "warpsPerCTA = [2, 1, 2], order = [0, 2, 1]}>}>",
        "#ttg.amd_rotating_shared<{vec = 2, perPhase = 2, maxPhase = 1, order = [0, 1]}>",
        True,
        2,
    ),
    "staging_fillings_kept": Case(
        "hip:gfx942",
        1,
        (64, 64),
        "i8",
        "#ttg.linear<{register = [[0, 32], [1, 0], [8, 0], [0, 2], [0, 4], [0, 16]], "
        "lane = [[0, 8], [2, 0], [0, 1], [4, 0], [16, 0], [32, 0]], warp = [], block = []}>",
        "#ttg.amd_rotating_shared<{vec = 1, perPhase = 1, maxPhase = 8, order = [1, 0]}>",
        True,
        1,
    ),
    "staging_planned": Case(
        "hip:gfx942",
        1,
        (32, 128),
        "bf16",
        "#ttg.linear<{register = [[0, 32], [8, 0], [0, 16], [0, 4], [0, 8], [4, 0]], "
        "lane = [[0, 1], [1, 0], [0, 64], [2, 0], [16, 0], [0, 2]], warp = [], block = []}>",
        "#ttg.swizzled_shared<{vec = 1, perPhase = 4, maxPhase = 16, order = [1, 0]}>",
        True,
        1,
    ),
    "staging_bounded": Case(
        "hip:gfx942",
        4,
        (64, 64),
        "f16",
        "#ttg.slice<{dim = 1, parent = #ttg.blocked<{sizePerThread = [1, 1, 1], threadsPerWarp = [2, 32, 1], "
        "warpsPerCTA = [2, 2, 1], order = [0, 1, 2]}>}>",
        "#ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = true, elementBitWidth = 16}>",
        True,
        1,
    ),
    "staging_fillings": Case(
        "hip:gfx942",
        2,
        (64, 64),
        "bf16",
        "#ttg.linear<{register = [[16, 0], [1, 0], [0, 8], [8, 0], [4, 0], [0, 0]], "
        "lane = [[0, 16], [0, 32], [32, 0], [0, 1], [0, 4], [2, 0]], warp = [[0, 2]], block = []}>",
        "#ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = true, elementBitWidth = 16}>",
        True,
        1,
    ),
}


def _forget() -> None:
    """Searches of other limits are not remembered."""
    for module in (choice, family):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


@pytest.mark.parametrize("name", DECIDED)
def test_limits_of_the_search_decide_some_accesses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No module of ours shows it: with the search gone on to its end another layout is taken."""
    case = DECIDED[name]
    gpu, wanted = target(case.target), case.layout(case.registers)
    _forget()
    taken = staging_for(case.access, wanted, case.type, Situation.on(gpu))
    monkeypatch.setattr(limits, name.upper(), FARTHER.get(name, UNBOUNDED))
    _forget()
    assert staging_for(case.access, wanted, case.type, Situation.on(gpu)) != taken
    _forget()
