"""Turn the plugin on by the environment variable `TRITON_LINEAR`, without a call of `install`.

    TRITON_LINEAR = "" | off | on | [on ","] option {"," option}
    on            = "1" | "true" | "on" | "yes"
    off           = "0" | "false" | "off" | "no"
    option        = name | name "=" value            (the names and values of `Options`)

Absent and empty mean off too. Options mean on: `strict` or `strict=1` is `strict=True`, `scratch_limit=4096` is
that number, and `none` is None. Python runs a file of this package when it starts
(`startup/`); this file calls `arm` if the variable is set. `arm` imports neither Triton nor the plugin: when
something imports Triton, the variable is read and the plugin turned on.

Every process that has the variable imports this module, so it imports only what Python has loaded already.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    from triton_linear.setting import Options

VARIABLE = "TRITON_LINEAR"
_BOOLS = {
    **dict.fromkeys(("1", "true", "on", "yes"), True),
    **dict.fromkeys(("0", "false", "off", "no"), False),
}
"""Words for on and off, in small letters."""
_INDUCTOR = (
    "torch.compiler.config",
    "torch._inductor.compile_worker.subproc_pool",
    "torch._inductor.compile_worker.tracked_process_pool",
    "torch._inductor.runtime.triton_heuristics",
)
"""The modules of torch that `triton_linear.inductor` changes."""


class EnvironmentWarning(UserWarning):
    """The variable `TRITON_LINEAR` cannot be followed; the plugin is off."""


def parse(text: str) -> Options | None:
    """The options that the variable asks for; None for off.

    >>> options = parse("on, strict, scratch_limit=4096")
    >>> options.strict, options.scratch_limit, parse("off")
    (True, 4096, None)
    """
    from triton_linear.setting import PUBLIC, Options

    words = [word.strip() for word in text.split(",")]
    first = _BOOLS.get(words[0].lower())
    if len(words) == 1 and not (words[0] and first is not False):
        return None
    chosen: dict[str, Any] = {}
    for word in words[1:] if first else words:
        name, equals, value = (part.strip() for part in word.partition("="))
        if name not in PUBLIC:
            from triton_linear.dialect.nearest import suggestion

            near = suggestion(name.lower(), [*PUBLIC, *_BOOLS]) or "1 is for on"
            raise ValueError(f"no option '{name}'; {near}")
        if name in chosen:
            raise ValueError(f"option '{name}' is there twice")
        chosen[name] = _value(PUBLIC[name], value if equals else None)
    return Options(**chosen)


def _value(option: Field[Any], text: str | None) -> object:
    """The value of an option that is given as a text; None: by its name alone."""
    known = True if text is None else _BOOLS.get(text.lower())
    if "flag" in option.metadata and known is not None:
        return "*" if known else ""
    if isinstance(option.default, (str, tuple)):
        if not text:
            raise ValueError(f"option '{option.name}' has no value")
        if isinstance(option.default, str):
            return text  # `Options` checks it
        from triton_linear.passes import user_passes

        return user_passes.parse(text)
    is_bool = isinstance(option.default, bool)
    if is_bool and known is not None:
        return known
    if not is_bool and text == "none":
        return None
    if not is_bool and text is not None and text.isdecimal():
        return int(text)
    raise ValueError(
        f"option '{option.name}' takes {'0 or 1' if is_bool else 'a number or none'}, got '{text or ''}'"
    )


def text_of(options: Options) -> str:
    """The text that `parse` reads as `options`."""
    from triton_linear.passes import user_passes
    from triton_linear.setting import PUBLIC

    words = []
    for name, option in PUBLIC.items():
        value = getattr(options, name)
        if isinstance(value, tuple):
            words += [f"{name}={text}"] if (text := user_passes.text_of(value)) else []
        elif value != option.default:
            number = "none" if value is None else int(value) if isinstance(value, int) else value
            words.append(name if value is True else f"{name}={number}")
    return ",".join(words) or "1"


def arguments(options: Options) -> dict[str, Any]:
    """`options` as the keyword arguments of `install`."""
    from triton_linear.setting import PUBLIC

    return {name: getattr(options, name) for name in PUBLIC}


class BorrowedText:
    """Replaces a text that other code owns, such as an environment variable, and restores it.

    Ensures: after `undo`, the text is what it was before the first `put`. If other code has set it since,
    `undo` leaves it.
    """

    def __init__(self, read: Callable[[], str | None], write: Callable[[str | None], object]) -> None:
        self._read = read
        self._write = write
        self._ours: str | None = None
        self._before: str | None = None

    def put(self, ours: Callable[[str | None], str]) -> None:
        """Set the text to `ours(original)`, where `original` is the text before the first `put`."""
        current = self._read()
        if self._ours is None or current != self._ours:
            self._before = current
        self._ours = ours(self._before)
        self._write(self._ours)

    def undo(self) -> None:
        """Restore the original text."""
        if self._ours is not None and self._read() == self._ours:
            self._write(self._before)
        self._ours = None


def _write(text: str | None) -> None:
    if text is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = text


exported = BorrowedText(lambda: os.environ.get(VARIABLE), _write)
"""The variable, which `install` sets for processes started later."""


def arm() -> None:
    """Turn the plugin on when Triton is imported, if the variable is then set."""
    after_import("triton", _turn_on)
    watch_inductor()


def follow() -> None:
    """Turn the plugin on if the variable asks for it, and neither it nor the program has done so before.

    vLLM and SGLang call this at the start of each of their processes (entry points in pyproject.toml). Where
    the start-up file was read, nothing is left to do. vLLM ends where this raises: only `strict` does.
    """
    if os.environ.get(VARIABLE, "") not in ("", "0") and not (_followed or "triton_linear.hook" in sys.modules):
        arm()


_followed: list[str] = []
"""The texts of the variable that were followed when Triton was imported."""


def _turn_on() -> None:
    text = os.environ.get(VARIABLE, "")
    _followed.append(text)
    try:
        options = parse(text)
        if options is not None:
            _install(options)
    except Exception as error:
        if isinstance(error, ImportError) and error.name == "triton":
            raise  # strict, on a Triton that this package does not work with
        _warn(f"{VARIABLE}={text}: {error}")


def _install(options: Options) -> None:
    """Call `install`. If this package does not work with the installed Triton, warn (strict: raise)."""
    from triton_linear.dialect.triton_versions import UnsupportedTriton

    try:
        from triton_linear import hook

        hook.install(**arguments(options))
    except UnsupportedTriton as error:
        if options.strict:
            raise
        _warn(str(error))


def _warn(reason: str) -> None:
    import warnings

    warnings.warn(f"triton_linear is off: {reason}", EnvironmentWarning, stacklevel=2)


def come_first() -> None:
    """If the plugin waits for the import of Triton, import it now: what the caller sets then replaces what the
    variable says."""
    if _turn_on in _finder.actions.get("triton", ()):
        from contextlib import suppress

        with suppress(ImportError):  # without Triton, there is nothing to turn on
            import triton  # noqa: F401


def watch_inductor() -> None:
    """Call `inductor.follow` when a module that `triton_linear.inductor` changes is imported."""
    for name in _INDUCTOR:
        if name not in sys.modules:
            after_import(name, _inductor_came)


def _inductor_came() -> None:
    if "triton_linear.hook" in sys.modules:
        from triton_linear import hook, inductor

        inductor.follow(hook._state.active)


def after_import(name: str, action: Callable[[], object]) -> None:
    """Call `action` after the module `name` is imported; at once if it already is."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        action()
        return
    actions = _finder.actions.setdefault(name, [])
    if action not in actions:
        actions.append(action)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _AfterImport:
    """A finder for `sys.meta_path` that runs actions after certain modules are imported."""

    def __init__(self) -> None:
        self.actions: dict[str, list[Callable[[], object]]] = {}
        self._asking: set[str] = set()

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec from the other finders, with a loader that then runs the module's actions."""
        if name not in self.actions or name in self._asking:
            return None
        from importlib.util import find_spec

        self._asking.add(name)
        try:
            spec = find_spec(name)
        finally:
            self._asking.discard(name)
        attributes = getattr(spec and spec.loader, "__dict__", None)
        if spec is not None and spec.loader is not None and isinstance(attributes, dict):
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                attributes.pop("exec_module", None)
                load(module)
                for action in self.actions.pop(name, ()):
                    action()
                if not self.actions and self in sys.meta_path:
                    sys.meta_path.remove(self)

            attributes["exec_module"] = exec_module
        return spec


_finder = _AfterImport()
