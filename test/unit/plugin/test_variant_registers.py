"""Registers of variants: the keys of what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plugin_support import compile_kernel, row_sums
from triton import knobs

from triton_linear import setting
from triton_linear.decisions import Decisions, ptxas_version
from triton_linear.hook import pinned
from triton_linear.kept import assembly
from triton_linear.setting import Options


@pytest.fixture(autouse=True)
def places_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is kept from before."""
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        yield


def test_results_on_disk_are_those_of_one_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((assembly, "KeptComparisons"), (assembly, "KeptDirectives")):
        kept, keys = getattr(module, name), list[str]()

        def seen(how: Any, kept: Any = kept, keys: list[str] = keys) -> Any:
            keys.append(how())
            return kept(how)

        monkeypatch.setattr(module, name, seen)
        for thresholds in ("", "more_ctas=1"):
            with pinned(Options(register_thresholds=thresholds)):
                compile_kernel(row_sums)
        assert len(set(keys)) == len(keys) == 2


def test_directives_of_a_decision_are_kept_for_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options in force are the same, whatever is decided."""
    found, kept = list[Any](), assembly.KeptDirectives

    def seen(how: Any) -> Any:
        found.append(how)
        return kept(how)

    monkeypatch.setattr(assembly, "KeptDirectives", seen)
    with pinned(Options(decisions="none", measured=True)) as reports:
        compile_kernel(row_sums)
    key = (reports[0].key, "cuda:90", ptxas_version("cuda:90"))
    for name in ("ours", "exact", "bounded"):
        monkeypatch.setattr(setting, "load", lambda place, name=name: Decisions({key: name}, name))
        with pinned(Options()) as reports:
            compile_kernel(row_sums)
        assert reports[0].variant == name
    assert len({how() for how in found[1:]}) == 2  # `exact` is no matter of registers
