"""Where the plugin fails, or asks for too much, the stock kernel comes out."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import plugin_support as support
import pytest
from plugin_support import CUDA, HIP, assembly, compile_kernel, fail, fresh_plugin, is_ours
from triton import knobs
from triton.backends import backends

import triton_linear
from triton_linear.passes import attempts
from triton_linear.report import FallbackWarning, Outcome

__all__ = ["fresh_plugin"]

pytestmark = pytest.mark.usefixtures("fresh_plugin")


# Failures


@pytest.mark.parametrize("target", [CUDA, HIP], ids=["cuda", "hip"])
def test_a_failure_gives_the_stock_kernel_and_one_warning(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stock = compile_kernel(target=target)
    monkeypatch.setattr(attempts, "prepare", fail)
    triton_linear.install()
    with pytest.warns(FallbackWarning) as caught:
        ours = compile_kernel(target=target)
    (text,) = [str(warning.message) for warning in caught]
    assert text.startswith("triton_linear: kernel 'row_sums' for ")
    assert "LookupError: the planner tripped" in text
    assert "in fail\n" in text
    assert Path(text.partition("please attach ")[2].partition(" and this:")[0]).is_file()
    assert {k: v for k, v in ours.asm.items() if k != "source"} == {
        k: v for k, v in stock.asm.items() if k != "source"
    }
    assert ours.metadata._asdict() | {"hash": ""} == stock.metadata._asdict() | {"hash": ""}
    report = triton_linear.last_report()
    assert report is not None
    assert (report.outcome, report.error) == (Outcome.FAILED, "LookupError: the planner tripped")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_kernel(target=target, width=128)


def test_a_module_of_ours_that_triton_cannot_lower_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = compile_kernel()
    nvidia = backends["nvidia"].compiler
    make_llir = nvidia.make_llir

    def picky(self: Any, module: Any, metadata: Any, *rest: Any) -> Any:
        if support.MARK in str(module):
            metadata["given_up"] = True
            raise RuntimeError("PassManager::run failed")
        return make_llir(self, module, metadata, *rest)

    monkeypatch.setattr(nvidia, "make_llir", picky)
    with pytest.warns(FallbackWarning, match="PassManager::run failed"), triton_linear.enabled() as reports:
        ours = compile_kernel()
    assert assembly(ours) == assembly(stock)
    assert ours.metadata._fields == stock.metadata._fields
    assert (reports[0].outcome, reports[0].ours, reports[0].seen) == (Outcome.FAILED, 0, 1)
    assert reports[0].remarks == (
        "Triton refused the module with our code: the errors that MLIR printed are about that module",
    )


def test_strict_does_not_find_what_fell_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken, pytest.warns(FallbackWarning), triton_linear.enabled():
        broken.setattr(attempts, "prepare", fail)
        compile_kernel()
    with triton_linear.enabled(strict=True):
        assert is_ours(compile_kernel())


def test_missing_bindings_are_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(*_: object, **__: object) -> Any:
        raise ModuleNotFoundError("No module named 'mlir'")

    monkeypatch.setattr(attempts, "prepare", prepare)
    with pytest.warns(FallbackWarning, match="needs MLIR's Python bindings") as caught, triton_linear.enabled():
        compile_kernel()
    assert "bug" not in str(caught[0].message)


def test_an_unknown_target_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = type(CUDA)("cuda", 75, 32)
    triton_linear.install()
    with pytest.warns(FallbackWarning, match="no table for cuda:75") as caught:
        compile_kernel(target=odd)
        compile_kernel(target=odd, width=128)
    assert len(caught) == 1
    report = triton_linear.last_report()
    assert report is not None
    assert (report.outcome, report.error, report.traceback) == (Outcome.LEFT, None, None)
    assert report.remarks[0].startswith("no table for cuda:75")


def test_stock_failing_too_is_stocks_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "prepare", fail)
    nvidia = backends["nvidia"].compiler

    def broken(*_: object) -> Any:
        raise RuntimeError("PassManager::run failed")

    monkeypatch.setattr(nvidia, "make_llir", broken)
    with warnings.catch_warnings(), triton_linear.enabled():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="PassManager::run failed"):
            compile_kernel()


# Listeners


def trip(_: object) -> None:
    raise ValueError("the listener tripped")


def test_a_listener_that_raises_hides_no_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(attempts, "prepare", fail)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with (
            pytest.raises(LookupError, match="the planner tripped") as raised,
            triton_linear.enabled(on_report=trip, strict=True),
        ):
            compile_kernel()
    assert raised.value.__context__ is None
    assert "row_sums: on_report failed" in caplog.text


# Instrumentation


def test_the_concurrency_sanitizer_gets_the_stock_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "prepare", fail)
    monkeypatch.setattr(knobs.compilation, "instrumentation_mode", "consan")
    stock = compile_kernel()
    with triton_linear.enabled(strict=True) as reports:
        kernel = compile_kernel()
    assert assembly(kernel) == assembly(stock)
    (report,) = reports
    assert (report.outcome, report.seen, report.conversions) == (Outcome.LEFT, 1, ())
    assert report.remarks == ("instrumentation mode 'consan' is on, and cannot see into code of ours",)


# Shared memory


def limited(
    shared: dict[int | None, int], monkeypatch: pytest.MonkeyPatch, budget: int | None = None
) -> list[int | None]:
    """Make the stock stage claim the shared memory given per scratch limit; returns the limits tried."""
    tried: list[int | None] = []

    def embed(module: Any, stubs: Any, target: Any, *, apart: bool, sparing: bool) -> Any:
        (stub,) = stubs.values()
        tried.append(None if stub.plan == support.FakePlan() else stub.plan.scratch_bytes)
        made = support.fake_embed(module, stubs, target, apart=apart, sparing=sparing)
        return replace(made, budget=budget if apart else None)

    def claim(*arguments: Any) -> Any:
        if not arguments:
            return "", ""
        stages = arguments[1]
        stock = stages["llir"]

        def stage(src: Any, metadata: Any) -> Any:
            llir = stock(src, metadata)
            if support.MARK in llir:
                metadata["shared"] = shared[tried[-1]]
                metadata["given_up"] = True
            return llir

        stages["llir"] = stage
        return None

    monkeypatch.setattr(attempts, "embed", embed)
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", claim)
    return tried


def test_too_much_shared_memory_is_retried_with_little_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = limited({None: 300_000, 0: 200_000}, monkeypatch)
    with triton_linear.enabled() as reports:
        kernel = compile_kernel()
    assert tried == [None, 0]
    assert is_ours(kernel)
    assert kernel.metadata.shared == 200_000
    assert reports[0].remarks == ("300000 bytes of shared memory with the default scratch, cuda:90 has 232448",)


def test_scratch_kept_apart_beyond_its_budget_shares_its_bytes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[int, bool]] = []

    def embed(module: Any, stubs: Any, target: Any, *, apart: bool, sparing: bool) -> Any:
        tried.append((stubs["stand_in"].plan.scratch_bytes, apart))
        made = support.fake_embed(module, stubs, target, apart=apart, sparing=sparing)
        return replace(made, budget=0 if apart else None)

    monkeypatch.setattr(attempts, "embed", embed)
    with triton_linear.enabled() as reports:
        kernel = compile_kernel()
    assert tried == [(1024, True), (1024, False)]
    assert is_ours(kernel)
    (remark,) = reports[0].remarks
    assert re.fullmatch(
        r"[1-9]\d* bytes of shared memory with scratch that shares no bytes, which may take 0", remark
    )


def test_no_budget_is_beyond_what_the_gpu_has(monkeypatch: pytest.MonkeyPatch) -> None:
    claimed = limited({None: 300_000, 0: 200_000}, monkeypatch, budget=400_000)
    with triton_linear.enabled() as reports:
        kernel = compile_kernel()
    assert claimed == [None, None, 0]
    assert is_ours(kernel)
    assert kernel.metadata.shared == 200_000
    assert reports[0].remarks == (
        "300000 bytes of shared memory with scratch that shares no bytes, which may take 232448",
        "300000 bytes of shared memory with the default scratch, cuda:90 has 232448",
    )


def test_too_much_shared_memory_at_least_scratch_is_left_to_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = limited({None: 300_000, 0: 290_000}, monkeypatch)
    stock = compile_kernel()
    with triton_linear.enabled() as reports:
        kernel = compile_kernel()
    assert tried == [None, 0]
    assert assembly(kernel) == assembly(stock)
    assert kernel.metadata.shared == stock.metadata.shared
    assert kernel.metadata._fields == stock.metadata._fields
    assert reports[0].outcome is Outcome.LEFT
    assert [c.detail for c in reports[0].left] == ["shared memory is exhausted"]
