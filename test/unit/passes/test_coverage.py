"""What of the pipeline does its work with a release, by the table and the pipeline, and what a user is told."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import triton
from plugin_support import CUDA, HIP, transpose_bytes

import triton_linear
from triton_linear import LimitWarning, limited
from triton_linear.dialect.limits import LIMITS, Limit, limits
from triton_linear.dialect.triton_versions import KNOWN, Span, installed_release
from triton_linear.passes.coverage import coverage
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import pipeline
from triton_linear.tools import cli

ALWAYS = (Span((0, 0)),)


NAMES = [each.name for each in pipeline(PipelineOptions(), None)]


@pytest.mark.parametrize("release", KNOWN)
def test_passes_are_those_of_the_pipeline_in_its_order(release: tuple[int, int]) -> None:
    found = coverage(release)
    assert [each.name for each in found] == NAMES
    assert all((each.state == "on") == (not each.limits) for each in found)
    assert {limit for each in found for limit in each.limits} == set(limits(release))


def test_the_table_names_passes_of_the_pipeline_and_releases_that_are_known() -> None:
    for limit in LIMITS:
        assert set(limit.passes) <= set(NAMES)
        assert any(limit in limits(release) for release in KNOWN)


def test_only_clusters_and_tensor_memory_are_left_with_the_oldest() -> None:
    partly = {each.name: each.limits for each in coverage(KNOWN[0]) if each.state != "on"}
    (limit,) = partly.pop("linear-select-lowering")
    assert "in kernels with clusters" in str(limit)
    (of_layouts,) = partly.pop("linear-assign-layouts")
    assert "tensor memory" in str(of_layouts)
    assert of_layouts.concerns("cuda:100") and not of_layouts.concerns("cuda:90") and partly == {}


def test_the_command_shows_what_the_table_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status"]) == 0
    said = capsys.readouterr().out
    assert f"triton {triton.__version__} in {Path(triton.__path__[0])}: a tested release\n" in said
    words = " ".join(said.split())
    for found in coverage(installed_release()):
        assert f"{found.name} {found.state} {found.summary}" in words
    for limit in limits(installed_release()):
        assert str(limit) in words


# What a user is told


def a_limit(**fields: Any) -> Limit:
    return Limit(ALWAYS, "rhymes are not found", "nobody knows them", ("linear-assign-layouts",), **fields)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A process that was told nothing, and compiles everything."""
    monkeypatch.setattr(limited, "_told", set())
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    yield
    triton_linear.uninstall()


def said(action: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(each.message) for each in caught if issubclass(each.category, LimitWarning)]


def compiled(target: Any) -> None:
    triton.compile(transpose_bytes(), target=target)


@pytest.mark.usefixtures("told")
def test_what_is_so_on_every_gpu_is_said_once_when_the_plugin_is_turned_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limited, "limits", lambda release: iter([a_limit(told=True)]))
    (text,) = said(triton_linear.install)
    assert f"with Triton {triton.__version__} rhymes are not found: nobody knows them" in text
    assert said(triton_linear.install) == said(lambda: compiled(CUDA)) == []


@pytest.mark.usefixtures("told")
def test_what_is_so_on_some_gpus_is_said_with_the_first_kernel_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = a_limit(gpus=("gfx9",), told=True)
    monkeypatch.setattr(limited, "limits", lambda release: iter([limit]))
    assert said(triton_linear.install) == said(lambda: compiled(CUDA)) == []
    (text,) = said(lambda: compiled(HIP))
    assert "on hip:gfx942 rhymes are not found" in text
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    assert said(lambda: compiled(HIP)) == []


@pytest.mark.usefixtures("told")
def test_what_triton_makes_up_for_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited, "limits", lambda release: iter([a_limit()]))
    assert said(triton_linear.install) == said(lambda: compiled(CUDA)) == []


@pytest.mark.usefixtures("told")
def test_with_no_release_is_anything_off_that_triton_does_not_make_up_for() -> None:
    assert not any(limit.told for limit in LIMITS)
    assert said(triton_linear.install) == said(lambda: compiled(CUDA)) == []
