"""The bench of servers' operators: which of a server's files travel."""

from __future__ import annotations

from bench.foreign.packages import kept
from bench.serving.packages import PACKAGES


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
