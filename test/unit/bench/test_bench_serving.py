"""The bench of servers' operators, without a GPU, without PyTorch and without the servers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.foreign.packages import kept
from bench.serving import standins
from bench.serving.packages import PACKAGES, SERVERS
from bench.serving.suite import SERVING


def test_every_case_is_of_a_server_and_servers_take_turns() -> None:
    found = SERVING.cases()
    assert len({case.name for case in found}) == len(found) > 150
    assert {case.package for case in found} == set(SERVERS)
    assert {case.package for case in found[:4]} == set(SERVERS)


def test_modules_and_tables_travel_and_the_rest_of_a_server_does_not() -> None:
    vllm = PACKAGES[0]
    tables = "vllm/model_executor/layers/fused_moe/configs/E=8,N=64,device_name="
    named = {
        "vllm/v1/attention/ops/triton_unified_attention.py": True,
        "vllm/v1/attention/ops/triton_unified_attention.so": False,
        "vllm/__init__.py": False,
        "vllm/engine/llm_engine.py": False,
        f"{tables}NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json": True,
        f"{tables}NVIDIA_A100-SXM4-80GB.json": False,
    }
    assert {name: kept(vllm, name) for name in named} == named


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server of which one module was fetched, and which is asked for more."""
    ops = tmp_path / "vllm" / "layers" / "ops"
    ops.mkdir(parents=True)
    (ops / "norm.py").write_text(
        "from vllm.envs import SOME, limit\n"
        "from vllm.logger import init_logger\n"
        "from vllm.layers import Base, ops\n"
        "log = init_logger(__name__)\n"
        "class Norm(Base, Base.Other): size = 3\n"
        "@ops.register('norm')\n"
        "def norm(): return limit, SOME.thing(2) > 1, [*SOME]\n"
    )
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(standins, "answers", lambda: {"vllm.envs": {"limit": 7}})
    monkeypatch.setattr(sys, "path", list(sys.path))
    standins.enter(tmp_path)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        del sys.modules[name]


@pytest.mark.usefixtures("site")
def test_what_was_fetched_is_imported_and_the_rest_stands_in() -> None:
    from vllm.layers import ops  # type: ignore[import-not-found]

    made: Any = ops.norm
    assert isinstance(ops, standins.StandIn)
    assert made.norm() == (7, False, [])
    assert made.Norm.size == 3
    assert not made.log.warning("nobody hears it")
    with pytest.raises(AttributeError):
        _ = ops.__wrapped__


def test_a_stand_in_decorates_with_options_or_without() -> None:
    one = standins.Anything("vllm.register")
    assert one(len) is len
    assert one("name", mutates=[])(len) is len
    assert not one
    assert 3 not in one
