"""The stages of the veto over stages that compile nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from triton_linear.kept import store
from triton_linear.kept.registers import KeptDirectives
from triton_linear.lowering.target.policy import NVIDIA
from triton_linear.lowering.target.targets import target
from triton_linear.ptxas import advice, registers
from triton_linear.ptxas.advice import Pace
from triton_linear.ptxas.cubin import Usage
from triton_linear.ptxas.registers import Assembler
from triton_linear.ptxas.veto import Maker, Veto
from triton_linear.ptxas.warp_clocks import WarpClocks
from triton_linear.setting import Options, Setting
from triton_linear.stage import LLIRStage

READ, WRITE = store.read, store.write
TEXT = ".visible .entry k()\n.reqntid 256\n{\nret;\n}\n"


class Kernel:
    """A kernel that has been compiled; the others are stock Triton's, and ours with its layouts."""

    saved = 0.0

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.asked = 0
        self.compiled: list[str] = []
        self.results: list[tuple[str, bool]] = []

    def others(self, llir: object) -> Iterator[tuple[str, Any]]:
        self.asked += 1
        for text in self.texts:
            self.compiled.append(text)
            yield text, {}

    def compared(self, vetoed: str, kept: bool) -> None:
        self.results.append((vetoed, kept))

    def finish(self, vetoed: str = "", kept: bool = False) -> None:
        pass

    def phase(self, name: str) -> Any:
        return nullcontext()


class Stages:
    """Stages whose PTX says what it is of, and which print that when they assemble it. stacks: the bytes that
    each has on its stack."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stacks: dict[str, int], longer: int = 0) -> None:
        self.assembled: list[str] = []
        self.longer = longer
        monkeypatch.setattr(registers, "usage", lambda code: code and Usage(255, stacks[code]))

    def ptx(self, src: Any, metadata: Any) -> str:
        return TEXT.replace("ret", f"// of {src}.{' ' * self.longer}\nret")

    def cubin(self, src: Any, metadata: Any) -> str:
        made: str = src.partition("// of ")[2].partition(".")[0]
        self.assembled.append(made)
        print(f"of {made}")
        return made

    def veto(self, kernel: Kernel) -> Veto:
        def ours() -> Maker:
            made = Assembler(self.ptx, self.cubin, lambda: True, lambda: target("cuda:90"))
            return Maker(made.ptx, made.figures, made.cubin)

        def stock() -> Maker:
            made = Assembler(self.ptx, self.cubin, bool, lambda: target("cuda:90"))
            return Maker(made.ptx, made.measured, made.cubin)

        return Veto(ours, stock, kernel, lambda: target("cuda:90").policy, registers._raised)


@pytest.mark.parametrize(
    ("stacks", "longer", "taken", "compiled"),
    [
        ((0, 0, 0), 0, "ours", []),
        ((8, 16, 0), 0, "ours", ["stock"]),
        ((8, 0, 0), 0, "kept", ["stock", "kept"]),
        ((8, 4, 0), 0, "kept", ["stock", "kept"]),
        ((8, 4, 2), 0, "kept", ["stock", "kept"]),
        ((8, 4, 4), 0, "stock", ["stock", "kept"]),
        ((8, 0, 4), 0, "stock", ["stock", "kept"]),
        ((8, 0, None), 0, "stock", ["stock"]),
        ((8, 0, 0), 1 << 17, "stock", ["stock"]),
        ((8, 16, 0), 1 << 17, "ours", ["stock"]),
    ],
)
def test_the_first_version_that_does_not_give_way_is_taken(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stacks: tuple[int, int, int | None],
    longer: int,
    taken: str,
    compiled: list[str],
) -> None:
    """Ours, ours with Triton's layouts if the code is not large, stock Triton's; each assembled once. What is
    printed of those that are not taken is held back, but for ours, which came first."""
    versions = {
        name: stack for name, stack in zip(("ours", "stock", "kept"), stacks, strict=True) if stack is not None
    }
    stages, kernel = Stages(monkeypatch, versions, longer), Kernel(*list(versions)[1:])
    veto, metadata = stages.veto(kernel), {}
    text = veto.text("ours", metadata)
    assert veto.code(text, metadata) == taken
    assert kernel.compiled == compiled and stages.assembled == ["ours", *compiled]
    results = [(taken != "ours", taken == "kept")] if compiled else []
    assert [(bool(vetoed), kept) for vetoed, kept in kernel.results] == results
    assert capsys.readouterr().out == "of ours\n" + (f"of {taken}\n" if taken != "ours" else "")


@pytest.mark.parametrize(
    ("ours", "stock", "taken"),
    [
        (Pace(100, 4), Pace(100, 4), "ours"),
        (Pace(84, 4), Pace(100, 9), "stock"),
        (Pace(84, 4), Pace(100, 5), "ours"),  # 1.05 times as long for each of the CTAs
        (Pace(200, 4), Pace(100, 4), "ours"),  # warps do not stall
        (Pace(40, 4), Pace(100, 9), "ours"),
        (advice.UNKNOWN_PACE, Pace(100, 9), "ours"),
        (Pace(84, 4), advice.UNKNOWN_PACE, "ours"),
    ],
)
def test_what_spills_less_gives_way_where_more_ctas_are_done_sooner(
    monkeypatch: pytest.MonkeyPatch, ours: Pace, stock: Pace, taken: str
) -> None:
    paces = {"ours": ours, "stock": stock}
    monkeypatch.setattr(advice.CtaLimits, "pace", lambda _, made: paces[made.code])
    stages = Stages(monkeypatch, {"ours": 5696, "stock": 5920})
    veto = stages.veto(Kernel("stock"))
    assert veto.code(veto.text("ours", {}), {}) == taken


def test_a_veto_holds_for_one_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another hook calls the stage for a second kernel."""

    def vetoing(self: LLIRStage, src: Any, metadata: Any, record: Any) -> None:
        self.vetoed |= src == "vetoed"

    monkeypatch.setattr(LLIRStage, "_compile_with_plugin", vetoing)
    stage: Any = LLIRStage(lambda src, metadata: str(src), "cuda:90", Setting(Options(strict=True)))
    found = []
    for src in ("vetoed", "another"):
        stage(src, {})
        found.append(stage.vetoed)
    assert found == [True, False]


