"""The plugin on stock Triton: turning on and off, other hooks, reports. The passes are a stand-in here."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import plugin_support as support
import pytest
from plugin_support import CUDA, HIP, assembly, compile_kernel, fail, fresh_plugin, is_ours, triton_state
from triton import knobs
from triton.compiler import make_backend

import triton_linear
from triton_linear.passes import attempts
from triton_linear.report import Outcome, Report

__all__ = ["fresh_plugin"]

pytestmark = pytest.mark.usefixtures("fresh_plugin")


def test_the_version_is_the_distributions() -> None:
    assert triton_linear.__version__ == importlib.metadata.version("triton-linear")


def test_unknown_attributes_are_named() -> None:
    with pytest.raises(AttributeError, match="no attribute 'instal'"):
        _ = triton_linear.instal  # type: ignore[attr-defined]


# Turning on and off


@pytest.mark.parametrize("target", [CUDA, HIP], ids=["cuda", "hip"])
def test_off_on_off_on_gives_the_right_kernel_each_time(target: Any) -> None:
    stock = assembly(compile_kernel(target=target))
    assert support.MARK not in stock
    for _ in range(2):
        triton_linear.install()
        assert is_ours(compile_kernel(target=target))
        triton_linear.uninstall()
        assert assembly(compile_kernel(target=target)) == stock


def test_uninstall_puts_everything_back() -> None:
    before = triton_state()
    triton_linear.install()
    assert triton_state() != before
    compile_kernel()
    triton_linear.install(strict=True)
    triton_linear.uninstall()
    assert triton_state() == before
    triton_linear.uninstall()
    assert triton_state() == before


def test_blocks_nest_and_the_innermost_counts() -> None:
    with triton_linear.enabled() as outer:
        with triton_linear.enabled(scratch_limit=64) as inner:
            compile_kernel()
        compile_kernel()
    assert len(outer) == len(inner) == 1
    assert not is_ours(compile_kernel())


def test_a_block_inside_install_and_uninstall_inside_a_block() -> None:
    triton_linear.install()
    with triton_linear.enabled() as reports:
        triton_linear.uninstall()
        assert is_ours(compile_kernel())
    assert len(reports) == 1
    assert not is_ours(compile_kernel())


def test_blocks_that_end_out_of_order() -> None:
    first, second = triton_linear.enabled(), triton_linear.enabled(scratch_limit=64)
    first.__enter__()
    reports = second.__enter__()
    first.__exit__(None, None, None)
    compile_kernel()
    assert len(reports) == 1
    second.__exit__(None, None, None)
    assert not is_ours(compile_kernel())


def test_a_knob_scope_that_drops_the_hook_does_not_drop_the_plugin() -> None:
    with knobs.runtime.scope():
        triton_linear.install()
    assert knobs.runtime.add_stages_inspection_hook is None
    assert is_ours(compile_kernel())


def test_negative_scratch_is_refused_before_anything_changes() -> None:
    before = triton_state()
    with pytest.raises(ValueError, match="scratch_limit -1 is negative"):
        triton_linear.install(scratch_limit=-1)
    assert triton_state() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strict": "yes"}, "strict takes a bool, got 'yes'"),
        ({"stric": True}, r"no option 'stric'; did you mean 'strict'\?"),
        ({"exact": 1}, "exact takes a bool, got 1"),
        ({"scratch_limit": 1.5}, "scratch_limit takes an int or None, got 1.5"),
        ({"scratch_limit": True}, "scratch_limit takes an int or None, got True"),
        ({"on_report": []}, r"on_report takes a function or None, got \[\]"),
    ],
)
def test_options_of_other_types_are_refused_at_the_call(options: dict[str, Any], message: str) -> None:
    before = triton_state()
    for turn_on in (triton_linear.install, triton_linear.enabled):
        with pytest.raises(TypeError, match=message):
            turn_on(**options)
    assert triton_state() == before


# A hook that is there already


def test_a_hook_that_is_there_runs_first_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def theirs(*arguments: Any) -> Any:
        if not arguments:
            return "their key", "their hash"  # Tritons after 3.6 ask for them
        _, stages, _, _, capability = arguments
        stock = stages["llir"]
        stages["llir"] = lambda src, metadata: calls.append("their stage") or stock(src, metadata)
        calls.append(capability)
        return "their answer"

    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", theirs)
    triton_linear.install()
    assert is_ours(compile_kernel())
    assert calls == [90, "their stage"]
    backend = make_backend(CUDA)
    installed: Any = knobs.runtime.add_stages_inspection_hook
    stages: Any = {"llir": None}
    assert installed(backend, stages, backend.parse_options({}), None, 90) == "their answer"
    triton_linear.uninstall()
    assert knobs.runtime.add_stages_inspection_hook is theirs


def test_the_hook_answers_newer_tritons_with_a_key_and_a_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", lambda *args: ("k", "h"))
    answers = []
    for limit in (None, 64):
        with triton_linear.enabled(scratch_limit=limit):
            installed: Any = knobs.runtime.add_stages_inspection_hook
            answers.append(installed())
    assert installed() == ("k", "h")
    assert len({*answers, ("k", "h")}) == 3
    assert all(key.startswith("k") and digest.startswith("h") for key, digest in answers)


# Reports


def test_a_kernel_without_conversions_goes_straight_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "prepare", fail)
    with triton_linear.enabled(strict=True) as reports:
        compile_kernel(support.double)
    (report,) = reports
    assert (report.outcome, report.seen) == (Outcome.NOTHING_TO_DO, 0)
    own = sum(seconds for phase, seconds in report.seconds.items() if phase != "stock")
    assert own < 0.05 * report.seconds["stock"]


def test_reports_reach_every_listener() -> None:
    heard: list[Report] = []
    with triton_linear.enabled(on_report=heard.append) as reports:
        compile_kernel()
    assert heard == reports == [triton_linear.last_report()]
    (report,) = reports
    assert (report.kernel, report.target, report.outcome) == ("row_sums", "cuda:90", Outcome.CONVERTED)
    assert (report.seen, report.ours, report.noop, report.folded, report.left) == (1, 1, 0, 0, ())
    phases = ["screen", "to MLIR", "known", "import", "passes", "embed", "to Triton", "stock"]
    assert list(report.seconds) == phases
    assert "row_sums for cuda:90: converted; 1 conversion: 1 ours" in str(report)
