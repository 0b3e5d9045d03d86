"""The pipeline as a whole: nobody plans twice what was planned once."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from assign_support import path_of

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import operations
from triton_linear.lowering.planners import select as selection
from triton_linear.lowering.target.targets import target
from triton_linear.passes import attempts
from triton_linear.passes.conversions import stubs
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import rewrite

NAMES = (
    "bn_nhwc-1",
    "emb_sum-0",
    "quant_cols-3",
    "softmax_row_plus_t-1",
    "layer_norm_backward",
    "matmul_mixed",
    "attention_fp8",
    "gfx950",
)
"""Modules with conversions of every kind, some of which are compiled with their scratch apart, and for two
vendors."""


@pytest.fixture
def nothing_known() -> Iterator[None]:
    """As in a process that has compiled nothing yet."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("triton_linear.lowering", "triton_linear.passes")):
            for cached in vars(module).values():
                if isinstance(cached, functools._lru_cache_wrapper):
                    cached.cache_clear()
    yield


def question(frame: FrameType | None) -> Hashable:
    """What the call of `select` that is under way was asked."""
    while frame is not None and frame.f_code is not selection.select.__wrapped__.__code__:
        frame = frame.f_back
    assert frame is not None, "a planner was called by somebody else"
    asked = frame.f_locals
    return asked["src"], asked["dst"], asked["element"].bits, asked["situation"]


def compiled(path: Path) -> tuple[attempts.Prepared, list[attempts.Attempt]]:
    """A module after a whole compile of the plugin: the passes, and every text that they may give."""
    module = bridge.text_to_upstream(path.read_text(), bridge.upstream_context(), path.name)
    gpu = target(module.operation.attributes["ttg.target"].value)
    prepared = attempts.prepare(module, attempts.concerning(PipelineOptions(), module), gpu)
    return prepared, list(prepared.attempts())


@pytest.mark.usefixtures("nothing_known")
@pytest.mark.parametrize("name", NAMES)
def test_each_planner_looks_at_a_conversion_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[tuple[str, Hashable]] = Counter()

    def counted(planner: str, plan: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any) -> Any:
            calls[planner, question(sys._getframe(1))] += 1
            return plan(*arguments)

        return count

    monkeypatch.setattr(selection, "plan_registers", counted("plan_registers", selection.plan_registers))
    for planner, plan in selection.PLANNERS.items():
        monkeypatch.setitem(selection.PLANNERS, planner, counted(planner, plan))
    prepared, attempts = compiled(path_of(name))
    assert prepared.differs and attempts
    assert "plan_registers" in {planner for planner, _ in calls}
    assert {key: count for key, count in calls.items() if count > 1} == {}
    # A process that has compiled the module knows all that it needs.
    before = calls.total()
    compiled(path_of(name))
    assert calls.total() == before


def test_the_count_finds_a_conversion_that_is_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Hashable] = []
    plan_registers = selection.plan_registers

    def counted(conv: Any) -> Any:
        asked.append(question(sys._getframe(1)))
        return plan_registers(conv)

    monkeypatch.setattr(selection, "plan_registers", counted)
    for _ in range(2):
        selection.select.cache_clear()
        compiled(path_of("quant_cols-3"))
    assert 0 < len(set(asked)) < len(asked)


def test_plans_of_the_run_are_those_that_the_stubs_describe() -> None:
    """A file with the outlined module has nothing but the attributes, and gives the same plans."""
    for name in NAMES:
        module = bridge.text_to_upstream(path_of(name).read_text(), bridge.upstream_context(), name)
        gpu = target(module.operation.attributes["ttg.target"].value)
        found = rewrite(module, PipelineOptions(), gpu)
        assert stubs.stubs_of(operations(module.operation), gpu, stubs.Plans()) == found.stubs
