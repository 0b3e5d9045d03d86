"""Registers of variants: options of ptxas, and the keys of what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plugin_support import compile_kernel, row_sums
from triton import knobs
from triton.backends.nvidia.compiler import CUDABackend

from triton_linear import setting, stage
from triton_linear.decisions import Decisions, ptxas_version
from triton_linear.hook import pinned
from triton_linear.kept import assembly
from triton_linear.lowering.target.targets import target
from triton_linear.report import FallbackWarning, Outcome
from triton_linear.setting import Options
from triton_linear.variants import VARIANTS, Part, Variant, refinements, variant


@pytest.fixture(autouse=True)
def places_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is kept from before."""
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        yield


def test_options_with_which_ptxas_fails_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make = CUDABackend.make_cubin

    def at_no_level(self: Any, src: object, metadata: object, options: Any, *rest: object) -> Any:
        if "--register-usage-level" in (options.ptx_options or ""):
            print("a repro command")
            raise RuntimeError("ptxas failed")
        return make(self, src, metadata, options, *rest)

    monkeypatch.setattr(CUDABackend, "make_cubin", at_no_level)
    stock = compile_kernel(row_sums)
    changed = variant("stock+lavish").of(Options())
    with pinned(changed), pytest.warns(FallbackWarning, match="assembled by stock Triton.*ptxas failed"):
        decided = compile_kernel(row_sums)
    assert decided.asm["cubin"] == stock.asm["cubin"]
    assert "repro" not in capfd.readouterr().out
    measured = variant("stock+lavish").of(Options(decisions="none", keyed=True))
    with pinned(measured), pytest.raises(RuntimeError, match="ptxas failed"):
        compile_kernel(row_sums)


def test_registers_of_stock_change_nothing_else() -> None:
    stock = compile_kernel(row_sums)
    with pinned(variant("stock+lavish").of(Options())) as reports:
        changed = compile_kernel(row_sums)
    assert changed.asm["ptx"] == stock.asm["ptx"]
    assert changed.asm["cubin"] != stock.asm["cubin"]
    (report,) = reports
    assert (report.outcome, report.conversions) == (Outcome.LEFT, ())
    assert not {"passes", "to MLIR"} & report.seconds.keys()


def test_options_of_ptxas_are_left_out_where_another_hook_makes_the_cubin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hook(backend: Any = None, stages: Any = None, *rest: object) -> Any:
        if stages is None:
            return "a hook", "its hash"
        make = stages["cubin"]

        def own(src: object, metadata: object) -> object:
            return make(src, metadata)

        stages["cubin"] = own
        return None

    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", hook)
    stock = compile_kernel(row_sums)
    with pinned(variant("stock+lavish").of(Options())):
        assert compile_kernel(row_sums).asm["cubin"] == stock.asm["cubin"]


def test_registers_that_were_measured_are_not_those_of_an_instrumented_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stock = compile_kernel(row_sums)
    with pinned(Options(decisions="none", keyed=True)) as reports:
        compile_kernel(row_sums)
    decided = Decisions({(reports[0].key, "cuda:90", ptxas_version("cuda:90")): "stock+lavish"}, "lavish")
    monkeypatch.setattr(setting, "load", lambda place: decided)
    monkeypatch.setattr(stage, "_instrumentation_mode", lambda metadata: "consan")
    with pinned(Options()) as reports:
        kernel = compile_kernel(row_sums)
    assert kernel.asm["cubin"] == stock.asm["cubin"]
    assert reports[0].remarks == ("instrumentation mode 'consan' is on, for which no registers were measured",)


def test_results_on_disk_are_those_of_one_threshold_and_option(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((assembly, "KeptComparisons"), (assembly, "KeptDirectives")):
        kept, keys = getattr(module, name), list[str]()

        def seen(how: Any, kept: Any = kept, keys: list[str] = keys) -> Any:
            keys.append(how())
            return kept(how)

        monkeypatch.setattr(module, name, seen)
        for changes in ({}, {"ptxas_options": "-O1"}, {"register_thresholds": "more_ctas=1"}):
            with pinned(Options(**changes)):  # type: ignore[arg-type]
                compile_kernel(row_sums)
        assert len(set(keys)) == len(keys) == 3


def test_variants_that_set_the_same_do_not_combine() -> None:
    registers = frozenset({Part.ASSEMBLY})
    first = Variant("first", "", {"register_thresholds": "more_ctas=2"}, registers)
    second = Variant("second", "", {"register_thresholds": "more_ctas=3"}, registers)
    third = Variant("third", "", {"register_thresholds": "registers_near=3"}, registers)
    assert not first.combines(second) and first.combines(third)
    changes = first.combined(third).changes or {}
    policy = target(f"cuda:90{{{changes['register_thresholds']}}}").policy
    assert (policy.more_ctas, policy.registers_near) == (2, 3)


def test_what_is_compiled_without_a_decision_has_no_refinements() -> None:
    """They would be the variants themselves, which have been measured."""
    assert not refinements("ours", VARIANTS)


def test_variants_of_different_parts_combine() -> None:
    found = {
        frozenset(name.split("+")) - {"second"} for name in refinements("second", [*VARIANTS, "third+bounded"])
    }
    others = VARIANTS.keys() - {"stock", "ours", "second", "third", "eager", "lower"}
    assert found == {frozenset({name}) for name in others}
    assembled = {name for name, each in VARIANTS.items() if each.assembly}
    assert {name.removeprefix("stock+") for name in refinements("stock", VARIANTS)} == assembled
    assert set(refinements("stock+lavish", VARIANTS)) == {
        variant(f"stock+lavish+{name}").name for name in assembled - {"lavish", "thrifty"}
    }
    changes = variant("second+latency+matrices+bounded+lavish").changes
    assert changes == {
        "rank": 1,
        "thresholds": "likely_warps=0,matrix_bytes=8",
        "register_thresholds": "more_ctas=1,registers_near=8",
        "ptxas_options": "--register-usage-level=10",
    }
    assert variant("lavish+bounded+second").name == "second+bounded+lavish"
    wrong = ("second+third", "lower+bounded+whole", "stock+second", "bounded+stock+second", "bounded+bounded")
    for name in (*wrong, "thrifty+lavish", "lower+second", "layouts+matrices"):
        with pytest.raises(ValueError, match="does not combine"):
            variant(name)


def test_directives_of_a_decision_are_kept_for_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options in force are the same, whatever is decided."""
    found, kept = list[Any](), assembly.KeptDirectives

    def seen(how: Any) -> Any:
        found.append(how)
        return kept(how)

    monkeypatch.setattr(assembly, "KeptDirectives", seen)
    with pinned(Options(decisions="none", keyed=True)) as reports:
        compile_kernel(row_sums)
    key = (reports[0].key, "cuda:90", ptxas_version("cuda:90"))
    for name in ("ours", "thrifty", "lavish", "bounded"):
        monkeypatch.setattr(setting, "load", lambda place, name=name: Decisions({key: name}, name))
        with pinned(Options()) as reports:
            compile_kernel(row_sums)
        assert reports[0].variant == name
    assert len({how() for how in found[1:]}) == 4
