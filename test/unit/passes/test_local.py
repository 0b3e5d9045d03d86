"""Accesses to shared memory by way of other layouts: the same results, in the wavefronts foreseen."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from triton_linear.dialect import bridge, encodings, f2, ll
from triton_linear.dialect.linear_layout import LANE, REGISTER, WARP, LinearLayout
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.conversion import Reach, conversion
from triton_linear.lowering.element import ElementType, element_type
from triton_linear.lowering.select import select
from triton_linear.lowering.targets import target
from triton_linear.lowering.verify import element_patterns, held_elements
from triton_linear.passes import driver
from triton_linear.passes.assignment.local import LocalAccess
from triton_linear.passes.detour.choice import Detour, detour, worth
from triton_linear.passes.detour.family import places
from triton_linear.passes.local import LowerLocal
from triton_linear.tools.compile import lower, to_triton
from triton_linear.tools.functions import lower_kernel, sink
from triton_linear.tools.random_layouts import kernel_encoding, random_columns

TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942", "hip:gfx950", "hip:gfx1200")
MMA = (
    "#ttg.dot_op<{opIdx = $, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, "
    "warpsPerCTA = [4, 1], instrShape = [16, 8]}>, kWidth = 4}>"
)
ROWS = "#ttg.blocked<{sizePerThread = [1, 16], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
TURNED = "#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 8}>"
SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 16, order = [1, 0]}>"


@dataclass(frozen=True)
class Case:
    """A tensor that is stored to shared memory and loaded again, on one side in the layout `registers`."""

    target: str
    warps: int
    shape: tuple[int, int]
    element: str
    registers: str
    memory: str
    is_store: bool
    part: int = 1
    """One of so many parts of a buffer, along its rows."""

    @property
    def type(self) -> ElementType:
        return element_type(self.element)

    @property
    def plain(self) -> str:
        """The layout on the other side."""
        lanes = target(self.target).lanes
        return (
            f"#ttg.blocked<{{sizePerThread = [1, 1], threadsPerWarp = [1, {lanes}], "
            f"warpsPerCTA = [{self.warps}, 1], order = [1, 0]}}>"
        )

    def layout(self, encoding: str) -> LinearLayout:
        return encodings.held_layout_of(encoding, self.shape, self.type.bits)

    @property
    def sides(self) -> tuple[str, str]:
        """The encodings that the tensor has before and behind."""
        return (self.registers, self.plain) if self.is_store else (self.plain, self.registers)

    @property
    def text(self) -> str:
        rows, columns = self.shape
        tensor = f"tensor<{rows}x{columns}x{self.element}, "
        memory = f"x{columns}x{self.element}, {self.memory}, #ttg.shared_memory, mutable"
        before, behind = (f"{tensor}{encoding}>" for encoding in self.sides)
        whole = f"!ttg.memdesc<{rows * self.part}{memory}>"
        seen, view = whole, ""
        if self.part > 1:
            seen = f"!ttg.memdesc<{rows}{memory}, {rows * self.part}x{columns}>"
            view = f"%v = ttg.memdesc_subslice %m[{rows * (self.part - 1)}, 0] : {whole} -> {seen}\n"
        value = "%v" if view else "%m"
        return (
            f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {self.warps} : i32, '
            f'ttg.target = "{self.target}", "ttg.threads-per-warp" = {target(self.target).lanes} : i32}} {{\n'
            f"tt.func public @kernel(%x: {before}) {{\n%m = ttg.local_alloc : () -> {whole}\n{view}"
            f"ttg.local_store %x, {value} : {before} -> {seen}\n"
            f"%y = ttg.local_load {value} : {seen} -> {behind}\n"
            f"{sink('%y', behind, 'result')}\ntt.return\n}}\n}}\n"
        )

    @property
    def access(self) -> LocalAccess:
        whole = (self.shape[0] * self.part, self.shape[1])
        memory = encodings.layout_of(self.memory, whole, self.type.bits)
        found = LocalAccess.of(memory, self.shape, self.type.memory_bytes, self.is_store)
        assert found is not None
        return found

    @property
    def choice(self) -> object:
        return detour(self.access, self.layout(self.registers), self.type, target(self.target))

    def wavefronts(self, *, ours: bool) -> int:
        """Those that the side takes, of all warps, once the kernel is seen to give every element its place."""
        kernel = lower_kernel(self.text, "local.ttgir", self.target, ours=ours)
        lanes = target(self.target).lanes
        fed, expected = (held_elements(self.layout(side), lanes, self.warps, 0) for side in self.sides)
        patterns = element_patterns(self.shape[0] * self.shape[1], self.type.bits)
        outcome = kernel.run([list(patterns[:, fed].swapaxes(0, 1))], trials=len(patterns))
        values, undefined = outcome.sinks["result"]
        limit = np.uint64(2**self.type.bits - 1)
        assert not (undefined & limit).any()
        assert ((values & limit) == patterns[:, expected].swapaxes(0, 1)).all()
        assert not outcome.races
        kind = "store" if self.is_store else "load"
        return sum(access.wavefronts for access in outcome.counts.accesses if access.kind == kind)


def memory(rng: random.Random, bits: int) -> str:
    """A layout of shared memory."""
    order = rng.choice(("[1, 0]", "[0, 1]"))
    if rng.random() < 0.3:
        width, turned = rng.choice((0, 32, 64, 128)), rng.choice(("true", "false"))
        return (
            f"#ttg.nvmma_shared<{{swizzlingByteWidth = {width}, transposed = {turned}, "
            f"elementBitWidth = {bits}}}>"
        )
    kind = rng.choice(("swizzled", "swizzled", "amd_rotating"))
    sizes = [1, 2, 4, 8, 16]
    return (
        f"#ttg.{kind}_shared<{{vec = {rng.choice(sizes)}, perPhase = {rng.choice(sizes[:3])}, "
        f"maxPhase = {rng.choice(sizes)}, order = {order}}}>"
    )


def random_cases(seed: int, name: str) -> Iterator[Case]:
    """Any layouts of registers, of matrices among them, with any of memory."""
    rng, lanes = random.Random(f"{seed} {name}"), target(name).lanes
    while True:
        warps, element = rng.choice((1, 2, 4, 8)), rng.choice(("i8", "f8E5M2", "f16", "bf16", "f32", "f64"))
        shape = rng.choice(((32, 32), (64, 32), (64, 64), (32, 128), (128, 16)))
        if rng.random() < 0.6:
            registers = kernel_encoding(rng, lanes, warps, shape, name)
        else:
            registers = random_columns(rng, shape, lanes, warps, False).text(2)
        bits = element_type(element).bits
        case = Case(
            name, warps, shape, element, registers, memory(rng, bits), rng.random() < 0.5, rng.choice((1, 1, 2))
        )
        try:
            layout = case.layout(registers)
            case.access  # noqa: B018  (there is no such memory)
        except ValueError:
            continue
        if layout.in_dim_size(WARP) == warps:
            yield case


@pytest.mark.parametrize("name", TARGETS)
def test_any_layout_of_registers_with_any_of_memory(name: str) -> None:
    """The kernel computes what it did; what is foreseen of Triton, and of the detour, is what is run."""
    chosen = 0
    for case, _ in zip(random_cases(1, name), range(12), strict=False):
        choice, before, after = case.choice, case.wavefronts(ours=False), case.wavefronts(ours=True)
        here = case.access.wavefronts(case.layout(case.registers), target(name)) * case.warps
        assert here == before, case
        if isinstance(choice, Detour):
            chosen += 1
            assert choice.before.wavefronts * case.warps == before, case
            assert choice.after.wavefronts * case.warps == after < before, case
        else:
            assert after == before, case
    assert chosen >= 3


@pytest.mark.parametrize("name", TARGETS)
def test_a_detour_stays_inside_the_warps_and_pays(name: str) -> None:
    chosen = 0
    for case, _ in zip(random_cases(2, name), range(60), strict=False):
        wanted, choice = case.layout(case.registers), case.choice
        if not isinstance(choice, Detour):
            continue
        chosen += 1
        sides = (wanted, choice.layout) if case.is_store else (choice.layout, wanted)
        assert conversion(*sides).reach <= Reach.WARP
        assert choice.plan.kind in ("noop", "registers", "shuffle")
        assert choice.plan.scratch_bytes == 0
        assert choice.plan == select(*sides, case.type, target(name)).plan
        assert choice.after.expected < worth(target(name)) * choice.before.expected
    assert chosen >= 20


@pytest.mark.parametrize("name", TARGETS)
def test_every_layout_of_the_family_holds_the_same_elements_in_each_warp(name: str) -> None:
    for case, _ in zip(random_cases(3, name), range(20), strict=False):
        wanted = case.layout(case.registers)
        bases = dict(wanted.bases)
        held = set(f2.sums(f2.extend((), (*wanted.columns(REGISTER), *wanted.columns(LANE)))))
        for found in places(case.access, wanted, target(name)):
            layout = found.layout(wanted)
            assert set(f2.sums(f2.extend((), (*layout.columns(REGISTER), *layout.columns(LANE))))) == held
            assert dict(layout.bases)[WARP] == bases[WARP]
            assert found.wavefronts == case.access.wavefronts(layout, target(name))


def test_bytes_that_lie_the_other_way_are_stored_in_words() -> None:
    """64x128 of 8 bits from rows to columns: `st.shared.b8` of 32 wavefronts each, or words of four."""
    case = Case("cuda:90", 4, (64, 128), "f8E4M3FN", ROWS, TURNED, is_store=True)
    assert case.wavefronts(ours=False) == 2048
    assert case.wavefronts(ours=True) <= 256


def test_operands_of_bytes_across_their_rows_are_loaded_in_words() -> None:
    """The right operand of an 8-bit product, of rows: `ld.shared.b8`, four wavefronts for one."""
    case = Case("cuda:80", 4, (64, 128), "f8E5M2", MMA.replace("$", "1"), SWIZZLED, is_store=False)
    assert case.wavefronts(ours=False) == 1024
    assert case.wavefronts(ours=True) == 256


def _ptx(case: Case, *, ours: bool) -> Mapping[str, int]:
    text = lower_kernel(case.text, "local.ttgir", case.target, ours=ours).embedded
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
    outcome = driver.run(module, [LowerLocal("cuda:80")])
    loads = [op for op in operations(module.operation) if op.name == "ttg.local_load"]
    assert outcome.succeeded
    assert not any(ll.DETOUR in op.attributes for op in loads)


@pytest.mark.parametrize("padding", ["", "[256:+4] "])
def test_memory_with_padding_stays(padding: str) -> None:
    """Offsets there are no linear function, and banks are not those that the models foresee."""
    plain = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>"
    padded = f"#ttg.padded_shared<{padding}{{order = [0, 1], shape = [64, 128]}}>"
    text = Case("cuda:90", 4, (64, 128), "i8", ROWS, padded if padding else plain, is_store=True).text
    module = bridge.text_to_upstream(text, bridge.upstream_context(), "local.ttgir")
    assert driver.run(module, [LowerLocal("cuda:90")]).succeeded
    found = [op.name for op in operations(module.operation) if ll.DETOUR in op.attributes]
    assert ("ttg.local_store" in found) == (not padding)


@pytest.mark.parametrize("hint", ["", " {tt.contiguity = dense<4> : tensor<2xi32>}"])
def test_a_load_that_promises_something_stays(hint: str) -> None:
    """Triton's axis analysis reads the promise, and has to find it where the value is used."""
    text = Case("cuda:90", 4, (64, 128), "i8", ROWS, TURNED, is_store=False).text
    text = text.replace("= ttg.local_load %m", f"= ttg.local_load %m{hint}")
    module = bridge.text_to_upstream(text, bridge.upstream_context(), "local.ttgir")
    assert driver.run(module, [LowerLocal("cuda:90")]).succeeded
    found = [op.name for op in operations(module.operation) if ll.DETOUR in op.attributes]
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
    """A detour loads words: what takes bytes out of them counts, where an access by itself has them apart."""
    use, expected = TAKEN[taken]
    text = Case("cuda:90", 4, (64, 128), "i8", RIGHT, SWIZZLED, is_store=False).text
    text = text.replace("tt.return", f"{use}\ntt.return")
    module = bridge.text_to_upstream(text, bridge.upstream_context(), "local.ttgir")
    assert driver.run(module, [LowerLocal("cuda:90")]).succeeded
    found = [op.name for op in operations(module.operation) if ll.DETOUR in op.attributes]
    assert ("ttg.local_load" in found) == expected
