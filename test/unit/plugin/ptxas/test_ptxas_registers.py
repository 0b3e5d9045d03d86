"""The bound on registers that lets another CTA in: when it is tried, and when it is taken."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import triton
from aligned_sources import aligned
from assign_support import path_of
from bridge_kernels import matmul
from machine_code import shown
from plugin_support import CUDA, HIP, compile_kernel, row_sums
from triton import knobs

import triton_linear
from triton_linear import setting
from triton_linear.decisions import Decisions, ptxas_version
from triton_linear.hook import pinned
from triton_linear.lowering.target.targets import target
from triton_linear.ptxas import registers
from triton_linear.ptxas.cubin import Usage, usage
from triton_linear.ptxas.occupancy import UNIT, bound, limits_of, resident
from triton_linear.ptxas.registers import Assembler
from triton_linear.setting import Options

pytestmark = pytest.mark.usefixtures("fresh")

KERNEL = path_of("attention_fp8")
"""Eight warps; with the plugin ptxas takes some more than 128 registers a thread."""


def compiled(path: Path = KERNEL, target: Any = CUDA, **options: Any) -> Any:
    with triton_linear.enabled(strict=True, **options):
        return triton.compile(str(path), target=target)


def used(cubin: bytes) -> Usage:
    found = usage(cubin)
    assert found is not None
    return found


def test_usage_is_what_nvidia_s_tool_reads() -> None:
    for name in ("matmul_gelu", "attention_fp8", "argmax_in_loop"):
        cubin = compiled(path_of(name), occupancy=False).asm["cubin"]
        match = re.search(r"REG:(\d+) STACK:(\d+)", shown(cubin, "-res-usage", tool="cuobjdump"))
        assert match is not None
        assert used(cubin) == Usage(int(match[1]), int(match[2]))


@pytest.mark.parametrize("broken", [b"", b"\x7fELF\x02", b"\x7fELF\x02" + bytes(100), "text", None])
def test_what_is_no_cubin_has_no_usage(broken: object) -> None:
    assert usage(broken) is None


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16, 32])
def test_a_bound_lets_in_more_ctas_and_not_much_less_registers(warps: int) -> None:
    """Of all numbers of registers and of CTAs. ptxas gives a thread 24 registers however low the bound is."""

    def ctas(registers: int) -> int:
        return 65536 // (-(-registers // UNIT) * UNIT * 32 * warps)

    for used, most in itertools.product(range(1, 256), range(33)):
        found = bound(used, warps, most, target("cuda:90"))
        near = 1 + 0.4 / max(1, ctas(used))
        if found is None:
            grown = next((r for r in range(used, 23, -1) if ctas(r) > ctas(used)), 0)
            worth = 0 < ctas(used) < most and ctas(used) + 1 >= 1.5 * ctas(used)
            assert not worth or used > near * grown, (used, most)
        else:
            assert found >= 24 and used <= near * found, (used, most)
            assert ctas(used) == ctas(found + 1) < ctas(found) <= most, (used, most)


def test_a_kernel_above_a_jump_is_assembled_below_it() -> None:
    before, after = compiled(occupancy=False), compiled()
    assert used(before.asm["cubin"]).registers > 128
    assert used(after.asm["cubin"]).registers <= 128
    assert used(after.asm["cubin"]).stack == 0
    assert ".maxnreg" not in before.asm["ptx"]
    assert after.asm["ptx"].replace("\n.maxnreg 128", "") == before.asm["ptx"]


@pytest.mark.parametrize("said", ["--maxrregcount 160", "--register-usage-level 5"])
def test_what_the_user_tells_ptxas_counts(said: str) -> None:
    with triton_linear.enabled(strict=True):
        kernel = triton.compile(str(KERNEL), target=CUDA, options={"ptx_options": said})
    assert ".maxnreg" not in kernel.asm["ptx"]


def test_what_is_not_ours_stays() -> None:
    """Kernels that the plugin leaves, and other vendors'."""
    assert ".maxnreg" not in triton.compile(str(KERNEL), target=CUDA).asm["ptx"]
    assert ".maxnreg" not in compiled(assign=False, lower=False).asm["ptx"]
    assert "amdgcn" in compiled(path_of("gfx942_causal"), HIP).asm


