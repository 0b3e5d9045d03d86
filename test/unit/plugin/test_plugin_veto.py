"""Where ptxas says that a kernel of ours spills more than stock Triton's, that one is compiled after all."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plugin_support import CUDA, HIP, compile_kernel, row_sums
from triton import knobs
from triton.backends.compiler import Language
from triton.compiler import make_backend

import triton_linear
from triton_linear import pipeline, wrapping
from triton_linear.hook import pinned
from triton_linear.kept import store
from triton_linear.kept.registers import KeptDirectives
from triton_linear.lowering.target.targets import target
from triton_linear.passes import pipeline as pipeline_of_passes
from triton_linear.ptxas import advice, registers
from triton_linear.ptxas.cubin import Usage
from triton_linear.ptxas.warp_clocks import WarpClocks
from triton_linear.report import Outcome, Report
from triton_linear.setting import Options
from triton_linear.stage import LLIRStage

READ, WRITE = store.read, store.write


@pytest.fixture(autouse=True)
def compiled_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("TRITON_HOME", str(tmp_path))
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        yield


@pytest.fixture
def codes() -> tuple[bytes, bytes]:
    """The cubins of stock Triton's kernel and ours."""
    stock = compile_kernel(row_sums).asm["cubin"]
    ours = compiled()[0].asm["cubin"]
    assert stock != ours
    return stock, ours


def compiled(target: Any = CUDA, **options: Any) -> tuple[Any, list[Report]]:
    with pinned(Options(**options)) as reports:
        return compile_kernel(row_sums, target), reports


def spilling(monkeypatch: pytest.MonkeyPatch, stacks: dict[bytes, int]) -> list[bytes]:
    """Cubins have these bytes of stack, others none, and spill often; returns those that were asked about."""
    asked: list[bytes] = []

    def usage(cubin: Any) -> Usage | None:
        if cubin is None:
            return None
        asked.append(cubin)
        return Usage(255, stacks.get(cubin, 0))  # all that a thread can have, so ptxas is told of no more

    monkeypatch.setattr(registers, "usage", usage)
    monkeypatch.setattr(advice, "spilled_part", lambda *_: 0.5)
    return asked


@pytest.mark.parametrize(
    ("ours_spills", "stock_spills", "vetoed"), [(8, 0, True), (8, 4, True), (8, 8, True), (8, 16, False)]
)
def test_more_spills_are_not_taken(
    codes: tuple[bytes, bytes],
    monkeypatch: pytest.MonkeyPatch,
    ours_spills: int,
    stock_spills: int,
    vetoed: bool,
) -> None:
    stock, ours = codes
    spilling(monkeypatch, {stock: stock_spills, ours: ours_spills})
    kernel, (report,) = compiled()
    assert kernel.asm["cubin"] == (stock if vetoed else ours)
    assert report.outcome is (Outcome.LEFT if vetoed else Outcome.CONVERTED)
    assert bool(report.conversions) != vetoed
    said = f"it would spill {ours_spills} bytes in each thread, stock Triton's spills {stock_spills}"
    assert (said in report.remarks) == vetoed
    assert report.seconds["veto"] > 0


@pytest.mark.parametrize(
    ("stock_clocks", "ctas", "vetoed"), [(111, 1, False), (110, 1, True), (None, 1, True), (111, 2, True)]
)
def test_more_spills_are_taken_where_warps_take_fewer_clocks(
    codes: tuple[bytes, bytes],
    monkeypatch: pytest.MonkeyPatch,
    stock_clocks: int | None,
    ctas: int,
    vetoed: bool,
) -> None:
    """A warp of ours takes 100 clocks. ctas: those of stock Triton's that are resident; of ours one is."""
    stock, ours = codes
    spilling(monkeypatch, {ours: 8})
    paces = {ours: advice.Pace(100, 1), stock: advice.UNKNOWN_PACE}
    if stock_clocks is not None:
        paces[stock] = advice.Pace(stock_clocks, ctas)
    monkeypatch.setattr(advice.CtaLimits, "pace", lambda _, made: paces[made.code])
    kernel, (report,) = compiled(strict=True)
    assert kernel.asm["cubin"] == (stock if vetoed else ours)
    assert ("it would spill 8 bytes in each thread, stock Triton's spills 0" in report.remarks) == vetoed


