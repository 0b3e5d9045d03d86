"""Parse pipelines given as text: names of passes of this package and of upstream MLIR, with their options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from triton_linear.dialect.mlir_adapter import PassManager, new_context
from triton_linear.dialect.nearest import suggestion
from triton_linear.passes.framework.base import Pass
from triton_linear.passes.operations.names import MODULE
from triton_linear.passes.registry import PASSES, UPSTREAM


class PipelineError(ValueError):
    """A textual pipeline that cannot be read, or has an unknown pass or option."""


_ELEMENT = re.compile(r"\s*(?P<name>[\w.-]+)\s*(?:\{(?P<options>[^{}]*)\}\s*)?(?:,|$)")
_ANCHORED = re.compile(r"\s*builtin\.module\s*\((?P<passes>.*)\)\s*", re.DOTALL)


def parse_pipeline(text: str) -> list[Pass | str]:
    """The passes of a textual pipeline, `linear-select-lowering{target=cuda:90},linear-outline-conversions`.

    The pipeline may be wrapped in `builtin.module(...)`. A name that is not in `PASSES` is taken as one of
    MLIR's.
    """
    if match := _ANCHORED.fullmatch(text):
        text = match["passes"]
    passes: list[Pass | str] = []
    at = 0
    while at < len(text):
        found = _ELEMENT.match(text, at)
        if found is None:
            raise PipelineError(f"pass pipeline: cannot read '{text[at:].strip()}'")
        at = found.end()
        options = found["options"] or ""
        if found["name"] in PASSES:
            passes.append(make_pass(found["name"], _options(found["name"], options)))
        else:
            passes.append(_upstream(found["name"], options))
    return passes


def _options(name: str, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for word in text.split():
        key, equals, value = word.partition("=")
        if not equals:
            raise PipelineError(f"{name}: option '{word}' has no value")
        options[key] = value
    return options


def _upstream(name: str, options: str) -> str:
    text = f"{name}{{{options}}}" if options else name
    try:
        PassManager(MODULE, new_context()).add(text)
    except ValueError as error:
        if options and is_upstream(name):
            raise PipelineError(f"{name}: upstream MLIR refuses the options '{options}'") from error
        hint = suggestion(name, (*PASSES, *UPSTREAM)) or f"ours are {', '.join(PASSES)}"
        raise PipelineError(f"pass pipeline: no pass '{name}'; {hint}") from error
    return text


def is_upstream(name: str) -> bool:
    """True if upstream MLIR has a pass of this name."""
    if re.fullmatch(r"[\w.-]+", name) is None:
        return False
    try:
        PassManager(MODULE, new_context()).add(name)
    except ValueError:
        return False
    return True


def make_pass(name: str, options: Mapping[str, str]) -> Pass:
    """Make the pass `name` with options as text; names of options are spelled with dashes, as in a pipeline."""
    if name not in PASSES:
        raise PipelineError(f"no pass '{name}'; there are {', '.join(PASSES)}")
    kind: Any = PASSES[name]
    types = get_type_hints(kind)
    known = {one.name.replace("_", "-"): one.name for one in fields(kind)}
    values: dict[str, Any] = {}
    for option, text in options.items():
        if option not in known:
            has = suggestion(option, known) or (f"it has {', '.join(known)}" if known else "it has none")
            raise PipelineError(f"{name}: no option '{option}'; {has}")
        if types[known[option]] is bool:
            if text not in ("true", "false"):
                raise PipelineError(f"{name}: option '{option}' takes true or false, got '{text}'")
            values[known[option]] = text == "true"
        elif "int" in str(types[known[option]]):
            if not re.fullmatch(r"[0-9]+", text):
                raise PipelineError(f"{name}: option '{option}' takes a number, got '{text}'")
            if len(text) > 9:
                raise PipelineError(f"{name}: option '{option}' takes a number of up to 9 digits, got '{text}'")
            values[known[option]] = int(text)
        else:
            values[known[option]] = text
    try:
        made: Pass = kind(**values)
    except ValueError as error:
        raise PipelineError(str(error)) from error
    return made