class Stages:
    """Stages that give PTX and cubins of these registers and stack, in turn, and count their calls."""

    TEXT = ".visible .entry k()\n.reqntid 256\n{\nret;\n}\n"

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *found: Usage | Exception | None, body: str = "ret;"
    ) -> None:
        self.found = list(found)
        self.body = body
        self.assembled: list[str] = []
        monkeypatch.setattr(registers, "usage", lambda cubin: cubin[1])

    def ptx(self, src: object, metadata: Any) -> str:
        return self.text

    @property
    def text(self) -> str:
        return self.TEXT.replace("ret;", self.body)

    def cubin(self, src: Any, metadata: Any) -> Any:
        self.assembled.append(src)
        found = self.found[min(len(self.assembled), len(self.found)) - 1]
        print(f"log {len(self.assembled)}")
        if isinstance(found, Exception):
            raise found
        return src, found

    def run(
        self,
        ours: bool = True,
        shared: int = 1024,
        columns: int = 0,
        own_warps: int | None = None,
    ) -> tuple[str, str]:
        """The PTX, and the PTX that the cubin is of."""
        gpu = target("cuda:100" if columns else "cuda:90")
        both = Assembler(self.ptx, self.cubin, (lambda: gpu) if ours else None, own_warps=own_warps)
        metadata = {"shared": shared, "tmem_size": columns}
        text: Any = both.text("llir", metadata)
        made: Any = both.code(text, metadata)
        return text, made[0]


BOUNDED = Stages.TEXT.replace(".reqntid 256", ".reqntid 256\n.maxnreg 128")


@pytest.mark.parametrize(
    ("found", "expected", "calls"),
    [
        ((Usage(136, 0), Usage(128, 0)), BOUNDED, 2),
        ((Usage(136, 8), Usage(128, 8)), Stages.TEXT, 2),  # with more registers it would spill as much
        ((Usage(136, 0), Usage(128, 16)), BOUNDED, 2),  # for another CTA it may spill four words
        ((Usage(136, 0), Usage(128, 20)), Stages.TEXT, 2),
        ((Usage(136, 0), None), Stages.TEXT, 2),
        ((Usage(136, 0), RuntimeError("ptxas")), Stages.TEXT, 2),
        ((Usage(128, 0),), Stages.TEXT, 1),
        ((Usage(184, 0),), Stages.TEXT, 1),  # too far above
        ((None,), Stages.TEXT, 1),
    ],
)
def test_when_it_is_taken(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: tuple[Any, ...],
    expected: str,
    calls: int,
) -> None:
    """And each PTX is assembled once; what is printed is of attempts that are taken."""
    stages = Stages(monkeypatch, *found)
    assert stages.run() == (expected, expected)
    assert len(stages.assembled) == calls
    assert capsys.readouterr().out == ("log 1\nlog 2\n" if expected == BOUNDED else "log 1\n")


@pytest.mark.parametrize(
    ("found", "ctas"),
    [
        ((Usage(32, 4000), Usage(255, 1500)), 1),
        ((Usage(32, 4000), Usage(255, 4008)), None),  # it would spill more
        ((Usage(32, 4000), Usage(255, 4000)), None),
        ((Usage(32, 8), Usage(40, 0)), 6),
        ((Usage(39, 8), Usage(48, 0)), 5),
        ((Usage(32, 100), Usage(57, 0)), 4),  # 57 of the 64 that leave four CTAs
        ((Usage(248, 8),), None),  # all that a thread can have, as they are not given out one by one
        ((Usage(255, 4000),), None),
    ],
)
def test_a_kernel_that_spills_gets_registers_for_what_it_spills(
    monkeypatch: pytest.MonkeyPatch, found: tuple[Any, ...], ctas: int | None
) -> None:
    """Eight warps: as many CTAs as leave those, and no fewer."""
    stages = Stages(monkeypatch, *found)
    text = Stages.TEXT if ctas is None else _for_ctas(ctas)
    assert stages.run() == (text, text)
    assert len(stages.assembled) == len(found)


