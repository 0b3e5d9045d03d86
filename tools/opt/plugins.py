"""Users' passes in `triton-linear-opt`: the flag `--pass-plugin`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module, Operation
from triton_linear.passes import user_passes
from triton_linear.passes.framework.base import Pass, PassRun
from triton_linear.passes.user_passes import PassError, UserPass
from triton_linear.tools.support import compile as compiler
from triton_linear.tools.support.errors import Diagnostic, ToolError


def load(file: str) -> tuple[UserPass, ...]:
    """The passes of a file. Raises ToolError if it cannot be loaded."""
    try:
        return user_passes.load(file)
    except PassError as error:
        raise ToolError(_diagnostic(error)) from error


def _diagnostic(error: PassError) -> Diagnostic:
    cause = error.__cause__
    if isinstance(cause, ToolError):  # raised by `_verify`, with Triton's diagnostics
        message = error.message.partition(";")[0]
        return Diagnostic("error", message, error.file, error.line, 1, cause.diagnostics)
    return Diagnostic("error", error.message, error.file, error.line, min(error.line, 1))


def _verify(module: Module) -> None:
    compiler.to_triton(bridge.triton_text(module))


@dataclass(frozen=True)
class PluginPass(Pass):
    """A user's pass as a step of a run over `module`. Its errors are appended to `reported`."""

    which: UserPass
    module: Module
    verify: bool
    reported: list[Diagnostic] = field(compare=False)
    summary: ClassVar[str] = "a user pass"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the user's function."""
        return self.which.name

    def __call__(self, op: Operation, pass_: PassRun) -> None:
        try:
            user_passes.run_passes([self.which], self.module, _verify if self.verify else _accept)
        except PassError as error:
            self.reported.append(_diagnostic(error))
            pass_.signal_pass_failure()


def _accept(module: Module) -> None:
    """Accept any module, without verification."""


def plugin_passes(
    passes: Iterable[UserPass], module: Module, verify: bool, reported: list[Diagnostic]
) -> list[Pass]:
    """Users' passes as steps of a run over `module`."""
    return [PluginPass(each, module, verify, reported) for each in passes]
