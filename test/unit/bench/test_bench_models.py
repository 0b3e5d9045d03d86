"""`bench.models` without a GPU: whose times are whose, what a record is of, and how results are judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bench.models.figures import record
from bench.models.times import on_gpu, per_step
from bench.models.tuners import EQUAL, FREE, PLUGIN, STOCK
from bench.models.work import NOISE, verdict


def test_kernels_of_one_name_are_told_apart_by_their_order() -> None:
    events = [("k", 10, 1000), ("gemm", 20, 500), ("k", 30, 7000), ("k", 110, 3000), ("k", 130, 9000)]
    times = per_step(events, [0, 1], ["k", "k"], steps=2)
    assert times.kernels == [2.0, 8.0] and times.others == {"gemm": 0.25}


def test_all_of_a_name_goes_to_its_first_kernel_where_launches_are_missing() -> None:
    times = per_step([("k", 0, 1000), ("k", 1, 2000), ("k", 2, 3000)], [0, 1], ["k", "k"], steps=2)
    assert times.kernels == [3.0, 0.0]


def test_only_what_the_gpu_did_counts() -> None:
    def event(name: str, device: str = "DeviceType.CUDA", annotated: bool = False) -> Any:
        facts = {"name": name, "device_type": device, "is_user_annotation": annotated}
        return SimpleNamespace(
            start_ns=lambda: 1, duration_ns=lambda: 2, **{k: (lambda v=v: v) for k, v in facts.items()}
        )

    events = [event("k"), event("cudaLaunchKernel", "DeviceType.CPU"), event("step", annotated=True)]
    events.append(event("## Call CompiledFxGraph f ##"))
    assert on_gpu(SimpleNamespace(events=lambda: events)) == [("k", 1, 2)]


def kernel(key: str, config: str, code: str = "x", **more: Any) -> dict[str, Any]:
    facts = {"registers": 32, "spilled": 0, "shared": 0, "code": code, "tried": 2, "launches": 1}
    return {"name": f"triton_{key}", "key": key, "config": config, **facts, **more}


def prepared(*kernels: dict[str, Any]) -> dict[str, Any]:
    return {
        "kernels": list(kernels), "graphs": 1, "milliseconds": 20.0, "gigabytes": 1.0,
        "seconds": {"build": 1.0, "compile": 2.0}, "compiles": {},
    }  # fmt: skip


SIDES = {
    STOCK: prepared(kernel("a", "X=1"), kernel("b", "X=1"), kernel("only", "X=1")),
    PLUGIN: prepared(kernel("b", "X=2", "y"), kernel("a", "X=1")),
}
ADOPTED = {"b": {"config": "X=1", "registers": 40, "spilled": 0, "shared": 0, "code": "z"}}
TIMES = {STOCK: [100.0, 80.0, 5.0], FREE: [40.0, 100.0], EQUAL: [100.0, 100.0]}


def found_record() -> dict[str, Any]:
    times = {way: [{"kernels": t, "rest": 15.0, "others": {"gemm": 15.0}}] * 7 for way, t in TIMES.items()}
    return record(SIDES[STOCK], SIDES[PLUGIN], ADOPTED, times)


def test_a_record_has_each_kernel_of_both_processes_under_its_key() -> None:
    found = found_record()
    a, b = found["kernels"]
    assert (a["key"], a["ratio"][FREE][1], a["same_code"][FREE]) == ("a", 1.0, True)
    assert b["configs"] == {STOCK: "X=1", FREE: "X=2", EQUAL: "X=1"}
    assert (b["ratio"][FREE][1], b["ratio"][EQUAL][1], b["same_code"][EQUAL]) == (2.0, 0.8, False)
    assert found["unmatched"] == {STOCK: ["triton_only"], FREE: []}
    assert found["step"]["microseconds"] == {STOCK: 200.0, FREE: 155.0, EQUAL: 215.0}


def test_gradients_that_are_zero_but_for_rounding_are_not_compared() -> None:
    zero = ("bert.encoder.layer.2.attention.self.key.bias", "vit.layers.0.attention.k_proj.bias")
    others = ("bert.encoder.layer.2.attention.self.key.weight", "model.layers.0.self_attn.k_proj.bias")
    assert all(map(NOISE.search, zero)) and not any(map(NOISE.search, others))


def test_results_are_judged_beside_stock_tritons_own() -> None:
    none = {"different": 0, "apart": 0.0}
    assert verdict(none, none) == "identical"
    assert verdict({"different": 1, "apart": 0.3}, none) == "WRONG"
    assert verdict({"different": 1, "apart": 0.3}, {"different": 1, "apart": 0.1}) == "varies"
    assert verdict({"different": 1, "apart": 0.5}, {"different": 1, "apart": 0.1}) == "WRONG"
