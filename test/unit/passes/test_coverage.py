"""What of the pipeline does its work with a release, by the table and the pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
import triton

from triton_linear.dialect.triton_versions import KNOWN, installed_release
from triton_linear.passes.coverage import LIMITS, Limit, coverage
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import pipeline
from triton_linear.tools import cli


def limits(release: tuple[int, int]) -> list[Limit]:
    return [limit for limit in LIMITS if release in limit.span]


NAMES = [each.name for each in pipeline(PipelineOptions(), None)]


@pytest.mark.parametrize("release", KNOWN)
def test_passes_are_those_of_the_pipeline_in_its_order(release: tuple[int, int]) -> None:
    found = coverage(release)
    assert [each.name for each in found] == NAMES
    assert all((each.state == "on") == (not each.limits) for each in found)
    assert {limit for each in found for limit in each.limits} == set(limits(release))


def test_the_table_names_passes_of_the_pipeline_and_releases_that_are_known() -> None:
    for limit in LIMITS:
        assert limit.by in NAMES
        assert any(limit in limits(release) for release in KNOWN)


def test_only_clusters_are_left_with_the_oldest() -> None:
    partly = {each.name: each.limits for each in coverage(KNOWN[0]) if each.state != "on"}
    (limit,) = partly.pop("linear-select-lowering")
    assert "in kernels with clusters" in str(limit)
    assert partly == {}


def test_the_command_shows_what_the_table_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status"]) == 0
    said = capsys.readouterr().out
    assert f"triton {triton.__version__} in {Path(triton.__path__[0])}: a tested release\n" in said
    words = " ".join(said.split())
    for found in coverage(installed_release()):
        assert f"{found.name} {found.state} {found.summary}" in words
    for limit in limits(installed_release()):
        assert str(limit) in words
