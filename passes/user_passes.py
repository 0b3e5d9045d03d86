"""User passes: Python functions in users' files that change a kernel's TritonGPU IR.

    @ttgir_pass(when="before")
    def stream(module: mlir.ir.Module) -> None: ...

A pass is a decorated function, not a class: it does one thing and keeps no state between kernels. When it runs
and what it depends on are known at its definition.

This file imports neither MLIR nor Triton before a pass runs.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from triton_linear.dialect.records import dataclass

if TYPE_CHECKING:
    from triton_linear.dialect.mlir_adapter import Module

WHEN = ("before", "after")
_BETWEEN = re.compile(r"(?<!:):(?!:)")
"""The separator between passes in a text: `:`, but not `::`, which separates a file from the name of a pass."""
_NAME = "::"
_LOADED = "triton_linear_passes_of_"


class PassError(Exception):
    """A user pass cannot be loaded, raised, or made IR that Triton refuses.

    file, line: the place in the user's file; "" and 0 if unknown.
    """

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line


@dataclass(frozen=True)
class UserPass:
    """A pass that `ttgir_pass` makes and `install(passes=...)` takes.

    name: the qualified name of the function.
    when: "before" the passes of this package, or "after" them.
    version: what the pass depends on besides its file, as a text.
    digest: of the bytes of its file at the time of its definition.
    place: the file, or the name of an importable module; "" if other processes cannot load the pass.

    Two passes are equal if and only if a kernel compiled with one can be reused for the other.
    """

    name: str
    when: str
    version: str
    digest: str
    place: str = field(compare=False, repr=False)
    function: Callable[[Any], object] = field(compare=False, repr=False)

    def __call__(self, module: Module) -> None:
        """Run the pass over `module`, in place, in its context and with an unknown default location."""
        from triton_linear.dialect.mlir_adapter import Location, import_views

        import_views(module.operation)
        with module.context, Location.unknown(module.context):
            self.function(module)

    def __reduce__(self) -> tuple[Callable[..., UserPass], tuple[str, ...]]:
        return _elsewhere, (self.name, self.when, self.version, self.digest, self.place)


def ttgir_pass(*, when: str = "before", version: str = "") -> Callable[[Callable[[Any], object]], UserPass]:
    """Make a pass from a function that takes a `mlir.ir.Module` of TritonGPU IR and changes it in place.

    when: "before" the passes of this package, on Triton's module; or "after" them, on a module in which lowered
    conversions are calls of functions `__ll_cvt_N`.
    version: a text for what else the pass depends on, such as an option or the version of a library. It is part
    of the cache key of kernels, like the bytes of the file and the function's name.

    Raises ValueError if the function is not at the top level of a file: the key could not cover its closure,
    and other processes could not find it.
    """
    if when not in WHEN:
        raise ValueError(f"ttgir_pass: when takes {' or '.join(map(repr, WHEN))}, got {when!r}")
    if not isinstance(version, str):
        raise TypeError(f"ttgir_pass: version takes a text, got {version!r}")

    def decorate(function: Callable[[Any], object]) -> UserPass:
        if not isinstance(function, FunctionType):
            raise TypeError(f"ttgir_pass: takes a function, got {function!r}")
        name = function.__qualname__
        if "<" in name or "." in name:
            raise ValueError(f"ttgir_pass: '{name}' is not a function at the top level of a file")
        file = inspect.getsourcefile(function)
        try:
            content = Path(file or "").read_bytes()
        except OSError as error:
            raise ValueError(
                f"ttgir_pass: '{name}' is in no file ({file}), whose bytes would be part of the cache's key"
            ) from error
        place = _place(function.__module__, os.path.abspath(file or ""))
        return UserPass(name, when, version, hashlib.sha256(content).hexdigest(), place, function)

    return decorate


def _place(module: str, file: str) -> str:
    """The file or module from which other processes load a pass; "" for the started script, which they do not
    run."""
    if module == "__main__":
        return ""
    origin = getattr(getattr(sys.modules.get(module), "__spec__", None), "origin", None)
    is_importable = origin is not None and os.path.abspath(origin) == file
    return module if is_importable and not module.startswith(_LOADED) else file


def _elsewhere(name: str, when: str, version: str, digest: str, place: str) -> UserPass:
    """Load the pass that another process has sent; if it differs here, a pass that raises when it runs."""

    def missing(_: object) -> None:
        if not place:
            raise PassError(
                f"pass '{name}' is defined in the script that was started, which other processes do not load: "
                "a pass for them is in a file of its own"
            )
        raise PassError(f"pass '{name}' of {place} is not the one of the process that asks for it")

    sent = UserPass(name, when, version, digest, place, missing)
    try:
        found = load(f"{place}{_NAME}{name}") if place else ()
    except PassError:
        found = ()
    return found[0] if found and found[0] == sent else sent


def load(text: str) -> tuple[UserPass, ...]:
    """The passes of a file or a module, in the order of their definitions: `FILE.py`, `package.module`, each
    with `::NAME` for one of them.

    Raises PassError if there is no such file, module or pass, or if running the file raises.
    """
    place, _, name = text.partition(_NAME)
    module = _from_file(os.path.abspath(place)) if place.endswith(".py") else _imported(place)
    found = tuple(
        value
        for value in vars(module).values()
        if isinstance(value, UserPass) and value.function.__module__ == module.__name__
    )
    named = tuple(each for each in found if name in ("", each.name))
    if not named:
        there = f"there are {', '.join(each.name for each in found)}" if found else "ttgir_pass makes one"
        raise PassError(f"{place}: no pass{f' {name!r}' if name else ''} in it; {there}", place)
    return named


def _from_file(file: str) -> ModuleType:
    """A new module with the current content of the file."""
    stem = re.sub(r"\W", "_", Path(file).stem)
    spec = importlib.util.spec_from_file_location(f"{_LOADED}{stem}", file)
    assert spec is not None and spec.loader is not None  # the name ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    try:
        # Not by the loader: its cached bytecode may be stale if the file changed within the same second.
        exec(compile(Path(file).read_bytes(), file, "exec", dont_inherit=True), vars(module))
    except Exception as error:
        if isinstance(error, OSError) and error.filename == file:
            raise PassError(f"{file}: {error.strerror}", file) from error
        raise _raised(error, f"{file} cannot be loaded", file) from error
    return module


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        text = f"passes of '{name}': {type(error).__name__}: {error} (a file's name ends in .py)"
        raise PassError(text) from error


def _raised(error: Exception, what: str, file: str) -> PassError:
    """The PassError for an exception of a user's code, with the line of `file` that raised it."""
    line = error.lineno or 0 if isinstance(error, SyntaxError) else 0
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == file:
            line = frame.lineno or line
    said = error.msg if isinstance(error, SyntaxError) else error
    return PassError(f"{what}: {type(error).__name__}: {said}", file, line)


