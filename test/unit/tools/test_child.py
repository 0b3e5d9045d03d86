"""The child that measures, without a GPU: what launches take, and what they give, a test says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from measuring_support import FakeCuda, cuda
from plugin_support import compile_kernel, double, row_sums, transpose

from triton_linear.decisions import ptxas_version
from triton_linear.dialect.sources import CODE_VERSION
from triton_linear.dialect.triton_versions import found
from triton_linear.tools.measuring import child
from triton_linear.tools.measuring.child import Child, mode
from triton_linear.tools.measuring.launches import Launch
from triton_linear.tools.measuring.results import NoCopy
from triton_linear.tools.measuring.rounds import CONTEST, Comparison, Heard, Launched, MeasuringPlan
from triton_linear.variants import STOCK, VARIANTS

__all__ = ["cuda"]
TRIED = [name for name in VARIANTS if name != STOCK]


class Given:
    """Results of launches: which kernel's code was run last tells them."""

    last = b""
    wrong: set[bytes]
    varying = False
    count = 0

    def __init__(self, copies: Any) -> None:
        type(self).count += 1
        self.code = Given.last
        self.number = Given.count

    def difference(self, expected: Given, before: Given) -> str:
        if Given.varying and self.number != expected.number:
            return "a result of torch.float32 differs by 2 of its magnitude"
        return "a result of torch.int32 differs" if self.code in Given.wrong else ""

    def same(self, expected: Given) -> bool:
        return self.code == expected.code


Failing = dict[bytes, Callable[[], object]]


@pytest.fixture
def failing() -> Failing:
    """What happens where code is to be launched."""
    return {}


@pytest.fixture
def speeds(
    monkeypatch: pytest.MonkeyPatch, cuda: FakeCuda, tmp_path: Path, failing: Failing
) -> dict[bytes, float]:
    """How long launches take, by their code: 100 for what it does not say."""
    taken: dict[bytes, float] = {}
    monkeypatch.setenv("TRITON_HOME", str(tmp_path))
    Given.wrong, Given.varying = set(), False

    def again(kernel: Any, launch: Any, arguments: Any) -> Callable[[], float]:
        code = bytes(kernel.kernel)
        failing.get(code, lambda: None)()

        def run() -> float:
            Given.last = code
            return taken.get(code, 100.0)

        return run

    monkeypatch.setattr(child, "again", again)
    monkeypatch.setattr(child, "Results", Given)
    return taken


def code_of(name: str, kernel: Any = transpose) -> bytes:
    """The code of a kernel in a variant."""
    with mode(name):
        return bytes(compile_kernel(kernel).kernel)


def visited(kernel: Any = transpose, heard: Heard | None = None, **plan: Any) -> Launched:
    """What a child finds that is shown one launch of a kernel."""
    heard = heard or Heard()
    held = Child(MeasuringPlan("script.py", [], seconds=0, **{"modes": TRIED, **plan}), heard.hear)
    behind = held.visit(Launch(compile_kernel(kernel), (4, 1, 1), ("x", "out", 32, 64)))
    if behind is not None:
        behind()
    (launch,) = heard.launches.values()
    return launch


def compared(launch: Launched) -> Comparison:
    assert launch.comparison is not None
    return launch.comparison


def test_the_fastest_variant_is_found(speeds: dict[bytes, float]) -> None:
    speeds[code_of("bounded")] = 50.0
    speeds[code_of("ours")] = 80.0
    launch = visited()
    found_out = compared(launch)
    assert (launch.name, launch.fastest, launch.microseconds) == ("transpose", "bounded", 100.0)
    assert [one.ratio for name in ("bounded", "ours") if (one := launch.ratio(name))] == [2.0, 1.25]
    assert "stock" in found_out.exact and "bounded" not in found_out.exact
    about = found_out.circumstances
    assert (about.gpu, about.target, about.ptxas) == ("Some GPU", "cuda:90", ptxas_version("cuda:90"))
    assert (about.triton, about.package) == (found(), CODE_VERSION)


