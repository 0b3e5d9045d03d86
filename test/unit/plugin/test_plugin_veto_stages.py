"""The stages of the veto over stages that compile nothing."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from triton_linear.kept import store
from triton_linear.kept.registers import KeptDirectives
from triton_linear.lowering.target.targets import target
from triton_linear.ptxas import advice, registers, veto
from triton_linear.ptxas.cubin import Usage
from triton_linear.ptxas.warp_clocks import WarpClocks
from triton_linear.setting import Options, Setting
from triton_linear.stage import LLIRStage

READ, WRITE = store.read, store.write
TEXT = ".visible .entry k()\n.reqntid 256\n{\nret;\n}\n"


class Kernel:
    """A kernel that has been compiled; stock Triton's is `stock`."""

    saved = 0.0

    def __init__(self, stock: str | None) -> None:
        self.stock = stock
        self.asked = 0
        self.vetoed: list[str] = []

    def stock_again(self, llir: object) -> tuple[str, Any] | None:
        self.asked += 1
        return None if self.stock is None else (self.stock, {})

    def compared(self, vetoed: str) -> None:
        self.vetoed.append(vetoed)

    def finish(self, vetoed: str = "") -> None:
        pass

    def phase(self, name: str) -> Any:
        return nullcontext()


@pytest.mark.parametrize(("stack", "printed"), [(0, "of ours\nof stock\n"), (16, "of ours\n")])
def test_what_stages_print_of_a_kernel_that_is_not_taken_is_held_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stack: int, printed: str
) -> None:
    """As ptxas's log where it is asked for. The kernel of ours, which spills 8 bytes, is assembled before."""
    stacks = {"ours": Usage(64, 8), "stock": Usage(64, stack)}
    for module in (registers, veto):
        monkeypatch.setattr(module, "usage", stacks.get)

    def ptx(src: Any, metadata: Any) -> str:
        return TEXT.replace("ret", f"// of {src}\nret")

    def cubin(src: Any, metadata: Any) -> str:
        made = "stock" if "of stock" in src else "ours"
        print(f"of {made}")
        return made

    kernel = Kernel("stock")
    assembler = registers.Assembler(ptx, cubin, lambda: True, lambda: target("cuda:90"))
    both = veto.Veto(assembler, ptx, cubin, kernel, registers._raised)
    metadata: dict[str, Any] = {}
    text = both.ptx("ours", metadata)
    assert both.cubin(text, metadata) == ("ours" if stack else "stock")
    assert [bool(each) for each in kernel.vetoed] == [not stack]
    assert capsys.readouterr().out == printed


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
    monkeypatch.setattr(veto, "usage", stacks.get)
    monkeypatch.setattr(advice, "warp_clocks", lambda *_: WarpClocks(100, 0))
    assembled: list[str] = []
    kernel = Kernel(None)

    def ptx(src: Any, metadata: Any) -> str:
        return str(src)

    def cubin(src: Any, metadata: Any) -> str:
        assembled.append("bounded" if ".maxnreg" in src else "free")
        return assembled[-1]

    for expected in (["free", "bounded"], ["bounded"]):
        assembler = registers.Assembler(
            ptx, cubin, lambda: True, lambda: target("cuda:90"), decisions=KeptDirectives(lambda: "")
        )
        both: Any = veto.Veto(assembler, ptx, cubin, kernel, registers._raised)
        assembled.clear()
        assert ".maxnreg 128" in both.ptx(TEXT, {})
        assert assembled == expected and not kernel.asked
        assert assembler.occupancy_spills == 8
    both.ptx(TEXT.replace(".reqntid 256", ".reqntid 256\n.maxnreg 64"), {})
    assert assembler.occupancy_spills == 0