def _for_ctas(number: int) -> str:
    return Stages.TEXT.replace(".reqntid 256", f".reqntid 256\n.minnctapersm {number}")


PRODUCT = "mma.sync.aligned.m16n8k16 {};"
GROUP = "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {};"
TWO_CTAS = Stages.TEXT.replace("ret;", PRODUCT).replace(".reqntid 256", ".reqntid 256\n.minnctapersm 2")


@pytest.mark.parametrize(
    ("found", "expected", "calls"),
    [
        ((Usage(72, 0), Usage(96, 0)), TWO_CTAS, 2),
        ((Usage(72, 0), Usage(96, 8)), None, 2),  # it would spill
        ((Usage(72, 0), RuntimeError("ptxas")), None, 2),
        ((Usage(128, 0),), None, 1),  # as many CTAs find registers as memory
        ((Usage(200, 0),), None, 1),
    ],
)
def test_ptxas_hears_for_how_many_ctas_there_is_memory(
    monkeypatch: pytest.MonkeyPatch, found: tuple[Any, ...], expected: str | None, calls: int
) -> None:
    """100 KiB of shared memory and eight warps: two CTAs, where 72 registers a thread would let in three."""
    stages = Stages(monkeypatch, *found, body=PRODUCT)
    text = expected or stages.text
    assert stages.run(shared=100 * 1024) == (text, text)
    assert len(stages.assembled) == calls


