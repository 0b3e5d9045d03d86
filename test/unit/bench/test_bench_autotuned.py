"""bench.autotuned: what it offers to autotuners, and how it reports. Nothing is launched."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from bench import autotuned


def test_every_case_has_configurations_to_choose_from() -> None:
    for case in autotuned.TUNED:
        configs = case.tuner().configs
        assert len({str(config) for config in configs}) == len(configs) > 1
        sizes = [{**config.all_kwargs(), **case.fixed} for config in configs]
        assert all(min(case.grid(chosen)) > 0 for chosen in sizes), case.name
        given = {*case.inputs, *case.outputs, *case.numbers, *case.fixed, *case.sizes}
        assert given == set(case.function.arg_names), case.name
