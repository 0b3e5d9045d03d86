"""Passes of users in `triton-linear-opt`: the flag `--pass-plugin`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, cast

from triton_linear import user_passes
from triton_linear.dialect import bridge
from triton_linear.dialect.mlir_adapter import Module, Operation
from triton_linear.passes.framework.base import Pass, PassRun
from triton_linear.passes.framework.verifiers import Verifier
from triton_linear.tools.support import compile as compiler
from triton_linear.tools.support.errors import Diagnostic, ToolError
from triton_linear.user_passes import PassError, UserPass


def load(file: str) -> tuple[UserPass, ...]:
    """The passes of a file; what is wrong with it is a ToolError."""
    try:
        return user_passes.load(file)
    except PassError as error:
        raise ToolError(_diagnostic(error)) from error


def _diagnostic(error: PassError) -> Diagnostic:
    cause = error.__cause__
    if isinstance(cause, ToolError):  # of `_verify`: what Triton said, which the plugin leaves to it to print
        message = error.message.partition(";")[0]
        return Diagnostic("error", message, error.file, error.line, 1, cause.diagnostics)
    return Diagnostic("error", error.message, error.file, error.line, min(error.line, 1))


def _verify(module: Module) -> None:
    compiler.to_triton(bridge.triton_text(module))


@dataclass(frozen=True)
class PluginPass:
    """A pass of a user's as one of a run over `module`. `reported` gets what is wrong with it."""

    which: UserPass
    module: Module
    verify: bool
    reported: list[Diagnostic] = field(compare=False)
    summary: ClassVar[str] = "a user pass"
    requires: ClassVar[tuple[Verifier, ...]] = ()
    ensures: ClassVar[tuple[Verifier, ...]] = ()

    @property
    def name(self) -> str:
        """What the function is called."""
        return self.which.name

    def __call__(self, op: Operation, pass_: PassRun) -> None:
        try:
            user_passes.run_passes([self.which], self.module, _verify if self.verify else _take)
        except PassError as error:
            self.reported.append(_diagnostic(error))
            pass_.signal_pass_failure()


def _take(module: Module) -> None:
    """Any module will do."""


def made(passes: Iterable[UserPass], module: Module, verify: bool, reported: list[Diagnostic]) -> list[Pass]:
    """`passes` as those of a run over `module`."""
    return [cast(Pass, PluginPass(each, module, verify, reported)) for each in passes]