def chosen(passes: UserPass | str | os.PathLike[str] | Iterable[Any]) -> tuple[UserPass, ...]:
    """The passes given to `install`: results of `ttgir_pass`, or names of files or modules that define some."""
    if isinstance(passes, (UserPass, str, os.PathLike)):
        passes = (passes,)
    found: list[UserPass] = []
    for one in passes:
        if isinstance(one, UserPass):
            found.append(one)
        elif isinstance(one, (str, os.PathLike)):
            found += load(os.fspath(one))
        else:
            raise TypeError(f"passes takes what ttgir_pass makes, or names of files, got {one!r}")
    return tuple(found)


def parse(text: str) -> tuple[UserPass, ...]:
    """The passes that a text names, separated by colons."""
    return tuple(each for part in _BETWEEN.split(text) for each in load(part.strip()))


def text_of(passes: Iterable[UserPass]) -> str:
    """The text that `parse` reads as these passes, without those that other processes cannot load."""
    return ":".join(f"{each.place}{_NAME}{each.name}" for each in passes if each.place)


def run_passes(
    passes: Sequence[UserPass], module: Module, verify: Callable[[Module], object]
) -> tuple[str, ...]:
    """Run passes over a module of upstream MLIR, in place; return the names of those that changed it.

    verify: raises if Triton refuses the module; it is called after each pass that changed the module.

    Raises PassError if a pass raised, or made a module that Triton refuses.
    """
    from triton_linear.dialect.bridge import BridgeError

    changed = []
    text = _text(module)
    for each in passes:
        try:
            each(module)
        except PassError:
            raise
        except Exception as error:
            file = each.function.__code__.co_filename
            raise _raised(error, f"pass '{each.name}' of {file} raised", file) from error
        before, text = text, _text(module)
        if text != before:
            changed.append(each.name)
            try:
                verify(module)
            except BridgeError as error:
                # The error only says that Triton's parser failed; the parser has printed why.
                raise refused(each, error) from None
            except Exception as error:
                raise refused(each, error) from error
    return tuple(changed)


def refused(which: UserPass, error: Exception) -> PassError:
    """The PassError for a pass whose IR Triton's verifier refuses."""
    code = which.function.__code__
    why = "what it printed to the standard error says why"
    text = f"Triton's verifier refuses what pass '{which.name}' of {code.co_filename} made; {why}"
    return PassError(text, code.co_filename, code.co_firstlineno)


def _text(module: Module) -> str:
    from triton_linear.dialect.mlir_adapter import text_of as printed

    return printed(module.operation, print_generic_op_form=True, enable_debug_info=True)