def test_the_target_is_the_one_that_is_compiled_for(
    speeds: dict[bytes, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "sm80")
    about = compared(visited()).circumstances
    assert (about.target, about.ptxas) == ("cuda:80", ptxas_version("cuda:80"))


def test_only_finalists_are_timed_twice_and_variants_of_one_code_as_one(
    speeds: dict[bytes, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    phases: list[tuple[list[str], float]] = []
    timed = Child._timed

    def counted(self: Child, field: Any, names: Any, part: float) -> Any:
        phases.append((list(names), part))
        return timed(self, field, names, part)

    monkeypatch.setattr(Child, "_timed", counted)
    codes = {name: code_of(name) for name in VARIANTS}
    speeds |= {code: 101.0 for name, code in codes.items() if name != "stock"}
    launch = visited()
    assert launch.fastest == "stock"
    ((names, part),) = phases
    assert part == child.FIRST
    assert {codes[name] for name in names} == set(codes.values()) and len(set(codes.values())) == len(names)
    assert compared(launch).ratios.keys() == VARIANTS.keys()
    speeds[codes["bounded"]] = speeds[codes["ours"]] = 50.0
    assert visited().fastest == "ours", "the earlier of equals"
    assert phases[1:] == [(names, child.FIRST), (["stock", "ours"], 1.0)]


def test_a_variant_with_other_results_takes_no_part(speeds: dict[bytes, float]) -> None:
    code = code_of("ours")
    speeds[code] = 1.0
    Given.wrong = {code}
    launch = visited()
    assert launch.problems == {"ours": "results: a result of torch.int32 differs"}
    assert launch.ratio("ours") is None and launch.ratio("bounded") is not None


def test_results_that_vary_by_themselves_decide_nothing(speeds: dict[bytes, float]) -> None:
    Given.varying = True
    launch = visited()
    assert launch.comparison is None and "stock Triton's results vary" in launch.problems[CONTEST]


def test_what_cannot_be_copied_is_not_measured(
    speeds: dict[bytes, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*arguments: Any) -> Any:
        raise NoCopy("it takes a bare address")

    monkeypatch.setattr(child, "Copies", none)
    ended: list[Launched] = []
    assert visited(heard=Heard(ended.append)).problems == {CONTEST: "it takes a bare address"}
    assert len(ended) == 1


def test_a_kernel_with_nothing_to_do_has_no_contest(speeds: dict[bytes, float]) -> None:
    launch = visited(double)
    assert (launch.comparison, launch.problems) == (None, {CONTEST: "nothing to do"})


def test_a_variant_that_fails_is_left_out(speeds: dict[bytes, float], failing: Failing) -> None:
    def fail() -> None:
        raise RuntimeError("too many resources requested\nand more")

    failing[code_of("ours")] = fail
    launch = visited()
    assert launch.problems == {"ours": "RuntimeError: too many resources requested"}
    assert launch.comparison is not None and launch.ratio("ours") is None


def test_a_fault_ends_the_child_and_names_the_variant(
    speeds: dict[bytes, float], failing: Failing, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the next child no variant with that code takes part."""

    class Ended(BaseException):
        pass

    def end(process: int, signal: int) -> None:
        raise Ended

    code, heard = code_of("bounded"), Heard()
    failing[code] = lambda: setattr(cuda, "broken", "an illegal memory access was encountered")
    monkeypatch.setattr(child.os, "kill", end)
    with pytest.raises(Ended):
        visited(heard=heard)
    (launch,) = heard.launches.values()
    assert launch.problems == {"bounded": "RuntimeError: an illegal memory access was encountered"}
    assert heard.under_way is not None
    key, name, digest = heard.under_way
    assert name == "bounded"
    failing.clear()
    cuda.broken = ""
    without = visited(skip=frozenset({(key, digest)}))
    assert without.ratio("bounded") is None and without.ratio("ours") is not None
    assert visited(skip=frozenset({(key, "ours")})).ratio("ours") is None
    assert visited(skip=frozenset({(key, CONTEST)})) == Launched("transpose", (4, 1, 1), launch.module)


def test_nothing_is_measured_while_a_graph_is_captured(speeds: dict[bytes, float], cuda: FakeCuda) -> None:
    cuda.capturing = True
    with pytest.raises(ValueError, match="not enough"):
        visited()


def test_where_nothing_is_to_be_decided_all_is_timed_once(speeds: dict[bytes, float]) -> None:
    """Stock Triton's own time is known."""
    modes: dict[str, Any] = {"modes": ["ours"], "decide": False}
    speeds[code_of("ours", row_sums)] = 80.0
    launch = visited(row_sums, **modes)
    assert {name: one.ratio for name, one in compared(launch).ratios.items()} == {
        "stock": 1.0,
        "ours": 1.25,
    }
    assert (launch.microseconds, launch.problems) == (100.0, {})
    launch = visited(double, **modes)
    assert launch.microseconds == 100.0
    assert [one.ratio for one in compared(launch).ratios.values()] == [1.0, 1.0]
