"""How the plugin is set up in this process, and what has become of its kernels so far."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from triton_linear import environment, report
from triton_linear.decisions import DecisionError, DecisionFile, default_file
from triton_linear.dialect import triton_versions
from triton_linear.dialect.records import dataclass
from triton_linear.dialect.sources import CODE_VERSION


@dataclass(frozen=True)
class Status:
    """What `triton_linear.status()` says; `str` is for people.

    on: kernels that this thread compiles are compiled with the plugin. because: what has turned it on, or why
    it is off. options: as `TRITON_LINEAR` takes them; "" if it is off. triton: the installed version.
    decisions: the user's own file, and how many of its decisions are for these versions. kernels: how many
    compiles had which outcome (`Outcome`), and how many contests are running, or were won by which side.
    """

    on: bool
    because: str
    options: str
    triton: str
    decisions: str
    kernels: Mapping[str, int]

    def __str__(self) -> str:
        kernels = ", ".join(f"{count} {name}" for name, count in self.kernels.items()) or "none yet"
        options = f", with {self.options}" if self.on and self.options != "1" else ""
        return "\n".join(
            (
                f"{'on' if self.on else 'off'}: {self.because}{options}",
                f"triton {self.triton}",
                self.decisions,
                f"kernels that this process compiled (not those from caches): {kernels}",
            )
        )


def status() -> Status:
    """Whether the plugin is on in this thread and why, and what has become of the kernels of this process.

    >>> status().on
    False
    """
    from triton_linear.hook import _state

    setting = _state.current()
    options = "" if setting is None else environment.text_of(setting.options)
    contests = sys.modules.get("triton_linear.contest")
    kernels = {**report.outcomes(), **(contests.tally() if contests else {})}
    on, triton = setting is not None, triton_versions.found() or "none"
    return Status(on, _because(on), options, triton, decisions_line(), kernels)


def _because(on: bool) -> str:
    from triton_linear.hook import _state

    if on:
        return "in a block of enabled()" if _state.blocks else "install() was called, or TRITON_LINEAR is set"
    variable = os.environ.get(environment.VARIABLE, "")
    if not variable:
        return f"nothing has called install(), and {environment.VARIABLE} is not set"
    try:
        if environment.parse(variable) is not None and "triton" not in sys.modules:
            return f"{environment.VARIABLE}={variable} turns it on when Triton is imported"
    except (ValueError, TypeError) as error:
        return f"{environment.VARIABLE}={variable}: {error}"
    return f"{environment.VARIABLE}={variable}, and nothing has called install()"


def decisions_line() -> str:
    """The line about the user's own file of decisions."""
    file = DecisionFile(default_file())
    try:
        known = file.read()
    except DecisionError as error:
        return f"decisions: {error}"
    here = triton_versions.found(), CODE_VERSION
    fitting = sum((one.circumstances.triton, one.circumstances.package) == here for one in known)
    return f"decisions in {file.path}: {len(known)}, of which {fitting} are for these versions"