def test_what_is_spilled_for_another_cta_is_no_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where it is kept that it is worth that, and for no other kernel."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(store, "read", READ)
    monkeypatch.setattr(store, "write", WRITE)
    stacks = {"free": Usage(136, 0), "bounded": Usage(128, 8)}
    monkeypatch.setattr(registers, "usage", stacks.get)
    monkeypatch.setattr(advice, "warp_clocks", lambda *_: WarpClocks(100, 0))
    assembled: list[str] = []
    kernel = Kernel()

    def ptx(src: Any, metadata: Any) -> str:
        return str(src)

    def cubin(src: Any, metadata: Any) -> str:
        assembled.append("bounded" if ".maxnreg" in src else "free")
        return assembled[-1]

    for expected in (["free", "bounded"], ["bounded"]):
        assembler = registers.Assembler(
            ptx, cubin, lambda: True, lambda: target("cuda:90"), decisions=KeptDirectives(lambda: "")
        )
        made = Maker(assembler.ptx, assembler.figures, assembler.cubin)
        both: Any = Veto(lambda made=made: made, Maker, kernel, lambda: NVIDIA, registers._raised)
        assembled.clear()
        assert ".maxnreg 128" in both.text(TEXT, {})
        assert assembled == expected and not kernel.asked
        assert assembler.occupancy_spills == 8
    both.text(TEXT.replace(".reqntid 256", ".reqntid 256\n.maxnreg 64"), {})
    assert assembler.occupancy_spills == 0
