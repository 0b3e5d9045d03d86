"""What `triton_linear.status()` says of a process."""

from __future__ import annotations

import pytest
from plugin_support import compile_kernel, double, fresh_plugin, row_sums
from triton import knobs

import triton_linear

__all__ = ["fresh_plugin"]
pytestmark = pytest.mark.usefixtures("fresh_plugin")


@pytest.mark.parametrize(
    ("variable", "because"),
    [
        (None, "nothing has called install(), and TRITON_LINEAR is not set"),
        ("on", "TRITON_LINEAR=on, and nothing has called install()"),
        ("tru", "TRITON_LINEAR=tru: no option 'tru'; did you mean 'true'?"),
    ],
)
def test_why_it_is_off(variable: str | None, because: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_LINEAR", raising=False)
    if variable is not None:
        monkeypatch.setenv("TRITON_LINEAR", variable)
    found = triton_linear.status()
    assert (found.on, found.because, found.options) == (False, because, "")
    assert str(found).startswith(f"off: {because}\n")


def test_what_is_on_and_what_became_of_kernels() -> None:
    triton_linear.install(strict=True, wait=True)
    assert str(triton_linear.status()).startswith(
        "on: install() was called, or TRITON_LINEAR is set, with strict,wait"
    )
    with triton_linear.enabled(skip="row_*"), knobs.compilation.scope():
        knobs.compilation.always_compile = True
        before = triton_linear.status()
        assert (before.because, before.options) == ("in a block of enabled()", "skip=row_*,wait")
        compile_kernel(row_sums)
        compile_kernel(double)
    after = triton_linear.status().kernels
    for outcome in ("left to Triton", "nothing to do"):
        assert after[outcome] == before.kernels.get(outcome, 0) + 1
