"""Passes that users write: Python functions that change a kernel's TritonGPU IR, in files of their own.

    @ttgir_pass(when="before")
    def stream(module: mlir.ir.Module) -> None: ...

A decorated function rather than a class: a pass has one thing to do and keeps nothing from kernel to kernel,
and what else there is to know of it (when it runs, what it depends on) is known where it is defined.

Nothing here needs MLIR or Triton before a pass runs.
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
"""What divides passes in a text; `::` stands between a file and the name of a pass in it."""
_NAME = "::"
_LOADED = "triton_linear_passes_of_"


class PassError(Exception):
    """A pass of a user's that cannot be had, that raised, or that made IR which Triton refuses.

    file, line: where in the user's file, as far as that is known.
    """

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line


@dataclass(frozen=True)
class UserPass:
    """A pass: made by `ttgir_pass`, given to `install(passes=...)`.

    name: the qualified name of the function.
    when: "before" the passes of this package, or "after" them.
    version: what the pass depends on beside the file that it is in.
    digest: of the bytes of that file, as they were when it was defined.
    place: the file, or the module where it can be imported by name; "" where other processes cannot have it.

    Two are equal exactly if kernels compiled with one may be served where the other is asked for.
    """

    name: str
    when: str
    version: str
    digest: str
    place: str = field(compare=False, repr=False)
    function: Callable[[Any], object] = field(compare=False, repr=False)

    def __call__(self, module: Module) -> None:
        """Run over `module`, in place, with its context and an unknown location to fall back on."""
        from triton_linear.dialect.mlir_adapter import Location, import_views

        import_views(module.operation)
        with module.context, Location.unknown(module.context):
            self.function(module)

    def __reduce__(self) -> tuple[Callable[..., UserPass], tuple[str, ...]]:
        return _elsewhere, (self.name, self.when, self.version, self.digest, self.place)


def ttgir_pass(*, when: str = "before", version: str = "") -> Callable[[Callable[[Any], object]], UserPass]:
    """Make a pass of a function that takes a `mlir.ir.Module` of TritonGPU IR and changes it in place.

    when: "before" the passes of this package, on what Triton made; or "after" them, where conversions that are
    lowered stand as calls of functions `__ll_cvt_N`.
    version: a text that is part of the key under which kernels are cached, as the bytes of the file and the
    function's name are: whatever else the pass depends on (an option, the version of a library).

    Raises ValueError for a function that is not at the top level of a file: no key could tell what it closes
    over, and no other process could find it.
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
    """Where other processes find what `module` defines: they do not run a program's script again for it."""
    if module == "__main__":
        return ""
    return file if module.startswith(_LOADED) or not _is_importable(module, file) else module


def _is_importable(module: str, file: str) -> bool:
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return spec is not None and spec.origin is not None and os.path.abspath(spec.origin) == file


def _elsewhere(name: str, when: str, version: str, digest: str, place: str) -> UserPass:
    """The pass that another process has sent; where it is not the same here, one that fails when it runs."""

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

    Raises PassError where there is no such file, module or pass, or running it raises.
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
    """A module of its own for the file as it is now."""
    stem = re.sub(r"\W", "_", Path(file).stem)
    spec = importlib.util.spec_from_file_location(f"{_LOADED}{stem}", file)
    assert spec is not None and spec.loader is not None  # the name ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    try:
        # Not by the loader: it may have bytecode of a file that was changed within the same second.
        exec(compile(Path(file).read_bytes(), file, "exec", dont_inherit=True), vars(module))
    except OSError as error:
        if error.filename == file:
            raise PassError(f"{file}: {error.strerror}", file) from error
        raise _raised(error, f"{file} cannot be loaded", file) from error
    except Exception as error:
        raise _raised(error, f"{file} cannot be loaded", file) from error
    return module


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        text = f"passes of '{name}': {type(error).__name__}: {error} (a file's name ends in .py)"
        raise PassError(text) from error


def _raised(error: Exception, what: str, file: str) -> PassError:
    """What a user's code raised, with the line of `file` in which that was."""
    line = error.lineno or 0 if isinstance(error, SyntaxError) else 0
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == file:
            line = frame.lineno or line
    said = error.msg if isinstance(error, SyntaxError) else error
    return PassError(f"{what}: {type(error).__name__}: {said}", file, line)


def chosen(passes: UserPass | str | os.PathLike[str] | Iterable[Any]) -> tuple[UserPass, ...]:
    """The passes that `install` was given: made by `ttgir_pass`, or files or modules that have some."""
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
    """The passes that a text names, with colons between."""
    return tuple(each for part in _BETWEEN.split(text) for each in load(part.strip()))


def text_of(passes: Iterable[UserPass]) -> str:
    """The text that `parse` reads as these passes, but those that other processes cannot have."""
    return ":".join(f"{each.place}{_NAME}{each.name}" for each in passes if each.place)


def run_passes(
    passes: Sequence[UserPass], module: Module, verify: Callable[[Module], object]
) -> tuple[str, ...]:
    """Run passes over a module of upstream MLIR, in place; the names of those that changed it.

    `verify` raises where Triton refuses the module; it is asked after each pass that changed something.

    Raises PassError for a pass that raised, or made what Triton refuses.
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
                # It says no more than that Triton's parser failed; that has printed why.
                raise refused(each, error) from None
            except Exception as error:
                raise refused(each, error) from error
    return tuple(changed)


def refused(which: UserPass, error: Exception) -> PassError:
    """What is said of a pass whose IR Triton's verifier refuses."""
    code = which.function.__code__
    why = "what it printed to the standard error says why"
    text = f"Triton's verifier refuses what pass '{which.name}' of {code.co_filename} made; {why}"
    return PassError(text, code.co_filename, code.co_firstlineno)


def _text(module: Module) -> str:
    from triton_linear.dialect.mlir_adapter import text_of as printed

    return printed(module.operation, print_generic_op_form=True, enable_debug_info=True)