@pytest.mark.parametrize("body", ["ret;", GROUP, f"// {PRODUCT}"])
def test_it_hears_that_for_products_of_warps_alone(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    stages = Stages(monkeypatch, Usage(72, 0), Usage(96, 0), body=body)
    assert stages.run(shared=100 * 1024)[0] == stages.text
    assert len(stages.assembled) == 1


def test_a_small_product_gets_the_registers_that_memory_leaves() -> None:
    kinds = {**dict.fromkeys("abc", "*fp16"), **dict.fromkeys("KN", "i32")}
    source = aligned(matmul, kinds, {"BM": 16, "BN": 64, "BK": 128})
    found = {}
    for occupancy_on in (False, True):
        with triton_linear.enabled(strict=True, occupancy=occupancy_on):
            kernel = triton.compile(source, target=CUDA, options={"num_warps": 4, "num_stages": 3})
        found[occupancy_on] = kernel.asm["ptx"], used(kernel.asm["cubin"])
    memory = 233472 // (kernel.metadata.shared + 1024)
    if resident(found[False][1].registers, 4, 65536) <= memory:
        pytest.skip("this Triton makes a kernel that memory does not keep apart")
    assert f".minnctapersm {memory}\n" in found[True][0]
    assert found[True][1].registers > found[False][1].registers
    assert resident(found[True][1].registers, 4, 65536) >= memory


def test_it_is_not_tried_where_it_would_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Stages(monkeypatch, Usage(136, 0))
    assert full.run(shared=150 * 1024)[0] == Stages.TEXT
    columns = Stages(monkeypatch, Usage(136, 0), Usage(128, 0))
    assert columns.run(columns=512)[0] == Stages.TEXT
    columns = Stages(monkeypatch, Usage(136, 0), Usage(128, 0))
    assert columns.run(columns=256)[0] == BOUNDED
    other = Stages(monkeypatch, Usage(136, 0))
    assert other.run(ours=False)[0] == Stages.TEXT
    assert len(other.assembled) == 1
    bounded = Stages(monkeypatch, Usage(136, 0))
    monkeypatch.setattr(Stages, "TEXT", BOUNDED.replace("128", "140"))
    assert bounded.run()[0] == Stages.TEXT
    assert len(bounded.assembled) == 1


@pytest.mark.parametrize(("own_warps", "expected"), [(None, BOUNDED), (8, BOUNDED), (4, Stages.TEXT)])
def test_warps_of_regions_get_no_bound(
    monkeypatch: pytest.MonkeyPatch, own_warps: int | None, expected: str
) -> None:
    """A CTA has eight warps; where the kernel asked for four, the others are those of regions."""
    stages = Stages(monkeypatch, Usage(136, 0), Usage(128, 0))
    assert stages.run(own_warps=own_warps)[0] == expected
    spilling = Stages(monkeypatch, Usage(32, 8), Usage(40, 0))
    assert spilling.run(own_warps=own_warps)[0] == _for_ctas(6)


@pytest.mark.parametrize(
    ("threads", "metadata", "most"),
    [
        (256, {}, 8),  # 64 warps
        (256, {"shared": None}, 8),
        (256, {"shared": 0}, 8),
        (16, {}, 64),
        (256, {"shared": 56 * 1024 - 1024}, 4),  # 228 KiB, 1 KiB of which each CTA needs beside its own
        (256, {"shared": 57 * 1024 - 1023}, 3),
        (256, {"shared": 57 * 1024 - 1024}, 4),
        (256, {"tmem_size": 128}, 4),
        (256, {"tmem_size": 256, "shared": 1024}, 2),
        (256, {"tmem_size": 64, "shared": 100 * 1024}, 2),
    ],
)
def test_what_limits_ctas(threads: int, metadata: dict[str, Any], most: int) -> None:
    limits = limits_of(threads, metadata, target("cuda:90"))
    assert (limits.most, limits.warps, limits.whole) == (most, max(1, threads // 32), True)
    assert limits.ctas(255) == min(most, 1 if threads == 256 else 8)


def test_what_ails_the_kernel_is_raised_where_it_always_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = Stages(monkeypatch, RuntimeError("ptxas"))
    both = Assembler(stages.ptx, stages.cubin, lambda: target("cuda:90"))
    text = both.text("llir", {})
    with pytest.raises(RuntimeError, match="ptxas"):
        both.code(text, {})
    assert len(stages.assembled) == 1, "its message is printed once"


def test_ptx_that_somebody_replaced_is_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Triton's override folder does between the stages."""
    stages = Stages(monkeypatch, Usage(136, 0), Usage(128, 0))
    both = Assembler(stages.ptx, stages.cubin, lambda: target("cuda:90"))
    both.text("llir", {"shared": 0})
    made: Any = both.code("another", {})
    assert made[0] == "another"


def test_what_is_kept_of_a_kernel_is_kept_for_its_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are asked for, and those of what is decided, which the options in force do not say."""
    keys: list[str] = []
    named = registers.entry_name

    def seen(text: str, kernel: str, how: str, *facts: object) -> str:
        keys.append(how)
        return named(text, kernel, how, *facts)

    monkeypatch.setattr(registers, "entry_name", seen)
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        for thresholds in ("", "more_ctas=1"):
            with pinned(Options(register_thresholds=thresholds)):
                compile_kernel(row_sums)
        assert len(set(keys)) == len(keys) == 2
        with pinned(Options(decisions="none", measured=True)) as reports:
            compile_kernel(row_sums)
        decided = reports[0].key, "cuda:90", ptxas_version("cuda:90")
        keys.clear()
        for name in ("ours", "exact", "bounded"):
            monkeypatch.setattr(setting, "load", lambda place, name=name: Decisions({decided: name}, name))
            with pinned(Options()) as reports:
                compile_kernel(row_sums)
            assert reports[0].variant == name
        assert len(set(keys)) == 2, "`exact` is no matter of registers"
