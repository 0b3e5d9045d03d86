"""The stages of the veto over stages that compile nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from triton_linear.lowering.target.targets import target
from triton_linear.ptxas import registers
from triton_linear.ptxas.cubin import Usage
from triton_linear.ptxas.registers import Assembler
from triton_linear.ptxas.veto import Maker, Veto
from triton_linear.setting import Options, Setting
from triton_linear.stage import LLIRStage

TEXT = ".visible .entry k()\n.reqntid 256\n{\nret;\n}\n"


class Kernel:
    """A kernel that has been compiled; the others are stock Triton's, and ours with its layouts."""

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
            return Maker(made.ptx, made.spilled, made.cubin)

        def stock() -> Maker:
            made = Assembler(self.ptx, self.cubin, bool, lambda: target("cuda:90"))
            return Maker(made.ptx, made.measured, made.cubin)

        return Veto(ours, stock, kernel, registers._raised)


@pytest.mark.parametrize(
    ("stacks", "longer", "taken", "compiled"),
    [
        ((0, 0, 0), 0, "ours", []),
        ((19, 0, 0), 0, "ours", []),
        ((40, 80, 0), 0, "ours", ["stock"]),
        ((40, 21, 0), 0, "ours", ["stock"]),
        ((40, 20, 0), 0, "kept", ["stock", "kept"]),
        ((40, 0, 19), 0, "kept", ["stock", "kept"]),
        ((40, 0, 20), 0, "stock", ["stock", "kept"]),
        ((80, 40, 59), 0, "kept", ["stock", "kept"]),
        ((80, 40, 60), 0, "stock", ["stock", "kept"]),
        ((40, 0, None), 0, "stock", ["stock"]),
        ((40, None, None), 0, "ours", []),
        ((40, 0, 0), 1 << 17, "stock", ["stock"]),
        ((40, 80, 0), 1 << 17, "ours", ["stock"]),
    ],
)
def test_the_first_version_that_does_not_give_way_is_taken(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stacks: tuple[int | None, ...],
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