@pytest.mark.parametrize(("part", "compared"), [(0.0029, False), (0.003, True), (None, True)])
def test_few_spills_are_not_compared(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch, part: float | None, compared: bool
) -> None:
    asked = spilling(monkeypatch, {codes[1]: 8})
    monkeypatch.setattr(advice, "spilled_part", lambda *_: part)
    kernel, (report,) = compiled(strict=True)
    assert (codes[0] in asked, "veto" in report.seconds) == (compared, compared)
    assert kernel.asm["cubin"] == codes[0 if compared else 1]


@pytest.mark.parametrize(("stock_spills", "taken"), [(0, 0), (16, 1)])
def test_what_comparing_has_shown_is_kept(
    codes: tuple[bytes, bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    stock_spills: int,
    taken: int,
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(store, "read", READ)
    monkeypatch.setattr(store, "write", WRITE)
    asked = spilling(monkeypatch, {codes[0]: stock_spills, codes[1]: 8})
    kernel, (report,) = compiled()
    assert kernel.asm["cubin"] == codes[taken] and codes[0] in asked
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "prepare", None)
        asked.clear()
        again, (told,) = compiled()
        assert set(asked) == ({codes[1]} if taken else set())
    assert again.asm["cubin"] == codes[taken]
    assert replace(told, seconds={}) == replace(report, seconds={})
    # Others than the module's own entry have a say in it.
    for change in (
        ("setenv", "DISABLE_LLVM_OPT", "1"),
        ("setattr", "triton_linear.wrapping.ptxas_version", str),
    ):
        asked.clear()
        with monkeypatch.context() as patched:
            getattr(patched, change[0])(*change[1:])
            compiled()
        assert set(asked) - {codes[1]}, change


def test_what_comparing_has_shown_holds_for_stages_as_they_were(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Hooks of others change the PTX: one that is called before ours, and one that calls ours then."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(store, "read", READ)
    monkeypatch.setattr(store, "write", WRITE)
    asked = spilling(monkeypatch, {codes[0]: 0, codes[1]: 8})

    def changing(comment: str, then: Any = None) -> Any:
        def hook(*arguments: Any) -> Any:
            if arguments:
                stages = arguments[1]
                stock = stages["ptx"]
                stages["ptx"] = lambda src, metadata: f"{stock(src, metadata)}\n// {comment}\n"
            return then(*arguments) if then else (comment, comment)

        return hook

    def compares(before: str = "", later: str = "") -> bool:
        """Whether stock Triton's kernel is compiled to compare with it."""
        asked.clear()
        with knobs.runtime.scope():
            knobs.runtime.add_stages_inspection_hook = changing(before) if before else None
            with pinned(Options()):
                if later:
                    ours = knobs.runtime.add_stages_inspection_hook
                    knobs.runtime.add_stages_inspection_hook = changing(later, ours)
                compile_kernel(row_sums)
        return codes[0] in asked

    assert [compares(), compares()] == [True, False]
    assert [compares(one) for one in ("a", "b", "b", "a")] == [True, True, False, False]
    assert [compares(later="c"), compares(later="c")] == [True, True]  # nobody says what that does
    assert not compares()


def test_a_hook_need_not_say_what_it_does() -> None:
    backend: Any = make_backend(CUDA)
    stages: Any = {}
    backend.add_stages(stages, backend.parse_options({}), Language.TRITON)
    assert wrapping.are_own(backend, stages)
    assert wrapping._what_others_do(backend, stages, None) == ""
    changed = {**stages, "ptx": str}
    for hook in (None, lambda: None, lambda backend: None):
        assert wrapping._what_others_do(backend, changed, hook) is None
    assert wrapping._what_others_do(backend, changed, lambda: ("a", "b")) == "a b"


def test_what_is_kept_has_the_remarks_before_it(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(store, "read", READ)
    monkeypatch.setattr(store, "write", WRITE)
    spilling(monkeypatch, {codes[1]: 8})
    fits = LLIRStage._first_that_fits

    def remarking(self: LLIRStage, *given: Any) -> Any:
        llir = fits(self, *given)
        given[-1].remarks += ("said before",)
        return llir

    monkeypatch.setattr(LLIRStage, "_first_that_fits", remarking)
    first, known = compiled()[1][0], compiled()[1][0]
    assert first.outcome is Outcome.LEFT and "said before" in first.remarks
    assert replace(known, seconds={}) == replace(first, seconds={})
    monkeypatch.setattr(registers, "advise", lambda *_: advice.Advice(".maxnreg 40"))
    kernel, (report,) = compiled(everywhere=True)
    assert report.outcome is Outcome.LEFT and ".maxnreg" not in kernel.asm["ptx"]
    assert ".maxnreg" in compiled(everywhere=True, cache=False, assign=False, lower=False)[0].asm["ptx"]


@pytest.mark.parametrize(
    ("clocks", "stalls", "saved", "stock_spills", "vetoed"),
    [
        (111, True, 0.0, 0, True),
        (110, True, 0.0, 0, False),
        (111, False, 0.0, 0, False),
        (111, True, 0.1, 8, True),
        (111, True, 0.2, 0, False),
    ],
)
def test_a_kernel_whose_warps_stall_gives_way_to_a_faster_one(
    codes: tuple[bytes, bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    clocks: int,
    stalls: bool,
    saved: float,
    stock_spills: int,
    vetoed: bool,
) -> None:
    """Those of stock Triton take 100 clocks. Neither is compiled again to find that out once more."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(store, "read", READ)
    monkeypatch.setattr(store, "write", WRITE)
    stock, ours = codes
    spilling(monkeypatch, {stock: stock_spills})
    times = {stock: WarpClocks(100, 0), ours: WarpClocks(clocks, 0)}
    monkeypatch.setattr(advice, "warp_clocks", lambda cubin, *_: times[cubin])
    asked: list[object] = []

    def stalled(cubin: object, *_: object) -> float:
        asked.append(cubin)
        return 0.5 if stalls else 0.1

    monkeypatch.setattr(advice, "arithmetic_waits", stalled)
    monkeypatch.setattr(pipeline_of_passes, "_saved_by_layouts", lambda _: saved)
    monkeypatch.setattr(advice.CtaLimits, "ctas", lambda *_: 1)
    again: list[object] = []
    others = LLIRStage.others

    def counted(stage: LLIRStage, llir: object) -> Any:
        for number, found in enumerate(others(stage, llir)):
            again.extend([llir] * (not number))
            yield found

    monkeypatch.setattr(LLIRStage, "others", counted)
    said = f"a warp would take {clocks} clocks by its instructions, stock Triton's takes 100"
    for _ in range(2):
        kernel, (report,) = compiled()
        assert kernel.asm["cubin"] == (stock if vetoed else ours)
        assert report.outcome is (Outcome.LEFT if vetoed else Outcome.CONVERTED)
        assert (said in report.remarks) == vetoed
    assert (asked, len(again)) == ([ours], int(stalls and saved < 0.2))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("directive", ["", ".maxnreg 64"])
def test_what_stalls_with_its_directive_is_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, directive: str, kept: bool
) -> None:
    """By the assembly that is taken. What is kept on disk says so again, without a walk."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(store, "read", READ)
    monkeypatch.setattr(store, "write", WRITE)
    monkeypatch.setattr(registers, "usage", lambda _: Usage(64, 0))
    monkeypatch.setattr(registers, "advise", lambda *_: advice.Advice(directive) if directive else None)
    walked: list[object] = []

    def stalls(text: str, made: advice.Assembled, limits: object) -> bool:
        walked.append(made.code)
        return (".maxnreg" in str(made.code)) == bool(directive)

    monkeypatch.setattr(registers, "stalls", stalls)
    text = ".visible .entry k()\n.reqntid 256\n{\nret;\n}\n"
    for again in (False, True):
        walked.clear()
        assembler = registers.Assembler(
            lambda src, _: str(src),
            lambda src, _: str(src),
            lambda: True,
            lambda: target("cuda:90"),
            decisions=KeptDirectives(lambda: "") if kept else None,
        )
        taken = assembler.ptx(text, {})
        assert (directive in str(taken)) and assembler.stalls
        assert len(walked) == int(not (again and kept))
        assembler.ptx(None, {})
        assert not assembler.stalls


@pytest.mark.parametrize("unknown", [0, 1])
def test_an_unknown_pace_decides_nothing(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch, unknown: int
) -> None:
    spilling(monkeypatch, {})
    monkeypatch.setattr(registers, "stalls", lambda *_: True)
    paces = dict(zip(codes, [advice.Pace(100, 1), advice.Pace(200, 1)], strict=True))
    paces[codes[unknown]] = advice.UNKNOWN_PACE
    monkeypatch.setattr(advice.CtaLimits, "pace", lambda _, made: paces[made.code])
    assert compiled(strict=True)[0].asm["cubin"] == codes[1]


def test_the_metadata_is_that_of_the_kernel_taken(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = LLIRStage.others

    def marked(stage: LLIRStage, llir: object) -> Any:
        for found, metadata in others(stage, llir):
            yield found, metadata | {"theirs": True}

    monkeypatch.setattr(LLIRStage, "others", marked)
    spilling(monkeypatch, {codes[1]: 8})
    stock = compile_kernel(row_sums)
    found, _ = compiled()
    assert found.metadata.theirs
    named = stock.metadata._fields
    changed = {name for name in named if getattr(stock.metadata, name) != getattr(found.metadata, name)}
    assert changed <= {"hash"}
    assert (found.asm["ptx"], found.asm["cubin"]) == (stock.asm["ptx"], stock.asm["cubin"])


def test_what_spills_nothing_is_assembled_once(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = spilling(monkeypatch, {})
    again: list[object] = []
    monkeypatch.setattr(LLIRStage, "others", lambda *given: again.append(given))
    monkeypatch.setattr(advice, "spilled_part", None)  # nor is it walked through to count spills
    _, (report,) = compiled(strict=True)
    assert (set(asked), again, report.outcome) == ({codes[1]}, [], Outcome.CONVERTED)
    assert "veto" not in report.seconds


def test_what_measuring_decides_is_not_vetoed(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    spilling(monkeypatch, {codes[1]: 8})
    assert compiled(keyed=True)[1][0].outcome is Outcome.CONVERTED
    assert compiled()[1][0].outcome is Outcome.LEFT
    assert compiled(occupancy=False)[1][0].outcome is Outcome.CONVERTED


def test_what_somebody_else_has_changed_is_not_vetoed(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The LLVM IR that a user has put in its place is compiled, whatever it spills."""
    llir = tmp_path / "changed.llir"
    llir.write_text(compiled()[0].asm["llir"] + "; changed\n")
    spilling(monkeypatch, {codes[1]: 8})
    with pinned(Options()) as reports:
        kernel = compile_kernel(row_sums, ir_override=str(llir))
    assert (kernel.asm["cubin"], reports[0].outcome) == (codes[1], Outcome.CONVERTED)


def test_metadata_that_somebody_else_adds_stays(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = LLIRStage.__call__

    def adding(self: LLIRStage, src: Any, metadata: Any) -> str:
        llir = stage(self, src, metadata)
        metadata["added"] = 1
        return llir

    monkeypatch.setattr(LLIRStage, "__call__", adding)
    spilling(monkeypatch, {codes[1]: 8})
    kernel, (report,) = compiled()
    assert (kernel.asm["cubin"], kernel.metadata.added, report.outcome) == (codes[0], 1, Outcome.LEFT)


def test_a_failure_to_compare_leaves_ours(codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    spilling(monkeypatch, {codes[1]: 8})

    def fail(self: object, llir: object) -> None:
        raise ValueError("nothing to compare with")

    monkeypatch.setattr(LLIRStage, "others", fail)
    with pytest.warns(triton_linear.FallbackWarning, match="nothing to compare with"):
        kernel, (report,) = compiled()
    assert (kernel.asm["cubin"], report.outcome) == (codes[1], Outcome.CONVERTED)
    with pytest.raises(ValueError, match="nothing to compare with"):
        compiled(strict=True)


def test_every_compile_reports_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where ptxas fails behind the stage that the report is of."""
    assert len(compiled()[1]) == len(compiled(HIP)[1]) == 1

    def fail(self: object, src: object, metadata: object) -> object:
        raise RuntimeError("no PTX")

    monkeypatch.setattr("triton_linear.ptxas.registers.Assembler.ptx", fail)
    with pinned(Options()) as reports, pytest.raises(RuntimeError, match="no PTX"):
        compile_kernel(row_sums)
    assert [report.outcome for report in reports] == [Outcome.CONVERTED]

    def listener(report: Report) -> None:
        raise KeyError(report.kernel)

    with triton_linear.enabled(on_report=listener, strict=True), pytest.raises(RuntimeError, match="no PTX"):
        compile_kernel(row_sums)


def test_a_listener_that_raises_is_heard_behind_the_veto(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def listener(report: Report) -> None:
        raise KeyError(report.kernel)

    spilling(monkeypatch, {codes[1]: 8})
    with triton_linear.enabled(on_report=listener), pytest.warns(triton_linear.ReportWarning, match="row_sums"):
        compile_kernel(row_sums)
    with triton_linear.enabled(on_report=listener, strict=True), pytest.raises(KeyError, match="row_sums"):
        compile_kernel(row_sums)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_kernel(row_sums)
