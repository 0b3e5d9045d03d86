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
from triton_linear.ptxas import registers
from triton_linear.ptxas.cubin import Usage
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
    """Cubins have these bytes of stack, others none; returns those that were asked about."""
    asked: list[bytes] = []

    def usage(cubin: Any) -> Usage | None:
        if cubin is None:
            return None
        asked.append(cubin)
        return Usage(255, stacks.get(cubin, 0))  # all that a thread can have, so ptxas is told of no more

    monkeypatch.setattr(registers, "usage", usage)
    return asked


@pytest.mark.parametrize(
    ("ours_spills", "stock_spills", "taken"), [(20, 0, 0), (19, 0, None), (40, 20, 0), (40, 21, 1), (40, 80, 1)]
)
def test_more_spills_are_not_taken(
    codes: tuple[bytes, bytes],
    monkeypatch: pytest.MonkeyPatch,
    ours_spills: int,
    stock_spills: int,
    taken: int | None,
) -> None:
    """More by 20 bytes. taken: the kernel, stock Triton's or ours; None: ours, and no other is compiled."""
    asked = spilling(monkeypatch, {codes[0]: stock_spills, codes[1]: ours_spills})
    kernel, (report,) = compiled()
    assert kernel.asm["cubin"] == codes[taken != 0]
    assert (codes[0] in asked, "veto" in report.seconds) == (taken is not None, taken is not None)
    assert report.outcome is (Outcome.LEFT if taken == 0 else Outcome.CONVERTED)
    assert bool(report.conversions) == (taken != 0)
    said = f"it would spill {ours_spills} bytes in each thread, stock Triton's spills {stock_spills}"
    assert (said in report.remarks) == (taken == 0)


@pytest.mark.parametrize(("stock_spills", "taken"), [(0, 0), (80, 1)])
def test_what_comparing_has_shown_is_kept(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stock_spills: int, taken: int
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(store, "read", READ)
    monkeypatch.setattr(store, "write", WRITE)
    asked = spilling(monkeypatch, {codes[0]: stock_spills, codes[1]: 40})
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
    asked = spilling(monkeypatch, {codes[0]: 0, codes[1]: 40})

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


def test_the_metadata_is_that_of_the_kernel_taken(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = LLIRStage.others

    def marked(stage: LLIRStage, llir: object) -> Any:
        for found, metadata in others(stage, llir):
            yield found, metadata | {"theirs": True}

    monkeypatch.setattr(LLIRStage, "others", marked)
    spilling(monkeypatch, {codes[1]: 40})
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
    _, (report,) = compiled(strict=True)
    assert (set(asked), again, report.outcome) == ({codes[1]}, [], Outcome.CONVERTED)
    assert "veto" not in report.seconds


def test_what_measuring_decides_is_not_vetoed(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    spilling(monkeypatch, {codes[1]: 40})
    assert compiled(keyed=True)[1][0].outcome is Outcome.CONVERTED
    assert compiled()[1][0].outcome is Outcome.LEFT
    assert compiled(occupancy=False)[1][0].outcome is Outcome.CONVERTED


def test_what_somebody_else_has_changed_is_not_vetoed(
    codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The LLVM IR that a user has put in its place is compiled, whatever it spills."""
    llir = tmp_path / "changed.llir"
    llir.write_text(compiled()[0].asm["llir"] + "; changed\n")
    spilling(monkeypatch, {codes[1]: 40})
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
    spilling(monkeypatch, {codes[1]: 40})
    kernel, (report,) = compiled()
    assert (kernel.asm["cubin"], kernel.metadata.added, report.outcome) == (codes[0], 1, Outcome.LEFT)


def test_a_failure_to_compare_leaves_ours(codes: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    spilling(monkeypatch, {codes[1]: 40})

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

    spilling(monkeypatch, {codes[1]: 40})
    with triton_linear.enabled(on_report=listener), pytest.warns(triton_linear.ReportWarning, match="row_sums"):
        compile_kernel(row_sums)
    with triton_linear.enabled(on_report=listener, strict=True), pytest.raises(KeyError, match="row_sums"):
        compile_kernel(row_sums)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_kernel(row_sums)
