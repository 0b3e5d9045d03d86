"""All cases of both servers."""

from __future__ import annotations

from ..foreign.case import Case
from ..harness.cases import unique


def cases() -> list[Case]:
    """All of them; the servers' take turns, so that a run that is cut off has some of each."""
    from . import (
        cases_sglang_attention,
        cases_sglang_experts,
        cases_sglang_others,
        cases_vllm_attention,
        cases_vllm_experts,
        cases_vllm_matmul,
        cases_vllm_others,
        cases_vllm_recurrent,
    )

    servers = (
        (cases_vllm_experts, cases_vllm_attention, cases_vllm_matmul, cases_vllm_recurrent, cases_vllm_others),
        (cases_sglang_experts, cases_sglang_attention, cases_sglang_others),
    )
    places: dict[str, float] = {}
    found: list[Case] = []
    for modules in servers:
        own = [case for module in modules for case in module.CASES]
        places |= {case.name: place / len(own) for place, case in enumerate(own)}
        found += own
    return sorted(unique(found), key=lambda case: places[case.name])
